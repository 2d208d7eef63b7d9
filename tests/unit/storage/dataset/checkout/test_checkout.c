// link: storage/base storage/dataset/checkout storage/dataset/commit storage/dataset/file storage/dataset/ingest storage/pack storage/store storage/system storage/tree_edit
/* Checkout: what was put comes back, by copy or by link, and nothing is ever half there. */
#include "tests/support/faults/fake_clock.h"
#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/dataset/file/file_read.h"

#include <dirent.h>

/* --- fixtures --- */

static void put_tree(struct fixture *f)
{
    static const size_t sizes[] = {0, 1, 64, 65, 4096, 65536, 65537, 262145, (8u << 20) - 1, (9u << 20) + 12345};
    char path[PATH_MAX];

    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        print_to(path, sizeof(path), "in/sizes/%zu.bin", sizes[i]);
        put_noise(f, path, sizes[i], i + 1);
    }
    for (size_t i = 0; i < 300; i++) { /* several batches, many folders */
        print_to(path, sizeof(path), "in/many/%zu/%zu", i % 40, i);
        put_noise(f, path, 100 + i, i);
    }
    put_text(f, "in/a/b", "1");
    put_text(f, "in/a-b", "2");
    put_text(f, "in/a.b/c/d/e/f", "3");
    put_text(f,
             "in/\xC3\xBC"
             "ber/\xE6\x97\xA5.txt",
             "unicode");
    put_bytes(f, "in/run.sh", "#!/bin/sh\nexit 0; # longer than what is kept in the tree itself: 64 bytes\n", 75, 0755);
    put_folder(f, "in/empty/inner");
    put_link(f, "in/link", "a/b");
    put_link(f, "in/a/up",
             "../a/../a/../a/../a/../a/../a/../a/../a/../a/../a/../a/../a/../a/../run.sh"); /* a link longer than 64 bytes */
}

static void ops_of_tree(struct fixture *f, struct pl_buf *ops)
{
    put_tree(f);
    OK(f, ingest_folder(f, "in", NULL, ops, NULL));
}

/* Both are the same kind, with the same bytes or target; files have the mode and time of a checkout. */
static void assert_same(struct fixture *f, const char *in, const char *out);

static void assert_same_folder(struct fixture *f, const char *in, const char *out)
{
    DIR *dir = opendir(at(f, in));
    const struct dirent *d;
    size_t n_in = 0, n_out = 0;

    assert_non_null(dir);
    while ((d = readdir(dir)) != NULL) {
        char a[PATH_MAX], b[PATH_MAX];

        n_in++;
        if (pl_streq(d->d_name, ".") || pl_streq(d->d_name, ".."))
            continue;
        print_to(a, sizeof(a), "%s/%s", in, d->d_name);
        print_to(b, sizeof(b), "%s/%s", out, d->d_name);
        assert_same(f, a, b);
    }
    closedir(dir);
    dir = opendir(at(f, out));
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n_out++;
    closedir(dir);
    assert_int_equal(n_in, n_out);
}

static void assert_same_file(struct fixture *f, const char *in, const char *out, const struct stat *a, const struct stat *b)
{
    _cleanup_(pl_buf_finish) struct pl_buf x = {0}, y = {0};

    OK(f, pl_io_read_file(at(f, in), &x, &f->err));
    OK(f, pl_io_read_file(at(f, out), &y, &f->err));
    if (x.len != y.len || (x.len > 0 && memcmp(x.data, y.data, x.len) != 0))
        fail_msg("%s differs", out);
    assert_int_equal(b->st_mode & 07777, (a->st_mode & S_IXUSR) != 0 ? 0555 : 0444);
    assert_int_equal(b->st_mtim.tv_sec, PL_CHECKOUT_MTIME_S);
    assert_int_equal(b->st_mtim.tv_nsec, 0);
}

