/* Records are collected in batches; the thread that fills a batch also processes it. There are two open
 * packs: one for chunks ("data") and one for all other kinds of records ("tree"). `lock` guards the batches,
 * the set of ids and the statistics; each open pack has its own lock, so that compression runs without any
 * lock held. */
#include "storage/pack/pack_builder.h"

#include "storage/chunk/codec.h"
#include "storage/pack/pack_uploader.h"
#include "storage/pack/pack_writer.h"
#include "storage/pack/recent_ids.h"

#include <assert.h>
#include <pthread.h>

#define SESSION_SPARE_BATCHES 4u
#define SESSION_MIN_PACK      ((size_t)64 << 10)

enum { SIDE_DATA, SIDE_TREE, SIDES };

/* A batch of records. When it is full, the sink is asked which of them it has; the others are compressed
 * and packed. */
struct batch {
    struct batch *next; /* next in the list of spare batches */
    uint32_t count;
    size_t used;
    struct pl_hash ids[PL_PACK_BUILDER_BATCH_IDS];
    uint32_t sizes[PL_PACK_BUILDER_BATCH_IDS];
    uint8_t kinds[PL_PACK_BUILDER_BATCH_IDS];
    uint8_t known[PL_PACK_BUILDER_BATCH_IDS / 8]; /* bitmap: 1 = the sink has the record */
    uint8_t bytes[PL_PACK_BUILDER_BATCH_BYTES];
};

struct pl_pack_builder {
    struct pl_pack_sink sink;
    char project[PL_NAME_MAX_BYTES + 1];
    uint8_t nonce[PL_PACK_NONCE_BYTES];
    size_t pack_bytes;
    pthread_mutex_t lock; /* guards the fields below, except `writers` and `putter` */
    struct pl_recent_ids seen;
    struct batch *filling; /* the batch being filled; NULL = none */
    struct batch *spare;
    unsigned spare_count;
    struct pl_pack_writer *spare_writer;
    struct pl_pack_builder_stats stats;
    struct pl_hash *packs;
    size_t pack_count, pack_cap;
    struct pl_err failed; /* the first error; code 0 = no error */
    pthread_mutex_t pack_locks[SIDES];
    struct pl_pack_writer *writers[SIDES];
    struct pl_pack_uploader putter;
};

static void session_put_aside(void *session, struct pl_pack_writer *w);

int pl_pack_builder_open(const struct pl_pack_sink *sink, const char *project, struct pl_pack_builder **ret, struct pl_err *err)
{
    struct pl_pack_builder *s;
    int r = pl_name_check("project", project, err);

    if (r < 0)
        return r;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return pl_err_nomem(err);
    s->sink = *sink;
    memcpy(s->project, project, strlen(project) + 1);
    pl_random_bytes(s->nonce, sizeof(s->nonce));
    s->pack_bytes = PL_PACK_MAX_BYTES;
    s->seen.max = PL_PACK_BUILDER_RECENT_IDS;
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < SIDES; i++)
        pthread_mutex_init(&s->pack_locks[i], NULL);
    pl_pack_uploader_init(&s->putter, session_put_aside, s);
    *ret = s;
    return 0;
}

struct pl_pack_builder *pl_pack_builder_close(struct pl_pack_builder *s)
{
    if (s == NULL)
        return NULL;
    pl_pack_uploader_finish(&s->putter);
    free(s->filling);
    while (s->spare != NULL) {
        struct batch *next = s->spare->next;

        free(s->spare);
        s->spare = next;
    }
    for (int i = 0; i < SIDES; i++) {
        pl_pack_writer_destroy(s->writers[i]);
        pthread_mutex_destroy(&s->pack_locks[i]);
    }
    pl_pack_writer_destroy(s->spare_writer);
    pl_recent_ids_finish(&s->seen);
    pthread_mutex_destroy(&s->lock);
    free(s->packs);
    free(s);
    return NULL;
}

