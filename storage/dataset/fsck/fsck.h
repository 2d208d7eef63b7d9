/* storage/dataset/fsck: Verifies that all records exist and match their ids. Reads only.
 *
 * In:      Roots and a store.
 * Out:     One finding per damaged record and per file that it affects.
 * Uses:    storage/{base, chunk, store, system, tree}, storage/dataset/{commit, log}
 * Threads: The caller's thread, and the room's own threads for packs.
 *
 * Headers for other rooms:
 *   fsck_log       verifies the log and its checkpoints
 *
 * Inside:
 *   fsck_internal  state shared by the fsck files
 *   fsck_packs     verifies packs with several threads */

/* fsck checks that all records that the roots need exist and match their ids. It only reads. Other threads
 * may write to the store meanwhile. Records that they add are not checked, and findings for roots that they
 * delete are not reported (see `alive`).
 *
 *   1. packs   header, footer and trailer of each pack; `full`: every record is decompressed and hashed.
 *              Several threads, in order of id, so that an interrupted check can continue.
 *   2. roots   each commit object, the nodes of its trees, and every chunk and chunk list that entries
 *              refer to; trees of code; blobs
 *
 * A finding in a pack is reported at once; then the commits and files that need the damaged record are
 * reported. Memory: the ids of the damaged records; the ids of at most PL_FSCK_VISITED_MAX intact nodes and
 * lists (beyond that number, shared subtrees are checked repeatedly); one window and one footer per thread.
 * The log and its checkpoints: fsck_log.h. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

struct pl_store;

#define PL_FSCK_VISITED_MAX (4u << 20)
#define PL_FSCK_DAMAGED_MAX (1u << 20) /* damaged records remembered; further ones are only reported */
#define PL_FSCK_THREADS_MAX 16u

enum pl_fsck_kind { PL_FSCK_COMMIT, PL_FSCK_TREE, PL_FSCK_BLOB };

/* A root: an object that must be complete. `label` is its name for users: "vision/digits@9f3c…". */
struct pl_fsck_root {
    const char *label;
    struct pl_hash object; /* id of the commit object, of the tree's root, or of the blob */
    enum pl_fsck_kind kind;
};

/* One finding. Pointers are valid during the call; NULL = not applicable. */
struct pl_fsck_finding {
    const char *what;           /* description of the finding, for users */
    const struct pl_hash *pack; /* id of the damaged pack */
    const struct pl_hash *id;   /* damaged or missing record */
    const char *commit;         /* label of the affected root */
    const char *path;           /* path of the affected file */
    const char *object;         /* key of the damaged or missing object, if it is not a pack */
};

struct pl_fsck_report {
    uint64_t packs;
    uint64_t records; /* records verified; counted with `full` */
    uint64_t commits;
    uint64_t nodes;
    uint64_t files;
    uint64_t blobs;
    uint64_t log_objects;
    uint64_t checkpoints;
    uint64_t earlier; /* packs that the interrupted check had already verified */
    uint64_t findings;
};

struct pl_fsck_progress {
    const char *stage; /* "packs", "commits", "log" or "checkpoints" */
    uint64_t done, total;
    /* in the stage "packs": this pack and all packs with lower ids are done; NULL = none is done yet */
    const struct pl_hash *upto;
};

struct pl_fsck_options {
    bool full;
    unsigned threads; /* threads for packs; 0 = one per core, at most PL_FSCK_THREADS_MAX */
    /* To continue an interrupted check: packs up to `after` (NULL: none) are not read again, except those
     * in `again`, in which the interrupted check had findings. */
    const struct pl_hash *after, *again;
    size_t n_again;
    /* Called for each finding; may be NULL. A negative result ends the check and is returned. Calls do not
     * overlap; they come from any thread. */
    int (*finding)(void *self, const struct pl_fsck_finding *finding, struct pl_err *err);
    /* Called with the progress, under the same conditions as `finding`. May be NULL. */
    int (*progress)(void *self, const struct pl_fsck_progress *progress, struct pl_err *err);
    /* Called before each pack and each node, from any thread: true ends the check with PL_ECANCELED. May
     * be NULL. */
    bool (*stop)(void *self);
    /* Called before the first finding about a root is reported: false = the root was deleted meanwhile, so
     * the finding is dropped. May be NULL. */
    bool (*alive)(void *self, const struct pl_fsck_root *root);
    void *self;
};

/* Runs a check. Returns 0 even if there are findings (sum->findings); negative if the check itself failed.
 * The counts are added to `sum`, even if the check fails. Blocks. */
PL_MUST_CHECK
int pl_fsck(struct pl_store *store, const struct pl_fsck_root *roots, size_t n, const struct pl_fsck_options *options,
            struct pl_fsck_report *sum, struct pl_err *err);
