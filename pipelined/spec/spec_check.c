/* Checks that involve more than one value, and the order of the stages. They check the fields that were read without an error: a field
 * whose value was refused is NULL, and no check reports it again. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/spec/datum_env.h"
#include "pipelined/spec/output_prefix.h"
#include "storage/base/map.h"
#include "storage/base/path.h"

#include <ctype.h>
#include <stdio.h>

#define ORDER_CIRCLE_SHOWN 20u

/* Variables that programs need: an input of such a name would replace the variable. */
static const char *const spec_machine_vars[] = {"PATH", "HOME", "TMPDIR",          "PWD",       "SHELL",
                                                "LANG", "USER", "LD_LIBRARY_PATH", "LD_PRELOAD"};
/* Variables set by pipelined that `env` may override. */
static const char *const spec_open_vars[] = {"PL_DEVICE", "PL_GPU_COUNT", "PL_SEED"};

static bool spec_one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pl_streq(words[i], word))
            return true;
    return false;
}

void pl_spec_enter_stage(struct spec_reader *r, size_t i)
{
    pl_spec_leave(r, 0);
    pl_spec_enter_key(r, "stages");
    pl_spec_enter_index(r, i);
}

/* Appends the path of a leaf within the stage's input, such as ".cross[1]". False if the tree does not
 * contain the leaf. */
static bool spec_enter_leaf_of(struct spec_reader *r, const struct pl_input *tree, const struct pl_input *leaf)
{
    size_t path_len = r->path.len;

    if (tree == leaf && (tree->pfs || pl_input_follows_git(tree)))
        pl_spec_enter_key(r, tree->pfs ? "pfs" : "git");
    if (tree == leaf)
        return true;
    for (size_t i = 0; i < tree->n_children; i++) {
        if (!tree->implied && !tree->children[i].implied) {
            pl_spec_enter_key(r, tree->kind == PL_INPUT_UNION ? "union" : "cross");
            pl_spec_enter_index(r, i);
        }
        if (spec_enter_leaf_of(r, &tree->children[i], leaf))
            return true;
        pl_spec_leave(r, path_len);
    }
    return false;
}

void pl_spec_enter_leaf(struct spec_reader *r, size_t i, size_t j, const char *key)
{
    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "input");
    (void)spec_enter_leaf_of(r, r->spec->stages[i].input, r->spec->stages[i].leaves[j]);
    if (key != NULL)
        pl_spec_enter_key(r, key);
}

static size_t spec_count_leaves(const struct pl_input *tree)
{
    size_t n = tree->n_children == 0;

    for (size_t i = 0; i < tree->n_children; i++)
        n += spec_count_leaves(&tree->children[i]);
    return n;
}

/* Numbers nodes and leaves in the order of the text. */
static void spec_number_leaves(struct pl_stage *stage, struct pl_input *tree)
{
    tree->node = (uint32_t)stage->n_nodes++;
    if (tree->n_children == 0) {
        tree->leaf = (uint32_t)stage->n_leaves;
        stage->leaves[stage->n_leaves++] = tree;
    }
    for (size_t i = 0; i < tree->n_children; i++)
        spec_number_leaves(stage, &tree->children[i]);
}

static void spec_collect_leaves(struct spec_reader *r, size_t i)
{
    struct pl_stage *stage = &r->spec->stages[i];
    size_t n = stage->input != NULL ? spec_count_leaves(stage->input) : 0;

    if (n > PL_SPEC_LEAVES_MAX) {
        pl_spec_enter_stage(r, i);
        pl_spec_enter_key(r, "input");
        pl_spec_problem(r, "%zu inputs are not accepted: at most %u", n, PL_SPEC_LEAVES_MAX);
        n = 0;
    }
    stage->leaves = pl_spec_alloc(r, (n + 1) * sizeof(struct pl_input *));
    if (n > 0 && stage->leaves != NULL)
        spec_number_leaves(stage, stage->input);
}

