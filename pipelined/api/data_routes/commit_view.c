/* Looks a ref up among the finished commits first, then among the open ones. */
#include "pipelined/api/data_routes/commit_view.h"

#include "pipelined/api/data_routes/gone_lookup.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

int pl_commit_view_open_named(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_open_commit **ret,
                              struct pl_err *err)
{
    struct pl_open_commit *c;
    struct pl_err why = {0};
    const char *project = pl_http_param(req, "project"), *repo = pl_http_param(req, "repo");
    int r = pl_open_commits_find(a->services.opens, project, repo, ref, false, &c, &why);

    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    *ret = c;
    return 0;
}

static int view_open(struct pl_open_commit *c, struct pl_commit_view *ret, struct pl_err *err)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);
    int r = pl_open_commit_view_init(c, &ret->view, err);

    if (r < 0)
        return r;
    snprintf(ret->commit.run, sizeof ret->commit.run, "%s", h->commit);
    snprintf(ret->commit.parent, sizeof ret->commit.parent, "%s", h->base);
    snprintf(ret->commit.branch, sizeof ret->commit.branch, "%s", h->branch);
    ret->commit.root = ret->view.root;
    ret->source = ret->view.source;
    ret->store = pl_open_commit_store(c);
    return 0;
}

/* Splits a ref such as "ID^2^" into the id and the total number of generations to go back (3 in this
 * example). Returns false if the ref has another form and so cannot name an open commit. */
static bool split_back(const char *ref, char id[PL_ID_HEX + 1], unsigned *ret_back)
{
    const char *caret = strchr(ref, '^');
    size_t len = caret ? (size_t)(caret - ref) : strlen(ref);

    *ret_back = 0;
    if (len == 0 || len > PL_ID_HEX)
        return false;
    memcpy(id, ref, len);
    id[len] = '\0';
    for (const char *p = caret; p && *p == '^'; p = strchr(p + 1, '^'))
        *ret_back += p[1] >= '0' && p[1] <= '9' ? (unsigned)strtoul(p + 1, NULL, 10) : 1;
    return *ret_back <= 1000000;
}

/* Resolves a ref that does not name a finished commit: "ID" to the open commit, "ID^n" to the n-th commit
 * before it (ID^1 is its base commit). */
static int find_open(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_view *ret,
                     struct pl_err *err)
{
    char id[PL_ID_HEX + 1], behind[PL_ID_HEX + 16];
    unsigned back;
    int r = split_back(ref, id, &back) ? pl_commit_view_open_named(a, req, id, &ret->open, NULL) : PL_ENOTFOUND;

    if (r < 0)
        return r;
    if (!back)
        return view_open(ret->open, ret, err);
    snprintf(behind, sizeof behind, back > 1 ? "%s^%u" : "%s", pl_open_commit_head(ret->open)->base, back - 1);
    ret->open = pl_open_commit_unref(ret->open);
    return !*behind || *behind == '^' ? PL_ENOTFOUND : pl_api_commit_at(a, req, behind, &ret->commit, err);
}

int pl_commit_view_init(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_view *ret,
                        struct pl_err *err)
{
    struct pl_err why = {0};
    int r;

    *ret = (struct pl_commit_view){0};
    r = pl_api_commit_at(a, req, ref, &ret->commit, &why);
    if (r == PL_ENOTFOUND) {
        struct pl_err other = {0};
        int found = find_open(a, req, ref, ret, &other);

        if (found != PL_ENOTFOUND) {
            r = found;
            why = other;
        }
    }
    r = pl_gone_commit(a, req, ref, r, &why);
    if (r == 0 && !ret->open) {
        r = pl_api_store(a, req, &ret->store, &why);
        ret->source = (struct pl_node_source){ret->store, pl_store_node_get};
    }
    if (r < 0) {
        pl_commit_view_finish(ret);
        if (err)
            *err = why;
    }
    return r;
}

void pl_commit_view_finish(struct pl_commit_view *v)
{
    pl_open_commit_view_finish(&v->view);
    pl_open_commit_unrefp(&v->open);
}

static int add_sums(struct pl_open_commit *c, json_t *o, struct pl_err *err)
{
    _cleanup_(pl_open_commit_view_finish) struct pl_open_commit_view view = {0};
    struct pl_tree_stats stats = {0};
    char hex[PL_HASH_HEX + 1];
    int r = pl_open_commit_view_init(c, &view, err);

    r = r < 0 ? r : pl_tree_stats_get(&view.source, &view.root, NULL, 0, &stats, err);
    if (r < 0)
        return r;
    json_object_set_new(o, "root", json_string(pl_hash_hex(&view.root, hex)));
    json_object_set_new(o, "files", json_integer((json_int_t)stats.files));
    json_object_set_new(o, "bytes", json_integer((json_int_t)stats.bytes));
    return 0;
}

int pl_commit_view_open_json(const struct pl_http_request *req, struct pl_open_commit *c, bool with_sums, json_t **ret,
                             struct pl_err *err)
{
    const struct pl_principal *who = pl_http_context(req);
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);
    _cleanup_free_ char *message = pl_open_commit_message(c);
    struct pl_open_commit_info info;
    json_t *o;
    int r;

    pl_open_commit_info(c, &info);
    o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:s, s:I, s:b}", "id", h->commit, "project",
                  h->project, "repo", h->repo, "branch", h->branch, "parent", h->base, "state", "open", "message", message,
                  "author", h->author, "created_us", (json_int_t)h->created_us, "operations", (json_int_t)info.operations,
                  "gathers", h->gathered, "blocked", info.blocked, "blocked_us", (json_int_t)info.blocked_us, "set_aside",
                  info.set_aside);
    if (!o)
        return pl_err_nomem(err);
    if (*h->owner) {
        json_object_set_new(o, "owner", json_string(h->owner));
        json_object_set_new(o, "mine", json_boolean(pl_streq(h->owner, who->name)));
    }
    r = with_sums ? add_sums(c, o, err) : 0;
    if (r < 0)
        json_decref(o);
    else
        *ret = o;
    return r;
}
