/* Encodes, checks and replays log objects. Objects near the end of a growing log are read one by one;
 * others are fetched ahead by several threads. */
#include "storage/dataset/log/log.h"

#include "storage/dataset/log/log_reader.h"
#include "storage/dataset/log/log_record.h"

#include <inttypes.h>
#include <stdio.h>

#define LOG_MAGIC           "PLLG"
#define LOG_VERSION         1
#define RECORD_HEADER_BYTES 8
/* objects that are at most this far from the end of a growing log are read one by one */
#define NEAR       16
#define STRIDE_MAX 1024

void pl_log_key(uint64_t seq, char out[PL_LOG_KEY_BYTES])
{
    snprintf(out, PL_LOG_KEY_BYTES, "log/%016" PRIx64, seq);
}

bool pl_log_key_parse(const char *key, uint64_t *ret_seq)
{
    uint8_t bytes[8];
    char again[PL_LOG_KEY_BYTES];

    if (strlen(key) != 20 || !pl_hex_decode(key + 4, bytes, sizeof bytes))
        return false;
    *ret_seq = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        *ret_seq = *ret_seq << 8 | bytes[i];
    pl_log_key(*ret_seq, again);
    return pl_streq(key, again);
}

void pl_log_batch_finish(struct pl_log_batch *b)
{
    pl_buf_finish(&b->records);
    b->n = 0;
}

void pl_log_batch_clear(struct pl_log_batch *b)
{
    pl_buf_clear(&b->records);
    b->n = 0;
}

void pl_log_batch_truncate(struct pl_log_batch *b, size_t records_bytes, uint32_t n)
{
    b->records.len = records_bytes;
    b->n = n;
}

int pl_log_batch_add(struct pl_log_batch *b, uint16_t kind, const char *payload, size_t len, struct pl_err *err)
{
    size_t total = PL_LOG_HEADER_BYTES + b->records.len + RECORD_HEADER_BYTES + len;
    uint8_t header[RECORD_HEADER_BYTES] = {(uint8_t)kind, (uint8_t)(kind >> 8)};
    int r;

    if (total > PL_LOG_OBJECT_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "the transaction makes a log object of %zu bytes; the limit is %u", total,
                          PL_LOG_OBJECT_MAX_BYTES);
    for (unsigned i = 0; i < 4; i++)
        header[4 + i] = (uint8_t)(len >> (8 * i));
    r = pl_buf_add(&b->records, header, sizeof header, err);
    if (r < 0)
        return r;
    r = pl_buf_add(&b->records, payload, len, err);
    if (r < 0) {
        b->records.len -= sizeof header;
        return r;
    }
    b->n++;
    return 0;
}

int pl_log_encode(const struct pl_log_head *head, const struct pl_log_batch *b, struct pl_buf *ret, struct pl_err *err)
{
    int r = pl_buf_reserve(ret, PL_LOG_HEADER_BYTES + b->records.len, err);

    if (r < 0)
        return r;
    /* the space was reserved above, so none of the following adds can fail */
    r = pl_buf_add(ret, LOG_MAGIC, 4, err);
    r = r < 0 ? r : pl_buf_add_le16(ret, LOG_VERSION, err);
    r = r < 0 ? r : pl_buf_add_le16(ret, 0, err);
    r = r < 0 ? r : pl_buf_add(ret, head->store_id, sizeof head->store_id, err);
    r = r < 0 ? r : pl_buf_add_le64(ret, head->epoch, err);
    r = r < 0 ? r : pl_buf_add_le64(ret, head->seq + 1, err);
    r = r < 0 ? r : pl_buf_add(ret, head->hash.b, PL_HASH_BYTES, err);
    r = r < 0 ? r : pl_buf_add_le32(ret, b->n, err);
    return r < 0 ? r : pl_buf_add(ret, b->records.data, b->records.len, err);
}

struct log_header {
    const uint8_t *store_id;
    uint64_t epoch;
    uint64_t seq;
    struct pl_hash prev;
    uint32_t n;
};

