/* Readers and writers of structured field types: inputs, repos, stages, defaults. */
#include "pipelined/spec/spec_reader.h"

#include "storage/base/path.h"

#include <stdio.h>

static const char *const spec_kinds[] = {
    [PL_INPUT_LEAF] = "repo", [PL_INPUT_CROSS] = "cross", [PL_INPUT_UNION] = "union", [PL_INPUT_PARAMS] = "params"};

static void spec_read_wrapped(struct spec_reader *r, json_t *value, struct pl_input *input);

/* Parses an input. It is a leaf if it has a `repo`; otherwise its single field names its kind. All kinds
 * share one field table, so that any misspelled field is found. */
static void spec_read_tree(struct spec_reader *r, json_t *value, struct pl_input *input)
{
    size_t problems = r->n_problems;
    const char *alone = NULL;

    if (!json_is_object(value)) {
        pl_spec_problem_value(r, value, pl_spec_type_input.accepts);
        return;
    }
    input->stage = PL_SPEC_NO_STAGE;
    if (json_object_get(value, "git") != NULL) {
        pl_spec_read_git(r, value, input);
        return;
    }
    if (json_object_get(value, "pfs") != NULL) {
        spec_read_wrapped(r, value, input);
        return;
    }
    for (size_t kind = 0; kind < PL_ARRAY_SIZE(spec_kinds); kind++) {
        if (json_object_get(value, spec_kinds[kind]) != NULL) {
            input->kind = (enum pl_input_kind)kind;
            alone = kind != PL_INPUT_LEAF ? spec_kinds[kind] : NULL;
        }
    }
    pl_spec_read_object(r, &pl_spec_object_input, value, input);
    if (input->kind != PL_INPUT_LEAF)
        /* the field table has set the default of a leaf, which is not valid for other kinds */
        input->glob = NULL;
    if (r->n_problems > problems)
        return; /* further errors would only be consequences */
    if (alone != NULL && json_object_size(value) > 1)
        pl_spec_problem(r, "no other field may be beside \"%s\": %s", alone,
                        input->kind == PL_INPUT_PARAMS ? "combine it with other inputs in a \"cross\""
                                                       : "move the other fields into its inputs");
    else if (input->kind == PL_INPUT_PARAMS)
        input->name = "params";
    else if (input->kind == PL_INPUT_LEAF && input->repo == NULL)
        pl_spec_problem(r, "\"repo\" is missing: %s", pl_spec_type_input.accepts);
    else if (input->kind == PL_INPUT_LEAF && input->name == NULL)
        input->name = input->repo;
}

/* Parses {"pfs": LEAF}, which means the same as LEAF. */
static void spec_read_wrapped(struct spec_reader *r, json_t *value, struct pl_input *input)
{
    json_t *leaf = json_object_get(value, "pfs");
    size_t path_len = r->path.len;

    if (json_object_size(value) > 1)
        pl_spec_problem(r, "no other field may be beside \"pfs\": move the other fields into it");
    pl_spec_enter_key(r, "pfs");
    if (json_object_get(leaf, "repo") == NULL)
        pl_spec_problem_value(r, leaf, "an input with a \"repo\"");
    else
        spec_read_tree(r, leaf, input);
    pl_spec_leave(r, path_len);
    input->pfs = true;
}

/* Does nothing: spec_read_wrapped has parsed the field. */
static void read_pfs(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    (void)r;
    (void)field;
    (void)value;
    (void)object;
}

/* Writes nothing: the leaf is written without the wrapper. */
static json_t *write_pfs(const struct spec_field *field, const void *object)
{
    (void)field;
    (void)object;
    return json_null();
}

static json_t *spec_write_tree(const struct pl_input *input)
{
    if (input->kind == PL_INPUT_PARAMS)
        return json_pack("{s:o}", "params", json_loads(input->params, 0, NULL));
    return pl_spec_object_write(&pl_spec_object_input, input);
}

