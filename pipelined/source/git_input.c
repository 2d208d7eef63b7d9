/* git_input: compares the tip with the git commit of the repo's head; stores the files of a new one as a tree, and commits
 * it on that head. Nothing else is remembered, so a look that was cut short is simply done again. */
#include "pipelined/source/git_input.h"

#include "pipelined/db/pipelines/source_tx.h"
#include "pipelined/db/tx/commit_tx.h"
#include "pipelined/source/git_files.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/dataset/commit/commit.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/project_stores.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define BRANCH            "master"
#define SUBJECT_BYTES_MAX 1024

/* The commit on which the next one is made. */
struct head {
    bool there;
    struct pl_commit_row row;
    bool refused; /* the tip that the look before saw cannot be an input */
};

/* Returns the row id of the repo: another one of the name may have been made during the look. */
static int64_t id_of(const struct pl_source_look *l)
{
    return json_integer_value(json_object_get(l->settings, "id"));
}

/* Reads the head into `h`, its git commit into l->applied, and what the look before found into l->seen and l->error. */
static int read_head(struct pl_source_look *l, struct head *h, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(l->host->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_repo_row repo;
    int r = pl_db_repo_find(rd.conn, l->project, pl_json_str(l->settings, "repo"), &repo, err);

    if (r == 0 && repo.id != id_of(l))
        r = pl_err_set(err, PL_ENOTFOUND, "the repo was deleted, and made anew");
    r = r < 0 ? r : pl_db_branch_head(rd.conn, repo.id, BRANCH, &h->row, err);
    if (r < 0)
        return r;
    h->there = r > 0;
    if (!h->there)
        h->row = (struct pl_commit_row){0};
    r = pl_sql_query(rd.conn, err, &rows,
                     "SELECT coalesce((SELECT git FROM commit_ WHERE id = ?1), ''), coalesce(s.seen, ''), coalesce(s.error, ''),"
                     " coalesce(s.state, '') = 'invalid' FROM repo r LEFT JOIN repo_state s ON s.repo = r.id WHERE r.id = ?2",
                     "ii", h->row.id, repo.id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "the repo was deleted just now");
    l->applied = strdup(pl_col_text(&rows, 0));
    l->seen = strdup(pl_col_text(&rows, 1));
    l->error = strdup(pl_col_text(&rows, 2));
    h->refused = pl_col_int(&rows, 3) != 0;
    return l->applied && l->seen && l->error ? 0 : pl_err_nomem(err);
}

/* Records what was found; `warnings` NULL = as before. */
static void record(struct pl_source_look *l, const char *state, const char *error, const json_t *warnings)
{
    struct pl_repo_seen seen = {.project = l->project,
                                .repo = pl_json_str(l->settings, "repo"),
                                .id = id_of(l),
                                .state = state,
                                .error = error,
                                .seen = pl_json_str(l->tip, "id"),
                                .warnings = warnings};
    struct pl_err err = {0};

    if (pl_db_run(l->host->db, PL_TX_UNLOGGED, pl_tx_repo_seen, &seen, &err) < 0)
        pl_log_warn("source", "git input %s: its state cannot be recorded: %s", l->name, err.msg);
    if (*error && !pl_streq(error, l->error ? l->error : ""))
        pl_log_warn("source", "git input %s: %s", l->name, error);
}

/* Adds the commit object for `c`, and commits. */
static int commit(struct pl_source_look *l, struct pl_store *store, struct pl_commit_args *c, const struct head *h,
                  struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(store);
    int r = pl_pack_builder_open(&sink, l->project, &session, err);

    r = r < 0 ? r : pl_commit_object_put(session, c, h->there ? &h->row.object : NULL, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    return r < 0 ? r : pl_db_run(l->host->db, PL_TX_LOGGED, pl_tx_commit, c, err);
}

/* Makes the tip a commit of the repo. */
static int take_tip(struct pl_source_look *l, const struct head *h, json_t *warnings, struct pl_err *err)
{
    _cleanup_(pl_store_release) struct pl_store_hold hold = {0};
    const char *text = pl_json_str(l->tip, "message");
    char run[PL_ID_HEX + 1], subject[SUBJECT_BYTES_MAX], author[PL_COMMIT_AUTHOR_MAX + 1];
    struct pl_git_files files = {.git = l->git,
                                 .copy = l->name,
                                 .commit = pl_json_str(l->tip, "id"),
                                 .folder = "",
                                 .n_max = PL_GIT_INPUT_FILES_MAX,
                                 .sum_max = PL_GIT_INPUT_BYTES_MAX,
                                 .ms = PL_GIT_ASK_MS_MAX};
    struct pl_commit_args c = {.project = l->project,
                               .repo = pl_json_str(l->settings, "repo"),
                               .branch = BRANCH,
                               .run = run,
                               .git = files.commit,
                               .git_repo = id_of(l),
                               .message = subject,
                               .author = author,
                               .parent = h->row.run,
                               .expect = h->row.id,
                               .generation = h->row.generation + 1};
    struct pl_tree_stats stats = {0};
    struct pl_store *store;
    int r = pl_project_stores_get(l->host->stores, l->project, &store, err);

    if (r < 0)
        return r;
    pl_store_hold(store, &hold);
    r = pl_git_files_store(&files, store, l->project, "repository", warnings, &c.root, &stats, err);
    if (r < 0)
        return r;
    snprintf(subject, sizeof subject, "%.*s", (int)strcspn(text, "\n"), text);
    snprintf(author, sizeof author, "%s", pl_json_str(l->tip, "author"));
    pl_utf8_trim(subject);
    pl_utf8_trim(author);
    pl_id_make((uint64_t)(pl_clock_wall_us() / 1000), run);
    c.files = (int64_t)stats.files;
    c.bytes = (int64_t)stats.bytes;
    r = commit(l, store, &c, h, err);
    if (r < 0)
        return r;
    pl_log_info("source", "git input %s: commit %.12s is commit %.8s", l->name, files.commit, run);
    l->host->run_created(l->host->engine, run);
    return 0;
}

/* True for errors that the same git commit gives each time. */
static bool is_of_commit(int r)
{
    return r == PL_EINVAL || r == PL_ELIMIT || r == PL_ETOOBIG || r == PL_EPATH || r == PL_ECOLLISION;
}

static int ask_tip(struct pl_source_look *l, struct pl_err *err)
{
    if (!*pl_json_str(l->settings, "git"))
        return pl_err_set(err, PL_ENOTFOUND, "project \"%s\" has no source \"%s\" any more", l->project,
                          pl_json_str(l->settings, "source"));
    return pl_source_look_tip(l, l->applied, err);
}

/* Looks once. Errors are recorded and returned; a damaged copy only with `last`: it can be fetched anew. */
static int look_once(struct pl_source_look *l, bool last)
{
    _cleanup_(json_decrefp) json_t *warnings = json_array();
    struct head h = {0};
    struct pl_err err = {0};
    int r = warnings ? read_head(l, &h, &err) : pl_err_nomem(&err);

    l->gone = r == PL_ENOTFOUND;
    if (l->gone)
        return 0;
    r = r < 0 ? r : ask_tip(l, &err);
    if (r == PL_ECANCELED)
        return 0;
    if (r < 0) {
        record(l, "unreachable", err.msg, NULL);
        return r;
    }
    if (pl_streq(pl_json_str(l->tip, "id"), l->applied)) {
        record(l, "following", "", NULL);
        return 0;
    }
    if (h.refused && !l->afresh && pl_streq(pl_json_str(l->tip, "id"), l->seen))
        return 0; /* what is wrong with it was said */
    if (json_is_true(json_object_get(l->tip, "forced")))
        (void)!pl_json_add(warnings, json_sprintf("the branch was rewritten: commit %.12s is not in its history", l->applied),
                           NULL);
    r = take_tip(l, &h, warnings, &err);
    if (r == PL_ECANCELED || r == PL_ESTOPPING) /* the next start looks again */
        return 0;
    if (r == 0)
        record(l, "following", "", warnings);
    else if (r != PL_ECORRUPT || last)
        record(l, is_of_commit(r) ? "invalid" : "unreachable", err.msg, NULL);
    return r;
}

bool pl_git_input_look(struct pl_source_look *l)
{
    int r = look_once(l, false);

    if (r == PL_ECORRUPT) {
        pl_log_warn("source", "git input %s: the copy of its repository is damaged and is fetched anew", l->name);
        pl_source_look_afresh(l);
        r = look_once(l, true);
    }
    return r >= 0 || is_of_commit(r);
}

int pl_git_inputs_check(const struct pl_source_addresses *addresses, const struct pl_spec *spec, struct pl_err *err)
{
    for (size_t i = 0; i < spec->n_stages; i++)
        for (size_t k = 0; k < spec->stages[i].n_leaves; k++) {
            const char *url = spec->stages[i].leaves[k]->git_url;
            int r = url ? pl_source_address_check(addresses, url, err) : 0;

            if (r < 0)
                return pl_err_wrap(err, r, "stage \"%s\": input \"%s\"", spec->stages[i].name, spec->stages[i].leaves[k]->name);
        }
    return 0;
}
