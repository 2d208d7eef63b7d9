/* The writer thread runs each transaction of a group in a savepoint, puts one log object, and commits. */
#include "pipelined/db/writer/db.h"

#include "pipelined/db/writer/db_open.h"
#include "pipelined/db/writer/log_apply.h"
#include "pipelined/db/writer/log_epoch.h"
#include "pipelined/db/writer/log_watch.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/policy/disk_space.h"
#include "pipelined/text/json_text.h"
#include "storage/base/alloc_failure.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/http/trace_context.h"
#include "storage/system/io.h"
#include "storage/system/lock_order.h"
#include "storage/system/trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/statvfs.h>

#define READERS_MAX         16
#define UNKNOWN_PAUSE_MS    200
#define UNKNOWN_PATIENCE_MS (10 * 60 * 1000) /* how long to repeat a put whose result is unknown; then the daemon stops */
#define EVENTS_TRIM_EVERY   4096

struct pending {
    struct pending *next;
    enum pl_tx_class class;
    pl_tx_fn fn;
    pl_tx_done done;
    void *arg;
    int64_t at_ms;                        /* monotonic; when it was submitted */
    char trace[PL_TRACEPARENT_CHARS + 1]; /* of the thread that submitted it; "" = none */
    int result;
    struct pl_err err;
};

struct new_event {
    int64_t id;
    char *type;
    char *data;
    size_t owner; /* index, in the group, of the transaction that made the event */
};

struct new_state {
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_hash pack;
    char state[16];
};

struct pl_tx {
    struct pl_db *db;
    struct pl_log_batch batch;
    struct new_event *events;
    size_t n_events, cap_events;
    struct new_state *states; /* pack states that the group's transactions set */
    size_t n_states, cap_states;
    size_t at; /* index of the running transaction in the group */
    enum pl_tx_class class;
    int64_t now_us;
    uint64_t seq; /* the log object that this group will make */
    bool full;    /* the log object has no room for the records of the running transaction */
    bool breaks;  /* the database no longer matches the log */
};

struct pl_db {
    struct pl_db_config config;
    char *dir;
    char store_hex[33];
    int lock_fd;
    struct pl_conn *writer;
    bool synchronous;        /* the writer's COMMIT syncs to the disk */
    struct pl_log_head head; /* last log object; writer thread only */
    struct pl_recover_report recovered;
    _Atomic uint64_t seq, checkpoint;
    uint64_t events_made;

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct pending *first, *last;
    size_t queued;
    int64_t running_ms; /* when the oldest transaction of the running group was submitted; 0 = none runs */
    bool stopping;
    atomic_bool broken; /* give_up was called: all transactions fail */
    pthread_t thread;
    bool thread_started;
    struct pl_log_watch *watch;
    struct pl_clock_trust *clock;

    pthread_mutex_t readers_mutex;
    pthread_cond_t reader_free;
    struct pl_conn *readers[READERS_MAX];
    unsigned n_readers, n_free;
};

const char *pl_db_store_id(const struct pl_db *db)
{
    return db->store_hex;
}

const struct pl_recover_report *pl_db_recovered(const struct pl_db *db)
{
    return &db->recovered;
}

struct pl_object_store *pl_db_objects(const struct pl_db *db)
{
    return db->config.objects;
}

struct pl_clock_trust *pl_db_clock(struct pl_db *db)
{
    return db->clock;
}

uint64_t pl_db_epoch(const struct pl_db *db)
{
    return db->head.epoch;
}

uint64_t pl_db_log_seq(struct pl_db *db)
{
    return db->seq;
}

void pl_db_note_checkpoint(struct pl_db *db, uint64_t seq)
{
    db->checkpoint = seq;
}

void pl_db_get_lag(struct pl_db *db, struct pl_db_lag *ret)
{
    int64_t oldest_ms;

    pthread_mutex_lock(&db->mutex);
    oldest_ms = db->running_ms ? db->running_ms : db->first ? db->first->at_ms : 0;
    ret->queued = db->queued;
    pthread_mutex_unlock(&db->mutex);
    ret->oldest_ms = oldest_ms ? pl_clock_mono_ms() - oldest_ms : 0;
    ret->seq = db->seq;
    ret->checkpoint = db->checkpoint;
}

