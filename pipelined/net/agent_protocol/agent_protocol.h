/* net/agent_protocol: Agent protocol 1 as structs and JSON, shared by daemon and agent; the frames between agent
 * and pl-runner (a header that needs only libc). Does no I/O.
 *
 * In:      JSON or structs.
 * Out:     Structs or JSON, each field checked.
 * Uses:    policy, spec, text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   runner_protocol  frames between agent and pl-runner (libc only)
 *
 * The daemon's replies are read from JSON with every field checked; the agent's requests are built as JSON.
 * Strings in a struct are borrowed from the JSON document that the struct holds.
 *
 *   POST /api/v1/worker/attach   {protocol, worker, incarnation, host, pid, image?, held: [{task, fence}]}
 *                                → struct pl_agent_protocol_attach
 *   POST /api/v1/worker/next     {worker, incarnation, results: [RESULT], wait_ms, leaving?: true}
 *                                → pl_agent_protocol_next_read
 *   POST /api/v1/worker/renew    {worker, incarnation, tasks: [{task, fence, session?}]}  → {lost, recall, stop}
 *   POST /api/v1/worker/checkpoint {worker, task, fence, index, root}                      → {}
 *   POST /api/v1/worker/metrics  {worker, task, fence, index, first, lines: [text, …]}     → {}
 *                                at most PL_AGENT_PROTOCOL_LINES_MAX lines
 *   POST /api/v1/worker/log?worker=&task=&fence=&datum=&attempt=&offset=   raw bytes      → {}
 *
 * In a request to `next`, `wait_ms` 0 means that the agent delivers results and wants no task; `leaving` means that,
 * in addition, the agent has been told to end. */
#pragma once

#include "pipelined/net/agent_protocol/runner_protocol.h"
#include "pipelined/spec/spec.h"
#include <jansson.h>

#define PL_AGENT_PROTOCOL_PROTOCOL   1  /* the version that daemon and agent must have in common */
#define PL_AGENT_PROTOCOL_TASK_MAX   48 /* bytes of a task's id as text */
#define PL_AGENT_PROTOCOL_DATUMS_MAX 10000u
#define PL_AGENT_PROTOCOL_INPUTS_MAX 64u
#define PL_AGENT_PROTOCOL_REASON_MAX 1024
#define PL_AGENT_PROTOCOL_INLINE_MAX                                                                                             \
    960u /* outputs up to this size (an ops stream) are sent in the result; PL_DATUM_ROW_INLINE_OPS_MAX */
#define PL_AGENT_PROTOCOL_EMPTY_OPS 7u    /* bytes of an ops stream that has no operations */
#define PL_AGENT_PROTOCOL_TAIL_MAX  4096u /* most bytes of the command's output in a result, for one row */
/* most bytes of commands' output in a result, for all rows together; failed rows come first */
#define PL_AGENT_PROTOCOL_TAILS_MAX (1u << 20)
#define PL_AGENT_PROTOCOL_LINES_MAX 64u /* most lines of metrics in one request */
#define PL_AGENT_PROTOCOL_GPUS_MAX  64

/* How a command ended and what it used. */
struct pl_command_result {
    enum pl_runner_how how;
    int code; /* an exit code, a signal's number or an errno, depending on `how` */
    bool timed_out;
    bool killed;        /* the agent's callback on_tick requested that the command be killed */
    uint32_t leftovers; /* number of processes that the command left running and that were killed */
    uint32_t ooms;      /* in a pod or a cgroup: number of processes that the kernel killed for lack of memory */
    uint64_t wall_us, user_us, sys_us, max_rss_kb, minor_faults, major_faults, in_blocks, out_blocks, voluntary_switches,
        involuntary_switches;
    uint64_t
        /* if `ooms` is not 0: memory limit of the container or cgroup in bytes; 0 = no limit, or the whole
         * machine ran out */
        memory_limit;
};

