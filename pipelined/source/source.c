/* source: one thread with a list of sources and the time at which each is due. The list is read from the database when it
 * changed; looks go one after another, each with time limits. */
#include "pipelined/source/source.h"

#include "pipelined/source/git_child.h"
#include "pipelined/source/source_commit.h"
#include "pipelined/source/source_schedule.h"
#include "pipelined/source/source_settings.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define LOOK_MS         120000 /* to ask for the tip and to fetch */
#define LOCAL_MAX       64     /* folders with local repositories */
#define RELOAD_AGAIN_MS 5000   /* wait after the list could not be read */

/* What the thread knows of a source. */
struct one {
    char name[PL_NAME_MAX_BYTES + 1];
    char project[PL_NAME_MAX_BYTES + 1];
    json_t *settings;
    int64_t due_ms;       /* monotonic */
    uint64_t asked, done; /* numbers of the last look that was asked for, and that was completed */
    unsigned failures;    /* looks in a row that did not reach the repository */
    bool there;           /* found in the database by the reading that goes on */
    bool apply, compare;  /* what kinds of look are asked for */
    json_t *compared;     /* result of the last look that compared; NULL = none */
    bool changed;         /* its settings changed since the last look: read the commit again */
    struct one *next;
};

struct pl_sources {
    const struct pl_pipeline_host *host;
    char *folder, *program, *data_dir;
    char *local_text;
    const char *local[LOCAL_MAX]; /* folders with local repositories, links resolved */
    const char *named[LOCAL_MAX]; /* the same as configured */
    size_t n_local;
    struct pl_git_child *git;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct one *list;
    bool reload, stopping, ended;
};

/* ---- the list ---- */

static struct one *find(struct pl_sources *s, const char *name)
{
    struct one *o = s->list;

    while (o && !pl_streq(o->name, name))
        o = o->next;
    return o;
}

static void one_free(struct one *o)
{
    json_decref(o->settings);
    json_decref(o->compared);
    free(o);
}

/* Updates the list by a row of the database, {name, project, spec}; called with the lock. Keeps counters and times. */
static int merge_row(struct pl_sources *s, const json_t *row, struct pl_err *err)
{
    json_t *settings = json_object_get(row, "spec");
    struct one *o = find(s, pl_json_str(row, "name"));

    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o)
            return pl_err_nomem(err);
        snprintf(o->name, sizeof o->name, "%s", pl_json_str(row, "name"));
        o->next = s->list;
        s->list = o;
    }
    snprintf(o->project, sizeof o->project, "%s", pl_json_str(row, "project"));
    if (!json_equal(o->settings, settings)) {
        o->due_ms = 0;
        o->failures = 0;
        o->changed = true;
    }
    json_decref(o->settings);
    o->settings = json_deep_copy(settings);
    o->there = true;
    return o->settings ? 0 : pl_err_nomem(err);
}

/* Removes the copy of a source's repository. */
static void remove_copy(const struct pl_sources *s, const char *name)
{
    struct pl_err err = {0};
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s.git", s->folder, name) < (int)sizeof path && pl_io_remove_tree(path, &err) < 0)
        pl_log_warn("source", "%s cannot be removed: %s", path, err.msg);
}

/* Reads all sources from the database. */
static int read_rows(struct pl_sources *s, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->host->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT name, project, spec FROM source", "");

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
        r = pl_json_add(list,
                        json_pack("{s:s, s:s, s:o}", "name", pl_col_text(&rows, 0), "project", pl_col_text(&rows, 1), "spec",
                                  pl_col_json(&rows, 2)),
                        err);
    return r;
}

/* Brings the list up to date with the database; called without the lock, which no thread holds while it waits for the
 * database. `removes`: takes deleted sources off the list; only the thread does, because it may be looking at one. */
