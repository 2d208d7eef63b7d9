// link: storage/base storage/chunk storage/system
/* chunk_list: lists of any length keep their chunks, are shared after a change, and damaged ones are refused. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/base/map.h"
#include "storage/chunk/chunk.h"
#include "storage/chunk/chunk_list.h"

/* List objects in memory. */
struct blob {
    size_t n;
    uint8_t bytes[];
};

struct memory {
    struct pl_map map;
    size_t puts, gets;
};

static int memory_put(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct memory *m = self;
    struct blob *b = malloc(sizeof(*b) + n);
    void *old;

    b->n = n;
    memcpy(b->bytes, bytes, n);
    pl_hash_sha256(bytes, n, ret_id);
    assert_ok(pl_map_put(&m->map, ret_id->b, PL_HASH_BYTES, b, &old, err), err);
    free(old);
    m->puts++;
    assert_true(n <= PL_LIST_MAX_BYTES);
    return 0;
}

static int memory_get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    struct memory *m = self;
    const struct blob *b = pl_map_get(&m->map, id->b, PL_HASH_BYTES);

    m->gets++;
    return b != NULL ? pl_buf_add(ret, b->bytes, b->n, err) : pl_err_set(err, PL_ENOTFOUND, "no such list");
}

static void chunk_at(uint64_t i, uint64_t seed, struct pl_hash *ret_id, size_t *ret_len)
{
    uint64_t s = seed * 1000003 + i;

    fixture_bytes(ret_id->b, PL_HASH_BYTES, s);
    *ret_len = 1 + pl_splitmix64(&s) % PL_CHUNK_MAX_BYTES;
}

/* A list of `n` chunks drawn from `seed`; those from `change` on from another. Returns the bytes. */
static uint64_t build(struct memory *m, uint64_t n, uint64_t seed, uint64_t change, uint64_t changed, struct pl_hash *ret_root)
{
    struct pl_list_sink sink = {m, memory_put};
    _cleanup_(pl_list_builder_destroyp) struct pl_list_builder *b = NULL;
    uint64_t bytes = 0, said;
    struct pl_err err;

    assert_ok(pl_list_builder_create(&sink, &b, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        struct pl_hash id;
        size_t len;

        chunk_at(i, i >= change && i < change + changed ? seed + 1 : seed, &id, &len);
        bytes += len;
        assert_ok(pl_list_builder_add(b, &id, len, &err), &err);
    }
    assert_ok(pl_list_builder_finish(b, ret_root, &said, &err), &err);
    assert_true(said == bytes);
    return bytes;
}

static void assert_chunks_from(struct pl_list_cursor *c, uint64_t first, uint64_t n, uint64_t seed, uint64_t offset)
{
    struct pl_hash id, want;
    uint64_t at;
    size_t len, want_len;
    struct pl_err err;
    int r;

    for (uint64_t i = first; i < n; i++) {
        r = pl_list_cursor_next(c, &id, &at, &len, &err);
        assert_ok(r, &err);
        assert_int_equal(r, 1);
        chunk_at(i, seed, &want, &want_len);
        assert_true(pl_hash_eq(&id, &want));
        assert_int_equal(len, want_len);
        assert_true(at == offset);
        offset += len;
    }
    assert_int_equal(pl_list_cursor_next(c, &id, &at, &len, &err), 0);
    assert_int_equal(pl_list_cursor_next(c, &id, &at, &len, &err), 0);
}

static void a_list_of_any_length_gives_its_chunks_back(void **state)
{
    static const uint64_t lengths[] = {1, 2, 299, 300, 4095, 4096, 4097, 5000, 12345, 60000};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(lengths); i++) {
        struct memory m = {0};
        struct pl_list_source source = {&m, memory_get};
        _cleanup_(pl_list_cursor_closep) struct pl_list_cursor *c = NULL;
        struct pl_hash root;
        uint64_t bytes = build(&m, lengths[i], 7, UINT64_MAX, 0, &root);
        struct pl_err err;

        assert_ok(pl_list_cursor_open(&source, &root, &c, &err), &err);
        assert_true(pl_list_cursor_bytes(c) == bytes);
        assert_chunks_from(c, 0, lengths[i], 7, 0);
        assert_int_equal(m.puts == 1, lengths[i] <= PL_LIST_MAX_ENTRIES);
        pl_map_finish(&m.map, free);
    }
}

