/* The pack's bytes are built in place in one memory mapping; a hash table of ids finds duplicates. */
#include "storage/pack/pack_writer.h"

#include "storage/base/buf.h"

#include <sys/mman.h>

#define WRITER_FIRST_SLOTS 256u
#define SLOT_FREE          UINT32_MAX

struct pl_pack_writer {
    struct pl_pack_header header;
    uint8_t *bytes; /* memory mapping of `max_bytes`; the kernel allocates a page when it is first written */
    size_t max_bytes;
    size_t at;                     /* size of the header and the records so far */
    struct pl_pack_entry *entries; /* in order of offset */
    uint64_t raw;                  /* uncompressed bytes of all records */
    uint32_t count, cap;
    uint32_t *slots; /* hash table, id → number of the entry: linear probing, at most half full */
    uint32_t slots_cap;
};

int pl_pack_writer_create(const char *project, const uint8_t nonce[PL_PACK_NONCE_BYTES], size_t max_bytes,
                          struct pl_pack_writer **ret, struct pl_err *err)
{
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = NULL;
    int r = pl_name_check("project", project, err);

    if (r < 0)
        return r;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return pl_err_nomem(err);
    w->max_bytes = max_bytes == 0 || max_bytes > PL_PACK_MAX_BYTES ? PL_PACK_MAX_BYTES : max_bytes;
    w->bytes = mmap(NULL, w->max_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w->bytes == MAP_FAILED) {
        w->bytes = NULL;
        return pl_err_nomem(err);
    }
    memcpy(w->header.project, project, strlen(project) + 1);
    memcpy(w->header.nonce, nonce, PL_PACK_NONCE_BYTES);
    w->at = PL_PACK_HEADER_BYTES;
    *ret = TAKE_PTR(w);
    return 0;
}

struct pl_pack_writer *pl_pack_writer_destroy(struct pl_pack_writer *w)
{
    if (w == NULL)
        return NULL;
    if (w->bytes != NULL)
        munmap(w->bytes, w->max_bytes);
    free(w->entries);
    free(w->slots);
    free(w);
    return NULL;
}

/* Returns the hash table slot of an id, or, if the id is absent, the free slot where it would be inserted.
 * Ids are SHA-256 values, so some of their bytes serve as the hash. */
static uint32_t *writer_slot(const struct pl_pack_writer *w, uint32_t *slots, uint32_t cap, const struct pl_hash *id)
{
    uint32_t i;

    memcpy(&i, id->b + 8, sizeof(i));
    for (i &= cap - 1; slots[i] != SLOT_FREE && !pl_hash_eq(&w->entries[slots[i]].id, id); i = (i + 1) & (cap - 1))
        ;
    return &slots[i];
}

/* Makes space for one more entry: doubles the array of entries and the hash table if they are full. */
static int writer_make_room(struct pl_pack_writer *w, struct pl_err *err)
{
    uint32_t cap = w->cap != 0 ? w->cap * 2 : WRITER_FIRST_SLOTS / 2;
    struct pl_pack_entry *entries;
    uint32_t *slots;

    if (w->count < w->cap)
        return 0;
    entries = reallocarray(w->entries, cap, sizeof(*entries));
    if (entries == NULL)
        return pl_err_nomem(err);
    w->entries = entries;
    slots = malloc(2 * (size_t)cap * sizeof(*slots));
    if (slots == NULL)
        return pl_err_nomem(err);
    memset(slots, 0xFF, 2 * (size_t)cap * sizeof(*slots));
    for (uint32_t i = 0; i < w->count; i++)
        *writer_slot(w, slots, 2 * cap, &entries[i].id) = i;
    free(w->slots);
    w->slots = slots;
    w->slots_cap = 2 * cap;
    w->cap = cap;
    return 0;
}

int pl_pack_writer_add(struct pl_pack_writer *w, const struct pl_pack_entry *e, const void *stored, struct pl_err *err)
{
    size_t need = PL_PACK_RECORD_BYTES + (size_t)e->stored;
    uint32_t *slot;
    int r;

    if (need + PL_PACK_OVERHEAD(1) > w->max_bytes)
        return pl_err_set(err, PL_ETOOBIG, "a record of %u bytes does not fit into a pack of %zu", e->stored, w->max_bytes);
    r = writer_make_room(w, err);
    if (r < 0)
        return r;
    slot = writer_slot(w, w->slots, w->slots_cap, &e->id);
    if (*slot != SLOT_FREE)
        return 0;
    if (w->count == PL_PACK_MAX_RECORDS || w->raw + e->raw > PL_PACK_RAW_BYTES ||
        pl_pack_writer_size(w) + need + PL_PACK_ENTRY_BYTES + 4u > w->max_bytes)
        return pl_err_set(err, PL_EPACKFULL, "the pack is full");
    w->entries[w->count] = *e;
    w->entries[w->count].offset = (uint32_t)w->at;
    pl_pack_record_encode(e, w->bytes + w->at);
    if (e->stored > 0)
        memcpy(w->bytes + w->at + PL_PACK_RECORD_BYTES, stored, e->stored);
    w->at += need;
    w->raw += e->raw;
    *slot = w->count++;
    return 1;
}

