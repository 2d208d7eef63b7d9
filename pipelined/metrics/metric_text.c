/* metric_text: writes the header of each family before its samples, and escapes label values. */
#include "pipelined/metrics/metric_text.h"

#include <assert.h>
#include <math.h>

#define EXACT_MAX 9007199254740992.0 /* 2^53: up to here a double holds every integer */

static const struct pl_metric_rule rules[PL_METRICS] = {
#define METRIC_RULE(id, family, type, unit, labels, meaning) [PL_METRIC_##id] = {family, unit, labels, meaning, PL_METRIC_##type},
    PL_METRIC_MAP(METRIC_RULE)
#undef METRIC_RULE
};

static const char *const types[] = {[PL_METRIC_GAUGE] = "gauge", [PL_METRIC_COUNTER] = "counter", [PL_METRIC_INFO] = "info"};
static const char *const suffixes[] = {[PL_METRIC_GAUGE] = "", [PL_METRIC_COUNTER] = "_total", [PL_METRIC_INFO] = "_info"};

const struct pl_metric_rule *pl_metric_rule(enum pl_metric metric)
{
    return &rules[metric];
}

/* The first failure is kept: what follows it would be cut off text. */
static void note(struct pl_metric_text *t, int r)
{
    if (t->failed == 0)
        t->failed = r;
}

/* Writes the headers of all families up to `upto`. The plain format has no type `info` and calls a counter by the
 * name of its samples. */
static void begin(struct pl_metric_text *t, unsigned upto)
{
    for (; t->begun < upto && t->failed == 0; t->begun++) {
        const struct pl_metric_rule *m = &rules[t->begun];
        const char *suffix = t->plain ? suffixes[m->type] : "",
                   *type = types[t->plain && m->type == PL_METRIC_INFO ? PL_METRIC_GAUGE : m->type];

        note(t, pl_buf_addf(t->out, NULL, "# TYPE %s%s %s\n", m->family, suffix, type));
        if (*m->unit && !t->plain)
            note(t, pl_buf_addf(t->out, NULL, "# UNIT %s %s\n", m->family, m->unit));
        note(t, pl_buf_addf(t->out, NULL, "# HELP %s%s %s\n", m->family, suffix, m->meaning));
    }
}

static void add_value(struct pl_metric_text *t, const char *text)
{
    for (size_t n; *text && t->failed == 0; text += n) {
        n = strcspn(text, "\\\"\n");
        if (n > 0) {
            note(t, pl_buf_add(t->out, text, n, NULL));
        } else {
            n = 1;
            note(t, pl_buf_add_str(t->out, *text == '\n' ? "\\n" : *text == '"' ? "\\\"" : "\\\\", NULL));
        }
    }
}

static void add_labels(struct pl_metric_text *t, const char *names, const char *const *values)
{
    char next = '{';

    for (size_t i = 0, n; *names; i++, names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        note(t, pl_buf_addf(t->out, NULL, "%c%.*s=\"", next, (int)n, names));
        add_value(t, values[i]);
        note(t, pl_buf_add_str(t->out, "\"", NULL));
        next = ',';
    }
    if (next == ',')
        note(t, pl_buf_add_str(t->out, "}", NULL));
}

void pl_metric_add(struct pl_metric_text *t, enum pl_metric metric, double value, const char *const *labels)
{
    const struct pl_metric_rule *m = &rules[metric];

    assert(t->begun <= (unsigned)metric + 1); /* samples of one family are not scattered */
    assert(labels || !*m->labels);
    begin(t, (unsigned)metric + 1);
    if (t->failed < 0)
        return;
    note(t, pl_buf_addf(t->out, NULL, "%s%s", m->family, suffixes[m->type]));
    add_labels(t, m->labels, labels);
    if (fabs(value) <= EXACT_MAX && floor(value) == value)
        note(t, pl_buf_addf(t->out, NULL, " %.0f\n", value));
    else
        note(t, pl_buf_addf(t->out, NULL, " %.15g\n", value));
}

void pl_metric_add_one(struct pl_metric_text *t, enum pl_metric metric, const char *label, double value)
{
    pl_metric_add(t, metric, value, label ? &label : NULL);
}

int pl_metric_text_end(struct pl_metric_text *t, struct pl_err *err)
{
    begin(t, PL_METRICS);
    if (!t->plain && t->failed == 0)
        note(t, pl_buf_add_str(t->out, "# EOF\n", NULL));
    if (t->failed == PL_ENOMEM)
        return pl_err_nomem(err);
    return t->failed < 0 ? pl_err_set(err, t->failed, "the metrics are longer than %zu bytes", t->out->max) : 0;
}

bool pl_metric_wants_open(const char *accept)
{
    return !accept || strstr(accept, "application/openmetrics-text") || !strstr(accept, "text/plain");
}

int pl_metric_markdown(struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add_str(out, "| metric | type | labels | meaning |\n|---|---|---|---|\n", err);

    for (unsigned i = 0; i < PL_METRICS && r == 0; i++) {
        const struct pl_metric_rule *m = &rules[i];

        r = pl_buf_addf(out, err, "| `%s%s` | %s | %s%s%s | %s |\n", m->family, suffixes[m->type], types[m->type],
                        *m->labels ? "`" : "", m->labels, *m->labels ? "`" : "", m->meaning);
    }
    return r;
}
