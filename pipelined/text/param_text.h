/* param_text: replaces parameters of a datum in text: "${params.lr}" in an argument, an environment variable or a prefix
 * becomes the value of the parameter "lr". "$${" is the escape: it becomes "${", and what follows is ordinary text. Pure. */
#pragma once

#include "storage/base/buf.h"

struct pl_param {
    const char *name;
    const char *value;
};

/* Finds the next "${" in `text` that is not escaped; NULL = there is none. */
const char *pl_param_text_open(const char *text);
/* Finds the next "${params.NAME}" in `text`. Returns its start, or NULL if there is none; a variable without "}" does not
 * count. *ret_name and *ret_len give the name (not NUL-terminated); *ret_end points behind the "}". */
const char *pl_param_text_next(const char *text, const char **ret_name, size_t *ret_len, const char **ret_end);
/* Returns the value of the parameter with this name; NULL if the datum has no such parameter. */
const char *pl_param_text_value(const struct pl_param *params, size_t n, const char *name, size_t len);
/* Appends `text` to `out`: replaces every "${params.NAME}" of a known name, and "$${" by "${". Copies any other "${" unchanged. Returns
 * PL_ENOMEM or PL_ETOOBIG. */
PL_MUST_CHECK
int pl_param_text_expand(const char *text, const struct pl_param *params, size_t n, struct pl_buf *out, struct pl_err *err);
/* Appends `text` to `out` with each "$${" escaped, so that pl_param_text_expand without parameters gives `text` again. */
PL_MUST_CHECK
int pl_param_text_escape(const char *text, struct pl_buf *out, struct pl_err *err);
