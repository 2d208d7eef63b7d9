/* Lists the packs of both stores and copies the missing ones with several threads. */
#include "storage/dataset/mirror/mirror_internal.h"

#include "storage/base/map.h"
#include "storage/pack/pack_reader.h"
#include "storage/system/thread_pool.h"

#include <stdio.h>

/* State of the copying of packs in one round. The mirror's lock guards `failed` and `err`. */
struct copying {
    struct pl_mirror *m;
    struct pl_map there; /* key → size in the target + 1, as a pointer */
    struct pl_pool *pool;
    int failed;
    struct pl_err err;
};

struct job {
    struct copying *c;
    bool replace; /* the target has an object of that key, which may be damaged */
    char key[PL_PACK_KEY_BYTES];
};

/* Extracts the project ("default" of "p/default/ab/abcd…") and the id from a pack's key; false for any
 * other key. */
static bool project_of(const char *key, char out[PL_NAME_MAX_BYTES + 1], struct pl_hash *ret_id)
{
    const char *end = strncmp(key, "p/", 2) == 0 ? strchr(key + 2, '/') : NULL;
    size_t len = end ? (size_t)(end - key) - 2 : 0;

    if (len == 0 || len > PL_NAME_MAX_BYTES || !pl_pack_key_parse(key, ret_id))
        return false;
    memcpy(out, key + 2, len);
    out[len] = '\0';
    return true;
}

static bool is_damage(int r)
{
    return r == PL_ECORRUPT || r == PL_EFORMAT || r == PL_ETOOBIG || r == PL_EIO;
}

/* Reads a pack into `bytes` and verifies all of it. */
static int read_verified(struct pl_object_store *s, const char *key, struct pl_buf *bytes, struct pl_err *err)
{
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_pack_memory memory;
    struct pl_pack_verify how = {.project = project};
    struct pl_pack_input in;
    struct pl_hash id;
    int r = pl_object_get_all(s, key, bytes, err);

    if (r < 0)
        return r;
    (void)project_of(key, project, &id); /* look_at has checked the key */
    how.claimed = &id;
    memory = (struct pl_pack_memory){bytes->data, bytes->len};
    in = pl_pack_input_memory(&memory);
    return pl_pack_verify(&in, &how, NULL, err);
}

static int tell(struct pl_mirror *m, const char *where, const char *key, const struct pl_err *why, struct pl_err *err)
{
    char what[PL_ERR_MSG_BYTES + 64];
    int r;

    snprintf(what, sizeof what, "damaged in the %s: %s", where, why->msg);
    pthread_mutex_lock(&m->lock);
    r = pl_mirror_tell(m, key, what, err);
    pthread_mutex_unlock(&m->lock);
    return r;
}

/* Returns 1 if the target's pack is good, 0 if it must be replaced. */
static int check_there(struct pl_mirror *m, const char *key, struct pl_buf *bytes, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = read_verified(m->to, key, bytes, &why);

    if (r == 0)
        return 1;
    if (is_damage(r) || r == PL_ENOTFOUND)
        return 0;
    if (err)
        *err = why;
    return r;
}

/* Copies a pack from the source after verifying it. With the option `full`, a pack of the target that is
 * intact is not replaced. */
static int copy(struct pl_mirror *m, const char *key, bool replace, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_err why = {0};
    struct iovec iov;
    int r = 0;

    if (replace && m->options->full) {
        r = check_there(m, key, &bytes, err);
        if (r != 0)
            return PL_MIN(r, 0);
    }
    r = read_verified(m->from, key, &bytes, &why);
    /* garbage collection removed the pack after it was listed; pl_mirror_dooms will find the `doomed`
     * record in the log */
    if (r == PL_ENOTFOUND)
        return 0;
    if (r < 0 && is_damage(r))
        return tell(m, "source", key, &why, err);
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    iov = (struct iovec){bytes.data, bytes.len};
    r = pl_object_put(m->to, key, &iov, 1, !replace, err);
    if (r < 0 && r != PL_EEXISTS)
        return r;
    pthread_mutex_lock(&m->lock);
    m->sum->packs += !replace;
    m->sum->replaced += replace;
    m->sum->bytes += bytes.len;
    pthread_mutex_unlock(&m->lock);
    return 0;
}

/* Runs on the pool. */
static void run_job(void *arg)
{
    struct job *job = arg;
    struct copying *c = job->c;
    struct pl_mirror *m = c->m;
    struct pl_err err = {0};
    int r = pl_mirror_stopped(m, &err);

    r = r < 0 ? r : copy(m, job->key, job->replace, &err);
    if (r < 0)
        r = r == PL_ECANCELED ? r : pl_err_wrap(&err, r, "%s", job->key);
    pthread_mutex_lock(&m->lock);
    if (r < 0 && c->failed == 0) {
        c->failed = r;
        c->err = err;
    }
    pl_mirror_progress(m, "packs", ++m->looked_at);
    pthread_mutex_unlock(&m->lock);
    free(job);
}

static int failed(struct copying *c, struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&c->m->lock);
    r = c->failed;
    if (r < 0 && err)
        *err = c->err;
    pthread_mutex_unlock(&c->m->lock);
    return r;
}

static int note_there(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct copying *c = arg;

    return pl_map_put(&c->there, key, strlen(key), (void *)(uintptr_t)(size + 1), NULL, err);
}

/* Called for each pack of the source: submits a job if the pack must be copied, or with `full` verified. */
static int look_at(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct copying *c = arg;
    uintptr_t there = (uintptr_t)pl_map_get(&c->there, key, strlen(key));
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_hash id;
    struct job *job;
    int r = failed(c, err);

    if (r < 0 || !project_of(key, project, &id))
        return r;
    if (there == size + 1) {
        pthread_mutex_lock(&c->m->lock);
        c->m->sum->there++;
        pthread_mutex_unlock(&c->m->lock);
        if (!c->m->options->full)
            return 0;
    }
    job = malloc(sizeof *job);
    if (!job)
        return pl_err_nomem(err);
    *job = (struct job){.c = c, .replace = there != 0};
    snprintf(job->key, sizeof job->key, "%s", key);
    r = pl_pool_submit_wait(c->pool, run_job, job, err);
    if (r < 0)
        free(job);
    return r;
}

int pl_mirror_packs(struct pl_mirror *m, struct pl_err *err)
{
    struct copying c = {.m = m};
    unsigned threads = m->options->threads ? m->options->threads : pl_cores();
    int r;

    threads = PL_MIN(threads, PL_MIRROR_THREADS_MAX);
    m->looked_at = 0;
    r = pl_object_list(m->to, "p/", note_there, &c, err);
    if (r < 0) {
        pl_map_finish(&c.there, NULL);
        return pl_err_wrap(err, r, "target");
    }
    r = pl_pool_create("mirror", threads, threads, &c.pool, err);
    if (r == 0) {
        r = pl_object_list(m->from, "p/", look_at, &c, err);
        pl_pool_destroy(c.pool);
    }
    pl_map_finish(&c.there, NULL);
    r = r < 0 ? r : failed(&c, err);
    return r < 0 ? r : pl_object_flush(m->to, err);
}
