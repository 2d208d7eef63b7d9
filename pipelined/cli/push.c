#include "push.h"

#include "server.h"
#include "show.h"
#include "storage/base/path.h"
#include "storage/tree/ops.h"

int pl_cli_push_target(const struct pl_cli *c, const char *text, struct pl_ref *ret, struct pl_err *err)
{
    int r = pl_cli_ref(c, text, ret, err);

    if (r == 0 && (ret->back || ret->kind == PL_REF_ID))
        r = pl_err_set(err, PL_EUSAGE, "\"%s\" is a commit, which never changes: give REPO@BRANCH[:/PATH]", text);
    if (r == 0 && ret->kind == PL_REF_NONE)
        memcpy(ret->name, "master", sizeof "master");
    return r;
}

static const char *author(void)
{
    const char *user = getenv("USER");

    return user ? user : "";
}

static int add_argument(struct pl_buf *url, const char *name, const char *value, struct pl_err *err)
{
    int r = value && *value ? pl_buf_addf(url, err, "&%s=", name) : 0;

    return r < 0 || !value || !*value ? r : pl_http_escape(url, value, false, err);
}

int pl_cli_push_query(const struct pl_cli_push *p, struct pl_buf *url, struct pl_err *err)
{
    int r = pl_buf_add_str(url, "?author=", err);

    r = r < 0 ? r : pl_http_escape(url, author(), false, err);
    r = r < 0 ? r : add_argument(url, "message", p->message, err);
    r = r < 0 ? r : add_argument(url, "base", p->base, err);
    return r < 0 ? r : add_argument(url, "session", p->session, err);
}

int pl_cli_push_ops(struct pl_cli *c, const struct pl_cli_push *p, const void *ops, size_t n, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/repos/%s/%s/branches/%s/commits", p->to.project, p->to.repo, p->to.name);
    _cleanup_(pl_buf_finish) struct pl_buf url = {0}, out = {0};
    struct pl_http_call call = {
        .method = "POST", .content_type = PL_OPS_MEDIA_TYPE, .upload = PL_UPLOAD_BYTES, .bytes = ops, .len = n, .out = &out};
    struct pl_http_client *client;
    int r = path ? pl_cli_client(c, &client, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_buf_add_str(&url, path, err);
    r = r < 0 ? r : pl_cli_push_query(p, &url, err);
    if (r < 0)
        return r;
    call.path = pl_buf_str(&url);
    if (!call.path)
        return pl_err_nomem(err);
    r = pl_http_client_call(client, &call, NULL, err);
    if (r < 0)
        return r;
    *ret = json_loadb((const char *)out.data, out.len, 0, NULL);
    return *ret ? 0 : pl_err_set(err, PL_EPROTO, "the answer to a push is no JSON");
}

int pl_cli_push_say(const struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer, struct pl_err *err)
{
    const char *commit = pl_show_text_at(answer, "commit"), *run = pl_show_text_at(answer, "run");
    char size[32], added[32];

    if (c->json)
        return pl_show_json(answer, err);
    if (!json_is_true(pl_show_at(answer, "changed"))) {
        pl_show_say(c, "%s@%s: nothing changed%s%.8s\n", p->to.repo, p->to.name, *commit ? ", still at commit " : "", commit);
        return 0;
    }
    pl_show_say(c, "%s@%s: commit %s: %lld file%s, %s, %s new\n", p->to.repo, p->to.name, commit,
                (long long)pl_show_int_at(answer, "files"), pl_show_int_at(answer, "files") == 1 ? "" : "s",
                pl_size_text((uint64_t)pl_show_int_at(answer, "bytes"), size),
                pl_size_text((uint64_t)pl_show_int_at(answer, "new_bytes"), added));
    if (*run)
        pl_show_say(c, "run %s; next: pipelinectl wait run %.8s\n", run, run);
    return 0;
}
