/* fsck_internal: what the files of the check share. */
#pragma once

#include "storage/dataset/fsck/fsck.h"

#include "storage/base/map.h"
#include "storage/store/store.h"

#include <pthread.h>

struct pl_fsck {
    struct pl_store *store;
    const struct pl_fsck_options *options;
    struct pl_fsck_report report;
    struct pl_map damaged;   /* ids of records that did not verify */
    struct pl_map bad_packs; /* packs of which no record is believed unread */
    pthread_mutex_t lock;    /* of all of the above while packs are read, and of the callbacks */
};

/* Whether an error is about what is stored; others end the check. */
bool pl_fsck_is_damage(int r);
/* Counts and tells. With the lock held where there are threads. */
PL_MUST_CHECK
int pl_fsck_tell(struct pl_fsck *f, const struct pl_fsck_finding *finding, struct pl_err *err);
/* PL_ECANCELED when the check is to stop. */
PL_MUST_CHECK
int pl_fsck_stopped(const struct pl_fsck *f, struct pl_err *err);
/* The packs. Fills `damaged` and `bad_packs`. */
PL_MUST_CHECK
int pl_fsck_packs(struct pl_fsck *f, struct pl_err *err);
