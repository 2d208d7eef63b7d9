/* agent/outputs: The output folder to entries in packs; early upload, metrics, checkpoints.
 *
 * In:      Files that the command wrote.
 * Out:     Operations and packs.
 * Uses:    agent/{connection, inputs, runner}, net/agent_protocol, storage/{base, pack, system, tree, tree_edit},
 *          storage/dataset/{commit, file, ingest}
 * Threads: The upload thread; an early-upload thread.
 *
 * Headers for other rooms:
 *   datum_checkpoint  uploads $PL_CHECKPOINT while the command runs
 *   early_upload      uploads finished output files while the command runs
 *   metrics_file      follows metrics.jsonl
 *
 * Inside:
 *   early_scan        scans the output folder by stat while the command runs
 *   file_writers      tells whether a process has a file open for writing
 *   output_walk       sorted walk of the output folder */

/* outputs: what a command left in its output folder → entries with their bytes in packs, or the reason why it cannot be kept:
 * a name that no dataset can hold, a link that leads elsewhere (link_target.h), a FIFO, socket or device. A batch command lives on and may change
 * the folder meanwhile: what is kept then is some state of each file, and never anything from outside the folder.
 *
 * Small outputs (≤ PL_AGENT_PROTOCOL_INLINE_MAX bytes as an ops stream) travel in the result; of larger ones a tree is made, whose root
 * does. Many or large files are read by all cores; those that were read while the command ran (early.h) are not read again. One thread. */
#pragma once

#include "pipelined/agent/inputs/input_references.h"
#include "pipelined/agent/outputs/early_upload.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/pack/pack_builder.h"

#define PL_OUTPUTS_MAX       (1u << 20) /* files, links and empty folders of one datum */
#define PL_OUTPUTS_FEW       64u        /* up to so many files … */
#define PL_OUTPUTS_FEW_BYTES (8u << 20) /* … of so many bytes are read by this thread */

/* Where a task's outputs go: one pack session, opened when the first bytes need one. */
struct pl_outputs_store {
    struct pl_pack_sink sink;
    const char *project;
    struct pl_pack_builder *session; /* NULL: nothing to upload yet */
};

struct pl_outputs_request {
    const char *out; /* where the output lies, as the agent sees it; NULL = there is none */
    const char *pfs; /* the folder above the output folder, as the command saw it */
    struct pl_input_references *refs;
    const struct pl_agent_protocol_datum *row;
    struct pl_outputs_store *store;
    const struct pl_early *early; /* of this row, taken: these files are not read again; NULL = none */
};

/* Fills ops or root and bytes_out of `outcome`. PL_EINVAL, PL_EPATH, PL_ECOLLISION, PL_ELIMIT, PL_ENOTFOUND: the output cannot be kept,
 * the message names the path as the command knows it. Others: the output could not be read or uploaded. */
PL_MUST_CHECK
int pl_outputs_capture(const struct pl_outputs_request *request, struct pl_agent_protocol_outcome *outcome, struct pl_err *err);
/* Everything captured since the last time is durable at the daemon. */
PL_MUST_CHECK
int pl_outputs_flush(struct pl_outputs_store *store, struct pl_err *err);
/* Drops what was not flushed. */
void pl_outputs_drop(struct pl_outputs_store *store);
