/* params: parameters of a datum in texts: "${params.lr}" in an argument, a variable or a prefix stands for the value's text. Pure. */
#pragma once

#include "storage/base/buf.h"

struct pl_param {
    const char *name;
    const char *value;
};

/* The next "${params.NAME}" of `text`: its start, NULL when there is none. The name is *ret_name (not NUL-terminated), `*ret_end` is
 * what follows the "}". What is never closed is none. */
const char *pl_param_text_next(const char *text, const char **ret_name, size_t *ret_len, const char **ret_end);
/* The value of that name, NULL when there is none. */
const char *pl_param_text_value(const struct pl_param *params, size_t n, const char *name, size_t len);
/* Appends `text` with every "${params.NAME}" of a known name replaced; any other "${" is left alone. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_param_text_expand(const char *text, const struct pl_param *params, size_t n, struct pl_buf *out, struct pl_err *err);
