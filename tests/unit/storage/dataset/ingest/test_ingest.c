// link: storage/base storage/chunk storage/dataset/checkout storage/dataset/commit storage/dataset/file storage/dataset/ingest storage/pack storage/store storage/system storage/tree_edit
/* Ingest: files of this machine become chunks and operations, the same whoever reads them; and nothing is taken that cannot be given
 * back. */
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/chunk/chunk.h"
#include "storage/chunk/chunk_scan.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/large_file.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

/* --- fixtures --- */

static void name_255(char out[PL_SEGMENT_MAX_BYTES + 1])
{
    memset(out, 'n', PL_SEGMENT_MAX_BYTES);
    out[PL_SEGMENT_MAX_BYTES] = '\0';
}

/* What a folder can hold, with every size at which something changes. */
static void put_nasty_tree(struct fixture *f)
{
    static const size_t sizes[] = {0,     1,      64,     65,       4096,           65535,      65536,
                                   65537, 262144, 262145, 3u << 20, (8u << 20) - 1, (8u << 20), (9u << 20) + 12345};
    char name[PL_SEGMENT_MAX_BYTES + 1], path[PATH_MAX];

    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        print_to(path, sizeof(path), "in/sizes/%zu.bin", sizes[i]);
        put_noise(f, path, sizes[i], i + 1);
    }
    name_255(name);
    print_to(path, sizeof(path), "in/%s", name);
    put_text(f, path, "long name");
    put_text(f, "in/a/b", "a/b sorts after a-b and a.b, before a0");
    put_text(f, "in/a-b", "1");
    put_text(f, "in/a.b", "2");
    put_text(f, "in/a0", "3");
    put_text(f,
             "in/\xC3\xBC"
             "ber/\xE6\x97\xA5\xE6\x9C\xAC/\xF0\x9F\x90\xB1.txt",
             "unicode");
    put_text(f, "in/with space/and 'quotes\"", "x");
    put_bytes(f, "in/run.sh", "#!/bin/sh\n", 10, 0755);
    put_folder(f, "in/empty/inner");
    put_folder(f, "in/empty2");
    put_link(f, "in/link", "a/b");
    put_link(f, "in/a/up", "../run.sh");
    put_link(f, "in/dangling", "nowhere");
}

static void put_zeros(struct fixture *f, const char *path, size_t n)
{
    uint8_t *p = calloc(1, n);

    put_bytes(f, path, p, n, 0644);
    free(p);
}

struct ops_list {
    struct pl_tree_op *ops;
    size_t n;
};

static const struct pl_tree_op *op_find(const struct ops_list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->ops[i].path_len == strlen(path) && memcmp(l->ops[i].path, path, l->ops[i].path_len) == 0)
            return &l->ops[i];
    }
    return NULL;
}

static struct ops_list ops_of(struct fixture *f, const struct pl_buf *ops)
{
    struct ops_list l;

    OK(f, pl_tree_ops_read(ops->data, ops->len, &l.ops, &l.n, &f->err));
    return l;
}

/* --- the same result --- */

static void any_number_of_threads_gives_the_same_operations(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf first = {0};

    put_nasty_tree(f);
    for (unsigned threads = 1; threads <= 4; threads++) {
        _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
        struct pl_ingest_options o = {.threads = threads};
        struct pl_ingest_stats stats;

        OK(f, ingest_folder(f, "in", &o, &ops, &stats));
        assert_int_equal(stats.cached, 0);
        if (threads == 1) {
            OK(f, pl_buf_add(&first, ops.data, ops.len, &f->err));
            continue;
        }
        assert_int_equal(ops.len, first.len);
        assert_memory_equal(ops.data, first.data, first.len);
    }
}

struct memory_stream {
    const uint8_t *p;
    size_t n, piece;
};

static ssize_t memory_read(void *self, void *out, size_t n, struct pl_err *err)
{
    struct memory_stream *m = self;

    (void)err;
    n = PL_MIN(PL_MIN(n, m->n), m->piece);
    if (n > 0)
        memcpy(out, m->p, n);
    m->p += n;
    m->n -= n;
    return (ssize_t)n;
}

