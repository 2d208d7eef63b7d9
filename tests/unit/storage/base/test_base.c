// link: storage/base storage/system
/* base: errors, buffers, cursors, hashes and their texts, clocks, arenas. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/base/arena.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/process_hardening.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void an_error_carries_code_message_field_and_hint(void **state)
{
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_err_set(&err, PL_ENOTFOUND, "repo %s", "x"), PL_ENOTFOUND);
    assert_string_equal(err.msg, "repo x");
    assert_string_equal(err.field, "");
    (void)pl_err_field(&err, PL_EINVAL, "stages[0].name");
    (void)pl_err_hint(&err, PL_EINVAL, "try %d", 5);
    assert_string_equal(err.field, "stages[0].name");
    assert_string_equal(err.hint, "try 5");
    assert_int_equal(pl_err_set(NULL, PL_EIO, "nobody listens"), PL_EIO);
    assert_int_equal(pl_err_wrap(NULL, PL_EIO, "nobody listens"), PL_EIO);
}

static void wrapping_puts_the_outer_layer_in_front(void **state)
{
    struct pl_err err;

    (void)state;
    (void)pl_err_set(&err, PL_ENOSPC, "no space left");
    (void)pl_err_wrap(&err, PL_ENOSPC, "put pack");
    (void)pl_err_wrap(&err, PL_ENOSPC, "commit %s", "7f3a");
    assert_string_equal(err.msg, "commit 7f3a: put pack: no space left");
    (void)pl_err_set(&err, PL_EINVAL, "it said: %s", err.msg);
    assert_string_equal(err.msg, "it said: commit 7f3a: put pack: no space left");
}

static void a_message_is_one_line_and_ends_at_its_size(void **state)
{
    struct pl_err err;
    char longer[3000];

    (void)state;
    (void)pl_err_set(&err, PL_EINVAL, "a\nb\rc\x1b[31md");
    assert_string_equal(err.msg, "a b c [31md");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)pl_err_set(&err, PL_EINVAL, "%s", longer);
    assert_int_equal(strlen(err.msg), PL_ERR_MSG_BYTES - 1);
    (void)pl_err_wrap(&err, PL_EINVAL, "outer");
    assert_int_equal(strlen(err.msg), PL_ERR_MSG_BYTES - 1);
    assert_memory_equal(err.msg, "outer: xxx", 10);
    (void)pl_err_wrap(&err, PL_EINVAL, "%s", longer);
    assert_int_equal(strlen(err.msg), PL_ERR_MSG_BYTES - 1);
}

static void errno_becomes_a_code(void **state)
{
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_err_errno(&err, ENOSPC, "write %s", "f"), PL_ENOSPC);
    assert_string_equal(err.msg, "write f: No space left on device");
    assert_int_equal(pl_err_errno(&err, ENOENT, "open"), PL_ENOTFOUND);
    assert_int_equal(pl_err_errno(&err, ENOMEM, "map"), PL_ENOMEM);
    assert_int_equal(pl_err_errno(&err, EACCES, "open"), PL_EIO);
}

static void the_table_of_codes_is_whole(void **state)
{
    size_t n;
    const struct pl_err_info *rows = pl_err_table(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows[i].code, -(int)(i + 1));
        assert_ptr_equal(pl_err_info(rows[i].code), &rows[i]);
        assert_ptr_equal(pl_err_info_by_name(rows[i].name), &rows[i]);
        assert_in_range(rows[i].http_status, 400, 599);
        assert_in_range(rows[i].exit_code, 1, 6);
    }
    assert_string_equal(pl_err_info(-9999)->name, "internal");
    assert_null(pl_err_info_by_name("no such"));
}

static void a_buffer_grows_up_to_its_bound(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = 100};
    uint8_t bytes[60] = {7};
    struct pl_err err;

    (void)state;
    assert_ok(pl_buf_add(&b, bytes, 60, &err), &err);
    assert_int_equal(pl_buf_add(&b, bytes, 41, &err), PL_ETOOBIG);
    assert_int_equal(b.len, 60);
    assert_ok(pl_buf_add(&b, bytes, 40, &err), &err);
    assert_non_null(pl_buf_str(&b));
    assert_int_equal(b.len, 100);
    assert_ok(pl_buf_add(&b, NULL, 0, &err), &err);
}

static void a_buffer_formats_and_hands_over(void **state)
{
    struct pl_buf b = {0};
    struct pl_err err;
    char *s;

    (void)state;
    for (int i = 0; i < 50; i++)
        assert_ok(pl_buf_addf(&b, &err, "%d,", i), &err);
    assert_ok(pl_buf_add_str(&b, "end", &err), &err);
    s = pl_buf_take_str(&b);
    assert_int_equal(b.len, 0);
    assert_null(b.data);
    assert_memory_equal(s, "0,1,2,", 6);
    assert_string_equal(s + strlen(s) - 6, "49,end");
    free(s);
    s = pl_buf_take_str(&b);
    assert_string_equal(s, "");
    free(s);
}

static void numbers_go_through_a_buffer_and_back(void **state)
{
    static const uint64_t values[] = {0,          1,          127,        128,        16383,
                                      16384,      UINT32_MAX, 1ull << 32, 1ull << 35, (1ull << 63) - 1,
                                      1ull << 63, UINT64_MAX};
    static const size_t sizes[] = {1, 1, 1, 2, 2, 3, 5, 5, 6, 9, 10, 10};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(values); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf b = {0};
        struct pl_cursor c;
        struct pl_err err;

        assert_ok(pl_buf_add_varint(&b, values[i], &err), &err);
        assert_int_equal(b.len, sizes[i]);
        assert_ok(pl_buf_add_u8(&b, (uint8_t)values[i], &err), &err);
        assert_ok(pl_buf_add_le16(&b, (uint16_t)values[i], &err), &err);
        assert_ok(pl_buf_add_le32(&b, (uint32_t)values[i], &err), &err);
        assert_ok(pl_buf_add_le64(&b, values[i], &err), &err);
        c = pl_cursor_of(b.data, b.len);
        assert_true(pl_cursor_varint(&c) == values[i]);
        assert_true(pl_cursor_u8(&c) == (uint8_t)values[i]);
        assert_true(pl_cursor_le16(&c) == (uint16_t)values[i]);
        assert_true(pl_cursor_le32(&c) == (uint32_t)values[i]);
        assert_true(pl_cursor_le64(&c) == values[i]);
        assert_false(c.failed);
        assert_int_equal(pl_cursor_left(&c), 0);
    }
}

static void a_varint_has_one_form(void **state)
{
    static const struct {
        uint8_t bytes[11];
        size_t n;
    } bad[] = {
        {{0x80, 0x00}, 2},                                                        /* 0 in two bytes */
        {{0xFF, 0x80, 0x00}, 3},                                                  /* 127 in three */
        {{0x80}, 1},                                                              /* cut off */
        {{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02}, 10},       /* 65 bits */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 11}, /* eleven bytes */
        {{0}, 0},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct pl_cursor c = pl_cursor_of(bad[i].bytes, bad[i].n);

        assert_true(pl_cursor_varint(&c) == 0);
        assert_true(c.failed);
    }
}

