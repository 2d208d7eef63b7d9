/* Converts Pachyderm's pipeline spec by tables: each field is copied, or passed to a function that converts
 * it. */
#include "pipelined/spec/spec_pachyderm.h"

#include "pipelined/text/param_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define PACHYDERM_TRIES 3

/* Fields of Pachyderm that have no counterpart here yet. "NAME" is refused with every value that is_absent is not; "NAME=" is accepted if its
 * value is zero (is_zero), "NAME=WORD" also if it is this word: that says the same as leaving it out, and programs that
 * write a whole spec write it. */
static const char later_of_file[] =
    " tf_job output_branch=master s3_out= sidecar_resource_limits= sidecar_resource_requests= service spout salt datum_set_spec="
    " reprocess_spec=until_success maximum_expected_uptime= egress determined standby= enable_stats= cache_size chunk_spec="
    " max_queue_size= hashtree_spec ";
static const char later_of_transform[] =
    " err_stdin image_pull_secrets debug= working_dir dockerfile memory_volume= datum_batching= build ";
static const char later_of_pfs[] =
    " repo_type=user commit join_on outer_join= group_by lazy= empty_files= s3= trigger propagation_spec= ";
static const char later_of_input[] = " join group cron git ";
static const char nothing[] = "";

/* How one field is converted: function `map` gets the field's value and usually stores the result as
 * member `key` of the native object `to`. */
struct field {
    const char *name;
    void (*map)(struct spec_reader *r, json_t *value, json_t *to, const char *key);
    const char *key;
};

bool pl_pachyderm_is(const json_t *root)
{
    return json_is_object(json_object_get(root, "pipeline")) || json_object_get(root, "transform") != NULL;
}

/* Converts camelCase to snake_case: "datumTries" → "datum_tries". */
static void snake(const char *key, char out[64])
{
    size_t n = 0;

    for (; *key != '\0' && n + 2 < 64; key++) {
        if (isupper((unsigned char)*key))
            out[n++] = '_';
        out[n++] = (char)tolower((unsigned char)*key);
    }
    out[n] = '\0';
}

static void set(struct spec_reader *r, json_t *to, const char *key, json_t *value)
{
    if (json_object_set_new(to, key, value) < 0)
        r->failed = PL_ENOMEM;
}

/* Finds a name in a list of later fields; returns what follows it, "=…" or a space. NULL if it is not there. */
static const char *find_later(const char *name, const char *list)
{
    size_t n = strlen(name);

    for (const char *at = list; n > 0 && (at = strstr(at, name)) != NULL; at += n)
        if (at > list && at[-1] == ' ' && (at[n] == ' ' || at[n] == '='))
            return at + n;
    return NULL;
}

/* True if the value of any field says the same as leaving the field out: Pachyderm's specs are protobuf, in which an empty
 * text and an empty list are not there. */
static bool is_absent(const json_t *value)
{
    return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

/* True for a number, an amount or a duration of 0, as a number or as text ("0", "0s", "0Mi"). */
static bool is_no_amount(const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;

    if (text == NULL)
        return json_is_number(value) && json_number_value(value) == 0;
    return isdigit((unsigned char)*text) && strtod(text, &end) == 0 && end[strspn(end, "smkMGTPEi")] == '\0';
}

/* True for false, 0, and an object whose members all are zero or absent. */
static bool is_zero(const json_t *value)
{
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!is_absent(member) && !is_zero(member))
            return false;
    }
    return json_is_object(value) || json_is_false(value) || is_no_amount(value);
}

/* True if the value says the same as leaving out the field of which find_later returned this. */
static bool is_default(const char *later, const json_t *value)
{
    size_t n = strcspn(later, " ");

    return *later == '=' && (is_zero(value) || (json_is_string(value) && json_string_length(value) == n - 1 &&
                                                memcmp(json_string_value(value), later + 1, n - 1) == 0));
}

/* Converts the members of an object that the table `fields` lists, and refuses all others by name. The error
 * for a name in `later` says that it is not available yet, unless its value is the default. */