struct pl_conn *pl_tx_conn(struct pl_tx *tx)
{
    return tx->db->writer;
}

int64_t pl_tx_now_us(const struct pl_tx *tx)
{
    return tx->now_us;
}

static int keep_state(struct pl_tx *tx, const json_t *payload, struct pl_err *err)
{
    struct new_state *s;

    if (tx->n_states == tx->cap_states) {
        size_t cap = tx->cap_states ? tx->cap_states * 2 : 16;

        s = reallocarray(tx->states, cap, sizeof *s);
        if (!s)
            return pl_err_nomem(err);
        tx->states = s;
        tx->cap_states = cap;
    }
    s = &tx->states[tx->n_states++];
    snprintf(s->project, sizeof s->project, "%s", json_string_value(json_object_get(payload, "project")));
    snprintf(s->state, sizeof s->state, "%s", json_string_value(json_object_get(payload, "state")));
    return pl_hash_parse(json_string_value(json_object_get(payload, "pack")), &s->pack, err);
}

/* Adds a record to the group's log object and applies it; remembers a new pack state for config.pack_state. */
int pl_tx_emit(struct pl_tx *tx, uint16_t kind, json_t *payload, struct pl_err *err)
{
    _cleanup_free_ char *text = NULL;
    int r;

    if (!payload)
        return pl_err_nomem(err);
    text = pl_json_text(payload, JSON_COMPACT | JSON_SORT_KEYS);
    r = text ? 0 : pl_err_nomem(err);
    if (r == 0 && tx->class != PL_TX_LOGGED)
        r = pl_err_set(err, PL_EINTERNAL, "an unlogged transaction must not make a log record: %s", pl_record_name(kind));
    if (r == 0) {
        r = pl_log_batch_add(&tx->batch, kind, text, strlen(text), err);
        tx->full = r == PL_ETOOBIG;
    }
    r = r < 0 ? r : pl_apply_record(tx->db->writer, kind, payload, tx->seq, err);
    if (r >= 0 && kind == PL_RECORD_RUN && *pl_trace_context())
        r = pl_db_run_trace_write(tx->db->writer, pl_json_str(payload, "id"), pl_trace_context(), err);
    if (r >= 0 && kind == PL_RECORD_PACK_STATE)
        r = keep_state(tx, payload, err);
    json_decref(payload);
    return r;
}

static int keep_event(struct pl_tx *tx, int64_t id, const char *type, const char *data, struct pl_err *err)
{
    struct new_event *e;

    if (tx->n_events == tx->cap_events) {
        size_t cap = tx->cap_events ? tx->cap_events * 2 : 16;

        e = realloc(tx->events, cap * sizeof *e);
        if (!e)
            return pl_err_nomem(err);
        tx->events = e;
        tx->cap_events = cap;
    }
    e = &tx->events[tx->n_events];
    *e = (struct new_event){id, strdup(type), strdup(data), tx->at};
    if (!e->type || !e->data) {
        free(e->type);
        free(e->data);
        return pl_err_nomem(err);
    }
    tx->n_events++;
    return 0;
}

int pl_tx_event(struct pl_tx *tx, const char *type, json_t *data, struct pl_err *err)
{
    _cleanup_free_ char *text = data ? pl_json_text(data, JSON_COMPACT) : NULL;
    int r;

    json_decref(data);
    if (!text)
        return pl_err_nomem(err);
    r = pl_sql_exec(tx->db->writer, err, "INSERT INTO event(at_us, type, data) VALUES (?, ?, ?)", "iss", tx->now_us, type, text);
    return r < 0 ? r : keep_event(tx, sqlite3_last_insert_rowid(tx->db->writer->db), type, text, err);
}

static void drop_events_from(struct pl_tx *tx, size_t keep)
{
    while (tx->n_events > keep) {
        struct new_event *e = &tx->events[--tx->n_events];

        free(e->type);
        free(e->data);
    }
}

