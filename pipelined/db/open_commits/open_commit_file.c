/* The file of an open commit (the spool): appends groups, verifies them at open, and indexes unpacked records. */
#include "pipelined/db/open_commits/open_commit_file.h"

#include "storage/base/alloc_failure.h"
#include "storage/base/map.h"
#include "storage/chunk/codec.h"
#include "storage/pack/pack_builder.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#define FILE_MAGIC  "PLSP"
#define GROUP_MAGIC "PLSG"
#define VERSION     1u
#define PRELUDE     20u
#define HEAD_MAX    (256u << 10)
#define GROUP_HEAD  32u
#define META_FIXED  16u /* bytes of a group's meta before the number of records */
#define RECORD_MIN  (PL_HASH_BYTES + 4u)

/* A record of the file that is in no pack. */
struct kept {
    struct pl_hash id;
    uint64_t offset, group;
    uint32_t raw, stored;
    uint8_t kind, codec;
};

struct pl_open_commit_file {
    char path[PATH_MAX];
    int fd;
    uint64_t seed;   /* seed of group checksums, made from the commit's id, so that groups of other files fail to verify */
    uint64_t size;   /* bytes verified so far; the next group starts here */
    uint64_t group;  /* number of the last group */
    uint64_t packed; /* groups up to this one are in packs */
    uint64_t cut;    /* bytes that were cut off at the end when the file was opened */
    bool broken;     /* a failed append could not be undone */
    struct pl_open_commit_file_head head;
    json_t *head_json; /* the parsed JSON, which owns the texts in `head` */
    pthread_mutex_t lock;
    struct pl_map kept; /* index: record id → struct kept */
    char *message;      /* message of the newest group that has a message; NULL = no group has one */
    int (*copy)(void *self, uint64_t offset, const struct iovec *iov, int n, struct pl_err *err);
    void *copy_self;
    uint64_t unpacked, copied;
};

/* ---- the head ---- */

static int check_head(const struct pl_open_commit_file_head *h, struct pl_err *err)
{
    int r = pl_name_check("project", h->project, err);

    r = r < 0 ? r : pl_name_check("repo", h->repo, err);
    r = r < 0 ? r : pl_name_check("branch", h->branch, err);
    if (r == 0 && (!pl_id_ok(h->commit) || (*h->base && !pl_id_ok(h->base))))
        r = pl_err_set(err, PL_EINVAL, "\"%s\" or its base is not the id of a commit", h->commit);
    if (r == 0 && (strlen(h->author) > PL_OPEN_COMMIT_FILE_AUTHOR_MAX || strlen(h->owner) > PL_OPEN_COMMIT_FILE_AUTHOR_MAX ||
                   !pl_utf8_ok(h->author, strlen(h->author)) || !pl_utf8_ok(h->owner, strlen(h->owner))))
        r = pl_err_set(err, PL_EINVAL, "author or owner is longer than %u bytes or not UTF-8", PL_OPEN_COMMIT_FILE_AUTHOR_MAX);
    return r < 0 ? r : pl_open_commit_file_check_message(h->message, err);
}

static json_t *write_head(const struct pl_open_commit_file_head *h)
{
    char root[PL_HASH_HEX + 1];

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s*, s:I, s:s, s:I, s:b, s:b}", "commit", h->commit, "project",
                     h->project, "repo", h->repo, "branch", h->branch, "base", h->base, "message", h->message, "author",
                     h->author, "owner", *h->owner ? h->owner : NULL, "repo_id", (json_int_t)h->repo_id, "base_root",
                     pl_hash_hex(&h->base_root, root), "created_us", (json_int_t)h->created_us, "gathered", h->gathered, "bucket",
                     h->bucket);
}

