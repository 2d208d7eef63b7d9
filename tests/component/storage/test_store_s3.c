// link: storage/base storage/chunk storage/pack storage/store storage/system s3_mock
/* store, over a bucket: the same records, verified; few requests for them; copies of trees on this disk, which are no truth. */
#include "tests/unit/storage/pack/pack_fixture.h"

#include "storage/store/pack_files.h"
#include "tests/support/s3_server/s3_mock.h"

#include <dirent.h>
#include <fcntl.h>

static char *dir;
static struct s3_mock *mock;
static struct pl_object_store *objects;
static struct pl_store *store;

static void open_store(bool cache)
{
    struct pl_object_config c = {.url = "s3://" S3_MOCK_BUCKET "/x",
                                 .endpoint = s3_mock_url(mock),
                                 .region = S3_MOCK_REGION,
                                 .access_key = S3_MOCK_KEY,
                                 .secret_key = S3_MOCK_SECRET,
                                 .tmp_dir = dir,
                                 .cache_dir = cache ? fixture_path(dir, "cache") : NULL,
                                 .pause_ms = 1};
    struct pl_err err;

    assert_ok(pl_object_open(&c, &objects, &err), &err);
    assert_ok(pl_store_open(objects, "default", fixture_path(dir, "index"), &store, &err), &err);
}

static void close_store(void)
{
    store = pl_store_close(store);
    objects = pl_object_close(objects);
}

