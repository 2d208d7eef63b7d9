/* stream_compare: memcmp of each piece with the next part of the iovec. */
#include "storage/object/stream_compare.h"

#include "storage/base/base.h"

/* Skips the elements that are compared completely; returns false at the end. */
static bool go_on(struct pl_stream_compare *c)
{
    for (; c->n > 0 && c->at == c->iov->iov_len; c->iov++, c->n--)
        c->at = 0;
    return c->n > 0;
}

size_t pl_stream_compare_add(struct pl_stream_compare *c, const void *bytes, size_t n)
{
    for (const uint8_t *p = bytes; n > 0 && !c->differs;) {
        const size_t some = go_on(c) ? PL_MIN(n, c->iov->iov_len - c->at) : 0;

        c->differs = some == 0 || memcmp((const uint8_t *)c->iov->iov_base + c->at, p, some) != 0;
        c->at += some;
        p += some;
        n -= some;
    }
    return n;
}

bool pl_stream_compare_end(struct pl_stream_compare *c)
{
    return !c->differs && !go_on(c);
}
