/* A segment file is written under a temporary name, synced and renamed. Opening a segment verifies its
 * checksum. The manifest is always rewritten completely and replaced by a rename. */
#include "storage/store/index_segment.h"

#include "storage/system/io.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <xxhash.h>

#define SEGMENT_VERSION      1u
#define SEGMENT_HEADER_BYTES 32u
#define SEGMENT_BUFFER_BYTES ((size_t)256 << 10)
#define MANIFEST_VERSION     1u
#define MANIFEST_MAX_BYTES   ((size_t)512 << 20)
#define MANIFEST_NAME        "packs"
#define SIZE_MASK            0x0FFFFFFFu

_Static_assert(sizeof(struct pl_index_entry) == 32, "the layout is that of the file");

struct pl_index_entry pl_index_entry_make(const struct pl_pack_entry *e, uint32_t pack_no)
{
    struct pl_index_entry x = {
        .pack_no = htole32(pack_no),
        .offset = htole32(e->offset),
        .stored_codec = htole32(e->stored | (uint32_t)e->codec << 28),
        .raw_kind = htole32(e->raw | (uint32_t)e->kind << 28),
    };

    memcpy(x.key, e->id.b, sizeof(x.key));
    return x;
}

void pl_index_entry_location(const struct pl_index_entry *e, struct pl_location *ret)
{
    ret->pack_no = le32toh(e->pack_no);
    ret->offset = le32toh(e->offset);
    ret->stored = le32toh(e->stored_codec) & SIZE_MASK;
    ret->codec = (uint8_t)(le32toh(e->stored_codec) >> 28);
    ret->raw = le32toh(e->raw_kind) & SIZE_MASK;
    ret->kind = (uint8_t)(le32toh(e->raw_kind) >> 28);
}

int pl_index_entry_cmp(const void *a, const void *b)
{
    const struct pl_index_entry *x = a, *y = b;
    int c = memcmp(x->key, y->key, sizeof(x->key));

    if (c != 0)
        return c;
    if (x->pack_no != y->pack_no)
        return le32toh(x->pack_no) < le32toh(y->pack_no) ? -1 : 1;
    return (le32toh(x->offset) > le32toh(y->offset)) - (le32toh(x->offset) < le32toh(y->offset));
}

static int segment_path(const char *dir, uint64_t number, const char *suffix, char out[PATH_MAX], struct pl_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%016llx.seg%s", dir, (unsigned long long)number, suffix) >= PATH_MAX)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    return 0;
}

static void segment_header(uint64_t count, uint64_t sum, uint8_t out[SEGMENT_HEADER_BYTES])
{
    uint64_t le[2] = {htole64(count), htole64(sum)};

    memset(out, 0, SEGMENT_HEADER_BYTES);
    memcpy(out, "PLIX", 4);
    out[4] = SEGMENT_VERSION;
    memcpy(out + 8, le, sizeof(le));
}

int pl_segment_open(const char *dir, uint64_t number, uint32_t level, uint64_t count, struct pl_segment *ret, struct pl_err *err)
{
    size_t size = SEGMENT_HEADER_BYTES + (size_t)count * sizeof(struct pl_index_entry);
    struct pl_segment s = {.number = number, .level = level, .count = count, .map_size = size};
    _cleanup_close_ int fd = -1;
    uint8_t want[SEGMENT_HEADER_BYTES];
    char path[PATH_MAX];
    struct stat st;
    int r = segment_path(dir, number, "", path, err);

    if (r < 0)
        return r;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot open %s", path);
    if (count > SIZE_MAX / 64 || (uint64_t)st.st_size != size)
        return pl_err_set(err, PL_ECORRUPT, "index segment %s has the wrong size", path);
    s.map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (s.map == MAP_FAILED)
        return pl_err_errno(err, errno, "cannot map %s", path);
    s.entries = (const void *)((const uint8_t *)s.map + SEGMENT_HEADER_BYTES);
    segment_header(count, XXH64(s.entries, size - SEGMENT_HEADER_BYTES, 0), want);
    if (memcmp(s.map, want, sizeof(want)) != 0) {
        pl_segment_close(&s);
        return pl_err_set(err, PL_ECORRUPT, "index segment %s is damaged", path);
    }
    (void)madvise(s.map, size, MADV_RANDOM);
    *ret = s;
    return 0;
}

void pl_segment_close(struct pl_segment *s)
{
    if (s->map != NULL)
        munmap(s->map, s->map_size);
    s->map = NULL;
    s->entries = NULL;
}

void pl_segment_remove(const char *dir, struct pl_segment *s)
{
    char path[PATH_MAX];

    pl_segment_close(s);
    if (segment_path(dir, s->number, "", path, NULL) == 0)
        unlink(path);
}

