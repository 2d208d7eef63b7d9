/* codec: decides with cheap statistics whether compression is worthwhile, because compressing random bytes is
 * slow and useless. Each thread keeps one pair of zstd contexts. */
#include "storage/chunk/codec.h"

#include <pthread.h>
#include <zstd.h>

#define CODEC_LEVEL 1
/* smaller data is not compressed, because the zstd frame alone takes about a dozen bytes */
#define CODEC_MIN_BYTES 64u
/* smaller data is not tested for randomness, because the statistics would be meaningless */
#define CODEC_LOOK_FROM    ((size_t)512)
#define CODEC_LOOK_BYTES   ((size_t)1 << 10)
#define CODEC_PROBE_FROM   ((size_t)16 << 10)
#define CODEC_PROBE_BYTES  ((size_t)2 << 10) /* bytes taken from each of three places of the data */
#define CODEC_PROBE_PLACES 3u

/* One pair of contexts per thread, because creating one costs more than compressing 4 KiB. */
struct codec_thread {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *inflate;
};

static pthread_once_t codec_once = PTHREAD_ONCE_INIT;
static pthread_key_t codec_key;
static bool codec_key_made;

static void codec_free(void *arg)
{
    struct codec_thread *t = arg;

    ZSTD_freeCCtx(t->compress);
    ZSTD_freeDCtx(t->inflate);
    free(t);
}

static void codec_make_key(void)
{
    codec_key_made = pthread_key_create(&codec_key, codec_free) == 0;
}

/* Returns the contexts of this thread; NULL without memory. */
static struct codec_thread *codec_here(void)
{
    static __thread struct codec_thread *here;
    struct codec_thread *t;

    if (here != NULL)
        return here;
    pthread_once(&codec_once, codec_make_key);
    t = codec_key_made ? calloc(1, sizeof(*t)) : NULL;
    if (t != NULL && pthread_setspecific(codec_key, t) != 0) {
        free(t);
        t = NULL;
    }
    here = t;
    return t;
}

static ZSTD_CCtx *codec_compressor(void)
{
    struct codec_thread *t = codec_here();

    if (t == NULL)
        return NULL;
    if (t->compress == NULL)
        t->compress = ZSTD_createCCtx();
    return t->compress;
}

static ZSTD_DCtx *codec_inflater(void)
{
    struct codec_thread *t = codec_here();

    if (t == NULL)
        return NULL;
    if (t->inflate == NULL)
        t->inflate = ZSTD_createDCtx();
    return t->inflate;
}

size_t pl_codec_bound(size_t n)
{
    return ZSTD_compressBound(n);
}

/* Returns true if the result is at least 6 % smaller. */
static bool codec_gains(size_t raw, size_t stored)
{
    return stored <= raw - raw / 50 * 3 - raw % 50 * 3 / 50;
}

/* Returns true if `n` (512 to 1,024) bytes look random: bytes are as frequent as in random data, and no
 * four-byte sequence was found twice. The test takes a microsecond, a tenth of the time that zstd would need.
 * No branch depends on the data, because half of such branches would be mispredicted. */
static bool codec_noise(const uint8_t *p, size_t n)
{
    uint16_t counts[256] = {0};
    uint32_t words[512] = {0}; /* hash table: the last four-byte word with each hash */
    uint64_t squares = 0;
    unsigned repeats = 0;

    for (size_t i = 0; i + 4 <= n; i++) {
        uint32_t word, h;

        counts[p[i]]++;
        memcpy(&word, p + i, sizeof(word));
        h = word * 2654435761u >> 23;
        repeats += words[h] == word;
        words[h] = word;
    }
    n -= 3;
    for (size_t i = 0; i < PL_ARRAY_SIZE(counts); i++)
        squares += (uint64_t)counts[i] * counts[i];
    /* random data has squares = n + n²/256; an eighth more is five standard deviations */
    return repeats == 0 && (squares - n) * 256 * 8 < (uint64_t)n * n * 9;
}

/* Compresses the beginning, the middle and the end of a large piece together, and returns true if this saves
 * 2 %. If they cannot be compressed, the whole piece is assumed to be incompressible. */
static bool codec_sample(ZSTD_CCtx *ctx, const uint8_t *p, size_t n, void *out, size_t room)
{
    uint8_t sample[CODEC_PROBE_PLACES * CODEC_PROBE_BYTES];
    size_t size;

    memcpy(sample, p, CODEC_PROBE_BYTES);
    memcpy(sample + CODEC_PROBE_BYTES, p + n / 2, CODEC_PROBE_BYTES);
    memcpy(sample + 2 * CODEC_PROBE_BYTES, p + n - CODEC_PROBE_BYTES, CODEC_PROBE_BYTES);
    size = ZSTD_compressCCtx(ctx, out, room, sample, sizeof(sample), CODEC_LEVEL);
    return !ZSTD_isError(size) && size < sizeof(sample) - sizeof(sample) / 50;
}

/* Returns true if the data is worth compressing; the test depends on its size. */
static bool codec_promises(ZSTD_CCtx *ctx, const uint8_t *p, size_t n, void *out, size_t room)
{
    size_t look = PL_MIN(n, CODEC_LOOK_BYTES);

    if (n < CODEC_LOOK_FROM)
        return true;
    if (n < CODEC_PROBE_FROM)
        return !codec_noise(p + (n - look) / 2, look);
    if (codec_noise(p, look) && codec_noise(p + n / 2, look) && codec_noise(p + n - look, look))
        return false;
    return codec_sample(ctx, p, n, out, room);
}

enum pl_codec pl_codec_encode(const void *data, size_t n, void *out, size_t *ret_size)
{
    ZSTD_CCtx *ctx = n < CODEC_MIN_BYTES ? NULL : codec_compressor();
    size_t room = pl_codec_bound(n), size;

    *ret_size = n;
    if (ctx == NULL || !codec_promises(ctx, data, n, out, room))
        return PL_CODEC_RAW;
    size = ZSTD_compressCCtx(ctx, out, room, data, n, CODEC_LEVEL);
    if (ZSTD_isError(size) || !codec_gains(n, size))
        return PL_CODEC_RAW;
    *ret_size = size;
    return PL_CODEC_ZSTD;
}

int pl_codec_decode(uint8_t codec, const void *stored, size_t stored_size, void *out, size_t raw_size, struct pl_err *err)
{
    ZSTD_DCtx *ctx;
    size_t size;

    switch (codec) {
    case PL_CODEC_RAW:
        if (stored_size != raw_size)
            return pl_err_set(err, PL_ECORRUPT, "%zu bytes are stored for %zu uncompressed ones", stored_size, raw_size);
        if (raw_size > 0)
            memmove(out, stored, raw_size);
        return 0;
    case PL_CODEC_ZSTD:
        ctx = codec_inflater();
        if (ctx == NULL)
            return pl_err_nomem(err);
        /* zstd never writes more than raw_size bytes to `out` */
        size = ZSTD_decompressDCtx(ctx, out, raw_size, stored, stored_size);
        if (ZSTD_isError(size))
            return pl_err_set(err, PL_ECORRUPT, "zstd: %s", ZSTD_getErrorName(size));
        if (size != raw_size)
            return pl_err_set(err, PL_ECORRUPT, "zstd returned %zu bytes instead of %zu", size, raw_size);
        return 0;
    default:
        return pl_err_set(err, PL_EFORMAT, "codec %u is unknown", codec);
    }
}
