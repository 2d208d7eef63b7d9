/* The subcommands for secrets: values that the daemon stores for a project and passes to its stages. Secret
 * values are never shown. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/policy/project_secret.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"

#include <ctype.h>
#include <stdio.h>

/* Overwrites the buffer's bytes with zeros and frees it. */
static void forget(struct pl_buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->len);
    pl_buf_finish(b);
}

static int read_value(const char *path, struct pl_buf *ret, struct pl_err *err)
{
    ssize_t n;

    if (!pl_streq(path, "-"))
        return pl_io_read_file(path, ret, err);
    n = pl_buf_reserve(ret, PL_SECRET_BYTES_MAX + 1, err);
    n = n < 0 ? n : pl_io_read(STDIN_FILENO, ret->data, PL_SECRET_BYTES_MAX + 1, "standard input", err);
    ret->len = n > 0 ? (size_t)n : 0;
    return (int)PL_MIN(n, 0);
}

static int add_value(json_t *values, const char *key, const void *data, size_t n, struct pl_err *err)
{
    _cleanup_free_ char *text = NULL;
    int r = pl_secret_key_check(key, err);

    r = r < 0 ? r : pl_base64_encode(data, n, &text, err);
    if (r == 0 && json_object_set_new(values, key, json_string(text)) < 0)
        r = pl_err_nomem(err);
    if (text)
        explicit_bzero(text, strlen(text));
    return r;
}

/* Adds a value from an argument "KEY=FILE". If the argument is only "FILE", the key is the file's name
 * without its folder. */
static int add_file(json_t *values, const char *given, struct pl_err *err)
{
    _cleanup_(forget) struct pl_buf value = {.max = PL_SECRET_BYTES_MAX + 1};
    const char *equals = strchr(given, '='), *path = equals ? equals + 1 : given, *slash = strrchr(path, '/');
    _cleanup_free_ char *key = equals ? strndup(given, (size_t)(equals - given)) : strdup(slash ? slash + 1 : path);
    int r = key ? read_value(path, &value, err) : pl_err_nomem(err);

    return r < 0 ? r : add_value(values, key, value.data ? (const void *)value.data : "", value.len, err);
}

static int add_text(json_t *values, const char *given, struct pl_err *err)
{
    const char *equals = strchr(given, '=');
    _cleanup_free_ char *key = equals ? strndup(given, (size_t)(equals - given)) : NULL;

    if (!equals)
        return pl_err_set(err, PL_EUSAGE, "--value %.40s: give KEY=TEXT", given);
    return key ? add_value(values, key, equals + 1, strlen(equals + 1), err) : pl_err_nomem(err);
}

static int given_values(const struct pl_cli *c, json_t *values, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < pl_cli_value_count(c, "file"); i++)
        r = add_file(values, pl_cli_value_at(c, "file", i), err);
    for (size_t i = 0; r == 0 && i < pl_cli_value_count(c, "value"); i++)
        r = add_text(values, pl_cli_value_at(c, "value", i), err);
    if (r == 0 && json_object_size(values) == 0)
        r = pl_err_set(err, PL_EUSAGE, "secret %s has no value: give --file KEY=FILE (- is standard input) or --value KEY=TEXT",
                       c->args[0]);
    return r;
}

/* Prints what to write into a spec to use the new secret. */
static void say_next(struct pl_cli *c, const char *key)
{
    char env[64] = "";

    for (size_t i = 0; key[i] && i < sizeof env - 1; i++)
        env[i] = isalnum((unsigned char)key[i]) ? (char)toupper((unsigned char)key[i]) : '_';
    pl_show_say(c, "next, in a stage of project %s: \"secrets\": [{\"name\": \"%s\", \"key\": \"%s\", \"env\": \"%s\"}]\n",
                c->project, c->args[0], key, env);
}

static int set_secret(struct pl_cli *c, bool update, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *values = json_object(), *kept = NULL;
    int r = pl_secret_name_check(c->args[0], err);

    r = r < 0 ? r : given_values(c, values, err);
    r = r < 0 ? r
              : pl_cli_call(c, "POST", "/api/v1/secrets",
                            json_pack("{s:s, s:s, s:O, s:b}", "project", c->project, "name", c->args[0], "values", values,
                                      "update", (int)update),
                            &kept, err);
    if (r < 0)
        return r;
    pl_show_say(c, "secret %s %s\n", c->args[0], update ? "updated" : "created");
    if (!update)
        say_next(c, json_object_iter_key(json_object_iter(values)));
    return c->json ? pl_show_json(kept, err) : 0;
}

static int create_secret(struct pl_cli *c, struct pl_err *err)
{
    return set_secret(c, false, err);
}

static int update_secret(struct pl_cli *c, struct pl_err *err)
{
    return set_secret(c, true, err);
}

static int list_secret(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"SECRET", "name", NULL},
                                               {"KEYS", "keys", NULL},
                                               {"UPDATED", "updated_us", pl_show_ago}};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/secrets?project=%s", c->project);

    return pl_show_list(c, path, "secrets", columns, PL_ARRAY_SIZE(columns), 0,
                        "no secrets: pipelinectl create secret NAME --file KEY=FILE", err);
}

static int delete_secret(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/secrets/%s/%s", c->project, c->args[0]);

    return pl_show_delete(c, path, "secret", c->args[0], err);
}

static const struct pl_option value_options[] = {{"file", 'f', "KEY=FILE",
                                                  "value from a file, - for standard input; may be repeated"},
                                                 {"value", 0, "KEY=TEXT", "value given here; it stays in the shell's history"},
                                                 {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "secret",
     "NAME --file KEY=FILE",
     1,
     1,
     value_options,
     create_secret,
     "Creates a secret that stages of the project can use as variables or files; its values are never shown.",
     {"create secret pg --file dsn=dsn.txt", "printf %s \"$TOKEN\" | pipelinectl create secret hub --file token=-",
      "create secret tls --file cert.pem --file key.pem"}},
    {"update",
     "secret",
     "NAME --file KEY=FILE",
     1,
     1,
     value_options,
     update_secret,
     "Sets keys of a secret; keys that are not given stay as they are.",
     {"update secret pg --file dsn=dsn.txt", "update secret tls --file key.pem",
      "update secret pg --file dsn=- --project vision"}},
    {"list",
     "secret",
     "",
     0,
     0,
     NULL,
     list_secret,
     "Lists the secrets of the project with their keys.",
     {"list secret", "ls secrets --project vision", "list secret --json"}},
    {"delete",
     "secret",
     "NAME",
     1,
     1,
     NULL,
     delete_secret,
     "Deletes a secret with all its keys.",
     {"delete secret pg", "rm secret pg --project vision", "delete secret pg --json"}},
};
PL_CLI_TABLE(secret, verbs);
