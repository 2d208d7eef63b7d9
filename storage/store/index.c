/* A lookup searches the table in memory, then the segment files from the newest to the oldest. Two locks:
 * `lock` guards what lookups read and is never held during a write to disk; `disk` is held by the one thread
 * that writes or merges segments. */
#include "storage/store/index.h"

#include "storage/base/map.h"
#include "storage/store/index_memtable.h"
#include "storage/store/index_segment.h"
#include "storage/system/io.h"

#include <pthread.h>

#define INDEX_MAX_SEGMENTS 256u
#define INDEX_MANY_STEP    1024u /* lookups per acquisition of the lock */
/* with this many entries in memory, a thread that adds a pack waits for the thread that writes a segment */
#define INDEX_WAIT_ENTRIES (PL_INDEX_MEMORY_ENTRIES / 2)

struct index_pack {
    struct pl_hash id;
    bool gone;
    uint8_t seen;  /* which lookups find the pack's records: enum pl_pack_seen */
    uint8_t doubt; /* flags of enum pl_pack_doubt */
};

struct pl_index {
    char *dir; /* NULL = in memory only */
    /* held while segments are written or merged; only its holder changes segments or removes entries from
     * the table */
    pthread_mutex_t disk;
    pthread_rwlock_t lock; /* guards the fields below; never held during a write to disk */
    struct pl_index_memtable table;
    struct index_pack *packs; /* array indexed by pack number */
    uint32_t pack_count, pack_cap;
    /* all entries of packs with numbers below this one are in segments */
    uint32_t written;
    struct pl_map by_id;                            /* pack id → pack number + 1 */
    struct pl_segment segments[INDEX_MAX_SEGMENTS]; /* segments, oldest first */
    uint32_t segment_count;
    uint64_t next_number;
    uint32_t write_at; /* number of entries in memory at which the next segment is written */
};

static bool entry_alive(const struct pl_index *ix, const struct pl_index_entry *e)
{
    uint32_t no = pl_index_entry_pack(e);

    return no < ix->pack_count && !ix->packs[no].gone;
}

/* The best entry found so far in a lookup: the entry whose pack has the lowest pack_rank; among entries of
 * equal rank, the newest. */
struct best {
    const struct pl_index_entry *entry;
    unsigned rank;
};

/* Returns the preference of a pack for reads, 0 = best. Doubt weighs more than being hidden: otherwise a
 * good but hidden copy could be collected while only a copy that may be wrong remains. */
static unsigned pack_rank(const struct index_pack *p)
{
    return 2u * p->doubt + (p->seen == PL_PACK_HIDDEN);
}

static void entry_met(const struct pl_index *ix, const struct pl_index_entry *e, struct best *best)
{
    uint32_t no = pl_index_entry_pack(e);
    unsigned rank;

    if (!entry_alive(ix, e) || ix->packs[no].seen == PL_PACK_DROPPED)
        return;
    rank = pack_rank(&ix->packs[no]);
    if (best->entry == NULL || rank < best->rank || (rank == best->rank && no > pl_index_entry_pack(best->entry)))
        *best = (struct best){e, rank};
}

/* True if the search can stop, because no older entry can have a pack of a better rank. */
static bool is_taken(const struct best *best)
{
    return best->entry != NULL && best->rank == 0;
}

/* table_find and segment_find search for `key` and update the best entry. They return true if the lookup can
 * stop. */
static bool table_find(const struct pl_index *ix, const uint8_t *key, struct best *best)
{
    const struct pl_index_entry *e;
    uint32_t at;

    for (e = pl_index_memtable_first(&ix->table, key, &at); e != NULL; e = pl_index_memtable_next(&ix->table, key, &at))
        entry_met(ix, e, best);
    return is_taken(best);
}

static bool segment_find(const struct pl_index *ix, const struct pl_segment *s, const uint8_t *key, struct best *best)
{
    for (uint64_t i = pl_segment_lower_bound(s, key); i < s->count && memcmp(s->entries[i].key, key, 16) == 0; i++)
        entry_met(ix, &s->entries[i], best);
    return is_taken(best);
}

static struct best index_find(const struct pl_index *ix, const struct pl_hash *id)
{
    struct best best = {0};
    bool taken = table_find(ix, id->b, &best);

