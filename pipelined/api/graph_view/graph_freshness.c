/* graph_freshness: gathers what is known of a stage's output and of its inputs for the decision whether it is out of date
 * (provenance/freshness.h), and finds the words for it. */
#include "pipelined/api/graph_view/graph_states.h"

#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Returns whether a list of what was read, as text, has the ref's newest commit. The log writes it compact and with sorted keys, so
 * that the text of the entry is nearly always found as it is. PL_ENOMEM. */
static int is_made_from(const char *provenance, const struct graph_ref *ref, const char *commit, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = NULL;
    char entry[4 * (PL_NAME_MAX_BYTES + 1) + 64];
    const json_t *source;
    json_error_t e;
    size_t i;

    snprintf(entry, sizeof entry, "{\"branch\":\"%s\",\"commit\":\"%s\",\"project\":\"%s\",\"repo\":\"%s\"}", ref->branch, commit,
             ref->project, ref->repo);
    if (strstr(provenance, entry))
        return 1;
    list = json_loads(provenance, 0, &e);
    if (!list)
        return pl_err_nomem(err);
    json_array_foreach(list, i, source)
    {
        if (pl_streq(pl_json_str(source, "project"), ref->project) && pl_streq(pl_json_str(source, "repo"), ref->repo) &&
            pl_streq(pl_json_str(source, "branch"), ref->branch) && pl_streq(pl_json_str(source, "commit"), commit))
            return 1;
    }
    return 0;
}

/* True if an earlier input of the stage reads the same branch. */
static bool is_repeated(const struct graph_stage *stage, uint32_t input)
{
    for (uint32_t k = 0; k < input; k++)
        if (stage->inputs[k].ref == stage->inputs[input].ref)
            return true;
    return false;
}

/* True if the output was made with this environment: each run has a commit of it, mostly with the files that were there before. */
static bool is_its_environment(const struct graph_job *job, const struct graph_ref *ref, const char *root)
{
    char text[3 * (PL_NAME_MAX_BYTES + 1) + PL_HASH_HEX + 1];

    if (!job->environment || !*job->environment)
        return false;
    snprintf(text, sizeof text, "%s/%s@%s %s", ref->project, ref->repo, ref->branch, root);
    return pl_streq(job->environment, text);
}

/* Fills one input of the stage, and takes back `*left`, the datums that its newest job left, if that read another commit. */
static int take_input(const struct graph_states *s, const struct graph_stage *stage, const struct graph_input *input,
                      const struct graph_job *job, int64_t *left, struct pl_freshness_input *ret, struct pl_err *err)
{
    const struct graph_ref *ref = &s->view->refs[input->ref], *out = &s->view->refs[stage->ref];
    const struct graph_fresh *from = input->stage == PL_GRAPH_NONE ? NULL : &s->fresh[input->stage];
    const struct graph_head *made = &s->heads[stage->ref];
    const char *head = s->heads[input->ref].commit;
    const bool near = pl_streq(ref->project, out->project);
    int r = 0;

    *ret = (struct pl_freshness_input){.name = ref->key + (near ? strlen(ref->project) + 1 : 0),
                                       .head = head,
                                       .hidden = s->heads[input->ref].hidden,
                                       .stale = from && from->facts.has_output && pl_freshness_is_stale(&from->is),
                                       .stale_why = from ? from->is.why : 0};
    if (*head && *made->commit)
        r = is_made_from(made->provenance, ref, head, err);
    ret->read = r > 0 || is_its_environment(job, ref, s->heads[input->ref].root);
    if (r >= 0 && *left >= 0 && *head) {
        r = is_made_from(job->inputs, ref, head, err);
        *left = r > 0 ? *left : -1;
    }
    return PL_MIN(r, 0);
}

