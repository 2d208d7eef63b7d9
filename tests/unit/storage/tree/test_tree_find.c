// link: storage/base storage/tree storage/tree_edit
/* tree_find: every key of a tree and every place between them, as a cursor has it; and nodes that are none. */
#include "storage/tree/tree_find.h"

#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_edit.h"
#include "tests/unit/storage/tree/tree_fixture.h"

/* Nodes in memory, and what tree_find puts beside them. */
struct shower {
    struct memory *mem;
    struct pl_map asides; /* id → _Atomic(void *) * */
};

static void aside_free(void *aside)
{
    free(*(void **)aside);
    free(aside);
}

static int show(void *self, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err)
{
    struct shower *s = self;
    const struct blob *b = pl_map_get(&s->mem->map, id->b, sizeof id->b);
    _Atomic(void *) *aside = pl_map_get(&s->asides, id->b, sizeof id->b);

    if (!b)
        return pl_err_set(err, PL_ENOTFOUND, "no such node");
    if (!aside) {
        aside = calloc(1, sizeof *aside);
        assert_non_null(aside);
        assert_ok(pl_map_put(&s->asides, id->b, sizeof id->b, (void *)aside, NULL, err), err);
    }
    return look(arg, &(struct pl_byte_view){b->bytes, b->n, aside}, err);
}

static size_t indexes(const struct shower *s)
{
    const struct pl_map_slot *slot;
    size_t n = 0, i = 0;

    while ((slot = pl_map_next(&s->asides, &i)) != NULL)
        n += *(void **)slot->value != NULL;
    return n;
}

static const char *const words[] = {"a", "ab", "abc", "b", "ba", "-", "~", "ü", "0", "aa"};

static size_t random_key(uint64_t *rng, char out[64])
{
    size_t len = 0;

    for (uint64_t n = 1 + pl_splitmix64(rng) % 4; n > 0; n--)
        len += (size_t)snprintf(out + len, 64 - len, "%s%s", len ? "/" : "", words[pl_splitmix64(rng) % PL_ARRAY_SIZE(words)]);
    return len;
}

static int by_key(const void *a, const void *b)
{
    const struct pl_tree_op *x = a, *y = b;

    return pl_key_cmp(x->path, x->path_len, y->path, y->path_len);
}

/* Rows: any keys go together. Small nodes make many levels, large ones have indexes. */
static void every_key_is_found_and_no_other(void **state)
{
    enum { N = 600 };
    static const struct pl_tree_params wide = {
        .min_entries = 40, .max_entries = 200, .max_bytes = 65536, .threshold = UINT64_MAX / 30};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static char keys[N][64];
        struct memory mem = {0};
        struct shower shown = {&mem, {0}};
        const struct pl_node_shower nodes = {&shown, show};
        struct pl_node_source source = source_of(&mem);
        struct pl_node_sink sink = sink_of(&mem, seed % 5 ? &small_params[seed % PL_ARRAY_SIZE(small_params)] : &wide);
        struct pl_tree_op ops[N];
        struct pl_hash root = {{0}};
        struct pl_tree_cursor *c;
        struct pl_buf value = {0};
        struct pl_err err = {0};
        uint64_t rng = seed;
        size_t n = 0;

        for (size_t i = 0; i < N; i++) {
            size_t len = random_key(&rng, keys[i]);

            ops[i] =
                (struct pl_tree_op){.op = PL_TREE_PUT, .path = keys[i], .path_len = len, .entry = pl_entry_row(keys[i], len)};
        }
        qsort(ops, N, sizeof *ops, by_key);
        for (size_t i = 0; i < N; i++)
            if (i == 0 || by_key(&ops[n - 1], &ops[i]) != 0)
                ops[n++] = ops[i];
        assert_int_equal(pl_tree_find(&nodes, &root, "a", 1, &value, &err), 0);
        assert_ok(pl_tree_edit(&source, &sink, &root, ops, n / 2, &root, &err), &err);
        assert_ok(pl_tree_cursor_create(&source, &root, NULL, 0, &c, &err), &err);
        for (size_t i = 0; i < 2000; i++) {
            struct pl_tree_item item;
            struct pl_entry entry;
            char key[64];
            size_t len = random_key(&rng, key);
            int want = pl_tree_cursor_get(c, key, len, &item, &err);
            int got = pl_tree_find_entry(&nodes, &root, key, len, &value, &entry, &err);

            if (want != got)
                fail_msg("seed %llu: %s: %d, not %d", (unsigned long long)seed, key, got, want);
            if (got > 0) {
                assert_int_equal(entry.size, len);
                assert_memory_equal(entry.row, key, len);
            }
        }
        if (seed % 5 == 0)
            assert_true(indexes(&shown) > 1);
        pl_tree_cursor_destroy(c);
        pl_buf_finish(&value);
        pl_map_finish(&shown.asides, aside_free);
        memory_finish(&mem);
    }
}

struct bytes {
    const uint8_t *data;
    size_t n;
};

static int show_bytes(void *self, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err)
{
    const struct bytes *b = self;

    (void)id;
    return look(arg, &(struct pl_byte_view){b->data, b->n, NULL}, err);
}

static void nodes_that_are_none_are_refused(void **state)
{
    static const char *const table[] = {
        "",
        "504c544e",
        "504c544e0101000100",           /* cut off in its head */
        "504c544f01010001000000",       /* another magic */
        "504c544e02010001000000",       /* version */
        "504c544e01011001000000",       /* level 16 */
        "504c544e01010001000000",       /* an entry is missing */
        "504c544e010100010000000001",   /* its key is */
        "504c544e01010001000000000161", /* its value */
        "504c544e0101000100000000016101",
        "504c544e010100010000000001610109",     /* content 9 */
        "504c544e0101000100000000016101010578", /* shorter than it says */
        "504c544e0101000100000000ff7f61",       /* key longer than the node */
        "504c544e01010101000000000161",         /* a child is missing */
    };
    struct pl_buf value = {0};
    struct pl_hash root = {{1}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        uint8_t raw[64];
        struct bytes b = {raw, strlen(table[i]) / 2};
        const struct pl_node_shower nodes = {&b, show_bytes};

        assert_true(pl_hex_decode(table[i], raw, b.n));
        if (pl_tree_find(&nodes, &root, "b", 1, &value, NULL) != PL_EFORMAT)
            fail_msg("row %zu", i);
    }
    pl_buf_finish(&value);
}

/* A node that names itself as its child. */
static void a_tree_without_end_is_refused(void **state)
{
    uint8_t raw[64];
    const char *hex = "504c544e0101010100000000017a"
                      "0100000000000000000000000000000000000000000000000000000000000000"
                      "0000";
    struct bytes b = {raw, strlen(hex) / 2};
    const struct pl_node_shower nodes = {&b, show_bytes};
    struct pl_buf value = {0};
    struct pl_hash root = {{1}};

    (void)state;
    assert_true(pl_hex_decode(hex, raw, b.n));
    assert_int_equal(pl_tree_find(&nodes, &root, "b", 1, &value, NULL), PL_ECORRUPT);
    pl_buf_finish(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_found_and_no_other),
        cmocka_unit_test(nodes_that_are_none_are_refused),
        cmocka_unit_test(a_tree_without_end_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
