/* inputs: /pfs/<input> of a datum. Each input is built aside (WORK/next/<input>) and swapped in by one rename, so that a folder behind
 * the sandbox's read-only mount changes at once and whole. An input that the last datum had in the same way stays as it is. Files
 * come as hard links out of the cache of whole files where that is safe (behind a read-only mount), else as copies.
 *
 * Entries are looked up in the commit's tree, whose nodes are kept (PL_INPUTS_NODES): a datum costs no question to the daemon when
 * its neighbours have asked already. One thread. */
#pragma once

#include "pipelined/agent/uplink.h"
#include "pipelined/agent/wire.h"
#include "storage/tree/tree.h"

#define PL_INPUTS_NODES       64u           /* decoded nodes kept, of ≤ 256 KiB */
#define PL_INPUTS_FEW         64u           /* up to so many files … */
#define PL_INPUTS_FEW_BYTES   (4u << 20)    /* … of so many bytes are written here; more by checkout's threads */
#define PL_INPUTS_CACHE_BYTES (20ull << 30) /* of the cache of whole files */

struct pl_inputs;

struct pl_inputs_config {
    struct pl_chunk_reader reader;
    struct pl_uplink *uplink; /* asked where chunks are, many in one question; NULL = not asked */
    const char *work;         /* the work folder (sandbox.h) */
    const char *cache;        /* folder of the cache; NULL = none */
    bool read_only;           /* the command cannot write to inputs: links and reuse are safe */
};

PL_MUST_CHECK
int pl_inputs_create(const struct pl_inputs_config *config, struct pl_inputs **ret, struct pl_err *err);
struct pl_inputs *pl_inputs_destroy(struct pl_inputs *in);

/* Asks in one question where the files of all these rows are. Failures are left to the fetch. */
void pl_inputs_prepare(struct pl_inputs *in, const struct pl_wire_task *task);
/* Makes the inputs of `row` those in WORK/pfs. `*ret_bytes`: size of their files. PL_ENOTFOUND (the match is not in the tree),
 * PL_ENOSPC, PL_ECORRUPT, PL_EIO: with the input's name. */
PL_MUST_CHECK
int pl_inputs_fetch(struct pl_inputs *in, const struct pl_wire_row *row, uint64_t *ret_bytes, struct pl_err *err);

/* Calls `visit` for each file or link of the row's input `name` that is `path` (below the input's folder, "" = all of it) or lies
 * below it, with the rest of its path ("" for the file itself). PL_ENOTFOUND when there is none. */
typedef int (*pl_inputs_visit_fn)(void *self, const char *rest, const struct pl_entry *entry, struct pl_err *err);
PL_MUST_CHECK
int pl_inputs_visit(struct pl_inputs *in, const struct pl_wire_row *row, const char *name, const char *path,
                    pl_inputs_visit_fn visit, void *self, struct pl_err *err);

/* May the command change the row's input of that name? */
bool pl_inputs_writable(const struct pl_wire_row *row, const char *name);

/* The checkout of a whole tree into `dest`, writable for its owner: the stage's code. */
PL_MUST_CHECK
int pl_inputs_code(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err);
/* `dest`, which stays where it is, holds what the tree does, writable, and nothing else; root NULL: nothing. */
PL_MUST_CHECK
int pl_inputs_checkpoint(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err);
