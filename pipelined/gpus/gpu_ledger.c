/* gpu_ledger.c: a list of series, each with a list of holders. A report marks what it names; what it does not name has no
 * GPUs any more, and is dropped when its span ends. */
#include "pipelined/gpus/gpu_ledger.h"

#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <math.h>
#include <stdio.h>

#define MINUTE_US 60000000ll
#define NODE_MAX  128

struct holder {
    char project[PL_NAME_MAX_BYTES + 1], stage[PL_NAME_MAX_BYTES + 1];
    double count, computing, idle;          /* present numbers of GPUs */
    double next, next_computing, next_idle; /* as the report that is being taken says */
    double held_ms, used_ms, idle_ms;
    int64_t idle_since_us; /* since when none of its GPUs did anything; 0 = one does, or it holds none */
};

struct series {
    char node[NODE_MAX], product[NODE_MAX];
    int slot; /* -1 = the GPUs of a product of a node */
    double capacity, measured, busy;
    double next_capacity, next_measured, next_busy;
    double capacity_ms, measured_ms, busy_ms;
    struct holder *holders;
    size_t n_holders;
};

struct pl_gpu_ledger {
    struct series *series;
    size_t n_series;
    int64_t from_us, at_us; /* of the span that goes on: its start, and how far its sums go; 0 = there was no report */
    bool active;            /* something was held or busy in the span */
    json_t *ended;
};

int pl_gpu_ledger_create(struct pl_gpu_ledger **ret, struct pl_err *err)
{
    struct pl_gpu_ledger *l = calloc(1, sizeof *l);

    if (l)
        l->ended = json_array();
    if (!l || !l->ended) {
        free(l);
        return pl_err_nomem(err);
    }
    *ret = l;
    return 0;
}

static void series_finish(struct series *s)
{
    free(s->holders);
}

struct pl_gpu_ledger *pl_gpu_ledger_destroy(struct pl_gpu_ledger *l)
{
    if (!l)
        return NULL;
    for (size_t i = 0; i < l->n_series; i++)
        series_finish(&l->series[i]);
    free(l->series);
    json_decref(l->ended);
    free(l);
    return NULL;
}

/* ---- sums ---- */

static json_int_t whole(double ms)
{
    return (json_int_t)llround(ms);
}

static json_t *series_json(const struct series *s)
{
    json_t *by = json_array();
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "node", s->node, "product", s->product, "capacity",
                          whole(s->capacity_ms), "measured", whole(s->measured_ms), "busy", whole(s->busy_ms), "by", by);

    if (s->slot >= 0)
        json_object_set_new(o, "slot", json_integer(s->slot));
    for (size_t i = 0; i < s->n_holders; i++) {
        const struct holder *h = &s->holders[i];

        if (whole(h->held_ms) > 0)
            json_array_append_new(by, json_pack("[s, s, I, I, I]", h->project, h->stage, whole(h->held_ms), whole(h->used_ms),
                                                whole(h->idle_ms)));
    }
    return o;
}

json_t *pl_gpu_ledger_open(const struct pl_gpu_ledger *l)
{
    json_t *list;

    if (l->at_us <= l->from_us || l->n_series == 0)
        return NULL;
    list = json_array();
    for (size_t i = 0; i < l->n_series; i++)
        json_array_append_new(list, series_json(&l->series[i]));
    return json_pack("{s:I, s:I, s:o}", "from_us", (json_int_t)l->from_us, "to_us", (json_int_t)l->at_us, "series", list);
}

json_t *pl_gpu_ledger_take(struct pl_gpu_ledger *l)
{
    json_t *list = json_array_size(l->ended) > 0 ? json_copy(l->ended) : NULL;

    if (list)
        json_array_clear(l->ended);
    return list;
}

static bool acts(const struct series *s)
{
    for (size_t i = 0; i < s->n_holders; i++)
        if (s->holders[i].count > 0)
            return true;
    return s->busy * 100 >= s->capacity * PL_GPU_IDLE_PERCENT && s->busy > 0;
}

static bool any_acts(const struct pl_gpu_ledger *l)
{
    for (size_t i = 0; i < l->n_series; i++)
        if (acts(&l->series[i]))
            return true;
    return false;
}

