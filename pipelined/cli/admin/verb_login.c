/* login, logout and list context: manage the saved contexts (server addresses with tokens) and choose the
 * current one. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/contexts.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/system/io.h"
#include <ctype.h>
#include <stdio.h>
#include <termios.h>

#define TOKEN_MAX 4096u

/* ---- reading the token ---- */

static void trim(struct pl_buf *text)
{
    while (text->len && isspace(text->data[text->len - 1]))
        text->len--;
}

/* Reads the token from standard input. If that is a terminal, prints a prompt and switches echo off. */
static int ask_token(struct pl_buf *ret, struct pl_err *err)
{
    struct termios before, unseen;
    bool seen = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    ssize_t n = pl_buf_reserve(ret, TOKEN_MAX, err);

    if (n < 0)
        return (int)n;
    if (seen) {
        unseen = before;
        unseen.c_lflag &= ~(tcflag_t)ECHO;
        fputs("token (DIR/token on the server's machine): ", stderr);
        tcsetattr(STDIN_FILENO, TCSANOW, &unseen);
        n = read(STDIN_FILENO, ret->data, TOKEN_MAX);
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        fputc('\n', stderr);
    } else {
        n = pl_io_read(STDIN_FILENO, ret->data, TOKEN_MAX, "standard input", err);
    }
    if (n < 0)
        return pl_err_errno(err, errno, "standard input");
    ret->len = (size_t)n;
    return 0;
}

static int find_token(const struct pl_cli *c, struct pl_buf *ret, struct pl_err *err)
{
    const char *file = pl_cli_value(c, "token-file"), *environment = getenv("PIPELINED_TOKEN");
    int r;

    if (file)
        r = pl_io_read_file(file, ret, err);
    else if (environment && *environment)
        r = pl_buf_add_str(ret, environment, err);
    else
        r = ask_token(ret, err);
    trim(ret);
    if (r == 0 && ret->len == 0)
        r = pl_err_set(err, PL_EUSAGE, "no token: give --token-file FILE, or the token on standard input");
    return r < 0 ? r : pl_buf_str(ret) ? 0 : pl_err_nomem(err);
}

/* ---- login ---- */

/* Makes a context's name from a URL: "http://host:7380/x" → "host:7380". */
static void name_of(const char *url, char out[128])
{
    const char *host = strstr(url, "://");

    host = host ? host + 3 : url;
    snprintf(out, 128, "%.*s", (int)PL_MIN(strcspn(host, "/"), 120), host);
}

/* Checks that the server accepts the token. Called before the context is saved. */
static int try_token(const struct pl_cli *c, const char *url, const char *token, struct pl_err *err)
{
    struct pl_http_client *client = NULL;
    int r = pl_http_client_create(url, token, &client, err);

    r = r < 0 ? r : pl_cli_server_set_ca(c, client, NULL, err);
    r = r < 0 ? r : pl_http_client_json(client, "GET", "/api/v1/status", NULL, NULL, err);
    pl_http_client_destroy(client);
    return r;
}

/* Saves `context` under `name` and makes it the current context; takes over the caller's reference to
 * `context`. If `context` is NULL, makes the saved context of that name the current one; PL_ENOTFOUND if
 * there is none. */
static int keep(struct pl_cli *c, const char *name, json_t *context, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = NULL, *owned = context, *document = NULL;
    int r = pl_cli_contexts_read(&all, err);

    if (r < 0)
        return r;
    if (owned)
        json_object_set(json_object_get(all, "contexts"), name, owned);
    context = json_object_get(json_object_get(all, "contexts"), name);
    if (!context)
        return pl_err_set(err, PL_ENOTFOUND,
                          "there is no context \"%.120s\": create one with \"pipelinectl login URL\", or see all with "
                          "\"pipelinectl list context\"",
                          name);
    json_object_set_new(all, "current", json_string(name));
    r = pl_cli_contexts_write(all, err);
    if (r < 0)
        return r;
    pl_show_say(c, owned ? "logged in to %s as context %s\nnext: pipelinectl status\n" : "now using %s, context %s\n",
                pl_show_text_at(context, "url"), name);
    if (!c->json)
        return 0;
    document = json_pack("{s:s, s:s}", "context", name, "url", pl_show_text_at(context, "url"));
    return document ? pl_show_json(document, err) : pl_err_nomem(err);
}

