/* agent/inputs: /pfs/<input> of a datum: fetched ahead, put in place by renames.
 *
 * In:      A datum's inputs.
 * Out:     Folders ready for the command.
 * Uses:    agent/{connection, sandbox}, net/agent_protocol, text, storage/{base, pack, system, tree},
 *          storage/dataset/checkout
 * Threads: The fetch thread of the worker.
 *
 * Headers for other rooms:
 *   folder_move       moves a folder's contents by renames
 *   input_entries     entries of one input, read ahead
 *   input_references  entries of inputs by path, for output links into inputs
 *
 * Inside:
 *   input_folder      files of one match below a folder
 *   input_reuse       checkouts kept for the next worker of the stage
 *   input_update      turns the checkout of one commit into another */

/* inputs: /pfs/<input> of a datum. They are built aside, in WORK/next/<input>, while the datum before computes, and put in place by renames
 * alone: a folder behind the sandbox's read-only mount changes at once and whole. An input that the last datum had in the same way
 * stays as it is; of one that is a folder of many files the checkout before lies aside, and becomes that of the next commit by what differs.
 *
 *   stage (aside) ──▶ apply (no command runs) ──▶ stage (aside, while the command runs) ──▶ apply ──▶ …
 *                                                 └─ not wanted after all: stage again
 *
 * What was staged waits for apply, which may be long: the bytes of the row behind come meanwhile (`ahead`, in WORK/next too), and
 * staging that one is renaming then.
 *
 * Entries are looked up in the commit's tree, whose nodes are kept (PL_INPUTS_NODES): a datum costs no question to the daemon when
 * its neighbours have asked already. One thread stages and one applies, in turn. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#define PL_INPUTS_NODES        64u           /* decoded nodes kept, of ≤ 256 KiB */
#define PL_INPUTS_CHANGE_FILES 64u           /* a folder of so many files is kept, to be turned into that of another commit */
#define PL_INPUTS_CACHE_BYTES  (20ull << 30) /* of the cache of whole files */

struct pl_inputs;

struct pl_inputs_config {
    struct pl_chunk_reader reader;
    const struct pl_uplink_user
        *user;         /* asked where chunks are, many in one question; until it is not wanted: PL_ECANCELED. NULL = not asked */
    const char *work;  /* the work folder (sandbox.h) */
    const char *cache; /* folder of the cache; NULL = none */
    const char *project, *stage; /* whose checkouts are kept for the next worker; stage NULL = they are not */
    bool read_only;              /* the command cannot write to inputs: links and reuse are safe */
    bool by_group;               /* the command is another user of the folders' group: what it may change is open to that */
    bool checkpoint;             /* WORK/checkpoint holds what the row's attempt before kept, and nothing else */
};

PL_MUST_CHECK
int pl_inputs_create(const struct pl_inputs_config *config, struct pl_inputs **ret, struct pl_err *err);
struct pl_inputs *pl_inputs_destroy(struct pl_inputs *in);

/* Asks in one question where the files of all these rows are. Failures are left to the fetch. */
void pl_inputs_prepare(struct pl_inputs *in, const struct pl_agent_protocol_task *task);
/* Fetches what `row` needs and the row staged last does not have, while that one waits; apply may run meanwhile. Failures are left to stage. */
void pl_inputs_ahead(struct pl_inputs *in, const struct pl_agent_protocol_datum *row);
/* Builds the inputs of `row` aside; `alone`: no command runs, and none will before apply. `*ret_bytes`: size of their files. PL_ENOTFOUND (the match is not in the tree), PL_ENOSPC,
 * PL_ECORRUPT, PL_EIO: with the input's name; what is in place stays. */
PL_MUST_CHECK
int pl_inputs_stage(struct pl_inputs *in, const struct pl_agent_protocol_datum *row, bool alone, uint64_t *ret_bytes,
                    struct pl_err *err);
/* Makes what was staged last the inputs in WORK/pfs. PL_EIO: with the input's name; that input is not there then. */
PL_MUST_CHECK
int pl_inputs_apply(struct pl_inputs *in, struct pl_err *err);
/* After apply: removes what lies aside and is of no use for the next datums. By the thread that stages. */
void pl_inputs_trim(struct pl_inputs *in);

/* Leaves large checkouts to the next worker of the stage; nothing runs, and nothing is staged or applied any more. */
void pl_inputs_keep(struct pl_inputs *in);

/* The checkout of a whole tree into `dest`, writable for its owner: the stage's code. */
PL_MUST_CHECK
int pl_inputs_code(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err);
