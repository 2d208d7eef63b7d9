// link: storage/dataset/file storage/object storage/pack storage/store storage/system
/* A file that is copied into the store of another project has the same entry there, and all that it needs. */
#include "storage/dataset/file/file_copy.h"

#include "storage/chunk/chunk_list.h"
#include "storage/dataset/file/file_read.h"
#include "storage/dataset/file/file_write.h"
#include "storage/object/object.h"
#include "storage/pack/pack_format.h"
#include "storage/store/store.h"
#include "tests/support/fixtures/store_fixture.h"

#define MANY 9000 /* chunks: more than one list holds */

static struct world {
    char *dir;
    struct pl_object_store *objects;
    struct pl_store *from, *to;
} w;
static struct pl_err err;

static int set_up(void **state)
{
    (void)state;
    w.dir = fixture_dir();
    assert_ok(pl_object_file_open(w.dir, &w.objects, &err), &err);
    assert_ok(pl_store_open(w.objects, "theirs", NULL, &w.from, &err), &err);
    assert_ok(pl_store_open(w.objects, "ours", NULL, &w.to, &err), &err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pl_store_close(w.from);
    pl_store_close(w.to);
    pl_object_close(w.objects);
    fixture_remove(w.dir);
    return 0;
}

static struct pl_pack_builder *builder_of(struct pl_store *store)
{
    const struct pl_pack_sink sink = pl_store_sink(store);
    struct pl_pack_builder *b;

    assert_ok(pl_pack_builder_open(&sink, pl_store_project(store), &b, &err), &err);
    return b;
}

static void finish(struct pl_pack_builder *b)
{
    assert_ok(pl_pack_builder_finish(b, &err), &err);
    pl_pack_builder_close(b);
}

struct bytes {
    uint64_t left;
};

static ssize_t next_bytes(void *self, void *out, size_t n, struct pl_err *e)
{
    struct bytes *b = self;
    uint8_t *p = out;

    (void)e;
    n = PL_MIN(n, b->left);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((b->left - i) * 2654435761u >> 13);
    b->left -= n;
    return (ssize_t)n;
}

static int count(void *self, const void *bytes, size_t n, struct pl_err *e)
{
    (void)bytes;
    (void)e;
    *(uint64_t *)self += n;
    return 0;
}

/* Copies the file, and reads all of it from the other store. */
static void copies_whole(const struct pl_entry *entry)
{
    const struct pl_chunk_reader from = pl_store_chunk_reader(w.from), to = pl_store_chunk_reader(w.to);
    _cleanup_(pl_buf_finish) struct pl_buf scratch = {0};
    struct pl_pack_builder *b = builder_of(w.to);
    uint64_t read = 0;

    assert_ok(pl_file_copy(entry, &from, b, &err), &err);
    finish(b);
    assert_ok(pl_file_read(entry, 0, entry->size, &to, &scratch, count, &read, &err), &err);
    assert_int_equal(read, entry->size);
}

static void files_of_every_size_are_copied(void **state)
{
    static const uint64_t sizes[] = {0, 64, 65, 60000, 70000, 3000000};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        struct pl_pack_builder *b = builder_of(w.from);
        struct bytes bytes = {sizes[i]};
        struct pl_entry entry;

        assert_ok(pl_file_write_stream(b, PL_KIND_FILE, next_bytes, &bytes, &entry, &err), &err);
        finish(b);
        assert_int_equal(entry.size, sizes[i]);
        copies_whole(&entry);
    }
}

/* A file of equal chunks, with lists below its list. */
static void a_file_with_lists_of_lists_is_copied(void **state)
{
    struct pl_pack_builder *b = builder_of(w.from);
    const struct pl_list_sink sink = {b, pl_pack_builder_list_put};
    struct pl_list_builder *lists;
    struct pl_entry entry;
    struct pl_hash id, root;
    uint64_t size;

    (void)state;
    assert_ok(pl_pack_builder_add(b, PL_REC_CHUNK, "chunk", 5, &id, &err), &err);
    assert_ok(pl_list_builder_create(&sink, &lists, &err), &err);
    for (int i = 0; i < MANY; i++)
        assert_ok(pl_list_builder_add(lists, &id, 5, &err), &err);
    assert_ok(pl_list_builder_finish(lists, &root, &size, &err), &err);
    pl_list_builder_destroy(lists);
    finish(b);
    assert_int_equal(size, MANY * 5);
    entry = (struct pl_entry){.kind = PL_KIND_FILE, .content = PL_CONTENT_LIST, .size = size, .id = root};
    copies_whole(&entry);
}

