/* metric_table: collects the names of the columns, makes a row for each result, and sorts the rows. */
#include "pipelined/metrics/metric_table.h"

#include "pipelined/text/json_text.h"
#include "storage/base/base.h"
#include "storage/base/buf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pl_metric_table_finish(struct pl_metric_table *table)
{
    json_decref(table->params);
    json_decref(table->metrics);
    json_decref(table->rows);
    *table = (struct pl_metric_table){0};
}

/* ---- columns ---- */

static bool has_name(const json_t *names, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)names, i, one)
    {
        if (pl_streq(json_string_value(one), name))
            return true;
    }
    return false;
}

/* Adds a name that is not there, as long as there is room. */
static int add_name(struct pl_metric_table *t, json_t *names, const char *name, struct pl_err *err)
{
    if (json_array_size(t->params) + json_array_size(t->metrics) >= PL_METRIC_COLUMNS_MAX || has_name(names, name))
        return 0;
    return pl_json_add(names, json_string(name), err);
}

/* True if the parameter does not have the same value in all results. */
static bool differs(const json_t *results, const char *name)
{
    const json_t *first = json_object_get(json_object_get(json_array_get(results, 0), "params"), name), *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)results, i, one)
    {
        const json_t *value = json_object_get(json_object_get(one, "params"), name);

        if ((value || first) && !json_equal(value, first))
            return true;
    }
    return false;
}

/* Adds the names of one object that are columns: all, or, if `results` is given, those of which the values differ there. Each name is
 * judged once: `judged` has those that were. */
static int add_params(struct pl_metric_table *t, const json_t *results, const json_t *params, json_t *judged, struct pl_err *err)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)params, name, value)
    {
        if (r < 0 || json_object_get(judged, name))
            continue;
        r = json_object_set_new(judged, name, json_true()) < 0 ? pl_err_nomem(err) : 0;
        if (r == 0 && (!results || differs(results, name)))
            r = add_name(t, t->params, name, err);
    }
    return r;
}

static int find_columns(struct pl_metric_table *t, const json_t *results, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *judged = json_object();
    const json_t *one, *figure;
    size_t i, k;
    int r = judged ? 0 : pl_err_nomem(err);

    json_array_foreach((json_t *)(uintptr_t)results, i, one)
    {
        r = r < 0 ? r : add_params(t, NULL, json_object_get(one, "combination"), judged, err);
    }
    json_array_foreach((json_t *)(uintptr_t)results, i, one)
    {
        r = r < 0 ? r : add_params(t, results, json_object_get(one, "params"), judged, err);
    }
    json_array_foreach((json_t *)(uintptr_t)results, i, one)
    {
        json_array_foreach(json_object_get(one, "figures"), k, figure)
        {
            r = r < 0 ? r : add_name(t, t->metrics, pl_json_str(figure, "name"), err);
        }
    }
    return r;
}

/* ---- rows ---- */

/* Returns the last value of each metric of the result: {NAME: NUMBER}; NULL = no memory. */
static json_t *last_values(const json_t *result)
{
    json_t *values = json_object();
    const json_t *figure;
    size_t i;

    json_array_foreach(json_object_get(result, "figures"), i, figure)
    {
        json_t *value = json_object_get(json_object_get(figure, "last"), "value");

        if (values && value && json_object_set(values, pl_json_str(figure, "name"), value) < 0)
            json_decrefp(&values);
    }
    return values;
}

static int add_row(struct pl_metric_table *t, const json_t *result, struct pl_err *err)
{
    json_t *metrics = last_values(result), *params = json_object_get(result, "params");

    if (!metrics)
        return pl_err_nomem(err);
    return pl_json_add(t->rows,
                       json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:o}", "run", json_object_get(result, "run"), "created_us",
                                 json_object_get(result, "created_us"), "state", json_object_get(result, "state"), "version",
                                 json_object_get(result, "version"), "datum", json_object_get(result, "datum"), "params", params,
                                 "metrics", metrics),
                       err);
}

/* ---- order ---- */

struct sorted {
    json_t *row;
    const json_t *value; /* NULL = it has none */
    size_t at;           /* where it was */
};

static int compare_values(const json_t *a, const json_t *b)
{
    const bool number_a = json_is_number(a), number_b = json_is_number(b);
    const double x = json_number_value(a), y = json_number_value(b);

    if (number_a && number_b)
        return (x > y) - (x < y);
    if (number_a != number_b)
        return number_a ? -1 : 1;
    if (json_is_string(a) && json_is_string(b))
        return strcmp(json_string_value(a), json_string_value(b));
    return (int)json_typeof(a) - (int)json_typeof(b);
}

/* Compares two rows; rows without a value come last in either direction, equal ones keep their order. */
static int compare_rows(const void *x, const void *y, void *descending)
{
    const struct sorted *a = x, *b = y;
    int order = 0;

    if (a->value && b->value)
        order = compare_values(a->value, b->value);
    else if (a->value || b->value)
        return a->value ? -1 : 1;
    if (order == 0)
        return (a->at > b->at) - (a->at < b->at);
    return *(const bool *)descending ? -order : order;
}

