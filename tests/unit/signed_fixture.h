/* signed_fixture: the API over a strict S3 server in this process, and packs that are put into its bucket by hand. */
#pragma once

#include "tests/unit/api_fixture.h"

#include "pipelined/net/http_client/http_client.h"
#include "storage/pack/pack_builder.h"
#include "storage/pack/pack_format.h"
#include "tests/unit/s3_mock.h"

#ifndef UNUSED
#define UNUSED __attribute__((unused))
#endif
#define REPO    "/api/v1/repos/default/data"
#define PROJECT "/api/v1/projects/default"

static struct s3_mock *mock;
static struct s3_mock_config mock_config;
static char hostile; /* what the mock calls a violation is what the test does */

static UNUSED struct pl_object_store *open_bucket(void)
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

static UNUSED int setup(void **state)
{
    mock = s3_mock_start(&mock_config);
    api_store = open_bucket;
    hostile = 0;
    return api_setup(state);
}

static UNUSED int teardown(void **state)
{
    int r = api_teardown(state);

    if (!hostile && s3_mock_violations(mock) != 0)
        fail_msg("%s", s3_mock_violation(mock));
    s3_mock_stop(mock);
    mock_config = (struct s3_mock_config){0};
    return r;
}

static UNUSED int64_t of_packs(const char *key)
{
    json_t *o = ask_json(200, "GET", "/api/v1/status", NULL);
    int64_t n = number_at(json_object_get(o, "packs"), key);

    json_decref(o);
    return n;
}

static UNUSED void all_are_read_back(void)
{
    for (int i = 0; of_packs("unread") > 0; i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
}

/* ---- one pack, by hand ---- */

struct pack {
    struct pl_buf bytes;
    struct pl_hash id, chunk;
    char hex[PL_HASH_HEX + 1];
};

static UNUSED int keep_pack(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct pack *p = self;

    p->id = *pack_id;
    return pl_buf_add(&p->bytes, bytes, n, err);
}

static UNUSED void make_pack(struct pack *p, const char *content)
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

static UNUSED void new_session(char out[64])
{
    json_t *o = ask_json(201, "POST", "/api/v1/sessions", "{\"project\":\"default\"}");

    snprintf(out, 64, "%s", text_at(o, "session"));
    json_decref(o);
}

static UNUSED json_t *put_url(const struct pack *p, const char *session)
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

static UNUSED json_t *get_url(const struct pack *p, int offset, int bytes)
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
static UNUSED unsigned send_signed(const json_t *url, const char *method, const char *range, const void *body, size_t n,
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

static UNUSED unsigned put_signed(const struct pack *p, const char *session)
{
    json_t *url = put_url(p, session);
    unsigned status = send_signed(url, "PUT", NULL, p->bytes.data, p->bytes.len, NULL);

    json_decref(url);
    return status;
}

static UNUSED int tell(const struct pack *p, const char *session)
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

static UNUSED bool has(const struct pl_hash *id, const char *session)
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

static UNUSED void object_is(const struct pack *p, const char *start, bool there)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char key[256];

    snprintf(key, sizeof key, "x/%s/default/%.2s/%s", start, p->hex, p->hex);
    assert_int_equal(s3_mock_object(mock, key, &bytes), there);
    if (there)
        assert_true(bytes.len == p->bytes.len && memcmp(bytes.data, p->bytes.data, bytes.len) == 0);
}
