/* A checkpoint is compressed to a temporary file, which is then mapped and put. A checkpoint is read in
 * windows. So neither writing nor reading holds a whole checkpoint in memory. */
#include "storage/dataset/log/log_checkpoint.h"

#include "storage/system/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <zstd.h>

#define CKPT_MAGIC   "PLCK"
#define CKPT_VERSION 1
#define CKPT_LEVEL   3
#define SEQ_HEX      16

void pl_log_checkpoint_key(uint64_t seq, char out[PL_LOG_CHECKPOINT_KEY_BYTES])
{
    snprintf(out, PL_LOG_CHECKPOINT_KEY_BYTES, "ckpt/%016" PRIx64, seq);
}

/* ---- header ---- */

static int head_encode(const struct pl_log_checkpoint_head *h, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add(out, CKPT_MAGIC, 4, err);

    r = r < 0 ? r : pl_buf_add_le16(out, CKPT_VERSION, err);
    r = r < 0 ? r : pl_buf_add_le16(out, 0, err);
    r = r < 0 ? r : pl_buf_add(out, h->store_id, sizeof h->store_id, err);
    r = r < 0 ? r : pl_buf_add_le64(out, h->epoch, err);
    r = r < 0 ? r : pl_buf_add_le64(out, h->seq, err);
    r = r < 0 ? r : pl_buf_add(out, h->log_hash.b, PL_HASH_BYTES, err);
    r = r < 0 ? r : pl_buf_add_le64(out, (uint64_t)h->at_us, err);
    return r < 0 ? r : pl_buf_add_le64(out, h->raw_bytes, err);
}

/* Decodes and checks the header of checkpoint `seq`. */
static int head_decode(const void *bytes, uint64_t seq, struct pl_log_checkpoint_head *ret, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(bytes, PL_LOG_CHECKPOINT_HEADER_BYTES);
    const uint8_t *magic = pl_cursor_bytes(&c, 4);
    uint16_t version = pl_cursor_le16(&c), zero = pl_cursor_le16(&c);
    struct pl_log_checkpoint_head h = {0};

    if (memcmp(magic, CKPT_MAGIC, 4) != 0)
        return pl_err_set(err, PL_ECORRUPT, "not a checkpoint");
    if (version != CKPT_VERSION || zero != 0)
        return pl_err_set(err, PL_EFORMAT, "a checkpoint of version %u; this program knows %u", version, CKPT_VERSION);
    memcpy(h.store_id, pl_cursor_bytes(&c, sizeof h.store_id), sizeof h.store_id);
    h.epoch = pl_cursor_le64(&c);
    h.seq = pl_cursor_le64(&c);
    memcpy(h.log_hash.b, pl_cursor_bytes(&c, PL_HASH_BYTES), PL_HASH_BYTES);
    h.at_us = (int64_t)pl_cursor_le64(&c);
    h.raw_bytes = pl_cursor_le64(&c);
    if (h.seq != seq)
        return pl_err_set(err, PL_ECORRUPT, "the checkpoint says that it is number %" PRIu64, h.seq);
    if (h.raw_bytes == 0 || h.raw_bytes > PL_LOG_CHECKPOINT_RAW_MAX_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "the checkpoint claims a database of %" PRIu64 " bytes", h.raw_bytes);
    *ret = h;
    return 0;
}

/* ---- writing ---- */

/* The output file of a checkpoint, with the hash of everything written so far. */
struct writer {
    int fd;
    const char *name;
    uint64_t bytes;
    struct pl_hasher hasher;
};

static int writer_add(struct writer *w, const void *data, size_t n, struct pl_err *err)
{
    w->bytes += n;
    if (w->bytes > PL_LOG_CHECKPOINT_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "the checkpoint would exceed %" PRIu64 " bytes", PL_LOG_CHECKPOINT_MAX_BYTES);
    pl_hasher_add(&w->hasher, data, n);
    return pl_io_write(w->fd, data, n, w->name, err);
}

struct press {
    ZSTD_CCtx *z;
    uint8_t *in, *out;
};

