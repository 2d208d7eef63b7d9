/* db: the metadata of one daemon, an SQLite database that is the applied image of the log.
 *
 *   submit ──▶ queue ──▶ writer thread: BEGIN ─ each transaction in a savepoint ─▶ log object ─▶ COMMIT ─▶ done()
 *                                        (validates, emits records, each applied at once)      durable
 *
 * One connection writes and checkpoints, on the writer thread; n read-only connections serve readers. A
 * transaction that emits records is durable when done() is called with 0. A transaction without records survives
 * the death of the process, and a crash of the machine once a later logged transaction is durable. Logged and
 * unlogged transactions are grouped apart, in order of submission within each group. Replay rebuilds whatever the
 * log holds with the same functions that applied it the first time (log_apply.h).
 *
 * Bounds: PL_DB_QUEUE_MAX waiting transactions, PL_DB_GROUP_MAX in a group, log objects of 8 MiB. */
#pragma once

#include "pipelined/db/writer/clock_trust.h"
#include "pipelined/db/writer/sql.h"
#include "storage/dataset/log/log.h"
#include "storage/dataset/log/log_record.h"

#define PL_DB_QUEUE_MAX      65536
#define PL_DB_GROUP_MAX      512
#define PL_DB_SCHEMA_VERSION 11
#define PL_EVENTS_KEPT       1000000
#define PL_EVENTS_KEPT_DAYS  7

struct pl_db;
struct pl_tx; /* one running transaction; writer thread only */

struct pl_db_config {
    const char *dir;                 /* holds pipelined.db and the lock */
    struct pl_object_store *objects; /* the store of the log; must outlive the db */
    unsigned readers;                /* read-only connections, 1..16 */
    /* interval of checks whether another daemon took the log over; 0 = only on pl_db_check_owner */
    int64_t watch_ms;
    /* Called once, on any thread, when the daemon must stop: another daemon fenced it (PL_EFENCED), or a
     * COMMIT failed after its log object was put. */
    void (*fatal)(void *arg, const struct pl_err *err);
    /* Called on the writer thread with each new event after its COMMIT; `id` is final, `data` is compact
     * JSON. */
    void (*event)(void *arg, int64_t id, int64_t at_us, const char *type, const char *data);
    /* Called on the writer thread after a record of a pack's state (storage/dataset/gc/gc.h) was logged and
     * applied, to update the state in memory. May be NULL. */
    void (*pack_state)(void *arg, const char *project, const struct pl_hash *pack, const char *state);
    /* Called on the writer thread when the log has grown to object `seq`. May be NULL. */
    void (*logged)(void *arg, uint64_t seq);
    void *arg;
};

/* Opens or creates the database: takes the folder's lock, replays the log after what was applied (all of it when
 * the folder is empty), and writes this start's epoch (log_epoch.h). PL_ELOCKED: another daemon runs on the
 * folder. PL_EFORMAT: the database is newer than this program. PL_ELOG: the database is ahead of the log, or
 * belongs to another log. */
PL_MUST_CHECK
int pl_db_open(const struct pl_db_config *config, struct pl_db **ret, struct pl_err *err);
/* Finishes all submitted transactions. After it returns no callback is called and new transactions are refused
 * (PL_ESTOPPING). Readers keep working. */
void pl_db_stop(struct pl_db *db);
/* Calls pl_db_stop, makes a last checkpoint of the WAL and closes the db. NULL is allowed. */
struct pl_db *pl_db_close(struct pl_db *db);
/* Returns the store's id as 32 hex digits; lives as long as the db. */
const char *pl_db_store_id(const struct pl_db *db);
/* Returns the report on the recovery, if any, that opening the database made; lives as long as the db. */
struct pl_recover_report;
const struct pl_recover_report *pl_db_recovered(const struct pl_db *db);
struct pl_object_store *pl_db_objects(const struct pl_db *db);
/* Checks that this daemon still owns the log (log_watch.h). Call it before acknowledging anything that is not in
 * the log. PL_EFENCED, after fatal() was called; errors of the store. Any thread; blocks. */
