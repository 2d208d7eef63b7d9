/* The collector's thread: decides when to collect, runs rounds of collection for each project, and keeps the
 * report. */
#include "pipelined/db/gc/gc.h"

#include "pipelined/db/gc/gc_round.h"
#include "pipelined/db/retention/retention.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/tx/upload_session_tx.h"
#include "pipelined/db/writer/db_recover.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/base/path.h"
#include "storage/store/project_stores.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/sync_priority.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* most rounds over a project in one collection: the first condemns packs, the second dooms them and condemns
 * those from which records were copied, the third dooms these */
#define ROUNDS_MAX 3
#define NICE       10

/* State of a project that has a condemned pack. */
struct project {
    uint64_t condemned_at;
};

struct pl_gc {
    struct pl_gc_config config;
    char *index_dir;
    int64_t created_ms;
    char boot[64];      /* boot id of the machine */
    bool lost_sessions; /* the last crash may have lost sessions: doom nothing for one session's lifetime */
    pthread_t thread;
    bool thread_started;
    _Atomic bool stop;   /* stops the running collection */
    struct pl_map known; /* project → struct project; used by the collector's thread only */
    struct pl_map removed;

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t wake;  /* wakes the collector's thread */
    pthread_cond_t over;  /* signalled when a collection has ended */
    bool ending, asked, asked_dry;
    int64_t next_ms;
    struct pl_gc_report report;
};

void pl_gc_report_finish(struct pl_gc_report *r)
{
    json_decref(r->repos);
    r->repos = NULL;
}

static bool is_stopped(void *self)
{
    struct pl_gc *gc = self;

    return atomic_load(&gc->stop);
}

/* ---- projects in the store ---- */

/* marker folder in index_dir. If it exists, index_dir has a folder for each project that had packs in the
 * store when the marker was made. A later project gets its folder when its store is opened */
#define LISTED ".listed"

struct listing {
    struct pl_gc *gc;
    char last[PL_NAME_MAX_BYTES + 1];
};

/* Makes a folder in index_dir for the project of an object key p/PROJECT/…. Keys come in order, so equal
 * projects follow each other. */
static int note_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct listing *l = arg;
    const char *name = key + 2, *end = strchr(name, '/');
    char path[PATH_MAX];

    (void)size;
    if (is_stopped(l->gc))
        return pl_err_set(err, PL_ECANCELED, "the collection was stopped");
    if (!end || (size_t)(end - name) >= sizeof l->last ||
        ((size_t)(end - name) == strlen(l->last) && strncmp(name, l->last, (size_t)(end - name)) == 0))
        return 0;
    snprintf(l->last, sizeof l->last, "%.*s", (int)(end - name), name);
    if (pl_name_check("project", l->last, NULL) < 0)
        return 0;
    snprintf(path, sizeof path, "%s/%s", l->gc->index_dir, l->last);
    return pl_io_mkdirs(path, 0700, err);
}

/* Lists the projects in the store and makes their folders, once for each index_dir. After a recovery, or if
 * an administrator deleted the folder, only the packs in the store show which deleted projects existed. */
static int list_store(struct pl_gc *gc, struct pl_err *err)
{
    struct listing l = {.gc = gc};
    char path[PATH_MAX];
    int r;

    snprintf(path, sizeof path, "%s/" LISTED, gc->index_dir);
    if (access(path, F_OK) == 0)
        return 0;
    r = pl_object_list(pl_db_objects(gc->config.db), "p/", note_key, &l, err);
    r = r < 0 ? r : pl_io_mkdirs(path, 0700, err);
    return r < 0 ? pl_err_wrap(err, r, "cannot list the projects of the store") : 0;
}

/* ---- the projects ---- */

static int add_project(json_t *list, const char *name, struct pl_err *err)
{
    return pl_json_has_text(list, name) ? 0 : pl_json_add(list, json_string(name), err);
}

