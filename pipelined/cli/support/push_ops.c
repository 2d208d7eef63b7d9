/* Pushes: finds the target of a push, builds the request's URL, sends the ops stream, and prints the
 * result. */
#include "pipelined/cli/support/push_ops.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/run_wait.h"

#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/base/path.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

/* Called if `ref` matches the id of a finished commit. Returns 0 if a branch has the name `ref->name`;
 * otherwise PL_EUSAGE, because nothing can be pushed to a finished commit. */
static int check_branch(struct pl_cli *c, const struct pl_commit_ref *ref, const char *id, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/branches/%s", ref->project, ref->repo, ref->name);
    _cleanup_(json_decrefp) json_t *branch = NULL;
    char repo[PL_CLI_REPO_TEXT];
    int r = ref->kind == PL_COMMIT_REF_ID ? PL_ENOTFOUND : pl_cli_call(c, "GET", path, NULL, &branch, err);

    if (r != PL_ENOTFOUND)
        return r;
    pl_cli_repo_text(ref->project, ref->repo, repo);
    return pl_err_set(err, PL_EUSAGE, "commit %.8s of %s is finished and never changes: give REPO@BRANCH[:/PATH]", id, repo);
}

int pl_cli_push_find_open(struct pl_cli *c, struct pl_commit_ref *ref, bool *ret_open, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/commits/%s", ref->project, ref->repo, ref->name);
    _cleanup_(json_decrefp) json_t *commit = NULL;
    int r = pl_cli_call(c, "GET", path, NULL, &commit, err);
    const char *id;

    *ret_open = false;
    if ((r == PL_ENOTFOUND || r == PL_EGONE) && ref->kind == PL_COMMIT_REF_PREFIX)
        return 0; /* the push will create the branch */
    if (r < 0)
        return r;
    id = pl_show_text_at(commit, "id");
    *ret_open = pl_streq(pl_show_text_at(commit, "state"), "open");
    if (*ret_open)
        snprintf(ref->name, sizeof ref->name, "%s", id);
    else if (strncmp(id, ref->name, strlen(ref->name)) == 0)
        return check_branch(c, ref, id, err);
    return 0;
}

static const char *author(void)
{
    const char *user = getenv("USER");

    return user ? user : "";
}

/* True if the open commit is the user's own. The server knows, unless a version that kept no owner started it: then the author
 * has to do. */
static bool is_own(const json_t *commit)
{
    const json_t *mine = pl_show_at(commit, "mine");

    return mine ? json_is_true(mine) : *author() && pl_streq(pl_show_text_at(commit, "author"), author());
}

/* Looks for the user's own open commit on the branch: the push goes into it. If there are several, or only those of others,
 * says so: the push is then a commit of its own. An error is left to the push itself. */
static void find_own_open(struct pl_cli *c, struct pl_cli_push *p)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/open", p->to.project, p->to.repo);
    _cleanup_(json_decrefp) json_t *list = NULL;
    const json_t *one, *own = NULL, *other = NULL;
    char repo[PL_CLI_REPO_TEXT];
    size_t i, n_own = 0;

    pl_cli_repo_text(p->to.project, p->to.repo, repo);
    if (!path || pl_cli_call(c, "GET", path, NULL, &list, NULL) < 0)
        return;
    json_array_foreach(pl_show_at(list, "commits"), i, one)
    {
        if (!pl_streq(pl_show_text_at(one, "branch"), p->to.name) || json_is_true(pl_show_at(one, "gathers")))
            continue;
        if (is_own(one)) {
            own = one;
            n_own++;
        } else
            other = one;
    }
    if (n_own == 1) {
        snprintf(p->to.name, sizeof p->to.name, "%s", pl_show_text_at(own, "id"));
        p->open = true;
    } else if (n_own > 1 && !c->quiet)
        pl_show_print(stderr,
                      "pipelinectl: %s@%s has %zu open commits of yours, so this is a commit of its own; %s@%.8s in the place "
                      "of the branch names one of them\n",
                      repo, p->to.name, n_own, repo, pl_show_text_at(own, "id"));
    else if (other && !c->quiet)
        pl_show_print(
            stderr,
            "pipelinectl: open commit %.8s of %s@%s is not yours but of \"%s\", so this is a commit of its own; %s@%.8s "
            "in the place of the branch puts into it\n",
            pl_show_text_at(other, "id"), repo, p->to.name,
            pl_show_text_at(other, pl_show_at(other, "owner") ? "owner" : "author"), repo, pl_show_text_at(other, "id"));
}

