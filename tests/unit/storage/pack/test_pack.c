// link: storage/base storage/chunk storage/pack storage/system
/* pack: its bytes are pinned, every damaged byte is noticed, and what was written is read. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/chunk/chunk.h"
#include "storage/chunk/codec.h"
#include "storage/pack/pack_reader.h"
#include "storage/pack/pack_writer.h"

#include <zstd.h>

#define GOLDEN_ID "94ef47d75177a807c35374a171d8664d34dc16976385c4c11b51554146fd05e9"

static const uint8_t nonce[PL_PACK_NONCE_BYTES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static struct pl_pack_writer *writer_of(size_t max_bytes)
{
    struct pl_pack_writer *w;
    struct pl_err err;

    assert_ok(pl_pack_writer_create("default", nonce, max_bytes, &w, &err), &err);
    return w;
}

static int add_stored(struct pl_pack_writer *w, uint8_t kind, uint8_t codec, const void *raw, size_t raw_n, const void *stored,
                      size_t n, struct pl_err *err)
{
    struct pl_pack_entry e = {.raw = (uint32_t)raw_n, .stored = (uint32_t)n, .codec = codec, .kind = kind};

    pl_hash_sha256(raw, raw_n, &e.id);
    return pl_pack_writer_add(w, &e, stored, err);
}

static int add_raw(struct pl_pack_writer *w, uint8_t kind, const void *raw, size_t n, struct pl_err *err)
{
    return add_stored(w, kind, PL_CODEC_RAW, raw, n, raw, n, err);
}

/* Two chunks, one of them compressed (a frame of one RLE block, the same whatever zstd makes today), and a blob. */
static struct pl_pack_writer *golden_writer(void)
{
    static const uint8_t frame[] = {0x28, 0xB5, 0x2F, 0xFD, 0x20, 0xC8, 0x43, 0x06, 0x00, 0x61};
    struct pl_pack_writer *w = writer_of(0);
    char letters[200];
    struct pl_err err;

    memset(letters, 'a', sizeof(letters));
    assert_int_equal(add_raw(w, PL_REC_CHUNK, "hello, pack\n", 12, &err), 1);
    assert_int_equal(add_stored(w, PL_REC_CHUNK, PL_CODEC_ZSTD, letters, sizeof(letters), frame, sizeof(frame), &err), 1);
    assert_int_equal(add_raw(w, PL_REC_BLOB, "PLXX blob", 9, &err), 1);
    return w;
}

static int verify(const void *bytes, size_t n, const struct pl_pack_verify *how, struct pl_err *err)
{
    struct pl_pack_memory m = {bytes, n};
    struct pl_pack_input in = pl_pack_input_memory(&m);

    return pl_pack_verify(&in, how, NULL, err);
}

static void the_bytes_of_a_pack_are_pinned(void **state)
{
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = golden_writer();
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0};
    char hex[PL_HASH_HEX + 1], key[PL_PACK_KEY_BYTES];
    struct pl_hash id, parsed;
    const void *bytes;
    struct pl_err err;
    size_t n;

    (void)state;
    assert_ok(pl_pack_writer_seal(w, &bytes, &n, &id, &err), &err);
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    assert_int_equal(n, golden.len);
    assert_memory_equal(bytes, golden.data, n);
    assert_string_equal(pl_hash_hex(&id, hex), GOLDEN_ID);
    assert_string_equal(pl_pack_key("default", &id, key), "p/default/94/" GOLDEN_ID);
    assert_true(pl_pack_key_parse(key, &parsed));
    assert_true(pl_hash_eq(&id, &parsed));
}

