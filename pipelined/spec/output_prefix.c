/* Compiles output.prefix with the captures that each input's glob provides. */
#include "pipelined/spec/output_prefix.h"

/* Computes how many captures the prefix may use of the input `name`: the smallest number of captures in
 * the globs of the input leaves with that name. */
static int prefix_captures(const struct pl_stage *stage, const char *name, unsigned *ret, struct pl_err *err)
{
    *ret = PL_GLOB_CAPTURES_MAX;
    for (size_t i = 0; i < stage->n_leaves; i++) {
        _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
        int r;

        if (!pl_input_reads(stage->leaves[i]) || !pl_streq(stage->leaves[i]->name, name))
            continue;
        r = pl_glob_compile(stage->leaves[i]->glob, &glob, err);
        if (r < 0)
            return r;
        *ret = PL_MIN(*ret, pl_glob_captures(glob));
    }
    return 0;
}

int pl_output_prefix_compile(const struct pl_stage *stage, struct pl_template **ret, struct pl_err *err)
{
    struct pl_template_input inputs[PL_SPEC_LEAVES_MAX];

    for (size_t i = 0; i < stage->n_leaves; i++) {
        const struct pl_input *leaf = stage->leaves[i];
        int r = 0;

        inputs[i] = (struct pl_template_input){.name = leaf->name,
                                               .params = leaf->param_names,
                                               .n_params = leaf->n_params,
                                               .absent = !pl_input_always(stage->input, leaf->name)};
        if (pl_input_reads(leaf))
            r = prefix_captures(stage, leaf->name, &inputs[i].captures, err);
        if (r < 0)
            return r;
    }
    return pl_template_compile(stage->output.prefix, inputs, stage->n_leaves, ret, err);
}
