/* secret_redaction: replaces secret texts by PL_SECRET_REDACTION_STARS in the output of a command, which
 * arrives as a stream of pieces. A text of several lines counts as one text per line. Texts shorter than
 * PL_SECRET_REDACTION_MIN are not replaced, because they would hide harmless words.
 *
 * Texts are added in rounds. In each round the caller adds all texts that are valid at that time. Texts of
 * earlier rounds are still replaced as long as there is space for them; the oldest are dropped first. Not
 * thread-safe. */
#pragma once

#include "storage/base/buf.h"

#define PL_SECRET_REDACTION_MIN 4u /* shortest text that is replaced, in bytes */
/* maximum number of bytes of a secret text that are searched for in output; of a longer text only these
 * first bytes are replaced */
#define PL_SECRET_REDACTION_MAX 65536u
/* maximum number of secret texts; if one round adds more, the excess is not replaced in output */
#define PL_SECRET_REDACTION_TEXTS 10000u
#define PL_SECRET_REDACTION_STARS "***"

struct pl_secret_redaction {
    struct pl_secret_redaction_text {
        char *text;
        size_t len;
        /* `age`: number that increases with each added text, so the text with the lowest `age` is the
         * oldest; `round`: the last round to which the text was added */
        uint64_t age, round;
    } * texts; /* sorted by length, longest first; the order is valid after pl_secret_redaction_ready */
    size_t n, cap;
    uint64_t age, round;
    size_t n_round;  /* number of texts of the current round; these are not dropped */
    bool full;       /* a text was left out, in any round, because there were too many */
    bool first[256]; /* indexed by byte value: true if a secret text begins with this byte */
};

/* Begins a round. The caller zeroes the object before the first round. */
void pl_secret_redaction_begin(struct pl_secret_redaction *m);
/* Adds a text to the current round, line by line. `for_good`: the text also belongs to all later rounds.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_secret_redaction_add(struct pl_secret_redaction *m, const char *text, size_t len, bool for_good, struct pl_err *err);
/* Ends a round: call it after the round's last text was added, before the next pl_secret_redaction_pass. */
void pl_secret_redaction_ready(struct pl_secret_redaction *m);
/* Overwrites the secret texts in memory and frees them. */
void pl_secret_redaction_finish(struct pl_secret_redaction *m);

/* Appends `data` to `out` with the secret texts replaced. Bytes that may be the beginning of a text are kept
 * in `held` for the next call; `end` means that no more data follows, so nothing is kept. Drops output that
 * does not fit in memory. */
void pl_secret_redaction_pass(const struct pl_secret_redaction *m, struct pl_buf *held, const void *data, size_t n, bool end,
                              struct pl_buf *out);
