// link: storage/base storage/http storage/s3 storage/system
/* The pure parts of the S3 driver: where objects are, what answers mean, the checksum, the shared profile. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/http/loopback_host.h"
#include "storage/s3/crc32c.h"
#include "storage/s3/s3_profile.h"
#include "storage/s3/s3_response.h"
#include "storage/s3/s3_url.h"

static void places_give_their_urls(void **state)
{
    static const struct {
        const char *url, *endpoint, *region, *style, *origin, *path;
    } cases[] = {
        {"s3://data", "", "", "", "https://data.s3.us-east-1.amazonaws.com", "/k"},
        {"s3://data/", "", "eu-west-3", "", "https://data.s3.eu-west-3.amazonaws.com", "/k"},
        {"s3://data/a/b/", "", "cn-north-1", "", "https://data.s3.cn-north-1.amazonaws.com.cn", "/a/b/k"},
        {"s3://data.set/a", "", "", "", "https://s3.us-east-1.amazonaws.com", "/data.set/a/k"},
        {"s3://data/a", "", "", "path", "https://s3.us-east-1.amazonaws.com", "/data/a/k"},
        {"s3://data", "http://127.0.0.1:9000", "x", "", "http://127.0.0.1:9000", "/data/k"},
        {"s3://data", "http://127.0.0.1:9000/", "x", "virtual", "http://data.127.0.0.1:9000", "/k"},
        {"s3://data", "https://minio.example:443/base/path/", "", "", "https://minio.example", "/base/path/data/k"},
        {"s3://data", "http://minio.example:80", "", "", "http://minio.example", "/data/k"},
        {"s3://data", "http://minio.example:443", "", "", "http://minio.example:443", "/data/k"},
        {"s3://data", "HTTP://[::1]:9000", "", "", "http://[::1]:9000", "/data/k"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_s3_place p;
        char origin[PL_S3_HOST_MAX + 9], path[PL_S3_URL_MAX];
        struct pl_err err;

        assert_ok(pl_s3_place_init(&p, cases[i].url, cases[i].endpoint, cases[i].region, cases[i].style, &err), &err);
        assert_string_equal(pl_s3_place_origin(&p, origin), cases[i].origin);
        assert_string_equal(pl_s3_place_path(&p, "k", path), cases[i].path);
    }
}

static void places_that_are_none_are_refused_by_name(void **state)
{
    static const struct {
        const char *url, *endpoint, *region, *style, *field;
    } cases[] = {
        {"s3://", "", "", "", "store"},
        {"s3://ab", "", "", "", "store"},
        {"s3://b_d!", "", "", "", "store"},
        {"s3://-bucket", "", "", "", "store"},
        {"s3://bucket/a b", "", "", "", "store"},
        {"s3://bucket/a/../b", "", "", "", "store"},
        {"s3://bucket/tmp", "", "", "", "store"},
        {"gs://bucket", "", "", "", "store"},
        {"s3://bucket", "ftp://x", "", "", "endpoint"},
        {"s3://bucket", "minio:9000", "", "", "endpoint"},
        {"s3://bucket", "http://", "", "", "endpoint"},
        {"s3://bucket", "http://user@host", "", "", "endpoint"},
        {"s3://bucket", "http://host/a?b", "", "", "endpoint"},
        {"s3://bucket", "", "eu west", "", "region"},
        {"s3://bucket", "", "", "hosted", "style"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_s3_place p;
        struct pl_err err = {0};

        assert_int_equal(pl_s3_place_init(&p, cases[i].url, cases[i].endpoint, cases[i].region, cases[i].style, &err), PL_EINVAL);
        assert_string_equal(err.field, cases[i].field);
        assert_non_null(strstr(err.msg, "accepted is "));
    }
}

static void a_bucket_that_moves_takes_amazons_host_along(void **state)
{
    struct pl_s3_place p;
    char origin[PL_S3_HOST_MAX + 9];
    struct pl_err err;

    (void)state;
    assert_ok(pl_s3_place_init(&p, "s3://data", "", "", "", &err), &err);
    assert_ok(pl_s3_place_move(&p, "ap-south-2", &err), &err);
    assert_string_equal(pl_s3_place_origin(&p, origin), "https://data.s3.ap-south-2.amazonaws.com");
    assert_int_equal(pl_s3_place_move(&p, "no region", &err), PL_EINVAL);
    assert_ok(pl_s3_place_init(&p, "s3://data", "http://h:1", "", "", &err), &err);
    assert_ok(pl_s3_place_move(&p, "ap-south-2", &err), &err);
    assert_string_equal(pl_s3_place_origin(&p, origin), "http://h:1");
    assert_string_equal(p.region, "ap-south-2");
}

static void a_redirect_leads_to_the_same_object(void **state)
{
    static const struct {
        const char *endpoint, *style, *key, *location;
        const char *origin, *path; /* NULL = not followed */
    } cases[] = {
        {"http://h:1", "path", "k", "http://g:2/data/x/k", "http://g:2", "/data/x/k"},
        {"http://h:1", "path", "k", "http://data.g:2/x/k", "http://data.g:2", "/x/k"},
        {"http://h:1", "virtual", "k", "http://data.g:2/x/k?part=1", "http://data.g:2", "/x/k"},
        {"http://h:1", "virtual", "k", "http://g:2/data/x/k", "http://g:2", "/data/x/k"},
        {"http://h:1/base", "path", "k", "https://g/base/data/x/k", "https://g", "/base/data/x/k"},
        {"http://h:1", "path", "a~b", "http://g:2/data/x/a%7Eb", "http://g:2", "/data/x/a~b"},
        {"http://h:1", "path", NULL, "http://g:2/data/?list-type=2", "http://g:2", "/data"},
        {"http://h:1", "path", NULL, "http://data.g:2/", "http://data.g:2", "/"},
        {"https://h", "path", "k", "https://g:443/data/x/k", "https://g", "/data/x/k"},
        {"https://h", "path", "k", "http://g/data/x/k", NULL, NULL},
        {"http://h:1", "path", "k", "http://g:2/data/x/l", NULL, NULL},
        {"http://h:1", "path", "k", "http://g:2/x/k", NULL, NULL},
        {"http://h:1", "path", "k", "http://other.g:2/x/k", NULL, NULL},
        {"http://h:1", "path", "k", "http://g:2", NULL, NULL},
        {"http://h:1", "path", "k", "/data/x/k", NULL, NULL},
        {"http://h:1", "path", "k", "http://user@g:2/data/x/k", NULL, NULL},
        {"http://h:1", "path", "k", "http://g:2/data/x/%zz", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        char origin[PL_S3_HOST_MAX + 9], path[PL_S3_URL_MAX];
        const bool follows = cases[i].origin != NULL;
        struct pl_s3_place p;
        struct pl_err err;

        assert_ok(pl_s3_place_init(&p, "s3://data/x", cases[i].endpoint, "", cases[i].style, &err), &err);
        assert_int_equal(pl_s3_place_follow(&p, cases[i].key, cases[i].location), follows);
        assert_string_equal(pl_s3_place_origin(&p, origin),
                            follows ? cases[i].origin
                                    : (pl_streq(cases[i].style, "path") ? cases[i].endpoint : "http://data.h:1"));
        if (follows)
            assert_string_equal(pl_s3_place_path(&p, cases[i].key, path), cases[i].path);
    }
}

