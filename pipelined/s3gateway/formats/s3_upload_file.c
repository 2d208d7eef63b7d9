/* Keeps all uploads in memory, in a map by id. Each upload also has an append-only file, which is read only
 * at the start. A new part is first appended to the file and synced, and then added in memory. */
#include "pipelined/s3gateway/formats/s3_upload_file.h"

#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define SUFFIX         ".upload"
#define HASH_HEX       16u
#define FILE_MAX       ((size_t)64 << 20)
#define LINE_MAX_BYTES ((size_t)64 << 10)

struct pl_s3_upload {
    struct pl_s3_upload_files *all;
    char id[PL_S3_UPLOAD_ID_HEX + 1];
    char path[PATH_MAX];
    struct pl_s3_upload_head head;
    /* JSON of the head line of the upload's file; owns the texts that `head` points to */
    json_t *head_json;
    _Atomic int64_t touched_ms; /* monotonic time of the last part, or of the creation */
    unsigned refs;              /* guarded by all->lock, not by `lock` */
    bool ended;                 /* guarded by all->lock, not by `lock` */

    pthread_mutex_t lock;     /* guards the fields below; taken before all->lock */
    struct pl_s3_part *parts; /* sorted by number */
    size_t n, cap;
    bool broken; /* a failed write left the file in an unknown state: it accepts no more lines */
};

struct pl_s3_upload_files {
    char *dir;
    pthread_mutex_t lock;
    struct pl_map map; /* id → struct pl_s3_upload, one reference each */
    /* trusted wall time when the files were opened; the idle times of uploads are computed from it */
    int64_t now_us;
    size_t n_parts;
    struct pl_s3_ended_list *ended;
};

/* ---- references ---- */

static struct pl_s3_upload *upload_free(struct pl_s3_upload *u)
{
    pl_buf_finish(&u->head.attributes);
    json_decref(u->head_json);
    pthread_mutex_destroy(&u->lock);
    free(u->parts);
    free(u);
    return NULL;
}

static struct pl_s3_upload *upload_new(struct pl_s3_upload_files *all, const char *id)
{
    struct pl_s3_upload *u = calloc(1, sizeof *u);

    if (!u)
        return NULL;
    u->all = all;
    u->refs = 1;
    snprintf(u->id, sizeof u->id, "%s", id);
    snprintf(u->path, sizeof u->path, "%s/%s" SUFFIX, all->dir, id);
    pthread_mutex_init(&u->lock, NULL);
    return u;
}

struct pl_s3_upload *pl_s3_upload_ref(struct pl_s3_upload *u)
{
    pthread_mutex_lock(&u->all->lock);
    u->refs++;
    pthread_mutex_unlock(&u->all->lock);
    return u;
}

struct pl_s3_upload *pl_s3_upload_unref(struct pl_s3_upload *u)
{
    bool last;

    pthread_mutex_lock(&u->all->lock);
    last = --u->refs == 0;
    pthread_mutex_unlock(&u->all->lock);
    return last ? upload_free(u) : NULL;
}

const char *pl_s3_upload_id(const struct pl_s3_upload *u)
{
    return u->id;
}

const struct pl_s3_upload_head *pl_s3_upload_head(const struct pl_s3_upload *u)
{
    return &u->head;
}

/* ---- lines ---- */

static char *hex_or_null(const struct pl_buf *b)
{
    char *hex = malloc(2 * b->len + 1);

    if (hex)
        pl_hex_encode(b->data, b->len, hex);
    return hex;
}

static int hex_read(const char *hex, struct pl_buf *out, struct pl_err *err)
{
    size_t n = strlen(hex) / 2;
    int r = pl_buf_reserve(out, n + 1, err);

    if (r < 0)
        return r;
    out->len = n;
    return strlen(hex) == 2 * n && pl_hex_decode(hex, out->data, n)
               ? 0
               : pl_err_set(err, PL_EFORMAT, "a hexadecimal value is malformed");
}

/* Appends a line to the upload's file and syncs it. The file is not kept open, because thousands of uploads
 * may be in progress for days. */
