/* Packs that go beside the daemon: by URLs that a strict S3 server, in this process, holds to what was signed; and what becomes of a pack
 * that lies. */
// link: pl_api s3_mock
#include "api_fixture.h"

#include "pipelined/net/http_client.h"
#include "pipelined/net/remote.h"
#include "s3_mock.h"
#include "storage/base/clock.h"
#include "storage/dataset/checkout.h"
#include "storage/dataset/ingest.h"
#include "storage/object/s3_client.h"
#include "storage/pack/pack_format.h"
#include "storage/pack/pack_session.h"

#define REPO    "/api/v1/repos/default/data"
#define PROJECT "/api/v1/projects/default"
#define BIG     ((size_t)3 << 20)

static struct s3_mock *mock;
static struct s3_mock_config mock_config;
static char hostile; /* what the mock calls a violation is what the test does */

static struct pl_object_store *open_bucket(void)
{
    struct pl_object_config c = {.url = "s3://" S3_MOCK_BUCKET "/x",
                                 .endpoint = s3_mock_url(mock),
                                 .region = S3_MOCK_REGION,
                                 .access_key = S3_MOCK_KEY,
                                 .secret_key = S3_MOCK_SECRET,
                                 .ca = mock_config.tls ? s3_mock_ca(mock) : NULL,
                                 .tmp_dir = t.dir,
                                 .cache_dir = t.data,
                                 .probe = true,
                                 .pause_ms = 1};
    struct pl_object_store *s = NULL;

    MUST(pl_object_open(&c, &s, &err));
    return s;
}

static int setup(void **state)
{
    mock = s3_mock_start(&mock_config);
    api_store = open_bucket;
    hostile = 0;
    return api_setup(state);
}

static int setup_tls(void **state)
{
    mock_config.tls = true;
    return setup(state);
}

static int teardown(void **state)
{
    int r = api_teardown(state);

    if (!hostile && s3_mock_violations(mock) != 0)
        fail_msg("%s", s3_mock_violation(mock));
    s3_mock_stop(mock);
    mock_config = (struct s3_mock_config){0};
    return r;
}

/* ---- clients ---- */

struct client {
    struct pl_http_client *http;
    struct pl_remote *remote;
    struct pl_pack_sink sink;
    struct pl_pack_session *session;
};

static void client_open(struct client *c, const char *token)
{
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    MUST(pl_http_client_create(url, token, &c->http, &err));
    MUST(pl_remote_open(c->http, "default", &c->remote, &err));
    MUST(pl_remote_session(c->remote, &err));
    c->sink = pl_remote_sink(c->remote);
    MUST(pl_pack_session_open(&c->sink, "default", &c->session, &err));
}

