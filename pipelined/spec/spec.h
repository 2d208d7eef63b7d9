/* spec: The spec language. One field table gives the parser, the checks, the JSON Schema and the docs. Pure.
 *
 * In:      Spec text.
 * Out:     Plain data, or problems with line, column and remedy.
 * Uses:    policy, text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   datum_env       environment variables of a datum's command
 *   output_prefix   compiles output.prefix over the stage's inputs
 *   spec_documents  splits a file into several specs
 *
 * Inside:
 *   spec_check      rules that involve several fields; order of the stages
 *   spec_check_pod  rules for pod fields that involve several fields
 *   spec_doc        JSON Schema and docs/spec.md from the field table
 *   spec_field      the field table
 *   spec_field_pod  the field table of pod fields
 *   spec_git        reads inputs from git repositories
 *   spec_origin     says where the fields of an effective spec come from
 *   spec_pachyderm  reads Pachyderm's pipeline spec
 *   spec_params     reads `params` combinations; rules for "${…}" in commands and variables
 *   spec_reader     one parse: position, problems, result
 *   spec_setup      turns `setup` into a stage and an input
 *   spec_type       readers and writers of simple field types
 *   spec_type_pod   readers and writers of pod field types
 *   spec_type_tree  readers and writers of inputs, repos and stages */

/* spec: parses a pipeline spec (native form) into plain data. Each mistake is reported with file, line,
 * column, path, value and remedy.
 *
 *   text ─json_position, jansson─▶ JSON ─`defaults` merged under each stage (RFC 7396)─▶ field table ─▶ `setup` expanded
 *                                                                                          │
 *                                                           checks ◀── struct pl_spec ◀────┘
 *
 * The field table (spec_field.h) is the only definition of the fields: reader, JSON Schema, docs/spec.md, the
 * effective JSON and the error texts are made from it. A field of the language that is not implemented yet is
 * refused by name, never ignored. The room is pure: it asks through `struct pl_spec_context` what exists in
 * the store. A parsed spec never changes, so any thread may read it. */
#pragma once

#include "pipelined/policy/retention_rule.h"
#include "storage/base/arena.h"
#include "storage/base/buf.h"
#include "storage/base/hash.h"

#include <jansson.h>

#define PL_SPEC_MAX_BYTES  (10u << 20)
#define PL_SPEC_DEPTH_MAX  64u
#define PL_SPEC_ERRORS_MAX 20u
/* The number of stages is limited because the database's single writer thread needs about 50 µs per stage,
 * and all other commits wait during that time. */
#define PL_SPEC_STAGES_MAX 1000u
#define PL_SPEC_REPOS_MAX  1000u
#define PL_SPEC_LEAVES_MAX 64u    /* maximum number of inputs of one stage */
#define PL_PARAMS_MAX      10000u /* maximum number of combinations of one `params` input */
#define PL_PARAM_NAMES_MAX 64u
#define PL_PARAM_BYTES_MAX 4096u /* maximum bytes of one combination's JSON */
#define PL_WORKERS_MAX     10000u
#define PL_TRIES_MAX       100u
#define PL_MAX_FAILED_MAX  (1 << 24) /* largest number of datums in max_failed */
#define PL_GPUS_MAX        64u       /* maximum number of GPUs of one worker */
#define PL_CHECKPOINT_MS   300000    /* default interval of checkpoints, in ms: "5m" */
#define PL_DEFAULT_PROJECT "default"
#define PL_DEFAULT_BRANCH  "master"
#define PL_GPU_WAIT_MS     600000 /* default wait for an optional GPU, in ms: "10m" */
#define PL_PRIORITY_MAX    1000
#define PL_POD_PATCH_MAX   65536u /* maximum bytes of one pod patch */
#define PL_AGENT_UID       10002  /* user id of the containers beside the command's; no stage may use it */
#define PL_SPEC_NO_STAGE   UINT32_MAX

enum pl_input_kind { PL_INPUT_LEAF, PL_INPUT_CROSS, PL_INPUT_UNION, PL_INPUT_PARAMS };