static void assert_same(struct fixture *f, const char *in, const char *out)
{
    struct stat a, b;
    char x[PATH_MAX] = {0}, y[PATH_MAX] = {0};

    assert_int_equal(lstat(at(f, in), &a), 0);
    if (lstat(at(f, out), &b) != 0)
        fail_msg("%s is missing", out);
    assert_int_equal(a.st_mode & S_IFMT, b.st_mode & S_IFMT);
    if (S_ISDIR(a.st_mode)) {
        assert_same_folder(f, in, out);
    } else if (S_ISLNK(a.st_mode)) {
        assert_true(readlink(at(f, in), x, sizeof(x) - 1) > 0 && readlink(at(f, out), y, sizeof(y) - 1) > 0);
        assert_string_equal(x, y);
    } else {
        assert_same_file(f, in, out, &a, &b);
    }
}

static struct pl_file_cache *open_cache(struct fixture *f, uint64_t max_bytes)
{
    struct pl_file_cache *c;

    OK(f, pl_file_cache_open(at(f, "cache"), max_bytes, &c, &f->err));
    return c;
}

/* --- copies --- */

static void what_was_put_comes_back(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    char dest[32];

    ops_of_tree(f, &ops);
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct pl_checkout_options o = {.threads = threads};
        struct pl_checkout_stats stats;

        print_to(dest, sizeof(dest), "deep/out%u", threads);
        OK(f, checkout_ops(f, &ops, dest, &o, &stats));
        assert_same(f, "in", dest);
        assert_int_equal(stats.linked, 0);
        assert_int_equal(stats.files, 10 + 300 + 5 + 2);
    }
}

static void a_folder_of_a_tree_is_checked_out_alone(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_node_source nodes = {.self = f->store, .get = pl_store_node_get};
    struct pl_chunk_reader reader = pl_store_chunk_reader(f->store);
    struct pl_entry_source_tree tree = {.strip = 5};
    struct pl_entry_source entries = pl_entry_source_tree(&tree);
    struct pl_hash root;

    ops_of_tree(f, &ops);
    root = tree_of(f, &ops);
    OK(f, pl_tree_cursor_create(&nodes, &root, "many/", 5, &cursor, &f->err));
    tree.cursor = cursor;
    OK(f, pl_checkout(&entries, &reader, at(f, "out"), NULL, NULL, &f->err));
    assert_same(f, "in/many", "out");
}

