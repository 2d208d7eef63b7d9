/* source: threads with one list of sources and the time at which each is due. The list is read from the database when it
 * changed. Each thread takes a source that is due, looks at it without the lock, and takes the next.
 *
 * The first thread does the work as long as it keeps up: with one pl-git process it looks at all that is due now or soon, and
 * then ends the process. It leaves alone the sources whose server was slow, or has not been asked yet, so that no number of
 * servers that hang holds up the others; the other threads take those, and what waits for longer. */
#include "pipelined/source/source.h"

#include "pipelined/source/git_child.h"
#include "pipelined/source/git_input.h"
#include "pipelined/source/source_look.h"
#include "pipelined/source/source_schedule.h"
#include "pipelined/source/source_settings.h"
#include "pipelined/source/webhooks.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/program_run.h"
#include "storage/system/timed_cond.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#define FOLLOWERS       4
#define HELP_MS         200  /* follower N takes a source only N times this long after it is due, so that follower 0 goes first */
#define SLOW_MS         5000 /* a look that takes longer is a slow one */
#define EARLY_MS        2000 /* the most by which a look comes early, to share a process with others */
#define EARLY_PART      20   /* and at most this part of the interval */
#define RELOAD_AGAIN_MS 5000 /* wait after the list could not be read */
#define READ_AGAIN      100  /* times the list is read anew because it changed during the reading */

/* A source, or a repo that follows git, on the list. */
struct one {
    char name[2 * PL_NAME_MAX_BYTES + 2]; /* of a repo: PROJECT.REPO; also that of the copy */
    char project[PL_NAME_MAX_BYTES + 1];
    int64_t created_us; /* tells it from an earlier one of the same name */
    json_t *settings;
    int64_t interval_ms;
    int64_t due_ms;       /* monotonic */
    uint64_t asked, done; /* numbers of the last look that was asked for, and that was completed */
    unsigned failures;    /* looks in a row that did not reach the repository */
    bool there;           /* set by read_list: the rows of the database contain it */
    bool gone;            /* deleted while a thread looks at it: `find` passes it over */
    bool busy;            /* a thread looks at it */
    bool slow;            /* the last look was slow, or there was none and the repository is not a local one */
    bool paused;
    /* numbers of the oldest looks of each kind that were asked for and have not begun; 0 = none */
    uint64_t apply_from, compare_from;
    json_t *compared; /* result of the last look that compared; NULL = none */
    bool changed;     /* its settings changed since the last look: read the commit again */
    bool hinted;      /* a webhook came since the last look began */
    struct one *next;
};

struct follower {
    struct pl_sources *sources;
    pthread_t thread;
    unsigned number; /* 0 = the first */
    struct pl_git_child *git;
};

struct pl_sources {
    const struct pl_pipeline_host *host;
    char *folder, *program, *rules;
    struct pl_source_addresses addresses;
    struct follower followers[FOLLOWERS];
    unsigned n_followers; /* threads that were started */
    struct pl_webhook_keys *hooks;
    struct pl_status_poster *poster;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct one *list;
    uint64_t merges; /* counts the changes of the list by read_list */
    bool reload, stopping, tidied;
    unsigned ended; /* threads */
};

/* ---- the list ---- */

static struct one *find(struct pl_sources *s, const char *name)
{
    struct one *o = s->list;

    while (o && (o->gone || !pl_streq(o->name, name)))
        o = o->next;
    return o;
}

/* True if a thread still looks at an earlier source of that name, whose copy of a repository it uses. */
static bool has_predecessor(const struct pl_sources *s, const struct one *o)
{
    for (const struct one *other = s->list; other; other = other->next)
        if (other->gone && pl_streq(other->name, o->name))
            return true;
    return false;
}

static void one_free(struct one *o)
{
    json_decref(o->settings);
    json_decref(o->compared);
    free(o);
}