static int find_facts(struct graph_states *s, uint32_t at, struct pl_freshness_facts *ret, struct pl_err *err)
{
    const struct graph_stage *stage = &s->view->stages[at];
    const struct graph_job *job = &s->jobs[at];
    struct pl_freshness_input *inputs = pl_arena_alloc(s->arena, (stage->n_inputs + 1) * sizeof *inputs);
    int64_t left = job->left;
    size_t n = 0;
    int r = inputs ? 0 : pl_err_nomem(err);

    for (uint32_t k = 0; r == 0 && k < stage->n_inputs; k++)
        if (stage->inputs[k].ref != stage->ref && !is_repeated(stage, k))
            r = take_input(s, stage, &stage->inputs[k], job, &left, &inputs[n++], err);
    *ret = (struct pl_freshness_facts){.has_output = *s->heads[stage->ref].commit != '\0',
                                       .tried = job->tried,
                                       .change = job->change,
                                       .inputs = inputs,
                                       .n_inputs = n,
                                       .datums = job->datums,
                                       .skipped = job->skipped,
                                       .left = left,
                                       .uncached = stage->uncached,
                                       .running = *job->updates != '\0',
                                       .stopped = job->stopped};
    return r;
}

int pl_graph_freshness_find(struct graph_states *s, const struct graph_seen *seen, struct pl_err *err)
{
    const struct pl_graph_view *v = s->view;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < v->n_stages; i++) {
        const uint32_t at = v->order[i];

        if (seen->node_of[at] == PL_GRAPH_NONE)
            continue;
        r = find_facts(s, at, &s->fresh[at].facts, err);
        if (r == 0)
            pl_freshness_decide(&s->fresh[at].facts, &s->fresh[at].is);
    }
    return r;
}

/* ---- words ---- */

#define VERSIONS_LOOKED_AT "200" /* of more, the sentence names none */
/* The versions of the pipeline after the one that made the output, oldest first: what the stage was in them, and is now. */
#define VERSIONS_AFTER                                                                                                           \
    "SELECT v.version, v.run, s.spec, now.spec, s.code_identity <> now.code_identity FROM stage now"                             \
    " JOIN stage s ON s.pipeline = now.pipeline AND s.name = now.name AND s.version > ?2"                                        \
    " JOIN pipeline_version v ON v.pipeline = s.pipeline AND v.version = s.version WHERE now.id = ?1 ORDER BY s.version "        \
    "LIMIT " VERSIONS_LOOKED_AT

/* Returns whether the version of the row has already what `change` is about as it is now; PL_ENOMEM. Where the code is the same, it
 * may have been another in between. */
static int has_change(const struct pl_rows *rows, const json_t *now, enum pl_output_change change, struct pl_err *err)
{
    const bool by_code = pl_output_change_is_by_code(change);
    _cleanup_(json_decrefp) json_t *then = pl_col_json(rows, 2);
    enum pl_output_change since;

    if (!then)
        return pl_err_nomem(err);
    since = pl_stage_output_change(then, now, by_code && pl_col_int(rows, 4));
    if (by_code)
        return !pl_output_change_is_by_code(since);
    return since != change && since != PL_OUTPUT_BY_BOTH;
}

/* Finds the version that brought the change of the code, or else of the spec; it stays out if the output's version is unknown. */
static int find_changed(const struct graph_states *s, struct pl_conn *c, uint32_t at, struct pl_freshness_words *words,
                        struct pl_err *err)
{
    const struct graph_job *job = &s->jobs[at];
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *now = NULL;
    int found = 0, r;

    if (job->version <= 0)
        return 0;
    r = pl_sql_query(c, err, &rows, VERSIONS_AFTER, "ii", s->view->stages[at].id, job->version);
    while (r >= 0 && found == 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        if (!now)
            now = pl_col_json(&rows, 3);
        found = now ? has_change(&rows, now, job->change, err) : pl_err_nomem(err);
    }
    r = r < 0 ? r : found;
    if (r <= 0)
        return r;
    words->changed_version = pl_col_int(&rows, 0);
    words->changed_run = pl_arena_strdup(s->arena, pl_col_text(&rows, 1));
    return words->changed_run ? 0 : pl_err_nomem(err);
}