    for (uint32_t i = ix->segment_count; i > 0 && !taken; i--)
        taken = segment_find(ix, &ix->segments[i - 1], id->b, &best);
    return best;
}

bool pl_index_find(struct pl_index *ix, const struct pl_hash *id, struct pl_location *ret)
{
    struct best best;

    pthread_rwlock_rdlock(&ix->lock);
    best = index_find(ix, id);
    if (best.entry != NULL && ret != NULL) {
        pl_index_entry_location(best.entry, ret);
        ret->pack = ix->packs[ret->pack_no].id;
        ret->hidden = ix->packs[ret->pack_no].seen == PL_PACK_HIDDEN;
        ret->unread = (ix->packs[ret->pack_no].doubt & PL_DOUBT_UNREAD) != 0;
    }
    pthread_rwlock_unlock(&ix->lock);
    return best.entry != NULL;
}

void pl_index_find_many(struct pl_index *ix, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, uint32_t *packs)
{
    memset(ret_bitmap, 0, (n + 7) / 8);
    for (size_t i = 0; i < n;) {
        size_t end = PL_MIN(n, i + INDEX_MANY_STEP);

        pthread_rwlock_rdlock(&ix->lock);
        for (; i < end; i++) {
            struct best best = index_find(ix, &ids[i]);
            uint32_t no = best.entry != NULL ? pl_index_entry_pack(best.entry) : UINT32_MAX;
            bool there = no != UINT32_MAX && ix->packs[no].seen == PL_PACK_SHOWN && (ix->packs[no].doubt & PL_DOUBT_UNREAD) == 0;

            if (there)
                ret_bitmap[i / 8] = (uint8_t)(ret_bitmap[i / 8] | 1u << (i % 8));
            if (packs != NULL)
                packs[i] = there ? no : UINT32_MAX;
        }
        pthread_rwlock_unlock(&ix->lock);
    }
}

/* Finds the number of a pack. Returns false if the pack is unknown or was dropped. The caller holds `lock`,
 * for reading or writing. */
static bool pack_number(const struct pl_index *ix, const struct pl_hash *pack, uint32_t *ret)
{
    uintptr_t no = (uintptr_t)pl_map_get(&ix->by_id, pack->b, PL_HASH_BYTES);

    if (no == 0 || ix->packs[no - 1].gone)
        return false;
    *ret = (uint32_t)(no - 1);
    return true;
}

/* Appends a pack to the array and the map. An id of zeros stands for a dropped pack, which keeps its number.
 * With the lock held for writing. */
static int pack_push(struct pl_index *ix, const struct pl_hash *pack, struct pl_err *err)
{
    if (ix->pack_count == ix->pack_cap) {
        uint32_t cap = ix->pack_cap != 0 ? ix->pack_cap * 2 : 64;
        struct index_pack *packs = reallocarray(ix->packs, cap, sizeof(*packs));

        if (packs == NULL)
            return pl_err_nomem(err);
        ix->packs = packs;
        ix->pack_cap = cap;
    }
    ix->packs[ix->pack_count] = (struct index_pack){.id = *pack, .gone = pl_hash_is_zero(pack)};
    if (!pl_hash_is_zero(pack)) {
        int r = pl_map_put(&ix->by_id, pack->b, PL_HASH_BYTES, (void *)(uintptr_t)(ix->pack_count + 1), NULL, err);

        if (r < 0)
            return r;
    }
    ix->pack_count++;
    return 0;
}

/* Adds a pack and its entries to the table. With the lock held for writing. */
static int index_insert(struct pl_index *ix, const struct pl_hash *pack, const struct pl_pack_entry *entries, size_t n,
                        struct pl_err *err)
{
    int r;

    if (n > PL_PACK_MAX_RECORDS)
        return pl_err_set(err, PL_ETOOBIG, "the pack has too many records: %zu", n);
    r = pl_index_memtable_reserve(&ix->table, (uint32_t)n, err);
    if (r == 0)
        r = pack_push(ix, pack, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct pl_index_entry e = pl_index_entry_make(&entries[i], ix->pack_count - 1);

        pl_index_memtable_add(&ix->table, &e);
    }
    return r;
}

/* Writes the manifest of the first `packs` packs; all entries of these packs must be in `segments`. The
 * footers of later packs are read at the next start. The caller holds `disk`, so it may read the segments
 * without `lock`. */
