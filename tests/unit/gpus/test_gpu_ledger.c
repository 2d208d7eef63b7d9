// link: pipelined/gpus
/* gpu_ledger and gpu_history: reports in, spans out; spans in, curves out. Times are in seconds from a full hour. */
#include "pipelined/gpus/gpu_history.h"
#include "pipelined/gpus/gpu_ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define HOUR  (1800000000ll / 3600 * 3600 * 1000000)
#define AT(s) (HOUR + (s)*1000000ll)

static json_t *json(const char *text)
{
    char copy[4096];
    json_error_t error;
    json_t *o;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    o = json_loads(copy, 0, &error);
    if (!o)
        fail_msg("%s: %s", error.text, copy);
    return o;
}

static bool see(struct pl_gpu_ledger *l, int64_t s, const char *report)
{
    json_t *o = json(report);
    bool changed = false;

    assert_int_equal(pl_gpu_ledger_see(l, AT(s), o, &changed, NULL), 0);
    json_decref(o);
    return changed;
}

/* Asserts that the spans are those of the text, and releases them. */
static void assert_spans(json_t *spans, const char *wanted)
{
    json_t *want = json(wanted), *one, *is;
    size_t i;

    assert_int_equal(json_array_size(spans), json_array_size(want));
    json_array_foreach(want, i, one)
    {
        const json_int_t from = json_integer_value(json_array_get(one, 0)), to = json_integer_value(json_array_get(one, 1));

        is = json_array_get(spans, i);
        assert_int_equal(json_integer_value(json_object_get(is, "from_us")), AT(from));
        assert_int_equal(json_integer_value(json_object_get(is, "to_us")), AT(to));
        if (!json_equal(json_object_get(is, "series"), json_array_get(one, 2)))
            fail_msg("span %zu is %s", i, json_dumps(json_object_get(is, "series"), JSON_COMPACT));
    }
    json_decref(want);
    json_decref(spans);
}

#define SLOT(by)  "{'node': 'n', 'gpus': [{'slot': 0, 'product': 'A' " by "}]}"
#define FREE      SLOT("")
#define HELD      SLOT(", 'computing': false, 'by': {'project': 'p', 'stage': 's'}")
#define COMPUTING SLOT(", 'computing': true, 'by': {'project': 'p', 'stage': 's'}")
#define POD(computing)                                                                                                           \
    "{'nodes': [{'node': 'a', 'product': 'H', 'capacity': 2, 'by': [{'count': 2, 'project': 'p', 'stage': 's', 'computing': "    \
    "" #computing "}]}]}"
#define MEASURED(use) SLOT(", 'utilisation': " #use ", 'computing': true, 'by': {'project': 'p', 'stage': 's'}")

static void what_held_and_what_computed_is_summed_by_the_minute(void **state)
{
    struct pl_gpu_ledger *l;

    (void)state;
    assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
    assert_true(see(l, 10, FREE));
    assert_true(see(l, 20, HELD));
    assert_false(see(l, 25, HELD));
    assert_true(see(l, 30, COMPUTING));
    assert_null(pl_gpu_ledger_take(l));
    assert_true(see(l, 90, FREE));
    assert_false(see(l, 130, FREE));
    assert_spans(pl_gpu_ledger_take(l),
                 "[[10, 60, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 50000, 'measured': 0, 'busy': 0,"
                 " 'by': [['p', 's', 40000, 30000, 10000]]}]],"
                 " [60, 120, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 60000, 'measured': 0, 'busy': 0,"
                 " 'by': [['p', 's', 30000, 30000, 0]]}]]]");
    assert_null(pl_gpu_ledger_take(l));
    pl_gpu_ledger_destroy(l);
}

static void gpus_at_rest_make_one_span_in_ten_minutes(void **state)
{
    struct pl_gpu_ledger *l;

    (void)state;
    assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
    see(l, 30, FREE);
    see(l, 330, FREE);
    assert_null(pl_gpu_ledger_take(l));
    see(l, 930, FREE);
    see(l, 960, HELD); /* it ends the time at rest */
    see(l, 1021, FREE);
    assert_spans(pl_gpu_ledger_take(l), "[[30, 600, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 570000, 'measured': 0,"
                                        " 'busy': 0, 'by': []}]],"
                                        " [600, 960, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 360000, 'measured': 0,"
                                        " 'busy': 0, 'by': []}]],"
                                        " [960, 1020, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 60000, 'measured': 0,"
                                        " 'busy': 0, 'by': [['p', 's', 60000, 0, 60000]]}]]]");
    pl_gpu_ledger_destroy(l);
}

