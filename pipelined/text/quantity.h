/* quantity: Kubernetes quantities: "500m", "2", "0.5", "40Gi", "1.5e3", "128974848". Exact decimal arithmetic, rounded up as
 * Kubernetes does. Suffixes: m, none, k M G T P E (powers of 1000), Ki Mi Gi Ti Pi Ei (powers of 1024), e/E and a decimal
 * exponent. */
#pragma once

#include "storage/base/err.h"

/* Thousandths of a CPU, 1..2^53. PL_EINVAL names what is accepted. */
PL_MUST_CHECK
int pl_quantity_cpu(const char *text, int64_t *ret_milli, struct pl_err *err);
/* Bytes, 1..2^60. PL_EINVAL. */
PL_MUST_CHECK
int pl_quantity_bytes(const char *text, int64_t *ret_bytes, struct pl_err *err);

/* The one spelling: "2", "500m"; "40Gi", "1536Mi", "1000". Returns `out`. */
char *pl_quantity_cpu_text(int64_t milli, char out[32]);
char *pl_quantity_bytes_text(int64_t bytes, char out[32]);