static int write_line(struct pl_s3_upload *u, const json_t *o, struct pl_err *err)
{
    _cleanup_free_ char *json = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
    _cleanup_(pl_buf_finish) struct pl_buf line = {0};
    _cleanup_close_ int fd = open(u->path, O_WRONLY | O_CLOEXEC);
    off_t before = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    int r;

    if (!json)
        return pl_err_nomem(err);
    if (fd < 0)
        return pl_err_errno(err, errno, "open %s", u->path);
    if (u->broken || before < 0)
        return pl_err_set(err, PL_EIO, "%s cannot be written: abort the upload", u->path);
    if ((size_t)before > FILE_MAX - LINE_MAX_BYTES)
        return pl_err_set(err, PL_ELIMIT, "parts of upload %s were repeated too often: complete or abort it", u->id);
    r = pl_buf_addf(&line, err, "%016llx %s\n", (unsigned long long)pl_xxh64(json, strlen(json), 0), json);
    r = r < 0 ? r : pl_io_pwrite(fd, line.data, line.len, (uint64_t)before, u->path, err);
    r = r < 0 ? r : pl_io_fdatasync(fd, u->path, err);
    if (r < 0)
        u->broken = ftruncate(fd, before) < 0;
    return r;
}

static json_t *head_json(const struct pl_s3_upload_head *h)
{
    _cleanup_free_ char *attributes = hex_or_null(&h->attributes);

    return attributes
               ? json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:i, s:b}", "project", h->project, "repo", h->repo, "branch",
                           h->branch, "key", h->key, "author", h->author, "repo_id", (json_int_t)h->repo_id, "created_us",
                           (json_int_t)h->created_us, "attributes", attributes, "sum", (int)h->sum, "whole", h->whole)
               : NULL;
}

/* Reads the head line of an upload's file. Takes the reference to `o`, the JSON of the line; u->head points
 * to texts in it. */
static int read_head(struct pl_s3_upload *u, json_t *o, struct pl_err *err)
{
    struct pl_s3_upload_head *h = &u->head;
    json_int_t repo_id, created;
    const char *attributes;
    int sum, whole;

    u->head_json = o;
    if (json_unpack_ex(o, NULL, JSON_STRICT, "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:i, s:b}", "project", &h->project, "repo",
                       &h->repo, "branch", &h->branch, "key", &h->key, "author", &h->author, "repo_id", &repo_id, "created_us",
                       &created, "attributes", &attributes, "sum", &sum, "whole", &whole) < 0 ||
        sum < 0 || sum >= PL_S3_SUM_KINDS || strlen(h->key) > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EFORMAT, "its head is malformed");
    h->repo_id = repo_id;
    h->created_us = created;
    h->sum = (enum pl_s3_sum_kind)sum;
    h->whole = whole;
    return hex_read(attributes, &h->attributes, err);
}

static json_t *part_json(const struct pl_s3_part *p)
{
    _cleanup_(pl_buf_finish) struct pl_buf entry = {0};
    _cleanup_free_ char *hex = NULL;
    char md5[2 * sizeof p->md5 + 1], sum[2 * sizeof p->sum + 1];

    if (pl_entry_encode(&p->entry, &entry, NULL) < 0 || !(hex = hex_or_null(&entry)))
        return NULL;
    pl_hex_encode(p->md5, sizeof p->md5, md5);
    pl_hex_encode(p->sum, sizeof p->sum, sum);
    return json_pack("{s:i, s:I, s:s, s:i, s:s, s:s}", "part", (int)p->number, "at_us", (json_int_t)p->at_us, "md5", md5,
                     "sum_kind", (int)p->sum_kind, "sum", sum, "entry", hex);
}

/* Reads the line of a part. One without sum_kind, as older daemons wrote it, has a checksum of the kind `of_head`; if that is
 * none, it is not known what checked the part. */
