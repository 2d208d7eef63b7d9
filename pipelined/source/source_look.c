/* source_look: asks pl-git for the tip, reads what the look before recorded, and applies the commit if it is new. */
#include "pipelined/source/source_look.h"

#include "pipelined/source/source_preview.h"
#include "pipelined/text/json_text.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>

#define LOOK_MS          60000   /* without news from pl-git: to ask for the tip and to fetch */
#define ASIDE            "~.git" /* ending of a copy that is to be removed; no source has such a name */
#define SECRET_BYTES_MAX 32768u  /* of what git uses of a secret: a request is shorter than a pipe holds */

/* Removes the folder NAME + ending. */
static void remove_tree(const char *folder, const char *name, const char *ending)
{
    struct pl_err err = {0};
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s%s", folder, name, ending) < (int)sizeof path && pl_io_remove_tree(path, &err) < 0)
        pl_log_warn("source", "%s cannot be removed: %s", path, err.msg);
}

void pl_source_remove_copy(const char *folder, const char *name)
{
    remove_tree(folder, name, ".git");
}

void pl_source_set_copy_aside(const char *folder, const char *name)
{
    char path[PATH_MAX], aside[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s.git", folder, name) < (int)sizeof path &&
        snprintf(aside, sizeof aside, "%s/%s" ASIDE, folder, name) < (int)sizeof aside && rename(path, aside) < 0 &&
        errno != ENOENT) {
        remove_tree(folder, name, ASIDE); /* one of a removal that was interrupted */
        (void)rename(path, aside);
    }
}

void pl_source_remove_aside(const char *folder, const char *name)
{
    remove_tree(folder, name, ASIDE);
}

/* Drops what was found, so that the look can begin again. */
static void forget_look(struct pl_source_look *l)
{
    json_decref(TAKE_PTR(l->tip));
    json_decref(TAKE_PTR(l->compared));
    json_decref(TAKE_PTR(l->posted));
    json_decref(TAKE_PTR(l->previews));
    free(TAKE_PTR(l->error));
    free(TAKE_PTR(l->warning));
    free(TAKE_PTR(l->seen));
    free(TAKE_PTR(l->applied));
}

void pl_source_look_finish(struct pl_source_look *l)
{
    forget_look(l);
    json_decref(l->settings);
}

/* Reads what the look before found. */
static int read_state(struct pl_source_look *l, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(l->host->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *details = NULL;
    int r =
        pl_sql_query(rd.conn, err, &rows, "SELECT seen, applied, error, details FROM source_state WHERE name = ?", "s", l->name);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    l->seen = strdup(r > 0 ? pl_col_text(&rows, 0) : "");
    l->applied = strdup(r > 0 ? pl_col_text(&rows, 1) : "");
    l->error = strdup(r > 0 ? pl_col_text(&rows, 2) : "");
    details = r > 0 ? pl_col_json(&rows, 3) : NULL;
    l->posted = json_incref(json_object_get(details, "posted"));
    l->previews = json_incref(json_object_get(details, "previews"));
    l->warning = strdup(pl_json_str(details, "preview_warning"));
    return l->warning && l->error && l->seen && l->applied ? 0 : pl_err_nomem(err);
}

/* Takes the keys of a secret that git uses, as texts, into `out`. A token is a password; the end of its line does not count. */
static int take_keys(const json_t *values, const char *secret, json_t *out, struct pl_err *err)
{
    static const struct {
        const char *key, *as;
        bool line; /* one line: without its end */
    } rows[] = {{"token", "password", true},   {"password", "password", true},     {"username", "username", true},
                {"ssh_key", "ssh_key", false}, {"passphrase", "passphrase", true}, {"known_hosts", "known_hosts", false}};
    size_t sum = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(rows); i++) {
        const char *text = json_string_value(json_object_get(values, rows[i].key));
        _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_SECRET_BYTES_MAX};

        if (!text)
            continue;
        r = pl_base64_decode(text, &bytes, err);
        while (r == 0 && rows[i].line && bytes.len && strchr("\r\n", bytes.data[bytes.len - 1]))
            bytes.len--;
        sum += bytes.len;
        if (r == 0 && sum > SECRET_BYTES_MAX)
            r = pl_err_set(err, PL_ETOOBIG, "secret %s: the keys for git have more than %u bytes in all", secret,
                           SECRET_BYTES_MAX);
        if (r == 0 &&
            json_object_set_new(out, rows[i].as, json_stringn(bytes.data ? (const char *)bytes.data : "", bytes.len)) < 0)
            r = pl_err_set(err, PL_EINVAL, "secret %s: the key %s is not a text", secret, rows[i].key);
        if (bytes.data)
            explicit_bzero(bytes.data, bytes.len);
    }
    return r;
}

