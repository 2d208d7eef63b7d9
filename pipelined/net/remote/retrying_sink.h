/* retrying_sink: a pack sink that survives lost connections. A request that fails is repeated until the daemon is back
 * or the time limit has passed. If the reply to a pack was lost, the sink first asks whether the pack has arrived, so
 * that a long upload continues where it was.
 *
 *   call ──ok──▶ done
 *     └─lost──▶ wait (0.1 s, doubled up to 2 s) ──▶ a new session, if the old one has ended ──▶ call
 *
 * "Lost" means: no server, a broken connection, a daemon that is stopping or has reached one of its limits. */
#pragma once

#include "pipelined/net/remote/remote.h"
#include "storage/pack/pack_sink.h"
#include <stdatomic.h>

/* how long requests are repeated, from the last successful call, in ms */
#define PL_RETRYING_SINK_MS    60000
#define PL_RETRYING_SINK_RETRY 100 /* length of the first pause, in ms */

struct pl_retrying_sink {
    struct pl_remote *remote;
    struct pl_http_client *client;
    const char *project;
    struct pl_pack_sink below;
    int64_t patience_ms;
    /* Called once each time that the connection is lost. May be NULL. Any thread. */
    void (*lost)(void *arg, const struct pl_err *err);
    void *arg;
    _Atomic int64_t last_ms; /* time of the last successful call */
    atomic_bool told;
};

/* Initialises a sink that wraps the sink of `remote`, which has an upload session. All arguments are
 * borrowed. */
void pl_retrying_sink_init(struct pl_retrying_sink *p, struct pl_remote *remote, struct pl_http_client *client,
                           const char *project);
/* Initialises `p` for calls that do not go through the sink: then only pl_retrying_sink_retry and
 * pl_retrying_sink_done may be used. */
void pl_retrying_sink_init_plain(struct pl_retrying_sink *p);
struct pl_pack_sink pl_retrying_sink(struct pl_retrying_sink *p);
/* True if a call that failed with this code may succeed later. */
bool pl_retrying_sink_is_transient(int code);
/* For requests that do not go through the sink: call it after such a request has failed. Pauses and returns true
 * if the request should be repeated. `*pause_ms` must be 0 before the first failure. */
bool pl_retrying_sink_retry(struct pl_retrying_sink *p, const struct pl_err *err, unsigned *pause_ms);
/* Reports that a call succeeded, which restarts the time limit. */
void pl_retrying_sink_done(struct pl_retrying_sink *p);
