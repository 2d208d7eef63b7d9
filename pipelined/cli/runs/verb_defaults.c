/* update and inspect defaults: the default values of stages' fields, for all projects or for one project. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/spec/spec.h"
#include "storage/system/io.h"

#define DEFAULTS_FILE_MAX (1u << 20)

static int read_file(const char *name, struct pl_buf *ret, struct pl_err *err)
{
    ssize_t n;

    if (!pl_streq(name, "-"))
        return pl_io_read_file(name, ret, err);
    n = pl_buf_reserve(ret, DEFAULTS_FILE_MAX, err);
    n = n < 0 ? n : pl_io_read(STDIN_FILENO, ret->data, DEFAULTS_FILE_MAX, "standard input", err);
    ret->len = n > 0 ? (size_t)n : 0;
    return (int)PL_MIN(n, 0);
}

static int update_defaults(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = DEFAULTS_FILE_MAX + 1}, json = {0};
    _cleanup_(json_decrefp) json_t *answer = NULL;
    const char *name = pl_cli_value(c, "file"), *project = c->n_args ? c->args[0] : NULL;
    int r = name ? read_file(name, &text, err) : pl_err_set(err, PL_EUSAGE, "update defaults to what? Give -f FILE, or -f -");

    if (r == 0 && !pl_buf_str(&text))
        r = pl_err_nomem(err);
    r = r < 0
            ? r
            : pl_spec_defaults_read((const char *)text.data, text.len, pl_streq(name, "-") ? "<stdin>" : name, &json, NULL, err);
    r = r < 0 ? r
              : pl_cli_call(c, "PUT", "/api/v1/defaults",
                            json_pack("{s:s, s:s*, s:s}", "spec", (const char *)text.data, "project", project, "filename", name),
                            &answer, err);
    if (r < 0)
        return r;
    pl_show_say(c, "defaults %s%s set, for pipelines that are created or updated from now on\n",
                project ? "of project " : "of all projects", project ? project : "");
    return c->json ? pl_show_json(answer, err) : 0;
}

static int inspect_defaults(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path =
        c->n_args ? pl_http_path_make("/api/v1/defaults?project=%s", c->args[0]) : strdup("/api/v1/defaults");
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = path ? pl_cli_call(c, "GET", path, NULL, &answer, err) : pl_err_nomem(err);

    return r < 0 ? r : pl_show_json(c->json ? answer : json_object_get(answer, c->n_args ? "project" : "cluster"), err);
}

static const struct pl_option file_options[] = {
    {"file", 'f', "FILE", "JSON object with fields of a stage, {} for none; - for standard input"}, {0}};

static const struct pl_verb verbs[] = {
    {"update",
     "defaults",
     "[PROJECT] -f FILE",
     0,
     1,
     file_options,
     update_defaults,
     "Sets default values for the fields of stages, for all projects or for one.",
     {"update defaults -f defaults.json", "update defaults vision -f vision.json",
      "echo '{\"image\": \"python:3.12\"}' | pipelinectl update defaults -f -"}},
    {"inspect",
     "defaults",
     "[PROJECT]",
     0,
     1,
     NULL,
     inspect_defaults,
     "Shows the defaults of all projects, or of one.",
     {"inspect defaults", "inspect defaults vision", "inspect defaults --json"}},
};
PL_CLI_TABLE(defaults, verbs);