static void a_measurement_says_what_is_idle(void **state)
{
    struct pl_gpu_ledger *l;
    json_t *report = json(MEASURED(2));

    (void)state;
    assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
    see(l, 0, MEASURED(50));
    see(l, 10, MEASURED(4));
    see(l, 20, MEASURED(2));
    pl_gpu_ledger_mark(l, report);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(report, "gpus"), 0), "idle_since_us")),
                     AT(10));
    json_decref(report);
    assert_true(pl_gpu_ledger_counts(l).idle == 1 && pl_gpu_ledger_counts(l).computing == 1);
    pl_gpu_ledger_end(l, AT(30));
    assert_spans(pl_gpu_ledger_take(l),
                 "[[0, 30, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 30000, 'measured': 30000, 'busy': 5600,"
                 " 'by': [['p', 's', 30000, 30000, 20000]]}]]]");
    pl_gpu_ledger_destroy(l);
}

/* Returns what a mark is set in: the first slot, or the first holder of the first row. */
static json_t *first_holder(const json_t *report)
{
    json_t *slot = json_array_get(json_object_get(report, "gpus"), 0);

    return slot ? slot : json_array_get(json_object_get(json_array_get(json_object_get(report, "nodes"), 0), "by"), 0);
}

static void a_datum_that_has_begun_since_the_last_look_is_not_idle(void **state)
{
    static const char *const both[][2] = {{HELD, COMPUTING}, {POD(0), POD(2)}, {POD(0), POD(1)}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(both); i++) {
        json_t *held = json(both[i][0]), *computing = json(both[i][1]);
        struct pl_gpu_ledger *l;

        assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
        see(l, 5, both[i][0]);
        pl_gpu_ledger_mark(l, held);
        pl_gpu_ledger_mark(l, computing);
        assert_int_equal(json_integer_value(json_object_get(first_holder(held), "idle_since_us")), AT(5));
        assert_null(json_object_get(first_holder(computing), "idle_since_us"));
        json_decref(held);
        json_decref(computing);
        pl_gpu_ledger_destroy(l);
    }
}

static void the_nodes_of_a_cluster_are_a_series_for_each_product(void **state)
{
    struct pl_gpu_ledger *l;

    (void)state;
    assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
    see(l, 0,
        "{'gpus': [], 'nodes': [{'node': 'a', 'resource': 'nvidia.com/gpu', 'product': 'H', 'capacity': 4, 'by': [{'count': 2,"
        " 'project': 'p', 'stage': 's', 'computing': 1}, {'namespace': 'x', 'pod': 'y', 'count': 1, 'utilisation': 0.5}]},"
        " {'node': 'a', 'resource': 'aliyun.com/gpu-mem', 'capacity': 80, 'gpus': [{}, {}], 'by': [{'count': 20, 'pod': "
        "'z'}]}]}");
    pl_gpu_ledger_end(l, AT(10));
    assert_spans(pl_gpu_ledger_take(l),
                 "[[0, 10, [{'node': 'a', 'product': 'H', 'capacity': 40000, 'measured': 10000, 'busy': 50, 'by':"
                 " [['p', 's', 20000, 10000, 10000], ['', '', 10000, 0, 10000]]},"
                 " {'node': 'a', 'product': 'aliyun.com/gpu-mem', 'capacity': 20000, 'measured': 0, 'busy': 0, 'by':"
                 " [['', '', 5000, 0, 0]]}]]]");
    pl_gpu_ledger_destroy(l);
}

static void a_clock_that_is_set_makes_a_gap_and_no_time(void **state)
{
    static const int64_t jumps[] = {-3600, 7200};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(jumps); i++) {
        struct pl_gpu_ledger *l;

        assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
        see(l, 0, HELD);
        see(l, 30, HELD);
        see(l, 40 + jumps[i], HELD);
        assert_spans(pl_gpu_ledger_take(l), "[[0, 30, [{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 30000, 'measured': 0,"
                                            " 'busy': 0, 'by': [['p', 's', 30000, 0, 30000]]}]]]");
        pl_gpu_ledger_destroy(l);
    }
}

