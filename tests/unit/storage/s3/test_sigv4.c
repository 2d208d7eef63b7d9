// link: storage/base storage/s3 storage/system
/* sigv4: AWS's published examples, to the byte, and what a verifier says to anything else. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/s3/sigv4_encoding.h"
#include "storage/s3/sigv4_verify.h"

#define KEY        "AKIAIOSFODNN7EXAMPLE"
#define SECRET     "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define TIME       "20130524T000000Z"
#define NOW_S      1369353600
#define HOST       "examplebucket.s3.amazonaws.com"

#define PAIRS(...) (const struct pl_sigv4_pair[]){__VA_ARGS__}, PL_ARRAY_SIZE(((const struct pl_sigv4_pair[]){__VA_ARGS__}))

static struct pl_sigv4_scope scope;
static struct pl_sigv4_key key;

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    assert_ok(pl_sigv4_scope_init(&scope, TIME, "us-east-1", "s3", &err), &err);
    assert_ok(pl_sigv4_key_derive(SECRET, &scope, &key, &err), &err);
    return 0;
}

/* The examples of "Authenticating Requests: Using the Authorization Header", and what they come to. */
static const struct {
    const char *what, *method, *path;
    struct pl_sigv4_pair query[2];
    size_t n_query;
    struct pl_sigv4_pair headers[8];
    size_t n_headers;
    const char *payload, *signed_headers, *signature;
} examples[] = {
    {"GET of a range",
     "GET",
     "/test.txt",
     {{0}},
     0,
     {{"Host", HOST}, {"Range", "bytes=0-9"}, {"x-amz-content-sha256", PL_SIGV4_EMPTY_SHA256}, {"x-amz-date", TIME}},
     4,
     PL_SIGV4_EMPTY_SHA256,
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT of an object",
     "PUT",
     "/test$file.text",
     {{0}},
     0,
     {{"Host", HOST},
      {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-date", TIME},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}},
     5,
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET of the lifecycle",
     "GET",
     "/",
     {{"lifecycle", ""}},
     1,
     {{"Host", HOST}, {"x-amz-date", TIME}, {"x-amz-content-sha256", PL_SIGV4_EMPTY_SHA256}},
     3,
     PL_SIGV4_EMPTY_SHA256,
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"GET of a list",
     "GET",
     "/",
     {{"prefix", "J"}, {"max-keys", "2"}},
     2,
     {{"x-amz-date", TIME}, {"Host", HOST}, {"x-amz-content-sha256", PL_SIGV4_EMPTY_SHA256}},
     3,
     PL_SIGV4_EMPTY_SHA256,
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    {"head of a body in chunks",
     "PUT",
     "/examplebucket/chunkObject.txt",
     {{0}},
     0,
     {{"host", "s3.amazonaws.com"},
      {"x-amz-date", TIME},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"x-amz-content-sha256", PL_SIGV4_STREAMING},
      {"content-encoding", "aws-chunked"},
      {"x-amz-decoded-content-length", "66560"},
      {"content-length", "66824"}},
     7,
     PL_SIGV4_STREAMING,
     "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
     "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"},
    {"head of a body in chunks with a trailer",
     "PUT",
     "/examplebucket/chunkObject.txt",
     {{0}},
     0,
     {{"host", "s3.amazonaws.com"},
      {"x-amz-date", TIME},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"x-amz-content-sha256", PL_SIGV4_STREAMING_TRAILER},
      {"content-encoding", "aws-chunked"},
      {"x-amz-decoded-content-length", "66560"},
      {"x-amz-trailer", "x-amz-checksum-crc32c"}},
     7,
     PL_SIGV4_STREAMING_TRAILER,
     "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
     "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"},
};

static struct pl_sigv4_request example(size_t i)
{
    return (struct pl_sigv4_request){.method = examples[i].method,
                                     .path = examples[i].path,
                                     .query = examples[i].query,
                                     .n_query = examples[i].n_query,
                                     .headers = examples[i].headers,
                                     .n_headers = examples[i].n_headers,
                                     .payload = examples[i].payload};
}

static void the_published_examples_come_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(examples); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf out = {0};
        const struct pl_sigv4_request q = example(i);
        char want[1024];
        struct pl_err err;

        (void)snprintf(want, sizeof(want),
                       "AWS4-HMAC-SHA256 Credential=" KEY "/20130524/us-east-1/s3/aws4_request, SignedHeaders=%s, Signature=%s",
                       examples[i].signed_headers, examples[i].signature);
        assert_ok(pl_sigv4_authorization(&q, &scope, &key, KEY, TIME, &out, NULL, &err), &err);
        assert_string_equal(pl_buf_str(&out), want);
    }
}