/* Reads the head; its texts belong to the JSON. */
static int read_head(const json_t *o, struct pl_open_commit_file_head *ret, struct pl_err *err)
{
    json_int_t repo_id, created;
    int gathered, bucket;
    const char *root;
    json_error_t e;

    ret->owner = ""; /* files of earlier versions name none */
    if (json_unpack_ex((json_t *)(uintptr_t)o, &e, JSON_STRICT,
                       "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s?:s, s:I, s:s, s:I, s:b, s:b}", "commit", &ret->commit, "project",
                       &ret->project, "repo", &ret->repo, "branch", &ret->branch, "base", &ret->base, "message", &ret->message,
                       "author", &ret->author, "owner", &ret->owner, "repo_id", &repo_id, "base_root", &root, "created_us",
                       &created, "gathered", &gathered, "bucket", &bucket) < 0)
        return pl_err_set(err, PL_EFORMAT, "its head: %s", e.text);
    ret->repo_id = repo_id;
    ret->created_us = created;
    ret->gathered = gathered;
    ret->bucket = bucket;
    if (pl_hash_parse(root, &ret->base_root, err) < 0 || check_head(ret, err) < 0)
        return pl_err_wrap(err, PL_EFORMAT, "its head");
    return 0;
}

static int prelude(const char *json, struct pl_buf *out, struct pl_err *err)
{
    size_t n = strlen(json);
    int r = pl_buf_add(out, FILE_MAGIC, 4, err);

    r = r < 0 ? r : pl_buf_add_le32(out, VERSION, err);
    r = r < 0 ? r : pl_buf_add_le32(out, (uint32_t)n, err);
    r = r < 0 ? r : pl_buf_add_le64(out, pl_xxh64(json, n, 0), err);
    return r < 0 ? r : pl_buf_add(out, json, n, err);
}

/* ---- create and close ---- */

static struct pl_open_commit_file *make(const char *path)
{
    struct pl_open_commit_file *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->fd = -1;
    snprintf(s->path, sizeof s->path, "%s", path);
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

struct pl_open_commit_file *pl_open_commit_file_close(struct pl_open_commit_file *s)
{
    if (!s)
        return NULL;
    pl_closep(&s->fd);
    pl_map_finish(&s->kept, free);
    pthread_mutex_destroy(&s->lock);
    json_decref(s->head_json);
    free(s->message);
    free(s);
    return NULL;
}

const struct pl_open_commit_file_head *pl_open_commit_file_head(const struct pl_open_commit_file *s)
{
    return &s->head;
}

int pl_open_commit_file_remove(struct pl_open_commit_file *s, struct pl_err *err)
{
    char dir[PATH_MAX], *slash;

    snprintf(dir, sizeof dir, "%s", s->path);
    slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    if (unlink(s->path) < 0 && errno != ENOENT)
        return pl_err_errno(err, errno, "remove %s", s->path);
    return slash ? pl_io_fsync_dir(dir, err) : 0;
}

uint64_t pl_op_spool_size(const struct pl_open_commit_file *s)
{
    return s->size;
}

void pl_op_spool_copy_to(struct pl_open_commit_file *s,
                         int (*fn)(void *self, uint64_t offset, const struct iovec *iov, int n, struct pl_err *err), void *self,
                         uint64_t copied)
{
    s->copy = fn;
    s->copy_self = self;
    s->copied = copied;
}

uint64_t pl_open_commit_file_cut_bytes(const struct pl_open_commit_file *s)
{
    return s->cut;
}

static int open_file(struct pl_open_commit_file *s, struct pl_err *err)
{
    s->fd = open(s->path, O_RDWR | O_CLOEXEC);
    return s->fd < 0 ? pl_err_errno(err, errno, "open %s", s->path) : 0;
}

int pl_open_commit_file_create(const char *dir, const struct pl_open_commit_file_head *head, struct pl_open_commit_file **ret,
                               struct pl_err *err)
{
    _cleanup_(pl_open_commit_file_closep) struct pl_open_commit_file *s = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = HEAD_MAX + PRELUDE};
    _cleanup_(json_decrefp) json_t *again = NULL;
    _cleanup_free_ char *json = NULL;
    char path[PATH_MAX];
    int r = check_head(head, err);

