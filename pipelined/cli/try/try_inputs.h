/* try_inputs: what each input of a stage is read from when one datum is tried, and which datum that is. An input is a folder of this
 * machine (--input), else what a run read (--at RUN), else the head of its branch. */
#pragma once

#include "pipelined/cli/local/input_option.h"
#include "pipelined/net/remote/remote.h"
#include "pipelined/plan/plan.h"

struct pl_cli_try_leaf {
    struct pl_cli_folder *folder; /* NULL: the daemon's */
    struct pl_hash root;          /* of the names (folders) until pl_cli_try_inputs_content, then of the datum's files */
    struct pl_node_source source;
    char commit[PL_ID_HEX + 1]; /* "": a folder, or a branch without a commit */
};

struct pl_cli_try_inputs {
    struct pl_cli *c;
    const struct pl_stage *stage;
    struct pl_cli_input_options folders;
    struct pl_cli_try_leaf leaves[PL_SPEC_LEAVES_MAX];
    json_t *job; /* of --at, NULL without */
    struct pl_remote *remote;
    struct pl_chunk_reader reader; /* of the remote */
    bool asks_daemon;              /* some input is the daemon's */
};

/* Binds every input of `stage`; `job` (may be NULL, borrowed) is the job of --at. PL_ENET with a hint when a daemon is missing. */
PL_MUST_CHECK
int pl_cli_try_inputs_bind(struct pl_cli_try_inputs *in, struct pl_cli *c, const struct pl_stage *stage, json_t *job,
                           struct pl_err *err);
void pl_cli_try_inputs_finish(struct pl_cli_try_inputs *in);
/* The stage's datums over the inputs as they are bound. */
PL_MUST_CHECK
int pl_cli_try_inputs_plan(const struct pl_cli_try_inputs *in, const struct pl_hash *code_identity, struct pl_plan **ret,
                           struct pl_err *err);

/* The datum that `text` names: its number, its id or the start of one (4 digits or more), a path of one of its inputs, or all of them as
 * messages show them ("test=/test/b1.csv, model=/"). NULL: the first. PL_ENOTFOUND, PL_EUSAGE (an id's start that fits several). */
PL_MUST_CHECK
int pl_cli_datum_choose(const struct pl_plan *plan, const char *text, size_t *ret, struct pl_err *err);
/* The datum of `plan` with the same paths as datum `datum` of `other`. PL_ECHANGED: there is none any more. */
PL_MUST_CHECK
int pl_cli_datum_same(const struct pl_plan *plan, const struct pl_plan *other, size_t datum, size_t *ret, struct pl_err *err);