/* Clears the sums of a series, and drops holders that hold nothing. */
static void series_restart(struct series *s)
{
    size_t kept = 0;

    s->capacity_ms = s->measured_ms = s->busy_ms = 0;
    for (size_t i = 0; i < s->n_holders; i++) {
        struct holder *h = &s->holders[i];

        h->held_ms = h->used_ms = h->idle_ms = 0;
        if (h->count > 0)
            s->holders[kept++] = *h;
    }
    s->n_holders = kept;
}

/* Ends the span at the time up to which its sums go. */
static void cut(struct pl_gpu_ledger *l)
{
    json_t *span = pl_gpu_ledger_open(l);
    size_t kept = 0;

    if (span)
        json_array_append_new(l->ended, span);
    for (size_t i = 0; i < l->n_series; i++) {
        struct series *s = &l->series[i];

        series_restart(s);
        if (s->capacity > 0 || s->n_holders > 0)
            l->series[kept++] = *s;
        else
            series_finish(s);
    }
    l->n_series = kept;
    l->from_us = l->at_us;
    l->active = any_acts(l);
}

/* Adds the present state to the sums, for the time up to `to_us`. */
static void add_time(struct pl_gpu_ledger *l, int64_t to_us)
{
    const double ms = (double)(to_us - l->at_us) / 1000;

    for (size_t i = 0; i < l->n_series; i++) {
        struct series *s = &l->series[i];

        s->capacity_ms += s->capacity * ms;
        s->measured_ms += s->measured * ms;
        s->busy_ms += s->busy * ms;
        for (size_t k = 0; k < s->n_holders; k++) {
            struct holder *h = &s->holders[k];

            h->held_ms += h->count * ms;
            h->used_ms += h->computing * ms;
            h->idle_ms += h->idle * ms;
        }
    }
    l->at_us = to_us;
}

static int64_t span_end(const struct pl_gpu_ledger *l)
{
    const int64_t step_us = l->active ? MINUTE_US : PL_GPU_SPAN_IDLE_MINUTES * MINUTE_US;

    return (l->active ? l->at_us : l->from_us) / step_us * step_us + step_us;
}

static void advance(struct pl_gpu_ledger *l, int64_t now_us)
{
    if (l->at_us == 0 || now_us < l->at_us || now_us - l->at_us > PL_GPU_STATE_MAX_US) {
        if (l->at_us)
            cut(l);
        l->from_us = l->at_us = now_us;
        return;
    }
    for (int64_t end_us; (end_us = span_end(l)) <= now_us;) {
        add_time(l, end_us);
        cut(l);
    }
    add_time(l, now_us);
}

void pl_gpu_ledger_end(struct pl_gpu_ledger *l, int64_t now_us)
{
    if (l->at_us == 0)
        return;
    advance(l, now_us);
    cut(l);
}

/* ---- reading a report ---- */

static struct series *find_series(const struct pl_gpu_ledger *l, const char *node, const char *product, int slot)
{
    for (size_t i = 0; i < l->n_series; i++) {
        struct series *s = &l->series[i];

        if (s->slot == slot && strncmp(s->node, node, NODE_MAX - 1) == 0 && strncmp(s->product, product, NODE_MAX - 1) == 0)
            return s;
    }
    return NULL;
}

/* Returns the series; makes it if there is none. The nodes beyond the bound share one per product, and products beyond it
 * one. NULL without memory. */
static struct series *series_of(struct pl_gpu_ledger *l, const char *node, const char *product, int slot)
{
    struct series *s = find_series(l, node, product, slot), *more;

    if (!s && l->n_series >= PL_GPU_SERIES_MAX - 16) {
        node = "";
        slot = -1;
        product = l->n_series >= PL_GPU_SERIES_MAX - 1 ? "" : product;
        s = find_series(l, node, product, slot);
    }
    if (s)
        return s;
    more = realloc(l->series, (l->n_series + 1) * sizeof *more);
    if (!more)
        return NULL;
    l->series = more;
    s = &more[l->n_series++];
    *s = (struct series){.slot = slot};
    snprintf(s->node, sizeof s->node, "%s", node);
    snprintf(s->product, sizeof s->product, "%s", product);
    pl_utf8_clean(s->node); /* they may have been cut in the midst of a character */
    pl_utf8_clean(s->product);
    return s;
}