static void map_object(struct spec_reader *r, json_t *value, const struct field *fields, size_t n, const char *later,
                       const char *accepts, json_t *to)
{
    size_t path_len = r->path.len;
    const char *key;
    json_t *member;

    if (!json_is_object(value)) {
        pl_spec_problem_value(r, value, accepts);
        return;
    }
    json_object_foreach(value, key, member)
    {
        const struct field *field = NULL;
        const char *missing;
        char name[64];

        snake(key, name);
        for (size_t i = 0; i < n; i++)
            if (pl_streq(fields[i].name, name))
                field = &fields[i];
        missing = find_later(name, later);
        if (pl_streq(key, "$schema") || json_is_null(member) || ((field != NULL || missing != NULL) && is_absent(member)) ||
            (missing != NULL && is_default(missing, member)))
            continue;
        pl_spec_enter_key(r, key);
        if (!pl_streq(key, name) && json_object_get(value, name) != NULL && !json_is_null(json_object_get(value, name)))
            pl_spec_problem_key(r, "\"%s\" and \"%s\" are the same field: give only one of them", name, key);
        else if (field != NULL)
            field->map(r, member, to, field->key);
        else if (missing != NULL)
            pl_spec_problem_key(r, "\"%s\" of Pachyderm's form is not available yet", name);
        else
            pl_spec_problem_key(r, "unknown field \"%.60s\": Pachyderm's form has no such field", key);
        pl_spec_leave(r, path_len);
    }
}

/* Copies the value without a change; the native parser checks it. */
static void map_same(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    set(r, to, key, json_incref(value));
}

/* Converts a whole number that is given as a string; leaves any other value unchanged. Returns a new
 * reference. */
static json_t *number(json_t *value)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    long long n;

    if (text == NULL || !isdigit((unsigned char)*text))
        return json_incref(value);
    errno = 0;
    n = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0 ? json_integer(n) : json_incref(value);
}

static void map_number(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    set(r, to, key, number(value));
}

/* Converts seconds such as "10s" or "1.5s" to milliseconds; copies other forms, such as "5m", unchanged. */
static void map_duration(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    const char *text = json_string_value(value);
    char *end = NULL, ms[40];
    double seconds = text != NULL && isdigit((unsigned char)*text) ? strtod(text, &end) : 0;

    if (text == NULL || end == NULL || !pl_streq(end, "s") || seconds > 1e9 || seconds < 0.0005) {
        set(r, to, key, json_incref(value));
        return;
    }
    (void)snprintf(ms, sizeof(ms), "%lldms", (long long)(seconds * 1000 + 0.5));
    set(r, to, key, json_string(ms));
}

/* Converts each element of a list by the table `fields`. */
static void map_list(struct spec_reader *r, json_t *value, const struct field *fields, size_t n, const char *accepts, json_t *to,
                     const char *key)
{
    size_t path_len = r->path.len;
    json_t *list = json_array();

    if (!json_is_array(value))
        pl_spec_problem_value(r, value, accepts);
    for (size_t i = 0; i < json_array_size(value) && list != NULL; i++) {
        json_t *element = json_object();

        pl_spec_enter_index(r, i);
        map_object(r, json_array_get(value, i), fields, n, nothing, "an object", element);
        pl_spec_append(&list, element);
        pl_spec_leave(r, path_len);
    }
    set(r, to, key, list);
}

/* ---- pipeline, transform, resources ---- */

static void map_project_name(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"name", map_same, "project"}};

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with a \"name\"", to);
}

static void map_pipeline(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"name", map_same, "pipeline"}, {"project", map_project_name, NULL}};

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with a \"name\"", to);
}

/* Joins the list of lines into one text, with a line end after each line. */
static void map_stdin(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = PL_SPEC_MAX_BYTES};
    int e = 0;

    if (!json_is_array(value)) {
        pl_spec_problem_value(r, value, "a list of lines");
        return;
    }
    for (size_t i = 0; i < json_array_size(value) && e == 0; i++) {
        const char *line = json_string_value(json_array_get(value, i));

        if (line == NULL) {
            pl_spec_problem_value(r, value, "a list of lines");
            return;
        }
        e = pl_buf_addf(&text, NULL, "%s\n", line);
    }
    if (e < 0 || pl_buf_str(&text) == NULL)
        r->failed = PL_ENOMEM;
    else
        set(r, to, key, json_stringn((const char *)text.data, text.len));
}

