/* dcgm_metrics.c: a line parser for Prometheus' text format; values of known metrics are merged into a list
 * of devices. */
#include "pipelined/kube/nodes/dcgm_metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

/* The line being parsed: NAME{label="value",…} VALUE [TIMESTAMP]. */
struct line {
    const char *at, *end;
    char name[64];
    struct pl_dcgm_gpu gpu;
    double value;
};

static bool take(struct line *l, char c)
{
    if (l->at == l->end || *l->at != c)
        return false;
    l->at++;
    return true;
}

static void blanks(struct line *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t'))
        l->at++;
}

/* Reads a name. A name longer than the buffer is cut, which is harmless because no known name is that
 * long. */
static bool take_name(struct line *l, char *out, size_t size)
{
    size_t n = 0;

    for (; l->at < l->end && (isalnum((unsigned char)*l->at) || *l->at == '_' || *l->at == ':'); l->at++, n++)
        if (n + 1 < size)
            out[n] = *l->at;
    out[PL_MIN(n, size - 1)] = '\0';
    return n > 0 && !isdigit((unsigned char)out[0]);
}

/* Reads a quoted value with the escapes \\ \" \n. */
static bool take_text(struct line *l, char *out, size_t size)
{
    size_t n = 0;

    if (!take(l, '"'))
        return false;
    for (; l->at < l->end && *l->at != '"'; l->at++) {
        char c = *l->at;

        if (c == '\\') {
            if (++l->at == l->end)
                return false;
            c = *l->at == 'n' ? '\n' : *l->at;
        }
        if (n + 1 < size)
            out[n++] = c;
    }
    out[n] = '\0';
    return take(l, '"');
}

/* Reads one label, and drops the value if the label is not needed. */
static bool take_label(struct line *l)
{
    const struct {
        const char *name;
        char *out;
        size_t size;
    } known[] = {
        {"UUID", l->gpu.uuid, sizeof l->gpu.uuid},
        {"GPU_I_ID", l->gpu.instance, sizeof l->gpu.instance},
        {"modelName", l->gpu.model, sizeof l->gpu.model},
        {"namespace", l->gpu.ns, sizeof l->gpu.ns},
        {"pod_namespace", l->gpu.ns, sizeof l->gpu.ns}, /* name of the label in exporters before 2.0 */
        {"pod", l->gpu.pod, sizeof l->gpu.pod},
        {"pod_name", l->gpu.pod, sizeof l->gpu.pod},
        {"container", l->gpu.container, sizeof l->gpu.container},
        {"container_name", l->gpu.container, sizeof l->gpu.container},
    };
    char name[32], other[4];

    blanks(l);
    if (!take_name(l, name, sizeof name))
        return false;
    blanks(l);
    if (!take(l, '='))
        return false;
    blanks(l);
    for (size_t i = 0; i < PL_ARRAY_SIZE(known); i++)
        if (pl_streq(known[i].name, name))
            return take_text(l, known[i].out, known[i].size);
    return take_text(l, other, sizeof other);
}

static bool take_labels(struct line *l)
{
    if (!take(l, '{'))
        return true;
    for (blanks(l); !take(l, '}'); blanks(l)) {
        if (!take_label(l))
            return false;
        blanks(l);
        if (!take(l, ',') && (l->at == l->end || *l->at != '}'))
            return false;
    }
    return true;
}

/* Reads "37", "0.42", "1e3", "NaN" or "+Inf", and skips a timestamp after it. */
static bool take_value(struct line *l)
{
    char text[64], *end;
    size_t n = 0;

    blanks(l);
    for (; l->at < l->end && *l->at != ' ' && *l->at != '\t' && *l->at != '\r'; l->at++)
        if (n + 1 < sizeof text)
            text[n++] = *l->at;
    text[n] = '\0';
    l->value = strtod(text, &end);
    if (n == 0 || *end)
        return false;
    for (blanks(l); l->at < l->end; l->at++)
        if (!isdigit((unsigned char)*l->at) && *l->at != '-' && *l->at != '\r')
            return false;
    return true;
}