static void an_umask_does_not_change_the_modes(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct stat st;
    mode_t before;
    int r;

    put_text(f, "in/f", "x");
    put_bytes(f, "in/x", "x", 1, 0755);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    before = umask(077);
    r = checkout_ops(f, &ops, "out", NULL, NULL);
    umask(before);
    OK(f, r);
    assert_int_equal(stat(at(f, "out/f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0444);
    assert_int_equal(stat(at(f, "out/x"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0555);
}

static void what_is_there_is_refused_unless_it_may_be_replaced(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, bytes = {0};
    struct pl_checkout_options replace = {.replace = true};

    ops_of_tree(f, &ops);
    put_text(f, "out/a/b", "mine");
    FAILS(f, checkout_ops(f, &ops, "out", NULL, NULL), PL_EEXISTS, "a/b: it exists already");
    OK(f, pl_io_read_file(at(f, "out/a/b"), &bytes, &f->err));
    assert_memory_equal(bytes.data, "mine", 4);
    OK(f, checkout_ops(f, &ops, "out", &replace, NULL));
    assert_same(f, "in", "out");
    OK(f, checkout_ops(f, &ops, "out", &replace, NULL)); /* an interrupted one is simply repeated */
    assert_same(f, "in", "out");
}

static void a_folder_in_the_way_of_a_file_is_named(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_checkout_options replace = {.replace = true};

    put_text(f, "in/a/b", "x");
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    put_text(f, "out/a/b/c", "mine");
    FAILS(f, checkout_ops(f, &ops, "out", &replace, NULL), PL_ECOLLISION, "a/b");
    put_text(f, "out2/a", "mine");
    FAILS(f, checkout_ops(f, &ops, "out2", &replace, NULL), PL_ECOLLISION, "a: cannot make the folder: a file or link has");
}

static void a_link_in_the_way_is_never_followed(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_checkout_options replace = {.replace = true};
    struct stat st;

    put_text(f, "in/a/b", "x");
    put_text(f, "in/c", "x");
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    put_folder(f, "outside");
    put_folder(f, "out");
    put_link(f, "out/a", "../outside");
    FAILS(f, checkout_ops(f, &ops, "out", &replace, NULL), PL_ECOLLISION, "a: cannot make the folder: a file or link");
    assert_int_not_equal(stat(at(f, "outside/b"), &st), 0);
    unlink(at(f, "out/a"));
    put_text(f, "outside/c", "mine");
    unlink(at(f, "out/c"));
    put_link(f, "out/c", "../outside/c");
    OK(f, checkout_ops(f, &ops, "out", &replace, NULL));
    assert_int_equal(stat(at(f, "outside/c"), &st), 0);
    assert_int_equal(st.st_size, 4);
}

/* --- faults --- */

static void a_full_disk_leaves_nothing_half_written(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_checkout_options one = {.threads = 1};
    uint64_t before, calls;
    struct stat st;

    ops_of_tree(f, &ops);
    before = pl_io_calls(PL_IO_WRITE);
    OK(f, checkout_ops(f, &ops, "whole", &one, NULL));
    calls = pl_io_calls(PL_IO_WRITE) - before;
    for (uint64_t nth = 1; nth <= calls; nth += 1 + calls / 12) {
        pl_io_fail_nth(PL_IO_WRITE, nth, ENOSPC);
        FAILS(f, checkout_ops(f, &ops, "out", &one, NULL), PL_ENOSPC, "");
        assert_int_not_equal(stat(at(f, "out"), &st), 0); /* it was made by the checkout, so it goes */
    }
    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
}

static void in_a_folder_that_was_there_whole_files_stay(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_checkout_options one = {.threads = 1}, again = {.replace = true};
    struct stat st;

    put_noise(f, "in/a", 1000, 1);
    put_noise(f, "in/b", 12u << 20, 2);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    put_text(f, "out/mine", "x");
    pl_io_fail_nth(PL_IO_WRITE, 20, ENOSPC);
    FAILS(f, checkout_ops(f, &ops, "out", &one, NULL), PL_ENOSPC, "b");
    assert_int_not_equal(stat(at(f, "out/b"), &st), 0);
    assert_int_equal(stat(at(f, "out/mine"), &st), 0);
    OK(f, checkout_ops(f, &ops, "out", &again, NULL));
    unlink(at(f, "out/mine"));
    assert_same(f, "in", "out");
}

static int lost_get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    (void)self;
    (void)id;
    (void)kind;
    (void)ret;
    return pl_err_set(err, PL_ENET, "the line is dead");
}

static void an_error_of_the_reader_names_the_file(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_chunk_reader reader = {.get = lost_get};
    struct pl_tree_ops_reader in;
    struct pl_entry_source entries = pl_entry_source_ops(&in);

    put_noise(f, "in/far/away", 1000, 1);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    OK(f, pl_tree_ops_reader_init(&in, ops.data, ops.len, &f->err));
    FAILS(f, pl_checkout(&entries, &reader, at(f, "out"), NULL, NULL, &f->err), PL_ENET, "far/away: the line is dead");
}

/* Passes chunks on and notes how the progress grows between them. */
struct watched {
    struct pl_chunk_reader from;
    const struct pl_checkout_progress *progress;
    uint64_t last;  /* bytes that the progress had at the last chunk */
    size_t growths; /* chunks before which it had grown */
};

static int watched_get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    struct watched *w = self;
    uint64_t now = atomic_load(&w->progress->bytes);

    assert_true(now >= w->last);
    w->growths += now > w->last;
    w->last = now;
    return w->from.get(w->from.self, id, kind, ret, err);
}

static void progress_grows_within_a_file(void **state)
{
    static const size_t sizes[] = {0, 30, 1000, 3u << 20, (12u << 20) + 1};
    struct fixture *f = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
        struct pl_checkout_progress progress = {0};
        struct watched w = {.from = pl_store_chunk_reader(f->store), .progress = &progress};
        struct pl_chunk_reader reader = {.self = &w, .get = watched_get};
        struct pl_checkout_options one = {.threads = 1, .replace = true, .progress = &progress};
        struct pl_tree_ops_reader in;
        struct pl_entry_source entries = pl_entry_source_ops(&in);

        put_noise(f, "in/f", sizes[i], i);
        OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
        OK(f, pl_tree_ops_reader_init(&in, ops.data, ops.len, &f->err));
        OK(f, pl_checkout(&entries, &reader, at(f, "out"), &one, NULL, &f->err));
        assert_int_equal(atomic_load(&progress.files), 1);
        assert_int_equal(atomic_load(&progress.bytes), sizes[i]);
        if (sizes[i] > 1u << 20)
            assert_in_range(w.growths, 4, 10000);
    }
}

/* --- streams --- */

static atomic_uint streamed;

static int get_of_store(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_chunk_reader reader = pl_store_chunk_reader(self);

    return reader.get(reader.self, id, kind, ret, err);
}

/* Passes the records on from the last to the first, but every fifth one not at all. */
static void stream_backwards(void *self, const struct pl_hash *ids, size_t n, pl_chunk_take take, void *arg)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};

    for (size_t i = n; i-- > 0;) {
        if (i % 5 == 4 || get_of_store(self, &ids[i], PL_REC_CHUNK, &bytes, NULL) < 0)
            continue;
        atomic_fetch_add(&streamed, 1);
        if (take(arg, i, bytes.data, bytes.len, NULL) < 0)
            return;
    }
}