/* One combination of a `params` input. Its id is its canonical JSON: keys sorted, compact, each number in its
 * shortest spelling. */
struct pl_combination {
    const char *json;
    const char **values; /* values as text, in the order of the input's `param_names` */
};

/* A node of the input tree. Leaves (LEAF and PARAMS) are numbered in the order of the text
 * (`stage->leaves[i]`). This order determines the order of datums, the datum key and the enumeration key. */
struct pl_input {
    enum pl_input_kind kind;
    struct pl_input *children; /* CROSS and UNION: n_children ≥ 1 inputs */
    size_t n_children;
    uint32_t node; /* number of this node in the tree, less than stage->n_nodes */
    /* PARAMS only; such an input has no repo, and its name is "params": */
    const char *params; /* the `params` value as canonical JSON */
    const char **param_names;
    size_t n_params;
    struct pl_combination *combinations; /* sorted by the bytes of their JSON, without duplicates */
    size_t n_combinations;
    /* LEAF only: */
    const char *project;
    const char *repo;
    const char *branch;
    const char *name;
    const char *glob; /* glob as written in the spec; it is a valid glob (glob.h) */
    /* globs that choose files within a match, as written; n_files 0 = all files of the match */
    const char **files;
    size_t n_files;
    bool pfs;         /* the spec writes the leaf as {"pfs": LEAF} */
    bool reference;   /* the input's content is not part of the datum key */
    bool writable;    /* the command gets copies that it may change */
    bool previous;    /* the input is the stage's own last output */
    bool environment; /* the input is also at /pl/env, whose bin is first in $PATH */
    bool implied;     /* the text lacks this node: it comes from the stage's `setup` (LEAF and CROSS) */
    /* The repo is filled from a git repository (exactly one of source and url is not NULL), or none of these is set. */
    const char *git_source; /* name of a source of the project: its repository and secret */
    const char *git_url;    /* an address as in text/git_address.h */
    const char *git_branch; /* "" = that of the source, or the repository's default branch */
    const char *git_secret; /* of the project, for git_url; "" = none */
    uint32_t stage;         /* index of the stage of this spec that writes the branch; PL_SPEC_NO_STAGE = none does */
    uint32_t leaf;          /* index of this leaf in stage->leaves */
};

struct pl_env_var {
    const char *key;
    const char *value; /* value as text; numbers and booleans are converted */
};

/* String members of an object, sorted by key. */
struct pl_pairs {
    struct pl_env_var *items;
    size_t n;
};

#define PL_GPU_RESOURCE "nvidia.com/gpu"
/* name of the GPU resource in Kubernetes 1.3 to 1.10; read as PL_GPU_RESOURCE */
#define PL_GPU_RESOURCE_LEGACY "alpha.kubernetes.io/nvidia-gpu"

enum pl_share_mode {
    PL_SHARE_NONE, /* whole devices, only on nodes that do not share their devices */
    PL_SHARE_TIME_SLICING,
    PL_SHARE_MPS,
    PL_SHARE_MIG,
    PL_SHARE_GPU_MEM,
    PL_SHARE_DRA,
    PL_SHARE_CUSTOM
};
enum pl_share_unit { PL_UNIT_GIB, PL_UNIT_MIB };

/* How a GPU is shared. Only the fields of the chosen mode are set. */
struct pl_gpu_share {
    int mode;                 /* enum pl_share_mode */
    int64_t memory_bytes;     /* mps: bytes per process; 0 = an equal part */
    uint32_t threads;         /* mps: per cent of the threads; 0 = an equal part */
    const char *profile;      /* mig: name of the profile, such as "1g.10gb" */
    uint32_t amount;          /* gpu-mem: amount of memory, in `unit` */
    int unit;                 /* gpu-mem: enum pl_share_unit */
    const char *device_class; /* dra: name of the DeviceClass */
    const char **selectors;   /* dra: CEL expressions */
    size_t n_selectors;
    const char *preset;     /* custom: name of a preset of the daemon; NULL = none */
    struct pl_pairs values; /* custom: values of the preset's ${…} */
    struct pl_pairs limits, annotations, labels;
    const char *scheduler; /* custom: schedulerName of the pod; NULL = the cluster's default */
};

