/* Generates the JSON Schema and docs/spec.md from the field table. */
#include "pipelined/spec/spec_field.h"

#include "pipelined/text/json_text.h"

#include <stdio.h>

static json_t *doc_words(const char *const *words)
{
    json_t *list = json_array();

    for (; *words != NULL && list != NULL; words++)
        pl_spec_append(&list, json_string(*words));
    return list;
}

static json_t *doc_field_schema(const struct spec_field *field)
{
    json_t *schema = field->type->schema[0] != '\0' ? json_loads(field->type->schema, 0, NULL) : json_object();

    if (field->type == &pl_spec_type_object)
        pl_spec_set(&schema, "$ref", json_sprintf("#/$defs/%s", field->child->name));
    if (field->type == &pl_spec_type_count) {
        pl_spec_set(&schema, "type", json_string("integer"));
        pl_spec_set(&schema, "minimum", json_integer(field->min));
        pl_spec_set(&schema, "maximum", json_integer(field->max));
    }
    if (field->words != NULL)
        pl_spec_set(&schema, "enum", doc_words(field->words));
    if (field->fallback != NULL)
        pl_spec_set(&schema, "default", json_loads(field->fallback, JSON_DECODE_ANY, NULL));
    pl_spec_set(&schema, "description", json_string(field->doc));
    return schema;
}

/* Makes the schema of an object. `partial` = no field is required, as in `defaults` and in stages that
 * defaults complete. */
static json_t *doc_object_schema(const struct spec_object *object, bool partial)
{
    json_t *schema = json_pack("{s:s, s:b, s:s}", "type", "object", "additionalProperties", 0, "description", object->doc);
    json_t *properties = json_object(), *required = json_array();

    for (size_t i = 0; i < object->n; i++) {
        pl_spec_set(&properties, object->fields[i].name, doc_field_schema(&object->fields[i]));
        if (object->fields[i].required && !partial)
            pl_spec_append(&required, json_string(object->fields[i].name));
    }
    pl_spec_set(&schema, "properties", properties);
    if (json_array_size(required) > 0)
        pl_spec_set(&schema, "required", required);
    else
        json_decref(required);
    return schema;
}