/* Lists the projects that exist, those that have a folder in index_dir, and those with packs in pack_state. */
static int list_projects(struct pl_gc *gc, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(gc->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    DIR *dir = opendir(gc->index_dir);
    struct dirent *entry;
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT name FROM project UNION SELECT project FROM pack_state ORDER BY 1", "");

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
        if ((r = add_project(list, pl_col_text(&rows, 0), err)) < 0)
            break;
    while (r >= 0 && dir && (entry = readdir(dir)))
        if (pl_name_check("project", entry->d_name, NULL) == 0)
            r = add_project(list, entry->d_name, err);
    if (dir)
        closedir(dir);
    return r;
}

/* ---- a collection ---- */

static void note(void *self, const char *phase, uint64_t done, uint64_t all)
{
    struct pl_gc *gc = self;

    pthread_mutex_lock(&gc->lock);
    gc->report.phase = phase;
    gc->report.done = done;
    gc->report.all = all;
    pthread_mutex_unlock(&gc->lock);
}

/* Adds a round's sums to the report. Only the first round of a project reports what exists. */
static void add_sums(struct pl_gc *gc, struct pl_gc_report *sums, bool first)
{
    struct pl_gc_report *r = &gc->report;

    pthread_mutex_lock(&gc->lock);
    if (first) {
        r->packs += sums->packs;
        r->bytes += sums->bytes;
        r->live_bytes += sums->live_bytes;
        r->missing += sums->missing;
    }
    r->freed_packs += sums->freed_packs;
    r->freed_bytes += sums->freed_bytes;
    r->copied_packs += sums->copied_packs;
    r->copied_bytes += sums->copied_bytes;
    if (sums->repos && r->repos)
        (void)json_array_extend(r->repos, sums->repos);
    pthread_mutex_unlock(&gc->lock);
    pl_gc_report_finish(sums);
}

/* Removes the project's entry from the map `known`, which lists only projects that have condemned packs. */
static void forget_project(struct pl_gc *gc, const char *name)
{
    free(pl_map_remove(&gc->known, name, strlen(name)));
}

static struct project *project_of(struct pl_gc *gc, const char *name, struct pl_err *err)
{
    struct project *p = pl_map_get(&gc->known, name, strlen(name));

    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p || pl_map_put(&gc->known, name, strlen(name), p, NULL, err) < 0) {
        free(p);
        return NULL;
    }
    return p;
}

static int write_boot(struct pl_tx *tx, void *arg, struct pl_err *err);

/* True if no session that a crash may have lost can still be in use. Called on the collector's thread only. */
static bool settled(struct pl_gc *gc)
{
    if (gc->lost_sessions && pl_clock_mono_ms() - gc->created_ms >= PL_UPLOAD_SESSION_LEASE_S * 1000LL)
        gc->lost_sessions = pl_db_run(gc->config.db, PL_TX_UNLOGGED, write_boot, gc, NULL) < 0;
    return !gc->lost_sessions;
}

/* Collects one project: runs rounds until another would find nothing to do now. */
static int collect_project(struct pl_gc *gc, const char *name, bool dry, const struct pl_retention_dropped *going,
                           struct pl_err *err)
{
    struct project *p = project_of(gc, name, err);
    struct pl_gc_round g = {.db = gc->config.db,
                            .stores = gc->config.stores,
                            .opens = gc->config.opens,
                            .keep = gc->config.keep,
                            .keeper = gc->config.keeper,
                            .project = name,
                            .watch = {.stop = is_stopped, .note = note, .self = gc},
                            .may_doom = settled(gc),
                            .budget_us = PL_GC_TX_US,
                            .going = going,
                            .removed = &gc->removed};
    int r = p ? 0 : pl_err_nomem(err);