struct pl_gpu {
    uint32_t count; /* GPUs per worker; 0 = the stage uses only CPUs */
    bool required;  /* false = use a GPU if one is free within wait_ms, else the CPU */
    int64_t wait_ms;
    const char **product; /* globs over product names, best first; n_product 0 = any */
    size_t n_product;
    /* nominal size, as the vendor states it, in bytes ("80G" = 80 GiB); 0 = any; see pl_gpu_memory_mib */
    int64_t memory_bytes;
    uint32_t compute;     /* minimum compute capability, 100 × major + minor; 0 = any */
    const char *resource; /* name of the GPU resource; NULL = PL_GPU_RESOURCE */
    struct pl_gpu_share share;
};

/* Returns the smallest memory, in MiB, with which a device meets the request: nine tenths of the nominal
 * size, because a device reports less than its nominal size ("80 GB" = 81,920 MiB: 81,559 MiB). */
static inline int64_t pl_gpu_memory_mib(const struct pl_gpu *gpu)
{
    return (gpu->memory_bytes >> 20) * 9 / 10;
}

/* A secret's value as a variable (`env`), or a secret as a folder (`mount`). */
struct pl_secret_use {
    const char *name;
    const char *key;   /* key of the value, with `env`; NULL with `mount` */
    const char *env;   /* name of the environment variable; NULL with `mount` */
    const char *mount; /* absolute path of the folder; NULL with `env` */
};

enum pl_toleration_operator { PL_TOLERATE_EQUAL, PL_TOLERATE_EXISTS };
struct pl_toleration {
    const char *key; /* key of the taint; NULL, only with PL_TOLERATE_EXISTS, = every taint */
    int op;          /* enum pl_toleration_operator */
    const char *value;
    const char *effect; /* NULL = all effects */
    int64_t seconds;    /* seconds for which NoExecute is tolerated; -1 = for ever */
};

/* Where and how the stage's pods run. */
struct pl_placement {
    struct pl_pairs node_selector;
    struct pl_toleration *tolerations;
    size_t n_tolerations;
    const char **arch; /* node architectures, such as "amd64" */
    size_t n_arch;
    const char *priority_class, *runtime_class, *queue; /* names; each is NULL if not given */
    /* ms between SIGTERM and SIGKILL; -1 = the daemon's default */
    int64_t grace_ms;
    int64_t pending_ms; /* longest wait for a place on a node; 0 = no limit */
    struct pl_pairs labels, annotations;
    const char *pod_spec; /* JSON, merged over the pod's spec (RFC 7396); NULL = none */
    /* JSON: an object that is merged by names, or a list of JSON Patch operations (RFC 6902); NULL = none */
    const char *pod_patch;
};

struct pl_scratch {
    int64_t size_bytes; /* size of the scratch volume; 0 = the worker has no volume of its own */
    const char *storage_class;
};

/* `user` of a stage: numeric ids, as in a pod's spec. */
struct pl_user {
    bool given;
    int64_t uid;
    int64_t gid; /* group id; -1 = the image's group */
};

enum pl_on_error { PL_ON_ERROR_FAIL, PL_ON_ERROR_SKIP, PL_ON_ERROR_RUN };
enum pl_on_new { PL_ON_NEW_QUEUE, PL_ON_NEW_NEWEST, PL_ON_NEW_RESTART };

/* How many datums may fail before the job fails at once: `count` datums, or, if `share` is set, `ppm`
 * millionths of all datums. */
struct pl_max_failed {
    bool given;
    bool share;
    uint32_t count;
    uint32_t ppm;
};

struct pl_output {
    const char *branch; /* branch of the output repo; always PL_DEFAULT_BRANCH at present */
    const char *prefix; /* prefix of the paths in the output, a template (template.h); "" = none */
    const char **expect;
    size_t n_expect;
    /* links that lead out of the output and the inputs are replaced by copies of their targets */
    bool copy_links;
    bool environment;              /* the output folder is also /pl/env, and its links are kept as they are */
    struct pl_retention_rule keep; /* retention rule of the output repo */
};

