// link: pipelined/net/loop pipelined/net/remote pipelined/net/server storage/base storage/chunk storage/dataset/file storage/object storage/pack storage/store storage/system
/* A store behind a daemon: packs go up, records come down, by ranges or from the pack files; bytes that lie are refused. The daemon is
 * played by a real store behind a few routes. */
#include "pipelined/net/remote/remote.h"
#include "pipelined/net/remote/remote_locations.h"
#include "tests/support/fixtures/http_fixture.h"
#include "tests/support/fixtures/store_fixture.h"

#include "storage/chunk/chunk_list.h"
#include "storage/dataset/file/file_read.h"
#include "storage/object/object_offer.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define RECORDS      3000
#define RECORD_BYTES 5000

static char *dir;
static struct pl_object_store *objects;
static struct pl_store *store;
static struct pl_http_client *client;
static struct pl_remote *remote;
static struct pl_hash ids[RECORDS];
static bool told_where, in_bucket, lying, halving, knows_bytes;
static int offers_answer; /* 0, the error that refuses each offer, or 1: a server that says it took it, and did not */
static atomic_uint sessions;
static atomic_uint locates, ranges, haves, offers, bodies;
static char entries_query[256];

/* --- the daemon --- */

static void on_status(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};
    char url[4200];

    (void)arg;
    snprintf(url, sizeof(url), "file://%s", dir);
    pl_err_set(&err, PL_EFORBIDDEN, "not for workers");
    if (in_bucket)
        pl_http_reply_json(r, 200,
                           json_pack("{s:s, s:{s:[{s:s, s:s, s:I}]}}", "store", "s3://bucket/store", "disk", "places", "of",
                                     "data", "path", dir, "full_bytes", (json_int_t)1));
    else if (told_where)
        pl_http_reply_json(r, 200, json_pack("{s:s}", "store", url));
    else
        pl_http_reply_error(r, &err);
}

static void on_session(struct pl_http_request *r, void *arg)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_err err = {0};

    (void)arg;
    assert_ok(pl_http_body_json(r, &body, &err), &err);
    atomic_fetch_add(&sessions, 1);
    if (knows_bytes || !json_object_get(body, "bytes")) {
        pl_http_reply_json(r, 201, json_pack("{s:s, s:s}", "session", "s-1", "nonce", "00"));
        return;
    }
    pl_err_set(&err, PL_EINVAL, "the request's body is not valid: 1 object item(s) left unpacked: bytes");
    pl_http_reply_error(r, &err);
}

static void on_have(struct pl_http_request *r, void *arg)
{
    const struct pl_buf *body = pl_http_body(r);
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    (void)arg;
    assert_string_equal(pl_http_query(r, "session"), "s-1");
    atomic_fetch_add(&haves, 1);
    for (size_t i = 0; i < body->len / PL_HASH_BYTES; i++) {
        struct pl_hash id;

        memcpy(&id, body->data + i * PL_HASH_BYTES, PL_HASH_BYTES);
        assert_int_equal(pl_buf_add_u8(&out, pl_store_has(store, &id), NULL), 0);
    }
    pl_http_reply_buf(r, 200, "application/octet-stream", &out);
}

static void on_locate(struct pl_http_request *r, void *arg)
{
    const struct pl_buf *body = pl_http_body(r);
    size_t n = body->len / PL_HASH_BYTES;
    uint8_t *out = calloc(n, 80);

    (void)arg;
    atomic_fetch_add(&locates, 1);
    for (size_t i = 0; i < n; i++) {
        struct pl_location at;
        struct pl_hash id;
        uint64_t offset;

        memcpy(&id, body->data + i * PL_HASH_BYTES, PL_HASH_BYTES);
        if (pl_store_locate(store, &id, &at, NULL) < 0)
            continue;
        offset = at.offset;
        out[i * 80] = 1;
        out[i * 80 + 1] = at.codec;
        out[i * 80 + 2] = at.kind;
        memcpy(out + i * 80 + 4, &at.stored, 4);
        memcpy(out + i * 80 + 8, &at.raw, 4);
        memcpy(out + i * 80 + 16, &offset, 8);
        memcpy(out + i * 80 + 24, at.pack.b, PL_HASH_BYTES);
    }
    pl_http_reply(r, 200, "application/octet-stream", out, n * 80);
    free(out);
}