static void a_stream_gives_the_entry_of_the_file(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {0, 64, 65, 65536, 65537, 200000, (3u << 20) + 7, (8u << 20) + 1, (21u << 20) + 3};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(f->store);

    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
        _cleanup_free_ uint8_t *bytes = noise(sizes[i], 77);
        struct memory_stream m = {.p = bytes, .n = sizes[i], .piece = i % 2 == 0 ? 1000 : SIZE_MAX};
        struct pl_ingest_source source = {.local = at(f, "one"), .dest = "one"};
        struct pl_ingest_options o = {.threads = 3};
        struct pl_entry entry;
        struct ops_list l;

        put_bytes(f, "one", bytes, sizes[i], 0644);
        OK(f, pl_ingest_tree(session, &source, 1, &o, &ops, NULL, &f->err));
        OK(f, pl_file_write_stream(session, PL_KIND_FILE, memory_read, &m, &entry, &f->err));
        l = ops_of(f, &ops);
        assert_int_equal(l.n, 1);
        assert_true(pl_entry_eq(&l.ops[0].entry, &entry));
        assert_int_equal(entry.size, sizes[i]);
        free(l.ops);
    }
}

/* The two-pass cuts are those of the scalar definition, for data where candidates are rare, frequent and absent. */
static void shared_files_are_cut_as_the_format_says(void **state)
{
    struct fixture *f = *state;
    struct pl_file_write_sink sink = pl_file_write_sink_hash_only();
    _cleanup_free_ uint8_t *buffer = malloc(PL_FILE_WRITE_BUFFER_BYTES);
    const size_t n = (13u << 20) + 4097;

    for (unsigned fill = 0; fill < 4; fill++) {
        _cleanup_free_ uint8_t *bytes = noise(n, fill + 5);
        _cleanup_(pl_large_file_job_destroyp) struct pl_large_file_job *job = NULL;
        _cleanup_(pl_large_file_buffer_finish) struct pl_large_file_buffer segment = {0};
        struct memory_stream m = {.p = bytes, .n = n, .piece = SIZE_MAX};
        struct pl_entry scalar, shared;
        int fd;

        if (fill == 1)
            memset(bytes, 0, n);
        for (size_t i = 0; fill == 2 && i < n; i++)
            bytes[i] = (uint8_t) "abcabcabd"[i % 9];
        if (fill == 3)
            memset(bytes + (3u << 20), 7, 6u << 20);
        put_bytes(f, "big", bytes, n, 0644);
        fd = open(at(f, "big"), O_RDONLY | O_CLOEXEC);
        OK(f, pl_file_write_entry(&sink, buffer, PL_KIND_FILE, memory_read, &m, &scalar, &f->err));
        OK(f, pl_large_file_buffer_init(&segment, &f->err));
        OK(f, pl_large_file_job_create(fd, n, &sink, NULL, &job, &f->err));
        pl_large_file_job_help(job, &segment);
        OK(f, pl_large_file_job_finish(job, PL_KIND_FILE, &shared, &f->err));
        close(fd);
        assert_true(pl_entry_eq(&scalar, &shared));
    }
}

static void kinds_sizes_and_order_are_those_of_the_folder(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_ingest_stats stats;
    struct ops_list l;
    size_t files = 0;

    put_nasty_tree(f);
    OK(f, ingest_folder(f, "in", NULL, &ops, &stats));
    l = ops_of(f, &ops);
    for (size_t i = 0; i < l.n; i++)
        files += l.ops[i].entry.kind != PL_KIND_DIR;
    assert_int_equal(stats.files, files);
    assert_int_equal(op_find(&l, "run.sh")->entry.kind, PL_KIND_EXEC);
    assert_int_equal(op_find(&l, "a/up")->entry.kind, PL_KIND_LINK);
    assert_memory_equal(op_find(&l, "a/up")->entry.data, "../run.sh", 9);
    assert_int_equal(op_find(&l, "empty/inner")->entry.kind, PL_KIND_DIR);
    assert_null(op_find(&l, "empty"));
    assert_int_equal(op_find(&l, "sizes/64.bin")->entry.content, PL_CONTENT_INLINE);
    assert_int_equal(op_find(&l, "sizes/65.bin")->entry.content, PL_CONTENT_CHUNK);
    assert_int_equal(op_find(&l, "sizes/65536.bin")->entry.content, PL_CONTENT_CHUNK);
    assert_int_equal(op_find(&l, "sizes/9449529.bin")->entry.content, PL_CONTENT_LIST);
    free(l.ops);
}