/* Updates the list by a row of the database, {name, project, created_us, spec}; called with the lock. Keeps counters and
 * times. */
static int merge_row(struct pl_sources *s, const json_t *row, struct pl_err *err)
{
    json_t *settings = json_object_get(row, "spec");
    const int64_t created_us = json_integer_value(json_object_get(row, "created_us"));
    struct one *o = find(s, pl_json_str(row, "name"));

    if (o && (o->created_us != created_us || !pl_streq(o->project, pl_json_str(row, "project")))) {
        o->gone = true; /* deleted, and another one was created */
        o = NULL;
    }
    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o)
            return pl_err_nomem(err);
        snprintf(o->name, sizeof o->name, "%s", pl_json_str(row, "name"));
        o->next = s->list;
        s->list = o;
    }
    snprintf(o->project, sizeof o->project, "%s", pl_json_str(row, "project"));
    o->created_us = created_us;
    if (!json_equal(o->settings, settings)) {
        o->due_ms = 0;
        o->failures = 0;
        o->changed = true;
        o->slow = *pl_json_str(settings, "git") != '/';
    }
    json_decref(o->settings);
    o->settings = json_deep_copy(settings);
    o->paused = json_is_true(json_object_get(settings, "paused"));
    if (pl_duration_parse(pl_json_str(settings, "interval"), &o->interval_ms, NULL) < 0)
        o->interval_ms = PL_SOURCE_INTERVAL_MAX_MS; /* cannot happen: it was checked */
    o->there = true;
    return o->settings ? 0 : pl_err_nomem(err);
}

/* Reads all sources from the database. */
static int read_rows(struct pl_sources *s, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->host->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(
        rd.conn, err, &rows,
        "SELECT name, project, spec, created_us FROM source UNION ALL"
        " SELECT r.project || '.' || r.name, r.project, json_object('repo', r.name, 'id', r.id,"
        " 'git', coalesce(json_extract(r.options, '$.git.url'), json_extract(s.spec, '$.git'), ''),"
        " 'branch', coalesce(json_extract(r.options, '$.git.branch'), json_extract(s.spec, '$.branch'), ''),"
        " 'secret', coalesce(json_extract(r.options, '$.git.secret'), json_extract(s.spec, '$.secret'), ''),"
        " 'source', coalesce(json_extract(r.options, '$.git.source'), ''),"
        " 'interval', coalesce(json_extract(s.spec, '$.interval'), '" PL_SOURCE_INTERVAL "'),"
        " 'paused', json(iif(json_extract(s.spec, '$.paused'), 'true', 'false'))), r.created_us"
        " FROM repo r LEFT JOIN source s ON s.project = r.project AND s.name = json_extract(r.options, '$.git.source')"
        " WHERE json_type(r.options, '$.git') IS NOT NULL",
        "");

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
        r = pl_json_add(list,
                        json_pack("{s:s, s:s, s:o, s:I}", "name", pl_col_text(&rows, 0), "project", pl_col_text(&rows, 1), "spec",
                                  pl_col_json(&rows, 2), "created_us", (json_int_t)pl_col_int(&rows, 3)),
                        err);
    return r;
}

/* Takes the sources that are gone off the list, unless a thread looks at them; called with the lock. Returns them, with their
 * copies set aside, so that a new source of the name does not meet them. */
static struct one *take_gone(struct pl_sources *s)
{
    struct one *gone = NULL;

    for (struct one **at = &s->list; *at;) {
        struct one *o = *at;

        o->gone = o->gone || !o->there;
        if (!o->gone || o->busy) {
            at = &o->next;
            continue;
        }
        pl_source_set_copy_aside(s->folder, o->name);
        *at = o->next;
        o->next = gone;
        gone = o;
    }
    return gone;
}

/* Brings the list up to date with the database; called without the lock, which no thread holds while it waits for the
 * database. Rows that were read before another thread changed the list may be older than it, and are read again. `removes`:
 * takes deleted sources off the list. */
