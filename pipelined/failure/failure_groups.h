/* failure_groups: the failed datums of a job, in groups whose messages say the same. Pure.
 *
 *   failures ──▶ message: the reason, or the line that the command printed of it
 *            ──▶ key: the message with numbers, ids, paths and quoted names replaced by a mark
 *            ──▶ groups of equal keys, the largest first, with what their members have in common
 *
 * The idea of blanking what varies, so that messages of one cause become equal, is that of log template mining;
 * see Zhu et al., "Tools and Benchmarks for Automated Log Parsing", 2019. */
#pragma once

#include "storage/base/arena.h"

#define PL_FAILURE_MESSAGE_MAX 1000u /* bytes of a message; the rest is cut off */

struct pl_failure {
    const char *reason; /* of the attempt, e.g. "exit code 1" */
    const char *tail;   /* the end of what the command printed; "" = nothing */
    bool exited;        /* the reason only tells how the command ended: the message is a line of the tail, if it has one */
    const char *paths;  /* the datum's text, e.g. "photos=/lisbon/1.jpg, model=/" */
    const char *node;   /* where the attempt ran; "" = not known */
    int64_t bytes;      /* of its inputs; -1 = not known */
};

struct pl_failure_group {
    const char *message; /* of its first member */
    const char *key;
    const size_t *members; /* `count` indices into the failures, ascending */
    size_t count;
    /* What all members have in common. */
    const char *reason;           /* "" = they have several */
    const char *folder;           /* of one of their inputs: "photos=/lisbon/"; "" = they have none in common */
    const char *node;             /* "" = several, or not known */
    int64_t bytes_min, bytes_max; /* of their inputs; -1 = not known of all */
};

/* Returns the message of a failure. Memory of the arena; NULL without memory. */
const char *pl_failure_message(const struct pl_failure *f, struct pl_arena *arena);
/* Returns the key of a message. Memory of the arena; NULL without memory. */
const char *pl_failure_key(const char *message, struct pl_arena *arena);
/* Groups `n` failures. The groups come with the largest first, and of two as large the one whose first member is
 * earlier. `*ret` is memory of the arena and refers to the texts of `f`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_failure_groups(const struct pl_failure *f, size_t n, struct pl_arena *arena, struct pl_failure_group **ret, size_t *ret_n,
                      struct pl_err *err);