/* --- what is refused --- */

static void a_link_that_leaves_the_folder_is_refused_by_name(void **state)
{
    static const char *const targets[] = {"/etc/passwd", "..", "../x", "a/../../x", "../in/f"};
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};

    put_text(f, "in/f", "x");
    for (size_t i = 0; i < PL_ARRAY_SIZE(targets); i++) {
        put_link(f, "in/bad", targets[i]);
        FAILS(f, ingest_folder(f, "in", NULL, &ops, NULL), PL_EINVAL, "in/bad is a link to");
        unlink(at(f, "in/bad"));
    }
    put_link(f, "in/good", "d/../f");
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
}

static void sockets_fifos_and_devices_are_refused_by_name(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int s;

    put_text(f, "in/f", "x");
    assert_int_equal(mkfifo(at(f, "in/pipe"), 0600), 0);
    FAILS(f, ingest_folder(f, "in", NULL, &ops, NULL), PL_EINVAL, "in/pipe: it is a FIFO");
    unlink(at(f, "in/pipe"));
    s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    print_to(a.sun_path, sizeof(a.sun_path), "%s", at(f, "in/sock"));
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
    FAILS(f, ingest_folder(f, "in", NULL, &ops, NULL), PL_EINVAL, "in/sock: it is a socket");
    close(s);
    FAILS(f, ingest_folder(f, "in/sock", NULL, &ops, NULL), PL_EINVAL, "socket");
}

static void odd_names_are_quoted(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};

    put_text(f, "in/new\nline", "x");
    FAILS(f, ingest_folder(f, "in", NULL, &ops, NULL), PL_EPATH, "in/new\\x0Aline");
    unlink(at(f, "in/new\nline"));
    put_text(f, "in/latin\xE9", "x");
    FAILS(f, ingest_folder(f, "in", NULL, &ops, NULL), PL_EPATH, "in/latin\\xE9");
}

static void what_is_not_there_is_named(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};

    FAILS(f, ingest_folder(f, "nowhere", NULL, &ops, NULL), PL_ENOTFOUND, "/nowhere");
    put_text(f, "file", "x");
    FAILS(f, ingest_folder(f, "file", NULL, &ops, NULL), PL_EINVAL, "needs a name");
}

/* A store whose `has` writes into the file that is being read: other bytes, so that they are asked for as well. */
struct meddler {
    struct pl_pack_sink below;
    const char *path;
    size_t n;
    _Atomic unsigned times;
};

static int meddle_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    struct meddler *m = self;

    if (m->times > 0) {
        _cleanup_free_ uint8_t *bytes = noise(m->n, m->times);
        int fd = open(m->path, O_WRONLY | O_APPEND * (m->n == 1) | O_CLOEXEC);

        m->times--;
        assert_int_equal(write(fd, bytes, m->n), m->n);
        close(fd);
    }
    return m->below.has(m->below.self, ids, n, ret_bitmap, err);
}

static int meddle_put(void *self, const struct pl_hash *id, const void *bytes, size_t n, struct pl_err *err)
{
    struct meddler *m = self;

    return m->below.put_pack(m->below.self, id, bytes, n, err);
}

static int ingest_meddled(struct fixture *f, struct meddler *m, struct pl_buf *ops)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = {.self = m, .has = meddle_has, .put_pack = meddle_put};
    struct pl_ingest_source source = {.local = at(f, "in"), .dest = ""};
    struct pl_ingest_options o = {.threads = 1};

    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));
    return pl_ingest_tree(session, &source, 1, &o, ops, NULL, &f->err);
}

