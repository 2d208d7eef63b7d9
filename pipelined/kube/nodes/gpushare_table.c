/* gpushare_table.c: the tables of kubectl-inspect-gpushare. A column is as wide as its widest cell plus two
 * blanks. If some nodes count GiB and others MiB, the whole table is in MiB, because it has a single
 * total. */
#include "pipelined/kube/nodes/gpu_report.h"
#include "pipelined/kube/pod/gpushare.h"

#include "pipelined/text/json_text.h"
#include "storage/base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#define COLUMNS_MAX (PL_GPUSHARE_GPUS_MAX + 4)

struct table {
    size_t widths[COLUMNS_MAX];
    size_t n, at;       /* number of columns; column of the next cell */
    struct pl_buf text; /* the cells row by row, each NUL-terminated */
};

static long long int_at(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static void cell(struct table *t, int *r, const char *fmt, ...) PL_PRINTF(3, 4);
static void cell(struct table *t, int *r, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->widths[t->at] = PL_MAX(t->widths[t->at], strlen(text));
    t->at = (t->at + 1) % t->n;
    *r = *r < 0 ? *r : pl_buf_add(&t->text, text, strlen(text) + 1, NULL);
}

/* Writes the rows, padded to the columns' widths. */
static int flush(struct table *t, struct pl_buf *out, size_t *ret_width, struct pl_err *err)
{
    const char *at = (const char *)t->text.data;
    size_t column = 0, width = 0;
    int r = 0;

    for (size_t i = 0; i < t->text.len && r == 0; i += strlen(at + i) + 1) {
        bool last = column + 1 == t->n;

        r = last ? pl_buf_addf(out, err, "%s\n", at + i) : pl_buf_addf(out, err, "%-*s", (int)t->widths[column] + 2, at + i);
        column = last ? 0 : column + 1;
    }
    for (size_t i = 0; i < t->n; i++)
        width += t->widths[i] + (i + 1 < t->n ? 2 : 0);
    *ret_width = width;
    pl_buf_finish(&t->text);
    return r;
}

static bool is_shared(const json_t *row)
{
    return pl_streq(pl_json_str(row, "resource"), PL_GPUSHARE_MEM);
}

/* Properties of the whole table. */
struct scope {
    size_t gpus;  /* largest number of devices of one node */
    bool pending; /* some node has pending units */
    bool mib;     /* the table is in MiB; false: in GiB */
    long long allocated, total;
};

static bool counts_mib(const json_t *row)
{
    const size_t gpus = json_array_size(json_object_get(row, "gpus"));

    return pl_gpushare_unit(pl_gpushare_device(int_at(row, "capacity"), (int64_t)gpus)) == PL_UNIT_MIB;
}

/* Returns the factor that converts the numbers of a report row to the table's unit, GiB or MiB. */
static long long scale_of(const struct scope *s, const json_t *row)
{
    return s->mib && !counts_mib(row) ? 1024 : 1;
}

/* Computes the properties of the whole table. */
static struct scope look_at(const json_t *rows)
{
    struct scope s = {0};
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) s.mib = s.mib || (is_shared(row) && counts_mib(row));

    json_array_foreach(rows, i, row)
    {
        const json_t *gpus = json_object_get(row, "gpus");

        if (!is_shared(row))
            continue;
        s.gpus = PL_MAX(s.gpus, json_array_size(gpus));
        s.pending = s.pending || int_at(row, "pending") > 0;
        s.allocated += int_at(row, "allocated") * scale_of(&s, row);
        s.total += int_at(row, "capacity") * scale_of(&s, row);
    }
    return s;
}

static int per_cent(long long part, long long all)
{
    return all > 0 ? (int)(part * 100 / all) : 0;
}

static int end_table(const struct scope *s, size_t width, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < width && r == 0; i++)
        r = pl_buf_add_str(out, "-", err);
    return r < 0 ? r
                 : pl_buf_addf(out, err, "\nAllocated/Total GPU Memory In Cluster:\n%lld/%lld (%d%%)\n", s->allocated, s->total,
                               per_cent(s->allocated, s->total));
}

