/* Writes the events of open commits, the records of how they ended, and the file that says that an open
 * commit is set aside. */
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <limits.h>
#include <stdio.h>

struct telling {
    json_t *event;
    const struct pl_open_commit_file_head *of;
    const char *change, *head, *reason; /* head: NULL = the commit has not ended */
};

static int keep_end(struct pl_conn *c, const struct telling *t, struct pl_err *err)
{
    int r = pl_sql_exec(c, err,
                        "INSERT OR REPLACE INTO open_end(commit_, project, repo, branch, change, head, reason)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?)",
                        "sssssss", t->of->commit, t->of->project, t->of->repo, t->of->branch, t->change, t->head, t->reason);

    return r < 0 ? r
                 : pl_sql_exec(c, err, "DELETE FROM open_end WHERE id <= (SELECT max(id) FROM open_end) - ?", "i",
                               (int64_t)PL_OPEN_COMMIT_ENDS_KEPT);
}

static int tell_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct telling *t = arg;
    int r = t->head ? keep_end(pl_tx_conn(tx), t, err) : 0;

    return r < 0 ? r : pl_tx_event(tx, "commit", json_incref(t->event), err);
}

static void tell(struct pl_open_commit *c, struct telling *t, const char *why)
{
    const struct pl_open_commit_file_head *h = t->of = pl_open_commit_head(c);

    t->event = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?}", "project", h->project, "repo", h->repo, "branch", h->branch, "commit",
                         h->commit, "change", t->change, "reason", why);
    if (!t->event || pl_db_run(c->o->config.db, PL_TX_UNLOGGED, tell_tx, t, NULL) < 0)
        pl_log_warn("open", "cannot write the event that says that open commit %.8s was %s", h->commit, t->change);
    json_decref(t->event);
}

static void aside_path(const struct pl_open_commit *c, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s.blocked", c->o->dir, pl_open_commit_head(c)->commit);
}

void pl_open_set_aside(struct pl_open_commit *c)
{
    struct pl_err err = {0};
    char path[PATH_MAX];

    aside_path(c, path);
    if (pl_io_write_file(path, c->blocked, strlen(c->blocked), 0600, &err) < 0)
        pl_log_warn("open", "cannot save that open commit %.8s is set aside, so the next start tries to finish it: %s",
                    pl_open_commit_head(c)->commit, err.msg);
}

void pl_open_read_set_aside(struct pl_open_commit *c)
{
    struct pl_buf why = {.max = sizeof c->blocked - 1};
    char path[PATH_MAX];
    int r;

    aside_path(c, path);
    r = pl_io_read_file(path, &why, NULL);
    c->set_aside = r != PL_ENOTFOUND;
    if (c->set_aside) {
        snprintf(c->blocked, sizeof c->blocked, "%.*s", (int)why.len, r == 0 ? (const char *)why.data : "");
        if (!*c->blocked)
            snprintf(c->blocked, sizeof c->blocked, "its operations could not be applied");
        c->blocked_code = PL_ECOLLISION;
        c->blocked_us = pl_clock_wall_us();
    }
    pl_buf_finish(&why);
}

void pl_open_forget_set_aside(const struct pl_open_commit *c)
{
    char path[PATH_MAX];

    aside_path(c, path);
    (void)unlink(path); /* if the removal fails, the file names a commit that no longer exists, which does no harm */
}

void pl_open_commit_event(struct pl_open_commit *c, const char *change, const char *why)
{
    struct telling t = {.change = change};

    tell(c, &t, why);
}

void pl_open_commit_ends(struct pl_open_commit *c, const char *head, const char *why)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);
    struct telling t = {.change = head ? "unchanged" : "dropped", .head = head ? head : ""};
    char reason[512];

    if (!head)
        snprintf(reason, sizeof reason, "commit %.8s was dropped: %.400s", h->commit, why);
    else if (*head)
        snprintf(reason, sizeof reason, "nothing changed: %s@%s is still at commit %.8s", h->repo, h->branch, head);
    else
        snprintf(reason, sizeof reason, "nothing changed: %s@%s has no commit yet", h->repo, h->branch);
    t.reason = reason;
    tell(c, &t, why);
}

int pl_open_commit_end_find(struct pl_conn *c, const char *project, const char *repo, const char *text,
                            struct pl_open_commit_end *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char past[PL_ID_HEX + 2];
    int r;

    if (strlen(text) < PL_COMMIT_REF_PREFIX_DIGITS || strlen(text) > PL_ID_HEX)
        return pl_err_set(err, PL_ENOTFOUND, "there is no open commit \"%.40s\"", text);
    /* every id with this prefix sorts before the prefix with "g": g is past every hex digit */
    snprintf(past, sizeof past, "%sg", text);
    r = pl_sql_query(
        c, err, &rows,
        "SELECT commit_, project, repo, branch, change, head, reason FROM open_end WHERE commit_ >= ?1 AND commit_ < ?2"
        " AND (?3 IS NULL OR project = ?3) AND (?4 IS NULL OR repo = ?4) AND readable(project, repo)"
        " ORDER BY id DESC LIMIT 1",
        "ssss", text, past, project, repo);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "there is no open commit \"%.40s\"", text);
    snprintf(ret->commit, sizeof ret->commit, "%s", pl_col_text(&rows, 0));
    snprintf(ret->project, sizeof ret->project, "%s", pl_col_text(&rows, 1));
    snprintf(ret->repo, sizeof ret->repo, "%s", pl_col_text(&rows, 2));
    snprintf(ret->branch, sizeof ret->branch, "%s", pl_col_text(&rows, 3));
    ret->unchanged = pl_streq(pl_col_text(&rows, 4), "unchanged");
    snprintf(ret->head, sizeof ret->head, "%s", pl_col_text(&rows, 5));
    snprintf(ret->reason, sizeof ret->reason, "%s", pl_col_text(&rows, 6));
    return 0;
}
