// link: storage/base storage/tree storage/tree_edit
/* Bytes of entries and nodes: what is written, and that nothing else is read. */
#include "storage/tree/level_writer.h"

#include "tests/unit/storage/tree/tree_fixture.h"

static const char *hex_of(const void *data, size_t n)
{
    static char out[4096];

    assert_true(2 * n < sizeof out);
    pl_hex_encode(data, n, out);
    return out;
}

static void entries_have_one_encoding_each(void **state)
{
    struct pl_hash id = {{0xab, 0xcd}};
    const struct {
        struct pl_entry e;
        const char *hex;
    } table[] = {
        {pl_entry_inline(PL_KIND_FILE, "", 0), "010100"},
        {pl_entry_inline(PL_KIND_EXEC, "hi", 2), "0201026869"},
        {pl_entry_inline(PL_KIND_LINK, "../x", 4), "0301042e2e2f78"},
        {pl_entry_dir(), "040000"},
        {pl_entry_chunk(PL_KIND_FILE, 300, &id), "0102ac02abcd000000000000000000000000000000000000000000000000000000000000"},
        {pl_entry_list(PL_KIND_FILE, 1 << 20, &id), "0103808040abcd000000000000000000000000000000000000000000000000000000000000"},
        {pl_entry_row("\0\1", 2), "0501020001"},
    };
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_buf b = {0};
        struct pl_cursor c;
        struct pl_entry back;

        assert_ok(pl_entry_encode(&table[i].e, &b, &err), &err);
        assert_string_equal(hex_of(b.data, b.len), table[i].hex);
        c = pl_cursor_of(b.data, b.len);
        assert_ok(pl_entry_decode(&c, &back, &err), &err);
        assert_true(pl_entry_eq(&back, &table[i].e));
        assert_int_equal(back.inline_len, table[i].e.inline_len);
        assert_int_equal(pl_cursor_left(&c), 0);
        for (size_t n = 0; n < b.len; n++) {
            c = pl_cursor_of(b.data, n);
            assert_int_equal(pl_entry_decode(&c, &back, &err), PL_EFORMAT);
        }
        pl_buf_finish(&b);
    }
}

static void entries_whose_fields_do_not_go_together_are_refused(void **state)
{
    struct pl_hash id = {{1}};
    struct pl_entry table[] = {
        {.kind = 0, .content = PL_CONTENT_INLINE},
        {.kind = 6, .content = PL_CONTENT_INLINE},
        {.kind = PL_KIND_FILE, .content = PL_CONTENT_NONE},
        {.kind = PL_KIND_FILE, .content = 4},
        {.kind = PL_KIND_FILE, .content = PL_CONTENT_INLINE, .size = 65},
        {.kind = PL_KIND_FILE, .content = PL_CONTENT_INLINE, .size = 3, .inline_len = 2},
        {.kind = PL_KIND_DIR, .content = PL_CONTENT_NONE, .size = 1},
        {.kind = PL_KIND_DIR, .content = PL_CONTENT_INLINE},
        {.kind = PL_KIND_LINK, .content = PL_CONTENT_INLINE, .size = 0},
        {.kind = PL_KIND_LINK, .content = PL_CONTENT_LIST, .size = 1 << 20},
        {.kind = PL_KIND_ROW, .content = PL_CONTENT_CHUNK, .size = 100},
        pl_entry_row("", PL_ROW_MAX_BYTES + 1),
        pl_entry_chunk(PL_KIND_FILE, 64, &id),
        pl_entry_chunk(PL_KIND_FILE, (256 << 10) + 1, &id),
        pl_entry_chunk(PL_KIND_LINK, 4096, &id),
        pl_entry_list(PL_KIND_FILE, 64 << 10, &id),
        pl_entry_list(PL_KIND_FILE, 1ull << 48, &id),
        pl_entry_inline(PL_KIND_FILE, "", 65),
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++)
        assert_int_equal(pl_entry_check(&table[i], NULL), PL_EINVAL);
}

/* ---- nodes ---- */

static int catch_node(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    pl_hash_sha256(bytes, n, ret_id);
    pl_buf_clear(self);
    return pl_buf_add(self, bytes, n, err);
}

static int ignore_item(void *self, const struct pl_level_item *item, struct pl_err *err)
{
    (void)self;
    (void)item;
    (void)err;
    return 0;
}

