/* CRCs by tables, eight bytes at a time; digests by OpenSSL. */
#include "pipelined/s3gateway/formats/s3_checksum.h"

#include "storage/base/hash.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <strings.h>

static const struct pl_s3_sum_info infos[PL_S3_SUM_KINDS] = {
    [PL_S3_CRC32] = {"CRC32", "x-amz-checksum-crc32", "ChecksumCRC32", 4, true},
    [PL_S3_CRC32C] = {"CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C", 4, true},
    [PL_S3_CRC64NVME] = {"CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", 8, true},
    [PL_S3_SHA1] = {"SHA1", "x-amz-checksum-sha1", "ChecksumSHA1", 20, false},
    [PL_S3_SHA256] = {"SHA256", "x-amz-checksum-sha256", "ChecksumSHA256", 32, false},
    [PL_S3_SHA512] = {"SHA512", "x-amz-checksum-sha512", "ChecksumSHA512", 64, false},
    [PL_S3_MD5] = {"MD5", "x-amz-checksum-md5", "ChecksumMD5", 16, false},
};

const struct pl_s3_sum_info *pl_s3_sum_info(enum pl_s3_sum_kind kind)
{
    return kind > PL_S3_SUM_NONE && kind < PL_S3_SUM_KINDS ? &infos[kind] : NULL;
}

enum pl_s3_sum_kind pl_s3_sum_named(const char *name)
{
    for (int k = 1; k < PL_S3_SUM_KINDS; k++)
        if (strcasecmp(infos[k].name, name) == 0)
            return (enum pl_s3_sum_kind)k;
    return PL_S3_SUM_NONE;
}

enum pl_s3_sum_kind pl_s3_sum_of_header(const char *header)
{
    for (int k = 1; k < PL_S3_SUM_KINDS; k++)
        if (strcasecmp(infos[k].header, header) == 0)
            return (enum pl_s3_sum_kind)k;
    return PL_S3_SUM_NONE;
}

/* ---- CRCs: reflected polynomials, all ones before and after; "slicing by 8" (Kounavis and Berry) ---- */

struct crc {
    uint64_t polynomial;
    unsigned bits;
    uint64_t table[8][256];
};

static struct crc crcs[] = {
    [PL_S3_CRC32] = {.polynomial = 0xEDB88320u, .bits = 32},
    [PL_S3_CRC32C] = {.polynomial = 0x82F63B78u, .bits = 32},
    [PL_S3_CRC64NVME] = {.polynomial = UINT64_C(0x9A6C9329AC4BC9B5), .bits = 64},
};
static pthread_once_t crcs_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (size_t k = PL_S3_CRC32; k <= PL_S3_CRC64NVME; k++) {
        struct crc *c = &crcs[k];

        for (unsigned i = 0; i < 256; i++) {
            uint64_t v = i;

            for (int bit = 0; bit < 8; bit++)
                v = v & 1 ? v >> 1 ^ c->polynomial : v >> 1;
            c->table[0][i] = v;
        }
        for (unsigned t = 1; t < 8; t++)
            for (unsigned i = 0; i < 256; i++)
                c->table[t][i] = c->table[t - 1][i] >> 8 ^ c->table[0][c->table[t - 1][i] & 0xFF];
    }
}

static uint64_t all_ones(const struct crc *c)
{
    return c->bits == 64 ? UINT64_MAX : (UINT64_C(1) << c->bits) - 1;
}

static uint64_t crc_add(const struct crc *c, uint64_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t x;

        memcpy(&x, p, 8);
        x ^= crc; /* the machine is little-endian, as all supported machines are */
        crc = c->table[7][x & 0xFF] ^ c->table[6][x >> 8 & 0xFF] ^ c->table[5][x >> 16 & 0xFF] ^ c->table[4][x >> 24 & 0xFF] ^
              c->table[3][x >> 32 & 0xFF] ^ c->table[2][x >> 40 & 0xFF] ^ c->table[1][x >> 48 & 0xFF] ^ c->table[0][x >> 56];
    }
    for (; n; p++, n--)
        crc = c->table[0][(crc ^ *p) & 0xFF] ^ crc >> 8;
    return crc;
}

/* Returns a · b modulo the polynomial; bit `bits - 1` is the coefficient of x^0. */
static uint64_t multiply(const struct crc *c, uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (uint64_t bit = UINT64_C(1) << (c->bits - 1); bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ c->polynomial : b >> 1;
    }
    return product;
}