static int take_offer(struct pl_http_request *r, const struct pl_hash *id, struct pl_err *err)
{
    char path[PATH_MAX];
    uint64_t size;
    int e;

    atomic_fetch_add(&offers, 1);
    assert_int_equal(pl_http_body(r)->len, 0);
    if (offers_answer < 0)
        return pl_err_set(err, offers_answer, "no offers here");
    if (offers_answer > 0)
        return 0;
    e = pl_object_offer_take(objects, pl_http_query(r, "offer"), path, &size, err);
    return e < 0 ? e : pl_store_take_pack(store, path, id, err);
}

static void on_put_pack(struct pl_http_request *r, void *arg)
{
    const struct pl_buf *body = pl_http_body(r);
    struct pl_err err = {0};
    struct pl_hash id;
    int e;

    (void)arg;
    assert_string_equal(pl_http_query(r, "session"), "s-1");
    e = pl_hash_parse(pl_http_param(r, "id"), &id, &err);
    if (e == 0 && pl_http_query(r, "offer")) {
        if (take_offer(r, &id, &err) < 0)
            pl_http_reply_error(r, &err);
        else
            pl_http_reply_json(r, 201, json_object());
        return;
    }
    atomic_fetch_add(&bodies, 1);
    if (e < 0 || pl_store_put_pack(store, &id, body->data, body->len, &err) < 0)
        pl_http_reply_error(r, &err);
    else
        pl_http_reply_json(r, 201, json_object());
}

static void on_get_pack(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};
    char key[PL_PACK_KEY_BYTES];
    struct pl_hash id;
    uint64_t size, first, count;
    int fd;

    (void)arg;
    atomic_fetch_add(&ranges, 1);
    if (pl_hash_parse(pl_http_param(r, "id"), &id, &err) < 0 ||
        pl_object_size(objects, pl_pack_key(pl_http_param(r, "p"), &id, key), &size, &err) < 0 ||
        pl_object_open_fd(objects, key, &fd, &err) < 0) {
        pl_http_reply_error(r, &err);
        return;
    }
    if ((lying || halving) && pl_http_request_range(r, size, &first, &count) == PL_RANGE_PART) {
        char *bytes = malloc(count);

        assert_int_equal(pread(fd, bytes, count, (off_t)first), count);
        for (uint64_t i = 0; lying && i < count; i += 100)
            bytes[i] ^= 1;
        if (halving && count > 1 << 20)
            count /= 2;
        close(fd);
        pl_http_reply(r, 206, "application/octet-stream", bytes, count);
        free(bytes);
        return;
    }
    pl_http_reply_fd(r, fd, 0, size, "application/octet-stream");
}

static void on_entries(struct pl_http_request *r, void *arg)
{
    const char *second = pl_http_query_at(r, "files", 1);

    (void)arg;
    snprintf(entries_query, sizeof(entries_query), "%.8s %s %s %s", pl_http_param(r, "root"), pl_http_query(r, "path"),
             pl_http_query(r, "files"), second ? second : "-");
    pl_http_reply(r, 200, "application/x-pl-ops", "PLOP...", 7);
}

static const struct pl_http_route routes[] = {
    {"GET", "/api/v1/status", PL_ON_POOL, PL_BODY_NONE, 0, on_status, NULL, 0},
    {"POST", "/api/v1/sessions", PL_ON_POOL, PL_BODY_JSON, 0, on_session, NULL, 0},
    {"POST", "/api/v1/projects/{p}/have", PL_ON_POOL, PL_BODY_BYTES, 0, on_have, NULL, 0},
    {"POST", "/api/v1/projects/{p}/locate", PL_ON_POOL, PL_BODY_BYTES, 0, on_locate, NULL, 0},
    {"PUT", "/api/v1/projects/{p}/packs/{id}", PL_ON_POOL, PL_BODY_BYTES, 64u << 20, on_put_pack, NULL, 0},
    {"GET", "/api/v1/projects/{p}/packs/{id}", PL_ON_POOL, PL_BODY_NONE, 0, on_get_pack, NULL, 0},
    {"GET", "/api/v1/trees/{p}/{root}/entries", PL_ON_POOL, PL_BODY_NONE, 0, on_entries, NULL, 0},
};