static int read_header(struct pl_cursor *c, struct log_header *h, struct pl_err *err)
{
    const uint8_t *magic = pl_cursor_bytes(c, 4);
    uint16_t version = pl_cursor_le16(c);
    uint16_t zero = pl_cursor_le16(c);
    const uint8_t *prev;

    h->store_id = pl_cursor_bytes(c, 16);
    h->epoch = pl_cursor_le64(c);
    h->seq = pl_cursor_le64(c);
    prev = pl_cursor_bytes(c, PL_HASH_BYTES);
    h->n = pl_cursor_le32(c);
    if (c->failed || memcmp(magic, LOG_MAGIC, 4) != 0)
        return pl_err_set(err, PL_ECORRUPT, "not a log object");
    if (version != LOG_VERSION || zero != 0)
        return pl_err_set(err, PL_EFORMAT, "log object of version %u; this program knows %u", version, LOG_VERSION);
    memcpy(h->prev.b, prev, PL_HASH_BYTES);
    return 0;
}

static int check_header(const struct log_header *h, const struct pl_log_head *head, struct pl_err *err)
{
    if (memcmp(h->store_id, head->store_id, 16) != 0)
        return pl_err_set(err, PL_ELOG, "log object %" PRIu64 " belongs to another store", h->seq);
    if (h->seq != head->seq + 1)
        return pl_err_set(err, PL_ECORRUPT, "log object says it is number %" PRIu64 ", expected %" PRIu64, h->seq, head->seq + 1);
    if (!pl_hash_eq(&h->prev, &head->hash))
        return pl_err_set(err, PL_ELOG, "log object %" PRIu64 " does not continue the hash chain of the last applied object",
                          h->seq);
    if (h->epoch < head->epoch)
        return pl_err_set(err, PL_ECORRUPT, "log object %" PRIu64 " is of epoch %" PRIu64 ", after epoch %" PRIu64, h->seq,
                          h->epoch, head->epoch);
    return 0;
}

static int feed_record(struct pl_cursor *c, const struct pl_log_sink *sink, uint64_t seq, struct pl_err *err)
{
    struct pl_log_record record;
    uint16_t zero;

    record.kind = pl_cursor_le16(c);
    zero = pl_cursor_le16(c);
    record.len = pl_cursor_le32(c);
    record.payload = (const char *)pl_cursor_bytes(c, record.len);
    if (c->failed || zero != 0)
        return pl_err_set(err, PL_ECORRUPT, "log object %" PRIu64 " ends early", seq);
    if (!pl_record_name(record.kind))
        return pl_err_set(err, PL_EFORMAT, "log object %" PRIu64 " has a record of kind %u, which this program does not know",
                          seq, record.kind);
    return sink && sink->record ? sink->record(sink->self, &record, seq, err) : 0;
}

int pl_log_decode(const void *bytes, size_t n, struct pl_log_head *head, const struct pl_log_sink *sink, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(bytes, n);
    struct pl_log_head next = *head;
    struct log_header h;
    int r = read_header(&c, &h, err);

    if (r < 0)
        return r;
    r = check_header(&h, head, err);
    if (r < 0)
        return r;
    if (sink && sink->begin) {
        r = sink->begin(sink->self, h.seq, h.epoch, err);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i < h.n; i++) {
        r = feed_record(&c, sink, h.seq, err);
        if (r < 0)
            return r;
    }
    if (pl_cursor_left(&c))
        return pl_err_set(err, PL_ECORRUPT, "log object %" PRIu64 " has %zu bytes too many", h.seq, pl_cursor_left(&c));
    next.seq = h.seq;
    next.epoch = h.epoch;
    pl_hash_sha256(bytes, n, &next.hash);
    if (sink && sink->end) {
        r = sink->end(sink->self, &next, err);
        if (r < 0)
            return r;
    }
    *head = next;
    return 0;
}

