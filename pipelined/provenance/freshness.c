/* freshness: gathers the reasons, then the state, the number of datums and the words. */
#include "pipelined/provenance/freshness.h"

#include "storage/base/base.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[PL_STALE_KINDS] = {"code", "spec", "input", "skipped", "upstream", "missing"};

const char *pl_freshness_state_name(enum pl_freshness_state state)
{
    static const char *const states[] = {[PL_FRESHNESS_CURRENT] = "current",
                                         [PL_FRESHNESS_STALE] = "stale",
                                         [PL_FRESHNESS_UPDATING] = "updating",
                                         [PL_FRESHNESS_EMPTY] = "empty"};

    return states[state];
}

const char *pl_stale_name(enum pl_stale one)
{
    for (unsigned i = 0; i < PL_STALE_KINDS; i++)
        if (one == (enum pl_stale)(1u << i))
            return names[i];
    assert(false); /* not one reason */
    return "";
}

/* ---- the decision ---- */

/* True if the input gives this reason. */
static bool gives(const struct pl_freshness_input *in, enum pl_stale reason)
{
    return reason == PL_STALE_INPUT ? *in->head && !in->read : in->stale;
}

static unsigned why_of(const struct pl_freshness_facts *facts)
{
    unsigned why = 0;

    for (size_t i = 0; i < facts->n_inputs; i++)
        why |=
            (gives(&facts->inputs[i], PL_STALE_INPUT) ? PL_STALE_INPUT : 0u) | (facts->inputs[i].stale ? PL_STALE_UPSTREAM : 0u);
    if (pl_output_change_is_by_code(facts->change))
        why |= PL_STALE_CODE;
    else if (facts->change != PL_OUTPUT_SAME)
        why |= PL_STALE_SPEC;
    if (facts->skipped > 0)
        why |= PL_STALE_SKIPPED;
    return why;
}

/* True if the stage has no output although it could have one: all its inputs have commits. A stage without inputs could if it
 * has had a job. */
static bool is_missing(const struct pl_freshness_facts *facts)
{
    for (size_t i = 0; i < facts->n_inputs; i++)
        if (!*facts->inputs[i].head)
            return false;
    return facts->n_inputs > 0 || facts->tried;
}

static bool has_hidden_input(const struct pl_freshness_facts *facts)
{
    for (size_t i = 0; i < facts->n_inputs; i++)
        if (facts->inputs[i].hidden)
            return true;
    return false;
}

/* The number of datums that have to run, as far as it is known. New commits of inputs may bring any number, and so may an
 * output that will be made anew; a job that failed over just these inputs knows what it left. */
static int64_t datums_of(const struct pl_freshness_facts *facts, unsigned why)
{
    if (has_hidden_input(facts))
        return -1;
    if (!why)
        return 0;
    if (facts->left >= 0 && !facts->uncached)
        return why & PL_STALE_UPSTREAM ? -1 : facts->left;
    if (why & (PL_STALE_INPUT | PL_STALE_UPSTREAM | PL_STALE_MISSING) || facts->change == PL_OUTPUT_BY_INPUT ||
        facts->change == PL_OUTPUT_BY_BOTH)
        return -1;
    return why & PL_STALE_CODE || facts->uncached ? facts->datums : facts->skipped;
}

void pl_freshness_decide(const struct pl_freshness_facts *facts, struct pl_freshness *ret)
{
    const unsigned why = facts->has_output ? why_of(facts) : is_missing(facts) ? PL_STALE_MISSING : 0;
    const enum pl_stale by_input = why & PL_STALE_INPUT ? PL_STALE_INPUT : PL_STALE_UPSTREAM;

    *ret = (struct pl_freshness){.why = why, .datums = datums_of(facts, why), .every = facts->uncached, .input = facts->n_inputs};
    if (!why)
        ret->state = facts->has_output ? PL_FRESHNESS_CURRENT : PL_FRESHNESS_EMPTY;
    else
        ret->state = facts->running && !facts->stopped ? PL_FRESHNESS_UPDATING : PL_FRESHNESS_STALE;
    for (size_t i = 0; i < facts->n_inputs && why & by_input; i++) {
        if (!gives(&facts->inputs[i], by_input))
            continue;
        if (ret->input == facts->n_inputs)
            ret->input = i;
        else
            ret->others++;
    }
}

/* ---- words ---- */

/* A sentence while it is written; what has no room is cut. */
struct sentence {
    char *text;
    size_t n;
    const char *sep;
};