static int checkout_streamed(struct fixture *f, const struct pl_buf *ops, const struct pl_checkout_options *options,
                             struct pl_checkout_stats *ret)
{
    const struct pl_chunk_reader reader = {.self = f->store, .get = get_of_store, .stream = stream_backwards, .streams = 3};
    struct pl_tree_ops_reader in;
    struct pl_entry_source entries = pl_entry_source_ops(&in);

    streamed = 0;
    OK(f, pl_tree_ops_reader_init(&in, ops->data, ops->len, &f->err));
    return pl_checkout(&entries, &reader, at(f, "out"), options, ret, &f->err);
}

static void what_is_streamed_in_any_order_comes_back(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_checkout_progress progress = {0};
    struct pl_checkout_options o = {.progress = &progress};
    struct pl_checkout_stats stats;

    put_noise(f, "in/sizes/large.bin", (30u << 20) + 321, 99); /* several parts */
    ops_of_tree(f, &ops);
    OK(f, checkout_streamed(f, &ops, &o, &stats));
    assert_same(f, "in", "out");
    assert_int_equal(stats.files, 11 + 300 + 5 + 2);
    assert_int_equal(atomic_load(&progress.files), stats.files);
    assert_int_equal(atomic_load(&progress.bytes), stats.bytes);
    assert_true(streamed > 200);
}

static atomic_uint announced;

static void announce(void *self, const struct pl_hash *ids, size_t n)
{
    (void)self, (void)ids;
    atomic_fetch_add(&announced, n);
}

static void a_reader_without_streams_is_told_what_will_be_read(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    const struct pl_chunk_reader reader = {.self = f->store, .get = get_of_store, .will_read = announce};
    struct pl_tree_ops_reader in;
    struct pl_entry_source entries = pl_entry_source_ops(&in);

    put_noise(f, "in/large", 30u << 20, 1);
    put_noise(f, "in/small", 2u << 20, 2);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    OK(f, pl_tree_ops_reader_init(&in, ops.data, ops.len, &f->err));
    announced = 0;
    OK(f, pl_checkout(&entries, &reader, at(f, "out"), NULL, NULL, &f->err));
    assert_same(f, "in", "out");
    assert_in_range(announced, 32u << 2, 32u << 6); /* all chunks of both: they have 16 to 256 KiB */
}

