// link: pipelined/s3gateway/formats
/* Any bytes as an aws-chunked body: what comes out does not depend on how they were cut, and what a body gives is framed as it again. The
 * first byte says how long the pieces are. */
#include "pipelined/s3gateway/formats/s3_chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct out {
    struct pl_buf events;
    uint64_t said, came;
};

static int on_begin(void *self, uint64_t size, const char *signature, struct pl_err *err)
{
    struct out *o = self;

    if (o->said != o->came || (*signature && strlen(signature) != PL_S3_CHUNK_SIGNATURE))
        abort();
    o->said += size;
    return pl_buf_addf(&o->events, err, "<%llu%s", (unsigned long long)size, signature);
}

static int on_data(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    struct out *o = self;

    o->came += n;
    return pl_buf_add(&o->events, bytes, n, err);
}

static int on_end(void *self, struct pl_err *err)
{
    struct out *o = self;

    if (o->said != o->came)
        abort();
    return pl_buf_add_str(&o->events, ">", err);
}

static int on_trailer(void *self, const char *name, const char *value, struct pl_err *err)
{
    return pl_buf_addf(&((struct out *)self)->events, err, "{%s=%s}", name, value);
}

static int feed(const uint8_t *data, size_t n, size_t step, struct out *o, bool *ret_done)
{
    const struct pl_s3_chunked_sink sink = {o, on_begin, on_data, on_end, on_trailer};
    struct pl_s3_chunked c;
    int r = 0;

    pl_s3_chunked_init(&c, &sink);
    for (size_t at = 0; at < n && r == 0; at += step)
        r = pl_s3_chunked_feed(&c, data + at, PL_MIN(step, n - at), NULL);
    *ret_done = pl_s3_chunked_done(&c);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct out whole = {0}, pieces = {0};
    bool done, also;
    int r, s;

    if (n < 1)
        return 0;
    r = feed(data + 1, n - 1, n, &whole, &done);
    s = feed(data + 1, n - 1, (size_t)data[0] % 64 + 1, &pieces, &also);
    if (r != s || (r == 0 && done != also))
        abort();
    if (r == 0 && (whole.events.len != pieces.events.len ||
                   (whole.events.len && memcmp(whole.events.data, pieces.events.data, whole.events.len) != 0)))
        abort();
    pl_buf_finish(&whole.events);
    pl_buf_finish(&pieces.events);
    return 0;
}