int pl_log_append(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_batch *b, bool *ret_unknown,
                  struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_LOG_OBJECT_MAX_BYTES};
    struct iovec iov;
    char key[PL_LOG_KEY_BYTES];
    int r = pl_log_encode(head, b, &bytes, err);

    *ret_unknown = false;
    if (r < 0)
        return r;
    pl_log_key(head->seq + 1, key);
    iov = (struct iovec){.iov_base = bytes.data, .iov_len = bytes.len};
    r = pl_object_put(objects, key, &iov, 1, true, err);
    if (r == PL_EEXISTS)
        return pl_err_set(err, PL_EFENCED, "%s was written by another daemon: it owns the store now", key);
    /* the outcome of the put is unknown: the object may exist now, or appear later */
    if (r == PL_ENET || r == PL_ETIMEOUT)
        *ret_unknown = true;
    if (r < 0)
        return pl_err_wrap(err, r, "%s", key);
    r = pl_object_flush(objects, err);
    if (r < 0) {
        *ret_unknown = true;
        return pl_err_wrap(err, r, "%s", key);
    }
    head->seq++;
    pl_hash_sha256(bytes.data, bytes.len, &head->hash);
    return 0;
}

int pl_log_owned(struct pl_object_store *objects, uint64_t epoch, uint64_t *seq, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf head = {.max = PL_LOG_HEADER_BYTES};
    struct log_header h;
    struct pl_cursor c;
    char key[PL_LOG_KEY_BYTES];
    uint64_t size;
    int r;

    for (;; ++*seq) {
        pl_log_key(*seq + 1, key);
        r = pl_object_size(objects, key, &size, err);
        if (r == PL_ENOTFOUND)
            return 0;
        r = r < 0 ? r : pl_object_get(objects, key, 0, PL_LOG_HEADER_BYTES, &head, err);
        c = pl_cursor_of(head.data, head.len);
        r = r < 0 ? r : read_header(&c, &h, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s", key);
        if (h.epoch > epoch)
            return pl_err_set(err, PL_EFENCED, "%s was written by another daemon: it owns the store now", key);
    }
}

/* Makes the name of an object durable. A writer that crashed may have put the object without syncing its
 * name. If that name were lost in a power failure after the object was applied, the database would be ahead
 * of its log. */
static int make_name_durable(struct pl_object_store *objects, const char *key, const struct pl_buf *bytes, struct pl_err *err)
{
    struct iovec iov = {.iov_base = bytes->data, .iov_len = bytes->len};
    int r = pl_object_put(objects, key, &iov, 1, true, err);

    return r < 0 && r != PL_EEXISTS ? r : pl_object_flush(objects, err);
}

struct complete {
    uint64_t last;
};

/* Called with the keys of log objects in order of their numbers; fails at the first missing number. */
static int complete_one(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct complete *c = arg;
    char missing[PL_LOG_KEY_BYTES];
    uint64_t seq;

    (void)size;
    if (!pl_log_key_parse(key, &seq) || seq <= c->last)
        return 0;
    if (seq != c->last + 1) {
        pl_log_key(c->last + 1, missing);
        pl_err_set(err, PL_ELOG, "%s is missing, although the log continues with %s", missing, key);
        return pl_err_hint(err, PL_ELOG, "Restore it from a mirror or a backup of the store.");
    }
    c->last = seq;
    return 0;
}

int pl_log_complete(struct pl_object_store *objects, uint64_t after, uint64_t *ret_last, struct pl_err *err)
{
    struct complete c = {after};
    char key[PL_LOG_KEY_BYTES];
    int r;

    pl_log_key(after, key);
    r = pl_object_list_after(objects, "log/", key, complete_one, &c, err);

    if (r == 0)
        *ret_last = c.last;
    return r;
}

int pl_log_replay_ahead(struct pl_object_store *objects, struct pl_log_head *head, uint64_t last, const struct pl_log_sink *sink,
                        struct pl_err *err)
{
    _cleanup_(pl_log_reader_closep) struct pl_log_reader *reader = NULL;
    bool durable = sink->look_only;
    const struct pl_buf *bytes;
    char key[PL_LOG_KEY_BYTES];
    uint64_t seq = 0;
    int r = pl_log_reader_open(objects, head->seq + 1, last, &reader, err);

    while (r >= 0 && (r = pl_log_reader_next(reader, &seq, &bytes, err)) > 0) {
        pl_log_key(seq, key);
        if (!durable)
            r = make_name_durable(objects, key, bytes, err);
        durable = true;
        r = r < 0 ? r : pl_log_decode(bytes->data, bytes->len, head, sink, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s", key);
    }
    if (r == PL_ENOTFOUND) {
        pl_log_key(seq, key);
        return pl_err_set(err, PL_ELOG, "%s is missing: it has just been removed", key);
    }
    return r;
}

/* Sets `*ret` to whether object `seq` exists. */
static int is_there(struct pl_object_store *objects, uint64_t seq, bool *ret, struct pl_err *err)
{
    char key[PL_LOG_KEY_BYTES];
    uint64_t size;
    int r;

    pl_log_key(seq, key);
    r = pl_object_size(objects, key, &size, err);
    *ret = r == 0;
    return r == PL_ENOTFOUND ? 0 : r;
}

/* Replays all but the last few objects, in strides whose objects are fetched in parallel: fetched one by one,
 * they could arrive more slowly than another daemon writes new ones. Each stride is twice as long as the
 * previous one, until the log ends within a stride. */
static int replay_strides(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_sink *sink,
                          struct pl_err *err)
{
    uint64_t stride = NEAR;
    bool there = false;
    int r;

    while ((r = is_there(objects, head->seq + stride, &there, err)) == 0 && (there || stride > NEAR)) {
        r = there ? pl_log_replay_ahead(objects, head, head->seq + stride, sink, err) : 0;
        if (r < 0)
            return r;
        stride = there ? PL_MIN(stride * 2, (uint64_t)STRIDE_MAX) : NEAR;
    }
    return r;
}

/* Replays at most NEAR objects, one by one. PL_ENOTFOUND: the log has ended. */
static int replay_few(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_sink *sink,
                      struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_LOG_OBJECT_MAX_BYTES};
    char key[PL_LOG_KEY_BYTES];
    bool durable = !sink || sink->look_only;

    for (unsigned i = 0; i < NEAR; i++) {
        int r;

        pl_log_key(head->seq + 1, key);
        pl_buf_clear(&bytes);
        r = pl_object_get(objects, key, 0, PL_OBJECT_TO_END, &bytes, err);
        if (r == PL_ENOTFOUND)
            return r;
        if (r == 0 && !durable)
            r = make_name_durable(objects, key, &bytes, err); /* one flush covers all names in the folder */
        durable = true;
        r = r < 0 ? r : pl_log_decode(bytes.data, bytes.len, head, sink, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s", key);
    }
    return 0;
}

int pl_log_replay(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_sink *sink, struct pl_err *err)
{
    static const struct pl_log_sink nobody = {.look_only = true};
    int r = replay_few(objects, head, sink, err);

    if (r == 0)
        r = replay_strides(objects, head, sink ? sink : &nobody, err);
    /* the number of rounds is bounded: if another daemon writes as fast as this one reads, the replay would
     * never end */
    if (r == 0)
        r = replay_few(objects, head, sink, err);
    return r == PL_ENOTFOUND ? 0 : r;
}

int pl_log_follow(struct pl_object_store *objects, struct pl_log_head *head, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_LOG_OBJECT_MAX_BYTES};
    char key[PL_LOG_KEY_BYTES];
    int r;

    pl_log_key(head->seq + 1, key);
    r = pl_object_get_all(objects, key, &bytes, err);
    r = r < 0 ? r : pl_log_decode(bytes.data, bytes.len, head, NULL, err);
    return r < 0 ? pl_err_wrap(err, r, "%s", key) : 0;
}
