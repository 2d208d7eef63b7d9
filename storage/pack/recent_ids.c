/* Two hash tables with open addressing and linear probing. A slot holds the first 16 bytes of an id; all
 * zero = free. */
#include "storage/pack/recent_ids.h"

#define SEEN_FIRST_SLOTS 1024u

static const uint8_t seen_free[16];

/* Returns the slot that holds the key, or, if the key is absent, the free slot where it would be inserted.
 * The table is never full. */
static uint8_t *seen_slot(uint8_t (*slots)[16], size_t cap, const uint8_t *key)
{
    uint64_t i;

    memcpy(&i, key + 8, sizeof(i));
    for (i &= cap - 1; memcmp(slots[i], seen_free, 16) != 0 && memcmp(slots[i], key, 16) != 0; i = (i + 1) & (cap - 1))
        ;
    return slots[i];
}

static bool seen_in(uint8_t (*slots)[16], size_t cap, const uint8_t *key)
{
    return cap != 0 && memcmp(seen_slot(slots, cap, key), key, 16) == 0 && memcmp(key, seen_free, 16) != 0;
}

bool pl_recent_ids_has(const struct pl_recent_ids *s, const struct pl_hash *id)
{
    return seen_in(s->young, s->young_cap, id->b) || seen_in(s->old, s->old_cap, id->b);
}

/* Makes space for one more id in the young generation, which stays at most half full. When it has max / 2
 * ids it becomes the old generation. False without memory. */
static bool seen_make_room(struct pl_recent_ids *s)
{
    size_t cap = s->young_cap != 0 ? s->young_cap * 2 : SEEN_FIRST_SLOTS;
    uint8_t(*slots)[16];

    if (s->young_count >= s->max / 2) {
        free(s->old);
        s->old = s->young;
        s->old_cap = s->young_cap;
        s->young = NULL;
        s->young_cap = 0;
        s->young_count = 0;
        cap = SEEN_FIRST_SLOTS;
    }
    if ((s->young_count + 1) * 2 <= s->young_cap)
        return true;
    slots = calloc(cap, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < s->young_cap; i++)
        if (memcmp(s->young[i], seen_free, 16) != 0)
            memcpy(seen_slot(slots, cap, s->young[i]), s->young[i], 16);
    free(s->young);
    s->young = slots;
    s->young_cap = cap;
    return true;
}

bool pl_recent_ids_put(struct pl_recent_ids *s, const struct pl_hash *id)
{
    if (pl_recent_ids_has(s, id))
        return true;
    if (seen_make_room(s)) {
        memcpy(seen_slot(s->young, s->young_cap, id->b), id->b, 16);
        s->young_count++;
    }
    return false;
}

/* Removes a key. The keys in the occupied slots that follow it are inserted again, so that lookups still find
 * them. */
static bool seen_take_out(uint8_t (*slots)[16], size_t cap, const uint8_t *key)
{
    size_t at;

    if (!seen_in(slots, cap, key))
        return false;
    at = (size_t)((uint8_t(*)[16])seen_slot(slots, cap, key) - slots);
    memset(slots[at], 0, 16);
    while (memcmp(slots[at = (at + 1) & (cap - 1)], seen_free, 16) != 0) {
        uint8_t moved[16];

        memcpy(moved, slots[at], 16);
        memset(slots[at], 0, 16);
        memcpy(seen_slot(slots, cap, moved), moved, 16);
    }
    return true;
}

void pl_recent_ids_forget(struct pl_recent_ids *s, const struct pl_hash *id)
{
    s->young_count -= seen_take_out(s->young, s->young_cap, id->b);
    (void)seen_take_out(s->old, s->old_cap, id->b);
}

void pl_recent_ids_finish(struct pl_recent_ids *s)
{
    free(s->young);
    free(s->old);
    *s = (struct pl_recent_ids){.max = s->max};
}