static int read_part(const json_t *o, enum pl_s3_sum_kind of_head, struct pl_s3_part *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    const char *md5, *sum, *entry;
    json_int_t at_us;
    struct pl_cursor c;
    int number, sum_kind = -1, r;

    if (json_unpack_ex((json_t *)(uintptr_t)o, NULL, JSON_STRICT, "{s:i, s:I, s:s, s?i, s:s, s:s}", "part", &number, "at_us",
                       &at_us, "md5", &md5, "sum_kind", &sum_kind, "sum", &sum, "entry", &entry) < 0 ||
        sum_kind < -1 || sum_kind >= PL_S3_SUM_KINDS || (of_head && sum_kind >= 0 && sum_kind != (int)of_head) || number < 1 ||
        number > (int)PL_S3_PARTS_MAX || strlen(md5) != 2 * sizeof ret->md5 || strlen(sum) > 2 * sizeof ret->sum ||
        strlen(sum) % 2 || !pl_hex_decode(md5, ret->md5, sizeof ret->md5) || !pl_hex_decode(sum, ret->sum, strlen(sum) / 2))
        return pl_err_set(err, PL_EFORMAT, "a line does not describe a part");
    ret->number = (unsigned)number;
    ret->at_us = at_us;
    ret->sum_kind = sum_kind < 0 ? of_head : (enum pl_s3_sum_kind)sum_kind;
    ret->sum_unknown = sum_kind < 0 && !of_head;
    r = hex_read(entry, &bytes, err);
    c = pl_cursor_of(bytes.data, bytes.len);
    return r < 0 ? r : pl_entry_decode(&c, &ret->entry, err);
}

/* ---- parts ---- */

