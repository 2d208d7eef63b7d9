/* Parses `params`: converts values to text, and each combination to its canonical JSON. Checks "${…}" in a stage's commands and
 * variables. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/spec/datum_env.h"
#include "pipelined/text/json_text.h"
#include "pipelined/text/param_text.h"
#include "storage/base/path.h"

#include <stdio.h>

/* A parameter and its n possible values, as texts and as canonical JSON. */
struct param_axis {
    const char *name;
    const char **texts, **jsons;
    size_t n;
};

static int compare_axes(const void *a, const void *b)
{
    return strcmp(((const struct param_axis *)a)->name, ((const struct param_axis *)b)->name);
}

static int compare_combinations(const void *a, const void *b)
{
    return strcmp(((const struct pl_combination *)a)->json, ((const struct pl_combination *)b)->json);
}

/* Copies a buffer's text into the arena. NULL if out of memory. */
static char *params_take(struct spec_reader *r, struct pl_buf *text)
{
    char *copy = pl_buf_str(text) != NULL ? pl_spec_strdup(r, (const char *)text->data) : NULL;

    if (copy == NULL)
        r->failed = PL_ENOMEM;
    return copy;
}

/* Adds value i to the axis. `in_list`: the value is an element of a list, so the path gets its index. */
static void params_value(struct spec_reader *r, bool in_list, size_t i, json_t *value, struct param_axis *axis)
{
    size_t path_len = r->path.len;
    const char *text;
    char *quoted;

    if (in_list)
        pl_spec_enter_index(r, i);
    text = pl_spec_scalar(r, value);
    pl_spec_leave(r, path_len);
    if (text == NULL)
        return;
    axis->texts[axis->n] = axis->jsons[axis->n] = text;
    if (json_is_string(value)) {
        quoted = pl_json_text(value, JSON_ENCODE_ANY | JSON_COMPACT);
        axis->jsons[axis->n] = quoted != NULL ? pl_spec_strdup(r, quoted) : NULL;
        if (quoted == NULL)
            r->failed = PL_ENOMEM;
        free(quoted);
    }
    axis->n++;
}

static bool params_name(struct spec_reader *r, const char *name)
{
    struct pl_err err = {0};

    if (pl_name_check("parameter", name, &err) == 0)
        return true;
    pl_spec_problem_key(r, "%s", err.msg);
    return false;
}

/* Parses the members of an object into axes, sorted by name. `lists`: each member is a list of values, else
 * one value. */
static struct param_axis *params_axes(struct spec_reader *r, json_t *object, bool lists)
{
    size_t path_len = r->path.len, n = 0, problems = r->n_problems;
    struct param_axis *axes = pl_spec_alloc(r, (json_object_size(object) + 1) * sizeof(*axes));
    const char *key;
    json_t *member;

    if (axes == NULL)
        return NULL;
    json_object_foreach(object, key, member)
    {
        struct param_axis *axis = &axes[n++];
        size_t values = lists ? json_array_size(member) : 1;

        pl_spec_enter_key(r, key);
        axis->name = pl_spec_strdup(r, key);
        axis->texts = pl_spec_alloc(r, (values + 1) * sizeof(*axis->texts));
        axis->jsons = pl_spec_alloc(r, (values + 1) * sizeof(*axis->jsons));
        if (axis->texts == NULL || axis->jsons == NULL || axis->name == NULL || !params_name(r, key))
            values = 0;
        else if (values == 0)
            pl_spec_problem_value(r, member, "a list of values such as [0.1, 0.03]");
        else if (values > PL_PARAMS_MAX)
            pl_spec_problem(r, "%zu values are not accepted: at most %u", values, PL_PARAMS_MAX);
        for (size_t i = 0; i < values && r->n_problems == problems && r->failed == 0; i++)
            params_value(r, lists, i, lists ? json_array_get(member, i) : member, axis);
        pl_spec_leave(r, path_len);
        if (r->n_problems > problems || r->failed < 0)
            return NULL;
    }
    qsort(axes, n, sizeof(*axes), compare_axes);
    return axes;
}