static void the_canonical_request_is_the_published_one(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    const struct pl_sigv4_request q = example(0);
    struct pl_err err;

    (void)state;
    assert_ok(pl_sigv4_canonical(&q, &out, &err), &err);
    assert_string_equal(pl_buf_str(&out),
                        "GET\n/test.txt\n\nhost:" HOST "\nrange:bytes=0-9\nx-amz-content-sha256:" PL_SIGV4_EMPTY_SHA256
                        "\nx-amz-date:" TIME "\n\nhost;range;x-amz-content-sha256;x-amz-date\n" PL_SIGV4_EMPTY_SHA256);
}

/* Rules that the examples do not touch: the names of a query decide before the values, headers of one name are joined in their order,
 * spaces go, everything is encoded with capitals. */
static void the_canonical_form_has_rules_for_the_rest(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    const struct pl_sigv4_pair query[] = {{"a-b", "1"}, {"a", "2"}, {"a", "1"}, {"x y", "~/+é"}};
    const struct pl_sigv4_pair headers[] = {{"X-B", "  two   words \t"}, {"Host", "h"}, {"x-a", "2"}, {"X-A", "1"}, {"x-e", ""}};
    const struct pl_sigv4_request q = {"GET", "/a b/é/../=+", query, 4, headers, 5, PL_SIGV4_UNSIGNED};
    struct pl_err err;

    (void)state;
    assert_ok(pl_sigv4_canonical(&q, &out, &err), &err);
    assert_string_equal(pl_buf_str(&out),
                        "GET\n/a%20b/%C3%A9/../%3D%2B\na=1&a=2&a-b=1&x%20y=~%2F%2B%C3%A9\nhost:h\nx-a:2,1\nx-b:two words\n"
                        "x-e:\n\nhost;x-a;x-b;x-e\nUNSIGNED-PAYLOAD");
}

/* Of the test suite for all services: another secret, another service, a day of its own. */
static void the_plain_get_of_the_test_suite_comes_out(void **state)
{
    const struct pl_sigv4_pair headers[] = {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}};
    const struct pl_sigv4_request q = {"GET", "/", NULL, 0, headers, 2, PL_SIGV4_EMPTY_SHA256};
    char signature[PL_SIGV4_HEX + 1];
    struct pl_sigv4_scope s;
    struct pl_sigv4_key k;
    struct pl_err err;

    (void)state;
    assert_ok(pl_sigv4_scope_init(&s, "20150830T123600Z", "us-east-1", "service", &err), &err);
    assert_ok(pl_sigv4_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", &s, &k, &err), &err);
    assert_ok(pl_sigv4_sign(&q, &s, &k, "20150830T123600Z", signature, &err), &err);
    assert_string_equal(signature, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

static void the_published_key_is_derived(void **state)
{
    struct pl_sigv4_scope s;
    struct pl_sigv4_key k;
    char hex[PL_HASH_HEX + 1];
    struct pl_err err;

    (void)state;
    assert_ok(pl_sigv4_scope_init(&s, "20120215T000000Z", "us-east-1", "iam", &err), &err);
    assert_ok(pl_sigv4_key_derive("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", &s, &k, &err), &err);
    pl_hex_encode(k.b, sizeof(k.b), hex);
    assert_string_equal(hex, "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d");
}

/* A cache that forgot what a key is for would sign with another one's. */
static void kept_keys_are_those_of_their_secret_and_scope(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 2 * PL_SIGV4_KEYS_KEPT; i++) {
            struct pl_sigv4_key kept, derived;
            struct pl_sigv4_scope s;
            char secret[32], region[32];
            struct pl_err err;

            (void)snprintf(secret, sizeof(secret), "secret-%u", i / 2);
            (void)snprintf(region, sizeof(region), "region-%u", i % 2);
            assert_ok(pl_sigv4_scope_init(&s, TIME, region, "s3", &err), &err);
            assert_ok(pl_sigv4_key(secret, &s, &kept, &err), &err);
            assert_ok(pl_sigv4_key_derive(secret, &s, &derived, &err), &err);
            assert_memory_equal(kept.b, derived.b, sizeof(kept.b));
        }
    }
}