int pl_pack_writer_add_all(struct pl_pack_writer *w, const struct pl_pack_writer *from, struct pl_err *err)
{
    for (uint32_t i = 0; i < from->count; i++) {
        const struct pl_pack_entry *e = &from->entries[i];
        int r = pl_pack_writer_add(w, e, from->bytes + e->offset + PL_PACK_RECORD_BYTES, err);

        if (r < 0)
            return r;
    }
    return 0;
}

uint32_t pl_pack_writer_count(const struct pl_pack_writer *w)
{
    return w->count;
}

size_t pl_pack_writer_size(const struct pl_pack_writer *w)
{
    return w->at - PL_PACK_HEADER_BYTES + PL_PACK_OVERHEAD(w->count);
}

static int entry_cmp(const void *a, const void *b, void *entries)
{
    const struct pl_pack_entry *e = entries;

    return memcmp(e[*(const uint32_t *)a].id.b, e[*(const uint32_t *)b].id.b, PL_HASH_BYTES);
}

static uint8_t writer_kind(const struct pl_pack_writer *w)
{
    bool data = false, tree = false;

    for (uint32_t i = 0; i < w->count; i++) {
        data |= w->entries[i].kind == PL_REC_CHUNK;
        tree |= w->entries[i].kind != PL_REC_CHUNK;
    }
    return data && tree ? PL_PACK_MIXED : data ? PL_PACK_DATA : PL_PACK_TREE;
}

/* Writes the footer behind the records and returns its size. `sorted` holds the entries' numbers in order
 * of id; `place` is scratch space for as many numbers. */
static size_t writer_put_footer(struct pl_pack_writer *w, const uint32_t *sorted, uint32_t *place, struct pl_err *err)
{
    struct pl_buf head = {.data = w->bytes + w->at, .cap = w->max_bytes - w->at, .max = w->max_bytes - w->at};
    int r;

    /* `head` points into the pack's mapping, and pl_pack_writer_add left space for the footer, so none of
     * these calls can fail */
    r = pl_buf_add(&head, "PLPF", 4, err);
    r |= pl_buf_add_le32(&head, w->count, err);
    r |= pl_buf_add_le64(&head, pl_xxh64(w->bytes, w->at, 0), err);
    r |= pl_buf_add(&head, w->bytes, PL_PACK_HEADER_BYTES, err);
    for (uint32_t i = 0; i < w->count; i++) {
        pl_pack_entry_encode(&w->entries[sorted[i]], head.data + head.len);
        head.len += PL_PACK_ENTRY_BYTES;
        place[sorted[i]] = i;
    }
    for (uint32_t i = 0; i < w->count; i++) /* the entries are in order of offset */
        r |= pl_buf_add_le32(&head, place[i], err);
    return r == 0 ? head.len : 0;
}

static void pack_id(const uint8_t *footer, size_t n, const uint8_t *nonce, struct pl_hash *ret)
{
    struct pl_hasher h;

    pl_hasher_add(pl_hasher_init(&h), footer, n);
    pl_hasher_add(&h, nonce, PL_PACK_NONCE_BYTES);
    pl_hasher_get(&h, ret);
}

int pl_pack_writer_seal(struct pl_pack_writer *w, const void **ret_bytes, size_t *ret_size, struct pl_hash *ret_id,
                        struct pl_err *err)
{
    _cleanup_free_ uint32_t *sorted = malloc(2 * sizeof(*sorted) * PL_MAX(w->count, 1u));
    struct pl_buf trail = {0};
    struct pl_hash footer_hash;
    size_t footer;
    int r;

    if (sorted == NULL)
        return pl_err_nomem(err);
    if (w->count == 0)
        return pl_err_set(err, PL_EINVAL, "the pack has no records");
    for (uint32_t i = 0; i < w->count; i++)
        sorted[i] = i;
    qsort_r(sorted, w->count, sizeof(*sorted), entry_cmp, w->entries);
    w->header.kind = writer_kind(w);
    pl_pack_header_encode(&w->header, w->bytes);
    footer = writer_put_footer(w, sorted, sorted + w->count, err);
    if (footer == 0)
        return pl_err_set(err, PL_EINTERNAL, "a pack's footer does not fit");
    pl_hash_sha256(w->bytes + w->at, footer, &footer_hash);
    pack_id(w->bytes + w->at, footer, w->header.nonce, ret_id);
    trail = (struct pl_buf){.data = w->bytes + w->at + footer, .cap = PL_PACK_TRAIL_BYTES, .max = PL_PACK_TRAIL_BYTES};
    r = pl_buf_add(&trail, "PLPT", 4, err);
    r |= pl_buf_add_le32(&trail, w->count, err);
    r |= pl_buf_add_le64(&trail, w->at, err);
    r |= pl_buf_add(&trail, footer_hash.b, PL_HASH_BYTES, err);
    if (r < 0)
        return pl_err_set(err, PL_EINTERNAL, "a pack's trailer does not fit");
    *ret_bytes = w->bytes;
    *ret_size = w->at + footer + PL_PACK_TRAIL_BYTES;
    return 0;
}

void pl_pack_writer_reset(struct pl_pack_writer *w)
{
    w->at = PL_PACK_HEADER_BYTES;
    w->raw = 0;
    w->count = 0;
    if (w->slots != NULL)
        memset(w->slots, 0xFF, (size_t)w->slots_cap * sizeof(*w->slots));
}
