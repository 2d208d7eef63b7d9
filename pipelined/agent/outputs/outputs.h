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

/* outputs: converts what a command left in its output folder into entries, with their bytes in packs, or
 * returns the reason why the output cannot be kept: a name that no dataset can hold, a link that leads
 * elsewhere (link_target.h), a FIFO, socket or device. A batch command keeps running and may change the
 * folder meanwhile; then some state of each file is kept, but never anything from outside the folder.
 *
 * A small output (at most PL_AGENT_PROTOCOL_INLINE_MAX bytes as an ops stream) is sent in the result. For a
 * larger one a tree is made, and the result has its root. Many or large files are read on all cores. Files
 * that were read while the command ran (early_upload.h) are not read again. One thread. */
#pragma once

#include "pipelined/agent/inputs/input_references.h"
#include "pipelined/agent/outputs/early_upload.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/pack/pack_builder.h"

#define PL_OUTPUTS_MAX (1u << 20) /* maximum number of files, links and empty folders of one datum */
/* maximum number of files that the calling thread reads itself; several threads read larger outputs */
#define PL_OUTPUTS_FEW 64u
/* maximum bytes that the calling thread reads itself; several threads read larger outputs */
#define PL_OUTPUTS_FEW_BYTES (8u << 20)

/* Destination of a task's outputs: one pack session, opened when the first bytes need it. */
struct pl_outputs_store {
    struct pl_pack_sink sink;
    const char *project;
    struct pl_pack_builder *session; /* NULL = nothing to upload yet */
};

struct pl_outputs_request {
    const char *out; /* path of the output folder for the agent; NULL = there is no output */
    const char *pfs; /* folder that contains the output folder, as the command saw it */
    struct pl_input_references *refs;
    const struct pl_agent_protocol_datum *row;
    struct pl_outputs_store *store;
    bool keep_links; /* links are kept as they are, wherever they lead */
    /* early copies of this datum's files, after pl_early_upload_take; NULL = none */
    const struct pl_early *early;
};

/* Stores the output: sets `ops` or `root`, and `bytes_out`, of `outcome`. PL_EINVAL, PL_EPATH, PL_ECOLLISION,
 * PL_ELIMIT, PL_ENOTFOUND: the output cannot be kept; the message names the path as the command knows it.
 * Other errors: the output could not be read or uploaded. */
PL_MUST_CHECK
int pl_outputs_capture(const struct pl_outputs_request *request, struct pl_agent_protocol_outcome *outcome, struct pl_err *err);
/* Ends the pack session: when it returns, all outputs stored since the last flush are durable at the
 * daemon. */
PL_MUST_CHECK
int pl_outputs_flush(struct pl_outputs_store *store, struct pl_err *err);
/* Drops the pack session without uploading what was not flushed. */
void pl_outputs_drop(struct pl_outputs_store *store);
