/* heads: repos and heads of branches as they are asked for many times a second, in memory. Whatever changes them is in the log: what was read
 * when the log was where it is now, is so still. Any thread. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

#define PL_HEADS_KEPT 512u

struct pl_heads;

struct pl_head {
    struct pl_repo_row repo;
    bool branch;                 /* there is such a branch */
    struct pl_commit_row commit; /* its head; id 0: it has none */
};

PL_MUST_CHECK
int pl_heads_create(struct pl_db *db, struct pl_heads **ret, struct pl_err *err);
/* NULL is fine. */
struct pl_heads *pl_heads_destroy(struct pl_heads *h);
/* As the database has it now. PL_ENOTFOUND: the repo. Blocks only where it has to be read: on the pool, or the thread that writes open
 * commits. */
PL_MUST_CHECK
int pl_heads_get(struct pl_heads *h, const char *project, const char *repo, const char *branch, struct pl_head *ret,
                 struct pl_err *err);
