/* keep_world (private to keep_pass): all commits of a database with what stands on them, as pl_retention_decide wants them. */
#pragma once

#include "pipelined/db/retention/retention.h"

struct pl_retention_repo {
    int64_t id;
    char *project, *name;
    bool output;
    bool meant; /* it is decided about */
};

/* What the database had when it was read: what else has come to stand on something by now is told from it. */
struct pl_retention_db {
    struct pl_retention_input world;
    struct pl_retention_repo *repos; /* of world.rules' indices */
    size_t n_repos;
    struct pl_retention_rule *rules;
    struct pl_retention_commit *commits;
    int64_t *ids; /* of the rows, rising */
    char (*runs)[PL_ID_HEX + 1];
    uint32_t *heads;
    struct pl_retention_edge *edges;
    size_t cap_commits, cap_heads, cap_edges;
    struct pl_map by_name;      /* repo's row and run → index + 1 */
    struct pl_map repo_by_id;   /* row → index + 1 */
    struct pl_map repo_by_name; /* "project/name" → index + 1 */
};

/* Reads all of it in one snapshot and decides for one repo, one project's or (NULL) all; others drop nothing. PL_ELIMIT. */
PL_MUST_CHECK
int pl_retention_db_read(struct pl_retention_db *w, struct pl_conn *c, const char *project, const char *repo, int64_t now_us,
                         struct pl_err *err);
void pl_retention_db_finish(struct pl_retention_db *w);
/* Whether nothing has come to stand on what is to be dropped since it was read: 0, or PL_ERETRY. In a transaction. */
PL_MUST_CHECK
int pl_retention_db_check(const struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err);
