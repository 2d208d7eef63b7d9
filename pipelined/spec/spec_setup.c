/* Reads `setup` of a stage, and turns it into what the rest of the language has already: a stage that makes the environment,
 * and an input of the stage that uses it.
 *
 *   {"name": "train", "input": T, "setup": S}  ─▶  {"name": "train-setup", "input": {"params": [{"arch": …}]}, "run": …,
 *                                                   "code": the files of S, "output": {"environment": true}}
 *                                                  {"name": "train",
 *                                                   "input": {"cross": [T, {"repo": "train-setup", "environment": true}]}}
 *
 * Stages with the same `setup` over the same image share the stage of the first of them. The effective spec has the stages on
 * the right, so that reading it again changes nothing. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/base/path.h"

#include <stdio.h>

#if defined(__aarch64__)
#define BUILT_FOR "arm64"
#else
#define BUILT_FOR "amd64"
#endif

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && pl_streq(text + n - m, end);
}

static bool is_requirements(const char *name)
{
    if (strpbrk(name, "*?[]{}()\\") != NULL)
        return false; /* it is a glob as well: the file is chosen from its folder by it */
    return ends_with(name, ".txt") || pl_streq(name, "pyproject.toml") || pl_streq(name, "uv.lock") ||
           pl_streq(name, "environment.yml") || pl_streq(name, "environment.yaml");
}

static void read_requirements(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_string_value(value), *slash;
    char canonical[PL_PATH_MAX_BYTES + 1];
    struct pl_err err = {0};

    if (text != NULL && strncmp(text, "./", 2) == 0)
        text += 2;
    if (text == NULL || *text == '\0' || *text == '/') {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    if (pl_path_canonical(text, canonical, &err) < 0) {
        pl_spec_problem(r, "%s: the file must be at or below the spec's folder", err.msg);
        return;
    }
    slash = strrchr(canonical, '/');
    if (!is_requirements(slash != NULL ? slash + 1 : canonical))
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, canonical);
}

/* A password in the address would be stored with the spec, and `${` would be a parameter in the command. */
static bool is_index(const char *text)
{
    const size_t scheme = strncmp(text, "https://", 8) == 0 ? 8 : strncmp(text, "http://", 7) == 0 ? 7 : 0;
    const char *host = text + scheme;
    const size_t n = strcspn(host, "/?#");

    return scheme > 0 && n > 0 && host[0] != ':' && memchr(host, '@', n) == NULL && strstr(text, "${") == NULL &&
           strpbrk(text, " \t\r\n") == NULL;
}

static void read_index(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_string(value) || !is_index(json_string_value(value)))
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, json_string_value(value));
}

static void check_setup(struct spec_reader *r, const struct pl_setup *s)
{
    if ((s->python != NULL) == (s->script != NULL))
        pl_spec_problem(r, s->python != NULL ? "both \"python\" and \"script\" are given: exactly one is accepted"
                                             : "\"python\" is missing: a file such as \"requirements.txt\", or \"script\"");
    else if (s->secret.name != NULL && s->index == NULL && s->python != NULL)
        pl_spec_problem(r, "\"secret\" needs the \"index\" that asks for it");
}

static void read_setup(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const size_t problems = r->n_problems;
    struct pl_setup *setup;

    if (!json_is_object(value)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    setup = pl_spec_alloc(r, sizeof(*setup));
    if (setup == NULL)
        return;
    pl_spec_read_object(r, field->child, value, setup);
    if (r->n_problems == problems && !r->partial)
        check_setup(r, setup);
    if (r->n_problems == problems)
        *(struct pl_setup **)pl_spec_at(object, field) = setup;
}

/* Writes nothing: the effective spec has the stage and the input instead. */
static json_t *write_setup(const struct spec_field *field, const void *object)
{
    (void)field;
    (void)object;
    return json_null();
}

/* ---- the stage that makes the environment ---- */

static json_t *texts(const char *const *list, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++)
        pl_spec_append(&array, json_string(list[i]));
    return array;
}

