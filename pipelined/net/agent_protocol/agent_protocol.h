/* net/agent_protocol: Agent protocol 1 as structs and JSON, shared by daemon and agent; the frames between agent
 * and pl-runner (a header that needs libc alone). Pure.
 *
 * In:      JSON or structs.
 * Out:     Structs or JSON, each field checked.
 * Uses:    policy, spec, text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   runner_protocol  frames between agent and pl-runner (libc only)
 *
 * The daemon's answers are read from JSON with every field checked; the agent's requests are made into JSON.
 * Strings are borrowed from the JSON document that the struct holds.
 *
 *   POST /api/v1/worker/attach   {protocol, worker, incarnation, host, pid, held: [{task, fence}]}
 *                                → struct pl_agent_protocol_attach
 *   POST /api/v1/worker/next     {worker, incarnation, results: [RESULT], wait_ms, leaving?: true}
 *                                → pl_agent_protocol_next_read
 *   POST /api/v1/worker/renew    {worker, incarnation, tasks: [{task, fence, session?}]}  → {lost, recall, stop}
 *   POST /api/v1/worker/checkpoint {worker, task, fence, index, root}                      → {}
 *   POST /api/v1/worker/metrics  {worker, task, fence, index, first, lines: [text, …]}     → {}
 *                                at most PL_AGENT_PROTOCOL_LINES_MAX lines
 *   POST /api/v1/worker/log?worker=&task=&datum=&attempt=&offset=   raw bytes             → {}
 *
 * In `next`, `wait_ms` 0 means that the agent delivers results and wants no task; `leaving` that it was also told
 * to end. */
#pragma once

#include "pipelined/net/agent_protocol/runner_protocol.h"
#include "pipelined/spec/spec.h"
#include <jansson.h>

#define PL_AGENT_PROTOCOL_PROTOCOL   1
#define PL_AGENT_PROTOCOL_TASK_MAX   48 /* bytes of a task id as text */
#define PL_AGENT_PROTOCOL_DATUMS_MAX 10000u
#define PL_AGENT_PROTOCOL_INPUTS_MAX 64u
#define PL_AGENT_PROTOCOL_REASON_MAX 1024
#define PL_AGENT_PROTOCOL_INLINE_MAX                                                                                             \
    960u /* outputs up to this size (an ops stream) are sent in the result; PL_DATUM_ROW_INLINE_OPS_MAX */
#define PL_AGENT_PROTOCOL_EMPTY_OPS 7u         /* bytes of an ops stream without operations */
#define PL_AGENT_PROTOCOL_TAIL_MAX  4096u      /* bytes of the command's output kept per row … */
#define PL_AGENT_PROTOCOL_TAILS_MAX (1u << 20) /* … and for all rows of one result; failed rows come first */
#define PL_AGENT_PROTOCOL_LINES_MAX 64u        /* lines of metrics per request */
#define PL_AGENT_PROTOCOL_GPUS_MAX  64

/* How a command ended and what it used. */
struct pl_command_result {
    enum pl_runner_how how;
    int code; /* exit code, signal or errno, depending on `how` */
    bool timed_out;
    bool killed;        /* by on_tick */
    uint32_t leftovers; /* processes that the command left running and that were killed */
    uint32_t ooms;      /* in a pod or a cgroup: processes killed by the kernel for lack of memory */
    uint64_t wall_us, user_us, sys_us, max_rss_kb, minor_faults, major_faults, in_blocks, out_blocks, voluntary_switches,
        involuntary_switches;
    uint64_t
        /* with ooms: memory limit of the container or cgroup in bytes; 0 = no limit, or the machine itself ran out */
        memory_limit;
};

/* A lease: the task's id as the daemon writes it (a number or a string), and its fence. */
struct pl_agent_protocol_lease {
    char task[PL_AGENT_PROTOCOL_TASK_MAX];
    bool task_is_number;
    int64_t fence;
};

/* A secret for the command: the value of `key` as variable `env`, or all keys as files in folder `mount`. */
struct pl_agent_protocol_secret {
    const char *name, *key, *env, *mount;
};

/* The answer to attach: the stage that this worker serves. */
struct pl_agent_protocol_attach {
    json_t *doc;
    int64_t lease_ms, renew_ms;
    const char *project, *pipeline, *stage;
    const char *token;    /* token for all later requests; NULL = keep the present one */
    const char **run;     /* argv; NULL if `script` is set */
    const char **err_run; /* command of on_error; NULL = none */
    bool copy_links;      /* copy the targets of output links that lead outside the output */
    const char *script;
    const char *stdin_text;   /* NULL = no standard input */
    const json_t *writable;   /* names of inputs that the command may modify; borrowed, may be NULL */
    int64_t checkpoint_ms;    /* 0 = no checkpoints */
    struct pl_codes accepted; /* exit codes other than 0 that count as success */
    struct pl_env_var *env;
    size_t n_env;
    struct pl_agent_protocol_secret *secrets;
    size_t n_secrets;
    const char *code_root; /* 64 hex digits; NULL = the stage has no code */
    bool has_gpus;         /* the daemon assigned devices */
    size_t n_gpus;
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX];
    uint32_t gpu_count; /* GPUs of the task; also set in a pod, whose devices only its node knows */
    int64_t shm_bytes;
    int64_t memory_bytes; /* 0 = no limit */
    bool no_network;
    bool batch; /* one process of the command serves several datums in turn */
};

