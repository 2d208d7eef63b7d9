/* stream_compare: compares bytes that arrive in pieces with an iovec, up to its end. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Initialise with `{.iov = …, .n = …}`; both are borrowed. */
struct pl_stream_compare {
    const struct iovec *iov; /* the elements whose bytes have not all been compared yet */
    int n;
    size_t at; /* offset in iov[0] */
    bool differs;
};

/* Compares the next bytes. Returns how many of them came after the first difference. */
size_t pl_stream_compare_add(struct pl_stream_compare *c, const void *bytes, size_t n);
/* Call after the last bytes. Returns true if all bytes were equal and none are missing. */
bool pl_stream_compare_end(struct pl_stream_compare *c);
