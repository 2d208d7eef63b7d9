/* shown: the bytes of a record where they lie, for those who ask all day and would copy them each time; and a place beside them for what
 * was made of them once. Whoever shows them keeps both until the look is over. */
#pragma once

#include "storage/base/err.h"

struct pl_byte_view {
    const uint8_t *bytes;
    size_t n;
    /* One block of malloc of at most pl_byte_view_decoded_max bytes, put there once by compare and exchange, and freed with the bytes; NULL: none
     * yet. The pointer itself is NULL where nothing is kept. */
    _Atomic(void *) *aside;
};

static inline size_t pl_byte_view_decoded_max(size_t n)
{
    return n / 8;
}

typedef int (*pl_byte_view_fn)(void *arg, const struct pl_byte_view *shown, struct pl_err *err);
