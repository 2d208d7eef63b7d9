// link: pipelined/plan storage/base storage/tree storage/tree_edit
/* table: rows byte by byte, and finding what is done already. */
#include "tests/unit/plan/plan_fixture.h"

#include "pipelined/plan/datum_table.h"

static struct pl_datum_row sample_row(enum pl_datum_row_outputs outputs)
{
    struct pl_datum_row row = {.state = PL_ROW_SUCCESS, .outputs = outputs, .ops = (const uint8_t *)"ops", .ops_len = 3};

    memset(row.key.b, 0x11, PL_HASH_BYTES);
    memset(row.run, 0x22, PL_RUN_ID_BYTES);
    memset(row.root.b, 0x33, PL_HASH_BYTES);
    return row;
}

static void rows_are_what_the_header_says(void **state)
{
    uint8_t want[51 + PL_HASH_BYTES] = {1, 1};
    static const size_t lens[] = {51, 51 + 1 + 3, 51 + PL_HASH_BYTES};

    (void)state;
    memset(want + 2, 0x11, 32);
    memset(want + 34, 0x22, 16);
    for (int outputs = PL_ROW_NO_OUTPUT; outputs <= PL_ROW_TREE; outputs++) {
        struct pl_datum_row row = sample_row((enum pl_datum_row_outputs)outputs), again;
        struct pl_buf out = {0};

        want[50] = (uint8_t)outputs;
        if (outputs == PL_ROW_INLINE)
            memcpy(want + 51, "\3ops", 4);
        else
            memset(want + 51, 0x33, 32);
        assert_int_equal(pl_datum_row_encode(&row, &out, NULL), 0);
        assert_int_equal(out.len, lens[outputs]);
        assert_memory_equal(out.data, want, out.len);
        assert_int_equal(pl_datum_row_decode(out.data, out.len, &again, NULL), 0);
        assert_int_equal(again.outputs, outputs);
        assert_true(pl_hash_eq(&again.key, &row.key));
        assert_memory_equal(again.run, row.run, PL_RUN_ID_BYTES);
        if (outputs == PL_ROW_INLINE)
            assert_memory_equal(again.ops, "ops", 3);
        if (outputs == PL_ROW_TREE)
            assert_true(pl_hash_eq(&again.root, &row.root));
        for (size_t cut = 0; cut < out.len; cut++) /* whatever is missing is noticed */
            assert_int_equal(pl_datum_row_decode(out.data, cut, &again, NULL), PL_EFORMAT);
        assert_int_equal(pl_buf_add_u8(&out, 0, NULL), 0);
        assert_int_equal(pl_datum_row_decode(out.data, out.len, &again, NULL), PL_EFORMAT);
        pl_buf_finish(&out);
    }
}

static void a_row_fits_its_bound(void **state)
{
    uint8_t ops[PL_DATUM_ROW_INLINE_OPS_MAX + 1] = {0};
    struct pl_datum_row row = sample_row(PL_ROW_INLINE);
    struct pl_buf out = {0};

    (void)state;
    row.ops = ops;
    row.ops_len = PL_DATUM_ROW_INLINE_OPS_MAX;
    assert_int_equal(pl_datum_row_encode(&row, &out, NULL), 0);
    assert_true(out.len <= PL_ROW_MAX_BYTES);
    row.ops_len++;
    assert_int_equal(pl_datum_row_encode(&row, &out, NULL), PL_ETOOBIG);
    pl_buf_finish(&out);
}

#define ROWS 1000u

static void rows_are_found_by_both_keys(void **state)
{
    struct memory m = {0};
    struct pl_node_sink sink = sink_of(&m, &small_params[0]);
    struct pl_node_source source = source_of(&m);
    struct pl_datum_table_row *rows = calloc(ROWS, sizeof(*rows));
    char(*keys)[16] = calloc(ROWS, sizeof(*keys));
    struct pl_tree_cursor *cursor = NULL;
    struct pl_hash root, other = {{0xEE}};
    struct pl_err err = {0};
    struct pl_datum_row row;

    (void)state;
    assert_true(rows != NULL && keys != NULL);
    for (unsigned i = 0; i < ROWS; i++) { /* not in the order of keys */
        (void)snprintf(keys[i], sizeof(keys[i]), "k%u", (i * 7919) % ROWS);
        rows[i] = (struct pl_datum_table_row){(const uint8_t *)keys[i], strlen(keys[i]), sample_row(PL_ROW_INLINE)};
        rows[i].row.key.b[0] = (uint8_t)((i * 7919) % ROWS);
        if ((i * 7919) % ROWS == 7)
            rows[i].row.state = PL_ROW_FAILED;
    }
    assert_ok(pl_datum_table_build(&sink, rows, ROWS, &root, &err), &err);
    assert_ok(pl_tree_cursor_create(&source, &root, NULL, 0, &cursor, &err), &err);
    for (unsigned i = 0; i < ROWS; i++) {
        struct pl_hash key = sample_row(PL_ROW_INLINE).key;
        char text[16];
        int n = snprintf(text, sizeof(text), "k%u", i);

        key.b[0] = (uint8_t)i;
        assert_int_equal(pl_datum_table_find(cursor, (const uint8_t *)text, (size_t)n, &key, &row, &err), i != 7); /* 7 failed */
        if (i != 7)
            assert_memory_equal(row.ops, "ops", 3);
        assert_int_equal(pl_datum_table_find(cursor, (const uint8_t *)text, (size_t)n, &other, &row, &err), 0);
    }
    assert_int_equal(pl_datum_table_find(cursor, (const uint8_t *)"absent", 6, &other, &row, &err), 0);
    rows[1].enum_key = rows[0].enum_key;
    rows[1].enum_key_len = rows[0].enum_key_len;
    assert_int_equal(pl_datum_table_build(&sink, rows, ROWS, &root, &err), PL_EINVAL);
    pl_tree_cursor_destroy(cursor);
    free(rows);
    free(keys);
    memory_finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_the_header_says),
        cmocka_unit_test(a_row_fits_its_bound),
        cmocka_unit_test(rows_are_found_by_both_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
