// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/http_client pipelined/net/loop pipelined/net/remote pipelined/net/server pipelined/spec storage/base storage/dataset/checkout storage/dataset/file storage/dataset/ingest storage/object storage/pack storage/store storage/system storage/tree_edit s3_mock
/* Packs that go beside the daemon: by URLs that a strict S3 server, in this process, holds to what was signed. */
#include "tests/support/fixtures/presigned_fixture.h"

#include "pipelined/net/remote/remote.h"
#include "storage/dataset/checkout/checkout.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"

#include <dirent.h>
#include <fcntl.h>

#define BIG ((size_t)3 << 20)

static int setup_tls(void **state)
{
    mock_config.tls = true;
    return setup(state);
}

/* ---- clients ---- */

struct client {
    struct pl_http_client *http;
    struct pl_remote *remote;
    struct pl_pack_sink sink;
    struct pl_pack_builder *session;
};

static void client_open(struct client *c, const char *token)
{
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    MUST(pl_http_client_create(url, token, &c->http, &err));
    MUST(pl_remote_open(c->http, "default", &c->remote, &err));
    MUST(pl_remote_session(c->remote, &err));
    c->sink = pl_remote_sink(c->remote);
    MUST(pl_pack_builder_open(&c->sink, "default", &c->session, &err));
}

static void client_close(struct client *c)
{
    pl_pack_builder_close(c->session);
    pl_remote_close(c->remote);
    pl_http_client_destroy(c->http);
}

struct bytes {
    const uint8_t *p;
    size_t n;
};

static ssize_t read_bytes(void *self, void *out, size_t n, struct pl_err *err)
{
    struct bytes *b = self;

    (void)err;
    n = PL_MIN(n, b->n);
    memcpy(out, b->p, n);
    b->p += n;
    b->n -= n;
    return (ssize_t)n;
}

static uint8_t *noise(size_t n, uint64_t seed)
{
    uint8_t *out = malloc(n + 8);

    assert_non_null(out);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pl_splitmix64(&seed);

        memcpy(out + i, &v, 8);
    }
    return out;
}

/* Puts a file of BIG bytes in a commit of its own; its entry. */
static struct pl_entry push_file(struct client *c, const char *path, uint64_t seed)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    uint8_t *bytes = noise(BIG, seed);
    struct bytes source = {bytes, BIG};
    struct pl_tree_ops_writer w = {0};
    struct pl_entry entry;
    char target[256];
    struct answer a;

    MUST(pl_file_write_stream(c->session, PL_KIND_FILE, read_bytes, &source, &entry, &err));
    MUST(pl_tree_ops_writer_init(&w, &ops, &err));
    MUST(pl_tree_ops_writer_put(&w, path, strlen(path), &entry, &err));
    MUST(pl_tree_ops_writer_end(&w, &err));
    pl_tree_ops_writer_finish(&w);
    MUST(pl_pack_builder_finish(c->session, &err));
    snprintf(target, sizeof target, REPO "/branches/master/commits?session=%s", pl_remote_session_id(c->remote));
    a = ask_with("POST", target, AS_USER, ops.data, ops.len);
    if (a.status >= 400)
        fail_msg("push: %d %.300s", a.status, a.body);
    answer_free(&a);
    free(bytes);
    return entry;
}

/* Reads all chunks of the file through a client of its own, every one asked for beforehand. */
static void read_file(const struct pl_entry *entry, uint64_t seed)
{
    _cleanup_(pl_buf_finish) struct pl_buf list = {0}, chunk = {0};
    uint8_t *want = noise(BIG, seed);
    struct pl_chunk_reader reader;
    struct pl_list chunks;
    struct pl_hash *ids;
    size_t at = 0;
    struct client c;

    client_open(&c, WORKER_TOKEN);
    reader = pl_remote_reader(c.remote);
    MUST(reader.get(reader.self, &entry->id, PL_REC_LIST, &list, &err));
    MUST(pl_list_decode(list.data, list.len, &chunks, &err));
    ids = calloc(chunks.count, sizeof *ids);
    for (size_t i = 0; i < chunks.count; i++) {
        uint64_t size;

        pl_list_entry(&chunks, i, &ids[i], &size);
    }
    MUST(pl_remote_locate(c.remote, ids, chunks.count, &err));
    for (size_t i = 0; i < chunks.count; i++) {
        MUST(reader.get(reader.self, &ids[i], PL_REC_CHUNK, &chunk, &err));
        assert_true(at + chunk.len <= BIG);
        assert_memory_equal(chunk.data, want + at, chunk.len);
        at += chunk.len;
    }
    assert_int_equal(at, BIG);
    free(ids);
    free(want);
    client_close(&c);
}