static void press_finish(struct press *p)
{
    ZSTD_freeCCtx(p->z);
    free(p->in);
    free(p->out);
}

/* Compresses one window of the database; `last` ends the frame. */
static int press_window(struct press *p, size_t n, bool last, struct writer *w, struct pl_err *err)
{
    ZSTD_inBuffer in = {p->in, n, 0};
    size_t left;
    int r = 0;

    do {
        ZSTD_outBuffer out = {p->out, PL_LOG_CHECKPOINT_IO_BYTES, 0};

        left = ZSTD_compressStream2(p->z, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return pl_err_set(err, PL_EINTERNAL, "cannot compress the checkpoint: %s", ZSTD_getErrorName(left));
        r = writer_add(w, p->out, out.pos, err);
    } while (r == 0 && (last ? left > 0 : in.pos < in.size));
    return r;
}

/* Compresses the whole database file into one frame. */
static int press_all(int fd, uint64_t size, struct writer *w, bool (*stop)(void *arg), void *arg, struct pl_err *err)
{
    _cleanup_(press_finish) struct press p = {ZSTD_createCCtx(), malloc(PL_LOG_CHECKPOINT_IO_BYTES),
                                              malloc(PL_LOG_CHECKPOINT_IO_BYTES)};
    int r = 0;

    if (!p.z || !p.in || !p.out)
        return pl_err_nomem(err);
    (void)ZSTD_CCtx_setParameter(p.z, ZSTD_c_compressionLevel, CKPT_LEVEL);
    (void)ZSTD_CCtx_setPledgedSrcSize(p.z, size);
    for (uint64_t at = 0; r == 0 && at < size;) {
        size_t n = (size_t)PL_MIN((uint64_t)PL_LOG_CHECKPOINT_IO_BYTES, size - at);

        if (stop && stop(arg))
            return pl_err_set(err, PL_ECANCELED, "the checkpoint was cancelled");
        r = pl_io_pread(fd, p.in, n, at, "database copy", err);
        at += n;
        r = r < 0 ? r : press_window(&p, n, at == size, w, err);
    }
    return r;
}

/* Writes the whole object to the file `temp`. */
static int write_object(const struct pl_log_checkpoint_head *head, int from, const char *temp, bool (*stop)(void *arg), void *arg,
                        struct pl_err *err)
{
    _cleanup_close_ int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct writer w = {.fd = fd, .name = temp};
    struct pl_hash sum;
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "%s", temp);
    pl_hasher_init(&w.hasher);
    r = head_encode(head, &bytes, err);
    r = r < 0 ? r : writer_add(&w, bytes.data, bytes.len, err);
    r = r < 0 ? r : press_all(from, head->raw_bytes, &w, stop, arg, err);
    pl_hasher_get(&w.hasher, &sum);
    return r < 0 ? r : writer_add(&w, sum.b, sizeof sum.b, err);
}

/* Puts a file as an object. The file is mapped, so that a checkpoint larger than the daemon's memory limit
 * can be put. */
static int put_file(struct pl_object_store *objects, const char *key, const char *path, struct pl_err *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    struct iovec iov;
    void *map;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "%s", path);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return pl_err_errno(err, errno, "%s", path);
    iov = (struct iovec){map, (size_t)st.st_size};
    r = pl_object_put(objects, key, &iov, 1, true, err);
    munmap(map, (size_t)st.st_size);
    if (r < 0 && r != PL_EEXISTS)
        return r;
    return pl_object_flush(objects, err);
}

int pl_log_checkpoint_put(struct pl_object_store *objects, struct pl_log_checkpoint_head *head, const char *path,
                          const char *temp, bool (*stop)(void *arg), void *arg, struct pl_err *err)
{
    _cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC);
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];
    struct stat st;
    int r;

    pl_log_checkpoint_key(head->seq, key);
    if (from < 0 || fstat(from, &st) < 0)
        return pl_err_errno(err, errno, "%s", path);
    if (st.st_size <= 0 || (uint64_t)st.st_size > PL_LOG_CHECKPOINT_RAW_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "%s: a database of %lld bytes; at most %" PRIu64, key, (long long)st.st_size,
                          PL_LOG_CHECKPOINT_RAW_MAX_BYTES);
    head->raw_bytes = (uint64_t)st.st_size;
    r = write_object(head, from, temp, stop, arg, err);
    r = r < 0 ? r : put_file(objects, key, temp, err);
    unlink(temp);
    return r < 0 ? pl_err_wrap(err, r, "%s", key) : 0;
}