static void this_host_is_not_whoever_begins_like_it(void **state)
{
    static const char *const own[] = {"localhost", "LocalHost:80", "bucket.localhost:9000", "127.0.0.1", "127.1.2.3:1/path",
                                      "[::1]",     "[::1]:9000"};
    static const char *const others[] = {"127.example.org",
                                         "127.0.0.1.example.org",
                                         "localhost.example.org",
                                         "localhostile",
                                         "128.0.0.1",
                                         "[::2]",
                                         "[::1].example.org",
                                         "10.127.0.0",
                                         "",
                                         "127.0.0.1@example.org",
                                         "localhost:x@example.org"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(own); i++)
        assert_true(pl_is_loopback_host(own[i]));
    for (size_t i = 0; i < PL_ARRAY_SIZE(others); i++)
        assert_false(pl_is_loopback_host(others[i]));
}

static void answers_have_their_class(void **state)
{
    static const struct {
        unsigned status;
        const char *code;
        enum pl_s3_response_class class;
        int error;
    } cases[] = {
        {0, "", PL_S3_RETRY, PL_ENET},
        {200, "", PL_S3_OK, 0},
        {400, "IncompleteBody", PL_S3_RETRY, PL_ENET},
        {405, "MethodNotAllowed", PL_S3_UNKNOWN_CALL, PL_EUNAVAILABLE},
        {204, "", PL_S3_OK, 0},
        {206, "", PL_S3_OK, 0},
        {200, "InternalError", PL_S3_RETRY, PL_ENET},
        {301, "PermanentRedirect", PL_S3_WRONG_REGION, PL_EINVAL},
        {307, "", PL_S3_WRONG_REGION, PL_EINVAL},
        {400, "AuthorizationHeaderMalformed", PL_S3_WRONG_REGION, PL_EINVAL},
        {400, "ExpiredToken", PL_S3_BAD_CREDENTIALS, PL_EFORBIDDEN},
        {400, "RequestTimeout", PL_S3_RETRY, PL_ENET},
        {400, "BadDigest", PL_S3_RETRY, PL_ENET},
        {400, "InvalidArgument", PL_S3_BAD_RESPONSE, PL_EIO},
        {403, "AccessDenied", PL_S3_FORBIDDEN, PL_EFORBIDDEN},
        {403, "SignatureDoesNotMatch", PL_S3_FORBIDDEN, PL_EFORBIDDEN},
        {403, "RequestTimeTooSkewed", PL_S3_CLOCK_SKEW, PL_EFORBIDDEN},
        {403, "", PL_S3_FORBIDDEN, PL_EFORBIDDEN},
        {403, "QuotaExceeded", PL_S3_FULL, PL_ENOSPC},
        {404, "NoSuchKey", PL_S3_NOT_FOUND, PL_ENOTFOUND},
        {404, "", PL_S3_NOT_FOUND, PL_ENOTFOUND},
        {404, "NoSuchBucket", PL_S3_NO_BUCKET, PL_EINVAL},
        {409, "ConditionalRequestConflict", PL_S3_RETRY, PL_ENET},
        {412, "PreconditionFailed", PL_S3_EXISTS, PL_EEXISTS},
        {416, "InvalidRange", PL_S3_BAD_RESPONSE, PL_EIO},
        {429, "", PL_S3_REDUCE_RATE, PL_EBUSY},
        {500, "", PL_S3_RETRY, PL_ENET},
        {501, "NotImplemented", PL_S3_UNKNOWN_CALL, PL_EUNAVAILABLE},
        {503, "SlowDown", PL_S3_REDUCE_RATE, PL_EBUSY},
        {507, "", PL_S3_FULL, PL_ENOSPC},
        {599, "", PL_S3_RETRY, PL_ENET},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_s3_response_error p = {0};
        struct pl_err err = {0};

        (void)snprintf(p.code, sizeof(p.code), "%s", cases[i].code);
        if (pl_s3_response_class_of(cases[i].status, cases[i].code) != cases[i].class)
            fail_msg("%u %s", cases[i].status, cases[i].code);
        if (cases[i].error < 0)
            assert_int_equal(pl_s3_response_class_error(cases[i].class, cases[i].status, &p, &err), cases[i].error);
    }
}