/* ---- what goes beside the daemon ---- */

static void bytes_of_packs_go_past_the_daemon(void **state)
{
    struct pl_entry entry;
    unsigned gets;
    struct client c;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    entry = push_file(&c, "big", 1);
    assert_true(of_packs("urls_put") >= 1);
    all_are_read_back();
    assert_int_equal(of_packs("read_back"), of_packs("urls_put"));
    gets = s3_mock_requests(mock, "GET");
    read_file(&entry, 1);
    assert_true(of_packs("urls_get") >= 1);
    assert_in_range(s3_mock_requests(mock, "GET") - gets, 2, 4); /* the list; the chunks, which lie one behind the other */
    assert_int_equal(of_packs("bytes_in"), 0);
    assert_int_equal(of_packs("bytes_out"), 0);
    assert_int_equal(of_packs("quarantined"), 0);
    client_close(&c);
}

/* The bucket's certificate is its own: who uses the URLs is told of it. */
static void bytes_go_to_a_bucket_with_a_certificate_of_its_own(void **state)
{
    struct pl_entry entry;
    struct client c;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    entry = push_file(&c, "big", 3);
    all_are_read_back();
    read_file(&entry, 3);
    assert_true(of_packs("urls_put") >= 1);
    assert_true(of_packs("urls_get") >= 1);
    assert_int_equal(of_packs("bytes_in"), 0);
    assert_int_equal(of_packs("bytes_out"), 0);
    client_close(&c);
}

static void what_the_bucket_refuses_goes_through_the_daemon(void **state)
{
    struct pl_entry entry;
    struct client c;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .key = "X-Amz-Signature"});
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "GET", .key = "X-Amz-Signature"});
    entry = push_file(&c, "big", 2);
    assert_true(of_packs("bytes_in") >= (int64_t)BIG);
    read_file(&entry, 2);
    assert_true(of_packs("bytes_out") >= (int64_t)BIG);
    client_close(&c);
}

/* One lost connection is no reason to leave the bucket alone. */
static void bad_luck_once_is_not_seen(void **state)
{
    struct pl_entry entry;
    struct client c;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_RESET_AFTER, .method = "PUT", .key = "X-Amz-Signature", .times = 1});
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_503, .method = "GET", .key = "X-Amz-Signature", .times = 1});
    entry = push_file(&c, "big", 4);
    read_file(&entry, 4);
    assert_true(of_packs("urls_put") >= 1 && of_packs("urls_get") >= 1);
    assert_int_equal(of_packs("bytes_in"), 0);
    assert_int_equal(of_packs("bytes_out"), 0);
    client_close(&c);
}

/* Whatever answers in the place of the bucket: what it gives is no range, or another, or not what lies there. */
static void what_the_bucket_does_not_give_right_comes_through_the_daemon(void **state)
{
    static const struct s3_fault faults[] = {{.kind = S3_FAULT_WHOLE},
                                             {.kind = S3_FAULT_OTHER_RANGE, .bytes = 1},
                                             {.kind = S3_FAULT_FLIP, .bytes = 1000},
                                             {.kind = S3_FAULT_NO_LENGTH, .bytes = 5000}};
    struct pl_entry entry;
    struct client c;
    int64_t before = 0;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    entry = push_file(&c, "big", 5);
    all_are_read_back();
    for (size_t i = 0; i < PL_ARRAY_SIZE(faults); i++) {
        struct s3_fault fault = faults[i];

        fault.method = "GET";
        fault.key = "X-Amz-Signature";
        s3_mock_fault(mock, fault);
        read_file(&entry, 5);
        assert_true(of_packs("bytes_out") > before);
        before = of_packs("bytes_out");
        s3_mock_chaos(mock, 0, 0);
    }
    client_close(&c);
}