/* Makes the combination that consists of value at[i] of each axis i. */
static void params_combine(struct spec_reader *r, const struct param_axis *axes, size_t n, const size_t *at,
                           struct pl_combination *ret)
{
    _cleanup_(pl_buf_finish) struct pl_buf json = {0};
    int e = 0;

    ret->values = pl_spec_alloc(r, (n + 1) * sizeof(*ret->values));
    for (size_t i = 0; i < n && ret->values != NULL && e == 0; i++) {
        ret->values[i] = axes[i].texts[at[i]];
        e = pl_buf_addf(&json, NULL, "%s\"%s\":%s", i == 0 ? "{" : ",", axes[i].name, axes[i].jsons[at[i]]);
    }
    if (e == 0)
        e = pl_buf_add_str(&json, "}", NULL);
    if (e < 0)
        r->failed = PL_ENOMEM;
    else if (json.len > PL_PARAM_BYTES_MAX)
        pl_spec_problem(r, "a combination of %zu bytes is not accepted: at most %u", json.len, PL_PARAM_BYTES_MAX);
    else
        ret->json = params_take(r, &json);
}

/* Sets the names of the input, and refuses two that would share a variable. */
static void params_names(struct spec_reader *r, const struct param_axis *axes, size_t n, struct pl_input *input)
{
    char a[PL_INPUT_VAR_BYTES], b[PL_INPUT_VAR_BYTES];

    input->param_names = pl_spec_alloc(r, (n + 1) * sizeof(*input->param_names));
    for (size_t i = 0; i < n && input->param_names != NULL; i++) {
        input->param_names[i] = axes[i].name;
        for (size_t k = 0; k < i; k++)
            if (pl_streq(pl_param_var(axes[i].name, a), pl_param_var(axes[k].name, b)))
                pl_spec_problem(r, "the parameters \"%s\" and \"%s\" would share the variable %s: rename one of them",
                                axes[k].name, axes[i].name, a);
    }
    input->n_params = n;
}

/* Parses {"lr": [0.1, 0.03], "k": [1, 2]}: every combination. */
static void params_product(struct spec_reader *r, json_t *value, struct pl_input *input)
{
    size_t n = json_object_size(value), total = 1, at[PL_PARAM_NAMES_MAX] = {0};
    struct param_axis *axes = params_axes(r, value, true);

    if (axes == NULL)
        return;
    for (size_t i = 0; i < n && total <= PL_PARAMS_MAX; i++)
        total *= axes[i].n;
    if (total > PL_PARAMS_MAX) {
        pl_spec_problem(r, "more than %u combinations are not accepted", PL_PARAMS_MAX);
        return;
    }
    params_names(r, axes, n, input);
    input->combinations = pl_spec_alloc(r, total * sizeof(*input->combinations));
    for (size_t c = 0; c < total && input->combinations != NULL && r->failed == 0; c++) {
        params_combine(r, axes, n, at, &input->combinations[input->n_combinations++]);
        for (size_t i = n; i-- > 0;) {
            if (++at[i] < axes[i].n)
                break;
            at[i] = 0;
        }
    }
}

static bool params_same_names(struct spec_reader *r, const struct pl_input *input, const struct param_axis *axes, size_t n)
{
    bool same = n == input->n_params;

    for (size_t i = 0; i < n && same; i++)
        same = pl_streq(input->param_names[i], axes[i].name);
    if (!same)
        pl_spec_problem(r, "the names differ from those of the first combination: all combinations need the same names");
    return same;
}