enum ran {
    RAN,     /* the transaction ran: p->result is its result */
    NO_ROOM, /* the group's log object has no room for its records: run it again, first in the next group */
    /* SQLite rolled back the whole group (no memory, full disk, I/O error inside a statement): p->result says why */
    GROUP_GONE
};

/* Sets the transaction's result to the cause of SQLite's rollback, whatever its function returned. */
static enum ran group_gone(const struct pl_conn *c, struct pending *p)
{
    int cause = c->lost ? c->lost : PL_EIO;

    if (p->result >= 0)
        p->result = pl_err_set(&p->err, cause, "the database has rolled back the whole group of transactions");
    else if (p->result != cause)
        p->result = pl_err_wrap(&p->err, cause, "the database has rolled back the whole group of transactions");
    return GROUP_GONE;
}

/* Runs one transaction of the group in its own savepoint. */
static enum ran run_one(struct pl_tx *tx, struct pending *p, size_t at)
{
    struct pl_conn *c = tx->db->writer;
    size_t batch_bytes = tx->batch.records.len, events = tx->n_events, states = tx->n_states;
    uint32_t batch_n = tx->batch.n;

    tx->at = at;
    tx->full = false;
    p->err = (struct pl_err){0};
    p->result = pl_sql_script(c, "SAVEPOINT t", &p->err);
    if (p->result < 0)
        return GROUP_GONE;
    c->in_group = true;
    c->lost = 0;
    (void)pl_alloc_failure_take();
    pl_trace_context_set(p->trace);
    p->result = p->fn(tx, p->arg, &p->err);
    pl_trace_context_set(NULL);
    c->in_group = false;
    if (pl_alloc_failure_take() && p->result >= 0) /* the function may have ignored the failure and left a record incomplete */
        p->result = pl_err_nomem(&p->err);
    if (sqlite3_get_autocommit(c->db)) /* SQLite rolled back; the function may have ignored that error */
        return group_gone(c, p);
    if (p->result >= 0)
        p->result = pl_sql_script(c, "RELEASE t", &p->err);
    if (p->result >= 0)
        return RAN;
    pl_log_batch_truncate(&tx->batch, batch_bytes, batch_n);
    drop_events_from(tx, events);
    tx->n_states = states;
    if (sqlite3_get_autocommit(c->db) || pl_sql_script(c, "ROLLBACK TO t; RELEASE t", NULL) < 0)
        return GROUP_GONE;
    return tx->full && batch_n > 0 ? NO_ROOM : RAN;
}

static int trim_events(struct pl_db *db, const struct pl_tx *tx, struct pl_err *err)
{
    uint64_t before = db->events_made;

    db->events_made += tx->n_events;
    if (before / EVENTS_TRIM_EVERY == db->events_made / EVENTS_TRIM_EVERY)
        return 0;
    /* Ids rise with time, so the oldest events have the lowest ids. The newest event stays whatever its age. */
    return pl_sql_exec(db->writer, err,
                       "DELETE FROM event WHERE id < max((SELECT max(id) FROM event) - ? + 1,"
                       " coalesce((SELECT id FROM event WHERE at_us >= ? ORDER BY id LIMIT 1), (SELECT max(id) FROM event)))",
                       "ii", (int64_t)PL_EVENTS_KEPT, tx->now_us - (int64_t)PL_EVENTS_KEPT_DAYS * 86400 * 1000000);
}

/* Checks the free disk space: a full disk must fail before the log object is put, not in the COMMIT after it. */
static int check_room(const struct pl_db *db, const struct pl_tx *tx, struct pl_err *err)
{
    const uint64_t want = PL_DISK_SPACE_LOG_BYTES + tx->batch.records.len;
    struct statvfs fs;
    uint64_t left;

    if (statvfs(db->dir, &fs) < 0)
        return pl_err_errno(err, errno, "%s", db->dir);
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left >= want)
        return 0;
    return pl_err_set(err, PL_ENOSPC, "the disk of %s has %llu KiB free, the database needs %llu KiB", db->dir,
                      (unsigned long long)left >> 10, (unsigned long long)want >> 10);
}

