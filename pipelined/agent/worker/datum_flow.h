/* datum_flow: passes the datums of tasks ("rows") through the worker's three threads, and makes the threads
 * wait for each other.
 *
 *   fetch ──▶ (≤ 1 row with inputs in WORK/next) ──▶ compute ──▶ (outputs in WORK/done/<n>) ──▶ upload
 *     ▲                                                                                         │ handed in
 *     └─────────────── at most PL_TASK_LEASE_TASKS_MAX tasks at once ◀──────────────────────────┘
 *
 * All rows of a task pass all three threads in order, even rows that are given back: each thread checks
 * whether there is still something to do. Bounds: the inputs of one row are built ahead. The bytes of the row
 * after that are fetched too if the disk has space for two more rows of the size of the last one. The outputs
 * of at most PL_DATUM_FLOW_BEHIND rows wait for their upload, besides the output that is being written. While
 * the disk of the work folder has less than PL_DATUM_FLOW_FREE_BYTES left, nothing is fetched ahead. The
 * first failure ends all three threads. */
#pragma once

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include <stdatomic.h>
#include <sys/queue.h>

#define PL_DATUM_FLOW_BEHIND 4u /* maximum number of output folders: one is uploaded, the others wait */
/* bytes on the work folder's disk that are kept free for the datum that computes */
#define PL_DATUM_FLOW_FREE_BYTES (512u << 20)

struct pl_flow;
struct pl_datum_flow_task;

/* One attempt at one datum. */
struct pl_datum_flow_item {
    struct pl_datum_flow_task *task;
    const struct pl_agent_protocol_datum *row;
    struct pl_agent_protocol_outcome *outcome;
    int folder; /* number of the folder WORK/done/<folder> with its output; -1 = no output */
    bool last;  /* this is the last datum of its task */
    /* pl_datum_flow_next sets `begun`, and pl_datum_flow_recall sets `given_back`, both under the flow's
     * lock; at most one of the two is set */
    bool begun, given_back;
    STAILQ_ENTRY(pl_datum_flow_item) link;
};

struct pl_datum_flow_task {
    struct pl_agent_protocol_task task;
    struct pl_agent_protocol_outcome *outcomes;
    struct pl_datum_flow_item *rows;
    int64_t asked_ms, got_ms; /* monotonic times: when the task was requested, and when it was received */
    /* the task's outputs cannot be stored at the daemon; datums that have not run are given back */
    atomic_bool lost;
    LIST_ENTRY(pl_datum_flow_task) link;
};

/* Creates an empty flow. PL_ENOMEM. */
PL_MUST_CHECK
int pl_datum_flow_create(struct pl_flow **ret, struct pl_err *err);
/* Frees the flow and all tasks that were not handed in. */
struct pl_flow *pl_datum_flow_destroy(struct pl_flow *f);

/* ---- called by the fetch thread ---- */

/* Waits until another task may be requested. `alone`: waits until no task is in progress. False: the flow has
 * failed. */
bool pl_datum_flow_may_ask(struct pl_flow *f, bool alone);
/* Adds a task with all its datums. Takes over `task`, also on failure. PL_ENOMEM. */
PL_MUST_CHECK
int pl_datum_flow_add(struct pl_flow *f, struct pl_agent_protocol_task *task, struct pl_datum_flow_task **ret,
                      struct pl_err *err);
/* Waits until the next datum's inputs may be built, because those of the previous datum were put in place.
 * `alone`: waits also until no datum is in progress. False: the flow has failed. */
bool pl_datum_flow_wait_room(struct pl_flow *f, bool alone);
/* True if the inputs of a datum wait to be put in place. Then the next datum's inputs cannot be built, but
 * their bytes can be fetched. */
bool pl_datum_flow_is_full(struct pl_flow *f);
/* True if the datum was given back, so that its inputs need not be fetched. */
bool pl_datum_flow_given_back(struct pl_flow *f, const struct pl_datum_flow_item *row);
/* True if a datum is in progress, so that waiting for it may free space on the disk. */
bool pl_datum_flow_busy(struct pl_flow *f);
/* Passes the datum, whose inputs are built, to the compute thread. */
void pl_datum_flow_fetched(struct pl_flow *f, struct pl_datum_flow_item *row);
/* Ends the input of the flow: no more datums follow. */
void pl_datum_flow_close_input(struct pl_flow *f);

/* ---- called by the compute thread ---- */

/* Waits for the next datum and marks it as begun, unless it was given back and must not be run. NULL: there
 * are no more datums, or the flow has failed. */
struct pl_datum_flow_item *pl_datum_flow_next(struct pl_flow *f);
/* Records that the datum's inputs were put in place, or are not needed, so that the next inputs may be
 * built. */
void pl_datum_flow_placed(struct pl_flow *f);
/* Waits for a free folder below WORK/done and assigns it to the datum's output. False: the flow has
 * failed. */
bool pl_datum_flow_take_folder(struct pl_flow *f, struct pl_datum_flow_item *row);
/* Frees the folder that was assigned to the datum, because it has no output. */
void pl_datum_flow_return_folder(struct pl_flow *f, struct pl_datum_flow_item *row);
/* Returns how long the worker was occupied by this datum, in us; call it when the datum's command has ended.
 * The time begins at `*ret_from_us`: the end of the previous datum's command, or `not_before_us` if that is
 * later. It is in us, so that after rounding it is never less than the datum's compute time. */
int64_t pl_datum_flow_held(struct pl_flow *f, int64_t not_before_us, int64_t *ret_from_us);
/* Passes the computed datum to the upload thread. */
void pl_datum_flow_computed(struct pl_flow *f, struct pl_datum_flow_item *row);

/* ---- called by the upload thread ---- */

/* Waits for the next datum. NULL after `timeout_ms`, or when all datums are done (`*ret_over`). */
struct pl_datum_flow_item *pl_datum_flow_to_upload(struct pl_flow *f, int64_t timeout_ms, bool *ret_over);
/* Records that the datum is uploaded and its folder is empty again. */
void pl_datum_flow_uploaded(struct pl_flow *f, struct pl_datum_flow_item *row);
/* Returns how long the worker was occupied since the last datum was computed, in us, or 0 if another datum
 * computes or waits, because the time then counts for that datum. The same time is not returned again. */
int64_t pl_datum_flow_held_more(struct pl_flow *f);
/* Removes and frees a task that was handed in. */
void pl_datum_flow_handed_in(struct pl_flow *f, struct pl_datum_flow_task *task);

/* ---- called by any thread ---- */

/* Gives back the datums of a task that have not begun. Returns the indexes in the job of all its datums given
 * back so far, `*ret_n` of them (may be 0); the caller frees the array. `*ret_whole`: these are all datums of
 * the task. NULL: the task is not in the flow, or memory ran out. */
uint32_t *pl_datum_flow_recall(struct pl_flow *f, const struct pl_agent_protocol_lease *lease, size_t *ret_n, bool *ret_whole);
/* Records a failure and ends all threads. If there was a failure before, that one is kept. */
void pl_datum_flow_fail(struct pl_flow *f, int code, const struct pl_err *why);
/* Returns 0, or the code and message of the recorded failure. */
int pl_datum_flow_result(struct pl_flow *f, struct pl_err *err);
