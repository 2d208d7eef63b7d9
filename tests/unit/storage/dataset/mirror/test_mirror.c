// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/dataset/log storage/dataset/mirror storage/object storage/pack storage/store storage/system storage/tree storage/tree_edit
/* mirror: by what is missing, verified on the way, and whatever interrupts it, the target recovers. */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/writer/db_recover.h"
#include "pipelined/db/writer/db_snapshot.h"
#include "storage/dataset/log/log.h"
#include "storage/dataset/log/log_checkpoint.h"
#include "storage/dataset/log/log_record.h"
#include "storage/dataset/mirror/mirror.h"
#include "storage/object/store_marker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

struct fixture {
    struct world w;   /* the source */
    char *target_dir; /* the target is its folder store */
    struct pl_object_store *to;
    /* What mirroring has said. */
    char told[4096];
    atomic_uint asked;   /* by several threads */
    unsigned stop_after; /* 0 = never */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pl_err err = {0};

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    f->w.dir = fixture_dir();
    f->target_dir = fixture_dir();
    assert_ok(world_open(&f->w, "data", &err), &err);
    assert_ok(pl_object_file_open(fixture_path(f->target_dir, "store"), &f->to, &err), &err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_object_close(f->to);
    world_close(&f->w);
    fixture_remove(f->w.dir);
    fixture_remove(f->target_dir);
    free(f);
    return 0;
}

static void steps(struct fixture *f, size_t from, size_t to)
{
    struct pl_err err = {0};

    for (size_t i = from; i < to; i++)
        assert_ok(world_step(&f->w, i, &err), &err);
}

static void checkpoint(struct fixture *f)
{
    char dir[PATH_MAX];
    struct pl_snapshot_options o = {.dir = dir};
    struct pl_err err = {0};
    uint64_t seq;

    snprintf(dir, sizeof dir, "%s/data", f->w.dir);
    assert_ok(pl_db_checkpoint(f->w.db, &o, &seq, &err), &err);
}

static int on_finding(void *self, const char *key, const char *what, struct pl_err *err)
{
    struct fixture *f = self;
    size_t used = strlen(f->told);

    (void)err;
    snprintf(f->told + used, sizeof f->told - used, "[%s %s]", key, what);
    return 0;
}

static bool on_stop(void *self)
{
    struct fixture *f = self;

    return f->stop_after && atomic_fetch_add(&f->asked, 1) + 1 >= f->stop_after;
}

static int mirror_to(struct fixture *f, struct pl_object_store *to, bool full, struct pl_mirror_report *sum, struct pl_err *err)
{
    struct pl_mirror_options o = {
        .threads = 2, .full = full, .temp_dir = f->w.dir, .finding = on_finding, .stop = on_stop, .self = f};

    f->told[0] = '\0';
    atomic_store(&f->asked, 0);
    *sum = (struct pl_mirror_report){0};
    return pl_mirror(f->w.objects, to, &o, sum, err);
}

static struct pl_mirror_report mirror(struct fixture *f, bool full)
{
    struct pl_mirror_report sum;
    struct pl_err err = {0};

    f->stop_after = 0;
    assert_ok(mirror_to(f, f->to, full, &sum, &err), &err);
    return sum;
}

static int count_one(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)key;
    (void)size;
    (void)err;
    ++*(unsigned *)arg;
    return 0;
}

static unsigned count_of(struct pl_object_store *s, const char *prefix)
{
    unsigned n = 0;

    assert_int_equal(pl_object_list(s, prefix, count_one, &n, NULL), 0);
    return n;
}

/* Opens a copy of the target, so that the target itself is nobody's. */
static void open_copy(struct fixture *f, struct world *ret)
{
    char command[PATH_MAX + 64];
    struct pl_err err = {0};

    *ret = (struct world){.dir = fixture_dir()};
    snprintf(command, sizeof command, "cp -a '%s/store' '%s/store'", f->target_dir, ret->dir);
    assert_int_equal(system(command), 0);
    assert_ok(world_open(ret, "data", &err), &err);
}

static void close_copy(struct world *w)
{
    world_close(w);
    fixture_remove(w->dir);
}

static void assert_equal(struct fixture *f)
{
    struct world copy;
    char *was = world_state(&f->w), *is;

    open_copy(f, &copy);
    is = world_state(&copy);
    assert_string_equal(is, was);
    world_fsck(&copy);
    close_copy(&copy);
    free(was);
    free(is);
}