/* Returns the text with "$${" escaped, so that it reaches the command as it is written: Pachyderm has no escapes. A new
 * reference; NULL if out of memory. */
static json_t *escaped(const char *text)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    return pl_param_text_escape(text, &out, NULL) < 0 || pl_buf_str(&out) == NULL ? NULL : json_string((const char *)out.data);
}

/* Copies a list or an object of texts, each escaped. Other values are copied for the native form's checks. */
static void map_texts(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    json_t *copy = json_is_array(value) || json_is_object(value) ? json_copy(value) : json_incref(value), *one;
    const char *name;
    size_t i;

    json_array_foreach(copy, i, one) if (json_is_string(one) && json_array_set_new(copy, i, escaped(json_string_value(one))) < 0)
        r->failed = PL_ENOMEM;
    json_object_foreach(copy, name,
                        one) if (json_is_string(one) && json_object_set_new(copy, name, escaped(json_string_value(one))) < 0)
        r->failed = PL_ENOMEM;
    set(r, to, key, copy);
}

static void map_err_cmd(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    json_t *command = json_object();

    map_texts(r, value, command, "run");
    set(r, to, key, command);
}

/* Copies the list without code 0, which is a success anyway. */
static void map_codes(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    json_t *codes = json_is_array(value) ? json_array() : json_incref(value);

    for (size_t i = 0; json_is_array(value) && i < json_array_size(value) && codes != NULL; i++) {
        json_t *code = number(json_array_get(value, i));

        if (!json_is_integer(code) || json_integer_value(code) != 0)
            pl_spec_append(&codes, json_incref(code));
        json_decref(code);
    }
    set(r, to, key, codes);
}

static void map_secrets(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {
        {"name", map_same, "name"}, {"key", map_same, "key"}, {"mount_path", map_same, "mount"}, {"env_var", map_same, "env"}};

    map_list(r, value, fields, PL_ARRAY_SIZE(fields), "a list of {\"name\", \"mount_path\"} or {\"name\", \"key\", \"env_var\"}",
             to, key);
}

static void map_transform(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {
        {"image", map_same, "image"},         {"cmd", map_texts, "run"},
        {"stdin", map_stdin, "stdin"},        {"env", map_texts, "env"},
        {"err_cmd", map_err_cmd, "on_error"}, {"accept_return_code", map_codes, "accept_codes"},
        {"user", map_same, "user"},           {"secrets", map_secrets, "secrets"},
    };

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), later_of_transform, "an object with a \"cmd\"", to);
}

static void map_parallelism(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"constant", map_number, "workers"}};
    json_t *workers;

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with a \"constant\"", to);
    workers = json_object_get(to, "workers");
    if (json_is_integer(workers) && json_integer_value(workers) == 0) /* in Pachyderm 0 means 1 */
        set(r, to, "workers", json_integer(1));
}

/* Copies the name of the GPU resource, unless it is the default. The native parser warns about the name that
 * Kubernetes 1.3 to 1.10 used. */
static void map_gpu_type(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    if (!json_is_string(value) || !pl_streq(json_string_value(value), PL_GPU_RESOURCE))
        set(r, to, key, json_incref(value));
}

/* Converts {"type", "number"}, or the number alone, as in Pachyderm 1.x. */
static void map_gpu(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"type", map_gpu_type, "resource"}, {"number", map_number, "count"}};
    json_t *gpu = json_object(), *count;

    if (json_is_integer(value)) {
        pl_spec_warning(r,
                        "\"gpu\": %lld is the form of Pachyderm 1.x: {\"type\": \"" PL_GPU_RESOURCE
                        "\", \"number\": %lld} says the same",
                        (long long)json_integer_value(value), (long long)json_integer_value(value));
        set(r, gpu, "count", json_incref(value));
    } else {
        map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing,
                   "an object such as {\"type\": \"" PL_GPU_RESOURCE "\", \"number\": 1}", gpu);
    }
    count = json_object_get(gpu, "count");
    if (count != NULL && !(json_is_integer(count) && json_integer_value(count) == 0))
        set(r, to, key, json_object_size(gpu) == 1 && json_is_integer(count) ? json_incref(count) : json_incref(gpu));
    json_decref(gpu);
}

