// link: storage/base storage/chunk storage/pack storage/store storage/system
/* store: records by id, verified; packs taken in whole or not at all; nothing is lost over a restart. */
#include "tests/unit/storage/pack/pack_fixture.h"

#include "storage/chunk/chunk.h"
#include "storage/pack/chunk_reader.h"

static char *dir;
static struct pl_object_store *objects;
static struct pl_store *store;

static void open_store(void)
{
    struct pl_err err;

    assert_ok(pl_store_open(objects, "default", fixture_path(dir, "index"), &store, &err), &err);
}

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &objects, &err), &err);
    open_store();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PL_IO_CALLS; i++)
        pl_io_fail_nth((enum pl_io_call)i, 0, 0);
    store = pl_store_close(store);
    objects = pl_object_close(objects);
    fixture_remove(dir);
    return 0;
}

static void reopen(void)
{
    store = pl_store_close(store);
    open_store();
}

static struct pl_hash put_pack(uint32_t first, uint32_t count)
{
    struct pl_hash id;
    const void *bytes;
    size_t n;
    struct pl_pack_writer *w = make_pack("default", first, count, &bytes, &n, &id);
    struct pl_err err;

    assert_ok(pl_store_put_pack(store, &id, bytes, n, &err), &err);
    pl_pack_writer_destroy(w);
    return id;
}

static void assert_record(uint32_t i, uint8_t as_kind)
{
    pack_assert_record(store, i, as_kind);
}

static void what_was_put_is_read_before_and_after_a_restart(void **state)
{
    _cleanup_free_ struct pl_hash *packs = NULL;
    struct pl_hash ids[3] = {record_id(0), record_id(60), record_id(100)}, none = {{1}};
    uint8_t bits;
    struct pl_err err;
    size_t n;

    (void)state;
    put_pack(0, 50);
    put_pack(50, 50);
    for (int restarts = 0; restarts < 3; restarts++) {
        for (uint32_t i = 0; i < 100; i++)
            assert_record(i, i % 3 == 0 ? 0 : (uint8_t)(1 + i % 5));
        assert_false(pl_store_has(store, &none));
        pl_store_has_many(store, ids, 3, &bits, NULL);
        assert_int_equal(bits, 3);
        if (restarts == 1)
            assert_ok(pl_store_sync_index(store, &err), &err); /* then from segments */
        reopen();
    }
    assert_ok(pl_store_packs(store, &packs, &n, &err), &err);
    assert_int_equal(n, 2);
}

static void what_is_not_there_is_not_found(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash none = {{1}};
    struct pl_location at;
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_store_get(store, &none, 0, &b, &err), PL_ENOTFOUND);
    assert_int_equal(pl_store_locate(store, &none, &at, &err), PL_ENOTFOUND);
    assert_int_equal(pl_store_add_pack(store, &none, 0, &err), PL_ECORRUPT);
    assert_non_null(strstr(err.msg, "missing"));
}

static void packs_of_other_projects_are_not_seen(void **state)
{
    struct pl_store *other;
    struct pl_hash id = record_id(0);
    struct pl_err err;

    (void)state;
    put_pack(0, 5);
    assert_ok(pl_store_open(objects, "other", fixture_path(dir, "index"), &other, &err), &err);
    assert_false(pl_store_has(other, &id));
    pl_store_close(other);
    assert_int_equal(pl_store_open(objects, "no/name", NULL, &other, &err), PL_ENAME);
}

/* Writes a pack where an upload would be, one byte changed at `flip` (SIZE_MAX: none). */
static void write_upload(const void *bytes, size_t n, size_t flip, char path[PATH_MAX])
{
    _cleanup_free_ uint8_t *copy = malloc(n);
    struct pl_err err;

    memcpy(copy, bytes, n);
    if (flip != SIZE_MAX)
        copy[flip] ^= 1;
    assert_ok(pl_object_tmp_path(objects, path, &err), &err);
    assert_ok(pl_io_write_file(path, copy, n, 0644, &err), &err);
}

