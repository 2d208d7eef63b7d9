/* Reads the trailer first, then the footer that it points to, then records by the footer's entries.
 * Verification reads the pack from front to back through a window; two threads may share a large pack. */
#include "storage/pack/pack_reader.h"

#include "storage/chunk/codec.h"
#include "storage/system/io.h"

#include <pthread.h>
#include <signal.h>
#include <xxhash.h>

/* For verification: the size of the window, and the size of the pack, up to its footer, from which on a
 * second thread is worth its cost. */
#define VERIFY_WINDOW_BYTES ((size_t)1 << 20)
#define VERIFY_HALVES_FROM  ((uint64_t)4 << 20)

static int memory_read(void *self, uint64_t offset, void *out, size_t n, struct pl_err *err)
{
    const struct pl_pack_memory *m = self;

    if (offset > m->size || n > m->size - offset)
        return pl_err_set(err, PL_ECORRUPT, "the pack ends early");
    memcpy(out, (const uint8_t *)m->bytes + offset, n);
    return 0;
}

struct pl_pack_input pl_pack_input_memory(const struct pl_pack_memory *m)
{
    return (struct pl_pack_input){(void *)m, memory_read, m->size};
}

static int fd_read(void *self, uint64_t offset, void *out, size_t n, struct pl_err *err)
{
    return pl_io_pread(*(const int *)self, out, n, offset, "pack", err);
}

struct pl_pack_input pl_pack_input_fd(const int *fd, uint64_t size)
{
    return (struct pl_pack_input){(void *)fd, fd_read, size};
}

void pl_pack_footer_finish(struct pl_pack_footer *f)
{
    free(f->entries);
    free(f->order);
    f->entries = NULL;
    f->order = NULL;
    f->count = 0;
}

/* The decoded trailer: position, size and hash of the footer. */
struct pack_tail {
    uint32_t count;
    uint64_t footer_offset;
    size_t footer_size;
    struct pl_hash footer_hash;
};

/* Reads the trailer and checks its numbers against the size of the pack. */
static int tail_read(const struct pl_pack_input *in, struct pack_tail *ret, struct pl_err *err)
{
    uint8_t bytes[PL_PACK_TRAIL_BYTES];
    struct pl_cursor c;
    struct pack_tail t;
    int r;

    if (in->size < PL_PACK_OVERHEAD(1))
        return pl_err_set(err, PL_ECORRUPT, "the pack is too short: it has %llu bytes", (unsigned long long)in->size);
    if (in->size > PL_PACK_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "the pack has %llu bytes; at most %zu are allowed", (unsigned long long)in->size,
                          PL_PACK_MAX_BYTES);
    r = in->read(in->self, in->size - sizeof(bytes), bytes, sizeof(bytes), err);
    if (r < 0)
        return r;
    c = pl_cursor_of(bytes, sizeof(bytes));
    if (memcmp(pl_cursor_bytes(&c, 4), "PLPT", 4) != 0)
        return pl_err_set(err, PL_ECORRUPT, "the pack has no trailer: it is truncated, or is not a pack");
    t.count = pl_cursor_le32(&c);
    t.footer_offset = pl_cursor_le64(&c);
    memcpy(t.footer_hash.b, pl_cursor_bytes(&c, PL_HASH_BYTES), PL_HASH_BYTES);
    t.footer_size = PL_PACK_FOOTER_BYTES + (size_t)t.count * (PL_PACK_ENTRY_BYTES + 4u);
    if (t.count == 0 || t.count > PL_PACK_MAX_RECORDS || t.footer_offset < PL_PACK_HEADER_BYTES || t.footer_offset > in->size ||
        in->size - t.footer_offset != t.footer_size + PL_PACK_TRAIL_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "the pack's trailer is damaged");
    *ret = t;
    return 0;
}

