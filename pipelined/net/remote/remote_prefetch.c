/* Keeps all ranges in one sorted array and the planned ones in a queue, from which threads load them. One
 * mutex guards everything. */
#include "pipelined/net/remote/remote_prefetch.h"

#include "storage/base/clock.h"
#include "storage/pack/pack_reader.h"
#include "storage/system/timed_cond.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define ELSEWHERE    1 /* the record is not in a loaded range: the caller reads it another way */
#define LOOK_AGAIN_S 1 /* interval of checks for stale ranges */
#define SPARES       8
#define SPARE_BYTES                                                                                                              \
    ((size_t)1 << 20) /* buffers of at least this size are reused: page faults of a new buffer take longer than filling it */

enum range_state { RANGE_PLANNED, RANGE_LOADING, RANGE_READY, RANGE_FAILED };

struct range {
    struct pl_remote_range at;
    enum range_state state;
    struct range *next; /* next range in the queue of planned ranges, which is in the order of reading */
    uint64_t number;    /* the range's position in the order of reading */
    unsigned users;
    int64_t touched_ms;
    struct pl_buf bytes;
    size_t n, left;    /* number of records in the range, and how many of them have not been read */
    uint32_t *offsets; /* offsets of these records in the pack, ascending */
    uint8_t *read;     /* for each of these records: 1 if it has been read */
};

struct pl_remote_ahead {
    pl_pack_read_window_fetch fetch;
    void *self;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct range **ranges; /* sorted by pack and start, not overlapping */
    size_t n, cap;
    struct range *first, *last; /* queue of planned ranges, in the order of reading */
    size_t n_planned;
    uint64_t held; /* total size of the ranges that are loading or ready, in bytes */
    /* buffers kept for reuse while threads run; counted, together with `held`, against the limit of memory */
    struct pl_buf spares[SPARES];
    size_t n_spares;
    uint64_t spare_bytes;
    /* number that the next new range gets; highest number among the ranges that were read so far */
    uint64_t next_number, read_number;
    int64_t read_ms; /* time of the last read, or of the last plan */
    int64_t stale_ms;
    unsigned threads;
    bool ending;
};

/* --- ranges --- */

int pl_remote_location_cmp(const void *a, const void *b)
{
    const struct pl_location *x = a, *y = b;
    int c = memcmp(x->pack.b, y->pack.b, PL_HASH_BYTES);

    return c != 0 ? c : (x->offset > y->offset) - (x->offset < y->offset);
}

static uint64_t location_end(const struct pl_location *where)
{
    return where->offset + PL_PACK_RECORD_BYTES + (uint64_t)where->stored;
}

/* True if the record can be added to the range without making it too large or skipping too many bytes. */
static bool joins(const struct pl_remote_range *r, const struct pl_location *where, uint64_t most)
{
    return pl_hash_eq(&r->pack, &where->pack) && where->offset <= r->end + PL_REMOTE_PREFETCH_GAP &&
           location_end(where) - r->start <= most;
}

size_t pl_remote_coalesce(const struct pl_location *where, size_t n, uint64_t most, struct pl_remote_range *out)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        if (m > 0 && joins(&out[m - 1], &where[i], most))
            out[m - 1].end = PL_MAX(out[m - 1].end, location_end(&where[i]));
        else
            out[m++] = (struct pl_remote_range){where[i].pack, where[i].offset, location_end(&where[i])};
    }
    return m;
}

static struct range *range_free(struct range *r)
{
    if (r == NULL)
        return NULL;
    pl_buf_finish(&r->bytes);
    free(r->offsets);
    free(r->read);
    free(r);
    return NULL;
}

/* Creates a range with these records, which are sorted and lie within it. */
static struct range *range_make(const struct pl_remote_range *at, const struct pl_location *where, size_t n)
{
    struct range *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->at = *at;
    r->offsets = calloc(n, sizeof(*r->offsets));
    r->read = calloc(n, 1);
    if (r->offsets == NULL || r->read == NULL)
        return range_free(r);
    for (size_t i = 0; i < n; i++)
        if (r->n == 0 || where[i].offset != r->offsets[r->n - 1])
            r->offsets[r->n++] = where[i].offset;
    r->left = r->n;
    return r;
}

/* Returns the index after the last range that starts at or before `at`. The caller holds the lock, as for all
 * functions up to the section "fetching". */