/* An input of a datum: the match `path` in the tree `root`. */
struct pl_agent_protocol_input {
    const char *name;
    const char *path; /* without a leading slash; "" = the root */
    struct pl_hash root;
    bool writable;      /* provided as copies, new for every attempt */
    bool file;          /* the match is a file or link; otherwise a folder */
    const char **files; /* NULL-terminated globs, NULL = all */
    size_t n_files;
    const char *commit; /* NULL if not given */
    /* for `params`: the content of params.json; `root` is its SHA-256, `path` "params.json". Otherwise NULL */
    const char *json;
    json_t *values; /* for `params`: {name: text}, borrowed */
};

struct pl_agent_protocol_datum {
    uint32_t index;
    uint32_t attempt;
    uint64_t timeout_ms; /* 0 = none */
    const char *datum;   /* 64 hex digits */
    struct pl_hash key;
    bool has_checkpoint;
    struct pl_hash checkpoint; /* root of the tree that an earlier attempt left */
    struct pl_agent_protocol_input *inputs;
    size_t n_inputs;
};

struct pl_agent_protocol_task {
    json_t *doc;
    struct pl_agent_protocol_lease lease;
    const char *job, *run;
    struct pl_agent_protocol_datum *rows;
    size_t n_rows;
    struct pl_agent_protocol_input *inputs; /* of all rows */
    const char **files;                     /* of all inputs */
};

enum pl_agent_protocol_next_kind { PL_WIRE_TASK, PL_WIRE_IDLE, PL_WIRE_END };

/* Result, times and bytes of one attempt at a datum. */
struct pl_agent_protocol_outcome {
    uint32_t index;
    bool success;
    bool recovered; /* the command failed and on_error's command succeeded */
    bool gave_back; /* not run to its end: goes into gave_back instead of rows */
    /* its container ended during it: not reported, because the pod's end says why and how it counts */
    bool lost;
    bool oom;
    struct pl_command_result run;
    char reason[PL_AGENT_PROTOCOL_REASON_MAX];        /* "" on success */
    char *tail;                                       /* last bytes of output, valid UTF-8; NULL = none */
    int64_t wait_ms, fetch_ms, compute_ms, upload_ms; /* duration of each step; steps of other rows may overlap */
    int64_t
        /* this row's share of the worker's time: since the row before, and after the last row until all was
         * uploaded */
        held_ms;
    uint64_t bytes_in, bytes_out;
    bool has_gpu;
    unsigned gpu_util;     /* mean per cent */
    uint64_t gpu_mem_peak; /* bytes */
    uint8_t *ops;          /* the output as an ops stream of ≤ PL_AGENT_PROTOCOL_INLINE_MAX bytes, or … */
    size_t ops_len;
    struct pl_hash root; /* … the root of its tree, if ops is NULL */
};

/* Reads the answer to attach. PL_EPROTO names the field, and also means another protocol version. Takes `doc`,
 * also on failure. */
PL_MUST_CHECK
int pl_agent_protocol_attach_read(json_t *doc, struct pl_agent_protocol_attach *ret, struct pl_err *err);
void pl_agent_protocol_attach_finish(struct pl_agent_protocol_attach *a);

/* Reads the answer to next. Fills `*ret_task` if `*ret_kind` is PL_WIRE_TASK. Takes `doc`. PL_EPROTO. */
PL_MUST_CHECK
int pl_agent_protocol_next_read(json_t *doc, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                                struct pl_err *err);
void pl_agent_protocol_task_finish(struct pl_agent_protocol_task *t);

/* Makes {task, fence}. New reference, NULL without memory. */
json_t *pl_agent_protocol_lease_json(const struct pl_agent_protocol_lease *lease);
/* True if `task` (a number, a string, or an object with member "task") names this lease's task. */
bool pl_agent_protocol_lease_is(const struct pl_agent_protocol_lease *lease, const json_t *task);
/* Makes the RESULT of a task from the outcomes of its rows. New reference, NULL without memory. */
json_t *pl_agent_protocol_result_json(const struct pl_agent_protocol_lease *lease,
                                      const struct pl_agent_protocol_outcome *outcomes, size_t n);
/* Makes the RESULT of a task that gives back these rows, which have not begun; its other rows continue. New
 * reference, NULL without memory. */
json_t *pl_agent_protocol_give_back_json(const struct pl_agent_protocol_lease *lease, const uint32_t *rows, size_t n);
void pl_agent_protocol_outcome_finish(struct pl_agent_protocol_outcome *o);

/* Returns the last `max` bytes of `data` as UTF-8, starting at a character, invalid bytes replaced by U+FFFD.
 * malloc'ed, NULL without memory. */
char *pl_agent_protocol_text(const uint8_t *data, size_t n, size_t max);
