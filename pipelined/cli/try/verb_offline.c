/* validate and glob: check a spec and test a glob, without a server. */
#include "pipelined/cli/local/spec_file.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/text/glob.h"
#include "pipelined/text/template.h"
#include <stdio.h>
#include <sys/stat.h>

/* ---- validate ---- */

static json_t *problem_list(const struct pl_spec_problem *list, size_t n)
{
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_pack("{s:I, s:I, s:s, s:s}", "line", (json_int_t)list[i].line, "column",
                                             (json_int_t)list[i].column, "path", list[i].path, "text", list[i].text));
    return out;
}

static int print_json(const struct pl_cli_spec *s, bool valid, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out =
        json_pack("{s:b, s:o, s:o}", "valid", (int)valid, "errors", problem_list(s->problems->errors, s->problems->n_errors),
                  "warnings", problem_list(s->problems->warnings, s->problems->n_warnings));

    return pl_show_json(out, err);
}

/* Checks that all code folders named in the spec exist. The server cannot check this, because only this
 * machine has the folders. */
static int check_code(const struct pl_cli_spec *s, struct pl_err *err)
{
    for (size_t i = 0; i < s->spec->n_stages; i++) {
        const struct pl_stage *stage = &s->spec->stages[i];
        _cleanup_free_ char *folder = stage->code ? pl_cli_spec_code_path(s, stage) : NULL;
        struct stat st;

        if (folder && (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode)))
            return pl_err_set(err, PL_ESPEC, "%s: stages[%zu].code: \"%s\" is not a folder: there is no folder %s", s->filename,
                              i, stage->code, folder);
    }
    return 0;
}

static int validate(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_cli_spec_finish) struct pl_cli_spec s = {0};
    const char *filename = c->n_args ? c->args[0] : pl_cli_value(c, "file");
    int r, out;

    if (!filename)
        return pl_err_set(err, PL_EUSAGE, "validate what? Give -f SPEC");
    for (r = pl_cli_spec_read(c, filename, true, &s, err), r = r < 0 ? r : 1; r != 0; r = pl_cli_spec_next(c, &s, err)) {
        r = r < 0 ? r : check_code(&s, err);
        out = c->json && s.problems && (r == 0 || r == PL_ESPEC) ? print_json(&s, r == 0, err) : 0;
        if (out < 0 || r < 0)
            return out < 0 ? out : r;
        pl_show_say(c, "%s is valid: pipeline %s, %zu stage%s%s\n", filename, s.spec->pipeline, s.spec->n_stages,
                    s.spec->n_stages == 1 ? "" : "s", s.problems->n_warnings ? ", with warnings" : "");
    }
    return r;
}

/* ---- glob ---- */

struct globbing {
    struct pl_glob *glob;
    struct pl_template *template; /* template to print for each match; NULL = print only the path */
    bool json;
};

static void globbing_finish(struct globbing *g)
{
    pl_glob_destroy(g->glob);
    pl_template_destroy(g->template);
}

static int compile(struct pl_cli *c, struct globbing *g, struct pl_err *err)
{
    const char *template = pl_cli_value(c, "template"), *name = pl_cli_value(c, "name");
    struct pl_template_input input = {.name = name ? name : "input"};
    int r = pl_glob_compile(c->args[0], &g->glob, err);

    g->json = c->json;
    if (r < 0 || !template)
        return r;
    input.captures = pl_glob_captures(g->glob);
    r = pl_template_compile(template, &input, 1, &g->template, err);
    if (r == 0 && pl_template_wants_datum(g->template))
        r = pl_err_set(err, PL_EUNAVAILABLE, "${datum} has no value without a store");
    return r;
}

static int print_match(const struct globbing *g, const char *path, size_t len, const struct pl_span *spans, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf rendered = {0};
    _cleanup_(json_decrefp) json_t *out = NULL;
    struct pl_template_value value = {path, len, spans};
    int r = g->template ? pl_template_render(g->template, &value, NULL, &rendered, err) : 0;

    if (r < 0)
        return r;
    if (!g->json) {
        printf("%.*s%s%.*s\n", (int)len, path, g->template ? "\t" : "", (int)rendered.len,
               rendered.len ? (const char *)rendered.data : "");
        return 0;
    }
    out = json_pack("{s:s%, s:[]}", "path", path, len, "captures");
    for (unsigned i = 0; out && i < pl_glob_captures(g->glob); i++)
        json_array_append_new(json_object_get(out, "captures"),
                              spans[i].start == PL_SPAN_NONE
                                  ? json_null()
                                  : json_stringn(path + spans[i].start, (size_t)(spans[i].end - spans[i].start)));
    if (out && g->template)
        json_object_set_new(out, "rendered", json_stringn((const char *)rendered.data, rendered.len));
    return out ? pl_show_json(out, err) : pl_err_set(err, PL_EPATH, "a path is not UTF-8");
}

/* Tests one path that was read from standard input; the path may begin with '/'. */
static int try_path(const struct globbing *g, const char *path, size_t len, size_t *matches, struct pl_err *err)
{
    struct pl_span spans[PL_GLOB_CAPTURES_MAX];

    while (len && *path == '/') {
        path++;
        len--;
    }
    while (len && path[len - 1] == '/')
        len--;
    if (len > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "a path has %zu bytes: at most %d are allowed", len, PL_PATH_MAX_BYTES);
    if (!pl_glob_match(g->glob, path, len, spans))
        return 0;
    ++*matches;
    return print_match(g, path, len, spans, err);
}

static int glob_paths(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(globbing_finish) struct globbing g = {0};
    _cleanup_free_ char *line = NULL;
    size_t cap = 0, matches = 0;
    ssize_t n;
    int r = compile(c, &g, err);

    while (r == 0 && (n = getline(&line, &cap, stdin)) > 0) {
        if (line[n - 1] == '\n')
            n--;
        r = try_path(&g, line, (size_t)n, &matches, err);
    }
    if (r == 0 && matches == 0)
        return pl_err_set(err, PL_ENOTFOUND, "no path matches \"%s\"", c->args[0]);
    return r;
}

static const struct pl_option validate_options[] = {{"file", 'f', "SPEC", "the spec, JSON; - for standard input"}, {0}};
static const struct pl_option glob_options[] = {
    {"template", 0, "T", "also print this template for every match, such as \"${input.stem}/\""},
    {"name", 0, "NAME", "name of the input in the template (input)"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"validate",
     NULL,
     "-f SPEC",
     0,
     1,
     validate_options,
     validate,
     "Checks a spec without a server: mistakes with file, line and column, and warnings.",
     {"validate -f pipelines/digits/pipeline.json", "validate -f - <spec.json", "validate -f spec.json --json"}},
    {"glob",
     NULL,
     "PATTERN [--template T]",
     1,
     1,
     glob_options,
     glob_paths,
     "Prints the paths on standard input that a pattern matches, without a server.",
     {"find data -type f -printf '%P\\n' | pipelinectl glob '/train/*.csv'",
      "glob '/(*)/(*).jpg' --template '${input.1}/' <paths", "glob '/**/*.{jpg,png}' --json <paths | jq -r .path"}},
};
PL_CLI_TABLE(offline, verbs);
