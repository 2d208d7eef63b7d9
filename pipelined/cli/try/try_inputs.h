/* try_inputs: chooses where each input of a stage is read when one datum is tried, and chooses the datum. An
 * input is read from a local folder (--input), else from the commit that a run read (--at RUN), else from the
 * head of its branch. */
#pragma once

#include "pipelined/cli/local/input_option.h"
#include "pipelined/net/remote/remote.h"
#include "pipelined/plan/plan.h"

struct pl_cli_try_leaf {
    struct pl_cli_folder *folder; /* NULL = read from the daemon */
    /* root of the input; for a folder the tree of names, until pl_cli_try_folder_take sets the tree of the
     * datum's files */
    struct pl_hash root;
    /* reads the nodes below `root` */
    struct pl_node_source source;
    char commit[PL_ID_HEX + 1]; /* id of the commit; "" for a folder, or for a branch without a commit */
};

struct pl_cli_try_inputs {
    struct pl_cli *c;
    const struct pl_stage *stage;
    struct pl_cli_input_options folders;
    struct pl_cli_try_leaf leaves[PL_SPEC_LEAVES_MAX];
    json_t *job; /* the job of --at; NULL without it; borrowed */
    struct pl_remote *remote;
    struct pl_chunk_reader reader; /* reads records through `remote` */
    bool asks_daemon;              /* some input is read from the daemon */
};

/* Chooses a source for every input of `stage`. `job` is the job of --at, NULL without it; borrowed. Call
 * pl_cli_try_inputs_finish also after an error. PL_ENET, with a hint: an input needs a daemon and there is
 * none. */
PL_MUST_CHECK
int pl_cli_try_inputs_bind(struct pl_cli_try_inputs *in, struct pl_cli *c, const struct pl_stage *stage, json_t *job,
                           struct pl_err *err);
void pl_cli_try_inputs_finish(struct pl_cli_try_inputs *in);
/* Computes the stage's datums over the chosen inputs. `code_identity` NULL = no code in the datum keys. */
PL_MUST_CHECK
int pl_cli_try_inputs_plan(const struct pl_cli_try_inputs *in, const struct pl_hash *code_identity, struct pl_plan **ret,
                           struct pl_err *err);

/* Finds the datum that `text` names: its number; its id or the start of it (at least 4 digits); the path of
 * one of its inputs; or all its paths as messages show them ("test=/test/b1.csv, model=/"). NULL = the first
 * datum. PL_ENOTFOUND; PL_EUSAGE: several ids start like this. */
PL_MUST_CHECK
int pl_cli_datum_choose(const struct pl_plan *plan, const char *text, size_t *ret, struct pl_err *err);
/* Finds the datum of `plan` that has the same paths as datum `datum` of `other`. PL_ECHANGED: there is none,
 * because files changed between the two plans. */
PL_MUST_CHECK
int pl_cli_datum_same(const struct pl_plan *plan, const struct pl_plan *other, size_t datum, size_t *ret, struct pl_err *err);
