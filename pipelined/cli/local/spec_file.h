/* spec_file: a pipeline spec on this machine: read and checked before anything is asked of a server. A file may hold several. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/spec/spec.h"
#include "storage/base/buf.h"

struct pl_cli_spec {
    const char *filename; /* as given; "-" is stdin */
    struct pl_buf file;   /* all of it */
    size_t at;            /* behind the spec being looked at */
    bool warns;           /* warnings are printed too */
    bool told;            /* what is wrong with it was printed */
    struct pl_buf text;   /* the spec */
    struct pl_spec *spec;
    struct pl_spec_errors *problems;
};

/* Reads and parses all of the file, and stands at its first spec; prints errors and, with `warns`, warnings to stderr, one a
 * line: "digits.json:7:12: stages[1].workers: …". PL_ESPEC: they were printed, and `err` counts them. */
PL_MUST_CHECK
int pl_cli_spec_read(const struct pl_cli *c, const char *filename, bool warns, struct pl_cli_spec *ret, struct pl_err *err);
/* The next spec of the file: 1, or 0 when there is none. Errors as read's; then there is no spec. */
PL_MUST_CHECK
int pl_cli_spec_next(const struct pl_cli *c, struct pl_cli_spec *s, struct pl_err *err);
/* Goes on to the spec of the file that has a stage of that name, from where it stands. PL_ENOTFOUND; errors as read's. */
PL_MUST_CHECK
int pl_cli_spec_find_stage(const struct pl_cli *c, struct pl_cli_spec *s, const char *stage, struct pl_err *err);
/* The names of its stages, as many as there is room for: "prepare, train …". Returns `out`. */
#define PL_CLI_STAGES_TEXT 300
char *pl_cli_spec_stages(const struct pl_spec *spec, char out[PL_CLI_STAGES_TEXT]);
void pl_cli_spec_finish(struct pl_cli_spec *s);
/* Where a stage's code folder is on this machine, relative to the spec's; malloc'ed. */
char *pl_cli_spec_code_path(const struct pl_cli_spec *s, const struct pl_stage *stage);
