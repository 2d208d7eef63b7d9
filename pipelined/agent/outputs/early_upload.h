/* early: output files that the command leaves alone are read and uploaded while it still runs, so that little is left to do at its end.
 *
 *   begin ──▶ look, look, … (a file not touched for still_ms ──nobody writes──▶ read, chunks at the daemon) ──▶ end ──▶ take, find ──▶ release
 *             └──────────────── the thread that uploads ─────────────────┘        └ compute ┘
 *
 * What was read counts only for a file that cannot have changed since:
 *   - when it was read nobody had it open for writing or mapped so: a read lease was granted (fcntl(2), F_SETLEASE), and given back at once;
 *   - its change time was older than still_ms then, and at the end of the command device, inode, size, modification and change time are
 *     the same. Whoever wrote to it between had to open it anew, and moved the change time before the first byte.
 * Whether that holds on the work folder's file system is tried once: tmpfs lets a mapped file be written and no time moves, on others a mapped
 * file may not count as open. There chunks are uploaded early all the same, and the file is read again at the end.
 * Chunks are asked for again in take: the session that brought them may have ended during a long command.
 *
 * Not metrics.jsonl, which is followed. Bounds: PL_EARLY_UPLOAD_FILES to look at and PL_EARLY_UPLOAD_BYTES to read in one attempt; none after PL_EARLY_UPLOAD_WASTE_MAX
 * bytes were read for nothing; a file that changed after it was read is not read early again.
 * begin and end are called by the thread that runs commands, the others by the one that uploads. */
#pragma once

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/pack/pack_sink.h"
#include "storage/tree/tree.h"
#include <stdatomic.h>

#define PL_EARLY_UPLOAD_QUIET_MS  5000
#define PL_EARLY_UPLOAD_FILES     16384u
#define PL_EARLY_UPLOAD_BYTES     (32ull << 30)
#define PL_EARLY_UPLOAD_WASTE_MAX (2ull << 30)

struct pl_early;

struct pl_early_upload_config {
    const char *work; /* absolute; for the trial */
    int out_fd;       /* WORK/pfs/out; outlives it */
    int64_t still_ms;
    struct pl_pack_sink sink;
    const char *project;
    const atomic_bool *stopping; /* reading ends */
};

PL_MUST_CHECK
int pl_early_upload_create(const struct pl_early_upload_config *config, struct pl_early **ret, struct pl_err *err);
struct pl_early *pl_early_upload_destroy(struct pl_early *e);

/* The command of `row` starts. */
void pl_early_upload_begin(struct pl_early *e, const struct pl_agent_protocol_datum *row);
/* It stands still or is dead, and its output has not been moved. `kept`: the output is wanted. */
void pl_early_upload_end(struct pl_early *e, const struct pl_agent_protocol_datum *row, bool kept);

/* One look at the output of the command that runs: reads what has been still. Failures are left to the upload at the end. */
void pl_early_upload_scan(struct pl_early *e);

/* After end: whether anything was read of the row's output that counts. */
bool pl_early_upload_take(struct pl_early *e, const struct pl_agent_protocol_datum *row);
/* The file's entry, until release; NULL: read it. */
const struct pl_entry *pl_early_upload_find(const struct pl_early *e, const char *path);
/* The row is through; the time that looks took for it, in ms. */
int64_t pl_early_upload_release(struct pl_early *e, const struct pl_agent_protocol_datum *row);