static int read_list(struct pl_sources *s, bool removes, struct pl_err *err)
{
    struct one *gone = NULL;
    int r = PL_EBUSY;

    for (unsigned n = 0; r == PL_EBUSY && n < READ_AGAIN; n++) {
        _cleanup_(json_decrefp) json_t *rows = json_array();
        const json_t *row;
        uint64_t merges;
        size_t i;

        pthread_mutex_lock(&s->lock);
        merges = s->merges;
        pthread_mutex_unlock(&s->lock);
        r = rows ? read_rows(s, rows, err) : pl_err_nomem(err);
        pthread_mutex_lock(&s->lock);
        if (r == 0 && merges != s->merges)
            r = PL_EBUSY;
        for (struct one *o = s->list; r == 0 && o; o = o->next)
            o->there = o->gone;
        json_array_foreach(rows, i, row)
        {
            r = r < 0 ? r : merge_row(s, row, err);
        }
        s->merges += r == 0;
        if (r == 0 && removes)
            gone = take_gone(s);
        pthread_mutex_unlock(&s->lock);
    }
    if (r == PL_EBUSY)
        pl_err_set(err, r, "the list of sources changes all the time");
    while (gone) {
        struct one *o = gone;

        gone = o->next;
        pl_source_remove_aside(s->folder, o->name);
        one_free(o);
    }
    return r;
}

/* Returns the time at which the follower may take the source; INT64_MAX = not at all. `awake`: the follower has a process, and
 * takes what is due soon, too. */
static int64_t taken_at_ms(const struct follower *f, const struct one *o, bool awake)
{
    int64_t at = o->due_ms;

    if (o->busy || o->gone || (o->paused && o->asked <= o->done) || (o->slow && f->number == 0))
        return INT64_MAX;
    if (f->number > 0)
        at += (int64_t)(f->number - o->slow) * HELP_MS;
    else if (awake)
        at -= PL_MIN(o->interval_ms / EARLY_PART, (int64_t)EARLY_MS);
    return at;
}

/* Returns the source that the follower takes next, or NULL if none is due for it; `*ret_ms`: time until one is, INT64_MAX = none.
 * A paused source is due only when a look is asked for. */
static struct one *next_due(struct pl_sources *s, const struct follower *f, bool awake, int64_t *ret_ms)
{
    int64_t first_ms = INT64_MAX;
    struct one *first = NULL;

    for (struct one *o = s->list; o; o = o->next) {
        const int64_t at = taken_at_ms(f, o, awake);

        if (at < first_ms && !has_predecessor(s, o)) {
            first_ms = at;
            first = o;
        }
    }
    *ret_ms = first ? first_ms - pl_clock_mono_ms() : INT64_MAX;
    return *ret_ms <= 0 ? first : NULL;
}

int pl_sources_check(const struct pl_sources *s, const json_t *settings, bool update, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out = NULL;
    int r = pl_source_settings_check(settings, update, &out, err);
    const char *git = r < 0 ? NULL : json_string_value(json_object_get(out, "git"));

    r = git ? pl_source_address_check(&s->addresses, git, err) : r;
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}

int pl_sources_check_status(const struct pl_sources *s, const json_t *settings, struct pl_err *err)
{
    return pl_status_poster_check(s->addresses.outbound, settings, err);
}

/* ---- the threads ---- */

static bool may_have_applied(const struct pl_source_look *l)
{
    return l->tip && !l->compare && !*pl_json_str(l->settings, "repo") &&
           (l->afresh || !pl_streq(pl_json_str(l->tip, "id"), l->applied ? l->applied : ""));
}

