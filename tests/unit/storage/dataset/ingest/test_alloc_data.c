// link: storage/base storage/dataset/checkout storage/dataset/commit storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Memory that runs out at any allocation of an ingest, a tree's edit or merge, a checkout or an opened store: PL_ENOMEM, nothing leaked
 * or half done, and the next try gives what it would have given. */
#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/tree/tree_diff.h"
#include "storage/tree_edit/tree_merge.h"
#include "tests/support/faults/alloc_faults.h"

#define EDITS     1500
#define STORE_ID  "0123456789abcdef0123456789abcdef"
#define MANY_SIZE 9

struct data {
    struct fixture *f;
    struct pl_buf want, got;        /* operations of an ingest */
    struct pl_hash root;            /* their tree */
    struct pl_hash want_id, got_id; /* whatever a work makes */
    bool cached;                    /* ingest with a stat cache */
    struct pl_tree_op ops[EDITS];
    char paths[EDITS][32];
    struct pl_hash edited;
    struct pl_file_cache *files;
};

static int setup(void **state)
{
    struct data *d = calloc(1, sizeof *d);
    void *f;

    if (access("/dev/shm", W_OK) == 0) /* hundreds of folders made and removed */
        setenv("TMPDIR", "/dev/shm", 0);
    fixture_setup(&f);
    d->f = f;
    put_text(d->f, "in/a/b", "small");
    put_noise(d->f, "in/a/one-chunk", 3000, 1);
    put_noise(d->f, "in/chunks", 300000, 2);
    put_bytes(d->f, "in/run.sh", "#!/bin/sh\n", 10, 0755);
    put_folder(d->f, "in/empty");
    put_link(d->f, "in/link", "a/b");
    *state = d;
    return 0;
}

static int teardown(void **state)
{
    struct data *d = *state;
    void *f = d->f;

    pl_file_cache_close(d->files);
    pl_buf_finish(&d->want);
    pl_buf_finish(&d->got);
    free(d);
    return fixture_teardown(&f);
}

static void check_id(void *arg, const char *what)
{
    struct data *d = arg;

    if (pl_hash_is_zero(&d->want_id))
        d->want_id = d->got_id;
    if (!pl_hash_eq(&d->got_id, &d->want_id))
        fail_msg("%s: another result", what);
}

/* ---- ingest ---- */

static int ingest(void *arg, struct pl_err *err)
{
    struct data *d = arg;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_stat_cache_closep) struct pl_stat_cache *cache = NULL;
    struct pl_pack_sink sink = pl_store_sink(d->f->store);
    struct pl_ingest_source source = {.local = at(d->f, "in"), .dest = ""};
    struct pl_ingest_options options = {.threads = 2, .sink = &sink};
    int r;

    pl_buf_finish(&d->got);
    d->got = (struct pl_buf){0};
    r = pl_pack_builder_open(&sink, "default", &session, err);
    if (r >= 0 && d->cached)
        r = pl_stat_cache_open(at(d->f, "stat"), STORE_ID, "default", &cache, err);
    options.stat_cache = cache;
    r = r < 0 ? r : pl_ingest_tree(session, &source, 1, &options, &d->got, NULL, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    return r < 0 || !cache ? r : pl_stat_cache_save(cache, err);
}

static void empty_store(void *arg)
{
    struct data *d = arg;

    fixture_close_store(d->f);
    OK(d->f, pl_io_remove_tree(at(d->f, "store"), &d->f->err));
    OK(d->f, pl_io_remove_tree(at(d->f, "stat"), &d->f->err));
    fixture_open_store(d->f);
}

/* The operations are those of the first time. */
static void same_operations(struct data *d, const struct pl_buf *got, const char *what)
{
    if (got->len != d->want.len || memcmp(got->data, d->want.data, d->want.len) != 0)
        fail_msg("%s: other operations", what);
}