void pl_pack_builder_set_pack_bytes(struct pl_pack_builder *s, size_t bytes)
{
    s->pack_bytes = PL_MIN(PL_MAX(bytes, SESSION_MIN_PACK), PL_PACK_MAX_BYTES);
}

/* Stores the error if it is the first one. Returns the first error's code and copies that error to `err`. */
static int session_fail(struct pl_pack_builder *s, int code, const struct pl_err *why, struct pl_err *err)
{
    pthread_mutex_lock(&s->lock);
    if (s->failed.code == 0) {
        s->failed = *why;
        s->failed.code = code;
    }
    if (err != NULL)
        *err = s->failed;
    code = s->failed.code;
    pthread_mutex_unlock(&s->lock);
    return code;
}

/* Returns the stored error, 0 if there is none. With the lock held. */
static int session_check(const struct pl_pack_builder *s, struct pl_err *err)
{
    if (s->failed.code != 0 && err != NULL)
        *err = s->failed;
    return s->failed.code;
}

static int session_make_writer(struct pl_pack_builder *s, struct pl_pack_writer **ret, struct pl_err *err)
{
    struct pl_pack_writer *spare;

    pthread_mutex_lock(&s->lock);
    spare = TAKE_PTR(s->spare_writer);
    pthread_mutex_unlock(&s->lock);
    if (spare == NULL)
        return pl_pack_writer_create(s->project, s->nonce, s->pack_bytes, ret, err);
    *ret = spare;
    return 0;
}

static void session_give_writer(struct pl_pack_builder *s, struct pl_pack_writer *w)
{
    pl_pack_writer_reset(w);
    pthread_mutex_lock(&s->lock);
    if (s->spare_writer == NULL)
        s->spare_writer = TAKE_PTR(w);
    pthread_mutex_unlock(&s->lock);
    pl_pack_writer_destroy(w);
}

/* Adds a pack that the sink has accepted to the list of pack ids and to the statistics. With the lock
 * held. */
static int session_note_pack(struct pl_pack_builder *s, const struct pl_hash *id, size_t size, struct pl_err *err)
{
    if (s->pack_count == s->pack_cap) {
        size_t cap = s->pack_cap != 0 ? s->pack_cap * 2 : 16;
        struct pl_hash *packs = reallocarray(s->packs, cap, sizeof(*packs));

        if (packs == NULL)
            return pl_err_nomem(err);
        s->packs = packs;
        s->pack_cap = cap;
    }
    s->packs[s->pack_count++] = *id;
    s->stats.packs++;
    s->stats.new_bytes += size;
    return 0;
}

/* Seals a pack, hands it to the sink and keeps the writer's memory for the next pack. */
static int session_put(struct pl_pack_builder *s, struct pl_pack_writer *w, struct pl_err *err)
{
    struct pl_hash id;
    const void *bytes;
    size_t size;
    int r;

    r = pl_pack_writer_seal(w, &bytes, &size, &id, err);
    if (r == 0)
        r = s->sink.put_pack(s->sink.self, &id, bytes, size, err);
    if (r == 0) {
        pthread_mutex_lock(&s->lock);
        r = session_note_pack(s, &id, size, err);
        pthread_mutex_unlock(&s->lock);
    }
    session_give_writer(s, w);
    return r;
}

static void session_put_aside(void *session, struct pl_pack_writer *w)
{
    struct pl_pack_builder *s = session;
    struct pl_err why = {0};
    int r = session_put(s, w, &why);

    if (r < 0)
        session_fail(s, r, &why, NULL);
}

/* Hands a full pack to the upload thread; if that thread is busy, puts the pack into the sink on the calling
 * thread. An error of the upload thread is stored and returned by the next call. */
static int session_put_soon(struct pl_pack_builder *s, struct pl_pack_writer *w, struct pl_err *err)
{
    return pl_pack_uploader_submit(&s->putter, w) ? 0 : session_put(s, w, err);
}

