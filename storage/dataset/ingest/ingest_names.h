/* ingest_names: what an ingest would take of a folder, by name alone: no file is opened. For planning over a folder of this machine. */
#pragma once

#include "storage/base/hash.h"
#include "storage/tree/tree.h"

/* The tree that an ingest of the folder would make, but with every file empty: its paths, kinds and names are those of a push, its
 * contents are not. Nodes lie in memory (about 60 bytes a file). `{0}` is the tree of nothing. Read by one thread. */
struct pl_name_tree {
    struct pl_hash root;
    uint64_t files; /* files and links */
    struct pl_name_tree_nodes *nodes;
};

/* `folder` as open(2) takes it. Refuses what an ingest refuses before it reads: PL_ENOTFOUND, PL_EIO, PL_EPATH, PL_EINVAL, PL_ELIMIT. */
PL_MUST_CHECK
int pl_name_tree_read(const char *folder, struct pl_name_tree *ret, struct pl_err *err);
void pl_name_tree_finish(struct pl_name_tree *t);
/* Reads the tree's nodes; borrows `t`. */
struct pl_node_source pl_name_tree_source(struct pl_name_tree *t);
