/* spec: The spec language: one field table gives parser, checks, JSON Schema and docs. Pure.
 *
 * In:      Spec text.
 * Out:     Plain data, or problems with line, column and remedy.
 * Uses:    policy, text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   datum_env       environment variables of a datum's command
 *   output_prefix   checks output.prefix against the stage's inputs
 *   spec_documents  splits a file into several specs
 *
 * Inside:
 *   spec_check      rules that involve several fields
 *   spec_check_pod  rules for pod fields that involve several fields
 *   spec_doc        JSON Schema and docs/spec.md from the field table
 *   spec_field      the field table
 *   spec_field_pod  the field table of pod fields
 *   spec_order      topological order of stages
 *   spec_pachyderm  reads Pachyderm's pipeline spec
 *   spec_params     reads `params` combinations
 *   spec_reader     one parse: position, problems, result
 *   spec_type       readers and writers of simple field types
 *   spec_type_pod   readers and writers of pod field types
 *   spec_type_tree  readers and writers of inputs, repos and stages */

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

#include "pipelined/policy/retention_rule.h"
#include "storage/base/arena.h"
#include "storage/base/buf.h"
#include "storage/base/hash.h"

#define PL_SPEC_MAX_BYTES  (10u << 20)
#define PL_SPEC_DEPTH_MAX  64u
#define PL_SPEC_ERRORS_MAX 20u
#define PL_SPEC_STAGES_MAX 1000u /* the database's writer makes one in some 50 µs, and everybody's commits wait meanwhile */
#define PL_SPEC_REPOS_MAX  1000u
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
#define PL_PRIORITY_MAX    1000
#define PL_POD_PATCH_MAX   65536u /* bytes of one patch */
#define PL_AGENT_UID       10002  /* of the containers beside the command's: no stage has it */
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

/* An object of texts, sorted by key. */
struct pl_pairs {
    struct pl_env_var *items;
    size_t n;
};

#define PL_GPU_RESOURCE        "nvidia.com/gpu"
#define PL_GPU_RESOURCE_LEGACY "alpha.kubernetes.io/nvidia-gpu" /* of Kubernetes 1.3 to 1.10: read as PL_GPU_RESOURCE */

enum pl_share_mode {
    PL_SHARE_NONE, /* whole devices, on nodes that do not share them */
    PL_SHARE_TIME_SLICING,
    PL_SHARE_MPS,
    PL_SHARE_MIG,
    PL_SHARE_GPU_MEM,
    PL_SHARE_DRA,
    PL_SHARE_CUSTOM
};
enum pl_share_unit { PL_UNIT_GIB, PL_UNIT_MIB };

/* How a device is shared. Only the fields of the mode are set. */
struct pl_gpu_share {
    int mode;                 /* enum pl_share_mode */
    int64_t memory_bytes;     /* mps: of a process; 0 = an equal part */
    uint32_t threads;         /* mps: per cent; 0 = an equal part */
    const char *profile;      /* mig: "1g.10gb" */
    uint32_t amount;          /* gpu-mem */
    int unit;                 /* gpu-mem: enum pl_share_unit */
    const char *device_class; /* dra */
    const char **selectors;   /* dra: CEL */
    size_t n_selectors;
    const char *preset;     /* custom: a row of the presets; NULL = none */
    struct pl_pairs values; /* custom: what the row's ${…} become */
    struct pl_pairs limits, annotations, labels;
    const char *scheduler; /* custom; NULL = the cluster's */
};

struct pl_gpu {
    uint32_t count; /* per worker; 0 = a CPU stage */
    bool required;  /* false: a GPU when one comes within wait_ms, else the CPU */
    int64_t wait_ms;
    const char **product; /* globs, best first; n_product 0 = any */
    size_t n_product;
    int64_t memory_bytes; /* the size on the box, in GiB units; 0 = any. pl_gpu_memory_mib says what meets it */
    uint32_t compute;     /* 100 × major + minor; 0 = any */
    const char *resource; /* NULL = PL_GPU_RESOURCE */
    struct pl_gpu_share share;
};

/* MiB that a device must report to be taken for one of that size: an "80 GB" one reports 81,559. */
static inline int64_t pl_gpu_memory_mib(const struct pl_gpu *gpu)
{
    return (gpu->memory_bytes >> 20) * 9 / 10;
}