/* --- life --- */

static int start(void **state)
{
    char url[64];
    struct pl_err err = {0};

    (void)state;
    dir = fixture_dir();
    umask(022);
    told_where = in_bucket = lying = halving = false;
    knows_bytes = true;
    offers_answer = 0;
    locates = ranges = haves = offers = bodies = 0;
    assert_ok(pl_object_file_open(dir, &objects, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "format"), "{}", 2, 0600, &err), &err);
    assert_ok(pl_store_open(objects, "default", NULL, &store, &err), &err);
    assert_int_equal(fixture_start((struct pl_http_options){.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)}), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    assert_ok(pl_http_client_create(url, "secret", &client, &err), &err);
    return 0;
}

static int stop(void **state)
{
    remote = pl_remote_close(remote);
    client = pl_http_client_destroy(client);
    fixture_stop(state);
    store = pl_store_close(store);
    objects = pl_object_close(objects);
    fixture_remove(dir);
    return 0;
}

static void open_remote(void)
{
    struct pl_err err = {0};

    assert_ok(pl_remote_open(client, "default", &remote, &err), &err);
}

/* RECORDS chunks through the remote's sink; every second id twice. */
static void push(struct pl_pack_builder_stats *ret)
{
    struct pl_pack_builder *session;
    struct pl_pack_sink sink = pl_remote_sink(remote);
    struct pl_err err = {0};

    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    for (size_t i = 0; i < RECORDS; i++) {
        uint8_t data[RECORD_BYTES];

        fixture_bytes(data, sizeof(data), i + 1);
        assert_ok(pl_pack_builder_add(session, PL_REC_CHUNK, data, sizeof(data), &ids[i], &err), &err);
    }
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    pl_pack_builder_stats(session, ret);
    pl_pack_builder_close(session);
}

static void push_all(void)
{
    struct pl_pack_builder_stats stats;
    struct pl_err err = {0};

    open_remote();
    assert_ok(pl_remote_session(remote, &err), &err);
    push(&stats);
    assert_int_equal(stats.new_records, RECORDS);
}

static void expect_record(const struct pl_chunk_reader *reader, size_t i, struct pl_buf *buf)
{
    uint8_t data[RECORD_BYTES];
    struct pl_err err = {0};

    fixture_bytes(data, sizeof(data), i + 1);
    assert_ok(reader->get(reader->self, &ids[i], PL_REC_CHUNK, buf, &err), &err);
    assert_int_equal(buf->len, sizeof(data));
    assert_memory_equal(buf->data, data, sizeof(data));
}

static void expect_all_records(void)
{
    _cleanup_(pl_buf_finish) struct pl_buf buf = {0};
    struct pl_chunk_reader reader = pl_remote_reader(remote);

    for (size_t i = 0; i < RECORDS; i++)
        expect_record(&reader, i, &buf);
}

/* --- tests --- */

static void test_what_is_there_is_not_sent_again(void **state)
{
    struct pl_pack_builder_stats stats;

    (void)state;
    push_all();
    assert_string_equal(pl_remote_session_id(remote), "s-1");
    push(&stats);
    assert_int_equal(stats.new_records, 0);
    assert_int_equal(stats.packs, 0);
    assert_true(haves > 0);
}

static void test_records_come_by_few_ranges_and_one_question(void **state)
{
    (void)state;
    push_all();
    assert_false(pl_remote_is_local(remote));
    assert_int_equal(pl_remote_locate(remote, ids, RECORDS, NULL), 0);
    expect_all_records();
    assert_int_equal(locates, 1);
    assert_true(ranges < 12); /* 15 MB: windows of 256 KiB, 512 KiB, … 8 MiB */
}

static void test_records_are_found_without_being_located_first(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf buf = {0};
    struct pl_chunk_reader reader;

    (void)state;
    push_all();
    reader = pl_remote_reader(remote);
    expect_record(&reader, 17, &buf);
    expect_record(&reader, 17, &buf);
    expect_record(&reader, RECORDS - 1, &buf);
    assert_int_equal(locates, 2);
}