static int read_list(struct pl_sources *s, bool removes, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *rows = json_array();
    struct one *gone = NULL;
    const json_t *row;
    size_t i;
    int r = rows ? read_rows(s, rows, err) : pl_err_nomem(err);

    pthread_mutex_lock(&s->lock);
    for (struct one *o = s->list; o; o = o->next)
        o->there = false;
    json_array_foreach(rows, i, row)
    {
        r = r < 0 ? r : merge_row(s, row, err);
    }
    for (struct one **at = &s->list; r == 0 && removes && *at;) {
        struct one *o = *at;

        if (o->there) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        o->next = gone;
        gone = o;
    }
    pthread_mutex_unlock(&s->lock);
    while (gone) {
        struct one *o = gone;

        gone = o->next;
        remove_copy(s, o->name);
        one_free(o);
    }
    return r;
}

/* Returns the source that is due first, or NULL if none is due; `*ret_ms`: time until one is. A paused source is due only
 * when a look is asked for. */
static struct one *first_due(struct pl_sources *s, int64_t *ret_ms)
{
    const int64_t now = pl_clock_mono_ms();
    struct one *first = NULL;

    for (struct one *o = s->list; o; o = o->next)
        if ((!json_is_true(json_object_get(o->settings, "paused")) || o->asked > o->done) &&
            (!first || o->due_ms < first->due_ms))
            first = o;
    *ret_ms = first ? first->due_ms - now : INT64_MAX;
    return *ret_ms <= 0 ? first : NULL;
}

/* ---- local repositories ---- */

/* True if the path lies at or below the folder. */
static bool lies_in(const char *path, const char *folder)
{
    const size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/' || pl_streq(folder, "/"));
}

/* True if the path lies in one of the folders for local repositories. */
static bool is_allowed(const struct pl_sources *s, const char *path)
{
    bool allowed = false;

    for (size_t i = 0; i < s->n_local; i++)
        allowed = allowed || lies_in(path, s->local[i]) || lies_in(path, s->named[i]);
    return allowed;
}

/* Refuses a local repository that the daemon may not follow. Outside the allowed folders the answer does not say what
 * exists; inside, links are resolved. */
static int check_local(const struct pl_sources *s, const char *git, struct pl_err *err)
{
    const char *path = pl_source_local_path(git);
    char real[PATH_MAX];

    if (!path)
        return 0;
    if (s->n_local == 0)
        return pl_err_set(
            err, PL_EFORBIDDEN,
            "git: \"%.200s\": local repositories are not accepted: an admin of the daemon names folders for them in "
            "its setting git.local_folders",
            git);
    if (is_allowed(s, path) && !realpath(path, real))
        return errno == ENOENT ? pl_err_set(err, PL_ENOTFOUND, "git: there is no folder %.200s on the daemon's machine", path)
                               : pl_err_errno(err, errno, "%s", path);
    if (!is_allowed(s, path) || !is_allowed(s, real) || lies_in(real, s->data_dir))
        return pl_err_set(err, PL_EFORBIDDEN, "git: \"%.200s\" does not lie in one of the daemon's git.local_folders (%.300s)",
                          git, s->local_text);
    return 0;
}

int pl_sources_check(const struct pl_sources *s, const json_t *settings, bool update, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out = NULL;
    const char *git;
    int r = pl_source_settings_check(settings, update, &out, err);

    git = r < 0 ? NULL : json_string_value(json_object_get(out, "git"));
    if (git)
        r = check_local(s, git, err);
    if (r < 0)
        return err->field[0] ? r : pl_err_field(err, r, "git");
    *ret = TAKE_PTR(out);
    return 0;
}

/* ---- a look ---- */

/* A look at one source, with copies of what the list says. */
struct look {
    struct pl_sources *s;
    char name[PL_NAME_MAX_BYTES + 1], project[PL_NAME_MAX_BYTES + 1];
    json_t *settings;
    bool asked;   /* it was asked for, not only due */
    bool afresh;  /* read the commit again even if it is applied: the settings changed, or a look was asked for */
    bool changed; /* its settings changed: another repository or branch has nothing in common with the tip before */
    char *error, *seen, *applied; /* of the look before, "" = none */
    bool compare;                 /* only find out what the tip's commit would change */
    json_t *compared;             /* the result of that */
    json_t *tip;                  /* {id, author, message, at, forced} */
};

/* Drops what was found, so that the look can begin again. */
static void forget_look(struct look *l)
{
    json_decref(TAKE_PTR(l->tip));
    json_decref(TAKE_PTR(l->compared));
    free(TAKE_PTR(l->error));
    free(TAKE_PTR(l->seen));
    free(TAKE_PTR(l->applied));
}

