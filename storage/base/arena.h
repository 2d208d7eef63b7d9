/* arena: memory of one request or one scheduling pass, freed as a whole. Not thread-safe. */
#pragma once

#include "storage/base/err.h"

struct pl_arena; /* opaque; blocks of 2 to 64 KiB, larger for larger wishes */

/* `max_bytes` bounds the sum (0 = 256 MiB). NULL only without memory. */
struct pl_arena *pl_arena_create(size_t max_bytes);
struct pl_arena *pl_arena_destroy(struct pl_arena *a);
static inline void pl_arena_destroyp(struct pl_arena **a)
{
    *a = pl_arena_destroy(*a);
}
/* Zeroed, aligned to 16; NULL without memory or past the bound. */
void *pl_arena_alloc(struct pl_arena *a, size_t n);
char *pl_arena_strdup(struct pl_arena *a, const char *s);
char *pl_arena_strndup(struct pl_arena *a, const char *s, size_t n);
char *pl_arena_printf(struct pl_arena *a, const char *fmt, ...) PL_PRINTF(2, 3);
size_t pl_arena_used(const struct pl_arena *a);
