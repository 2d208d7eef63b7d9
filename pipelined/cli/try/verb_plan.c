/* plan: prints the datums that a stage would have if its inputs were local folders. Needs no server. */
#include "pipelined/cli/local/input_option.h"
#include "pipelined/cli/local/spec_file.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/plan/plan.h"
#include <stdio.h>

static json_t *inputs_json(const struct pl_plan *plan, size_t datum)
{
    json_t *out = json_object();

    for (size_t i = 0; i < plan->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(plan, datum, i);

        if (m && pl_input_reads(plan->stage->leaves[i]))
            json_object_set_new(out, plan->stage->leaves[i]->name, json_sprintf("/%s", m->path));
        else if (m)
            json_object_set_new(out, plan->stage->leaves[i]->name, json_loads(m->path, 0, NULL));
    }
    return out;
}

static int print_datum(const struct pl_plan *plan, size_t datum, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf prefix = {0};
    _cleanup_(json_decrefp) json_t *out = NULL;
    char hex[PL_HASH_HEX + 1];
    struct pl_hash id;
    int r = pl_plan_prefix(plan, datum, &prefix, err);

    if (r < 0)
        return r;
    pl_plan_datum_id(plan, datum, &id);
    out = json_pack("{s:s, s:I, s:s, s:o, s:s%}", "stage", plan->stage->name, "datum", (json_int_t)datum, "id",
                    pl_hash_hex(&id, hex), "inputs", inputs_json(plan, datum), "prefix",
                    prefix.len ? (const char *)prefix.data : "", prefix.len);
    if (!out)
        return pl_err_nomem(err);
    if (json_dumpf(out, stdout, JSON_COMPACT | pl_show_json_flags(stdout)) < 0 || putchar('\n') == EOF)
        return pl_err_errno(err, errno, "standard output");
    return 0;
}

/* Prints which inputs match no file, to explain why the stage has no datum. */
static void say_empty(const struct pl_plan *plan)
{
    for (size_t i = 0; i < plan->n_leaves; i++)
        if (plan->leaves[i].n == 0 && pl_input_reads(plan->stage->leaves[i]))
            fprintf(stderr, "stage %s: no datum: nothing in %s matches \"%s\"%s\n", plan->stage->name,
                    plan->stage->leaves[i]->repo, plan->stage->leaves[i]->glob,
                    plan->stage->leaves[i]->n_files ? " and has files that \"files\" accepts" : "");
}

static int plan_stage(const struct pl_cli *c, const struct pl_stage *stage, const struct pl_cli_input_options *folders,
                      struct pl_err *err)
{
    _cleanup_(pl_plan_destroyp) struct pl_plan *plan = NULL;
    struct pl_node_source sources[PL_SPEC_LEAVES_MAX];
    struct pl_plan_input inputs[PL_SPEC_LEAVES_MAX];
    const struct pl_plan_request request = {.stage = stage, .inputs = inputs};
    int r;

    for (size_t i = 0; i < stage->n_leaves; i++) {
        struct pl_cli_folder *folder =
            pl_input_reads(stage->leaves[i]) ? pl_cli_input_option_of(folders, stage->leaves[i]) : NULL;

        /* an input without a folder is either a params input or a `previous` input; a `previous` input is empty,
         * because only a server has previous outputs */
        inputs[i] = (struct pl_plan_input){.source = &sources[i], .unknown = stage->leaves[i]->environment};
        sources[i] = (struct pl_node_source){0};
        if (!folder)
            continue;
        sources[i] = pl_name_tree_source(&folder->tree);
        inputs[i] = (struct pl_plan_input){.root = folder->tree.root, .source = &sources[i]};
    }
    r = pl_plan_create(&request, &plan, err);
    for (size_t d = 0; r == 0 && d < plan->n_datums; d++)
        r = print_datum(plan, d, err);
    if (r < 0 || c->quiet)
        return r;
    if (plan->n_datums == 0)
        say_empty(plan);
    else
        fprintf(stderr, "stage %s: %zu datum%s\n", stage->name, plan->n_datums, plan->n_datums == 1 ? "" : "s");
    return 0;
}

/* Returns the first input of the stage, but its environment, for which no --input is given; NULL if there is none. Marks all
 * --input options that the stage reads as used. */
