/* pack_fixture: packs of made-up records, and what a store must give back of them. */
#pragma once

#include "tests/support/fixtures/store_fixture.h"

#include "storage/chunk/codec.h"
#include "storage/pack/pack_writer.h"
#include "storage/store/store.h"

/* Record i: kinds in turn, sizes of all sorts, every other compressible. */
static uint8_t *record(uint32_t i, uint8_t *ret_kind, size_t *ret_n)
{
    size_t n = 1 + (size_t)i * 977 % 70000;
    uint8_t *bytes = fixture_alloc(n, i);

    if (i % 2 == 0)
        memset(bytes + n / 2, (int)i, n - n / 2);
    *ret_kind = (uint8_t)(1 + i % 5);
    *ret_n = n;
    return bytes;
}

static struct pl_hash record_id(uint32_t i)
{
    struct pl_hash id;
    uint8_t kind;
    size_t n;
    _cleanup_free_ uint8_t *bytes = record(i, &kind, &n);

    pl_hash_sha256(bytes, n, &id);
    return id;
}

/* A sealed pack of records first..first + count. */
static struct pl_pack_writer *make_pack(const char *project, uint32_t first, uint32_t count, const void **bytes, size_t *n,
                                        struct pl_hash *id)
{
    struct pl_pack_writer *w;
    uint8_t nonce[PL_PACK_NONCE_BYTES] = {(uint8_t)first, (uint8_t)count};
    struct pl_err err;

    assert_ok(pl_pack_writer_create(project, nonce, 0, &w, &err), &err);
    for (uint32_t i = first; i < first + count; i++) {
        struct pl_pack_entry e = {0};
        size_t raw_n, stored;
        _cleanup_free_ uint8_t *raw = record(i, &e.kind, &raw_n), *out = malloc(pl_codec_bound(raw_n));

        pl_hash_sha256(raw, raw_n, &e.id);
        e.codec = (uint8_t)pl_codec_encode(raw, raw_n, out, &stored);
        e.raw = (uint32_t)raw_n;
        e.stored = (uint32_t)stored;
        assert_ok(pl_pack_writer_add(w, &e, e.codec == PL_CODEC_RAW ? raw : out, &err), &err);
    }
    assert_ok(pl_pack_writer_seal(w, bytes, n, id, &err), &err);
    return w;
}

static void pack_assert_record(struct pl_store *store, uint32_t i, uint8_t as_kind)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_hash id = record_id(i);
    struct pl_location at;
    uint8_t kind;
    size_t n;
    _cleanup_free_ uint8_t *want = record(i, &kind, &n);
    struct pl_err err;

    assert_true(pl_store_has(store, &id));
    assert_ok(pl_store_locate(store, &id, &at, &err), &err);
    assert_int_equal(at.raw, n);
    assert_int_equal(at.kind, kind);
    for (int twice = 0; twice < 2; twice++) { /* the second may come from the cache */
        assert_ok(pl_store_get(store, &id, as_kind, &b, &err), &err);
        assert_int_equal(b.len, n);
        assert_memory_equal(b.data, want, n);
    }
}