static void test_a_readable_store_is_read_without_the_daemon(void **state)
{
    (void)state;
    told_where = true;
    push_all();
    assert_true(pl_remote_is_local(remote));
    expect_all_records();
    assert_int_equal(ranges, 0);
}

static void test_a_daemon_that_does_not_know_the_bytes_of_a_session_is_asked_without(void **state)
{
    struct pl_err err = {0};

    (void)state;
    open_remote();
    sessions = 0;
    assert_ok(pl_remote_session_for(remote, 4096, &err), &err);
    assert_int_equal(sessions, 1);
    knows_bytes = false;
    assert_ok(pl_remote_session_for(remote, 4096, &err), &err);
    assert_int_equal(sessions, 3);
    assert_string_equal(pl_remote_session_id(remote), "s-1");
}

static void test_packs_are_written_into_a_store_of_ones_own(void **state)
{
    (void)state;
    told_where = true;
    push_all();
    assert_true(offers > 0);
    assert_int_equal(bodies, 0);
    expect_all_records();
    assert_int_equal(fixture_count(fixture_path(dir, "tmp")), 0);
}

static void test_packs_for_a_bucket_are_written_into_the_daemons_folder(void **state)
{
    (void)state;
    in_bucket = true;
    push_all();
    assert_true(offers > 0);
    assert_int_equal(bodies, 0);
    assert_false(pl_remote_is_local(remote));
    expect_all_records();
    assert_int_equal(fixture_count(fixture_path(dir, "tmp")), 0);
}

/* A server chooses the folder, but nothing stays in it. */
static void test_an_offer_that_was_not_taken_is_removed(void **state)
{
    (void)state;
    told_where = true;
    offers_answer = 1;
    push_all();
    assert_true(offers > 0);
    assert_int_equal(fixture_count(fixture_path(dir, "tmp")), 0);
}

/* A daemon that sees another folder, or does not know offers, gets the bytes, and is offered no other pack. The bytes of
 * one that is busy, stops or has no space are not sent: the caller is told, and a retry writes no file again. */
static void test_a_daemon_that_refuses_an_offer_gets_the_bytes(void **state)
{
    static const struct {
        int code;
        unsigned offers; /* of two packs */
        bool told;
    } cases[] = {{PL_ENOTFOUND, 1},   {PL_EFORBIDDEN, 1},  {PL_EPROTO, 1},          {PL_EINVAL, 1},         {PL_EIO, 1},
                 {PL_ENOMEM, 2},      {PL_EBUSY, 2, true}, {PL_ESTOPPING, 2, true}, {PL_ETIMEOUT, 2, true}, {PL_ERETRY, 2, true},
                 {PL_EAUTH, 2, true}, {PL_ENOSPC, 2, true}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_pack_sink sink;
        struct pl_err err = {0};

        told_where = true;
        offers_answer = cases[i].code;
        open_remote();
        assert_ok(pl_remote_session(remote, &err), &err);
        sink = pl_remote_sink(remote);
        for (uint64_t k = 0; k < 2; k++) {
            struct pl_pack_builder *session;
            struct pl_hash id;

            assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
            assert_ok(pl_pack_builder_add(session, PL_REC_CHUNK, &k, sizeof(k), &id, &err), &err);
            if (cases[i].told) {
                assert_int_equal(pl_pack_builder_finish(session, &err), cases[i].code);
            } else {
                assert_ok(pl_pack_builder_finish(session, &err), &err);
                assert_true(pl_store_has(store, &id));
            }
            pl_pack_builder_close(session);
        }
        assert_int_equal(offers, cases[i].offers);
        assert_int_equal(bodies, cases[i].told ? 0 : 2);
        assert_int_equal(fixture_count(fixture_path(dir, "tmp")), 0);
        stop(state);
        start(state);
    }
}