static void client_close(struct client *c)
{
    pl_pack_session_close(c->session);
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
    struct pl_ops_writer w = {0};
    struct pl_entry entry;
    char target[256];
    struct answer a;

    MUST(pl_ingest_stream(c->session, PL_KIND_FILE, read_bytes, &source, &entry, &err));
    MUST(pl_ops_writer_init(&w, &ops, &err));
    MUST(pl_ops_writer_put(&w, path, strlen(path), &entry, &err));
    MUST(pl_ops_writer_end(&w, &err));
    pl_ops_writer_finish(&w);
    MUST(pl_pack_session_finish(c->session, &err));
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

static int64_t of_packs(const char *key)
{
    json_t *o = ask_json(200, "GET", "/api/v1/status", NULL);
    int64_t n = number_at(json_object_get(o, "packs"), key);

    json_decref(o);
    return n;
}

static void all_are_read_back(void)
{
    for (int i = 0; of_packs("unread") > 0; i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
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
    refused("not_available", "bound to a range", "POST", PROJECT "/get-urls", "{\"ranges\":[]}");
    client_close(&c);
}

static int setup_loose(void **state)
{
    mock_config = (struct s3_mock_config){.ignores_signed_ranges = true, .ignores_signed_hashes = true};
    hostile = 1;
    return setup(state);
}

/* ---- one pack, by hand ---- */

struct pack {
    struct pl_buf bytes;
    struct pl_hash id, chunk;
    char hex[PL_HASH_HEX + 1];
};

static int keep_pack(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct pack *p = self;

    p->id = *pack_id;
    return pl_buf_add(&p->bytes, bytes, n, err);
}

static void make_pack(struct pack *p, const char *content)
{
    struct pl_pack_sink sink = {.self = p, .put_pack = keep_pack};
    struct pl_pack_session *session;

    *p = (struct pack){0};
    MUST(pl_pack_session_open(&sink, "default", &session, &err));
    MUST(pl_pack_session_add(session, PL_REC_CHUNK, content, strlen(content), &p->chunk, &err));
    MUST(pl_pack_session_finish(session, &err));
    pl_pack_session_close(session);
    pl_hash_hex(&p->id, p->hex);
}

static void new_session(char out[64])
{
    json_t *o = ask_json(201, "POST", "/api/v1/sessions", "{\"project\":\"default\"}");

    snprintf(out, 64, "%s", text_at(o, "session"));
    json_decref(o);
}

static json_t *put_url(const struct pack *p, const char *session)
{
    char target[160], body[512], hex[PL_HASH_HEX + 1];
    struct pl_hash hash;
    json_t *o, *one;

    pl_hash_sha256(p->bytes.data, p->bytes.len, &hash);
    snprintf(target, sizeof target, PROJECT "/put-urls?session=%s", session);
    snprintf(body, sizeof body, "{\"packs\":[{\"pack\":\"%s\",\"bytes\":%zu,\"sha256\":\"%s\"}]}", p->hex, p->bytes.len,
             pl_hash_hex(&hash, hex));
    o = ask_json(200, "POST", target, body);
    one = json_incref(json_array_get(json_object_get(o, "urls"), 0));
    json_decref(o);
    return one;
}

static json_t *get_url(const struct pack *p, int offset, int bytes)
{
    char body[256];
    json_t *o, *one;

    snprintf(body, sizeof body, "{\"ranges\":[{\"pack\":\"%s\",\"offset\":%d,\"bytes\":%d}]}", p->hex, offset, bytes);
    o = ask_json(200, "POST", PROJECT "/get-urls", body);
    one = json_incref(json_array_get(json_object_get(o, "urls"), 0));
    json_decref(o);
    return one;
}

/* Sends what was signed, `range` in the place of its own header when given; the status, and the body into `out`. */
static unsigned send_signed(const json_t *url, const char *method, const char *range, const void *body, size_t n,
                            struct pl_buf *out)
{
    const char *text = text_at(url, "url"), *headers[8] = {0};
    const json_t *list = json_object_get(url, "headers");
    size_t origin = (size_t)(strchr(strstr(text, "://") + 3, '/') - text);
    _cleanup_free_ char *base = strndup(text, origin);
    struct pl_http_call call = {.method = method, .path = text + origin, .headers = headers, .out = out};
    struct pl_http_answer answer = {0};
    struct pl_http_client *c;

    assert_true(json_array_size(list) < 8);
    for (size_t i = 0; i < json_array_size(list); i++)
        headers[i] = json_string_value(json_array_get(list, i));
    if (range)
        headers[0] = range;
    if (pl_streq(method, "PUT")) {
        call.upload = PL_UPLOAD_BYTES;
        call.bytes = body;
        call.len = n;
    }
    MUST(pl_http_client_create(base, NULL, &c, &err));
    (void)!pl_http_client_call(c, &call, &answer, NULL);
    pl_http_client_destroy(c);
    return answer.status;
}

static unsigned put_signed(const struct pack *p, const char *session)
{
    json_t *url = put_url(p, session);
    unsigned status = send_signed(url, "PUT", NULL, p->bytes.data, p->bytes.len, NULL);

    json_decref(url);
    return status;
}

static int tell(const struct pack *p, const char *session)
{
    char target[160], body[256];
    struct answer a;
    int status;

    snprintf(target, sizeof target, PROJECT "/packs?session=%s", session);
    snprintf(body, sizeof body, "{\"packs\":[{\"pack\":\"%s\",\"bytes\":%zu}]}", p->hex, p->bytes.len);
    a = ask_with("POST", target, AS_WORKER, body, strlen(body));
    status = a.status;
    answer_free(&a);
    return status;
}

static bool has(const struct pl_hash *id, const char *session)
{
    char target[128];
    struct answer a;
    bool there;

    snprintf(target, sizeof target, PROJECT "/have?session=%s", session);
    a = ask_with("POST", target, AS_USER, id, sizeof *id);
    assert_int_equal(a.status, 200);
    there = a.body[0] == 1;
    answer_free(&a);
    return there;
}

static void object_is(const struct pack *p, const char *start, bool there)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char key[256];

    snprintf(key, sizeof key, "x/%s/default/%.2s/%s", start, p->hex, p->hex);
    assert_int_equal(s3_mock_object(mock, key, &bytes), there);
    if (there)
        assert_true(bytes.len == p->bytes.len && memcmp(bytes.data, p->bytes.data, bytes.len) == 0);
}

static void a_url_to_put_by_takes_its_own_bytes_once(void **state)
{
    char session[64], *url_text;
    struct pack p;
    json_t *url;

    (void)state;
    hostile = 1;
    new_session(session);
    make_pack(&p, "what the chunk holds");
    url = put_url(&p, session);
    p.bytes.data[100] ^= 1;
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 400);
    p.bytes.data[100] ^= 1;
    assert_true(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len - 1, NULL) >= 400);
    object_is(&p, "p", false);
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 200);
    assert_int_equal(send_signed(url, "PUT", NULL, p.bytes.data, p.bytes.len, NULL), 412);
    url_text = strdup(text_at(url, "url"));
    url_text[strlen(url_text) - 1] ^= 1; /* the signature is its end */
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

