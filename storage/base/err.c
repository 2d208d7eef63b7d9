/* err: the table of errors, and functions that format messages into fixed arrays without allocating
 * memory. */
#include "storage/base/err.h"

#include "storage/base/buf.h"

#include "storage/base/path.h"

#include <stdarg.h>
#include <stdio.h>

static const struct pl_err_info err_rows[] = {
#define PL_ERROR_ROW(name, value, wire, http, exit_code, retryable, meaning, remedy)                                             \
    {-(value), wire, http, exit_code, (retryable) != 0, meaning, remedy},
    PL_ERROR_MAP(PL_ERROR_ROW)
#undef PL_ERROR_ROW
};

/* Changes a message in place so that it is one line of valid UTF-8. Messages are written to log lines, JSON,
 * HTTP headers and terminals, but may quote bytes from clients, or texts that were cut in the middle of a
 * character. */
static void err_one_line(char *text)
{
    pl_utf8_clean(pl_utf8_trim(text));
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
}

__attribute__((format(printf, 3, 0))) static void err_format(char *out, size_t size, const char *fmt, va_list ap)
{
    if (vsnprintf(out, size, fmt, ap) < 0)
        out[0] = '\0';
    err_one_line(out);
}

int pl_err_set(struct pl_err *err, int code, const char *fmt, ...)
{
    /* format into a local array first, because the arguments may point into *err */
    char msg[PL_ERR_MSG_BYTES];
    va_list ap;

    if (err == NULL)
        return code;
    va_start(ap, fmt);
    err_format(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    err->code = code;
    memcpy(err->msg, msg, sizeof(msg));
    err->field[0] = '\0';
    err->hint[0] = '\0';
    return code;
}

static int err_code_of_errno(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        return PL_ENOSPC;
    case ENOMEM:
        return PL_ENOMEM;
    case ENOENT:
        return PL_ENOTFOUND;
    default:
        return PL_EIO;
    }
}

int pl_err_errno(struct pl_err *err, int errnum, const char *fmt, ...)
{
    char msg[PL_ERR_MSG_BYTES];
    char text[128];
    va_list ap;

    if (err == NULL)
        return err_code_of_errno(errnum);
    va_start(ap, fmt);
    err_format(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    return pl_err_set(err, err_code_of_errno(errnum), "%s: %s", msg, strerror_r(errnum, text, sizeof(text)));
}

int pl_err_wrap(struct pl_err *err, int code, const char *fmt, ...)
{
    char msg[PL_ERR_MSG_BYTES];
    va_list ap;
    size_t n;

    if (err == NULL)
        return code;
    va_start(ap, fmt);
    err_format(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    n = strlen(msg);
    if (n + 2 < sizeof(msg))
        (void)snprintf(msg + n, sizeof(msg) - n, ": %.*s", (int)(sizeof(msg) - n - 3), err->msg);
    memcpy(err->msg, msg, sizeof(msg));
    err->code = code;
    return code;
}

int pl_err_field(struct pl_err *err, int code, const char *field)
{
    if (err != NULL) {
        (void)snprintf(err->field, sizeof(err->field), "%s", field);
        err_one_line(err->field);
    }
    return code;
}

int pl_err_hint(struct pl_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (err == NULL)
        return code;
    va_start(ap, fmt);
    err_format(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
    return code;
}

int pl_err_nomem(struct pl_err *err)
{
    return pl_err_set(err, PL_ENOMEM, "out of memory");
}

const struct pl_err_info *pl_err_info(int code)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(err_rows); i++)
        if (err_rows[i].code == code)
            return &err_rows[i];
    return pl_err_info(PL_EINTERNAL);
}

const struct pl_err_info *pl_err_info_by_name(const char *name)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(err_rows); i++)
        if (pl_streq(err_rows[i].name, name))
            return &err_rows[i];
    return NULL;
}

const struct pl_err_info *pl_err_table(size_t *ret_n)
{
    *ret_n = PL_ARRAY_SIZE(err_rows);
    return err_rows;
}

int pl_err_markdown(struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add_str(
        out,
        "# Errors\n\n"
        "<!-- Made from the table in storage/base/err.h: PL_UPDATE=1 test_err writes it, the test keeps it equal. -->\n\n"
        "The API answers an error with the HTTP status below and `{\"error\": {\"code\", \"message\", \"field\"?, \"hint\"?}}`:"
        " `message` says what is wrong with which value, `field` names\nthe argument at fault, `hint` what to do. `pipelinectl` "
        "prints"
        " the message and the hint and ends with the exit code below; 0 is success. *Again*: the same call may succeed later.\n\n"
        "| code | HTTP | exit code | again | meaning | remedy |\n|---|---|---|---|---|---|\n",
        err);

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(err_rows); i++) {
        const struct pl_err_info *e = &err_rows[i];

        r = pl_buf_addf(out, err, "| `%s` | %d | %d | %s | %s | %s |\n", e->name, e->http_status, e->exit_code,
                        e->retryable ? "yes" : "", e->meaning, e->remedy);
    }
    return r;
}
