/* retention_input (private to db/retention): all commits of a database with what refers to them, as input of
 * pl_retention_decide. */
#pragma once

#include "pipelined/db/retention/retention.h"

struct pl_retention_repo {
    int64_t id;
    char *project, *name;
    bool output;
    bool meant; /* the pass was asked to decide about this repo */
};

/* The content of the database when it was read. pl_retention_db_check compares it with the present content. */
struct pl_retention_db {
    struct pl_retention_input world;
    struct pl_retention_repo *repos; /* same indices as world.rules */
    size_t n_repos;
    struct pl_retention_rule *rules;
    struct pl_retention_commit *commits;
    int64_t *ids; /* row ids of the commits, ascending */
    char (*runs)[PL_ID_HEX + 1];
    uint32_t *heads;
    struct pl_retention_edge *edges;
    size_t cap_commits, cap_heads, cap_edges;
    struct pl_map by_name;      /* (repo's row id, run) → index + 1 */
    struct pl_map repo_by_id;   /* row id → index + 1 */
    struct pl_map repo_by_name; /* "project/name" → index + 1 */
};

/* Reads all commits in one snapshot and decides which to drop: from one repo, from one project (`repo` NULL)
 * or from all (both NULL). Commits of other repos are kept. PL_ELIMIT. */
PL_MUST_CHECK
int pl_retention_db_read(struct pl_retention_db *w, struct pl_conn *c, const char *project, const char *repo, int64_t now_us,
                         struct pl_err *err);
void pl_retention_db_finish(struct pl_retention_db *w);
/* Checks, in a transaction, that no commit that is to be dropped has come into use since the read. Returns 0,
 * or PL_ERETRY if one has. */
PL_MUST_CHECK
int pl_retention_db_check(const struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err);
