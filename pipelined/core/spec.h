/* spec: a pipeline spec (native form) read into plain data, with every mistake named by file, line, column, path, value and
 * remedy.
 *
 *   text ─json_pos, jansson─▶ JSON ─defaults merged under each stage (RFC 7396)─▶ field table ─▶ struct pl_spec ─checks─▶ done
 *
 * The field table (spec_field.h) is the one place that knows the fields: reader, JSON Schema, docs/spec.md, the effective JSON
 * and the error texts are made from it. A field of the language that the program cannot do yet is refused by name, never ignored.
 * Pure: what exists in the store is asked through `struct pl_spec_context`. A parsed spec never changes: any thread may read it.
 */
#pragma once

#include "keep.h"
#include "storage/base/arena.h"
#include "storage/base/buf.h"
#include "storage/base/hash.h"

#define PL_SPEC_MAX_BYTES  (10u << 20)
#define PL_SPEC_DEPTH_MAX  64u
#define PL_SPEC_ERRORS_MAX 20u
#define PL_SPEC_STAGES_MAX 100000u
#define PL_SPEC_LEAVES_MAX 64u    /* inputs of one stage */
#define PL_PARAMS_MAX      10000u /* combinations of one `params` */
#define PL_PARAM_NAMES_MAX 64u
#define PL_PARAM_BYTES_MAX 4096u /* of one combination's JSON */
#define PL_WORKERS_MAX     10000u
#define PL_TRIES_MAX       100u
#define PL_MAX_FAILED_MAX  (1 << 24) /* datums of a job */
#define PL_GPUS_MAX        64u       /* of one worker */
#define PL_CHECKPOINT_MS   300000    /* "5m" */
#define PL_DEFAULT_PROJECT "default"
#define PL_DEFAULT_BRANCH  "master"
#define PL_GPU_WAIT_MS     600000 /* "10m" */
#define PL_SPEC_NO_STAGE   UINT32_MAX

enum pl_input_kind { PL_INPUT_LEAF, PL_INPUT_CROSS, PL_INPUT_UNION, PL_INPUT_PARAMS };

/* One combination of a `params` input: its id is its canonical JSON (keys sorted, compact, numbers in their shortest spelling). */
struct pl_combination {
    const char *json;
    const char **values; /* texts, in the order of the input's names */
};

/* A node of the input tree. Leaves (LEAF and PARAMS) are numbered in the order of the text (`stage->leaves[i]`): the order of datums,
 * of the datum key and of the enumeration key. */
struct pl_input {
    enum pl_input_kind kind;
    struct pl_input *children; /* of a CROSS or UNION: n_children ≥ 1 */
    size_t n_children;
    uint32_t node; /* number of the node, below stage->n_nodes */
    /* of PARAMS: no repo, the name is "params" */
    const char *params; /* as JSON in its one spelling */
    const char **param_names;
    size_t n_params;
    struct pl_combination *combinations; /* in the order of their JSON's bytes, each once */
    size_t n_combinations;
    /* of a LEAF */
    const char *project;
    const char *repo;
    const char *branch;
    const char *name;
    const char *glob;   /* as written; it compiles (glob.h) */
    const char **files; /* as written; n_files 0 = all files of the match */
    size_t n_files;
    bool pfs;       /* was written as {"pfs": LEAF} */
    bool reference; /* its content is not in the datum key */
    bool writable;  /* copies that the command may change */
    bool previous;  /* the stage's own last output */
    uint32_t stage; /* index of the stage of this file that writes the branch, PL_SPEC_NO_STAGE for a repo */
    uint32_t leaf;  /* index in stage->leaves */
};

struct pl_env_var {
    const char *key;
    const char *value; /* numbers and booleans as their text */
};

struct pl_gpu {
    uint32_t count; /* per worker; 0 = a CPU stage */
    bool required;  /* false: a GPU when one comes within wait_ms, else the CPU */
    int64_t wait_ms;
};

enum pl_on_error { PL_ON_ERROR_FAIL, PL_ON_ERROR_SKIP, PL_ON_ERROR_RUN };
enum pl_on_new { PL_ON_NEW_QUEUE, PL_ON_NEW_NEWEST, PL_ON_NEW_RESTART };

/* How many datums may fail before the job does at once: `count`, or `ppm` millionths of all of them when `share`. */
struct pl_max_failed {
    bool given;
    bool share;
    uint32_t count;
    uint32_t ppm;
};

struct pl_output {
    const char *branch; /* PL_DEFAULT_BRANCH */
    const char *prefix; /* template (template.h), "" = none */
    const char **expect;
    size_t n_expect;
    bool copy_links;     /* links that lead out of the output and the inputs become what they lead to */
    struct pl_keep keep; /* of the output repo */
};

struct pl_cache {
    bool enabled;     /* false: every job runs every datum */
    bool code;        /* false: the code identity is not in the datum key */
    const char *salt; /* "" = none */
};

/* A set of exit codes 0 … 255. */
struct pl_codes {
    uint32_t bits[8];
};
static inline bool pl_codes_has(const struct pl_codes *codes, int code)
{
    return code >= 0 && code < 256 && (codes->bits[code / 32] >> (code % 32) & 1) != 0;
}

struct pl_resources {
    int64_t cpu_milli; /* each 0 when not given */
    int64_t memory_bytes;
    int64_t disk_bytes;
    int64_t shm_bytes;
};

struct pl_datum_policy {
    uint32_t tries;
    int64_t timeout_ms; /* 0 = none */
    bool batch;         /* the command serves one datum after another */
};

