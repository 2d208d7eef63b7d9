/* keep: which commits a repo keeps. A rule says how many, or how young; whatever it says, nothing goes that somebody stands on. Pure.
 *
 * A commit is dropped when its branches keep it no longer, or when no branch of its repo leads to it any more, and
 *
 *   it is no branch's head,                                                        (also: a tag is a branch)
 *   no commit that stays was made from it (provenance, through all repos),
 *   no unfinished job reads it, and no run that goes on may yet read it.
 *
 * A run reads what its inputs' branches held when it began: on every branch the newest commit that is not younger than the oldest run that
 * goes on stays, with all after it. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

#define PL_RETENTION_MAX         1000000    /* of each number of a rule */
#define PL_RETENTION_COMMITS_MAX (1u << 20) /* of all repos, in one decision: with their names and provenance some 200 MiB */
#define PL_RETENTION_REPOS_MAX   (1u << 17) /* with their names some 50 MiB */
#define PL_RETENTION_HEADS_MAX   (1u << 18) /* of branches: 1 MiB */
#define PL_RETENTION_EDGES_MAX   (1u << 24) /* commits named by others' provenance: 128 MiB */
#define PL_RETENTION_NONE        UINT32_MAX
#define PL_RETENTION_DAY_US      86400000000LL

/* 0 = that number is not said. Commits stay that either `commits` or `days` keeps, all when neither is said. */
struct pl_retention_rule {
    uint32_t commits; /* the newest of each branch */
    uint32_t days;    /* those of the last so many days */
    uint32_t results; /* days for which attempts, metrics and the work of failed jobs stay, */
    uint32_t logs;    /* and logs; of stages */
    bool said;        /* by whoever gives it: an empty one keeps everything */
};

enum pl_retention_reason {
    PL_RETENTION_LOST, /* dropped: no branch leads to it */
    PL_RETENTION_OLD,  /* dropped: its branches keep newer ones */
    /* kept: */
    PL_RETENTION_ALL,    /* its repo has no rule */
    PL_RETENTION_RULE,   /* the rule says so */
    PL_RETENTION_HEAD,   /* a branch's head */
    PL_RETENTION_IN_USE, /* by a job or a run */
    PL_RETENTION_SOURCE  /* a commit that is kept was made from it */
};
static inline bool pl_retention_rule_drops(enum pl_retention_reason why)
{
    return why <= PL_RETENTION_OLD;
}

struct pl_retention_commit {
    int64_t created_us, order; /* order: of its run, rising with time */
    uint32_t repo;             /* index in the world's rules */
    uint32_t parent;           /* a lower index, PL_RETENTION_NONE */
    uint32_t steps;            /* out: the fewest back from a head; PL_RETENTION_NONE: no branch leads to it */
    uint8_t why;               /* in: PL_RETENTION_LOST, or why it stays whatever is decided; out */
};

/* A commit was made from another. */
struct pl_retention_edge {
    uint32_t commit, source; /* source < commit */
};

struct pl_retention_input {
    const struct pl_retention_rule *rules; /* of every repo */
    struct pl_retention_commit *commits;
    size_t n_commits;                /* in the order in which they were made */
    const uint32_t *heads;           /* of all branches */
    size_t n_heads;                  /* any may come twice */
    struct pl_retention_edge *edges; /* sorted by pl_retention_decide */
    size_t n_edges;
    int64_t now_us;
    int64_t oldest_run; /* order of the oldest run that goes on; INT64_MAX: none does */
};

/* Fills each commit's `why`. O(commits + edges · log) for rules without `commits`, else at most `commits` more for each head. */
void pl_retention_decide(struct pl_retention_input *world);

/* A rule from {"commits"?, "days"?, "results"?, "logs"?}, and back: what is not said is left out. PL_EINVAL, field "keep". */
PL_MUST_CHECK
int pl_retention_read(const json_t *object, struct pl_retention_rule *ret, struct pl_err *err);
/* NULL without memory. */
json_t *pl_retention_json(const struct pl_retention_rule *keep);

/* When what a rule keeps for so many days ends, for what ended at `at_us`; INT64_MAX for 0 days. */
static inline int64_t pl_retention_rule_until(int64_t at_us, uint32_t days)
{
    return days ? at_us + (int64_t)days * PL_RETENTION_DAY_US : INT64_MAX;
}