/* The daemon's copy of a pack lost bytes in a power failure. */
static void a_damaged_copy_of_the_daemons_is_found_out_by_who_reads_it(void **state)
{
    struct pl_entry entry;
    struct dirent *e;
    struct client c;
    unsigned cut = 0;
    DIR *d;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    entry = push_file(&c, "big", 6);
    all_are_read_back();
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "GET", .key = "X-Amz-Signature"});
    read_file(&entry, 6);
    d = opendir(t.data);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        _cleanup_close_ int fd = openat(dirfd(d), e->d_name, O_RDWR);

        if (fd >= 0 && lseek(fd, 0, SEEK_END) > 1000) {
            cut++;
            for (off_t at = 200; at < (off_t)BIG; at += 4096)
                assert_int_equal(pwrite(fd, "", 1, at), 1);
        }
    }
    closedir(d);
    assert_true(cut > 0);
    read_file(&entry, 6);
    client_close(&c);
}

static void a_store_that_does_not_hold_to_what_was_signed_gives_no_urls(void **state)
{
    struct pl_entry entry;
    struct client c;

    (void)state;
    make_repo("data");
    client_open(&c, TOKEN);
    entry = push_file(&c, "big", 3);
    read_file(&entry, 3);
    assert_int_equal(of_packs("urls_put") + of_packs("urls_get"), 0);
    assert_true(of_packs("bytes_in") >= (int64_t)BIG && of_packs("bytes_out") >= (int64_t)BIG);
    refused("not_available", "limited to a range", "POST", PROJECT "/get-urls", "{\"ranges\":[]}");
    client_close(&c);
}

static int setup_loose(void **state)
{
    mock_config = (struct s3_mock_config){.ignores_signed_ranges = true, .ignores_signed_hashes = true};
    hostile = 1;
    return setup(state);
}

static void a_url_to_put_by_takes_its_own_bytes_once(void **state)
{
    char session[64], *url_text, *last;
    struct pack p;
    json_t *url;

    (void)state;
    hostile = 1;
    open_session(session);
    make_pack(&p, "default", "what the chunk holds");
    url = put_url(&p, session);
    p.bytes.data[100] ^= 1;
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 400);
    p.bytes.data[100] ^= 1;
    assert_true(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len - 1, NULL) >= 400);
    object_is(&p, "p", false);
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 200);
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 412);
    url_text = strdup(text_at(url, "url"));
    last = &url_text[strlen(url_text) - 1]; /* of the signature */
    *last = *last == '0' ? '1' : '0';
    json_object_set_new(url, "url", json_string(url_text));
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 403);
    json_decref(url);
    url = put_url(&p, session); /* it is there, but we were not told: another URL, for the same bytes */
    s3_mock_set_clock(mock, 601);
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 403);
    s3_mock_set_clock(mock, 0);
    object_is(&p, "p", true);
    assert_int_equal(tell(&p, session), 201);
    json_decref(url);
    url = put_url(&p, session);
    assert_true(json_is_true(json_object_get(url, "there")));
    json_decref(url);
    free(url_text);
    pl_buf_finish(&p.bytes);
}

/* HEAD of the pack. */
static int look_for(const struct pack *p)
{
    char target[160];
    struct answer a;
    int status;

    snprintf(target, sizeof target, PROJECT "/packs/%s", p->hex);
    a = ask_with("HEAD", target, AS_WORKER, "", 0);
    status = a.status;
    answer_free(&a);
    return status;
}

static json_t *get_urls(const struct pack *p)
{
    static const char none[] =
        "{\"pack\":\"1111111111111111111111111111111111111111111111111111111111111111\",\"offset\":0,\"bytes\":1}";
    char body[512];
    json_t *o, *urls;

    snprintf(body, sizeof body, "{\"ranges\":[%s,{\"pack\":\"%s\",\"offset\":0,\"bytes\":1},%s]}", none, p->hex, none);
    o = ask_json(200, "POST", PROJECT "/get-urls", body);
    urls = json_incref(json_object_get(o, "urls"));
    json_decref(o);
    return urls;
}

