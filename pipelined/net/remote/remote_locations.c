/* A hash table with open addressing and linear probing. An id is itself a hash, so its first bytes choose the
 * slot. A slot has the number of a pack instead of its id. */
#include "pipelined/net/remote/remote_locations.h"

#include "storage/base/map.h"

#define SLOTS_LEAST 1024u

struct slot {
    struct pl_hash id;
    /* index + 1 of the pack in the table's `packs`; 0 = the slot is free, or its record was forgotten */
    uint32_t pack;
    uint32_t offset, stored, raw;
    uint8_t codec, kind;
    bool used;
};

struct generation {
    struct slot *slots;
    size_t cap, len; /* number of slots: a power of two, of which at most 3/4 are used */
};

struct remote_table {
    struct generation young, old;
    struct pl_map pack_numbers; /* map from a pack's id to its index in `packs`, plus 1 */
    struct pl_hash *packs;
    size_t n_packs, cap_packs;
};

struct remote_table *pl_remote_locations_create(void)
{
    return calloc(1, sizeof(struct remote_table));
}

struct remote_table *pl_remote_locations_destroy(struct remote_table *t)
{
    if (!t)
        return NULL;
    free(t->young.slots);
    free(t->old.slots);
    free(t->packs);
    pl_map_finish(&t->pack_numbers, NULL);
    free(t);
    return NULL;
}

/* Returns the slot that has the id, or the free slot in which it belongs. */
static struct slot *generation_slot(const struct generation *g, const struct pl_hash *id)
{
    size_t at;

    memcpy(&at, id->b, sizeof(at));
    for (at &= g->cap - 1; g->slots[at].used && !pl_hash_eq(&g->slots[at].id, id); at = (at + 1) & (g->cap - 1))
        ;
    return &g->slots[at];
}

static int generation_grow(struct generation *g, struct pl_err *err)
{
    struct generation larger = {.cap = g->cap ? 2 * g->cap : SLOTS_LEAST, .len = g->len};

    larger.slots = calloc(larger.cap, sizeof(*larger.slots));
    if (!larger.slots)
        return pl_err_nomem(err);
    for (size_t i = 0; i < g->cap; i++)
        if (g->slots[i].used)
            *generation_slot(&larger, &g->slots[i].id) = g->slots[i];
    free(g->slots);
    *g = larger;
    return 0;
}

/* Sets `*ret` to the pack's index in `packs`, plus 1. Adds the pack if it is new. */
static int table_pack_number(struct remote_table *t, const struct pl_hash *pack, uint32_t *ret, struct pl_err *err)
{
    uintptr_t number = (uintptr_t)pl_map_get(&t->pack_numbers, pack->b, PL_HASH_BYTES);
    int r;

    if (!number) {
        if (t->n_packs == t->cap_packs) {
            size_t cap = t->cap_packs ? 2 * t->cap_packs : 64;
            struct pl_hash *packs = reallocarray(t->packs, cap, sizeof(*packs));

            if (!packs)
                return pl_err_nomem(err);
            t->packs = packs;
            t->cap_packs = cap;
        }
        number = t->n_packs + 1;
        r = pl_map_put(&t->pack_numbers, pack->b, PL_HASH_BYTES, (void *)number, NULL, err);
        if (r < 0)
            return r;
        t->packs[t->n_packs++] = *pack;
    }
    *ret = (uint32_t)number;
    return 0;
}

int pl_remote_locations_put(struct remote_table *t, const struct pl_hash *id, const struct pl_location *where, struct pl_err *err)
{
    struct slot *slot;
    uint32_t pack = 0;
    int r;

    if (t->young.len >= REMOTE_TABLE_GENERATION) {
        free(t->old.slots);
        t->old = t->young;
        t->young = (struct generation){0};
    }
    r = table_pack_number(t, &where->pack, &pack, err);
    if (r == 0 && 4 * t->young.len >= 3 * t->young.cap)
        r = generation_grow(&t->young, err);
    if (r < 0)
        return r;
    slot = generation_slot(&t->young, id);
    t->young.len += !slot->used;
    *slot = (struct slot){*id, pack, where->offset, where->stored, where->raw, where->codec, where->kind, true};
    return 0;
}

static struct slot *table_find(const struct remote_table *t, const struct pl_hash *id)
{
    const struct generation *generations[] = {&t->young, &t->old};

    for (size_t i = 0; i < PL_ARRAY_SIZE(generations); i++) {
        struct slot *slot = generations[i]->cap ? generation_slot(generations[i], id) : NULL;

        if (slot && slot->pack)
            return slot;
    }
    return NULL;
}

bool pl_remote_locations_find(const struct remote_table *t, const struct pl_hash *id, struct pl_location *ret)
{
    const struct slot *slot = table_find(t, id);

    if (!slot)
        return false;
    *ret = (struct pl_location){.pack = t->packs[slot->pack - 1],
                                .offset = slot->offset,
                                .stored = slot->stored,
                                .raw = slot->raw,
                                .codec = slot->codec,
                                .kind = slot->kind};
    return true;
}

void pl_remote_locations_forget(struct remote_table *t, const struct pl_hash *id)
{
    struct slot *slot;

    while ((slot = table_find(t, id)))
        slot->pack = 0;
}