static void read_input(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_input *input = pl_spec_alloc(r, sizeof(*input));

    if (input == NULL)
        return;
    spec_read_tree(r, value, input);
    *(struct pl_input **)pl_spec_at(object, field) = input;
}

static json_t *write_input(const struct spec_field *field, const void *object)
{
    const struct pl_input *input = *(const struct pl_input *const *)pl_spec_from(object, field);

    return input != NULL ? spec_write_tree(input) : json_null();
}

static void read_cross(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_input *input = object;
    size_t path_len = r->path.len, n = json_array_size(value);

    if (!json_is_array(value) || n == 0 || n > PL_SPEC_LEAVES_MAX) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    input->children = pl_spec_alloc(r, n * sizeof(*input->children));
    if (input->children == NULL)
        return;
    input->n_children = n;
    for (size_t i = 0; i < n; i++) {
        pl_spec_enter_index(r, i);
        spec_read_tree(r, json_array_get(value, i), &input->children[i]);
        pl_spec_leave(r, path_len);
    }
}

static json_t *write_children(const struct pl_input *input, enum pl_input_kind kind)
{
    json_t *array;

    if (input->kind != kind)
        return json_null();
    array = json_array();
    for (size_t i = 0; i < input->n_children && array != NULL; i++)
        pl_spec_append(&array, spec_write_tree(&input->children[i]));
    return array;
}

static json_t *write_cross(const struct spec_field *field, const void *object)
{
    (void)field;
    return write_children(object, PL_INPUT_CROSS);
}

static json_t *write_union(const struct spec_field *field, const void *object)
{
    (void)field;
    return write_children(object, PL_INPUT_UNION);
}

/* Parses "[PROJECT/]NAME[@BRANCH]". */
static void read_repo(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_input *input = object;
    struct pl_err err = {0};
    char *text, *slash, *at;
    const char *project = r->spec->project, *branch = PL_DEFAULT_BRANCH;

    if (!json_is_string(value)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    text = pl_spec_strdup(r, json_string_value(value));
    if (text == NULL)
        return;
    at = strchr(text, '@');
    if (at != NULL) {
        *at = '\0';
        branch = at + 1;
    }
    slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
        project = text;
        text = slash + 1;
    }
    if ((slash != NULL && pl_name_check("project", project, &err) < 0) || pl_name_check("repo", text, &err) < 0 ||
        (at != NULL && pl_name_check("branch", branch, &err) < 0)) {
        pl_spec_problem(r, "%s; %s", err.msg, field->type->accepts);
        return;
    }
    input->project = project;
    input->repo = text;
    input->branch = branch;
}

static json_t *write_repo(const struct spec_field *field, const void *object)
{
    const struct pl_input *input = object;
    char text[3 * PL_NAME_MAX_BYTES + 8];

    (void)field;
    if (input->kind != PL_INPUT_LEAF)
        return json_null();
    (void)snprintf(text, sizeof(text), "%s/%s@%s", input->project, input->repo, input->branch);
    return json_string(text);
}

static void read_folder(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_string_value(value);
    char canonical[PL_PATH_MAX_BYTES + 1];
    struct pl_err err = {0};

    if (text == NULL || text[0] == '\0' || text[0] == '/') {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    while (text[0] == '.' && text[1] == '/')
        text += 2 + strspn(text + 2, "/");
    if (text[0] == '\0' || pl_streq(text, "."))
        *(const char **)pl_spec_at(object, field) = ".";
    else if (pl_path_canonical(text, canonical, &err) < 0)
        pl_spec_problem(r, "%s: the folder must be at or below the spec's folder", err.msg);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, canonical);
}

static void read_code(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (json_is_object(value))
        pl_spec_read_object(r, &pl_spec_object_code, value, object);
    else
        read_folder(r, field, value, object);
}

