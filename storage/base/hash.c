/* hash: SHA-256, hex, base64, XXH64, random bytes and ids.
 *
 * SHA-256 uses OpenSSL's SHA256_* functions because they work in the caller's memory and therefore cannot
 * fail. The EVP interface allocates a context, and more memory each time a hash starts. OpenSSL deprecates
 * SHA256_* so that programs do not fix one algorithm; here the algorithm is part of the storage format. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "storage/base/hash.h"

#include "storage/base/buf.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <sys/random.h>
#include <xxhash.h>

_Static_assert(sizeof(SHA256_CTX) == sizeof(struct pl_hasher), "the header keeps room for OpenSSL's state");

static SHA256_CTX *sha_of(struct pl_hasher *h)
{
    return (SHA256_CTX *)(void *)h->state;
}

__attribute__((noreturn)) static void hash_abort(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

struct pl_hasher *pl_hasher_init(struct pl_hasher *h)
{
    SHA256_Init(sha_of(h));
    return h;
}

void pl_hasher_add(struct pl_hasher *h, const void *data, size_t n)
{
    if (n > 0)
        SHA256_Update(sha_of(h), data, n);
}

void pl_hash_sha256(const void *data, size_t n, struct pl_hash *ret)
{
    struct pl_hasher h;

    pl_hasher_add(pl_hasher_init(&h), data, n);
    SHA256_Final(ret->b, sha_of(&h));
}

void pl_hasher_add_field(struct pl_hasher *h, const void *data, size_t n)
{
    uint8_t len[8];

    for (size_t i = 0; i < sizeof(len); i++)
        len[i] = (uint8_t)((uint64_t)n >> (8 * i));
    pl_hasher_add(h, len, sizeof(len));
    pl_hasher_add(h, data, n);
}

void pl_hasher_get(struct pl_hasher *h, struct pl_hash *ret)
{
    SHA256_Final(ret->b, sha_of(h));
    pl_hasher_init(h);
}

bool pl_hash_is_zero(const struct pl_hash *h)
{
    static const struct pl_hash zero;

    return pl_hash_eq(h, &zero);
}

char *pl_hash_hex(const struct pl_hash *h, char out[PL_HASH_HEX + 1])
{
    pl_hex_encode(h->b, PL_HASH_BYTES, out);
    return out;
}

int pl_hash_parse(const char *hex, struct pl_hash *ret, struct pl_err *err)
{
    struct pl_hash h;

    if (strlen(hex) != PL_HASH_HEX || !pl_hex_decode(hex, h.b, PL_HASH_BYTES))
        return pl_err_set(err, PL_EINVAL, "\"%.80s\" is not a hash; accepted: %d hex digits", hex, PL_HASH_HEX);
    *ret = h;
    return 0;
}

void pl_hex_encode(const void *data, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool pl_hex_decode(const char *hex, void *out, size_t n)
{
    uint8_t *p = out;

    for (size_t i = 0; i < n; i++) {
        int high = hex_value(hex[2 * i]);
        int low = high < 0 ? -1 : hex_value(hex[2 * i + 1]);

        if (low < 0)
            return false;
        p[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int pl_base64_encode(const void *data, size_t n, char **ret, struct pl_err *err)
{
    const uint8_t *p = data;
    char *out, *o;

    if (n > SIZE_MAX / 2)
        return pl_err_nomem(err);
    out = o = malloc((n + 2) / 3 * 4 + 1);
    if (out == NULL)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i += 3) {
        size_t have = PL_MIN(n - i, (size_t)3);
        uint32_t v = (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (have > 2 ? p[i + 2] : 0);

        *o++ = base64_digits[v >> 18];
        *o++ = base64_digits[v >> 12 & 63];
        *o++ = have > 1 ? base64_digits[v >> 6 & 63] : '=';
        *o++ = have > 2 ? base64_digits[v & 63] : '=';
    }
    *o = '\0';
    *ret = out;
    return 0;
}

static int base64_value(char c)
{
    const char *at = c != '\0' ? strchr(base64_digits, c) : NULL;

    return at != NULL ? (int)(at - base64_digits) : -1;
}

/* Decodes one group of four digits into 1 to 3 bytes; only the last group may end in one or two padding
 * characters. Returns false for any other text. */
static bool base64_group(const char *text, bool last, uint8_t out[3], size_t *ret_n)
{
    size_t pad = text[3] != '=' ? 0 : text[2] != '=' ? 1 : 2;
    uint32_t v = 0;

    if (pad > 0 && !last)
        return false;
    for (size_t i = 0; i < 4; i++) {
        int d = i < 4 - pad ? base64_value(text[i]) : 0;

        if (d < 0)
            return false;
        v = v << 6 | (uint32_t)d;
    }
    if ((v & ((1u << (8 * pad)) - 1)) != 0)
        return false; /* unused bits must be 0, so that each byte string has only one encoding */
    out[0] = (uint8_t)(v >> 16);
    out[1] = (uint8_t)(v >> 8);
    out[2] = (uint8_t)v;
    *ret_n = 3 - pad;
    return true;
}

int pl_base64_decode(const char *text, struct pl_buf *ret, struct pl_err *err)
{
    size_t len = strlen(text), before = ret->len;
    int r = len % 4 == 0 ? 0 : PL_EINVAL;

    for (size_t i = 0; i < len && r == 0; i += 4) {
        uint8_t bytes[3];
        size_t n;

        if (!base64_group(text + i, i + 4 == len, bytes, &n))
            r = PL_EINVAL;
        else
            r = pl_buf_add(ret, bytes, n, err);
    }
    if (r < 0)
        ret->len = before;
    return r == PL_EINVAL ? pl_err_set(err, PL_EINVAL, "the text is not valid base64") : r;
}

uint64_t pl_xxh64(const void *data, size_t n, uint64_t seed)
{
    return XXH64(data, n, seed);
}

void pl_random_bytes(void *out, size_t n)
{
    uint8_t *p = out;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            hash_abort("cannot read random bytes from the kernel");
        p += got;
        n -= (size_t)got;
    }
}

uint64_t pl_splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

bool pl_secret_eq(const void *a, const void *b, size_t n)
{
    return CRYPTO_memcmp(a, b, n) == 0;
}

void pl_id_make(uint64_t wall_ms, char out[PL_ID_HEX + 1])
{
    uint8_t id[PL_ID_HEX / 2];

    pl_random_bytes(id, 10);
    for (size_t i = 0; i < 6; i++)
        id[10 + i] = (uint8_t)(wall_ms >> (8 * (5 - i)));
    pl_hex_encode(id, sizeof(id), out);
}

bool pl_id_ok(const char *s)
{
    size_t n = strspn(s, "0123456789abcdef");

    return n == PL_ID_HEX && s[n] == '\0';
}