/* Copies an amount. 0 says the same as leaving it out. */
static void map_amount(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    if (!is_no_amount(value))
        map_same(r, value, to, key);
}

/* Converts resource_limits into "limits" of the stage, which join_resources merges later, and into `gpu`. */
static void map_limits(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"cpu", map_amount, "cpu_limit"},
                                          {"memory", map_amount, "memory"},
                                          {"disk", map_amount, "disk"},
                                          {"gpu", map_gpu, "gpu"}};
    json_t *limits = json_object(), *gpu;

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with \"cpu\", \"memory\", \"disk\" or \"gpu\"",
               limits);
    gpu = json_object_get(limits, "gpu");
    if (gpu != NULL)
        set(r, to, "gpu", json_incref(gpu));
    (void)json_object_del(limits, "gpu");
    if (json_object_size(limits) > 0)
        set(r, to, "limits", json_incref(limits));
    json_decref(limits);
}

static void map_request_gpu(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    (void)value;
    (void)to;
    (void)key;
    pl_spec_warning(r, "GPUs are set by \"resource_limits\": this field has no effect");
}

static void map_requests(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"cpu", map_amount, "cpu"},
                                          {"memory", map_amount, "memory"},
                                          {"disk", map_amount, "disk"},
                                          {"gpu", map_request_gpu, NULL}};
    json_t *requests = json_object();

    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with \"cpu\", \"memory\" or \"disk\"", requests);
    if (json_object_size(requests) > 0)
        set(r, to, key, json_incref(requests));
    json_decref(requests);
}

/* Merges "requests" and "limits" into `resources`, independent of their order in the text. A limit of memory
 * or disk wins over a request; a smaller memory request becomes `memory_request`. Without a limit, the memory
 * request is the limit, too. */
static void join_resources(struct spec_reader *r, json_t *stage)
{
    json_t *requests = json_incref(json_object_get(stage, "requests")), *limits = json_incref(json_object_get(stage, "limits"));
    json_t *resources = requests != NULL ? json_incref(requests) : json_object(), *value, *request;
    const char *key;

    (void)json_object_del(stage, "requests");
    (void)json_object_del(stage, "limits");
    json_object_foreach(limits, key, value)
    {
        request = json_object_get(resources, key);
        if (pl_streq(key, "memory") && request != NULL && !json_equal(request, value))
            set(r, resources, "memory_request", json_incref(request));
        set(r, resources, key, json_incref(value));
    }
    if (json_object_get(limits, "memory") == NULL && json_object_get(requests, "memory") != NULL)
        pl_spec_warning(r, "a memory request without a limit is also the limit: set another limit with "
                           "\"resource_limits\"");
    if (json_object_size(resources) > 0)
        set(r, stage, "resources", json_incref(resources));
    json_decref(resources);
    json_decref(requests);
    json_decref(limits);
}

/* ---- inputs ---- */

static void map_input(struct spec_reader *r, json_t *value, json_t *to, const char *key);

static void map_inputs(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    size_t path_len = r->path.len;
    json_t *list = json_array();

    if (!json_is_array(value))
        pl_spec_problem_value(r, value, "a list of inputs");
    for (size_t i = 0; i < json_array_size(value) && list != NULL; i++) {
        json_t *holder = json_object();

        pl_spec_enter_index(r, i);
        map_input(r, json_array_get(value, i), holder, "input");
        pl_spec_append(&list, json_incref(json_object_get(holder, "input")));
        json_decref(holder);
        pl_spec_leave(r, path_len);
    }
    set(r, to, key, list);
}

/* Normalises a glob like Pachyderm: one '/' in front, none at the end. There a folder of two stars stands for at
 * least one folder, as any text between two slashes. Natively it may stand for none, so a folder of one star
 * follows it. */