static int index_write_manifest(struct pl_index *ix, const struct pl_segment *segments, size_t n, uint32_t packs,
                                struct pl_err *err)
{
    _cleanup_(pl_manifest_finish) struct pl_manifest m = {.segment_count = n, .pack_count = packs};

    m.segments = calloc(n + 1, sizeof(*m.segments));
    m.packs = calloc(packs + 1u, sizeof(*m.packs));
    if (m.segments == NULL || m.packs == NULL)
        return pl_err_nomem(err);
    memcpy(m.segments, segments, n * sizeof(*segments));
    pthread_rwlock_rdlock(&ix->lock); /* take the lock, because another thread may be dropping packs */
    for (uint32_t i = 0; i < packs; i++)
        if (!ix->packs[i].gone)
            m.packs[i] = ix->packs[i].id;
    pthread_rwlock_unlock(&ix->lock);
    return pl_manifest_write(ix->dir, &m, err);
}

struct array_feed {
    const struct pl_index_entry *next, *end;
};

static const struct pl_index_entry *array_next(void *self)
{
    struct array_feed *f = self;

    return f->next < f->end ? f->next++ : NULL;
}

/* Copies the entries of the table in memory, sorts the copy, and returns it with the number of packs at that
 * moment. The caller frees `*ret`. */
static int table_copy(struct pl_index *ix, struct pl_index_entry **ret, uint32_t *ret_n, uint32_t *ret_packs, struct pl_err *err)
{
    int r;

    pthread_rwlock_rdlock(&ix->lock);
    *ret_packs = ix->pack_count;
    *ret_n = ix->table.count;
    r = pl_index_memtable_copy(&ix->table, ret, err);
    pthread_rwlock_unlock(&ix->lock);
    if (r == 0)
        qsort(*ret, *ret_n, sizeof(**ret), pl_index_entry_cmp);
    return r;
}

/* Writes the entries in memory as a new segment. With `disk` held; other threads may add packs meanwhile. */
static int index_write_table(struct pl_index *ix, struct pl_err *err)
{
    _cleanup_free_ struct pl_index_entry *sorted = NULL;
    struct pl_segment segments[INDEX_MAX_SEGMENTS], s;
    struct array_feed array;
    struct pl_segment_feed feed = {&array, array_next};
    uint32_t n, packs;
    int r = table_copy(ix, &sorted, &n, &packs, err);

    if (r < 0 || n == 0)
        return r;
    if (ix->segment_count == INDEX_MAX_SEGMENTS)
        return pl_err_set(err, PL_ELIMIT, "more than %u index segments", INDEX_MAX_SEGMENTS);
    array = (struct array_feed){sorted, sorted + n};
    r = pl_segment_write(ix->dir, ix->next_number, 0, &feed, &s, err);
    if (r < 0)
        return r;
    memcpy(segments, ix->segments, sizeof(segments));
    segments[ix->segment_count] = s;
    r = index_write_manifest(ix, segments, ix->segment_count + 1u, packs, err);
    if (r < 0) {
        pl_segment_remove(ix->dir, &s);
        return r;
    }
    pthread_rwlock_wrlock(&ix->lock);
    ix->segments[ix->segment_count++] = s;
    ix->next_number++;
    ix->written = packs;
    pl_index_memtable_drop_first(&ix->table, n);
    pthread_rwlock_unlock(&ix->lock);
    return 0;
}

/* A source of the entries of PL_INDEX_FANOUT segments in order, without those of packs that were dropped
 * before the merge began. */
struct merge_feed {
    const struct pl_segment *segments;
    const uint8_t *alive; /* bitmap of `packs` bits: 1 = the pack is not dropped */
    uint32_t packs;
    uint64_t next[PL_INDEX_FANOUT];
};

static bool merge_keeps(const struct merge_feed *f, uint32_t pack)
{
    return pack < f->packs && (f->alive[pack / 8] >> (pack % 8) & 1) != 0;
}

/* Returns the least entry that is left in the segments, skipping entries of dropped packs; NULL at the
 * end. */