/* ---- listing ---- */

struct listing {
    uint64_t *seqs; /* the newest PL_LOG_CHECKPOINT_LISTED_MAX found so far, ascending */
    unsigned n;
};

static bool seq_of(const char *key, uint64_t *ret)
{
    uint8_t bytes[SEQ_HEX / 2];

    if (strlen(key) != 5 + SEQ_HEX || !pl_hex_decode(key + 5, bytes, sizeof bytes))
        return false;
    *ret = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        *ret = *ret << 8 | bytes[i];
    return true;
}

static int list_one(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct listing *l = arg;
    uint64_t seq;

    (void)size;
    (void)err;
    if (!seq_of(key, &seq))
        return 0;
    if (l->n == PL_LOG_CHECKPOINT_LISTED_MAX)
        memmove(l->seqs, l->seqs + 1, --l->n * sizeof *l->seqs);
    l->seqs[l->n++] = seq;
    return 0;
}

int pl_log_checkpoint_list(struct pl_object_store *objects, uint64_t ret_seqs[PL_LOG_CHECKPOINT_LISTED_MAX], struct pl_err *err)
{
    struct listing l = {.seqs = ret_seqs};
    int r = pl_object_list(objects, "ckpt/", list_one, &l, err);

    for (unsigned i = 0; i < l.n / 2; i++) {
        uint64_t seq = ret_seqs[i];

        ret_seqs[i] = ret_seqs[l.n - 1 - i];
        ret_seqs[l.n - 1 - i] = seq;
    }
    return r < 0 ? r : (int)l.n;
}

int pl_log_checkpoint_trim(struct pl_object_store *objects, struct pl_err *err)
{
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];
    int n = pl_log_checkpoint_list(objects, seqs, err), r = PL_MIN(n, 0);

    for (int i = PL_LOG_CHECKPOINT_KEPT; r == 0 && i < n; i++) {
        pl_log_checkpoint_key(seqs[i], key);
        r = pl_object_remove(objects, key, err);
    }
    return r;
}

/* ---- reading ---- */

int pl_log_checkpoint_head_read(struct pl_object_store *objects, uint64_t seq, struct pl_log_checkpoint_head *ret,
                                struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];
    int r;

    pl_log_checkpoint_key(seq, key);
    r = pl_object_get(objects, key, 0, PL_LOG_CHECKPOINT_HEADER_BYTES, &bytes, err);
    r = r < 0 ? r : head_decode(bytes.data, seq, ret, err);
    return r < 0 ? pl_err_wrap(err, r, "%s", key) : 0;
}

/* A checkpoint being read from front to back: every byte is hashed and the frame is decompressed. */
struct reader {
    struct pl_object_store *objects;
    const char *key;
    ZSTD_DCtx *z;
    uint8_t *out;
    struct pl_buf window;
    struct pl_hasher hasher;
    int fd; /* output file; -1 = verify only */
    uint64_t inflated;
    bool ended; /* the frame has ended */
    struct pl_log_checkpoint_head head;
};

static void reader_finish(struct reader *r)
{
    ZSTD_freeDCtx(r->z);
    free(r->out);
    pl_buf_finish(&r->window);
    pl_closep(&r->fd);
}

