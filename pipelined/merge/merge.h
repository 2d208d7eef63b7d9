/* merge: Merges outputs of datums into one tree, in full or as an edit of the base commit. Pure.
 *
 * In:      Entries per datum.
 * Out:     Root, owner tree and datum table, or a collision with its remedy.
 * Uses:    plan, text, storage/{base, tree, tree_edit}
 * Threads: Storage pool.
 *
 * Headers for other rooms:
 *   merge_incremental        edits the base commit's trees with the outputs of changed datums
 *
 * Inside:
 *   merge_collision          error text for two datums that wrote one path
 *   merge_incremental_items  paths and folders touched by an incremental merge
 *   merge_owners             owner-tree rows during a merge */

/* merge: joins the outputs of a job's datums into one tree: renders the prefixes, checks the paths, refuses
 * collisions.
 *
 *   create ──datum i──▶ put… / add_ops… / add_tree… ──next datum──▶ … ──finish──▶ items, build
 *
 * The datums may be added in any order. Sorting is done once, in finish: n log n in every case. An empty
 * directory is replaced by anything below it, and is merged with the same empty directory of another datum.
 * Memory: 24 bytes, the path and the encoded entry per output. Single-threaded. */
#pragma once

#include "pipelined/plan/plan.h"
#include "storage/tree/tree_build.h"

#define PL_MERGE_DEFAULT_BYTES ((size_t)4 << 30)

struct pl_merge;

/* Creates a merge. `plan` names the datums and must outlive it. `max_bytes` 0 = PL_MERGE_DEFAULT_BYTES.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_create(const struct pl_plan *plan, size_t max_bytes, struct pl_merge **ret, struct pl_err *err);
struct pl_merge *pl_merge_destroy(struct pl_merge *m);
static inline void pl_merge_destroyp(struct pl_merge **m)
{
    *m = pl_merge_destroy(*m);
}

/* Begins a datum: renders its prefix; the following outputs belong to it. */
PL_MUST_CHECK
int pl_merge_datum(struct pl_merge *m, size_t datum, struct pl_err *err);
/* Records that the datum failed and is left out: it has no outputs, and the owner tree has a row for it. */
PL_MUST_CHECK
int pl_merge_failed(struct pl_merge *m, size_t datum, struct pl_err *err);
/* Adds an output at a path relative to the datum's output folder. PL_EPATH: the path with its prefix is not
 * allowed. PL_ELIMIT: more than max_bytes. */
PL_MUST_CHECK
int pl_merge_put(struct pl_merge *m, const char *path, size_t len, const struct pl_entry *entry, struct pl_err *err);
/* Adds an ops stream, which may contain only puts. PL_EFORMAT, and errors as for pl_merge_put. */
PL_MUST_CHECK
int pl_merge_add_ops(struct pl_merge *m, const void *ops, size_t len, struct pl_err *err);
/* Adds all entries of a tree. Errors as for pl_merge_put, and of reading the tree. */
PL_MUST_CHECK
int pl_merge_add_tree(struct pl_merge *m, const struct pl_node_source *source, const struct pl_hash *root, struct pl_err *err);

/* Sorts and checks the outputs; call it once. PL_ECOLLISION: `/predictions.csv was written by two datums
 * (test=/test/b1.csv, test=/test/b2.csv): give each a folder with "output": {"prefix": "${test.stem}/"}`.
 * If there are several collisions, the order in which the datums were added does not change which one is reported:
 * the one with the lowest path. Collisions of two files at one path come before those of a file and a folder. */
PL_MUST_CHECK
int pl_merge_finish(struct pl_merge *m, struct pl_err *err);

struct pl_merge_item {
    const char *path; /* NUL-terminated; belongs to the merge */
    size_t path_len;
    struct pl_entry entry;
    size_t datum;
};

/* After finish: number of outputs, and the i-th output in the order of paths. */
size_t pl_merge_count(const struct pl_merge *m);
void pl_merge_item(const struct pl_merge *m, size_t i, struct pl_merge_item *ret);
/* After finish: returns the total size of the files in bytes. */
uint64_t pl_merge_bytes(const struct pl_merge *m);

/* After finish: writes the output tree and the owner tree (datum_table.h). Call it once. Errors of the
 * sink. */
PL_MUST_CHECK
int pl_merge_build(struct pl_merge *m, const struct pl_node_sink *sink, struct pl_hash *ret_output, struct pl_hash *ret_owner,
                   struct pl_tree_stats *ret_stats, struct pl_err *err);

/* After finish: checks that every glob of output.expect matches a file or folder of the output. PL_ESTAGE:
 * `stage train succeeded but wrote nothing matching /model.npz; it wrote /model.npy, /metrics.json`. A job
 * without datums is not checked. */
PL_MUST_CHECK
int pl_merge_expect(const struct pl_merge *m, struct pl_err *err);