/* Parses [{"lr": 0.1, "k": 1}, …]: exactly these combinations. */
static void params_list(struct spec_reader *r, json_t *value, struct pl_input *input)
{
    static const size_t first[PL_PARAM_NAMES_MAX];
    size_t path_len = r->path.len, problems = r->n_problems;

    input->combinations = pl_spec_alloc(r, json_array_size(value) * sizeof(*input->combinations));
    for (size_t c = 0; c < json_array_size(value) && input->combinations != NULL; c++) {
        json_t *object = json_array_get(value, c);
        size_t n = json_object_size(object);
        struct param_axis *axes = NULL;

        pl_spec_enter_index(r, c);
        if (n == 0 || n > PL_PARAM_NAMES_MAX)
            pl_spec_problem_value(r, object, "an object of 1 to 64 values such as {\"lr\": 0.1, \"k\": 1}");
        else
            axes = params_axes(r, object, false);
        if (axes != NULL && c == 0)
            params_names(r, axes, n, input);
        if (axes != NULL && params_same_names(r, input, axes, n))
            params_combine(r, axes, n, first, &input->combinations[input->n_combinations++]);
        pl_spec_leave(r, path_len);
        if (r->n_problems > problems || r->failed < 0)
            return;
    }
}

/* Sets input->params, the canonical JSON: for an object the lists as written, for a list the sorted
 * combinations. */
static void params_spell(struct spec_reader *r, json_t *value, struct pl_input *input)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = PL_SPEC_MAX_BYTES};
    char *product = json_is_object(value) ? pl_json_text(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int e = product != NULL ? pl_buf_add_str(&text, product, NULL) : pl_buf_add_str(&text, "[", NULL);

    for (size_t i = 0; product == NULL && i < input->n_combinations && e == 0; i++)
        e = pl_buf_addf(&text, NULL, "%s%s", i > 0 ? "," : "", input->combinations[i].json);
    if (product == NULL && e == 0)
        e = pl_buf_add_str(&text, "]", NULL);
    free(product);
    if (e < 0)
        r->failed = PL_ENOMEM;
    else
        input->params = params_take(r, &text);
}

