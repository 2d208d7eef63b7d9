/* reach: is all there that a tree needs? For trees that somebody brought and that something new is about to stand on (gc.h): what is
 * found in a hidden pack is told, so that the pack can be revived. */
#pragma once

#include "storage/store/store.h"

struct pl_reachability {
    struct pl_store *store;
    /* A record lies in this hidden pack; the same pack may come again. A negative result ends it. */
    int (*hidden)(void *self, const struct pl_hash *pack, struct pl_err *err);
    void *self;
    struct pl_effort *effort; /* NULL = no limits */
};

/* Nodes, lists and chunks of a tree of paths. PL_ERETRY: something is missing. PL_ECORRUPT, PL_EFORMAT (it is no tree, or a node or list
 * is not what the one above says of it), PL_EINVAL (a tree of rows), the errors of store and effort. Reads every node and list once. */
PL_MUST_CHECK
int pl_reachability_check_tree(const struct pl_reachability *reach, const struct pl_hash *root, struct pl_err *err);
