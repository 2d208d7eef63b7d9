/* storage/dataset/mirror: Makes one store equal to another by copying what is missing.
 *
 * In:      Two open stores.
 * Out:     A store that recovers to the same database.
 * Uses:    storage/{base, object, pack, system}, storage/dataset/log
 * Threads: The caller, and copy threads of its own.
 *
 * Inside:
 *   mirror_internal  state shared by the mirror files
 *   mirror_log       copies the log and checkpoints
 *   mirror_packs     copies missing packs with several threads */

/* mirror: one store made equal to another, by what is missing. Works over any two drivers: it is also the way to move a store from a
 * folder to a bucket and back. The source may be in use; the target must be nobody's.
 *
 *   marker ─▶ packs that the target lacks, several at once, every record hashed on the way ─▶ flush ─▶ log objects, one after another,
 *   the chain checked ─▶ checkpoints ─▶ packs that went from the source meanwhile? again
 *
 * What comes last needs only what came before, so the target is at every moment a store that recovers, to some earlier state of the
 * source; whatever interrupts this, the next call goes on. The log is copied up to where it ended before packs were listed: what its
 * commits need was there then (packs are durable before the record that needs them), unless garbage collection took it since. That is
 * seen by `doomed` records after that point, and then all is done once more up to the new end.
 *
 * A pack that is damaged in the source is not copied and told as a finding; the rest is. Packs of the target that the source has no
 * more stay: a daemon on the target collects them. Blocks. Memory: PL_MIRROR_THREADS_MAX packs of 64 MiB, and a key a pack of the
 * target. */
#pragma once

#include "storage/object/object.h"

#define PL_MIRROR_THREADS_MAX 4u
#define PL_MIRROR_ROUNDS_MAX  16u /* garbage collection that goes on and on is waited for by the next call */

struct pl_mirror_progress {
    const char *stage;    /* "packs", "log", "checkpoints" */
    uint64_t done, bytes; /* of this stage, looked at; bytes copied in all */
};

struct pl_mirror_options {
    unsigned threads; /* 0 = as many as cores, at most PL_MIRROR_THREADS_MAX */
    bool full; /* packs that the target has are read and verified, too, and replaced by the source's when they are damaged */
    const char *temp_dir; /* where a checkpoint lies on its way */
    /* An object that is not what it should be: `key`, and a sentence. Negative ends the mirroring with that. May be NULL. */
    int (*finding)(void *self, const char *key, const char *what, struct pl_err *err);
    /* One call at a time, from any thread. May be NULL. */
    void (*progress)(void *self, const struct pl_mirror_progress *progress);
    /* From any thread; true: PL_ECANCELED. May be NULL. */
    bool (*stop)(void *self);
    void *self;
};

struct pl_mirror_report {
    uint64_t packs, bytes; /* copied */
    uint64_t there;        /* packs that the target had */
    uint64_t replaced;     /* of those, damaged ones (`full`) */
    uint64_t log_objects;  /* copied */
    uint64_t log_seq;      /* where the target's log ends now */
    uint64_t checkpoints;  /* copied */
    uint64_t findings;
};

/* 0 also with findings. PL_ECONFLICT: the target is another store; PL_EFORMAT: it is none, but not empty; PL_ELOG: the target's log has
 * gone its own way, or the source's has a gap; errors of the drivers. `sum` is added to, whatever the result. */
PL_MUST_CHECK
int pl_mirror(struct pl_object_store *from, struct pl_object_store *to, const struct pl_mirror_options *options,
              struct pl_mirror_report *sum, struct pl_err *err);