static void flip(const char *store, const char *key, off_t at)
{
    char path[PATH_MAX];
    uint8_t byte;
    int fd;

    snprintf(path, sizeof path, "%s/%s", store, key);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 2;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static int first_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)size;
    (void)err;
    snprintf(arg, 512, "%s", key);
    return 1;
}

static void a_pack_key(struct pl_object_store *s, char out[512])
{
    out[0] = '\0';
    assert_int_equal(pl_object_list(s, "p/", first_key, out, NULL), 0);
    assert_true(*out);
}

/* ---- what is copied ---- */

static void an_empty_place_becomes_the_same_store(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;

    steps(f, 0, STEPS);
    checkpoint(f);
    sum = mirror(f, false);
    assert_int_equal(sum.findings, 0);
    assert_int_equal(sum.packs, count_of(f->w.objects, "p/"));
    assert_int_equal(sum.log_objects, pl_db_log_seq(f->w.db));
    assert_int_equal(sum.log_seq, pl_db_log_seq(f->w.db));
    assert_int_equal(sum.checkpoints, 1);
    assert_equal(f);
}

static void only_what_is_missing_is_copied(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;
    unsigned packs;

    steps(f, 0, 6);
    checkpoint(f);
    mirror(f, false);
    sum = mirror(f, false);
    assert_int_equal(sum.packs + sum.log_objects + sum.checkpoints + sum.bytes, 0);
    packs = count_of(f->to, "p/");
    assert_int_equal(sum.there, packs);
    for (size_t i = 6; i < STEPS; i++) {
        steps(f, i, i + 1);
        if (i % 6 == 0)
            checkpoint(f);
        sum = mirror(f, i % 2);
        assert_int_equal(sum.packs, count_of(f->to, "p/") - packs);
        assert_true(sum.log_objects >= 1);
        packs = count_of(f->to, "p/");
    }
    assert_int_equal(count_of(f->to, "ckpt/"), PL_LOG_CHECKPOINT_KEPT);
    assert_equal(f);
}

/* ---- interrupted ---- */

/* The state is the model's after some number of steps: which. */
static size_t state_number(struct world *w, char *const *expected)
{
    char *is = world_state(w);

    for (size_t i = 0; i <= STEPS; i++) {
        if (pl_streq(is, expected[i])) {
            free(is);
            return i;
        }
    }
    fail_msg("no state of the source: %s", is);
    return 0;
}

static void interrupted_anywhere_the_target_recovers_and_the_next_call_goes_on(void **state)
{
    struct fixture *f = *state;
    char *expected[STEPS + 1];
    size_t before = 0;
    int r = PL_ECANCELED;

    for (size_t i = 0; i <= STEPS; i++)
        expected[i] = model_after(i);
    steps(f, 0, STEPS);
    checkpoint(f);
    /* Each call gets as far as the one before and a little further. */
    for (unsigned i = 0; r == PL_ECANCELED; i++) {
        struct pl_mirror_report sum;
        struct pl_err err = {0};
        struct world copy;
        size_t now;

        f->stop_after = 2 + i;
        r = mirror_to(f, f->to, false, &sum, &err);
        if (r < 0)
            assert_int_equal(r, PL_ECANCELED);
        open_copy(f, &copy);
        now = state_number(&copy, expected);
        assert_true(now >= before);
        world_fsck(&copy);
        close_copy(&copy);
        before = now;
        assert_true(i < 200);
    }
    assert_int_equal(before, STEPS);
    for (size_t i = 0; i <= STEPS; i++)
        free(expected[i]);
}

/* ---- a source in use ---- */

struct busy {
    struct fixture *f;
    atomic_bool done;
};

static void *run_workload(void *arg)
{
    struct busy *b = arg;

    steps(b->f, 0, STEPS);
    atomic_store(&b->done, true);
    return NULL;
}

static void a_source_in_use_is_mirrored_as_it_was_at_some_moment(void **state)
{
    struct fixture *f = *state;
    struct busy busy = {.f = f};
    char *expected[STEPS + 1];
    pthread_t thread;

    for (size_t i = 0; i <= STEPS; i++)
        expected[i] = model_after(i);
    assert_int_equal(pthread_create(&thread, NULL, run_workload, &busy), 0);
    while (!atomic_load(&busy.done)) {
        struct world copy;

        mirror(f, false);
        open_copy(f, &copy);
        (void)state_number(&copy, expected);
        world_fsck(&copy);
        close_copy(&copy);
    }
    pthread_join(thread, NULL);
    mirror(f, false);
    assert_equal(f);
    for (size_t i = 0; i <= STEPS; i++)
        free(expected[i]);
}

