/* byte_view: a borrowed view of the bytes of a cached record, so that frequent readers need not copy them;
 * plus a slot for the decoded form of the bytes, so that one reader decodes them for all later readers. The
 * view is valid only during the call of a pl_byte_view_fn. */
#pragma once

#include "storage/base/err.h"

struct pl_byte_view {
    const uint8_t *bytes;
    size_t n;
    /* Slot for the decoded form: NULL or one malloc'ed block of at most pl_byte_view_decoded_max(n) bytes. A
     * reader stores it with an atomic compare-and-exchange from NULL; the cache frees it together with the
     * bytes. `aside` itself is NULL if the bytes are not cached. */
    _Atomic(void *) *aside;
};

/* Maximum size in bytes of the decoded form of a record of `n` bytes; the cache counts it when the record is
 * added. */
static inline size_t pl_byte_view_decoded_max(size_t n)
{
    return n / 8;
}

/* Callback that reads the bytes. It must not keep a pointer into the view after it returns. Returns 0 or a
 * negative error code. */
typedef int (*pl_byte_view_fn)(void *arg, const struct pl_byte_view *shown, struct pl_err *err);
