// link: pipelined/metrics
/* metric_table: columns, their order, the order of rows, and two runs against each other. */
#include "pipelined/metrics/metric_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
    char copy[4096];
    json_t *value;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    value = json_loads(copy, 0, NULL);
    assert_non_null(value);
    return value;
}

#define FIGURE(name, value) "{'name':'" name "','last':{'step':1,'value':" value "}}"
#define RESULTS                                                                                                                  \
    "[{'run':'r3','datum':'d1','params':{'TAG':'x','DEPTH':'3','lr':0.1},'combination':{'lr':0.1},'figures':[" FIGURE(           \
        "acc", "0.8") "," FIGURE("loss", "2") "]},"                                                                              \
                                              "{'run':'r2','datum':'d2','params':{'TAG':'y','DEPTH':'3','lr':0.03,'k':1},'"      \
                                              "combination':{'lr':0.03,'k':1},'figures':[" FIGURE(                               \
                                                  "acc",                                                                         \
                                                  "0.9") "]},"                                                                   \
                                                         "{'run':'r1','datum':'d1','params':{'TAG':'x','DEPTH':'3','lr':'auto'}" \
                                                         ",'combination':{'lr':'auto'},'figures':[" FIGURE("loss", "1") "]}]"

static char *names(const json_t *list)
{
    return json_dumps(list, JSON_COMPACT);
}

static void columns_are_the_swept_parameters_those_that_differ_and_the_metrics(void **state)
{
    json_t *results = parse(RESULTS), *none = json_array();
    struct pl_metric_table t;
    struct pl_err err = {0};
    char *params, *metrics;

    (void)state;
    assert_int_equal(pl_metric_table_make(results, NULL, &t, &err), 0);
    params = names(t.params);
    metrics = names(t.metrics);
    assert_string_equal(params, "[\"lr\",\"k\",\"TAG\"]");
    assert_string_equal(metrics, "[\"acc\",\"loss\"]");
    assert_string_equal(json_string_value(json_object_get(json_array_get(t.rows, 0), "run")), "r3");
    free(params);
    free(metrics);
    pl_metric_table_finish(&t);
    assert_int_equal(pl_metric_table_make(none, "acc", &t, &err), 0); /* nothing to sort */
    assert_int_equal(json_array_size(t.rows), 0);
    pl_metric_table_finish(&t);
    json_decref(none);
    json_decref(results);
}

static void rows_are_sorted_by_any_column(void **state)
{
    static const struct {
        const char *sort, *runs; /* runs NULL: refused */
    } rows[] = {
        {NULL, "r3 r2 r1"},   {"acc", "r3 r2 r1"},   {"-acc", "r2 r3 r1"}, /* without a value: last */
        {"loss", "r1 r3 r2"}, {"-loss", "r3 r1 r2"}, {"lr", "r2 r3 r1"},   /* numbers before texts */
        {"TAG", "r3 r1 r2"},  {"-TAG", "r2 r3 r1"},  {"k", "r2 r3 r1"},    {"DEPTH", NULL}, {"-none", NULL}, {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *results = parse(RESULTS);
        struct pl_metric_table t;
        struct pl_err err = {0};
        int r = pl_metric_table_make(results, rows[i].sort, &t, &err);

        if (!rows[i].runs) {
            assert_int_equal(r, PL_EUSAGE);
            assert_non_null(strstr(err.msg, "there are acc, loss, lr, k, TAG"));
        } else {
            char text[64] = "";
            size_t k, n = 0;
            json_t *one;

            assert_int_equal(r, 0);
            json_array_foreach(t.rows, k, one) n +=
                (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", json_string_value(json_object_get(one, "run")));
            if (strcmp(text, rows[i].runs) != 0)
                fail_msg("%s: %s", rows[i].sort ? rows[i].sort : "unsorted", text);
            pl_metric_table_finish(&t);
        }
        json_decref(results);
    }
}

static void two_runs_are_compared_datum_by_datum(void **state)
{
    static const struct {
        const char *a, *b, *rows;
    } table[] = {
        /* one result each: these two, whatever their datums */
        {"[{'datum':'d1','combination':{'lr':1},'figures':[" FIGURE("acc", "0.5") "]}]",
         "[{'datum':'d2','combination':{'lr':2},'figures':[" FIGURE("acc", "0.75") "," FIGURE("new", "3") "]}]",
         "d2 acc 0.5 0.75 0.25; d2 new null 3 null"},
        {"[{'datum':'d1','figures':[" FIGURE("acc", "4") "]},{'datum':'d2','figures':[" FIGURE("acc", "1") "]}]",
         "[{'datum':'d3','figures':[" FIGURE("acc", "9") "]},{'datum':'d1','figures':[" FIGURE("acc", "6") "]}]",
         "d1 acc 4 6 2.0; d2 acc 1 null null; d3 acc null 9 null"},
        /* a difference that is no number */
        {"[{'datum':'d1','figures':[" FIGURE("acc", "1e308") "]}]", "[{'datum':'d1','figures':[" FIGURE("acc", "-1e308") "]}]",
         "d1 acc 1e308 -1e308 null"},
        {"[]", "[]", ""},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        json_t *a = parse(table[i].a), *b = parse(table[i].b), *rows = NULL, *one;
        struct pl_err err = {0};
        char text[256] = "";
        size_t k, n = 0;

        assert_int_equal(pl_metric_table_diff(a, b, &rows, &err), 0);
        json_array_foreach(rows, k, one)
        {
            char *values[3];
            static const char *const keys[] = {"a", "b", "difference"};

            for (size_t v = 0; v < 3; v++)
                values[v] = json_dumps(json_object_get(one, keys[v]), JSON_ENCODE_ANY);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s %s %s %s", n ? "; " : "",
                                  json_string_value(json_object_get(one, "datum")),
                                  json_string_value(json_object_get(one, "metric")), values[0], values[1], values[2]);
            for (size_t v = 0; v < 3; v++)
                free(values[v]);
        }
        assert_string_equal(text, table[i].rows);
        json_decref(a);
        json_decref(b);
        json_decref(rows);
    }
}

/* Many results that share their parameters: each name is judged once, not again for each result. */
static void equal_parameters_of_many_results_cost_one_look_each(void **state)
{
    enum { RESULTS_N = 20000, PARAMS_N = 20 };
    json_t *results = json_array();
    struct pl_metric_table t;
    struct pl_err err = {0};
    clock_t began;

    (void)state;
    for (int i = 0; i < RESULTS_N; i++) {
        json_t *params = json_object();

        for (int k = 0; k < PARAMS_N; k++) {
            char name[8];

            snprintf(name, sizeof name, "P%d", k);
            json_object_set_new(params, name, json_string("same"));
        }
        json_object_set_new(params, "last", json_integer(i == RESULTS_N - 1));
        json_array_append_new(results, json_pack("{s:o, s:[]}", "params", params, "figures"));
    }
    began = clock();
    assert_int_equal(pl_metric_table_make(results, NULL, &t, &err), 0);
    assert_true(clock() - began < 20 * CLOCKS_PER_SEC); /* looked at again for each result: minutes */
    assert_int_equal(json_array_size(t.params), 1);
    pl_metric_table_finish(&t);
    json_decref(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_the_swept_parameters_those_that_differ_and_the_metrics),
        cmocka_unit_test(rows_are_sorted_by_any_column),
        cmocka_unit_test(two_runs_are_compared_datum_by_datum),
        cmocka_unit_test(equal_parameters_of_many_results_cost_one_look_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