static bool is_canceled(void)
{
    return streamed >= 20;
}

static void a_canceled_checkout_ends_within_a_file(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    const struct pl_checkout_options o = {.canceled = is_canceled};
    struct stat st;

    put_noise(f, "in/a", 30u << 20, 1);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    FAILS(f, checkout_streamed(f, &ops, &o, NULL), PL_ECANCELED, "interrupted");
    assert_true(streamed < 40);
    assert_int_not_equal(stat(at(f, "out"), &st), 0);
}

static void a_full_disk_ends_all_streams(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct stat st;

    put_noise(f, "in/a", 30u << 20, 1);
    put_noise(f, "in/b", 30u << 20, 2);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    pl_io_fail_nth(PL_IO_WRITE, 20, ENOSPC);
    FAILS(f, checkout_streamed(f, &ops, NULL, NULL), PL_ENOSPC, "");
    assert_int_not_equal(stat(at(f, "out"), &st), 0);
}

/* --- the cache --- */

static uint64_t links_of(struct fixture *f, const char *path)
{
    struct stat st;

    assert_int_equal(stat(at(f, path), &st), 0);
    return st.st_nlink;
}

static void the_second_checkout_is_links(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *cache = open_cache(f, 0);
    struct pl_checkout_options o = {.cache = cache};
    struct pl_checkout_stats stats;

    ops_of_tree(f, &ops);
    OK(f, checkout_ops(f, &ops, "one", &o, &stats));
    assert_same(f, "in", "one");
    OK(f, checkout_ops(f, &ops, "two", &o, &stats));
    assert_same(f, "in", "two");
    assert_int_equal(stats.linked, stats.files - 2 /* links */ - 3 /* sizes 0, 1, 64 */ - 4 /* short texts */);
    assert_int_equal(links_of(f, "two/sizes/4096.bin"), 3);
    assert_int_equal(links_of(f, "two/sizes/9449529.bin"), 3);
    assert_int_equal(links_of(f, "two/run.sh"), 3);
}

static void equal_bytes_with_another_mode_are_another_file(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *cache = open_cache(f, 0);
    struct pl_checkout_options o = {.cache = cache, .threads = 1};
    _cleanup_free_ uint8_t *bytes = noise(500, 1);

    put_bytes(f, "in/plain", bytes, 500, 0644);
    put_bytes(f, "in/plain2", bytes, 500, 0644);
    put_bytes(f, "in/program", bytes, 500, 0755);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    OK(f, checkout_ops(f, &ops, "out", &o, NULL));
    assert_same(f, "in", "out");
    assert_int_equal(links_of(f, "out/plain"), 3);
    assert_int_equal(links_of(f, "out/program"), 2);
    assert_int_equal(pl_file_cache_bytes(cache), 1000);
}

static void where_no_link_can_be_made_the_file_is_written(void **state)
{
    static const int reasons[] = {EMLINK, EPERM};
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *cache = open_cache(f, 0);
    struct pl_checkout_options o = {.cache = cache};
    struct pl_checkout_stats stats;
    char dest[16];

    ops_of_tree(f, &ops);
    OK(f, checkout_ops(f, &ops, "one", &o, NULL));
    for (size_t i = 0; i < PL_ARRAY_SIZE(reasons); i++) {
        print_to(dest, sizeof(dest), "out%zu", i);
        pl_file_cache_fail_link(cache, reasons[i]);
        OK(f, checkout_ops(f, &ops, dest, &o, &stats));
        assert_int_equal(stats.linked, 0);
        assert_same(f, "in", dest);
    }
    pl_file_cache_fail_link(cache, EIO);
    FAILS(f, checkout_ops(f, &ops, "bad", &o, &stats), PL_EIO, "cache");
}

