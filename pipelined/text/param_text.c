/* Searches for "${params." and replaces the names that are known. An escape is read from the left: "$$${" is "$" and "$${". */
#include "pipelined/text/param_text.h"

#define PARAMS_OPEN "${params."
#define ESCAPE      "$${"

const char *pl_param_text_open(const char *text)
{
    for (const char *p = text; (p = strchr(p, '$')) != NULL; p++) {
        if (strncmp(p, ESCAPE, strlen(ESCAPE)) == 0)
            p += strlen(ESCAPE) - 1;
        else if (p[1] == '{')
            return p;
    }
    return NULL;
}

const char *pl_param_text_next(const char *text, const char **ret_name, size_t *ret_len, const char **ret_end)
{
    for (const char *open = text; (open = pl_param_text_open(open)) != NULL; open += 2) {
        const char *close = strncmp(open, PARAMS_OPEN, strlen(PARAMS_OPEN)) == 0 ? strchr(open, '}') : NULL;

        if (close == NULL)
            continue;
        *ret_name = open + strlen(PARAMS_OPEN);
        *ret_len = (size_t)(close - *ret_name);
        *ret_end = close + 1;
        return open;
    }
    return NULL;
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
    int r = 0;

    while (r == 0) {
        const char *dollar = strchr(text, '$'), *close, *name, *value = NULL;

        if (dollar == NULL)
            return pl_buf_add_str(out, text, err);
        r = pl_buf_add(out, text, (size_t)(dollar - text), err);
        text = dollar + 1;
        if (strncmp(dollar, ESCAPE, strlen(ESCAPE)) == 0) {
            r = r < 0 ? r : pl_buf_add_str(out, "${", err);
            text = dollar + strlen(ESCAPE);
            continue;
        }
        name = dollar + strlen(PARAMS_OPEN);
        close = strncmp(dollar, PARAMS_OPEN, strlen(PARAMS_OPEN)) == 0 ? strchr(dollar, '}') : NULL;
        if (close != NULL)
            value = pl_param_text_value(params, n, name, (size_t)(close - name));
        if (value != NULL)
            text = close + 1;
        r = r < 0 ? r : pl_buf_add_str(out, value != NULL ? value : "$", err);
    }
    return r;
}

int pl_param_text_escape(const char *text, struct pl_buf *out, struct pl_err *err)
{
    const char *at;
    int r = 0;

    while (r == 0 && (at = strstr(text, ESCAPE)) != NULL) {
        r = pl_buf_add(out, text, (size_t)(at - text), err);
        r = r < 0 ? r : pl_buf_add_str(out, "$" ESCAPE, err);
        text = at + strlen(ESCAPE);
    }
    return r < 0 ? r : pl_buf_add_str(out, text, err);
}