    if (r < 0)
        return r;
    if (snprintf(path, sizeof path, "%s/%s" PL_OPEN_COMMIT_FILE_SUFFIX, dir, head->commit) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "the folder path %.200s… is too long", dir);
    s = make(path);
    if (!s)
        return pl_err_nomem(err);
    s->head_json = write_head(head);
    json = s->head_json ? json_dumps(s->head_json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!json)
        return pl_err_nomem(err);
    again = json_loads(json, 0, NULL); /* parse it again: json_dumps omits a key when memory is short */
    if (!json_equal(again, s->head_json))
        return pl_err_nomem(err);
    r = read_head(s->head_json, &s->head, NULL) < 0 ? pl_err_nomem(err) : 0; /* checked above: only PL_ENOMEM can occur */
    s->seed = pl_xxh64(head->commit, PL_ID_HEX, 0);
    r = r < 0 ? r : prelude(json, &bytes, err);
    r = r < 0 ? r : pl_io_write_file(path, bytes.data, bytes.len, 0600, err);
    r = r < 0 ? r : open_file(s, err);
    if (r < 0) {
        (void)unlink(path); /* the file may exist: remove it, so that the next start does not find it */
        return pl_err_wrap(err, r, "open commit %.8s", head->commit);
    }
    s->size = bytes.len;
    *ret = TAKE_PTR(s);
    return 0;
}

/* ---- records ---- */

static int keep(struct pl_open_commit_file *s, const struct kept *k, struct pl_err *err)
{
    struct kept *copy = malloc(sizeof *copy);
    void *old = NULL;
    int r;

    if (!copy)
        return pl_err_nomem(err);
    *copy = *k;
    r = pl_map_put(&s->kept, k->id.b, PL_HASH_BYTES, copy, &old, err);
    if (r < 0) {
        free(copy);
        return r;
    }
    if (old)
        s->unpacked -= ((struct kept *)old)->stored;
    s->unpacked += k->stored;
    free(old);
    return 0;
}

/* Drops records of groups `first` to `last` from the index. Caller holds the lock. */
static void forget(struct pl_open_commit_file *s, uint64_t first, uint64_t last)
{
    const struct pl_map_slot *slot;
    size_t i = 0;

    while ((slot = pl_map_next(&s->kept, &i))) {
        struct kept *k = slot->value;

        if (k->group < first || k->group > last)
            continue;
        s->unpacked -= k->stored;
        pl_map_remove(&s->kept, slot->key, slot->key_len);
        free(k);
    }
    if (s->kept.len == 0)
        pl_map_finish(&s->kept, NULL);
}

static bool find(struct pl_open_commit_file *s, const struct pl_hash *id, struct kept *ret)
{
    const struct kept *k;

    pthread_mutex_lock(&s->lock);
    k = pl_map_get(&s->kept, id->b, PL_HASH_BYTES);
    if (k && ret)
        *ret = *k;
    pthread_mutex_unlock(&s->lock);
    return k;
}

bool pl_open_commit_file_has(struct pl_open_commit_file *s, const struct pl_hash *id)
{
    return find(s, id, NULL);
}