static json_t *write_code(const struct spec_field *field, const void *object)
{
    const struct pl_stage *stage = object;

    return stage->n_code_files > 0 ? pl_spec_object_write(&pl_spec_object_code, stage) : pl_spec_write_text(field, object);
}

static void read_repos(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_spec *spec = object;
    size_t path_len = r->path.len;
    const char *key;
    json_t *member;

    if (!json_is_object(value) || json_object_size(value) > PL_SPEC_REPOS_MAX) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    spec->repos = pl_spec_alloc(r, (json_object_size(value) + 1) * sizeof(*spec->repos));
    if (spec->repos == NULL)
        return;
    json_object_foreach(value, key, member)
    {
        struct pl_err err = {0};

        spec->repos[spec->n_repos] = (struct pl_spec_repo){.commit_window_ms = -1, .durable = -1};
        pl_spec_enter_key(r, key);
        if (pl_name_check("repo", key, &err) < 0)
            pl_spec_problem_key(r, "%s", err.msg);
        else if (!json_is_object(member))
            pl_spec_problem_value(r, member, "an object, {} for the defaults");
        else
            pl_spec_read_object(r, &pl_spec_object_repo, member, &spec->repos[spec->n_repos]);
        spec->repos[spec->n_repos].name = pl_spec_strdup(r, key);
        spec->n_repos += spec->repos[spec->n_repos].name != NULL;
        pl_spec_leave(r, path_len);
    }
}

static json_t *write_repos(const struct spec_field *field, const void *object)
{
    const struct pl_spec *spec = object;
    json_t *repos = spec->n_repos > 0 ? json_object() : json_null();

    (void)field;
    for (size_t i = 0; i < spec->n_repos && repos != NULL; i++)
        pl_spec_set(&repos, spec->repos[i].name, pl_spec_object_write(&pl_spec_object_repo, &spec->repos[i]));
    return repos;
}

/* Checks the names of fields that the stage sets to null, because such fields do not appear in the merged
 * stage. */
static void spec_check_nulls(struct spec_reader *r, json_t *stage)
{
    size_t path_len = r->path.len;
    const char *key;
    json_t *member;

    json_object_foreach(stage, key, member)
    {
        if (!json_is_null(member) || pl_spec_field_find(&pl_spec_object_stage, key) != NULL)
            continue;
        pl_spec_enter_key(r, key);
        pl_spec_problem_key(r, "unknown field \"%.60s\"", key);
        pl_spec_leave(r, path_len);
    }
}

/* Refuses "network": true in the text itself if the project's network is off. If only a lower layer of
 * defaults says true, the project's setting wins silently. */
static void spec_check_network(struct spec_reader *r, const json_t *value)
{
    size_t path_len = r->path.len;

    if (!r->network_off || !json_is_true(json_object_get(value, "network")))
        return;
    pl_spec_enter_key(r, "network");
    pl_spec_problem(
        r,
        "true is not accepted: the network is off in project \"%s\"; leave it out, or ask an admin of the project for "
        "pipelinectl update project %s --network on",
        r->spec->project, r->spec->project);
    pl_spec_leave(r, path_len);
}

static void spec_read_stage(struct spec_reader *r, json_t *value, struct pl_stage *stage)
{
    json_t *merged;

    stage->output.branch = PL_DEFAULT_BRANCH;
    if (!json_is_object(value)) {
        pl_spec_problem_value(r, value, "an object");
        return;
    }
    spec_check_nulls(r, value);
    spec_check_network(r, value);
    merged = pl_spec_merge_patch(r->defaults, value);
    if (merged == NULL) {
        r->failed = PL_ENOMEM;
        return;
    }
    pl_spec_read_object(r, &pl_spec_object_stage, merged, stage);
    json_decref(merged);
}

