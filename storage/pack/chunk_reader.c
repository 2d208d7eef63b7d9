/* Marks the records that `stream` passes on, then reads the others with `get`. */
#include "storage/pack/chunk_reader.h"

#include "storage/pack/pack_format.h"

struct each {
    pl_chunk_take take;
    void *arg;
    uint8_t *taken; /* for each record: 1 if `take` was called for it */
    struct pl_err why;
    int refused; /* the negative result of `take` */
};

static int take_one(void *self, size_t i, const uint8_t *bytes, size_t n, struct pl_err *err)
{
    struct each *e = self;

    if (e->refused < 0 || e->taken[i])
        return e->refused;
    e->taken[i] = 1;
    e->refused = e->take(e->arg, i, bytes, n, &e->why);
    if (e->refused < 0 && err != NULL)
        *err = e->why;
    return e->refused;
}

int pl_chunk_reader_each(const struct pl_chunk_reader *reader, const struct pl_hash *ids, size_t n, pl_chunk_take take, void *arg,
                         struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    _cleanup_free_ uint8_t *taken = calloc(n + 1, 1);
    struct each e = {.take = take, .arg = arg, .taken = taken};
    int r = 0;

    if (taken == NULL)
        return pl_err_nomem(err);
    if (reader->stream != NULL)
        reader->stream(reader->self, ids, n, take_one, &e);
    if (e.refused < 0) {
        if (err != NULL)
            *err = e.why;
        return e.refused;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        if (taken[i])
            continue;
        r = reader->get(reader->self, &ids[i], PL_REC_CHUNK, &bytes, err);
        r = r < 0 ? r : take(arg, i, bytes.data, bytes.len, err);
    }
    return r;
}
