/* Checks of names, keys and values. */
#include "pipelined/policy/project_secret.h"

#include "storage/base/hash.h"

#include <ctype.h>

static bool lower_or_digit(char c)
{
    return islower((unsigned char)c) || isdigit((unsigned char)c);
}

int pl_secret_name_check(const char *name, struct pl_err *err)
{
    size_t n = strlen(name);
    bool good = n > 0 && n <= PL_SECRET_NAME_MAX && lower_or_digit(name[0]) && lower_or_digit(name[n - 1]);

    for (size_t i = 0; i < n && good; i++)
        good = lower_or_digit(name[i]) || name[i] == '-' ||
               (name[i] == '.' && lower_or_digit(name[i - 1]) && lower_or_digit(name[i + 1]));
    if (good)
        return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL,
                                   "\"%.80s\" is not accepted as the name of a secret: use at most %u lower-case letters, "
                                   "digits, - and ., with a letter or digit at both ends",
                                   name, PL_SECRET_NAME_MAX),
                        "name");
}

int pl_secret_key_check(const char *key, struct pl_err *err)
{
    size_t n = strlen(key);
    bool good = n > 0 && n <= PL_SECRET_KEY_MAX && strncmp(key, "..", 2) != 0 && !pl_streq(key, ".");

    for (size_t i = 0; i < n && good; i++)
        good = isalnum((unsigned char)key[i]) || strchr("-_.", key[i]) != NULL;
    if (good)
        return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL,
                                   "\"%.80s\" is not accepted as a key of a secret: use at most %u letters, digits, -, _ and "
                                   ".; the key must neither be \".\" nor start with \"..\"",
                                   key, PL_SECRET_KEY_MAX),
                        "values");
}

/* Checks keys, base64 and total size of the values. */
static int check_values(const struct pl_secret_op *op, struct pl_err *err)
{
    const char *key;
    json_t *value;
    size_t bytes = 0;
    int r = 0;

    if (!json_is_object(op->values) || json_object_size(op->values) == 0)
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "values: an object {KEY: VALUE in base64} with at least one key"),
                            "values");
    if (json_object_size(op->values) > PL_SECRET_KEYS_MAX)
        return pl_err_field(err,
                            pl_err_set(err, PL_ELIMIT, "secret %s would have more than %u keys", op->name, PL_SECRET_KEYS_MAX),
                            "values");
    json_object_foreach((json_t *)op->values, key, value)
    {
        _cleanup_(pl_buf_finish) struct pl_buf bytes_of = {.max = 2 * PL_SECRET_BYTES_MAX};

        r = pl_secret_key_check(key, err);
        if (r == 0 && (!json_is_string(value) || pl_base64_decode(json_string_value(value), &bytes_of, NULL) < 0))
            r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "values.%s is not base64", key), "values");
        if (r < 0)
            return r;
        bytes += bytes_of.len;
        if (bytes_of.data)
            explicit_bzero(bytes_of.data, bytes_of.len);
    }
    if (bytes <= PL_SECRET_BYTES_MAX)
        return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_ETOOBIG, "secret %s: its values have %zu bytes; at most %u are allowed", op->name,
                                   bytes, PL_SECRET_BYTES_MAX),
                        "values");
}

int pl_secret_op_check(const struct pl_secret_op *op, struct pl_err *err)
{
    int r = op->name ? pl_secret_name_check(op->name, err) : 0;

    if (r < 0 || op->what == PL_SECRET_LIST || op->what == PL_SECRET_DELETE || op->what == PL_SECRET_NONE ||
        op->what == PL_SECRET_READ)
        return r;
    return check_values(op, err);
}

void pl_secret_values_erase(const json_t *values)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)values, key, value)
    {
        if (json_is_string(value))
            explicit_bzero((char *)(uintptr_t)json_string_value(value), json_string_length(value));
    }
}

void pl_secret_names_add(struct pl_buf *names, size_t i, const char *name)
{
    if (i < PL_SECRET_NAMES_SHOWN)
        (void)!pl_buf_addf(names, NULL, "%s%s", i ? ", " : "", name);
    else if (i == PL_SECRET_NAMES_SHOWN)
        (void)!pl_buf_add_str(names, " and more", NULL);
}
