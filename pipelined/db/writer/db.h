/* db: the metadata of one daemon: SQLite as the applied image of the log.
 *
 *   submit ──▶ queue ──▶ writer thread: BEGIN IMMEDIATE ─ each transaction in its savepoint ─▶ log object ─▶ COMMIT ─▶ done()
 *                                        (validates, emits records, each applied at once)      durable
 *
 * One connection writes and checkpoints, on the writer thread; n read-only ones serve readers. A transaction that emits records is
 * durable when done() is called with 0; without records it outlives the program, and the machine once a later logged one does.
 * Logged and unlogged transactions are grouped apart, in order of submission within each group.
 * Whatever the log holds is rebuilt by replay with the very functions that applied it the first time (apply.h).
 *
 * Bounds: PL_DB_QUEUE_MAX waiting transactions, PL_DB_GROUP_MAX in a group, log objects of 8 MiB. */
#pragma once

#include "pipelined/db/writer/clock_trust.h"
#include "pipelined/db/writer/sql.h"
#include "storage/dataset/log/log.h"
#include "storage/dataset/log/log_record.h"

#define PL_DB_QUEUE_MAX      65536
#define PL_DB_GROUP_MAX      512
#define PL_DB_SCHEMA_VERSION 4
#define PL_EVENTS_KEPT       1000000
#define PL_EVENTS_KEPT_DAYS  7

struct pl_db;
struct pl_tx; /* one transaction under way, on the writer thread */

struct pl_db_config {
    const char *dir;                 /* holds pipelined.db and the lock */
    struct pl_object_store *objects; /* where the log is; outlives the db */
    unsigned readers;                /* read-only connections, 1..16 */
    int64_t watch_ms;                /* how often to look whether another daemon took over; 0 = only when it is asked */
    /* The daemon must stop: it was fenced (PL_EFENCED), or a COMMIT failed after its log object was put. Once; any thread. */
    void (*fatal)(void *arg, const struct pl_err *err);
    /* Events that a COMMIT has made visible: `id` of each is fixed. Writer thread. `data` is compact JSON. */
    void (*event)(void *arg, int64_t id, int64_t at_us, const char *type, const char *data);
    /* A record of a pack's state (dataset/gc.h) is in the log and applied: what memory says of the pack follows. Writer thread. May be
     * NULL. */
    void (*pack_state)(void *arg, const char *project, const struct pl_hash *pack, const char *state);
    /* The log has come to object `seq`. Writer thread. May be NULL. */
    void (*logged)(void *arg, uint64_t seq);
    void *arg;
};

/* Opens or creates the database, takes the folder's lock, replays the log after what was applied (an empty folder and a store with a
 * log: all of it), and writes this start's epoch (epoch.h). PL_ELOCKED: another daemon runs on the folder. PL_EFORMAT: newer than this program.
 * PL_ELOG: ahead of the log, or on another one. */
PL_MUST_CHECK
int pl_db_open(const struct pl_db_config *config, struct pl_db **ret, struct pl_err *err);
/* Finishes what was submitted; when it returns no callback comes any more and what is submitted is refused (PL_ESTOPPING). Reading goes
 * on. */
void pl_db_stop(struct pl_db *db);
/* Stops, checkpoints, closes. */
struct pl_db *pl_db_close(struct pl_db *db);
/* 32 hex digits. */
const char *pl_db_store_id(const struct pl_db *db);
/* What opening has recovered; lives as long as the db. */
struct pl_recover_report;
const struct pl_recover_report *pl_db_recovered(const struct pl_db *db);
struct pl_object_store *pl_db_objects(const struct pl_db *db);
/* Before something is acknowledged that is not in the log: looks whether the log is still ours (log_watch.h). PL_EFENCED, once fatal() was
 * called; errors of the store. Any thread; blocks. */
PL_MUST_CHECK
int pl_db_check_owner(struct pl_db *db, struct pl_err *err);
/* What time it is for whatever drops data; lives as long as the db. */
struct pl_clock_trust *pl_db_clock(struct pl_db *db);
/* Keeps that over a restart, as each logged transaction does. Blocks. */
PL_MUST_CHECK
int pl_db_keep_clock(struct pl_db *db, struct pl_err *err);
/* Number of this start. */
uint64_t pl_db_epoch(const struct pl_db *db);
/* Last log object applied. Any thread. */
uint64_t pl_db_log_seq(struct pl_db *db);

/* Runs on the writer thread. A negative return rolls this transaction back alone. */
typedef int (*pl_tx_fn)(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Exactly once, on the writer thread: 0 and durable, or the error. Post to wherever the answer is wanted. */
typedef void (*pl_tx_done)(void *arg, int r, const struct pl_err *err);

enum pl_tx_class { PL_TX_LOGGED, PL_TX_UNLOGGED };

/* Any thread; never blocks. PL_EBUSY at the queue's bound, PL_ESTOPPING after close began. `done` may be NULL. */
PL_MUST_CHECK
int pl_db_submit(struct pl_db *db, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg, struct pl_err *err);
/* Submits and waits; not on the loop. */
PL_MUST_CHECK
int pl_db_run(struct pl_db *db, enum pl_tx_class class, pl_tx_fn fn, void *arg, struct pl_err *err);

/* Inside a transaction: the connection to read and (unlogged tables only) write with. */
struct pl_conn *pl_tx_conn(struct pl_tx *tx);
/* Adds a record to the log object and applies it. Takes `payload`. Only in PL_TX_LOGGED. */
PL_MUST_CHECK
int pl_tx_emit(struct pl_tx *tx, uint16_t kind, json_t *payload, struct pl_err *err);
/* Writes an event; told to config.event after COMMIT. Takes `data` (≤ 8 KiB). */
PL_MUST_CHECK
int pl_tx_event(struct pl_tx *tx, const char *type, json_t *data, struct pl_err *err);
/* Wall time of the group: one clock reading for all its records. */
int64_t pl_tx_now_us(const struct pl_tx *tx);

/* A read-only connection for one thread; waits for a free one. Give it back soon: a long reader keeps the WAL from shrinking. */
struct pl_conn *pl_db_reader(struct pl_db *db);
void pl_db_reader_done(struct pl_db *db, struct pl_conn *c);

/* A read-only connection of the caller's own, for who reads long; close it with pl_conn_close. */
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
/* `_cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);` */
static inline struct pl_db_reading pl_db_read(struct pl_db *db)
{
    return (struct pl_db_reading){db, pl_db_reader(db)};
}
