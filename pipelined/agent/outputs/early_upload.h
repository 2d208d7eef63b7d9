/* early_upload: reads and uploads output files that the command no longer changes while the command still
 * runs, so that little remains to do at its end.
 *
 *   begin ──▶ scan, scan, … ──▶ end ──▶ take, find ──▶ release
 *               a scan reads each file that has not changed for still_ms and that no process writes to
 *
 * An early copy of a file counts only if the file cannot have changed since:
 *  - When it was read, no process had it open or mapped for writing. This is checked by taking a read
 *    lease (fcntl(2), F_SETLEASE), which is released at once.
 *  - When it was read, its change time was older than still_ms, and at the end of the command its device,
 *    inode, size, mode, modification and change time are unchanged. A process that wrote to it in between
 *    had to open it again, and the first written byte updated its change time.
 * Whether this works on the work folder's file system is tested once. On tmpfs, for example, writing through
 * a mapping changes no time; on other file systems a mapped file may not count as open. On such systems the
 * chunks are uploaded early too, but the file is read again at the end. take() checks again that the daemon
 * has all chunks, because the upload session may have ended during a long command.
 *
 * metrics.jsonl is never read early, because it grows during the whole command. Bounds: PL_EARLY_UPLOAD_FILES
 * files to look at and PL_EARLY_UPLOAD_BYTES to read per attempt; no more after PL_EARLY_UPLOAD_WASTE_MAX
 * bytes were read in vain. A file that changed after it was read is not read early again. begin and end must
 * be called on the compute thread, the other functions on the upload thread. */
#pragma once

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/pack/pack_sink.h"
#include "storage/tree/tree.h"
#include <stdatomic.h>

/* default of still_ms */
#define PL_EARLY_UPLOAD_QUIET_MS  5000
#define PL_EARLY_UPLOAD_FILES     16384u
#define PL_EARLY_UPLOAD_BYTES     (32ull << 30)
#define PL_EARLY_UPLOAD_WASTE_MAX (2ull << 30)

struct pl_early;

struct pl_early_upload_config {
    const char *work; /* absolute path of the work folder, whose file system is tested */
    int out_fd;       /* descriptor of WORK/pfs/out; must outlive the object */
    /* time in ms without changes after which a file is read */
    int64_t still_ms;
    struct pl_pack_sink sink;
    const char *project;
    const atomic_bool *stopping; /* set when the agent stops; reading then ends */
};

/* Creates the object. `config` is copied; the objects that its pointers refer to are borrowed. PL_ENOMEM. The
 * functions below accept NULL, except pl_early_upload_scan and pl_early_upload_find. */
PL_MUST_CHECK
int pl_early_upload_create(const struct pl_early_upload_config *config, struct pl_early **ret, struct pl_err *err);
struct pl_early *pl_early_upload_destroy(struct pl_early *e);

/* Begins scanning for the datum `row`. Call it when the datum's command starts. `row` must stay valid until
 * release. */
void pl_early_upload_begin(struct pl_early *e, const struct pl_agent_protocol_datum *row);
/* Ends scanning. Call it when the command has ended (or, in a batch stage, waits for the next datum), before
 * its output is moved. `kept`: the output is wanted. */
void pl_early_upload_end(struct pl_early *e, const struct pl_agent_protocol_datum *row, bool kept);

/* Scans the output of the running command once and reads files that no longer change. Failures are not
 * reported: the file is read again at the end. */
void pl_early_upload_scan(struct pl_early *e);

/* True if files of the datum's output were read early and their copies are still valid. Call it after end. */
bool pl_early_upload_take(struct pl_early *e, const struct pl_agent_protocol_datum *row);
/* Returns the file's entry, valid until release; NULL = the file must be read. */
const struct pl_entry *pl_early_upload_find(const struct pl_early *e, const char *path);
/* Ends the use of the datum's early copies; returns the time in ms that the scans for it took. */
int64_t pl_early_upload_release(struct pl_early *e, const struct pl_agent_protocol_datum *row);
