/* Parses the records of a range as its bytes arrive. Records whose bytes arrive in one piece are passed on from
 * there; others are put together first. */
#include "pipelined/net/remote/remote_stream.h"

#include "storage/pack/pack_reader.h"

#define REQUESTS_MAX 8u /* most requests for one range: more than that break off only at a server that is out of order */

/* The records of one range, and how far it has been read. */
struct stream {
    const struct pl_remote_wanted *list; /* sorted by offset */
    size_t n, next;                      /* `next`: the first one that was not passed on */
    uint64_t at;                         /* offset in the pack of the next byte */
    struct pl_buf partial;               /* the first bytes of the next record */
    struct pl_buf scratch;
    pl_chunk_take take;
    void *arg;
    int refused; /* the negative result of `take` */
};

static int wanted_cmp(const void *a, const void *b)
{
    return pl_remote_location_cmp(&((const struct pl_remote_wanted *)a)->where, &((const struct pl_remote_wanted *)b)->where);
}

/* Passes on the next record, to all who want it. */
static int pass_on(struct stream *s, const uint8_t *record, struct pl_err *err)
{
    const struct pl_remote_wanted *w = &s->list[s->next];
    const struct pl_location *at = &w->where;
    const struct pl_pack_entry entry = {w->id, at->offset, at->stored, at->raw, at->codec, at->kind};
    const uint8_t *raw;
    int r = pl_pack_record_view(record, &entry, &s->scratch, &raw, err);

    if (r < 0)
        return r;
    for (; r == 0 && s->next < s->n && s->list[s->next].where.offset == at->offset; s->next++)
        r = s->take(s->arg, s->list[s->next].i, raw, entry.raw, err);
    s->refused = PL_MIN(r, 0);
    return r;
}

/* Consumes some of the bytes and returns their number, or a negative code. */
static ssize_t consume(struct stream *s, const uint8_t *bytes, size_t n, struct pl_err *err)
{
    const struct pl_location *where = &s->list[s->next].where;
    const size_t size = PL_PACK_RECORD_BYTES + (size_t)where->stored;
    size_t step;
    int r = 0;

    if (s->at < where->offset) /* bytes between two records */
        return (ssize_t)PL_MIN((uint64_t)n, where->offset - s->at);
    if (s->partial.len == 0 && n >= size) {
        r = pass_on(s, bytes, err);
        return r < 0 ? r : (ssize_t)size;
    }
    step = PL_MIN(n, size - s->partial.len);
    r = pl_buf_add(&s->partial, bytes, step, err);
    if (r == 0 && s->partial.len == size) {
        r = pass_on(s, s->partial.data, err);
        pl_buf_clear(&s->partial);
    }
    return r < 0 ? r : (ssize_t)step;
}

static int receive(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct stream *s = self;
    const uint8_t *bytes = data;

    while (n > 0 && s->next < s->n) {
        const ssize_t step = consume(s, bytes, n, err);

        if (step < 0)
            return (int)step;
        s->at += (size_t)step;
        bytes += step;
        n -= (size_t)step;
    }
    return 0;
}

/* True for results after which further requests would fail, too, perhaps after a long time. */
static bool is_lost(int r)
{
    return r == PL_ENET || r == PL_ETIMEOUT || r == PL_ECANCELED;
}

/* Reads the records of one range. A request that brought records and then broke off is followed by one for the rest.
 * Returns false if the other ranges should not be requested. */
static bool read_range(const struct pl_remote_stream_source *source, const struct pl_remote_range *range, struct stream *s)
{
    size_t before;
    int r = 0;

    for (unsigned tries = 0; tries < REQUESTS_MAX && r != PL_ECANCELED; tries++) {
        const struct pl_remote_range rest = {range->pack, s->list[s->next].where.offset, range->end};

        before = s->next;
        s->at = rest.start;
        pl_buf_clear(&s->partial);
        r = source->fetch(source->self, &rest, receive, s);
        if (s->refused < 0 || s->next == s->n || s->next == before)
            break;
    }
    return s->refused == 0 && (s->next == s->n || !is_lost(r));
}

void pl_remote_stream_read(const struct pl_remote_stream_source *source, struct pl_remote_wanted *list, size_t n,
                           pl_chunk_take take, void *arg)
{
    _cleanup_free_ struct pl_location *where = reallocarray(NULL, n + 1, sizeof(*where));
    _cleanup_free_ struct pl_remote_range *ranges = reallocarray(NULL, n + 1, sizeof(*ranges));
    struct stream s = {.take = take, .arg = arg};
    size_t n_ranges, done = 0;
    bool go_on = true;

    if (where == NULL || ranges == NULL)
        return;
    qsort(list, n, sizeof(*list), wanted_cmp);
    for (size_t i = 0; i < n; i++)
        where[i] = list[i].where;
    n_ranges = pl_remote_coalesce(where, n, PL_PACK_MAX_BYTES, ranges);
    if (source->plan != NULL)
        source->plan(source->self, ranges, n_ranges);
    for (size_t i = 0; i < n_ranges && go_on; i++) {
        s.list = list + done;
        s.next = s.n = 0;
        while (done < n && pl_hash_eq(&list[done].where.pack, &ranges[i].pack) && list[done].where.offset < ranges[i].end) {
            done++;
            s.n++;
        }
        go_on = s.n == 0 || read_range(source, &ranges[i], &s);
    }
    pl_buf_finish(&s.partial);
    pl_buf_finish(&s.scratch);
}