int pl_cli_push_target(struct pl_cli *c, const char *text, struct pl_cli_push *p, struct pl_err *err)
{
    int r = pl_cli_ref(c, text, &p->to, err);

    if (r < 0)
        return r;
    if (p->to.kind == PL_COMMIT_REF_NONE)
        memcpy(p->to.name, "master", sizeof "master");
    if (!p->to.back && (p->to.kind == PL_COMMIT_REF_ID || p->to.kind == PL_COMMIT_REF_PREFIX))
        r = pl_cli_push_find_open(c, &p->to, &p->open, err);
    if (r == 0 && p->to.back)
        r = pl_err_set(err, PL_EUSAGE, "\"%s\" is a commit, which never changes: give REPO@BRANCH[:/PATH]", text);
    if (r == 0 && p->open && p->base)
        r = pl_err_set(err, PL_EUSAGE,
                       "--base is not accepted for an open commit: its base is the commit that it was started on");
    if (r == 0 && !p->open && !p->base)
        find_own_open(c, p);
    return r;
}

/* An empty value is as good as none. */
static int add_argument(struct pl_buf *url, const char *name, const char *value, struct pl_err *err)
{
    return pl_cli_add_query(url, name, value && *value ? value : NULL, err);
}

int pl_cli_push_url(const struct pl_cli_push *p, const char *path, struct pl_buf *url, struct pl_err *err)
{
    const char *form = p->open ? path ? "/api/v1/repos/%s/%s/open/%s/files/%p" : "/api/v1/repos/%s/%s/open/%s/ops"
                       : path  ? "/api/v1/repos/%s/%s/branches/%s/files/%p"
                               : "/api/v1/repos/%s/%s/branches/%s/commits";
    _cleanup_free_ char *made = pl_http_path_make(form, p->to.project, p->to.repo, p->to.name, path);
    int r = made ? pl_buf_add_str(url, made, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_buf_add_str(url, "?author=", err);
    r = r < 0 ? r : pl_http_escape(url, author(), false, err);
    r = r < 0 ? r : add_argument(url, "message", p->message, err);
    r = r < 0 ? r : add_argument(url, "base", p->base, err);
    return r < 0 ? r : add_argument(url, "session", p->session, err);
}

int pl_cli_push_ops(struct pl_cli *c, const struct pl_cli_push *p, const void *ops, size_t n, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0}, out = {0};
    struct pl_http_call call = {
        .method = "POST", .content_type = PL_TREE_OPS_MEDIA_TYPE, .upload = PL_UPLOAD_BYTES, .bytes = ops, .len = n, .out = &out};
    struct pl_http_client *client;
    int r = pl_cli_client(c, &client, err);

    r = r < 0 ? r : pl_cli_push_url(p, NULL, &url, err);
    if (r < 0)
        return r;
    call.path = pl_buf_str(&url);
    if (!call.path)
        return pl_err_nomem(err);
    r = pl_http_client_call(client, &call, NULL, err);
    if (r < 0)
        return r;
    *ret = json_loadb((const char *)out.data, out.len, 0, NULL);
    return *ret ? 0 : pl_err_set(err, PL_EPROTO, "the server's answer to a push is not JSON");
}

void pl_cli_push_print_lost(void *arg, const struct pl_err *err)
{
    const struct pl_cli *c = arg;

    if (!c->quiet)
        pl_show_print(stderr, "pipelinectl: %s\nretrying for %d s; what has arrived is kept\n", err->msg,
                      PL_RETRYING_SINK_MS / 1000);
}

void pl_cli_push_retry_policy(struct pl_cli *c, struct pl_retrying_sink *ret)
{
    pl_retrying_sink_init_plain(ret);
    ret->lost = pl_cli_push_print_lost;
    ret->arg = c;
    if (!c->daemon_was_there)
        ret->patience_ms = -1;
}

/* Ends a push into an open commit. With --wait, a commit that gathers puts is finished and waited for; one that a user has
 * opened stays open. */