/* A reader and a sink that count. */
static struct {
    unsigned lists, chunks, asked;
} counts;

static int get_counted(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *e)
{
    const struct pl_chunk_reader *reader = self;

    *(kind == PL_REC_LIST ? &counts.lists : &counts.chunks) += 1;
    return reader->get(reader->self, id, kind, ret, e);
}

static int has_counted(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *e)
{
    const struct pl_pack_sink sink = pl_store_sink(self);

    counts.asked++;
    return sink.has(sink.self, ids, n, ret_bitmap, e);
}

static int put_counted(void *self, const struct pl_hash *id, const void *bytes, size_t n, struct pl_err *e)
{
    const struct pl_pack_sink sink = pl_store_sink(self);

    return sink.put_pack(sink.self, id, bytes, n, e);
}

/* Copies the file `times` times with one builder, and counts. */
static void copy_counted(const struct pl_entry *entry, unsigned times)
{
    struct pl_chunk_reader reader = pl_store_chunk_reader(w.from);
    const struct pl_chunk_reader from = {.self = &reader, .get = get_counted};
    const struct pl_pack_sink sink = {.self = w.to, .has = has_counted, .put_pack = put_counted};
    struct pl_pack_builder *b;

    memset(&counts, 0, sizeof counts);
    assert_ok(pl_pack_builder_open(&sink, pl_store_project(w.to), &b, &err), &err);
    for (unsigned i = 0; i < times; i++)
        assert_ok(pl_file_copy(entry, &from, b, &err), &err);
    finish(b);
}

/* A file of random bytes in the store `from`. */
static struct pl_entry file_of(uint64_t size)
{
    struct pl_pack_builder *b = builder_of(w.from);
    struct bytes bytes = {size};
    struct pl_entry entry;

    assert_ok(pl_file_write_stream(b, PL_KIND_FILE, next_bytes, &bytes, &entry, &err), &err);
    finish(b);
    return entry;
}

static void a_second_copy_reads_no_chunk(void **state)
{
    const struct pl_entry large = file_of(12000000);

    (void)state;
    assert_int_equal(large.content, PL_CONTENT_LIST);
    copy_counted(&large, 1);
    assert_true(counts.chunks > 1 && counts.lists >= 1);
    copy_counted(&large, 1); /* another builder: the store has them */
    assert_int_equal(counts.chunks, 0);
    assert_true(counts.lists >= 1 && counts.asked <= 2 * counts.lists);
    copies_whole(&large);
}

static void a_second_copy_of_one_builder_reads_no_chunk(void **state)
{
    const struct pl_entry large = file_of(12000000), small = file_of(60000);
    unsigned once;

    (void)state;
    copy_counted(&large, 3); /* what was just added is not in the store yet */
    once = counts.chunks;
    copy_counted(&small, 3);
    assert_int_equal(counts.chunks, 1);
    pl_store_close(w.to);
    assert_ok(pl_store_open(w.objects, "third", NULL, &w.to, &err), &err);
    copy_counted(&large, 1);
    assert_int_equal(counts.chunks, once);
}

static void a_record_that_is_missing_is_an_error(void **state)
{
    const struct pl_chunk_reader from = pl_store_chunk_reader(w.from);
    struct pl_pack_builder *b = builder_of(w.to);
    struct pl_hash id;
    struct pl_entry entry;

    (void)state;
    pl_hash_sha256("nowhere", 7, &id);
    entry = pl_entry_chunk(PL_KIND_FILE, 7, &id);
    assert_int_equal(pl_file_copy(&entry, &from, b, &err), PL_ECORRUPT);
    pl_pack_builder_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_of_every_size_are_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_with_lists_of_lists_is_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_copy_reads_no_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_copy_of_one_builder_reads_no_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_that_is_missing_is_an_error, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