static int login(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf token = {.max = TOKEN_MAX + 1};
    const char *url = c->args[0], *name = pl_cli_value(c, "name");
    _cleanup_free_ char *ca = NULL;
    json_t *context;
    char made[128];
    int r;

    if (!strstr(url, "://") && !name) /* the argument is the name of a saved context */
        return keep(c, url, NULL, err);
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return pl_err_set(err, PL_EUSAGE, "\"%.200s\" is not an address: give http://HOST:PORT or https://HOST", url);
    name_of(url, made);
    name = name ? name : made;
    r = pl_cli_context_name_check(name, err);
    if (r == 0 && strncmp(url, "http://", 7) == 0 && !pl_http_url_is_local(url))
        fprintf(stderr, "pipelinectl: %s is another machine and does not use TLS: the token can be read on the network\n", url);
    r = r < 0 ? r : find_token(c, &token, err);
    r = r < 0 ? r : try_token(c, url, (const char *)token.data, err);
    if (r < 0)
        return r;
    /* an absolute path, because the context is used from any working directory */
    ca = c->ca ? realpath(c->ca, NULL) : NULL;
    context = json_pack("{s:s, s:s, s:s*}", "url", url, "token", (const char *)token.data, "ca", ca);
    return context ? keep(c, name, context, err) : pl_err_nomem(err);
}

static int logout(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = NULL;
    const char *current, *name;
    int r = pl_cli_contexts_read(&all, err);

    if (r < 0)
        return r;
    current = json_string_value(json_object_get(all, "current"));
    name = c->n_args ? c->args[0] : current;
    if (!name || json_object_del(json_object_get(all, "contexts"), name) < 0)
        return pl_err_set(err, PL_ENOTFOUND, "cannot log out: there is no context%s%.120s", name && *name ? " " : "",
                          name ? name : "");
    pl_show_say(c, "logged out of %s\n", name);
    if (current && pl_streq(current, name))
        json_object_set_new(all, "current", json_string(""));
    return pl_cli_contexts_write(all, err);
}

/* Lists the saved contexts, without their tokens. */
static int list_context(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"CONTEXT", "name", NULL}, {"URL", "url", NULL}, {"CURRENT", "current", NULL}};
    _cleanup_(json_decrefp) json_t *all = NULL, *list = json_array();
    const char *name;
    json_t *one;
    int r = pl_cli_contexts_read(&all, err);

    if (r < 0)
        return r;
    json_object_foreach(json_object_get(all, "contexts"), name, one)
    {
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", name, "url", pl_show_text_at(one, "url"), "current",
                                              (int)pl_streq(name, pl_show_text_at(all, "current"))));
    }
    if (c->json) {
        _cleanup_(json_decrefp) json_t *document = json_pack("{s:O}", "contexts", list);

        return pl_show_json(document, err);
    }
    if (json_array_size(list) == 0)
        pl_show_say(c, "not logged in to any server: use pipelinectl login URL\n");
    return json_array_size(list) ? pl_show_table(list, columns, PL_ARRAY_SIZE(columns), true, err) : 0;
}

static const struct pl_option login_options[] = {{"name", 0, "NAME", "name of the context (else host and port of the address)"},
                                                 {"token-file", 0, "FILE",
                                                  "file with the token (else PIPELINED_TOKEN, else standard input)"},
                                                 {0}};

static const struct pl_verb verbs[] = {
    {"login",
     NULL,
     "URL|CONTEXT",
     1,
     1,
     login_options,
     login,
     "Saves a server's address and token as a context and uses it from then on; or switches to a saved context.",
     {"login https://10.0.0.7:7380", "login https://pipelined.example --ca ca.pem --name work --token-file token", "login work"}},
    {"logout",
     NULL,
     "[CONTEXT]",
     0,
     1,
     NULL,
     logout,
     "Deletes a saved context and its token.",
     {"logout", "logout work", "logout 10.0.0.7:7380"}},
    {"list",
     "context",
     "",
     0,
     0,
     NULL,
     list_context,
     "Lists the servers you are logged in to.",
     {"list context", "ls contexts", "list context --json"}},
};
PL_CLI_TABLE(login, verbs);
