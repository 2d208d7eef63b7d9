// link: storage/base storage/http storage/object storage/s3 storage/system s3_mock
/* Requests that a store signs for others: what they name is done, once; anything else is refused with S3's own words, and the first bytes
 * stay. */
#include "tests/support/s3_server/s3_fixture.h"

#include "storage/http/http_io.h"
#include "storage/s3/s3_response.h"

static const char bytes[] = "0123456789", other[] = "9876543210";
static struct place place;
static struct pl_http_io *io;

static int begin(void **state)
{
    struct pl_object_config changed = {.probe = true};
    struct pl_err err;

    (void)setup(state);
    place_open(&place, &(struct s3_mock_config){0}, &changed);
    assert_ok(pl_http_io_create(&(struct pl_http_io_config){.connections = 1, .no_proxy = true}, &io, &err), &err);
    return 0;
}

static int end(void **state)
{
    io = pl_http_io_destroy(io);
    place_close(&place);
    return teardown(state);
}

/* How a stranger changes the request that was signed. */
struct change {
    const char *method;    /* NULL = the signed one */
    const char *range;     /* in the place of the signed one */
    const char *extra;     /* a header more */
    const char *body;      /* NULL = none */
    const char *from, *to; /* in the URL */
};

/* The URL with `from` replaced; the caller's to free. */
static char *changed_url(const char *url, const struct change *c)
{
    const char *at = c->from != NULL ? strstr(url, c->from) : NULL;
    char *out;

    if (c->from == NULL)
        return strdup(url);
    assert_non_null(at);
    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - url), url, c->to, at + strlen(c->from)) > 0);
    return out;
}

/* Sends it; "STATUS Code", or "STATUS" and what came when it was done. */
static const char *play(const char *method, const struct pl_object_signed *q, struct change c)
{
    static char said[256];
    _cleanup_free_ char *url = changed_url(q->url, &c);
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    const char *headers[PL_OBJECT_SIGNED_HEADERS + 2] = {0};
    struct iovec iov = {(void *)c.body, c.body != NULL ? strlen(c.body) : 0};
    struct pl_http_exchange x = {.method = c.method != NULL ? c.method : method,
                                 .url = url,
                                 .headers = headers,
                                 .body = &iov,
                                 .n_body = 1,
                                 .has_body = c.body != NULL,
                                 .timeout_ms = 10000,
                                 .out = &b};
    struct pl_s3_response_error problem;
    struct pl_err err;

    for (size_t i = 0; i < q->n_headers; i++)
        headers[i] = c.range != NULL && strncmp(q->headers[i], "range", 5) == 0 ? c.range : q->headers[i];
    headers[q->n_headers] = c.extra;
    assert_ok(pl_http_io_run(io, &x, &err), &err);
    if (x.status < 300)
        (void)snprintf(said, sizeof(said), "%u %s", x.status, pl_buf_str(&b));
    else
        (void)snprintf(said, sizeof(said), "%u %s", x.status,
                       pl_s3_response_error_parse(&x.problem, &problem) ? problem.code : "");
    pl_buf_finish(&x.problem);
    return said;
}

static void sign_put(const char *key, const char *text, uint32_t life_s, struct pl_object_signed *ret)
{
    char hex[PL_HASH_HEX + 1];
    struct pl_hash hash;
    struct pl_err err;

    pl_hash_sha256(text, strlen(text), &hash);
    assert_ok(pl_object_sign_put(place.store, key, strlen(text), pl_hash_hex(&hash, hex), life_s, ret, &err), &err);
}

static void assert_stored(const char *key, const char *text)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    char whole[128];

    (void)snprintf(whole, sizeof(whole), "some/prefix/%s", key);
    assert_int_equal(s3_mock_object(place.mock, whole, &b), text != NULL);
    if (text != NULL)
        assert_string_equal(pl_buf_str(&b), text);
}

static void a_signed_put_takes_its_own_bytes_once(void **state)
{
    static const struct {
        struct change change;
        const char *said;
    } cases[] = {
        {{.body = other}, "400 XAmzContentSHA256Mismatch"},
        {{.body = "0123"}, "403 SignatureDoesNotMatch"}, /* the length is signed */
        {{.body = ""}, "403 SignatureDoesNotMatch"},
        {{.body = bytes, .extra = "x-amz-meta-a: 1"}, "403 AccessDenied"},
        {{.body = bytes, .from = "X-Amz-Expires=60", .to = "X-Amz-Expires=6000"}, "403 SignatureDoesNotMatch"},
        {{.body = bytes, .from = "/k?", .to = "/j?"}, "403 SignatureDoesNotMatch"},
        {{.body = bytes, .from = "X-Amz-Signature=", .to = "X-Amz-Signature=0"}, "403 SignatureDoesNotMatch"},
        {{.body = bytes, .from = "AKIAMOCK", .to = "AKIAMOCC"}, "403 InvalidAccessKeyId"},
        {{.method = "DELETE"}, "403 SignatureDoesNotMatch"},
        {{.method = "GET"}, "403 SignatureDoesNotMatch"},
    };
    struct pl_object_signed put, again;

    (void)state;
    sign_put("k", bytes, 60, &put);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(play("PUT", &put, cases[i].change), cases[i].said);
    assert_int_equal(s3_mock_objects(place.mock), 0);
    assert_string_equal(play("PUT", &put, (struct change){.body = bytes}), "200 ");
    assert_string_equal(play("PUT", &put, (struct change){.body = bytes}), "412 PreconditionFailed"); /* replayed */
    sign_put("k", other, 60, &again);
    assert_string_equal(play("PUT", &again, (struct change){.body = other}), "412 PreconditionFailed");
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(play("PUT", &put, cases[i].change), cases[i].said);
    assert_stored("k", bytes);
    pl_object_signed_finish(&again);
    pl_object_signed_finish(&put);
}