/* Reads the source's secret; `ret` is for pl-git, and empty if the source names none. */
static int read_secret(struct pl_source_look *l, json_t **ret, struct pl_err *err)
{
    const struct pl_secret_op op = {.what = PL_SECRET_READ, .project = l->project, .name = pl_json_str(l->settings, "secret")};
    _cleanup_(json_decrefp) json_t *out = json_object();
    json_t *values = NULL;
    int r = !out ? pl_err_nomem(err) : *op.name ? l->host->secrets(l->host->engine, &op, &values, err) : 0;

    r = r < 0 ? r : take_keys(values, op.name, out, err);
    pl_secret_values_erase(values);
    json_decref(values);
    if (r < 0)
        pl_secret_values_erase(out);
    else
        *ret = TAKE_PTR(out);
    return r;
}

int pl_source_look_ask(struct pl_source_look *l, const struct pl_source_ask *ask, struct pl_err *err)
{
    const char *git = pl_json_str(l->settings, "git");
    json_t *secret = NULL;
    int r = pl_source_address_check(l->addresses, git, err);

    r = r < 0 ? r : read_secret(l, &secret, err);
    return r < 0 ? r
                 : pl_git_child_ask(l->git,
                                    json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o}", "do", ask->what, "copy", l->name, "url", git,
                                              "branch", ask->branch, "have", ask->have, "preview", (int)ask->preview, "secret",
                                              secret),
                                    LOOK_MS, err);
}

int pl_source_look_tip(struct pl_source_look *l, const char *have, struct pl_err *err)
{
    const struct pl_source_ask ask = {.what = "look",
                                      .branch = pl_json_str(l->settings, "branch"),
                                      .have = l->changed ? "" : have};
    int r = pl_source_look_ask(l, &ask, err);

    r = r < 0 ? r : pl_git_child_line(l->git, &l->tip, err);
    if (r == 0 && !*pl_json_str(l->tip, "id"))
        r = pl_err_set(err, PL_EIO, "pl-git sent no answer");
    return r;
}

/* {subject, author, at, forced} of the tip, and what its specs set. */
static json_t *details_of(const struct pl_source_look *l, struct pl_source_commit *c, const struct pl_source_apply *done)
{
    const char *message = pl_json_str(l->tip, "message");
    json_t *warnings = c->warnings ? json_incref(c->warnings) : json_array();
    const json_t *name;
    size_t i;

    json_array_foreach(done ? done->left : NULL, i, name)
    {
        json_array_append_new(warnings, pl_source_commit_left(done, json_string_value(name)));
    }
    if (json_is_true(json_object_get(l->tip, "forced")))
        json_array_append_new(warnings, json_sprintf("the branch was rewritten: commit %.12s is not in its history", l->seen));
    return json_pack("{s:s%, s:s, s:I, s:o*, s:o, s:O*, s:O*, s:O*}", "subject", message, strcspn(message, "\n"), "author",
                     pl_json_str(l->tip, "author"), "at", json_integer_value(json_object_get(l->tip, "at")) * 1000000,
                     "pipelines", done ? pl_source_commit_names(c) : NULL, "warnings", warnings, "errors",
                     done ? NULL : c->errors, "problems", done ? NULL : c->problems, "posted", l->posted);
}

static void record(struct pl_source_look *l, const char *state, const char *error, const char *applied, json_t *details)
{
    struct pl_source_seen seen = {.name = l->name,
                                  .created_us = l->created_us,
                                  .state = state,
                                  .error = error,
                                  .seen = pl_json_str(l->tip, "id"),
                                  .applied = applied,
                                  .details = details};
    struct pl_err err = {0};

    if (pl_db_run(l->host->db, PL_TX_UNLOGGED, pl_tx_source_seen, &seen, &err) < 0)
        pl_log_warn("source", "source %s: its state cannot be recorded: %s", l->name, err.msg);
}

