/* pack_format: the bytes of a pack (docs/format.md "Pack"). All numbers little-endian.
 *
 *   header 80   0 "PLPK"  4 u8 version 1  5 u8 hash id 1 (SHA-256)  6 u8 chunker id 1 (gear64-1)  7 u8 pack kind
 *               8 session nonce 16   24 u8 length of the project's name   25 its bytes, zero-padded to 51   76 zero 4
 *   records     u8 kind  u8 codec  u32 raw size  u32 stored size  stored bytes; one after another from offset 80
 *   footer      0 "PLPF"  4 u32 count  8 u64 XXH64 of all bytes before the footer  16 copy of the header 80
 *               96 count entries of 48, ascending by id: id 32, u32 offset of the record, u32 stored size, u32 raw size, u8
 * codec, u8 kind, zero 2; then count u32: the entries' numbers in order of offset trailer 48  0 "PLPT"  4 u32 count  8 u64 footer
 * offset  16 SHA-256 of the footer
 *
 *   pack id = SHA-256(footer, session nonce); key = p/<project>/<first 2 hex digits>/<64 hex digits>
 *
 * The footer repeats the header, so that the tail alone tells whose pack it is; with the footer's hash, the records' XXH64 and
 * the hash of each record no byte of a pack is unprotected. */
#pragma once

#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_PACK_MAX_BYTES   ((size_t)64 << 20) /* all of it */
#define PL_PACK_MAX_RECORDS 131072u
#define PL_PACK_RAW_BYTES                                                                                                        \
    ((uint64_t)512 << 20) /* of all its records inflated: writers end a pack there, and more is not taken in */
#define PL_PACK_MIXED_BYTES  ((size_t)1 << 20) /* a session's rest below this becomes one mixed pack */
#define PL_PACK_NONCE_BYTES  16
#define PL_PACK_HEADER_BYTES 80u
#define PL_PACK_RECORD_BYTES 10u /* a record's head */
#define PL_PACK_FOOTER_BYTES 96u /* without entries and order */
#define PL_PACK_ENTRY_BYTES  48u
#define PL_PACK_TRAIL_BYTES  48u
#define PL_PACK_KEY_BYTES    128 /* room for a pack's key */
/* Bytes of a pack beside its records' heads and stored bytes. */
#define PL_PACK_OVERHEAD(count)                                                                                                  \
    (PL_PACK_HEADER_BYTES + PL_PACK_FOOTER_BYTES + PL_PACK_TRAIL_BYTES + (size_t)(count) * (PL_PACK_ENTRY_BYTES + 4u))

enum pl_pack_kind { PL_PACK_DATA = 1, PL_PACK_TREE = 2, PL_PACK_MIXED = 3 };

/* What a record holds. Ids are SHA-256 of the raw bytes; all but chunks begin with a magic. */
enum pl_rec_kind { PL_REC_CHUNK = 1, PL_REC_NODE = 2, PL_REC_LIST = 3, PL_REC_COMMIT = 4, PL_REC_BLOB = 5, PL_REC_KINDS };

/* Most raw bytes of a record of a kind; 0 for an unknown kind. */
size_t pl_pack_raw_max(uint8_t kind);

struct pl_pack_header {
    uint8_t kind; /* enum pl_pack_kind */
    uint8_t nonce[PL_PACK_NONCE_BYTES];
    char project[PL_NAME_MAX_BYTES + 1];
};

struct pl_pack_entry {
    struct pl_hash id;
    uint32_t offset; /* of the record's head */
    uint32_t stored;
    uint32_t raw;
    uint8_t codec;
    uint8_t kind;
};

/* Encoders write exactly the sizes above; decoders check everything that can be checked without other bytes: PL_ECORRUPT, or
 * PL_EFORMAT for a version, hash or chunker of the future. */
void pl_pack_header_encode(const struct pl_pack_header *h, uint8_t out[PL_PACK_HEADER_BYTES]);
PL_MUST_CHECK
int pl_pack_header_decode(const uint8_t in[PL_PACK_HEADER_BYTES], struct pl_pack_header *ret, struct pl_err *err);
void pl_pack_record_encode(const struct pl_pack_entry *e, uint8_t out[PL_PACK_RECORD_BYTES]);
/* That the record's head says what the entry says. */
PL_MUST_CHECK
int pl_pack_record_check(const uint8_t in[PL_PACK_RECORD_BYTES], const struct pl_pack_entry *e, struct pl_err *err);
void pl_pack_entry_encode(const struct pl_pack_entry *e, uint8_t out[PL_PACK_ENTRY_BYTES]);
PL_MUST_CHECK
int pl_pack_entry_decode(const uint8_t in[PL_PACK_ENTRY_BYTES], struct pl_pack_entry *ret, struct pl_err *err);

/* "p/<project>/ab/abcd…"; returns `out`. */
char *pl_pack_key(const char *project, const struct pl_hash *id, char out[PL_PACK_KEY_BYTES]);
/* The id that a key of that form names; false for any other key. */
bool pl_pack_key_parse(const char *key, struct pl_hash *ret_id);
