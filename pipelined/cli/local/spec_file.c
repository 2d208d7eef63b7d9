/* Reads files of pipeline specs: splits a file into documents, parses each, and prints their errors. */
#include "pipelined/cli/local/spec_file.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/show.h"
#include "pipelined/spec/spec_documents.h"
#include "storage/system/io.h"
#include <stdio.h>

static int read_text(struct pl_cli_spec *s, struct pl_err *err)
{
    ssize_t n;

    if (!pl_streq(s->filename, "-"))
        return pl_io_read_file(s->filename, &s->file, err);
    n = pl_buf_reserve(&s->file, PL_SPEC_MAX_BYTES + 1, err);
    n = n < 0 ? n : pl_io_read(STDIN_FILENO, s->file.data, PL_SPEC_MAX_BYTES + 1, "standard input", err);
    if (n >= 0)
        s->file.len = (size_t)n;
    return (int)PL_MIN(n, 0);
}

static void print_problems(const struct pl_cli *c, const struct pl_cli_spec *s)
{
    char text[sizeof s->problems->errors[0].text];

    if (c->json)
        return;
    for (size_t i = 0; i < s->problems->n_errors; i++)
        fprintf(stderr, "%s\n", pl_show_clean(s->problems->errors[i].text, text, sizeof text));
    for (size_t i = 0; i < s->problems->n_warnings && s->warns && !c->quiet; i++)
        fprintf(stderr, "%s (warning)\n", pl_show_clean(s->problems->warnings[i].text, text, sizeof text));
}

int pl_cli_spec_next(const struct pl_cli *c, struct pl_cli_spec *s, struct pl_err *err)
{
    /* the option --sandbox exists only in the subcommand try */
    const char *sandbox = pl_cli_value(c, "sandbox");
    struct pl_spec_context context = {.project = c->project, .no_sandbox = sandbox && pl_streq(sandbox, "none")};
    const char *shown = pl_streq(s->filename, "-") ? "<stdin>" : s->filename, *file = (const char *)s->file.data;
    size_t from, len, n;
    int r;

    s->spec = pl_spec_destroy(s->spec);
    pl_buf_clear(&s->text);
    if (!pl_spec_document_next(file ? file : "", s->file.len, &s->at, &from, &len))
        return 0;
    r = pl_spec_document_text(file ? file : "", from, len, &s->text, err);
    if (r < 0)
        return r;
    r = pl_spec_parse((const char *)s->text.data, s->text.len, shown, &context, &s->spec, s->problems, err);
    if (!s->told)
        print_problems(c, s);
    n = s->problems->n_errors + s->problems->more_errors;
    if (r == PL_ESPEC && n && !c->json)
        return pl_err_set(err, r, "%s has %zu error%s", shown, n, n == 1 ? "" : "s");
    return r < 0 ? r : 1;
}

int pl_cli_spec_read(const struct pl_cli *c, const char *filename, bool warns, struct pl_cli_spec *ret, struct pl_err *err)
{
    int r;

    *ret = (struct pl_cli_spec){
        .filename = filename, .warns = warns, .file = {.max = PL_SPEC_MAX_BYTES + 1}, .text = {.max = 2 * PL_SPEC_MAX_BYTES}};
    ret->problems = calloc(1, sizeof *ret->problems);
    r = ret->problems ? read_text(ret, err) : pl_err_nomem(err);
    for (bool more = r == 0; more; more = r > 0) /* check all specs before the caller acts on the first one */
        r = pl_cli_spec_next(c, ret, err);
    ret->told = true;
    ret->at = 0;
    r = r < 0 ? r : pl_cli_spec_next(c, ret, err);
    return PL_MIN(r, 0);
}

char *pl_cli_spec_stages(const struct pl_spec *spec, char out[PL_CLI_STAGES_TEXT])
{
    size_t len = 0;

    *out = '\0';
    for (size_t i = 0; i < spec->n_stages && len < PL_CLI_STAGES_TEXT - 5; i++)
        len += (size_t)snprintf(out + len, PL_CLI_STAGES_TEXT - len, "%s%s", i ? ", " : "", spec->stages[i].name);
    if (len >= PL_CLI_STAGES_TEXT - 5)
        memcpy(out + PL_CLI_STAGES_TEXT - 5, " …", sizeof " …");
    return out;
}

int pl_cli_spec_find_stage(const struct pl_cli *c, struct pl_cli_spec *s, const char *stage, struct pl_err *err)
{
    char first[PL_NAME_MAX_BYTES + 1] = "", names[PL_CLI_STAGES_TEXT] = "";
    int r = 1;

    if (s->spec) {
        snprintf(first, sizeof first, "%s", s->spec->pipeline);
        pl_cli_spec_stages(s->spec, names);
    }
    while (r > 0 && !pl_spec_stage(s->spec, stage))
        r = pl_cli_spec_next(c, s, err);
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "pipeline %s has no stage \"%.60s\": it has %s", first, stage, names);
    return PL_MIN(r, 0);
}

void pl_cli_spec_finish(struct pl_cli_spec *s)
{
    pl_buf_finish(&s->file);
    pl_buf_finish(&s->text);
    pl_spec_destroy(s->spec);
    free(s->problems);
}

char *pl_cli_spec_code_path(const struct pl_cli_spec *s, const struct pl_stage *stage)
{
    const char *slash = strrchr(s->filename, '/');
    bool here = pl_streq(stage->code, ".");
    char *path;

    if (!slash)
        return strdup(stage->code);
    if (asprintf(&path, "%.*s%s%s", (int)(slash - s->filename), s->filename, here ? "" : "/", here ? "" : stage->code) < 0)
        return NULL;
    return path;
}