/* The files that a setup reads, as the field `code`. */
static json_t *code_of(const struct pl_setup *s)
{
    const char *slash = s->python != NULL ? strrchr(s->python, '/') : NULL;
    json_t *files = texts(s->files, s->n_files);
    char own[PL_PATH_MAX_BYTES + 2];

    if (s->python != NULL) {
        (void)snprintf(own, sizeof(own), "/%s", slash != NULL ? slash + 1 : s->python);
        pl_spec_append(&files, json_string(own));
        if (ends_with(own, "/uv.lock"))
            pl_spec_append(&files, json_string("/pyproject.toml"));
    }
    return files == NULL ? NULL
                         : json_pack("{s:s%, s:o}", "path", slash != NULL ? s->python : ".",
                                     slash != NULL ? (size_t)(slash - s->python) : (size_t)1, "files", files);
}

/* Fields of a stage that hold for the making of its environment as well: the first decide what is made, the others only how. */
static const char *const deciding_fields[] = {"image", "python", "user", "placement"}, *const other_fields[] = {"priority",
                                                                                                                "resources",
                                                                                                                "scratch"};

static void copy_fields(const struct pl_stage *stage, const char *const *names, size_t n, json_t **to)
{
    _cleanup_(json_decrefp) json_t *all = pl_spec_object_write(&pl_spec_object_stage, stage);

    if (all == NULL)
        pl_spec_set(to, "name", NULL); /* out of memory: drops the object */
    for (size_t i = 0; i < n; i++)
        if (json_object_get(all, names[i]) != NULL)
            pl_spec_set(to, names[i], json_incref(json_object_get(all, names[i])));
}

/* Returns what decides about the environment of a stage: the stage that makes it, as a spec has it, but without its name and
 * `other_fields`. NULL if out of memory. */
static json_t *maker_of(const struct pl_stage *stage)
{
    const struct pl_setup *s = stage->setup;
    const char *slash = s->python != NULL ? strrchr(s->python, '/') : NULL;
    char timeout[32];
    json_t *out =
        json_pack("{s:{s:[{s:s}]}, s:{s:b, s:[s]}, s:{s:s}, s:{s:s}, s:s}", "input", "params", "arch",
                  stage->placement.n_arch > 0 ? stage->placement.arch[0] : BUILT_FOR, "output", "environment", 1, "expect", "/**",
                  "datum", "timeout", pl_duration_text(s->timeout_ms, timeout), "checkpoint", "every", "5m", "on_new", "queue");

    if (s->python != NULL || s->n_files > 0)
        pl_spec_set(&out, "code", code_of(s));
    if (s->script != NULL)
        pl_spec_set(&out, "script", json_string(s->script));
    else
        pl_spec_set(&out, "run",
                    json_pack("[s, s, s, s, s*]", "python3", "-B", "/pl/bin/py/pl_setup.py",
                              slash != NULL ? slash + 1 : s->python, s->index));
    if (s->script != NULL && s->index != NULL)
        pl_spec_set(&out, "env",
                    json_pack("{s:s, s:s, s:s, s:s, s:s}", "PIP_INDEX_URL", s->index, "PIP_EXTRA_INDEX_URL", "", "UV_INDEX_URL",
                              s->index, "UV_DEFAULT_INDEX", s->index, "UV_INDEX", ""));
    if (s->secret.name != NULL)
        pl_spec_set(&out, "secrets",
                    json_pack("[{s:s, s:s, s:s}]", "name", s->secret.name, "key", s->secret.key, "env", "SETUP_SECRET"));
    copy_fields(stage, deciding_fields, PL_ARRAY_SIZE(deciding_fields), &out);
    return out;
}

/* ---- the input of the stage that uses it ---- */