static void a_received_pack_is_verified_and_visible(void **state)
{
    struct pl_hash id;
    char path[PATH_MAX];
    const void *bytes;
    size_t n;
    struct pl_pack_writer *w = make_pack("default", 0, 20, &bytes, &n, &id);
    struct pl_err err;

    (void)state;
    for (int twice = 0; twice < 2; twice++) { /* the second time it is there already, and that is fine */
        write_upload(bytes, n, SIZE_MAX, path);
        assert_ok(pl_store_receive_pack(store, path, &id, &err), &err);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_ok(pl_store_flush(store, &err), &err);
    for (uint32_t i = 0; i < 20; i++)
        assert_record(i, 0);
    reopen();
    assert_record(7, 0);
    pl_pack_writer_destroy(w);
}

static void a_lying_pack_is_refused_and_leaves_nothing(void **state)
{
    struct pl_hash id, record0 = record_id(0), other_id;
    char path[PATH_MAX];
    const void *bytes, *other_bytes;
    size_t n, other_n;
    struct pl_pack_writer *w = make_pack("default", 0, 20, &bytes, &n, &id);
    struct pl_pack_writer *other = make_pack("other", 0, 20, &other_bytes, &other_n, &other_id);
    struct pl_err err;

    (void)state;
    for (size_t at = 3; at < n; at += n / 40) {
        write_upload(bytes, n, at, path);
        assert_in_range(-pl_store_receive_pack(store, path, &id, &err), -PL_ECORRUPT, -PL_EFORMAT);
        assert_int_equal(access(path, F_OK), -1);
    }
    write_upload(bytes, n, SIZE_MAX, path);
    assert_int_equal(pl_store_receive_pack(store, path, &other_id, &err), PL_ECORRUPT);
    write_upload(other_bytes, other_n, SIZE_MAX, path);
    assert_int_equal(pl_store_receive_pack(store, path, &other_id, &err), PL_ECORRUPT);
    assert_int_equal(pl_store_put_pack(store, &other_id, other_bytes, other_n, &err), PL_EINVAL);
    assert_false(pl_store_has(store, &record0));
    assert_int_equal(fixture_count(fixture_path(dir, "store/p")), 0);
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
    pl_pack_writer_destroy(w);
    pl_pack_writer_destroy(other);
}

/* A pack that another process of the daemon's user wrote: its head and checksum are checked. */
static void a_pack_of_the_owner_is_taken_by_its_head_and_sum(void **state)
{
    struct pl_hash id, record0 = record_id(0), other_id;
    char path[PATH_MAX];
    const void *bytes, *other_bytes;
    size_t n, other_n, first = PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES;
    struct pl_pack_writer *w = make_pack("default", 0, 20, &bytes, &n, &id);
    struct pl_pack_writer *other = make_pack("other", 0, 20, &other_bytes, &other_n, &other_id);
    struct pl_err err;

    (void)state;
    write_upload(bytes, n, 3, path); /* in the header */
    assert_in_range(-pl_store_take_pack(store, path, &id, &err), -PL_ECORRUPT, -PL_EFORMAT);
    for (size_t at = n - 20 * PL_PACK_ENTRY_BYTES; at < n; at += 7) { /* in the footer or the trailer */
        write_upload(bytes, n, at, path);
        assert_in_range(-pl_store_take_pack(store, path, &id, &err), -PL_ECORRUPT, -PL_EFORMAT);
    }
    for (size_t at = first; at < first + 20; at++) { /* in a record */
        write_upload(bytes, n, at, path);
        assert_int_equal(pl_store_take_pack(store, path, &id, &err), PL_ECORRUPT);
    }
    write_upload(bytes, n, SIZE_MAX, path);
    assert_int_equal(pl_store_take_pack(store, path, &other_id, &err), PL_ECORRUPT);
    write_upload(other_bytes, other_n, SIZE_MAX, path);
    assert_int_equal(pl_store_take_pack(store, path, &other_id, &err), PL_ECORRUPT);
    assert_false(pl_store_has(store, &record0));
    assert_int_equal(fixture_count(fixture_path(dir, "store/p")), 0);
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);

    write_upload(bytes, n, SIZE_MAX, path);
    assert_ok(pl_store_take_pack(store, path, &id, &err), &err);
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
    assert_true(pl_store_has(store, &record0));
    for (uint32_t i = 0; i < 20; i++)
        assert_record(i, 0);
    pl_pack_writer_destroy(w);
    pl_pack_writer_destroy(other);
}