static const struct pl_index_entry *merge_next(void *self)
{
    struct merge_feed *f = self;

    for (;;) {
        const struct pl_index_entry *least = NULL;
        uint32_t from = 0;

        for (uint32_t i = 0; i < PL_INDEX_FANOUT; i++) {
            const struct pl_segment *s = &f->segments[i];

            if (f->next[i] < s->count && (least == NULL || pl_index_entry_cmp(&s->entries[f->next[i]], least) < 0)) {
                least = &s->entries[f->next[i]];
                from = i;
            }
        }
        if (least == NULL)
            return NULL;
        f->next[from]++;
        if (merge_keeps(f, pl_index_entry_pack(least)))
            return least;
    }
}

/* Returns a bitmap of the packs whose entries are written: 1 = the pack is not dropped. NULL without
 * memory. */
static uint8_t *alive_packs(struct pl_index *ix)
{
    uint8_t *alive = calloc(ix->written / 8 + 1u, 1);

    pthread_rwlock_rdlock(&ix->lock);
    for (uint32_t i = 0; alive != NULL && i < ix->written; i++)
        if (!ix->packs[i].gone)
            alive[i / 8] = (uint8_t)(alive[i / 8] | 1u << (i % 8));
    pthread_rwlock_unlock(&ix->lock);
    return alive;
}

/* Merges the PL_INDEX_FANOUT segments from number `first` on into one of the next level. With `disk` held. */
static int index_merge(struct pl_index *ix, uint32_t first, struct pl_err *err)
{
    _cleanup_free_ uint8_t *alive = alive_packs(ix);
    struct merge_feed merge = {.segments = ix->segments + first, .alive = alive, .packs = ix->written};
    struct pl_segment_feed feed = {&merge, merge_next};
    struct pl_segment segments[INDEX_MAX_SEGMENTS], old[PL_INDEX_FANOUT], s;
    uint32_t after = first + PL_INDEX_FANOUT, n = ix->segment_count - PL_INDEX_FANOUT + 1;
    int r;

    if (alive == NULL)
        return pl_err_nomem(err);
    r = pl_segment_write(ix->dir, ix->next_number, ix->segments[first].level + 1, &feed, &s, err);
    if (r < 0)
        return r;
    memcpy(old, ix->segments + first, sizeof(old));
    memcpy(segments, ix->segments, first * sizeof(*segments));
    segments[first] = s;
    memcpy(segments + first + 1, ix->segments + after, (ix->segment_count - after) * sizeof(*segments));
    r = index_write_manifest(ix, segments, n, ix->written, err);
    if (r < 0) {
        pl_segment_remove(ix->dir, &s);
        return r;
    }
    pthread_rwlock_wrlock(&ix->lock);
    memcpy(ix->segments, segments, n * sizeof(*segments));
    ix->segment_count = n;
    ix->next_number++;
    pthread_rwlock_unlock(&ix->lock);
    for (uint32_t i = 0; i < PL_INDEX_FANOUT; i++)
        pl_segment_remove(ix->dir, &old[i]);
    return 0;
}

/* Merges segments as long as some level has PL_INDEX_FANOUT of them. Older segments have higher levels, so
 * the segments of one level are adjacent in the array. */
static int index_merge_all(struct pl_index *ix, struct pl_err *err)
{
    int r = 0;

    for (uint32_t end = ix->segment_count; end >= PL_INDEX_FANOUT && r == 0;) {
        uint32_t first = end - PL_INDEX_FANOUT;

        if (ix->segments[first].level != ix->segments[end - 1].level) {
            end--;
            continue;
        }
        r = index_merge(ix, first, err);
        end = ix->segment_count;
    }
    return r;
}

/* Writes the entries in memory as a segment if there are enough of them. The index is a cache: if the write
 * fails, the entries stay in memory and a later call tries again. If another thread is writing, this one does
 * not wait for it, unless INDEX_WAIT_ENTRIES are in memory. */
static void index_maybe_write(struct pl_index *ix)
{
    uint32_t count, at;

    pthread_rwlock_rdlock(&ix->lock);
    count = ix->table.count;
    at = ix->write_at;
    pthread_rwlock_unlock(&ix->lock);
    if (ix->dir == NULL || count < at)
        return;
    if (count >= INDEX_WAIT_ENTRIES)
        pthread_mutex_lock(&ix->disk);
    else if (pthread_mutex_trylock(&ix->disk) != 0)
        return;
    at = PL_INDEX_SEGMENT_ENTRIES;
    if (index_write_table(ix, NULL) < 0)
        at += count;
    else
        (void)!index_merge_all(ix, NULL); /* a failed merge is retried after the next segment */
    pthread_rwlock_wrlock(&ix->lock);
    ix->write_at = at;
    pthread_rwlock_unlock(&ix->lock);
    pthread_mutex_unlock(&ix->disk);
}

