// link: storage/base storage/chunk storage/dataset/checkout storage/dataset/commit storage/dataset/file storage/dataset/ingest storage/pack storage/store storage/system storage/tree_edit
/* What an ingest says of itself: how far it is, also within one file, and how much it will read. */
#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/dataset/ingest/ingest_read.h"

/* A sink that notes how the progress grows between chunks. */
struct watched {
    struct pl_ingest_progress progress;
    uint64_t chunked;
    size_t chunks;
};

static int watched_chunk(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct watched *w = self;

    (void)err;
    assert_int_equal(atomic_load(&w->progress.bytes), w->chunked);
    w->chunked += n;
    w->chunks++;
    pl_hash_sha256(bytes, n, ret_id);
    return 0;
}

static int watched_list(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    (void)self;
    (void)err;
    pl_hash_sha256(bytes, n, ret_id);
    return 0;
}

static void share_with_nobody(void *self, struct pl_large_file_job *job, struct pl_large_file_buffer *buffer)
{
    (void)self;
    pl_large_file_job_help(job, buffer);
}

static void progress_grows_within_a_file(void **state)
{
    static const size_t sizes[] = {0, 30, 1000, 3u << 20, (12u << 20) + 1};
    struct fixture *f = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_(pl_walk_destroyp) struct pl_walk *walk = NULL;
        struct pl_walk_batch *b = calloc(1, sizeof(*b));
        struct watched w = {0};
        struct pl_reader reader = {.sink = {.self = &w, .chunk = watched_chunk, .list = watched_list},
                                   .progress = &w.progress,
                                   .share = share_with_nobody};
        struct pl_ingest_options plain = {0};
        struct pl_ingest_source source = {.local = at(f, "f"), .dest = "f"};

        put_noise(f, "f", sizes[i], i);
        OK(f, pl_walk_create(&source, 1, &plain, &walk, &f->err));
        assert_int_equal(pl_walk_next(walk, b, &f->err), 1);
        OK(f, pl_reader_item(&reader, b, &b->items[0], &f->err));
        assert_int_equal(atomic_load(&w.progress.bytes), sizes[i]);
        if (sizes[i] > 1u << 20)
            assert_in_range(w.chunks, 4, 10000);
        pl_reader_finish(&reader);
        pl_walk_batch_finish(b);
        free(b);
    }
}

static void progress_ends_at_the_size_of_all_files(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_ingest_progress progress = {0}, found = {0};
    struct pl_ingest_options o = {.progress = &progress}, measure = {.progress = &found};
    struct pl_ingest_source source = {.dest = ""};
    struct pl_ingest_stats stats;
    struct pl_ingest_size size;

    put_noise(f, "in/large", (9u << 20) + 5, 1);
    put_noise(f, "in/medium", 1u << 20, 2);
    put_noise(f, "in/small", 5000, 3);
    put_text(f, "in/inline", "x");
    put_text(f, "in/none", "");
    put_link(f, "in/link", "small");
    put_folder(f, "in/empty");
    OK(f, ingest_folder(f, "in", &o, &ops, &stats));
    assert_int_equal(atomic_load(&progress.bytes), stats.bytes);
    assert_int_equal(atomic_load(&progress.files), stats.files);
    source.local = at(f, "in");
    OK(f, pl_ingest_measure(&source, 1, &measure, &size, &f->err));
    assert_int_equal(size.bytes, stats.bytes);
    assert_int_equal(size.new_bytes, stats.bytes);
    assert_int_equal(size.files, stats.files);
    assert_int_equal(atomic_load(&found.bytes), stats.bytes);
}

static void a_measure_fails_as_the_walk_does(void **state)
{
    struct fixture *f = *state;
    struct pl_ingest_source source = {.local = at(f, "nowhere"), .dest = ""};
    struct pl_ingest_size size = {.bytes = 7};

    FAILS(f, pl_ingest_measure(&source, 1, NULL, &size, &f->err), PL_ENOTFOUND, "nowhere");
    assert_int_equal(size.bytes, 7);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(progress_grows_within_a_file),
        TEST(progress_ends_at_the_size_of_all_files),
        TEST(a_measure_fails_as_the_walk_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