/* A value of a Secret as a variable (`env`), or a Secret as a folder (`mount`). */
struct pl_secret_use {
    const char *name;
    const char *key;   /* of `env`; NULL with `mount` */
    const char *env;   /* NULL with `mount` */
    const char *mount; /* absolute; NULL with `env` */
};

enum pl_toleration_operator { PL_TOLERATE_EQUAL, PL_TOLERATE_EXISTS };
struct pl_toleration {
    const char *key; /* NULL with PL_TOLERATE_EXISTS: every taint */
    int op;          /* enum pl_toleration_operator */
    const char *value;
    const char *effect; /* NULL = all */
    int64_t seconds;    /* how long NoExecute is borne; -1 = for ever */
};

/* Where and how pods run. */
struct pl_placement {
    struct pl_pairs node_selector;
    struct pl_toleration *tolerations;
    size_t n_tolerations;
    const char **arch; /* "amd64", "arm64" */
    size_t n_arch;
    const char *priority_class, *runtime_class, *queue; /* each NULL when not given */
    int64_t grace_ms;                                   /* -1 = the daemon's */
    struct pl_pairs labels, annotations;
    const char *pod_spec;  /* JSON: RFC 7396 over the pod's spec; NULL = none */
    const char *pod_patch; /* JSON: an object, merged by names, or a list, RFC 6902; NULL = none */
};

struct pl_scratch {
    int64_t size_bytes; /* 0 = no volume of its own */
    const char *storage_class;
};

/* `user`: numbers, as a pod takes them. */
struct pl_user {
    bool given;
    int64_t uid;
    int64_t gid; /* -1 = the image's */
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
    bool copy_links;               /* links that lead out of the output and the inputs become what they lead to */
    struct pl_retention_rule keep; /* of the output repo */
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
    int64_t cpu_limit_milli;
    int64_t memory_bytes;         /* reserved, and the limit */
    int64_t memory_request_bytes; /* reserved when that is less */
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
    struct pl_secret_use *secrets;
    size_t n_secrets;
    bool network;
    struct pl_user user;
    int32_t priority;     /* -PL_PRIORITY_MAX … PL_PRIORITY_MAX */
    int64_t keep_warm_ms; /* how long a worker without work stays; 0 = it ends */
    struct pl_scratch scratch;
    struct pl_placement placement;
};

enum { PL_DURABLE_LOCAL, PL_DURABLE_BUCKET };
struct pl_spec_repo {
    const char *name;
    int64_t commit_window_ms;      /* -1: not said */
    int durable;                   /* PL_DURABLE_…; -1: not said */
    struct pl_retention_rule keep; /* commits, days */
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
    uint32_t *order;   /* n_stages indices: each stage after the stages it reads, else in the order of the text */
    uint32_t *by_name; /* n_stages indices, in the order of the names */
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
    /* What goes beneath the file's own `defaults` in that project, the one furthest down first, NULL behind the last: each as
     * pl_spec_defaults_read gave it. They hold until the reading is over. */
    const char *const *(*defaults)(void *self, const char *project);
    /* Has the project its network off? Then no stage has one, and none may ask for it; the spec stays as it is written. */
    bool (*network_off)(void *self, const char *project);
    bool no_sandbox; /* stages run without one, so that there is no /pfs: a command that names it is a problem */
    bool local; /* stages run on one machine: what only a cluster can do is a problem, what only says where pods run a warning */
};

/* Reads a spec. `filename` goes into the messages. `errs` (may be NULL) gets all problems found; warnings also on success.
 * PL_ESPEC: the first problem is the message of `err`, with its path as the field and " (and 3 more)" after it; PL_ETOOBIG beyond
 * PL_SPEC_MAX_BYTES; PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_parse(const char *text, size_t len, const char *filename, const struct pl_spec_context *ctx, struct pl_spec **ret,
                  struct pl_spec_errors *errs, struct pl_err *err);
/* Reads an object with fields of a stage, for pl_spec_context.defaults: `ret` gets it as JSON, nulls too, for they remove what is further
 * down. Errors as pl_spec_parse's, positions as there. */
PL_MUST_CHECK
int pl_spec_defaults_read(const char *text, size_t len, const char *filename, struct pl_buf *ret, struct pl_spec_errors *errs,
                          struct pl_err *err);
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
