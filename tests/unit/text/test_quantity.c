// link: pipelined/text
/* quantity: Kubernetes quantities, exactly, rounded up. */
#include "pipelined/text/quantity.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void amounts_of_cpu(void **state)
{
    static const struct {
        const char *text;
        int64_t milli;
        const char *again;
    } cases[] = {
        {"2", 2000, "2"},    {"0.5", 500, "500m"},     {"500m", 500, "500m"},      {"1500m", 1500, "1500m"},
        {"0.0001", 1, "1m"}, {"1e3", 1000000, "1000"}, {"1.5e+00", 1500, "1500m"}, {".5", 500, "500m"},
        {"3.", 3000, "3"},   {"1k", 1000000, "1000"},  {"1e-2", 10, "10m"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        int64_t milli = 0;
        char text[32];

        assert_int_equal(pl_quantity_cpu(cases[i].text, &milli, NULL), 0);
        assert_int_equal(milli, cases[i].milli);
        assert_string_equal(pl_quantity_cpu_text(milli, text), cases[i].again);
    }
}

static void counts_have_commas(void **state)
{
    static const struct {
        int64_t n;
        const char *text;
    } cases[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {120000, "120,000"}, {1203441, "1,203,441"}};
    char text[32];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(pl_quantity_count_text(cases[i].n, text), cases[i].text);
}

static void sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
        const char *again;
    } cases[] = {
        {"1", 1, "1"},
        {"40Gi", 40ll << 30, "40Gi"},
        {"40G", 40000000000ll, "39062500Ki"},
        {"0.5Gi", 512ll << 20, "512Mi"},
        {"1.5Mi", 3ll << 19, "1536Ki"},
        {"128974848", 128974848, "123Mi"},
        {"1e9", 1000000000, "1000000000"},
        {"1500m", 2, "2"},
        {"1Ei", 1ll << 60, "1Ei"},
        {"1E", 1000000000000000000ll, "976562500000000Ki"},
        {"120Gi", 120ll << 30, "120Gi"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        int64_t bytes = 0, again = 0;
        char text[32];

        assert_int_equal(pl_quantity_bytes(cases[i].text, &bytes, NULL), 0);
        assert_int_equal(bytes, cases[i].bytes);
        assert_int_equal(pl_quantity_bytes(pl_quantity_bytes_text(bytes, text), &again, NULL), 0);
        assert_int_equal(again, bytes);
    }
    for (size_t i = 0; i < 3; i++) {
        char text[32];

        assert_string_equal(pl_quantity_bytes_text(cases[i].bytes, text), cases[i].again);
    }
}

static void what_is_no_quantity_is_refused(void **state)
{
    static const char *const bad[] = {
        "",     "0",  "-1", "+1", "abc", "1 Gi", "1gi",  "1GiB", "1..2", "1e",   "1e+",
        "1e1x", "Gi", ".",  "0m", "1Zi", "1K",   "0x10", "NaN",  "1e99", "10Ei", "9999999999999999999",
        "1e-9e"};
    struct pl_err err = {0};
    int64_t v = -1;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        if (pl_quantity_bytes(bad[i], &v, &err) != PL_EINVAL)
            fail_msg("%s is accepted", bad[i]);
        assert_int_equal(pl_quantity_cpu(bad[i], &v, &err), PL_EINVAL);
        assert_int_equal(v, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_of_cpu),
        cmocka_unit_test(counts_have_commas),
        cmocka_unit_test(sizes),
        cmocka_unit_test(what_is_no_quantity_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
