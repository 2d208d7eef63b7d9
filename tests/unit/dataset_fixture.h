/* dataset_fixture: a folder of its own for each test, with a store in it, and a few files to put there. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/base/hash.h"
#include "storage/dataset/checkout/checkout.h"
#include "storage/dataset/commit/pack_node_sink.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"
#include "storage/system/io.h"
#include "storage/tree_edit/tree_edit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define print_to(out, size, ...) assert_true((size_t)snprintf((out), (size), __VA_ARGS__) < (size))

struct fixture {
    char dir[64];
    struct pl_object_store *objects;
    struct pl_store *store;
    struct pl_err err;
};

/* The call succeeds; its message is shown when it does not. */
#define OK(f, call)                                                                                                              \
    do {                                                                                                                         \
        int ok_r_ = (int)(call);                                                                                                 \
        if (ok_r_ < 0)                                                                                                           \
            fail_msg("%s: %d %s", #call, ok_r_, (f)->err.msg);                                                                   \
    } while (0)
/* It fails with `code`, and the message has `part` in it. */
#define FAILS(f, call, want, part)                                                                                               \
    do {                                                                                                                         \
        (f)->err = (struct pl_err){0};                                                                                           \
        assert_int_equal((int)(call), (want));                                                                                   \
        if (strstr((f)->err.msg, (part)) == NULL)                                                                                \
            fail_msg("\"%s\" is not in: %s", (part), (f)->err.msg);                                                              \
    } while (0)

static inline void fixture_open_store(struct fixture *f)
{
    char path[PATH_MAX];

    print_to(path, sizeof(path), "%s/store", f->dir);
    OK(f, pl_object_file_open(path, &f->objects, &f->err));
    OK(f, pl_store_open(f->objects, "default", NULL, &f->store, &f->err));
}

static inline void fixture_close_store(struct fixture *f)
{
    f->store = pl_store_close(f->store);
    f->objects = pl_object_close(f->objects);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const char *base = getenv("TMPDIR");

    print_to(f->dir, sizeof(f->dir), "%s/pl-dataset-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    fixture_open_store(f);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    for (int call = 0; call < PL_IO_CALLS; call++)
        pl_io_fail_nth((enum pl_io_call)call, 0, 0);
    fixture_close_store(f);
    OK(f, pl_io_remove_tree(f->dir, &f->err));
    free(f);
    return 0;
}

/* "<dir>/<path>"; up to four results live at once. */
static inline const char *at(const struct fixture *f, const char *path)
{
    static char out[4][PATH_MAX];
    static unsigned next;
    char *s = out[next++ % 4];

    print_to(s, PATH_MAX, "%s/%s", f->dir, path);
    return s;
}

static inline void put_folder(struct fixture *f, const char *path)
{
    OK(f, pl_io_mkdirs(at(f, path), 0755, &f->err));
}

/* Makes the file and the folders above it. */
static inline void put_bytes(struct fixture *f, const char *path, const void *data, size_t n, mode_t mode)
{
    char parent[PATH_MAX];
    int fd;

    print_to(parent, sizeof(parent), "%s", at(f, path));
    *strrchr(parent, '/') = '\0';
    OK(f, pl_io_mkdirs(parent, 0755, &f->err));
    fd = open(at(f, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    OK(f, pl_io_write(fd, data, n, path, &f->err));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static inline void put_text(struct fixture *f, const char *path, const char *text)
{
    put_bytes(f, path, text, strlen(text), 0644);
}

/* `n` bytes that follow from `seed`. */
static inline uint8_t *noise(size_t n, uint64_t seed)
{
    uint8_t *p = malloc(n + 8);

    assert_non_null(p);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pl_splitmix64(&seed);

        memcpy(p + i, &v, 8);
    }
    return p;
}

static inline void put_noise(struct fixture *f, const char *path, size_t n, uint64_t seed)
{
    uint8_t *p = noise(n, seed);

    put_bytes(f, path, p, n, 0644);
    free(p);
}

static inline void put_link(struct fixture *f, const char *path, const char *target)
{
    assert_int_equal(symlink(target, at(f, path)), 0);
}

/* Ingests one folder to the root of the repo; the session is finished. */
static inline int ingest_folder(struct fixture *f, const char *path, const struct pl_ingest_options *options, struct pl_buf *ops,
                                struct pl_ingest_stats *stats)
{
    _cleanup_(pl_pack_session_closep) struct pl_pack_session *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_ingest_source source = {.local = at(f, path), .dest = ""};
    int r;

    OK(f, pl_pack_session_open(&sink, "default", &session, &f->err));
    r = pl_ingest_tree(session, &source, 1, options, ops, stats, &f->err);
    if (r == 0)
        OK(f, pl_pack_session_finish(session, &f->err));
    return r;
}

/* The operations applied on an empty tree. */
static inline struct pl_hash tree_of(struct fixture *f, const struct pl_buf *ops)
{
    _cleanup_(pl_pack_session_closep) struct pl_pack_session *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_node_source source = {.self = f->store, .get = pl_store_node_get};
    _cleanup_free_ struct pl_tree_op *list = NULL;
    struct pl_hash root = {0}, ret;
    struct pl_node_sink nodes;
    size_t n;

    OK(f, pl_pack_session_open(&sink, "default", &session, &f->err));
    nodes = pl_session_node_sink(session);
    OK(f, pl_ops_read(ops->data, ops->len, &list, &n, &f->err));
    OK(f, pl_tree_edit(&source, &nodes, &root, list, n, &ret, &f->err));
    OK(f, pl_pack_session_finish(session, &f->err));
    return ret;
}

static inline int checkout_ops(struct fixture *f, const struct pl_buf *ops, const char *dest,
                               const struct pl_checkout_options *options, struct pl_checkout_stats *stats)
{
    struct pl_chunk_reader reader = pl_store_chunk_reader(f->store);
    struct pl_ops_reader in;
    struct pl_entry_source entries = pl_entry_source_ops(&in);

    OK(f, pl_ops_reader_init(&in, ops->data, ops->len, &f->err));
    return pl_checkout(&entries, &reader, at(f, dest), options, stats, &f->err);
}
