/* hash: SHA-256 (OpenSSL) as identity, hex, random bytes, and XXH64 for boundaries and tables (never for identity). */
#pragma once

#include "storage/base/err.h"

#define PL_HASH_BYTES 32
#define PL_HASH_HEX   64 /* digits, without the NUL */

struct pl_hash {
    uint8_t b[PL_HASH_BYTES];
};

/* Streaming SHA-256: OpenSSL's state, of which only hash.c knows more. */
struct pl_hasher {
    uint64_t state[14];
};

/* SHA-256 of `n` bytes. Cannot fail and allocates nothing. Any thread. */
void pl_hash_sha256(const void *data, size_t n, struct pl_hash *ret);
/* Begins anew in the caller's memory; returns `h`. None of these can fail, and there is nothing to release. */
struct pl_hasher *pl_hasher_init(struct pl_hasher *h);
void pl_hasher_add(struct pl_hasher *h, const void *data, size_t n);
/* A length (8 bytes LE) and the bytes: fields that follow one another cannot be mistaken for each other. */
void pl_hasher_add_field(struct pl_hasher *h, const void *data, size_t n);
/* Gives the hash and starts anew. */
void pl_hasher_get(struct pl_hasher *h, struct pl_hash *ret);

static inline bool pl_hash_eq(const struct pl_hash *a, const struct pl_hash *b)
{
    return memcmp(a->b, b->b, PL_HASH_BYTES) == 0;
}
bool pl_hash_is_zero(const struct pl_hash *h);
/* 64 lower-case digits and a NUL into `out[65]`; returns `out`. */
char *pl_hash_hex(const struct pl_hash *h, char out[PL_HASH_HEX + 1]);
/* Exactly 64 hex digits (either case). PL_EINVAL. */
PL_MUST_CHECK
int pl_hash_parse(const char *hex, struct pl_hash *ret, struct pl_err *err);

void pl_hex_encode(const void *data, size_t n, char *out /* 2n + 1 */);
/* Exactly 2n hex digits at `hex`; false otherwise. */
bool pl_hex_decode(const char *hex, void *out, size_t n);
/* Standard base64 with padding, for bytes inside JSON. */
PL_MUST_CHECK
int pl_base64_encode(const void *data, size_t n, char **ret, struct pl_err *err);
struct pl_buf;
PL_MUST_CHECK
int pl_base64_decode(const char *text, struct pl_buf *ret, struct pl_err *err);

/* XXH64 with `seed`. */
uint64_t pl_xxh64(const void *data, size_t n, uint64_t seed);
/* From the kernel; aborts when there are none. */
void pl_random_bytes(void *out, size_t n);
/* SplitMix64 (Steele, Lea, Flood 2014): the seeded generator of tables and tests. */
uint64_t pl_splitmix64(uint64_t *state);
/* Equality in constant time, for tokens. */
bool pl_secret_eq(const void *a, const void *b, size_t n);

/* 128-bit ids of runs and commits: 80 random bits then 48 bits of wall ms, as 32 hex digits. */
#define PL_ID_HEX 32
void pl_id_make(uint64_t wall_ms, char out[PL_ID_HEX + 1]);
/* True for exactly 32 lower-case hex digits. */
bool pl_id_ok(const char *s);
