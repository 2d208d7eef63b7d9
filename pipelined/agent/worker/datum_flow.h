/* flow: rows on their way through the worker's three threads, and what makes one wait for another.
 *
 *   fetch ──next──▶ (≤ 1 row whose inputs wait in WORK/next) ──▶ compute ──computed──▶ (output in WORK/done/<n>) ──▶ upload
 *     ▲ may_ask, wait_room                                                                                          │ handed_in
 *     └────────────────────────── tasks: ≤ PL_TASK_LEASE_TASKS_MAX at once ◀─────────────────────────────────────────────┘
 *
 * All rows of a task pass all three, in order, also those that are given back: each stop looks whether there is anything to do still.
 * Bounds: one row is fetched ahead, and the bytes of the one behind it where the disk has room for two more like the last; the outputs of
 * PL_DATUM_FLOW_BEHIND rows lie there besides the one being written; while the disk of the work folder has less than PL_DATUM_FLOW_FREE_BYTES left,
 * nothing is fetched ahead. The first failure ends all three. */
#pragma once

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include <stdatomic.h>
#include <sys/queue.h>

#define PL_DATUM_FLOW_BEHIND     4u           /* one is uploaded, the others wait */
#define PL_DATUM_FLOW_FREE_BYTES (512u << 20) /* of the work folder's disk, for the row that computes */

struct pl_flow;
struct pl_datum_flow_task;

/* One attempt at one datum. */
struct pl_datum_flow_item {
    struct pl_datum_flow_task *task;
    const struct pl_agent_protocol_datum *row;
    struct pl_agent_protocol_outcome *outcome;
    int folder;             /* its output is in WORK/done/<folder>; -1 = there is none */
    bool last;              /* of its task */
    bool begun, given_back; /* never both: pl_datum_flow_next begins it, pl_datum_flow_recall gives it back; the flow's lock */
    STAILQ_ENTRY(pl_datum_flow_item) link;
};

struct pl_datum_flow_task {
    struct pl_agent_protocol_task task;
    struct pl_agent_protocol_outcome *outcomes;
    struct pl_datum_flow_item *rows;
    int64_t asked_ms, got_ms; /* monotonic: when it was asked for, when it came */
    atomic_bool lost;         /* its outputs find no place at the daemon: what has not run is given back */
    LIST_ENTRY(pl_datum_flow_task) link;
};

PL_MUST_CHECK
int pl_datum_flow_create(struct pl_flow **ret, struct pl_err *err);
/* Frees the tasks that were not handed in too. */
struct pl_flow *pl_datum_flow_destroy(struct pl_flow *f);

/* --- the thread that fetches --- */

/* Waits until a task may be asked for; `alone`: until nothing is under way. False: all is over. */
bool pl_datum_flow_may_ask(struct pl_flow *f, bool alone);
/* Takes over `task`, also on failure. PL_ENOMEM. */
PL_MUST_CHECK
int pl_datum_flow_add(struct pl_flow *f, struct pl_agent_protocol_task *task, struct pl_datum_flow_task **ret,
                      struct pl_err *err);
/* Waits until the inputs of a row may be built: those of the row before have been put in place. `alone`: also until no row is under way.
 * False: all is over. */
bool pl_datum_flow_wait_room(struct pl_flow *f, bool alone);
/* Does a row wait whose inputs have not been put in place? Then those of the next one cannot be built, but their bytes may come. */
bool pl_datum_flow_is_full(struct pl_flow *f);
/* Was it given back, so that its inputs need not come? */
bool pl_datum_flow_given_back(struct pl_flow *f, const struct pl_datum_flow_item *row);
/* Is a row under way, so that waiting for it may bring room on the disk? */
bool pl_datum_flow_busy(struct pl_flow *f);
void pl_datum_flow_fetched(struct pl_flow *f, struct pl_datum_flow_item *row);
/* Nothing more comes. */
void pl_datum_flow_close_input(struct pl_flow *f);

/* --- the thread that runs commands --- */

/* The next row, as soon as there is one; NULL: all is over. It is begun, or given back and not to be run. */
struct pl_datum_flow_item *pl_datum_flow_next(struct pl_flow *f);
/* The inputs of the row are in place, or not wanted. */
void pl_datum_flow_placed(struct pl_flow *f);
/* Waits for a folder below WORK/done and gives it to the row: false when all is over. */
bool pl_datum_flow_take_folder(struct pl_flow *f, struct pl_datum_flow_item *row);
/* The row does not need it: it is empty. */
void pl_datum_flow_return_folder(struct pl_flow *f, struct pl_datum_flow_item *row);
/* The row's command is over. Returns the time for which the worker has been held for it, in us: since `*ret_from_us`, when the row before it
 * was computed, or since `not_before_us` if that is later. In us, so that after rounding it is never less than the row's time to compute. */
int64_t pl_datum_flow_held(struct pl_flow *f, int64_t not_before_us, int64_t *ret_from_us);
void pl_datum_flow_computed(struct pl_flow *f, struct pl_datum_flow_item *row);

/* --- the thread that uploads --- */

/* The next row; NULL after `timeout_ms`, or when all is over (`*ret_over`). */
struct pl_datum_flow_item *pl_datum_flow_to_upload(struct pl_flow *f, int64_t timeout_ms, bool *ret_over);
/* The row's folder is empty again. */
void pl_datum_flow_uploaded(struct pl_flow *f, struct pl_datum_flow_item *row);
/* The time that the worker has been held since the last row was computed, in us, when no other row computes or waits; else 0: it is that
 * row's. Not counted again. */
int64_t pl_datum_flow_held_more(struct pl_flow *f);
/* Frees the task. */
void pl_datum_flow_handed_in(struct pl_flow *f, struct pl_datum_flow_task *task);

/* --- any thread --- */

/* Gives back the rows of a task that have not been begun: their numbers in the job, also of those given back before, to be freed; none:
 * *ret_n is 0. `*ret_whole`: these are all rows of the task. NULL: the task is not here, or there is no memory. */
uint32_t *pl_datum_flow_recall(struct pl_flow *f, const struct pl_agent_protocol_lease *lease, size_t *ret_n, bool *ret_whole);
/* All threads end; the first failure counts. */
void pl_datum_flow_fail(struct pl_flow *f, int code, const struct pl_err *why);
/* 0, or the failure. */
int pl_datum_flow_result(struct pl_flow *f, struct pl_err *err);