static void a_url_to_read_by_gives_its_own_range(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    char session[64];
    struct pack p;
    json_t *url;

    (void)state;
    hostile = 1;
    new_session(session);
    make_pack(&p, "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    refused("not_found", "is not in the store", "POST", PROJECT "/get-urls",
            "{\"ranges\":[{\"pack\":\"1111111111111111111111111111111111111111111111111111111111111111\",\"offset\":0,\"bytes\":"
            "1}]}");
    assert_int_equal(tell(&p, session), 201);
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
    new_session(session);
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
    refused("invalid", "are no pack", "POST", target,
            "{\"packs\":[{\"pack\":\"1111111111111111111111111111111111111111111111111111111111111111\",\"bytes\":67108865,"
            "\"sha256\":\"1111111111111111111111111111111111111111111111111111111111111111\"}]}");
    snprintf(target, sizeof target, PROJECT "/packs?session=%s", session);
    refused("not_found", "", "POST", target,
            "{\"packs\":[{\"pack\":\"1111111111111111111111111111111111111111111111111111111111111111\",\"bytes\":1000}]}");
}

/* ---- a pack that lies ---- */

static json_t *quarantine_event(void)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t.db);
    _cleanup_free_ char *text = NULL;
    json_t *o;

    MUST(pl_sql_text(rd.conn, &err, &text, "SELECT data FROM event WHERE type = 'pack.quarantined'", ""));
    o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

/* A byte of a record is another than its id says; all else of the pack is true, and its writer signs for what it holds. */
static void make_liar(struct pack *p, const char *content)
{
    make_pack(p, content);
    p->bytes.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;
}