static const struct pl_input *first_absent(const struct pl_stage *stage, const struct pl_cli_input_options *folders)
{
    const struct pl_input *absent = NULL;

    for (size_t i = 0; i < stage->n_leaves; i++)
        if (pl_input_reads(stage->leaves[i]) && !pl_cli_input_option_of(folders, stage->leaves[i]) &&
            pl_input_triggers(stage->leaves[i]) && !stage->leaves[i]->environment && !absent)
            absent = stage->leaves[i];
    return absent;
}

/* Checks that at least one stage of the file reads each --input; called before the first datum is printed.
 * Afterwards the first spec of the file is current again. */
static int check_names(const struct pl_cli *c, struct pl_cli_spec *s, const struct pl_cli_input_options *folders,
                       struct pl_err *err)
{
    int r = 1;

    while (r > 0) {
        for (size_t i = 0; i < s->spec->n_stages; i++)
            (void)first_absent(&s->spec->stages[i], folders);
        r = pl_cli_spec_next(c, s, err);
    }
    r = r < 0 ? r : pl_cli_input_options_check_used(folders, "the spec", err);
    s->at = 0;
    return r < 0 ? r : PL_MIN(pl_cli_spec_next(c, s, err), 0);
}

/* Plans all stages of the current spec whose inputs are all given; `*planned` counts them. */
static int plan_all(const struct pl_cli *c, const struct pl_spec *spec, const struct pl_cli_input_options *folders,
                    size_t *planned, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->n_stages; i++) {
        const struct pl_stage *stage = &spec->stages[spec->order[i]];
        const struct pl_input *absent = first_absent(stage, folders);

        if (absent && !c->quiet)
            fprintf(stderr, "stage %s: skipped, because it also reads %s: give --input %s=DIR\n", stage->name, absent->repo,
                    absent->repo);
        if (absent)
            continue;
        r = plan_stage(c, stage, folders, err);
        ++*planned;
    }
    return r;
}

static int plan_one(const struct pl_cli *c, const struct pl_spec *spec, const char *name,
                    const struct pl_cli_input_options *folders, struct pl_err *err)
{
    const struct pl_stage *stage = pl_spec_stage(spec, name);
    const struct pl_input *absent = first_absent(stage, folders);
    char reader[PL_NAME_MAX_BYTES + 16];
    int r;

    if (absent)
        return pl_err_set(err, PL_EUSAGE, "stage %s reads %s: give --input %s=DIR", name, absent->repo, absent->repo);
    snprintf(reader, sizeof reader, "stage %s", name);
    r = pl_cli_input_options_check_used(folders, reader, err);
    return r < 0 ? r : plan_stage(c, stage, folders, err);
}

static int plan(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_cli_spec_finish) struct pl_cli_spec s = {0};
    _cleanup_(pl_cli_input_options_finish) struct pl_cli_input_options folders = {0};
    const char *filename = pl_cli_value(c, "file");
    size_t planned = 0;
    int r;

    if (!filename)
        return pl_err_set(err, PL_EUSAGE, "plan what? Give -f SPEC");
    r = pl_cli_spec_read(c, filename, false, &s, err);
    r = r < 0 ? r : pl_cli_input_options_read(c, &folders, err);
    if (r < 0)
        return r;
    if (c->n_args) {
        r = pl_cli_spec_find_stage(c, &s, c->args[0], err);
        return r < 0 ? r : plan_one(c, s.spec, c->args[0], &folders, err);
    }
    r = check_names(c, &s, &folders, err);
    for (bool more = true; r >= 0 && more; more = r >= 0 && (r = pl_cli_spec_next(c, &s, err)) > 0)
        r = plan_all(c, s.spec, &folders, &planned, err);
    if (r >= 0 && planned == 0)
        r = pl_err_set(err, PL_EUSAGE, "no stage has all its inputs: give --input REPO=DIR for each repo that a stage reads");
    return r;
}

static const struct pl_option options[] = {
    {"file", 'f', "SPEC", "the spec, JSON; - for standard input"},
    {"input", 'i', "REPO=DIR", "read the folder DIR instead of the repo; may be repeated"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"plan",
     NULL,
     "-f SPEC [STAGE] --input REPO=DIR …",
     0,
     1,
     options,
     plan,
     "Prints the datums that local folders would give, one JSON object per line, without a server.",
     {"plan -f pipelines/digits/pipeline.json --input digits=pipelines/digits/data",
      "plan -f spec.json prepare --input digits=data | wc -l",
      "plan -f spec.json infer -i digits=data -i train=out/train | jq -r .inputs.test"}},
};
PL_CLI_TABLE(plan, verbs);
