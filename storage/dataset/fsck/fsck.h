/* storage/dataset/fsck: Verifies that everything is there and is what its id says. Reads only.
 *
 * In:      Roots and a store.
 * Out:     One finding per damaged record with the files that it affects.
 * Uses:    storage/{base, chunk, store, system, tree}, storage/dataset/{commit, log}
 * Threads: The caller, and threads of its own for packs.
 *
 * Headers for other rooms:
 *   fsck_log       verifies the log and its checkpoints
 *
 * Inside:
 *   fsck_internal  state shared by the fsck files
 *   fsck_packs     verifies packs with several threads */

/* fsck: is everything there that the commits need, and is it what it says? Reads only; safe beside writers (what is added
 * meanwhile is not looked at) and beside what is deleted (roots are asked for again before they are said to be hurt).
 *
 *   1. packs      each pack's header, footer and trailer; full: every record inflated and hashed, by several threads, in order of ids, so
 *                 that an interrupted check goes on where it was
 *   2. roots      each commit object, its trees' nodes, every chunk and chunk list that entries name; trees of code; blobs
 *
 * A finding in a pack is reported at once; damage is then followed to the commits and files that need it. Memory: the damaged
 * records, PL_FSCK_VISITED_MAX ids of good nodes and lists (past it, shared subtrees are walked again: slower, not wrong), a window and
 * a footer a thread. The log and its checkpoints: fsck_log.h. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

struct pl_store;

#define PL_FSCK_VISITED_MAX (4u << 20)
#define PL_FSCK_DAMAGED_MAX (1u << 20) /* damaged records remembered; more are counted only */
#define PL_FSCK_THREADS_MAX 16u

enum pl_fsck_kind { PL_FSCK_COMMIT, PL_FSCK_TREE, PL_FSCK_BLOB };

/* One thing that must be whole. `label` is what a person calls it: "vision/digits@9f3c…". */
struct pl_fsck_root {
    const char *label;
    struct pl_hash object; /* the commit object, the tree's root, the blob */
    enum pl_fsck_kind kind;
};

/* One thing that is wrong. Pointers are borrowed for the call; NULL where it does not apply. */
struct pl_fsck_finding {
    const char *what;           /* a sentence */
    const struct pl_hash *pack; /* the pack at fault */
    const struct pl_hash *id;   /* the record at fault */
    const char *commit;         /* label of the root hurt */
    const char *path;           /* file hurt */
    const char *object;         /* key of the object at fault, when it is no pack */
};

struct pl_fsck_report {
    uint64_t packs;
    uint64_t records; /* verified, with `full` */
    uint64_t commits;
    uint64_t nodes;
    uint64_t files;
    uint64_t blobs;
    uint64_t log_objects;
    uint64_t checkpoints;
    uint64_t earlier; /* packs that the interrupted check had read */
    uint64_t findings;
};

struct pl_fsck_progress {
    const char *stage; /* "packs", "commits", "log", "checkpoints" */
    uint64_t done, total;
    const struct pl_hash *upto; /* packs: this one and all before it are done; NULL = none yet */
};

struct pl_fsck_options {
    bool full;
    unsigned threads; /* for packs; 0 = as many as cores, at most PL_FSCK_THREADS_MAX */
    /* An interrupted check goes on: packs up to `after` (NULL: none) are not read again, but for those in `again`, where it had
     * findings. */
    const struct pl_hash *after, *again;
    size_t n_again;
    /* A negative result ends the check and is returned. One call at a time, from any thread. */
    int (*finding)(void *self, const struct pl_fsck_finding *finding, struct pl_err *err);
    /* May be NULL. As `finding`. */
    int (*progress)(void *self, const struct pl_fsck_progress *progress, struct pl_err *err);
    /* May be NULL. Asked before each pack and each node, from any thread: true ends the check with PL_ECANCELED. */
    bool (*stop)(void *self);
    /* May be NULL. Asked before a root is said to be hurt: false = it was deleted meanwhile, and may be. */
    bool (*alive)(void *self, const struct pl_fsck_root *root);
    void *self;
};

/* 0 also when things were found: see sum->findings. Negative when the check itself could not be done. `sum` is added to, whatever the result. */
PL_MUST_CHECK
int pl_fsck(struct pl_store *store, const struct pl_fsck_root *roots, size_t n, const struct pl_fsck_options *options,
            struct pl_fsck_report *sum, struct pl_err *err);
