/* plan_fixture: a stage of a spec text over trees in memory, for the tests of plan, table and merge. */
#pragma once

#include "tests/unit/storage/tree/tree_fixture.h"

#include "pipelined/plan/plan.h"

/* "path" or "path=content" for a file, "path/" for an empty directory; in the order of paths. */
static UNUSED struct pl_hash tree_of(struct memory *m, const char *const *files, size_t n)
{
    struct pl_node_sink sink = sink_of(m, NULL);
    struct pl_tree_builder *b = NULL;
    struct pl_err err = {0};
    struct pl_hash root;

    assert_ok(pl_tree_builder_create(&sink, &b, &err), &err);
    for (size_t i = 0; i < n && files[i] != NULL; i++) {
        const char *equals = strchr(files[i], '=');
        size_t len = equals != NULL ? (size_t)(equals - files[i]) : strlen(files[i]);
        const char *content = equals != NULL ? equals + 1 : files[i];
        struct pl_entry e = pl_entry_inline(PL_KIND_FILE, content, PL_MIN(strlen(content), (size_t)PL_INLINE_MAX_BYTES));

        if (files[i][len - 1] == '/') {
            e = pl_entry_dir();
            len--;
        }
        assert_ok(pl_tree_builder_add(b, files[i], len, &e, &err), &err);
    }
    assert_ok(pl_tree_builder_finish(b, &root, NULL, &err), &err);
    pl_tree_builder_destroy(b);
    return root;
}

/* A spec of one stage "s" with these fields (input among them). */
static UNUSED struct pl_spec *spec_of(const char *fields)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};
    char text[2048];

    (void)snprintf(text, sizeof(text), "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"run\": [\"x\"], %s}]}", fields);
    assert_ok(pl_spec_parse(text, strlen(text), "t", NULL, &spec, NULL, &err), &err);
    return spec;
}

/* The plan of the spec's stage; every input reads the same memory, input i at roots[i]. */
static UNUSED int plan_of(const struct pl_spec *spec, const struct pl_node_source *source, const struct pl_hash *roots,
                          struct pl_plan **ret, struct pl_err *err)
{
    struct pl_plan_input inputs[PL_SPEC_LEAVES_MAX];
    struct pl_plan_request request = {.stage = &spec->stages[0], .inputs = inputs};

    for (size_t i = 0; i < spec->stages[0].n_leaves; i++)
        inputs[i] = (struct pl_plan_input){roots[i], source};
    pl_stage_code_identity(&spec->stages[0], NULL, &request.code_identity);
    return pl_plan_create(&request, ret, err);
}
