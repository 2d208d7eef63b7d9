/* pack_format: byte layout of a pack (docs/format.md "Pack"). All numbers are little-endian.
 *
 *   header   80 bytes:  0 "PLPK"   4 u8 version 1   5 u8 hash id 1 (SHA-256)   6 u8 chunker id 1 (gear64-1)
 *                       7 u8 pack kind   8 session nonce, 16 bytes   24 u8 length of the project's name
 *                       25 the name, zero-padded to 51 bytes   76 zero, 4 bytes
 *   records, from offset 80, without gaps:
 *                       u8 kind   u8 codec   u32 raw size   u32 stored size   the stored bytes
 *   footer:             0 "PLPF"   4 u32 count   8 u64 XXH64 of all bytes before the footer
 *                       16 copy of the header
 *                       96 `count` entries of 48 bytes, ascending by id: id (32 bytes), u32 offset of the
 *                       record, u32 stored size, u32 raw size, u8 codec, u8 kind, zero (2 bytes)
 *                       then `count` u32: the entries' numbers in order of offset
 *   trailer  48 bytes:  0 "PLPT"   4 u32 count   8 u64 offset of the footer   16 SHA-256 of the footer
 *
 *   pack id = SHA-256(footer, session nonce); key = p/<project>/<first 2 hex digits>/<64 hex digits>
 *
 * The footer repeats the header, so that the end of a pack alone tells its project. The footer's SHA-256,
 * the XXH64 of the records and the SHA-256 of each record together protect every byte of the pack. */
#pragma once

#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_PACK_MAX_BYTES   ((size_t)64 << 20) /* size of a pack, all parts together */
#define PL_PACK_MAX_RECORDS 131072u
#define PL_PACK_RAW_BYTES                                                                                                        \
    ((uint64_t)512 << 20) /* maximum raw size of all records: a writer seals the pack there, a store rejects more */
/* if the records that are left when a builder finishes need fewer bytes than this, they become one mixed
 * pack */
#define PL_PACK_MIXED_BYTES  ((size_t)1 << 20)
#define PL_PACK_NONCE_BYTES  16
#define PL_PACK_HEADER_BYTES 80u
#define PL_PACK_RECORD_BYTES 10u /* size of a record's head, which precedes its stored bytes */
#define PL_PACK_FOOTER_BYTES 96u /* size of the part of the footer before its entries */
#define PL_PACK_ENTRY_BYTES  48u
#define PL_PACK_TRAIL_BYTES  48u
#define PL_PACK_KEY_BYTES    128 /* buffer size for a pack's key */
/* Bytes of a pack that are not records: header, footer and trailer. */
#define PL_PACK_OVERHEAD(count)                                                                                                  \
    (PL_PACK_HEADER_BYTES + PL_PACK_FOOTER_BYTES + PL_PACK_TRAIL_BYTES + (size_t)(count) * (PL_PACK_ENTRY_BYTES + 4u))

enum pl_pack_kind { PL_PACK_DATA = 1, PL_PACK_TREE = 2, PL_PACK_MIXED = 3 };

/* Kinds of records. A record's id is the SHA-256 of its raw bytes. The raw bytes of all kinds except chunks
 * begin with a magic string. */
enum pl_rec_kind { PL_REC_CHUNK = 1, PL_REC_NODE = 2, PL_REC_LIST = 3, PL_REC_COMMIT = 4, PL_REC_BLOB = 5, PL_REC_KINDS };

/* Returns the largest raw size of a record of `kind`, in bytes; 0 for an unknown kind. */
size_t pl_pack_raw_max(uint8_t kind);

struct pl_pack_header {
    uint8_t kind; /* enum pl_pack_kind */
    uint8_t nonce[PL_PACK_NONCE_BYTES];
    char project[PL_NAME_MAX_BYTES + 1];
};

struct pl_pack_entry {
    struct pl_hash id;
    uint32_t offset; /* offset of the record's head in the pack */
    uint32_t stored;
    uint32_t raw;
    uint8_t codec;
    uint8_t kind;
};

/* Encoders write exactly the sizes given above. Decoders check everything that can be checked without other
 * parts of the pack. PL_ECORRUPT; PL_EFORMAT: the version, hash or chunker is not known to this program. */
void pl_pack_header_encode(const struct pl_pack_header *h, uint8_t out[PL_PACK_HEADER_BYTES]);
PL_MUST_CHECK
int pl_pack_header_decode(const uint8_t in[PL_PACK_HEADER_BYTES], struct pl_pack_header *ret, struct pl_err *err);
void pl_pack_record_encode(const struct pl_pack_entry *e, uint8_t out[PL_PACK_RECORD_BYTES]);
/* Checks that a record's head has the kind, codec and sizes of its entry. PL_ECORRUPT. */
PL_MUST_CHECK
int pl_pack_record_check(const uint8_t in[PL_PACK_RECORD_BYTES], const struct pl_pack_entry *e, struct pl_err *err);
void pl_pack_entry_encode(const struct pl_pack_entry *e, uint8_t out[PL_PACK_ENTRY_BYTES]);
PL_MUST_CHECK
int pl_pack_entry_decode(const uint8_t in[PL_PACK_ENTRY_BYTES], struct pl_pack_entry *ret, struct pl_err *err);

/* Writes the key of a pack, "p/<project>/ab/abcd…", and returns `out`. */
char *pl_pack_key(const char *project, const struct pl_hash *id, char out[PL_PACK_KEY_BYTES]);
/* Extracts the pack's id from a key as pl_pack_key writes it; returns false for any other key. */
bool pl_pack_key_parse(const char *key, struct pl_hash *ret_id);
