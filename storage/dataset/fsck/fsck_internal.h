/* fsck_internal: state and functions shared by the files of this room. */
#pragma once

#include "storage/dataset/fsck/fsck.h"

#include "storage/base/map.h"
#include "storage/store/store.h"

#include <pthread.h>

struct pl_fsck {
    struct pl_store *store;
    const struct pl_fsck_options *options;
    struct pl_fsck_report report;
    struct pl_map damaged; /* ids of records that failed verification */
    /* packs that failed verification as a whole. A record in such a pack counts as intact only after that
     * record was read and verified */
    struct pl_map bad_packs;
    pthread_mutex_t lock; /* guards the fields above while packs are checked, and serialises the callbacks */
};

/* True if an error is about stored data; other errors end the check. */
bool pl_fsck_is_damage(int r);
/* Counts a finding and reports it. The caller holds `lock` while several threads run. */
PL_MUST_CHECK
int pl_fsck_tell(struct pl_fsck *f, const struct pl_fsck_finding *finding, struct pl_err *err);
/* PL_ECANCELED: the caller of the check wants it to stop. */
PL_MUST_CHECK
int pl_fsck_stopped(const struct pl_fsck *f, struct pl_err *err);
/* Checks all packs and fills `damaged` and `bad_packs`. */
PL_MUST_CHECK
int pl_fsck_packs(struct pl_fsck *f, struct pl_err *err);
