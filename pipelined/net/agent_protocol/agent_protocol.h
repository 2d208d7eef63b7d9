/* net/agent_protocol: Agent protocol 1 as structs and JSON, shared by daemon and agent; the frames between agent and
 * pl-runner (a header that needs libc alone). Pure.
 *
 * In:      JSON or structs.
 * Out:     Structs or JSON, each field checked.
 * Uses:    policy, spec, text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   runner_protocol  frames between agent and pl-runner (libc only) */

/* wire: agent protocol 1 as plain structs: what the daemon says, read from JSON with every field checked, and what the agent says,
 * made into JSON. Strings are borrowed from the JSON document that the struct holds. Nothing here does I/O.
 *
 *   POST /api/v1/worker/attach   {protocol, worker, incarnation, host, pid, held: [{task, fence}]}     → pl_agent_protocol_attach
 *   POST /api/v1/worker/next     {worker, incarnation, results: [RESULT], wait_ms, leaving?: true}     → pl_wire_next
 *   POST /api/v1/worker/renew    {worker, incarnation, tasks: [{task, fence, session?}]}               → {lost, recall, stop}
 *   POST /api/v1/worker/checkpoint {worker, task, fence, index, root}                                   → {}
 *   POST /api/v1/worker/metrics  {worker, task, fence, index, first, lines: [≤ PL_AGENT_PROTOCOL_LINES_MAX texts]} → {}
 *   POST /api/v1/worker/log?worker=&task=&datum=&attempt=&offset=   raw bytes                          → {}
 *
 * `wait_ms` 0 on next: results are handed in, no task is wanted; `leaving`: the agent was told to end besides. */
#pragma once

#include "pipelined/net/agent_protocol/runner_protocol.h"
#include "pipelined/spec/spec.h"
#include <jansson.h>

#define PL_AGENT_PROTOCOL_PROTOCOL   1
#define PL_AGENT_PROTOCOL_TASK_MAX   48 /* bytes of a task's id as text */
#define PL_AGENT_PROTOCOL_DATUMS_MAX 10000u
#define PL_AGENT_PROTOCOL_INPUTS_MAX 64u
#define PL_AGENT_PROTOCOL_REASON_MAX 1024
#define PL_AGENT_PROTOCOL_INLINE_MAX                                                                                             \
    960u /* an output up to here (an ops stream) travels in the result; PL_DATUM_ROW_INLINE_OPS_MAX */
#define PL_AGENT_PROTOCOL_EMPTY_OPS 7u         /* bytes of an ops stream without operations */
#define PL_AGENT_PROTOCOL_TAIL_MAX  4096u      /* of the command's output, per row … */
#define PL_AGENT_PROTOCOL_TAILS_MAX (1u << 20) /* … and of all rows of one result; rows that failed come first */
#define PL_AGENT_PROTOCOL_LINES_MAX 64u        /* lines of metrics in one request */
#define PL_AGENT_PROTOCOL_GPUS_MAX  64

/* How a command ended and what it used. */
struct pl_command_result {
    enum pl_runner_how how;
    int code; /* exit code, signal or errno, by `how` */
    bool timed_out;
    bool killed;        /* because on_tick said so */
    uint32_t leftovers; /* processes that the command left behind and that were killed */
    uint32_t ooms;      /* in a pod or a cgroup: processes that the kernel killed meanwhile for lack of memory */
    uint64_t wall_us, user_us, sys_us, max_rss_kb, minor_faults, major_faults, in_blocks, out_blocks, voluntary_switches,
        involuntary_switches;
    uint64_t
        memory_limit; /* with ooms: bytes that the container or the cgroup may have; 0 = no limit, or the machine had no more memory */
};

/* A lease: the task's id as the daemon spells it (a number or a string) and its fence. */
struct pl_agent_protocol_lease {
    char task[PL_AGENT_PROTOCOL_TASK_MAX];
    bool task_is_number;
    int64_t fence;
};

/* A secret of the project for the command: the key's value as variable `env`, or all as the folder `mount`. */
struct pl_agent_protocol_secret {
    const char *name, *key, *env, *mount;
};

/* The stage that this worker serves. */
struct pl_agent_protocol_attach {
    json_t *doc;
    int64_t lease_ms, renew_ms;
    const char *project, *pipeline, *stage;
    const char *token;    /* to be used from now on; NULL = the one that there is */
    const char **run;     /* argv; NULL when `script` is given */
    const char **err_run; /* on_error's command, NULL when there is none */
    bool copy_links;      /* those of the output that lead elsewhere */
    const char *script;
    const char *stdin_text;   /* NULL when it reads nothing */
    const json_t *writable;   /* names of inputs that the command may change; borrowed, may be NULL */
    int64_t checkpoint_ms;    /* 0 = no checkpoints */
    struct pl_codes accepted; /* exit codes that are no failure, beside 0 */
    struct pl_env_var *env;
    size_t n_env;
    struct pl_agent_protocol_secret *secrets;
    size_t n_secrets;
    const char *code_root; /* 64 hex, NULL when the stage has no code */
    bool has_gpus;         /* the daemon said which */
    size_t n_gpus;
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX];
    uint32_t gpu_count; /* of a pod, too, whose devices its node knows alone */
    int64_t shm_bytes;
    int64_t memory_bytes; /* 0 = no limit */
    bool no_network;
    bool batch; /* the command serves one datum after another */
};