/* The pack of a retry is sent, so that it is not written to the disk at each attempt. */
static void test_a_daemon_that_is_away_gets_no_offer_until_it_answers(void **state)
{
    static const uint8_t text[] = "a record";
    struct pl_hash pack = {0}, many = {0};
    struct pl_pack_sink sink;
    struct pl_err err = {0};
    uint8_t there;

    (void)state;
    told_where = true;
    open_remote();
    assert_ok(pl_remote_session(remote, &err), &err);
    sink = pl_remote_sink(remote);
    offers_answer = PL_ESTOPPING;
    assert_int_equal(sink.put_pack(sink.self, &pack, text, sizeof(text), &err), PL_ESTOPPING);
    for (int i = 0; i < 3; i++) /* which is not a pack */
        assert_true(sink.put_pack(sink.self, &pack, text, sizeof(text), &err) < 0);
    assert_int_equal(offers, 1);
    assert_int_equal(bodies, 3);
    assert_ok(sink.has(sink.self, &many, 1, &there, &err), &err);
    assert_int_equal(sink.put_pack(sink.self, &pack, text, sizeof(text), &err), PL_ESTOPPING);
    assert_int_equal(offers, 2);
    assert_int_equal(fixture_count(fixture_path(dir, "tmp")), 0);
}

static void test_a_store_that_others_may_write_to_gets_no_offers(void **state)
{
    (void)state;
    told_where = true;
    assert_int_equal(chmod(fixture_path(dir, "tmp"), 0775), 0);
    push_all();
    assert_int_equal(offers, 0);
    assert_true(bodies > 0);
}

static void test_a_worker_is_told_where_the_store_is(void **state)
{
    char url[4200];

    (void)state;
    push_all();
    assert_int_equal(pl_remote_set_store(remote, "s3://bucket", NULL), 0);
    assert_int_equal(pl_remote_set_store(remote, "file:///nowhere", NULL), 0);
    assert_int_equal(pl_remote_set_store(remote, NULL, NULL), 0);
    assert_false(pl_remote_is_local(remote));
    snprintf(url, sizeof(url), "file://%s", dir);
    assert_int_equal(pl_remote_set_store(remote, url, NULL), 0);
    assert_true(pl_remote_is_local(remote));
    expect_all_records();
    assert_int_equal(ranges, 0);
}

static void test_a_pack_that_cannot_be_read_here_is_read_through_the_daemon(void **state)
{
    char url[4200], *empty = fixture_dir();

    (void)state;
    push_all();
    assert_int_equal(pl_io_write_file(fixture_path(empty, "format"), "{}", 2, 0600, NULL), 0);
    snprintf(url, sizeof(url), "file://%s", empty);
    assert_int_equal(pl_remote_set_store(remote, url, NULL), 0);
    assert_true(pl_remote_is_local(remote));
    expect_all_records();
    assert_true(ranges > 0);
    fixture_remove(empty);
}

static void test_bytes_that_lie_are_refused(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf buf = {0};
    struct pl_chunk_reader reader;
    struct pl_err err = {0};

    (void)state;
    push_all();
    lying = true;
    reader = pl_remote_reader(remote);
    assert_int_equal(reader.get(reader.self, &ids[0], PL_REC_CHUNK, &buf, &err), PL_ECORRUPT);
    assert_non_null(strstr(err.msg, "pack "));
    assert_int_equal(locates, 2); /* it might have lain elsewhere by then */
}

static void test_an_unknown_record_is_not_found(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf buf = {0};
    struct pl_hash nobody = {{1, 2, 3}};
    struct pl_chunk_reader reader;
    struct pl_err err = {0};

    (void)state;
    open_remote();
    assert_int_equal(pl_remote_locate(remote, &nobody, 1, NULL), 0);
    reader = pl_remote_reader(remote);
    assert_int_equal(reader.get(reader.self, &nobody, 0, &buf, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "010203"));
}

/* A file of the first 200 records. */
static struct pl_entry put_list(void)
{
    struct pl_entry entry = {.kind = PL_KIND_FILE, .content = PL_CONTENT_LIST};
    struct pl_list_builder *builder;
    struct pl_pack_builder *session;
    struct pl_pack_sink sink = pl_remote_sink(remote);
    struct pl_list_sink list_sink = {.put = pl_pack_builder_list_put};
    struct pl_err err = {0};

    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    list_sink.self = session;
    assert_ok(pl_list_builder_create(&list_sink, &builder, &err), &err);
    for (size_t i = 0; i < 200; i++)
        assert_ok(pl_list_builder_add(builder, &ids[i], RECORD_BYTES, &err), &err);
    assert_ok(pl_list_builder_finish(builder, &entry.id, &entry.size, &err), &err);
    pl_list_builder_destroy(builder);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    pl_pack_builder_close(session);
    return entry;
}

