/* Keeps the newest PL_S3_ENDED_MAX results in a ring in memory. Each result is also a file, in the folder
 * that has the files of the uploads in progress. */
#include "pipelined/s3gateway/formats/completed_uploads.h"

#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define SUFFIX         ".ended"
#define FILE_MAX_BYTES ((size_t)64 << 10)

struct pl_s3_ended_list {
    struct pl_s3_ended ring[PL_S3_ENDED_MAX]; /* an empty id marks a free slot */
    size_t next;
};

static int path_of(const char *dir, const char *id, char out[PATH_MAX], struct pl_err *err)
{
    return snprintf(out, PATH_MAX, "%s/%s" SUFFIX, dir, id) < PATH_MAX ? 0 : pl_err_set(err, PL_EINVAL, "%s is too long", dir);
}

static bool copy(const char *text, char *out, size_t size)
{
    return snprintf(out, size, "%s", text) < (int)size;
}

/* Reads one result file; PL_EFORMAT if it is malformed. */
static int read_one(const char *path, const char *id, struct pl_s3_ended *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = FILE_MAX_BYTES};
    const char *branch, *key, *etag, *version, *sum_text;
    json_int_t repo_id, at_us;
    json_t *o;
    int sum, r = pl_io_read_file(path, &text, err);

    if (r < 0)
        return r;
    o = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (!o ||
        json_unpack_ex(o, NULL, JSON_STRICT, "{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I}", "branch", &branch, "key", &key, "etag",
                       &etag, "version", &version, "sum_text", &sum_text, "sum", &sum, "repo_id", &repo_id, "at_us",
                       &at_us) < 0 ||
        sum < 0 || sum >= PL_S3_SUM_KINDS || !copy(id, ret->id, sizeof ret->id) ||
        !copy(branch, ret->branch, sizeof ret->branch) || !copy(key, ret->key, sizeof ret->key) ||
        !copy(etag, ret->result.etag, sizeof ret->result.etag) ||
        !copy(version, ret->result.version, sizeof ret->result.version) ||
        !copy(sum_text, ret->result.sum_text, sizeof ret->result.sum_text)) {
        r = pl_err_set(err, PL_EFORMAT, "it is not the result of an upload");
    } else {
        ret->result.sum = (enum pl_s3_sum_kind)sum;
        ret->repo_id = repo_id;
        ret->at_us = at_us;
    }
    json_decref(o);
    return r;
}

/* Adds the result `e`. If the ring is full, the oldest result is dropped; that may be `e` itself. */
static void keep(struct pl_s3_ended_list *l, size_t *n, const struct pl_s3_ended *e, char ret_gone[PL_ID_HEX + 1])
{
    size_t oldest = 0;

    *ret_gone = '\0';
    if (*n < PL_S3_ENDED_MAX) {
        l->ring[(*n)++] = *e;
        return;
    }
    for (size_t i = 1; i < *n; i++)
        if (l->ring[i].at_us < l->ring[oldest].at_us)
            oldest = i;
    if (l->ring[oldest].at_us > e->at_us) {
        memcpy(ret_gone, e->id, sizeof e->id);
        return;
    }
    memcpy(ret_gone, l->ring[oldest].id, sizeof e->id);
    l->ring[oldest] = *e;
}

static int by_age(const void *a, const void *b)
{
    const struct pl_s3_ended *x = a, *y = b;

    return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

/* Reads all result files in `dir`, and removes those that are malformed or exceed PL_S3_ENDED_MAX. */
static int read_all(struct pl_s3_ended_list *l, const char *dir, struct pl_err *err)
{
    struct pl_s3_ended *e = malloc(sizeof *e);
    DIR *d = e ? opendir(dir) : NULL;
    const struct dirent *entry;
    size_t n = 0;
    int r = !e ? pl_err_nomem(err) : !d ? pl_err_errno(err, errno, "list %s", dir) : 0;

    while (r == 0 && (entry = readdir(d))) {
        char id[PL_ID_HEX + 1], gone[PL_ID_HEX + 1] = "", path[PATH_MAX];
        struct pl_err why = {0};

        if (strlen(entry->d_name) != PL_ID_HEX + strlen(SUFFIX) || !pl_streq(entry->d_name + PL_ID_HEX, SUFFIX))
            continue;
        snprintf(id, sizeof id, "%.*s", PL_ID_HEX, entry->d_name);
        r = path_of(dir, id, path, err);
        *e = (struct pl_s3_ended){0};
        if (r == 0 && read_one(path, id, e, &why) < 0) {
            pl_log_warn("s3", "cannot read the upload result %s, so the file is removed: %s", path, why.msg);
            memcpy(gone, id, sizeof gone);
        } else if (r == 0) {
            keep(l, &n, e, gone);
        }
        if (*gone && path_of(dir, gone, path, NULL) == 0)
            (void)unlink(path);
    }
    if (d)
        closedir(d);
    free(e);
    qsort(l->ring, n, sizeof *l->ring, by_age);
    l->next = n % PL_S3_ENDED_MAX;
    return r;
}

int pl_s3_ended_open(const char *dir, struct pl_s3_ended_list **ret, struct pl_err *err)
{
    struct pl_s3_ended_list *l = calloc(1, sizeof *l);
    int r = l ? read_all(l, dir, err) : pl_err_nomem(err);

    if (r < 0)
        l = pl_s3_ended_close(l);
    *ret = l;
    return r;
}

struct pl_s3_ended_list *pl_s3_ended_close(struct pl_s3_ended_list *l)
{
    free(l);
    return NULL;
}

void pl_s3_ended_add(struct pl_s3_ended_list *l, const struct pl_s3_ended *e, char ret_gone[PL_ID_HEX + 1])
{
    struct pl_s3_ended *place = &l->ring[l->next++ % PL_S3_ENDED_MAX];

    memcpy(ret_gone, place->id, sizeof place->id);
    *place = *e;
}

const struct pl_s3_ended *pl_s3_ended_find(const struct pl_s3_ended_list *l, const char *id)
{
    for (size_t i = 0; *id && i < PL_S3_ENDED_MAX; i++)
        if (pl_streq(l->ring[i].id, id))
            return &l->ring[i];
    return NULL;
}

int pl_s3_ended_write(const char *dir, const struct pl_s3_ended *e, const char *gone, struct pl_err *err)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I}", "branch", e->branch, "key", e->key, "etag", e->result.etag,
                          "version", e->result.version, "sum_text", e->result.sum_text, "sum", (int)e->result.sum, "repo_id",
                          (json_int_t)e->repo_id, "at_us", (json_int_t)e->at_us);
    _cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    char path[PATH_MAX];
    int r = text ? path_of(dir, e->id, path, err) : pl_err_nomem(err);

    json_decref(o);
    r = r < 0 ? r : pl_io_write_file(path, text, strlen(text), 0600, err);
    if (*gone && path_of(dir, gone, path, NULL) == 0)
        (void)unlink(path);
    return r;
}