/* One input of one datum: the match `path` of the tree `root`. */
struct pl_agent_protocol_input {
    const char *name;
    const char *path; /* without leading slash; "" = the root */
    struct pl_hash root;
    bool writable;      /* copies, anew for every attempt */
    bool file;          /* the match is a file (or link), else a folder */
    const char **files; /* NULL-terminated globs, NULL = all */
    size_t n_files;
    const char *commit; /* NULL when not told */
    const char *json; /* of `params`: what params.json holds; `root` is its SHA-256, `path` "params.json". NULL for all others */
    json_t *values;   /* of `params`: {name: text}, borrowed */
};

struct pl_agent_protocol_datum {
    uint32_t index;
    uint32_t attempt;
    uint64_t timeout_ms; /* 0 = none */
    const char *datum;   /* 64 hex */
    struct pl_hash key;
    bool has_checkpoint;
    struct pl_hash checkpoint; /* root of the tree that an attempt before left */
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

/* Seconds, bytes and verdict of one attempt at one datum. */
struct pl_agent_protocol_outcome {
    uint32_t index;
    bool success;
    bool recovered; /* it failed, and on_error's command succeeded */
    bool gave_back; /* not run to its end: goes into gave_back instead of rows */
    bool lost;      /* its container ended under it: goes nowhere, for the pod's end says why and what it counts as */
    bool oom;
    struct pl_command_result run;
    char reason[PL_AGENT_PROTOCOL_REASON_MAX];        /* "" on success */
    char *tail;                                       /* last bytes of output, valid UTF-8; NULL when none */
    int64_t wait_ms, fetch_ms, compute_ms, upload_ms; /* how long each took; with others meanwhile */
    int64_t
        held_ms; /* of the worker's time, this row's part: since the row before, and behind the last one until all was uploaded */
    uint64_t bytes_in, bytes_out;
    bool has_gpu;
    unsigned gpu_util;     /* mean per cent */
    uint64_t gpu_mem_peak; /* bytes */
    uint8_t *ops;          /* the output as an ops stream of ≤ PL_AGENT_PROTOCOL_INLINE_MAX bytes, or … */
    size_t ops_len;
    struct pl_hash root; /* … the root of its tree when ops is NULL */
};

/* PL_EPROTO naming the field; PL_EINVAL for what this agent cannot serve (another protocol). Takes over `doc` also on failure. */
PL_MUST_CHECK
int pl_agent_protocol_attach_read(json_t *doc, struct pl_agent_protocol_attach *ret, struct pl_err *err);
void pl_agent_protocol_attach_finish(struct pl_agent_protocol_attach *a);

/* `*ret_task` is filled when `*ret_kind` is PL_WIRE_TASK. Takes over `doc`. PL_EPROTO. */
PL_MUST_CHECK
int pl_agent_protocol_next_read(json_t *doc, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                                struct pl_err *err);
void pl_agent_protocol_task_finish(struct pl_agent_protocol_task *t);

/* {task, fence}. New reference, NULL without memory. */
json_t *pl_agent_protocol_lease_json(const struct pl_agent_protocol_lease *lease);
/* Does `task` (a JSON number or string) name this lease's task? */
bool pl_agent_protocol_lease_is(const struct pl_agent_protocol_lease *lease, const json_t *task);
/* RESULT of a task whose rows ended as `outcomes` says. New reference, NULL without memory. */
json_t *pl_agent_protocol_result_json(const struct pl_agent_protocol_lease *lease,
                                      const struct pl_agent_protocol_outcome *outcomes, size_t n);
/* RESULT of a task of which these rows have not been begun and are given back; the others go on. As pl_agent_protocol_result_json. */
json_t *pl_agent_protocol_give_back_json(const struct pl_agent_protocol_lease *lease, const uint32_t *rows, size_t n);
void pl_agent_protocol_outcome_finish(struct pl_agent_protocol_outcome *o);

/* The last `max` bytes of `data` as valid UTF-8, what is not replaced by U+FFFD, starting at a character. malloc'ed, NULL without
 * memory. */
char *pl_agent_protocol_text(const uint8_t *data, size_t n, size_t max);