/* Looks at the source without the lock. */
static void look_at(struct follower *f, struct one *o)
{
    struct pl_sources *s = f->sources;
    /* the oldest first, so that a stream of the one kind does not keep the other waiting */
    const bool compares = o->compare_from && (!o->apply_from || o->compare_from < o->apply_from);
    _cleanup_(pl_source_look_finish) struct pl_source_look l = {.host = s->host,
                                                                .addresses = &s->addresses,
                                                                .folder = s->folder,
                                                                .git = f->git,
                                                                .poster = s->poster,
                                                                .settings = json_deep_copy(o->settings),
                                                                .compare = compares,
                                                                .asked = o->apply_from || o->compare_from,
                                                                .afresh = o->changed || o->apply_from,
                                                                .changed = o->changed};
    const int64_t began_ms = pl_clock_mono_ms();
    const uint64_t asked = o->asked;
    /* what the other kind waits for is not done by this look */
    const uint64_t other_from = compares ? o->apply_from : o->compare_from;
    const bool slow = o->slow;
    uint32_t random;
    bool reached;

    snprintf(l.name, sizeof l.name, "%s", o->name);
    snprintf(l.project, sizeof l.project, "%s", o->project);
    l.created_us = o->created_us;
    if (l.compare)
        o->compare_from = 0;
    else {
        o->apply_from = 0;
        o->changed = o->hinted = false;
    }
    o->busy = true;
    pthread_mutex_unlock(&s->lock);
    reached = l.settings && (*pl_json_str(l.settings, "repo") ? pl_git_input_look(&l) : pl_source_look(&l));
    pl_source_bound_copy(&l);
    pl_random_bytes(&random, sizeof random);
    pthread_mutex_lock(&s->lock);
    o->busy = false;
    o->slow = pl_clock_mono_ms() - began_ms > SLOW_MS;
    s->reload = s->reload || o->gone || l.gone ||
                may_have_applied(&l); /* the next reading takes it off the list, and adds git inputs of new pipelines */
    if (l.compare) {
        json_decref(o->compared);
        o->compared = TAKE_PTR(l.compared);
    }
    o->done = PL_MAX(o->done, other_from ? other_from - 1 : asked);
    o->failures = reached ? 0 : o->failures + 1;
    if (o->gone || o->slow != slow) /* another thread may have to act */
        pthread_cond_broadcast(&s->wake);
    o->due_ms = o->asked > o->done || o->changed || o->hinted
                    ? 0
                    : pl_clock_mono_ms() + pl_source_wait_ms(o->interval_ms, o->failures, random);
}

/* Removes copies of sources that were deleted while no daemon ran, or during a look. */
static void remove_strays(struct pl_sources *s)
{
    DIR *folder = opendir(s->folder);
    const struct dirent *e;

    while (folder && (e = readdir(folder))) {
        const size_t len = strlen(e->d_name);
        char name[2 * PL_NAME_MAX_BYTES + 2];
        bool known;

        if (len < 5 || len - 4 >= sizeof name || !pl_streq(e->d_name + len - 4, ".git"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - 4), e->d_name);
        pthread_mutex_lock(&s->lock);
        known = find(s, name) != NULL;
        pthread_mutex_unlock(&s->lock);
        if (!known)
            pl_source_remove_copy(s->folder, name);
    }
    if (folder)
        closedir(folder);
}

/* Brings the list up to date; called with the lock, which it gives up meanwhile. */
static void reload(struct pl_sources *s)
{
    struct pl_err err = {0};
    const bool tidy = !s->tidied;
    int r;

    s->reload = false;
    s->tidied = true;
    pthread_mutex_unlock(&s->lock);
    r = read_list(s, true, &err);
    if (r == 0 && tidy)
        remove_strays(s);
    if (r < 0)
        pl_log_warn("source", "the list of sources cannot be read: %s", err.msg);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->wake); /* what is new may be for another thread, which found nothing in the list before */
    if (r < 0) {
        s->reload = true;
        s->tidied = s->tidied && !tidy;
        if (!s->stopping)
            pl_timed_cond_wait(&s->wake, &s->lock, RELOAD_AGAIN_MS);
    }
}