static struct holder *find_holder(const struct series *s, const char *project, const char *stage)
{
    for (size_t i = 0; i < s->n_holders; i++)
        if (pl_streq(s->holders[i].project, project) && pl_streq(s->holders[i].stage, stage))
            return &s->holders[i];
    return NULL;
}

static struct holder *holder_of(struct series *s, const char *project, const char *stage)
{
    struct holder *h = find_holder(s, project, stage), *more;

    if (!h && s->n_holders >= PL_GPU_HOLDERS_MAX - 1) {
        project = stage = "";
        h = find_holder(s, "", "");
    }
    if (h)
        return h;
    more = realloc(s->holders, (s->n_holders + 1) * sizeof *more);
    if (!more)
        return NULL;
    s->holders = more;
    h = &more[s->n_holders++];
    *h = (struct holder){0};
    snprintf(h->project, sizeof h->project, "%s", project);
    snprintf(h->stage, sizeof h->stage, "%s", stage);
    return h;
}

/* Adds `count` GPUs that `by` holds, of which datums run on `computing`. `percent`: how busy they are; negative: nothing
 * measures it. */
static int add_holder(struct series *s, const json_t *by, double count, double computing, double percent, struct pl_err *err)
{
    const bool ours = *pl_json_str(by, "stage") != '\0';
    struct holder *h = holder_of(s, ours ? pl_json_str(by, "project") : "", ours ? pl_json_str(by, "stage") : "");

    if (!h)
        return pl_err_nomem(err);
    h->next += count;
    h->next_computing += PL_MIN(computing, count);
    if (percent >= 0)
        h->next_idle += percent < PL_GPU_IDLE_PERCENT ? count : 0;
    else if (ours) /* of what is not ours only a measurement says that it is idle */
        h->next_idle += count - PL_MIN(computing, count);
    return 0;
}

static double percent_of(const json_t *o)
{
    const json_t *value = json_object_get(o, "utilisation");

    return json_is_number(value) ? json_number_value(value) : -1;
}

static int read_slot(struct pl_gpu_ledger *l, const char *node, const json_t *slot, struct pl_err *err)
{
    const double percent = percent_of(slot);
    const json_t *by = json_object_get(slot, "by");
    struct series *s = series_of(l, node, pl_json_str(slot, "product"), (int)json_integer_value(json_object_get(slot, "slot")));

    if (!s)
        return pl_err_nomem(err);
    s->next_capacity += 1;
    s->next_measured += percent >= 0;
    s->next_busy += percent > 0 ? percent / 100 : 0;
    return by ? add_holder(s, by, 1, json_is_true(json_object_get(slot, "computing")), percent, err) : 0;
}

/* Returns how many GPUs one unit of the row is: gpu-mem counts GPUs in units of their memory. */
static double unit_of(const json_t *row)
{
    const json_int_t units = json_integer_value(json_object_get(row, "capacity"));
    const size_t gpus = json_array_size(json_object_get(row, "gpus"));

    return gpus > 0 && units > 0 ? (double)gpus / (double)units : 1;
}

static int read_row(struct pl_gpu_ledger *l, const json_t *row, struct pl_err *err)
{
    const char *product = pl_json_str(row, "product");
    const double unit = unit_of(row);
    struct series *s = series_of(l, pl_json_str(row, "node"), *product ? product : pl_json_str(row, "resource"), -1);
    json_t *by;
    size_t i;
    int r = 0;

    if (!s)
        return pl_err_nomem(err);
    s->next_capacity += unit * json_number_value(json_object_get(row, "capacity"));
    json_array_foreach(json_object_get(row, "by"), i, by)
    {
        const double count = unit * json_number_value(json_object_get(by, "count")), percent = percent_of(by);

        s->next_measured += percent >= 0 ? count : 0;
        s->next_busy += percent > 0 ? count * percent / 100 : 0;
        r = r < 0 ? r : add_holder(s, by, count, unit * json_number_value(json_object_get(by, "computing")), percent, err);
    }
    return r;
}

static void begin_report(struct pl_gpu_ledger *l)
{
    for (size_t i = 0; i < l->n_series; i++) {
        struct series *s = &l->series[i];

        s->next_capacity = s->next_measured = s->next_busy = 0;
        for (size_t k = 0; k < s->n_holders; k++)
            s->holders[k].next = s->holders[k].next_computing = s->holders[k].next_idle = 0;
    }
}