/* A lease of a task: the task's id as the daemon writes it (a number or a string), and the fence. */
struct pl_agent_protocol_lease {
    char task[PL_AGENT_PROTOCOL_TASK_MAX];
    bool task_is_number;
    int64_t fence;
};

/* A secret for the command: the value of `key` as environment variable `env`, or all keys as files in folder
 * `mount`. */
struct pl_agent_protocol_secret {
    const char *name, *key, *env, *mount;
};

/* The daemon's reply to `attach`: describes the stage whose datums this worker runs. */
struct pl_agent_protocol_attach {
    json_t *doc;
    int64_t lease_ms, renew_ms;
    const char *project, *pipeline, *stage;
    const char *token;      /* token for all later requests; NULL = keep using the present one */
    const char **run;       /* the stage's command as argv; NULL if `script` is set */
    const char **err_run;   /* the command of on_error; NULL = none */
    bool environment;       /* one of the inputs is the command's environment, at /pl/env */
    bool makes_environment; /* the output folder is at /pl/env, too, and links are kept as they are */
    bool copy_links;        /* if a link in the output leads outside the output, copy its target */
    const char *script;
    const char *stdin_text;   /* text for the command's standard input; NULL = none */
    const char *python;       /* field `python` of the stage; NULL = none */
    const json_t *writable;   /* JSON list of the inputs that the command may modify; borrowed, may be NULL */
    int64_t checkpoint_ms;    /* interval of checkpoints in ms; 0 = no checkpoints */
    struct pl_codes accepted; /* exit codes other than 0 that count as success */
    struct pl_env_var *env;
    size_t n_env;
    struct pl_agent_protocol_secret *secrets;
    size_t n_secrets;
    const char *code_root; /* root of the code's tree, 64 hex digits; NULL = the stage has no code */
    bool has_gpus;         /* the daemon has assigned the GPU devices that `gpus` lists */
    size_t n_gpus;
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX];
    /* number of GPUs of a task; also set in a pod, where only the node knows the devices */
    uint32_t gpu_count;
    int64_t shm_bytes;
    int64_t memory_bytes; /* memory limit of the command in bytes; 0 = no limit */
    bool no_network;
    bool batch; /* one process of the command serves several datums, one after another */
};

/* An input of a datum: the file or folder `path` in the tree `root`. */
struct pl_agent_protocol_input {
    const char *name;
    const char *project; /* the project whose store has the tree; NULL = that of the worker's stage */
    const char *path;    /* path in the tree, without a leading slash; "" = the root */
    struct pl_hash root;
    bool writable;      /* the command gets copies of the files, made anew for every attempt */
    bool environment;   /* a folder that is at /pl/env, too */
    bool file;          /* `path` is a file or link; otherwise it is a folder */
    const char **files; /* NULL-terminated list of globs that select files below `path`; NULL = all files */
    size_t n_files;
    const char *commit; /* id of the input's commit; NULL if not given */
    /* Only for a params input, otherwise NULL: the content of params.json. `root` is then its SHA-256, and
     * `path` is "params.json". */
    const char *json;
    json_t *values; /* only for a params input: {name: text}, borrowed */
};

struct pl_agent_protocol_datum {
    uint32_t index;
    uint32_t attempt;
    uint64_t timeout_ms; /* time limit of the command in ms; 0 = none */
    const char *datum;   /* the datum's id, 64 hex digits */
    struct pl_hash key;
    bool has_checkpoint;
    struct pl_hash checkpoint; /* root of the tree that an earlier attempt saved as checkpoint */
    struct pl_agent_protocol_input *inputs;
    size_t n_inputs;
};

struct pl_agent_protocol_task {
    json_t *doc;
    struct pl_agent_protocol_lease lease;
    const char *job, *run, *traceparent; /* traceparent: trace of the run; "" = none */
    struct pl_agent_protocol_datum *rows;
    size_t n_rows;
    struct pl_agent_protocol_input *inputs; /* the inputs of all rows, in one array */
    const char **files;                     /* the globs of all inputs, in one array */
};

