/* Stores the changes as an array of fixed-size slots, and their keys and values in one buffer. */
#include "storage/tree_edit/change_list.h"

void pl_change_list_finish(struct pl_change_list *l)
{
    free(l->slots);
    pl_buf_finish(&l->bytes);
    *l = (struct pl_change_list){0};
}

static int grow(struct pl_change_list *l, struct pl_err *err)
{
    size_t cap = l->cap ? 2 * l->cap : 16;
    struct pl_change_slot *slots = reallocarray(l->slots, cap, sizeof *slots);

    if (!slots)
        return pl_err_nomem(err);
    l->slots = slots;
    l->cap = cap;
    return 0;
}

int pl_change_list_add(struct pl_change_list *l, const struct pl_change *change, struct pl_err *err)
{
    const struct pl_level_item *item = &change->item;
    size_t at = l->bytes.len;
    int r = 0;

    l->bytes.max = PL_CHANGE_LIST_MAX_BYTES;
    if (l->n == l->cap)
        r = grow(l, err);
    if (r == 0)
        r = pl_buf_add(&l->bytes, item->key, item->key_len, err);
    if (r == 0)
        r = pl_buf_add(&l->bytes, item->value, item->value_len, err);
    if (r < 0)
        return r;
    l->slots[l->n++] = (struct pl_change_slot){change->type, (uint32_t)item->key_len, (uint32_t)item->value_len, at, item->stats};
    return 0;
}

struct pl_change pl_change_list_get(const struct pl_change_list *l, size_t i)
{
    const struct pl_change_slot *s = &l->slots[i];
    const uint8_t *key = l->bytes.data + s->at;

    return (struct pl_change){s->type, {key, s->key_len, key + s->key_len, s->value_len, s->stats}};
}

static int compare_slots(const void *a, const void *b, void *list)
{
    const struct pl_change_list *l = list;
    const struct pl_change_slot *sa = a, *sb = b;
    int c = pl_key_cmp(l->bytes.data + sa->at, sa->key_len, l->bytes.data + sb->at, sb->key_len);

    return c != 0 ? c : (int)sa->type - (int)sb->type;
}

static bool puts_back(const struct pl_change *drop, const struct pl_change *put)
{
    return drop->type == PL_CHANGE_DROP && put->type == PL_CHANGE_PUT &&
           pl_key_cmp(drop->item.key, drop->item.key_len, put->item.key, put->item.key_len) == 0 &&
           pl_key_cmp(drop->item.value, drop->item.value_len, put->item.value, put->item.value_len) == 0;
}

void pl_change_list_settle(struct pl_change_list *l)
{
    struct pl_change prefix = {0};
    size_t kept = 0;

    if (l->n == 0)
        return;
    qsort_r(l->slots, l->n, sizeof *l->slots, compare_slots, l);
    for (size_t i = 0; i < l->n; i++) {
        struct pl_change c = pl_change_list_get(l, i);
        bool covered =
            prefix.item.key && pl_key_cmp_prefix(c.item.key, c.item.key_len, prefix.item.key, prefix.item.key_len) == 0;

        if (c.type == PL_CHANGE_DROP_PREFIX && !covered)
            prefix = c;
        /* a DROP and PUT of the same entry below a dropped prefix must both stay: without the PUT,
         * DROP_PREFIX would remove the key */
        if (i + 1 < l->n && !covered) {
            struct pl_change following = pl_change_list_get(l, i + 1);

            if (puts_back(&c, &following)) {
                i++;
                continue;
            }
        }
        l->slots[kept++] = l->slots[i];
    }
    l->n = kept;
}
