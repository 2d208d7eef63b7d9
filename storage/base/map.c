/* map: open addressing with linear probing. A removed entry leaves a dead slot until its slot is reused or
 * the table is rebuilt. */
#include "storage/base/map.h"

#include "storage/base/hash.h"

#define MAP_FIRST_SLOTS 16

void pl_map_finish(struct pl_map *m, void (*free_value)(void *))
{
    for (size_t i = 0; i < m->cap; i++) {
        struct pl_map_slot *s = &m->slots[i];

        if (s->key == NULL)
            continue;
        if (!s->dead && free_value != NULL)
            free_value(s->value);
        free(s->key);
    }
    free(m->slots);
    *m = (struct pl_map){0};
}

/* Returns the slot with the key, or NULL. If the key is absent, `ret_free` (may be NULL) receives the slot
 * where it would be stored: the first dead slot of the search, or the free slot that ended it. */
static struct pl_map_slot *map_find(const struct pl_map *m, const void *key, size_t key_len, uint64_t hash,
                                    struct pl_map_slot **ret_free)
{
    struct pl_map_slot *grave = NULL;

    if (m->cap == 0)
        return NULL;
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct pl_map_slot *s = &m->slots[i];

        if (s->key == NULL) {
            if (ret_free != NULL)
                *ret_free = grave != NULL ? grave : s;
            return NULL;
        }
        if (s->dead) {
            if (grave == NULL)
                grave = s;
        } else if (s->hash == hash && s->key_len == key_len && (key_len == 0 || memcmp(s->key, key, key_len) == 0)) {
            return s;
        }
    }
}

/* Makes room for one more entry. The table is rebuilt before entries and dead slots fill more than 3/4 of it,
 * so that every search ends at a free slot. */
static int map_make_room(struct pl_map *m, struct pl_err *err)
{
    struct pl_map_slot *slots;
    size_t cap;

    if (m->cap != 0 && (m->len + m->dead + 1) * 4 <= m->cap * 3)
        return 0;
    cap = MAP_FIRST_SLOTS;
    while (cap < (m->len + 1) * 2)
        cap *= 2;
    slots = calloc(cap, sizeof(*slots));
    if (slots == NULL)
        return pl_err_nomem(err);
    for (size_t i = 0; i < m->cap; i++) {
        const struct pl_map_slot *old = &m->slots[i];
        size_t at = old->hash & (cap - 1);

        if (old->key == NULL)
            continue;
        if (old->dead) {
            free(old->key);
            continue;
        }
        while (slots[at].key != NULL)
            at = (at + 1) & (cap - 1);
        slots[at] = *old;
    }
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
    m->dead = 0;
    return 0;
}

int pl_map_put(struct pl_map *m, const void *key, size_t key_len, void *value, void **ret_old, struct pl_err *err)
{
    uint64_t hash = pl_xxh64(key, key_len, 0);
    struct pl_map_slot *s = map_find(m, key, key_len, hash, NULL);
    uint8_t *copy;
    int r;

    if (s != NULL) {
        if (ret_old != NULL)
            *ret_old = s->value;
        s->value = value;
        return 0;
    }
    r = map_make_room(m, err);
    if (r < 0)
        return r;
    copy = malloc(key_len + 1);
    if (copy == NULL)
        return pl_err_nomem(err);
    if (key_len > 0)
        memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    (void)map_find(m, key, key_len, hash, &s);
    if (s->key != NULL) {
        free(s->key);
        m->dead--;
    }
    *s = (struct pl_map_slot){.key = copy, .key_len = key_len, .hash = hash, .value = value};
    m->len++;
    if (ret_old != NULL)
        *ret_old = NULL;
    return 0;
}

void *pl_map_get(const struct pl_map *m, const void *key, size_t key_len)
{
    const struct pl_map_slot *s = map_find(m, key, key_len, pl_xxh64(key, key_len, 0), NULL);

    return s != NULL ? s->value : NULL;
}

void *pl_map_remove(struct pl_map *m, const void *key, size_t key_len)
{
    struct pl_map_slot *s = map_find(m, key, key_len, pl_xxh64(key, key_len, 0), NULL);
    void *value;

    if (s == NULL)
        return NULL;
    value = s->value;
    s->value = NULL;
    s->dead = true;
    m->len--;
    m->dead++;
    return value;
}

const struct pl_map_slot *pl_map_next(const struct pl_map *m, size_t *i)
{
    while (*i < m->cap) {
        const struct pl_map_slot *s = &m->slots[(*i)++];

        if (s->key != NULL && !s->dead)
            return s;
    }
    return NULL;
}
