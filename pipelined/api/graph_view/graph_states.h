/* graph_states: what was read of stages and branches, and whether the outputs are out of date. Everything lives in the arena of the
 * reading; one thread at a time. */
#pragma once

#include "pipelined/api/graph_view/graph_internal.h"
#include "pipelined/provenance/freshness.h"

/* The newest commit of a branch. */
struct graph_head {
    bool exists;                /* the repo does */
    bool hidden;                /* the caller does not see the branch */
    char commit[PL_ID_HEX + 1]; /* "" = none */
    const char *json;           /* as the reply has it */
    char root[PL_HASH_HEX + 1]; /* of its tree, with `commit` */
    const char *provenance;     /* [{project, repo, branch, commit}…] as text */
};

/* The job of a stage that counts: one that runs, or else the newest. Jobs of runs that write branches of their own do
 * not count. */
struct graph_job {
    const char *json; /* the fields of the job in the reply; NULL = there is none */
    bool stands_out, stopped;
    /* Facts about the head of what the stage writes, and about the newest job. */
    bool tried;                   /* the stage has had a job */
    enum pl_output_change change; /* since the stage that made the head */
    int64_t datums, skipped;      /* of the job that made the head; datums −1 = unknown */
    int64_t version;              /* of the pipeline when the head was made; 0 = unknown */
    int64_t left;                 /* datums that the newest job left, if the stage was as it is; −1 = not so */
    const char *environment;      /* with which the head was made, "PROJECT/REPO@BRANCH ROOT"; "" = none, or it is not known */
    const char *inputs;           /* what that job read, as a head's provenance; NULL = not so */
    char updates[PL_ID_HEX + 1];  /* run of the newest job, if that is not over and the stage was as it is; "" = not so */
};

/* The freshness of one stage. */
struct graph_fresh {
    struct pl_freshness_facts facts;
    struct pl_freshness is;
};

struct graph_states {
    const struct pl_graph_view *view;
    struct pl_arena *arena;
    uint32_t *by_id;           /* stages by their ids */
    struct graph_job *jobs;    /* by stage */
    struct graph_head *heads;  /* by ref */
    struct graph_fresh *fresh; /* by stage; zeroed = current */
};

/* Decides for each stage that the caller sees whether its output is out of date; each comes after those that it reads. Branches that
 * the caller does not see do not count. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_freshness_find(struct graph_states *s, const struct graph_seen *seen, struct pl_err *err);
/* Fills `told` for all stages; the texts, which live in the arena, only for those in `wanted` and for those whose commands these take
 * over, which it adds to `wanted`. One query for each of them whose code or spec has changed. PL_ENOMEM, errors of the database. */
PL_MUST_CHECK
int pl_graph_freshness_tell(const struct graph_states *s, struct pl_conn *c, bool *wanted, struct pl_graph_freshness *told,
                            struct pl_err *err);