static void a_golden_pack_is_read(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0}, record = {0};
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_pack_verify how = {.project = "default"};
    struct pl_pack_memory m;
    struct pl_pack_input in;
    struct pl_hash id;
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    m = (struct pl_pack_memory){golden.data, golden.len};
    in = pl_pack_input_memory(&m);
    assert_ok(pl_pack_verify(&in, &how, &f, &err), &err);
    assert_int_equal(f.count, 3);
    assert_int_equal(f.header.kind, PL_PACK_MIXED);
    pl_hash_sha256("hello, pack\n", 12, &id);
    assert_non_null(pl_pack_footer_find(&f, &id));
    assert_ok(pl_pack_record_read(&in, pl_pack_footer_find(&f, &id), &record, &err), &err);
    assert_string_equal(pl_buf_str(&record), "hello, pack\n");
    assert_ok(pl_pack_record_read(&in, &f.entries[f.order[1]], &record, &err), &err);
    assert_int_equal(record.len, 200);
    assert_int_equal(record.data[199], 'a');
    id.b[0] ^= 1;
    assert_null(pl_pack_footer_find(&f, &id));
}

static void every_damaged_byte_is_noticed(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0};
    struct pl_pack_verify how = {0}; /* whose pack it should be is not even asked */
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    assert_ok(verify(golden.data, golden.len, &how, &err), &err);
    for (size_t at = 0; at < golden.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            golden.data[at] = (uint8_t)(golden.data[at] ^ 1 << bit);
            assert_in_range(-verify(golden.data, golden.len, &how, &err), -PL_ECORRUPT, -PL_EFORMAT);
            golden.data[at] = (uint8_t)(golden.data[at] ^ 1 << bit);
        }
    }
}

static void a_damaged_record_is_not_read(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0}, record = {0};
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_pack_memory m;
    struct pl_pack_input in;
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    m = (struct pl_pack_memory){golden.data, golden.len};
    in = pl_pack_input_memory(&m);
    assert_ok(pl_pack_footer_read(&in, &f, &err), &err);
    for (uint32_t i = 0; i < f.count; i++) {
        const struct pl_pack_entry *e = &f.entries[i];

        for (size_t at = e->offset; at < e->offset + PL_PACK_RECORD_BYTES + e->stored; at++) {
            golden.data[at] ^= 1;
            assert_int_equal(pl_pack_record_read(&in, e, &record, &err), PL_ECORRUPT);
            assert_int_equal(record.len, 0);
            golden.data[at] ^= 1;
        }
        assert_ok(pl_pack_record_read(&in, e, &record, &err), &err);
        assert_int_equal(record.len, e->raw);
    }
}

static void a_pack_that_is_cut_off_or_longer_is_noticed(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0};
    struct pl_pack_verify how = {0};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    for (size_t n = 0; n < golden.len; n++) {
        _cleanup_free_ uint8_t *part = malloc(n + 1); /* its own memory: a read past it is seen */

        memcpy(part, golden.data, n);
        assert_int_equal(verify(part, n, &how, &err), PL_ECORRUPT);
    }
    assert_ok(pl_buf_add_u8(&golden, 0, &err), &err);
    assert_int_equal(verify(golden.data, golden.len, &how, &err), PL_ECORRUPT);
}

static void a_pack_must_be_the_one_that_was_promised(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0};
    struct pl_hash id;
    struct pl_pack_verify other_project = {.project = "other"}, right = {.project = "default", .claimed = &id},
                          other_id = {.claimed = &id};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    assert_ok(pl_hash_parse(GOLDEN_ID, &id, &err), &err);
    assert_ok(verify(golden.data, golden.len, &right, &err), &err);
    assert_int_equal(verify(golden.data, golden.len, &other_project, &err), PL_ECORRUPT);
    id.b[31] ^= 1;
    assert_int_equal(verify(golden.data, golden.len, &other_id, &err), PL_ECORRUPT);
}

static void note_bad(void *arg, const struct pl_pack_entry *e, const struct pl_err *why)
{
    unsigned *seen = arg;

    (void)why;
    *seen |= 1u << (e->raw == 12 ? 0 : e->raw == 200 ? 1 : 2);
}

