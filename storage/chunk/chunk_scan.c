/* chunk_scan: computes four rolling hashes in parallel and marks the boundary candidates in a bitmap;
 * pl_chunk_scan_cut then finds the boundaries with bit operations. */
#include "storage/chunk/chunk_scan.h"

#define LANES 4u

static void scan_mark(uint64_t *bits, size_t at)
{
    bits[at / 64] |= UINT64_C(1) << (at % 64);
}

/* Scans with a single hash. Used for the bytes that are left after scan_lanes has scanned four equal
 * parts. */
static void scan_plain(const uint64_t *gear, const uint8_t *data, size_t from, size_t to, uint64_t *bits)
{
    const uint8_t *p = data + from - (PL_CHUNK_WINDOW_BYTES - 1);
    uint64_t h = 0;

    for (size_t i = 0; i < PL_CHUNK_WINDOW_BYTES - 1; i++)
        h = (h << 1) + gear[p[i]];
    for (size_t i = from; i < to; i++) {
        h = (h << 1) + gear[data[i]];
        if (h < PL_CHUNK_LIMIT)
            scan_mark(bits, i);
    }
}

/* Scans four equal parts in parallel. A rolling hash is a long chain of dependent additions; four independent
 * chains keep the CPU busy. */
static void scan_lanes(const uint64_t *gear, const uint8_t *data, size_t lane, uint64_t *bits)
{
    const uint8_t *p[LANES];
    uint64_t h[LANES] = {0};

    for (size_t k = 0; k < LANES; k++) {
        p[k] = data + k * lane;
        for (size_t i = PL_CHUNK_WINDOW_BYTES - 1; i > 0; i--)
            h[k] = (h[k] << 1) + gear[*(p[k] - i)];
    }
    for (size_t i = 0; i < lane; i++) {
        h[0] = (h[0] << 1) + gear[p[0][i]];
        h[1] = (h[1] << 1) + gear[p[1][i]];
        h[2] = (h[2] << 1) + gear[p[2][i]];
        h[3] = (h[3] << 1) + gear[p[3][i]];
        if (__builtin_expect(
                (h[0] < PL_CHUNK_LIMIT) | (h[1] < PL_CHUNK_LIMIT) | (h[2] < PL_CHUNK_LIMIT) | (h[3] < PL_CHUNK_LIMIT), 0)) {
            for (size_t k = 0; k < LANES; k++) {
                if (h[k] < PL_CHUNK_LIMIT)
                    scan_mark(bits, k * lane + i);
            }
        }
    }
}

void pl_chunk_scan(const uint8_t *data, size_t n, uint64_t *ret_bits)
{
    const uint64_t *gear = pl_chunk_table();
    size_t lane = n / LANES;

    memset(ret_bits, 0, PL_CHUNK_SCAN_WORDS(n) * sizeof(*ret_bits));
    if (lane < PL_CHUNK_WINDOW_BYTES)
        lane = 0;
    if (lane > 0)
        scan_lanes(gear, data, lane, ret_bits);
    scan_plain(gear, data, lane * LANES, n, ret_bits);
}

/* Returns the index of the first set bit at or after `from`; `n` if there is none. */
static size_t scan_find(const uint64_t *bits, size_t n, size_t from)
{
    size_t word = from / 64;
    uint64_t w;

    if (from >= n)
        return n;
    w = bits[word] & (UINT64_MAX << (from % 64));
    while (w == 0) {
        if (++word >= PL_CHUNK_SCAN_WORDS(n))
            return n;
        w = bits[word];
    }
    return PL_MIN(n, word * 64 + (size_t)__builtin_ctzll(w));
}

size_t pl_chunk_scan_cut(const uint64_t *bits, size_t n, size_t carry, size_t from)
{
    /* positions in the segment of the first and the last byte at which the chunk may end */
    size_t least = from + (PL_CHUNK_MIN_BYTES > carry + 1 ? PL_CHUNK_MIN_BYTES - 1 - carry : 0);
    size_t most = from + PL_CHUNK_MAX_BYTES - 1 - carry, at = scan_find(bits, n, least);

    if (at <= most && at < n)
        return carry + at - from + 1;
    return most < n ? carry + most - from + 1 : 0;
}