static int collect(void *self, const void *data, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, data, n, err);
}

static void read_by_list(const struct pl_entry *entry)
{
    _cleanup_(pl_buf_finish) struct pl_buf scratch = {0}, out = {0};
    const struct pl_chunk_reader reader = pl_remote_reader(remote);
    struct pl_err err = {0};
    uint8_t data[RECORD_BYTES];

    locates = 0;
    assert_ok(pl_file_read(entry, 0, entry->size, &reader, &scratch, collect, &out, &err), &err);
    assert_int_equal(out.len, 200 * RECORD_BYTES);
    for (size_t i = 0; i < 200; i++) {
        fixture_bytes(data, sizeof(data), i + 1);
        assert_memory_equal(out.data + i * RECORD_BYTES, data, RECORD_BYTES);
    }
    assert_int_equal(locates, 2);
}

static void test_reading_a_file_locates_all_its_chunks_with_its_list(void **state)
{
    struct pl_entry entry;

    (void)state;
    push_all();
    entry = put_list();
    read_by_list(&entry);
    told_where = true; /* also where packs are read as files */
    pl_remote_close(remote);
    open_remote();
    read_by_list(&entry);
}

static uint8_t taken[RECORDS];
static size_t n_taken, take_at_most;

static int take(void *arg, size_t i, const uint8_t *bytes, size_t n, struct pl_err *err)
{
    uint8_t data[RECORD_BYTES];

    (void)arg;
    if (n_taken == take_at_most)
        return pl_err_set(err, PL_ENOSPC, "the disk is full");
    fixture_bytes(data, sizeof(data), i + 1);
    assert_int_equal(n, sizeof(data));
    assert_memory_equal(bytes, data, n);
    taken[i]++;
    n_taken++;
    return 0;
}

static int take_all(struct pl_err *err)
{
    const struct pl_chunk_reader reader = pl_remote_reader(remote);
    int r;

    memset(taken, 0, sizeof(taken));
    n_taken = 0;
    ranges = locates = 0;
    r = pl_chunk_reader_each(&reader, ids, RECORDS, take, NULL, err);
    for (size_t i = 0; i < RECORDS; i++)
        assert_int_equal(taken[i], r == 0 ? 1 : taken[i]);
    return r;
}

static void test_records_are_streamed_by_one_request_for_a_pack(void **state)
{
    struct pl_err err = {0};

    (void)state;
    push_all();
    take_at_most = SIZE_MAX;
    assert_ok(take_all(&err), &err);
    assert_int_equal(locates, 1);
    assert_int_equal(ranges, 1); /* 15 MB */
    halving = true;
    assert_ok(take_all(&err), &err);
    assert_int_equal(locates, 0);
    assert_true(ranges > 3 && ranges < 8);
    told_where = true; /* nothing is streamed from files */
    pl_remote_close(remote);
    open_remote();
    assert_ok(take_all(&err), &err);
    assert_int_equal(ranges, 0);
}

static void test_a_stream_that_lies_or_is_not_wanted_ends_with_an_error(void **state)
{
    struct pl_err err = {0};

    (void)state;
    push_all();
    take_at_most = 1000;
    assert_int_equal(take_all(&err), PL_ENOSPC);
    assert_string_equal(err.msg, "the disk is full");
    assert_int_equal(n_taken, 1000);
    lying = true;
    take_at_most = SIZE_MAX;
    assert_int_equal(take_all(&err), PL_ECORRUPT);
    assert_int_equal(n_taken, 0);
}

static void *read_some(void *arg)
{
    _cleanup_(pl_buf_finish) struct pl_buf buf = {0};
    struct pl_chunk_reader reader = pl_remote_reader(remote);
    uint64_t seed = (uint64_t)(uintptr_t)arg;

    for (int i = 0; i < 300; i++) {
        size_t k = pl_splitmix64(&seed) % RECORDS;
        struct pl_hash hash;

        if (reader.get(reader.self, &ids[k], PL_REC_CHUNK, &buf, NULL) < 0)
            return (void *)"a read failed";
        pl_hash_sha256(buf.data, buf.len, &hash);
        if (!pl_hash_eq(&hash, &ids[k]))
            return (void *)"wrong bytes";
    }
    return NULL;
}