static void a_file_that_changes_once_is_read_again(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct meddler m = {.below = pl_store_sink(f->store), .path = at(f, "in/grows"), .n = 1, .times = 1};
    struct ops_list l;

    put_noise(f, "in/grows", 5u << 20, 1);
    OK(f, ingest_meddled(f, &m, &ops));
    assert_int_equal(m.times, 0);
    l = ops_of(f, &ops);
    assert_int_equal(l.ops[0].entry.size, (5u << 20) + 1);
    free(l.ops);
}

static void a_file_that_keeps_changing_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct meddler m = {.below = pl_store_sink(f->store), .path = at(f, "in/grows"), .n = 5u << 20, .times = UINT32_MAX};

    put_noise(f, "in/grows", 5u << 20, 1);
    FAILS(f, ingest_meddled(f, &m, &ops), PL_ECHANGED, "in/grows");
    assert_int_equal(ops.len, 0);
    m.n = 12u << 20; /* shared by readers */
    put_noise(f, "in/grows", m.n, 2);
    FAILS(f, ingest_meddled(f, &m, &ops), PL_ECHANGED, "in/grows");
}

/* --- several sources, mirror, filter, links of a run --- */

static void sources_are_put_where_they_are_told(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_pack_sink sink = pl_store_sink(f->store);
    char z[PATH_MAX], one[PATH_MAX], two[PATH_MAX];
    struct pl_ingest_options o = {.mirror = true};
    struct ops_list l;

    put_text(f, "one/x", "1");
    put_text(f, "two/y", "2");
    put_text(f, "z.txt", "3");
    print_to(one, sizeof(one), "%s", at(f, "one"));
    print_to(two, sizeof(two), "%s/", at(f, "two"));
    print_to(z, sizeof(z), "%s", at(f, "z.txt"));
    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));

    struct pl_ingest_source sources[] = {{.local = z, .dest = "d/z"}, {.local = two, .dest = "d"}, {.local = one, .dest = "a/b"}};

    OK(f, pl_ingest_tree(session, sources, 3, &o, &ops, NULL, &f->err));
    l = ops_of(f, &ops);
    assert_int_equal(l.n, 5);
    assert_int_equal(l.ops[0].op, PL_TREE_DELETE_PREFIX);
    assert_memory_equal(l.ops[0].path, "a/b", 3);
    assert_memory_equal(l.ops[1].path, "a/b/x", 5);
    assert_int_equal(l.ops[2].op, PL_TREE_DELETE_PREFIX);
    assert_memory_equal(l.ops[3].path, "d/y", 3);
    assert_memory_equal(l.ops[4].path, "d/z", 3);
    free(l.ops);
    sources[0].dest = "d/y";
    FAILS(f, pl_ingest_tree(session, sources, 3, NULL, &ops, NULL, &f->err), PL_ECOLLISION, "d/y");
}

static bool no_dots(void *self, const char *path, bool is_dir)
{
    const char *slash = strrchr(path, '/');

    (void)self;
    (void)is_dir;
    return (slash != NULL ? slash[1] : path[0]) != '.';
}

static void what_the_filter_leaves_out_is_not_looked_at(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_ingest_options o = {.filter = no_dots};
    struct ops_list l;

    put_text(f, "in/.git/objects", "x");
    put_text(f, "in/src/main.c", "x");
    put_text(f, "in/only/.hidden", "x");
    put_text(f, "in/.bad\n", "x");
    OK(f, ingest_folder(f, "in", &o, &ops, NULL));
    l = ops_of(f, &ops);
    assert_int_equal(l.n, 1);
    assert_memory_equal(l.ops[0].path, "src/main.c", 10);
    free(l.ops);
}

static int follow_inputs(void *self, const char *path, const char *target, struct pl_buf *ret_host, struct pl_err *err)
{
    struct fixture *f = self;

    (void)path;
    if (strncmp(target, "/pfs/in/", 8) != 0)
        return target[0] == '/' ? pl_err_set(err, PL_EINVAL, "it points out of /pfs") : PL_LINK_KEEP;
    if (pl_buf_addf(ret_host, err, "%s/inputs/%s", f->dir, target + 8) < 0 || pl_buf_add_u8(ret_host, 0, err) < 0)
        return PL_ENOMEM;
    return PL_LINK_FOLLOW;
}