static const struct pl_sigv4_pair host_only[] = {{"host", HOST}};
static const struct pl_sigv4_request presigned_get = {"GET", "/test.txt", NULL, 0, host_only, 1, PL_SIGV4_UNSIGNED};

static void the_published_presigned_url_comes_out(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err err;

    (void)state;
    assert_ok(pl_sigv4_presign(&presigned_get, &scope, &key, KEY, NULL, TIME, 86400, &out, &err), &err);
    assert_string_equal(pl_buf_str(&out), "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" KEY
                                          "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=" TIME
                                          "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
                                          "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
    assert_int_equal(pl_sigv4_presign(&presigned_get, &scope, &key, KEY, NULL, TIME, 0, &out, NULL), PL_EINVAL);
    assert_int_equal(pl_sigv4_presign(&presigned_get, &scope, &key, KEY, NULL, TIME, PL_SIGV4_EXPIRES_MAX + 1, &out, NULL),
                     PL_EINVAL);
}

static void chunk_hash(const char *byte, size_t n, struct pl_hash *ret)
{
    char *bytes = malloc(n + 1);

    assert_non_null(bytes);
    memset(bytes, *byte, n);
    pl_hash_sha256(bytes, n, ret);
    free(bytes);
}

static void the_published_chunks_are_signed(void **state)
{
    static const size_t sizes[] = {65536, 1024, 0};
    static const struct {
        const char *seed, *chunks[3], *trailer;
    } bodies[] = {
        {"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
         {"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
          "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
          "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"},
         NULL},
        {"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
         {"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
          "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
          "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"},
         "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"},
    };

    (void)state;
    for (size_t b = 0; b < PL_ARRAY_SIZE(bodies); b++) {
        struct pl_sigv4_stream s;
        char signature[PL_SIGV4_HEX + 1];
        struct pl_hash hash;
        struct pl_err err;

        pl_sigv4_stream_init(&s, &scope, &key, TIME, bodies[b].seed);
        for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
            chunk_hash("a", sizes[i], &hash);
            assert_ok(pl_sigv4_stream_chunk(&s, &hash, signature, &err), &err);
            assert_string_equal(signature, bodies[b].chunks[i]);
        }
        if (bodies[b].trailer == NULL)
            continue;
        pl_hash_sha256("x-amz-checksum-crc32c:sOO8/Q==\n", 31, &hash);
        assert_ok(pl_sigv4_stream_trailer(&s, &hash, signature, &err), &err);
        assert_string_equal(signature, bodies[b].trailer);
    }
}

static void times_are_read_and_written(void **state)
{
    static const char *const bad[] = {"",
                                      "2013-05-24T00:00:00Z",
                                      "20130524T000000",
                                      "20130231T000000Z",
                                      "20130524T240000Z",
                                      "20130524T006000Z",
                                      "20130524X000000Z",
                                      "20130524T000000Zx",
                                      "19691231T235959Z"};
    char text[PL_SIGV4_TIME_BYTES + 1];
    struct pl_err err;
    int64_t s;

    (void)state;
    assert_ok(pl_sigv4_time_parse(TIME, &s, &err), &err);
    assert_int_equal(s, NOW_S);
    assert_string_equal(pl_sigv4_time(NOW_S, text), TIME);
    assert_string_equal(pl_sigv4_time(1709251199, text), "20240229T235959Z");
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        assert_int_equal(pl_sigv4_time_parse(bad[i], &s, NULL), PL_EINVAL);
}

/* --- the verifier --- */

struct request { /* example 0 as it arrives */
    struct pl_sigv4_pair headers[8], query[8];
    struct pl_sigv4_request q;
};

static void arrive(struct request *r, const char *authorization)
{
    *r = (struct request){.headers = {{"Host", HOST},
                                      {"Range", "bytes=0-9"},
                                      {"X-Amz-Content-Sha256", PL_SIGV4_EMPTY_SHA256},
                                      {"X-Amz-Date", TIME},
                                      {"User-Agent", "curl"},
                                      {"Authorization", authorization}}};
    r->q = (struct pl_sigv4_request){
        "GET", "/test.txt", r->query, 0, r->headers, authorization != NULL ? 6 : 5, PL_SIGV4_EMPTY_SHA256};
}

#define CREDENTIAL "Credential=" KEY "/20130524/us-east-1/s3/aws4_request"
#define HEADERS    "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date"
#define SIGNATURE  "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"

