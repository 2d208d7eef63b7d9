/* A database, a store and the logs of one job. */
#pragma once

#include "pipelined/db/stage_log/log_segment.h"
#include "pipelined/db/stage_log/stage_log.h"
#include "tests/support/fixtures/db_world.h"

struct logs {
    struct world w;
    struct pl_stage_logs *l;
    char dir[256];
    int64_t job;
};

static inline void open_logs(struct logs *t)
{
    struct pl_err err = {0};

    assert_ok(pl_stage_logs_open(t->dir, t->w.db, t->w.stores, &t->l, &err), &err);
}

static inline int64_t new_job(struct logs *t, const char *stage)
{
    struct pl_job_args job = {.run = "0123456789abcdef0123456789abcdef",
                              .project = "default",
                              .stage = stage,
                              .pipeline = "flow",
                              .version = 1,
                              .state = "running",
                              .created_us = 1};
    struct pl_err err = {0};

    assert_ok(pl_db_run(t->w.db, PL_TX_UNLOGGED, pl_tx_job_progress, &job, &err), &err);
    return job.id;
}

static inline int setup(void **state)
{
    struct logs *t = calloc(1, sizeof *t);
    struct pl_err err = {0};

    t->w.dir = fixture_dir();
    snprintf(t->dir, sizeof t->dir, "%s/logs", t->w.dir);
    assert_ok(world_open(&t->w, "data", &err), &err);
    t->job = new_job(t, "train");
    open_logs(t);
    *state = t;
    return 0;
}

static inline int teardown(void **state)
{
    struct logs *t = *state;

    for (int call = 0; call < PL_IO_CALLS; call++)
        pl_io_fail_nth((enum pl_io_call)call, 0, 0);
    pl_stage_logs_close(t->l);
    world_close(&t->w);
    fixture_remove(t->w.dir);
    free(t);
    return 0;
}

static inline struct pl_hash datum(uint8_t n)
{
    struct pl_hash h = {.b = {n}};

    return h;
}

static const struct pl_stage_log_source FIRST = {.datum = {.b = {1}}, .attempt = 1, .fence = 1},
                                        LAST = {.datum = {.b = {9}}, .attempt = 1, .fence = 1};

static inline int append_bytes(struct logs *t, const struct pl_stage_log_source *source, uint64_t offset, const void *bytes,
                               size_t n)
{
    struct pl_err err = {0};
    int r = pl_stage_logs_append(t->l, "default", t->job, source, offset, bytes, n, &err);

    assert_true(r == 0 || *err.msg);
    return r;
}

/* What a worker prints that has the lease with this fence. */
static inline void append_leased(struct logs *t, uint64_t fence, uint8_t d, unsigned attempt, uint64_t offset, const char *text)
{
    const struct pl_stage_log_source source = {.datum = datum(d), .attempt = attempt, .fence = fence};

    assert_int_equal(append_bytes(t, &source, offset, text, strlen(text)), 0);
}

static inline void append(struct logs *t, uint8_t d, unsigned attempt, uint64_t offset, const char *text)
{
    append_leased(t, 1, d, attempt, offset, text);
}

static inline void lost(struct logs *t, uint64_t fence, const char *why)
{
    struct pl_err err = {0};

    assert_ok(pl_stage_logs_lost(t->l, "default", t->job, fence, NULL, why, &err), &err);
}

static inline void gave_back(struct logs *t, uint64_t fence, uint8_t d, const char *why)
{
    const struct pl_hash id = datum(d);
    struct pl_err err = {0};

    assert_ok(pl_stage_logs_lost(t->l, "default", t->job, fence, &id, why, &err), &err);
}

static inline void seal(struct logs *t)
{
    struct pl_err err = {0};

    assert_ok(pl_stage_logs_seal(t->l, "default", t->job, &err), &err);
}

/* All that comes after the cursor in pieces of `max`, malloc'ed. `d` 0: of all datums. */
static inline char *read_on(struct logs *t, uint8_t d, struct pl_stage_log_cursor *cursor, size_t max)
{
    struct pl_hash id = datum(d);
    struct pl_buf out = {.max = 64u << 20};
    struct pl_err err = {0};
    size_t before;

    do {
        before = out.len;
        assert_ok(pl_stage_logs_read(t->l, "default", t->job, d ? &id : NULL, cursor, max, NULL, &out, &err), &err);
    } while (out.len > before);
    return pl_buf_take_str(&out);
}

static inline void assert_log(struct logs *t, uint8_t d, const char *want)
{
    struct pl_stage_log_cursor cursor = {0};
    char *got = read_on(t, d, &cursor, 1u << 20);

    assert_string_equal(got, want);
    free(got);
}

static inline int64_t segments(struct logs *t)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t->w.db);
    int64_t n = -1;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &n, "SELECT count(*) FROM log_segment", ""), 0);
    return n;
}

/* The file of the job's first segment that was never sealed. */
static inline const char *open_file(struct logs *t)
{
    char name[64];

    snprintf(name, sizeof name, "%lld-%lld.log", (long long)t->job, (long long)segments(t));
    return fixture_path(t->dir, name);
}

/* As after kill -9: nothing but the files and the database. */
static inline void restart(struct logs *t)
{
    pl_stage_logs_close(t->l);
    open_logs(t);
}