int pl_source_look_set(struct pl_source_look *l, const json_t *tip, bool dry_run, struct pl_source_commit *c,
                       struct pl_source_apply *done, struct pl_err *err)
{
    int r;

    *c = (struct pl_source_commit){.host = l->host,
                                   .addresses = l->addresses,
                                   .git = l->git,
                                   .source = l->name,
                                   .project = l->project,
                                   .created_us = l->created_us,
                                   .url = pl_json_str(l->settings, "git"),
                                   .branch = pl_json_str(l->settings, "branch"),
                                   .path = pl_json_str(l->settings, "path"),
                                   .id = pl_json_str(tip, "id"),
                                   .author = pl_json_str(tip, "author"),
                                   .message = pl_json_str(tip, "message"),
                                   .at_s = json_integer_value(json_object_get(tip, "at")),
                                   .dry_run = dry_run,
                                   .asked = l->asked};
    r = pl_source_commit_read(c, err);
    return r < 0 ? r : pl_source_commit_apply(c, done, err);
}

bool pl_source_look_blames(int code)
{
    return code < 0 && !pl_err_info(code)->retryable && code != PL_ECORRUPT && code != PL_ECANCELED && code != PL_EUNAVAILABLE &&
           code != PL_EFENCED;
}

/* ---- the status of the commit ---- */

/* Replaces l->posted by the note of what the source says of the tip's commit. A look that changes nothing says nothing new. */
static void note_status(struct pl_source_look *l, const struct pl_source_commit *c, int r, const char *error)
{
    const bool said = pl_streq(pl_json_str(l->posted, "commit"), c->id) && pl_streq(pl_json_str(l->posted, "state"), "success");
    size_t set, changed, started;
    char text[128];
    json_t *note;
    int n;

    if (pl_streq(pl_json_str(l->settings, "status"), "off") || !*pl_json_str(l->settings, "status")) {
        json_decref(TAKE_PTR(l->posted));
        return;
    }
    pl_source_commit_count(c, &set, &changed, &started);
    if (r < 0 ? !pl_source_look_blames(r) : said && !changed && !started)
        return;
    n = snprintf(text, sizeof text, "%zu pipeline%s set", set, set == 1 ? "" : "s");
    if (changed)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %zu changed", changed);
    if (started)
        snprintf(text + n, sizeof text - (size_t)n, ", %zu started", started);
    note = pl_status_note(c->id, r == 0, r < 0 ? error : text, l->posted);
    if (note) {
        json_decref(l->posted);
        l->posted = note;
    }
}

int pl_source_look_post(struct pl_source_look *l, const char *ending, json_t *note)
{
    char context[sizeof l->name + 24];
    const struct pl_status_source source = {.poster = l->poster,
                                            .secrets = l->host->secrets,
                                            .self = l->host->engine,
                                            .project = l->project,
                                            .context = context,
                                            .settings = l->settings,
                                            .now = l->asked || l->changed};
    const bool failed_before = json_object_get(note, "error") != NULL;
    struct pl_err err = {0};
    int r;

    snprintf(context, sizeof context, "pipelined/%s%s", l->name, ending);
    r = pl_status_post(&source, note, &err);
    if (r < 0 && r != PL_ECANCELED && !failed_before)
        pl_log_warn("source", "source %s: the status of commit %.12s could not be posted: %s", l->name,
                    pl_json_str(note, "commit"), err.msg);
    return r;
}

/* Sends the status that l->posted notes, if it is due, and records the outcome. */
static void post_status(struct pl_source_look *l)
{
    struct pl_source_told told = {.name = l->name, .posted = l->posted};
    struct pl_err err = {0};
    int r = l->posted ? pl_source_look_post(l, "", l->posted) : 0;

    if (r != 0 && r != PL_ECANCELED && pl_db_run(l->host->db, PL_TX_UNLOGGED, pl_tx_source_told, &told, &err) < 0)
        pl_log_warn("source", "source %s: what was posted cannot be recorded: %s", l->name, err.msg);
}