static int setup(void **state)
{
    (void)state;
    dir = fixture_dir();
    mock = s3_mock_start(&(struct s3_mock_config){.page_keys = 3});
    open_store(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_store();
    if (s3_mock_violations(mock) != 0)
        fail_msg("%s", s3_mock_violation(mock));
    s3_mock_stop(mock);
    fixture_remove(dir);
    return 0;
}

/* As another machine would find it: nothing but the bucket. */
static void reopen_elsewhere(void)
{
    struct pl_err err;

    close_store();
    assert_ok(pl_io_remove_tree(fixture_path(dir, "index"), &err), &err);
    assert_ok(pl_io_remove_tree(fixture_path(dir, "cache"), &err), &err);
    open_store(true);
}

static struct pl_hash put_made(struct pl_pack_writer *w, const void *bytes, size_t n, struct pl_hash id)
{
    struct pl_err err;

    assert_ok(pl_store_put_pack(store, &id, bytes, n, &err), &err);
    assert_ok(pl_store_flush(store, &err), &err);
    pl_pack_writer_destroy(w);
    return id;
}

static struct pl_hash put_pack(uint32_t first, uint32_t count)
{
    struct pl_hash id;
    const void *bytes;
    size_t n;
    struct pl_pack_writer *w = make_pack("default", first, count, &bytes, &n, &id);

    return put_made(w, bytes, n, id);
}

/* A pack of `count` chunks of `each` bytes that do not compress; chunk i is of seed `seed + i`. */
static struct pl_hash put_chunks(uint32_t seed, uint32_t count, size_t each)
{
    uint8_t nonce[PL_PACK_NONCE_BYTES] = {(uint8_t)seed, 77};
    struct pl_pack_writer *w;
    struct pl_hash id;
    const void *bytes;
    struct pl_err err;
    size_t n;

    assert_ok(pl_pack_writer_create("default", nonce, 0, &w, &err), &err);
    for (uint32_t i = 0; i < count; i++) {
        _cleanup_free_ uint8_t *raw = fixture_alloc(each, seed + i);
        struct pl_pack_entry e = {.kind = PL_REC_CHUNK, .codec = PL_CODEC_RAW, .raw = (uint32_t)each, .stored = (uint32_t)each};

        pl_hash_sha256(raw, each, &e.id);
        assert_ok(pl_pack_writer_add(w, &e, raw, &err), &err);
    }
    assert_ok(pl_pack_writer_seal(w, &bytes, &n, &id, &err), &err);
    return put_made(w, bytes, n, id);
}

static int get_chunk(uint32_t seed, size_t each, struct pl_err *err)
{
    _cleanup_free_ uint8_t *raw = fixture_alloc(each, seed);
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash id;
    int r;

    pl_hash_sha256(raw, each, &id);
    r = pl_store_get(store, &id, PL_REC_CHUNK, &b, err);
    if (r == 0)
        assert_true(b.len == each && memcmp(b.data, raw, each) == 0);
    return r;
}

static void what_was_put_is_read_here_and_elsewhere(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        put_pack(20 * i, 20);
    for (uint32_t i = 0; i < 200; i += 7)
        pack_assert_record(store, i, 0);
    reopen_elsewhere();
    for (uint32_t i = 0; i < 200; i += 7)
        pack_assert_record(store, i, 0);
    close_store();
    open_store(false); /* without a place for copies */
    for (uint32_t i = 0; i < 200; i += 7)
        pack_assert_record(store, i, 0);
}

static void footers_come_by_one_request_each(void **state)
{
    unsigned before;

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        put_pack(20 * i, 20);
    before = s3_mock_requests(mock, NULL);
    reopen_elsewhere();
    assert_in_range(s3_mock_requests(mock, NULL) - before, 14, 15); /* and four pages of the list */
}

static void reading_on_takes_few_requests(void **state)
{
    struct pl_err err;
    unsigned before;

    (void)state;
    put_chunks(1000, 256, 64 << 10); /* 16 MiB */
    before = s3_mock_requests(mock, NULL);
    for (uint32_t i = 0; i < 256; i++)
        assert_ok(get_chunk(1000 + i, 64 << 10, &err), &err);
    assert_in_range(s3_mock_requests(mock, NULL) - before, 5, 9); /* 1/4, 1/2, 1, 2, 4, 8 MiB, the rest */
}

static void records_in_many_places_bring_the_whole_pack(void **state)
{
    struct pl_err err;
    unsigned before;

    (void)state;
    put_chunks(1000, 256, 64 << 10);
    before = s3_mock_requests(mock, NULL);
    for (uint32_t i = 0; i < 64; i++) /* never next to each other, and out of order */
        assert_ok(get_chunk(1000 + i * 37 % 256, 64 << 10, &err), &err);
    assert_in_range(s3_mock_requests(mock, NULL) - before, PL_PACK_SPOTS_WHOLE, PL_PACK_SPOTS_WHOLE + 4);
}

static void trees_are_kept_on_this_disk(void **state)
{
    unsigned before;

    (void)state;
    put_pack(0, 40);
    before = s3_mock_requests(mock, NULL); /* what was put is here already */
    for (uint32_t i = 0; i < 40; i++)
        pack_assert_record(store, i, 0);
    assert_int_equal(s3_mock_requests(mock, NULL), before);
    close_store();
    open_store(true);
    before = s3_mock_requests(mock, NULL);
    for (uint32_t i = 0; i < 40; i++)
        if (i % 5 != 0) /* no chunk: those would be read where they are */
            pack_assert_record(store, i, 0);
    assert_int_equal(s3_mock_requests(mock, NULL), before);
    reopen_elsewhere();
    before = s3_mock_requests(mock, NULL);
    for (uint32_t i = 0; i < 40; i++)
        if (i % 5 != 0)
            pack_assert_record(store, i, 0);
    assert_int_equal(s3_mock_requests(mock, NULL) - before, 1); /* the pack, as a whole */
}

/* Flips a bit in the middle of every file of a folder. */
static void damage_copies(const char *folder)
{
    struct dirent *e;
    DIR *d = opendir(folder);

    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        char path[4096];
        struct stat st;
        uint8_t byte;
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || (fd = open(path, O_RDWR)) < 0)
            continue;
        assert_int_equal(fstat(fd, &st), 0);
        for (off_t at = 100; at < st.st_size; at += 200) {
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 1;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
    }
    closedir(d);
}

static void a_damaged_copy_is_fetched_anew(void **state)
{
    (void)state;
    put_pack(0, 40);
    pack_assert_record(store, 1, 0);
    close_store();
    damage_copies(fixture_path(dir, "cache"));
    open_store(true);
    for (uint32_t i = 0; i < 40; i++)
        pack_assert_record(store, i, 0);
}