static void map_glob(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    _cleanup_(pl_buf_finish) struct pl_buf glob = {.max = PL_SPEC_MAX_BYTES};
    const char *text = json_string_value(value);
    size_t len;
    int e = 0;

    if (text == NULL) {
        pl_spec_problem_value(r, value, "a glob such as \"/\" or \"/*\"");
        return;
    }
    text += strspn(text, "/");
    len = strlen(text);
    while (len > 0 && text[len - 1] == '/')
        len--;
    for (size_t at = 0, n; e == 0 && at < len; at += n) {
        const char *slash = memchr(text + at, '/', len - at);

        n = slash != NULL ? (size_t)(slash - text) - at + 1 : len - at;
        e = pl_buf_addf(&glob, NULL, "%.*s%s", (int)n, text + at, n == 3 && memcmp(text + at, "**/", 3) == 0 ? "*/" : "");
    }
    if (e < 0)
        r->failed = PL_ENOMEM;
    else
        set(r, to, key, json_sprintf("/%s", glob.len > 0 ? pl_buf_str(&glob) : ""));
}

/* Converts a pfs input. In the native form, project, repo and branch are one string. */
static void map_pfs(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"project", map_same, "project"}, {"name", map_same, "name"},
                                          {"repo", map_same, "repo"},       {"branch", map_same, "branch"},
                                          {"glob", map_glob, "glob"},       {"reference", map_same, "reference"}};
    json_t *leaf = json_object();
    const char *project, *repo, *branch;

    map_object(r, value, fields, PL_ARRAY_SIZE(fields), later_of_pfs, "an object with a \"repo\" and a \"glob\"", leaf);
    project = json_string_value(json_object_get(leaf, "project"));
    repo = json_string_value(json_object_get(leaf, "repo"));
    branch = json_string_value(json_object_get(leaf, "branch"));
    if (json_is_object(value) && repo == NULL)
        pl_spec_problem(r, "input must specify a \"repo\"");
    if (json_is_object(value) && json_object_get(leaf, "glob") == NULL)
        pl_spec_problem(r, "input must specify a \"glob\"");
    if (repo != NULL)
        set(r, leaf, "repo",
            json_sprintf("%s%s%s@%s", project != NULL ? project : "", project != NULL ? "/" : "", repo,
                         branch != NULL ? branch : PL_DEFAULT_BRANCH));
    (void)json_object_del(leaf, "project");
    (void)json_object_del(leaf, "branch");
    set(r, to, key, leaf);
}

static void map_input(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"pfs", map_pfs, "pfs"},
                                          {"cross", map_inputs, "cross"},
                                          {"union", map_inputs, "union"}};
    json_t *tree = json_object();

    map_object(r, value, fields, PL_ARRAY_SIZE(fields), later_of_input, "an object with a \"pfs\", a \"cross\" or a \"union\"",
               tree);
    if (json_object_size(tree) > 1)
        pl_spec_problem(r, "multiple input types set: one of pfs, cross and union");
    set(r, to, key, tree);
}

/* ---- placement ---- */

/* Returns the stage's placement object, which pl_pachyderm_map creates. */
static json_t *placement_of(json_t *to)
{
    return json_object_get(to, "placement");
}

static void map_scheduling(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"node_selector", map_same, "node_selector"},
                                          {"priority_class_name", map_same, "priority_class"}};

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with a \"node_selector\"", placement_of(to));
}

/* Converts a word of Pachyderm's enumerations, such as EXISTS or NO_SCHEDULE. `words` is a list of pairs; ""
 * as the second word leaves the field out. */
static void map_enum(struct spec_reader *r, json_t *value, json_t *to, const char *key, const char *const (*words)[2],
                     const char *accepts)
{
    for (; json_is_string(value) && (*words)[0] != NULL; words++) {
        if (!pl_streq((*words)[0], json_string_value(value)))
            continue;
        if ((*words)[1][0] != '\0')
            set(r, to, key, json_string((*words)[1]));
        return;
    }
    pl_spec_problem_value(r, value, accepts);
}

static void map_operator(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const char *const words[][2] = {{"EXISTS", "Exists"}, {"EQUAL", "Equal"}, {NULL, NULL}};

    map_enum(r, value, to, key, words, "EQUAL or EXISTS");
}

static void map_effect(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const char *const words[][2] = {{"ALL_EFFECTS", ""},
                                           {"NO_SCHEDULE", "NoSchedule"},
                                           {"PREFER_NO_SCHEDULE", "PreferNoSchedule"},
                                           {"NO_EXECUTE", "NoExecute"},
                                           {NULL, NULL}};

    map_enum(r, value, to, key, words, "ALL_EFFECTS, NO_SCHEDULE, PREFER_NO_SCHEDULE or NO_EXECUTE");
}