static void a_true_claim_is_read_and_holds(void **state)
{
    static const char *const forms[] = {"AWS4-HMAC-SHA256 " CREDENTIAL ", " HEADERS ", " SIGNATURE,
                                        "AWS4-HMAC-SHA256 " CREDENTIAL "," HEADERS "," SIGNATURE,
                                        "AWS4-HMAC-SHA256  " SIGNATURE " , " HEADERS "\t" CREDENTIAL};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(forms); i++) {
        struct pl_sigv4_claim c;
        struct request r;
        struct pl_err err;

        arrive(&r, forms[i]);
        assert_int_equal(pl_sigv4_claim_read(&r.q, &c, &err), PL_SIGV4_OK);
        assert_false(c.presigned);
        assert_string_equal(c.access_key, KEY);
        assert_string_equal(c.scope.region, "us-east-1");
        assert_string_equal(pl_sigv4_claim_payload(&c, &r.q), PL_SIGV4_EMPTY_SHA256);
        assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_OK);
        assert_int_equal(pl_sigv4_claim_fresh(&c, NOW_S + PL_SIGV4_SKEW_S), PL_SIGV4_OK);
        assert_int_equal(pl_sigv4_claim_fresh(&c, NOW_S + PL_SIGV4_SKEW_S + 1), PL_SIGV4_SKEWED);
        assert_int_equal(pl_sigv4_claim_fresh(&c, NOW_S - PL_SIGV4_SKEW_S - 1), PL_SIGV4_SKEWED);
    }
}

static void claims_of_another_form_are_refused(void **state)
{
#define V4 "AWS4-HMAC-SHA256 "
    static const struct {
        const char *authorization;
        enum pl_sigv4_verdict verdict;
    } cases[] = {
        {NULL, PL_SIGV4_NONE},
        {"AWS " KEY ":c2lnbmF0dXJl", PL_SIGV4_V2},
        {"Bearer x", PL_SIGV4_BAD_HEADER},
        {"AWS4-HMAC-SHA256", PL_SIGV4_BAD_HEADER},
        {"AWS4-HMAC-SHA256x " CREDENTIAL ", " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " HEADERS, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " CREDENTIAL ", " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " HEADERS ", " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " HEADERS ", " SIGNATURE ", More=1", PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL "x, " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 "Credential=" KEY "/20130525/us-east-1/s3/aws4_request, " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 "Credential=" KEY "/2013052/us-east-1/s3/aws4_request, " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 "Credential=" KEY "/20130524/us east/s3/aws4_request, " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 "Credential=/20130524/us-east-1/s3/aws4_request, " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 "Credential=" KEY ", " HEADERS ", " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", SignedHeaders=Host, " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", SignedHeaders=host;, " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", SignedHeaders=a;;host, " SIGNATURE, PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " HEADERS ", Signature=abc", PL_SIGV4_BAD_HEADER},
        {V4 CREDENTIAL ", " HEADERS ", " SIGNATURE "0", PL_SIGV4_BAD_HEADER},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_sigv4_claim c;
        struct pl_err err = {0};
        struct request r;

        arrive(&r, cases[i].authorization);
        if (pl_sigv4_claim_read(&r.q, &c, &err) != cases[i].verdict)
            fail_msg("%s", cases[i].authorization);
        assert_true(err.msg[0] != '\0');
    }
}

/* Whatever of the request is another, the signature is another. */
static void a_changed_request_does_not_match(void **state)
{
    struct pl_sigv4_claim c;
    struct pl_sigv4_key other;
    struct request r;
    struct pl_err err;

    (void)state;
    arrive(&r, V4 CREDENTIAL ", " HEADERS ", " SIGNATURE);
    assert_int_equal(pl_sigv4_claim_read(&r.q, &c, &err), PL_SIGV4_OK);
    assert_ok(pl_sigv4_key_derive("another secret", &c.scope, &other, &err), &err);
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &other, &err), PL_SIGV4_MISMATCH);
    r.q.method = "HEAD";
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_MISMATCH);
    r.q.method = "GET";
    r.q.path = "/test.txT";
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_MISMATCH);
    r.q.path = "/test.txt";
    r.query[0] = (struct pl_sigv4_pair){"acl", ""};
    r.q.n_query = 1;
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_MISMATCH);
    r.q.n_query = 0;
    r.headers[1].value = "bytes=0-99";
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_MISMATCH);
    r.headers[1].value = "bytes=0-9";
    r.q.payload = PL_SIGV4_UNSIGNED;
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_MISMATCH);
    r.q.payload = PL_SIGV4_EMPTY_SHA256;
    r.headers[4] = (struct pl_sigv4_pair){"X-Amz-Meta-A", "1"};
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_UNSIGNED_HEADER);
    r.headers[4] = (struct pl_sigv4_pair){"User-Agent", "another"};
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_OK);
    (void)snprintf(c.signed_headers, sizeof(c.signed_headers), "range;x-amz-content-sha256;x-amz-date");
    assert_int_equal(pl_sigv4_claim_check(&c, &r.q, &key, &err), PL_SIGV4_UNSIGNED_HEADER);
}