static void a_full_disk_refuses_a_pack_and_the_store_goes_on(void **state)
{
    struct pl_hash id, record0 = record_id(0);
    char path[PATH_MAX];
    const void *bytes;
    size_t n;
    struct pl_pack_writer *w = make_pack("default", 0, 20, &bytes, &n, &id);
    struct pl_err err;

    (void)state;
    for (int c = 0; c < PL_IO_CALLS; c++) {
        pl_io_fail_nth((enum pl_io_call)c, 1, ENOSPC);
        assert_int_equal(pl_store_put_pack(store, &id, bytes, n, &err), PL_ENOSPC);
        assert_false(pl_store_has(store, &record0));
    }
    for (int c = PL_IO_FSYNC; c < PL_IO_CALLS; c++) {
        write_upload(bytes, n, SIZE_MAX, path);
        pl_io_fail_nth((enum pl_io_call)c, 1, ENOSPC);
        assert_int_equal(pl_store_receive_pack(store, path, &id, &err), PL_ENOSPC);
    }
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
    assert_ok(pl_store_put_pack(store, &id, bytes, n, &err), &err);
    assert_record(0, 0);
    pl_pack_writer_destroy(w);
}

static const char *pack_path(const struct pl_hash *id)
{
    char key[PL_PACK_KEY_BYTES], name[200];

    (void)snprintf(name, sizeof(name), "store/%s", pl_pack_key("default", id, key));
    return fixture_path(dir, name);
}

static void damage(const struct pl_hash *pack, size_t at)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    const char *path = pack_path(pack);
    struct pl_err err;

    assert_ok(pl_io_read_file(path, &b, &err), &err);
    b.data[at == SIZE_MAX ? b.len - 1 : at] ^= 1;
    assert_ok(pl_io_write_file(path, b.data, b.len, 0644, &err), &err);
}

static void note_bad(void *arg, const struct pl_pack_entry *e, const struct pl_err *why)
{
    (void)why;
    *(struct pl_hash *)arg = e->id;
}

static void a_damaged_record_is_never_given_out(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash pack = put_pack(0, 20), id = record_id(1), bad;
    struct pl_location at;
    struct pl_err err;

    (void)state;
    assert_ok(pl_store_locate(store, &id, &at, &err), &err);
    damage(&pack, at.offset + PL_PACK_RECORD_BYTES + 5);
    reopen();
    assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
    assert_non_null(strstr(err.msg, "pack "));
    assert_record(2, 0);
    assert_int_equal(pl_store_verify_pack(store, &pack, note_bad, &bad, &err), PL_ECORRUPT);
    assert_true(pl_hash_eq(&bad, &id));
}

/* Of nine ids, of which the last is asked about; the others are there. */
static bool has_many(uint32_t first, uint32_t i)
{
    struct pl_hash ids[9];
    uint32_t packs[9];
    uint8_t bits[2];

    for (uint32_t k = 0; k < 9; k++)
        ids[k] = record_id(k == 8 ? i : first + 10 + k);
    pl_store_has_many(store, ids, 9, bits, packs);
    assert_int_equal(bits[0], 0xff);
    assert_true(packs[0] != UINT32_MAX);
    assert_int_equal(packs[8] != UINT32_MAX, bits[1]);
    return bits[1] == 1;
}

static void assert_has(uint32_t first, uint32_t i, bool has)
{
    struct pl_hash id = record_id(i);

    assert_int_equal(pl_store_has(store, &id), has);
    assert_int_equal(has_many(first, i), has);
}

static void damage_record(const struct pl_hash *pack, uint32_t i)
{
    struct pl_hash id = record_id(i);
    struct pl_location at;
    struct pl_err err;

    assert_ok(pl_store_locate(store, &id, &at, &err), &err);
    assert_true(pl_hash_eq(&at.pack, pack));
    damage(pack, at.offset + PL_PACK_RECORD_BYTES + 5);
    reopen();
}

