/* spec_file: reads a local file of pipeline specs and checks all of them before the first request is sent to
 * a server. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/spec/spec.h"
#include "storage/base/buf.h"

struct pl_cli_spec {
    const char *filename; /* name of the file, as the user gave it; "-" = standard input */
    struct pl_buf file;   /* content of the whole file */
    size_t at;            /* offset in `file` of the first byte after the current spec */
    bool warns;           /* print warnings as well as errors */
    bool told;            /* the errors and warnings of the whole file have been printed */
    /* text of the current spec, with leading blank lines so that line numbers are those of the file */
    struct pl_buf text;
    /* the parsed current spec; NULL = there is none */
    struct pl_spec *spec;
    /* errors and warnings of the current spec */
    struct pl_spec_errors *problems;
};

/* Reads the file, parses all its specs, and makes the first one current. Prints errors and, with `warns`,
 * warnings to stderr, one per line: "digits.json:7:12: stages[1].workers: …". PL_ESPEC: there are errors;
 * `err` has their number. Call pl_cli_spec_finish also after an error. */
PL_MUST_CHECK
int pl_cli_spec_read(const struct pl_cli *c, const char *filename, bool warns, struct pl_cli_spec *ret, struct pl_err *err);
/* Makes the next spec of the file current. Returns 1, or 0 at the end of the file. Errors as for
 * pl_cli_spec_read; after an error there is no current spec. */
PL_MUST_CHECK
int pl_cli_spec_next(const struct pl_cli *c, struct pl_cli_spec *s, struct pl_err *err);
/* Advances, from the current spec on, to the first spec with a stage of that name. PL_ENOTFOUND; errors as
 * for pl_cli_spec_read. */
PL_MUST_CHECK
int pl_cli_spec_find_stage(const struct pl_cli *c, struct pl_cli_spec *s, const char *stage, struct pl_err *err);
/* Writes the names of the spec's stages, such as "prepare, train", into `out`; a list that is too long ends
 * with "…". Returns `out`. */
#define PL_CLI_STAGES_TEXT 300
char *pl_cli_spec_stages(const struct pl_spec *spec, char out[PL_CLI_STAGES_TEXT]);
void pl_cli_spec_finish(struct pl_cli_spec *s);
/* Returns the path of a stage's code folder on this machine, malloc'ed. `code` is a path relative to the
 * folder of the spec file. */
char *pl_cli_spec_code_path(const struct pl_cli_spec *s, const struct pl_stage *stage);
