/* ingest_names: the paths that an ingest of a folder would store, without opening files. Used to plan a run
 * with a local folder as input. */
#pragma once

#include "storage/base/hash.h"
#include "storage/tree/tree.h"

/* The tree that an ingest of the folder would produce, but with every file empty: its paths and kinds are
 * those of a push. Its nodes are in memory (about 60 bytes per file). `{0}` is an empty tree. Only one thread
 * at a time may read it. */
struct pl_name_tree {
    struct pl_hash root;
    uint64_t files; /* number of files and links */
    struct pl_name_tree_nodes *nodes;
};

/* Walks `folder`, a path as for open(2). Rejects what an ingest rejects before it reads files:
 * PL_ENOTFOUND, PL_EIO, PL_EPATH, PL_EINVAL, PL_ELIMIT. */
PL_MUST_CHECK
int pl_name_tree_read(const char *folder, struct pl_name_tree *ret, struct pl_err *err);
void pl_name_tree_finish(struct pl_name_tree *t);
/* Returns a source of the tree's nodes; it borrows `t`. */
struct pl_node_source pl_name_tree_source(struct pl_name_tree *t);
