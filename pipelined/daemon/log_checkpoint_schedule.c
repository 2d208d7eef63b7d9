/* Counts log objects and runs a timer; either of them starts the job on the pool that writes a checkpoint. */
#include "pipelined/daemon/log_checkpoint_schedule.h"

#include "pipelined/db/writer/db_snapshot.h"
#include "storage/base/clock.h"
#include "storage/dataset/log/log_checkpoint.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#define DAY_MS ((int64_t)PL_LOG_CKPT_HOURS * 3600 * 1000)

struct pl_log_ckpt {
    struct pl_log_ckpt_config config;
    char dir[PATH_MAX];
    struct pl_timer *day; /* timer that fires a day after the last checkpoint; used on the loop only */
    struct pl_loop_work ended;
    atomic_uint_fast64_t seq;  /* number of the newest log object */
    atomic_uint_fast64_t made; /* number of the log object up to which the newest checkpoint goes */
    atomic_uint_fast64_t due;  /* number of the log object at which the next checkpoint is due */
    atomic_bool writing, stopping;
};

static bool is_stopping(void *arg)
{
    struct pl_log_ckpt *c = arg;

    return atomic_load(&c->stopping);
}

static void begin(struct pl_log_ckpt *c);

/* On the loop, when a checkpoint has been written: restarts the timer. Starts the next checkpoint if log
 * objects that arrived meanwhile made it due, because no further log object may come to start it. */
static void on_ended(void *arg)
{
    struct pl_log_ckpt *c = arg;

    atomic_store(&c->writing, false);
    if (atomic_load(&c->stopping))
        return;
    pl_timer_start(c->day, (uint64_t)DAY_MS);
    if (atomic_load(&c->seq) >= atomic_load(&c->due))
        begin(c);
}

/* Writes a checkpoint. Runs on the pool. */
static void write_it(void *arg)
{
    struct pl_log_ckpt *c = arg;
    struct pl_snapshot_options o = {.dir = c->dir, .stop = is_stopping, .arg = c};
    struct pl_err err = {0};
    uint64_t seq = 0;
    int64_t began = pl_clock_mono_ms();
    int r = pl_db_checkpoint(c->config.db, &o, &seq, &err);

    if (r == 0) {
        atomic_store(&c->made, seq);
        pl_db_note_checkpoint(c->config.db, seq);
        atomic_store(&c->due, seq + c->config.every);
        pl_log_info("ckpt", "checkpoint at log object %" PRIu64 ", made in %lld ms", seq,
                    (long long)(pl_clock_mono_ms() - began));
    } else {
        atomic_store(&c->due, atomic_load(&c->seq) + c->config.every / 10 + 1);
        if (r != PL_ECANCELED)
            pl_log_warn("ckpt", "the checkpoint of the log failed: %s; nothing is lost, but a recovery takes longer", err.msg);
    }
    pl_loop_post_work(c->config.loop, &c->ended, "ckpt.ended", on_ended, c);
}

/* Starts a checkpoint unless one is in progress. Any thread. */
static void begin(struct pl_log_ckpt *c)
{
    struct pl_err err = {0};

    if (atomic_load(&c->stopping) || atomic_exchange(&c->writing, true))
        return;
    /* the pool is full: the next log object tries again */
    if (pl_pool_submit(c->config.pool, write_it, c, &err) < 0) {
        atomic_store(&c->writing, false);
        pl_log_warn("ckpt", "a checkpoint of the log is postponed: %s", err.msg);
    }
}

void pl_log_ckpt_logged(struct pl_log_ckpt *c, uint64_t seq)
{
    if (!c)
        return;
    atomic_store(&c->seq, seq);
    if (seq >= atomic_load(&c->due))
        begin(c);
}

/* On the loop: a day has passed. Starts a checkpoint if there are log objects since the last one. */
static void on_day(void *arg)
{
    struct pl_log_ckpt *c = arg;

    if (atomic_load(&c->seq) > atomic_load(&c->made))
        begin(c);
    pl_timer_start(c->day, (uint64_t)DAY_MS);
}

/* Reads the position of the store's newest checkpoint, and how long ago it was made. */
static int look(struct pl_log_ckpt *c, int64_t *ret_age_ms, struct pl_err *err)
{
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    struct pl_log_checkpoint_head head;
    int n = pl_log_checkpoint_list(pl_db_objects(c->config.db), seqs, err);

    *ret_age_ms = 0;
    if (n <= 0)
        return n;
    atomic_store(&c->made, seqs[0]);
    pl_db_note_checkpoint(c->config.db, seqs[0]);
    if (pl_log_checkpoint_head_read(pl_db_objects(c->config.db), seqs[0], &head, NULL) == 0)
        *ret_age_ms = PL_MAX((int64_t)0, (pl_clock_wall_us() - head.at_us) / 1000);
    return 0;
}

/* Makes an empty folder for scratch files. Removes files that an earlier process left there when it
 * crashed. */
static int make_scratch(struct pl_log_ckpt *c, struct pl_err *err)
{
    int r;

    if (snprintf(c->dir, sizeof c->dir, "%s/ckpt", c->config.dir) >= (int)sizeof c->dir)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", c->config.dir);
    r = pl_io_remove_tree(c->dir, err);
    return r < 0 ? r : pl_io_mkdirs(c->dir, 0700, err);
}

/* Reads the newest checkpoint, and starts the timer with the time that is left until that checkpoint is a day
 * old. */
int pl_log_ckpt_create(const struct pl_log_ckpt_config *config, struct pl_log_ckpt **ret, struct pl_err *err)
{
    struct pl_log_ckpt *c = calloc(1, sizeof *c);
    int64_t age_ms = 0;
    int r;

    if (!c)
        return pl_err_nomem(err);
    c->config = *config;
    atomic_store(&c->seq, pl_db_log_seq(config->db));
    r = make_scratch(c, err);
    r = r < 0 ? r : look(c, &age_ms, err);
    atomic_store(&c->due, atomic_load(&c->made) + config->every);
    r = r < 0 ? r : pl_timer_create(config->loop, "ckpt.day", on_day, c, &c->day, err);
    if (r < 0) {
        free(c);
        return r;
    }
    pl_timer_start(c->day, (uint64_t)PL_MAX((int64_t)1, DAY_MS - age_ms));
    *ret = c;
    return 0;
}

void pl_log_ckpt_stop(struct pl_log_ckpt *c)
{
    if (c)
        atomic_store(&c->stopping, true);
}

struct pl_log_ckpt *pl_log_ckpt_destroy(struct pl_log_ckpt *c)
{
    if (!c)
        return NULL;
    pl_timer_destroy(c->day);
    free(c);
    return NULL;
}