/* Decodes the footer's header, entries and order; checks that the entries ascend by id. */
static int footer_decode(struct pl_cursor *c, const struct pack_tail *t, struct pl_pack_footer *f, struct pl_err *err)
{
    const uint8_t *magic = pl_cursor_bytes(c, 4);
    int r;

    if (memcmp(magic, "PLPF", 4) != 0 || pl_cursor_le32(c) != t->count)
        return pl_err_set(err, PL_ECORRUPT, "the pack's footer is damaged");
    f->records_xxh64 = pl_cursor_le64(c);
    r = pl_pack_header_decode(pl_cursor_bytes(c, PL_PACK_HEADER_BYTES), &f->header, err);
    for (uint32_t i = 0; i < t->count && r == 0; i++) {
        r = pl_pack_entry_decode(pl_cursor_bytes(c, PL_PACK_ENTRY_BYTES), &f->entries[i], err);
        if (r == 0 && i > 0 && memcmp(f->entries[i - 1].id.b, f->entries[i].id.b, PL_HASH_BYTES) >= 0)
            r = pl_err_set(err, PL_ECORRUPT, "the pack's footer is not in order");
    }
    for (uint32_t i = 0; i < t->count && r == 0; i++)
        f->order[i] = pl_cursor_le32(c);
    return r;
}

/* Checks that the records fill the space from the header to the footer without gaps, and that their kinds are
 * allowed in this kind of pack. On success `order` contains each entry exactly once. */
static int footer_check_order(const struct pl_pack_footer *f, struct pl_err *err)
{
    uint64_t at = PL_PACK_HEADER_BYTES;
    bool data = false, tree = false;

    for (uint32_t i = 0; i < f->count; i++) {
        const struct pl_pack_entry *e = f->order[i] < f->count ? &f->entries[f->order[i]] : NULL;

        if (e == NULL || e->offset != at)
            return pl_err_set(err, PL_ECORRUPT, "the pack's records are not contiguous");
        at += PL_PACK_RECORD_BYTES + (uint64_t)e->stored;
        data |= e->kind == PL_REC_CHUNK;
        tree |= e->kind != PL_REC_CHUNK;
    }
    if (at != f->footer_offset)
        return pl_err_set(err, PL_ECORRUPT, "the pack's records do not end where the footer begins");
    if (f->header.kind != (data && tree ? PL_PACK_MIXED : data ? PL_PACK_DATA : PL_PACK_TREE))
        return pl_err_set(err, PL_ECORRUPT, "the pack's kind does not match its records");
    return 0;
}

/* Checks the footer's hash, decodes the footer and computes the pack's id. */
static int footer_make(const uint8_t *bytes, const struct pack_tail *t, struct pl_pack_footer *f, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(bytes, t->footer_size);
    struct pl_hasher hasher;
    struct pl_hash hash;
    int r;

    f->count = t->count;
    f->footer_offset = t->footer_offset;
    f->entries = calloc(t->count, sizeof(*f->entries));
    f->order = calloc(t->count, sizeof(*f->order));
    if (f->entries == NULL || f->order == NULL)
        return pl_err_nomem(err);
    pl_hash_sha256(bytes, t->footer_size, &hash);
    if (!pl_hash_eq(&hash, &t->footer_hash))
        return pl_err_set(err, PL_ECORRUPT, "the pack's footer does not match its hash");
    r = footer_decode(&c, t, f, err);
    if (r < 0)
        return r;
    pl_hasher_add(pl_hasher_init(&hasher), bytes, t->footer_size);
    pl_hasher_add(&hasher, f->header.nonce, PL_PACK_NONCE_BYTES);
    pl_hasher_get(&hasher, &f->pack_id);
    return footer_check_order(f, err);
}

int pl_pack_footer_read(const struct pl_pack_input *in, struct pl_pack_footer *ret, struct pl_err *err)
{
    _cleanup_free_ uint8_t *bytes = NULL;
    struct pl_pack_footer f = {0};
    struct pack_tail t;
    int r;

    r = tail_read(in, &t, err);
    if (r < 0)
        return r;
    bytes = malloc(t.footer_size);
    if (bytes == NULL)
        return pl_err_nomem(err);
    r = in->read(in->self, t.footer_offset, bytes, t.footer_size, err);
    if (r == 0)
        r = footer_make(bytes, &t, &f, err);
    if (r < 0) {
        pl_pack_footer_finish(&f);
        return r;
    }
    *ret = f;
    return 0;
}