static void read_stages(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_spec *spec = object;
    size_t path_len = r->path.len, n = json_array_size(value);

    if (!json_is_array(value) || n == 0) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    if (n > PL_SPEC_STAGES_MAX) {
        pl_spec_problem(
            r, "%zu stages are not accepted: at most %u; make several pipelines, whose stages can read each other's repos", n,
            PL_SPEC_STAGES_MAX);
        return;
    }
    spec->stages = pl_spec_alloc(r, n * sizeof(*spec->stages));
    if (spec->stages == NULL)
        return;
    for (size_t i = 0; i < n && r->n_problems < SPEC_PROBLEMS_STOP && r->failed == 0; i++) {
        pl_spec_enter_index(r, i);
        spec_read_stage(r, json_array_get(value, i), &spec->stages[i]);
        pl_spec_leave(r, path_len);
        spec->n_stages = i + 1;
    }
}

static json_t *write_stages(const struct spec_field *field, const void *object)
{
    const struct pl_spec *spec = object;
    json_t *stages = json_array();

    (void)field;
    for (size_t i = 0; i < spec->n_stages && stages != NULL; i++)
        pl_spec_append(&stages, pl_spec_object_write(&pl_spec_object_stage, &spec->stages[i]));
    return stages;
}

/* Parses the fields of `defaults` once by themselves, so that a mistake is found even if every stage
 * overrides the field. */
static void read_defaults(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_stage scratch = {0};

    (void)object;
    if (!json_is_object(value)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    if (r->defaults == NULL)
        return; /* no memory: spec_add_defaults has set r->failed */
    spec_check_nulls(r, value);
    spec_check_network(r, value);
    r->partial = true;
    pl_spec_read_object(r, &pl_spec_object_stage, r->defaults, &scratch);
    r->partial = false;
}

/* Writes nothing: the defaults are merged into the stages. */
static json_t *write_defaults(const struct spec_field *field, const void *object)
{
    (void)field;
    (void)object;
    return json_null();
}

const struct spec_type pl_spec_type_input = {
    "an input is {\"repo\": \"NAME\", …}, {\"git\": {…}}, {\"cross\": […]}, {\"union\": […]} or {\"params\": {…}}",
    "{\"$ref\":\"#/$defs/input\"}", read_input, write_input};
const struct spec_type pl_spec_type_cross = {"a list of 1 to 64 inputs",
                                             "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/input\"}}", read_cross,
                                             write_cross};
const struct spec_type pl_spec_type_union = {"a list of 1 to 64 inputs",
                                             "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/input\"}}", read_cross,
                                             write_union};
const struct spec_type pl_spec_type_pfs = {"an input with a \"repo\"", "{\"$ref\":\"#/$defs/input\"}", read_pfs, write_pfs};
const struct spec_type pl_spec_type_repo = {"a repo is \"NAME\", \"NAME@BRANCH\" or \"PROJECT/NAME@BRANCH\"",
                                            "{\"type\":\"string\"}", read_repo, write_repo};
const struct spec_type pl_spec_type_folder = {"a folder at or below the spec's folder, without ..", "{\"type\":\"string\"}",
                                              read_folder, pl_spec_write_text};
const struct spec_type pl_spec_type_code = {"a folder at or below the spec's folder, without .., or {\"path\", \"files\"}",
                                            "{\"anyOf\":[{\"type\":\"string\"},{\"$ref\":\"#/$defs/code\"}]}", read_code,
                                            write_code};
const struct spec_type pl_spec_type_repos = {
    "an object of at most 1,000 repos, each {} for the defaults",
    "{\"type\":\"object\",\"maxProperties\":1000,\"additionalProperties\":{\"$ref\":\"#/$defs/repo\"}}", read_repos, write_repos};
const struct spec_type pl_spec_type_stages = {
    "a list of at least one stage, at most 1,000",
    "{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":{\"$ref\":\"#/$defs/stage\"}}", read_stages, write_stages};
const struct spec_type pl_spec_type_defaults = {"an object with fields of a stage", "{\"$ref\":\"#/$defs/stage_fields\"}",
                                                read_defaults, write_defaults};