int pl_index_add_pack(struct pl_index *ix, const struct pl_hash *pack, const struct pl_pack_entry *entries, size_t n,
                      unsigned doubt, struct pl_err *err)
{
    uint32_t no;
    int r = 0;

    pthread_rwlock_wrlock(&ix->lock);
    if (!pack_number(ix, pack, &no)) {
        r = index_insert(ix, pack, entries, n, err);
        if (r == 0)
            ix->packs[ix->pack_count - 1].doubt = (uint8_t)doubt;
    }
    pthread_rwlock_unlock(&ix->lock);
    index_maybe_write(ix);
    return r;
}

void pl_index_drop_pack(struct pl_index *ix, const struct pl_hash *pack)
{
    uint32_t no;

    pthread_rwlock_wrlock(&ix->lock);
    if (pack_number(ix, pack, &no))
        ix->packs[no].gone = true;
    pthread_rwlock_unlock(&ix->lock);
}

void pl_index_set_seen(struct pl_index *ix, const struct pl_hash *pack, enum pl_pack_seen seen)
{
    uint32_t no;

    pthread_rwlock_wrlock(&ix->lock);
    if (pack_number(ix, pack, &no))
        ix->packs[no].seen = (uint8_t)seen;
    pthread_rwlock_unlock(&ix->lock);
}

void pl_index_set_doubt(struct pl_index *ix, const struct pl_hash *pack, enum pl_pack_doubt doubt, bool on)
{
    uint32_t no;

    pthread_rwlock_wrlock(&ix->lock);
    if (pack_number(ix, pack, &no))
        ix->packs[no].doubt = (uint8_t)(on ? ix->packs[no].doubt | doubt : ix->packs[no].doubt & ~(unsigned)doubt);
    pthread_rwlock_unlock(&ix->lock);
}

unsigned pl_index_doubt(struct pl_index *ix, const struct pl_hash *pack)
{
    unsigned doubt = 0;
    uint32_t no;

    pthread_rwlock_rdlock(&ix->lock);
    if (pack_number(ix, pack, &no))
        doubt = ix->packs[no].doubt;
    pthread_rwlock_unlock(&ix->lock);
    return doubt;
}

bool pl_index_pack_id(struct pl_index *ix, uint32_t no, struct pl_hash *ret)
{
    bool known;

    pthread_rwlock_rdlock(&ix->lock);
    known = no < ix->pack_count && !ix->packs[no].gone;
    if (known)
        *ret = ix->packs[no].id;
    pthread_rwlock_unlock(&ix->lock);
    return known;
}

uint32_t pl_index_pack_count(struct pl_index *ix)
{
    uint32_t n;

    pthread_rwlock_rdlock(&ix->lock);
    n = ix->pack_count;
    pthread_rwlock_unlock(&ix->lock);
    return n;
}

bool pl_index_has_pack(struct pl_index *ix, const struct pl_hash *pack)
{
    uint32_t no;
    bool has;

    pthread_rwlock_rdlock(&ix->lock);
    has = pack_number(ix, pack, &no);
    pthread_rwlock_unlock(&ix->lock);
    return has;
}

int pl_index_packs(struct pl_index *ix, struct pl_hash **ret, size_t *ret_n, struct pl_err *err)
{
    struct pl_hash *ids;
    size_t n = 0;

    pthread_rwlock_rdlock(&ix->lock);
    ids = calloc(ix->pack_count + 1u, sizeof(*ids));
    for (uint32_t i = 0; ids != NULL && i < ix->pack_count; i++)
        if (!ix->packs[i].gone)
            ids[n++] = ix->packs[i].id;
    pthread_rwlock_unlock(&ix->lock);
    if (ids == NULL)
        return pl_err_nomem(err);
    *ret = ids;
    *ret_n = n;
    return 0;
}

