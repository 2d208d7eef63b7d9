/* given_inputs: `--input REPO=DIR`: folders of this machine in the place of a stage's repos. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/spec/spec.h"
#include "storage/dataset/ingest/ingest_names.h"

/* One --input. */
struct pl_cli_folder {
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1]; /* "": any */
    const char *dir;
    struct pl_name_tree tree;
    bool used;
};

struct pl_cli_input_options {
    struct pl_cli_folder *items;
    size_t n;
};

/* Reads the options "input" of `c` and the names in their folders. PL_EUSAGE, errors of pl_name_tree_read. */
PL_MUST_CHECK
int pl_cli_input_options_read(const struct pl_cli *c, struct pl_cli_input_options *ret, struct pl_err *err);
void pl_cli_input_options_finish(struct pl_cli_input_options *f);
/* The folder that stands for an input: given by the repo's name ("REPO", "REPO@BRANCH", "PROJECT/REPO"), else by the input's; NULL
 * when none does. */
struct pl_cli_folder *pl_cli_input_option_of(const struct pl_cli_input_options *f, const struct pl_input *leaf);
/* PL_EUSAGE naming an --input that no pl_cli_input_option_of asked for. */
PL_MUST_CHECK
int pl_cli_input_options_check_used(const struct pl_cli_input_options *f, const char *reader, struct pl_err *err);
