/* quantity: Kubernetes quantities: "500m", "2", "0.5", "40Gi", "1.5e3", "128974848". Exact decimal arithmetic, rounded up as
 * Kubernetes does. Suffixes: m, none, k M G T P E (powers of 1000), Ki Mi Gi Ti Pi Ei (powers of 1024), e/E and a decimal
 * exponent. */
#pragma once

#include "storage/base/err.h"

/* Parses a CPU quantity into thousandths of a CPU, 1..2^53. Returns PL_EINVAL with a message that lists accepted forms. */
PL_MUST_CHECK
int pl_quantity_cpu(const char *text, int64_t *ret_milli, struct pl_err *err);
/* Parses a memory or disk quantity into bytes, 1..2^60. Returns PL_EINVAL. */
PL_MUST_CHECK
int pl_quantity_bytes(const char *text, int64_t *ret_bytes, struct pl_err *err);

/* Writes a quantity in its canonical form, for example "2", "500m", "40Gi", "1536Mi" or "1000". Returns `out`. */
char *pl_quantity_cpu_text(int64_t milli, char out[32]);
char *pl_quantity_bytes_text(int64_t bytes, char out[32]);
/* Writes a count with a comma before each three digits, as people read it: 1203441 → "1,203,441". Returns `out`. */
char *pl_quantity_count_text(int64_t n, char out[32]);
