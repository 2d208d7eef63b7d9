/* uplink: the agent's connection to its daemon, and how long it goes without one. The daemon may die and come back, at another URL
 * too (it writes DIR/pipelined.url): calls that matter are tried again with back-off, while commands compute on. Only when it has
 * been away for PL_DAEMON_CLIENT_ORPHAN_MS, or the agent is told to end, does waiting stop.
 *
 *   pl_daemon_client_json, pl_daemon_client_post   one try
 *   pl_daemon_client_retry                after a failure: shall it be tried again? sleeps first
 *   pl_daemon_client_reader, _sink        the daemon's store: they try again by themselves; the sink also when the daemon's disk or memory
 *                                  is full (PL_EBUSY after PL_DAEMON_CLIENT_ORPHAN_MS) and, once, with a new session
 *
 * Thread-safe but for create, open_store and destroy. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/base/hash.h"
#include "storage/pack/chunk_reader.h"
#include "storage/pack/pack_sink.h"
#include <jansson.h>
#include <stdatomic.h>

#define PL_DAEMON_CLIENT_ORPHAN_MS   (3600 * 1000) /* orphan_timeout */
#define PL_DAEMON_CLIENT_BACKOFF_MS  100           /* doubled with each try … */
#define PL_DAEMON_CLIENT_BACKOFF_MAX 5000          /* … up to here */
#define PL_DAEMON_CLIENT_ANSWER_MAX  (64u << 20)

struct pl_uplink;

struct pl_daemon_client_config {
    const char *url;
    const char *url_file; /* absolute; read again when the daemon is away; NULL = none */
    const char *token;
    const char *store_dir; /* the daemon's store when it is a folder that can be read here; NULL = by HTTP */
    const char *ca;        /* as in pl_worker_config */
    int64_t orphan_ms;     /* 0 = PL_DAEMON_CLIENT_ORPHAN_MS */
    atomic_bool *stopping; /* set (and pl_daemon_client_wake called): waiting ends, calls are given up within a second */
};

/* Strings are copied. */
PL_MUST_CHECK
int pl_daemon_client_create(const struct pl_daemon_client_config *config, struct pl_uplink **ret, struct pl_err *err);
/* The token of all calls from now on; those under way end with the one before. PL_ENOMEM. */
PL_MUST_CHECK
int pl_daemon_client_set_token(struct pl_uplink *l, const char *token, struct pl_err *err);
struct pl_uplink *pl_daemon_client_destroy(struct pl_uplink *l);

/* One POST with JSON both ways; `body` is borrowed, NULL without memory gives PL_ENOMEM. A call with `cancel` is given up when the
 * agent is stopping (PL_ECANCELED). Errors of the daemon as it gave them; PL_ENET when it is away. */
PL_MUST_CHECK
int pl_daemon_client_json(struct pl_uplink *l, const char *path, const json_t *body, bool cancel, json_t **ret,
                          struct pl_err *err);
/* As pl_daemon_client_json, for an answer that may take `timeout_ms` (0 = no bound); then PL_ETIMEOUT. PL_ECANCELED: at once after pl_uplink_interrupt, within
 * a second after `*cancel` (may be NULL) was set. */
PL_MUST_CHECK
int pl_uplink_poll(struct pl_uplink *l, const char *path, const json_t *body, atomic_bool *cancel, int64_t timeout_ms,
                   json_t **ret, struct pl_err *err);
/* One POST of raw bytes; the answer is thrown away. PL_ECANCELED: pl_uplink_interrupt was called. */
PL_MUST_CHECK
int pl_daemon_client_post(struct pl_uplink *l, const char *path, const void *data, size_t n, struct pl_err *err);

/* True when `code` means that the daemon is away or busy, so that the same call may succeed later. */
bool pl_daemon_client_is_away(int code);
/* True when `code` is between agent and daemon and no fault of the command: its datum is given back, for another time. */
bool pl_daemon_client_is_transport_error(int code);
/* After a call failed with `code`: true = try again (it has slept, and looked for a new URL); false = give up with that error: it is not
 * of that kind, the agent is stopping, or the daemon has been away for too long, or for good: its folder is gone. `*tries` starts at 0
 * for each call. */
bool pl_daemon_client_retry(struct pl_uplink *l, int code, unsigned *tries);
/* The session in which the daemon now tells what it has, and is brought the rest; "" before the first, and between two. Returns how many have
 * ended: while that stays the same, all is told in one. Any thread. */
#define PL_DAEMON_CLIENT_SESSION_BYTES 64
uint64_t pl_daemon_client_session(struct pl_uplink *l, char ret[PL_DAEMON_CLIENT_SESSION_BYTES]);
/* The daemon did not answer the last call. */
bool pl_daemon_client_down(const struct pl_uplink *l);
/* Ends sleeps of pl_daemon_client_retry; also in a signal handler. */
void pl_daemon_client_wake(struct pl_uplink *l);

/* The daemon's store of `project`, asked for once. Tries again. */
PL_MUST_CHECK
int pl_daemon_client_open_store(struct pl_uplink *l, const char *project, struct pl_err *err);
/* A reader or writer, and whether its work is still wanted. */
struct pl_uplink_user {
    struct pl_uplink *link;
    bool (*wanted)(void *self); /* any thread; NULL = always */
    void *self;
};
/* PL_ECANCELED when it is not wanted any more, also while a call is under way: after pl_uplink_interrupt. `user` outlives both. */
struct pl_chunk_reader pl_daemon_client_reader(const struct pl_uplink_user *user);
struct pl_pack_sink pl_daemon_client_sink(const struct pl_uplink_user *user);
/* PL_ECANCELED when it is not; for loops that read nothing. NULL is fine. */
PL_MUST_CHECK
int pl_uplink_check(const struct pl_uplink_user *user, struct pl_err *err);
/* Makes all readers and writers ask `wanted` now, whatever they wait for: call it when some work is not wanted any more. Ends calls of pl_uplink_poll
 * and pl_daemon_client_post with PL_ECANCELED. Any thread. */
void pl_uplink_interrupt(struct pl_uplink *l);
/* Where these are, in one question; failures are left to the reads that follow. */
void pl_daemon_client_locate(struct pl_uplink *l, const struct pl_hash *ids, size_t n);
/* The same for what is read next, in this order: it is fetched meanwhile. */
void pl_daemon_client_prefetch(struct pl_uplink *l, const struct pl_hash *ids, size_t n);
/* Packs are read as files of this machine. */
bool pl_daemon_client_reads_files(struct pl_uplink *l);