/* Both who reads it and who verifies its pack find it; and after a restart it does not matter which of the two the index meets first. */
static void a_damaged_record_is_asked_for_again_and_the_new_one_is_read(void **state)
{
    (void)state;
    for (uint32_t first = 0; first <= 20; first += 20) {
        _cleanup_(pl_buf_finish) struct pl_buf b = {0};
        struct pl_hash pack = put_pack(first, 20), id = record_id(first + 1), bad;
        struct pl_err err;

        damage_record(&pack, first + 1);
        assert_has(first, first + 1, true); /* nobody knows yet */
        if (first == 0)
            assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
        else
            assert_int_equal(pl_store_verify_pack(store, &pack, note_bad, &bad, &err), PL_ECORRUPT);
        assert_has(first, first + 1, false);
        assert_has(first, first + 2, true);
        put_pack(first + 1, 1);
        assert_has(first, first + 1, true);
        assert_record(first + 1, 0);
        reopen();
        assert_record(first + 1, 0);
        assert_int_equal(pl_store_verify_pack(store, &pack, note_bad, &bad, &err), PL_ECORRUPT);
        assert_has(first, first + 1, true);
        assert_record(first + 2, 0);
    }
}

/* What nobody has read, or is damaged, or was when the store was opened, is no reason to take good bytes for had. */
static void a_pack_that_comes_again_takes_the_place_of_one_that_is_doubted(void **state)
{
    struct pl_hash id;
    char path[PATH_MAX];
    const void *bytes;
    size_t n;
    struct pl_pack_writer *w = make_pack("default", 0, 20, &bytes, &n, &id);
    struct pl_err err;

    (void)state;
    assert_ok(pl_store_put_pack(store, &id, bytes, n, &err), &err);
    for (int how = 0; how < 6; how++) {
        bool footer = how / 2 == 2;
        struct pl_hash bad;

        damage(&id, footer ? SIZE_MAX : PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES + 5);
        reopen();
        if (how / 2 == 0)
            pl_store_set_unread(store, &id, true);
        else
            assert_int_equal(pl_store_verify_pack(store, &id, note_bad, &bad, &err), PL_ECORRUPT);
        if (how % 2 == 0) {
            write_upload(bytes, n, SIZE_MAX, path);
            assert_ok(pl_store_receive_pack(store, path, &id, &err), &err);
        } else {
            assert_ok(pl_store_put_pack(store, &id, bytes, n, &err), &err);
        }
        assert_ok(pl_store_verify_pack(store, &id, note_bad, &bad, &err), &err);
        reopen();
        for (uint32_t i = 0; i < 20; i++)
            assert_record(i, 0);
    }
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
    pl_pack_writer_destroy(w);
}

/* Nobody leaves out bytes because of it, whatever else is said of it meanwhile; but it is read where there is nothing better. */
static void what_is_unread_is_read_but_not_relied_on(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash pack = put_pack(0, 20), id = record_id(1);
    struct pl_location at;
    struct pl_err err;

    (void)state;
    put_pack(20, 20);
    pl_store_set_unread(store, &pack, true);
    assert_has(20, 1, false);
    assert_ok(pl_store_get(store, &id, 0, &b, &err), &err);
    pl_store_set_seen(store, &pack, PL_PACK_HIDDEN);
    pl_store_set_seen(store, &pack, PL_PACK_SHOWN);
    assert_has(20, 1, false);
    put_pack(1, 1);
    assert_has(20, 1, true);
    assert_ok(pl_store_locate(store, &id, &at, &err), &err);
    assert_false(pl_hash_eq(&at.pack, &pack));
    pl_store_set_unread(store, &pack, false);
    assert_has(20, 2, true);
}

static void when_both_copies_are_damaged_the_read_ends(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash pack = put_pack(0, 20), id = record_id(1);
    struct pl_err err;

    (void)state;
    damage_record(&pack, 1);
    assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
    pack = put_pack(1, 1);
    damage_record(&pack, 1);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
    assert_has(0, 1, false);
}