static void problems_are_read_and_nothing_else(void **state)
{
    static const char good[] =
        "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>less</Message><Region>r</Region></Error>";
    static const char *const bad[] = {"", "<html>", "<ListBucketResult/>",
                                      "<!DOCTYPE e [<!ENTITY a \"b\">]><Error><Code>&a;</Code></Error>"};
    struct pl_buf b = {.data = (uint8_t *)good, .len = strlen(good)};
    struct pl_s3_response_error p;
    struct pl_err err;

    (void)state;
    assert_true(pl_s3_response_error_parse(&b, &p));
    assert_string_equal(p.region, "r");
    assert_int_equal(pl_s3_response_class_error(PL_S3_REDUCE_RATE, 503, &p, &err), PL_EBUSY);
    assert_string_equal(err.msg, "s3: 503 SlowDown: less");
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        b = (struct pl_buf){.data = (uint8_t *)bad[i], .len = strlen(bad[i])};
        assert_false(pl_s3_response_error_parse(&b, &p));
        assert_string_equal(p.code, "");
    }
}

/* RFC 3720, B.4, and the checksum of the published trailer of 65 KiB. */
static void the_checksum_is_castagnolis(void **state)
{
    uint8_t bytes[48];
    char *a = malloc(66560), text[PL_CRC32C_BASE64 + 1];
    uint32_t parts = 0;

    (void)state;
    memset(bytes, 0, 32);
    assert_int_equal(pl_crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, 32);
    assert_int_equal(pl_crc32c(0, bytes, 32), 0x62A8AB43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_int_equal(pl_crc32c(0, bytes, 32), 0x46DD794E);
    assert_int_equal(pl_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(pl_crc32c(0, NULL, 0), 0);
    assert_non_null(a);
    memset(a, 'a', 66560);
    assert_string_equal(pl_crc32c_base64(pl_crc32c(0, a, 66560), text), "sOO8/Q==");
    for (size_t at = 0, n = 1; at < 66560; at += n, n = PL_MIN(n + 7, 66560 - at))
        parts = pl_crc32c(parts, a + at, n);
    assert_int_equal(parts, pl_crc32c(0, a, 66560));
    free(a);
}

static void profiles_are_read_as_amazons_tools_do(void **state)
{
    static const char text[] =
        "# mine\n[default]\naws_access_key_id = A1 \n aws_secret_access_key=s/1==\r\n\n[profile two]\nregion = eu-west-3\n"
        ";region = no\n[three]\naws_access_key_id=A3\n[default]\nregion=last\n[broken\nregion=x";
    char out[16];
    bool section;

    (void)state;
    assert_true(pl_s3_profile_value(text, "default", "aws_access_key_id", out, sizeof(out), NULL));
    assert_string_equal(out, "A1");
    assert_true(pl_s3_profile_value(text, "default", "aws_secret_access_key", out, sizeof(out), NULL));
    assert_string_equal(out, "s/1==");
    assert_true(pl_s3_profile_value(text, "default", "region", out, sizeof(out), NULL));
    assert_string_equal(out, "last");
    assert_true(pl_s3_profile_value(text, "two", "region", out, sizeof(out), NULL));
    assert_string_equal(out, "eu-west-3");
    assert_false(pl_s3_profile_value(text, "three", "region", out, sizeof(out), &section));
    assert_true(section);
    assert_false(pl_s3_profile_value(text, "four", "region", out, sizeof(out), &section));
    assert_false(section);
    assert_false(pl_s3_profile_value(text, "two", "region", out, 5, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_give_their_urls),
        cmocka_unit_test(places_that_are_none_are_refused_by_name),
        cmocka_unit_test(a_bucket_that_moves_takes_amazons_host_along),
        cmocka_unit_test(a_redirect_leads_to_the_same_object),
        cmocka_unit_test(this_host_is_not_whoever_begins_like_it),
        cmocka_unit_test(answers_have_their_class),
        cmocka_unit_test(problems_are_read_and_nothing_else),
        cmocka_unit_test(the_checksum_is_castagnolis),
        cmocka_unit_test(profiles_are_read_as_amazons_tools_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