static void a_pack_that_lies_is_quarantined_and_who_needs_it_is_told(void **state)
{
    static const char content[] = "a text that is longer than what is kept within a tree, so that it is a chunk of its own";
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_ops_writer w = {0};
    char session[64], target[256];
    struct pl_entry entry;
    struct pack p;
    struct answer a;
    json_t *o;

    (void)state;
    make_repo("data");
    new_session(session);
    make_liar(&p, content);
    assert_int_equal(put_signed(&p, session), 200);
    /* the read-back cannot begin before the commit is there */
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = p.hex, .skip = 1});
    assert_int_equal(tell(&p, session), 201);
    entry = pl_entry_chunk(PL_KIND_FILE, sizeof content - 1, &p.chunk);
    MUST(pl_ops_writer_init(&w, &ops, &err));
    MUST(pl_ops_writer_put(&w, "hurt", 4, &entry, &err));
    MUST(pl_ops_writer_end(&w, &err));
    pl_ops_writer_finish(&w);
    snprintf(target, sizeof target, REPO "/branches/master/commits?session=%s", session);
    a = ask_with("POST", target, AS_USER, ops.data, ops.len);
    assert_int_equal(a.status, 201);
    answer_free(&a);
    a = ask("GET", REPO "/refs/master/files/hurt", NULL); /* verified on every read */
    assert_true(a.status >= 500 || a.len == 0 || !memmem(a.body, a.len, content, sizeof content - 1));
    answer_free(&a);
    s3_mock_chaos(mock, 0, 0); /* no more faults */
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    object_is(&p, "p", false);
    object_is(&p, "q", true);
    assert_false(has(&p.chunk, session));
    o = quarantine_event();
    assert_string_equal(text_at(o, "pack"), p.hex);
    assert_string_equal(text_at(o, "writer"), "worker 7 of worked");
    assert_int_equal(number_at(o, "bad_records"), 1);
    assert_int_equal(number_at(o, "hurt"), 1);
    assert_non_null(strstr(json_string_value(json_array_get(json_object_get(o, "files"), 0)), "hurt"));
    json_decref(o);
    o = ask_json(200, "POST", "/api/v1/fsck", NULL);
    assert_false(json_is_true(json_object_get(o, "ok")));
    json_decref(o);
    pl_buf_finish(&p.bytes);

    make_pack(&p, content); /* brought again, the commit is whole */
    assert_int_equal(put_signed(&p, session), 200);
    assert_int_equal(tell(&p, session), 201);
    a = ask("GET", REPO "/refs/master/files/hurt", NULL);
    assert_int_equal(a.status, 200);
    assert_true(a.len == sizeof content - 1 && memcmp(a.body, content, a.len) == 0);
    answer_free(&a);
    all_are_read_back();
    o = ask_json(200, "POST", "/api/v1/fsck", NULL);
    assert_true(json_is_true(json_object_get(o, "ok")));
    json_decref(o);
    pl_buf_finish(&p.bytes);
}

/* Whether the newest request was about this. */
static bool recent_is(const char *part)
{
    char recent[256];

    s3_mock_recent(mock, 0, recent, sizeof recent);
    return strstr(recent, part);
}

/* Twice in a row an answer of the bucket holds other bytes than the bucket. */
static void what_is_damaged_on_the_way_condemns_no_pack(void **state)
{
    char session[64];
    struct pack p;

    (void)state;
    new_session(session);
    make_pack(&p, "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_FLIP,
                                          .method = "GET",
                                          .key = p.hex,
                                          .skip = 1,
                                          .times = 2,
                                          .bytes = PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES});
    assert_int_equal(tell(&p, session), 201);
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 0);
    assert_int_equal(of_packs("read_back"), 1);
    object_is(&p, "p", true);
    object_is(&p, "q", false);
    json_decref(get_url(&p, 80, 30)); /* it is known */
    pl_buf_finish(&p.bytes);
}