/* Checks that the command has exactly one of `run` and `script`, and that a stage with a batch command has
 * none of the fields that cannot be combined with it. */
static void spec_check_run(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];

    pl_spec_enter_stage(r, i);
    if (stage->run != NULL && stage->script != NULL)
        pl_spec_problem(r, "both \"run\" and \"script\" are given: exactly one is accepted");
    else if (stage->run == NULL && stage->script == NULL)
        pl_spec_problem(r,
                        "\"run\" is missing: the command and its arguments, such as [\"python3\", \"train.py\"], or \"script\"");
    if (stage->output.copy_links && stage->datum.batch) {
        pl_spec_enter_key(r, "output");
        pl_spec_enter_key(r, "copy_links");
        pl_spec_problem(r, "not accepted with \"batch\": the command keeps running after a datum, and has to copy what its links "
                           "lead to itself");
        pl_spec_enter_stage(r, i);
    }
    if (stage->on_error == PL_ON_ERROR_RUN && stage->datum.batch) {
        pl_spec_enter_key(r, "on_error");
        pl_spec_problem(r, "a command is not accepted with \"batch\", whose command keeps running after a datum has failed: use "
                           "\"fail\" or \"skip\"");
        pl_spec_enter_stage(r, i);
    }
    if (stage->run != NULL && stage->run[0][0] == '\0') {
        pl_spec_enter_key(r, "run");
        pl_spec_enter_index(r, 0);
        pl_spec_problem(r, "\"\" is not accepted: give the name of a program");
    }
}

/* True if the text names the folder /pfs as a path of its own, not as part of "/data/pfs" or "/pfs2". */
static bool spec_names_pfs(const char *text)
{
    for (const char *p = text; (p = strstr(p, "/pfs")) != NULL; p += 4) {
        bool begins = p == text || !(isalnum((unsigned char)p[-1]) || strchr("_-./}", p[-1]) != NULL);
        bool ends = !(isalnum((unsigned char)p[4]) || p[4] == '_' || p[4] == '-' || p[4] == '.');

        if (begins && ends)
            return true;
    }
    return false;
}

static void spec_refuse_pfs(struct spec_reader *r, const char *text)
{
    if (text != NULL && spec_names_pfs(text))
        pl_spec_problem(
            r, "\"%.60s\" names /pfs, which does not exist without a sandbox (--sandbox none): use $PL_INPUT_<NAME> and $PL_OUT",
            text);
}

/* Without a sandbox, refuses commands that name /pfs: each worker then has its data in its own folders, and
 * one machine cannot have a /pfs for several workers. */
static void spec_check_pfs(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];

    if (r->ctx == NULL || !r->ctx->no_sandbox)
        return;
    for (size_t j = 0; stage->run != NULL && stage->run[j] != NULL; j++) {
        pl_spec_enter_stage(r, i);
        pl_spec_enter_key(r, "run");
        pl_spec_enter_index(r, j);
        spec_refuse_pfs(r, stage->run[j]);
    }
    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "script");
    spec_refuse_pfs(r, stage->script);
    for (size_t j = 0; j < stage->n_env; j++) {
        pl_spec_enter_stage(r, i);
        pl_spec_enter_key(r, "env");
        pl_spec_enter_key(r, stage->env[j].key);
        spec_refuse_pfs(r, stage->env[j].value);
    }
}

/* True if one datum can have both leaves, `a` and `b`; false if the leaves are in different branches of a
 * union, or are not both in `tree`. `*ret_found` = how many of the two leaves are in `tree`. */
static bool spec_together(const struct pl_input *tree, const struct pl_input *a, const struct pl_input *b, unsigned *ret_found)
{
    unsigned found = 0;

    *ret_found = (tree == a) + (tree == b);
    for (size_t i = 0; i < tree->n_children; i++) {
        if (spec_together(&tree->children[i], a, b, &found) && found == 2) {
            *ret_found = 2;
            return true;
        }
        if (found == 2) {
            *ret_found = 2;
            return false;
        }
        *ret_found += found;
    }
    return *ret_found == 2 && tree->kind == PL_INPUT_CROSS;
}

