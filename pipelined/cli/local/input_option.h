/* input_option: the options `--input REPO=DIR`, which give a stage local folders instead of its repos. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/spec/spec.h"
#include "storage/dataset/ingest/ingest_names.h"

/* One option --input. */
struct pl_cli_folder {
    /* "" = any */
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    /* the folder, as given */
    const char *dir;
    /* names of the folder's files, as a tree */
    struct pl_name_tree tree;
    bool used;
};

struct pl_cli_input_options {
    struct pl_cli_folder *items;
    size_t n;
};

/* Reads all --input options of `c`, and the names of the files in their folders. Call
 * pl_cli_input_options_finish also after an error. PL_EUSAGE, errors of pl_name_tree_read. */
PL_MUST_CHECK
int pl_cli_input_options_read(const struct pl_cli *c, struct pl_cli_input_options *ret, struct pl_err *err);
void pl_cli_input_options_finish(struct pl_cli_input_options *f);
/* Finds the folder to read instead of the input `leaf`, and marks it as used. The option may name the input's
 * repo ("REPO", "REPO@BRANCH", "PROJECT/REPO") or else the input. NULL if there is none. */
struct pl_cli_folder *pl_cli_input_option_of(const struct pl_cli_input_options *f, const struct pl_input *leaf);
/* Returns PL_EUSAGE if an --input was never returned by pl_cli_input_option_of. `reader` is what should have
 * read it ("stage train"), for the message. */
PL_MUST_CHECK
int pl_cli_input_options_check_used(const struct pl_cli_input_options *f, const char *reader, struct pl_err *err);
