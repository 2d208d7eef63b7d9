/* arena: memory of one request or one scheduling pass, freed as a whole. Not thread-safe. */
#pragma once

#include "storage/base/err.h"

struct pl_arena; /* opaque; blocks grow from 2 to 64 KiB, a larger request gets a block of its own */

/* Creates an empty arena. `max_bytes` is the maximum sum of all allocations (0 = 256 MiB). Returns NULL only
 * without memory. */
struct pl_arena *pl_arena_create(size_t max_bytes);
/* Frees the arena and all its memory. NULL is allowed. Returns NULL. */
struct pl_arena *pl_arena_destroy(struct pl_arena *a);
static inline void pl_arena_destroyp(struct pl_arena **a)
{
    *a = pl_arena_destroy(*a);
}
/* Returns `n` zeroed bytes, aligned to 16 bytes; NULL without memory, or if the arena would exceed its
 * maximum. The next three functions return a NUL-terminated string under the same conditions. */
void *pl_arena_alloc(struct pl_arena *a, size_t n);
char *pl_arena_strdup(struct pl_arena *a, const char *s);
char *pl_arena_strndup(struct pl_arena *a, const char *s, size_t n);
char *pl_arena_printf(struct pl_arena *a, const char *fmt, ...) PL_PRINTF(2, 3);
/* Returns the sum of all allocations in bytes, including their alignment. */
size_t pl_arena_used(const struct pl_arena *a);