/* True if leaves j and k may not have the same name: they can be in one datum, or only one of them reads a
 * repo. */
static bool spec_names_clash(const struct pl_stage *stage, size_t j, size_t k)
{
    const struct pl_input *a = stage->leaves[j], *b = stage->leaves[k];
    unsigned found;

    return pl_input_reads(a) != pl_input_reads(b) || spec_together(stage->input, a, b, &found);
}

/* Refuses input names that are reserved, and pairs of inputs that would share a folder or a variable. */
static void spec_check_input_names(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    char a[PL_INPUT_VAR_BYTES], b[PL_INPUT_VAR_BYTES];

    for (size_t j = 0; j < stage->n_leaves; j++) {
        const char *name = stage->leaves[j]->name;

        if (name == NULL)
            continue;
        pl_spec_enter_leaf(r, i, j, pl_input_reads(stage->leaves[j]) ? "name" : "params");
        if (pl_streq(name, "out"))
            pl_spec_problem(r, "an input cannot be named \"out\": /pfs/out is the output; set another \"name\"");
        if (spec_one_of(name, spec_machine_vars, PL_ARRAY_SIZE(spec_machine_vars)))
            pl_spec_problem(r, "an input named \"%s\" would replace the variable of that name: set another \"name\"", name);
        for (size_t k = 0; k < j; k++) {
            const char *other = stage->leaves[k]->name;

            if (other == NULL)
                continue;
            if (pl_streq(name, other) && !spec_names_clash(stage, j, k)) {
                if (stage->leaves[j]->writable != stage->leaves[k]->writable)
                    pl_spec_problem(r, "of two inputs named \"%s\" only one is writable: make both writable, or rename one",
                                    name);
                continue;
            }
            if (pl_streq(name, other))
                pl_spec_problem(r, "two inputs are named \"%s\": set \"name\" of one of them", name);
            else if (pl_streq(pl_input_var(name, a), pl_input_var(other, b)))
                pl_spec_problem(r, "the inputs \"%s\" and \"%s\" would share the variable %s: set \"name\" of one of them", other,
                                name, a);
        }
    }
}

/* True if both leaves could give a match with the same id: the same name, repo and branch, or a common
 * combination. */
static bool spec_leaves_meet(const struct pl_input *a, const struct pl_input *b)
{
    size_t i = 0, j = 0;

    if (pl_input_reads(a) != pl_input_reads(b))
        return false;
    if (pl_input_reads(a))
        return a->name != NULL && b->name != NULL && a->repo != NULL && b->repo != NULL && pl_streq(a->name, b->name) &&
               pl_streq(a->project, b->project) && pl_streq(a->repo, b->repo) && pl_streq(a->branch, b->branch);
    while (i < a->n_combinations && j < b->n_combinations) { /* both lists are sorted */
        int cmp = strcmp(a->combinations[i].json, b->combinations[j].json);

        if (cmp == 0)
            return true;
        i += cmp < 0;
        j += cmp > 0;
    }
    return false;
}

/* True if both trees could give datums with the same id. An id is made of the inputs in the order of the
 * spec. Trees that nest crosses differently are treated as different. */
static bool spec_trees_meet(const struct pl_input *a, const struct pl_input *b)
{
    bool meet = true;

    if (a->n_children == 0 && b->n_children == 0)
        return spec_leaves_meet(a, b);
    if (a->kind != PL_INPUT_UNION && a->n_children != 1 && (b->kind == PL_INPUT_UNION || b->n_children == 1))
        return spec_trees_meet(b, a);
    if (a->kind == PL_INPUT_UNION || a->n_children == 1) {
        for (size_t i = 0; i < a->n_children; i++)
            if (spec_trees_meet(&a->children[i], b))
                return true;
        return false;
    }
    for (size_t i = 0; i < a->n_children && meet && a->n_children == b->n_children; i++)
        meet = spec_trees_meet(&a->children[i], &b->children[i]);
    return meet && a->n_children == b->n_children;
}

