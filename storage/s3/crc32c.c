/* crc32c: computes the checksum with the CRC32 instruction of SSE 4.2, or with eight lookup tables on
 * processors without it. */
#include "storage/s3/crc32c.h"

#include <pthread.h>

#define POLYNOMIAL 0x82F63B78u /* with reversed bit order */

static uint32_t table[8][256];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ ((c & 1) != 0 ? POLYNOMIAL : 0);
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 255];
}

/* Processes eight bytes per step with eight tables ("slicing by 8"). */
static uint32_t crc_by_table(uint32_t crc, const uint8_t *p, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_table);
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^ table[3][p[4]] ^
              table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n > 0; n--)
        crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = crc;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, sizeof(v));
        c = __builtin_ia32_crc32di(c, v);
    }
    for (; n > 0; n--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

uint32_t pl_crc32c(uint32_t crc, const void *data, size_t n)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_by_instruction(crc, data, n);
#endif
    return ~crc_by_table(crc, data, n);
}

char *pl_crc32c_base64(uint32_t crc, char out[PL_CRC32C_BASE64 + 1])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint64_t bits = (uint64_t)crc << 4; /* 36 bits: six base64 digits */

    for (int i = 0; i < 6; i++)
        out[i] = digits[bits >> (30 - 6 * i) & 63];
    memcpy(out + 6, "==", 3);
    return out;
}
