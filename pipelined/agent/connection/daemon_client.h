/* daemon_client: the agent's connection to its daemon. The connection survives a restart of the daemon. The
 * daemon may come back at another URL, which it writes to DIR/pipelined.url. Important calls are retried
 * with back-off while commands go on computing. Retrying ends when the daemon has been away for
 * PL_DAEMON_CLIENT_ORPHAN_MS, or when the agent is told to stop.
 *
 *   pl_daemon_client_json, pl_daemon_client_post   make one attempt
 *   pl_daemon_client_retry                         after a failure: sleeps, then says whether to try again
 *   pl_daemon_client_reader, pl_daemon_client_sink read and write the daemon's store, with retries
 *
 * The sink also retries while the daemon's disk or memory is full (PL_EBUSY after
 * PL_DAEMON_CLIENT_ORPHAN_MS), and it retries once with a new upload session when the daemon has dropped the
 * old one.
 *
 * Thread-safe, except for create, open_store and destroy. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/base/hash.h"
#include "storage/pack/chunk_reader.h"
#include "storage/pack/pack_sink.h"
#include <jansson.h>
#include <stdatomic.h>

/* how long the daemon may be away before the agent gives up (orphan_timeout) */
#define PL_DAEMON_CLIENT_ORPHAN_MS (3600 * 1000)
/* first pause between two attempts; doubled with each attempt */
#define PL_DAEMON_CLIENT_BACKOFF_MS  100
#define PL_DAEMON_CLIENT_BACKOFF_MAX 5000 /* longest pause between two attempts */
#define PL_DAEMON_CLIENT_ANSWER_MAX  (64u << 20)

struct pl_store;
struct pl_uplink;

struct pl_daemon_client_config {
    const char *url;
    /* absolute path of the file with the daemon's URL; read again while the daemon is away; NULL = none */
    const char *url_file;
    const char *token;
    /* folder of the daemon's store, if this machine can read it directly; NULL = read over HTTP */
    const char *store_dir;
    const char *ca; /* PEM file of CA certificates; see pl_worker_config */
    /* what to do if no daemon answers at `url`, for messages; borrowed, must outlive the connection; NULL = the
     * text of http_client */
    const char *remedy;
    int64_t orphan_ms; /* 0 = PL_DAEMON_CLIENT_ORPHAN_MS */
    /* the caller sets it and calls pl_daemon_client_wake to stop: waiting ends and running calls end within a
     * second */
    atomic_bool *stopping;
};

/* Creates the connection without contacting the daemon. Copies the strings. PL_EINVAL (URL),
 * PL_EUNAVAILABLE (this machine has no libcurl), PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_daemon_client_create(const struct pl_daemon_client_config *config, struct pl_uplink **ret, struct pl_err *err);
/* Sets the token of all later calls. Calls that already run finish with the old token. PL_ENOMEM. */
PL_MUST_CHECK
int pl_daemon_client_set_token(struct pl_uplink *l, const char *token, struct pl_err *err);
/* Frees everything and ends the upload session if the daemon is reachable. No other thread may use the
 * object. */
struct pl_uplink *pl_daemon_client_destroy(struct pl_uplink *l);

/* Makes one POST with a JSON body and a JSON answer; `*ret` is a new reference, `ret` may be NULL. `body` is
 * borrowed; a NULL body means that making it failed and gives PL_ENOMEM. With `cancel`, the call ends with
 * PL_ECANCELED when the agent is stopping. An error of the daemon is returned as the daemon reported it;
 * PL_ENET = the daemon is unreachable. */
PL_MUST_CHECK
int pl_daemon_client_json(struct pl_uplink *l, const char *path, const json_t *body, bool cancel, json_t **ret,
                          struct pl_err *err);
/* Like pl_daemon_client_json, for an answer that may take up to `timeout_ms` (0 = no limit), then
 * PL_ETIMEOUT. Returns PL_ECANCELED at once after pl_uplink_interrupt, and within a second after `*cancel`
 * (may be NULL) was set. */
PL_MUST_CHECK
int pl_uplink_poll(struct pl_uplink *l, const char *path, const json_t *body, atomic_bool *cancel, int64_t timeout_ms,
                   json_t **ret, struct pl_err *err);
