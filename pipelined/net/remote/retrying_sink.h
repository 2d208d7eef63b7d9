/* retrying_sink: a remote's pack sink that survives lost connections: a request that fails is retried until the
 * daemon is back, or the patience ends. If the answer to a pack was lost, the sink first asks whether the pack has
 * arrived, so that a long upload continues where it was.
 *
 *   call ──ok──▶ done
 *     └─lost──▶ wait (0.1 s, doubled up to 2 s) ──▶ a new session, if the old one has ended ──▶ call
 *
 * Lost means: no server, a broken connection, a daemon that is stopping or at its bounds. */
#pragma once

#include "pipelined/net/remote/remote.h"
#include "storage/pack/pack_sink.h"
#include <stdatomic.h>

#define PL_RETRYING_SINK_MS    60000 /* patience, from the last successful call */
#define PL_RETRYING_SINK_RETRY 100   /* ms: the first pause */

struct pl_retrying_sink {
    struct pl_remote *remote;
    struct pl_http_client *client;
    const char *project;
    struct pl_pack_sink below;
    int64_t patience_ms;
    /* Called once each time that a connection is lost. May be NULL. Any thread. */
    void (*lost)(void *arg, const struct pl_err *err);
    void *arg;
    _Atomic int64_t last_ms; /* time of the last success */
    atomic_bool told;
};

/* Initialises a sink over `remote`, which has a session; everything is borrowed. */
void pl_retrying_sink_init(struct pl_retrying_sink *p, struct pl_remote *remote, struct pl_http_client *client,
                           const char *project);
/* Initialises for other calls than a sink's: only pl_retrying_sink_retry and pl_retrying_sink_done may be used. */
void pl_retrying_sink_init_plain(struct pl_retrying_sink *p);
struct pl_pack_sink pl_retrying_sink(struct pl_retrying_sink *p);
/* True if a call that failed with this code may succeed later. */
bool pl_retrying_sink_is_transient(int code);
/* After a failure of another call: pauses and returns true if the call should be retried. `*pause_ms` starts at 0. */
bool pl_retrying_sink_retry(struct pl_retrying_sink *p, const struct pl_err *err, unsigned *pause_ms);
/* Reports that a call succeeded. */
void pl_retrying_sink_done(struct pl_retrying_sink *p);