    if (p)
        g.condemned_at = p->condemned_at;
    for (unsigned i = 0; r == 0 && i < ROUNDS_MAX && (i == 0 || g.again); i++) {
        g.sums = (struct pl_gc_report){0};
        g.waiting = false;
        r = dry ? pl_gc_foresee(&g, err) : pl_gc_collect(&g, err);
        p->condemned_at = g.condemned_at;
        add_sums(gc, &g.sums, i == 0);
    }
    pthread_mutex_lock(&gc->lock);
    gc->report.waiting_packs += g.sums.waiting_packs; /* condemned packs left after the last round */
    gc->report.waiting_bytes += g.sums.waiting_bytes;
    pthread_mutex_unlock(&gc->lock);
    if (r == 0 && !dry && !g.waiting)
        forget_project(gc, name);
    return r;
}

/* Says whether the project has condemned packs and all sessions, leases and store holds that existed when the
 * packs were condemned have ended. */
static int is_due(struct pl_gc *gc, const char *name, bool *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(gc->config.db);
    const struct project *p = pl_map_get(&gc->known, name, strlen(name));
    struct pl_store *store = pl_project_stores_peek(gc->config.stores, name);
    int64_t first, oldest;
    int r = pl_sql_int(rd.conn, err, &first,
                       "SELECT coalesce(min(seq), 9223372036854775807) FROM pack_state WHERE project = ? AND state = 'condemned'",
                       "s", name);

    r = r < 0 ? r : pl_pack_state_oldest_reader(rd.conn, name, pl_clock_wall_us(), &oldest, err);
    *ret = r == 0 && first != INT64_MAX && first <= oldest && settled(gc) &&
           (!p || !store || pl_store_quiet_since(store, p->condemned_at));
    return r;
}

enum why { ASKED, ASKED_DRY, BY_THE_CLOCK, LOOKING };

/* Runs the retention pass of a requested collection. Errors are logged, and the collection goes on. */
static void keep(struct pl_gc *gc, enum why why, struct pl_retention_dropped *going)
{
    struct pl_retention_run pass = {
        .db = gc->config.db, .dry_run = why == ASKED_DRY, .stop = is_stopped, .self = gc, .going = going};

    if (why != ASKED && why != ASKED_DRY)
        return;
    pl_retention_run_all(&pass);
    pthread_mutex_lock(&gc->lock);
    gc->report.commits = pass.commits;
    pthread_mutex_unlock(&gc->lock);
}

/* Collects each project; returns the first error. */
static int collect_each(struct pl_gc *gc, enum why why, const struct pl_retention_dropped *going, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *projects = json_array();
    const json_t *one;
    size_t i;
    int first = projects ? list_projects(gc, projects, err) : pl_err_nomem(err);

    /* an error in one project, such as damage, does not keep the others from being collected */
    json_array_foreach(projects, i, one)
    {
        const char *name = json_string_value(one);
        struct pl_err why_not = {0};
        bool due = true;
        int r = why == LOOKING ? is_due(gc, name, &due, &why_not) : 0;

        pthread_mutex_lock(&gc->lock);
        snprintf(gc->report.project, sizeof gc->report.project, "%s", name);
        pthread_mutex_unlock(&gc->lock);
        r = r == 0 && due ? collect_project(gc, name, why == ASKED_DRY, going, &why_not) : r;
        if (r < 0 && first == 0) {
            first = r;
            *err = why_not;
        }
        if (r == PL_ECANCELED)
            break;
    }
    return first;
}

static int collect_all(struct pl_gc *gc, enum why why, struct pl_err *err)
{
    struct pl_retention_dropped going = {0};
    struct pl_err why_not = {0};
    int listed = why == LOOKING ? 0 : list_store(gc, &why_not), r;

    keep(gc, why, &going);
    r = collect_each(gc, why, &going, err);
    if (r == 0 && listed < 0) {
        *err = why_not;
        r = listed;
    }
    pl_retention_dropped_finish(&going);
    return r;
}