/* Makes one POST of raw bytes and discards the answer. PL_ECANCELED: pl_uplink_interrupt was called. */
PL_MUST_CHECK
int pl_daemon_client_post(struct pl_uplink *l, const char *path, const void *data, size_t n, struct pl_err *err);

/* True if `code` means that the daemon is unreachable or busy, so that the same call may succeed later. */
bool pl_daemon_client_is_away(int code);
/* True if `code` reports a problem between agent and daemon and not a fault of the command. The datum is then
 * given back to the daemon, to be run another time. */
bool pl_daemon_client_is_transport_error(int code);
/* Decides after a call failed with `code` whether to try again. True: it has slept and looked for a new URL;
 * try again. False: give up with that error, because a retry cannot help, the agent is stopping, the daemon
 * has been away for too long, or the folder of its URL file no longer exists. `*tries` starts at 0 for each
 * call. */
bool pl_daemon_client_retry(struct pl_uplink *l, int code, unsigned *tries);
/* Copies the id of the current upload session; "" if no session is open. Within a session the agent asks
 * which chunks the daemon has, and uploads the missing chunks. Returns the number of sessions that have
 * ended: as long as this number stays the same, all chunks were checked and uploaded in one session. Any
 * thread. */
#define PL_DAEMON_CLIENT_SESSION_BYTES 64
uint64_t pl_daemon_client_session(struct pl_uplink *l, char ret[PL_DAEMON_CLIENT_SESSION_BYTES]);
/* True if the daemon did not answer the last call. */
bool pl_daemon_client_down(const struct pl_uplink *l);
/* Ends all running sleeps of pl_daemon_client_retry. May be called in a signal handler. */
void pl_daemon_client_wake(struct pl_uplink *l);

/* Opens the daemon's store of `project`, the project of the worker's stage, into which the worker writes; call it once,
 * before reading or writing. Retries while the daemon is away. */
PL_MUST_CHECK
int pl_daemon_client_open_store(struct pl_uplink *l, const char *project, struct pl_err *err);
/* One user of a store: a reader or writer, and a callback that says whether its work is still wanted. */
struct pl_uplink_user {
    struct pl_uplink *link; /* NULL = a reader reads `first` only, which is set; not for a sink */
    struct pl_store *first; /* a store on this machine, which is read before the daemon's; NULL = none. Borrowed */
    /* the project whose store is read; NULL = that of pl_daemon_client_open_store. The store of another project is
     * opened with the first read, and is only read. Borrowed */
    const char *project;
    bool (*wanted)(void *self); /* false = cancel the work; called on any thread; NULL = always wanted */
    void *self;
};
/* Make a reader of, and a writer to, the daemon's store. Their calls return PL_ECANCELED when the work is no
 * longer wanted; pl_uplink_interrupt makes a running call notice that. `user` must outlive both. */
struct pl_chunk_reader pl_daemon_client_reader(const struct pl_uplink_user *user);
struct pl_pack_sink pl_daemon_client_sink(const struct pl_uplink_user *user);
/* Returns 0, or PL_ECANCELED if the user's work is no longer wanted. For loops that do not call the store.
 * `user` may be NULL. */
PL_MUST_CHECK
int pl_uplink_check(const struct pl_uplink_user *user, struct pl_err *err);
/* Makes all readers and writers call `wanted` now, whatever they are waiting for. Call it when some work is
 * no longer wanted. Ends calls of pl_uplink_poll and pl_daemon_client_post with PL_ECANCELED. Any thread. */
void pl_uplink_interrupt(struct pl_uplink *l);
/* Asks the daemon in one request where these chunks are stored. Ignores failures: the reads that follow
 * report them. */
void pl_daemon_client_locate(const struct pl_uplink_user *user, const struct pl_hash *ids, size_t n);
/* Like pl_daemon_client_locate, for chunks that will be read next, in this order; starts fetching them in the
 * background. */
void pl_daemon_client_prefetch(const struct pl_uplink_user *user, const struct pl_hash *ids, size_t n);
/* True if packs are read as files of this machine and not over HTTP. */
bool pl_daemon_client_reads_files(const struct pl_uplink_user *user);