uint64_t pl_open_commit_file_unpacked_bytes(struct pl_open_commit_file *s)
{
    uint64_t n;

    pthread_mutex_lock(&s->lock);
    n = s->unpacked;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static int read_kept(struct pl_open_commit_file *s, const struct kept *k, struct pl_buf *ret, struct pl_err *err)
{
    _cleanup_free_ uint8_t *stored = malloc((size_t)k->stored + 1);
    struct pl_hash id;
    char hex[PL_HASH_HEX + 1];
    int r = stored ? pl_io_pread(s->fd, stored, k->stored, k->offset, s->path, err) : pl_err_nomem(err);

    pl_buf_clear(ret);
    r = r < 0 ? r : pl_buf_reserve(ret, k->raw, err);
    r = r < 0 ? r : pl_codec_decode(k->codec, stored, k->stored, ret->data, k->raw, err);
    if (r < 0)
        return r;
    ret->len = k->raw;
    pl_hash_sha256(ret->data, ret->len, &id);
    return pl_hash_eq(&id, &k->id) ? 0
                                   : pl_err_set(err, PL_ECORRUPT, "%s: record %s is damaged", s->path, pl_hash_hex(&k->id, hex));
}

/* True if the index still refers to copy `k` of its record. False once it is packed, even if appended again. */
static bool still_there(struct pl_open_commit_file *s, const struct kept *k)
{
    struct kept now;

    return find(s, &k->id, &now) && now.offset == k->offset;
}

int pl_open_commit_file_get(struct pl_open_commit_file *s, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    struct kept k;

    while (find(s, id, &k)) {
        struct pl_err why = {0};
        int r = read_kept(s, &k, ret, &why);

        if (r < 0 && !still_there(s, &k))
            continue;
        if (r < 0 && err)
            *err = why;
        return r;
    }
    return pl_err_set(err, PL_ENOTFOUND, "record %s is not in the spool", pl_hash_hex(id, hex));
}

static int by_offset(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Lists the index in the order of the file; malloc'ed. */
static int list_kept(struct pl_open_commit_file *s, struct kept **ret, size_t *ret_n, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    struct kept *list;
    size_t i = 0, n = 0;

    pthread_mutex_lock(&s->lock);
    list = calloc(s->kept.len + 1, sizeof *list);
    while (list && (slot = pl_map_next(&s->kept, &i)))
        list[n++] = *(const struct kept *)slot->value;
    pthread_mutex_unlock(&s->lock);
    if (!list)
        return pl_err_nomem(err);
    qsort(list, n, sizeof *list, by_offset);
    *ret = list;
    *ret_n = n;
    return 0;
}

int pl_open_commit_file_pack(struct pl_open_commit_file *s, struct pl_pack_builder *to, uint64_t *ret_group, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf raw = {0};
    _cleanup_free_ struct kept *list = NULL;
    struct pl_hash id;
    size_t n = 0;
    int r = list_kept(s, &list, &n, err);

    *ret_group = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        struct pl_err why = {0};

        r = read_kept(s, &list[i], &raw, &why);
        if (r < 0 && !still_there(s, &list[i])) { /* another pack builder put the record into a pack meanwhile */
            r = 0;
            continue;
        }
        if (r < 0 && err)
            *err = why;
        r = r < 0 ? r : pl_pack_builder_add(to, list[i].kind, raw.data, raw.len, &id, err);
        *ret_group = PL_MAX(*ret_group, list[i].group);
    }
    return r;
}

/* ---- writing groups ---- */

static int write_meta(const struct pl_open_commit_file *s, const struct pl_op_record *records, size_t n,
                      const struct pl_op_set *ops, const char *message, uint64_t data_hash, struct pl_buf *out,
                      struct pl_err *err)
{
    size_t len = message ? strlen(message) : 0;
    int r = pl_buf_add_le64(out, s->packed, err);

    r = r < 0 ? r : pl_buf_add_le64(out, data_hash, err);
    r = r < 0 ? r : pl_buf_add_varint(out, n, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        r = pl_buf_add(out, records[i].id.b, PL_HASH_BYTES, err);
        r = r < 0 ? r : pl_buf_add_u8(out, records[i].kind, err);
        r = r < 0 ? r : pl_buf_add_u8(out, records[i].codec, err);
        r = r < 0 ? r : pl_buf_add_varint(out, records[i].raw, err);
        r = r < 0 ? r : pl_buf_add_varint(out, records[i].stored, err);
    }
    r = r < 0 ? r : pl_buf_add_varint(out, len, err);
    r = r < 0 || !len ? r : pl_buf_add(out, message, len, err);
    return r < 0 || !ops || !ops->n ? r : pl_op_set_write(ops, out, err);
}

static uint64_t group_hash(uint64_t seed, const uint8_t *head, const uint8_t *meta, size_t meta_len)
{
    return pl_xxh64(meta, meta_len, pl_xxh64(head, GROUP_HEAD - 8, seed));
}

/* Writes the group's head into the space reserved before its meta. */
static int finish_group(const struct pl_open_commit_file *s, struct pl_buf *group, uint64_t data_len, struct pl_err *err)
{
    uint32_t meta_len = (uint32_t)(group->len - GROUP_HEAD);
    struct pl_buf head = {.data = group->data, .cap = GROUP_HEAD, .max = GROUP_HEAD};
    int r = pl_buf_add(&head, GROUP_MAGIC, 4, err);

    r = r < 0 ? r : pl_buf_add_le32(&head, meta_len, err);
    r = r < 0 ? r : pl_buf_add_le64(&head, data_len, err);
    r = r < 0 ? r : pl_buf_add_le64(&head, s->group + 1, err);
    return r < 0 ? r : pl_buf_add_le64(&head, group_hash(s->seed, group->data, group->data + GROUP_HEAD, meta_len), err);
}

/* Calls s->copy with the new group, preceded by all earlier bytes of the file that the copy does not have. */
static int copy_group(struct pl_open_commit_file *s, const struct pl_buf *group, struct pl_err *err)
{
    const size_t n = s->copy ? (size_t)(s->size - s->copied) : 0;
    _cleanup_free_ uint8_t *before = malloc(n + 1);
    const struct iovec iov[] = {{.iov_base = before, .iov_len = n}, {.iov_base = group->data, .iov_len = group->len}};
    int r = before ? 0 : pl_err_nomem(err);

    if (r < 0 || !s->copy)
        return r;
    r = n ? pl_io_pread(s->fd, before, n, s->copied, s->path, err) : 0;
    return r < 0 ? r : s->copy(s->copy_self, s->copied, n ? iov : iov + 1, n ? 2 : 1, err);
}

static int write_group(struct pl_open_commit_file *s, const struct pl_buf *bytes, struct pl_err *err)
{
    int r = pl_io_pwrite(s->fd, bytes->data, bytes->len, s->size, s->path, err);

    r = r < 0 ? r : pl_io_fdatasync(s->fd, s->path, err);
    if (r == 0)
        return 0;
    if (ftruncate(s->fd, (off_t)s->size) < 0)
        s->broken = true;
    return r;
}

static int keep_all(struct pl_open_commit_file *s, const struct pl_op_record *records, size_t n, uint64_t at, struct pl_err *err)
{
    int r = 0;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct kept k = {records[i].id, at, s->group, records[i].raw, records[i].stored, records[i].kind, records[i].codec};

        r = keep(s, &k, err);
        at += records[i].stored;
    }
    if (r < 0)
        forget(s, s->group, s->group);
    pthread_mutex_unlock(&s->lock);
    return r;
}