static void a_url_to_read_by_gives_its_own_range(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    char session[64];
    struct pack p;
    json_t *url, *urls;

    (void)state;
    hostile = 1;
    open_session(session);
    make_pack(&p, "default", "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    url = get_url(&p, 80, 30); /* the daemon was not told of it */
    assert_true(json_is_false(json_object_get(url, "there")));
    json_decref(url);
    assert_int_equal(look_for(&p), 404);
    assert_int_equal(tell(&p, session), 201);
    assert_int_equal(look_for(&p), 200);
    urls = get_urls(&p); /* of two packs that are not there, and of it */
    assert_true(json_is_false(json_object_get(json_array_get(urls, 0), "there")));
    assert_non_null(json_object_get(json_array_get(urls, 1), "url"));
    assert_true(json_is_false(json_object_get(json_array_get(urls, 2), "there")));
    json_decref(urls);
    url = get_url(&p, 80, 30);
    assert_true(number_at(url, "expires_s") <= 900);
    assert_int_equal(send_signed(url, "GET", NULL, NULL, 0, &out), 206);
    assert_true(out.len == 30 && memcmp(out.data, p.bytes.data + 80, 30) == 0);
    assert_int_equal(send_signed(url, "GET", "range: bytes=0-200", NULL, 0, NULL), 403);
    assert_int_equal(send_signed(url, "PUT", NULL, "x", 1, NULL), 403);
    s3_mock_set_clock(mock, 901);
    assert_int_equal(send_signed(url, "GET", NULL, NULL, 0, NULL), 403);
    json_decref(url);
    pl_buf_finish(&p.bytes);
}

static void only_who_may_read_or_write_gets_urls(void **state)
{
    static const char *const calls[] = {"get-urls", "put-urls?session=0123456789abcdef0123456789abcdef",
                                        "packs?session=0123456789abcdef0123456789abcdef"};
    char session[64], target[160];
    struct answer a;

    (void)state;
    does(201, "POST", "/api/v1/projects", "{\"name\":\"other\"}");
    open_session(session);
    for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++) {
        snprintf(target, sizeof target, "/api/v1/projects/other/%s", calls[i]);
        a = ask_with("POST", target, AS_WORKER, "{}", 2); /* worker 7 is of "default" */
        assert_int_equal(a.status, 403);
        answer_free(&a);
    }
    refused("retry", "is not known in this project", "POST", PROJECT "/put-urls?session=0123456789abcdef0123456789abcdef",
            "{\"packs\":[]}");
    snprintf(target, sizeof target, "/api/v1/projects/other/put-urls?session=%s", session);
    refused("retry", "is not known in this project", "POST", target, "{\"packs\":[]}");
    snprintf(target, sizeof target, PROJECT "/put-urls?session=%s", session);
    refused("invalid", "packs[0]", "POST", target, "{\"packs\":[{}]}");
    refused("invalid", "a pack cannot have", "POST", target,
            "{\"packs\":[{\"pack\":\"1111111111111111111111111111111111111111111111111111111111111111\",\"bytes\":67108865,"
            "\"sha256\":\"1111111111111111111111111111111111111111111111111111111111111111\"}]}");
    snprintf(target, sizeof target, PROJECT "/packs?session=%s", session);
    refused("not_found", "", "POST", target,
            "{\"packs\":[{\"pack\":\"1111111111111111111111111111111111111111111111111111111111111111\",\"bytes\":1000}]}");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_of_packs_go_past_the_daemon),
        cmocka_unit_test_setup_teardown(bytes_go_to_a_bucket_with_a_certificate_of_its_own, setup_tls, teardown),
        TEST(what_the_bucket_refuses_goes_through_the_daemon),
        TEST(bad_luck_once_is_not_seen),
        TEST(what_the_bucket_does_not_give_right_comes_through_the_daemon),
        TEST(a_damaged_copy_of_the_daemons_is_found_out_by_who_reads_it),
        cmocka_unit_test_setup_teardown(a_store_that_does_not_hold_to_what_was_signed_gives_no_urls, setup_loose, teardown),
        TEST(a_url_to_put_by_takes_its_own_bytes_once),
        TEST(a_url_to_read_by_gives_its_own_range),
        TEST(only_who_may_read_or_write_gets_urls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
