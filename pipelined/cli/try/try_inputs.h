/* try_inputs: chooses the source of each input when one datum of a stage is tried, and chooses the datum. The
 * source is a local folder (--input), else the commit that a run read (--at RUN), else the newest commit of
 * the input's branch. */
#pragma once

#include "pipelined/cli/local/input_option.h"
#include "pipelined/net/remote/remote.h"
#include "pipelined/plan/plan.h"

struct pl_cli_try_leaf {
    /* the local folder that replaces the input; NULL = the input is read from the daemon */
    struct pl_cli_folder *folder;
    /* root of the input's tree; for a local folder, this is first the tree of file names, and after
     * pl_cli_try_folder_take the tree of the datum's files */
    struct pl_hash root;
    /* reads the nodes of the tree `root` */
    struct pl_node_source source;
    /* id of the commit that is read; "" for a local folder, or for a branch without a commit */
    char commit[PL_ID_HEX + 1];
};

struct pl_cli_try_inputs {
    struct pl_cli *c;
    const struct pl_stage *stage;
    struct pl_cli_input_options folders;
    struct pl_cli_try_leaf leaves[PL_SPEC_LEAVES_MAX];
    json_t *job;                     /* JSON object of the job that --at selects, borrowed; NULL without --at */
    struct pl_cli_try_store *stores; /* of the daemon: one for each project that an input is read from */
    bool asks_daemon;                /* at least one input is read from the daemon */
};

/* Chooses a source for every input of `stage`. `job` is the job that --at selects, borrowed; NULL without
 * --at. Call pl_cli_try_inputs_finish also after an error. PL_ENET, with a hint: an input needs a daemon and
 * there is none. */
PL_MUST_CHECK
int pl_cli_try_inputs_bind(struct pl_cli_try_inputs *in, struct pl_cli *c, const struct pl_stage *stage, json_t *job,
                           struct pl_err *err);
void pl_cli_try_inputs_finish(struct pl_cli_try_inputs *in);
/* Computes the datums of the stage from the chosen inputs. `code_identity` becomes part of the datum keys;
 * NULL = the stage has no code. */
PL_MUST_CHECK
int pl_cli_try_inputs_plan(const struct pl_cli_try_inputs *in, const struct pl_hash *code_identity, struct pl_plan **ret,
                           struct pl_err *err);

/* Finds the datum that `text` names: its number; its id or the start of it (at least 4 digits); the path of
 * one of its inputs; or all its paths as messages show them ("test=/test/b1.csv, model=/"). NULL = the first
 * datum. PL_ENOTFOUND; PL_EUSAGE: several ids start like this. */
PL_MUST_CHECK
int pl_cli_datum_choose(const struct pl_plan *plan, const char *text, size_t *ret, struct pl_err *err);
/* Finds the datum of `plan` that has the same paths as datum number `datum` of the plan `other`. PL_ECHANGED:
 * there is none, because files changed between the two plans. */
PL_MUST_CHECK
int pl_cli_datum_same(const struct pl_plan *plan, const struct pl_plan *other, size_t datum, size_t *ret, struct pl_err *err);
