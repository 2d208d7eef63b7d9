/* Stores the entries in an array, and finds them through a hash table, with open addressing, that holds their
 * array indexes. */
#include "storage/store/index_memtable.h"

#define FIRST_SLOTS 1024u
#define SLOT_FREE   UINT32_MAX

static uint32_t key_slot(const uint8_t *key, uint32_t slot_count)
{
    uint32_t i;

    memcpy(&i, key + 8, sizeof(i)); /* ids are SHA-256 values: their own bytes serve as the hash */
    return i & (slot_count - 1);
}

static void place(uint32_t *slots, uint32_t slot_count, const struct pl_index_entry *entries, uint32_t n)
{
    uint32_t at = key_slot(entries[n].key, slot_count);

    while (slots[at] != SLOT_FREE)
        at = (at + 1) & (slot_count - 1);
    slots[at] = n;
}

static void place_all(const struct pl_index_memtable *t, uint32_t *slots, uint32_t slot_count)
{
    memset(slots, 0xFF, slot_count * sizeof(*slots));
    for (uint32_t i = 0; i < t->count; i++)
        place(slots, slot_count, t->entries, i);
}

int pl_index_memtable_reserve(struct pl_index_memtable *t, uint32_t more, struct pl_err *err)
{
    uint32_t slot_count = t->slot_count != 0 ? t->slot_count : FIRST_SLOTS;
    struct pl_index_entry *entries;
    uint32_t *slots;

    if (more > PL_INDEX_MEMORY_ENTRIES || t->count > PL_INDEX_MEMORY_ENTRIES - more)
        return pl_err_set(err, PL_ELIMIT, "more than %u index entries in memory", PL_INDEX_MEMORY_ENTRIES);
    while (slot_count / 2 < t->count + more)
        slot_count *= 2;
    if (slot_count == t->slot_count)
        return 0;
    slots = malloc(slot_count * sizeof(*slots));
    if (slots == NULL)
        return pl_err_nomem(err);
    entries = reallocarray(t->entries, slot_count / 2, sizeof(*entries));
    if (entries == NULL) {
        free(slots);
        return pl_err_nomem(err);
    }
    t->entries = entries;
    place_all(t, slots, slot_count);
    free(t->slots);
    t->slots = slots;
    t->slot_count = slot_count;
    return 0;
}

void pl_index_memtable_add(struct pl_index_memtable *t, const struct pl_index_entry *e)
{
    t->entries[t->count] = *e;
    place(t->slots, t->slot_count, t->entries, t->count);
    t->count++;
}

/* Returns the next entry with the key, searching from hash slot `*at` on; NULL if a free slot is reached
 * first. */
static const struct pl_index_entry *find_from(const struct pl_index_memtable *t, const uint8_t *key, uint32_t *at)
{
    for (; t->slots[*at] != SLOT_FREE; *at = (*at + 1) & (t->slot_count - 1)) {
        const struct pl_index_entry *e = &t->entries[t->slots[*at]];

        if (memcmp(e->key, key, sizeof(e->key)) == 0)
            return e;
    }
    return NULL;
}

const struct pl_index_entry *pl_index_memtable_first(const struct pl_index_memtable *t, const uint8_t key[16], uint32_t *at)
{
    if (t->count == 0)
        return NULL;
    *at = key_slot(key, t->slot_count);
    return find_from(t, key, at);
}

const struct pl_index_entry *pl_index_memtable_next(const struct pl_index_memtable *t, const uint8_t key[16], uint32_t *at)
{
    *at = (*at + 1) & (t->slot_count - 1);
    return find_from(t, key, at);
}

int pl_index_memtable_copy(const struct pl_index_memtable *t, struct pl_index_entry **ret, struct pl_err *err)
{
    struct pl_index_entry *entries = reallocarray(NULL, t->count + 1u, sizeof(*entries));

    if (entries == NULL)
        return pl_err_nomem(err);
    if (t->count > 0)
        memcpy(entries, t->entries, t->count * sizeof(*entries));
    *ret = entries;
    return 0;
}

void pl_index_memtable_drop_first(struct pl_index_memtable *t, uint32_t n)
{
    if (n == t->count) {
        pl_index_memtable_finish(t);
        return;
    }
    t->count -= n;
    memmove(t->entries, t->entries + n, t->count * sizeof(*t->entries));
    place_all(t, t->slots, t->slot_count);
}

void pl_index_memtable_finish(struct pl_index_memtable *t)
{
    free(t->entries);
    free(t->slots);
    *t = (struct pl_index_memtable){0};
}