static void seeking_finds_the_chunk_that_holds_an_offset(void **state)
{
    uint64_t n = 20000, bytes, seed = 11, at = 0;
    struct memory m = {0};
    struct pl_list_source source = {&m, memory_get};
    _cleanup_(pl_list_cursor_closep) struct pl_list_cursor *c = NULL;
    struct pl_hash root;
    struct pl_err err;

    (void)state;
    bytes = build(&m, n, seed, UINT64_MAX, 0, &root);
    assert_ok(pl_list_cursor_open(&source, &root, &c, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        struct pl_hash id, want;
        size_t len, want_len;

        chunk_at(i, seed, &want, &want_len);
        if (i % 997 == 0 || i == n - 1) {
            uint64_t within = i % 2 == 0 ? 0 : want_len - 1, where;
            size_t before = m.gets;

            assert_ok(pl_list_cursor_seek(c, at + within, &err), &err);
            assert_int_equal(m.gets - before, 1); /* one list below the root */
            assert_int_equal(pl_list_cursor_next(c, &id, &where, &len, &err), 1);
            assert_true(pl_hash_eq(&id, &want));
            assert_true(where == at);
        }
        at += want_len;
    }
    assert_ok(pl_list_cursor_seek(c, bytes, &err), &err);
    assert_chunks_from(c, n, n, seed, bytes);
    assert_ok(pl_list_cursor_seek(c, 0, &err), &err);
    assert_chunks_from(c, 0, n, seed, 0);
    pl_map_finish(&m.map, free);
}

static void a_change_in_the_middle_makes_few_new_lists(void **state)
{
    struct memory m = {0};
    struct pl_hash a, b, again;
    size_t lists;

    (void)state;
    (void)build(&m, 50000, 3, UINT64_MAX, 0, &a);
    lists = m.map.len;
    (void)build(&m, 50000, 3, UINT64_MAX, 0, &again);
    assert_true(pl_hash_eq(&a, &again));
    assert_int_equal(m.map.len, lists);
    (void)build(&m, 50000, 3, 25000, 2, &b);
    assert_false(pl_hash_eq(&a, &b));
    assert_true(lists > 40);
    assert_in_range(m.map.len - lists, 2, 5); /* the leaves touched and the root */
    pl_map_finish(&m.map, free);
}

static int count_visit(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err)
{
    uint64_t *counts = arg;

    (void)id;
    (void)err;
    counts[is_chunk]++;
    counts[2] += is_chunk ? bytes : 0;
    return 0;
}

static void a_visit_meets_every_list_and_chunk(void **state)
{
    struct memory m = {0};
    struct pl_list_source source = {&m, memory_get};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    uint64_t counts[3] = {0}, bytes, found = 0;
    struct pl_hash root;
    struct pl_err err;

    (void)state;
    bytes = build(&m, 10000, 5, UINT64_MAX, 0, &root);
    assert_ok(pl_list_visit(&source, &root, &seen, NULL, count_visit, counts, &found, &err), &err);
    assert_int_equal(counts[0], m.map.len);
    assert_int_equal(counts[1], 10000);
    assert_true(counts[2] == bytes && found == bytes);
    assert_ok(pl_list_visit(&source, &root, &seen, NULL, count_visit, counts, &found, &err), &err);
    assert_int_equal(counts[1], 10000); /* it was seen */
    assert_true(found == bytes);
    pl_map_finish(&m.map, free);
}

/* A list of `level` that names one list or chunk `n` times, the last time with `more` bytes. */
static struct pl_hash repeat(struct memory *m, unsigned level, const struct pl_hash *below, uint64_t bytes, size_t n,
                             uint64_t more)
{
    _cleanup_(pl_buf_finish) struct pl_buf list = {0};
    struct pl_hash id;
    struct pl_err err;

    assert_ok(pl_buf_add(&list, "PLCL\1", 5, &err), &err);
    assert_ok(pl_buf_add_u8(&list, (uint8_t)level, &err), &err);
    assert_ok(pl_buf_add_varint(&list, n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        uint64_t len = bytes + (i + 1 == n ? more : 0);

        assert_ok(pl_buf_add(&list, below->b, PL_HASH_BYTES, &err), &err);
        for (unsigned k = 0; k < (level ? 8 : 3); k++)
            assert_ok(pl_buf_add_u8(&list, (uint8_t)(len >> (8 * k)), &err), &err);
    }
    assert_ok(memory_put(m, list.data, list.len, &id, &err), &err);
    return id;
}

/* Three lists of 4,096 entries name 2^36 chunks. */
static void a_list_that_is_named_often_is_visited_once(void **state)
{
    struct memory m = {0};
    struct pl_list_source source = {&m, memory_get};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    struct pl_effort effort = {.visits_max = 3 * 4096 + 1};
    struct pl_hash id = {{1}};
    uint64_t counts[3] = {0}, bytes = 1, found = 0;
    struct pl_err err;

    (void)state;
    for (unsigned level = 0; level < 3; level++, bytes *= 4096)
        id = repeat(&m, level, &id, bytes, 4096, 0);
    assert_ok(pl_list_visit(&source, &id, &seen, &effort, count_visit, counts, &found, &err), &err);
    assert_int_equal(counts[0], 3);
    assert_int_equal(counts[1], 4096);
    assert_true(found == bytes);
    pl_map_finish(&m.map, free);
}

static void a_visit_ends_at_its_bound(void **state)
{
    struct memory m = {0};
    struct pl_list_source source = {&m, memory_get};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    struct pl_effort effort = {.visits_max = 5000};
    uint64_t counts[3] = {0};
    struct pl_hash root;
    struct pl_err err;

    (void)state;
    (void)build(&m, 10000, 5, UINT64_MAX, 0, &root);
    assert_int_equal(pl_list_visit(&source, &root, &seen, &effort, count_visit, counts, NULL, &err), PL_ELIMIT);
    assert_true(counts[1] < 10000);
    pl_map_finish(&m.map, free);
}

/* What it says of a list the first time is right. */
static void a_list_that_lies_the_second_time_is_refused(void **state)
{
    struct memory m = {0};
    struct pl_list_source source = {&m, memory_get};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    struct pl_hash chunk = {{1}}, low = repeat(&m, 0, &chunk, 1, 100, 0), top = repeat(&m, 1, &low, 100, 3, 1),
                   higher = repeat(&m, 2, &low, 100, 1, 0);
    uint64_t counts[3] = {0};
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_list_visit(&source, &top, &seen, NULL, count_visit, counts, NULL, &err), PL_ECORRUPT);
    assert_int_equal(pl_list_visit(&source, &higher, &seen, NULL, count_visit, counts, NULL, &err),
                     PL_ECORRUPT); /* a level is left out */
    pl_map_finish(&m.map, free);
}

/* The bytes are the format. */
static void a_small_list_is_pinned(void **state)
{
    static const char golden[] = "504c434c" /* PLCL */
                                 "01"       /* version */
                                 "00"       /* level */
                                 "02"       /* entries */
                                 "0000000000000000000000000000000000000000000000000000000000000000"
                                 "000004" /* 256 KiB */
                                 "1111111111111111111111111111111111111111111111111111111111111111"
                                 "010000";
    struct memory m = {0};
    struct pl_list_sink sink = {&m, memory_put};
    _cleanup_(pl_list_builder_destroyp) struct pl_list_builder *b = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_hash zero = {{0}}, ones, root;
    char hex[sizeof(golden)];
    struct pl_err err;

    (void)state;
    memset(ones.b, 0x11, sizeof(ones.b));
    assert_ok(pl_list_builder_create(&sink, &b, &err), &err);
    assert_ok(pl_list_builder_add(b, &zero, PL_CHUNK_MAX_BYTES, &err), &err);
    assert_ok(pl_list_builder_add(b, &ones, 1, &err), &err);
    assert_ok(pl_list_builder_finish(b, &root, NULL, &err), &err);
    assert_ok(memory_get(&m, &root, &bytes, &err), &err);
    assert_int_equal(bytes.len * 2 + 1, sizeof(golden));
    pl_hex_encode(bytes.data, bytes.len, hex);
    assert_string_equal(hex, golden);
    pl_map_finish(&m.map, free);
}

/* The root of a long list pins the cuts between its objects and both levels' bytes. */
static void the_root_of_a_long_list_is_pinned(void **state)
{
    struct memory m = {0};
    struct pl_hash root;
    char hex[PL_HASH_HEX + 1];

    (void)state;
    (void)build(&m, 10000, 1, UINT64_MAX, 0, &root);
    assert_string_equal(pl_hash_hex(&root, hex), "a223faa5504f33c65f756eeb2bbf5e0832c6854a2f6551a802e4ce7c63b4f8ad");
    pl_map_finish(&m.map, free);
}

static void damaged_lists_are_refused(void **state)
{
    static const struct {
        const char *hex;
        int code;
    } cases[] = {
        {"", PL_ECORRUPT},
        {"504c434c", PL_ECORRUPT},
        {"504c434c010000", PL_ECORRUPT},         /* no entries */
        {"504c434d010001", PL_ECORRUPT},         /* another magic */
        {"504c434c020001", PL_EFORMAT},          /* a newer version */
        {"504c434c000001", PL_ECORRUPT},         /* no version */
        {"504c434c010501", PL_ECORRUPT},         /* too high */
        {"504c434c0100ffffffff0f", PL_ECORRUPT}, /* more entries than may be */
        {"504c434c01008100", PL_ECORRUPT},       /* a varint too long */
        {"504c434c0100010000000000000000000000000000000000000000000000000000000000000000000000", PL_ECORRUPT},   /* length 0 */
        {"504c434c0100010000000000000000000000000000000000000000000000000000000000000000010004", PL_ECORRUPT},   /* > 256 KiB */
        {"504c434c010001000000000000000000000000000000000000000000000000000000000000000001000000", PL_ECORRUPT}, /* a byte more */
        {"504c434c0100010000000000000000000000000000000000000000000000000000000000000000010000", 0},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        size_t n = strlen(cases[i].hex) / 2;
        _cleanup_free_ uint8_t *bytes = malloc(n + 1);
        struct pl_list list;
        struct pl_err err;

        assert_true(pl_hex_decode(cases[i].hex, bytes, n));
        assert_int_equal(pl_list_decode(bytes, n, &list, &err), cases[i].code);
    }
}

static void a_list_that_lies_about_its_children_is_refused(void **state)
{
    struct memory m = {0};
    struct pl_list_source source = {&m, memory_get};
    _cleanup_(pl_list_cursor_closep) struct pl_list_cursor *c = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf inner = {0};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    uint64_t counts[3] = {0};
    struct pl_hash leaf, root;
    uint64_t bytes;
    struct pl_err err;

    (void)state;
    bytes = build(&m, 10, 1, UINT64_MAX, 0, &leaf);
    assert_ok(pl_buf_add(&inner, "PLCL\1\1\1", 7, &err), &err);
    assert_ok(pl_buf_add(&inner, leaf.b, PL_HASH_BYTES, &err), &err);
    assert_ok(pl_buf_add_le64(&inner, bytes + 1, &err), &err);
    assert_ok(memory_put(&m, inner.data, inner.len, &root, &err), &err);
    assert_int_equal(pl_list_cursor_open(&source, &root, &c, &err), PL_ECORRUPT);
    assert_int_equal(pl_list_visit(&source, &root, &seen, NULL, count_visit, counts, NULL, &err), PL_ECORRUPT);
    pl_map_finish(&m.map, free);
}

static void impossible_chunks_are_refused(void **state)
{
    struct memory m = {0};
    struct pl_list_sink sink = {&m, memory_put};
    _cleanup_(pl_list_builder_destroyp) struct pl_list_builder *b = NULL;
    struct pl_hash id = {{0}}, root;
    struct pl_err err;

    (void)state;
    assert_ok(pl_list_builder_create(&sink, &b, &err), &err);
    assert_int_equal(pl_list_builder_add(b, &id, 0, &err), PL_EINVAL);
    assert_int_equal(pl_list_builder_add(b, &id, PL_CHUNK_MAX_BYTES + 1, &err), PL_EINVAL);
    assert_int_equal(pl_list_builder_finish(b, &root, NULL, &err), PL_EINVAL);
    assert_int_equal(m.puts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_any_length_gives_its_chunks_back),
        cmocka_unit_test(seeking_finds_the_chunk_that_holds_an_offset),
        cmocka_unit_test(a_change_in_the_middle_makes_few_new_lists),
        cmocka_unit_test(a_visit_meets_every_list_and_chunk),
        cmocka_unit_test(a_list_that_is_named_often_is_visited_once),
        cmocka_unit_test(a_visit_ends_at_its_bound),
        cmocka_unit_test(a_list_that_lies_the_second_time_is_refused),
        cmocka_unit_test(a_small_list_is_pinned),
        cmocka_unit_test(the_root_of_a_long_list_is_pinned),
        cmocka_unit_test(damaged_lists_are_refused),
        cmocka_unit_test(a_list_that_lies_about_its_children_is_refused),
        cmocka_unit_test(impossible_chunks_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
