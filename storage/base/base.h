/* storage/base: Errors, buffers, arenas, hash maps, hashes, path rules, clocks: for every room.
 *
 * In:      Bytes and texts of the caller.
 * Out:     Values and errors; nothing is kept.
 * Uses:    nothing of ours
 * Threads: Any thread; one object belongs to one thread at a time.
 *
 * Headers for other rooms:
 *   alloc_failure  allocator wrapper that remembers a failed allocation per thread
 *   arena          memory of one request, freed as a whole
 *   buf            growable byte buffer with a maximum size
 *   byte_view      borrowed view of cached bytes with a slot for their decoded form
 *   clock          monotonic and wall clocks
 *   effort         bound on the work of one request
 *   err            error codes, messages, HTTP status and exit code in one table
 *   hash           SHA-256, XXH64, random bytes and hex text
 *   map            hash map from byte strings to pointers
 *   path           rules for names and paths
 *   seal           authenticated encryption of small secrets at rest (AES-256-GCM)
 *
 * The room depends on libc, OpenSSL (SHA-256, AES-GCM, HMAC) and xxHash. This header has the macros for
 * cleanup and for the transfer of ownership. */

#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Marks a function that can fail: the compiler warns if a caller ignores the result. */
#define PL_MUST_CHECK         __attribute__((warn_unused_result))
#define PL_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* `_cleanup_(f) T x = {0};` calls f(&x) when x leaves its scope. */
#define _cleanup_(f)    __attribute__((cleanup(f)))
#define _cleanup_free_  _cleanup_(pl_freep)
#define _cleanup_close_ _cleanup_(pl_closep)

/* Transfers ownership: yields the value and empties the variable, so that its cleanup does nothing. */
#define TAKE_PTR(p)                                                                                                              \
    ({                                                                                                                           \
        __typeof__(p) pl_taken_ = (p);                                                                                           \
        (p) = NULL;                                                                                                              \
        pl_taken_;                                                                                                               \
    })
#define TAKE_FD(fd)                                                                                                              \
    ({                                                                                                                           \
        int pl_taken_ = (fd);                                                                                                    \
        (fd) = -1;                                                                                                               \
        pl_taken_;                                                                                                               \
    })

#define PL_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PL_MIN(a, b)     ((a) < (b) ? (a) : (b))
#define PL_MAX(a, b)     ((a) > (b) ? (a) : (b))

/* Returns the struct whose member `member` is at `ptr`. */
#define PL_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void pl_freep(void *p)
{
    free(*(void **)p);
}

static inline void pl_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline bool pl_streq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}
