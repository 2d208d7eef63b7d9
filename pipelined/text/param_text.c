/* Searches for "${params." and replaces the names that are known. */
#include "pipelined/text/param_text.h"

#define PARAMS_OPEN "${params."

const char *pl_param_text_next(const char *text, const char **ret_name, size_t *ret_len, const char **ret_end)
{
    const char *open = strstr(text, PARAMS_OPEN), *close = open != NULL ? strchr(open, '}') : NULL;

    if (close == NULL)
        return NULL;
    *ret_name = open + strlen(PARAMS_OPEN);
    *ret_len = (size_t)(close - *ret_name);
    *ret_end = close + 1;
    return open;
}

const char *pl_param_text_value(const struct pl_param *params, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(params[i].name) == len && memcmp(params[i].name, name, len) == 0)
            return params[i].value;
    return NULL;
}

int pl_param_text_expand(const char *text, const struct pl_param *params, size_t n, struct pl_buf *out, struct pl_err *err)
{
    const char *open, *name, *end;
    size_t len;
    int r = 0;

    while (r == 0 && (open = pl_param_text_next(text, &name, &len, &end)) != NULL) {
        const char *value = pl_param_text_value(params, n, name, len);

        if (value == NULL)
            end = open + 2; /* the name is unknown: keep "${" as it is */
        r = pl_buf_add(out, text, (size_t)((value != NULL ? open : end) - text), err);
        if (r == 0 && value != NULL)
            r = pl_buf_add_str(out, value, err);
        text = end;
    }
    return r == 0 ? pl_buf_add_str(out, text, err) : r;
}
