/* names: from what people write to rows. Read by any connection. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "storage/dataset/commit/commit_ref.h"

struct pl_repo_row {
    int64_t id;
    bool output; /* written by a stage */
    /* Options. */
    int64_t commit_window_ms; /* puts gather for so long; 0 = each is a commit */
    bool bucket;              /* durable: bucket: a put is answered when a pack has it */
};

/* 1, or 0: there is none. */
PL_MUST_CHECK
int pl_db_repo_seek(struct pl_conn *c, const char *project, const char *repo, struct pl_repo_row *ret, struct pl_err *err);
/* PL_ENOTFOUND: `repo "x" does not exist in project "p"`, with the nearest name as hint. */
PL_MUST_CHECK
int pl_db_repo_find(struct pl_conn *c, const char *project, const char *repo, struct pl_repo_row *ret, struct pl_err *err);

/* Has the project its network off (its stages have none, whatever they say)? One that does not exist has not. */
PL_MUST_CHECK
int pl_db_network_off(struct pl_conn *c, const char *project, bool *ret, struct pl_err *err);

/* {pipeline name} that owns the output repo `stage`, malloc'ed; PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_db_stage_owner(struct pl_conn *c, const char *project, const char *stage, char **ret, struct pl_err *err);
/* Nobody but its stage writes an output repo: PL_EOUTPUT, saying whose it is or was. */
int pl_db_refuse_output(struct pl_conn *c, const char *project, const char *repo, struct pl_err *err);

#define PL_BRANCH_LIKE_ID_DIGITS                                                                                                 \
    8u /* hex digits: from here on a branch's name is held against the ids of commits, shown with so many */

struct pl_commit_row {
    int64_t id, repo;
    char run[PL_ID_HEX + 1]; /* the commit's name */
    char parent[PL_ID_HEX + 1];
    char branch[PL_NAME_MAX_BYTES + 1];
    char stage[PL_NAME_MAX_BYTES + 1];
    struct pl_hash object, root, attributes, table, owner, code;
    int64_t generation, files, bytes, seq, created_us;
};

/* The commit that `ref` names in the repo: a branch's head, an id, or the start of one, then ^n back. A ref of kind NONE is the
 * master branch. PL_ENOTFOUND says what is missing (branch without commits included); PL_ECONFLICT an ambiguous prefix. */
PL_MUST_CHECK
int pl_db_commit_find(struct pl_conn *c, const char *project, const char *repo, const struct pl_commit_ref *ref,
                      struct pl_commit_row *ret, struct pl_err *err);
/* The same from the text after the @ ("" = master). */
PL_MUST_CHECK
int pl_db_commit_named(struct pl_conn *c, const char *project, const char *repo, const char *ref, struct pl_commit_row *ret,
                       struct pl_err *err);
/* The head of a branch: 1, or 0 when the branch is absent or has no commit. */
PL_MUST_CHECK
int pl_db_branch_head(struct pl_conn *c, int64_t repo, const char *branch, struct pl_commit_row *ret, struct pl_err *err);

/* A name that a new branch may have: PL_ENAME when it is the start of the id of one of the repo's commits, which it would hide. A branch
 * that is there keeps its name. */
PL_MUST_CHECK
int pl_db_check_new_branch(struct pl_conn *c, int64_t repo, const char *name, struct pl_err *err);

/* What the branch held when the run of that order (run.ord) began: from its present head back along the parents to the first commit by
 * that run or one before it. 1, or 0 when there is none. A branch that was deleted and made again has the history that its head has,
 * whatever had its name before. */
PL_MUST_CHECK
int pl_db_branch_as_of(struct pl_conn *c, int64_t repo, const char *branch, int64_t order, struct pl_commit_row *ret,
                       struct pl_err *err);

/* A run is seen by those who may read one of the repos that it has commits in or stages of (`seen` ""); "NOT " for those who may not. */
#define PL_RUN_OF_JOBS(seen) "(SELECT 1 FROM job j WHERE j.run = run.id AND " seen "readable(j.project, j.stage))"
#define PL_RUN_OF_COMMITS(seen)                                                                                                  \
    "(SELECT 1 FROM commit_ c JOIN repo r ON r.id = c.repo WHERE c.run = run.id AND " seen "readable(r.project, r.name))"
#define PL_RUN_SEEN "(readable(NULL, NULL) OR EXISTS " PL_RUN_OF_JOBS("") " OR EXISTS " PL_RUN_OF_COMMITS("") ")"

/* 0 if the text is a run's id or can be the start of one, else PL_EINVAL. */
PL_MUST_CHECK
int pl_db_run_text_check(const char *text, struct pl_err *err);
/* A run by its id or the start of it; on a connection that has a reader (pl_conn.readable) of the runs that the reader sees: others are
 * not there, and make no start ambiguous. PL_EINVAL, PL_ENOTFOUND, PL_ECONFLICT. */
PL_MUST_CHECK
int pl_db_run_find(struct pl_conn *c, const char *text, char ret_id[PL_ID_HEX + 1], struct pl_err *err);
