/* S3 keys, and s3 env: the environment variables that S3 clients need to reach the repos. */
#include "pipelined/cli/admin/credential.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/contexts.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include <stdio.h>

/* ---- keys ---- */

static int create_s3_key(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"access key", "access_key", NULL},
                                             {"secret key", "secret_key", NULL},
                                             {"user", "user", NULL}};
    _cleanup_(json_decrefp) json_t *made = NULL;
    json_t *body = pl_cli_credential_body(c, err);
    int r = body ? pl_cli_call(c, "POST", "/api/v1/s3-keys", body, &made, err) : err->code;

    if (r < 0)
        return r;
    if (!c->json)
        pl_show_say(c, "S3 key of %s; its secret is shown only this once:\n", pl_show_text_at(made, "user"));
    r = pl_show_object(c, made, lines, PL_ARRAY_SIZE(lines), err);
    if (r == 0 && !c->json)
        pl_show_say(c, "next: give both to the client; pipelinectl s3 env prints the endpoint\n");
    return r;
}

static int list_s3_key(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"ACCESS KEY", "access_key", NULL},
                                               {"USER", "user", NULL},
                                               {"MAX ROLE", "role", NULL},
                                               {"SCOPE", "scope", NULL},
                                               {"NAME", "name", NULL},
                                               {"STATE", "state", NULL},
                                               {"CREATED", "created_us", pl_show_ago}};
    const char *user = pl_cli_value(c, "user");
    _cleanup_free_ char *path = user ? pl_http_path_make("/api/v1/s3-keys?user=%s", user) : strdup("/api/v1/s3-keys");

    return pl_show_list(c, path, "s3_keys", columns, PL_ARRAY_SIZE(columns), 0, "no S3 keys: pipelinectl create s3-key USER",
                        err);
}

static int delete_s3_key(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/s3-keys/%s", c->args[0]);

    return pl_show_delete(c, path, "S3 key", c->args[0], err);
}

/* ---- s3 env ---- */

/* Returns the key that s3 env saved earlier for this store, if the server still accepts it. New reference,
 * NULL if there is none. */
static json_t *kept_key(struct pl_cli *c, const json_t *all, const char *store)
{
    json_t *key = json_object_get(json_object_get(all, "s3_keys"), store);
    _cleanup_(json_decrefp) json_t *page = NULL;
    const json_t *one;
    size_t i;

    if (!key || pl_cli_call(c, "GET", "/api/v1/s3-keys?limit=10000", NULL, &page, NULL) < 0)
        return NULL;
    json_array_foreach(json_object_get(page, "s3_keys"), i, one)
    {
        if (pl_streq(pl_show_text_at(one, "access_key"), pl_show_text_at(key, "access_key")) &&
            pl_streq(pl_show_text_at(one, "state"), "good"))
            return json_incref(key);
    }
    return NULL;
}

/* Makes the S3 key that belongs to the daemon's own token. Its access key is "pipelined", its secret key is
 * the token. */
static int own_key(struct pl_cli *c, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *url = NULL, *token = NULL;
    int r = pl_cli_server_address(c, &url, &token, err);

    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s}", "access_key", "pipelined", "secret_key", token ? token : "");
    return *ret ? 0 : pl_err_nomem(err);
}

/* Creates an S3 key for --user, or else for the caller. The daemon's own token belongs to no user: for a
 * caller with that token, returns the S3 key that belongs to the token and sets `*ret_own` to true. */
static int make_key(struct pl_cli *c, json_t **ret, bool *ret_own, struct pl_err *err)
{
    const char *user = pl_cli_value(c, "user");
    json_t *body = user ? json_pack("{s:s, s:s}", "user", user, "name", "s3 env") : json_pack("{s:s}", "name", "s3 env");
    int r = pl_cli_call(c, "POST", "/api/v1/s3-keys", body, ret, err);

    *ret_own = r == PL_EINVAL && !user && pl_streq(err->field, "user");
    return *ret_own ? own_key(c, ret, err) : r;
}

/* Returns the S3 key that was saved for this store, or creates one and saves it in contexts.json. */
static int find_key(struct pl_cli *c, const char *store, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = NULL;
    json_t *keys;
    bool own;
    int r = pl_cli_contexts_read(&all, err);

    if (r < 0)
        return r;
    *ret = pl_cli_flag(c, "new") ? NULL : kept_key(c, all, store);
    if (*ret)
        return 0;
    r = make_key(c, ret, &own, err);
    if (r < 0 || own)
        return r;
    keys = json_object_get(all, "s3_keys");
    if (!keys) {
        keys = json_object();
        json_object_set_new(all, "s3_keys", keys);
    }
    json_object_set_new(keys, store,
                        json_pack("{s:s, s:s}", "access_key", pl_show_text_at(*ret, "access_key"), "secret_key",
                                  pl_show_text_at(*ret, "secret_key")));
    return pl_cli_contexts_write(all, err);
}

