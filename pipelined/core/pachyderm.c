#include "pachyderm.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define PACHYDERM_TRIES 3
#define PACHYDERM_GPU   "nvidia.com/gpu"

/* Fields that Pachyderm knows and that have no counterpart here yet. */
static const char *const later_of_file[] = {"tf_job",
                                            "output_branch",
                                            "s3_out",
                                            "resource_requests",
                                            "sidecar_resource_limits",
                                            "sidecar_resource_requests",
                                            "service",
                                            "spout",
                                            "salt",
                                            "scheduling_spec",
                                            "tolerations",
                                            "datum_set_spec",
                                            "pod_spec",
                                            "pod_patch",
                                            "metadata",
                                            "reprocess_spec",
                                            "autoscaling",
                                            "maximum_expected_uptime",
                                            "egress",
                                            "determined",
                                            "standby",
                                            "enable_stats",
                                            "cache_size",
                                            "chunk_spec",
                                            "max_queue_size",
                                            "hashtree_spec",
                                            NULL};
static const char *const later_of_transform[] = {"err_stdin",   "secrets",    "image_pull_secrets", "debug",          "user",
                                                 "working_dir", "dockerfile", "memory_volume",      "datum_batching", "build",
                                                 NULL};
static const char *const later_of_pfs[] = {"repo_type",   "commit", "join_on", "outer_join",       "group_by", "lazy",
                                           "empty_files", "s3",     "trigger", "propagation_spec", NULL};
static const char *const later_of_input[] = {"join", "group", "cron", "git", NULL};
static const char *const later_of_limits[] = {"cpu", "memory", "disk", NULL};
static const char *const nothing[] = {NULL};

/* How one field is mapped: its value goes to a member of the stage, or wherever `map` puts it. */
struct field {
    const char *name;
    void (*map)(struct spec_reader *r, json_t *value, json_t *to, const char *key);
    const char *key;
};

bool pl_pachyderm_is(const json_t *root)
{
    return json_is_object(json_object_get(root, "pipeline")) || json_object_get(root, "transform") != NULL;
}

/* "datumTries" → "datum_tries". */
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

static bool one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (pl_streq(*words, word))
            return true;
    return false;
}

/* Walks the members of an object: each by its field, all others refused by name. */
static void map_object(struct spec_reader *r, json_t *value, const struct field *fields, size_t n, const char *const *later,
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
        char name[64];

        snake(key, name);
        for (size_t i = 0; i < n; i++)
            if (pl_streq(fields[i].name, name))
                field = &fields[i];
        if (pl_streq(key, "$schema") || json_is_null(member))
            continue;
        pl_spec_enter_key(r, key);
        if (!pl_streq(key, name) && json_object_get(value, name) != NULL && !json_is_null(json_object_get(value, name)))
            pl_spec_problem_key(r, "\"%s\" and \"%s\" are one field: give one of them", name, key);
        else if (field != NULL)
            field->map(r, member, to, field->key);
        else if (one_of(name, later))
            pl_spec_problem_key(r, "\"%s\" of Pachyderm's form is not available yet", name);
        else
            pl_spec_problem_key(r, "unknown field \"%.60s\": Pachyderm's form has no such field", key);
        pl_spec_leave(r, path_len);
    }
}

/* The native reader checks it. */
static void map_same(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    set(r, to, key, json_incref(value));
}

/* A whole number that is given as a string; else the very value. A new reference. */
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

/* "10s", "1.5s", also "5m". */
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

/* --- pipeline, transform, resources */

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

/* Lines, each with its end. */
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
    else if (json_array_size(value) > 0)
        set(r, to, key, json_stringn((const char *)text.data, text.len));
}

static void map_err_cmd(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    if (json_array_size(value) > 0 || !json_is_array(value))
        set(r, to, key, json_pack("{s:O}", "run", value));
}

/* Code 0 may stand in the list; it is no failure anyway. */
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

static void map_transform(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {
        {"image", map_same, "image"},         {"cmd", map_same, "run"},
        {"stdin", map_stdin, "stdin"},        {"env", map_same, "env"},
        {"err_cmd", map_err_cmd, "on_error"}, {"accept_return_code", map_codes, "accept_codes"},
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
    if (json_is_integer(workers) && json_integer_value(workers) == 0) /* Pachyderm's word for one */
        set(r, to, "workers", json_integer(1));
}

static void map_gpu_type(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    (void)to;
    (void)key;
    if (!json_is_string(value) || !pl_streq(json_string_value(value), PACHYDERM_GPU))
        pl_spec_problem_value(r, value, "\"" PACHYDERM_GPU "\" is the one type of GPU for now");
}

/* {"type", "number"}; of 1.x the number alone. */
static void map_gpu(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"type", map_gpu_type, NULL}, {"number", map_number, "gpu"}};

    if (json_is_integer(value)) {
        pl_spec_warning(r,
                        "\"gpu\": %lld is the form of Pachyderm 1.x: {\"type\": \"" PACHYDERM_GPU
                        "\", \"number\": %lld} says the same",
                        (long long)json_integer_value(value), (long long)json_integer_value(value));
        set(r, to, key, json_incref(value));
    } else {
        map_object(r, value, fields, PL_ARRAY_SIZE(fields), nothing,
                   "an object such as {\"type\": \"" PACHYDERM_GPU "\", \"number\": 1}", to);
    }
    if (json_is_integer(json_object_get(to, key)) && json_integer_value(json_object_get(to, key)) == 0)
        (void)json_object_del(to, key);
}

static void map_limits(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    static const struct field fields[] = {{"gpu", map_gpu, "gpu"}};

    (void)key;
    map_object(r, value, fields, PL_ARRAY_SIZE(fields), later_of_limits, "an object with a \"gpu\"", to);
}

/* --- inputs */

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

/* As Pachyderm cleans it: one '/' before, none behind. */
static void map_glob(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
    const char *text = json_string_value(value);
    size_t len;

    if (text == NULL || text[0] == '\0') {
        pl_spec_problem_value(r, value, "a glob such as \"/\" or \"/*\"");
        return;
    }
    text += strspn(text, "/");
    len = strlen(text);
    while (len > 0 && text[len - 1] == '/')
        len--;
    set(r, to, key, json_sprintf("/%.*s", (int)len, text));
}

/* Repo, branch and project are one text in the native form. */
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

/* --- the whole */

static void map_tries(struct spec_reader *r, json_t *value, json_t *to, const char *key)
{
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
    };
    static const char *const of_file[] = {"pipeline", "project", "description"};
    json_t *stage = json_pack("{s:{s:i}, s:s, s:{s:b}}", "datum", "tries", PACHYDERM_TRIES, "on_new", "queue", "output",
                              "copy_links", 1),
           *file = json_object();

    if (stage == NULL || file == NULL) {
        json_decref(stage);
        json_decref(file);
        r->failed = PL_ENOMEM;
        return NULL;
    }
    map_object(r, root, fields, PL_ARRAY_SIZE(fields), later_of_file, "an object", stage);
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

/* Appends a path of names in snake_case in the spelling that the text has. */
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
        {"stages[0].gpu", "resource_limits.gpu"},
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
