/* chunk: the gear rolling hash and the rules that choose chunk boundaries among the candidates that the hash
 * yields. */
#include "storage/chunk/chunk.h"

#include "storage/base/hash.h"

#include <pthread.h>

static uint64_t chunk_gear[256];
static pthread_once_t chunk_once = PTHREAD_ONCE_INIT;

static void chunk_draw_table(void)
{
    uint64_t state = PL_CHUNK_SEED;

    for (size_t i = 0; i < PL_ARRAY_SIZE(chunk_gear); i++)
        chunk_gear[i] = pl_splitmix64(&state);
}

const uint64_t *pl_chunk_table(void)
{
    pthread_once(&chunk_once, chunk_draw_table);
    return chunk_gear;
}

/* Updates *h with up to `n` bytes. Stops after the first byte at which *h is below PL_CHUNK_LIMIT. Returns
 * the number of bytes up to and including that byte, or 0 if there is none. One shift and one addition per
 * byte suffice for the sum of 64 shifted terms, because a term older than 64 bytes has been shifted out of
 * the word. */
static size_t chunk_scan(const uint64_t *gear, const uint8_t *p, size_t n, uint64_t *h)
{
    uint64_t v = *h;
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        uint64_t a = (v << 1) + gear[p[i]];
        uint64_t b = (a << 1) + gear[p[i + 1]];
        uint64_t c = (b << 1) + gear[p[i + 2]];

        v = (c << 1) + gear[p[i + 3]];
        if (a < PL_CHUNK_LIMIT || b < PL_CHUNK_LIMIT || c < PL_CHUNK_LIMIT || v < PL_CHUNK_LIMIT) {
            size_t at = a < PL_CHUNK_LIMIT ? 1 : b < PL_CHUNK_LIMIT ? 2 : c < PL_CHUNK_LIMIT ? 3 : 4;

            *h = at == 1 ? a : at == 2 ? b : at == 3 ? c : v;
            return i + at;
        }
    }
    for (; i < n; i++) {
        v = (v << 1) + gear[p[i]];
        if (v < PL_CHUNK_LIMIT) {
            *h = v;
            return i + 1;
        }
    }
    *h = v;
    return 0;
}

/* Updates the hash without comparing it with the limit, for bytes before the first possible cut. */
static uint64_t chunk_roll(const uint64_t *gear, const uint8_t *p, size_t n, uint64_t h)
{
    for (size_t i = 0; i < n; i++)
        h = (h << 1) + gear[p[i]];
    return h;
}

size_t pl_chunk_next(const void *data, size_t n, bool first)
{
    const uint64_t *gear = pl_chunk_table();
    const uint8_t *p = data;
    size_t from = PL_CHUNK_MIN_BYTES - PL_CHUNK_WINDOW_BYTES, end = PL_MIN(n, PL_CHUNK_MAX_BYTES), at;
    uint64_t h;

    if (n <= PL_CHUNK_MIN_BYTES || (first && n <= PL_CHUNK_WHOLE_BYTES))
        return n;
    h = chunk_roll(gear, p + from, PL_CHUNK_WINDOW_BYTES - 1, 0);
    from += PL_CHUNK_WINDOW_BYTES - 1;
    at = chunk_scan(gear, p + from, end - from, &h);
    return at > 0 ? from + at : end;
}

void pl_chunker_init(struct pl_chunker *c)
{
    *c = (struct pl_chunker){0};
}

/* Scans bytes of the current chunk, which began at the last cut. Returns the number of bytes scanned.
 * `*ret_cut` is the length of the chunk if it ends at the last of them, else 0. */
static size_t chunker_scan(struct pl_chunker *c, const uint8_t *p, size_t n, size_t *ret_cut)
{
    const size_t roll = PL_CHUNK_MIN_BYTES - PL_CHUNK_WINDOW_BYTES, test = PL_CHUNK_MIN_BYTES - 1;
    const uint64_t *gear = pl_chunk_table();
    size_t used = 0, at;

    *ret_cut = 0;
    if (c->length < roll)
        used = PL_MIN(n, roll - c->length);
    if (c->length + used >= roll && c->length + used < test) {
        size_t more = PL_MIN(n - used, test - c->length - used);

        c->hash = chunk_roll(gear, p + used, more, c->length + used == roll ? 0 : c->hash);
        used += more;
    }
    if (c->length + used >= test) {
        size_t most = PL_MIN(n - used, PL_CHUNK_MAX_BYTES - c->length - used);

        at = chunk_scan(gear, p + used, most, &c->hash);
        used += at > 0 ? at : most;
        if (at > 0 || c->length + used == PL_CHUNK_MAX_BYTES)
            *ret_cut = c->length + used;
    }
    c->length = *ret_cut > 0 ? 0 : c->length + used;
    c->fed += used;
    return used;
}

/* Cuts within the first 64 KiB of a file are not reported until the file is known to be longer, because a
 * file of at most that size is a single chunk. */
size_t pl_chunker_feed(struct pl_chunker *c, const void *data, size_t n, size_t *ret_cut)
{
    size_t cut, used;

    *ret_cut = 0;
    if (n == 0)
        return 0;
    if (c->fed > PL_CHUNK_WHOLE_BYTES && c->held_count > 0) {
        *ret_cut = c->held[0];
        c->held[0] = c->held[1];
        c->held_count--;
        return 0;
    }
    /* stop at the first byte beyond PL_CHUNK_WHOLE_BYTES, which shows that the file is longer */
    if (c->fed <= PL_CHUNK_WHOLE_BYTES)
        n = PL_MIN(n, PL_CHUNK_WHOLE_BYTES + 1 - (size_t)c->fed);
    used = chunker_scan(c, data, n, &cut);
    if (cut > 0 && (c->fed <= PL_CHUNK_WHOLE_BYTES || c->held_count > 0))
        /* at most two cuts are held back, because two chunks of the minimum size already fill 64 KiB */
        c->held[c->held_count++] = cut;
    else
        *ret_cut = cut;
    return used;
}

size_t pl_chunker_end(struct pl_chunker *c)
{
    size_t cut;

    if (c->fed <= PL_CHUNK_WHOLE_BYTES) {
        cut = (size_t)c->fed;
        pl_chunker_init(c);
        return cut;
    }
    if (c->held_count > 0) {
        cut = c->held[0];
        c->held[0] = c->held[1];
        c->held_count--;
        return cut;
    }
    cut = c->length;
    c->length = 0;
    return cut;
}
