/* retention_rule: decides which commits a repo keeps. A rule gives a number of commits or a number of days. Commits that
 * are still needed are kept whatever the rule says. The decision is pure.
 *
 * A commit is a candidate if the rule keeps it on none of its branches. A commit that no branch reaches any more, because
 * its branch was deleted, is a candidate only under a rule: it is none of the newest commits of a branch, so `commits` does
 * not keep it, and `days` does. A candidate is dropped if all of these hold:
 *
 *   it is not the head of a branch (a tag is a branch too),
 *   no kept commit was made from it (provenance, across all repos),
 *   no unfinished job reads it, and no unfinished run may still read it.
 *
 * A run reads the commits that its input branches held when it began. Therefore every branch keeps the newest commit that
 * is not younger than the oldest unfinished run, and all commits after it. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

#define PL_RETENTION_MAX         1000000    /* largest value of each number of a rule */
#define PL_RETENTION_COMMITS_MAX (1u << 20) /* commits of all repos in one decision: about 200 MiB */
#define PL_RETENTION_REPOS_MAX   (1u << 17) /* repos in one decision: about 50 MiB with their names */
#define PL_RETENTION_HEADS_MAX   (1u << 18) /* branch heads in one decision: 1 MiB */
#define PL_RETENTION_EDGES_MAX   (1u << 24) /* provenance edges in one decision: 128 MiB */
#define PL_RETENTION_NONE        UINT32_MAX
#define PL_RETENTION_DAY_US      86400000000LL

/* A retention rule; a number of 0 is not set. A commit is kept if `commits` or `days` keeps it; all are kept if neither is
 * set. */
struct pl_retention_rule {
    uint32_t commits; /* number of newest commits to keep on each branch */
    uint32_t days;    /* days for which commits are kept */
    uint32_t results; /* stages: days for which attempts, metrics and the work of failed jobs are kept */
    uint32_t logs;    /* stages: days for which logs are kept */
    bool said;        /* the owner set a rule; a set rule without numbers keeps everything */
};

enum pl_retention_reason {
    PL_RETENTION_LOST, /* dropped: unreachable from every branch, and the rule does not keep it */
    PL_RETENTION_OLD,  /* dropped: the rule keeps only newer commits of its branches */
    /* kept: */
    PL_RETENTION_ALL,    /* the repo's rule limits neither commits nor days */
    PL_RETENTION_RULE,   /* the rule keeps it */
    PL_RETENTION_HEAD,   /* the head of a branch */
    PL_RETENTION_IN_USE, /* a job or a run reads it or may read it */
    PL_RETENTION_SOURCE  /* a kept commit was made from it */
};
static inline bool pl_retention_rule_drops(enum pl_retention_reason why)
{
    return why <= PL_RETENTION_OLD;
}

struct pl_retention_commit {
    int64_t created_us, order; /* order: number of the commit's run, increasing with time */
    uint32_t repo;             /* index in pl_retention_input.rules */
    uint32_t parent;           /* index of the parent commit, always lower; PL_RETENTION_NONE = no parent */
    uint32_t steps;            /* out: smallest distance from a head; PL_RETENTION_NONE = unreachable */
    uint8_t why;               /* in: PL_RETENTION_LOST, or a reason to keep it in any case; out: the decision */
};

/* Provenance: `commit` was made from `source`; both are indexes of commits. */
struct pl_retention_edge {
    uint32_t commit, source; /* source < commit */
};

struct pl_retention_input {
    const struct pl_retention_rule *rules; /* one rule for each repo */
    struct pl_retention_commit *commits;
    size_t n_commits;                /* commits are sorted by creation, oldest first */
    const uint32_t *heads;           /* indexes of the heads of all branches */
    size_t n_heads;                  /* an index may appear more than once */
    struct pl_retention_edge *edges; /* sorted by pl_retention_decide */
    size_t n_edges;
    int64_t now_us;
    int64_t oldest_run; /* order of the oldest unfinished run; INT64_MAX = none */
};

/* Sets `why` and `steps` of each commit. Takes O(commits + edges · log edges) for rules without `commits`; other rules add
 * at most `commits` steps for each head. */
void pl_retention_decide(struct pl_retention_input *world);

/* Reads a rule from {"commits"?, "days"?, "results"?, "logs"?}. A missing number becomes 0. Returns PL_EINVAL with the
 * error field "keep". */
PL_MUST_CHECK
int pl_retention_read(const json_t *object, struct pl_retention_rule *ret, struct pl_err *err);
/* Returns the rule as a new JSON object without the numbers that are 0. Returns NULL if memory runs out. */
json_t *pl_retention_json(const struct pl_retention_rule *keep);

/* Returns the time in µs at which an item created at `at_us` expires under a rule that keeps items for
 * `days` days; INT64_MAX for 0 days. */
static inline int64_t pl_retention_rule_until(int64_t at_us, uint32_t days)
{
    return days ? at_us + (int64_t)days * PL_RETENTION_DAY_US : INT64_MAX;
}
