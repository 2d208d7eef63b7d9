/* Encoders and decoders of the parts of a pack, and the keys under which packs are stored. */
#include "storage/pack/pack_format.h"

#include "storage/base/buf.h"
#include "storage/chunk/chunk.h"
#include "storage/chunk/chunk_list.h"
#include "storage/chunk/codec.h"

#include <stdio.h>

#define PACK_VERSION 1u
#define PACK_HASH    1u
#define PACK_CHUNKER 1u

static const uint8_t pack_magic[4] = {'P', 'L', 'P', 'K'};

size_t pl_pack_raw_max(uint8_t kind)
{
    switch (kind) {
    case PL_REC_CHUNK:
        return PL_CHUNK_MAX_BYTES;
    case PL_REC_LIST:
        return PL_LIST_MAX_BYTES;
    case PL_REC_NODE:
    case PL_REC_COMMIT:
        return (size_t)1 << 20;
    case PL_REC_BLOB:
        return (size_t)16 << 20;
    default:
        return 0;
    }
}

static void put_le32(uint8_t *p, uint32_t v)
{
    for (size_t i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

void pl_pack_header_encode(const struct pl_pack_header *h, uint8_t out[PL_PACK_HEADER_BYTES])
{
    size_t len = strlen(h->project);

    memset(out, 0, PL_PACK_HEADER_BYTES);
    memcpy(out, pack_magic, sizeof(pack_magic));
    out[4] = PACK_VERSION;
    out[5] = PACK_HASH;
    out[6] = PACK_CHUNKER;
    out[7] = h->kind;
    memcpy(out + 8, h->nonce, PL_PACK_NONCE_BYTES);
    out[24] = (uint8_t)len;
    memcpy(out + 25, h->project, len);
}

int pl_pack_header_decode(const uint8_t in[PL_PACK_HEADER_BYTES], struct pl_pack_header *ret, struct pl_err *err)
{
    struct pl_pack_header h = {.kind = in[7]};
    size_t len = in[24];

    if (memcmp(in, pack_magic, sizeof(pack_magic)) != 0)
        return pl_err_set(err, PL_ECORRUPT, "not a pack: it does not start with PLPK");
    if (in[4] != PACK_VERSION || in[5] != PACK_HASH || in[6] != PACK_CHUNKER)
        return pl_err_set(err, PL_EFORMAT, "the pack has version %u, hash %u, chunker %u; this program knows %u, %u, %u", in[4],
                          in[5], in[6], PACK_VERSION, PACK_HASH, PACK_CHUNKER);
    if (h.kind < PL_PACK_DATA || h.kind > PL_PACK_MIXED || len > PL_NAME_MAX_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "the pack header is damaged");
    memcpy(h.nonce, in + 8, PL_PACK_NONCE_BYTES);
    memcpy(h.project, in + 25, len);
    if (pl_name_check("project", h.project, NULL) < 0 || strlen(h.project) != len ||
        !all_zero(in + 25 + len, PL_PACK_HEADER_BYTES - 25 - len))
        return pl_err_set(err, PL_ECORRUPT, "the pack header is damaged");
    *ret = h;
    return 0;
}

void pl_pack_record_encode(const struct pl_pack_entry *e, uint8_t out[PL_PACK_RECORD_BYTES])
{
    out[0] = e->kind;
    out[1] = e->codec;
    put_le32(out + 2, e->raw);
    put_le32(out + 6, e->stored);
}

int pl_pack_record_check(const uint8_t in[PL_PACK_RECORD_BYTES], const struct pl_pack_entry *e, struct pl_err *err)
{
    uint8_t want[PL_PACK_RECORD_BYTES];

    pl_pack_record_encode(e, want);
    if (memcmp(in, want, sizeof(want)) != 0)
        return pl_err_set(err, PL_ECORRUPT, "the head of the record at offset %u does not match the index", e->offset);
    return 0;
}

void pl_pack_entry_encode(const struct pl_pack_entry *e, uint8_t out[PL_PACK_ENTRY_BYTES])
{
    memcpy(out, e->id.b, PL_HASH_BYTES);
    put_le32(out + 32, e->offset);
    put_le32(out + 36, e->stored);
    put_le32(out + 40, e->raw);
    out[44] = e->codec;
    out[45] = e->kind;
    out[46] = 0;
    out[47] = 0;
}

int pl_pack_entry_decode(const uint8_t in[PL_PACK_ENTRY_BYTES], struct pl_pack_entry *ret, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(in, PL_PACK_ENTRY_BYTES);
    struct pl_pack_entry e;

    memcpy(e.id.b, pl_cursor_bytes(&c, PL_HASH_BYTES), PL_HASH_BYTES);
    e.offset = pl_cursor_le32(&c);
    e.stored = pl_cursor_le32(&c);
    e.raw = pl_cursor_le32(&c);
    e.codec = pl_cursor_u8(&c);
    e.kind = pl_cursor_u8(&c);
    if (pl_pack_raw_max(e.kind) == 0 || e.codec > PL_CODEC_ZSTD)
        return pl_err_set(err, PL_EFORMAT, "the record has kind %u and codec %u, which this program does not know", e.kind,
                          e.codec);
    if (pl_cursor_le16(&c) != 0 || e.offset < PL_PACK_HEADER_BYTES || e.offset > PL_PACK_MAX_BYTES ||
        e.raw > pl_pack_raw_max(e.kind) || e.stored > e.raw || (e.codec == PL_CODEC_RAW && e.raw != e.stored))
        return pl_err_set(err, PL_ECORRUPT, "an entry in the pack's footer is damaged");
    *ret = e;
    return 0;
}

char *pl_pack_key(const char *project, const struct pl_hash *id, char out[PL_PACK_KEY_BYTES])
{
    char hex[PL_HASH_HEX + 1];

    pl_hash_hex(id, hex);
    (void)snprintf(out, PL_PACK_KEY_BYTES, "p/%.51s/%.2s/%s", project, hex, hex);
    return out;
}

bool pl_pack_key_parse(const char *key, struct pl_hash *ret_id)
{
    size_t len = strlen(key);
    const char *hex = key + len - PL_HASH_HEX;
    struct pl_hash id;

    if (len < PL_HASH_HEX + 6 || strncmp(key, "p/", 2) != 0 || hex[-1] != '/' || hex[-4] != '/' ||
        strncmp(hex - 3, hex, 2) != 0 || pl_hash_parse(hex, &id, NULL) < 0)
        return false;
    *ret_id = id;
    return true;
}
