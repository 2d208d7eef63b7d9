// link: pipelined/s3gateway/gateway
/* What S3 says on the wire, without a server: the framing of aws-chunked bodies however they are cut, checksums, names of buckets, lists of
 * ETags, codes of errors. */
#include "pipelined/s3gateway/gateway/gateway_internal.h"
#include "pipelined/s3gateway/gateway/s3_headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- framing ---- */

/* What came of a body: "(SIZE" or "(SIZE!" with a signature, the bytes, ")", "{name=value}". */
static int on_begin(void *self, uint64_t size, const char *signature, struct pl_err *err)
{
    return pl_buf_addf(self, err, "(%llu%s ", (unsigned long long)size, *signature ? "!" : "");
}

static int on_data(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, bytes, n, err);
}

static int on_end(void *self, struct pl_err *err)
{
    return pl_buf_add_str(self, ")", err);
}

static int on_trailer(void *self, const char *name, const char *value, struct pl_err *err)
{
    return pl_buf_addf(self, err, "{%s=%s}", name, value);
}

/* Feeds `n` bytes in pieces of `step`; the code, or 1 when it is not at its end. */
static int feed(const char *body, size_t n, size_t step, struct pl_buf *out)
{
    struct pl_s3_chunked c;
    const struct pl_s3_chunked_sink sink = {out, on_begin, on_data, on_end, on_trailer};
    struct pl_err err = {0};
    int r = 0;

    pl_s3_chunked_init(&c, &sink);
    for (size_t at = 0; at < n && r == 0; at += step)
        r = pl_s3_chunked_feed(&c, body + at, PL_MIN(step, n - at), &err);
    return r < 0 ? r : !pl_s3_chunked_done(&c);
}

#define SIGNATURE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void bodies_are_taken_out_of_their_framing_however_they_are_cut(void **state)
{
    static const struct {
        const char *body, *want;
        int code; /* 1: something is missing */
    } table[] = {
        {"0\r\n\r\n", "(0 )", 0},
        {"3\r\nabc\r\n0\r\n\r\n", "(3 abc)(0 )", 0},
        {"a;chunk-signature=" SIGNATURE "\r\n0123456789\r\n0;chunk-signature=" SIGNATURE "\r\n\r\n", "(10! 0123456789)(0! )", 0},
        {"2\n\r\n\r\n0\n\n", "(2 \r\n)(0 )", 0},
        {"1\r\nx\r\n0\r\nx-amz-checksum-crc32: AAAA== \r\n\r\n", "(1 x)(0 ){x-amz-checksum-crc32=AAAA==}", 0},
        {"0\r\na:b:c\nd:\r\n\r\n", "(0 ){a=b:c}{d=}", 0},
        {"00000001\r\nx\r\n000\r\n\r\n", "(1 x)(0 )", 0},
        {"", "", 1},
        {"3\r\nab", NULL, 1},
        {"0\r\n", "(0 )", 1},
        {"0\r\na:b\r\n", "(0 ){a=b}", 1},
        {"3\r\nabc\r\n", NULL, 1},
        {"\r\n", "", PL_S3_INVALID_REQUEST},
        {"x\r\n", "", PL_S3_INVALID_REQUEST},
        {"-1\r\n", "", PL_S3_INVALID_REQUEST},
        {"1 \r\nx\r\n", "", PL_S3_INVALID_REQUEST},
        {"11111111111111111\r\n", "", PL_S3_INVALID_REQUEST},
        {"ffffffffffffffff\r\n", "", PL_S3_CHUNK_SIZE},
        {"140000001\r\n", "", PL_S3_CHUNK_SIZE},
        {"1\r\nxy\r\n", NULL, PL_S3_INVALID_REQUEST},
        {"1;chunk-signature=12\r\n", "", PL_S3_INVALID_REQUEST},
        {"1;signature=" SIGNATURE "\r\n", "", PL_S3_INVALID_REQUEST},
        {"1;chunk-signature=0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\r\n", "", PL_S3_INVALID_REQUEST},
        {"0\r\nnothing\r\n\r\n", "(0 )", PL_S3_MALFORMED_TRAILER},
        {"0\r\n:value\r\n\r\n", "(0 )", PL_S3_MALFORMED_TRAILER},
        {"0\r\n\r\nmore", "(0 )", PL_S3_INVALID_REQUEST},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        for (size_t step = 1; step <= strlen(table[i].body) + 1; step++) {
            _cleanup_(pl_buf_finish) struct pl_buf out = {0};
            int r = feed(table[i].body, strlen(table[i].body), step, &out);

            if (r != table[i].code)
                fail_msg("row %zu in pieces of %zu: %d", i, step, r);
            if (table[i].want && strcmp(out.len ? pl_buf_str(&out) : "", table[i].want) != 0)
                fail_msg("row %zu in pieces of %zu: \"%s\"", i, step, out.len ? pl_buf_str(&out) : "");
        }
    }
}

