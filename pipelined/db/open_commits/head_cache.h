/* head_cache: repos and branch heads in memory, for requests that need them many times a second. The log
 * records every change of them, so an entry is valid while the log has the position at which the entry was
 * read. Any thread. */
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
/* Frees the cache. NULL is allowed. */
struct pl_head_cache *pl_head_cache_destroy(struct pl_head_cache *h);
/* Returns a repo and the head of one of its branches, as the database has them now. PL_ENOTFOUND: no such
 * repo. Blocks only to read the database; call it on a pool thread, or on the thread that writes open
 * commits. */
PL_MUST_CHECK
int pl_head_cache_get(struct pl_head_cache *h, const char *project, const char *repo, const char *branch,
                      struct pl_head_cache_entry *ret, struct pl_err *err);