/* Adds a compressed record to the open data pack or tree pack, depending on its kind. If that pack is full, a
 * new open pack replaces it before it is put, so that other threads can fill the new one meanwhile. Returns 1
 * if the record was stored, 0 if the pack already had it. */
static int session_append(struct pl_pack_builder *s, const struct pl_pack_entry *e, const void *stored, struct pl_err *err)
{
    int side = e->kind == PL_REC_CHUNK ? SIDE_DATA : SIDE_TREE;
    struct pl_pack_writer *full = NULL;
    int r = 0, put;

    pthread_mutex_lock(&s->pack_locks[side]);
    if (s->writers[side] == NULL)
        r = session_make_writer(s, &s->writers[side], err);
    if (r == 0)
        r = pl_pack_writer_add(s->writers[side], e, stored, err);
    if (r == PL_EPACKFULL) {
        full = TAKE_PTR(s->writers[side]);
        r = session_make_writer(s, &s->writers[side], err);
        if (r == 0)
            r = pl_pack_writer_add(s->writers[side], e, stored, err);
    }
    pthread_mutex_unlock(&s->pack_locks[side]);
    if (full == NULL)
        return r;
    put = session_put_soon(s, full, r < 0 ? NULL : err);
    return r < 0 || put == 0 ? r : put;
}

/* Compresses and packs those records of the batch that the sink does not have. */
static int batch_pack(struct pl_pack_builder *s, const struct batch *b, struct pl_pack_builder_stats *done, struct pl_err *err)
{
    size_t largest = 0, at = 0;
    _cleanup_free_ uint8_t *out = NULL;
    int r = 0;

    for (uint32_t i = 0; i < b->count; i++)
        largest = PL_MAX(largest, (size_t)b->sizes[i]);
    out = malloc(pl_codec_bound(largest));
    if (out == NULL)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < b->count && r >= 0; at += b->sizes[i++]) {
        struct pl_pack_entry e = {.id = b->ids[i], .raw = b->sizes[i], .kind = b->kinds[i]};
        size_t size;

        if ((b->known[i / 8] >> (i % 8) & 1) != 0)
            continue;
        e.codec = (uint8_t)pl_codec_encode(b->bytes + at, e.raw, out, &size);
        e.stored = (uint32_t)size;
        r = session_append(s, &e, e.codec == PL_CODEC_RAW ? b->bytes + at : out, err);
        if (r > 0) {
            done->new_records++;
            done->new_raw += e.raw;
        }
    }
    return PL_MIN(r, 0);
}

/* Processes a full batch: asks the sink which records it has, packs the others, and keeps the batch's
 * memory for later use. A failure is stored as the builder's error. */
