/* agent/inputs: /pfs/<input> of a datum: fetched ahead, put in place by renames.
 *
 * In:      A datum's inputs.
 * Out:     Folders ready for the command.
 * Uses:    agent/{connection, sandbox}, net/agent_protocol, text, storage/{base, pack, store, system, tree},
 *          storage/dataset/checkout
 * Threads: The fetch thread of the worker.
 *
 * Headers for other rooms:
 *   folder_move       moves a folder's contents by renames
 *   input_entries     entries of one input, read ahead
 *   input_references  entries of inputs by path, for output links into inputs
 *   input_stores      a reader and a cache of tree nodes for each project that is read
 *
 * Inside:
 *   input_folder      files of one match below a folder
 *   input_reuse       checkouts kept for the next worker of the stage
 *   input_update      turns the checkout of one commit into another */

/* inputs: /pfs/<input> of a datum. Inputs are built in WORK/next/<input> while the previous datum computes,
 * and put in place by renames only: a folder behind the sandbox's read-only mount changes at once and as a
 * whole. An input that the previous datum had too stays in place. If an input is a folder of many files, its
 * previous checkout is kept in WORK/next. It is then changed into the checkout of the next commit, using the
 * difference between the trees.
 *
 *   stage (in WORK/next) ──▶ apply (no command runs) ──▶ stage (while the command runs) ──▶ apply ──▶ …
 *                                                        └─ the row is given back: stage again
 *
 * It may take long until staged inputs can be applied. Meanwhile pl_inputs_ahead fetches the inputs of the
 * datum after that, also into WORK/next; staging them is then only a rename.
 *
 * Entries are looked up in the commit's tree, whose nodes are cached (PL_INPUTS_NODES): a datum needs no
 * request to the daemon if its neighbours have already fetched the nodes. One thread stages and one applies,
 * in turn. */
#pragma once

#include "pipelined/agent/inputs/input_stores.h"

#define PL_INPUTS_NODES 64u /* decoded tree nodes in the cache of each project that is read, of at most 256 KiB each */
/* the checkout of a folder with at least this many files is kept for the next commit */
#define PL_INPUTS_CHANGE_FILES 64u
#define PL_INPUTS_CACHE_BYTES  (20ull << 30) /* size limit of the cache of whole files */

struct pl_inputs;

struct pl_inputs_config {
    struct pl_chunk_reader reader; /* reads records of the stage's project */
    /* connection for announcing chunks, many per request; its `wanted` cancels the work (PL_ECANCELED). NULL
     * = no announcing */
    const struct pl_uplink_user *user;
    const char *work;  /* the work folder (sandbox.h) */
    const char *cache; /* folder of the cache of whole files; NULL = none */
    /* project and name of the stage. They are also in the key under which checkouts are stored for the stage's next
     * worker; stage NULL = do not store checkouts */
    const char *project, *stage;
    bool read_only; /* the command cannot write to inputs, so hard links and reuse are safe */
    /* the command runs as another user of the folders' group: files that it may change are made writable for
     * the group */
    bool by_group;
    /* WORK/checkpoint must hold what the datum's previous attempt saved, and nothing else */
    bool checkpoint;
};

/* Creates the object and opens the cache; if the cache cannot be used, the object works without it. The
 * strings of `config` are borrowed. PL_ENOMEM. */
PL_MUST_CHECK
int pl_inputs_create(const struct pl_inputs_config *config, struct pl_inputs **ret, struct pl_err *err);
struct pl_inputs *pl_inputs_destroy(struct pl_inputs *in);

/* Finds out with one request to the daemon where the files of all these datums are stored. Ignores failures:
 * fetching the files reports them. */
void pl_inputs_prepare(struct pl_inputs *in, const struct pl_agent_protocol_task *task);
/* Fetches those inputs of the datum `row` that the datum staged last does not have. May run at the same time
 * as pl_inputs_apply of that datum. Ignores failures: pl_inputs_stage reports them. */
void pl_inputs_ahead(struct pl_inputs *in, const struct pl_agent_protocol_datum *row);
/* Builds the inputs of the datum `row` in WORK/next. `alone`: no command runs, and none will before apply, so
 * that folders in place may be changed. `*ret_bytes`: total size of the input files. PL_ENOTFOUND (the match
 * is not in the tree), PL_ENOSPC, PL_ECORRUPT, PL_EIO; the message names the input. On failure the inputs in
 * place are unchanged. */
PL_MUST_CHECK
int pl_inputs_stage(struct pl_inputs *in, const struct pl_agent_protocol_datum *row, bool alone, uint64_t *ret_bytes,
                    struct pl_err *err);
/* Puts the inputs that were staged last into WORK/pfs. PL_EIO: the message names the input that failed, which
 * is then missing. */
PL_MUST_CHECK
int pl_inputs_apply(struct pl_inputs *in, struct pl_err *err);
/* Removes everything from WORK/next that the next datums cannot use. Call it after apply, on the thread that
 * stages. */
void pl_inputs_trim(struct pl_inputs *in);

/* Stores large checkouts for the next worker of the stage. Call it at the end: no command runs, and nothing
 * is staged or applied any more. */
void pl_inputs_keep(struct pl_inputs *in);

/* Writes a whole tree, the stage's code, to `dest`, writable for the command. */
PL_MUST_CHECK
int pl_inputs_code(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err);
