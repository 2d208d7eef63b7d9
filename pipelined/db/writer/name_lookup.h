/* name_lookup: resolves the names that users write (repos, branches, commits, runs, id prefixes) to rows. On any
 * connection. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "storage/dataset/commit/commit_ref.h"

/* An SQL expression over `r`, a row of table repo: true if the repo was an output, and was kept when its pipeline was
 * deleted. It is an input repo from then on, until a stage of this name is created again. */
#define PL_REPO_KEPT                                                                                                             \
    "(CASE r.kind WHEN 'output' THEN NOT EXISTS (SELECT 1 FROM pipeline p JOIN stage s ON s.pipeline = p.id"                     \
    " AND s.name = r.name WHERE p.project = r.project) ELSE 0 END)"

struct pl_repo_row {
    int64_t id;
    bool output; /* a stage writes it, or wrote it until its pipeline's spec left the stage out */
    bool kept;   /* an input repo now: it was kept when the pipeline whose stage wrote it was deleted */
    bool git;    /* an input repo that is filled from a git repository */
    /* Options of the repo. */
    int64_t commit_window_ms; /* puts gather in an open commit for this long; 0 = each put is a commit */
    bool bucket;              /* option durable is "bucket": a put is acknowledged only after the bucket has it */
};

/* Looks up a repo. Returns 1 and fills `ret`, or returns 0 if the repo does not exist. */
PL_MUST_CHECK
int pl_db_repo_seek(struct pl_conn *c, const char *project, const char *repo, struct pl_repo_row *ret, struct pl_err *err);
/* As pl_db_repo_seek, but a missing repo is PL_ENOTFOUND: `repo "x" does not exist in project "p"`, with the
 * nearest name as hint. */
PL_MUST_CHECK
int pl_db_repo_find(struct pl_conn *c, const char *project, const char *repo, struct pl_repo_row *ret, struct pl_err *err);

/* Says whether the project's stages have no network, whatever their specs say. False for a project that does not
 * exist. */
PL_MUST_CHECK
int pl_db_network_off(struct pl_conn *c, const char *project, bool *ret, struct pl_err *err);

/* Returns the malloc'ed name of the pipeline whose current stage writes the output repo `stage`; PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_db_stage_owner(struct pl_conn *c, const char *project, const char *stage, char **ret, struct pl_err *err);
/* True if users may not write the repo. */
static inline bool pl_repo_read_only(const struct pl_repo_row *row)
{
    return row->output || row->git;
}
/* Returns PL_EOUTPUT for a write to a repo that users may not write; the message names the pipeline that owns or owned it, or
 * the git repository. */
int pl_db_refuse_write(struct pl_conn *c, const char *project, const char *repo, struct pl_err *err);

#define PL_BRANCH_LIKE_ID_DIGITS                                                                                                 \
    8u /* commit ids are shown with this many digits: longer hex branch names are checked against them */

struct pl_commit_row {
    int64_t id, repo;
    char run[PL_ID_HEX + 1]; /* the commit's id */
    char parent[PL_ID_HEX + 1];
    char branch[PL_NAME_MAX_BYTES + 1];
    char stage[PL_NAME_MAX_BYTES + 1];
    struct pl_hash object, root, attributes, table, owner, code;
    int64_t generation, files, bytes, seq, created_us;
};

/* Finds the commit that `ref` names in the repo: a branch's head, an id or the prefix of one, then ^n parents
 * back. A ref of kind NONE is the branch master. PL_ENOTFOUND says what is missing, including a branch without
 * commits; PL_ECONFLICT: ambiguous prefix. */
PL_MUST_CHECK
int pl_db_commit_find(struct pl_conn *c, const char *project, const char *repo, const struct pl_commit_ref *ref,
                      struct pl_commit_row *ret, struct pl_err *err);
/* If a commit of the repo, whose row id is `row`, with this id or prefix of one was deleted: returns `code`, and `err` says when and
 * why. Else 0; errors of the database. */
PL_MUST_CHECK
int pl_db_commit_gone(struct pl_conn *c, const char *project, const char *repo, int64_t row, const char *id, int code,
                      struct pl_err *err);
/* Like pl_db_commit_find, with the ref as the text that a user writes after the @ ("" = master). */
PL_MUST_CHECK
int pl_db_commit_named(struct pl_conn *c, const char *project, const char *repo, const char *ref, struct pl_commit_row *ret,
                       struct pl_err *err);
/* Returns 1 and the head of a branch, or 0 when the branch does not exist or has no commit. */
PL_MUST_CHECK
int pl_db_branch_head(struct pl_conn *c, int64_t repo, const char *branch, struct pl_commit_row *ret, struct pl_err *err);

