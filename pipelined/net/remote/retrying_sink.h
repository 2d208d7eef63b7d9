/* patient_sink: a remote's pack sink that outlives lost connections: what cannot be asked or sent is tried again until the daemon is back,
 * or patience is over. A pack whose answer was lost is looked for before it is sent once more, so a long upload goes on where it was.
 *
 *   call ──ok──▶ done
 *     └─lost──▶ wait (0.1 s, doubled up to 2 s) ──▶ the session, anew when it has ended ──▶ call
 *
 * Lost: no server, a connection that broke, a daemon that stops or is at its bounds. */
#pragma once

#include "pipelined/net/remote/remote.h"
#include "storage/pack/pack_sink.h"
#include <stdatomic.h>

#define PL_RETRYING_SINK_MS    60000 /* since the last call that came through */
#define PL_RETRYING_SINK_RETRY 100   /* ms: the first pause */

struct pl_retrying_sink {
    struct pl_remote *remote;
    struct pl_http_client *client;
    const char *project;
    struct pl_pack_sink below;
    int64_t patience_ms;
    /* A connection was lost: told once each time. May be NULL. Any thread. */
    void (*lost)(void *arg, const struct pl_err *err);
    void *arg;
    _Atomic int64_t last_ms; /* when something came through */
    atomic_bool told;
};

/* Over `remote`, which has a session; all is borrowed. */
void pl_retrying_sink_init(struct pl_retrying_sink *p, struct pl_remote *remote, struct pl_http_client *client,
                           const char *project);
/* For calls that are no sink's: pl_retrying_sink_retry and pl_retrying_sink_done only. */
void pl_retrying_sink_init_plain(struct pl_retrying_sink *p);
struct pl_pack_sink pl_retrying_sink(struct pl_retrying_sink *p);
/* Whether a call that failed so may come through later. */
bool pl_retrying_sink_is_transient(int code);
/* After a failure of any other call: pauses, true when it shall be tried again. `*pause_ms` 0 before the first. */
bool pl_retrying_sink_retry(struct pl_retrying_sink *p, const struct pl_err *err, unsigned *pause_ms);
/* It came through. */
void pl_retrying_sink_done(struct pl_retrying_sink *p);