static void lines_and_trailers_have_an_end(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0}, body = {0};
    char line[PL_S3_CHUNK_LINE_MAX + 2];

    (void)state;
    memset(line, '0', sizeof line);
    assert_int_equal(feed(line, sizeof line, 100, &out), PL_S3_INVALID_REQUEST);
    assert_int_equal(pl_buf_add_str(&body, "0\r\n", NULL), 0);
    for (unsigned i = 0; i < PL_S3_TRAILERS_MAX; i++)
        assert_int_equal(pl_buf_addf(&body, NULL, "t%u:v\r\n", i), 0);
    assert_int_equal(feed((const char *)body.data, body.len, 7, &out), 1);
    assert_int_equal(pl_buf_add_str(&body, "t:v\r\n\r\n", NULL), 0);
    assert_int_equal(feed((const char *)body.data, body.len, 7, &out), PL_S3_MALFORMED_TRAILER);
    assert_int_equal(feed("0\r\na\0b:c\r\n\r\n", 13, 13, &out), PL_S3_INVALID_REQUEST);
}

/* ---- checksums ---- */

static void checksum(enum pl_s3_sum_kind kind, const void *data, size_t n, size_t step, uint8_t ret[PL_S3_SUM_MAX_BYTES])
{
    struct pl_s3_sum s;

    assert_int_equal(pl_s3_sum_init(&s, kind, NULL), 0);
    for (size_t at = 0; at < n; at += step)
        pl_s3_sum_add(&s, (const uint8_t *)data + at, PL_MIN(step, n - at));
    pl_s3_sum_get(&s, ret);
    pl_s3_sum_finish(&s);
}