static void map_tolerations(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"key", map_same, "key"},
                                          {"operator", map_operator, "operator"},
                                          {"value", map_same, "value"},
                                          {"effect", map_effect, "effect"},
                                          {"toleration_seconds", map_number, "toleration_seconds"}};
    size_t path_len = r->path.len;

    map_list(r, value, fields, PL_ARRAY_SIZE(fields), "a list of tolerations", placement_of(to), key);
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *one = json_array_get(value, i);

        pl_spec_enter_index(r, i);
        if (json_is_object(one) && json_object_get(one, "operator") == NULL)
            pl_spec_problem(r, "cannot omit key/value comparison operator; specify EQUAL or EXISTS");
        pl_spec_leave(r, path_len);
    }
}

static void map_metadata(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"annotations", map_same, "annotations"}, {"labels", map_same, "labels"}};

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing, "an object with \"annotations\" and \"labels\"",
               placement_of(to));
}

/* Converts a patch that is given as a string of JSON; "" = none. */
static void map_json(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    bool is_spec = pl_streq(key, "pod_spec");
    const char *text = json_string_value(value);
    json_t *patch = text != NULL ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (text == NULL || (text[0] != '\0' && (is_spec ? !json_is_object(patch) : !json_is_array(patch))))
        pl_spec_problem(r,
                        is_spec
                            ? "malformed PodSpec: use a string that contains a JSON object, which is merged over the pod's spec"
                            : "malformed PodPatch: use a string that contains a list of JSON Patch operations");
    else if (patch != NULL)
        set(r, placement_of(to), key, json_incref(patch));
    json_decref(patch);
}

/* Ignores `autoscaling` with a warning: workers always start when there are datums, and end when none is
 * left. */
static void map_autoscaling(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    (void)to;
    (void)key;
    if (!json_is_boolean(value))
        pl_spec_problem_value(r, value, "true or false");
    else
        pl_spec_warning(r, "workers always start when there are datums and end when none is left: \"autoscaling\" has no effect");
}

/* ---- whole spec ---- */

/* 0 says the same as leaving the field out. */
static void map_tries(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    if (!is_no_amount(value))
        map_number(r, value, json_object_get(to, "datum"), key);
}

static void map_datum_timeout(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    map_duration(r, value, json_object_get(to, "datum"), key);
}

json_t *pl_pachyderm_map(struct spec_reader *r, json_t *root)
{
    static const struct field fields[] = {
        {"pipeline", map_pipeline, NULL},
        {"description", map_same, "description"},
        {"transform", map_transform, NULL},
        {"input", map_input, "input"},
        {"parallelism_spec", map_parallelism, NULL},
        {"datum_tries", map_tries, "tries"},
        {"datum_timeout", map_datum_timeout, "timeout"},
        {"job_timeout", map_duration, "timeout"},
        {"resource_limits", map_limits, NULL},
        {"resource_requests", map_requests, "requests"},
        {"scheduling_spec", map_scheduling, NULL},
        {"tolerations", map_tolerations, "tolerations"},
        {"metadata", map_metadata, NULL},
        {"pod_spec", map_json, "pod_spec"},
        {"pod_patch", map_json, "pod_patch"},
        {"autoscaling", map_autoscaling, NULL},
    };
    static const char *const of_file[] = {"pipeline", "project", "description"};
    json_t *stage = json_pack("{s:{s:i}, s:s, s:{s:b}, s:{}}", "datum", "tries", PACHYDERM_TRIES, "on_new", "queue", "output",
                              "copy_links", 1, "placement"),
           *file = json_object();

    if (stage == NULL || file == NULL) {
        json_decref(stage);
        json_decref(file);
        r->failed = PL_ENOMEM;
        return NULL;
    }
    map_object(r, root, fields, PL_ARRAY_SIZE(fields), later_of_file, "an object", stage);
    join_resources(r, stage);
    if (json_object_get(stage, "run") == NULL)
        pl_spec_problem(r, "\"transform\" is missing its \"cmd\": the command and its arguments");
    for (size_t i = 0; i < PL_ARRAY_SIZE(of_file); i++) {
        json_t *value = json_object_get(stage, of_file[i]);

        if (value != NULL)
            set(r, file, of_file[i], json_incref(value));
        (void)json_object_del(stage, of_file[i]);
    }
    if (json_object_get(file, "pipeline") == NULL)
        pl_spec_problem(r, "no pipeline \"name\" specified");
    else
        set(r, stage, "name", json_incref(json_object_get(file, "pipeline")));
    set(r, file, "stages", json_pack("[o]", stage));
    if (r->failed == 0 && r->n_problems == 0)
        return file;
    json_decref(file);
    return NULL;
}

