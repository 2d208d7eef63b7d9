/* mask: texts that nobody shall read in what a command prints: each becomes PL_MASK_STARS in a stream that comes in pieces. Of a text with
 * several lines each line is one. What is shorter than PL_MASK_MIN is left: it would hide words that mean nothing of the kind. */
#pragma once

#include "storage/base/buf.h"

#define PL_MASK_MIN   4u     /* bytes of a text */
#define PL_MASK_MAX   65536u /* of a longer one its first so many bytes are looked for */
#define PL_MASK_TEXTS 10000u /* beyond, they are not looked for */
#define PL_MASK_STARS "***"

struct pl_mask {
    struct pl_mask_text {
        char *text;
        size_t len;
    } * texts; /* the longest first, once pl_mask_ready */
    size_t n, cap;
    bool first[256]; /* bytes with which one begins */
};

/* PL_ENOMEM. */
PL_MUST_CHECK
int pl_mask_add(struct pl_mask *m, const char *text, size_t len, struct pl_err *err);
/* After the last one was added. */
void pl_mask_ready(struct pl_mask *m);
void pl_mask_finish(struct pl_mask *m);

/* Appends `data`, less the texts, to `out`. What may be the beginning of one is kept in `held` for the next call; `end`: there is none.
 * Without memory what does not fit is left out. */
void pl_mask_pass(const struct pl_mask *m, struct pl_buf *held, const void *data, size_t n, bool end, struct pl_buf *out);