/* Waits before the next attempt to append to the log; readers are not blocked. False: the db is stopping. */
static bool pause_before_asking(struct pl_db *db)
{
    struct timespec until;
    bool stopping;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += UNKNOWN_PAUSE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&db->mutex);
    while (!db->stopping && pthread_cond_timedwait(&db->wake, &db->mutex, &until) != ETIMEDOUT)
        ;
    stopping = db->stopping;
    pthread_mutex_unlock(&db->mutex);
    return !stopping;
}

/* Puts the log object; repeats the put while a network error leaves it unknown whether the object was stored. */
static int append(struct pl_db *db, const struct pl_tx *tx, bool *ret_unknown, struct pl_err *err)
{
    const int64_t patience_ms = pl_clock_mono_ms() + UNKNOWN_PATIENCE_MS;
    bool unknown;
    int r = pl_log_append(db->config.objects, &db->head, &tx->batch, ret_unknown, err);

    while (*ret_unknown && (r == PL_ENET || r == PL_ETIMEOUT) && pl_clock_mono_ms() < patience_ms && pause_before_asking(db)) {
        r = pl_log_append(db->config.objects, &db->head, &tx->batch, &unknown, err);
        *ret_unknown = r < 0 && r != PL_EFENCED; /* this error does not say whether an earlier attempt stored the object */
        if (*ret_unknown)
            r = PL_ENET;
    }
    return r;
}

static int save_clock(struct pl_db *db, struct pl_err *err)
{
    const struct pl_clock_view now = pl_clock_trust_look(db->clock);

    return pl_sql_exec(db->writer, err, "INSERT OR REPLACE INTO meta(key, value) VALUES ('clock_us', ?)", "i", now.now_us);
}

static int keep_clock(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return PL_MIN(save_clock(tx->db, err), 0);
}

int pl_db_keep_clock(struct pl_db *db, struct pl_err *err)
{
    return pl_db_run(db, PL_TX_UNLOGGED, keep_clock, NULL, err);
}

/* Puts the log object, then commits. The object cannot be undone: a COMMIT that fails after it stops the daemon. */
static int make_durable(struct pl_db *db, struct pl_tx *tx, struct pl_err *err)
{
    bool logged = tx->batch.n > 0, unknown = false;
    int r = trim_events(db, tx, err);

    if (r < 0)
        return r;
    if (logged) {
        r = check_room(db, tx, err);
        if (r < 0)
            return r;
        r = append(db, tx, &unknown, err);
        if (r < 0) {
            tx->breaks = unknown || r == PL_EFENCED;
            return r;
        }
        r = pl_db_save_head(db->writer, &db->head, err);
        r = r < 0 ? r : save_clock(db, err);
    }
    r = r < 0 ? r : pl_sql_script(db->writer, "COMMIT", err);
    tx->breaks = r < 0 && logged;
    if (r == 0) {
        db->seq = db->head.seq;
        pl_log_watch_at(db->watch, db->head.seq);
    }
    return r;
}

static void publish(struct pl_db *db, struct pl_tx *tx)
{
    for (size_t i = 0; i < tx->n_states && db->config.pack_state; i++)
        db->config.pack_state(db->config.arg, tx->states[i].project, &tx->states[i].pack, tx->states[i].state);
    if (!db->config.event)
        return;
    for (size_t i = 0; i < tx->n_events; i++)
        db->config.event(db->config.arg, tx->events[i].id, tx->now_us, tx->events[i].type, tx->events[i].data);
}

static void answer(struct pending *group)
{
    for (struct pending *next; group; group = next) {
        next = group->next;
        if (group->done)
            group->done(group->arg, group->result < 0 ? group->result : 0, &group->err);
        free(group);
    }
}

static void fail_group(struct pending *group, int r, const struct pl_err *err)
{
    for (; group; group = group->next) {
        if (group->result < 0)
            continue;
        group->result = r;
        group->err = *err;
    }
}

