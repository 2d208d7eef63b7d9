// link: storage/base storage/tree storage/tree_edit
/* What is said of a file beside its bytes: the bytes that it has in a tree. */
#include "storage/tree_edit/file_attributes.h"

#include "tests/unit/storage/tree/tree_fixture.h"

static struct pl_file_attributes of(const struct pl_buf *b)
{
    return (struct pl_file_attributes){b->data, b->len};
}

static void sample(struct pl_buf *b, int64_t modified, const char *value)
{
    struct pl_err err = {0};

    pl_buf_clear(b);
    assert_ok(pl_file_attributes_begin(b, &err), &err);
    assert_ok(pl_file_attributes_add(b, PL_ATTR_ETAG, "ab-2", 4, &err), &err);
    assert_ok(pl_file_attributes_add_modified(b, modified, &err), &err);
    assert_ok(pl_file_attributes_add(b, PL_ATTR_TYPE, "a/b", 3, &err), &err);
    assert_ok(pl_file_attributes_add(b, PL_ATTR_CHECKSUM, "\2QQ==", 5, &err), &err);
    assert_ok(pl_file_attributes_add_meta(b, "A", "", &err), &err);
    assert_ok(pl_file_attributes_add_meta(b, "Aa", value, &err), &err);
}

static void attributes_are_these_bytes(void **state)
{
    struct pl_buf b = {0};
    char hex[256];

    (void)state;
    sample(&b, 258, "v");
    pl_hex_encode(b.data, b.len, hex);
    assert_string_equal(hex, "01"
                             "010461622d32"         /* ETag ab-2 */
                             "02080201000000000000" /* modified 258 */
                             "0303612f62"           /* Content-Type a/b */
                             "09050251513d3d"       /* crc32c QQ== */
                             "10026100"             /* a: "" */
                             "100461610076" /* aa: v */);
    assert_int_equal(pl_file_attributes_check(&(struct pl_file_attributes){b.data, b.len}, NULL), 0);
    pl_buf_finish(&b);
}

static void fields_are_found_and_come_in_order(void **state)
{
    struct pl_buf b = {0};
    struct pl_file_attributes a;
    struct pl_attribute_field f;
    size_t at = 0, n = 0;
    uint8_t tags[16];

    (void)state;
    sample(&b, -5, "v");
    a = of(&b);
    while (pl_file_attributes_next(&a, &at, &f))
        tags[n++] = f.tag;
    assert_int_equal(n, 6);
    assert_memory_equal(tags, "\1\2\3\11\20\20", 6);
    assert_true(pl_file_attributes_find(&a, PL_ATTR_TYPE, &f));
    assert_int_equal(f.len, 3);
    assert_memory_equal(f.bytes, "a/b", 3);
    assert_false(pl_file_attributes_find(&a, PL_ATTR_EXPIRES, &f));
    assert_int_equal(pl_file_attributes_modified(&a, 7), -5);
    assert_int_equal(pl_file_attributes_modified(&(struct pl_file_attributes){0}, 7), 7);
    pl_buf_finish(&b);
}

static void parts_are_runs_and_each_is_found(void **state)
{
    static const uint64_t sizes[] = {300, 300, 300, 7};
    static const struct {
        uint64_t number, first, size;
    } want[] = {{1, 0, 300}, {2, 300, 300}, {3, 600, 300}, {4, 900, 7}};
    struct pl_buf b = {0};
    struct pl_file_attributes a;
    struct pl_file_parts parts;
    struct pl_err err = {0};
    uint64_t first, size;
    const uint8_t *sum;
    char hex[256];

    (void)state;
    for (int sums = 0; sums < 2; sums++) {
        pl_buf_clear(&b);
        assert_ok(pl_file_attributes_begin(&b, &err), &err);
        assert_ok(pl_file_attributes_add_parts(&b, sizes, 4, sums ? (const uint8_t *)"aabbccdd" : NULL, 2, &err), &err);
        a = of(&b);
        assert_ok(pl_file_attributes_check(&a, &err), &err);
        pl_hex_encode(b.data, b.len, hex);
        assert_string_equal(hex, sums ? "010a0e0203ac0201076161626263636464" : "010a060203ac020107");
        assert_true(pl_file_attributes_parts(&a, &parts));
        assert_int_equal(parts.n, 4);
        assert_int_equal(parts.bytes, 907);
        for (size_t i = 0; i < PL_ARRAY_SIZE(want); i++) {
            assert_true(pl_file_parts_get(&parts, want[i].number, &first, &size, &sum));
            assert_int_equal(first, want[i].first);
            assert_int_equal(size, want[i].size);
            assert_true(sums ? memcmp(sum, &"aabbccdd"[2 * i], 2) == 0 : !sum);
        }
        assert_false(pl_file_parts_get(&parts, 0, &first, &size, &sum));
        assert_false(pl_file_parts_get(&parts, 5, &first, &size, &sum));
    }
    pl_buf_finish(&b);
}

