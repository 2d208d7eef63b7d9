/* comparison: whether bytes that come piece by piece are those of an iovec, to its end. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* `{.iov = …, .n = …}` begins one; both are borrowed. */
struct pl_stream_compare {
    const struct iovec *iov; /* from here on */
    int n;
    size_t at; /* in iov[0] */
    bool differs;
};

/* Takes the next bytes; how many of them came after a difference was known. */
size_t pl_stream_compare_add(struct pl_stream_compare *c, const void *bytes, size_t n);
/* No more come: whether all were the same. */
bool pl_stream_compare_end(struct pl_stream_compare *c);
