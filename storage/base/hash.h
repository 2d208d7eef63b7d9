/* hash: SHA-256 (OpenSSL) for the identity of data, XXH64 for chunk boundaries and hash tables (never for
 * identity), hex, base64, random bytes and ids. Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_HASH_BYTES 32
#define PL_HASH_HEX   64 /* hex digits, without the NUL */

struct pl_hash {
    uint8_t b[PL_HASH_BYTES];
};

/* Streaming SHA-256. `state` holds OpenSSL's SHA256_CTX, which only hash.c accesses. */
struct pl_hasher {
    uint64_t state[14];
};

/* Computes the SHA-256 of `n` bytes. Cannot fail and allocates nothing. */
void pl_hash_sha256(const void *data, size_t n, struct pl_hash *ret);
/* Starts a hash in the caller's memory and returns `h`. None of the pl_hasher functions can fail, and there
 * is nothing to release. */
struct pl_hasher *pl_hasher_init(struct pl_hasher *h);
void pl_hasher_add(struct pl_hasher *h, const void *data, size_t n);
/* Adds the length (8 bytes, little-endian) and then the bytes, so that different sequences of fields never
 * hash the same bytes. */
void pl_hasher_add_field(struct pl_hasher *h, const void *data, size_t n);
/* Stores the hash of the bytes added so far in `*ret`, and starts a new hash. */
void pl_hasher_get(struct pl_hasher *h, struct pl_hash *ret);

static inline bool pl_hash_eq(const struct pl_hash *a, const struct pl_hash *b)
{
    return memcmp(a->b, b->b, PL_HASH_BYTES) == 0;
}
bool pl_hash_is_zero(const struct pl_hash *h);
/* Writes 64 lower-case hex digits and a NUL; returns `out`. */
char *pl_hash_hex(const struct pl_hash *h, char out[PL_HASH_HEX + 1]);
/* Parses exactly 64 hex digits of either case. PL_EINVAL. */
PL_MUST_CHECK
int pl_hash_parse(const char *hex, struct pl_hash *ret, struct pl_err *err);

void pl_hex_encode(const void *data, size_t n, char *out /* 2n + 1 bytes */);
/* Decodes 2n hex digits at `hex` into `n` bytes. Returns false if there is another character among them; part
 * of `out` may then have been written. */
bool pl_hex_decode(const char *hex, void *out, size_t n);
/* Encodes and decodes standard base64 with padding, for bytes inside JSON. Encoding returns a malloc'ed
 * string that the caller owns. Decoding appends to `ret`; PL_EINVAL if the text is not the canonical encoding
 * of some bytes, and then `ret` is unchanged. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_base64_encode(const void *data, size_t n, char **ret, struct pl_err *err);
struct pl_buf;
PL_MUST_CHECK
int pl_base64_decode(const char *text, struct pl_buf *ret, struct pl_err *err);

/* Returns the XXH64 of `n` bytes with `seed`. */
uint64_t pl_xxh64(const void *data, size_t n, uint64_t seed);
/* Fills `out` with random bytes of the kernel; aborts the process if the kernel provides none. */
void pl_random_bytes(void *out, size_t n);
/* SplitMix64 (Steele, Lea, Flood 2014): a pseudo-random generator for tables and tests. Returns the next
 * number. */
uint64_t pl_splitmix64(uint64_t *state);
/* Compares `n` bytes in constant time, for secrets such as tokens. Returns true if they are equal. */
bool pl_secret_eq(const void *a, const void *b, size_t n);

/* Makes a 128-bit id of a run or a commit: 80 random bits, then 48 bits of wall time in milliseconds, as 32
 * hex digits. */
#define PL_ID_HEX 32
void pl_id_make(uint64_t wall_ms, char out[PL_ID_HEX + 1]);
/* Returns true for exactly 32 lower-case hex digits. */
bool pl_id_ok(const char *s);