/* Saves in meta 'gc_at' when a collection last ended, so that restarts do not change the interval. */
static int write_at(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "INSERT OR REPLACE INTO meta(key, value) VALUES ('gc_at', CAST(? AS TEXT))", "i",
                        pl_tx_now_us(tx));

    (void)arg;
    return PL_MIN(r, 0);
}

static int write_event(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_gc_report *r = arg;

    return pl_tx_event(tx, "gc",
                       json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "freed_packs", (json_int_t)r->freed_packs, "freed_bytes",
                                 (json_int_t)r->freed_bytes, "waiting_packs", (json_int_t)r->waiting_packs, "waiting_bytes",
                                 (json_int_t)r->waiting_bytes, "commits", (json_int_t)r->commits, "error", r->error.msg),
                       err);
}

/* Logs an error, and writes an event unless the collection did nothing. */
static void tell(struct pl_gc *gc, enum why why)
{
    struct pl_gc_report r;

    pl_gc_report(gc, &r);
    if (r.error.code)
        pl_log_warn("gc", "%s", r.error.msg);
    if (why == ASKED || why == BY_THE_CLOCK)
        (void)!pl_db_run(gc->config.db, PL_TX_UNLOGGED, write_at, NULL, NULL);
    if (why == ASKED || (why != ASKED_DRY && (r.freed_packs || r.commits || r.error.code)))
        (void)!pl_db_run(gc->config.db, PL_TX_UNLOGGED, write_event, &r, NULL);
    pl_gc_report_finish(&r);
}

/* Runs one collection. Caller holds the lock, which is released meanwhile. */
static void collect(struct pl_gc *gc, enum why why)
{
    struct pl_err err = {0};
    int r;

    pl_gc_report_finish(&gc->report);
    gc->report = (struct pl_gc_report){.running = true,
                                       .dry_run = why == ASKED_DRY,
                                       .number = gc->report.number + 1,
                                       .phase = why == ASKED || why == ASKED_DRY ? "keep" : "mark",
                                       .started_us = pl_clock_wall_us(),
                                       .repos = json_array()};
    gc->asked = false;
    atomic_store(&gc->stop, gc->ending);
    pthread_mutex_unlock(&gc->lock);
    r = collect_all(gc, why, &err);
    pthread_mutex_lock(&gc->lock);
    if (r < 0)
        gc->report.error = err;
    gc->report.phase = "";
    gc->report.finished_us = pl_clock_wall_us();
    if (why != LOOKING && gc->config.every_ms)
        gc->next_ms = pl_clock_mono_ms() + gc->config.every_ms;
    pthread_mutex_unlock(&gc->lock);
    tell(gc, why);
    pthread_mutex_lock(&gc->lock);
    gc->report.running = false;
    pthread_cond_broadcast(&gc->over);
}

/* ---- the thread ---- */

static void wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t mono_ms)
{
    struct timespec at = {.tv_sec = mono_ms / 1000, .tv_nsec = mono_ms % 1000 * 1000000L};

    pthread_cond_timedwait(cond, lock, &at);
}

/* True if some project has condemned packs that need not wait any longer. Caller holds the lock, which is
 * released meanwhile. */
static bool anything_due(struct pl_gc *gc)
{
    _cleanup_(json_decrefp) json_t *projects = json_array();
    bool due = false;
    const json_t *one;
    size_t i;

    pthread_mutex_unlock(&gc->lock);
    if (projects && list_projects(gc, projects, NULL) < 0)
        json_array_clear(projects);
    json_array_foreach(projects, i, one)
    {
        bool this_one = false;

        due = (is_due(gc, json_string_value(one), &this_one, NULL) == 0 && this_one) || due;
    }
    pthread_mutex_lock(&gc->lock);
    return due;
}

