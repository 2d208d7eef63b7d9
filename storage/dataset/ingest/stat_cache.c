/* The cache file is mapped and used as a hash table. New records are collected in memory; saving writes a
 * new file with old and new records. */
#include "storage/dataset/ingest/stat_cache.h"

#include "storage/system/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define STAT_MAGIC        "PLSTAT1\n"
#define STAT_ORDER        0x01020304u
#define STAT_HEADER_BYTES 64u

struct stat_header {
    char magic[8];
    uint32_t order;
    uint32_t record_bytes;
    uint64_t n;
    uint64_t buckets;
    uint64_t key;
    uint64_t checksum;
    uint64_t zero[2];
};

struct stat_record {
    struct pl_stat_key key;
    uint8_t content;
    uint8_t inline_len;
    uint8_t zero[6];
    uint8_t data[PL_INLINE_MAX_BYTES];
};

_Static_assert(sizeof(struct stat_header) == STAT_HEADER_BYTES, "the header's size is the format");
_Static_assert(sizeof(struct stat_record) == 112, "the record's size is the format");

struct pl_stat_cache {
    char *path;
    uint64_t key;
    void *map;
    size_t map_bytes;
    const uint32_t *buckets;
    uint64_t n_buckets;
    const struct stat_record *records;
    uint64_t n;
    struct stat_record *added;
    size_t n_added, cap_added;
};

struct pl_stat_key pl_stat_key_of(const struct stat *st)
{
    return (struct pl_stat_key){
        .dev = st->st_dev,
        .ino = st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
    };
}

int pl_stat_cache_default_dir(char **ret, struct pl_err *err)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    int n;

    if (base != NULL && base[0] == '/')
        n = asprintf(&dir, "%s/pipelined", base);
    else if (home != NULL && home[0] == '/')
        n = asprintf(&dir, "%s/.cache/pipelined", home);
    else
        return pl_err_set(err, PL_ENOTFOUND, "no folder for caches: neither XDG_CACHE_HOME nor HOME is an absolute path");
    if (n < 0)
        return pl_err_nomem(err);
    *ret = dir;
    return 0;
}

static uint64_t stat_hash(const struct pl_stat_key *key)
{
    const uint64_t id[2] = {key->dev, key->ino};

    return pl_xxh64(id, sizeof(id), 0);
}

static bool same_file(const struct pl_stat_key *a, const struct pl_stat_key *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}

static void stat_unmap(struct pl_stat_cache *c)
{
    if (c->map != NULL)
        munmap(c->map, c->map_bytes);
    c->map = NULL;
    c->records = NULL;
    c->buckets = NULL;
    c->n = c->n_buckets = 0;
}

/* Checks that size and checksum of the mapped file agree with its header. If they do not, the caller ignores
 * the file. */
static bool stat_valid(const struct pl_stat_cache *c)
{
    const struct stat_header *h = c->map;

    if (c->map_bytes < STAT_HEADER_BYTES || memcmp(h->magic, STAT_MAGIC, sizeof(h->magic)) != 0 || h->order != STAT_ORDER ||
        h->record_bytes != sizeof(struct stat_record) || h->key != c->key)
        return false;
    if (h->n > PL_STAT_CACHE_MAX_RECORDS || h->buckets > 4 * (uint64_t)PL_STAT_CACHE_MAX_RECORDS || h->buckets < 2 * h->n ||
        h->buckets < 2 || (h->buckets & (h->buckets - 1)) != 0)
        return false;
    if (c->map_bytes != STAT_HEADER_BYTES + h->buckets * sizeof(uint32_t) + h->n * sizeof(struct stat_record))
        return false;
    return pl_xxh64((const uint8_t *)c->map + STAT_HEADER_BYTES, c->map_bytes - STAT_HEADER_BYTES, 0) == h->checksum;
}

/* Maps the cache file if it is valid. */
static void stat_map(struct pl_stat_cache *c)
{
    _cleanup_close_ int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    const struct stat_header *h;
    struct stat st;
    void *map;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)STAT_HEADER_BYTES)
        return;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return;
    c->map = map;
    c->map_bytes = (size_t)st.st_size;
    if (!stat_valid(c)) {
        stat_unmap(c);
        return;
    }
    h = map;
    c->n = h->n;
    c->n_buckets = h->buckets;
    c->buckets = (const uint32_t *)(const void *)((const uint8_t *)map + STAT_HEADER_BYTES);
    c->records = (const struct stat_record *)(const void *)(c->buckets + h->buckets);
}

int pl_stat_cache_open(const char *dir, const char *store_id, const char *project, struct pl_stat_cache **ret, struct pl_err *err)
{
    _cleanup_(pl_stat_cache_closep) struct pl_stat_cache *c = calloc(1, sizeof(*c));
    _cleanup_free_ char *folder = NULL, *name = NULL;
    int r;

    if (c == NULL || asprintf(&folder, "%s/stat", dir) < 0 || asprintf(&name, "%s/%s", store_id, project) < 0 ||
        asprintf(&c->path, "%s/%s-%s", folder, store_id, project) < 0)
        return pl_err_nomem(err);
    r = pl_io_mkdirs(folder, 0700, err);
    if (r < 0)
        return r;
    c->key = pl_xxh64(name, strlen(name), 0);
    stat_map(c);
    *ret = TAKE_PTR(c);
    return 0;
}

struct pl_stat_cache *pl_stat_cache_close(struct pl_stat_cache *c)
{
    if (c == NULL)
        return NULL;
    stat_unmap(c);
    free(c->added);
    free(c->path);
    free(c);
    return NULL;
}