static int no_gateway(struct pl_err *err)
{
    pl_err_set(err, PL_EUNAVAILABLE, "this pipelined has no S3 gateway: there is no endpoint to export");
    return pl_err_hint(err, PL_EUNAVAILABLE,
                       "Start pipelined with --s3-listen; pipelinectl put file and get file do not need a gateway.");
}

/* Prints one line for `eval` by a shell. The value is quoted, so that the shell cannot run text that the
 * server sent as a command. */
static int print_export(const char *name, const char *text, struct pl_err *err)
{
    int r = printf("export %s='", name);

    for (; *text && r >= 0; text++)
        r = *text == '\'' ? fputs("'\\''", stdout) : putchar(*text);
    r = r < 0 ? r : fputs("'\n", stdout);
    return r < 0 ? pl_err_errno(err, errno, "standard output") : 0;
}

/* The region that S3 clients are told. The gateway accepts any region. With a region that has ever known Signature
 * Version 2, such as us-east-1, botocore presigns URLs by that version, which the gateway refuses. This region
 * has only known Version 4, and clients that check names of regions know it. The gateway tells it, too (REGION in
 * s3_buckets.c). */
#define CLIENT_REGION "eu-central-1"

/* Prints the lines for `eval` by a shell. Newer AWS SDKs, and the wrappers of most other clients, read
 * AWS_ENDPOINT_URL. */
static int s3_env(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *status = NULL, *key = NULL, *out = NULL;
    const char *name;
    const json_t *value;
    int r = pl_cli_call(c, "GET", "/api/v1/status", NULL, &status, err);

    if (r == 0 && !*pl_show_text_at(status, "s3_url"))
        r = no_gateway(err);
    r = r < 0 ? r : find_key(c, pl_show_text_at(status, "store_id"), &key, err);
    if (r < 0)
        return r;
    out = json_pack("{s:s, s:s, s:s, s:s}", "AWS_ENDPOINT_URL", pl_show_text_at(status, "s3_url"), "AWS_ACCESS_KEY_ID",
                    pl_show_text_at(key, "access_key"), "AWS_SECRET_ACCESS_KEY", pl_show_text_at(key, "secret_key"),
                    "AWS_DEFAULT_REGION", CLIENT_REGION);
    if (!out)
        return pl_err_nomem(err);
    if (c->json)
        return pl_show_json(out, err);
    json_object_foreach(out, name, value)
    {
        r = r < 0 ? r : print_export(name, json_string_value(value), err);
    }
    return r;
}

static const struct pl_option key_options[] = {PL_CLI_CREDENTIAL_OPTIONS, {0}};
static const struct pl_option of_user_options[] = {{"user", 0, "NAME", "only those of this user"}, {0}};
static const struct pl_option env_options[] = {{"user", 0, "NAME", "make the key for this user instead of yourself"},
                                               {"new", 0, NULL, "make a new key, even if one is saved here"},
                                               {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "s3-key",
     "[USER]",
     0,
     1,
     key_options,
     create_s3_key,
     "Creates a key for S3 clients, for you or another user, limited by --role and --over. Its secret is shown only once.",
     {"create s3-key bob", "create s3-key --role reader --over vision", "create s3-key bob --expires 30d --json"}},
    {"list",
     "s3-key",
     "",
     0,
     0,
     of_user_options,
     list_s3_key,
     "Lists your S3 keys; in state \"lost\" the daemon has lost the secret, and you need a new key.",
     {"list s3-key", "ls s3-keys --user bob", "list s3-key --json"}},
    {"delete",
     "s3-key",
     "ACCESS_KEY",
     1,
     1,
     NULL,
     delete_s3_key,
     "Deletes an S3 key; it stops working at once.",
     {"delete s3-key PLQ7X2MNB4CDZTKWRF3A", "delete s3-key PLQ7", "rm s3-key PLQ7"}},
    {"s3",
     "env",
     "",
     0,
     0,
     env_options,
     s3_env,
     "Prints the environment variables for S3 clients; creates a key the first time and saves it with the login contexts.",
     {"s3 env", "eval \"$(pipelinectl s3 env)\"", "s3 env --json"}},
};
PL_CLI_TABLE(s3, verbs);