static int end_open(struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer, struct pl_err *err)
{
    const char *commit = pl_show_text_at(answer, "commit"), *branch = pl_show_text_at(answer, "branch");
    const bool gathers = json_is_true(pl_show_at(answer, "gathers"));
    char repo[PL_CLI_REPO_TEXT];

    pl_cli_repo_text(p->to.project, p->to.repo, repo);
    if (gathers && pl_cli_flag(c, "wait")) {
        int r = pl_cli_branch_flush(c, p->to.project, p->to.repo, branch, err);

        return r < 0 ? r : pl_cli_run_wait(c, commit, 0, err);
    }
    if (pl_cli_flag(c, "wait") && !c->quiet)
        pl_show_print(stderr, "pipelinectl: the commit is open: nothing runs until pipelinectl finish commit %s@%.8s\n", repo,
                      commit);
    if (c->json)
        return pl_show_json(answer, err);
    if (gathers)
        pl_show_say(c, "%s@%s: added to commit %s, which is finished when no more puts arrive\nnext: pipelinectl wait run %.8s\n",
                    repo, branch, commit, commit);
    else
        pl_show_say(c, "%s@%s: added to open commit %.8s\nnext: pipelinectl finish commit %s@%.8s\n", repo, branch, commit, repo,
                    commit);
    return 0;
}

/* Reads at most `max` texts of the list into `words`; returns their number. */
static size_t read_words(const json_t *list, const char **words, size_t max)
{
    size_t n = PL_MIN(json_array_size(list), max);

    for (size_t i = 0; i < n; i++)
        words[i] = json_string_value(json_array_get(list, i));
    return n;
}

/* Says that the push made the branch, if stages read other branches of the repo, but not this one, or if no stage reads the
 * repo and it had other branches: the name is perhaps misspelled. */
static void say_made_branch(const struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer)
{
    const char *words[100], *branch = pl_show_text_at(answer, "branch"), *nearest;
    char repo[PL_CLI_REPO_TEXT];
    size_t n = read_words(pl_show_at(answer, "stages_read"), words, PL_ARRAY_SIZE(words));
    const bool read = n > 0;

    for (size_t i = 0; i < n; i++)
        if (pl_streq(words[i], branch))
            return;
    if (n == 0)
        n = read_words(pl_show_at(answer, "branches"), words, PL_ARRAY_SIZE(words));
    if (c->quiet || n == 0)
        return;
    nearest = pl_word_nearest(branch, words, n);
    pl_cli_repo_text(p->to.project, p->to.repo, repo);
    pl_show_print(stderr, "pipelinectl: this made branch \"%s\" of repo %s%s; ", branch, repo,
                  read ? ", which no stage reads" : "");
    if (nearest)
        pl_show_print(stderr, "did you mean \"%s\"? ", nearest);
    else if (read)
        pl_show_print(stderr, "stages read \"%s\". ", words[0]);
    pl_show_print(stderr, "pipelinectl delete branch %s@%s takes it back\n", repo, branch);
}

int pl_cli_push_print(struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer, struct pl_err *err)
{
    const char *commit = pl_show_text_at(answer, "commit"), *run = pl_show_text_at(answer, "run");
    char size[32], added[32], repo[PL_CLI_REPO_TEXT];

    pl_cli_repo_text(p->to.project, p->to.repo, repo);
    say_made_branch(c, p, answer);
    if (json_is_true(pl_show_at(answer, "open")))
        return end_open(c, p, answer, err);
    if (c->json && (json_is_true(pl_show_at(answer, "changed")) || !pl_cli_flag(c, "wait")))
        return pl_cli_run_started(c, answer, err);
    if (!json_is_true(pl_show_at(answer, "changed"))) {
        pl_show_say(c, "%s@%s: nothing changed%s%.8s\n", repo, p->to.name, *commit ? ", still at commit " : "", commit);
        return *commit && pl_cli_flag(c, "wait") ? pl_cli_run_wait(c, commit, 0, err) : 0;
    }
    pl_show_say(c, "%s@%s: commit %s: %lld file%s, %s, %s new\n", repo, p->to.name, commit,
                (long long)pl_show_int_at(answer, "files"), pl_show_int_at(answer, "files") == 1 ? "" : "s",
                pl_size_text((uint64_t)pl_show_int_at(answer, "bytes"), size),
                pl_size_text((uint64_t)pl_show_int_at(answer, "new_bytes"), added));
    if (*run)
        pl_show_say(c, "run %s\n", run);
    return pl_cli_run_started(c, answer, err);
}