/* Adds the environment's repo to the inputs of the stage, after all others. Nodes that the text lacks are `implied`. */
static void add_input(struct spec_reader *r, struct pl_stage *stage, const char *maker)
{
    const bool is_cross = stage->input != NULL && stage->input->kind == PL_INPUT_CROSS;
    const size_t n = is_cross ? stage->input->n_children : stage->input != NULL;
    struct pl_input *all = pl_spec_alloc(r, (n + 1) * sizeof(*all)),
                    *cross = is_cross ? stage->input : pl_spec_alloc(r, sizeof(*cross));

    if (all == NULL || cross == NULL)
        return;
    if (n > 0)
        memcpy(all, is_cross ? cross->children : stage->input, n * sizeof(*all));
    all[n] = (struct pl_input){.kind = PL_INPUT_LEAF,
                               .project = r->spec->project,
                               .repo = maker,
                               .branch = PL_DEFAULT_BRANCH,
                               .name = maker,
                               .glob = "/",
                               .environment = true,
                               .implied = true,
                               .stage = PL_SPEC_NO_STAGE};
    if (!is_cross)
        *cross = (struct pl_input){.kind = PL_INPUT_CROSS, .implied = true, .stage = PL_SPEC_NO_STAGE};
    cross->children = all;
    cross->n_children = n + 1;
    stage->input = cross;
}

/* Reads the stage that makes the environment of stage i into the spec's next place; its mistakes are those of `setup`, at which the
 * path is. Returns its name, NULL if the stage's name leaves no room for it or memory ran out. */
static const char *add_maker(struct spec_reader *r, size_t i, json_t *maker)
{
    struct pl_spec *spec = r->spec;
    struct pl_stage *stage = &spec->stages[i], *to = &spec->stages[spec->n_stages];
    char name[PL_NAME_MAX_BYTES + sizeof(PL_SETUP_SUFFIX)];
    struct pl_err err = {0};

    (void)snprintf(name, sizeof(name), "%s%s", stage->name, PL_SETUP_SUFFIX);
    if (pl_name_check("stage", name, &err) < 0) {
        pl_spec_problem(r, "the stage \"%s\" that makes the environment: %s", name, err.msg);
        json_decref(maker);
        return NULL;
    }
    if (spec->n_stages >= PL_SPEC_STAGES_MAX) {
        pl_spec_problem(r, "at most %u stages are accepted, with those that make environments: make several pipelines",
                        PL_SPEC_STAGES_MAX);
        json_decref(maker);
        return NULL;
    }
    pl_spec_set(&maker, "name", json_string(name));
    copy_fields(stage, other_fields, PL_ARRAY_SIZE(other_fields), &maker);
    to->output.branch = PL_DEFAULT_BRANCH;
    if (maker == NULL)
        r->failed = PL_ENOMEM;
    else
        pl_spec_read_object(r, &pl_spec_object_stage, maker, to);
    json_decref(maker);
    to->implied = true;
    spec->n_stages++;
    return to->name;
}

static void expand(struct spec_reader *r, size_t i, struct pl_map *makers)
{
    struct pl_stage *stage = &r->spec->stages[i];
    _cleanup_(json_decrefp) json_t *maker = maker_of(stage);
    _cleanup_free_ char *text = maker != NULL ? pl_json_text(maker, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const char *name;

    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "setup");
    if (text == NULL) {
        r->failed = PL_ENOMEM;
        return;
    }
    if (stage->placement.n_arch > 1)
        pl_spec_problem(r, "an environment is for one architecture, and \"placement\" names %zu: name one in \"arch\"",
                        stage->placement.n_arch);
    if (r->network_off)
        pl_spec_problem(r,
                        "an environment is made with network, which is off in project \"%s\": make it elsewhere, as an image or "
                        "with \"python\", or ask an admin of the project for pipelinectl update project %s --network on",
                        r->spec->project, r->spec->project);
    name = pl_map_get(makers, text, strlen(text));
    if (name == NULL) {
        name = add_maker(r, i, json_incref(maker));
        if (name != NULL && pl_map_put(makers, text, strlen(text), (void *)(uintptr_t)name, NULL, NULL) < 0)
            r->failed = PL_ENOMEM;
    }
    if (name != NULL)
        add_input(r, stage, name);
    stage->setup = NULL;
}