static void more_nodes_than_the_bound_share_a_series(void **state)
{
    struct pl_gpu_ledger *l;
    json_t *rows = json_array(), *report = json_pack("{s:o}", "nodes", rows), *span;

    (void)state;
    for (int i = 0; i < 1000; i++)
        json_array_append_new(rows,
                              json_pack("{s:o, s:s, s:i, s:[{s:i, s:s, s:o}]}", "node", json_sprintf("n%d", i), "product", "H",
                                        "capacity", 2, "by", "count", 1, "project", "p", "stage", json_sprintf("s%d", i)));
    assert_int_equal(pl_gpu_ledger_create(&l, NULL), 0);
    assert_int_equal(pl_gpu_ledger_see(l, AT(0), report, NULL, NULL), 0);
    json_decref(report);
    assert_true(pl_gpu_ledger_counts(l).capacity == 2000 && pl_gpu_ledger_counts(l).held == 1000);
    pl_gpu_ledger_end(l, AT(1));
    span = pl_gpu_ledger_take(l);
    assert_true(json_array_size(json_object_get(json_array_get(span, 0), "series")) <= PL_GPU_SERIES_MAX);
    json_decref(span);
    pl_gpu_ledger_destroy(l);
}

/* ---- curves ---- */

static bool not_secret(const void *who, const char *project, const char *stage)
{
    (void)who;
    return strcmp(project, "secret") != 0 && *stage;
}

static void spans_are_shared_out_over_the_steps(void **state)
{
    struct pl_gpu_history_config config = {.from_us = AT(0), .to_us = AT(100), .points = 4, .may_see = not_secret};
    static const struct {
        int64_t from, to;
        const char *series;
    } spans[] = {
        {-50, 50,
         "[{'node': 'n', 'product': 'A', 'slot': 1, 'capacity': 100000, 'measured': 0, 'busy': 0,"
         " 'by': [['p', 's', 50000, 20000, 10000], ['secret', 't', 1000, 0, 0]]}]"},
        {90, 95, "[{'node': 'n', 'product': 'A', 'slot': 0, 'capacity': 5000, 'measured': 5000, 'busy': 2500, 'by': []}, {}, 3]"},
        {500, 600, "[{'node': 'late', 'product': 'A', 'capacity': 5000, 'by': []}]"},
    };
    struct pl_gpu_history *h;
    json_t *is, *want;

    (void)state;
    assert_int_equal(pl_gpu_history_create(&config, &h, NULL), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(spans); i++) {
        json_t *series = json(spans[i].series);

        assert_int_equal(pl_gpu_history_add(h, AT(spans[i].from), AT(spans[i].to), series, NULL), 0);
        json_decref(series);
    }
    is = pl_gpu_history_json(h);
    want = json("{'known_ms': [25000, 25000, 0, 5000], 'points': 4, 'total': {'capacity_ms': 55000, 'held_ms': 25500, 'used_ms':"
                " 10000, 'idle_ms': 5000, 'measured_ms': 5000, 'busy_ms': 2500}, 'stages': [{'project': 'p', 'stage': 's',"
                " 'held_ms': 25000, 'used_ms': 10000, 'idle_ms': 5000, 'held': [12500, 12500, 0, 0]}, {'held_ms': 500, 'used_ms':"
                " 0, 'idle_ms': 0, 'held': [250, 250, 0, 0]}]}");
    json_object_update_new(want, json_pack("{s:I, s:I, s:O}", "from_us", (json_int_t)AT(0), "to_us", (json_int_t)AT(100),
                                           "series", json_object_get(is, "series")));
    if (!json_equal(is, want))
        fail_msg("%s", json_dumps(is, JSON_COMPACT));
    json_decref(want);
    want = json("{'node': 'n', 'product': 'A', 'slot': 1, 'capacity': [25000, 25000, 0, 0], 'held': [12750, 12750, 0, 0],"
                " 'used': [5000, 5000, 0, 0], 'idle': [2500, 2500, 0, 0], 'measured': [0, 0, 0, 0], 'busy': [0, 0, 0, 0]}");
    if (!json_equal(json_array_get(json_object_get(is, "series"), 2), want))
        fail_msg("%s", json_dumps(is, JSON_COMPACT));
    json_decref(want);
    json_decref(is);
    pl_gpu_history_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_held_and_what_computed_is_summed_by_the_minute),
        cmocka_unit_test(gpus_at_rest_make_one_span_in_ten_minutes),
        cmocka_unit_test(a_measurement_says_what_is_idle),
        cmocka_unit_test(a_datum_that_has_begun_since_the_last_look_is_not_idle),
        cmocka_unit_test(the_nodes_of_a_cluster_are_a_series_for_each_product),
        cmocka_unit_test(a_clock_that_is_set_makes_a_gap_and_no_time),
        cmocka_unit_test(more_nodes_than_the_bound_share_a_series),
        cmocka_unit_test(spans_are_shared_out_over_the_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