static void add(struct sentence *s, const char *fmt, ...) PL_PRINTF(2, 3);
static void add(struct sentence *s, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(s->text + s->n, PL_FRESHNESS_TEXT_MAX - s->n, fmt, args);
    va_end(args);
    if (n > 0)
        s->n = PL_MIN(s->n + (size_t)n, (size_t)PL_FRESHNESS_TEXT_MAX - 1);
}

/* Adds "TEXT" of one reason, and then `in run 9ab2f1c4`, or `in version 3`. */
static void add_changed(struct sentence *s, const char *what, const char *run, int64_t version)
{
    add(s, "%s%s", s->sep, what);
    s->sep = ", ";
    if (*run)
        add(s, " in run %.8s", run);
    else if (version > 0)
        add(s, " in version %" PRId64, version);
}

/* Adds what the inputs give: a newer commit, or else an output that is itself out of date, with why that is. */
static void add_inputs(struct sentence *s, const struct pl_freshness *f, const struct pl_freshness_facts *facts)
{
    const struct pl_freshness_input *in = &facts->inputs[f->input];
    unsigned kinds = 0;

    assert(f->input < facts->n_inputs);
    if (f->why & PL_STALE_INPUT) {
        add(s, "%sinput %s changed in run %.8s", s->sep, in->name, in->head);
    } else {
        add(s, "%sits input %s is out of date", s->sep, in->name);
        for (unsigned i = 0; i < PL_STALE_KINDS; i++)
            if (in->stale_why & 1u << i)
                add(s, "%s%s", kinds++ ? ", " : " (", names[i]);
        if (kinds)
            add(s, ")");
    }
    if (f->others)
        add(s, " and %u more", f->others);
    s->sep = ", ";
}

void pl_freshness_text(const struct pl_freshness *f, const struct pl_freshness_facts *facts,
                       const struct pl_freshness_words *words, char ret[PL_FRESHNESS_TEXT_MAX])
{
    struct sentence s = {.text = ret, .sep = ""};

    *ret = '\0';
    if (!pl_freshness_is_stale(f))
        return;
    add(&s, "out of date: ");
    if (f->datums > 0 && f->why != PL_STALE_SKIPPED) {
        add(&s, "%" PRId64 " datum%s", f->datums, f->datums == 1 ? "" : "s");
        s.sep = ", ";
    }
    if (f->why & PL_STALE_MISSING)
        add_changed(&s, "no output yet", "", 0);
    if (f->why & PL_STALE_CODE)
        add_changed(&s, "code changed", words->changed_run, words->changed_version);
    if (f->why & PL_STALE_SPEC)
        add_changed(&s, facts->change == PL_OUTPUT_BY_INPUT ? "selection of inputs changed" : "output prefix changed",
                    words->changed_run, words->changed_version);
    if (f->why & (PL_STALE_INPUT | PL_STALE_UPSTREAM))
        add_inputs(&s, f, facts);
    if (f->why & PL_STALE_SKIPPED) {
        add(&s, "%s%" PRId64 " datum%s skipped", s.sep, facts->skipped, facts->skipped == 1 ? "" : "s");
        s.sep = ", ";
    }
    if (f->state == PL_FRESHNESS_UPDATING)
        add(&s, "; being brought up to date by run %.8s", words->running_run);
    else if (words->stopped)
        add(&s, "; pipeline %s is stopped", words->pipeline);
}

void pl_freshness_command(const struct pl_freshness *f, const struct pl_freshness_words *words, char ret[PL_FRESHNESS_TEXT_MAX])
{
    const bool usual = pl_streq(words->project, "default");

    *ret = '\0';
    if (!pl_freshness_is_stale(f))
        return;
    if (f->state == PL_FRESHNESS_UPDATING)
        snprintf(ret, PL_FRESHNESS_TEXT_MAX, "pipelinectl wait run %.8s", words->running_run);
    else if (f->why == PL_STALE_UPSTREAM && !words->stopped && *words->upstream_command)
        snprintf(ret, PL_FRESHNESS_TEXT_MAX, "%s", words->upstream_command);
    else
        snprintf(ret, PL_FRESHNESS_TEXT_MAX, "pipelinectl %s pipeline %s%s%s", words->stopped ? "start" : "run",
                 usual ? "" : words->project, usual ? "" : "/", words->pipeline);
}

/* ---- price ---- */

struct pl_freshness_price pl_freshness_price(const struct pl_freshness *f, int64_t total, bool force, bool upstream_runs)
{
    if (force || f->every)
        return (struct pl_freshness_price){.datums = total, .estimated = upstream_runs || f->datums < 0};
    if (upstream_runs || f->datums < 0)
        return (struct pl_freshness_price){.datums = total, .at_most = true};
    return (struct pl_freshness_price){.datums = PL_MIN(f->datums, total)};
}