/* Garbage collection between the look at the log and the list of packs: a pack goes whose commit went. */
static struct {
    const struct pl_object_ops *real;
    struct pl_object_ops ops;
    struct fixture *f;
    char key[512];
    bool done;
} collector;

static int doom(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const char *id = strrchr(arg, '/') + 1;

    return pl_tx_emit(tx, PL_RECORD_PACK_STATE, json_pack("{s:s, s:s, s:s}", "pack", id, "project", "default", "state", "doomed"),
                      err);
}

static int collecting_list(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                           struct pl_err *err)
{
    if (pl_streq(prefix, "p/") && !collector.done) {
        collector.done = true;
        assert_int_equal(pl_db_run(collector.f->w.db, PL_TX_LOGGED, doom, collector.key, err), 0);
        assert_int_equal(pl_object_remove(s, collector.key, err), 0);
    }
    return collector.real->list(s, prefix, after, visit, arg, err);
}

static void what_garbage_collection_takes_meanwhile_is_mirrored_with_its_record(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;

    steps(f, 0, 5);
    a_pack_key(f->w.objects, collector.key);
    collector.f = f;
    collector.done = false;
    collector.real = f->w.objects->ops;
    collector.ops = *collector.real;
    collector.ops.list = collecting_list;
    f->w.objects->ops = &collector.ops;
    sum = mirror(f, false);
    f->w.objects->ops = collector.real;
    assert_true(collector.done);
    assert_int_equal(sum.log_seq, pl_db_log_seq(f->w.db)); /* not the state before, which would lack the pack */
}

/* ---- what is refused ---- */

static void assert_refused(struct fixture *f, int code, const char *text)
{
    struct pl_mirror_report sum;
    struct pl_err err = {0};

    assert_int_equal(mirror_to(f, f->to, false, &sum, &err), code);
    if (!strstr(err.msg, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
}

static void put_text(struct pl_object_store *s, const char *key, const char *text)
{
    struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
    struct pl_err err = {0};

    assert_ok(pl_object_put(s, key, &iov, 1, true, &err), &err);
}

static void a_place_that_is_not_empty_is_refused(void **state)
{
    struct fixture *f = *state;

    put_text(f->to, "photos/cat.jpg", "meow");
    assert_refused(f, PL_EFORMAT, "photos/cat.jpg");
    assert_int_equal(count_of(f->to, ""), 1);
}

static void another_store_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pl_store_marker marker;
    struct pl_err err = {0};

    assert_ok(pl_store_marker_init(f->to, &marker, &err), &err);
    assert_refused(f, PL_ECONFLICT, "the target is store");
    assert_int_equal(count_of(f->to, ""), 1);
}

static void a_target_that_a_daemon_has_used_is_refused(void **state)
{
    struct fixture *f = *state;
    struct world other = {.dir = f->target_dir};
    struct pl_err err = {0};

    steps(f, 0, 5);
    mirror(f, false);
    assert_ok(world_open(&other, "data", &err), &err); /* its open_epoch */
    world_close(&other);
    assert_refused(f, PL_ELOG, "differs from the source's");
    steps(f, 5, 8); /* the source goes on, too */
    assert_refused(f, PL_ELOG, "differs from the source's");
}

static void a_gap_in_the_sources_log_is_named(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};

    steps(f, 0, 5);
    assert_ok(pl_object_remove(f->w.objects, "log/0000000000000003", &err), &err);
    assert_refused(f, PL_ELOG, "log/0000000000000003 is missing");
}

static void a_damaged_log_object_goes_no_further(void **state)
{
    struct fixture *f = *state;

    steps(f, 0, 8);
    flip(fixture_path(f->w.dir, "store"), "log/0000000000000004", 60);
    assert_refused(f, PL_ELOG, "log/0000000000000004");
    assert_int_equal(count_of(f->to, "log/"), 3);
}

/* ---- damage ---- */