static void set_message(struct pl_open_commit_file *s, char *message)
{
    pthread_mutex_lock(&s->lock);
    free(s->message);
    s->message = message;
    pthread_mutex_unlock(&s->lock);
}

char *pl_open_commit_file_message(struct pl_open_commit_file *s)
{
    char *copy;

    pthread_mutex_lock(&s->lock);
    copy = strdup(s->message ? s->message : s->head.message);
    pthread_mutex_unlock(&s->lock);
    return copy;
}

int pl_open_commit_file_append(struct pl_open_commit_file *s, const struct pl_op_record *records, size_t n,
                               const struct pl_op_set *ops, const char *message, struct pl_err *err)
{
    _cleanup_free_ char *kept = message && *message ? strdup(message) : NULL;
    _cleanup_(pl_buf_finish) struct pl_buf group = {.max = PL_OPEN_COMMIT_FILE_META_MAX};
    _cleanup_(pl_buf_finish) struct pl_buf data = {.max = PL_OPEN_COMMIT_FILE_META_MAX};
    static const uint8_t room[GROUP_HEAD];
    size_t meta_end;
    int r = 0;

    if (s->broken)
        return pl_err_set(err, PL_EIO, "%s: cannot undo an earlier write that failed: restart the daemon", s->path);
    if (message && *message && !kept)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = pl_buf_add(&data, records[i].bytes, records[i].stored, err);
    r = r < 0 ? r : pl_buf_add(&group, room, sizeof room, err);
    r = r < 0 ? r : write_meta(s, records, n, ops, kept, pl_xxh64(data.data, data.len, 0), &group, err);
    r = r < 0 ? r : finish_group(s, &group, data.len, err);
    meta_end = group.len;
    r = r < 0 ? r : pl_buf_add(&group, data.data, data.len, err);
    r = r < 0 ? r : copy_group(s, &group, err);
    r = r < 0 ? r : write_group(s, &group, err);
    if (r < 0)
        return pl_err_wrap(err, r, "open commit %.8s", s->head.commit);
    s->group++;
    r = keep_all(s, records, n, s->size + meta_end, err);
    if (r < 0) { /* memory is short: undo the append */
        s->group--;
        s->broken = ftruncate(s->fd, (off_t)s->size) < 0;
        return r;
    }
    s->size += group.len;
    s->copied = s->size;
    if (kept)
        set_message(s, TAKE_PTR(kept));
    return 0;
}

