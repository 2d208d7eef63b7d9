/* fsck: is everything there that the commits need, and is it what it says? Reads only; safe beside writers (what is added
 * meanwhile is not looked at).
 *
 *   1. packs      each pack's header, footer and trailer; full: every record inflated and hashed
 *   2. commits    each commit object, its trees' nodes, every chunk and chunk list that entries name
 *
 * A finding in a pack is reported at once; damage is then followed to the commits and files that need it. Memory: the damaged
 * records and PL_FSCK_VISITED_MAX ids of good nodes and lists (past it, shared subtrees are walked again: slower, not wrong). */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

struct pl_store;

#define PL_FSCK_VISITED_MAX (4u << 20)
#define PL_FSCK_DAMAGED_MAX (1u << 20) /* damaged records remembered; more are counted only */

/* One commit to check. `label` is what a person calls it: "vision/digits@9f3c…". */
struct pl_fsck_root {
    const char *label;
    struct pl_hash object; /* the commit object */
};

/* One thing that is wrong. Pointers are borrowed for the call; NULL where it does not apply. */
struct pl_fsck_finding {
    const char *what;           /* a sentence */
    const struct pl_hash *pack; /* the pack at fault */
    const struct pl_hash *id;   /* the record at fault */
    const char *commit;         /* label of the commit hurt */
    const char *path;           /* file hurt */
};

struct pl_fsck_report {
    uint64_t packs;
    uint64_t records; /* verified, with `full` */
    uint64_t commits;
    uint64_t nodes;
    uint64_t files;
    uint64_t findings;
};

struct pl_fsck_options {
    bool full;
    /* A negative result ends the check and is returned. */
    int (*finding)(void *self, const struct pl_fsck_finding *finding, struct pl_err *err);
    /* May be NULL. Asked before each pack and each node: true ends the check with PL_ECANCELED. */
    bool (*stop)(void *self);
    void *self;
};

/* 0 also when things were found: see ret->findings. Negative when the check itself could not be done. */
PL_MUST_CHECK
int pl_fsck(struct pl_store *store, const struct pl_fsck_root *roots, size_t n, const struct pl_fsck_options *options,
            struct pl_fsck_report *ret, struct pl_err *err);