static void each_bad_record_is_named_and_checking_goes_on(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf golden = {0};
    unsigned seen = 0;
    struct pl_pack_verify how = {.bad = note_bad, .arg = &seen};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &golden, &err), &err);
    golden.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;               /* the first record's bytes */
    golden.data[PL_PACK_HEADER_BYTES + 3 * PL_PACK_RECORD_BYTES + 12 + 10] ^= 1; /* the third's */
    assert_int_equal(verify(golden.data, golden.len, &how, &err), PL_ECORRUPT);
    assert_int_equal(seen, 1 | 4);
}

/* Writes over the entry of the golden pack's compressed record and makes footer and trailer fit again. */
static void forge(struct pl_buf *pack, size_t field, uint32_t value)
{
    size_t footer = pack->len - PL_PACK_OVERHEAD(3) + PL_PACK_HEADER_BYTES, trailer = pack->len - PL_PACK_TRAIL_BYTES;
    struct pl_hash hash;

    for (size_t i = 0; i < 3; i++) {
        uint8_t *entry = pack->data + footer + PL_PACK_FOOTER_BYTES + i * PL_PACK_ENTRY_BYTES;

        if (entry[44] == PL_CODEC_ZSTD)
            for (size_t k = 0; k < 4; k++)
                entry[field + k] = (uint8_t)(value >> (8 * k));
    }
    pl_hash_sha256(pack->data + footer, trailer - footer, &hash);
    memcpy(pack->data + trailer + 16, hash.b, PL_HASH_BYTES);
}

static void a_forged_footer_cannot_make_us_read_or_inflate_elsewhere(void **state)
{
    static const struct {
        size_t field;
        uint32_t value;
    } lies[] = {
        {32, 0},          {32, 81},         {32, UINT32_MAX}, /* offset */
        {36, 0},          {36, 11},         {36, UINT32_MAX}, /* stored size */
        {40, 0},          {40, 201},        {40, (uint32_t)PL_CHUNK_MAX_BYTES + 1},
        {40, UINT32_MAX}, /* raw size */
        {44, 0x00000100}, {44, 0x00000102}, {44, 0x00000601},
        {44, 0x00000001}, {44, 0x00010101}, /* codec, kind, zero */
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(lies); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf pack = {0};
        struct pl_pack_verify how = {0};
        struct pl_err err;

        assert_ok(pl_io_read_file(PL_TEST_DATA "/pack-v1.bin", &pack, &err), &err);
        forge(&pack, lies[i].field, lies[i].value);
        assert_in_range(-verify(pack.data, pack.len, &how, &err), -PL_ECORRUPT, -PL_EFORMAT);
    }
}

static void a_bomb_in_a_pack_is_refused(void **state)
{
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = writer_of(0);
    size_t bomb_raw = (size_t)32 << 20, bomb_n;
    _cleanup_free_ uint8_t *zeros = calloc(1, bomb_raw), *bomb = malloc(ZSTD_compressBound(bomb_raw));
    struct pl_pack_verify how = {0};
    const void *bytes;
    struct pl_hash id;
    struct pl_err err;
    size_t n;

    (void)state;
    bomb_n = ZSTD_compress(bomb, ZSTD_compressBound(bomb_raw), zeros, bomb_raw, 1);
    /* it says that it is as large as a chunk may be, and is 128 times that */
    assert_int_equal(add_stored(w, PL_REC_CHUNK, PL_CODEC_ZSTD, zeros, PL_CHUNK_MAX_BYTES, bomb, bomb_n, &err), 1);
    assert_ok(pl_pack_writer_seal(w, &bytes, &n, &id, &err), &err);
    assert_int_equal(verify(bytes, n, &how, &err), PL_ECORRUPT);
}