enum pl_agent_protocol_next_kind { PL_WIRE_TASK, PL_WIRE_IDLE, PL_WIRE_END };

/* Result, times and sizes of one attempt at a datum. */
struct pl_agent_protocol_outcome {
    uint32_t index;
    bool success;
    bool recovered; /* the command failed, but the command of on_error succeeded */
    /* the attempt did not run to its end: the RESULT lists the row in its member gave_back instead of rows */
    bool gave_back;
    /* the container ended during the attempt; the RESULT omits the row, because the daemon learns the reason
     * from the state of the pod */
    bool lost;
    bool oom;
    struct pl_command_result run;
    char reason[PL_AGENT_PROTOCOL_REASON_MAX]; /* why the attempt failed; "" on success */
    char *tail;                                /* last bytes of the command's output, valid UTF-8; NULL = none */
    /* duration of each step in ms; steps of different rows may overlap */
    int64_t wait_ms, fetch_ms, compute_ms, upload_ms;
    int64_t
        /* this row's share of the worker's time in ms: the time since the previous row; for the last row,
         * until everything was uploaded */
        held_ms;
    uint64_t bytes_in, bytes_out;
    bool has_gpu;
    unsigned gpu_util;     /* mean utilization of the GPUs in per cent */
    uint64_t gpu_mem_peak; /* peak GPU memory in bytes */
    uint8_t *ops;          /* the output as an ops stream of at most PL_AGENT_PROTOCOL_INLINE_MAX bytes, or NULL */
    size_t ops_len;
    struct pl_hash root; /* root of the output's tree, if `ops` is NULL */
};

/* Reads the reply to `attach`. PL_EPROTO: a field is wrong (the message names it), or the daemon speaks
 * another version of the protocol. Takes over `doc`, also on failure. */
PL_MUST_CHECK
int pl_agent_protocol_attach_read(json_t *doc, struct pl_agent_protocol_attach *ret, struct pl_err *err);
void pl_agent_protocol_attach_finish(struct pl_agent_protocol_attach *a);

/* Reads the reply to `next`. Fills `*ret_task` if `*ret_kind` is PL_WIRE_TASK. Takes over `doc`, also on
 * failure. PL_EPROTO. */
PL_MUST_CHECK
int pl_agent_protocol_next_read(json_t *doc, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                                struct pl_err *err);
void pl_agent_protocol_task_finish(struct pl_agent_protocol_task *t);

/* Builds the JSON object {task, fence} of a lease. New reference; NULL if memory runs out. */
json_t *pl_agent_protocol_lease_json(const struct pl_agent_protocol_lease *lease);
/* True if the JSON value `task` names the task of this lease. The value is a number, a string, or an object
 * with the member "task". */
bool pl_agent_protocol_lease_is(const struct pl_agent_protocol_lease *lease, const json_t *task);
/* Builds the RESULT of a task from the outcomes of its rows. New reference; NULL if memory runs out. */
json_t *pl_agent_protocol_result_json(const struct pl_agent_protocol_lease *lease,
                                      const struct pl_agent_protocol_outcome *outcomes, size_t n);
/* Builds a RESULT that gives back to the daemon these rows of a task, which have not begun; the worker keeps
 * the task's other rows. New reference; NULL if memory runs out. */
json_t *pl_agent_protocol_give_back_json(const struct pl_agent_protocol_lease *lease, const uint32_t *rows, size_t n);
void pl_agent_protocol_outcome_finish(struct pl_agent_protocol_outcome *o);

/* Returns at most the last `max` bytes of `data` as UTF-8 text: starts at a whole character and replaces
 * invalid bytes by U+FFFD. malloc'ed; NULL if memory runs out. */
char *pl_agent_protocol_text(const uint8_t *data, size_t n, size_t max);
