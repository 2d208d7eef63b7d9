/* mirror_internal: what the files of mirroring share. */
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
    uint64_t looked_at;   /* packs of this round */
    pthread_mutex_t lock; /* of sum, looked_at and the callbacks while packs are copied */
};

/* Counts and tells a finding; with the lock held where there are threads. So is the next. */
PL_MUST_CHECK
int pl_mirror_tell(struct pl_mirror *m, const char *key, const char *what, struct pl_err *err);
void pl_mirror_progress(struct pl_mirror *m, const char *stage, uint64_t done);
/* PL_ECANCELED when it is to stop. Any thread. */
PL_MUST_CHECK
int pl_mirror_stopped(const struct pl_mirror *m, struct pl_err *err);

/* Copies the packs that the target lacks; durable on return. */
PL_MUST_CHECK
int pl_mirror_packs(struct pl_mirror *m, struct pl_err *err);
/* The last number of the source's log, which has no gap. */
PL_MUST_CHECK
int pl_mirror_log_end(struct pl_mirror *m, uint64_t *ret, struct pl_err *err);
/* Whether a log object of the source after `after`, up to `upto`, dooms a pack. */
PL_MUST_CHECK
int pl_mirror_dooms(struct pl_mirror *m, uint64_t after, uint64_t upto, bool *ret, struct pl_err *err);
/* The log up to `upto`, and checkpoints that stand on it. */
PL_MUST_CHECK
int pl_mirror_log(struct pl_mirror *m, uint64_t upto, struct pl_err *err);