static size_t find_part(const struct pl_s3_upload *u, unsigned number)
{
    size_t lo = 0, hi = u->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (u->parts[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Makes space for one more part. */
static int reserve_part(struct pl_s3_upload *u, struct pl_err *err)
{
    size_t cap = u->cap ? 2 * u->cap : 16;
    struct pl_s3_part *parts;

    if (u->n < u->cap)
        return 0;
    parts = reallocarray(u->parts, cap, sizeof *parts);
    if (!parts)
        return pl_err_nomem(err);
    u->parts = parts;
    u->cap = cap;
    return 0;
}

static void set_part(struct pl_s3_upload *u, const struct pl_s3_part *p)
{
    size_t at = find_part(u, p->number);

    if (at == u->n || u->parts[at].number != p->number) {
        memmove(u->parts + at + 1, u->parts + at, (u->n++ - at) * sizeof *u->parts);
        pthread_mutex_lock(&u->all->lock);
        u->all->n_parts++;
        pthread_mutex_unlock(&u->all->lock);
    }
    u->parts[at] = *p;
}

static int no_upload(struct pl_err *err)
{
    return pl_s3_error(err, PL_S3_NO_SUCH_UPLOAD);
}

/* Checks that the upload is in progress and may get another part. The caller holds u->lock. */
static int check_open(struct pl_s3_upload *u, struct pl_err *err)
{
    bool ended, full;

    pthread_mutex_lock(&u->all->lock);
    ended = u->ended;
    full = u->all->n_parts >= PL_S3_PARTS_ALL_MAX;
    pthread_mutex_unlock(&u->all->lock);
    if (ended)
        return no_upload(err);
    return full ? pl_err_set(err, PL_S3_SLOW_DOWN, "All uploads together have more than %u parts: complete or abort some.",
                             PL_S3_PARTS_ALL_MAX)
                : 0;
}

int pl_s3_upload_add(struct pl_s3_upload *u, const struct pl_s3_part *part, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *o = part_json(part);
    int r = o ? 0 : pl_err_nomem(err);

    pthread_mutex_lock(&u->lock);
    r = r < 0 ? r : check_open(u, err);
    r = r < 0 ? r : reserve_part(u, err);
    r = r < 0 ? r : write_line(u, o, err);
    if (r == 0)
        set_part(u, part);
    u->touched_ms = pl_clock_mono_ms();
    pthread_mutex_unlock(&u->lock);
    return r;
}

int pl_s3_upload_parts(struct pl_s3_upload *u, struct pl_s3_part **ret, size_t *ret_n, struct pl_err *err)
{
    struct pl_s3_part *parts;

    pthread_mutex_lock(&u->lock);
    parts = calloc(u->n + 1, sizeof *parts);
    if (parts && u->n)
        memcpy(parts, u->parts, u->n * sizeof *parts);
    *ret_n = u->n;
    pthread_mutex_unlock(&u->lock);
    *ret = parts;
    return parts ? 0 : pl_err_nomem(err);
}

/* ---- begin and end ---- */

/* Adds the upload to the map; the map gets a reference of its own. */
static int adopt(struct pl_s3_upload *u, struct pl_err *err)
{
    struct pl_s3_upload_files *all = u->all;
    int r;

    pthread_mutex_lock(&all->lock);
    r = pl_map_put(&all->map, u->id, PL_S3_UPLOAD_ID_HEX, u, NULL, err);
    u->refs += r == 0;
    pthread_mutex_unlock(&all->lock);
    return r;
}

/* Ends the uploads that `fits` selects; `with` is its second argument. `why` is the reason for the log. */
static void drop_some(struct pl_s3_upload_files *all, bool (*fits)(const struct pl_s3_upload *u, int64_t with), int64_t with,
                      const char *why)
{
    const struct pl_map_slot *slot;
    struct pl_s3_upload **found;
    size_t i = 0, n = 0;

    pthread_mutex_lock(&all->lock);
    found = calloc(all->map.len + 1, sizeof(struct pl_s3_upload *));
    while (found && (slot = pl_map_next(&all->map, &i))) {
        if (!fits(slot->value, with))
            continue;
        found[n] = slot->value;
        found[n++]->refs++;
    }
    pthread_mutex_unlock(&all->lock);
    for (i = 0; i < n; i++) {
        struct pl_err err = {0};
        int r = pl_s3_upload_end(found[i], NULL, &err);

        if (r == 0)
            pl_log_info("s3", "multipart upload %s of key %s was dropped: %s", found[i]->id, found[i]->head.key, why);
        else if (r != PL_S3_NO_SUCH_UPLOAD)
            pl_log_warn("s3", "cannot drop multipart upload %s: %s", found[i]->id, err.msg);
        pl_s3_upload_unref(found[i]);
    }
    free(found);
}

static bool is_idle(const struct pl_s3_upload *u, int64_t now_ms)
{
    return now_ms - u->touched_ms > PL_S3_UPLOAD_IDLE_US / 1000;
}

static void drop_idle(struct pl_s3_upload_files *all)
{
    drop_some(all, is_idle, pl_clock_mono_ms(), "no part was uploaded for a week");
}

static bool is_of_repo(const struct pl_s3_upload *u, int64_t repo_id)
{
    return u->head.repo_id == repo_id;
}

void pl_s3_upload_files_drop_repo(struct pl_s3_upload_files *all, int64_t repo_id)
{
    drop_some(all, is_of_repo, repo_id, "its repo was deleted");
}

static int check_room(struct pl_s3_upload_files *all, const char *author, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    size_t i = 0, of_author = 0, n;

    pthread_mutex_lock(&all->lock);
    n = all->map.len;
    while ((slot = pl_map_next(&all->map, &i)))
        of_author += pl_streq(((const struct pl_s3_upload *)slot->value)->head.author, author);
    pthread_mutex_unlock(&all->lock);
    if (of_author >= PL_S3_UPLOADS_AUTHOR_MAX)
        return pl_err_set(err, PL_S3_SLOW_DOWN, "%s has %zu uploads in progress, which is the limit: complete or abort some.",
                          author, of_author);
    return n < PL_S3_UPLOADS_MAX
               ? 0
               : pl_err_set(err, PL_S3_SLOW_DOWN, "%u uploads are in progress, which is the limit: complete or abort some.",
                            PL_S3_UPLOADS_MAX);
}

/* Creates the file and writes its head. */
static int make_file(struct pl_s3_upload *u, const json_t *head, struct pl_err *err)
{
    _cleanup_close_ int fd = open(u->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? pl_err_errno(err, errno, "create %s", u->path) : write_line(u, head, err);

    return r < 0 ? r : pl_io_fsync_dir(u->all->dir, err);
}

int pl_s3_upload_create(struct pl_s3_upload_files *all, const struct pl_s3_upload_head *head, struct pl_s3_upload **ret,
                        struct pl_err *err)
{
    uint8_t random[PL_S3_UPLOAD_ID_HEX / 2];
    char id[PL_S3_UPLOAD_ID_HEX + 1];
    struct pl_s3_upload *u;
    json_t *o;
    int r;

    drop_idle(all);
    r = check_room(all, head->author, err);
    if (r < 0)
        return r;
    o = head_json(head);
    pl_random_bytes(random, sizeof random);
    pl_hex_encode(random, sizeof random, id);
    u = o ? upload_new(all, id) : NULL;
    if (!u) {
        json_decref(o);
        return pl_err_nomem(err);
    }
    r = read_head(u, o, err);
    u->touched_ms = pl_clock_mono_ms();
    r = r < 0 ? r : make_file(u, o, err);
    r = r < 0 ? r : adopt(u, err);
    if (r < 0) {
        unlink(u->path);
        upload_free(u);
        return r;
    }
    *ret = u;
    return 0;
}

static bool is_of(const struct pl_s3_upload *u, const char *project, const char *repo, const char *branch)
{
    return pl_streq(u->head.repo, repo) && pl_streq(u->head.branch, branch) && pl_streq(u->head.project, project);
}

int pl_s3_upload_find(struct pl_s3_upload_files *all, const char *project, const char *repo, const char *branch, const char *key,
                      const char *id, struct pl_s3_upload **ret, struct pl_err *err)
{
    struct pl_s3_upload *u;

    pthread_mutex_lock(&all->lock);
    u = strlen(id) == PL_S3_UPLOAD_ID_HEX ? pl_map_get(&all->map, id, PL_S3_UPLOAD_ID_HEX) : NULL;
    if (u && !(is_of(u, project, repo, branch) && pl_streq(u->head.key, key)))
        u = NULL;
    if (u)
        u->refs++;
    pthread_mutex_unlock(&all->lock);
    if (!u)
        return no_upload(err);
    *ret = u;
    return 0;
}

static void make_ended(const struct pl_s3_upload *u, const struct pl_s3_result *result, struct pl_s3_ended *ret)
{
    *ret = (struct pl_s3_ended){.repo_id = u->head.repo_id, .at_us = pl_clock_wall_us(), .result = *result};
    snprintf(ret->branch, sizeof ret->branch, "%s", u->head.branch);
    snprintf(ret->id, sizeof ret->id, "%s", u->id);
    snprintf(ret->key, sizeof ret->key, "%s", u->head.key);
}

int pl_s3_upload_end(struct pl_s3_upload *u, const struct pl_s3_result *result, struct pl_err *err)
{
    struct pl_s3_upload_files *all = u->all;
    struct pl_s3_ended ended;
    char gone[PL_ID_HEX + 1] = "";
    bool was;
    int r = 0;

    if (result)
        make_ended(u, result, &ended);
    pthread_mutex_lock(&u->lock);
    pthread_mutex_lock(&all->lock);
    was = u->ended;
    u->ended = true;
    if (!was) {
        pl_map_remove(&all->map, u->id, PL_S3_UPLOAD_ID_HEX);
        all->n_parts -= u->n;
        u->refs--; /* drops the map's reference; the caller still has one */
        if (result)
            pl_s3_ended_add(all->ended, &ended, gone);
    }
    pthread_mutex_unlock(&all->lock);
    pthread_mutex_unlock(&u->lock);
    if (was)
        return no_upload(err);
    if (result)
        r = pl_s3_ended_write(all->dir, &ended, gone, err);
    if (r < 0)
        /* the upload's file stays: after a restart the client can complete it again with the same parts */
        return pl_err_wrap(err, r, "cannot store the result of the completed upload");
    if (unlink(u->path) < 0 && errno != ENOENT)
        r = pl_err_errno(err, errno, "remove %s", u->path);
    return r < 0 ? r : pl_io_fsync_dir(all->dir, err);
}

bool pl_s3_upload_ended(struct pl_s3_upload_files *all, int64_t repo_id, const char *branch, const char *id, const char *key,
                        struct pl_s3_result *ret)
{
    const struct pl_s3_ended *e;
    bool found;

    pthread_mutex_lock(&all->lock);
    e = pl_s3_ended_find(all->ended, id);
    found = e && e->repo_id == repo_id && pl_streq(e->branch, branch) && pl_streq(e->key, key);
    if (found)
        *ret = e->result;
    pthread_mutex_unlock(&all->lock);
    return found;
}

/* ---- lists ---- */

static int by_key(const void *a, const void *b)
{
    struct pl_s3_upload *const *x = a, *const *y = b;
    int order = strcmp((*x)->head.key, (*y)->head.key);

    return order ? order : strcmp((*x)->id, (*y)->id);
}

/* Lists the uploads of a project; `repo` NULL: of all its repos. */
static int list(struct pl_s3_upload_files *all, const char *project, const char *repo, const char *branch,
                struct pl_s3_upload ***ret, size_t *ret_n, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    struct pl_s3_upload **found;
    size_t i = 0, n = 0;

    pthread_mutex_lock(&all->lock);
    found = calloc(all->map.len + 1, sizeof(struct pl_s3_upload *));
    while (found && (slot = pl_map_next(&all->map, &i))) {
        struct pl_s3_upload *u = slot->value;

        if (repo ? !is_of(u, project, repo, branch) : !pl_streq(u->head.project, project))
            continue;
        u->refs++;
        found[n++] = u;
    }
    pthread_mutex_unlock(&all->lock);
    if (!found)
        return pl_err_nomem(err);
    qsort(found, n, sizeof(struct pl_s3_upload *), by_key);
    *ret = found;
    *ret_n = n;
    return 0;
}

int pl_s3_upload_files_list(struct pl_s3_upload_files *all, const char *project, const char *repo, const char *branch,
                            struct pl_s3_upload ***ret, size_t *ret_n, struct pl_err *err)
{
    return list(all, project, repo, branch, ret, ret_n, err);
}

int pl_s3_upload_files_keep(struct pl_s3_upload_files *all, const char *project,
                            int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err), void *self,
                            struct pl_err *err)
{
    _cleanup_free_ struct pl_s3_upload **found = NULL;
    size_t n = 0;
    int r;

    drop_idle(all);
    r = list(all, project, NULL, NULL, &found, &n, err);

    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&found[i]->lock);
        for (size_t k = 0; k < found[i]->n && r == 0; k++)
            r = fn(self, &found[i]->parts[k].entry, err);
        pthread_mutex_unlock(&found[i]->lock);
        pl_s3_upload_unref(found[i]);
    }
    return r;
}

/* ---- start ---- */

/* Returns the JSON of the line at `*at` and advances past it; NULL if the line is torn or damaged. */
static json_t *next_line(const struct pl_buf *file, size_t *at)
{
    const char *line = (const char *)file->data + *at, *end = memchr(line, '\n', file->len - *at);
    size_t len = end ? (size_t)(end - line) : 0;
    uint8_t stored[HASH_HEX / 2];
    uint64_t hash = 0;

    if (len <= HASH_HEX + 1 || line[HASH_HEX] != ' ' || !pl_hex_decode(line, stored, sizeof stored))
        return NULL;
    for (size_t i = 0; i < sizeof stored; i++)
        hash = hash << 8 | stored[i];
    if (hash != pl_xxh64(line + HASH_HEX + 1, len - HASH_HEX - 1, 0))
        return NULL;
    *at += len + 1;
    return json_loadb(line + HASH_HEX + 1, len - HASH_HEX - 1, JSON_REJECT_DUPLICATES, NULL);
}

/* Reads the head line and the parts of an upload's file. Cuts off a last line that is torn. */
static int read_lines(struct pl_s3_upload *u, const struct pl_buf *file, struct pl_err *err)
{
    struct pl_s3_part part;
    size_t at = 0;
    json_t *o = next_line(file, &at);
    int r = o ? read_head(u, o, err) : pl_err_set(err, PL_ECORRUPT, "its head is damaged");

    while (r == 0 && at < file->len) {
        o = next_line(file, &at);
        if (!o)
            break;
        r = read_part(o, u->head.sum, &part, err);
        r = r < 0 ? r : reserve_part(u, err);
        if (r == 0)
            set_part(u, &part);
        json_decref(o);
    }
    /* only the last line can be torn, because each line is on the disk before the next is begun */
    if (r == 0 && at < file->len) {
        const uint8_t *end = memchr(file->data + at, '\n', file->len - at);

        if (end && end + 1 < file->data + file->len)
            return pl_err_set(err, PL_ECORRUPT, "a line before the last one is damaged");
        if (truncate(u->path, (off_t)at) < 0)
            return pl_err_errno(err, errno, "cut %s", u->path);
    }
    return r;
}

static void set_aside(const struct pl_s3_upload *u, const struct pl_err *why)
{
    char aside[PATH_MAX + 16];

    snprintf(aside, sizeof aside, "%s.damaged", u->path);
    pl_log_warn("s3", "multipart upload %s cannot be read and its file is renamed to %s: %s", u->id, aside, why->msg);
    if (rename(u->path, aside) < 0)
        pl_log_warn("s3", "cannot rename %s: %s", u->path, strerror(errno));
}

/* Reads the file of one upload at the start. A damaged file is renamed (set_aside); other errors are
 * returned. */
static int read_one(struct pl_s3_upload_files *all, const char *id, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf file = {.max = FILE_MAX};
    struct pl_s3_upload *u = upload_new(all, id);
    struct pl_err why = {0};
    int64_t last_us;
    int r;

    if (!u)
        return pl_err_nomem(err);
    r = pl_io_read_file(u->path, &file, &why);
    r = r < 0 ? r : read_lines(u, &file, &why);
    last_us = u->head.created_us;
    for (size_t i = 0; i < u->n; i++)
        last_us = PL_MAX(last_us, u->parts[i].at_us);
    u->touched_ms = pl_clock_mono_ms() - PL_MAX(0, all->now_us - last_us) / 1000;
    r = r < 0 ? r : adopt(u, &why);
    if (r == 0) {
        pl_s3_upload_unref(u);
        return 0;
    }
    if (r == PL_ECORRUPT || r == PL_EFORMAT) {
        set_aside(u, &why);
        r = 0;
    }
    all->n_parts -= u->n;
    upload_free(u);
    if (r < 0)
        *err = why;
    return r;
}

static int read_all(struct pl_s3_upload_files *all, struct pl_err *err)
{
    DIR *dir = opendir(all->dir);
    const struct dirent *e;
    int r = 0;

    if (!dir)
        return pl_err_errno(err, errno, "list %s", all->dir);
    while (r == 0 && (e = readdir(dir))) {
        char id[PL_S3_UPLOAD_ID_HEX + 1];

        if (strlen(e->d_name) != PL_S3_UPLOAD_ID_HEX + strlen(SUFFIX) || !pl_streq(e->d_name + PL_S3_UPLOAD_ID_HEX, SUFFIX))
            continue;
        snprintf(id, sizeof id, "%.*s", (int)PL_S3_UPLOAD_ID_HEX, e->d_name);
        r = read_one(all, id, err);
    }
    closedir(dir);
    return r;
}

int pl_s3_upload_files_open(const char *dir, int64_t now_us, struct pl_s3_upload_files **ret, struct pl_err *err)
{
    struct pl_s3_upload_files *all = calloc(1, sizeof *all);
    struct pl_err why = {0};
    int r;

    if (!all)
        return pl_err_nomem(err);
    pthread_mutex_init(&all->lock, NULL);
    all->dir = strdup(dir);
    all->now_us = now_us;
    r = all->dir ? pl_io_mkdirs(dir, 0700, &why) : pl_err_nomem(&why);
    r = r < 0 ? r : pl_s3_ended_open(dir, &all->ended, &why);
    r = r < 0 ? r : read_all(all, &why);
    if (r == 0)
        drop_idle(all);
    if (r < 0) {
        if (err)
            *err = why;
        pl_s3_upload_files_close(all);
        return pl_err_wrap(err, r, "uploads");
    }
    *ret = all;
    return 0;
}

struct pl_s3_upload_files *pl_s3_upload_files_close(struct pl_s3_upload_files *all)
{
    const struct pl_map_slot *slot;
    size_t i = 0;

    if (!all)
        return NULL;
    while ((slot = pl_map_next(&all->map, &i)))
        upload_free(slot->value);
    pl_map_finish(&all->map, NULL);
    pthread_mutex_destroy(&all->lock);
    pl_s3_ended_close(all->ended);
    free(all->dir);
    free(all);
    return NULL;
}