static void a_damaged_pack_is_told_and_not_copied(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;
    char key[512];
    uint64_t size = 0;
    struct pl_err err = {0};

    steps(f, 0, 8);
    a_pack_key(f->w.objects, key);
    assert_ok(pl_object_size(f->w.objects, key, &size, &err), &err);
    for (uint64_t at = 0; at < size; at += 1 + size / 40) {
        flip(fixture_path(f->w.dir, "store"), key, (off_t)at);
        sum = mirror(f, false);
        if (sum.findings != 1 || !strstr(f->told, key))
            fail_msg("byte %llu of %llu: %s", (unsigned long long)at, (unsigned long long)size, f->told);
        assert_int_equal(pl_object_size(f->to, key, &(uint64_t){0}, NULL), PL_ENOTFOUND);
        flip(fixture_path(f->w.dir, "store"), key, (off_t)at);
    }
    sum = mirror(f, false);
    assert_int_equal(sum.findings, 0);
    assert_int_equal(sum.packs, 1);
    assert_equal(f);
}

static void the_targets_damaged_packs_are_replaced_by_a_full_mirror(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;
    char key[512], path[PATH_MAX];

    steps(f, 0, 8);
    mirror(f, false);
    a_pack_key(f->to, key);
    flip(fixture_path(f->target_dir, "store"), key, 200);
    sum = mirror(f, false);
    assert_int_equal(sum.replaced, 0);
    sum = mirror(f, true);
    assert_int_equal(sum.replaced, 1);
    assert_equal(f);
    snprintf(path, sizeof path, "%s/store/%s", f->target_dir, key);
    assert_int_equal(truncate(path, 100), 0); /* which needs no full one */
    sum = mirror(f, false);
    assert_int_equal(sum.replaced, 1);
    assert_equal(f);
}

static void a_damaged_checkpoint_is_told_and_not_copied(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];
    struct pl_err err = {0};

    steps(f, 0, 5);
    checkpoint(f);
    assert_int_equal(pl_log_checkpoint_list(f->w.objects, seqs, &err), 1);
    pl_log_checkpoint_key(seqs[0], key);
    flip(fixture_path(f->w.dir, "store"), key, 300);
    sum = mirror(f, false);
    assert_int_equal(sum.findings, 1);
    assert_non_null(strstr(f->told, key));
    assert_int_equal(count_of(f->to, "ckpt/"), 0);
    assert_equal(f);
}

static void a_hole_in_the_targets_log_is_filled(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;
    struct pl_err err = {0};

    steps(f, 0, 8);
    mirror(f, false);
    assert_ok(pl_object_remove(f->to, "log/0000000000000004", &err), &err);
    sum = mirror(f, false);
    assert_int_equal(sum.log_objects, 1);
    assert_equal(f);
}

static void a_full_disk_of_the_target_is_an_error_and_the_next_call_goes_on(void **state)
{
    struct fixture *f = *state;
    struct pl_mirror_report sum;
    struct pl_err err = {0};

    unsigned failures = 0;
    int r = PL_ENOSPC;

    steps(f, 0, 8);
    for (f->stop_after = 0; r < 0; failures++) { /* each call has room for three objects more */
        pl_io_fail_nth(PL_IO_WRITE, 4, ENOSPC);
        r = mirror_to(f, f->to, false, &sum, &err);
        if (r < 0)
            assert_int_equal(r, PL_ENOSPC);
    }
    assert_true(failures > 3);
    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
    mirror(f, false);
    assert_equal(f);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_place_becomes_the_same_store),
        TEST(only_what_is_missing_is_copied),
        TEST(interrupted_anywhere_the_target_recovers_and_the_next_call_goes_on),
        TEST(a_source_in_use_is_mirrored_as_it_was_at_some_moment),
        TEST(what_garbage_collection_takes_meanwhile_is_mirrored_with_its_record),
        TEST(a_place_that_is_not_empty_is_refused),
        TEST(another_store_is_refused),
        TEST(a_target_that_a_daemon_has_used_is_refused),
        TEST(a_gap_in_the_sources_log_is_named),
        TEST(a_damaged_log_object_goes_no_further),
        TEST(a_damaged_pack_is_told_and_not_copied),
        TEST(the_targets_damaged_packs_are_replaced_by_a_full_mirror),
        TEST(a_damaged_checkpoint_is_told_and_not_copied),
        TEST(a_hole_in_the_targets_log_is_filled),
        TEST(a_full_disk_of_the_target_is_an_error_and_the_next_call_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
