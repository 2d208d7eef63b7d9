/* Reads each pack by its footer and appends the live records to two new packs: one for chunks, one for
 * other records. */
#include "storage/dataset/gc/gc_copy.h"

#include "storage/pack/pack_writer.h"

enum { SIDE_DATA, SIDE_TREE, SIDES };

struct pl_gc_copy {
    struct pl_store *store;
    const struct pl_gc_mark *mark;
    uint8_t nonce[PL_PACK_NONCE_BYTES];
    struct pl_pack_writer *writers[SIDES];
    struct pl_buf record;
    const struct pl_hash *pack; /* the pack being copied */
    struct pl_gc_copy_stats stats;
};

int pl_gc_copy_create(struct pl_store *store, const struct pl_gc_mark *mark, struct pl_gc_copy **ret, struct pl_err *err)
{
    struct pl_gc_copy *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return pl_err_nomem(err);
    c->store = store;
    c->mark = mark;
    pl_random_bytes(c->nonce, sizeof(c->nonce));
    *ret = c;
    return 0;
}

struct pl_gc_copy *pl_gc_copy_destroy(struct pl_gc_copy *c)
{
    if (c == NULL)
        return NULL;
    for (int i = 0; i < SIDES; i++)
        pl_pack_writer_destroy(c->writers[i]);
    pl_buf_finish(&c->record);
    free(c);
    return NULL;
}

static int put(struct pl_gc_copy *c, struct pl_pack_writer *w, struct pl_err *err)
{
    const void *bytes;
    struct pl_hash id;
    size_t size;
    int r = pl_pack_writer_seal(w, &bytes, &size, &id, err);

    r = r < 0 ? r : pl_store_put_pack(c->store, &id, bytes, size, err);
    if (r < 0)
        return r;
    c->stats.packs++;
    c->stats.bytes += size;
    pl_pack_writer_reset(w);
    return 0;
}

static int add(struct pl_gc_copy *c, const struct pl_pack_entry *e, struct pl_err *err)
{
    struct pl_pack_writer **w = &c->writers[e->kind == PL_REC_CHUNK ? SIDE_DATA : SIDE_TREE];
    const uint8_t *stored = c->record.data + PL_PACK_RECORD_BYTES;
    int r = 0;

    if (*w == NULL)
        r = pl_pack_writer_create(pl_store_project(c->store), c->nonce, 0, w, err);
    r = r < 0 ? r : pl_pack_writer_add(*w, e, stored, err);
    if (r == PL_EPACKFULL) {
        r = put(c, *w, err);
        r = r < 0 ? r : pl_pack_writer_add(*w, e, stored, err);
    }
    return PL_MIN(r, 0);
}

/* Reads and verifies one record and adds it to a new pack in its stored form. */
static int copy_record(struct pl_gc_copy *c, const struct pl_pack_input *in, const struct pl_pack_entry *e, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf raw = {0};
    size_t size = PL_PACK_RECORD_BYTES + e->stored;
    int r;

    pl_buf_clear(&c->record);
    r = pl_buf_reserve(&c->record, size, err);
    r = r < 0 ? r : in->read(in->self, e->offset, c->record.data, size, err);
    r = r < 0 ? r : pl_pack_record_decode(c->record.data, e, &raw, err);
    return r < 0 ? r : add(c, e, err);
}

static int copy_from(const struct pl_pack_input *in, void *arg, struct pl_err *err)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_gc_copy *c = arg;
    int r = pl_pack_footer_read(in, &f, err);

    for (uint32_t i = 0; r == 0 && i < f.count; i++) {
        const struct pl_pack_entry *e = &f.entries[f.order[i]];

        if (pl_gc_mark_counts(c->mark, &e->id, c->pack))
            r = copy_record(c, in, e, err);
    }
    return r;
}

int pl_gc_copy_pack(struct pl_gc_copy *c, const struct pl_hash *pack, struct pl_err *err)
{
    c->pack = pack;
    return pl_store_read_pack(c->store, pack, copy_from, c, err);
}

int pl_gc_copy_finish(struct pl_gc_copy *c, struct pl_err *err)
{
    int r = 0;

    for (int i = 0; i < SIDES && r == 0; i++)
        if (c->writers[i] != NULL && pl_pack_writer_count(c->writers[i]) > 0)
            r = put(c, c->writers[i], err);
    return r < 0 ? r : pl_store_flush(c->store, err);
}

void pl_gc_copy_stats(const struct pl_gc_copy *c, struct pl_gc_copy_stats *ret)
{
    *ret = c->stats;
}

static bool is_small(const struct pl_gc_pack *p)
{
    return p->bytes < PL_GC_SMALL_BYTES;
}

void pl_gc_copy_choose(const struct pl_gc_pack *packs, size_t n, uint8_t *ret_bitmap)
{
    size_t small = 0;

    memset(ret_bitmap, 0, (n + 7) / 8);
    for (size_t i = 0; i < n; i++)
        small += packs[i].judged && !packs[i].pinned && packs[i].live_records > 0 && is_small(&packs[i]);
    for (size_t i = 0; i < n; i++) {
        const struct pl_gc_pack *p = &packs[i];
        bool may = p->judged && !p->pinned && p->live_records > 0;
        bool little = p->live_bytes * 100 < p->bytes * PL_GC_LIVE_PERCENT;

        if (may && (little || (small >= PL_GC_SMALL_PACKS && is_small(p))))
            ret_bitmap[i / 8] = (uint8_t)(ret_bitmap[i / 8] | 1u << (i % 8));
    }
}