static void two_threads_notice_what_one_notices(void **state)
{
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = writer_of(0);
    _cleanup_free_ uint8_t *bytes = fixture_alloc((size_t)8 << 20, 1), *copy = NULL;
    struct pl_pack_verify how = {.two_threads = true};
    const void *pack;
    struct pl_hash id;
    struct pl_err err;
    size_t n;

    (void)state;
    for (size_t i = 0; i < 128; i++)
        assert_int_equal(add_raw(w, PL_REC_CHUNK, bytes + (i << 16), (size_t)1 << 16, &err), 1);
    assert_ok(pl_pack_writer_seal(w, &pack, &n, &id, &err), &err);
    assert_ok(verify(pack, n, &how, &err), &err);
    copy = malloc(n);
    memcpy(copy, pack, n);
    for (size_t at = 100000; at < ((size_t)8 << 20); at += (size_t)1 << 20) {
        copy[at] ^= 1;
        assert_int_equal(verify(copy, n, &how, &err), PL_ECORRUPT);
        copy[at] ^= 1;
    }
    assert_ok(verify(copy, n, &how, &err), &err);
}

static void the_kind_of_a_pack_follows_from_its_records(void **state)
{
    static const struct {
        uint8_t first, second;
        int pack;
    } cases[] = {{PL_REC_CHUNK, PL_REC_CHUNK, PL_PACK_DATA},
                 {PL_REC_NODE, PL_REC_COMMIT, PL_PACK_TREE},
                 {PL_REC_LIST, PL_REC_CHUNK, PL_PACK_MIXED}};
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = writer_of(0);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_hash id;
        const uint8_t *bytes;
        struct pl_err err;
        size_t n;

        pl_pack_writer_reset(w);
        assert_int_equal(add_raw(w, cases[i].first, "first", 5, &err), 1);
        assert_int_equal(add_raw(w, cases[i].second, "second", 6, &err), 1);
        assert_ok(pl_pack_writer_seal(w, (const void **)&bytes, &n, &id, &err), &err);
        assert_int_equal(bytes[7], cases[i].pack);
        assert_ok(verify(bytes, n, &(struct pl_pack_verify){0}, &err), &err);
    }
}

static void a_pack_takes_a_record_once_and_only_while_it_fits(void **state)
{
    size_t max = (size_t)1 << 20, added = 0;
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = writer_of(max), *copy = writer_of(0);
    _cleanup_free_ uint8_t *bytes = fixture_alloc(max, 1);
    struct pl_hash id;
    const void *pack;
    struct pl_err err;
    size_t n;
    int r;

    (void)state;
    assert_int_equal(pl_pack_writer_seal(w, &pack, &n, &id, &err), PL_EINVAL);
    assert_int_equal(add_raw(w, PL_REC_BLOB, bytes, max, &err), PL_ETOOBIG);
    while ((r = add_raw(w, PL_REC_CHUNK, bytes + added * 1000, 1000, &err)) == 1)
        added++;
    assert_int_equal(r, PL_EPACKFULL);
    assert_int_equal(add_raw(w, PL_REC_CHUNK, bytes, 1000, &err), 0);
    assert_int_equal(pl_pack_writer_count(w), added);
    assert_ok(pl_pack_writer_add_all(copy, w, &err), &err);
    assert_int_equal(pl_pack_writer_count(copy), added);
    n = pl_pack_writer_size(w);
    assert_in_range(n, max - 2000, max);
    assert_ok(pl_pack_writer_seal(w, &pack, &n, &id, &err), &err);
    assert_int_equal(n, pl_pack_writer_size(w));
    assert_ok(verify(pack, n, &(struct pl_pack_verify){0}, &err), &err);
}

static void a_pack_of_very_many_records_is_bounded(void **state)
{
    _cleanup_(pl_pack_writer_destroyp) struct pl_pack_writer *w = writer_of(0);
    struct pl_pack_entry e = {.raw = 8, .stored = 8, .kind = PL_REC_CHUNK};
    struct pl_hash id;
    const void *bytes;
    struct pl_err err;
    size_t n;

    (void)state;
    for (uint64_t i = 0; i < PL_PACK_MAX_RECORDS; i++) {
        pl_hash_sha256(&i, sizeof(i), &e.id);
        assert_int_equal(pl_pack_writer_add(w, &e, &i, &err), 1);
    }
    e.id.b[0] ^= 1;
    assert_int_equal(pl_pack_writer_add(w, &e, "another", &err), PL_EPACKFULL);
    assert_ok(pl_pack_writer_seal(w, &bytes, &n, &id, &err), &err);
    assert_ok(verify(bytes, n, &(struct pl_pack_verify){0}, &err), &err);
}