/* Returns the first stage that is read and is out of date, if the command for it mends this one; PL_GRAPH_NONE = it does not. */
static uint32_t mended_by(const struct graph_states *s, uint32_t at)
{
    const struct graph_stage *stage = &s->view->stages[at];

    if (s->fresh[at].is.why != PL_STALE_UPSTREAM || s->jobs[at].stopped)
        return PL_GRAPH_NONE;
    for (uint32_t k = 0; k < stage->n_inputs; k++) {
        const uint32_t from = stage->inputs[k].stage;

        if (from != PL_GRAPH_NONE && from != at && pl_freshness_is_stale(&s->fresh[from].is))
            return from;
    }
    return PL_GRAPH_NONE;
}

/* Fills told[at], whose texts live in the arena. Stages whose words it takes over must have been told before. One query if the
 * stage's code or spec has changed. */
static int tell(const struct graph_states *s, struct pl_conn *c, uint32_t at, struct pl_graph_freshness *told, struct pl_err *err)
{
    const uint32_t from = mended_by(s, at);
    const struct graph_stage *stage = &s->view->stages[at];
    const struct graph_pipeline *pipeline = &s->view->pipelines[stage->pipeline];
    const struct graph_fresh *f = &s->fresh[at];
    struct pl_freshness_words words = {.project = pipeline->project,
                                       .pipeline = pipeline->name,
                                       .changed_run = "",
                                       .running_run = s->jobs[at].updates,
                                       .upstream_command = from == PL_GRAPH_NONE ? "" : told[from].command,
                                       .stopped = s->jobs[at].stopped};
    char text[PL_FRESHNESS_TEXT_MAX], command[PL_FRESHNESS_TEXT_MAX];
    int r = f->is.why & (PL_STALE_CODE | PL_STALE_SPEC) ? find_changed(s, c, at, &words, err) : 0;

    if (r < 0)
        return r;
    pl_freshness_text(&f->is, &f->facts, &words, text);
    pl_freshness_command(&f->is, &words, command);
    told[at] = (struct pl_graph_freshness){.is = f->is,
                                           .run = f->is.state == PL_FRESHNESS_UPDATING ? words.running_run : "",
                                           .text = pl_arena_strdup(s->arena, text),
                                           .command = pl_arena_strdup(s->arena, command)};
    return told[at].text && told[at].command ? 0 : pl_err_nomem(err);
}

int pl_graph_freshness_tell(const struct graph_states *s, struct pl_conn *c, bool *wanted, struct pl_graph_freshness *told,
                            struct pl_err *err)
{
    const struct pl_graph_view *v = s->view;
    int r = 0;

    for (uint32_t i = v->n_stages; i-- > 0;) {
        const uint32_t at = v->order[i], from = mended_by(s, at);

        told[at] = (struct pl_graph_freshness){.is = s->fresh[at].is, .run = "", .text = "", .command = ""};
        if (wanted[at] && from != PL_GRAPH_NONE)
            wanted[from] = true;
    }
    for (uint32_t i = 0; r == 0 && i < v->n_stages; i++)
        if (wanted[v->order[i]])
            r = tell(s, c, v->order[i], told, err);
    return r;
}

json_t *pl_graph_freshness_json(const struct pl_graph_freshness *f)
{
    json_t *why = json_array(), *out;

    for (unsigned i = 0; i < PL_STALE_KINDS; i++)
        if (f->is.why & 1u << i && json_array_append_new(why, json_string(pl_stale_name((enum pl_stale)(1u << i)))) < 0)
            json_decrefp(&why);
    out = why ? json_pack("{s:s, s:o, s:s, s:s, s:s*}", "state", pl_freshness_state_name(f->is.state), "why", why, "text",
                          f->text, "command", f->command, "run", *f->run ? f->run : NULL)
              : NULL;
    if (out && f->is.why && f->is.datums >= 0 && json_object_set_new(out, "datums", json_integer((json_int_t)f->is.datums)) < 0)
        json_decrefp(&out);
    return out;
}