/* Runs the transactions in order. The first one without room in the log object, and the rest, go to `*ret_rest`. */
static int run_all(struct pl_tx *tx, struct pending *group, struct pending **ret_rest, struct pl_err *err)
{
    struct pending *before = NULL;
    size_t at = 0;

    for (struct pending *p = group; p; before = p, p = p->next) {
        switch (run_one(tx, p, at++)) {
        case RAN:
            break;
        case NO_ROOM: /* `before` is not NULL: the first transaction never gets NO_ROOM (run_one) */
            *ret_rest = p;
            before->next = NULL;
            return 0;
        case GROUP_GONE:
            *err = p->err;
            return p->result;
        }
    }
    return 0;
}

/* Makes the next COMMIT wait for the disk if the group is logged. An unlogged group survives a death of the
 * daemon, but perhaps not a crash of the machine: leases, attempts and events are then those of the last
 * logged group, whose COMMIT synced everything written before it. */
static int set_synchronous(struct pl_db *db, enum pl_tx_class class, struct pl_err *err)
{
    bool full = class == PL_TX_LOGGED;
    int r;

    if (full == db->synchronous)
        return 0;
    r = pl_sql_script(db->writer, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err);
    if (r == 0)
        db->synchronous = full;
    return r;
}

/* Marks the database as broken, so that all waiting transactions fail, and calls config.fatal once. */
static void give_up(void *self, const struct pl_err *err)
{
    struct pl_db *db = self;

    if (!atomic_exchange(&db->broken, true) && db->config.fatal)
        db->config.fatal(db->config.arg, err);
}

/* Runs the group and calls each `done`; returns the transactions that the log object had no room for. */
static struct pending *run_group(struct pl_db *db, struct pending *group)
{
    struct pl_tx tx = {.db = db, .class = group->class, .now_us = pl_clock_wall_us(), .seq = db->head.seq + 1};
    struct pending *rest = NULL;
    struct pl_err err = {0};
    int r = db->broken ? pl_err_set(&err, PL_ESTOPPING, "the daemon is stopping: its database is out of step with the log") : 0;

    r = r < 0 ? r : set_synchronous(db, group->class, &err);
    r = r < 0 ? r : pl_sql_script(db->writer, "BEGIN IMMEDIATE", &err);
    if (r == 0) {
        r = run_all(&tx, group, &rest, &err);
        r = r < 0 ? r : make_durable(db, &tx, &err);
        if (r < 0 && !sqlite3_get_autocommit(db->writer->db) && pl_sql_script(db->writer, "ROLLBACK", NULL) < 0)
            tx.breaks = true;
    }
    pl_trace("db/writer", "class %d, log %llu: %d, %u records, %lld us", group->class, (unsigned long long)tx.seq, r, tx.batch.n,
             (long long)(pl_clock_wall_us() - tx.now_us));
    if (r < 0)
        fail_group(group, r, &err);
    else
        publish(db, &tx);
    if (r >= 0 && tx.batch.n > 0 && db->config.logged)
        db->config.logged(db->config.arg, db->head.seq);
    if (tx.breaks)
        give_up(db, &err);
    answer(group);
    drop_events_from(&tx, 0);
    free(tx.events);
    free(tx.states);
    pl_log_batch_finish(&tx.batch);
    return rest;
}

/* Takes consecutive transactions of one class from the head of the queue. Caller holds the mutex. */
static struct pending *take_group(struct pl_db *db)
{
    struct pending *group = db->first, *p = group;
    size_t n = 1;

    while (p->next && p->next->class == group->class && n < PL_DB_GROUP_MAX) {
        p = p->next;
        n++;
    }
    db->first = p->next;
    if (!db->first)
        db->last = NULL;
    p->next = NULL;
    db->queued -= n;
    db->running_ms = group->at_ms;
    return group;
}

static void put_back(struct pl_db *db, struct pending *rest)
{
    struct pending *p = rest;

    pthread_mutex_lock(&db->mutex);
    for (db->queued++; p->next; p = p->next)
        db->queued++;
    p->next = db->first;
    db->first = rest;
    if (!db->last)
        db->last = p;
    pthread_mutex_unlock(&db->mutex);
}