/* The collector's thread: waits for a request, the schedule or the next check of condemned packs. */
static void *gc_main(void *arg)
{
    struct pl_gc *gc = arg;
    int64_t look_ms = 0;

    (void)pthread_setname_np(pthread_self(), "gc");
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pl_sync_priority_set(true);
    pthread_mutex_lock(&gc->lock);
    while (!gc->ending) {
        int64_t now = pl_clock_mono_ms();

        if (gc->asked || (gc->config.every_ms && now >= gc->next_ms)) {
            collect(gc, !gc->asked ? BY_THE_CLOCK : gc->asked_dry ? ASKED_DRY : ASKED);
            look_ms =
                /* no check for condemned packs is needed soon after a collection. A check might start another
                 * collection, which would replace the report that the client waits for */
                pl_clock_mono_ms() + PL_GC_LOOK_MS;
        } else if (now >= look_ms) {
            look_ms = now + PL_GC_LOOK_MS;
            if (anything_due(gc))
                collect(gc, LOOKING);
        } else {
            wait_until(&gc->wake, &gc->lock, gc->config.every_ms ? PL_MIN(look_ms, gc->next_ms) : look_ms);
        }
    }
    pthread_mutex_unlock(&gc->lock);
    return NULL;
}

int pl_gc_start(struct pl_gc *gc, struct pl_err *err)
{
    int r = pthread_create(&gc->thread, NULL, gc_main, gc);

    gc->thread_started = r == 0;
    return r ? pl_err_errno(err, r, "cannot start the garbage collection thread") : 0;
}

/* ---- lost sessions ---- */

