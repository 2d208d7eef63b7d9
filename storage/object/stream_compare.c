/* stream_compare: compares each piece with the next bytes of the iovec by memcmp. */
#include "storage/object/stream_compare.h"

#include "storage/base/base.h"

/* Advances past elements of the iovec whose bytes have all been compared; returns false at the end of the
 * iovec. */
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