/* Returns x^(8 n) modulo the polynomial. */
static uint64_t power(const struct crc *c, uint64_t n)
{
    /* `result` begins as the polynomial 1, `square` as x^8 */
    uint64_t result = UINT64_C(1) << (c->bits - 1), square = UINT64_C(1) << (c->bits - 9);

    for (; n; n >>= 1) {
        if (n & 1)
            result = multiply(c, result, square);
        square = multiply(c, square, square);
    }
    return result;
}

static void write_crc(const struct crc *c, uint64_t crc, uint8_t *out)
{
    for (unsigned i = 0; i < c->bits / 8; i++)
        out[i] = (uint8_t)(crc >> (c->bits - 8 - 8 * i));
}

static uint64_t read_crc(const struct crc *c, const uint8_t *in)
{
    uint64_t crc = 0;

    for (unsigned i = 0; i < c->bits / 8; i++)
        crc = crc << 8 | in[i];
    return crc;
}

void pl_s3_sum_join(enum pl_s3_sum_kind kind, uint8_t a[PL_S3_SUM_MAX_BYTES], const uint8_t b[PL_S3_SUM_MAX_BYTES],
                    uint64_t b_bytes)
{
    const struct crc *c = &crcs[kind];

    write_crc(c, multiply(c, power(c, b_bytes), read_crc(c, a)) ^ read_crc(c, b), a);
}

/* ---- sums ---- */

static bool is_crc(enum pl_s3_sum_kind kind)
{
    return kind >= PL_S3_CRC32 && kind <= PL_S3_CRC64NVME;
}

static const EVP_MD *digest_of(enum pl_s3_sum_kind kind)
{
    switch (kind) {
    case PL_S3_SHA1:
        return EVP_sha1();
    case PL_S3_SHA256:
        return EVP_sha256();
    case PL_S3_SHA512:
        return EVP_sha512();
    default:
        return EVP_md5();
    }
}

int pl_s3_sum_init(struct pl_s3_sum *s, enum pl_s3_sum_kind kind, struct pl_err *err)
{
    *s = (struct pl_s3_sum){.kind = kind};
    if (is_crc(kind)) {
        pthread_once(&crcs_once, make_tables);
        s->crc = all_ones(&crcs[kind]);
    } else if (kind != PL_S3_SUM_NONE) {
        s->md = EVP_MD_CTX_new();
        if (!s->md || EVP_DigestInit_ex(s->md, digest_of(kind), NULL) != 1)
            return pl_err_nomem(err);
    }
    return 0;
}

void pl_s3_sum_finish(struct pl_s3_sum *s)
{
    EVP_MD_CTX_free(s->md);
    s->md = NULL;
}

void pl_s3_sum_add(struct pl_s3_sum *s, const void *data, size_t n)
{
    if (is_crc(s->kind))
        s->crc = crc_add(&crcs[s->kind], s->crc, data, n);
    else if (s->md)
        EVP_DigestUpdate(s->md, data, n);
}

void pl_s3_sum_get(struct pl_s3_sum *s, uint8_t ret[PL_S3_SUM_MAX_BYTES])
{
    memset(ret, 0, PL_S3_SUM_MAX_BYTES);
    if (is_crc(s->kind))
        write_crc(&crcs[s->kind], s->crc ^ all_ones(&crcs[s->kind]), ret);
    else if (s->md)
        EVP_DigestFinal_ex(s->md, ret, NULL);
}

/* ---- base64 ---- */

void pl_s3_sum_text(enum pl_s3_sum_kind kind, const uint8_t bytes[PL_S3_SUM_MAX_BYTES], char ret[PL_S3_SUM_TEXT])
{
    /* the longest sum, 64 bytes, gives 88 digits and a NUL */
    EVP_EncodeBlock((unsigned char *)ret, bytes, (int)infos[kind].bytes);
}

bool pl_s3_sum_parse(enum pl_s3_sum_kind kind, const char *text, uint8_t ret[PL_S3_SUM_MAX_BYTES])
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};

    if (pl_base64_decode(text, &bytes, NULL) < 0 || bytes.len != infos[kind].bytes)
        return false;
    memset(ret, 0, PL_S3_SUM_MAX_BYTES);
    memcpy(ret, bytes.data, bytes.len);
    return true;
}