/* Of pods the cache is one mount and the volume another. */
static void where_links_do_not_reach_files_are_copied(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *cache = open_cache(f, 0);
    struct pl_checkout_options o = {.cache = cache};
    struct pl_checkout_stats stats;

    pl_file_cache_fail_link(cache, EXDEV);
    ops_of_tree(f, &ops);
    OK(f, checkout_ops(f, &ops, "one", &o, &stats));
    assert_int_equal(stats.linked, 0);
    assert_true(pl_file_cache_bytes(cache) > 0);
    OK(f, checkout_ops(f, &ops, "two", &o, &stats));
    assert_true(stats.linked > 0);
    assert_same(f, "in", "two");
    FAILS(f, checkout_ops(f, &ops, "two", &o, &stats), PL_EEXISTS, "exists already");
}

static void replacing_does_not_write_through_a_link(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf one = {0}, two = {0};
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *cache = open_cache(f, 0);
    struct pl_checkout_options o = {.cache = cache, .replace = true};

    put_noise(f, "in/f", 1000, 1);
    OK(f, ingest_folder(f, "in", NULL, &one, NULL));
    OK(f, checkout_ops(f, &one, "a", &o, NULL));
    OK(f, checkout_ops(f, &one, "b", &o, NULL));
    put_noise(f, "in/f", 1000, 2);
    OK(f, ingest_folder(f, "in", NULL, &two, NULL));
    OK(f, checkout_ops(f, &two, "b", &o, NULL));
    assert_same(f, "in", "b");
    OK(f, checkout_ops(f, &one, "c", &o, NULL));
    assert_int_equal(links_of(f, "a/f"), 3); /* a, c and the cache */
}

static void the_bound_holds_and_what_is_in_use_stays(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf first = {0}, second = {0};
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *cache = open_cache(f, 1000000);
    struct pl_checkout_options o = {.cache = cache, .threads = 1};
    struct pl_checkout_stats stats;
    char path[32];

    for (size_t i = 0; i < 9; i++) {
        print_to(path, sizeof(path), "in/%zu", i);
        put_noise(f, path, 100000, i);
    }
    OK(f, ingest_folder(f, "in", NULL, &first, NULL));
    OK(f, checkout_ops(f, &first, "one", &o, NULL));
    assert_int_equal(pl_file_cache_bytes(cache), 900000);
    for (size_t i = 0; i < 9; i++) {
        print_to(path, sizeof(path), "in/%zu", i);
        put_noise(f, path, 100000, 100 + i);
    }
    OK(f, ingest_folder(f, "in", NULL, &second, NULL));
    OK(f, checkout_ops(f, &second, "two", &o, NULL));
    assert_same(f, "in", "two");
    assert_true(pl_file_cache_bytes(cache) <= 1000000);
    OK(f, checkout_ops(f, &first, "three", &o, &stats)); /* all of the first are still there */
    assert_int_equal(stats.linked, 9);

    OK(f, pl_io_remove_tree(at(f, "one"), &f->err));
    OK(f, pl_io_remove_tree(at(f, "three"), &f->err));
    pl_file_cache_close(cache);
    cache = open_cache(f, 500000); /* now nobody uses them */
    OK(f, pl_file_cache_evict(cache, &f->err));
    assert_true(pl_file_cache_bytes(cache) <= 450000);
}

/* --- another boot --- */