/* What lies in `out` is what lies in `in`. */
static void same_folder(struct data *d, const char *what)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};

    OK(d->f, ingest_folder(d->f, "out", &(struct pl_ingest_options){.threads = 1}, &ops, NULL));
    same_operations(d, &ops, what);
}

/* The operations are right, and their bytes in the store. */
static void check_ingest(void *arg, const char *what)
{
    struct data *d = arg;

    if (d->want.len == 0)
        OK(d->f, pl_buf_add(&d->want, d->got.data, d->got.len, &d->f->err));
    same_operations(d, &d->got, what);
    OK(d->f, pl_io_remove_tree(at(d->f, "out"), &d->f->err));
    checkout_ops(d->f, &d->got, "out", NULL, NULL);
    same_folder(d, what);
}

static void test_ingest(void **state)
{
    static const struct alloc_work work = {.begin = empty_store, .run = ingest, .check = check_ingest};

    alloc_sweep(&work, *state);
}

static void test_ingest_with_a_stat_cache(void **state)
{
    static const struct alloc_work work = {.begin = empty_store, .run = ingest, .check = check_ingest};
    struct data *d = *state;

    d->cached = true;
    alloc_sweep(&work, d);
}

static void test_ingest_of_what_the_store_has(void **state)
{
    static const struct alloc_work work = {.run = ingest, .check = check_ingest};
    struct data *d = *state;

    d->cached = true;
    alloc_sweep(&work, d);
}

static void test_ingest_of_a_file_that_readers_share(void **state)
{
    static const struct alloc_work work = {.begin = empty_store, .run = ingest, .check = check_ingest, .stride = 41};
    struct data *d = *state;

    put_noise(d->f, "in/shared", PL_INGEST_SPLIT_BYTES + 12345, 3);
    alloc_sweep(&work, d);
}

/* ---- trees ---- */