struct list {
    struct pl_dcgm_gpu *items;
    size_t n, cap;
};

static bool same(const struct pl_dcgm_gpu *a, const struct pl_dcgm_gpu *b)
{
    return pl_streq(a->uuid, b->uuid) && pl_streq(a->instance, b->instance) && pl_streq(a->ns, b->ns) &&
           pl_streq(a->pod, b->pod) && pl_streq(a->container, b->container);
}

/* Finds the device with the line's labels in the list, or adds it. */
static int find(struct list *list, const struct pl_dcgm_gpu *gpu, struct pl_dcgm_gpu **ret, struct pl_err *err)
{
    struct pl_dcgm_gpu *grown;

    /* search from the end, because a device that was just added is most often the one that the next line
     * names */
    for (size_t i = list->n; i-- > 0;)
        if (same(&list->items[i], gpu)) {
            *ret = &list->items[i];
            return 0;
        }
    if (list->n == PL_DCGM_GPUS_MAX)
        return pl_err_set(err, PL_ELIMIT, "the exporter reports more than %u GPUs", PL_DCGM_GPUS_MAX);
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 16;
        grown = realloc(list->items, list->cap * sizeof *grown);
        if (!grown)
            return pl_err_nomem(err);
        list->items = grown;
    }
    *ret = &list->items[list->n++];
    **ret = *gpu;
    (*ret)->utilisation = (*ret)->used_mib = (*ret)->free_mib = -1;
    return 0;
}

/* Stores the line's value if its metric is a known one. */
static int keep(struct list *list, const struct line *l, struct pl_err *err)
{
    const bool util = pl_streq(l->name, "DCGM_FI_DEV_GPU_UTIL"), active = pl_streq(l->name, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
               used = pl_streq(l->name, "DCGM_FI_DEV_FB_USED"), spare = pl_streq(l->name, "DCGM_FI_DEV_FB_FREE");
    struct pl_dcgm_gpu *gpu;
    int r;

    if (!util && !active && !used && !spare)
        return 0;
    r = find(list, &l->gpu, &gpu, err);
    /* not measured: NaN, or a huge "blank" value (never for FB metrics) */
    if (r < 0 || !isfinite(l->value) || l->value < 0)
        return r;
    if (util)
        gpu->utilisation = PL_MIN(l->value, 100.0);
    else if (active && gpu->utilisation < 0)
        gpu->utilisation = PL_MIN(100 * l->value, 100.0);
    else if (used)
        gpu->used_mib = l->value;
    else if (spare)
        gpu->free_mib = l->value;
    return 0;
}

static int read_line(struct list *list, const char *at, const char *end, size_t number, struct pl_err *err)
{
    struct line l = {.at = at, .end = end};

    blanks(&l);
    if (l.at == l.end || *l.at == '#' || *l.at == '\r')
        return 0;
    if (!take_name(&l, l.name, sizeof l.name) || (blanks(&l), !take_labels(&l)) || !take_value(&l))
        return pl_err_set(err, PL_EFORMAT, "line %zu is not in Prometheus' text format: %.60s", number, l.name);
    return keep(list, &l, err);
}

int pl_dcgm_read(const char *text, size_t len, struct pl_dcgm_gpu **ret, size_t *ret_n, struct pl_err *err)
{
    struct list list = {0};
    size_t number = 1;
    int r = 0;

    if (len > PL_DCGM_BYTES_MAX)
        return pl_err_set(err, PL_ETOOBIG, "the exporter's answer has %zu bytes; at most %u", len, PL_DCGM_BYTES_MAX);
    for (size_t at = 0; at < len && r == 0; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (text + at)) : len - at;

        r = read_line(&list, text + at, text + at + n, number, err);
        at += n + 1;
    }
    if (r < 0) {
        free(list.items);
        return r;
    }
    *ret = list.items;
    *ret_n = list.n;
    return 0;
}