/* The writer thread: runs groups until the queue is empty and the db stops. */
static void *writer_main(void *arg)
{
    struct pl_db *db = arg;
    struct pending *group, *rest;

    pthread_setname_np(pthread_self(), "db-writer");
    pl_lock_order_take(PL_LOCK_DB_WRITER);
    for (;;) {
        pthread_mutex_lock(&db->mutex);
        db->running_ms = 0;
        while (!db->first && !db->stopping)
            pthread_cond_wait(&db->wake, &db->mutex);
        if (!db->first) {
            pthread_mutex_unlock(&db->mutex);
            return NULL;
        }
        group = take_group(db);
        pthread_mutex_unlock(&db->mutex);
        rest = run_group(db, group);
        if (rest)
            put_back(db, rest);
    }
}

int pl_db_submit(struct pl_db *db, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg, struct pl_err *err)
{
    struct pending *p = calloc(1, sizeof *p);
    int r = 0;

    if (!p)
        return pl_err_nomem(err);
    *p = (struct pending){.class = class, .fn = fn, .done = done, .arg = arg, .at_ms = pl_clock_mono_ms()};
    snprintf(p->trace, sizeof p->trace, "%s", pl_trace_context());
    pthread_mutex_lock(&db->mutex);
    if (db->stopping) {
        r = pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    } else if (db->queued >= PL_DB_QUEUE_MAX) {
        r = pl_err_set(err, PL_EBUSY, "the database's write queue is full: %d transactions wait; try again", PL_DB_QUEUE_MAX);
    } else {
        if (db->last)
            db->last->next = p;
        else
            db->first = p;
        db->last = p;
        db->queued++;
        pthread_cond_signal(&db->wake);
        p = NULL;
    }
    pthread_mutex_unlock(&db->mutex);
    free(p);
    return r;
}

struct pl_conn *pl_db_reader(struct pl_db *db)
{
    struct pl_conn *c;

    pl_lock_order_take(PL_LOCK_DB_READER);
    pthread_mutex_lock(&db->readers_mutex);
    while (db->n_free == 0)
        pthread_cond_wait(&db->reader_free, &db->readers_mutex);
    c = db->readers[--db->n_free];
    pthread_mutex_unlock(&db->readers_mutex);
    return c;
}

void pl_db_reader_done(struct pl_db *db, struct pl_conn *c)
{
    pthread_mutex_lock(&db->readers_mutex);
    db->readers[db->n_free++] = c;
    pthread_cond_signal(&db->reader_free);
    pthread_mutex_unlock(&db->readers_mutex);
    pl_lock_order_give(PL_LOCK_DB_READER);
}

int pl_db_own_reader(struct pl_db *db, struct pl_conn **ret, struct pl_err *err)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/pipelined.db", db->dir);
    return pl_conn_open(path, true, ret, err);
}

static int open_readers(struct pl_db *db, unsigned n, struct pl_err *err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < n; i++) {
        r = pl_db_own_reader(db, &db->readers[i], err);
        db->n_readers = db->n_free = r < 0 ? i : i + 1;
    }
    return r;
}

/* Takes over the log: from here on every object carries this daemon's epoch. */
static int own_log(struct pl_db *db, struct pl_object_store *objects, struct pl_err *err)
{
    struct pl_log_head ours;
    int r = pl_log_epoch_open(objects, &db->head, &ours, err);

    r = r < 0 ? r : pl_db_replay(db->writer, objects, 0, false, &db->head, err);
    if (r == 0 && !pl_hash_eq(&db->head.hash, &ours.hash))
        r = pl_err_set(err, PL_EFENCED, "another daemon has taken over the store");
    return r;
}

int pl_db_check_owner(struct pl_db *db, struct pl_err *err)
{
    return pl_log_watch_look(db->watch, err);
}

bool pl_db_is_owner(struct pl_db *db, bool look)
{
    if (look)
        pl_log_watch_look_soon(db->watch);
    return pl_log_watch_is_ours(db->watch);
}