/* Appends a path of snake_case names, each name as the user's text spells it (snake_case or camelCase). */
static int add_as_spelled(struct pl_buf *path, const char *names, const json_t *in)
{
    int e = 0;

    while (*names != '\0' && e == 0) {
        size_t n = strcspn(names, ".");
        const char *spelling = NULL, *key;
        char name[64];
        json_t *member;

        json_object_foreach((json_t *)(uintptr_t)in, key, member)
        {
            snake(key, name);
            if (strlen(name) == n && memcmp(name, names, n) == 0 && !json_is_null(member))
                spelling = key;
        }
        e = pl_buf_addf(path, NULL, "%s%.*s", path->len > 0 ? "." : "", spelling != NULL ? (int)strlen(spelling) : (int)n,
                        spelling != NULL ? spelling : names);
        in = json_object_get(in, spelling != NULL ? spelling : "");
        names += n + (names[n] == '.');
    }
    return e;
}

int pl_pachyderm_path(struct pl_buf *path, const json_t *root)
{
    static const struct {
        const char *native, *theirs;
    } prefixes[] = {
        {"stages[0].run", "transform.cmd"},
        {"stages[0].stdin", "transform.stdin"},
        {"stages[0].env", "transform.env"},
        {"stages[0].image", "transform.image"},
        {"stages[0].accept_codes", "transform.accept_return_code"},
        {"stages[0].on_error.run", "transform.err_cmd"},
        {"stages[0].workers", "parallelism_spec.constant"},
        {"stages[0].datum.tries", "datum_tries"},
        {"stages[0].datum.timeout", "datum_timeout"},
        {"stages[0].timeout", "job_timeout"},
        {"stages[0].gpu.resource", "resource_limits.gpu.type"},
        {"stages[0].gpu.count", "resource_limits.gpu.number"},
        {"stages[0].gpu", "resource_limits.gpu"},
        {"stages[0].user", "transform.user"},
        {"stages[0].secrets", "transform.secrets"},
        {"stages[0].resources.cpu_limit", "resource_limits.cpu"},
        {"stages[0].resources.memory_request", "resource_requests.memory"},
        {"stages[0].resources.cpu", "resource_requests.cpu"},
        {"stages[0].placement.pod_spec", "pod_spec"},
        {"stages[0].placement.pod_patch", "pod_patch"},
        {"stages[0].placement.tolerations", "tolerations"},
        {"stages[0].placement.node_selector", "scheduling_spec.node_selector"},
        {"stages[0].placement.priority_class", "scheduling_spec.priority_class_name"},
        {"stages[0].placement.labels", "metadata.labels"},
        {"stages[0].placement.annotations", "metadata.annotations"},
        {"stages[0].placement", ""},
        {"stages[0].name", "pipeline.name"},
        {"stages[0].input", "input"},
        {"stages[0]", ""},
        {"pipeline", "pipeline.name"},
        {"project", "pipeline.project.name"},
    };
    _cleanup_(pl_buf_finish) struct pl_buf theirs = {0};

    for (size_t i = 0; i < PL_ARRAY_SIZE(prefixes); i++) {
        size_t n = strlen(prefixes[i].native);

        if (path->len < n || memcmp(path->data, prefixes[i].native, n) != 0)
            continue;
        if (add_as_spelled(&theirs, prefixes[i].theirs, root) < 0 || pl_buf_add(&theirs, path->data + n, path->len - n, NULL) < 0)
            return PL_ENOMEM;
        pl_buf_finish(path);
        *path = theirs;
        theirs = (struct pl_buf){0};
        return pl_buf_str(path) != NULL ? 0 : PL_ENOMEM;
    }
    return 0;
}