/* In the schema, only the name of a stage is required, because `defaults` may provide all other fields. */
int pl_spec_schema(struct pl_buf *out, struct pl_err *err)
{
    json_t *schema = doc_object_schema(&pl_spec_object_file, false), *defs = json_object(), *stage;
    char *text;
    int r;

    for (const struct spec_object *const *object = pl_spec_objects + 1; *object != NULL; object++)
        pl_spec_set(&defs, (*object)->name, doc_object_schema(*object, true));
    stage = doc_object_schema(&pl_spec_object_stage, true);
    pl_spec_set(&stage, "required", json_pack("[s]", "name"));
    pl_spec_set(&defs, "stage", stage);
    pl_spec_set(&defs, "stage_fields", doc_object_schema(&pl_spec_object_stage, true));
    pl_spec_set(&schema, "$defs", defs);
    pl_spec_set(&schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
    pl_spec_set(&schema, "title", json_string("pipelined pipeline spec"));
    text = schema != NULL ? pl_json_text(schema, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(schema);
    if (text == NULL)
        return pl_err_nomem(err);
    r = pl_buf_addf(out, err, "%s\n", text);
    free(text);
    return r;
}

/* Appends text of a table cell and escapes the characters in `special`: "|" would end the cell, and "*"
 * outside of code would start emphasis. */
static int doc_add_cell(struct pl_buf *out, const char *text, const char *special, struct pl_err *err)
{
    int r = 0;

    for (; *text != '\0' && r == 0; text++)
        r = pl_buf_addf(out, err, "%s%c", strchr(special, *text) != NULL ? "\\" : "", *text);
    return r;
}

static int doc_add_accepts(struct pl_buf *out, const struct spec_field *field, struct pl_err *err)
{
    int r;

    if (field->type == &pl_spec_type_count)
        return pl_buf_addf(out, err, "%lld … %lld", (long long)field->min, (long long)field->max);
    if (field->words != NULL) {
        for (const char *const *word = field->words; *word != NULL; word++) {
            r = pl_buf_addf(out, err, "%s`\"%s\"`", word > field->words ? ", " : "", *word);
            if (r < 0)
                return r;
        }
        return 0;
    }
    r = doc_add_cell(out, field->type->accepts, "|*", err);
    if (r == 0 && field->child != NULL && field->type != &pl_spec_type_input && field->type != &pl_spec_type_cross)
        r = pl_buf_addf(out, err, " ([%s](#%s))", field->child->name, field->child->name);
    return r;
}

static int doc_add_field(struct pl_buf *out, const struct spec_field *field, struct pl_err *err)
{
    int r = pl_buf_addf(out, err, "| `%s` | ", field->name);

    if (r == 0)
        r = doc_add_accepts(out, field, err);
    if (r == 0 && field->fallback != NULL)
        r = pl_buf_addf(out, err, " | `%s` | ", field->fallback);
    else if (r == 0)
        r = pl_buf_add_str(out, field->required ? " | required | " : " | – | ", err);
    if (r == 0)
        r = doc_add_cell(out, field->doc, "|", err);
    return r < 0 ? r : pl_buf_add_str(out, " |\n", err);
}

static int doc_add_object(struct pl_buf *out, const struct spec_object *object, struct pl_err *err)
{
    int r = pl_buf_addf(out, err, "\n## %s\n\n%s\n", object->name, object->doc);

    if (r == 0 && object->n > 0)
        r = pl_buf_add_str(out, "\n| field | accepts | default | meaning |\n|---|---|---|---|\n", err);
    for (size_t i = 0; i < object->n && r == 0; i++)
        r = doc_add_field(out, &object->fields[i], err);
    for (const char *const *later = object->later; *later != NULL && r == 0; later++)
        r = pl_buf_addf(out, err, "%s`%s`%s", later == object->later ? "\nNot available yet, refused by name: " : "", *later,
                        later[1] != NULL ? ", " : ".\n");
    return r;
}

static const char doc_head[] =
    "# The spec language\n"
    "\n"
    "<!-- Made from the field table in pipelined/spec/spec_field.c: PL_UPDATE=1 test_spec writes it, "
    "the test keeps it equal. -->\n"
    "\n"
    "A pipeline is a JSON file. A field that is unknown, or that the program cannot do yet, is "
    "refused by name, line and column, never\n"
    "ignored. Durations are `90s`, `10m`, `1h30m`. Names of projects, repos, branches, stages and "
    "inputs are letters, digits, `_` and\n"
    "`-`, at most 51, not starting with `_` or `-`, and not 32 or 64 hex digits.\n"
    "\n"
    "Finished datums are not run again: a datum's key holds the names, paths and contents of its "
    "inputs and the identity of its\n"
    "code (`image` as written, `run` or `script`, `env`, `user`, the content of `code`), and nothing else.\n"
    "\n"
    "```json\n"
    "{\"pipeline\": \"digits\", \"repos\": {\"digits\": {}}, \"stages\": [\n"
    "  {\"name\": \"prepare\", \"input\": {\"repo\": \"digits\", \"glob\": \"/train/*.csv\"}, \"workers\": 4,\n"
    "   \"code\": {\"path\": \"code\", \"files\": [\"prepare.py\", \"digits.py\"]}, \"run\": [\"python3\", \"prepare.py\"],\n"
    "   \"output\": {\"prefix\": \"${digits.stem}/\"}},\n"
    "  {\"name\": \"train\", \"input\": {\"repo\": \"prepare\", \"files\": [\"*.npz\"]},\n"
    "   \"code\": {\"path\": \"code\", \"files\": [\"train.py\", \"digits.py\"]}, \"run\": [\"python3\", \"train.py\"],\n"
    "   \"gpu\": {\"count\": 1, \"required\": false}, \"output\": {\"expect\": [\"/model.npz\", \"/metrics.json\"]}}]}\n"
    "```\n"
    "\n"
    "`prepare` has one datum per file of `/train`, `train` one for all that `prepare` wrote: a new file is prepared alone, then "
    "the model\n"
    "is trained again.\n";

static const char doc_pachyderm[] =
    "\n## Pachyderm's form\n"
    "\n"
    "A document whose `pipeline` is an object (`{\"pipeline\": {\"name\": …}, \"transform\": …}`) is read as Pachyderm's: one "
    "pipeline of "
    "one stage of\n"
    "its name. A file may hold several, one after another, between lines of `---` or in an array. Keys may be in snake_case or "
    "camelCase,\n"
    "`null` is absent, numbers may be strings.\n"
    "\n"
    "| Pachyderm | pipelined |\n|---|---|\n"
    "| `pipeline.name`, `pipeline.project.name`, `description` | `pipeline` and the stage's `name`, `project`, `description` |\n"
    "| `transform.image`, `cmd`, `env`, `stdin` | `image`, `run`, `env`, `stdin` (each line with its end) |\n"
    "| `transform.accept_return_code`, `err_cmd` | `accept_codes`, `on_error` |\n"
    "| `input`: `pfs` (`project`, `repo`, `branch`, `name`, `glob`, `reference`), `cross`, `union` | `input` |\n"
    "| `parallelism_spec.constant`, `datum_tries` (3), `datum_timeout`, `job_timeout` | `workers`, `datum.tries`, "
    "`datum.timeout`, "
    "`timeout` |\n"
    "| `resource_limits.gpu` `{\"type\", \"number\"}`, of 1.x a number | `gpu`; without a type it is `nvidia.com/gpu` |\n"
    "| `resource_requests`, `resource_limits`: `cpu`, `memory`, `disk` | `resources`; a memory request without a limit is also "
    "the "
    "limit, and without either nothing is reserved |\n"
    "| `transform.user` (numbers), `transform.secrets` | `user`, `secrets` |\n"
    "| `scheduling_spec`, `tolerations`, `metadata`, `pod_spec`, `pod_patch` (strings of JSON) | `placement` |\n"
    "| `autoscaling` | – : workers always start when there are datums, and end when none is left |\n"
    "| – | `on_new` is `queue`: one job per run |\n"
    "| – | `output.copy_links` is `true`: a link in `/pfs/out` that leads elsewhere becomes what it leads to |\n"
    "\n"
    "All other fields are refused by name.\n";

int pl_spec_markdown(struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add_str(out, doc_head, err);

    for (const struct spec_object *const *object = pl_spec_objects; *object != NULL && r == 0; object++)
        r = doc_add_object(out, *object, err);
    return r < 0 ? r : pl_buf_add_str(out, doc_pachyderm, err);
}