/* Sets the pipelines of the tip's commit, and records the outcome. */
static int apply(struct pl_source_look *l)
{
    struct pl_source_apply done = {0};
    struct pl_source_commit c;
    struct pl_err err = {0};
    json_t *details;
    int r = pl_source_look_set(l, l->tip, false, &c, &done, &err);

    if (r == PL_ECANCELED || r == PL_ESTOPPING || done.outdated) { /* the next start, or the next look, does it */
        pl_source_commit_finish(&c);
        pl_source_apply_finish(&done);
        return PL_ECANCELED;
    }
    note_status(l, &c, r, err.msg);
    details = details_of(l, &c, r == 0 ? &done : NULL);
    /* what may go away by itself is no fault of the commit */
    record(l,
           r == 0                      ? "following"
           : pl_err_info(r)->retryable ? "unreachable"
                                       : "invalid",
           r < 0 ? err.msg : "", r < 0 ? "" : c.id, details);
    if (r < 0 && !pl_streq(err.msg, l->error))
        pl_log_warn("source", "source %s: commit %.12s changes nothing: %s", l->name, c.id, err.msg);
    else if (r == 0)
        pl_log_info("source", "source %s: commit %.12s set %zu pipelines", l->name, c.id, c.n);
    json_decref(details);
    pl_source_apply_finish(&done);
    pl_source_commit_finish(&c);
    return r;
}

/* Finds out what applying the tip's commit would change. An error is part of the result. */
static int compare(struct pl_source_look *l, int r, struct pl_err *err)
{
    struct pl_source_apply done = {0};
    struct pl_source_commit c = {0};

    r = r < 0 ? r : pl_source_look_set(l, l->tip, true, &c, &done, err);
    l->compared = json_pack("{s:s, s:s, s:s, s:o, s:O*, s:O*, s:O*, s:O*, s:O*}", "prune", pl_source_prune_name(done.prune),
                            "commit", pl_json_str(l->tip, "id"), "error", r < 0 ? err->msg : "", "pipelines",
                            r < 0 ? json_array() : pl_source_commit_changes(&c), "left", done.left, "pruned", done.pruned,
                            "warnings", c.warnings, "errors", r < 0 ? c.errors : NULL, "problems", r < 0 ? c.problems : NULL);
    pl_source_apply_finish(&done);
    pl_source_commit_finish(&c);
    return r;
}

/* Looks at a source once. Errors of the commit are recorded and returned like those of the repository. */
static int look_once(struct pl_source_look *l)
{
    struct pl_err err = {0};
    int r = read_state(l, &err);

    r = r < 0 ? r : pl_source_look_tip(l, l->seen, &err);
    if (r == PL_ECANCELED)
        return 0;
    if (l->compare)
        return compare(l, r, &err);
    if (r < 0) {
        record(l, "unreachable", err.msg, "", NULL);
        if (!pl_streq(err.msg, l->error))
            pl_log_warn("source", "source %s: %s", l->name, err.msg);
        return r;
    }
    if (!l->afresh && pl_streq(pl_json_str(l->tip, "id"), l->applied) && pl_streq(l->seen, l->applied))
        record(l, "following", "", "", NULL); /* nothing new */
    else
        r = apply(l);
    if (r == PL_ECANCELED)
        return 0;
    if (r == PL_ECORRUPT)
        return r; /* it is fetched anew */
    post_status(l);
    pl_source_preview(l);
    return r;
}

void pl_source_look_afresh(struct pl_source_look *l)
{
    pl_git_child_drop(l->git);
    pl_source_remove_copy(l->folder, l->name);
    forget_look(l);
}

/* Looks at a source; a damaged copy of its repository is removed and fetched once more. Returns false if the repository was
 * not reached or kept pl-git busy for too long: the next look then waits longer. */
bool pl_source_look(struct pl_source_look *l)
{
    int r = look_once(l);

    if (r == PL_ECORRUPT) {
        pl_log_warn("source", "source %s: the copy of its repository is damaged and is fetched anew", l->name);
        pl_source_look_afresh(l);
        r = look_once(l);
    }
    return r != PL_ECORRUPT && r != PL_EIO && r != PL_ETIMEOUT && r != PL_EUNAVAILABLE && (r >= 0 || l->tip);
}

void pl_source_bound_copy(struct pl_source_look *l)
{
    char path[PATH_MAX];
    DIR *folder =
        snprintf(path, sizeof path, "%s/%s.git/objects/pack", l->folder, l->name) < (int)sizeof path ? opendir(path) : NULL;
    size_t n = 0;

    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    if (n <= (size_t)2 * PL_SOURCE_PACKS_MAX) /* each pack has an index */
        return;
    pl_git_child_drop(l->git);
    pl_source_remove_copy(l->folder, l->name);
}