static void without_room_for_copies_records_are_read_where_they_are(void **state)
{
    (void)state;
    put_pack(0, 40);
    reopen_elsewhere();
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    pl_io_fail_on(PL_IO_WRITE, true);
    for (uint32_t i = 0; i < 40; i++)
        pack_assert_record(store, i, 0);
    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
    assert_int_equal(fixture_count(fixture_path(dir, "cache")), 0);
}

static void note_bad(void *arg, const struct pl_pack_entry *e, const struct pl_err *why)
{
    (void)why;
    *(struct pl_hash *)arg = e->id;
}

static void what_is_damaged_in_the_bucket_is_never_given_out(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash pack = put_pack(0, 40), id = record_id(1), bad;
    char key[PL_PACK_KEY_BYTES], whole[PL_PACK_KEY_BYTES + 2];
    struct pl_location at;
    struct pl_err err;

    (void)state;
    (void)snprintf(whole, sizeof(whole), "x/%s", pl_pack_key("default", &pack, key));
    assert_ok(pl_store_verify_pack(store, &pack, NULL, NULL, &err), &err);
    assert_true(s3_mock_object(mock, whole, &b));
    assert_ok(pl_store_locate(store, &id, &at, &err), &err);
    b.data[at.offset + PL_PACK_RECORD_BYTES + 5] ^= 1;
    s3_mock_plant(mock, whole, b.data, b.len);
    reopen_elsewhere();
    assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
    assert_int_equal(pl_store_verify_pack(store, &pack, note_bad, &bad, &err), PL_ECORRUPT);
    assert_true(pl_hash_eq(&bad, &id));
    pack_assert_record(store, 2, 0);
}

static void a_large_pack_is_verified_in_few_requests(void **state)
{
    struct pl_hash pack = put_chunks(5, 320, 64 << 10); /* 20 MiB */
    unsigned before = s3_mock_requests(mock, NULL);
    struct pl_err err;

    (void)state;
    assert_ok(pl_store_verify_pack(store, &pack, NULL, NULL, &err), &err);
    assert_in_range(s3_mock_requests(mock, NULL) - before, 4, 5); /* the end, and 8 MiB at a time */
}

static void a_pack_that_is_gone_is_said_to_be(void **state)
{
    struct pl_hash pack = put_pack(0, 20), id = record_id(0);
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    char key[PL_PACK_KEY_BYTES];
    struct pl_err err;

    (void)state;
    put_pack(20, 20);
    assert_ok(pl_object_remove(objects, pl_pack_key("default", &pack, key), &err), &err);
    assert_int_equal(pl_store_get(store, &id, 0, &b, &err), PL_ECORRUPT);
    close_store();
    open_store(true);
    assert_false(pl_store_has(store, &id));
    pack_assert_record(store, 30, 0);
}

/* A pack written to a file here, as an upload is. */
static void a_received_pack_goes_to_the_bucket(void **state)
{
    char path[PATH_MAX];
    struct pl_hash id;
    const void *bytes;
    size_t n;
    struct pl_pack_writer *w = make_pack("default", 0, 20, &bytes, &n, &id);
    struct pl_err err;

    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        assert_ok(pl_object_tmp_path(objects, path, &err), &err);
        assert_ok(pl_io_write_file(path, bytes, n, 0644, &err), &err);
        assert_ok(pl_store_receive_pack(store, path, &id, &err), &err);
        assert_int_equal(access(path, F_OK), -1);
    }
    pl_pack_writer_destroy(w);
    reopen_elsewhere();
    for (uint32_t i = 0; i < 20; i++)
        pack_assert_record(store, i, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_put_is_read_here_and_elsewhere),
        TEST(footers_come_by_one_request_each),
        TEST(reading_on_takes_few_requests),
        TEST(records_in_many_places_bring_the_whole_pack),
        TEST(trees_are_kept_on_this_disk),
        TEST(a_damaged_copy_is_fetched_anew),
        TEST(without_room_for_copies_records_are_read_where_they_are),
        TEST(what_is_damaged_in_the_bucket_is_never_given_out),
        TEST(a_large_pack_is_verified_in_few_requests),
        TEST(a_pack_that_is_gone_is_said_to_be),
        TEST(a_received_pack_goes_to_the_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
