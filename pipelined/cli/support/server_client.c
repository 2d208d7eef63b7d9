/* Chooses the server's address and token from options, environment, contexts and the daemon's folder, and
 * keeps one HTTP client for them. */
#include "pipelined/cli/support/server_client.h"

#include "pipelined/cli/support/contexts.h"
#include "storage/base/path.h"
#include "storage/system/io.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>

#define SMALL_FILE_MAX 4096

/* ---- address and token ---- */

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static bool default_folder(char out[PATH_MAX])
{
    const char *home = from_environment("HOME"), *share = from_environment("XDG_DATA_HOME");

    if (geteuid() == 0)
        return snprintf(out, PATH_MAX, "/var/lib/pipelined") > 0;
    if (share)
        return snprintf(out, PATH_MAX, "%s/pipelined", share) < PATH_MAX;
    return home && snprintf(out, PATH_MAX, "%s/.local/share/pipelined", home) < PATH_MAX;
}

/* Returns the content of the file DIR/NAME without the white space at its end, malloc'ed; NULL if the file is
 * missing or empty. */
static char *read_line(const char *dir, const char *name)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = SMALL_FILE_MAX};
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path || pl_io_read_file(path, &text, NULL) < 0)
        return NULL;
    while (text.len && isspace(text.data[text.len - 1]))
        text.len--;
    return text.len ? pl_buf_take_str(&text) : NULL;
}

struct place {
    char *url, *token, *ca;
    bool written; /* the URL was read from a pipelined.url file that a daemon wrote */
};

static void place_finish(struct place *p)
{
    free(p->url);
    free(p->token);
    free(p->ca);
}

/* Copies the token and the CA file of the saved context whose URL is `url`. If `url` is NULL, copies the
 * current context, including its URL. Copies nothing if there is no such context. */
static int take_context(const char *url, struct place *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *context = NULL;
    const char *its_url, *its_token;
    int r = pl_cli_context_find(url, &context, err);

    if (r < 0 || !context)
        return r;
    its_url = json_string_value(json_object_get(context, "url"));
    its_token = json_string_value(json_object_get(context, "token"));
    if (!its_url)
        return pl_err_set(err, PL_EFORMAT, "contexts.json: a context has no \"url\": create it again with pipelinectl login URL");
    ret->url = url ? NULL : strdup(its_url);
    ret->token = its_token ? strdup(its_token) : NULL;
    ret->ca = json_is_string(json_object_get(context, "ca")) ? strdup(json_string_value(json_object_get(context, "ca"))) : NULL;
    return 0;
}

/* Fills `ret` with the address and the token, in the order of the table in server_client.h. */
static int find_place(const struct pl_cli *c, struct place *ret, struct pl_err *err)
{
    const char *url = c->server ? c->server
                      : c->data ? NULL
                                : from_environment("PIPELINED_URL"),
               *token = from_environment("PIPELINED_TOKEN");
    char folder[PATH_MAX];
    bool has_folder = c->data ? snprintf(folder, sizeof folder, "%s", c->data) < PATH_MAX : default_folder(folder);
    int r = c->data ? 0 : take_context(url, ret, err);

    if (r < 0)
        return r;
    if (token && ret->token)
        free(TAKE_PTR(ret->token));
    if (url)
        ret->url = strdup(url);
    else if (!ret->url && has_folder)
        ret->written = (ret->url = read_line(folder, "pipelined.url")) != NULL;
    if (!ret->url && c->data)
        return pl_err_set(err, PL_ENET, "no daemon runs on folder %s: start one with pipelined --data %s", c->data, c->data);
    if (!ret->url)
        ret->url = strdup(PL_CLI_DEFAULT_URL);
    /* The token in a folder belongs to the daemon of that folder. PIPELINED_TOKEN belongs to the address in
     * PIPELINED_URL. */
    if (has_folder && !ret->token && (c->data || !token))
        ret->token = read_line(folder, "token");
    if (!ret->token && token)
        ret->token = strdup(token);
    return ret->url ? 0 : pl_err_nomem(err);
}