int pl_pack_footer_check_raw(const struct pl_pack_footer *f, uint64_t max, struct pl_err *err)
{
    uint64_t raw = 0;

    for (uint32_t i = 0; i < f->count; i++)
        raw += f->entries[i].raw;
    return raw <= max ? 0
                      : pl_err_set(err, PL_ETOOBIG, "the pack's records have %llu bytes uncompressed; at most %llu are allowed",
                                   (unsigned long long)raw, (unsigned long long)max);
}

const struct pl_pack_entry *pl_pack_footer_find(const struct pl_pack_footer *f, const struct pl_hash *id)
{
    uint32_t low = 0, high = f->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = memcmp(f->entries[mid].id.b, id->b, PL_HASH_BYTES);

        if (c == 0)
            return &f->entries[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static int check_hash(const uint8_t *raw, const struct pl_pack_entry *e, struct pl_err *err)
{
    struct pl_hash id;

    pl_hash_sha256(raw, e->raw, &id);
    return pl_hash_eq(&id, &e->id) ? 0
                                   : pl_err_set(err, PL_ECORRUPT, "the record at offset %u does not match its hash", e->offset);
}

int pl_pack_record_view(const uint8_t *record, const struct pl_pack_entry *e, struct pl_buf *scratch, const uint8_t **ret,
                        struct pl_err *err)
{
    const bool is_raw = e->codec == PL_CODEC_RAW && e->stored == e->raw;
    const uint8_t *bytes = record + PL_PACK_RECORD_BYTES;
    int r = pl_pack_record_check(record, e, err);

    if (r == 0 && !is_raw) {
        pl_buf_clear(scratch);
        /* `raw` is bounded: pl_pack_entry_decode, or who asked for the record's location, has checked it */
        r = pl_buf_reserve(scratch, e->raw, err);
        if (r == 0 && e->raw > 0)
            r = pl_codec_decode(e->codec, bytes, e->stored, scratch->data, e->raw, err);
        bytes = scratch->data;
    }
    r = r < 0 ? r : check_hash(bytes, e, err);
    if (r == 0)
        *ret = bytes;
    return r;
}

int pl_pack_record_decode(const uint8_t *record, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err)
{
    const uint8_t *bytes;
    int r;

    pl_buf_clear(ret);
    r = pl_pack_record_view(record, e, ret, &bytes, err);
    if (r < 0)
        return r;
    if (bytes != ret->data)
        return pl_buf_add(ret, bytes, e->raw, err);
    ret->len = e->raw;
    return 0;
}

/* Reads a record that is not compressed, without a copy. */
static int record_read_raw(const struct pl_pack_input *in, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err)
{
    uint8_t head[PL_PACK_RECORD_BYTES];
    int r = in->read(in->self, e->offset, head, sizeof(head), err);

    pl_buf_clear(ret);
    r = r < 0 ? r : pl_pack_record_check(head, e, err);
    r = r < 0 ? r : pl_buf_reserve(ret, e->raw, err);
    if (r == 0 && e->raw > 0)
        r = in->read(in->self, (uint64_t)e->offset + sizeof(head), ret->data, e->raw, err);
    r = r < 0 ? r : check_hash(ret->data, e, err);
    if (r == 0)
        ret->len = e->raw;
    return r;
}

int pl_pack_record_read(const struct pl_pack_input *in, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err)
{
    size_t n = PL_PACK_RECORD_BYTES + (size_t)e->stored;
    _cleanup_free_ uint8_t *bytes = NULL;
    int r;

    if (e->codec == PL_CODEC_RAW && e->stored == e->raw)
        return record_read_raw(in, e, ret, err);
    bytes = malloc(n);
    if (bytes == NULL)
        return pl_err_nomem(err);
    r = in->read(in->self, e->offset, bytes, n, err);
    return r < 0 ? r : pl_pack_record_decode(bytes, e, ret, err);
}

/* A window that moves through a pack from front to back. */
struct verify_window {
    const struct pl_pack_input *in;
    uint8_t *bytes;
    size_t cap;
    uint64_t start, end; /* range of the pack that `bytes` holds */
    uint64_t limit;      /* offset of the footer: reading ends there */
    XXH64_state_t *sum;  /* checksum of all bytes read so far; NULL = not computed */
};

static void window_finish(struct verify_window *w)
{
    free(w->bytes);
    (void)XXH64_freeState(w->sum);
}

/* Returns the `n` bytes at `offset`, moving the window forward if necessary. `offset` must not be lower than
 * in the previous call; `n` is at most `cap`. */
static int window_at(struct verify_window *w, uint64_t offset, size_t n, const uint8_t **ret, struct pl_err *err)
{
    if (offset + n > w->end) {
        size_t keep = (size_t)(w->end - offset), more;
        int r;

        memmove(w->bytes, w->bytes + (offset - w->start), keep);
        more = (size_t)PL_MIN((uint64_t)(w->cap - keep), w->limit - w->end);
        r = w->in->read(w->in->self, w->end, w->bytes + keep, more, err);
        if (r < 0)
            return r;
        if (w->sum != NULL)
            (void)XXH64_update(w->sum, w->bytes + keep, more);
        w->start = offset;
        w->end += more;
    }
    *ret = w->bytes + (offset - w->start);
    return 0;
}

/* Reads the records `from` to `to` - 1, in order of offset. If `decode`, each is decoded and checked
 * against its hash; otherwise the bytes are only added to the checksum. */
static int verify_range(struct verify_window *w, const struct pl_pack_footer *f, const struct pl_pack_verify *how, uint32_t from,
                        uint32_t to, bool decode, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf raw = {0};
    struct pl_err first = {0}, why;
    const uint8_t *bytes;
    int r;

    for (uint32_t i = from; i < to; i++) {
        const struct pl_pack_entry *e = &f->entries[f->order[i]];

        r = window_at(w, e->offset, PL_PACK_RECORD_BYTES + (size_t)e->stored, &bytes, err);
        if (r < 0)
            return r;
        r = decode ? pl_pack_record_decode(bytes, e, &raw, &why) : 0;
        if (r < 0 && first.code == 0)
            first = why;
        if (r < 0 && how->bad != NULL)
            how->bad(how->arg, e, &why);
        else if (r < 0)
            break;
    }
    return first.code == 0 ? 0 : pl_err_set(err, first.code, "%s", first.msg);
}

/* The second half of a pack, verified by its own thread. */
struct verify_half {
    struct verify_window window;
    const struct pl_pack_footer *footer;
    const struct pl_pack_verify *how;
    uint32_t from;
    pthread_t thread;
    int result;
    struct pl_err err;
};

static void *verify_half_run(void *arg)
{
    struct verify_half *h = arg;

    h->result = verify_range(&h->window, h->footer, h->how, h->from, h->footer->count, true, &h->err);
    return NULL;
}

/* Starts a thread for the second half of the pack. False if the pack is too small, two threads are not
 * allowed, or there is no memory or thread for it: the caller then verifies the whole pack. */
static bool verify_half_start(struct verify_half *h, const struct verify_window *w, const struct pl_pack_footer *f,
                              const struct pl_pack_verify *how)
{
    uint64_t start;
    sigset_t all, old;
    bool started;

    if (!how->two_threads || how->bad != NULL || f->count < 2 || w->limit < VERIFY_HALVES_FROM)
        return false;
    *h = (struct verify_half){.footer = f, .how = how, .window = {.in = w->in, .cap = w->cap, .limit = w->limit}};
    while (h->from < f->count - 1 && f->entries[f->order[h->from]].offset < w->limit / 2)
        h->from++;
    start = f->entries[f->order[h->from]].offset;
    h->window.start = h->window.end = start;
    h->window.bytes = malloc(w->cap);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    started = h->window.bytes != NULL && pthread_create(&h->thread, NULL, verify_half_run, h) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!started)
        window_finish(&h->window);
    return started;
}

/* Verifies all records and the checksum, or only the checksum (sum_only). If there is a second thread, this thread
 * decodes only the first half of the records; but it reads all bytes, because the checksum must be computed over them
 * in order. */
static int verify_records(struct verify_window *w, const struct pl_pack_footer *f, const struct pl_pack_verify *how,
                          struct pl_err *err)
{
    struct verify_half half;
    bool halves = !how->sum_only && verify_half_start(&half, w, f, how);
    uint32_t to = how->sum_only ? 0 : halves ? half.from : f->count;
    int r = verify_range(w, f, how, 0, to, true, err);

    if (r == 0)
        r = verify_range(w, f, how, to, f->count, false, err);
    if (halves) {
        pthread_join(half.thread, NULL);
        window_finish(&half.window);
        if (r == 0 && half.result < 0)
            r = pl_err_set(err, half.result, "%s", half.err.msg);
    }
    if (r == 0 && XXH64_digest(w->sum) != f->records_xxh64)
        r = pl_err_set(err, PL_ECORRUPT, "the pack's bytes do not match their checksum");
    return r;
}

/* Checks the header against its copy in the footer, and against the project and id that the caller
 * expects. */
static int verify_header(struct verify_window *w, const struct pl_pack_footer *f, const struct pl_pack_verify *how,
                         struct pl_err *err)
{
    uint8_t want[PL_PACK_HEADER_BYTES];
    const uint8_t *bytes;
    int r;

    r = window_at(w, 0, PL_PACK_HEADER_BYTES, &bytes, err);
    if (r < 0)
        return r;
    pl_pack_header_encode(&f->header, want);
    if (memcmp(bytes, want, sizeof(want)) != 0)
        return pl_err_set(err, PL_ECORRUPT, "the pack's header differs from the copy in its footer");
    if (how->project != NULL && !pl_streq(how->project, f->header.project))
        return pl_err_set(err, PL_ECORRUPT, "the pack belongs to project %s, not to %s", f->header.project, how->project);
    if (how->claimed != NULL && !pl_hash_eq(how->claimed, &f->pack_id))
        return pl_err_set(err, PL_ECORRUPT, "the pack's id is not the expected one");
    return 0;
}

int pl_pack_verify(const struct pl_pack_input *in, const struct pl_pack_verify *how, struct pl_pack_footer *ret,
                   struct pl_err *err)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    _cleanup_(window_finish) struct verify_window w = {.in = in, .cap = VERIFY_WINDOW_BYTES};
    int r;

    r = pl_pack_footer_read(in, &f, err);
    if (r == 0 && how->raw_max > 0)
        r = pl_pack_footer_check_raw(&f, how->raw_max, err);
    if (r < 0)
        return r;
    /* find the size of the largest record, which the window must be able to hold */
    for (uint32_t i = 0; i < f.count; i++)
        w.cap = PL_MAX(w.cap, PL_PACK_RECORD_BYTES + (size_t)f.entries[i].stored);
    w.cap = (size_t)PL_MIN((uint64_t)w.cap, f.footer_offset);
    w.limit = f.footer_offset;
    w.bytes = malloc(w.cap);
    w.sum = XXH64_createState();
    if (w.bytes == NULL || w.sum == NULL)
        return pl_err_nomem(err);
    (void)XXH64_reset(w.sum, 0);
    r = verify_header(&w, &f, how, err);
    if (r == 0)
        r = verify_records(&w, &f, how, err);
    if (r < 0)
        return r;
    if (ret != NULL) {
        *ret = f;
        f = (struct pl_pack_footer){0};
    }
    return 0;
}