/* 16 MiB of zeros are some hundred bytes: what they inflate to is bounded, for who writes and before who reads inflates any. */
static void what_a_pack_inflates_to_is_bounded(void **state)
{
    const size_t raw = (size_t)16 << 20;
    struct pl_pack_writer *w = writer_of(PL_PACK_MAX_BYTES);
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_pack_entry e = {.raw = (uint32_t)raw, .stored = 4, .codec = PL_CODEC_ZSTD, .kind = PL_REC_BLOB};
    struct pl_pack_verify how = {.project = "default"};
    struct pl_pack_memory memory = {0};
    struct pl_pack_input in;
    struct pl_hash id;
    struct pl_err err;

    (void)state;
    for (uint32_t i = 0; i < PL_PACK_RAW_BYTES / raw; i++) {
        pl_hash_sha256(&i, sizeof i, &e.id);
        assert_int_equal(pl_pack_writer_add(w, &e, "none", &err), 1);
    }
    pl_hash_sha256("one more", 8, &e.id);
    assert_int_equal(pl_pack_writer_add(w, &e, "none", &err), PL_EPACKFULL);
    assert_ok(pl_pack_writer_seal(w, &memory.bytes, &memory.size, &id, &err), &err);
    in = pl_pack_input_memory(&memory);
    assert_ok(pl_pack_footer_read(&in, &f, &err), &err);
    assert_ok(pl_pack_footer_check_raw(&f, PL_PACK_RAW_BYTES, &err), &err);
    how.raw_max = PL_PACK_RAW_BYTES - 1;
    assert_int_equal(pl_pack_verify(&in, &how, NULL, &err), PL_ETOOBIG);
    how.raw_max = PL_PACK_RAW_BYTES;
    assert_int_equal(pl_pack_verify(&in, &how, NULL, &err), PL_ECORRUPT); /* it was looked at, and is no zstd */
    pl_pack_writer_destroy(w);
}

static void keys_that_are_no_packs_are_not_taken_for_one(void **state)
{
    static const char *const bad[] = {"",
                                      "format",
                                      "p/default/ab/ab",
                                      "p/default/00/" GOLDEN_ID,
                                      "x/default/94/" GOLDEN_ID,
                                      "p/default/94x" GOLDEN_ID,
                                      GOLDEN_ID,
                                      "p/default/94/" GOLDEN_ID "0"};
    struct pl_hash id;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        assert_false(pl_pack_key_parse(bad[i], &id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_a_pack_are_pinned),
        cmocka_unit_test(a_golden_pack_is_read),
        cmocka_unit_test(every_damaged_byte_is_noticed),
        cmocka_unit_test(a_damaged_record_is_not_read),
        cmocka_unit_test(a_pack_that_is_cut_off_or_longer_is_noticed),
        cmocka_unit_test(a_pack_must_be_the_one_that_was_promised),
        cmocka_unit_test(each_bad_record_is_named_and_checking_goes_on),
        cmocka_unit_test(a_forged_footer_cannot_make_us_read_or_inflate_elsewhere),
        cmocka_unit_test(a_bomb_in_a_pack_is_refused),
        cmocka_unit_test(two_threads_notice_what_one_notices),
        cmocka_unit_test(the_kind_of_a_pack_follows_from_its_records),
        cmocka_unit_test(a_pack_takes_a_record_once_and_only_while_it_fits),
        cmocka_unit_test(a_pack_of_very_many_records_is_bounded),
        cmocka_unit_test(what_a_pack_inflates_to_is_bounded),
        cmocka_unit_test(keys_that_are_no_packs_are_not_taken_for_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