static void read_params(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_input *input = object;
    size_t problems = r->n_problems, n = json_is_object(value) ? json_object_size(value) : json_array_size(value);

    if (n == 0 || n > (json_is_object(value) ? PL_PARAM_NAMES_MAX : PL_PARAMS_MAX)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    if (json_is_object(value))
        params_product(r, value, input);
    else
        params_list(r, value, input);
    if (r->n_problems > problems || r->failed < 0)
        return;
    qsort(input->combinations, input->n_combinations, sizeof(*input->combinations), compare_combinations);
    for (size_t i = 1; i < input->n_combinations && r->n_problems == problems; i++)
        if (pl_streq(input->combinations[i - 1].json, input->combinations[i].json))
            pl_spec_problem(r, "the combination %.200s is given twice", input->combinations[i].json);
    params_spell(r, value, input);
}

static json_t *write_params(const struct spec_field *field, const void *object)
{
    (void)field;
    (void)object;
    return json_null(); /* spec_write_tree writes the whole params input */
}

const struct spec_type pl_spec_type_params = {
    "an object of lists such as {\"lr\": [0.1, 0.03]}, or a list of objects such as [{\"lr\": 0.1}]; at most 64 names",
    "{\"anyOf\":[{\"type\":\"object\",\"additionalProperties\":{\"type\":\"array\"}},{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\"}}]}",
    read_params, write_params};

/* ---- "${…}" in commands and variables: only ${params.NAME} is replaced there. What looks like one of our variables and is none
 * is a mistake, which would otherwise reach the command as it is; any other "${" is the shell's ---- */

#define NAME_SHOWN 60 /* bytes of a name that messages show */

/* True if some datum, or (`every`) each datum, has the parameter. */
static bool has_param(const struct pl_stage *stage, const char *name, size_t len, bool every)
{
    bool all = pl_input_always(stage->input, "params"), some = false;

    for (size_t j = 0; j < stage->n_leaves; j++) {
        const struct pl_input *leaf = stage->leaves[j];
        bool found = false;

        for (size_t k = 0; k < leaf->n_params; k++)
            found = found || (strlen(leaf->param_names[k]) == len && memcmp(leaf->param_names[k], name, len) == 0);
        some = some || found;
        all = all && (found || pl_input_reads(leaf));
    }
    return every ? all : some;
}

/* Writes the parameters that the stage's inputs have: "; there are ${params.a}, ${params.b}". */
static int list_params(const struct pl_stage *stage, struct pl_buf *out, struct pl_err *err)
{
    size_t n = 0;
    int r = 0;

    for (size_t j = 0; j < stage->n_leaves && r == 0; j++) {
        const struct pl_input *leaf = stage->leaves[j];

        for (size_t k = 0; k < leaf->n_params && r == 0; k++, n++)
            r = pl_buf_addf(out, err, "%s${params.%.*s}", n == 0 ? "; there is " : ", ", NAME_SHOWN, leaf->param_names[k]);
    }
    if (r == 0 && n == 0)
        r = pl_buf_add_str(out, "; the stage has no params: add {\"params\": {\"NAME\": […]}} to its input", err);
    return r;
}

/* Adds the problem of the variable at `open`, with what exists. */
static void refuse(struct spec_reader *r, const struct pl_stage *stage, const char *open, size_t len, const char *why)
{
    _cleanup_(pl_buf_finish) struct pl_buf list = {.max = 2048};

    if (list_params(stage, &list, NULL) == PL_ENOMEM || !pl_buf_str(&list))
        r->failed = PL_ENOMEM;
    else
        pl_spec_problem(r, "%.*s: %s%s; $%.*s is the literal text", (int)PL_MIN(len, (size_t)NAME_SHOWN), open, why,
                        (const char *)list.data, (int)PL_MIN(len, (size_t)NAME_SHOWN), open);
}

/* Returns the input that the variable begins with the name of, before a dot; NULL = none. */
static const struct pl_input *named_input(const struct pl_stage *stage, const char *name, size_t len)
{
    for (size_t j = 0; j < stage->n_leaves; j++) {
        size_t n = stage->leaves[j]->name ? strlen(stage->leaves[j]->name) : 0;

        if (n > 0 && len > n && name[n] == '.' && memcmp(stage->leaves[j]->name, name, n) == 0)
            return stage->leaves[j];
    }
    return NULL;
}

/* Checks one variable: `open` is its "${", `len` its length with the closing brace. */
static void check_variable(struct spec_reader *r, const struct pl_stage *stage, const char *open, size_t len)
{
    static const char params[] = "params.", param[] = "param.";
    const char *name = open + 2;
    size_t name_len = len - 2 - (open[len - 1] == '}');
    const struct pl_input *input;
    char why[2 * PL_NAME_MAX_BYTES + 160], var[PL_INPUT_VAR_BYTES];

    if (name_len >= strlen(params) && memcmp(name, params, strlen(params)) == 0) {
        const char *of = name + strlen(params);
        size_t of_len = name_len - strlen(params);

        if (open[len - 1] != '}')
            refuse(r, stage, open, len, "it is never closed by }");
        else if (has_param(stage, of, of_len, false) && !has_param(stage, of, of_len, true))
            refuse(r, stage, open, len, "not every datum has a parameter of that name");
        else if (!has_param(stage, of, of_len, false))
            refuse(r, stage, open, len, "there is no parameter of that name");
        return;
    }
    if (name_len >= strlen(param) && memcmp(name, param, strlen(param)) == 0) {
        refuse(r, stage, open, len, "the word is params");
        return;
    }
    input = named_input(stage, name, name_len);
    if (input) {
        snprintf(why, sizeof why, "only parameters are replaced here; the path of input \"%s\" is in the variable %s",
                 input->name, pl_input_var(input->name, var));
        refuse(r, stage, open, len, why);
    } else if (name_len == 5 && memcmp(name, "datum", 5) == 0)
        pl_spec_warning(r,
                        "${datum} is not replaced here: the datum's id is in the variable PL_DATUM_ID; $${datum} is the literal "
                        "text");
}

static void check_text(struct spec_reader *r, const struct pl_stage *stage, const char *text)
{
    const char *open, *close;

    while ((open = pl_param_text_open(text)) != NULL) {
        close = strchr(open, '}');
        check_variable(r, stage, open, close ? (size_t)(close - open) + 1 : strlen(open));
        text = open + 2;
    }
}

/* True if the script has the word "datum" elsewhere than in "${datum}": it is then perhaps a variable of the script's own. */
static bool has_own_datum(const char *text)
{
    for (const char *p = text; (p = strstr(p, "datum")) != NULL; p += strlen("datum"))
        if (p < text + 2 || memcmp(p - 2, "${datum}", strlen("${datum}")) != 0)
            return true;
    return false;
}

/* Warns of the variables of commands in a script or a standard input, in which nothing is replaced. A shell reports the names
 * with a dot as bad substitutions, and may go on with an empty value. */
static void check_script(struct spec_reader *r, const struct pl_stage *stage, const char *text, const char *where)
{
    static const char params[] = "params.", param[] = "param.";
    char name[NAME_SHOWN + 1], var[PL_INPUT_VAR_BYTES];
    const char *open, *close, *rest = text ? text : "";

    while ((open = pl_param_text_open(rest)) != NULL) {
        const struct pl_input *input;
        const char *dot;
        size_t len;

        rest = open + 2;
        close = strchr(open, '}');
        len = close ? (size_t)(close - rest) : 0;
        if (len == 0 || len > NAME_SHOWN)
            continue;
        memcpy(name, rest, len);
        name[len] = '\0';
        dot = strchr(name, '.');
        input = named_input(stage, name, len);
        if (dot && (strncmp(name, params, strlen(params)) == 0 || strncmp(name, param, strlen(param)) == 0))
            pl_spec_warning(r, "${%s} is not replaced in %s: the value is in the variable %s", name, where,
                            pl_param_var(dot + 1, var));
        else if (input != NULL)
            pl_spec_warning(r, "${%s} is not replaced in %s: the path of input \"%s\" is in the variable %s", name, where,
                            input->name, pl_input_var(input->name, var));
        else if (strcmp(name, "datum") == 0 && !has_own_datum(text))
            pl_spec_warning(r, "${datum} is not replaced in %s: the datum's id is in the variable PL_DATUM_ID", where);
    }
}

static void check_texts(struct spec_reader *r, const struct pl_stage *stage, const char *const *texts, size_t n)
{
    size_t path_len = r->path.len;

    for (size_t k = 0; k < n; k++) {
        pl_spec_enter_index(r, k);
        check_text(r, stage, texts[k]);
        pl_spec_leave(r, path_len);
    }
}

/* Checks that a batch command uses no parameter: it has many datums. */
static void check_batch(struct spec_reader *r, const struct pl_stage *stage)
{
    size_t path_len = r->path.len;

    for (size_t k = 0; k < stage->n_run && stage->datum.batch; k++) {
        const char *name, *rest = stage->run[k];
        size_t len;

        if (pl_param_text_next(rest, &name, &len, &rest) == NULL || !has_param(stage, name, len, false))
            continue;
        pl_spec_enter_index(r, k);
        pl_spec_problem(
            r, "a batch command starts once for many datums: it has to read each datum's /pfs/params/params.json, or d.params");
        pl_spec_leave(r, path_len);
    }
}

/* A stored spec has no context. It was checked when it was created, perhaps by an older daemon, and must stay readable. */
void pl_spec_check_variables(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    size_t stage_len;

    if (r->ctx == NULL || r->pachyderm != NULL)
        return;
    pl_spec_enter_stage(r, i);
    stage_len = r->path.len;
    pl_spec_enter_key(r, "run");
    check_texts(r, stage, stage->run, stage->n_run);
    check_batch(r, stage);
    pl_spec_leave(r, stage_len);
    pl_spec_enter_key(r, "script");
    check_script(r, stage, stage->script, "a script");
    pl_spec_leave(r, stage_len);
    pl_spec_enter_key(r, "stdin");
    check_script(r, stage, stage->stdin_text, "standard input");
    pl_spec_leave(r, stage_len);
    pl_spec_enter_key(r, "on_error");
    pl_spec_enter_key(r, "run");
    check_texts(r, stage, stage->err_run, stage->n_err_run);
    pl_spec_leave(r, stage_len);
    for (size_t k = 0; k < stage->n_env; k++) {
        pl_spec_enter_key(r, "env");
        pl_spec_enter_key(r, stage->env[k].key);
        check_text(r, stage, stage->env[k].value);
        pl_spec_leave(r, stage_len);
    }
}