int pl_index_sync(struct pl_index *ix, struct pl_err *err)
{
    int r = 0;

    pthread_mutex_lock(&ix->disk);
    if (ix->dir != NULL)
        r = index_write_table(ix, err);
    if (r == 0 && ix->dir != NULL)
        r = index_merge_all(ix, err);
    pthread_mutex_unlock(&ix->disk);
    return r;
}

void pl_index_stats(struct pl_index *ix, struct pl_index_stats *ret)
{
    *ret = (struct pl_index_stats){0};
    pthread_rwlock_rdlock(&ix->lock);
    ret->memory = ix->table.count;
    ret->entries = ix->table.count;
    for (uint32_t i = 0; i < ix->segment_count; i++)
        ret->entries += ix->segments[i].count;
    ret->segments = ix->segment_count;
    for (uint32_t i = 0; i < ix->pack_count; i++)
        ret->packs += !ix->packs[i].gone;
    pthread_rwlock_unlock(&ix->lock);
}

/* Opens the segments and adds the packs that the manifest lists. */
static int index_load(struct pl_index *ix, const struct pl_manifest *m, struct pl_err *err)
{
    int r = m->segment_count > INDEX_MAX_SEGMENTS ? pl_err_set(err, PL_ECORRUPT, "too many index segments") : 0;

    for (size_t i = 0; i < m->segment_count && r == 0; i++) {
        const struct pl_segment *s = &m->segments[i];

        r = pl_segment_open(ix->dir, s->number, s->level, s->count, &ix->segments[i], err);
        if (r == 0) {
            ix->segment_count++;
            ix->next_number = PL_MAX(ix->next_number, s->number + 1);
        }
    }
    for (size_t i = 0; i < m->pack_count && r == 0; i++)
        r = pack_push(ix, &m->packs[i], err);
    ix->written = ix->pack_count;
    return r;
}

static void index_clear(struct pl_index *ix)
{
    for (uint32_t i = 0; i < ix->segment_count; i++)
        pl_segment_close(&ix->segments[i]);
    ix->segment_count = 0;
    pl_index_memtable_finish(&ix->table);
    pl_map_finish(&ix->by_id, NULL);
    free(ix->packs);
    ix->packs = NULL;
    ix->pack_count = 0;
    ix->pack_cap = 0;
    ix->written = 0;
    ix->next_number = 1;
}

/* Creates the folder if necessary and loads the index from it. */
static int index_open_dir(struct pl_index *ix, const char *dir, struct pl_err *err)
{
    _cleanup_(pl_manifest_finish) struct pl_manifest m = {0};
    int r = pl_io_mkdirs(dir, 0777, err);

    if (r < 0)
        return r;
    ix->dir = strdup(dir);
    if (ix->dir == NULL)
        return pl_err_nomem(err);
    r = pl_manifest_read(dir, &m, err);
    if (r == 0)
        r = index_load(ix, &m, err);
    if (r == PL_ENOMEM)
        return r;
    if (r < 0) /* the index is only a cache: after any error, begin with an empty one */
        index_clear(ix);
    pl_manifest_sweep(dir, r < 0 ? NULL : &m);
    return 0;
}

int pl_index_open(const char *dir, struct pl_index **ret, struct pl_err *err)
{
    struct pl_index *ix = calloc(1, sizeof(*ix));
    pthread_rwlockattr_t attr;
    int r = 0;

    if (ix == NULL)
        return pl_err_nomem(err);
    pthread_mutex_init(&ix->disk, NULL);
    pthread_rwlockattr_init(&attr);
    /* a continuous stream of readers must not keep writers out */
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&ix->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    ix->next_number = 1;
    ix->write_at = PL_INDEX_SEGMENT_ENTRIES;
    if (dir != NULL)
        r = index_open_dir(ix, dir, err);
    if (r < 0) {
        pl_index_close(ix);
        return pl_err_wrap(err, r, "open index");
    }
    *ret = ix;
    return 0;
}

struct pl_index *pl_index_close(struct pl_index *ix)
{
    if (ix == NULL)
        return NULL;
    index_clear(ix);
    pthread_rwlock_destroy(&ix->lock);
    pthread_mutex_destroy(&ix->disk);
    free(ix->dir);
    free(ix);
    return NULL;
}

/* ---- views ---- */

/* A view has its own mappings of the segments, and a sorted copy of the table in memory as its newest
 * segment. */