/* Checks the name of a new branch: PL_ENAME when it is a prefix of the id of one of the repo's commits, which it
 * would hide. A branch that exists keeps its name. */
PL_MUST_CHECK
int pl_db_check_new_branch(struct pl_conn *c, int64_t repo, const char *name, struct pl_err *err);

/* Finds the head that the branch had when the run with this order number (run.ord) began: the first commit,
 * from the branch's present head back along the parents, that was made by that run or an earlier one. Returns
 * 1, or 0 when there is none. A branch that was deleted and created again has the history of its present
 * head. */
PL_MUST_CHECK
int pl_db_branch_as_of(struct pl_conn *c, int64_t repo, const char *branch, int64_t order, struct pl_commit_row *ret,
                       struct pl_err *err);

/* SQL conditions on a run. A user sees a run if the user may read one of the repos in which the run has commits, or one of
 * the stages of its jobs or of those that it was asked for. `seen` stands before readable(…). With "" the macros find the
 * repos or stages that the user may read, with "NOT " those that the user may not read, and with a condition that ends with
 * "AND " those that the user may read and for which it holds. It may use the rows j (job), r (repo), and s.value, the JSON
 * array of project and name of a stage. */
#define PL_RUN_OF_JOBS(seen) "(SELECT 1 FROM job j WHERE j.run = run.id AND " seen "readable(j.project, j.stage))"
#define PL_RUN_OF_COMMITS(seen)                                                                                                  \
    "(SELECT 1 FROM commit_ c JOIN repo r ON r.id = c.repo WHERE c.run = run.id AND " seen "readable(r.project, r.name))"
#define PL_RUN_OF_STAGES(seen)                                                                                                   \
    "(SELECT 1 FROM json_each(run.stages) s"                                                                                     \
    " WHERE " seen "readable(json_extract(s.value, '$[0]'), json_extract(s.value, '$[1]')))"
#define PL_RUN_OF(seen)                                                                                                          \
    "(EXISTS " PL_RUN_OF_JOBS(seen) " OR EXISTS " PL_RUN_OF_COMMITS(seen) " OR EXISTS " PL_RUN_OF_STAGES(seen) ")"
#define PL_RUN_SEEN "(readable(NULL, NULL) OR " PL_RUN_OF("") ")"

/* Returns 0 if the text is a run's id or a possible prefix of one, else PL_EINVAL. */
PL_MUST_CHECK
int pl_db_run_text_check(const char *text, struct pl_err *err);
/* Finds a run by its id or a prefix of it. On a connection with pl_conn.readable set, runs that the user may
 * not see are treated as absent, so they make no prefix ambiguous. PL_EINVAL, PL_ENOTFOUND, PL_ECONFLICT. */
PL_MUST_CHECK
int pl_db_run_find(struct pl_conn *c, const char *text, char ret_id[PL_ID_HEX + 1], struct pl_err *err);
/* The trace of the request that started a run (storage/http/trace_context.h): a row of table meta, which belongs to this
 * machine and is not in the log. Only the newest PL_RUN_TRACES_MAX runs with a trace keep theirs. */
#define PL_RUN_TRACES_MAX 10000
/* SQL expression: what ends the key of such a row of the row `run`. It rises with time, as ids of runs do not. */
#define PL_RUN_KEY "printf('%016x', run.ord)"
/* SQL expression: the trace of the row `run`; NULL = none. */
#define PL_RUN_TRACE "(SELECT value FROM meta WHERE key = 'traceparent/' || " PL_RUN_KEY ")"
PL_MUST_CHECK
int pl_db_run_trace_write(struct pl_conn *c, const char *run, const char *traceparent, struct pl_err *err);
/* Reads the run's trace, owned by the caller; leaves `ret` alone if it has none. */
PL_MUST_CHECK
int pl_db_run_trace_read(struct pl_conn *c, const char *run, char **ret, struct pl_err *err);
/* Who asked for a run, and with what program: also a row of table meta, {"who", "agent"}, of the newest PL_RUN_TRACES_MAX runs
 * that were asked for. */
#define PL_RUN_AGENT_MAX 200 /* bytes of the program's name; a longer one is cut */
struct pl_run_asker {
    const char *who;   /* name of the principal; NULL = not known: nothing is written */
    const char *agent; /* its User-Agent; NULL = it named none */
};
/* SQL expression: that row's value for the row `run`; NULL = none. */
#define PL_RUN_ASKED "(SELECT value FROM meta WHERE key = 'asked/' || " PL_RUN_KEY ")"
PL_MUST_CHECK
int pl_db_run_asker_write(struct pl_conn *c, const char *run, const struct pl_run_asker *asker, struct pl_err *err);
/* Checks that the project exists. "default" always does: it is created with its first repo. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_db_project_check(struct pl_conn *c, const char *project, struct pl_err *err);