static size_t place_of(const struct pl_remote_ahead *a, const struct pl_hash *pack, uint64_t at)
{
    size_t lo = 0, hi = a->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct pl_remote_range *r = &a->ranges[mid]->at;
        int c = memcmp(r->pack.b, pack->b, PL_HASH_BYTES);

        if (c < 0 || (c == 0 && r->start <= at))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct range *range_find(const struct pl_remote_ahead *a, const struct pl_hash *pack, uint64_t start, uint64_t end)
{
    size_t place = place_of(a, pack, start);
    struct range *r = place > 0 ? a->ranges[place - 1] : NULL;

    return r != NULL && pl_hash_eq(&r->at.pack, pack) && end <= r->at.end ? r : NULL;
}

/* True if a range of the pack overlaps these bytes. */
static bool is_taken(const struct pl_remote_ahead *a, const struct pl_remote_range *at)
{
    size_t place = place_of(a, &at->pack, at->end - 1);

    return place > 0 && pl_hash_eq(&a->ranges[place - 1]->at.pack, &at->pack) && a->ranges[place - 1]->at.end > at->start;
}

static bool range_insert(struct pl_remote_ahead *a, struct range *r)
{
    size_t place;

    if (a->n == a->cap) {
        size_t cap = a->cap != 0 ? 2 * a->cap : 64;
        struct range **more = reallocarray(a->ranges, cap, sizeof(struct range *));

        if (more == NULL)
            return false;
        a->ranges = more;
        a->cap = cap;
    }
    place = place_of(a, &r->at.pack, r->at.start);
    memmove(a->ranges + place + 1, a->ranges + place, (a->n - place) * sizeof(struct range *));
    a->ranges[place] = r;
    a->n++;
    return true;
}

static void spares_drop(struct pl_remote_ahead *a, uint64_t most)
{
    while (a->n_spares > 0 && a->spare_bytes > most) {
        struct pl_buf *b = &a->spares[--a->n_spares];

        a->spare_bytes -= b->cap;
        pl_buf_finish(b);
    }
}

static void spare_keep(struct pl_remote_ahead *a, struct range *r)
{
    if (a->threads == 0 || a->n_spares == SPARES || r->bytes.cap < SPARE_BYTES ||
        a->held + a->spare_bytes + r->bytes.cap > PL_REMOTE_PREFETCH_BYTES)
        return;
    a->spare_bytes += r->bytes.cap;
    pl_buf_clear(&r->bytes);
    a->spares[a->n_spares++] = r->bytes;
    r->bytes = (struct pl_buf){0};
}

static void spare_take(struct pl_remote_ahead *a, struct range *r)
{
    const uint64_t size = r->at.end - r->at.start;

    if (size >= SPARE_BYTES && a->n_spares > 0) {
        r->bytes = a->spares[--a->n_spares];
        a->spare_bytes -= r->bytes.cap;
    }
    spares_drop(a, a->held + size < PL_REMOTE_PREFETCH_BYTES ? PL_REMOTE_PREFETCH_BYTES - a->held - size : 0);
}

/* Removes and frees a range. The range must not be in the queue of planned ranges, and no thread may use
 * it. */
static void range_drop(struct pl_remote_ahead *a, struct range *r)
{
    size_t place = place_of(a, &r->at.pack, r->at.start) - 1;

    memmove(a->ranges + place, a->ranges + place + 1, (a->n - place - 1) * sizeof(struct range *));
    a->n--;
    a->held -= r->at.end - r->at.start;
    spare_keep(a, r);
    range_free(r);
    pthread_cond_broadcast(&a->changed);
}

static void range_release(struct pl_remote_ahead *a, struct range *r)
{
    r->touched_ms = pl_clock_mono_ms();
    if (--r->users == 0 && (r->left == 0 || r->state == RANGE_FAILED))
        range_drop(a, r);
}

static void queue_add(struct pl_remote_ahead *a, struct range *r)
{
    if (a->first != NULL)
        a->last->next = r;
    else
        a->first = r;
    a->last = r;
    a->n_planned++;
    r->number = a->next_number++;
}

static void queue_remove(struct pl_remote_ahead *a, struct range *r)
{
    struct range *before = NULL;

    for (struct range *q = a->first; q != r; q = q->next)
        before = q;
    if (before != NULL)
        before->next = r->next;
    else
        a->first = r->next;
    if (a->last == r)
        a->last = before;
    r->next = NULL;
    a->n_planned--;
}

/* --- fetching --- */

/* Fetches all bytes of the range, if necessary in several pieces. */
static int fetch_all(const struct pl_remote_ahead *a, struct range *r)
{
    _cleanup_(pl_buf_finish) struct pl_buf rest = {0};
    const size_t size = (size_t)(r->at.end - r->at.start);
    int e;

    r->bytes.max = size;
    e = pl_buf_reserve(&r->bytes, size, NULL);
    if (e == 0)
        e = a->fetch(a->self, &r->at.pack, r->at.start, r->at.end, &r->bytes, NULL);
    while (e == 0 && r->bytes.len < size) {
        pl_buf_clear(&rest);
        rest.max = size - r->bytes.len;
        e = a->fetch(a->self, &r->at.pack, r->at.start + r->bytes.len, r->at.end, &rest, NULL);
        if (e == 0 && rest.len == 0)
            e = PL_ECORRUPT;
        if (e == 0)
            e = pl_buf_add(&r->bytes, rest.data, rest.len, NULL);
    }
    return e;
}

/* Loads a planned range. Releases the lock while it loads. The caller must call range_release afterwards. */
static void range_load(struct pl_remote_ahead *a, struct range *r)
{
    int e;

    queue_remove(a, r);
    r->state = RANGE_LOADING;
    r->users++;
    spare_take(a, r);
    a->held += r->at.end - r->at.start;
    pthread_mutex_unlock(&a->lock);
    e = fetch_all(a, r);
    pthread_mutex_lock(&a->lock);
    r->state = e == 0 ? RANGE_READY : RANGE_FAILED;
    pthread_cond_broadcast(&a->changed);
}

/* True if no reader seems to need the range any more: readers have continued with later ranges, or nothing
 * has been read for some time. */
static bool is_stale(const struct pl_remote_ahead *a, const struct range *r)
{
    const int64_t before_ms = pl_clock_mono_ms() - a->stale_ms;

    return r->state == RANGE_READY && r->users == 0 && r->touched_ms <= before_ms &&
           (r->number < a->read_number || a->read_ms <= before_ms);
}

static bool drop_stale(struct pl_remote_ahead *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (is_stale(a, a->ranges[i])) {
            range_drop(a, a->ranges[i]);
            return true;
        }
    return false;
}

static bool has_room(const struct pl_remote_ahead *a, const struct range *r)
{
    return a->held == 0 || a->held + (r->at.end - r->at.start) <= PL_REMOTE_PREFETCH_BYTES;
}

static void wait_for_room(struct pl_remote_ahead *a)
{
    pl_timed_cond_wait(&a->changed, &a->lock, LOOK_AGAIN_S * INT64_C(1000));
}

/* A thread that loads planned ranges in order while there is memory for them. */
static void *fetch_ahead(void *arg)
{
    struct pl_remote_ahead *a = arg;

    pthread_mutex_lock(&a->lock);
    while (a->first != NULL && !a->ending) {
        struct range *r = a->first;

        if (has_room(a, r)) {
            range_load(a, r);
            range_release(a, r);
        } else if (!drop_stale(a)) {
            wait_for_room(a);
        }
    }
    if (--a->threads == 0)
        spares_drop(a, 0);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Starts threads. Signals are blocked in them, because the program's other threads handle signals. If no
 * thread can be started, the readers load the ranges themselves. */
static void start_threads(struct pl_remote_ahead *a, unsigned threads)
{
    sigset_t all, old;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (a->threads < PL_MIN((size_t)threads, a->n_planned) && pthread_create(&thread, NULL, fetch_ahead, a) == 0) {
        (void)pthread_detach(thread);
        a->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* --- life --- */

struct pl_remote_ahead *pl_remote_prefetch_create(pl_pack_read_window_fetch fetch, void *self)
{
    struct pl_remote_ahead *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->fetch = fetch;
    a->self = self;
    a->stale_ms = PL_REMOTE_PREFETCH_STALE_MS;
    pthread_mutex_init(&a->lock, NULL);
    pl_timed_cond_init(&a->changed);
    return a;
}

void pl_remote_prefetch_set_stale(struct pl_remote_ahead *a, int64_t stale_ms)
{
    pthread_mutex_lock(&a->lock);
    a->stale_ms = stale_ms;
    pthread_mutex_unlock(&a->lock);
}

struct pl_remote_ahead *pl_remote_prefetch_destroy(struct pl_remote_ahead *a)
{
    if (a == NULL)
        return NULL;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    pthread_cond_broadcast(&a->changed);
    while (a->threads > 0)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < a->n; i++)
        range_free(a->ranges[i]);
    free(a->ranges);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
    return NULL;
}

/* --- planning --- */

/* A new range, and the position of its first record in the order in which records will be read. */
struct made {
    struct range *range;
    size_t first;
};

struct placed {
    struct pl_location where;
    size_t order;
};

static int placed_cmp(const void *a, const void *b)
{
    return pl_remote_location_cmp(&((const struct placed *)a)->where, &((const struct placed *)b)->where);
}

static int made_cmp(const void *a, const void *b)
{
    const struct made *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Copies those of the sorted records that lie in no range yet, with their positions in the order of reading.
 * Returns their number. */
static size_t take_new(struct pl_remote_ahead *a, const struct placed *sorted, size_t n, struct pl_location *where, size_t *order)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        const struct pl_remote_range at = {sorted[i].where.pack, sorted[i].where.offset, location_end(&sorted[i].where)};

        if (is_taken(a, &at))
            continue;
        where[m] = sorted[i].where;
        order[m++] = sorted[i].order;
    }
    return m;
}

/* Makes ranges from the records. A range ends before a record with which it would overlap an existing
 * range. */
static size_t make_ranges(struct pl_remote_ahead *a, const struct pl_location *where, const size_t *order, size_t n,
                          struct made *out)
{
    size_t m = 0, i = 0;

    while (i < n && a->n < PL_REMOTE_PREFETCH_RANGES) {
        struct pl_remote_range at = {where[i].pack, where[i].offset, location_end(&where[i])};
        size_t begin = i, first = order[i];
        struct range *r;

        for (i++; i < n && joins(&at, &where[i], PL_REMOTE_PREFETCH_RANGE); i++) {
            const struct pl_remote_range wider = {at.pack, at.start, PL_MAX(at.end, location_end(&where[i]))};

            if (is_taken(a, &wider))
                break;
            at = wider;
            first = PL_MIN(first, order[i]);
        }
        r = range_make(&at, where + begin, i - begin);
        if (r == NULL || !range_insert(a, r)) {
            range_free(r);
            break;
        }
        out[m++] = (struct made){r, first};
    }
    return m;
}

/* Sorts the records, makes ranges, and queues them in the order of reading. */
void pl_remote_prefetch_plan(struct pl_remote_ahead *a, const struct pl_location *where, size_t n, unsigned threads)
{
    _cleanup_free_ struct placed *sorted = reallocarray(NULL, n + 1, sizeof(*sorted));
    _cleanup_free_ struct pl_location *fresh = reallocarray(NULL, n + 1, sizeof(*fresh));
    _cleanup_free_ size_t *order = reallocarray(NULL, n + 1, sizeof(*order));
    _cleanup_free_ struct made *made = reallocarray(NULL, n + 1, sizeof(*made));
    size_t m;

    if (sorted == NULL || fresh == NULL || order == NULL || made == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct placed){where[i], i};
    qsort(sorted, n, sizeof(*sorted), placed_cmp);
    pthread_mutex_lock(&a->lock);
    a->read_ms = pl_clock_mono_ms(); /* planning counts as a read: reading is about to start */
    m = take_new(a, sorted, n, fresh, order);
    m = make_ranges(a, fresh, order, m, made);
    qsort(made, m, sizeof(*made), made_cmp);
    for (size_t i = 0; i < m; i++)
        queue_add(a, made[i].range);
    start_threads(a, threads);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

/* --- reading --- */

/* Returns the loaded range that contains the record, and marks it as used by the caller; loads it or waits
 * for it if necessary. NULL if there is no such range. */
static struct range *acquire(struct pl_remote_ahead *a, const struct pl_location *where)
{
    struct range *r;

    pthread_mutex_lock(&a->lock);
    r = range_find(a, &where->pack, where->offset, location_end(where));
    if (r != NULL && r->state == RANGE_PLANNED)
        range_load(a, r);
    else if (r != NULL)
        r->users++;
    while (r != NULL && r->state == RANGE_LOADING)
        pthread_cond_wait(&a->changed, &a->lock);
    if (r != NULL && r->state == RANGE_FAILED) {
        range_release(a, r);
        r = NULL;
    }
    pthread_mutex_unlock(&a->lock);
    return r;
}

static int offset_cmp(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void give_back(struct pl_remote_ahead *a, struct range *r, uint32_t offset)
{
    const uint32_t *found = bsearch(&offset, r->offsets, r->n, sizeof(offset), offset_cmp);

    pthread_mutex_lock(&a->lock);
    if (found != NULL && r->read[found - r->offsets] == 0) {
        r->read[found - r->offsets] = 1;
        r->left--;
    }
    a->read_number = PL_MAX(a->read_number, r->number);
    a->read_ms = pl_clock_mono_ms();
    range_release(a, r);
    pthread_mutex_unlock(&a->lock);
}

int pl_remote_prefetch_read(struct pl_remote_ahead *a, const struct pl_hash *id, const struct pl_location *where,
                            struct pl_buf *ret)
{
    struct pl_pack_entry entry = {*id, where->offset, where->stored, where->raw, where->codec, where->kind};
    struct range *r = acquire(a, where);
    int e;

    if (r == NULL)
        return ELSEWHERE;
    e = pl_pack_record_decode(r->bytes.data + (where->offset - r->at.start), &entry, ret, NULL);
    give_back(a, r, where->offset);
    return e == 0 ? 0 : ELSEWHERE;
}