/* The check values of the catalogue of CRCs, and of FIPS 180. */
static void checksums_are_these(void **state)
{
    static const struct {
        enum pl_s3_sum_kind kind;
        const char *data, *hex, *base64;
    } table[] = {
        {PL_S3_CRC32, "123456789", "cbf43926", "y/Q5Jg=="},
        {PL_S3_CRC32C, "123456789", "e3069283", "4waSgw=="},
        {PL_S3_CRC64NVME, "123456789", "ae8b14860a799888", "rosUhgp5mIg="},
        {PL_S3_SHA1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d", "qZk+NkcGgWq6PiVxeFDCbJzQ2J0="},
        {PL_S3_SHA256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {PL_S3_MD5, "abc", "900150983cd24fb0d6963f7d28e17f72", "kAFQmDzST7DWlj99KOF/cg=="},
        {PL_S3_SHA512, "abc",
         "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94"
         "fa54"
         "ca49f",
         "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw=="},
        {PL_S3_CRC32, "", "00000000", "AAAAAA=="},
        {PL_S3_CRC64NVME, "", "0000000000000000", "AAAAAAAAAAA="},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        const struct pl_s3_sum_info *info = pl_s3_sum_info(table[i].kind);

        for (size_t step = 1; step <= 9; step += 4) {
            uint8_t got[PL_S3_SUM_MAX_BYTES], back[PL_S3_SUM_MAX_BYTES];
            char hex[2 * PL_S3_SUM_MAX_BYTES + 1], text[PL_S3_SUM_TEXT];

            checksum(table[i].kind, table[i].data, strlen(table[i].data), step, got);
            pl_hex_encode(got, info->bytes, hex);
            assert_string_equal(hex, table[i].hex);
            pl_s3_sum_text(table[i].kind, got, text);
            assert_string_equal(text, table[i].base64);
            assert_true(pl_s3_sum_parse(table[i].kind, text, back));
            assert_memory_equal(back, got, info->bytes);
        }
        assert_int_equal(pl_s3_sum_named(info->name), table[i].kind);
        assert_int_equal(pl_s3_sum_of_header(info->header), table[i].kind);
        assert_false(pl_s3_sum_parse(table[i].kind, "AAA=", (uint8_t[PL_S3_SUM_MAX_BYTES]){0}));
    }
    assert_int_equal(pl_s3_sum_named("md5"), PL_S3_MD5);
    assert_int_equal(pl_s3_sum_named("xxhash64"), PL_S3_SUM_NONE);
    assert_null(pl_s3_sum_info(PL_S3_SUM_NONE));
}

static void crcs_of_parts_make_that_of_the_whole(void **state)
{
    uint8_t data[5000];
    uint64_t rng = 1;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)pl_splitmix64(&rng);
    for (int kind = PL_S3_CRC32; kind <= PL_S3_CRC64NVME; kind++) {
        for (size_t cut = 0; cut <= sizeof data; cut += 1 + cut / 3) {
            uint8_t a[PL_S3_SUM_MAX_BYTES], b[PL_S3_SUM_MAX_BYTES], whole[PL_S3_SUM_MAX_BYTES];

            checksum((enum pl_s3_sum_kind)kind, data, cut, 1000, a);
            checksum((enum pl_s3_sum_kind)kind, data + cut, sizeof data - cut, 1000, b);
            checksum((enum pl_s3_sum_kind)kind, data, sizeof data, 1000, whole);
            pl_s3_sum_join((enum pl_s3_sum_kind)kind, a, b, sizeof data - cut);
            assert_memory_equal(a, whole, sizeof whole);
        }
    }
}

/* ---- names ---- */

#define ID "0123456789abcdef0123456789abcdef"

static void buckets_are_branches_and_commits(void **state)
{
    static const struct {
        const char *bucket, *means; /* "commit branch repo project", "" = it is none */
    } table[] = {
        {"data", " master data default"},
        {"d", " master d default"},
        {"Data_1-x", " master Data_1-x default"},
        {"dev.data", " dev data default"},
        {"dev.data.vision", " dev data vision"},
        {ID ".dev.data", ID " dev data default"},
        {ID ".dev.data.vision", ID " dev data vision"},
        {"0123.dev.data.vision", "0123 dev data vision"},
        {"01234567.dev.data", " 01234567 dev data"},
        {"", ""},
        {".", ""},
        {"a.", ""},
        {".a", ""},
        {"a..b", ""},
        {"a.b.c.d", ""},
        {"012.a.b.c", ""},
        {"0.1.2.3.4", ""},
        {ID, ""},
        {ID ".data", ""},
        {"_a", ""},
        {"a b", ""},
        {"ü", ""},
        {"0123456789012345678901234567890123456789012345678901", ""},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_s3_target t;
        struct pl_err err = {0};
        char got[400] = "", name[PL_S3_BUCKET_MAX + 1];
        int r = pl_s3_target_name(table[i].bucket, &t, &err);

        if (r == 0)
            snprintf(got, sizeof got, "%s %s %s %s", t.commit, t.branch, t.repo, t.project);
        if (strcmp(got, table[i].means) != 0)
            fail_msg("\"%s\" means \"%s\"", table[i].bucket, got);
        if (r < 0)
            assert_int_equal(r, PL_S3_INVALID_BUCKET_NAME);
        if (r == 0 && !*t.commit && i < 4) {
            pl_s3_bucket_name(t.project, t.repo, t.branch, name);
            assert_string_equal(name, table[i].bucket);
        }
    }
}

static void etags_are_found_in_lists(void **state)
{
    static const struct {
        const char *list;
        bool has;
    } table[] = {
        {"abc", true},       {"\"abc\"", true},     {"*", true},     {"\"x\", \"abc\"", true}, {"x,abc", true},
        {"W/\"abc\"", true}, {" \t\"abc\" ", true}, {"", false},     {"\"abcd\"", false},      {"\"ab\"", false},
        {"abc\"", false},    {"\"*\"", false},      {"ab c", false}, {"\"x\",\"y\"", false},   {",,,", false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++)
        if (pl_s3_etag_listed(table[i].list, "abc") != table[i].has)
            fail_msg("row %zu: %s", i, table[i].list);
}

/* ---- errors ---- */

static void every_code_is_said_in_s3s_words(void **state)
{
    size_t n;
    const struct pl_err_info *all = pl_err_table(&n);
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        const struct pl_s3_error_info *info = pl_s3_error_info(all[i].code);

        assert_true(info->status >= 400 && info->status < 600);
        if (all[i].http_status < 500) /* what is the client's fault is not said to be ours */
            assert_true(info->status < 500 || all[i].retryable || all[i].code == PL_ELIMIT || all[i].code == PL_ELOCKED ||
                        all[i].code == PL_ECANCELED || all[i].code == PL_ELEASE || strcmp(info->code, "InternalError") == 0);
    }
    for (int code = PL_S3_ERROR_FIRST; code > PL_S3_ERROR_FIRST - PL_S3_ERRORS; code--) {
        assert_int_equal(pl_s3_error(&err, code), code);
        assert_string_equal(err.msg, pl_s3_error_info(code)->message);
    }
    assert_string_equal(pl_s3_error_info(PL_S3_NO_SUCH_KEY)->code, "NoSuchKey");
    assert_string_equal(pl_s3_error_info(PL_S3_WRONG_SHA256)->code, "XAmzContentSHA256Mismatch");
    assert_string_equal(pl_s3_error_info(PL_S3_ERROR_FIRST - PL_S3_ERRORS)->code, "InternalError");
    assert_string_equal(pl_s3_error_info(PL_ENOSPC)->code, "InsufficientStorage");
}

/* The store's own refusals are failures of the daemon, never of the client. */
static void the_stores_codes_are_not_the_clients(void **state)
{
    static const struct {
        int code, with_store, without;
    } table[] = {
        {PL_EFORBIDDEN, PL_S3_UNAVAILABLE, PL_S3_UNAVAILABLE},
        {PL_EAUTH, PL_S3_UNAVAILABLE, PL_S3_UNAVAILABLE},
        {PL_ENET, PL_S3_UNAVAILABLE, PL_S3_UNAVAILABLE},
        {PL_EINVAL, PL_S3_UNAVAILABLE, 0},
        {PL_EBUSY, PL_S3_SLOW_DOWN, 0},
        {PL_ENOSPC, PL_S3_STORAGE_FULL, 0},
        {PL_ENOTFOUND, PL_S3_INTERNAL, 0},
        {PL_EEXISTS, PL_S3_INTERNAL, 0},
        {PL_EUNAVAILABLE, PL_S3_INTERNAL, 0},
        {PL_EIO, PL_S3_INTERNAL, PL_S3_INTERNAL},
        {PL_S3_NO_SUCH_KEY, PL_S3_INTERNAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        assert_int_equal(pl_s3_error_of_store(table[i].code, true), table[i].with_store);
        assert_int_equal(pl_s3_error_of_store(table[i].code, false), table[i].without);
        assert_true(pl_s3_error_info(table[i].with_store)->status >= 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_taken_out_of_their_framing_however_they_are_cut),
        cmocka_unit_test(lines_and_trailers_have_an_end),
        cmocka_unit_test(checksums_are_these),
        cmocka_unit_test(crcs_of_parts_make_that_of_the_whole),
        cmocka_unit_test(buckets_are_branches_and_commits),
        cmocka_unit_test(etags_are_found_in_lists),
        cmocka_unit_test(every_code_is_said_in_s3s_words),
        cmocka_unit_test(the_stores_codes_are_not_the_clients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