/* Punches holes where the data of packed groups was. A failure only costs space. */
static void punch(struct pl_open_commit_file *s, const struct kept *list, size_t n, uint64_t group)
{
    uint64_t from = 0, to = 0;

    for (size_t i = 0; i <= n; i++) {
        bool packed = i < n && list[i].group <= group;

        if (packed && list[i].offset == to) {
            to += list[i].stored;
            continue;
        }
        if (to > from && fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) < 0)
            return;
        if (packed) {
            from = list[i].offset;
            to = from + list[i].stored;
        } else {
            from = to = 0;
        }
    }
}

int pl_open_commit_file_mark_packed(struct pl_open_commit_file *s, uint64_t group, struct pl_err *err)
{
    _cleanup_free_ struct kept *list = NULL;
    uint64_t before = s->packed;
    size_t n = 0;
    int r;

    if (group <= before)
        return 0;
    r = list_kept(s, &list, &n, err);
    if (r < 0)
        return r;
    s->packed = group;
    r = pl_open_commit_file_append(s, NULL, 0, NULL, NULL, err);
    if (r < 0) {
        s->packed = before;
        return r;
    }
    pthread_mutex_lock(&s->lock);
    forget(s, 0, group);
    pthread_mutex_unlock(&s->lock);
    punch(s, list, n, group);
    return 0;
}

/* ---- reading groups ---- */

/* One group of a file in memory. */
struct group {
    uint64_t number, packed, data_hash;
    struct pl_cursor records; /* cursor at the group's first record */
    uint64_t n_records;
    uint64_t data_at, end; /* offsets of the group's data and of its end */
};

/* True if a group with this number (0: any) starts at `at` and its head and meta verify; ignores its data. */
static bool read_group(const struct pl_open_commit_file *s, const uint8_t *file, uint64_t size, uint64_t at, uint64_t number,
                       struct group *ret)
{
    struct pl_cursor c = pl_cursor_of(file + at, size - at);
    const uint8_t *magic = pl_cursor_bytes(&c, 4), *meta;
    uint64_t meta_len = pl_cursor_le32(&c), data_len = pl_cursor_le64(&c), hash;

    ret->number = pl_cursor_le64(&c);
    hash = pl_cursor_le64(&c);
    if (c.failed || memcmp(magic, GROUP_MAGIC, 4) != 0 || (number && ret->number != number))
        return false;
    meta = pl_cursor_bytes(&c, (size_t)meta_len);
    if (!meta || data_len > pl_cursor_left(&c) || hash != group_hash(s->seed, file + at, meta, (size_t)meta_len))
        return false;
    ret->records = pl_cursor_of(meta, (size_t)meta_len);
    ret->packed = pl_cursor_le64(&ret->records);
    ret->data_hash = pl_cursor_le64(&ret->records);
    ret->n_records = pl_cursor_varint(&ret->records);
    ret->data_at = at + GROUP_HEAD + meta_len;
    ret->end = ret->data_at + data_len;
    return !ret->records.failed && ret->n_records <= meta_len / RECORD_MIN;
}

static bool data_ok(const uint8_t *file, const struct group *g)
{
    return pl_xxh64(file + g->data_at, (size_t)(g->end - g->data_at), 0) == g->data_hash;
}