static void look_finish(struct look *l)
{
    forget_look(l);
    json_decref(l->settings);
}

/* Reads what the look before found. */
static int read_state(struct look *l, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(l->s->host->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT seen, applied, error FROM source_state WHERE name = ?", "s", l->name);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    l->seen = strdup(r > 0 ? pl_col_text(&rows, 0) : "");
    l->applied = strdup(r > 0 ? pl_col_text(&rows, 1) : "");
    l->error = strdup(r > 0 ? pl_col_text(&rows, 2) : "");
    return l->error && l->seen && l->applied ? 0 : pl_err_nomem(err);
}

static int ask_tip(struct look *l, struct pl_err *err)
{
    const char *git = pl_json_str(l->settings, "git");
    int r = check_local(l->s, git, err);

    r = r < 0 ? r
              : pl_git_child_ask(l->s->git,
                                 json_pack("{s:s, s:s, s:s, s:s, s:s}", "do", "look", "copy", l->name, "url", git, "branch",
                                           pl_json_str(l->settings, "branch"), "have", l->changed ? "" : l->seen),
                                 LOOK_MS, err);
    r = r < 0 ? r : pl_git_child_line(l->s->git, &l->tip, err);
    if (r == 0 && !*pl_json_str(l->tip, "id"))
        r = pl_err_set(err, PL_EIO, "pl-git sent no answer");
    return r;
}

/* {subject, author, at, forced} of the tip, and what its specs set. */
static json_t *details_of(const struct look *l, struct pl_source_commit *c, const struct pl_source_apply *done)
{
    const char *message = pl_json_str(l->tip, "message");
    json_t *warnings = c->warnings ? json_incref(c->warnings) : json_array();
    const json_t *name;
    size_t i;

    json_array_foreach(done ? done->left : NULL, i, name)
    {
        json_array_append_new(warnings, json_sprintf("pipeline \"%s\" is in no file any more, and still runs: pipelinectl delete "
                                                     "pipeline %s",
                                                     json_string_value(name), json_string_value(name)));
    }
    if (json_is_true(json_object_get(l->tip, "forced")))
        json_array_append_new(warnings, json_sprintf("the branch was rewritten: commit %.12s is not in its history", l->seen));
    return json_pack("{s:s%, s:s, s:I, s:o*, s:o, s:O*}", "subject", message, strcspn(message, "\n"), "author",
                     pl_json_str(l->tip, "author"), "at", json_integer_value(json_object_get(l->tip, "at")) * 1000000,
                     "pipelines", done ? pl_source_commit_names(c) : NULL, "warnings", warnings, "errors",
                     done ? NULL : c->errors);
}

static void record(struct look *l, const char *state, const char *error, const char *applied, json_t *details)
{
    struct pl_source_seen seen = {.name = l->name,
                                  .state = state,
                                  .error = error,
                                  .seen = pl_json_str(l->tip, "id"),
                                  .applied = applied,
                                  .details = details};
    struct pl_err err = {0};

    if (pl_db_run(l->s->host->db, PL_TX_UNLOGGED, pl_tx_source_seen, &seen, &err) < 0)
        pl_log_warn("source", "source %s: its state cannot be recorded: %s", l->name, err.msg);
}

/* Reads the specs of the tip's commit and sets their pipelines, or with l->compare finds out what that would change. */
static int set_pipelines(struct look *l, struct pl_source_commit *c, struct pl_source_apply *done, struct pl_err *err)
{
    int r;

    *c = (struct pl_source_commit){.host = l->s->host,
                                   .git = l->s->git,
                                   .source = l->name,
                                   .project = l->project,
                                   .url = pl_json_str(l->settings, "git"),
                                   .branch = pl_json_str(l->settings, "branch"),
                                   .path = pl_json_str(l->settings, "path"),
                                   .id = pl_json_str(l->tip, "id"),
                                   .author = pl_json_str(l->tip, "author"),
                                   .message = pl_json_str(l->tip, "message"),
                                   .at_s = json_integer_value(json_object_get(l->tip, "at")),
                                   .dry_run = l->compare,
                                   .asked = l->asked};
    r = pl_source_commit_read(c, err);
    return r < 0 ? r : pl_source_commit_apply(c, done, err);
}

/* Sets the pipelines of the tip's commit, and records the outcome. */
static int apply(struct look *l)
{
    struct pl_source_apply done = {0};
    struct pl_source_commit c;
    struct pl_err err = {0};
    json_t *details;
    int r = set_pipelines(l, &c, &done, &err);

    if (r == PL_ECANCELED || r == PL_ESTOPPING) { /* the daemon stops: the next start looks again */
        pl_source_commit_finish(&c);
        json_decref(done.left);
        return 0;
    }
    details = details_of(l, &c, r == 0 ? &done : NULL);
    record(l, r < 0 ? "invalid" : "following", r < 0 ? err.msg : "", r < 0 ? "" : c.id, details);
    if (r < 0 && !pl_streq(err.msg, l->error))
        pl_log_warn("source", "source %s: commit %.12s changes nothing: %s", l->name, c.id, err.msg);
    else if (r == 0)
        pl_log_info("source", "source %s: commit %.12s set %zu pipelines", l->name, c.id, c.n);
    json_decref(details);
    json_decref(done.left);
    pl_source_commit_finish(&c);
    return r;
}

/* Finds out what applying the tip's commit would change. An error is part of the result. */
static int compare(struct look *l, int r, struct pl_err *err)
{
    struct pl_source_apply done = {0};
    struct pl_source_commit c = {0};

    r = r < 0 ? r : set_pipelines(l, &c, &done, err);
    l->compared = json_pack("{s:s, s:s, s:o, s:O*, s:O*, s:O*}", "commit", pl_json_str(l->tip, "id"), "error",
                            r < 0 ? err->msg : "", "pipelines", r < 0 ? json_array() : pl_source_commit_changes(&c), "left",
                            done.left, "warnings", c.warnings, "errors", r < 0 ? c.errors : NULL);
    json_decref(done.left);
    pl_source_commit_finish(&c);
    return r;
}

/* Looks at a source once. Errors of the commit are recorded and returned like those of the repository. */
static int look_once(struct look *l)
{
    struct pl_err err = {0};
    int r = read_state(l, &err);

    r = r < 0 ? r : ask_tip(l, &err);
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
    if (!l->afresh && pl_streq(pl_json_str(l->tip, "id"), l->applied) && pl_streq(l->seen, l->applied)) {
        record(l, "following", "", "", NULL); /* nothing new */
        return 0;
    }
    return apply(l);
}

/* Looks at a source; a damaged copy of its repository is removed and fetched once more. Returns false if the repository was
 * not reached or kept pl-git busy for too long: the next look then waits longer. */
static bool look(struct look *l)
{
    int r = look_once(l);

    if (r == PL_ECORRUPT) {
        pl_log_warn("source", "source %s: the copy of its repository is damaged and is fetched anew", l->name);
        pl_git_child_drop(l->s->git);
        remove_copy(l->s, l->name);
        forget_look(l);
        r = look_once(l);
    }
    return r != PL_ECORRUPT && r != PL_EIO && r != PL_ETIMEOUT && r != PL_EUNAVAILABLE && (r >= 0 || l->tip);
}

/* ---- the thread ---- */

/* Looks at the source without the lock; it may be deleted meanwhile. */
static void look_at(struct pl_sources *s, struct one *o)
{
    _cleanup_(look_finish) struct look l = {.s = s,
                                            .settings = json_deep_copy(o->settings),
                                            .compare = o->compare && !o->apply,
                                            .asked = o->apply || o->compare,
                                            .afresh = o->changed || o->apply,
                                            .changed = o->changed};
    const uint64_t asked = o->asked;
    int64_t interval_ms = 0;
    uint32_t random;
    bool reached;

    snprintf(l.name, sizeof l.name, "%s", o->name);
    snprintf(l.project, sizeof l.project, "%s", o->project);
    if (l.compare)
        o->compare = false;
    else
        o->changed = o->apply = false;
    pthread_mutex_unlock(&s->lock);
    reached = look(&l);
    pl_random_bytes(&random, sizeof random);
    if (pl_duration_parse(pl_json_str(l.settings, "interval"), &interval_ms, NULL) < 0)
        interval_ms = PL_SOURCE_INTERVAL_MAX_MS; /* cannot happen: it was checked */
    pthread_mutex_lock(&s->lock);
    o = find(s, l.name);
    if (!o)
        return;
    if (l.compare) {
        json_decref(o->compared);
        o->compared = TAKE_PTR(l.compared);
    }
    if (!o->apply && !o->compare) /* all that was asked for up to `asked` is done */
        o->done = asked;
    o->failures = reached ? 0 : o->failures + 1;
    o->due_ms = o->asked > o->done || o->changed ? 0 : pl_clock_mono_ms() + pl_source_wait_ms(interval_ms, o->failures, random);
}

static void wait_for(struct pl_sources *s, int64_t ms)
{
    struct timespec until;

    if (ms == INT64_MAX) {
        pthread_cond_wait(&s->wake, &s->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&s->wake, &s->lock, &until);
}

/* Removes copies of sources that were deleted while no daemon ran, or during a look. */
static void remove_strays(struct pl_sources *s)
{
    DIR *folder = opendir(s->folder);
    const struct dirent *e;

    while (folder && (e = readdir(folder))) {
        const size_t len = strlen(e->d_name);
        char name[PL_NAME_MAX_BYTES + 1];
        bool known;

        if (len < 5 || len - 4 >= sizeof name || !pl_streq(e->d_name + len - 4, ".git"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - 4), e->d_name);
        pthread_mutex_lock(&s->lock);
        known = find(s, name) != NULL;
        pthread_mutex_unlock(&s->lock);
        if (!known)
            remove_copy(s, name);
    }
    if (folder)
        closedir(folder);
}

static void *follow(void *arg)
{
    struct pl_sources *s = arg;
    struct pl_err err = {0};
    bool tidied = false;
    struct one *o;
    int64_t ms;
    int r = 0;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        if (s->reload) {
            s->reload = false;
            pthread_mutex_unlock(&s->lock);
            r = read_list(s, true, &err);
            if (r == 0 && !tidied)
                remove_strays(s);
            tidied = tidied || r == 0;
            if (r < 0)
                pl_log_warn("source", "the list of sources cannot be read: %s", err.msg);
            pthread_mutex_lock(&s->lock);
            s->reload = s->reload || r < 0;
            if (s->stopping) /* it was set while the lock was free */
                break;
        }
        o = first_due(s, &ms);
        if (o) {
            look_at(s, o);
            continue;
        }
        pl_git_child_rest(s->git); /* no process is left over while nothing is due */
        if (!s->reload || r < 0)
            wait_for(s, s->reload ? PL_MIN(ms, (int64_t)RELOAD_AGAIN_MS) : ms);
    }
    s->ended = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void pl_sources_changed(struct pl_sources *s)
{
    pthread_mutex_lock(&s->lock);
    s->reload = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

uint64_t pl_sources_look(struct pl_sources *s, const char *name, bool compare)
{
    struct one *o;
    uint64_t number = 0;

    (void)!read_list(s, false, NULL); /* it may be new */
    pthread_mutex_lock(&s->lock);
    s->reload = true; /* what was read may be older than what the thread has read meanwhile */
    o = find(s, name);
    if (o) {
        number = ++o->asked;
        if (compare)
            o->compare = true;
        else
            o->apply = true;
        o->due_ms = 0;
        pthread_cond_broadcast(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return number;
}

json_t *pl_sources_compared(struct pl_sources *s, const char *name)
{
    json_t *copy = NULL;
    struct one *o;

    pthread_mutex_lock(&s->lock);
    o = find(s, name);
    if (o && o->compared)
        copy = json_deep_copy(o->compared); /* the counters of JSON values are not for several threads */
    pthread_mutex_unlock(&s->lock);
    return copy;
}

uint64_t pl_sources_looks(struct pl_sources *s, const char *name)
{
    struct one *o;
    uint64_t done;

    pthread_mutex_lock(&s->lock);
    o = find(s, name);
    done = o ? o->done : 0;
    pthread_mutex_unlock(&s->lock);
    return done;
}

/* ---- start and stop ---- */

/* Reads the setting local_folders. */
static int read_folders(struct pl_sources *s, const char *text, struct pl_err *err)
{
    char *rest;

    s->local_text = strdup(text);
    rest = s->local_text ? strdup(text) : NULL;
    if (!rest)
        return pl_err_nomem(err);
    for (char *save = NULL, *name = strtok_r(rest, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        char real[PATH_MAX];
        struct stat st;
        int r = 0;

        name += strspn(name, " ");
        for (size_t len = strlen(name); len > 1 && (name[len - 1] == ' ' || name[len - 1] == '/'); len--)
            name[len - 1] = '\0';
        if (*name != '/')
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: \"%.200s\" is not an absolute path", name);
        else if (!realpath(name, real))
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: %.200s: %s", name, strerror(errno));
        else if (lies_in(real, s->data_dir) || lies_in(s->data_dir, real))
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: %.200s lies in or above the daemon's data folder %.200s", name,
                           s->data_dir);
        else if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: %.200s is not a folder", name);
        else if (s->n_local == LOCAL_MAX)
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: more than %d folders", LOCAL_MAX);
        else if (!(s->local[s->n_local] = strdup(real)) || !(s->named[s->n_local] = strdup(name)))
            r = pl_err_nomem(err);
        if (r < 0) {
            free(rest);
            return r;
        }
        s->n_local++;
    }
    free(rest);
    return 0;
}

/* Sets the paths that the sources use, and makes the folder of the copies. */
static int make_paths(struct pl_sources *s, const struct pl_sources_config *config, struct pl_err *err)
{
    char own[PATH_MAX], data[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash;

    if (n < 0 || !realpath(config->data_dir, data))
        return pl_err_errno(err, errno, "%s", n < 0 ? "/proc/self/exe" : config->data_dir);
    own[n] = '\0';
    slash = strrchr(own, '/');
    s->data_dir = strdup(data);
    if (config->program ? !(s->program = strdup(config->program))
                        : asprintf(&s->program, "%.*s/pl-git", slash ? (int)(slash - own) : 0, own) < 0)
        return pl_err_nomem(err);
    if (!s->data_dir || asprintf(&s->folder, "%s/cache/git", s->data_dir) < 0)
        return pl_err_nomem(err);
    return pl_io_mkdirs(s->folder, 0700, err);
}

static void sources_free(struct pl_sources *s)
{
    while (s->list) {
        struct one *o = s->list;

        s->list = o->next;
        one_free(o);
    }
    pl_git_child_destroy(s->git);
    for (size_t i = 0; i < LOCAL_MAX; i++) {
        free((char *)s->local[i]);
        free((char *)s->named[i]);
    }
    free(s->local_text);
    free(s->data_dir);
    free(s->program);
    free(s->folder);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int pl_sources_start(const struct pl_sources_config *config, struct pl_sources **ret, struct pl_err *err)
{
    struct pl_sources *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    int r;

    if (!s)
        return pl_err_nomem(err);
    s->host = config->host;
    s->reload = true;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
    r = make_paths(s, config, err);
    r = r < 0 ? r : read_folders(s, config->local_folders, err);
    r = r < 0 ? r : pl_git_child_create(s->program, s->folder, s->local, s->n_local, &s->git, err);
    if (r == 0 && pthread_create(&s->thread, NULL, follow, s) != 0)
        r = pl_err_set(err, PL_EIO, "cannot start a thread for sources");
    if (r < 0) {
        sources_free(s);
        return r;
    }
    pthread_setname_np(s->thread, "sources");
    *ret = s;
    return 0;
}

void pl_sources_drain(struct pl_sources *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pl_git_child_cancel(s->git);
}

bool pl_sources_drained(struct pl_sources *s, int64_t ms)
{
    bool ended = true;

    if (s) {
        pthread_mutex_lock(&s->lock);
        if (!s->ended)
            wait_for(s, ms);
        ended = s->ended;
        pthread_mutex_unlock(&s->lock);
    }
    return ended;
}

struct pl_sources *pl_sources_destroy(struct pl_sources *s)
{
    if (!s)
        return NULL;
    pl_sources_drain(s);
    pthread_join(s->thread, NULL);
    sources_free(s);
    return NULL;
}