/* A leaf of three files, or an inner node of two children. */
static void sample_node(uint8_t level, struct pl_buf *out)
{
    struct pl_node_sink sink = {out, catch_node, NULL};
    struct pl_level_writer w;
    struct pl_node_child child = {{{0x11, 0x22}}, {500, 70000}};
    const char *keys[] = {"dir/a", "dir/ab.txt", "e"};
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "xyz", 3);
    struct pl_buf value = {0};
    struct pl_err err = {0};

    pl_level_writer_init(&w, &sink, PL_TREE_PATHS, level, ignore_item, NULL);
    if (level == 0)
        assert_ok(pl_entry_encode(&e, &value, &err), &err);
    else
        assert_ok(pl_node_child_encode(&child, &value, &err), &err);
    for (size_t i = 0; i < (level == 0 ? 3 : 2); i++) {
        struct pl_level_item item = {keys[i], strlen(keys[i]), value.data, value.len, {1, 3}};

        assert_ok(pl_level_writer_add(&w, &item, &err), &err);
    }
    assert_ok(pl_level_writer_flush(&w, &err), &err);
    pl_level_writer_finish(&w);
    pl_buf_finish(&value);
}

static void nodes_are_these_bytes(void **state)
{
    struct pl_buf b = {0};

    (void)state;
    sample_node(0, &b);
    assert_string_equal(hex_of(b.data, b.len), "504c544e" /* PLTN */
                                               "010100"   /* version, paths, level */
                                               "03000000" /* entries */
                                               "00056469722f61"
                                               "01010378797a" /* dir/a: file, inline, 3, xyz */
                                               "0505622e747874"
                                               "01010378797a" /* …b.txt */
                                               "000165"
                                               "01010378797a");
    sample_node(1, &b);
    assert_string_equal(hex_of(b.data, b.len), "504c544e"
                                               "010101"
                                               "02000000"
                                               "00056469722f61"
                                               "1122000000000000000000000000000000000000000000000000000000000000"
                                               "f403f0a204"
                                               "0505622e747874"
                                               "1122000000000000000000000000000000000000000000000000000000000000"
                                               "f403f0a204");
    pl_buf_finish(&b);
}

static void a_decoded_node_gives_what_was_written(void **state)
{
    static const struct {
        const char *key;
        bool past;
        uint32_t at;
    } searches[] = {{"", false, 0},    {"dir/a", false, 0}, {"dir/a!", false, 1}, {"e", false, 2},     {"f", false, 3},
                    {"dir/", true, 2}, {"dir/a", true, 2},  {"", true, 3},        {"dir/ab", true, 2}, {"c", true, 0}};
    struct pl_buf b = {0};
    struct pl_node node = {0};
    struct pl_node_child child;
    struct pl_err err = {0};

    (void)state;
    sample_node(0, &b);
    assert_ok(pl_node_decode(&node, b.data, b.len, &err), &err);
    assert_int_equal(node.n, 3);
    assert_int_equal(node.stats.files, 3);
    assert_int_equal(node.stats.bytes, 9);
    assert_string_equal(pl_node_key(&node, 1), "dir/ab.txt");
    assert_int_equal(pl_node_entry(&node, 2).size, 3);
    for (size_t i = 0; i < PL_ARRAY_SIZE(searches); i++) {
        struct pl_node_bound bound = {searches[i].key, strlen(searches[i].key), searches[i].past};

        assert_int_equal(pl_node_find(&node, &bound), searches[i].at);
    }
    sample_node(2, &b);
    assert_ok(pl_node_decode(&node, b.data, b.len, &err), &err);
    assert_int_equal(node.level, 2);
    assert_int_equal(node.stats.files, 1000);
    child = pl_node_child(&node, 1);
    assert_int_equal(child.stats.bytes, 70000);
    assert_int_equal(child.id.b[1], 0x22);
    pl_node_finish(&node);
    pl_buf_finish(&b);
}

static void every_truncation_is_refused(void **state)
{
    struct pl_buf b = {0};
    struct pl_node node = {0};

    (void)state;
    for (uint8_t level = 0; level < 2; level++) {
        sample_node(level, &b);
        for (size_t n = 0; n < b.len; n++)
            assert_int_equal(pl_node_decode(&node, b.data, n, NULL), PL_EFORMAT);
    }
    pl_node_finish(&node);
    pl_buf_finish(&b);
}

