// link: storage/base storage/chunk storage/dataset/file storage/system
/* join: parts one after another have the entry that their bytes have in one piece, whatever the parts are; and only what lies about the
 * joins is read. PL_TEST_SEEDS: how many random files (60). */
#include "storage/dataset/file/file_concat.h"

#include "storage/base/map.h"
#include "storage/chunk/chunk.h"
#include "tests/support/fixtures/store_fixture.h"

/* Records in memory. */
static struct pl_map records;
static uint64_t read_bytes;

struct bytes {
    size_t n;
    uint8_t data[];
};

static int put(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct bytes *b = malloc(sizeof *b + n);
    void *old = NULL;

    (void)self;
    b->n = n;
    memcpy(b->data, bytes, n);
    pl_hash_sha256(bytes, n, ret_id);
    assert_int_equal(pl_map_put(&records, ret_id->b, PL_HASH_BYTES, b, &old, err), 0);
    free(old);
    return 0;
}

static int get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    const struct bytes *b = pl_map_get(&records, id->b, PL_HASH_BYTES);

    (void)self;
    (void)kind;
    assert_non_null(b);
    read_bytes += b->n;
    pl_buf_clear(ret);
    return pl_buf_add(ret, b->data, b->n, err);
}

struct memory_reader {
    const uint8_t *data;
    size_t left;
};

static ssize_t read_memory(void *self, void *out, size_t n, struct pl_err *err)
{
    struct memory_reader *m = self;

    (void)err;
    n = PL_MIN(n, m->left);
    memcpy(out, m->data, n);
    m->data += n;
    m->left -= n;
    return (ssize_t)n;
}

static const struct pl_file_write_sink sink = {.chunk = put, .list = put};
static const struct pl_chunk_reader reader = {.get = get};

static struct pl_entry whole(const uint8_t *data, size_t n)
{
    struct memory_reader from = {data, n};
    uint8_t *buffer = malloc(PL_FILE_WRITE_BUFFER_BYTES);
    struct pl_entry e;
    struct pl_err err = {0};

    assert_ok(pl_file_write_entry(&sink, buffer, PL_KIND_FILE, read_memory, &from, &e, &err), &err);
    free(buffer);
    return e;
}

/* Parts of these lengths of `data`, joined, are the file. */
static void joins(const uint8_t *data, const size_t *lengths, size_t n)
{
    struct pl_entry *parts = calloc(n + 1, sizeof *parts), joined, expected;
    size_t at = 0;
    struct pl_err err = {0};

    for (size_t i = 0; i < n; at += lengths[i++])
        parts[i] = whole(data + at, lengths[i]);
    expected = whole(data, at);
    read_bytes = 0;
    assert_ok(pl_file_concat(parts, n, PL_KIND_FILE, &reader, &sink, NULL, &joined, &err), &err);
    if (!pl_entry_eq(&joined, &expected))
        fail_msg("%zu parts, the first of %zu bytes: other bytes than those of %zu in one piece", n, n ? lengths[0] : 0, at);
    free(parts);
    pl_map_finish(&records, free);
    records = (struct pl_map){0};
}

static void parts_of_any_size_are_the_file(void **state)
{
    static const size_t table[][6] = {
        {0},
        {1},
        {64},
        {65},
        {65, 64},
        {32768, 32768},
        {32768, 32769},
        {65536},
        {65537},
        {65536, 1},
        {1, 65536},
        {1, 1, 1},
        {0, 0, 100000},
        {100000, 0, 0},
        {0, 70000, 0, 70000, 0},
        {300000, 64, 300000},
        {300000, 1000, 300000},
        {300000, 40000, 40000, 300000},
        {50000, 50000, 50000, 50000, 50000, 50000},
        {262144, 262144, 262144},
        {1048576, 7, 1048576},
    };
    uint8_t *data = fixture_alloc(4 << 20, 7);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++)
        joins(data, table[i], 6);
    free(data);
}

/* Zeros have no candidates (or one at every byte): all cuts are where chunks are longest, so parts and file may never meet again. */
static void bytes_without_cuts_are_cut_at_the_longest(void **state)
{
    static const size_t lengths[] = {300000, 262144, 1, 600000, 65536, 262143};
    uint8_t *data = calloc(1, 2 << 20);

    (void)state;
    joins(data, lengths, PL_ARRAY_SIZE(lengths));
    free(data);
}