/* Starts the trusted clock at the newest time in the database. A database from an older program, or one
 * recovered without a checkpoint, has no saved time: then the time of its newest commit or run is used. */
static int start_clock(struct pl_db *db, struct pl_err *err)
{
    int64_t known_us = 0;
    int r =
        pl_sql_int(db->writer, err, &known_us,
                   "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'clock_us'),"
                   " max(coalesce((SELECT max(created_us) FROM commit_), 0), coalesce((SELECT max(created_us) FROM run), 0)))",
                   "");

    return r < 0 ? r : pl_clock_trust_create(known_us, &db->clock, err);
}

static int start_watch(struct pl_db *db, struct pl_err *err)
{
    const struct pl_log_watch_config c = {.objects = db->config.objects,
                                          .epoch = db->head.epoch,
                                          .seq = db->head.seq,
                                          .every_ms = db->config.watch_ms,
                                          .fenced = give_up,
                                          .self = db};

    return pl_log_watch_create(&c, &db->watch, err);
}

/* Opens everything in order: lock, database, clock, epoch, watch, writer thread, readers. */
static int start(struct pl_db *db, const struct pl_db_config *config, struct pl_err *err)
{
    int r = pl_db_lock(db->dir, &db->lock_fd, err);

    /* sync files that a killed daemon left unsynced: later durable data will depend on them */
    r = r < 0 ? r : pl_io_syncfs(db->dir, err);
    r = r < 0 ? r : pl_db_prepare(db->dir, config->objects, &db->writer, &db->head, &db->recovered, err);
    r = r < 0 ? r : start_clock(db, err);
    r = r < 0 ? r : own_log(db, config->objects, err);
    if (r < 0)
        return r;
    pl_hex_encode(db->head.store_id, sizeof db->head.store_id, db->store_hex);
    db->seq = db->head.seq;
    r = start_watch(db, err);
    if (r < 0)
        return r;
    if (pthread_create(&db->thread, NULL, writer_main, db) != 0)
        return pl_err_nomem(err);
    db->thread_started = true;
    return open_readers(db, PL_MIN(PL_MAX(config->readers, 1u), (unsigned)READERS_MAX), err);
}

int pl_db_open(const struct pl_db_config *config, struct pl_db **ret, struct pl_err *err)
{
    struct pl_db *db = calloc(1, sizeof *db);
    int r;

    if (!db)
        return pl_err_nomem(err);
    pl_json_note_lack();
    db->config = *config;
    db->lock_fd = -1;
    db->synchronous = true;
    pthread_mutex_init(&db->mutex, NULL);
    pthread_cond_init(&db->wake, NULL);
    pthread_mutex_init(&db->readers_mutex, NULL);
    pthread_cond_init(&db->reader_free, NULL);
    db->dir = strdup(config->dir);
    r = db->dir ? start(db, config, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_db_close(db);
        return r;
    }
    *ret = db;
    return 0;
}

void pl_db_stop(struct pl_db *db)
{
    pl_log_watch_stop(db->watch);
    if (!db->thread_started)
        return;
    pthread_mutex_lock(&db->mutex);
    db->stopping = true;
    pthread_cond_signal(&db->wake);
    pthread_mutex_unlock(&db->mutex);
    pthread_join(db->thread, NULL);
    db->thread_started = false;
}

struct pl_db *pl_db_close(struct pl_db *db)
{
    if (!db)
        return NULL;
    pl_db_stop(db);
    for (unsigned i = 0; i < db->n_readers; i++)
        pl_conn_close(db->readers[i]);
    if (db->writer && !db->broken)
        sqlite3_wal_checkpoint_v2(db->writer->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    pl_conn_close(db->writer);
    pl_log_watch_destroy(db->watch);
    pl_clock_trust_destroy(db->clock);
    pl_recover_report_finish(&db->recovered);
    pl_closep(&db->lock_fd);
    pthread_cond_destroy(&db->reader_free);
    pthread_mutex_destroy(&db->readers_mutex);
    pthread_cond_destroy(&db->wake);
    pthread_mutex_destroy(&db->mutex);
    free(db->dir);
    free(db);
    return NULL;
}
