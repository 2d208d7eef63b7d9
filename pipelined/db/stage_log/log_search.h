/* log_search: finds a text in a log, or its errors, and says in which line. Pure; fed piece by piece.
 *
 * An Aho-Corasick automaton over bytes, where the letters of ASCII match in both cases: one look-up a byte, whatever the
 * texts (Aho, Corasick, "Efficient string matching", 1975). No text contains a line break, so no match spans lines. */
#pragma once

#include "storage/base/err.h"

#define PL_LOG_SEARCH_BYTES 256u /* longest text */
#define PL_LOG_SEARCH_TAIL  32u  /* power of two, more than the longest word that tells of an error */

struct pl_log_search;

/* Compiles one text of 1 to PL_LOG_SEARCH_BYTES bytes without "\n". PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_search_text(const char *text, struct pl_log_search **ret, struct pl_err *err);
/* Compiles the words that tell of errors: error, exception, traceback, fatal, panic, segmentation fault, killed. They count
 * as whole words, and as the end of a name in capitals: ValueError. PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_search_errors(struct pl_log_search **ret, struct pl_err *err);
struct pl_log_search *pl_log_search_free(struct pl_log_search *s);
static inline void pl_log_search_freep(struct pl_log_search **s)
{
    *s = pl_log_search_free(*s);
}

/* How far a search has come; `{.line = 1}` is the start of a log. */
struct pl_log_search_state {
    uint64_t line; /* of the next byte */
    uint64_t bytes;
    uint16_t node;
    bool pending;                     /* a word came: it counts unless the next byte goes on with it */
    uint8_t tail[PL_LOG_SEARCH_TAIL]; /* the last bytes */
};
/* Looks through the next piece. True at the first match in a line with a number of at least `from`: the line is
 * state->line, and *ret_used bytes were looked at. False: all were. */
bool pl_log_search_feed(const struct pl_log_search *s, struct pl_log_search_state *state, uint64_t from, const void *bytes,
                        size_t n, size_t *ret_used);
/* True if the end of the text completes a match. */
static inline bool pl_log_search_end(const struct pl_log_search_state *state, uint64_t from)
{
    return state->pending && state->line >= from;
}
