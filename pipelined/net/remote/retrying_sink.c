/* Wraps a pack sink: repeats each call after transient errors, with growing pauses, and opens a new upload
 * session if the old one has ended. */
#include "pipelined/net/remote/retrying_sink.h"

#include "pipelined/net/http_client/http_client.h"
#include "storage/base/clock.h"

#include <time.h>

#define PAUSE_MAX_MS 2000u

bool pl_retrying_sink_is_transient(int code)
{
    return code == PL_ENET || code == PL_ETIMEOUT || code == PL_ESTOPPING || code == PL_EBUSY;
}

void pl_retrying_sink_done(struct pl_retrying_sink *p)
{
    atomic_store(&p->last_ms, pl_clock_mono_ms());
    atomic_store(&p->told, false);
}

bool pl_retrying_sink_retry(struct pl_retrying_sink *p, const struct pl_err *err, unsigned *pause_ms)
{
    struct timespec pause;

    if (!pl_retrying_sink_is_transient(err->code) || pl_clock_mono_ms() - atomic_load(&p->last_ms) > p->patience_ms)
        return false;
    if (!atomic_exchange(&p->told, true) && p->lost)
        p->lost(p->arg, err);
    *pause_ms = *pause_ms ? PL_MIN(2 * *pause_ms, PAUSE_MAX_MS) : PL_RETRYING_SINK_RETRY;
    pause = (struct timespec){.tv_sec = *pause_ms / 1000, .tv_nsec = *pause_ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
    return true;
}

static int give(struct pl_err *to, const struct pl_err *err)
{
    if (to)
        *to = *err;
    return err->code;
}

/* Asks the daemon which records exist; repeats the request after transient errors. */
static int has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    struct pl_retrying_sink *p = self;
    unsigned pause_ms = 0;
    struct pl_err why;
    bool renewed = false;

    for (;;) {
        why = (struct pl_err){0};
        why.code = p->below.has(p->below.self, ids, n, ret_bitmap, &why);
        if (why.code >= 0) {
            pl_retrying_sink_done(p);
            return 0;
        }
        if (why.code == PL_ERETRY && !renewed) { /* the upload session has ended */
            renewed = true;
            why.code = pl_remote_session(p->remote, &why);
            if (why.code >= 0)
                continue;
        }
        if (!pl_retrying_sink_retry(p, &why, &pause_ms))
            return give(err, &why);
    }
}

/* True if the daemon has the pack. Asked after a failed upload, because perhaps only the reply was lost. */
static bool arrived(struct pl_retrying_sink *p, const struct pl_hash *pack_id)
{
    char hex[PL_HASH_HEX + 1];
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/packs/%s", p->project, pl_hash_hex(pack_id, hex));
    struct pl_http_call call = {.method = "HEAD", .path = path};

    return path && pl_http_client_call(p->client, &call, NULL, NULL) == 0;
}

/* Uploads a pack; repeats the upload after transient errors. */
static int put_pack(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct pl_retrying_sink *p = self;
    unsigned pause_ms = 0;
    struct pl_err why;
    bool renewed = false;

    for (;;) {
        why = (struct pl_err){0};
        why.code = p->below.put_pack(p->below.self, pack_id, bytes, n, &why);
        if (why.code >= 0)
            break;
        if (why.code == PL_ERETRY && !renewed) {
            renewed = true;
            why.code = pl_remote_session(p->remote, &why);
            if (why.code >= 0)
                continue;
        }
        if (!pl_retrying_sink_retry(p, &why, &pause_ms))
            return give(err, &why);
        if (arrived(p, pack_id))
            break;
    }
    pl_retrying_sink_done(p);
    return 0;
}

static int flush(void *self, struct pl_err *err)
{
    struct pl_retrying_sink *p = self;

    return p->below.flush(p->below.self, err);
}

void pl_retrying_sink_init_plain(struct pl_retrying_sink *p)
{
    *p = (struct pl_retrying_sink){.patience_ms = PL_RETRYING_SINK_MS};
    pl_retrying_sink_done(p);
}

void pl_retrying_sink_init(struct pl_retrying_sink *p, struct pl_remote *remote, struct pl_http_client *client,
                           const char *project)
{
    *p = (struct pl_retrying_sink){.remote = remote,
                                   .client = client,
                                   .project = project,
                                   .below = pl_remote_sink(remote),
                                   .patience_ms = PL_RETRYING_SINK_MS};
    pl_retrying_sink_done(p);
}

struct pl_pack_sink pl_retrying_sink(struct pl_retrying_sink *p)
{
    return (struct pl_pack_sink){.self = p, .has = has, .put_pack = put_pack, .flush = p->below.flush ? flush : NULL};
}