/* Makes a URL with our signer, takes its query apart as a server does. */
static void presign_and_parse(const struct pl_sigv4_request *q, uint32_t expires_s, struct pl_uri_query *ret)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err err;

    assert_ok(pl_sigv4_presign(q, &scope, &key, KEY, "a/token+==", TIME, expires_s, &out, &err), &err);
    assert_ok(pl_uri_query_parse(strchr(pl_buf_str(&out), '?') + 1, ret, &err), &err);
}

static void a_presigned_url_binds_what_it_names(void **state)
{
    const struct pl_sigv4_pair made[] = {{"host", HOST}, {"range", "bytes=5-9"}};
    struct pl_sigv4_pair sent[] = {{"Host", HOST}, {"Range", "bytes=5-9"}, {"Accept", "*/*"}};
    _cleanup_(pl_uri_query_finish) struct pl_uri_query query = {0};
    struct pl_sigv4_request q = {"GET", "/b/k", NULL, 0, made, 2, PL_SIGV4_UNSIGNED};
    struct pl_sigv4_claim c;
    struct pl_err err;

    (void)state;
    presign_and_parse(&q, 60, &query);
    q = (struct pl_sigv4_request){"GET", "/b/k", query.pairs, query.n, sent, 3, NULL};
    assert_int_equal(pl_sigv4_claim_read(&q, &c, &err), PL_SIGV4_OK);
    assert_true(c.presigned && c.expires_s == 60);
    q.payload = pl_sigv4_claim_payload(&c, &q);
    assert_string_equal(q.payload, PL_SIGV4_UNSIGNED);
    assert_int_equal(pl_sigv4_claim_check(&c, &q, &key, &err), PL_SIGV4_OK);
    assert_int_equal(pl_sigv4_claim_fresh(&c, NOW_S + 60), PL_SIGV4_OK);
    assert_int_equal(pl_sigv4_claim_fresh(&c, NOW_S + 61), PL_SIGV4_EXPIRED);
    assert_int_equal(pl_sigv4_claim_fresh(&c, NOW_S - PL_SIGV4_SKEW_S - 1), PL_SIGV4_SKEWED);
    sent[1].value = "bytes=5-10";
    assert_int_equal(pl_sigv4_claim_check(&c, &q, &key, &err), PL_SIGV4_MISMATCH);
    q.n_headers = 1;
    assert_int_equal(pl_sigv4_claim_check(&c, &q, &key, &err), PL_SIGV4_MISMATCH);
}

static void a_presigned_put_binds_its_bytes(void **state)
{
    char hash[] = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    const struct pl_sigv4_pair headers[] = {
        {"host", HOST}, {"content-length", "21"}, {"if-none-match", "*"}, {"x-amz-content-sha256", hash}};
    _cleanup_(pl_uri_query_finish) struct pl_uri_query query = {0};
    struct pl_sigv4_request q = {"PUT", "/b/k", NULL, 0, headers, 4, hash};
    struct pl_sigv4_claim c;
    struct pl_err err;

    (void)state;
    presign_and_parse(&q, 60, &query);
    q = (struct pl_sigv4_request){"PUT", "/b/k", query.pairs, query.n, headers, 4, NULL};
    assert_int_equal(pl_sigv4_claim_read(&q, &c, &err), PL_SIGV4_OK);
    q.payload = pl_sigv4_claim_payload(&c, &q);
    assert_ptr_equal(q.payload, hash);
    assert_int_equal(pl_sigv4_claim_check(&c, &q, &key, &err), PL_SIGV4_OK);
    hash[0] = '5';
    assert_int_equal(pl_sigv4_claim_check(&c, &q, &key, &err), PL_SIGV4_MISMATCH);
}

