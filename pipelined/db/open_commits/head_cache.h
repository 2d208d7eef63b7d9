/* heads: repos and heads of branches as they are asked for many times a second, in memory. Whatever changes them is in the log: what was read
 * when the log was where it is now, is so still. Any thread. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

#define PL_HEAD_CACHE_MAX 512u

struct pl_head_cache_entrys;

struct pl_head_cache_entry {
    struct pl_repo_row repo;
    bool branch;                 /* there is such a branch */
    struct pl_commit_row commit; /* its head; id 0: it has none */
};

PL_MUST_CHECK
int pl_head_cache_create(struct pl_db *db, struct pl_head_cache_entrys **ret, struct pl_err *err);
/* NULL is fine. */
struct pl_head_cache_entrys *pl_head_cache_destroy(struct pl_head_cache_entrys *h);
/* As the database has it now. PL_ENOTFOUND: the repo. Blocks only where it has to be read: on the pool, or the thread that writes open
 * commits. */
PL_MUST_CHECK
int pl_head_cache_get(struct pl_head_cache_entrys *h, const char *project, const char *repo, const char *branch,
                      struct pl_head_cache_entry *ret, struct pl_err *err);