struct pl_cache {
    bool enabled;     /* false = every job runs every datum */
    bool code;        /* false = the code identity is not part of the datum key */
    const char *salt; /* text that is added to the datum key; "" = none */
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
    int64_t cpu_milli; /* CPUs in thousandths; in this struct 0 = the field is not given */
    int64_t cpu_limit_milli;
    /* memory limit; the same amount is reserved unless memory_request_bytes is set */
    int64_t memory_bytes;
    int64_t memory_request_bytes; /* reserved memory, less than the limit */
    int64_t disk_bytes;
    int64_t shm_bytes;
};

struct pl_datum_policy {
    uint32_t tries;
    int64_t timeout_ms; /* time limit of one try; 0 = none */
    bool batch;         /* one command processes many datums, one after another */
};

#define PL_ENVIRONMENT  "/pl/env" /* where commands find the environment of their stage */
#define PL_SETUP_SUFFIX "-setup"  /* the stage that makes the environment of stage NAME is NAME-setup */

/* How the environment of a stage is made. */
struct pl_setup {
    const char *python; /* file with requirements, canonical path from the spec's folder; NULL if `script` is given */
    const char *script;
    const char **files; /* globs for more files that are needed: in the folder of `python`, else in the spec's */
    size_t n_files;
    const char *index; /* URL of a package index; NULL = none given */
    struct pl_setup_secret {
        const char *name, *key;
    } secret; /* for the index; name NULL = none */
    int64_t timeout_ms;
};

struct pl_stage {
    const char *name;
    struct pl_input *input; /* root of the input tree */
    struct pl_input **leaves;
    size_t n_leaves;
    size_t n_nodes;   /* number of nodes of the tree */
    const char **run; /* argv, n_run ≥ 1; NULL if `script` is given */
    size_t n_run;
    const char *script;
    const char *stdin_text;   /* standard input of the command; NULL = none */
    struct pl_codes accepted; /* exit codes other than 0 that count as success */
    const char *image;        /* as written; NULL = none */
    bool image_required;      /* on one machine: the image, or nothing */
    /* code folder relative to the spec's folder, canonical ("code", "a/b", "."); NULL = none */
    const char *code;
    /* absolute path of a Python environment or interpreter of this machine, for the local executor; NULL = none */
    const char *python;
    /* only while a spec is read: then it is a stage and an input of its own (spec_setup.c) */
    struct pl_setup *setup;
    bool implied;            /* the text lacks this stage: it comes from another stage's `setup` */
    const char **code_files; /* globs over the folder's files: only these are copied; n_code_files 0 = all */
    size_t n_code_files;
    struct pl_env_var *env; /* sorted by key */
    size_t n_env;
    struct pl_gpu gpu;
    struct pl_resources resources;
    uint32_t workers;
    struct pl_datum_policy datum;
    int64_t timeout_ms; /* time limit of the job; 0 = none */
    enum pl_on_error on_error;
    const char **err_run; /* argv of PL_ON_ERROR_RUN, n_err_run ≥ 1 */
    size_t n_err_run;
    struct pl_max_failed max_failed;
    /* interval at which $PL_CHECKPOINT is uploaded; 0 = the stage has no checkpoints */
    int64_t checkpoint_ms;
    enum pl_on_new on_new;
    struct pl_output output;
    struct pl_cache cache;
    struct pl_secret_use *secrets;
    size_t n_secrets;
    bool network;
    struct pl_user user;
    /* of two waiting stages, the higher priority goes first; from -PL_PRIORITY_MAX to PL_PRIORITY_MAX */
    int32_t priority;
    int64_t keep_warm_ms; /* time for which an idle worker stays; 0 = an idle worker ends at once */
    struct pl_scratch scratch;
    struct pl_placement placement;
};

enum { PL_DURABLE_LOCAL, PL_DURABLE_BUCKET };
struct pl_spec_repo {
    const char *name;
    int64_t commit_window_ms;      /* -1 = no commit_window given */
    int durable;                   /* one of PL_DURABLE_…; -1 = no value given */
    struct pl_retention_rule keep; /* retention rule; only its members `commits` and `days` are used */
};