static int batch_process(struct pl_pack_builder *s, struct batch *b, struct pl_err *err)
{
    struct pl_pack_builder_stats done = {0};
    struct pl_err why = {0};
    int r = 0;

    memset(b->known, 0, sizeof(b->known));
    if (s->sink.has != NULL)
        r = s->sink.has(s->sink.self, b->ids, b->count, b->known, &why);
    if (r == 0)
        r = batch_pack(s, b, &done, &why);
    pthread_mutex_lock(&s->lock);
    s->stats.new_records += done.new_records;
    s->stats.new_raw += done.new_raw;
    if (s->spare_count < SESSION_SPARE_BATCHES) {
        b->next = s->spare;
        s->spare = b;
        s->spare_count++;
        b = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(b);
    return r < 0 ? session_fail(s, r, &why, err) : 0;
}

/* Makes sure that `filling` is a batch with space for `n` bytes. If the previous batch was full, `*ret_full`
 * is set to it and the caller must process it; otherwise to NULL. The caller holds the lock. */
static int session_batch(struct pl_pack_builder *s, size_t n, struct batch **ret_full, struct pl_err *err)
{
    struct batch *b = s->filling;

    *ret_full = NULL;
    if (b != NULL && b->count < PL_PACK_BUILDER_BATCH_IDS && n <= sizeof(b->bytes) - b->used)
        return 0;
    b = s->spare;
    if (b != NULL) {
        s->spare = b->next;
        s->spare_count--;
    } else {
        b = malloc(sizeof(*b));
        if (b == NULL)
            return pl_err_nomem(err);
    }
    b->count = 0;
    b->used = 0;
    *ret_full = s->filling;
    s->filling = b;
    return 0;
}

/* Compresses and packs a record that is larger than a batch, on the calling thread and without a batch. */
static int session_add_large(struct pl_pack_builder *s, uint8_t kind, const void *data, size_t n, const struct pl_hash *id,
                             struct pl_err *err)
{
    struct pl_pack_entry e = {.id = *id, .raw = (uint32_t)n, .kind = kind};
    _cleanup_free_ uint8_t *out = malloc(pl_codec_bound(n));
    struct pl_err why = {0};
    uint8_t known = 0;
    size_t size;
    int r = 0;

    if (out == NULL)
        return session_fail(s, pl_err_nomem(&why), &why, err);
    if (s->sink.has != NULL)
        r = s->sink.has(s->sink.self, id, 1, &known, &why);
    if (r == 0 && (known & 1) == 0) {
        e.codec = (uint8_t)pl_codec_encode(data, n, out, &size);
        e.stored = (uint32_t)size;
        r = session_append(s, &e, e.codec == PL_CODEC_RAW ? data : out, &why);
    }
    if (r < 0)
        return session_fail(s, r, &why, err);
    pthread_mutex_lock(&s->lock);
    s->stats.new_records += (uint64_t)r;
    s->stats.new_raw += r > 0 ? n : 0;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Counts the record and copies it into the batch unless its id was added recently. A record that is larger
 * than a batch is not copied: the caller must add it. Returns 1 if the record is new. With the lock held. */
static int session_take(struct pl_pack_builder *s, uint8_t kind, const void *data, size_t n, const struct pl_hash *id,
                        struct batch **ret_full, struct pl_err *err)
{
    struct batch *b;
    int r = session_check(s, err);

    if (r < 0)
        return r;
    s->stats.records++;
    s->stats.raw_bytes += n;
    if (pl_recent_ids_put(&s->seen, id))
        return 0;
    if (n > PL_PACK_BUILDER_BATCH_BYTES)
        return 1;
    r = session_batch(s, n, ret_full, err);
    if (r < 0)
        return r;
    b = s->filling;
    b->ids[b->count] = *id;
    b->sizes[b->count] = (uint32_t)n;
    b->kinds[b->count++] = kind;
    if (n > 0)
        memcpy(b->bytes + b->used, data, n);
    b->used += n;
    return 1;
}

int pl_pack_builder_add(struct pl_pack_builder *s, uint8_t kind, const void *data, size_t n, struct pl_hash *ret_id,
                        struct pl_err *err)
{
    struct batch *full = NULL;
    struct pl_err why = {0};
    struct pl_hash id;
    int r;

    if (pl_pack_raw_max(kind) == 0)
        return pl_err_set(err, PL_EINVAL, "the record has the unknown kind %u", kind);
    if (n > pl_pack_raw_max(kind))
        return pl_err_set(err, PL_ETOOBIG, "the record has %zu bytes; its kind allows at most %zu", n, pl_pack_raw_max(kind));
    pl_hash_sha256(data, n, &id);
    pthread_mutex_lock(&s->lock);
    r = session_take(s, kind, data, n, &id, &full, &why);
    pthread_mutex_unlock(&s->lock);
    if (r < 0)
        return session_fail(s, r, &why, err);
    if (r > 0 && n > PL_PACK_BUILDER_BATCH_BYTES)
        r = session_add_large(s, kind, data, n, &id, err);
    else
        r = full != NULL ? batch_process(s, full, err) : 0;
    if (r == 0)
        *ret_id = id;
    return r;
}

int pl_pack_builder_look_up(struct pl_pack_builder *s, const struct pl_hash *ids, size_t n, struct pl_err *err)
{
    _cleanup_free_ struct pl_hash *unknown = NULL;
    _cleanup_free_ uint8_t *known = NULL;
    size_t count = 0;
    int r;

    assert(n <= PL_PACK_SINK_HAS_MAX);
    if (s->sink.has == NULL || n == 0)
        return 0;
    unknown = calloc(n, sizeof(*unknown));
    known = calloc((n + 7) / 8, 1);
    if (unknown == NULL || known == NULL)
        return pl_err_nomem(err);
    pthread_mutex_lock(&s->lock);
    r = session_check(s, err);
    for (size_t i = 0; i < n; i++)
        if (!pl_recent_ids_has(&s->seen, &ids[i]))
            unknown[count++] = ids[i];
    pthread_mutex_unlock(&s->lock);
    if (r < 0 || count == 0)
        return r;
    r = s->sink.has(s->sink.self, unknown, count, known, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count; i++)
        if ((known[i / 8] >> (i % 8) & 1) != 0)
            (void)pl_recent_ids_put(&s->seen, &unknown[i]);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

bool pl_pack_builder_knows(struct pl_pack_builder *s, const struct pl_hash *id)
{
    bool seen;

    pthread_mutex_lock(&s->lock);
    seen = s->failed.code == 0 && pl_recent_ids_has(&s->seen, id);
    pthread_mutex_unlock(&s->lock);
    return seen;
}

/* Puts the two open packs into the sink. If both are small, they are merged into one mixed pack. If both are
 * large, the upload thread puts the data pack while the calling thread puts the tree pack. */
static int session_put_rest(struct pl_pack_builder *s, struct pl_err *err)
{
    struct pl_pack_writer *data = TAKE_PTR(s->writers[SIDE_DATA]), *tree = TAKE_PTR(s->writers[SIDE_TREE]);
    int r = 0, r_tree = 0;

    if (data != NULL && tree != NULL &&
        pl_pack_writer_size(data) + pl_pack_writer_size(tree) < PL_MIN(PL_PACK_MIXED_BYTES, s->pack_bytes) &&
        pl_pack_writer_add_all(data, tree, NULL) == 0)
        tree = pl_pack_writer_destroy(tree);
    if (data != NULL)
        r = tree != NULL && pl_pack_writer_size(tree) >= PL_PACK_MIXED_BYTES ? session_put_soon(s, data, err)
                                                                             : session_put(s, data, err);
    if (tree != NULL)
        r_tree = session_put(s, tree, r < 0 ? NULL : err);
    return r < 0 ? r : r_tree;
}

/* Processes the last batch and puts the remaining packs. */
static int session_put_all(struct pl_pack_builder *s, struct pl_err *err)
{
    struct batch *last = TAKE_PTR(s->filling);
    int r = session_check(s, err);

    if (r == 0 && last != NULL)
        r = batch_process(s, last, err);
    else
        free(last);
    return r < 0 ? r : session_put_rest(s, err);
}

int pl_pack_builder_finish(struct pl_pack_builder *s, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = session_put_all(s, &why);

    pl_pack_uploader_wait(&s->putter);
    r = r < 0 ? r : session_check(s, &why);
    if (r == 0 && s->sink.flush != NULL)
        r = s->sink.flush(s->sink.self, &why);
    return r < 0 ? session_fail(s, r, &why, err) : 0;
}

const struct pl_hash *pl_pack_builder_packs(struct pl_pack_builder *s, size_t *ret_n)
{
    *ret_n = s->pack_count;
    return s->packs;
}

void pl_pack_builder_stats(struct pl_pack_builder *s, struct pl_pack_builder_stats *ret)
{
    pthread_mutex_lock(&s->lock);
    *ret = s->stats;
    pthread_mutex_unlock(&s->lock);
}

int pl_pack_builder_node_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    return pl_pack_builder_add(session, PL_REC_NODE, bytes, n, ret_id, err);
}

int pl_pack_builder_list_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    return pl_pack_builder_add(session, PL_REC_LIST, bytes, n, ret_id, err);
}