static void a_run_may_link_to_its_inputs(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_ingest_options o = {.link = follow_inputs, .self = f};
    struct ops_list l;

    put_text(f, "inputs/img/1.png", "one");
    put_text(f, "inputs/img/sub/2.png", "two");
    put_text(f, "out/own", "x");
    put_link(f, "out/same", "own");
    put_link(f, "out/file", "/pfs/in/img/1.png");
    put_link(f, "out/folder", "/pfs/in/img");
    OK(f, ingest_folder(f, "out", &o, &ops, NULL));
    l = ops_of(f, &ops);
    assert_int_equal(l.n, 5);
    assert_int_equal(op_find(&l, "file")->entry.kind, PL_KIND_FILE);
    assert_memory_equal(op_find(&l, "folder/sub/2.png")->entry.data, "two", 3);
    assert_int_equal(op_find(&l, "same")->entry.kind, PL_KIND_LINK);
    free(l.ops);
    put_link(f, "out/evil", "/etc/passwd");
    FAILS(f, ingest_folder(f, "out", &o, &ops, NULL), PL_EINVAL, "out/evil: it points out of /pfs");
}

/* --- the stat cache --- */

static int64_t clock_offset_ns;

static int64_t shifted_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec + clock_offset_ns;
}

struct cached_run {
    struct pl_ingest_stats stats;
    uint64_t len_before;
};

/* One push with the cache of the fixture's folder. */
static struct cached_run push_cached(struct fixture *f, struct pl_buf *ops)
{
    _cleanup_(pl_stat_cache_closep) struct pl_stat_cache *cache = NULL;
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_ingest_options o = {.threads = 2, .sink = &sink, .now_ns = shifted_now};
    struct cached_run run;

    OK(f, pl_stat_cache_open(at(f, "cache"), "00112233445566778899aabbccddeeff", "default", &cache, &f->err));
    o.stat_cache = cache;
    run.len_before = pl_stat_cache_len(cache);
    OK(f, ingest_folder(f, "in", &o, ops, &run.stats));
    OK(f, pl_stat_cache_save(cache, &f->err));
    return run;
}

static void unchanged_files_are_not_read_again(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf first = {0}, second = {0}, third = {0};
    struct cached_run run;

    put_nasty_tree(f);
    clock_offset_ns = 10 * SECOND; /* the files are old */
    run = push_cached(f, &first);
    assert_int_equal(run.len_before, 0);
    assert_int_equal(run.stats.cached, 0);
    run = push_cached(f, &second);
    assert_int_equal(run.stats.cached, run.stats.files - 3); /* links are not cached */
    assert_int_equal(second.len, first.len);
    assert_memory_equal(second.data, first.data, first.len);
    put_text(f, "in/a0", "4");
    assert_int_equal(chmod(at(f, "in/a.b"), 0755), 0); /* another kind: ctime changed */
    run = push_cached(f, &third);
    assert_int_equal(run.stats.cached, run.stats.files - 5);
}

static void a_fresh_file_is_not_trusted(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct cached_run run;

    put_text(f, "in/f", "x");
    clock_offset_ns = 0; /* just written: within two seconds */
    run = push_cached(f, &ops);
    run = push_cached(f, &ops);
    assert_int_equal(run.len_before, 0);
    assert_int_equal(run.stats.cached, 0);
    clock_offset_ns = 3 * SECOND;
    run = push_cached(f, &ops);
    run = push_cached(f, &ops);
    assert_int_equal(run.len_before, 1);
    assert_int_equal(run.stats.cached, 1);
}