static void a_pack_with_a_damaged_footer_does_not_keep_the_store_from_opening(void **state)
{
    _cleanup_free_ struct pl_hash *packs = NULL;
    struct pl_hash pack = put_pack(0, 20), gone = record_id(0);
    struct pl_err err;
    size_t n;

    (void)state;
    put_pack(20, 20);
    damage(&pack, SIZE_MAX);
    reopen();
    assert_false(pl_store_has(store, &gone));
    assert_record(25, 0);
    assert_ok(pl_store_packs(store, &packs, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_int_equal(pl_store_verify_pack(store, &pack, NULL, NULL, &err), PL_ECORRUPT);
}

static void a_pack_that_vanished_is_forgotten_at_the_next_start(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash pack = put_pack(0, 20), id = record_id(0);
    struct pl_err err;

    (void)state;
    put_pack(20, 20);
    assert_ok(pl_store_sync_index(store, &err), &err);
    assert_int_equal(unlink(pack_path(&pack)), 0);
    assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
    reopen();
    assert_false(pl_store_has(store, &id));
    assert_record(30, 0);
}

static void a_dropped_pack_is_not_read(void **state)
{
    struct pl_hash pack = put_pack(0, 20), id = record_id(0);
    struct pl_err err;

    (void)state;
    assert_record(0, 0);
    pl_store_drop_pack(store, &pack);
    assert_false(pl_store_has(store, &id));
    assert_ok(pl_store_add_pack(store, &pack, 0, &err), &err);
    assert_record(0, 0);
}

/* A file may hold the very bytes of a node; and what is larger than its use allows is refused. */
static void the_kind_asked_for_bounds_the_size_only(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = NULL;
    _cleanup_free_ uint8_t *large = fixture_alloc(PL_CHUNK_MAX_BYTES + 1, 1);
    struct pl_pack_entry e = {.raw = PL_CHUNK_MAX_BYTES + 1, .stored = PL_CHUNK_MAX_BYTES + 1, .kind = PL_REC_BLOB};
    struct pl_chunk_reader reader;
    struct pl_hash pack;
    const void *bytes;
    struct pl_err err;
    size_t n;

    (void)state;
    put_pack(0, 5);
    assert_record(1, PL_REC_CHUNK); /* stored as a node */
    pl_hash_sha256(large, e.raw, &e.id);
    assert_ok(pl_pack_writer_create("default", (const uint8_t *)"0123456789abcdef", 0, &w, &err), &err);
    assert_int_equal(pl_pack_writer_add(w, &e, large, &err), 1);
    assert_ok(pl_pack_writer_seal(w, &bytes, &n, &pack, &err), &err);
    assert_ok(pl_store_put_pack(store, &pack, bytes, n, &err), &err);
    assert_int_equal(pl_store_get(store, &e.id, PL_REC_CHUNK, &b, &err), PL_ECORRUPT);
    assert_ok(pl_store_get(store, &e.id, PL_REC_BLOB, &b, &err), &err);
    reader = pl_store_chunk_reader(store);
    assert_int_equal(reader.get(reader.self, &e.id, PL_REC_CHUNK, &b, &err), PL_ECORRUPT);
    assert_ok(reader.get(reader.self, &e.id, 0, &b, &err), &err);
    assert_ok(pl_store_node_get(store, &e.id, &b, &err), &err);
}

static void more_packs_than_descriptors_are_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PL_STORE_OPEN_PACKS + 20; i++)
        put_pack(i, 1);
    for (uint32_t i = 0; i < PL_STORE_OPEN_PACKS + 20; i++)
        assert_record(i, 0);
    for (uint32_t i = 0; i < PL_STORE_OPEN_PACKS + 20; i++)
        assert_record(i, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_put_is_read_before_and_after_a_restart),
        TEST(what_is_not_there_is_not_found),
        TEST(packs_of_other_projects_are_not_seen),
        TEST(a_received_pack_is_verified_and_visible),
        TEST(a_lying_pack_is_refused_and_leaves_nothing),
        TEST(a_pack_of_the_owner_is_taken_by_its_head_and_sum),
        TEST(a_full_disk_refuses_a_pack_and_the_store_goes_on),
        TEST(a_damaged_record_is_never_given_out),
        TEST(a_damaged_record_is_asked_for_again_and_the_new_one_is_read),
        TEST(a_pack_that_comes_again_takes_the_place_of_one_that_is_doubted),
        TEST(what_is_unread_is_read_but_not_relied_on),
        TEST(when_both_copies_are_damaged_the_read_ends),
        TEST(a_pack_with_a_damaged_footer_does_not_keep_the_store_from_opening),
        TEST(a_pack_that_vanished_is_forgotten_at_the_next_start),
        TEST(a_dropped_pack_is_not_read),
        TEST(the_kind_asked_for_bounds_the_size_only),
        TEST(more_packs_than_descriptors_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