/* What is true of a pack that lies is read from it until its bytes are in safety. */
static void a_pack_that_cannot_be_set_aside_stays_where_it_is(void **state)
{
    char session[64];
    struct pack p;

    (void)state;
    new_session(session);
    make_liar(&p, "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .key = "/x/q/"});
    assert_int_equal(tell(&p, session), 201);
    for (unsigned i = 0; !recent_is("/x/q/"); i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
    json_decref(get_url(&p, 80, 30));
    object_is(&p, "p", true);
    s3_mock_chaos(mock, 0, 0);
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    object_is(&p, "q", true);
    object_is(&p, "p", false);
    pl_buf_finish(&p.bytes);
}

static void nobody_else_is_told_of_what_was_not_read_back(void **state)
{
    char mine[64], theirs[64];
    struct pack p;

    (void)state;
    new_session(mine);
    new_session(theirs);
    make_pack(&p, "what the chunk holds");
    assert_int_equal(put_signed(&p, mine), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = p.hex, .skip = 1});
    assert_int_equal(tell(&p, mine), 201);
    assert_true(has(&p.chunk, mine));
    assert_false(has(&p.chunk, theirs));
    s3_mock_chaos(mock, 0, 0);
    all_are_read_back();
    assert_true(has(&p.chunk, theirs));
    pl_buf_finish(&p.bytes);
}

/* Pack and id are the same by their footers; what the daemon verified is not what lies in the bucket. */
static void a_lie_is_not_covered_by_the_truth_that_comes_after_it(void **state)
{
    char session[64], target[256];
    struct answer a;
    struct pack p;

    (void)state;
    new_session(session);
    make_liar(&p, "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    p.bytes.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;
    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s", p.hex, session);
    a = ask_with("PUT", target, AS_USER, p.bytes.data, p.bytes.len);
    assert_int_equal(a.status, 201);
    answer_free(&a);
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    assert_false(has(&p.chunk, session));
    pl_buf_finish(&p.bytes);
}

/* The next daemon finds what is in the bucket. */
static void begin_again(void)
{
    char index[128];

    snprintf(index, sizeof index, "%s/index", t.dir);
    MUST(pl_stores_open(t.objects, index, &t.stores, &err));
    api_begin();
}

/* The bucket stands still while a pack is read back: who stops the daemon does not wait for it. */
static void a_daemon_that_stops_does_not_wait_for_what_is_read_back(void **state)
{
    const int64_t began_ms = pl_clock_mono_ms();
    char session[64];
    struct pack p;

    (void)state;
    new_session(session);
    make_liar(&p, "what is read back later");
    assert_int_equal(put_signed(&p, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_STALL, .method = "GET", .key = p.hex, .skip = 1});
    assert_int_equal(tell(&p, session), 201);
    for (unsigned i = 0; s3_mock_requests(mock, "GET") < 2 || !recent_is(p.hex); i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
    atomic_store(&t.told, NULL);
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    fixture_await_loop();
    assert_true(pl_clock_mono_ms() - began_ms < PL_S3_STALL_MS - 5000);
    t.api = pl_api_destroy(t.api);
    pl_stores_close(t.stores);
    s3_mock_chaos(mock, 0, 0);
    begin_again();
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    pl_buf_finish(&p.bytes);
}

static void what_was_not_read_back_is_read_by_the_next_daemon(void **state)
{
    char session[64];
    struct pack told, untold;

    (void)state;
    new_session(session);
    make_liar(&told, "of which the daemon was told");
    make_liar(&untold, "of which it was not");
    assert_int_equal(put_signed(&told, session), 200);
    assert_int_equal(put_signed(&untold, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = told.hex, .skip = 1});
    assert_int_equal(tell(&told, session), 201);
    atomic_store(&t.told, NULL);
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    fixture_await_loop();
    t.api = pl_api_destroy(t.api);
    pl_stores_close(t.stores); /* the next one finds the pack in the bucket */
    s3_mock_chaos(mock, 0, 0);
    begin_again();
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 2);
    object_is(&told, "q", true);
    object_is(&untold, "q", true);
    assert_false(has(&untold.chunk, session));
    pl_buf_finish(&told.bytes);
    pl_buf_finish(&untold.bytes);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_of_packs_go_past_the_daemon),
        cmocka_unit_test_setup_teardown(bytes_go_to_a_bucket_with_a_certificate_of_its_own, setup_tls, teardown),
        TEST(what_the_bucket_refuses_goes_through_the_daemon),
        cmocka_unit_test_setup_teardown(a_store_that_does_not_hold_to_what_was_signed_gives_no_urls, setup_loose, teardown),
        TEST(a_url_to_put_by_takes_its_own_bytes_once),
        TEST(a_url_to_read_by_gives_its_own_range),
        TEST(only_who_may_read_or_write_gets_urls),
        TEST(a_pack_that_lies_is_quarantined_and_who_needs_it_is_told),
        TEST(what_is_damaged_on_the_way_condemns_no_pack),
        TEST(a_pack_that_cannot_be_set_aside_stays_where_it_is),
        TEST(nobody_else_is_told_of_what_was_not_read_back),
        TEST(a_lie_is_not_covered_by_the_truth_that_comes_after_it),
        TEST(what_was_not_read_back_is_read_by_the_next_daemon),
        TEST(a_daemon_that_stops_does_not_wait_for_what_is_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