struct pl_index_view {
    struct pl_index *ix;
    uint32_t n, packs;
    uint64_t bases[INDEX_MAX_SEGMENTS + 1]; /* number of the first entry of each segment */
    uint64_t entries;
    struct pl_index_entry *table;
    /* segments, oldest first; the last one may be the copy of the table in memory */
    struct pl_segment segments[INDEX_MAX_SEGMENTS + 1];
};

struct pl_index_view *pl_index_view_close(struct pl_index_view *v)
{
    if (v == NULL)
        return NULL;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->segments[i].map != NULL)
            pl_segment_close(&v->segments[i]);
    free(v->table);
    free(v);
    return NULL;
}

/* Opens the segments and copies the table. With `disk` held, so that no segment is removed and no entry
 * leaves the table meanwhile. */
static int view_fill(struct pl_index_view *v, struct pl_err *err)
{
    struct pl_index *ix = v->ix;
    uint32_t n;
    int r = 0;

    for (uint32_t i = 0; i < ix->segment_count && r == 0; i++) {
        const struct pl_segment *s = &ix->segments[i];

        r = pl_segment_open(ix->dir, s->number, s->level, s->count, &v->segments[i], err);
        v->n += r == 0;
    }
    r = r < 0 ? r : table_copy(ix, &v->table, &n, &v->packs, err);
    if (r == 0 && n > 0)
        v->segments[v->n++] = (struct pl_segment){.count = n, .entries = v->table};
    return r;
}

int pl_index_view_open(struct pl_index *ix, struct pl_index_view **ret, struct pl_err *err)
{
    struct pl_index_view *v = calloc(1, sizeof(*v));
    int r;

    if (v == NULL)
        return pl_err_nomem(err);
    v->ix = ix;
    pthread_mutex_lock(&ix->disk);
    r = view_fill(v, err);
    pthread_mutex_unlock(&ix->disk);
    if (r < 0) {
        pl_index_view_close(v);
        return pl_err_wrap(err, r, "index");
    }
    for (uint32_t i = 0; i < v->n; i++) {
        v->bases[i] = v->entries;
        v->entries += v->segments[i].count;
    }
    *ret = v;
    return 0;
}

uint64_t pl_index_view_entries(const struct pl_index_view *v)
{
    return v->entries;
}

uint32_t pl_index_view_packs(const struct pl_index_view *v)
{
    return v->packs;
}

bool pl_index_view_find(const struct pl_index_view *v, const struct pl_hash *id, uint64_t *ret_number)
{
    struct best best = {0};
    bool taken = false;
    uint64_t number = 0;

    pthread_rwlock_rdlock(&v->ix->lock);
    for (uint32_t i = v->n; i > 0 && !taken; i--) {
        const struct pl_segment *s = &v->segments[i - 1];
        const struct pl_index_entry *before = best.entry;

        taken = segment_find(v->ix, s, id->b, &best);
        if (best.entry != before)
            number = v->bases[i - 1] + (uint64_t)(best.entry - s->entries);
    }
    pthread_rwlock_unlock(&v->ix->lock);
    if (best.entry != NULL)
        *ret_number = number;
    return best.entry != NULL;
}

static const struct pl_index_entry *view_entry(const struct pl_index_view *v, uint64_t number)
{
    uint32_t i = v->n - 1;

    while (i > 0 && number < v->bases[i])
        i--;
    return &v->segments[i].entries[number - v->bases[i]];
}

uint32_t pl_index_view_pack_of(const struct pl_index_view *v, uint64_t number)
{
    return pl_index_entry_pack(view_entry(v, number));
}

uint8_t pl_index_view_kind_of(const struct pl_index_view *v, uint64_t number)
{
    struct pl_location where;

    pl_index_entry_location(view_entry(v, number), &where);
    return where.kind;
}

uint32_t pl_index_view_bytes_of(const struct pl_index_view *v, uint64_t number)
{
    struct pl_location where;

    pl_index_entry_location(view_entry(v, number), &where);
    return PL_PACK_RECORD_BYTES + where.stored;
}

void pl_index_view_each(const struct pl_index_view *v, void (*fn)(void *self, uint64_t number), void *self)
{
    for (uint64_t number = 0; number < v->entries; number++)
        fn(self, number);
}