static void a_cursor_never_reads_past_its_end_and_stays_failed(void **state)
{
    uint8_t bytes[3] = {1, 2, 3};
    struct pl_cursor c = pl_cursor_of(bytes, sizeof(bytes));

    (void)state;
    assert_true(pl_cursor_le32(&c) == 0);
    assert_true(c.failed);
    assert_true(pl_cursor_u8(&c) == 0);
    assert_null(pl_cursor_bytes(&c, 0));
}

static void sha256_is_the_standard_one(void **state)
{
    static const struct {
        const char *text, *hex;
    } vectors[] = {
        /* FIPS 180-2 */
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    struct pl_hasher memory, *hasher = pl_hasher_init(&memory);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(vectors); i++) {
        size_t n = strlen(vectors[i].text);
        struct pl_hash once, pieces;
        char hex[PL_HASH_HEX + 1];

        pl_hash_sha256(vectors[i].text, n, &once);
        assert_string_equal(pl_hash_hex(&once, hex), vectors[i].hex);
        for (size_t k = 0; k < n; k++)
            pl_hasher_add(hasher, vectors[i].text + k, 1);
        pl_hasher_get(hasher, &pieces);
        assert_true(pl_hash_eq(&once, &pieces));
    }
}

static void fields_cannot_be_mistaken_for_each_other(void **state)
{
    struct pl_hasher memory, *hasher = pl_hasher_init(&memory);
    struct pl_hash a, b;

    (void)state;
    pl_hasher_add_field(hasher, "ab", 2);
    pl_hasher_add_field(hasher, "c", 1);
    pl_hasher_get(hasher, &a);
    pl_hasher_add_field(hasher, "a", 1);
    pl_hasher_add_field(hasher, "bc", 2);
    pl_hasher_get(hasher, &b);
    assert_false(pl_hash_eq(&a, &b));
}