/* A page that is dirty already is written without a new time. */
static void a_file_that_someone_has_mapped_is_read_again(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf first = {0}, second = {0}, third = {0}, last = {0};
    struct cached_run run;
    int fd;
    char *map;

    put_text(f, "in/f", "first");
    fd = open(at(f, "in/f"), O_RDWR | O_CLOEXEC);
    map = mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(fd >= 0 && map != MAP_FAILED);
    close(fd);
    map[0] = 'F';
    clock_offset_ns = 10 * SECOND; /* that was long ago */
    (void)push_cached(f, &first);
    map[0] = 'W';
    run = push_cached(f, &second);
    assert_int_equal(run.stats.cached, 0);
    assert_true(first.len != second.len || memcmp(first.data, second.data, first.len) != 0);
    munmap(map, 5);
    (void)push_cached(f, &third);
    run = push_cached(f, &last);
    assert_int_equal(run.stats.cached, 1); /* nobody has it any more */
}

static void what_the_store_lost_is_read_again(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf first = {0}, second = {0};
    struct cached_run run;
    struct pl_checkout_stats got;

    put_nasty_tree(f);
    clock_offset_ns = 10 * SECOND;
    (void)push_cached(f, &first);
    fixture_close_store(f);
    OK(f, pl_io_remove_tree(at(f, "store"), &f->err));
    fixture_open_store(f);
    run = push_cached(f, &second);
    assert_int_equal(run.stats.cached, 0);
    assert_memory_equal(second.data, first.data, first.len);
    OK(f, checkout_ops(f, &second, "out", NULL, &got));
}

static void a_damaged_or_foreign_cache_is_empty(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, bytes = {0};
    const char *path = "cache/stat/00112233445566778899aabbccddeeff-default";
    struct pl_stat_cache *cache;

    put_nasty_tree(f);
    clock_offset_ns = 10 * SECOND;
    (void)push_cached(f, &ops);
    OK(f, pl_io_read_file(at(f, path), &bytes, &f->err));
    assert_int_equal(rename(at(f, path), at(f, "cache/stat/00112233445566778899aabbccddeeff-other")), 0);
    OK(f, pl_stat_cache_open(at(f, "cache"), "00112233445566778899aabbccddeeff", "other", &cache, &f->err));
    assert_int_equal(pl_stat_cache_len(cache), 0);
    pl_stat_cache_close(cache);
    for (size_t i = 0; i < bytes.len; i += 997) {
        bytes.data[i] ^= 0x40;
        put_bytes(f, path, bytes.data, bytes.len, 0600);
        bytes.data[i] ^= 0x40;
        OK(f, pl_stat_cache_open(at(f, "cache"), "00112233445566778899aabbccddeeff", "default", &cache, &f->err));
        if (i < 48 || i >= 64) /* the unused bytes of the header say nothing */
            assert_int_equal(pl_stat_cache_len(cache), 0);
        pl_stat_cache_close(cache);
    }
    put_bytes(f, path, bytes.data, bytes.len / 2, 0600);
    assert_int_equal(push_cached(f, &ops).len_before, 0);
}

/* --- sizes that must not grow --- */

static void repeated_bytes_are_stored_once(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_ingest_source source = {.local = at(f, "in"), .dest = ""};
    struct pl_pack_builder_stats stats;

    put_zeros(f, "in/zeros", 40u << 20);
    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));
    OK(f, pl_ingest_tree(session, &source, 1, NULL, &ops, NULL, &f->err));
    OK(f, pl_pack_builder_finish(session, &f->err));
    pl_pack_builder_stats(session, &stats);
    assert_true(stats.new_raw < 1u << 20);
}

static void a_full_disk_is_said_and_nothing_is_given(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_ingest_source source = {.local = at(f, "in"), .dest = ""};
    int r;

    put_noise(f, "in/big", 40u << 20, 3);
    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));
    pl_pack_builder_set_pack_bytes(session, 8u << 20);
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    r = pl_ingest_tree(session, &source, 1, NULL, &ops, NULL, &f->err);
    if (r == 0)
        r = pl_pack_builder_finish(session, &f->err);
    assert_int_equal(r, PL_ENOSPC);
}