static void *follow(void *arg)
{
    struct follower *f = arg;
    struct pl_sources *s = f->sources;
    bool awake = false;
    struct one *o;
    int64_t ms;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        if (s->reload) {
            reload(s);
            continue;
        }
        o = next_due(s, f, awake, &ms);
        if (o) {
            look_at(f, o);
            awake = true;
        } else if (awake) { /* no process is left over while nothing is due */
            pthread_mutex_unlock(&s->lock);
            pl_git_child_rest(f->git);
            pthread_mutex_lock(&s->lock);
            awake = false;
        } else {
            pl_timed_cond_wait(&s->wake, &s->lock, ms);
        }
    }
    s->ended++;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void pl_sources_changed(struct pl_sources *s)
{
    (void)!read_list(s, false, NULL); /* settings of webhooks hold at once */
    pthread_mutex_lock(&s->lock);
    s->reload = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

bool pl_sources_webhook(struct pl_sources *s, const struct pl_webhook *hook)
{
    char project[PL_NAME_MAX_BYTES + 1], secret[PL_SECRET_NAME_MAX + 1];
    struct one *o;

    pthread_mutex_lock(&s->lock);
    o = find(s, hook->source);
    snprintf(project, sizeof project, "%s", o ? o->project : "");
    snprintf(secret, sizeof secret, "%s", o ? pl_json_str(o->settings, "hook_secret") : "");
    pthread_mutex_unlock(&s->lock);
    if (!pl_webhook_keys_check(s->hooks, hook, *secret ? &(struct pl_webhook_secret){project, secret} : NULL))
        return false;
    pthread_mutex_lock(&s->lock);
    for (o = s->list; o; o = o->next)
        if ((pl_streq(o->name, hook->source) ||
             (pl_streq(o->project, project) && pl_streq(pl_json_str(o->settings, "source"), hook->source))) &&
            !o->hinted) {
            o->hinted = true;
            o->due_ms = PL_MIN(o->due_ms, pl_clock_mono_ms()); /* not before other sources that are due */
            pthread_cond_broadcast(&s->wake);
        }
    pthread_mutex_unlock(&s->lock);
    return true;
}

void pl_sources_secret_changed(struct pl_sources *s)
{
    pl_webhook_keys_changed(s->hooks);
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
        uint64_t *from = compare ? &o->compare_from : &o->apply_from;

        number = ++o->asked;
        if (!*from)
            *from = number;
        o->due_ms = 0;
        pthread_cond_broadcast(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return number;
}

uint64_t pl_sources_look_repo(struct pl_sources *s, const char *project, const char *repo)
{
    char name[2 * PL_NAME_MAX_BYTES + 2];

    snprintf(name, sizeof name, "%s.%s", project, repo);
    return pl_sources_look(s, name, false);
}

uint64_t pl_sources_looks_repo(struct pl_sources *s, const char *project, const char *repo)
{
    char name[2 * PL_NAME_MAX_BYTES + 2];

    snprintf(name, sizeof name, "%s.%s", project, repo);
    return pl_sources_looks(s, name);
}

int pl_sources_check_inputs(const struct pl_sources *s, const struct pl_spec *spec, struct pl_err *err)
{
    return pl_git_inputs_check(&s->addresses, spec, err);
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

/* Sets the paths that the sources use and the rules for pl-git, and makes the folder of the copies. */
static int prepare(struct pl_sources *s, const struct pl_sources_config *config, struct pl_err *err)
{
    const struct pl_outbound_settings *rules = pl_outbound_settings_of(config->outbound);
    _cleanup_(json_decrefp) json_t *about = NULL;
    char program[PATH_MAX], data[PATH_MAX];
    int r = pl_program_folder_file("pl-git", program, err);

    if (r < 0)
        return r;
    if (!realpath(config->data_dir, data))
        return pl_err_errno(err, errno, "%s", config->data_dir);
    s->program = strdup(config->program ? config->program : program);
    if (!s->program)
        return pl_err_nomem(err);
    about = json_pack("{s:s, s:s, s:s, s:s}", "schemes", rules->schemes, "hosts", rules->hosts, "networks", rules->networks, "ca",
                      rules->ca);
    s->rules = about ? json_dumps(about, JSON_COMPACT) : NULL;
    if (!s->rules || asprintf(&s->folder, "%s/cache/git", data) < 0)
        return pl_err_nomem(err);
    return pl_source_addresses_read(&s->addresses, config->local_folders, data, config->outbound, err);
}

static void sources_free(struct pl_sources *s)
{
    while (s->list) {
        struct one *o = s->list;

        s->list = o->next;
        one_free(o);
    }
    for (unsigned i = 0; i < FOLLOWERS; i++)
        pl_git_child_destroy(s->followers[i].git);
    pl_source_addresses_finish(&s->addresses);
    pl_webhook_keys_destroy(s->hooks);
    pl_status_poster_destroy(s->poster);
    free(s->program);
    free(s->rules);
    free(s->folder);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Starts the threads. Those that were started before an error are counted. */
static int start_followers(struct pl_sources *s, struct pl_err *err)
{
    const struct pl_git_child_config config = {.program = s->program,
                                               .folder = s->folder,
                                               .rules = s->rules,
                                               .readable = (const char *const *)s->addresses.real,
                                               .n_readable = s->addresses.n};
    int r = 0;

    for (unsigned i = 0; r == 0 && i < FOLLOWERS; i++) {
        s->followers[i] = (struct follower){.sources = s, .number = i};
        r = pl_git_child_create(&config, &s->followers[i].git, err);
    }
    while (r == 0 && s->n_followers < FOLLOWERS) {
        struct follower *f = &s->followers[s->n_followers];

        if (pthread_create(&f->thread, NULL, follow, f) != 0)
            return pl_err_set(err, PL_EIO, "cannot start a thread for sources");
        s->n_followers++;
        pthread_setname_np(f->thread, "sources");
    }
    return r;
}

int pl_sources_start(const struct pl_sources_config *config, struct pl_sources **ret, struct pl_err *err)
{
    struct pl_sources *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return pl_err_nomem(err);
    s->host = config->host;
    s->reload = true;
    pl_timed_cond_init(&s->wake);
    pthread_mutex_init(&s->lock, NULL);
    r = prepare(s, config, err);
    r = r < 0 ? r : pl_io_mkdirs(s->folder, 0700, err);
    r = r < 0 ? r : pl_webhook_keys_create(&s->hooks, err);
    r = r < 0 ? r : pl_status_poster_create(config->outbound, config->public_url, &s->poster, err);
    r = r < 0 ? r : read_list(s, false, err); /* a webhook may come before the first thread runs */
    r = r < 0 ? r : start_followers(s, err);
    if (r < 0) {
        pl_sources_destroy(s);
        return r;
    }
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
    for (unsigned i = 0; i < s->n_followers; i++)
        pl_git_child_cancel(s->followers[i].git);
    if (s->poster)
        pl_status_poster_cancel(s->poster);
}

bool pl_sources_drained(struct pl_sources *s, int64_t ms)
{
    bool ended = true;

    if (s) {
        pthread_mutex_lock(&s->lock);
        if (s->ended < s->n_followers)
            pl_timed_cond_wait(&s->wake, &s->lock, ms);
        ended = s->ended == s->n_followers;
        pthread_mutex_unlock(&s->lock);
    }
    return ended;
}

struct pl_sources *pl_sources_destroy(struct pl_sources *s)
{
    if (!s)
        return NULL;
    pl_sources_drain(s);
    for (unsigned i = 0; i < s->n_followers; i++)
        pthread_join(s->followers[i].thread, NULL);
    sources_free(s);
    return NULL;
}