PL_MUST_CHECK
int pl_db_check_owner(struct pl_db *db, struct pl_err *err);
/* With `look`, makes the watch of the log check at once; it calls fatal() if another daemon has taken over. Returns
 * true unless a check that was asked for in this way has not yet found that this daemon still owns the log. With
 * watch_ms 0 there is no watch: after a call with `look` it is false for ever. Any thread; does not block. */
bool pl_db_is_owner(struct pl_db *db, bool look);
/* Returns the trusted clock for deletions by age; lives as long as the db. */
struct pl_clock_trust *pl_db_clock(struct pl_db *db);
/* Saves the trusted time in the database so that a restart starts from it; each logged transaction does so too.
 * Blocks. */
PL_MUST_CHECK
int pl_db_keep_clock(struct pl_db *db, struct pl_err *err);
/* Returns the log epoch of this start. */
uint64_t pl_db_epoch(const struct pl_db *db);
/* Returns the number of the last applied log object. Any thread. */
uint64_t pl_db_log_seq(struct pl_db *db);

/* How far durable state is behind what was submitted. */
struct pl_db_lag {
    size_t queued;            /* transactions that wait for the writer */
    int64_t oldest_ms;        /* age of the oldest transaction that has not ended; 0 = there is none */
    uint64_t seq, checkpoint; /* last applied log object; the one up to which the newest checkpoint goes, 0 = none */
};
/* Any thread. */
void pl_db_get_lag(struct pl_db *db, struct pl_db_lag *ret);
/* Notes, for pl_db_get_lag, that a checkpoint goes up to log object `seq`. Any thread. */
void pl_db_note_checkpoint(struct pl_db *db, uint64_t seq);

/* The body of a transaction. Runs on the writer thread; a negative return rolls back this transaction alone. */
typedef int (*pl_tx_fn)(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Called exactly once on the writer thread: with 0 when the transaction is durable, else with its error. It must
 * not block: post the result to the thread that needs it. */
typedef void (*pl_tx_done)(void *arg, int r, const struct pl_err *err);

enum pl_tx_class { PL_TX_LOGGED, PL_TX_UNLOGGED };

/* Submits a transaction. Any thread; never blocks. PL_EBUSY when the queue is full, PL_ESTOPPING after stop began.
 * `done` may be NULL. */
PL_MUST_CHECK
int pl_db_submit(struct pl_db *db, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg, struct pl_err *err);
/* Submits a transaction and waits for its result. Blocks; do not call it on the event loop's thread. */
PL_MUST_CHECK
int pl_db_run(struct pl_db *db, enum pl_tx_class class, pl_tx_fn fn, void *arg, struct pl_err *err);

/* Returns the connection of a running transaction: for reads, and for writes to unlogged tables only. */
struct pl_conn *pl_tx_conn(struct pl_tx *tx);
/* Adds a record to the log object and applies it. Takes `payload`. Only in PL_TX_LOGGED. */
PL_MUST_CHECK
int pl_tx_emit(struct pl_tx *tx, uint16_t kind, json_t *payload, struct pl_err *err);
/* Writes an event, which config.event gets after COMMIT. Takes `data` (≤ 8 KiB). */
PL_MUST_CHECK
int pl_tx_event(struct pl_tx *tx, const char *type, json_t *data, struct pl_err *err);
/* Returns the wall time of the group: one clock reading for all its records. */
int64_t pl_tx_now_us(const struct pl_tx *tx);

/* Borrows a read-only connection for one thread; waits until one is free. Return it soon: a long read transaction
 * keeps the WAL from shrinking. */
struct pl_conn *pl_db_reader(struct pl_db *db);
void pl_db_reader_done(struct pl_db *db, struct pl_conn *c);

/* Opens a read-only connection for a long read; the caller closes it with pl_conn_close. */
PL_MUST_CHECK
int pl_db_own_reader(struct pl_db *db, struct pl_conn **ret, struct pl_err *err);

struct pl_db_reading {
    struct pl_db *db;
    struct pl_conn *conn;
};
static inline void pl_db_reading_finish(struct pl_db_reading *r)
{
    if (!r->conn)
        return;
    r->conn->readable = NULL;
    pl_db_reader_done(r->db, r->conn);
}
/* Borrows a reader for a scope: `_cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);` */
static inline struct pl_db_reading pl_db_read(struct pl_db *db)
{
    return (struct pl_db_reading){db, pl_db_reader(db)};
}