/* Refuses unions in which two inputs could give datums with the same id. */
static void spec_check_union(struct spec_reader *r, size_t i, const struct pl_input *tree)
{
    for (size_t k = 0; k < tree->n_children; k++) {
        bool meet = false;

        spec_check_union(r, i, &tree->children[k]);
        for (size_t j = 0; j < k && tree->kind == PL_INPUT_UNION && !meet; j++) {
            const struct pl_input *leaf = &tree->children[k];

            meet = spec_trees_meet(&tree->children[j], leaf);
            while (leaf->n_children > 0)
                leaf = &leaf->children[0];
            if (!meet)
                continue;
            pl_spec_enter_leaf(r, i, leaf->leaf, NULL);
            if (pl_input_reads(leaf))
                pl_spec_problem(
                    r,
                    "%s@%s is already an input of this union, with the name \"%s\": a match of both would give two datums "
                    "with the same id: make them one input, or set another \"name\" for one",
                    leaf->repo, leaf->branch, leaf->name);
            else
                pl_spec_problem(
                    r,
                    "one of these combinations is in this union already: two datums would have the same id: leave it out here");
        }
    }
}

bool pl_spec_reserves_variable(const char *name)
{
    static const char *const pachyderms[] = {"PACH_JOB_ID", "PACH_OUTPUT_COMMIT_ID"};

    return strncmp(name, "PL_", 3) == 0 || strncmp(name, "PACH_DATUM_", 11) == 0 ||
           spec_one_of(name, pachyderms, PL_ARRAY_SIZE(pachyderms));
}

/* Checks names in `env`: valid, not reserved, not the variable of an input. */
static void spec_check_env(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    size_t path_len;

    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "env");
    path_len = r->path.len;
    for (size_t e = 0; e < stage->n_env; e++) {
        const char *key = stage->env[e].key;
        bool ours = pl_spec_reserves_variable(key);

        pl_spec_leave(r, path_len);
        pl_spec_enter_key(r, key);
        if (!pl_identifier_ok(key))
            pl_spec_problem_key(r, "\"%s\" is not a valid variable name: use letters, digits and _, not starting with a digit",
                                key);
        else if (ours && !spec_one_of(key, spec_open_vars, PL_ARRAY_SIZE(spec_open_vars)))
            pl_spec_problem_key(r, "\"%s\" is set by pipelined: choose another name, which does not start with PL_", key);
        for (size_t j = 0; j < stage->n_leaves; j++)
            if (stage->leaves[j]->name != NULL && pl_streq(stage->leaves[j]->name, key))
                pl_spec_problem_key(r, "\"%s\" is the variable of the input of that name: rename one of them", key);
    }
}

static void spec_check_prefix(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    _cleanup_(pl_template_destroyp) struct pl_template *template = NULL;
    struct pl_err err = {0};
    int code;

    for (size_t j = 0; j < stage->n_leaves; j++)
        if (stage->leaves[j]->name == NULL || (pl_input_reads(stage->leaves[j]) && stage->leaves[j]->glob == NULL))
            return; /* this leaf was refused before */
    if (stage->output.prefix == NULL || stage->n_leaves == 0)
        return;
    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "output");
    pl_spec_enter_key(r, "prefix");
    code = pl_output_prefix_compile(stage, &template, &err);
    if (code == PL_ENOMEM)
        r->failed = PL_ENOMEM;
    else if (code < 0)
        pl_spec_problem(r, "%s", err.msg);
}

/* Names that the spec defines: name → struct pl_stage, name → struct pl_spec_repo. */
struct names {
    struct pl_map stages, repos;
};