/* Many files more on top of the ingested tree. */
static int edit(void *arg, struct pl_err *err)
{
    struct data *d = arg;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(d->f->store);
    struct pl_node_source source = {.self = d->f->store, .get = pl_store_node_get};
    struct pl_node_sink nodes;
    int r = pl_pack_builder_open(&sink, "default", &session, err);

    if (r < 0)
        return r;
    nodes = pl_pack_node_sink(session);
    r = pl_tree_edit(&source, &nodes, &d->root, d->ops, EDITS, &d->got_id, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

static void prepare_trees(struct data *d)
{
    struct pl_err err = {0};

    OK(d->f, ingest(d, &d->f->err));
    OK(d->f, pl_buf_add(&d->want, d->got.data, d->got.len, &d->f->err));
    d->root = tree_of(d->f, &d->want);
    for (unsigned i = 0; i < EDITS; i++) {
        print_to(d->paths[i], sizeof d->paths[i], "many/%06u", i * 7);
        d->ops[i] = (struct pl_tree_op){.op = PL_TREE_PUT,
                                        .path = d->paths[i],
                                        .path_len = strlen(d->paths[i]),
                                        .entry = pl_entry_inline(PL_KIND_FILE, d->paths[i], MANY_SIZE)};
    }
    OK(d->f, edit(d, &err));
    d->edited = d->got_id;
}

static void test_edit_of_a_tree(void **state)
{
    static const struct alloc_work work = {.run = edit, .check = check_id};
    struct data *d = *state;

    prepare_trees(d);
    alloc_sweep(&work, d);
}

/* One side has the many files, the other one of them alone: with all below. */
static int merge(void *arg, struct pl_err *err)
{
    struct data *d = arg;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(d->f->store);
    struct pl_node_source source = {.self = d->f->store, .get = pl_store_node_get};
    struct pl_tree_op op = {.op = PL_TREE_DELETE, .path = "chunks", .path_len = 6};
    struct pl_node_sink nodes;
    struct pl_hash theirs;
    int r = pl_pack_builder_open(&sink, "default", &session, err);

    if (r < 0)
        return r;
    nodes = pl_pack_node_sink(session);
    r = pl_tree_edit(&source, &nodes, &d->root, &op, 1, &theirs, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    return r < 0 ? r : pl_tree_merge(&source, &nodes, &d->root, &d->edited, &theirs, &d->got_id, NULL, NULL, err);
}

static void test_merge_of_trees(void **state)
{
    static const struct alloc_work work = {.run = merge, .check = check_id};
    struct data *d = *state;

    prepare_trees(d);
    alloc_sweep(&work, d);
}

/* ---- a diff ---- */

static int diff(void *arg, struct pl_err *err)
{
    struct data *d = arg;
    _cleanup_(pl_tree_differ_destroyp) struct pl_tree_differ *differ = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct pl_node_source source = {.self = d->f->store, .get = pl_store_node_get};
    struct pl_tree_change change;
    int r = pl_tree_differ_create(&source, &d->root, &d->edited, NULL, 0, &differ, err);

    while (r >= 0 && (r = pl_tree_differ_next(differ, &change, err)) > 0)
        r = pl_buf_add(&text, change.path, change.path_len + 1, err);
    if (r >= 0)
        pl_hash_sha256(text.data, text.len, &d->got_id);
    return r;
}

static void test_diff_of_trees(void **state)
{
    static const struct alloc_work work = {.run = diff, .check = check_id};
    struct data *d = *state;

    prepare_trees(d);
    alloc_sweep(&work, d);
}

/* ---- checkout, with what opens the store ---- */

static int checkout(void *arg, struct pl_err *err)
{
    struct data *d = arg;
    struct pl_checkout_options options = {.threads = 2, .replace = true, .cache = d->files};
    struct pl_chunk_reader reader;
    struct pl_tree_ops_reader in;
    struct pl_entry_source entries = pl_entry_source_ops(&in);
    int r = d->f->objects ? 0 : pl_object_file_open(at(d->f, "store"), &d->f->objects, err);

    r = r < 0 || d->f->store ? r : pl_store_open(d->f->objects, "default", at(d->f, "index"), &d->f->store, err);
    r = r < 0 || d->files ? r : pl_file_cache_open(at(d->f, "cache"), 1 << 20, &d->files, err);
    options.cache = d->files;
    r = r < 0 ? r : pl_tree_ops_reader_init(&in, d->want.data, d->want.len, err);
    if (r < 0)
        return r;
    reader = pl_store_chunk_reader(d->f->store);
    return pl_checkout(&entries, &reader, at(d->f, "out"), &options, NULL, err);
}

static void nothing_open(void *arg)
{
    struct data *d = arg;

    d->files = pl_file_cache_close(d->files);
    fixture_close_store(d->f);
    OK(d->f, pl_io_mkdirs(at(d->f, "index"), 0700, &d->f->err));
    OK(d->f, pl_io_remove_tree(at(d->f, "cache"), &d->f->err));
    OK(d->f, pl_io_remove_tree(at(d->f, "out"), &d->f->err));
}

static void check_checkout(void *arg, const char *what)
{
    same_folder(arg, what);
}

static void test_checkout_out_of_a_store_just_opened(void **state)
{
    static const struct alloc_work work = {.begin = nothing_open, .run = checkout, .check = check_checkout, .stride = 5};
    struct data *d = *state;

    OK(d->f, ingest(d, &d->f->err));
    OK(d->f, pl_buf_add(&d->want, d->got.data, d->got.len, &d->f->err));
    alloc_sweep(&work, d);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_ingest),
        T(test_ingest_with_a_stat_cache),
        T(test_ingest_of_what_the_store_has),
        T(test_ingest_of_a_file_that_readers_share),
        T(test_edit_of_a_tree),
        T(test_merge_of_trees),
        T(test_diff_of_trees),
        T(test_checkout_out_of_a_store_just_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