/* Decompresses a piece of the frame and writes it to the output file. */
static int inflate(struct reader *rd, const uint8_t *bytes, size_t n, struct pl_err *err)
{
    ZSTD_inBuffer in = {bytes, n, 0};
    int r = 0;

    while (r == 0 && in.pos < in.size) {
        ZSTD_outBuffer out = {rd->out, PL_LOG_CHECKPOINT_IO_BYTES, 0};
        size_t left = rd->ended ? 1 : ZSTD_decompressStream(rd->z, &out, &in);

        if (rd->ended || ZSTD_isError(left))
            return pl_err_set(err, PL_ECORRUPT, "the checkpoint's frame is damaged%s%s", rd->ended ? "" : ": ",
                              rd->ended ? "" : ZSTD_getErrorName(left));
        rd->ended = left == 0;
        rd->inflated += out.pos;
        if (rd->inflated > rd->head.raw_bytes)
            return pl_err_set(err, PL_ECORRUPT, "the checkpoint's frame holds more than the %" PRIu64 " bytes that it claims",
                              rd->head.raw_bytes);
        if (rd->fd >= 0)
            r = pl_io_write(rd->fd, rd->out, out.pos, rd->key, err);
    }
    return r;
}

static int read_frame(struct reader *rd, uint64_t end, struct pl_err *err)
{
    int r = 0;

    for (uint64_t at = PL_LOG_CHECKPOINT_HEADER_BYTES; r == 0 && at < end; at += rd->window.len) {
        r = pl_object_get(rd->objects, rd->key, at, PL_MIN((uint64_t)PL_LOG_CHECKPOINT_IO_BYTES, end - at), &rd->window, err);
        if (r == 0) {
            pl_hasher_add(&rd->hasher, rd->window.data, rd->window.len);
            r = inflate(rd, rd->window.data, rd->window.len, err);
        }
    }
    return r;
}

/* Reads and verifies a whole checkpoint: header, frame, hash. */
static int read_all(struct reader *rd, uint64_t seq, struct pl_err *err)
{
    uint64_t size = 0;
    struct pl_hash sum;
    int r = pl_object_size(rd->objects, rd->key, &size, err);

    if (r < 0)
        return r;
    if (size <= PL_LOG_CHECKPOINT_HEADER_BYTES + PL_HASH_BYTES || size > PL_LOG_CHECKPOINT_MAX_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "a checkpoint of %" PRIu64 " bytes", size);
    r = pl_object_get(rd->objects, rd->key, 0, PL_LOG_CHECKPOINT_HEADER_BYTES, &rd->window, err);
    r = r < 0 ? r : head_decode(rd->window.data, seq, &rd->head, err);
    if (r < 0)
        return r;
    pl_hasher_add(&rd->hasher, rd->window.data, rd->window.len);
    r = read_frame(rd, size - PL_HASH_BYTES, err);
    r = r < 0 ? r : pl_object_get(rd->objects, rd->key, size - PL_HASH_BYTES, PL_HASH_BYTES, &rd->window, err);
    if (r < 0)
        return r;
    pl_hasher_get(&rd->hasher, &sum);
    if (memcmp(sum.b, rd->window.data, PL_HASH_BYTES) != 0)
        return pl_err_set(err, PL_ECORRUPT, "the checkpoint does not match its hash");
    if (!rd->ended || rd->inflated != rd->head.raw_bytes)
        return pl_err_set(err, PL_ECORRUPT, "the checkpoint's frame ends early");
    return 0;
}

int pl_log_checkpoint_get(struct pl_object_store *objects, uint64_t seq, const char *path, struct pl_log_checkpoint_head *ret,
                          struct pl_err *err)
{
    _cleanup_(reader_finish) struct reader rd = {.objects = objects, .fd = -1};
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];
    int r;

    pl_log_checkpoint_key(seq, key);
    rd.key = key;
    rd.z = ZSTD_createDCtx();
    rd.out = malloc(PL_LOG_CHECKPOINT_IO_BYTES);
    if (!rd.z || !rd.out)
        return pl_err_nomem(err);
    pl_hasher_init(&rd.hasher);
    if (path) {
        rd.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (rd.fd < 0)
            return pl_err_errno(err, errno, "%s", path);
    }
    r = read_all(&rd, seq, err);
    if (r < 0 && path)
        unlink(path);
    if (r < 0)
        return pl_err_wrap(err, r, "%s", key);
    *ret = rd.head;
    return 0;
}
