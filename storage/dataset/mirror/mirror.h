/* storage/dataset/mirror: Makes one store equal to another by copying what is missing.
 *
 * In:      Two open stores.
 * Out:     A store that recovers to the same database.
 * Uses:    storage/{base, object, pack, system}, storage/dataset/log
 * Threads: The caller's thread, and the room's own copy threads.
 *
 * Inside:
 *   mirror_internal  state shared by the mirror files
 *   mirror_log       copies the log and checkpoints
 *   mirror_packs     copies missing packs with several threads */

/* mirror makes one store equal to another by copying what is missing. It works with any two storage
 * drivers, so it can also move a store from a folder to a bucket and back. The source may be in use; no
 * daemon may run on the target.
 *
 *   marker ─▶ packs that the target lacks: several at once, every record verified ─▶ flush ─▶ log objects,
 *   one by one, the chain of hashes checked ─▶ checkpoints ─▶ did the source doom packs meanwhile? then again
 *
 * Each step needs only what earlier steps have copied. At every moment the target can thus be recovered to
 * some earlier state of the source, and after an interruption the next call continues. The log is copied
 * only up to its end before the packs were listed: the packs that these commits need existed then (packs
 * are durable before the record that needs them), unless garbage collection removed them since. If it has,
 * the log contains `doomed` records after that point, and the copying is repeated up to the new end of the
 * log.
 *
 * A pack that is damaged in the source is not copied but reported as a finding; all others are copied.
 * Packs of the target that the source no longer has stay; a daemon on the target collects them. Blocks.
 * Memory: PL_MIRROR_THREADS_MAX packs of 64 MiB, and the keys of the target's packs. */
#pragma once

#include "storage/object/object.h"

#define PL_MIRROR_THREADS_MAX 4u
/* maximum number of rounds: if garbage collection removed packs of the source in each of them, the caller
 * must try again later */
#define PL_MIRROR_ROUNDS_MAX 16u

struct pl_mirror_progress {
    const char *stage; /* "packs", "log" or "checkpoints" */
    /* `done`: objects of this stage that are done; `bytes`: bytes copied in all stages so far */
    uint64_t done, bytes;
};

struct pl_mirror_options {
    unsigned threads; /* 0 = one per core, at most PL_MIRROR_THREADS_MAX */
    /* also verify the packs that the target already has, and replace damaged ones with those of the source */
    bool full;
    const char *temp_dir; /* folder for the temporary file of a checkpoint */
    /* Called for a damaged object with its key and a description. A negative result ends the mirroring and
     * is returned. May be NULL. */
    int (*finding)(void *self, const char *key, const char *what, struct pl_err *err);
    /* Called with the progress, from any thread; calls do not overlap. May be NULL. */
    void (*progress)(void *self, const struct pl_mirror_progress *progress);
    /* Called from any thread; true ends the mirroring with PL_ECANCELED. May be NULL. */
    bool (*stop)(void *self);
    void *self;
};

struct pl_mirror_report {
    uint64_t packs, bytes; /* number and total size of the packs copied */
    uint64_t there;        /* packs that the target already had */
    uint64_t replaced;     /* damaged packs of the target that were replaced (`full`) */
    uint64_t log_objects;  /* log objects copied */
    uint64_t log_seq;      /* number of the target's last log object after the mirroring */
    uint64_t checkpoints;  /* checkpoints copied */
    uint64_t findings;
};

/* Mirrors `from` to `to`. Returns 0 even if there are findings. PL_ECONFLICT: the target is another store;
 * PL_EFORMAT: it is not a store, but not empty; PL_ELOG: the logs differ, or the source's log has a gap;
 * PL_EBUSY: PL_MIRROR_ROUNDS_MAX reached; errors of the drivers. The counts are added to `sum`, even if the
 * mirroring fails. */
PL_MUST_CHECK
int pl_mirror(struct pl_object_store *from, struct pl_object_store *to, const struct pl_mirror_options *options,
              struct pl_mirror_report *sum, struct pl_err *err);