/* Returns the time that is left until the next scheduled collection. */
static int64_t time_left_ms(struct pl_gc *gc)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(gc->config.db);
    int64_t every_ms = gc->config.every_ms, since_ms, at_us;

    if (pl_sql_int(rd.conn, NULL, &at_us, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'gc_at'", "") < 0)
        return every_ms;
    since_ms = (pl_clock_wall_us() - at_us) / 1000;
    /* negative: the wall clock was set back */
    return since_ms < 0 ? every_ms : PL_MAX(every_ms - since_ms, (int64_t)0);
}

/* Reads meta 'boot_id', which names a boot of the machine. No session was lost since that boot. If the
 * machine was booted again, or the database was recovered, sessions may be lost. Then the value is cleared
 * until those sessions have expired. */
static int read_boot(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_gc *gc = arg;
    _cleanup_free_ char *known = NULL;
    int r = pl_sql_text(pl_tx_conn(tx), err, &known, "SELECT value FROM meta WHERE key = 'boot_id'", "");

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    gc->lost_sessions = pl_db_recovered(gc->config.db)->recovered || (known && !pl_streq(known, gc->boot));
    if (known && !gc->lost_sessions)
        return 0;
    r = pl_sql_exec(pl_tx_conn(tx), err, "INSERT OR REPLACE INTO meta(key, value) VALUES ('boot_id', ?)", "s",
                    gc->lost_sessions ? "" : gc->boot);
    return PL_MIN(r, 0);
}

/* Saves the boot id, once lost sessions have expired. */
static int write_boot(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_gc *gc = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE meta SET value = ? WHERE key = 'boot_id'", "s", gc->boot);

    return PL_MIN(r, 0);
}

/* Finds out whether sessions may be lost: unlogged transactions survive the daemon's death, but perhaps not the
 * machine's. */
static int note_boot(struct pl_gc *gc, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf id = {.max = sizeof gc->boot};

    snprintf(gc->boot, sizeof gc->boot, "unknown");
    if (pl_io_read_file("/proc/sys/kernel/random/boot_id", &id, NULL) == 0 && id.len > 1)
        snprintf(gc->boot, sizeof gc->boot, "%.*s", (int)id.len - 1, (const char *)id.data);
    return pl_db_run(gc->config.db, PL_TX_UNLOGGED, read_boot, gc, err);
}

int pl_gc_create(const struct pl_gc_config *config, struct pl_gc **ret, struct pl_err *err)
{
    struct pl_gc *gc = calloc(1, sizeof *gc);
    pthread_condattr_t monotonic;
    int r;

    if (!gc)
        return pl_err_nomem(err);
    gc->config = *config;
    gc->created_ms = pl_clock_mono_ms();
    gc->next_ms = gc->created_ms + time_left_ms(gc);
    gc->report.phase = "";
    pthread_mutex_init(&gc->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&gc->wake, &monotonic);
    pthread_cond_init(&gc->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    gc->index_dir = strdup(config->index_dir);
    r = gc->index_dir ? note_boot(gc, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_gc_destroy(gc);
        return pl_err_wrap(err, r, "garbage collection");
    }
    *ret = gc;
    return 0;
}

struct pl_gc *pl_gc_destroy(struct pl_gc *gc)
{
    if (!gc)
        return NULL;
    pthread_mutex_lock(&gc->lock);
    gc->ending = true;
    atomic_store(&gc->stop, true);
    pthread_cond_broadcast(&gc->wake);
    pthread_cond_broadcast(&gc->over);
    pthread_mutex_unlock(&gc->lock);
    if (gc->thread_started)
        pthread_join(gc->thread, NULL);
    pl_gc_report_finish(&gc->report);
    pl_map_finish(&gc->known, free);
    pl_map_finish(&gc->removed, NULL);
    pthread_cond_destroy(&gc->over);
    pthread_cond_destroy(&gc->wake);
    pthread_mutex_destroy(&gc->lock);
    free(gc->index_dir);
    free(gc);
    return NULL;
}

/* ---- public functions ---- */

int pl_gc_begin(struct pl_gc *gc, bool dry_run, uint64_t *ret, struct pl_err *err)
{
    bool busy;
    int r = 0;

    pthread_mutex_lock(&gc->lock);
    busy = gc->report.running || gc->asked;
    if (busy && (gc->report.running ? gc->report.dry_run : gc->asked_dry) != dry_run) {
        r = pl_err_set(err, PL_EBUSY, "a %s is running: wait for its end, or stop it", dry_run ? "collection" : "dry run");
    } else if (!busy) {
        gc->asked = true;
        gc->asked_dry = dry_run;
        pthread_cond_broadcast(&gc->wake);
    }
    *ret = gc->report.number + !gc->report.running;
    pthread_mutex_unlock(&gc->lock);
    return r;
}

/* Ends a requested collection that has not begun. Caller holds the lock. */
static void give_up(struct pl_gc *gc)
{
    int64_t now_us = pl_clock_wall_us();

    pl_gc_report_finish(&gc->report);
    gc->report = (struct pl_gc_report){
        .dry_run = gc->asked_dry, .number = gc->report.number + 1, .phase = "", .started_us = now_us, .finished_us = now_us};
    (void)!pl_err_set(&gc->report.error, PL_ECANCELED, "the collection was stopped before it began");
    pthread_cond_broadcast(&gc->over);
}

void pl_gc_stop(struct pl_gc *gc)
{
    pthread_mutex_lock(&gc->lock);
    if (gc->report.running)
        atomic_store(&gc->stop, true);
    else if (gc->asked)
        give_up(gc);
    gc->asked = false;
    pthread_mutex_unlock(&gc->lock);
}

void pl_gc_report(struct pl_gc *gc, struct pl_gc_report *ret)
{
    pthread_mutex_lock(&gc->lock);
    *ret = gc->report;
    ret->running = gc->report.running || gc->asked;
    ret->repos = gc->report.repos ? json_deep_copy(gc->report.repos) : NULL;
    pthread_mutex_unlock(&gc->lock);
}

void pl_gc_wait(struct pl_gc *gc, uint64_t number, int64_t wait_ms)
{
    int64_t until = pl_clock_mono_ms() + wait_ms;

    pthread_mutex_lock(&gc->lock);
    while (!gc->ending && (gc->asked || gc->report.number < number || gc->report.running) && pl_clock_mono_ms() < until)
        wait_until(&gc->over, &gc->lock, until);
    pthread_mutex_unlock(&gc->lock);
}
