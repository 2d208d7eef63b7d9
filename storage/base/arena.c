/* arena: a list of zeroed blocks. Allocations are taken from the end of the first block; a full block stays
 * in the list until the arena is destroyed. */
#include "storage/base/arena.h"

#include <stdarg.h>
#include <stdio.h>

#define ARENA_FIRST_BYTES ((size_t)2 << 10)
#define ARENA_BLOCK_BYTES ((size_t)64 << 10)
#define ARENA_DEFAULT_MAX ((size_t)256 << 20)
#define ARENA_ALIGN       16u

struct arena_block {
    struct arena_block *next;
    size_t size; /* bytes in bytes[] */
    _Alignas(ARENA_ALIGN) uint8_t bytes[];
};

struct pl_arena {
    struct arena_block *blocks; /* the first one is being filled */
    size_t at;                  /* bytes used in the first block */
    size_t next;                /* size in bytes of the next block */
    size_t used;
    size_t max;
};

struct pl_arena *pl_arena_create(size_t max_bytes)
{
    struct pl_arena *a = calloc(1, sizeof(*a));

    if (a != NULL)
        *a = (struct pl_arena){.max = max_bytes != 0 ? max_bytes : ARENA_DEFAULT_MAX, .next = ARENA_FIRST_BYTES};
    return a;
}

struct pl_arena *pl_arena_destroy(struct pl_arena *a)
{
    if (a == NULL)
        return NULL;
    while (a->blocks != NULL) {
        struct arena_block *next = a->blocks->next;

        free(a->blocks);
        a->blocks = next;
    }
    free(a);
    return NULL;
}

/* Allocates a separate block for a large request that does not fit into the first block. The new block
 * becomes the second in the list, so that the first one can still be filled. */
static void *arena_alloc_large(struct pl_arena *a, size_t n)
{
    struct arena_block *block = calloc(1, sizeof(*block) + n);

    if (block == NULL)
        return NULL;
    block->size = n;
    if (a->blocks == NULL) {
        a->blocks = block;
        a->at = n;
    } else {
        block->next = a->blocks->next;
        a->blocks->next = block;
    }
    a->used += n;
    return block->bytes;
}

/* Each block is twice as large as the one before, up to ARENA_BLOCK_BYTES: the first blocks are small because
 * thousands of nearly empty arenas can exist at the same time. */
static bool arena_add_block(struct pl_arena *a, size_t n)
{
    struct arena_block *block;

    while (a->next < n)
        a->next *= 2;
    block = calloc(1, sizeof(*block) + a->next);
    if (block == NULL)
        return false;
    block->size = a->next;
    block->next = a->blocks;
    a->blocks = block;
    a->at = 0;
    a->next = PL_MIN(2 * a->next, ARENA_BLOCK_BYTES);
    return true;
}

void *pl_arena_alloc(struct pl_arena *a, size_t n)
{
    void *p;

    if (n > a->max - a->used || n > SIZE_MAX / 2)
        return NULL;
    n = n == 0 ? ARENA_ALIGN : (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (n > a->max - a->used)
        return NULL;
    if (n > ARENA_BLOCK_BYTES / 4 && (a->blocks == NULL || n > a->blocks->size - a->at))
        return arena_alloc_large(a, n);
    if ((a->blocks == NULL || n > a->blocks->size - a->at) && !arena_add_block(a, n))
        return NULL;
    p = a->blocks->bytes + a->at;
    a->at += n;
    a->used += n;
    return p;
}

char *pl_arena_strndup(struct pl_arena *a, const char *s, size_t n)
{
    char *copy = pl_arena_alloc(a, n + 1);

    if (copy != NULL && n > 0)
        memcpy(copy, s, n);
    return copy;
}

char *pl_arena_strdup(struct pl_arena *a, const char *s)
{
    return pl_arena_strndup(a, s, strlen(s));
}

char *pl_arena_printf(struct pl_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *text;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    text = pl_arena_alloc(a, (size_t)n + 1);
    if (text == NULL)
        return NULL;
    va_start(ap, fmt);
    (void)vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return text;
}

size_t pl_arena_used(const struct pl_arena *a)
{
    return a->used;
}