/* Reads the message of a group; leaves the cursor at its operations. */
static int read_message(struct pl_open_commit_file *s, struct group *g, struct pl_err *err)
{
    uint64_t len = pl_cursor_varint(&g->records);
    const uint8_t *bytes = len <= PL_OPEN_COMMIT_FILE_TEXT_MAX ? pl_cursor_bytes(&g->records, (size_t)len) : NULL;
    char *message;

    if (!bytes || g->records.failed || memchr(bytes, 0, (size_t)len) || !pl_utf8_ok((const char *)bytes, (size_t)len))
        return pl_err_set(err, PL_EFORMAT, "group %llu: bad message", (unsigned long long)g->number);
    if (!len)
        return 0;
    message = strndup((const char *)bytes, (size_t)len);
    if (!message)
        return pl_err_nomem(err);
    set_message(s, message);
    return 0;
}

/* Reads the records of a group; leaves the cursor at its message. */
static int read_records(struct pl_open_commit_file *s, struct group *g, bool kept, struct pl_err *err)
{
    struct kept k = {.offset = g->data_at, .group = g->number};

    for (uint64_t i = 0; i < g->n_records; i++) {
        const uint8_t *id = pl_cursor_bytes(&g->records, PL_HASH_BYTES);
        uint64_t raw, stored;

        k.kind = pl_cursor_u8(&g->records);
        k.codec = pl_cursor_u8(&g->records);
        raw = pl_cursor_varint(&g->records);
        stored = pl_cursor_varint(&g->records);
        if (g->records.failed || !pl_pack_raw_max(k.kind) || raw > pl_pack_raw_max(k.kind) || stored > g->end - k.offset ||
            (!stored && raw))
            return pl_err_set(err, PL_EFORMAT, "group %llu: record %llu", (unsigned long long)g->number, (unsigned long long)i);
        memcpy(k.id.b, id, PL_HASH_BYTES);
        k.raw = (uint32_t)raw;
        k.stored = (uint32_t)stored;
        if (kept && keep(s, &k, err) < 0)
            return PL_ENOMEM;
        k.offset += stored;
    }
    return k.offset == g->end ? 0 : pl_err_set(err, PL_EFORMAT, "group %llu: excess bytes", (unsigned long long)g->number);
}

static int read_ops(struct group *g, struct pl_op_set *set, struct pl_err *err)
{
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    int r;

    if (!pl_cursor_left(&g->records))
        return 0;
    r = pl_tree_ops_reader_init(&reader, g->records.p, pl_cursor_left(&g->records), err);
    while (r == 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0)
        r = pl_op_set_add(set, &op, err);
    return r < 0 ? pl_err_wrap(err, r, "group %llu", (unsigned long long)g->number) : 0;
}

/* Refuses the file if a valid group follows the verified end: the group at that end is damaged, not incomplete. */
static int check_tail(const struct pl_open_commit_file *s, const uint8_t *file, uint64_t size, struct pl_err *err)
{
    const uint8_t *at = file + s->size;
    struct group g;

    while (at < file + size && (at = memmem(at, (size_t)(file + size - at), GROUP_MAGIC, 4))) {
        if (read_group(s, file, size, (uint64_t)(at - file), 0, &g) && g.number > s->group + 1)
            return pl_err_set(err, PL_ECORRUPT, "group %llu is damaged, and group %llu follows it",
                              (unsigned long long)s->group + 1, (unsigned long long)g.number);
        at++;
    }
    return 0;
}

/* Finds the verified end and the packed groups. A last group with damaged data is cut off: its append never ended. */
static int scan(struct pl_open_commit_file *s, const uint8_t *file, uint64_t size, struct pl_err *err)
{
    struct group g, next;

    for (uint64_t at = s->size; read_group(s, file, size, at, s->group + 1, &g); at = g.end) {
        bool last = !read_group(s, file, size, g.end, g.number + 1, &next);

        if (last && !data_ok(file, &g))
            break;
        s->group = g.number;
        s->size = g.end;
        s->packed = PL_MAX(s->packed, g.packed);
    }
    return check_tail(s, file, size, err);
}