static void hex_is_read_strictly(void **state)
{
    uint8_t out[2] = {0};
    struct pl_hash h;

    (void)state;
    assert_true(pl_hex_decode("0aFf", out, 2));
    assert_int_equal(out[0], 0x0a);
    assert_int_equal(out[1], 0xff);
    assert_false(pl_hex_decode("0g", out, 1));
    assert_false(pl_hex_decode("0", out, 1));
    assert_int_equal(pl_hash_parse("ab", &h, NULL), PL_EINVAL);
    assert_int_equal(pl_hash_parse("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0", &h, NULL), PL_EINVAL);
    assert_ok(pl_hash_parse("BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", &h, NULL), (struct pl_err *)NULL);
}

static void base64_goes_both_ways_and_refuses_the_rest(void **state)
{
    static const struct {
        const char *text, *b64;
    } good[] = {/* RFC 4648 §10 */
                {"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {"Z", "Zg=", "Zg", "Zh==", "Z===", "Zg==Zg==", "Zm9*", "Zm 9", "===="};
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf b = {0};
        _cleanup_free_ char *text = NULL;

        assert_ok(pl_base64_encode(good[i].text, strlen(good[i].text), &text, &err), &err);
        assert_string_equal(text, good[i].b64);
        assert_ok(pl_base64_decode(text, &b, &err), &err);
        assert_string_equal(pl_buf_str(&b), good[i].text);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf b = {0};

        assert_int_equal(pl_base64_decode(bad[i], &b, &err), PL_EINVAL);
        assert_int_equal(b.len, 0);
    }
}

static void splitmix64_is_the_published_one(void **state)
{
    uint64_t s = 1234567;

    (void)state;
    /* first outputs for this seed, from the reference implementation (prng.di.unimi.it) */
    assert_true(pl_splitmix64(&s) == 6457827717110365317u);
    assert_true(pl_splitmix64(&s) == 3203168211198807973u);
    assert_true(pl_splitmix64(&s) == 9817491932198370423u);
}

static void ids_are_32_hex_digits_that_end_with_the_time(void **state)
{
    char a[PL_ID_HEX + 1], b[PL_ID_HEX + 1];

    (void)state;
    pl_id_make(0x0123456789abull, a);
    pl_id_make(0x0123456789abull, b);
    assert_true(pl_id_ok(a));
    assert_string_equal(a + 20, "0123456789ab");
    assert_string_not_equal(a, b);
    assert_false(pl_id_ok("0123"));
    assert_false(pl_id_ok("0123456789ABCDEF0123456789ABCDEF"));
    assert_false(pl_id_ok("0123456789abcdef0123456789abcdef0"));
}

static void durations_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},          {"0s", 0},         {"90s", 90000},    {"10m", 600000}, {"1h30m", 5400000},      {"500ms", 500},
                {"1.5h", 5400000}, {"2d", 172800000}, {"1m0.5s", 60500}, {"1500us", 1},   {"36000h", 129600000000}};
    static const char *const bad[] = {"",     "10",  "s", "1x", "1h 30m", "-5s", "1..5s", ".s", "99999999999999999999h",
                                      "10 m", "1e3s"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        struct pl_err err;
        int64_t ms = -1;

        assert_ok(pl_duration_parse(good[i].text, &ms, &err), &err);
        assert_true(ms == good[i].ms);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        int64_t ms = -1;

        assert_int_equal(pl_duration_parse(bad[i], &ms, NULL), PL_EINVAL);
        assert_true(ms == -1);
    }
}