/* Collects the names of stages and repos; refuses duplicates. */
static void spec_check_names(struct spec_reader *r, struct names *names)
{
    struct pl_spec *spec = r->spec;

    for (size_t i = 0; i < spec->n_stages; i++) {
        const char *name = spec->stages[i].name;
        void *first;

        if (name == NULL)
            continue;
        pl_spec_enter_stage(r, i);
        pl_spec_enter_key(r, "name");
        first = pl_map_get(&names->stages, name, strlen(name));
        if (first != NULL) {
            pl_spec_problem(r, "two stages are named \"%s\"; the first is stages[%zu]", name,
                            (size_t)((struct pl_stage *)first - spec->stages));
            continue;
        }
        if (pl_map_put(&names->stages, name, strlen(name), &spec->stages[i], NULL, NULL) < 0)
            r->failed = PL_ENOMEM;
    }
    for (size_t i = 0; i < spec->n_repos; i++) {
        const char *name = spec->repos[i].name;
        const struct pl_stage *stage = pl_map_get(&names->stages, name, strlen(name));

        pl_spec_leave(r, 0);
        pl_spec_enter_key(r, "repos");
        pl_spec_enter_key(r, name);
        if (pl_map_put(&names->repos, name, strlen(name), &spec->repos[i], NULL, NULL) < 0)
            r->failed = PL_ENOMEM;
        if (stage != NULL)
            pl_spec_problem_key(r, "the stage stages[%zu] writes a repo of that name: rename one of them",
                                (size_t)(stage - spec->stages));
    }
}

static bool spec_declares_repo(const struct pl_spec *spec, const struct names *names, const struct pl_input *leaf)
{
    return pl_streq(leaf->project, spec->project) && pl_map_get(&names->repos, leaf->repo, strlen(leaf->repo)) != NULL;
}

/* Returns the stage or declared repo with the most similar name; NULL if none is similar. Compares with 256
 * names at most. */
static const char *spec_nearest_repo(const struct pl_spec *spec, const char *name)
{
    const char *names[256];
    size_t n = 0;

    for (size_t i = 0; i < spec->n_stages && n < PL_ARRAY_SIZE(names); i++)
        if (spec->stages[i].name != NULL)
            names[n++] = spec->stages[i].name;
    for (size_t i = 0; i < spec->n_repos && n < PL_ARRAY_SIZE(names); i++)
        names[n++] = spec->repos[i].name;
    return pl_word_nearest(name, names, n);
}

static void spec_missing_repo(struct spec_reader *r, const struct pl_input *leaf)
{
    const char *nearest = spec_nearest_repo(r->spec, leaf->repo);
    const bool other = !pl_streq(leaf->project, r->spec->project);

    if (other && r->ctx->project_exists != NULL && !r->ctx->project_exists(r->ctx->self, leaf->project))
        pl_spec_problem(r, "project \"%s\" does not exist: pipelinectl create project %s", leaf->project, leaf->project);
    else if (other)
        pl_spec_problem(r, "repo \"%s\" does not exist in project \"%s\": pipelinectl create repo %s/%s", leaf->repo,
                        leaf->project, leaf->project, leaf->repo);
    else if (nearest != NULL)
        pl_spec_problem(r, "repo \"%s\" does not exist; did you mean \"%s\"?", leaf->repo, nearest);
    else
        pl_spec_problem(r, "repo \"%s\" does not exist: pipelinectl create repo %s, or add \"repos\": {\"%s\": {}}", leaf->repo,
                        leaf->repo, leaf->repo);
}

/* Checks a `previous` input: it must be the stage's own output, as a whole. Switches the stage's cache
 * off. */
static void spec_check_previous(struct spec_reader *r, size_t i, size_t j)
{
    struct pl_stage *stage = &r->spec->stages[i];
    const struct pl_input *leaf = stage->leaves[j];

    stage->cache.enabled = false;
    pl_spec_enter_leaf(r, i, j, "previous");
    if (stage->name != NULL && (!pl_streq(leaf->repo, stage->name) || !pl_streq(leaf->project, r->spec->project) ||
                                !pl_streq(leaf->branch, PL_DEFAULT_BRANCH)))
        pl_spec_problem(r, "only the stage's own output can be read as previous: use \"repo\": \"%s\"", stage->name);
    else if (leaf->glob != NULL && !pl_streq(leaf->glob, "/"))
        pl_spec_problem(r, "the previous output is always read as a whole: use \"glob\": \"/\", and \"files\" to choose files");
}