void pl_spec_expand_setups(struct spec_reader *r)
{
    const size_t n = r->spec->n_stages;
    struct pl_stage *stages;
    struct pl_map makers = {0};
    size_t more = 0;

    for (size_t i = 0; i < n; i++)
        more += r->spec->stages[i].setup != NULL && r->spec->stages[i].name != NULL;
    if (more == 0)
        return;
    stages = pl_spec_alloc(r, (n + more) * sizeof(*stages));
    if (stages == NULL)
        return;
    memcpy(stages, r->spec->stages, n * sizeof(*stages));
    r->spec->stages = stages;
    for (size_t i = 0; i < n && r->n_problems < SPEC_PROBLEMS_STOP && r->failed == 0; i++)
        if (stages[i].setup != NULL && stages[i].name != NULL)
            expand(r, i, &makers);
    pl_map_finish(&makers, NULL);
    pl_spec_leave(r, 0);
}

/* ---- environments, also those that a spec names itself ---- */

void pl_spec_check_environment(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    const bool none = r->ctx != NULL && r->ctx->no_sandbox;
    const struct pl_input *first = NULL;

    for (size_t j = 0; j < stage->n_leaves; j++) {
        const struct pl_input *leaf = stage->leaves[j];

        if (!leaf->environment)
            continue;
        pl_spec_enter_leaf(r, i, j, leaf->implied ? NULL : "environment");
        if (none)
            pl_spec_problem(r, "an environment is at /pl/env, which does not exist without a sandbox (--sandbox none): use "
                               "bubblewrap, or \"python\"");
        else if (stage->output.environment)
            pl_spec_problem(r, "not accepted beside \"output\": {\"environment\": true}: /pl/env is what the stage writes");
        else if (first != NULL)
            pl_spec_problem(r, "input \"%s\" is the environment already: a stage has one", first->name);
        else if (leaf->glob != NULL && !pl_streq(leaf->glob, "/"))
            pl_spec_problem(r, "an environment is read as a whole: use \"glob\": \"/\"");
        else if (leaf->writable || leaf->previous)
            pl_spec_problem(r, "not accepted with \"writable\" or \"previous\"");
        else if (leaf->name != NULL && !pl_input_always(stage->input, leaf->name))
            pl_spec_problem(r, "every datum needs the environment: put the input in a \"cross\" around the \"union\"");
        first = leaf;
    }
    if (!stage->output.environment)
        return;
    pl_spec_enter_stage(r, i);
    pl_spec_enter_key(r, "output");
    pl_spec_enter_key(r, "environment");
    if (none)
        pl_spec_problem(r, "an environment is made at /pl/env, which does not exist without a sandbox (--sandbox none): use "
                           "bubblewrap");
    else if (stage->output.copy_links || stage->datum.batch || (stage->output.prefix != NULL && stage->output.prefix[0] != '\0'))
        pl_spec_problem(
            r, "not accepted with \"copy_links\", \"prefix\" or \"batch\": the output is /pl/env as the command left it");
}

const struct spec_type pl_spec_type_requirements = {
    "a file at or below the spec's folder: \"requirements.txt\" (any .txt), \"pyproject.toml\", \"uv.lock\" or "
    "\"environment.yml\"",
    "{\"type\":\"string\"}", read_requirements, pl_spec_write_text};
const struct spec_type pl_spec_type_setup = {"an object with \"python\" or \"script\"", "{\"$ref\":\"#/$defs/setup\"}",
                                             read_setup, write_setup};
const struct spec_type pl_spec_type_index = {
    "an address such as \"https://pypi.example/simple\", without a user and password, which \"secret\" gives",
    "{\"type\":\"string\"}", read_index, pl_spec_write_text};