static void test_many_threads_may_read_at_once(void **state)
{
    pthread_t threads[8];

    (void)state;
    push_all();
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        pthread_create(&threads[i], NULL, read_some, (void *)(i + 1));
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++) {
        void *complaint;

        pthread_join(threads[i], &complaint);
        if (complaint)
            fail_msg("%s", (char *)complaint);
    }
}

static void test_entries_are_asked_for_with_path_and_globs(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    const char *const files[] = {"*.csv", "a+b/**", NULL};
    struct pl_hash root = {{0xab, 0xcd}};

    (void)state;
    open_remote();
    assert_int_equal(pl_remote_entries(remote, &root, "in&out/x y", files, collect, &out, NULL), 0);
    assert_string_equal(pl_buf_str(&out), "PLOP...");
    assert_string_equal(entries_query, "abcd0000 in&out/x y *.csv a+b/**");
}

static void test_the_table_of_locations_keeps_the_latest_and_stays_bounded(void **state)
{
    struct remote_table *table = pl_remote_locations_create();
    struct pl_location at = {0}, found;
    uint64_t n = 2 * PL_REMOTE_LOCATED_MAX;

    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        struct pl_hash id;

        pl_hash_sha256(&i, sizeof(i), &id);
        at.offset = (uint32_t)i;
        at.pack.b[0] = (uint8_t)(i % 3);
        assert_int_equal(pl_remote_locations_put(table, &id, &at, NULL), 0);
        if (i % 1000)
            continue;
        assert_true(pl_remote_locations_find(table, &id, &found));
        assert_int_equal(found.offset, i);
        assert_int_equal(found.pack.b[0], i % 3);
        pl_remote_locations_forget(table, &id);
        assert_false(pl_remote_locations_find(table, &id, &found));
    }
    for (uint64_t i = 1; i < n; i += 1009) {
        struct pl_hash id;

        pl_hash_sha256(&i, sizeof(i), &id);
        if (i >= n - PL_REMOTE_LOCATED_MAX / 2 && i % 1000)
            assert_true(pl_remote_locations_find(table, &id, &found));
        else if (i < n - PL_REMOTE_LOCATED_MAX)
            assert_false(pl_remote_locations_find(table, &id, &found));
    }
    pl_remote_locations_destroy(table);
}

#define SERVED(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(test_what_is_there_is_not_sent_again),
        SERVED(test_records_come_by_few_ranges_and_one_question),
        SERVED(test_records_are_found_without_being_located_first),
        SERVED(test_a_readable_store_is_read_without_the_daemon),
        SERVED(test_a_daemon_that_does_not_know_the_bytes_of_a_session_is_asked_without),
        SERVED(test_packs_are_written_into_a_store_of_ones_own),
        SERVED(test_packs_for_a_bucket_are_written_into_the_daemons_folder),
        SERVED(test_an_offer_that_was_not_taken_is_removed),
        SERVED(test_a_daemon_that_refuses_an_offer_gets_the_bytes),
        SERVED(test_a_daemon_that_is_away_gets_no_offer_until_it_answers),
        SERVED(test_a_store_that_others_may_write_to_gets_no_offers),
        SERVED(test_a_worker_is_told_where_the_store_is),
        SERVED(test_a_pack_that_cannot_be_read_here_is_read_through_the_daemon),
        SERVED(test_bytes_that_lie_are_refused),
        SERVED(test_an_unknown_record_is_not_found),
        SERVED(test_reading_a_file_locates_all_its_chunks_with_its_list),
        SERVED(test_records_are_streamed_by_one_request_for_a_pack),
        SERVED(test_a_stream_that_lies_or_is_not_wanted_ends_with_an_error),
        SERVED(test_many_threads_may_read_at_once),
        SERVED(test_entries_are_asked_for_with_path_and_globs),
        cmocka_unit_test(test_the_table_of_locations_keeps_the_latest_and_stays_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