/* Writes the table with one line per node. */
static int summary(const json_t *rows, const struct scope *s, struct pl_buf *out, struct pl_err *err)
{
    struct table t = {.n = 2 + s->gpus + s->pending + 1};
    const json_t *row;
    size_t i, width = 0;
    int r = 0;

    cell(&t, &r, "NAME");
    cell(&t, &r, "IPADDRESS");
    for (size_t k = 0; k < s->gpus; k++)
        cell(&t, &r, "GPU%zu(Allocated/Total)", k);
    if (s->pending)
        cell(&t, &r, "PENDING(Allocated)");
    cell(&t, &r, "GPU Memory(%s)", s->mib ? "MiB" : "GiB");
    json_array_foreach(rows, i, row)
    {
        const long long scale = scale_of(s, row);

        if (!is_shared(row))
            continue;
        cell(&t, &r, "%s", pl_json_str(row, "node"));
        cell(&t, &r, "%s", pl_json_str(row, "address"));
        for (size_t k = 0; k < s->gpus; k++) {
            const json_t *gpu = json_array_get(json_object_get(row, "gpus"), k);

            cell(&t, &r, "%lld/%lld", int_at(gpu, "allocated") * scale, int_at(gpu, "total") * scale);
        }
        if (s->pending)
            cell(&t, &r, "%lld", int_at(row, "pending") * scale);
        cell(&t, &r, "%lld/%lld", int_at(row, "allocated") * scale, int_at(row, "capacity") * scale);
    }
    r = r < 0 ? pl_err_nomem(err) : 0;
    r = r < 0 ? r : flush(&t, out, &width, err);
    pl_buf_finish(&t.text);
    return r < 0 ? r : end_table(s, width, out, err);
}

static void pod_row(struct table *t, int *r, const json_t *pod, size_t gpus, bool pending, long long scale)
{
    long long placed = 0;

    cell(t, r, "%s", pl_json_str(pod, "pod"));
    cell(t, r, "%s", pl_json_str(pod, "namespace"));
    for (size_t k = 0; k < gpus; k++) {
        char index[24];

        snprintf(index, sizeof index, "%zu", k);
        placed += int_at(json_object_get(pod, "devices"), index);
        cell(t, r, "%lld", int_at(json_object_get(pod, "devices"), index) * scale);
    }
    if (pending)
        cell(t, r, "%lld", PL_MAX(int_at(pod, "count") - placed, 0LL) * scale);
}

/* Writes one node's table of pods. */
static int node_details(const json_t *row, long long scale, struct pl_buf *out, size_t *ret_width, struct pl_err *err)
{
    const size_t gpus = json_array_size(json_object_get(row, "gpus"));
    const bool pending = int_at(row, "pending") > 0;
    struct table t = {.n = 2 + gpus + pending};
    const json_t *pod;
    size_t i;
    int r = pl_buf_addf(out, err, "NAME:       %s\nIPADDRESS:  %s\n\n", pl_json_str(row, "node"), pl_json_str(row, "address"));

    cell(&t, &r, "NAME");
    cell(&t, &r, "NAMESPACE");
    for (size_t k = 0; k < gpus; k++)
        cell(&t, &r, "GPU%zu(Allocated)", k);
    if (pending)
        cell(&t, &r, "Pending(Allocated)");
    json_array_foreach(json_object_get(row, "by"), i, pod) pod_row(&t, &r, pod, gpus, pending, scale);
    r = r < 0 ? pl_err_nomem(err) : flush(&t, out, ret_width, err);
    pl_buf_finish(&t.text);
    return r < 0 ? r
                 : pl_buf_addf(out, err, "Allocated:  %lld (%d%%)\nTotal:      %lld\n", int_at(row, "allocated") * scale,
                               per_cent(int_at(row, "allocated"), int_at(row, "capacity")), int_at(row, "capacity") * scale);
}

int pl_gpushare_table(const json_t *rows, bool details, struct pl_buf *out, struct pl_err *err)
{
    const struct scope s = look_at(rows);
    const json_t *row;
    size_t i, width = 0;
    int r = 0;

    if (s.total == 0)
        return 0;
    if (!details)
        return summary(rows, &s, out, err);
    json_array_foreach(rows, i, row)
    {
        if (r < 0 || !is_shared(row))
            continue;
        r = node_details(row, scale_of(&s, row), out, &width, err);
        for (size_t k = 0; k < width && r == 0; k++)
            r = pl_buf_add_str(out, "-", err);
        r = r < 0 ? r : pl_buf_add_str(out, "\n\n", err);
    }
    return r < 0 ? r : end_table(&s, 0, out, err);
}