/* Refuses a name that is no column, and lists those that are. */
static int no_column(const struct pl_metric_table *t, const char *name, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf list = {0};
    const json_t *const names[] = {t->metrics, t->params};
    const char *text;
    const json_t *one;
    size_t i;
    int r = 0;

    for (size_t k = 0; k < PL_ARRAY_SIZE(names); k++)
        json_array_foreach((json_t *)(uintptr_t)names[k], i, one)
        {
            r = r < 0 ? r : pl_buf_addf(&list, err, "%s%s", list.len ? ", " : "", json_string_value(one));
        }
    text = r < 0 ? NULL : pl_buf_str(&list);
    if (!text)
        return pl_err_nomem(err);
    return pl_err_set(err, PL_EUSAGE, "--sort %.60s: there is no such metric or parameter: there are %.600s", name, text);
}

static int sort_rows(struct pl_metric_table *t, const char *sort, struct pl_err *err)
{
    const bool whole = has_name(t->metrics, sort) || has_name(t->params, sort); /* a name may begin with "-" */
    bool descending = !whole && *sort == '-';
    const char *name = sort + descending;
    const char *where = has_name(t->metrics, name) ? "metrics" : has_name(t->params, name) ? "params" : NULL;
    _cleanup_free_ struct sorted *list = calloc(json_array_size(t->rows) + 1, sizeof *list);
    json_t *rows = json_array(), *one;
    size_t i, n = 0;
    int r = 0;

    if (!where || !list || !rows) {
        json_decref(rows);
        return where ? pl_err_nomem(err) : no_column(t, name, err);
    }
    json_array_foreach(t->rows, i, one)
    {
        list[n++] = (struct sorted){one, json_object_get(json_object_get(one, where), name), i};
    }
    qsort_r(list, n, sizeof *list, compare_rows, &descending);
    for (i = 0; i < n && r == 0; i++)
        r = pl_json_add(rows, json_incref(list[i].row), err);
    json_decref(t->rows);
    t->rows = rows;
    return r;
}

int pl_metric_table_make(const json_t *results, const char *sort, struct pl_metric_table *ret, struct pl_err *err)
{
    struct pl_metric_table t = {json_array(), json_array(), json_array()};
    const json_t *one;
    size_t i;
    int r = t.params && t.metrics && t.rows ? find_columns(&t, results, err) : pl_err_nomem(err);

    json_array_foreach((json_t *)(uintptr_t)results, i, one)
    {
        r = r < 0 ? r : add_row(&t, one, err);
    }
    if (r == 0 && sort && i > 0)
        r = sort_rows(&t, sort, err);
    if (r < 0)
        pl_metric_table_finish(&t);
    else
        *ret = t;
    return r;
}

/* ---- two runs ---- */

/* Makes an index of the results: {DATUM: RESULT}, the first of each datum; NULL = no memory. */
static json_t *by_datum(const json_t *results)
{
    json_t *index = json_object();
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)results, i, one)
    {
        const char *datum = pl_json_str(one, "datum");

        if (index && !json_object_get(index, datum) && json_object_set(index, datum, one) < 0)
            json_decrefp(&index);
    }
    return index;
}

/* Returns b − a; null if one is not there or the difference is no finite number. NULL = no memory. */
static json_t *difference(const json_t *a, const json_t *b)
{
    const double gap = a && b ? json_number_value(b) - json_number_value(a) : (double)NAN;

    return isfinite(gap) ? json_real(gap) : json_null();
}

/* Adds a row for each metric of either result, of which one may be NULL. */
static int add_pair(const json_t *a, const json_t *b, json_t *rows, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *before = last_values(a), *after = last_values(b), *all = json_object();
    const json_t *either = b ? b : a;
    const char *name;
    json_t *value;
    int r = before && after && all && json_object_update(all, before) == 0 && json_object_update_missing(all, after) == 0
                ? 0
                : pl_err_nomem(err);

    json_object_foreach(all, name, value)
    {
        json_t *x = json_object_get(before, name), *y = json_object_get(after, name);
        json_t *gap = difference(x, y);

        r = r < 0 ? r
                  : pl_json_add(rows,
                                json_pack("{s:O?, s:O?, s:s, s:O?, s:O?, s:o}", "datum", json_object_get(either, "datum"),
                                          "params", json_object_get(either, "combination"), "metric", name, "a", x, "b", y,
                                          "difference", json_incref(gap)),
                                err);
        json_decref(gap);
    }
    return r;
}

int pl_metric_table_diff(const json_t *a, const json_t *b, json_t **ret, struct pl_err *err)
{
    const bool single = json_array_size(a) == 1 && json_array_size(b) == 1;
    _cleanup_(json_decrefp) json_t *of_a = by_datum(a), *of_b = by_datum(b);
    json_t *rows = json_array();
    const json_t *one, *other;
    size_t i;
    int r = rows && of_a && of_b ? 0 : pl_err_nomem(err);

    json_array_foreach((json_t *)(uintptr_t)a, i, one)
    {
        other = single ? json_array_get(b, 0) : json_object_get(of_b, pl_json_str(one, "datum"));
        r = r < 0 ? r : add_pair(one, other, rows, err);
    }
    json_array_foreach((json_t *)(uintptr_t)b, i, one)
    {
        if (r == 0 && !single && !json_object_get(of_a, pl_json_str(one, "datum")))
            r = add_pair(NULL, one, rows, err);
    }
    if (r < 0)
        json_decref(rows);
    else
        *ret = rows;
    return r;
}