struct pl_stage {
    const char *name;
    struct pl_input *input; /* the root of the tree */
    struct pl_input **leaves;
    size_t n_leaves;
    size_t n_nodes;   /* of the tree */
    const char **run; /* argv, n_run ≥ 1; NULL when `script` is given */
    size_t n_run;
    const char *script;
    const char *stdin_text;   /* what the command reads; NULL = nothing */
    struct pl_codes accepted; /* exit codes beside 0 that are no failure */
    const char *image;        /* as written, NULL when none */
    const char *code;         /* folder relative to the spec's, canonical ("code", "a/b", "." itself); NULL when none */
    struct pl_env_var *env;   /* sorted by key */
    size_t n_env;
    struct pl_gpu gpu;
    struct pl_resources resources;
    uint32_t workers;
    struct pl_datum_policy datum;
    int64_t timeout_ms; /* of the job; 0 = none */
    enum pl_on_error on_error;
    const char **err_run; /* of ON_ERROR_RUN: argv, n_err_run ≥ 1 */
    size_t n_err_run;
    struct pl_max_failed max_failed;
    int64_t checkpoint_ms; /* how often $PL_CHECKPOINT is uploaded; 0 = the stage has none */
    enum pl_on_new on_new;
    struct pl_output output;
    struct pl_cache cache;
};

enum { PL_DURABLE_LOCAL, PL_DURABLE_BUCKET };
struct pl_spec_repo {
    const char *name;
    int64_t commit_window_ms; /* -1: not said */
    int durable;              /* PL_DURABLE_…; -1: not said */
    struct pl_keep keep;      /* commits, days */
};

struct pl_spec {
    struct pl_arena *arena; /* owns everything here */
    const char *pipeline;
    const char *project;
    const char *description;    /* "" when none */
    struct pl_spec_repo *repos; /* created when absent, in the order of the text */
    size_t n_repos;
    struct pl_stage *stages; /* in the order of the text */
    size_t n_stages;
    uint32_t *order; /* n_stages indices: each stage after the stages it reads, else in the order of the text */
};

/* One mistake or warning. Text: "digits.json:7:12: stages[1].workers: …". Line and column count from 1, columns in characters. */
struct pl_spec_problem {
    uint32_t line, column;
    char path[160]; /* JSON path, cut at the size */
    char text[800]; /* the whole sentence with file, position and path */
};

/* Sorted by position, each once. */
struct pl_spec_errors {
    struct pl_spec_problem errors[PL_SPEC_ERRORS_MAX];
    size_t n_errors;
    size_t more_errors; /* found beside those kept */
    struct pl_spec_problem warnings[PL_SPEC_ERRORS_MAX];
    size_t n_warnings;
};

/* What only the store knows. Any function may be NULL: then the check is left out (`pipelinectl validate` without a daemon). */
struct pl_spec_context {
    void *self;
    const char *project; /* for a file that names none; NULL = PL_DEFAULT_PROJECT */
    /* Does the repo exist? */
    bool (*repo_exists)(void *self, const char *project, const char *repo);
    /* Who owns the name as an output repo: the pipeline's name, "" when that is no more (whoever comes may go on with it), NULL when
     * there is no such repo or it is a plain one. */
    const char *(*stage_owner)(void *self, const char *project, const char *stage);
    bool no_sandbox; /* stages run without one, so that there is no /pfs: a command that names it is a problem */
};

/* Reads a spec. `filename` goes into the messages. `errs` (may be NULL) gets all problems found; warnings also on success.
 * PL_ESPEC: the first problem is the message of `err`, with its path as the field and " (and 3 more)" after it; PL_ETOOBIG beyond
 * PL_SPEC_MAX_BYTES; PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_parse(const char *text, size_t len, const char *filename, const struct pl_spec_context *ctx, struct pl_spec **ret,
                  struct pl_spec_errors *errs, struct pl_err *err);
struct pl_spec *pl_spec_destroy(struct pl_spec *spec);
static inline void pl_spec_destroyp(struct pl_spec **spec)
{
    *spec = pl_spec_destroy(*spec);
}

/* Does a commit of what the leaf reads start the stage? (`previous` is the stage's own output.) */
static inline bool pl_input_triggers(const struct pl_input *leaf)
{
    return leaf->kind == PL_INPUT_LEAF && !leaf->previous;
}
/* Has every datum of the tree an input of that name? Not when a branch of a union lacks it. */
bool pl_input_always(const struct pl_input *tree, const char *name);
/* Does the leaf read a repo? (`params` does not.) */
static inline bool pl_input_reads(const struct pl_input *leaf)
{
    return leaf->kind == PL_INPUT_LEAF;
}

/* Stage of that name, NULL when there is none. */
const struct pl_stage *pl_spec_stage(const struct pl_spec *spec, const char *name);

/* The effective stage (defaults merged, every default filled in, durations and quantities in one spelling, env as strings) as
 * compact JSON with sorted keys: two spellings of one stage give the same bytes, and the bytes read as a stage give themselves
 * again. Appended to `out`. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_stage_effective_json(const struct pl_stage *stage, struct pl_buf *out, struct pl_err *err);
/* The whole spec in that form: {"description","pipeline","project","repos","stages"}. */
PL_MUST_CHECK
int pl_spec_effective_json(const struct pl_spec *spec, struct pl_buf *out, struct pl_err *err);

/* The JSON Schema (draft 2020-12) of a spec, and docs/spec.md. */
PL_MUST_CHECK
int pl_spec_schema(struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_spec_markdown(struct pl_buf *out, struct pl_err *err);