/* Resolves inputs: a name is a stage of the spec first, else a repo that is declared or exists. */
static void spec_resolve(struct spec_reader *r, const struct names *names, size_t i)
{
    struct pl_spec *spec = r->spec;

    for (size_t j = 0; j < spec->stages[i].n_leaves; j++) {
        struct pl_input *leaf = spec->stages[i].leaves[j];
        struct pl_stage *stage;

        if (leaf->repo == NULL)
            continue;
        if (leaf->previous) {
            spec_check_previous(r, i, j);
            continue;
        }
        stage = pl_streq(leaf->project, spec->project) ? pl_map_get(&names->stages, leaf->repo, strlen(leaf->repo)) : NULL;
        if (pl_input_follows_git(leaf)) {
            pl_spec_check_git(r, i, j, stage);
            continue;
        }
        if (stage != NULL && pl_streq(leaf->branch, PL_DEFAULT_BRANCH)) {
            leaf->stage = (uint32_t)(stage - spec->stages);
            continue;
        }
        if (stage != NULL || r->ctx == NULL || r->ctx->repo_exists == NULL || spec_declares_repo(spec, names, leaf) ||
            r->ctx->repo_exists(r->ctx->self, leaf->project, leaf->repo) || pl_spec_git_fills(spec, leaf->project, leaf->repo))
            continue;
        pl_spec_enter_leaf(r, i, j, "repo");
        spec_missing_repo(r, leaf);
    }
}

/* Checks that no other pipeline owns the stage's output repo, and that it is not a plain repo. */
static void spec_check_owner(struct spec_reader *r, size_t i)
{
    const struct pl_spec_context *ctx = r->ctx;
    const char *name = r->spec->stages[i].name, *project = r->spec->project, *owner;

    if (ctx == NULL || ctx->stage_owner == NULL || name == NULL || r->spec->pipeline == NULL)
        return;
    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "name");
    owner = ctx->stage_owner(ctx->self, project, name);
    if (owner != NULL && *owner && !pl_streq(owner, r->spec->pipeline))
        pl_spec_problem(
            r, "stage \"%s\" already belongs to pipeline \"%s\" in project \"%s\": rename it, or set \"project\" in the spec",
            name, owner, project);
    else if (owner == NULL && ctx->repo_exists != NULL && ctx->repo_exists(ctx->self, project, name))
        pl_spec_problem(r, "there is a repo \"%s\" in project \"%s\" that no stage writes: rename the stage, or delete the repo",
                        name, project);
}

static bool same_texts(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (!pl_streq(a[i], b[i]))
            return false;
    return true;
}

bool pl_stage_same_code(const struct pl_stage *a, const struct pl_stage *b)
{
    if (!a->code || !b->code)
        return !a->code && !b->code;
    return pl_streq(a->code, b->code) && same_texts(a->code_files, a->n_code_files, b->code_files, b->n_code_files);
}

/* True if both stages run the same command, which may read the same files. */
static bool runs_the_same(const struct pl_stage *a, const struct pl_stage *b)
{
    if (a->script || b->script)
        return a->script && b->script && pl_streq(a->script, b->script);
    return same_texts(a->run, a->n_run, b->run, b->n_run);
}

/* Warns if an earlier stage with another command has the same whole code folder. */
static void spec_warn_code(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i], *other;

    if (!stage->code || stage->n_code_files > 0)
        return;
    for (size_t k = 0; k < i; k++) {
        other = &r->spec->stages[k];
        if (!pl_stage_same_code(other, stage) || runs_the_same(other, stage))
            continue;
        pl_spec_enter_key(r, "code");
        pl_spec_warning(
            r,
            "%s: stage \"%s\" has the same code folder: a change of any file in it runs both again; name the files of "
            "each stage: {\"path\": \"%s\", \"files\": [\"%s.py\", …]}",
            stage->name, other->name, stage->code, stage->name);
        pl_spec_enter_stage(r, i);
        return;
    }
}