static bool differ(double a, double b)
{
    return fabs(a - b) > 1e-6;
}

/* Makes what the report said the present state. Returns true if more has changed than how busy GPUs are. */
static bool end_report(struct pl_gpu_ledger *l, int64_t now_us)
{
    bool changed = false;

    for (size_t i = 0; i < l->n_series; i++) {
        struct series *s = &l->series[i];

        changed = changed || differ(s->capacity, s->next_capacity);
        s->capacity = s->next_capacity;
        s->measured = s->next_measured;
        s->busy = s->next_busy;
        for (size_t k = 0; k < s->n_holders; k++) {
            struct holder *h = &s->holders[k];
            const bool idles = h->next > 0 && !differ(h->next, h->next_idle);

            changed = changed || differ(h->count, h->next) || differ(h->computing, h->next_computing);
            h->idle_since_us = !idles ? 0 : h->idle_since_us ? h->idle_since_us : now_us;
            h->count = h->next;
            h->computing = h->next_computing;
            h->idle = h->next_idle;
        }
    }
    return changed;
}

int pl_gpu_ledger_see(struct pl_gpu_ledger *l, int64_t now_us, const json_t *report, bool *ret_changed, struct pl_err *err)
{
    const json_t *slots = json_object_get(report, "gpus"), *rows = json_object_get(report, "nodes");
    const size_t n = json_array_size(slots);
    bool changed;
    int r = 0;

    advance(l, now_us);
    begin_report(l);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = read_slot(l, pl_json_str(report, "node"), json_array_get(slots, i), err);
    for (size_t i = 0; r == 0 && n == 0 && i < json_array_size(rows); i++)
        r = read_row(l, json_array_get(rows, i), err);
    if (r < 0)
        return r;
    changed = end_report(l, now_us);
    if (any_acts(l) && !l->active) {
        /* the time at rest is a span of its own, unless it began in this minute */
        if (l->from_us / MINUTE_US != l->at_us / MINUTE_US)
            cut(l);
        l->active = true;
    }
    if (ret_changed)
        *ret_changed = changed;
    return 0;
}

/* ---- the present ---- */

/* Returns whether a datum runs on what nothing measures. The last look may be older than the report that says so. */
static bool has_begun(const json_t *o)
{
    const json_t *computing = json_object_get(o, "computing");

    return percent_of(o) < 0 && (json_is_true(computing) || json_number_value(computing) > 0);
}

static void mark(const struct series *s, json_t *o, const json_t *by)
{
    const bool ours = *pl_json_str(by, "stage") != '\0';
    const struct holder *h = s ? find_holder(s, ours ? pl_json_str(by, "project") : "", pl_json_str(by, "stage")) : NULL;

    if (h && h->idle_since_us && !has_begun(o))
        json_object_set_new(o, "idle_since_us", json_integer(h->idle_since_us));
}

void pl_gpu_ledger_mark(const struct pl_gpu_ledger *l, json_t *report)
{
    const char *node = pl_json_str(report, "node");
    json_t *one, *by;
    size_t i, k;

    json_array_foreach(json_object_get(report, "gpus"), i, one)
    {
        by = json_object_get(one, "by");
        if (by)
            mark(find_series(l, node, pl_json_str(one, "product"), (int)json_integer_value(json_object_get(one, "slot"))), one,
                 by);
    }
    json_array_foreach(json_object_get(report, "nodes"), i, one)
    {
        const char *product = pl_json_str(one, "product");

        json_array_foreach(json_object_get(one, "by"), k, by)
            mark(find_series(l, pl_json_str(one, "node"), *product ? product : pl_json_str(one, "resource"), -1), by, by);
    }
}

struct pl_gpu_counts pl_gpu_ledger_counts(const struct pl_gpu_ledger *l)
{
    struct pl_gpu_counts n = {0};

    for (size_t i = 0; i < l->n_series; i++) {
        n.capacity += l->series[i].capacity;
        for (size_t k = 0; k < l->series[i].n_holders; k++) {
            n.held += l->series[i].holders[k].count;
            n.computing += l->series[i].holders[k].computing;
            n.idle += l->series[i].holders[k].idle;
        }
    }
    return n;
}