static int read_groups(struct pl_open_commit_file *s, const uint8_t *file, uint64_t at, struct pl_op_set *set, struct pl_err *err)
{
    uint64_t end = s->size;
    struct group g;
    int r = 0;

    while (at < end && r == 0) {
        if (!read_group(s, file, end, at, 0, &g))
            return pl_err_set(err, PL_ECORRUPT, "it changed while it was read");
        if (g.number > s->packed && !data_ok(file, &g))
            return pl_err_set(err, PL_ECORRUPT, "record group %llu is damaged", (unsigned long long)g.number);
        r = read_records(s, &g, g.number > s->packed, err);
        r = r < 0 ? r : read_message(s, &g, err);
        r = r < 0 ? r : read_ops(&g, set, err);
        at = g.end;
    }
    return r;
}

/* Reads the head. Lack of memory must not look like damage, which would rename the file. */
static int read_head_json(struct pl_open_commit_file *s, const char *head, size_t len, struct pl_err *err)
{
    int r;

    (void)pl_alloc_failure_take();
    s->head_json = json_loadb(head, len, JSON_REJECT_DUPLICATES, NULL);
    r = s->head_json ? read_head(s->head_json, &s->head, err) : pl_err_set(err, PL_EFORMAT, "its head is not JSON");
    return r < 0 && pl_alloc_failure_take() ? pl_err_nomem(err) : r;
}

static int read_prelude(struct pl_open_commit_file *s, const uint8_t *file, uint64_t size, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(file, size);
    const uint8_t *magic = pl_cursor_bytes(&c, 4), *head;
    uint32_t version = pl_cursor_le32(&c), len = pl_cursor_le32(&c);
    uint64_t hash = pl_cursor_le64(&c);
    int r;

    if (c.failed || memcmp(magic, FILE_MAGIC, 4) != 0)
        return pl_err_set(err, PL_EFORMAT, "it is not the spool of an open commit");
    if (version != VERSION)
        return pl_err_set(err, PL_EFORMAT, "it has version %u, not %u", version, VERSION);
    head = len <= HEAD_MAX ? pl_cursor_bytes(&c, len) : NULL;
    if (!head || pl_xxh64(head, len, 0) != hash)
        return pl_err_set(err, PL_ECORRUPT, "its head is damaged");
    s->size = PRELUDE + len;
    r = read_head_json(s, (const char *)head, len, err);
    if (r < 0)
        return r;
    s->seed = pl_xxh64(s->head.commit, PL_ID_HEX, 0);
    return 0;
}

static int read_file(struct pl_open_commit_file *s, const uint8_t *file, uint64_t size, struct pl_op_set *set, struct pl_err *err)
{
    uint64_t first;
    int r = read_prelude(s, file, size, err);

    first = s->size;
    r = r < 0 ? r : scan(s, file, size, err);
    r = r < 0 ? r : read_groups(s, file, first, set, err);
    if (r < 0 || s->size == size)
        return r;
    s->cut = size - s->size;
    if (ftruncate(s->fd, (off_t)s->size) < 0)
        return pl_err_errno(err, errno, "cut %s", s->path);
    return pl_io_fdatasync(s->fd, s->path, err);
}

int pl_open_commit_file_open(const char *path, struct pl_op_set *set, struct pl_open_commit_file **ret, struct pl_err *err)
{
    _cleanup_(pl_open_commit_file_closep) struct pl_open_commit_file *s = make(path);
    struct stat st;
    void *file;
    int r = s ? open_file(s, err) : pl_err_nomem(err);

    if (r == 0 && fstat(s->fd, &st) < 0)
        r = pl_err_errno(err, errno, "%s", path);
    if (r < 0)
        return r;
    if (st.st_size < (off_t)PRELUDE)
        return pl_err_set(err, PL_EFORMAT, "%s: it is not the spool of an open commit", path);
    file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, s->fd, 0);
    if (file == MAP_FAILED)
        return pl_err_errno(err, errno, "map %s", path);
    r = read_file(s, file, (uint64_t)st.st_size, set, err);
    munmap(file, (size_t)st.st_size);
    if (r < 0) {
        pl_op_set_finish(set);
        return pl_err_wrap(err, r, "%s", path);
    }
    *ret = TAKE_PTR(s);
    return 0;
}