/* After the magic: version, kind, level, number, entries. */
static const struct {
    const char *hex;
    const char *why;
    int code;
} malformed[] = {
    {"010100 01000000 000161 010100", "(the good one)", 0},
    {"020100 01000000 000161 010100", "version", PL_EFORMAT},
    {"010000 01000000 000161 010100", "kind of tree", PL_EFORMAT},
    {"010300 01000000 000161 010100", "kind of tree", PL_EFORMAT},
    {"010110 01000000 000161 010100", "level", PL_EFORMAT},
    {"010100 00000000", "no entries", PL_EFORMAT},
    {"010100 01100000 000161 010100", "too many entries", PL_EFORMAT},
    {"010100 01000000 000161 010100 00", "a byte too much", PL_EFORMAT},
    {"010100 01000000 0000 010100", "empty key", PL_EFORMAT},
    {"010100 01000000 010161 010100", "shares with nothing", PL_EFORMAT},
    {"010100 01000000 00810061 010100", "long varint", PL_EFORMAT},
    {"010100 01000000 000161 06010100", "kind of entry", PL_EFORMAT},
    {"010100 01000000 000161 050100", "row among paths", PL_EFORMAT},
    {"010200 01000000 000161 010100", "path among rows", PL_EFORMAT},
    {"010200 01000000 000100 050100", "(a good row)", 0},
    {"010100 01000000 00022e2e 010100", "path ..", PL_EPATH},
    {"010100 01000000 0003612f2f 010100", "path a//", PL_EPATH},
    {"010100 01000000 00012f 010100", "path /", PL_EPATH},
    {"010100 01000000 0001ff 010100", "not UTF-8", PL_EPATH},
    {"010100 02000000 000162 010100 000161 010100", "descending", PL_EFORMAT},
    {"010100 02000000 000161 010100 0100 010100", "twice", PL_EFORMAT},
    {"010100 02000000 000161 010100 00026162 010100", "not shortened", PL_EFORMAT},
    {"010100 02000000 000161 010100 010162 010100", "(good: a, ab)", 0},
};

/* Digits with spaces between them; returns the number of bytes. */
static size_t bytes_of(const char *hex, uint8_t *out)
{
    char digits[256];
    size_t n = 0;

    for (; *hex; hex++) {
        if (*hex != ' ')
            digits[n++] = *hex;
    }
    assert_true(pl_hex_decode(digits, out, n / 2));
    return n / 2;
}

static void what_is_not_canonical_is_refused(void **state)
{
    struct pl_node node = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(malformed); i++) {
        uint8_t bytes[128] = PL_NODE_MAGIC;
        int r = pl_node_decode(&node, bytes, 4 + bytes_of(malformed[i].hex, bytes + 4), NULL);

        if (r != malformed[i].code)
            fail_msg("%s: %d", malformed[i].why, r);
    }
    pl_node_finish(&node);
}

/* Whatever is read without complaint is written as the same bytes again. */
static void corrupt_bytes_are_refused_or_another_good_node(void **state)
{
    struct pl_buf good = {0}, bad = {0}, again = {0};
    struct pl_node node = {0};
    uint64_t rng = 7;
    struct pl_err err = {0};

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct pl_node_sink sink = {&again, catch_node, NULL};
        struct pl_level_writer w;

        sample_node((uint8_t)(round % 2), &good);
        pl_buf_clear(&bad);
        assert_ok(pl_buf_add(&bad, good.data, good.len, &err), &err);
        for (uint64_t k = 1 + pick(&rng, 3); k > 0; k--)
            bad.data[pick(&rng, bad.len)] = (uint8_t)pick(&rng, 256);
        if (pl_node_decode(&node, bad.data, bad.len, NULL) < 0)
            continue;
        pl_level_writer_init(&w, &sink, node.tree, node.level, ignore_item, NULL);
        for (uint32_t i = 0; i < node.n; i++) {
            struct pl_level_item item = {
                pl_node_key(&node, i), pl_node_key_len(&node, i), pl_node_value(&node, i), pl_node_value_len(&node, i), {0}};

            assert_ok(pl_level_writer_add(&w, &item, &err), &err);
        }
        assert_ok(pl_level_writer_flush(&w, &err), &err);
        assert_int_equal(again.len, bad.len);
        assert_memory_equal(again.data, bad.data, bad.len);
        pl_level_writer_finish(&w);
    }
    pl_node_finish(&node);
    pl_buf_finish(&good);
    pl_buf_finish(&bad);
    pl_buf_finish(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_have_one_encoding_each),
        cmocka_unit_test(entries_whose_fields_do_not_go_together_are_refused),
        cmocka_unit_test(nodes_are_these_bytes),
        cmocka_unit_test(a_decoded_node_gives_what_was_written),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(what_is_not_canonical_is_refused),
        cmocka_unit_test(corrupt_bytes_are_refused_or_another_good_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