static void give_out_after_a_boot(struct fixture *f)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, bytes = {0};
    struct pl_file_cache *cache = open_cache(f, 0);
    struct pl_checkout_options o = {.cache = cache};
    struct pl_checkout_stats stats;
    int fd;

    put_noise(f, "in/good", 70000, 1);
    put_noise(f, "in/torn", 70000, 2);
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    OK(f, checkout_ops(f, &ops, "one", &o, NULL));
    pl_file_cache_close(cache);

    assert_int_equal(chmod(at(f, "one/torn"), 0644), 0); /* as a power failure leaves it */
    fd = open(at(f, "one/torn"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\0\0\0\0\0\0\0", 7, 65536), 7);
    close(fd);
    OK(f, pl_io_read_file(at(f, "cache/state"), &bytes, &f->err));
    bytes.data[8] ^= 1; /* the boot's id, see file_cache.c */
    put_bytes(f, "cache/state", bytes.data, bytes.len, 0600);

    cache = open_cache(f, 0);
    o.cache = cache;
    OK(f, checkout_ops(f, &ops, "two", &o, &stats));
    assert_same(f, "in", "two");
    assert_int_equal(stats.linked, 1);
    OK(f, checkout_ops(f, &ops, "three", &o, &stats));
    assert_int_equal(stats.linked, 2);
    pl_file_cache_close(cache);
}

static void after_a_boot_a_damaged_file_is_not_given_out(void **state)
{
    give_out_after_a_boot(*state);
}

/* What was written before lies in the future then. */
static void nor_when_the_clock_was_set_back(void **state)
{
    atomic_store(&clock_wall_ahead_ms, -40LL * 86400 * 1000);
    give_out_after_a_boot(*state);
    atomic_store(&clock_wall_ahead_ms, 0);
}

/* --- reading parts --- */

static int append(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, bytes, n, err);
}

static void any_range_of_a_file_can_be_read(void **state)
{
    static const size_t sizes[] = {0, 10, 1000, 100000, 700000};
    static const uint64_t points[] = {0, 1, 5, 64, 999, 65535, 65536, 99999, 300000, 699999, 700000, UINT64_MAX};
    struct fixture *f = *state;
    struct pl_chunk_reader reader = pl_store_chunk_reader(f->store);

    for (size_t s = 0; s < PL_ARRAY_SIZE(sizes); s++) {
        _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, scratch = {0};
        _cleanup_free_ uint8_t *bytes = noise(sizes[s], s);
        _cleanup_free_ struct pl_tree_op *list = NULL;
        size_t n;

        put_bytes(f, "in/f", bytes, sizes[s], 0644);
        OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
        OK(f, pl_tree_ops_read(ops.data, ops.len, &list, &n, &f->err));
        for (size_t i = 0; i < PL_ARRAY_SIZE(points); i++) {
            for (size_t k = 0; k < PL_ARRAY_SIZE(points); k++) {
                _cleanup_(pl_buf_finish) struct pl_buf out = {0};
                uint64_t from = PL_MIN(points[i], sizes[s]), want = PL_MIN(points[k], sizes[s] - from);

                OK(f, pl_file_read(&list[0].entry, points[i], points[k], &reader, &scratch, append, &out, &f->err));
                assert_int_equal(out.len, want);
                if (want > 0)
                    assert_memory_equal(out.data, bytes + from, want);
            }
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_put_comes_back),
        TEST(a_folder_of_a_tree_is_checked_out_alone),
        TEST(an_umask_does_not_change_the_modes),
        TEST(what_is_there_is_refused_unless_it_may_be_replaced),
        TEST(a_folder_in_the_way_of_a_file_is_named),
        TEST(a_link_in_the_way_is_never_followed),
        TEST(a_full_disk_leaves_nothing_half_written),
        TEST(in_a_folder_that_was_there_whole_files_stay),
        TEST(an_error_of_the_reader_names_the_file),
        TEST(progress_grows_within_a_file),
        TEST(what_is_streamed_in_any_order_comes_back),
        TEST(a_reader_without_streams_is_told_what_will_be_read),
        TEST(a_canceled_checkout_ends_within_a_file),
        TEST(a_full_disk_ends_all_streams),
        TEST(the_second_checkout_is_links),
        TEST(equal_bytes_with_another_mode_are_another_file),
        TEST(where_no_link_can_be_made_the_file_is_written),
        TEST(where_links_do_not_reach_files_are_copied),
        TEST(replacing_does_not_write_through_a_link),
        TEST(the_bound_holds_and_what_is_in_use_stays),
        TEST(after_a_boot_a_damaged_file_is_not_given_out),
        TEST(nor_when_the_clock_was_set_back),
        TEST(any_range_of_a_file_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