int pl_cli_server_address(const struct pl_cli *c, char **ret_url, char **ret_token, struct pl_err *err)
{
    struct place place = {0};
    int r = find_place(c, &place, err);

    if (r < 0) {
        place_finish(&place);
        return r;
    }
    free(place.ca);
    *ret_url = place.url;
    *ret_token = place.token;
    return 0;
}

char *pl_cli_folder(const struct pl_cli *c)
{
    char folder[PATH_MAX];

    return c->data ? strdup(c->data) : default_folder(folder) ? strdup(folder) : NULL;
}

int pl_cli_server_set_ca(const struct pl_cli *c, struct pl_http_client *client, const char *otherwise, struct pl_err *err)
{
    const char *ca = c->ca ? c->ca : from_environment("PIPELINED_CA");

    ca = ca ? ca : otherwise;
    if (ca && access(ca, R_OK) < 0)
        return pl_err_errno(err, errno, "--ca %s", ca);
    /* set in the environment for pipelined-worker, which the subcommand try starts */
    if (ca && setenv("PIPELINED_CA", ca, 1) < 0)
        return pl_err_nomem(err);
    return ca ? pl_http_client_set_ca(client, ca, err) : 0;
}

int pl_cli_client(struct pl_cli *c, struct pl_http_client **ret, struct pl_err *err)
{
    _cleanup_(place_finish) struct place place = {0};
    int r = 0;

    if (!c->client) {
        r = find_place(c, &place, err);
        r = r < 0 ? r : pl_http_client_create(place.url, place.token, &c->client, err);
        r = r < 0 ? r : pl_cli_server_set_ca(c, c->client, place.ca, err);
        c->daemon_was_there = place.written;
    }
    if (r == 0)
        *ret = c->client;
    return r;
}

int pl_cli_add_query(struct pl_buf *url, const char *name, const char *value, struct pl_err *err)
{
    int r = value ? pl_buf_addf(url, err, "&%s=", name) : 0;

    return r < 0 || !value ? r : pl_http_escape(url, value, false, err);
}

int pl_cli_call(struct pl_cli *c, const char *method, const char *path, json_t *body, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *owned = body;
    struct pl_http_client *client;
    int r = path ? pl_cli_client(c, &client, err) : pl_err_nomem(err);

    return r < 0 ? r : pl_http_client_json(client, method, path, owned, ret, err);
}

/* ---- names of commits, repos and pipelines ---- */

int pl_cli_ref(const struct pl_cli *c, const char *text, struct pl_commit_ref *ret, struct pl_err *err)
{
    int r = pl_commit_ref_parse(text, ret, err);

    if (r == 0 && !*ret->project)
        snprintf(ret->project, sizeof ret->project, "%s", c->project);
    return r;
}

char *pl_cli_ref_text(const struct pl_commit_ref *ref, char out[PL_NAME_MAX_BYTES + 16])
{
    const char *name = *ref->name ? ref->name : "master";

    if (ref->back)
        snprintf(out, PL_NAME_MAX_BYTES + 16, "%s^%u", name, ref->back);
    else
        snprintf(out, PL_NAME_MAX_BYTES + 16, "%s", name);
    return out;
}

char *pl_cli_repo_text(const char *project, const char *repo, char out[PL_CLI_REPO_TEXT])
{
    bool own = pl_streq(project, "default");

    snprintf(out, PL_CLI_REPO_TEXT, "%s%s%s", own ? "" : project, own ? "" : "/", repo);
    return out;
}

int pl_cli_name(const struct pl_cli *c, const char *what, const char *text, struct pl_cli_name *ret, struct pl_err *err)
{
    const char *slash = strchr(text, '/'), *name = slash ? slash + 1 : text;
    size_t len = slash ? (size_t)(slash - text) : strlen(c->project);
    int r = 0;

    if (len > PL_NAME_MAX_BYTES)
        return pl_err_set(err, PL_ENAME, "\"%.120s\": the name of the project is too long", text);
    snprintf(ret->project, sizeof ret->project, "%.*s", (int)len, slash ? text : c->project);
    r = pl_name_check("project", ret->project, err);
    r = r < 0 ? r : pl_name_check(what, name, err);
    if (r == 0)
        snprintf(ret->name, sizeof ret->name, "%s", name);
    return r;
}
