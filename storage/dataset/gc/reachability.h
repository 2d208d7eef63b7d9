/* reachability: checks that all records that a tree needs exist. Used for trees that clients uploaded, before
 * a commit refers to them (gc.h). Hidden packs that have some of these records are reported, so that they can
 * be revived. */
#pragma once

#include "storage/store/store.h"

struct pl_reachability {
    struct pl_store *store;
    /* Called if a needed record is in the hidden pack `pack`; the same pack may be reported several times. A
     * negative result ends the check and is returned. */
    int (*hidden)(void *self, const struct pl_hash *pack, struct pl_err *err);
    void *self;
    struct pl_effort *effort; /* limits of the work; NULL = no limits */
};

/* Checks nodes, lists and chunks of a tree of paths. PL_ERETRY: a record is missing. PL_ECORRUPT,
 * PL_EFORMAT: it is not a tree, or a node or list does not agree with the one above it. PL_EINVAL: a tree
 * of rows. Also returns errors of the store and of `effort`. Reads every node and list once. */
PL_MUST_CHECK
int pl_reachability_check_tree(const struct pl_reachability *reach, const struct pl_hash *root, struct pl_err *err);