struct pl_spec {
    struct pl_arena *arena; /* owns the spec and everything it points to */
    const char *pipeline;
    const char *project;
    const char *description;    /* "" if not given */
    struct pl_spec_repo *repos; /* repos to create if they do not exist, in the order of the text */
    size_t n_repos;
    struct pl_stage *stages; /* stages in the order of the text */
    size_t n_stages;
    /* indices of the stages, each stage after those that it reads, otherwise in the order of the text */
    uint32_t *order;
    uint32_t *by_name; /* indices of the stages, sorted by name */
};

/* One mistake or warning, such as "digits.json:7:12: stages[1].workers: …". Lines and columns count from 1,
 * columns in characters. */
struct pl_spec_problem {
    uint32_t line, column;
    char path[160]; /* JSON path, cut at this size */
    char text[800]; /* the whole message with file, position and path */
};

/* Mistakes and warnings, sorted by position, without duplicates. */
struct pl_spec_errors {
    struct pl_spec_problem errors[PL_SPEC_ERRORS_MAX];
    size_t n_errors;
    size_t more_errors; /* number of errors that did not fit */
    struct pl_spec_problem warnings[PL_SPEC_ERRORS_MAX];
    size_t n_warnings;
};

/* Returns the message of a problem without "FILE:LINE:COLUMN: "; `filename` as it was given to pl_spec_parse. The text is the
 * problem's. */
const char *pl_spec_problem_message(const struct pl_spec_problem *p, const char *filename);

/* Facts that only the store and the daemon know. Any function may be NULL: then its check is skipped (as in
 * `pipelinectl validate`, without a daemon). */
struct pl_spec_context {
    void *self;
    const char *project; /* project of a spec that names none; NULL = PL_DEFAULT_PROJECT */
    /* True if the repo exists. */
    bool (*repo_exists)(void *self, const char *project, const char *repo);
    /* True if the project exists. NULL = it does. Asked only for a repo that does not exist. */
    bool (*project_exists)(void *self, const char *project);
    /* Returns the name of the pipeline that owns the repo as the output of a stage. "" = that pipeline no
     * longer exists, and any pipeline may take the repo over. NULL = there is no such repo, or no stage
     * writes it. */
    const char *(*stage_owner)(void *self, const char *project, const char *stage);
    /* Returns the defaults that are merged below the file's own `defaults` in that project: a NULL-terminated
     * list, the lowest layer first, each as pl_spec_defaults_read returned it. They stay valid until the
     * parse ends. */
    const char *const *(*defaults)(void *self, const char *project);
    /* True if the project's network is off. Then no stage has a network and none may request one; the parsed
     * spec is not changed. */
    bool (*network_off)(void *self, const char *project);
    /* stages run without a sandbox, so /pfs does not exist: a command that names it is an error */
    bool no_sandbox;
    /* stages run on one machine: fields that need a cluster are errors, fields that only place pods are
     * warnings */
    bool local;
    /* stages run as pods: fields that only one machine has are warnings */
    bool cluster;
};

/* Parses a spec. `filename` is used in messages. `errs` (may be NULL) receives all problems found, on success
 * only warnings. PL_ESPEC: `err` has the first problem, with its path as the field and the suffix
 * "(and 3 more)" if there are more; PL_ETOOBIG: more than PL_SPEC_MAX_BYTES; PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_parse(const char *text, size_t len, const char *filename, const struct pl_spec_context *ctx, struct pl_spec **ret,
                  struct pl_spec_errors *errs, struct pl_err *err);
/* Parses an object with fields of a stage, for pl_spec_context.defaults. `ret` receives it as JSON. Nulls are
 * kept, because they remove fields of lower layers. Errors and positions as for pl_spec_parse. */
PL_MUST_CHECK
int pl_spec_defaults_read(const char *text, size_t len, const char *filename, struct pl_buf *ret, struct pl_spec_errors *errs,
                          struct pl_err *err);
