/* Checks that both stores belong together, then copies in rounds: packs, log, checkpoints. */
#include "storage/dataset/mirror/mirror.h"

#include "storage/dataset/mirror/mirror_internal.h"
#include "storage/object/store_marker.h"

int pl_mirror_tell(struct pl_mirror *m, const char *key, const char *what, struct pl_err *err)
{
    m->sum->findings++;
    return m->options->finding ? m->options->finding(m->options->self, key, what, err) : 0;
}

void pl_mirror_progress(struct pl_mirror *m, const char *stage, uint64_t done)
{
    struct pl_mirror_progress progress = {stage, done, m->sum->bytes};

    if (m->options->progress)
        m->options->progress(m->options->self, &progress);
}

int pl_mirror_stopped(const struct pl_mirror *m, struct pl_err *err)
{
    if (m->options->stop && m->options->stop(m->options->self))
        return pl_err_set(err, PL_ECANCELED, "mirroring was stopped; repeat the command to continue");
    return 0;
}

static int refuse_foreign(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)arg;
    (void)size;
    return pl_err_set(err, PL_EFORMAT, "the target contains objects (\"%s\") but is not a store: choose an empty place", key);
}

/* Gives an empty target the marker of the source, which makes it a mirror. If two processes mirror to the
 * same target at the same time, both write the same marker. */
static int make_twin(struct pl_mirror *m, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct iovec iov;
    int r = pl_object_list(m->to, "", refuse_foreign, NULL, err);

    r = r < 0 ? r : pl_object_get_all(m->from, PL_STORE_MARKER_KEY, &bytes, err);
    if (r < 0)
        return r;
    iov = (struct iovec){bytes.data, bytes.len};
    r = pl_object_put(m->to, PL_STORE_MARKER_KEY, &iov, 1, true, err);
    if (r < 0 && r != PL_EEXISTS)
        return r;
    return pl_object_flush(m->to, err);
}

/* Checks that the target is a mirror of the source, or makes it one if it is empty. */
static int check_stores(struct pl_mirror *m, struct pl_err *err)
{
    struct pl_store_marker from, to;
    int r = pl_store_marker_read(m->from, &from, err);

    if (r < 0)
        return pl_err_wrap(err, r, "source");
    r = pl_store_marker_read(m->to, &to, err);
    if (r == PL_ENOTFOUND) {
        r = make_twin(m, err);
        r = r < 0 ? r : pl_store_marker_read(m->to, &to, err);
    }
    if (r < 0)
        return pl_err_wrap(err, r, "target");
    if (!pl_streq(from.store_id, to.store_id)) {
        pl_err_set(err, PL_ECONFLICT,
                   "the target is store %.8s, the source is store %.8s: the target is not a mirror of this source", to.store_id,
                   from.store_id);
        return pl_err_hint(err, PL_ECONFLICT, "Use an empty place, or an earlier mirror of this store.");
    }
    /* pl_store_marker_read has checked the digits */
    (void)pl_hex_decode(from.store_id, m->store_id, sizeof m->store_id);
    return 0;
}

/* Runs one round. `*ret_again` is set if garbage collection doomed packs of the source meanwhile. */
static int round_of(struct pl_mirror *m, bool *ret_again, struct pl_err *err)
{
    uint64_t before = 0, after = 0;
    int r = pl_mirror_log_end(m, &before, err);

    r = r < 0 ? r : pl_mirror_packs(m, err);
    r = r < 0 ? r : pl_mirror_log_end(m, &after, err);
    r = r < 0 ? r : pl_mirror_dooms(m, before, after, ret_again, err);
    return r < 0 || *ret_again ? r : pl_mirror_log(m, before, err);
}

int pl_mirror(struct pl_object_store *from, struct pl_object_store *to, const struct pl_mirror_options *options,
              struct pl_mirror_report *sum, struct pl_err *err)
{
    struct pl_mirror m = {.from = from, .to = to, .options = options, .sum = sum};
    bool again = true;
    int r = check_stores(&m, err);

    pthread_mutex_init(&m.lock, NULL);
    for (unsigned i = 0; r == 0 && again && i < PL_MIRROR_ROUNDS_MAX; i++) {
        again = false;
        r = round_of(&m, &again, err);
    }
    pthread_mutex_destroy(&m.lock);
    if (r == 0 && again)
        return pl_err_set(err, PL_EBUSY, "garbage collection removed packs from the source in each of %u rounds; try again later",
                          PL_MIRROR_ROUNDS_MAX);
    return r;
}
