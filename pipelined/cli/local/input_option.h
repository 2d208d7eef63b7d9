/* input_option: the options `--input REPO=DIR`. Each makes a stage read a local folder instead of a repo. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/spec/spec.h"
#include "storage/dataset/ingest/ingest_names.h"

/* The parsed value of one option --input. */
struct pl_cli_folder {
    /* "" = any project or branch */
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    /* path of the local folder, as the user gave it */
    const char *dir;
    /* the names of all files in the folder, as a tree */
    struct pl_name_tree tree;
    bool used;
};

struct pl_cli_input_options {
    struct pl_cli_folder *items;
    size_t n;
};

/* Parses all --input options of the command `c`, and reads the names of the files in their folders. Call
 * pl_cli_input_options_finish also after an error. PL_EUSAGE, errors of pl_name_tree_read. */
PL_MUST_CHECK
int pl_cli_input_options_read(const struct pl_cli *c, struct pl_cli_input_options *ret, struct pl_err *err);
void pl_cli_input_options_finish(struct pl_cli_input_options *f);
/* Returns the folder to read instead of the input `leaf`, and marks its option as used; NULL if there is
 * none. An option names either the repo that the input reads ("REPO", "REPO@BRANCH", "PROJECT/REPO") or the
 * input itself. */
struct pl_cli_folder *pl_cli_input_option_of(const struct pl_cli_input_options *f, const struct pl_input *leaf);
/* Returns PL_EUSAGE if pl_cli_input_option_of has not returned each of the options. The message says that
 * `reader` ("stage train") reads no such repo. */
PL_MUST_CHECK
int pl_cli_input_options_check_used(const struct pl_cli_input_options *f, const char *reader, struct pl_err *err);