uint64_t pl_stat_cache_len(const struct pl_stat_cache *c)
{
    return c->n;
}

static const struct stat_record *stat_find(const struct pl_stat_cache *c, const struct pl_stat_key *key)
{
    uint64_t mask = c->n_buckets - 1;

    if (c->n == 0)
        return NULL;
    for (uint64_t i = stat_hash(key) & mask, tries = 0; c->buckets[i] != 0 && tries <= mask; i = (i + 1) & mask, tries++) {
        const struct stat_record *rec;

        if (c->buckets[i] > c->n)
            return NULL;
        rec = &c->records[c->buckets[i] - 1];
        if (same_file(&rec->key, key))
            return rec;
    }
    return NULL;
}

bool pl_stat_cache_get(const struct pl_stat_cache *c, const struct pl_stat_key *key, struct pl_entry *ret)
{
    const struct stat_record *rec = stat_find(c, key);
    struct pl_entry e;

    if (rec == NULL || !pl_stat_key_eq(&rec->key, key))
        return false;
    e = (struct pl_entry){.kind = PL_KIND_FILE, .content = rec->content, .inline_len = rec->inline_len, .size = key->size};
    memcpy(e.data, rec->data, sizeof(rec->data));
    if (pl_entry_check(&e, NULL) < 0)
        return false;
    *ret = e;
    return true;
}

int pl_stat_cache_put(struct pl_stat_cache *c, const struct pl_stat_key *key, const struct pl_entry *entry, int64_t read_ns,
                      struct pl_err *err)
{
    struct stat_record rec = {.key = *key, .content = entry->content, .inline_len = entry->inline_len};

    if (key->ctime_ns > read_ns - PL_STAT_CACHE_SETTLE_NS || c->n_added == PL_STAT_CACHE_MAX_RECORDS)
        return 0;
    if (c->n_added == c->cap_added) {
        size_t cap = c->cap_added > 0 ? c->cap_added * 2 : 1024;
        struct stat_record *more = reallocarray(c->added, cap, sizeof(*more));

        if (more == NULL)
            return pl_err_nomem(err);
        c->added = more;
        c->cap_added = cap;
    }
    if (entry->content == PL_CONTENT_INLINE)
        memcpy(rec.data, entry->data, entry->inline_len);
    else
        memcpy(rec.data, entry->id.b, PL_HASH_BYTES);
    c->added[c->n_added++] = rec;
    return 0;
}

/* The next cache file, in memory. */
struct stat_table {
    struct stat_header *header;
    uint32_t *buckets;
    struct stat_record *records;
    size_t bytes;
};

/* Inserts a record. Returns false if the table already has a record of the same file. */
static bool table_insert(struct stat_table *t, const struct stat_record *rec)
{
    uint64_t mask = t->header->buckets - 1, i = stat_hash(&rec->key) & mask;

    while (t->buckets[i] != 0) {
        if (same_file(&t->records[t->buckets[i] - 1].key, &rec->key))
            return false;
        i = (i + 1) & mask;
    }
    t->records[t->header->n] = *rec;
    t->buckets[i] = (uint32_t)++t->header->n;
    return true;
}

/* Fills the table, newest records first: an older record of the same file is left out, and so are the oldest
 * records if there are too many. */
static void table_fill(struct stat_table *t, const struct pl_stat_cache *c, uint64_t max)
{
    for (size_t i = c->n_added; i > 0 && t->header->n < max; i--)
        (void)table_insert(t, &c->added[i - 1]);
    for (uint64_t i = 0; i < c->n && t->header->n < max; i++)
        (void)table_insert(t, &c->records[i]);
}

static int table_make(struct stat_table *t, const struct pl_stat_cache *c, struct pl_err *err)
{
    uint64_t max = PL_MIN(c->n + c->n_added, (uint64_t)PL_STAT_CACHE_MAX_RECORDS), buckets = 1024;
    size_t used;

    while (buckets < 2 * max)
        buckets *= 2;
    used = STAT_HEADER_BYTES + buckets * sizeof(uint32_t);
    t->header = calloc(1, used + max * sizeof(struct stat_record));
    if (t->header == NULL)
        return pl_err_nomem(err);
    t->buckets = (uint32_t *)(void *)(t->header + 1);
    t->records = (struct stat_record *)(void *)(t->buckets + buckets);
    *t->header = (struct stat_header){
        .magic = STAT_MAGIC, .order = STAT_ORDER, .record_bytes = sizeof(struct stat_record), .buckets = buckets, .key = c->key};
    table_fill(t, c, max);
    t->bytes = used + t->header->n * sizeof(struct stat_record);
    t->header->checksum = pl_xxh64(t->buckets, t->bytes - STAT_HEADER_BYTES, 0);
    return 0;
}

static int stat_write(const struct pl_stat_cache *c, const void *bytes, size_t n, struct pl_err *err)
{
    _cleanup_free_ char *temp = NULL;
    _cleanup_close_ int fd = -1;
    int r;

    if (asprintf(&temp, "%s.XXXXXX", c->path) < 0)
        return pl_err_nomem(err);
    fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return pl_err_errno(err, errno, "%s", temp);
    if ((r = pl_io_write(fd, bytes, n, temp, err)) < 0 || (r = pl_io_rename(temp, c->path, err)) < 0)
        (void)unlink(temp);
    return r;
}

int pl_stat_cache_save(struct pl_stat_cache *c, struct pl_err *err)
{
    struct stat_table t = {0};
    int r;

    if (c->n_added == 0)
        return 0;
    r = table_make(&t, c, err);
    if (r == 0)
        r = stat_write(c, t.header, t.bytes, err);
    free(t.header);
    return r;
}
