/* A thread wakes every `every_ms` and stores the checkpoint folder. pl_checkpoint_end waits for a running
 * upload, because afterwards the folder belongs to the next datum. */
#include "pipelined/agent/outputs/datum_checkpoint.h"

#include "storage/base/clock.h"
#include "storage/dataset/commit/pack_node_sink.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/system/lock_order.h"
#include "storage/system/log_line.h"
#include "storage/system/timed_cond.h"
#include "storage/tree/tree_build.h"

#include <pthread.h>
#include <time.h>

struct pl_checkpoint {
    struct pl_checkpoint_config config;
    struct pl_uplink_user user;
    pthread_t thread;
    bool started;
    /* held while the checkpoint folder is read, so that one thread reads at a time; may be locked while
     * `mutex` is held, not the reverse */
    pthread_mutex_t take;
    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t changed;
    bool ending, following;
    atomic_bool pointless; /* true = cancel the running upload, because its datum has ended */
    struct pl_agent_protocol_lease lease;
    uint32_t index;
    struct pl_hash last; /* root hash of the checkpoint that the daemon has; guarded by `take` */
};

static bool is_wanted(void *self)
{
    const struct pl_checkpoint *c = self;

    return !atomic_load(&c->pointless);
}

/* Stores the checkpoint folder as a tree whose bytes are durable at the daemon. */
static int take_tree(struct pl_checkpoint *c, struct pl_hash *ret, struct pl_err *err)
{
    const struct pl_ingest_source source = {.local = c->config.folder, .dest = ""};
    const struct pl_ingest_options options = {.threads = 1};
    const struct pl_pack_sink sink = pl_daemon_client_sink(&c->user);
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *builder = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_tree_ops_reader reader;
    struct pl_node_sink nodes;
    struct pl_tree_op op;
    int r = pl_pack_builder_open(&sink, c->config.project, &session, err);

    r = r < 0 ? r : pl_ingest_tree(session, &source, 1, &options, &ops, NULL, err);
    if (r < 0)
        return r;
    nodes = pl_pack_node_sink(session);
    r = pl_tree_builder_create(&nodes, &builder, err);
    r = r < 0 ? r : pl_tree_ops_reader_init(&reader, ops.data, ops.len, err);
    while (r >= 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0)
        if (op.op == PL_TREE_PUT)
            r = pl_tree_builder_add(builder, op.path, op.path_len, &op.entry, err);
    r = r < 0 ? r : pl_tree_builder_finish(builder, ret, NULL, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

/* Reports the root hash of a stored checkpoint to the daemon. */
static int tell(struct pl_checkpoint *c, const struct pl_agent_protocol_lease *lease, uint32_t index, const struct pl_hash *root,
                struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = pl_agent_protocol_lease_json(lease), *answer = NULL;
    char hex[PL_HASH_HEX + 1];

    if (!body || json_object_set_new(body, "worker", json_string(c->config.worker)) < 0 ||
        json_object_set_new(body, "index", json_integer(index)) < 0 ||
        json_object_set_new(body, "root", json_string(pl_hash_hex(root, hex))) < 0)
        return pl_err_nomem(err);
    return pl_daemon_client_json(c->config.link, "/api/v1/worker/checkpoint", body, false, &answer, err);
}

/* Stores the checkpoint folder and reports the tree's root if it differs from the last one. Call with `take`
 * held. */
static void take_locked(struct pl_checkpoint *c, const struct pl_agent_protocol_lease *lease, uint32_t index)
{
    struct pl_hash root = {0};
    struct pl_err err = {0};
    int r;

    r = take_tree(c, &root, &err);
    if (r == 0 && !pl_hash_is_zero(&root) && !pl_hash_eq(&root, &c->last)) {
        r = tell(c, lease, index, &root, &err);
        if (r == 0)
            c->last = root;
    }
    if (r < 0)
        pl_log_info("checkpoint", "datum in row %u: its checkpoint could not be saved this time: %s", index, err.msg);
}

/* The checkpoint thread: stores the folder periodically while a datum's command runs. */
static void *follow(void *arg)
{
    struct pl_checkpoint *c = arg;
    int64_t next_ms = 0;

    pthread_mutex_lock(&c->mutex);
    while (!c->ending) {
        struct timespec until;

        if (!c->following) {
            next_ms = 0;
            pthread_cond_wait(&c->changed, &c->mutex);
            continue;
        }
        if (next_ms == 0)
            next_ms = pl_clock_mono_ms() + c->config.every_ms;
        until = (struct timespec){.tv_sec = next_ms / 1000, .tv_nsec = next_ms % 1000 * 1000000};
        if (pthread_cond_timedwait(&c->changed, &c->mutex, &until) == ETIMEDOUT && c->following) {
            const struct pl_agent_protocol_lease lease = c->lease;
            const uint32_t index = c->index;

            /* lock `take` before releasing `mutex`: pl_checkpoint_end then waits for this upload, and until
             * the upload ends the folder belongs to this datum */
            pthread_mutex_lock(&c->take);
            pthread_mutex_unlock(&c->mutex);
            take_locked(c, &lease, index);
            pthread_mutex_unlock(&c->take);
            pthread_mutex_lock(&c->mutex);
            next_ms = 0;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

int pl_checkpoint_create(const struct pl_checkpoint_config *config, struct pl_checkpoint **ret, struct pl_err *err)
{
    struct pl_checkpoint *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return pl_err_nomem(err);
    c->config = *config;
    c->user = (struct pl_uplink_user){.link = config->link, .wanted = is_wanted, .self = c};
    pthread_mutex_init(&c->take, NULL);
    pl_lock_order_spans_requests(&c->take);
    pthread_mutex_init(&c->mutex, NULL);
    pl_timed_cond_init(&c->changed);
    r = pthread_create(&c->thread, NULL, follow, c);
    if (r != 0) {
        pl_checkpoint_destroy(c);
        return pl_err_errno(err, r, "cannot start the checkpoint thread");
    }
    c->started = true;
    *ret = c;
    return 0;
}

struct pl_checkpoint *pl_checkpoint_destroy(struct pl_checkpoint *c)
{
    if (!c)
        return NULL;
    pthread_mutex_lock(&c->mutex);
    c->ending = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    if (c->started)
        pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    pthread_mutex_destroy(&c->take);
    free(c);
    return NULL;
}

void pl_checkpoint_begin(struct pl_checkpoint *c, const struct pl_agent_protocol_lease *lease, uint32_t index)
{
    pthread_mutex_lock(&c->take);
    c->last = (struct pl_hash){0};
    pthread_mutex_unlock(&c->take);
    pthread_mutex_lock(&c->mutex);
    c->lease = *lease;
    c->index = index;
    c->following = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

void pl_checkpoint_end(struct pl_checkpoint *c, bool last)
{
    pthread_mutex_lock(&c->mutex);
    c->following = false;
    atomic_store(&c->pointless, !last);
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    /* An upload is running. Wait for it, because the folder belongs to the next datum when this function
     * returns. */
    if (pthread_mutex_trylock(&c->take) != 0) {
        if (!last)
            pl_uplink_interrupt(c->config.link);
        pthread_mutex_lock(&c->take);
    }
    atomic_store(&c->pointless, false);
    if (last)
        take_locked(c, &c->lease, c->index);
    pthread_mutex_unlock(&c->take);
}
