/* commit_tx: transactions that make and delete commits. Bodies for pl_db_run and pl_db_submit; the data that they
 * refer to must be durable already (packs before log before answer). */
#pragma once

#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

/* One commit of one repo, with the run that it starts (a push) or belongs to (a stage's output). */
struct pl_commit_args {
    const char *project, *repo, *branch;
    const char *run; /* the commit's id; a push makes a new one (pl_id_make) */
    /* true: a stage's output; the repo must be an output repo and the run exists. false: a push to an input repo;
     * makes the run. */
    bool output;
    /* Row id of the head that the roots were built on, 0 = none. It and `parent` must still be the head: row ids
     * are reused after a deletion, ids of commits are not. -1: any head. */
    int64_t expect;
    struct pl_hash object, root, attributes, table, owner, code;
    int64_t generation, files, bytes;
    const char *parent; /* id of the head that the commit was built on, "" = none */
    const char *message, *author, *stage;
    const char *git;    /* the git commit, for a repo that follows a git repository; NULL = a user's push, or an output */
    int64_t git_repo;   /* with `git`: row id of the repo: one that was made anew under the name is another */
    json_t *provenance; /* borrowed; [{project, repo, branch, commit}]; NULL = none */
    /* hidden packs that the commit refers to; the transaction revives them; NULL = none */
    const struct pl_pack_set *stands_on;
};

/* Makes the commit. PL_ERETRY: the branch has a new head, so the caller must build the commit on that head.
 * PL_EOUTPUT: the repo is written in another way; PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_commit(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Encodes the commit object for `args` (all fields but `object`), adds it as a record to `session`, and sets
 * args->object. */
struct pl_pack_builder;
PL_MUST_CHECK
int pl_commit_object_put(struct pl_pack_builder *session, struct pl_commit_args *args, const struct pl_hash *parent_object,
                         struct pl_err *err);

struct pl_commit_delete_args {
    const char *project, *repo, *run;
    char started[PL_ID_HEX + 1]; /* out: the run of the stages that read the affected branches; "" = no such stage */
};
/* Deletes a commit of an input repo. Branches with this head fall back to its parent, and the stages that read
 * them run again. PL_EOUTPUT, PL_ENOTFOUND, PL_EINUSE: the commit's run has not ended, or the commit has children. */
PL_MUST_CHECK
int pl_tx_commit_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* ---- pushing: operations onto the head of a branch ---- */
struct pl_project_stores;

struct pl_push_args {
    const char *project, *repo, *branch;
    /* The ref that the client's changes start from; resolved once, before the first attempt. A change of the
     * same paths since the base is a conflict. NULL or "" = no base: the last writer wins. */
    const char *base;
    const char *message, *author;
    /* an ops stream (storage/tree_edit/tree_ops.h); the data that its entries refer to is durable already */
    const void *ops;
    size_t ops_len;
    /* For finishing an open commit; else all zero. */
    const char *commit; /* id of the open commit */
    int64_t repo_id;    /* row id of the open commit's repo; PL_ENOTFOUND if the name now belongs to another repo */
    /* root of the tree that the open commit started from: if other commits have changed the same paths since,
     * the push is a conflict */
    const struct pl_hash *base_root;
    const struct pl_tree_op *list; /* operations, sorted and checked; used instead of `ops` */
    size_t n_list;
    /* called to add to the pack builder those records of the open commit that are in no pack yet */
    int (*add_records)(void *self, struct pl_pack_builder *session, struct pl_err *err);
    void *self;
    /* limits the work of checking the data that the operations refer to (storage/base/effort.h); NULL = no
     * limits */
    struct pl_effort *effort;
};

struct pl_store;
struct pl_tree_op;
struct pl_effort;
/* Checks that all data named by the entries is in the store and has the stated length. Adds the hidden packs among
 * it to `hidden`, which the transaction that uses the entries must revive. The caller has a hold on the store.
 * PL_ERETRY naming the missing hash, PL_EINVAL; the errors of `effort`, which may be NULL. */
PL_MUST_CHECK
int pl_db_check_content(struct pl_store *store, const struct pl_tree_op *ops, size_t n, struct pl_pack_set *hidden,
                        struct pl_effort *effort, struct pl_err *err);

struct pl_push_result {
    bool changed;               /* false: the tree is unchanged; there is no commit and no run */
    bool made_branch;           /* the push made the branch, or its first commit */
    char commit[PL_ID_HEX + 1]; /* the branch's head afterwards; "" = it still has none */
    struct pl_hash root;
    int64_t files, bytes;
};

/* Pushes operations onto the head of a branch: edits the head's tree, writes the new nodes and commits; starts
 * over when another writer moved the head. Blocks: on the storage pool. PL_ECONFLICT with the paths that changed
 * since `base`; PL_ERETRY naming a hash that is not in the store; PL_ECOLLISION; PL_EOUTPUT; PL_ENOTFOUND (the
 * repo). */
PL_MUST_CHECK
int pl_db_push(struct pl_db *db, struct pl_project_stores *stores, const struct pl_push_args *args, struct pl_push_result *ret,
               struct pl_err *err);