static void queries_of_another_form_are_refused(void **state)
{
#define Q "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" KEY "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=" TIME
#define S "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    static const struct {
        const char *query;
        enum pl_sigv4_verdict verdict;
    } cases[] = {
        {Q "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host" S, PL_SIGV4_OK},
        {Q "&X-Amz-Expires=0&X-Amz-SignedHeaders=host" S, PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-Expires=604801&X-Amz-SignedHeaders=host" S, PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-Expires=-1&X-Amz-SignedHeaders=host" S, PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-Expires=1e3&X-Amz-SignedHeaders=host" S, PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-SignedHeaders=host" S, PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-Expires=60" S, PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-Expires=60&X-Amz-SignedHeaders=host", PL_SIGV4_BAD_QUERY},
        {Q "&X-Amz-Expires=60&X-Amz-Expires=600&X-Amz-SignedHeaders=host" S, PL_SIGV4_BAD_QUERY},
        {S, PL_SIGV4_BAD_QUERY},
        {"X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256" S, PL_SIGV4_BAD_QUERY},
        {"AWSAccessKeyId=" KEY "&Expires=1&Signature=x", PL_SIGV4_V2},
        {"list-type=2", PL_SIGV4_NONE},
    };
    struct pl_sigv4_claim c;
    struct request r;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        _cleanup_(pl_uri_query_finish) struct pl_uri_query query = {0};
        struct pl_err err;

        assert_ok(pl_uri_query_parse(cases[i].query, &query, &err), &err);
        arrive(&r, NULL);
        r.q.query = query.pairs;
        r.q.n_query = query.n;
        if (pl_sigv4_claim_read(&r.q, &c, &err) != cases[i].verdict)
            fail_msg("%s: %s", cases[i].query, err.msg);
        arrive(&r, V4 CREDENTIAL ", " HEADERS ", " SIGNATURE);
        r.q.query = query.pairs;
        r.q.n_query = query.n;
        if (cases[i].verdict != PL_SIGV4_NONE)
            assert_int_equal(pl_sigv4_claim_read(&r.q, &c, NULL), PL_SIGV4_BOTH);
    }
}

static void queries_are_taken_apart(void **state)
{
    _cleanup_(pl_uri_query_finish) struct pl_uri_query q = {0};
    char many[PL_SIGV4_PAIRS_MAX * 2 + 3] = "";
    struct pl_err err;

    (void)state;
    assert_ok(pl_uri_query_parse("a=1&&b&c=x%2Fy+z%C3%A9=&a=2", &q, &err), &err);
    assert_int_equal(q.n, 4);
    assert_string_equal(pl_sigv4_pair_find(q.pairs, q.n, "a"), "1");
    assert_string_equal(pl_sigv4_pair_find(q.pairs, q.n, "b"), "");
    assert_string_equal(pl_sigv4_pair_find(q.pairs, q.n, "c"), "x/y zé=");
    assert_null(pl_sigv4_pair_find(q.pairs, q.n, "A"));
    pl_uri_query_finish(&q);
    assert_ok(pl_uri_query_parse("", &q, &err), &err);
    assert_int_equal(q.n, 0);
    assert_int_equal(pl_uri_query_parse("a=%00", &q, NULL), PL_EINVAL);
    assert_int_equal(pl_uri_query_parse("a=%4", &q, NULL), PL_EINVAL);
    assert_int_equal(pl_uri_query_parse("a=%zz", &q, NULL), PL_EINVAL);
    for (size_t i = 0; i <= PL_SIGV4_PAIRS_MAX; i++)
        memcpy(many + 2 * i, "a&", 3);
    assert_int_equal(pl_uri_query_parse(many, &q, NULL), PL_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_examples_come_out),
        cmocka_unit_test(the_canonical_request_is_the_published_one),
        cmocka_unit_test(the_canonical_form_has_rules_for_the_rest),
        cmocka_unit_test(the_plain_get_of_the_test_suite_comes_out),
        cmocka_unit_test(the_published_key_is_derived),
        cmocka_unit_test(kept_keys_are_those_of_their_secret_and_scope),
        cmocka_unit_test(the_published_presigned_url_comes_out),
        cmocka_unit_test(the_published_chunks_are_signed),
        cmocka_unit_test(times_are_read_and_written),
        cmocka_unit_test(a_true_claim_is_read_and_holds),
        cmocka_unit_test(claims_of_another_form_are_refused),
        cmocka_unit_test(a_changed_request_does_not_match),
        cmocka_unit_test(a_presigned_url_binds_what_it_names),
        cmocka_unit_test(a_presigned_put_binds_its_bytes),
        cmocka_unit_test(queries_of_another_form_are_refused),
        cmocka_unit_test(queries_are_taken_apart),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