static void a_signed_get_gives_its_own_range(void **state)
{
    static const struct {
        struct change change;
        const char *said;
    } cases[] = {
        {{.range = NULL}, "206 234"},
        {{.range = NULL}, "206 234"}, /* as often as one likes */
        {{.range = "range: bytes=2-9"}, "403 SignatureDoesNotMatch"},
        {{.range = "range: bytes=0-2"}, "403 SignatureDoesNotMatch"},
        {{.range = "accept: */*"}, "403 SignatureDoesNotMatch"}, /* no range at all */
        {{.from = "/k?", .to = "/j?"}, "403 SignatureDoesNotMatch"},
        {{.from = "X-Amz-Signature=", .to = "X-Amz-Signature=0"}, "403 SignatureDoesNotMatch"},
        {{.from = "SignedHeaders=host%3Brange", .to = "SignedHeaders=host"}, "403 SignatureDoesNotMatch"},
        {{.method = "PUT", .body = other}, "403 SignatureDoesNotMatch"},
        {{.method = "DELETE"}, "403 SignatureDoesNotMatch"},
    };
    struct pl_object_signed get;
    struct pl_err err;

    (void)state;
    s3_mock_plant(place.mock, "some/prefix/k", bytes, strlen(bytes));
    s3_mock_plant(place.mock, "some/prefix/j", other, strlen(other));
    assert_ok(pl_object_sign_get(place.store, "k", 2, 3, 60, &get, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(play("GET", &get, cases[i].change), cases[i].said);
    assert_stored("k", bytes);
    assert_stored("j", other);
    pl_object_signed_finish(&get);
}

static void what_was_signed_expires(void **state)
{
    struct pl_object_signed get, put;
    struct pl_err err;

    (void)state;
    s3_mock_plant(place.mock, "some/prefix/k", bytes, strlen(bytes));
    assert_ok(pl_object_sign_get(place.store, "k", 0, 4, 60, &get, &err), &err);
    sign_put("late", bytes, 60, &put);
    s3_mock_set_clock(place.mock, 50);
    assert_string_equal(play("GET", &get, (struct change){0}), "206 0123");
    s3_mock_set_clock(place.mock, 62);
    assert_string_equal(play("GET", &get, (struct change){0}), "403 AccessDenied");
    assert_string_equal(play("PUT", &put, (struct change){.body = bytes}), "403 AccessDenied");
    s3_mock_set_clock(place.mock, -1000); /* signed in the future */
    assert_string_equal(play("GET", &get, (struct change){0}), "403 RequestTimeTooSkewed");
    s3_mock_set_clock(place.mock, 0);
    assert_stored("late", NULL);
    pl_object_signed_finish(&get);
    pl_object_signed_finish(&put);
}

/* A store whose clock we know to be ahead gets signatures that are not old when they arrive. */
static void the_servers_clock_counts_for_others_too(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_object_signed get;
    struct pl_err err;

    (void)state;
    s3_mock_plant(place.mock, "some/prefix/k", bytes, strlen(bytes));
    s3_mock_set_clock(place.mock, 3600);
    assert_ok(pl_object_get_all(place.store, "k", &b, &err), &err); /* by which it is learnt */
    assert_ok(pl_object_sign_get(place.store, "k", 0, 4, 60, &get, &err), &err);
    assert_string_equal(play("GET", &get, (struct change){0}), "206 0123");
    pl_object_signed_finish(&get);
}

static void signed_requests_lead_where_others_see_the_store(void **state)
{
    struct pl_object_config c = config_of(place.mock);
    struct pl_object_signed q;
    struct pl_object_store *s;
    struct pl_err err;

    (void)state;
    c.probe = true;
    c.worker_endpoint = "ftp://x";
    assert_int_equal(pl_object_open(&c, &s, &err), PL_EINVAL);
    assert_string_equal(err.field, "worker_endpoint");
    c.worker_endpoint = "https://bucket.inside:9443/s3";
    assert_ok(pl_object_open(&c, &s, &err), &err);
    assert_ok(pl_object_sign_get(s, "k", 0, 4, 60, &q, &err), &err);
    assert_ptr_equal(strstr(q.url, "https://bucket.inside:9443/s3/" S3_MOCK_BUCKET "/some/prefix/k?"), q.url);
    assert_int_equal(q.n_headers, 1);
    assert_string_equal(q.headers[0], "range: bytes=0-3");
    assert_int_equal(q.expires_s, 60);
    pl_object_signed_finish(&q);
    assert_int_equal(pl_object_sign_get(s, "k", 0, 0, 60, &q, &err), PL_EINVAL);
    assert_int_equal(pl_object_sign_get(s, "k", 0, 1, 0, &q, &err), PL_EINVAL);
    assert_int_equal(pl_object_sign_put(s, "k", 1, "no hash", 60, &q, &err), PL_EINVAL);
    pl_object_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_signed_put_takes_its_own_bytes_once),
        TEST(a_signed_get_gives_its_own_range),
        TEST(what_was_signed_expires),
        TEST(the_servers_clock_counts_for_others_too),
        TEST(signed_requests_lead_where_others_see_the_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