/* Ingests all of "in", with a cache; the operations. */
static int ingest_all(struct fixture *f, struct pl_buf *ops)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_stat_cache_closep) struct pl_stat_cache *cache = NULL;
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_ingest_source source = {.local = at(f, "in"), .dest = ""};
    struct pl_ingest_options options = {.threads = 2, .sink = &sink};
    int r = pl_pack_builder_open(&sink, "default", &session, &f->err);

    if (r == 0)
        pl_pack_builder_set_pack_bytes(session, 256u << 10);
    r = r < 0 ? r : pl_stat_cache_open(at(f, "stat"), "00112233445566778899aabbccddeeff", "default", &cache, &f->err);
    options.stat_cache = cache;
    r = r < 0 ? r : pl_ingest_tree(session, &source, 1, &options, ops, NULL, &f->err);
    r = r < 0 ? r : pl_pack_builder_finish(session, &f->err);
    return r < 0 ? r : pl_stat_cache_save(cache, &f->err);
}

/* Fails the nth call, and after it succeeds for sure; false: there are no more. */
static bool ingest_with_failure(struct fixture *f, enum pl_io_call call, uint64_t nth, const struct pl_buf *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, again = {0};
    uint64_t before = pl_io_calls(call);
    int r;

    pl_io_fail_nth(call, nth, ENOSPC);
    r = ingest_all(f, &ops);
    pl_io_fail_nth(call, 0, 0);
    if (r < 0 && (r != PL_ENOSPC || !*f->err.msg))
        fail_msg("kind %d, call %u: %d: %s", (int)call, (unsigned)nth, r, f->err.msg);
    OK(f, ingest_all(f, &again));
    assert_int_equal(again.len, want->len);
    assert_memory_equal(again.data, want->data, want->len);
    OK(f, pl_io_remove_tree(at(f, "out"), &f->err));
    OK(f, checkout_ops(f, &again, "out", NULL, NULL)); /* every byte is in the store, and verified */
    return pl_io_calls(call) - before >= nth && r < 0;
}

static void a_failure_at_any_call_is_said_and_the_next_try_does_all(void **state)
{
    static const enum pl_io_call calls[] = {PL_IO_WRITE, PL_IO_FSYNC, PL_IO_RENAME};
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf want = {0};
    unsigned failures = 0;
    char path[32];

    for (unsigned i = 0; i < 12; i++) {
        print_to(path, sizeof path, "in/d%u/f%u", i % 3, i);
        put_noise(f, path, 100u * (i * i * i + 1), i);
    }
    put_noise(f, "in/large", 1u << 20, 99);
    OK(f, ingest_all(f, &want));
    for (size_t c = 0; c < PL_ARRAY_SIZE(calls); c++) {
        bool more = true;

        for (uint64_t n = 1; more; n++) {
            fixture_close_store(f);
            OK(f, pl_io_remove_tree(at(f, "store"), &f->err));
            OK(f, pl_io_remove_tree(at(f, "stat"), &f->err));
            fixture_open_store(f);
            more = ingest_with_failure(f, calls[c], n, &want);
            failures += more;
        }
    }
    assert_true(failures > 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(any_number_of_threads_gives_the_same_operations),
        TEST(a_stream_gives_the_entry_of_the_file),
        TEST(shared_files_are_cut_as_the_format_says),
        TEST(kinds_sizes_and_order_are_those_of_the_folder),
        TEST(a_link_that_leaves_the_folder_is_refused_by_name),
        TEST(sockets_fifos_and_devices_are_refused_by_name),
        TEST(odd_names_are_quoted),
        TEST(what_is_not_there_is_named),
        TEST(a_file_that_changes_once_is_read_again),
        TEST(a_file_that_keeps_changing_is_refused_by_name),
        TEST(sources_are_put_where_they_are_told),
        TEST(what_the_filter_leaves_out_is_not_looked_at),
        TEST(a_run_may_link_to_its_inputs),
        TEST(unchanged_files_are_not_read_again),
        TEST(a_fresh_file_is_not_trusted),
        TEST(a_file_that_someone_has_mapped_is_read_again),
        TEST(what_the_store_lost_is_read_again),
        TEST(a_damaged_or_foreign_cache_is_empty),
        TEST(repeated_bytes_are_stored_once),
        TEST(a_full_disk_is_said_and_nothing_is_given),
        TEST(a_failure_at_any_call_is_said_and_the_next_try_does_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