static void spec_warn(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    bool one = stage->n_leaves > 0;

    for (size_t j = 0; j < stage->n_leaves; j++)
        one = one && stage->leaves[j]->glob != NULL && pl_streq(stage->leaves[j]->glob, "/");
    pl_spec_enter_stage(r, i);
    if (one && stage->workers > 1) {
        pl_spec_enter_key(r, "workers");
        pl_spec_warning(r, "%s: 1 datum (glob \"/\"), workers %u: only one worker will have work", stage->name, stage->workers);
        pl_spec_enter_stage(r, i);
    }
    if (stage->image != NULL && strstr(stage->image, "@sha256:") == NULL && !stage->implied) {
        pl_spec_enter_key(r, "image");
        pl_spec_warning(r, "%s: image \"%s\" has no digest (@sha256:…): the tag can name another image later, without a new run",
                        stage->name, stage->image);
        pl_spec_enter_stage(r, i);
    }
    spec_warn_code(r, i);
}

/* ---- two orders of the stages: by name, and the order in which they run (Kahn's algorithm over the inputs that are stages of
 * the same spec) ---- */

struct order {
    struct pl_spec *spec;
    uint32_t *waits_for; /* for each stage, the number of its inputs that are not in the order yet */
    uint32_t *start;     /* the stages that read stage i are readers[start[i]..start[i + 1]) */
    uint32_t *readers;
};

/* Returns one of the stages that could not be ordered, and sets next[i] for each such stage i to one of its
 * inputs that could not be ordered either. Following these links leads into a cycle. */
static uint32_t order_left_over(const struct order *o, uint32_t *next)
{
    uint32_t any = 0;

    for (uint32_t i = 0; i < o->spec->n_stages; i++) {
        for (size_t j = 0; j < o->spec->stages[i].n_leaves; j++) {
            uint32_t input = o->spec->stages[i].leaves[j]->stage;

            if (input != PL_SPEC_NO_STAGE && o->waits_for[input] > 0)
                next[i] = input;
        }
        if (o->waits_for[i] > 0)
            any = i;
    }
    return any;
}

/* Writes the cycle, such as "a reads c reads b reads a", starting with the stage that is first in the
 * text. */
static int order_circle_text(const struct pl_spec *spec, const uint32_t *next, uint32_t first, struct pl_buf *text)
{
    uint32_t at = next[first];
    int r = pl_buf_add_str(text, spec->stages[first].name, NULL);

    for (unsigned n = 0; r == 0 && at != first && n < ORDER_CIRCLE_SHOWN; n++, at = next[at])
        r = pl_buf_addf(text, NULL, " reads %s", spec->stages[at].name);
    if (r == 0)
        r = pl_buf_addf(text, NULL, "%s reads %s", at != first ? " reads …" : "", spec->stages[first].name);
    return r == 0 && pl_buf_str(text) != NULL ? 0 : PL_ENOMEM;
}

static void order_report_circle(struct spec_reader *r, const struct order *o)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    uint32_t *next = pl_spec_alloc(r, o->spec->n_stages * sizeof(*next)), at, first;
    size_t leaf = 0;

    if (next == NULL)
        return;
    at = order_left_over(o, next);
    for (size_t i = 0; i < o->spec->n_stages; i++)
        at = next[at]; /* after as many steps as there are stages, `at` is on the cycle */
    first = at;
    for (uint32_t i = next[at]; i != at; i = next[i])
        first = PL_MIN(first, i);
    if (order_circle_text(o->spec, next, first, &text) < 0) {
        r->failed = PL_ENOMEM;
        return;
    }
    while (o->spec->stages[first].leaves[leaf]->stage != next[first])
        leaf++;
    pl_spec_enter_leaf(r, first, leaf, "repo");
    pl_spec_problem(r, "the stages form a circle: %s", (const char *)text.data);
}

