/* mask: texts that nobody shall read in what a command prints: each becomes PL_SECRET_REDACTION_STARS in a stream that comes in pieces. Of a text with
 * several lines each line is one. What is shorter than PL_SECRET_REDACTION_MIN is left: it would hide words that mean nothing of the kind.
 *
 * Texts come in rounds, each of all that there is at its time. What an earlier round had is still looked for, as long as there is room: the oldest goes
 * first. */
#pragma once

#include "storage/base/buf.h"

#define PL_SECRET_REDACTION_MIN   4u     /* bytes of a text */
#define PL_SECRET_REDACTION_MAX   65536u /* of a longer one its first so many bytes are looked for */
#define PL_SECRET_REDACTION_TEXTS 10000u /* beyond so many of one round, they are not looked for */
#define PL_SECRET_REDACTION_STARS "***"

struct pl_secret_redaction {
    struct pl_secret_redaction_text {
        char *text;
        size_t len;
        uint64_t age, round; /* the lowest age is the oldest; the last round that had it */
    } * texts;               /* the longest first, once pl_secret_redaction_ready */
    size_t n, cap;
    uint64_t age, round;
    size_t n_round;  /* of the round: of these none makes room */
    bool full;       /* one was left out, in whatever round */
    bool first[256]; /* bytes with which one begins */
};

/* Begins a round. */
void pl_secret_redaction_begin(struct pl_secret_redaction *m);
/* A text of the round; `for_good`: of each that comes, too. PL_ENOMEM. */
PL_MUST_CHECK
int pl_secret_redaction_add(struct pl_secret_redaction *m, const char *text, size_t len, bool for_good, struct pl_err *err);
/* After the round's last one was added. */
void pl_secret_redaction_ready(struct pl_secret_redaction *m);
void pl_secret_redaction_finish(struct pl_secret_redaction *m);

/* Appends `data`, less the texts, to `out`. What may be the beginning of one is kept in `held` for the next call; `end`: there is none.
 * Without memory what does not fit is left out. */
void pl_secret_redaction_pass(const struct pl_secret_redaction *m, struct pl_buf *held, const void *data, size_t n, bool end,
                              struct pl_buf *out);
