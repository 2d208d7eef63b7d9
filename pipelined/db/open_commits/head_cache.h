/* head_cache: repos and heads of branches in memory, for requests that need them many times a second. Every change
 * of them is in the log, so an entry is valid as long as the log stands where it stood when the entry was read.
 * Any thread. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

#define PL_HEAD_CACHE_MAX 512u

struct pl_head_cache;

struct pl_head_cache_entry {
    struct pl_repo_row repo;
    bool branch;                 /* the branch exists */
    struct pl_commit_row commit; /* its head; id 0: the branch has no commit */
};

PL_MUST_CHECK
int pl_head_cache_create(struct pl_db *db, struct pl_head_cache **ret, struct pl_err *err);
/* NULL is allowed. */
struct pl_head_cache *pl_head_cache_destroy(struct pl_head_cache *h);
/* Returns a repo and a branch's head as the database has them now. PL_ENOTFOUND: the repo. Blocks only to read the
 * database: on the pool, or on the thread that writes open commits. */
PL_MUST_CHECK
int pl_head_cache_get(struct pl_head_cache *h, const char *project, const char *repo, const char *branch,
                      struct pl_head_cache_entry *ret, struct pl_err *err);