/* Counts the edges, then fills `readers` by counting sort. False if out of memory. */
static bool order_init(struct spec_reader *r, struct order *o)
{
    struct pl_spec *spec = r->spec;
    size_t n = spec->n_stages, n_edges = 0;
    uint32_t *start = pl_spec_alloc(r, (n + 2) * sizeof(*start));

    o->spec = spec;
    o->waits_for = pl_spec_alloc(r, (n + 1) * sizeof(*o->waits_for));
    spec->order = pl_spec_alloc(r, (n + 1) * sizeof(*spec->order));
    spec->by_name = pl_spec_alloc(r, (n + 1) * sizeof(*spec->by_name));
    if (start == NULL || o->waits_for == NULL || spec->order == NULL || spec->by_name == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < spec->stages[i].n_leaves; j++) {
            uint32_t input = spec->stages[i].leaves[j]->stage;

            if (input == PL_SPEC_NO_STAGE)
                continue;
            o->waits_for[i]++;
            start[input + 2]++;
            n_edges++;
        }
    }
    for (size_t i = 2; i < n + 2; i++)
        start[i] += start[i - 1];
    o->start = start;
    o->readers = pl_spec_alloc(r, (n_edges + 1) * sizeof(*o->readers));
    if (o->readers == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < spec->stages[i].n_leaves; j++)
            if (spec->stages[i].leaves[j]->stage != PL_SPEC_NO_STAGE)
                o->readers[start[spec->stages[i].leaves[j]->stage + 1]++] = i;
    return true;
}

static int order_by_name(const void *a, const void *b, void *stages)
{
    const struct pl_stage *list = stages;

    return strcmp(list[*(const uint32_t *)a].name, list[*(const uint32_t *)b].name);
}

/* Kahn's algorithm: a stage is appended to the order once all its inputs are in it. Stages that cannot be
 * appended are on a cycle or depend on one. */
static void spec_order(struct spec_reader *r)
{
    struct order o;
    size_t done = 0;

    if (!order_init(r, &o))
        return;
    for (uint32_t i = 0; i < o.spec->n_stages; i++)
        o.spec->by_name[i] = i;
    qsort_r(o.spec->by_name, o.spec->n_stages, sizeof(*o.spec->by_name), order_by_name, o.spec->stages);
    for (uint32_t i = 0; i < o.spec->n_stages; i++)
        if (o.waits_for[i] == 0)
            o.spec->order[done++] = i;
    for (size_t at = 0; at < done; at++)
        for (uint32_t e = o.start[o.spec->order[at]]; e < o.start[o.spec->order[at] + 1]; e++)
            if (--o.waits_for[o.readers[e]] == 0)
                o.spec->order[done++] = o.readers[e];
    if (done < o.spec->n_stages)
        order_report_circle(r, &o);
}

void pl_spec_check(struct spec_reader *r)
{
    struct names names = {0};

    spec_check_names(r, &names);
    for (size_t i = 0; i < r->spec->n_stages && r->n_problems < SPEC_PROBLEMS_STOP && r->failed == 0; i++) {
        spec_collect_leaves(r, i);
        spec_check_run(r, i);
        spec_check_pfs(r, i);
        spec_check_input_names(r, i);
        if (r->spec->stages[i].n_leaves > 0)
            spec_check_union(r, i, r->spec->stages[i].input);
        spec_check_env(r, i);
        pl_spec_check_environment(r, i);
        spec_check_prefix(r, i);
        pl_spec_check_variables(r, i);
        pl_spec_check_pod(r, i);
        spec_resolve(r, &names, i);
        spec_check_owner(r, i);
    }
    pl_map_finish(&names.stages, NULL);
    pl_map_finish(&names.repos, NULL);
    if (r->failed == 0 && r->n_problems == 0)
        spec_order(r);
    for (size_t i = 0; i < r->spec->n_stages && r->n_problems == 0 && r->failed == 0; i++) {
        spec_warn(r, i);
        pl_spec_warn_pod(r, i);
    }
}
