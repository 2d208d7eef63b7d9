/* commit_tx: the transactions that make commits and end jobs and runs. Bodies for pl_db_run and pl_db_submit; what they take must be
 * durable already (packs before log before answer). */
#pragma once

#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

/* One commit of one repo, and with it the run that it starts (a push) or belongs to (a stage's output). */
struct pl_commit_args {
    const char *project, *repo, *branch;
    const char *run; /* the commit's id; a push makes a new one (pl_id_make) */
    bool output; /* by a stage: the repo must be an output repo, the run exists; else an input repo and the run is made here */
    /* Row id of the head that the roots were built on, 0 = none: it and `parent` must be the head still (row ids come again after a
     * deletion, ids of commits do not). -1: whatever it is. */
    int64_t expect;
    struct pl_hash object, root, attributes, table, owner, code;
    int64_t generation, files, bytes;
    const char *parent; /* id of the head built on, "" = none */
    const char *message, *author, *stage;
    json_t *provenance;                  /* borrowed; [{project, repo, branch, commit}]; NULL = none */
    const struct pl_pack_set *stands_on; /* hidden packs of what was looked up for it, which live again with it; NULL = none */
};

/* PL_ERETRY: the head moved on; build anew on it. PL_EOUTPUT, PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_commit(struct pl_tx *tx, void *arg, struct pl_err *err);

/* The bytes of the commit object for `args` (its fields but `object`), put as a record into `session`; fills args->object. */
struct pl_pack_builder;
PL_MUST_CHECK
int pl_commit_object_put(struct pl_pack_builder *session, struct pl_commit_args *args, const struct pl_hash *parent_object,
                         struct pl_err *err);

struct pl_commit_delete_args {
    const char *project, *repo, *run;
    char started[PL_ID_HEX + 1]; /* out: the run of the stages that read what fell back; "" = there are none */
};
/* An input repo's commit goes; branches on it fall back to its parent, and the stages that read them run. PL_EOUTPUT, PL_ENOTFOUND,
 * PL_EINUSE: its run is still going, or later commits stand on it. */
PL_MUST_CHECK
int pl_tx_commit_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* ---- pushing: operations onto the head of a branch ---- */
struct pl_project_stores;

struct pl_push_args {
    const char *project, *repo, *branch;
    /* Ref the writer started from, looked up once, before the first attempt; NULL or "" = none named: the last writer wins. */
    const char *base;
    const char *message, *author;
    const void *ops; /* an ops stream (storage/tree_edit/tree_ops.h); what its entries name is durable already */
    size_t ops_len;
    /* Of an open commit that is finished; else all zero. */
    const char *commit;              /* its id */
    int64_t repo_id;                 /* the repo's row: another one of that name is not meant */
    const struct pl_hash *base_root; /* the tree that it began on: others' changes of its paths since then are conflicts */
    const struct pl_tree_op *list;   /* instead of ops: sorted, checked */
    size_t n_list;
    int (*add_records)(void *self, struct pl_pack_builder *session, struct pl_err *err); /* what is in no pack yet */
    void *self;
    struct pl_effort *effort; /* of looking at what is named (storage/base/effort.h); NULL = no limits */
};

struct pl_store;
struct pl_tree_op;
struct pl_effort;
/* That all that the entries name is in the store, and as long as they say; `hidden` gets the hidden packs of it, to be revived with what
 * the entries become part of. Under a hold. PL_ERETRY naming the hash, PL_EINVAL; the errors of `effort`, which may be NULL. */
PL_MUST_CHECK
int pl_db_check_content(struct pl_store *store, const struct pl_tree_op *ops, size_t n, struct pl_pack_set *hidden,
                        struct pl_effort *effort, struct pl_err *err);

struct pl_push_result {
    bool changed;               /* false: the tree is what it was: no commit, no run */
    char commit[PL_ID_HEX + 1]; /* the head afterwards; "" = still none */
    struct pl_hash root;
    int64_t files, bytes;
};

/* Edits the head's tree, writes the new nodes, commits; begins anew when another writer was faster. Blocks: on the storage pool.
 * PL_ECONFLICT with the paths when `base` was named and somebody changed one of them since; PL_ERETRY naming the hashes that are not
 * in the store; PL_ECOLLISION; PL_EOUTPUT; PL_ENOTFOUND (the repo). */
PL_MUST_CHECK
int pl_db_push(struct pl_db *db, struct pl_project_stores *stores, const struct pl_push_args *args, struct pl_push_result *ret,
               struct pl_err *err);