static void many_tiny_parts_are_the_file(void **state)
{
    enum { N = 12000 };
    size_t *lengths = calloc(N + 1, sizeof *lengths);
    uint8_t *data = fixture_alloc(N * 60 + 800000, 3);

    (void)state;
    for (size_t i = 0; i < N; i++)
        lengths[i] = 1 + i % 60;
    lengths[N] = 700000;
    joins(data, lengths, N + 1);
    free(lengths);
    free(data);
}

static void random_parts_are_the_file(void **state)
{
    const char *seeds = getenv("PL_TEST_SEEDS");
    uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 60;

    (void)state;
    for (uint64_t seed = 1; seed <= n; seed++) {
        uint64_t rng = seed;
        size_t lengths[12], count = 1 + pl_splitmix64(&rng) % 12, total = 0;
        uint8_t *data;

        for (size_t i = 0; i < count; i++) {
            lengths[i] = pl_splitmix64(&rng) % (1u << (pl_splitmix64(&rng) % 21));
            total += lengths[i];
        }
        data = fixture_alloc(total + 1, seed * 31);
        if (seed % 3 == 0) /* repeats itself: the same cuts come again at other places */
            for (size_t i = 100000; i < total; i++)
                data[i] = data[i - 100000];
        joins(data, lengths, count);
        free(data);
    }
}

static void little_is_read(void **state)
{
    size_t lengths[8];
    uint8_t *data = fixture_alloc((size_t)40 << 20, 5);

    (void)state;
    for (size_t i = 0; i < 8; i++)
        lengths[i] = (size_t)5 << 20;
    joins(data, lengths, 8);
    assert_true(read_bytes < 8 * (4 * PL_CHUNK_MAX_BYTES));
    free(data);
}

static void what_is_no_file_and_what_is_too_long_is_refused(void **state)
{
    struct pl_hash id = {{1}};
    struct pl_entry dir = pl_entry_dir(),
                    huge[] = {pl_entry_list(PL_KIND_FILE, PL_FILE_LIMIT_BYTES - 1, &id), pl_entry_inline(PL_KIND_FILE, "x", 1)};
    struct pl_entry ret;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_file_concat(&dir, 1, PL_KIND_FILE, &reader, &sink, NULL, &ret, &err), PL_EINVAL);
    assert_int_equal(pl_file_concat(huge, 2, PL_KIND_FILE, &reader, &sink, NULL, &ret, &err), PL_ETOOBIG);
}

static bool gone(const void *self)
{
    (void)self;
    return true;
}

/* A few lists that name one list again and again are many chunks: the join counts them, and stops. */
static void the_work_of_a_join_is_bounded(void **state)
{
    size_t lengths = (size_t)5 << 20;
    uint8_t *data = calloc(1, lengths);
    struct pl_effort none = {0}, few = {.visits_max = 100}, left = {.gone = gone};
    struct pl_entry parts[64], ret;
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++)
        parts[i] = whole(data, lengths);
    assert_ok(pl_file_concat(parts, PL_ARRAY_SIZE(parts), PL_KIND_FILE, &reader, &sink, &none, &ret, &err), &err);
    assert_int_equal(none.visits, PL_ARRAY_SIZE(parts) * lengths / PL_CHUNK_MAX_BYTES);
    assert_int_equal(pl_file_concat(parts, PL_ARRAY_SIZE(parts), PL_KIND_FILE, &reader, &sink, &few, &ret, &err), PL_ELIMIT);
    assert_int_equal(pl_file_concat(parts, PL_ARRAY_SIZE(parts), PL_KIND_FILE, &reader, &sink, &left, &ret, &err), PL_ECANCELED);
    free(data);
    pl_map_finish(&records, free);
    records = (struct pl_map){0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_any_size_are_the_file),
        cmocka_unit_test(bytes_without_cuts_are_cut_at_the_longest),
        cmocka_unit_test(many_tiny_parts_are_the_file),
        cmocka_unit_test(random_parts_are_the_file),
        cmocka_unit_test(little_is_read),
        cmocka_unit_test(what_is_no_file_and_what_is_too_long_is_refused),
        cmocka_unit_test(the_work_of_a_join_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
