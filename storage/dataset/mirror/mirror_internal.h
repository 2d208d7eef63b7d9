/* mirror_internal: state and functions shared by the files of this room. */
#pragma once

#include "storage/dataset/log/log.h"
#include "storage/dataset/log/log_checkpoint.h"
#include "storage/dataset/mirror/mirror.h"

#include <pthread.h>

struct pl_mirror {
    struct pl_object_store *from, *to;
    const struct pl_mirror_options *options;
    struct pl_mirror_report *sum;
    uint8_t store_id[16];
    uint64_t looked_at;   /* packs of this round that are done */
    pthread_mutex_t lock; /* guards sum, looked_at and the callbacks while packs are copied */
};

/* pl_mirror_tell counts and reports a finding; pl_mirror_progress reports the progress. The caller holds
 * `lock` while several threads run. */
PL_MUST_CHECK
int pl_mirror_tell(struct pl_mirror *m, const char *key, const char *what, struct pl_err *err);
void pl_mirror_progress(struct pl_mirror *m, const char *stage, uint64_t done);
/* PL_ECANCELED: the caller wants the mirroring to stop. Any thread. */
PL_MUST_CHECK
int pl_mirror_stopped(const struct pl_mirror *m, struct pl_err *err);

/* Copies the packs that the target lacks; they are durable on return. */
PL_MUST_CHECK
int pl_mirror_packs(struct pl_mirror *m, struct pl_err *err);
/* Returns the last number of the source's log. PL_ELOG: the log has a gap. */
PL_MUST_CHECK
int pl_mirror_log_end(struct pl_mirror *m, uint64_t *ret, struct pl_err *err);
/* Sets `*ret` if a log object of the source after number `after`, up to `upto`, dooms a pack. */
PL_MUST_CHECK
int pl_mirror_dooms(struct pl_mirror *m, uint64_t after, uint64_t upto, bool *ret, struct pl_err *err);
/* Copies the log up to number `upto`, and the checkpoints up to that number. */
PL_MUST_CHECK
int pl_mirror_log(struct pl_mirror *m, uint64_t upto, struct pl_err *err);
