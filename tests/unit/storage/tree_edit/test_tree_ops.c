// link: storage/base storage/tree storage/tree_edit
/* The stream of operations: its bytes, and that nothing else is read. */
#include "storage/tree_edit/tree_ops.h"

#include "tests/unit/storage/tree/tree_fixture.h"

static void write_sample(struct pl_buf *out)
{
    struct pl_tree_ops_writer w;
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "hi", 2);
    struct pl_err err = {0};

    pl_buf_clear(out);
    assert_ok(pl_tree_ops_writer_init(&w, out, &err), &err);
    assert_ok(pl_tree_ops_writer_delete_prefix(&w, "", 0, &err), &err);
    assert_ok(pl_tree_ops_writer_put(&w, "a/b", 3, &e, &err), &err);
    assert_ok(pl_tree_ops_writer_delete(&w, "c", 1, &err), &err);
    assert_ok(pl_tree_ops_writer_delete_prefix(&w, "dir", 3, &err), &err);
    assert_ok(pl_tree_ops_writer_end(&w, &err), &err);
    pl_tree_ops_writer_finish(&w);
}

static void a_stream_is_these_bytes(void **state)
{
    struct pl_buf b = {0};
    char hex[128];

    (void)state;
    write_sample(&b);
    pl_hex_encode(b.data, b.len, hex);
    assert_string_equal(hex, "504c4f5001" /* PLOP, version */
                             "0300"       /* delete prefix "" */
                             "0103612f62" /* put a/b */
                             "0101026869" /* file, inline, 2, hi */
                             "020163"     /* delete c */
                             "0303646972" /* delete prefix dir */
                             "0004");     /* end, 4 operations */
    pl_buf_finish(&b);
}

static void what_was_written_is_read(void **state)
{
    struct pl_buf b = {0};
    struct pl_tree_op *ops = NULL;
    struct pl_err err = {0};
    size_t n = 0;

    (void)state;
    write_sample(&b);
    assert_ok(pl_tree_ops_read(b.data, b.len, &ops, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_int_equal(ops[0].op, PL_TREE_DELETE_PREFIX);
    assert_int_equal(ops[0].path_len, 0);
    assert_int_equal(ops[1].op, PL_TREE_PUT);
    assert_memory_equal(ops[1].path, "a/b", 3);
    assert_int_equal(ops[1].entry.size, 2);
    assert_int_equal(ops[2].op, PL_TREE_DELETE);
    free(ops);
    pl_buf_finish(&b);
}

static void every_truncation_is_refused(void **state)
{
    struct pl_buf b = {0};
    struct pl_tree_op *ops = NULL;
    size_t count;

    (void)state;
    write_sample(&b);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(pl_tree_ops_read(b.data, n, &ops, &count, NULL), PL_EFORMAT);
    pl_buf_finish(&b);
}

static void malformed_streams_are_refused(void **state)
{
    static const struct {
        const char *hex; /* after magic and version */
        int code;
    } table[] = {
        {"0000", 0},
        {"0001", PL_EFORMAT},       /* another number of operations */
        {"000000", PL_EFORMAT},     /* something behind the end */
        {"0701610001", PL_EFORMAT}, /* kind 7 */
        {"0601610001", PL_EFORMAT}, /* kind 6 without entry */
        {"05016101010178"
         "0101"
         "0001",
         0}, /* attributes that say nothing */
        {"05016101010178"
         "00"
         "0001",
         PL_EFORMAT}, /* none: kind 1 says so */
        {"05016101010178"
         "0401070161"
         "0001",
         0}, /* a language */
        {"05016101010178"
         "0401070261"
         "0001",
         PL_EFORMAT}, /* cut off */
        {"05016101010178"
         "0401070101"
         "0001",
         PL_EFORMAT}, /* a byte that is none of a text */
        {"02810061"
         "0001",
         PL_EFORMAT}, /* long varint */
        {"0200"
         "0001",
         PL_EPATH}, /* delete "" */
        {"02022e2e"
         "0001",
         PL_EPATH}, /* delete .. */
        {"020162"
         "020161"
         "0002",
         PL_EINVAL}, /* descending */
        {"020161"
         "030161"
         "0002",
         PL_EINVAL}, /* twice */
        {"010161"
         "050100"
         "0001",
         PL_EFORMAT}, /* a row */
        {"010161"
         "010200"
         "0001",
         PL_EFORMAT}, /* a chunk of 0 bytes */
        {"010161"
         "040000"
         "0001",
         0}, /* an empty directory */
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        uint8_t bytes[128] = "PLOP\1";
        size_t n = strlen(table[i].hex) / 2, count;
        struct pl_tree_op *ops = NULL;
        int r;

        assert_true(pl_hex_decode(table[i].hex, bytes + 5, n));
        r = pl_tree_ops_read(bytes, n + 5, &ops, &count, NULL);
        free(ops);
        if (r != table[i].code)
            fail_msg("%s: %d", table[i].hex, r);
    }
    {
        struct pl_tree_op *ops = NULL;
        size_t count;

        assert_int_equal(pl_tree_ops_read("PLOX\1\0\0", 7, &ops, &count, NULL), PL_EFORMAT);
        assert_int_equal(pl_tree_ops_read("PLOP\2\0\0", 7, &ops, &count, NULL), PL_EFORMAT);
    }
}

static void the_writer_refuses_what_the_reader_would(void **state)
{
    struct pl_buf b = {0};
    struct pl_tree_ops_writer w;
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1), row = pl_entry_row("x", 1), bad = {.kind = PL_KIND_FILE};

    (void)state;
    assert_int_equal(pl_tree_ops_writer_init(&w, &b, NULL), 0);
    assert_int_equal(pl_tree_ops_writer_put(&w, "b", 1, &e, NULL), 0);
    assert_int_equal(pl_tree_ops_writer_put(&w, "c", 1, &row, NULL), PL_EINVAL);
    assert_int_equal(pl_tree_ops_writer_put(&w, "c", 1, &bad, NULL), PL_EINVAL);
    assert_int_equal(pl_tree_ops_writer_delete(&w, "c//d", 4, NULL), PL_EPATH);
    pl_tree_ops_writer_finish(&w);
    pl_buf_clear(&b);
    assert_int_equal(pl_tree_ops_writer_init(&w, &b, NULL), 0);
    assert_int_equal(pl_tree_ops_writer_put(&w, "b", 1, &e, NULL), 0);
    assert_int_equal(pl_tree_ops_writer_delete(&w, "b", 1, NULL), PL_EINVAL);
    pl_tree_ops_writer_finish(&w);
    pl_buf_finish(&b);
}

static void corrupt_streams_do_no_harm(void **state)
{
    struct pl_buf b = {0};
    uint64_t rng = 11;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct pl_tree_op *ops = NULL;
        size_t n = 0;

        write_sample(&b);
        for (uint64_t k = 1 + pick(&rng, 3); k > 0; k--)
            b.data[pick(&rng, b.len)] = (uint8_t)pick(&rng, 256);
        if (pl_tree_ops_read(b.data, b.len, &ops, &n, NULL) == 0) {
            for (size_t i = 0; i < n; i++)
                assert_true(ops[i].path_len == 0 || pl_path_check(ops[i].path, ops[i].path_len, NULL) == 0);
        }
        free(ops);
    }
    pl_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_these_bytes),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(malformed_streams_are_refused),
        cmocka_unit_test(the_writer_refuses_what_the_reader_would),
        cmocka_unit_test(corrupt_streams_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
