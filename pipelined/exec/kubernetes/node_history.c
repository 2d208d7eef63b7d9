/* node_history.c: reads the file once; writes it on a thread of its own whenever the text has changed. */
#include "pipelined/exec/kubernetes/node_history.h"

#include "pipelined/text/json_text.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/thread_pool.h"

#include <stdatomic.h>

#define VERSION 1

struct pl_seen_nodes {
    char *path, *server;
    struct pl_pool *pool; /* pool with one thread for the writes, because disks may be slow */
    uint64_t written;     /* hash of the text that is in the file; 0 = unknown */
    atomic_bool busy;     /* a write is in progress: the writer thread owns `text`, `number` and `err` */
    /* the text that is being written, or that was written and whose result was not handled so far; else
     * NULL */
    char *text;
    uint64_t number;
    struct pl_err err; /* result of the last write */
    int told;          /* code of the last write failure that was logged */
};

static uint64_t number_of(const void *text, size_t n)
{
    const uint64_t number = pl_xxh64(text, n, 0);

    return number ? number : 1;
}

/* ---- reading the file ---- */

static int take_shape(struct pl_node_capacity *offer, json_t *shape, int64_t now_ms, struct pl_err *err)
{
    const json_t *seen = json_object_get(shape, "seen_ms");

    if (!json_is_integer(seen))
        return pl_err_set(err, PL_EINVAL, "a shape without \"seen_ms\"");
    if (json_integer_value(seen) > now_ms &&
        /* the clock was set back after the shape was seen */
        json_object_set_new(shape, "seen_ms", json_integer(now_ms)) < 0)
        return pl_err_nomem(err);
    return pl_node_capacity_shape(offer, shape, err);
}

/* Passes the file's valid shapes to `offer`; returns the first error among the invalid ones. */
static int take(const json_t *file, const char *server, struct pl_node_capacity *offer, int64_t now_ms, struct pl_err *err)
{
    const json_t *shapes = json_object_get(file, "shapes");
    const char *other = pl_json_str(file, "server");
    json_t *shape;
    size_t i;
    int r = 0;

    if (json_integer_value(json_object_get(file, "version")) != VERSION || !json_is_array(shapes))
        return pl_err_set(err, PL_EINVAL, "it is not {\"version\": %d, \"server\": …, \"shapes\": […]}", VERSION);
    if (!pl_streq(other, server))
        return pl_err_set(err, PL_EINVAL, "it belongs to another cluster: %.200s", other);
    json_array_foreach((json_t *)(uintptr_t)shapes, i, shape)
    {
        struct pl_err why = {0};
        int one = take_shape(offer, shape, now_ms, &why);

        if (one == PL_ENOMEM)
            return pl_err_nomem(err);
        if (one < 0 && r == 0)
            r = pl_err_set(err, one, "shapes[%zu]: %.400s", i, why.msg);
    }
    return r;
}

/* Reads the file. PL_ENOTFOUND: the file does not exist. */
static int read_file(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = PL_NODE_HISTORY_MAX_BYTES};
    _cleanup_(json_decrefp) json_t *file = NULL;
    json_error_t e;
    int r = pl_io_read_file(s->path, &text, err);

    if (r < 0)
        return r;
    file = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &e);
    r = file ? take(file, s->server, offer, now_ms, err) : pl_err_set(err, PL_EINVAL, "%d:%d: %s", e.line, e.column, e.text);
    if (r < 0)
        return pl_err_wrap(err, r, "%s", s->path);
    s->written = number_of(text.data, text.len);
    return 0;
}

int pl_node_history_create(const char *path, const char *server, struct pl_node_capacity *offer, int64_t now_ms,
                           struct pl_seen_nodes **ret, struct pl_err *err)
{
    struct pl_seen_nodes *s = calloc(1, sizeof *s);
    struct pl_err why = {0};
    int r;

    if (!s)
        return pl_err_nomem(err);
    s->path = strdup(path);
    s->server = strdup(server);
    r = s->path && s->server ? pl_pool_create("seen-nodes", 1, 1, &s->pool, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_node_history_destroy(s, NULL, now_ms);
        return r;
    }
    r = read_file(s, offer, now_ms, &why);
    if (r == PL_ENOMEM) {
        pl_node_history_destroy(s, NULL, now_ms);
        return pl_err_nomem(err);
    }
    if (r < 0 && r != PL_ENOTFOUND) {
        pl_log_warn("cluster", "%s: the file will be rewritten", why.msg);
        pl_node_history_keep(s, offer, now_ms);
    }
    pl_node_capacity_expire(offer, now_ms);
    *ret = s;
    return 0;
}

/* ---- writing the file ---- */

/* Makes the file's text, with times rounded down to the hour. NULL without memory. */
static char *text_of(const struct pl_seen_nodes *s, const struct pl_node_capacity *offer, int64_t now_ms)
{
    json_t *shapes = pl_node_capacity_shapes(offer, now_ms), *shape, *file;
    char *text;
    size_t i;

    json_array_foreach(shapes, i, shape)
    {
        const int64_t seen_ms = json_integer_value(json_object_get(shape, "seen_ms"));

        (void)json_object_set_new(shape, "seen_ms", json_integer(seen_ms - seen_ms % PL_NODE_HISTORY_HOUR_MS));
    }
    file = json_pack("{s:i, s:s, s:o}", "version", VERSION, "server", s->server, "shapes", shapes);
    text = file ? pl_json_text(file, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    json_decref(file);
    return text;
}

static void write_it(void *arg)
{
    struct pl_seen_nodes *s = arg;

    s->err = (struct pl_err){0};
    s->err.code = pl_io_write_file(s->path, s->text, strlen(s->text), 0600, &s->err);
    atomic_store(&s->busy, false);
}

/* Handles the result of the last write. Returns false while it is in progress. */
static bool settle(struct pl_seen_nodes *s)
{
    if (atomic_load(&s->busy))
        return false;
    if (!s->text)
        return true;
    if (s->err.code == 0)
        s->written = s->number;
    else if (s->err.code != s->told)
        pl_log_warn("cluster", "%s; retrying every minute", s->err.msg);
    s->told = s->err.code;
    free(s->text);
    s->text = NULL;
    return true;
}

void pl_node_history_keep(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms)
{
    struct pl_err err = {0};
    char *text;

    pl_node_capacity_expire(offer, now_ms);
    if (!settle(s) || !(text = text_of(s, offer, now_ms)))
        return;
    s->number = number_of(text, strlen(text));
    if (s->number == s->written) {
        free(text);
        return;
    }
    s->text = text;
    atomic_store(&s->busy, true);
    if (pl_pool_submit(s->pool, write_it, s, &err) < 0) {
        s->err = err;
        atomic_store(&s->busy, false);
    }
}

struct pl_seen_nodes *pl_node_history_destroy(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms)
{
    if (!s)
        return NULL;
    if (s->pool && offer) {
        pl_pool_drain(s->pool);
        pl_node_history_keep(s, offer, now_ms);
    }
    pl_pool_destroy(s->pool);
    (void)settle(s);
    free(s->path);
    free(s->server);
    free(s);
    return NULL;
}