/* Frees the spec and returns NULL. NULL is allowed. */
struct pl_spec *pl_spec_destroy(struct pl_spec *spec);
static inline void pl_spec_destroyp(struct pl_spec **spec)
{
    *spec = pl_spec_destroy(*spec);
}

/* True if a commit of the repo that the leaf reads starts the stage. (A `previous` input is the stage's own
 * output and does not start it.) */
static inline bool pl_input_triggers(const struct pl_input *leaf)
{
    return leaf->kind == PL_INPUT_LEAF && !leaf->previous;
}
/* True if the leaf's repo is filled from a git repository. */
static inline bool pl_input_follows_git(const struct pl_input *leaf)
{
    return leaf->git_source || leaf->git_url;
}
/* Returns the input that is the stage's environment; NULL if it has none. */
const struct pl_input *pl_stage_environment(const struct pl_stage *stage);
/* True if every datum of the tree has an input of that name; false if a branch of a union lacks it. */
bool pl_input_always(const struct pl_input *tree, const char *name);
/* True if the leaf reads a repo; false for `params`. */
static inline bool pl_input_reads(const struct pl_input *leaf)
{
    return leaf->kind == PL_INPUT_LEAF;
}

/* Returns the stage of that name, NULL if there is none. */
const struct pl_stage *pl_spec_stage(const struct pl_spec *spec, const char *name);

/* Appends the effective stage as compact JSON with sorted keys: defaults merged, all default values filled
 * in, durations and quantities in canonical form, env as strings. Two spellings of the same stage give the
 * same bytes, and parsing the result gives the same bytes again. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_stage_effective_json(const struct pl_stage *stage, struct pl_buf *out, struct pl_err *err);
/* Returns where the leaf's files come from, {"source" | "url", "branch", "secret"}, a new reference; the leaf follows git. */
json_t *pl_spec_git_json(const struct pl_input *leaf);
/* True if both stages have the same code folder and name the same files of it, in the same order. */
bool pl_stage_same_code(const struct pl_stage *a, const struct pl_stage *b);
/* Appends the whole spec in the same form as pl_stage_effective_json:
 * {"description","pipeline","project","repos","stages"}. */
PL_MUST_CHECK
int pl_spec_effective_json(const struct pl_spec *spec, struct pl_buf *out, struct pl_err *err);

/* Append the JSON Schema (draft 2020-12) of a spec, and the text of docs/spec.md. */
PL_MUST_CHECK
int pl_spec_schema(struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_spec_markdown(struct pl_buf *out, struct pl_err *err);

/* ---- where fields come from ---- */

#define PL_SPEC_DEFAULT_PATHS_MAX 256u /* paths that pl_spec_default_paths lists; a longer list is cut */

/* Lists the fields that the defaults outside of a spec set: {"project": [PATH…], "cluster": [PATH…]}, new reference; a
 * field of the cluster that the project sets or removes is not the cluster's. `cluster`, `project`: as
 * pl_spec_defaults_read returned them. With more than PL_SPEC_DEFAULT_PATHS_MAX paths, or one of more than 200
 * bytes, the rest is left out, and the object has "cut": true. PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_default_paths(const char *cluster, const char *project, json_t **ret, struct pl_err *err);
/* Says where the fields of stages come from: {STAGE: {PATH: ORIGIN}}, new reference. `text`: the spec as written, which
 * pl_spec_parse has accepted; `stages`: {STAGE: effective spec} of some of its stages; `outside`: what
 * pl_spec_default_paths returned when the spec was accepted, NULL = not known. A path is one of the effective spec
 * (json_position.h); lists and empty objects are one field, except the inputs of `cross` and `union`. ORIGIN:
 *   "stage"     written in the stage
 *   "spec"      from the spec's own `defaults`
 *   "project"   from the project's defaults
 *   "cluster"   from the cluster's defaults
 *   "language"  the language's own default, or one derived from other fields, as an input's name from its repo
 *   "unknown"   from any of the last three: `outside` is not known or was cut
 * PL_ESPEC: the text is not JSON; PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_origins(const char *text, size_t len, const json_t *stages, const json_t *outside, json_t **ret, struct pl_err *err);