static void the_time_alone_makes_no_difference(void **state)
{
    struct pl_buf x = {0}, y = {0};
    struct pl_file_attributes none = {0}, a, b;

    (void)state;
    sample(&x, 1, "v");
    sample(&y, 2, "v");
    a = of(&x);
    b = of(&y);
    assert_true(pl_file_attributes_same(&a, &b));
    assert_false(pl_file_attributes_same(&a, &none));
    assert_false(pl_file_attributes_same(&none, &a));
    sample(&y, 1, "w");
    b = of(&y);
    assert_false(pl_file_attributes_same(&a, &b));
    pl_buf_finish(&x);
    pl_buf_finish(&y);
}

static void anything_else_is_refused(void **state)
{
    static const char *const table[] = {
        "",                               /* nothing at all */
        "02",                             /* another version */
        "010500",                         /* fine, then cut off: see below */
        "01030161010161",                 /* tags descend */
        "0103016103"                      /* cut off */
        "02",                             /* */
        "01030161030162",                 /* twice */
        "0102070000000000000000",         /* a time of 7 bytes */
        "01090102",                       /* a checksum without text */
        "0103010a",                       /* a line's end */
        "0103017f",                       /* DEL */
        "010c00",                         /* an unknown tag */
        "010a00",                         /* parts that are none */
        "010a03010001",                   /* a run of no parts */
        "010a0201"                        /* a run */
        "01",                             /* without a size */
        "010a0401020161",                 /* checksums that are not as many as the parts */
        "010a0c0102ffffffffffffffffff01", /* more bytes than can be counted */
        "01100161",                       /* metadata without a value */
        "0110020061",                     /* without a name */
        "0110024100",                     /* a name in upper case */
        "0110026200"                      /* names */
        "10026100",                       /* descend */
        "01100261001002"                  /* a name */
        "6100",                           /* twice */
        "0110026100030161",               /* a field after metadata */
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        uint8_t bytes[64];
        size_t n = strlen(table[i]) / 2;
        struct pl_file_attributes a = {bytes, n};
        int want = pl_streq(table[i], "010500") ? 0 : PL_EFORMAT;

        assert_true(pl_hex_decode(table[i], bytes, n));
        if (pl_file_attributes_check(&a, NULL) != want)
            fail_msg("row %zu", i);
    }
}

static void every_truncation_within_a_field_is_refused(void **state)
{
    struct pl_buf b = {0};
    size_t good = 0;

    (void)state;
    sample(&b, 1, "v");
    for (size_t n = 1; n < b.len; n++)
        good += pl_file_attributes_check(&(struct pl_file_attributes){b.data, n}, NULL) == 0;
    assert_int_equal(good, 6); /* no field, one, … five */
    pl_buf_finish(&b);
}

static void there_is_a_longest(void **state)
{
    uint8_t bytes[PL_FILE_ATTRIBUTES_MAX_BYTES + 1];
    struct pl_buf b = {0};
    struct pl_err err = {0};
    struct pl_file_attributes a;

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    assert_ok(pl_file_attributes_begin(&b, &err), &err);
    assert_ok(pl_file_attributes_add(&b, PL_ATTR_TYPE, bytes, PL_FILE_ATTRIBUTES_MAX_BYTES - 4, &err), &err);
    a = of(&b);
    assert_ok(pl_file_attributes_check(&a, &err), &err);
    assert_ok(pl_file_attributes_add(&b, PL_ATTR_CACHE, "", 0, &err), &err);
    a = of(&b);
    assert_int_equal(pl_file_attributes_check(&a, &err), PL_EFORMAT);
    pl_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_these_bytes),
        cmocka_unit_test(fields_are_found_and_come_in_order),
        cmocka_unit_test(parts_are_runs_and_each_is_found),
        cmocka_unit_test(the_time_alone_makes_no_difference),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(every_truncation_within_a_field_is_refused),
        cmocka_unit_test(there_is_a_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