static void durations_and_times_are_written(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "0ms"},    {999, "999ms"},   {1000, "1s"},    {1234, "1.2s"},     {59999, "59.9s"},
                 {60000, "1m"}, {90000, "1m30s"}, {3600000, "1h"}, {5400000, "1h30m"}, {-1500, "-1.5s"}};
    char out[32];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(pl_duration_text(cases[i].ms, out), cases[i].text);
    assert_string_equal(pl_clock_text(1795255445000000, out), "2026-11-21T10:04:05Z");
    assert_string_equal(pl_clock_text(-1, out), "1969-12-31T23:59:59Z");
    assert_true(pl_clock_mono_us() / 1000 <= pl_clock_mono_ms());
}

static void an_arena_gives_zeroed_aligned_memory_up_to_its_bound(void **state)
{
    struct pl_arena *a = pl_arena_create(1 << 20);
    uint8_t *large;

    (void)state;
    for (size_t n = 0; n < 500; n++) {
        uint8_t *p = pl_arena_alloc(a, n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xFF, n);
    }
    large = pl_arena_alloc(a, 300000);
    assert_non_null(large);
    assert_string_equal(pl_arena_strdup(a, "text"), "text");
    assert_string_equal(pl_arena_strndup(a, "text", 2), "te");
    assert_string_equal(pl_arena_printf(a, "%d-%s", 5, "x"), "5-x");
    assert_true(pl_arena_used(a) <= 1 << 20);
    assert_null(pl_arena_alloc(a, 1 << 20));
    assert_null(pl_arena_alloc(a, SIZE_MAX));
    assert_null(pl_arena_destroy(a));
    assert_null(pl_arena_destroy(NULL));
}

static void a_closed_process_is_looked_into_by_nobody(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        struct rlimit core = {1, 1};

        pl_process_close();
        _exit(prctl(PR_GET_DUMPABLE) == 0 && getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 && core.rlim_max == 0 ? 0
                                                                                                                            : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_carries_code_message_field_and_hint),
        cmocka_unit_test(wrapping_puts_the_outer_layer_in_front),
        cmocka_unit_test(a_message_is_one_line_and_ends_at_its_size),
        cmocka_unit_test(errno_becomes_a_code),
        cmocka_unit_test(the_table_of_codes_is_whole),
        cmocka_unit_test(a_buffer_grows_up_to_its_bound),
        cmocka_unit_test(a_buffer_formats_and_hands_over),
        cmocka_unit_test(numbers_go_through_a_buffer_and_back),
        cmocka_unit_test(a_varint_has_one_form),
        cmocka_unit_test(a_cursor_never_reads_past_its_end_and_stays_failed),
        cmocka_unit_test(sha256_is_the_standard_one),
        cmocka_unit_test(fields_cannot_be_mistaken_for_each_other),
        cmocka_unit_test(hex_is_read_strictly),
        cmocka_unit_test(base64_goes_both_ways_and_refuses_the_rest),
        cmocka_unit_test(splitmix64_is_the_published_one),
        cmocka_unit_test(a_closed_process_is_looked_into_by_nobody),
        cmocka_unit_test(ids_are_32_hex_digits_that_end_with_the_time),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(durations_and_times_are_written),
        cmocka_unit_test(an_arena_gives_zeroed_aligned_memory_up_to_its_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