static uint64_t key_number(const uint8_t key[16])
{
    uint64_t be;

    memcpy(&be, key, sizeof(be));
    return be64toh(be);
}

uint64_t pl_segment_lower_bound(const struct pl_segment *s, const uint8_t key[16])
{
    uint64_t low, high, step = 16;

    if (s->count == 0)
        return 0;
    /* ids are uniform, so the entry is near count · key / 2^128; widen the range around it until it
     * contains the key */
    low = high = (uint64_t)(((unsigned __int128)key_number(key) * s->count) >> 64);
    while (low > 0 && memcmp(s->entries[low].key, key, 16) >= 0) {
        high = low;
        low -= PL_MIN(low, step);
        step *= 4;
    }
    step = 16;
    while (high < s->count && memcmp(s->entries[high].key, key, 16) < 0) {
        low = high + 1;
        high += PL_MIN(s->count - high, step);
        step *= 4;
    }
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;

        if (memcmp(s->entries[mid].key, key, 16) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A segment that is being written. */
struct segment_out {
    int fd;
    const char *path;
    struct pl_buf buf;
    uint64_t count, written;
    XXH64_state_t *sum;
};

/* Writes the buffer to the file and lets the kernel start writing it to disk. Otherwise a merge, which
 * rewrites all entries of a project, would leave so many dirty pages that the syncs of commits on the same
 * disk are delayed. */
static int segment_drain(struct segment_out *o, struct pl_err *err)
{
    int r = pl_io_write(o->fd, o->buf.data, o->buf.len, o->path, err);

    r = r < 0 ? r : pl_io_behind(o->fd, o->written, o->written + o->buf.len, o->path, err);
    o->written += o->buf.len;
    (void)XXH64_update(o->sum, o->buf.data, o->buf.len);
    pl_buf_clear(&o->buf);
    return r;
}

/* Writes all entries, then the header with their count and checksum, and syncs the file. */
static int segment_write_entries(struct segment_out *o, const struct pl_segment_feed *feed, struct pl_err *err)
{
    uint8_t header[SEGMENT_HEADER_BYTES] = {0};
    const struct pl_index_entry *e;
    int r;

    r = pl_io_write(o->fd, header, sizeof(header), o->path, err);
    while (r == 0 && (e = feed->next(feed->self)) != NULL) {
        r = pl_buf_add(&o->buf, e, sizeof(*e), err);
        o->count++;
        if (r == 0 && o->buf.len >= SEGMENT_BUFFER_BYTES)
            r = segment_drain(o, err);
    }
    if (r == 0)
        r = segment_drain(o, err);
    if (r < 0)
        return r;
    segment_header(o->count, XXH64_digest(o->sum), header);
    r = pl_io_pwrite(o->fd, header, sizeof(header), 0, o->path, err);
    return r < 0 ? r : pl_io_fdatasync(o->fd, o->path, err);
}

static int segment_write_file(const char *temp, const struct pl_segment_feed *feed, uint64_t *ret_count, struct pl_err *err)
{
    struct segment_out o = {.path = temp, .sum = XXH64_createState()};
    int r;

    o.fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (o.fd < 0)
        r = pl_err_errno(err, errno, "cannot create %s", temp);
    else if (o.sum == NULL)
        r = pl_err_nomem(err);
    else
        r = XXH64_reset(o.sum, 0) == XXH_OK ? segment_write_entries(&o, feed, err) : pl_err_nomem(err);
    pl_closep(&o.fd);
    pl_buf_finish(&o.buf);
    (void)XXH64_freeState(o.sum);
    *ret_count = o.count;
    return r;
}

int pl_segment_write(const char *dir, uint64_t number, uint32_t level, const struct pl_segment_feed *feed, struct pl_segment *ret,
                     struct pl_err *err)
{
    char path[PATH_MAX], temp[PATH_MAX];
    uint64_t count;
    int r;

    r = segment_path(dir, number, "", path, err);
    if (r == 0)
        r = segment_path(dir, number, ".tmp", temp, err);
    if (r < 0)
        return r;
    r = segment_write_file(temp, feed, &count, err);
    if (r == 0)
        r = pl_io_rename(temp, path, err);
    if (r < 0) {
        unlink(temp);
        return r;
    }
    r = pl_segment_open(dir, number, level, count, ret, err);
    if (r < 0)
        unlink(path);
    return r;
}

void pl_manifest_finish(struct pl_manifest *m)
{
    free(m->segments);
    free(m->packs);
    *m = (struct pl_manifest){0};
}

static int manifest_encode(const struct pl_manifest *m, struct pl_buf *b, struct pl_err *err)
{
    static const uint8_t head[8] = {'P', 'L', 'I', 'M', MANIFEST_VERSION, 0, 0, 0};
    int r = pl_buf_add(b, head, sizeof(head), err);

    if (r == 0)
        r = pl_buf_add_le32(b, (uint32_t)m->segment_count, err);
    if (r == 0)
        r = pl_buf_add_le32(b, (uint32_t)m->pack_count, err);
    for (size_t i = 0; i < m->segment_count && r == 0; i++) {
        r = pl_buf_add_le64(b, m->segments[i].number, err);
        if (r == 0)
            r = pl_buf_add_le64(b, m->segments[i].count, err);
        if (r == 0)
            r = pl_buf_add_le64(b, m->segments[i].level, err);
    }
    if (r == 0 && m->pack_count > 0)
        r = pl_buf_add(b, m->packs, m->pack_count * sizeof(*m->packs), err);
    return r < 0 ? r : pl_buf_add_le64(b, pl_xxh64(b->data, b->len, 0), err);
}

int pl_manifest_write(const char *dir, const struct pl_manifest *m, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = MANIFEST_MAX_BYTES};
    char path[PATH_MAX];
    int r = manifest_encode(m, &b, err);

    if (r < 0)
        return r;
    if (snprintf(path, sizeof(path), "%s/" MANIFEST_NAME, dir) >= (int)sizeof(path))
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    return pl_io_write_file(path, b.data, b.len, 0666, err);
}

/* Checks the size and the checksum of a manifest, and decodes it. */
static int manifest_decode(const struct pl_buf *b, struct pl_manifest *m, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(b->data, b->len < 8 ? 0 : b->len - 8), sum = pl_cursor_of(b->data, b->len);
    const uint8_t *head = pl_cursor_bytes(&c, 8), *packs;

    m->segment_count = pl_cursor_le32(&c);
    m->pack_count = pl_cursor_le32(&c);
    if (c.failed || memcmp(head, "PLIM", 4) != 0 || head[4] != MANIFEST_VERSION ||
        pl_cursor_left(&c) != m->segment_count * 24 + m->pack_count * PL_HASH_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "the index's list of packs is damaged");
    (void)pl_cursor_bytes(&sum, b->len - 8);
    if (pl_cursor_le64(&sum) != pl_xxh64(b->data, b->len - 8, 0))
        return pl_err_set(err, PL_ECORRUPT, "the index's list of packs does not match its checksum");
    m->segments = calloc(m->segment_count + 1, sizeof(*m->segments));
    m->packs = calloc(m->pack_count + 1, sizeof(*m->packs));
    if (m->segments == NULL || m->packs == NULL)
        return pl_err_nomem(err);
    for (size_t i = 0; i < m->segment_count; i++) {
        m->segments[i].number = pl_cursor_le64(&c);
        m->segments[i].count = pl_cursor_le64(&c);
        m->segments[i].level = (uint32_t)pl_cursor_le64(&c);
    }
    packs = pl_cursor_bytes(&c, m->pack_count * PL_HASH_BYTES);
    if (packs != NULL && m->pack_count > 0)
        memcpy(m->packs, packs, m->pack_count * PL_HASH_BYTES);
    return 0;
}

int pl_manifest_read(const char *dir, struct pl_manifest *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = MANIFEST_MAX_BYTES};
    struct pl_manifest m = {0};
    char path[PATH_MAX];
    int r;

    if (snprintf(path, sizeof(path), "%s/" MANIFEST_NAME, dir) >= (int)sizeof(path))
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    r = pl_io_read_file(path, &b, err);
    if (r == 0)
        r = manifest_decode(&b, &m, err);
    if (r < 0) {
        pl_manifest_finish(&m);
        return r;
    }
    *ret = m;
    return 0;
}

static bool manifest_names(const struct pl_manifest *m, const char *name)
{
    char want[32];

    if (m == NULL)
        return false;
    for (size_t i = 0; i < m->segment_count; i++) {
        (void)snprintf(want, sizeof(want), "%016llx.seg", (unsigned long long)m->segments[i].number);
        if (pl_streq(name, want))
            return true;
    }
    return pl_streq(name, MANIFEST_NAME);
}

void pl_manifest_sweep(const char *dir, const struct pl_manifest *m)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    if (d == NULL)
        return;
    while ((e = readdir(d)) != NULL) {
        bool ours = strstr(e->d_name, ".seg") != NULL || strncmp(e->d_name, MANIFEST_NAME, strlen(MANIFEST_NAME)) == 0;

        if (ours && !manifest_names(m, e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}
