// link: pipelined/net/remote storage/base storage/chunk storage/pack
/* Records are passed on as their bytes arrive: each once, whatever the pieces are and wherever a request breaks off; those that
 * cannot be read are left out. */
#include "pipelined/net/remote/remote_stream.h"
#include "storage/chunk/codec.h"
#include "storage/pack/pack_format.h"
#include "tests/support/fixtures/store_fixture.h"

#define PACKS   3
#define RECORDS 60
#define WANTED  150
#define GAP_MAX 300

/* Packs of records of any size, raw and compressed, with bytes between them that nobody wants. */
static struct pl_buf packs[PACKS];
static struct record {
    struct pl_hash id;
    struct pl_location where;
    struct pl_buf raw;
} records[PACKS][RECORDS];

/* What is wanted, and what was passed on. */
static struct pl_remote_wanted list[WANTED];
static const struct record *wanted[WANTED];
static unsigned taken[WANTED];
static size_t n_wanted, n_taken;
static size_t refuse_at; /* number of records after which one is refused */

static uint64_t seed;
static struct pl_remote_range planned[WANTED];
static size_t n_planned, n_fetches;
static unsigned breaks;                     /* one of so many requests breaks off somewhere; 0 = none */
static int end_with;                        /* the result of a request that broke off */
static struct pl_remote_range lost[WANTED]; /* requests that broke off before they brought a record */
static size_t n_lost;
static bool all_lost; /* … and the ranges after it are left out, too */

static size_t up_to(size_t n)
{
    return (size_t)(pl_splitmix64(&seed) % n);
}

static void add_record(struct pl_buf *pack, struct record *r, uint8_t number)
{
    const size_t sizes[] = {0, 1, 9, 300, 5000, 70000}, size = sizes[up_to(PL_ARRAY_SIZE(sizes))];
    uint8_t head[PL_PACK_RECORD_BYTES], gap[GAP_MAX] = {0}, *bytes = malloc(size + 1), *packed = malloc(pl_codec_bound(size) + 1);
    const bool squeeze = size > 100 && up_to(2) == 0;
    size_t stored = size;
    struct pl_pack_entry e = {.raw = (uint32_t)size, .kind = PL_REC_CHUNK, .codec = PL_CODEC_RAW};

    fixture_bytes(bytes, size, pl_splitmix64(&seed));
    if (squeeze)
        memset(bytes, number, size - size / 10);
    if (squeeze)
        e.codec = pl_codec_encode(bytes, size, packed, &stored);
    pl_hash_sha256(bytes, size, &e.id);
    assert_int_equal(pl_buf_add(pack, gap, up_to(GAP_MAX), NULL), 0);
    e.offset = (uint32_t)pack->len;
    e.stored = (uint32_t)stored;
    pl_pack_record_encode(&e, head);
    assert_int_equal(pl_buf_add(pack, head, sizeof(head), NULL), 0);
    assert_int_equal(pl_buf_add(pack, e.codec == PL_CODEC_RAW ? bytes : packed, stored, NULL), 0);
    r->id = e.id;
    r->where = (struct pl_location){
        .pack = {{number}}, .offset = e.offset, .stored = e.stored, .raw = e.raw, .codec = e.codec, .kind = e.kind};
    pl_buf_clear(&r->raw);
    assert_int_equal(pl_buf_add(&r->raw, bytes, size, NULL), 0);
    free(bytes);
    free(packed);
}

static void make_packs(void)
{
    for (uint8_t p = 0; p < PACKS; p++) {
        pl_buf_clear(&packs[p]);
        for (size_t i = 0; i < RECORDS; i++)
            add_record(&packs[p], &records[p][i], p);
    }
}

static void choose(size_t n)
{
    n_wanted = n;
    n_taken = n_planned = n_fetches = n_lost = 0;
    all_lost = false;
    breaks = 0;
    end_with = PL_ENET;
    refuse_at = SIZE_MAX;
    memset(taken, 0, sizeof(taken));
    for (size_t i = 0; i < n; i++) {
        wanted[i] = &records[up_to(PACKS)][up_to(RECORDS)]; /* some twice */
        list[i] = (struct pl_remote_wanted){wanted[i]->id, wanted[i]->where, i};
    }
}

/* --- what streams it --- */

static void plan(void *self, const struct pl_remote_range *ranges, size_t n)
{
    (void)self;
    assert_int_equal(n_planned, 0);
    memcpy(planned, ranges, n * sizeof(*ranges));
    n_planned = n;
}

static int fetch(void *self, const struct pl_remote_range *range, pl_remote_write write, void *to)
{
    const struct pl_buf *pack = &packs[range->pack.b[0]];
    uint64_t at = range->start, end = range->end;
    const bool broken = breaks > 0 && up_to(breaks) == 0;
    const size_t before = n_taken;

    (void)self;
    n_fetches++;
    assert_true(range->start < range->end && range->end <= pack->len);
    if (broken)
        end = at + up_to((size_t)(end - at));
    while (at < end) {
        const size_t most = 1 + up_to(up_to(2) ? 20 : 200000), n = PL_MIN((size_t)(end - at), most);
        _cleanup_free_ uint8_t *piece = malloc(n); /* of this size: a sanitizer sees who reads on */
        int r;

        memcpy(piece, pack->data + at, n);
        r = write(to, piece, n, NULL);
        if (r < 0)
            return r;
        at += n;
    }
    if (broken && n_taken == before) {
        lost[n_lost++] = *range;
        all_lost = all_lost || end_with == PL_ENET;
    }
    return broken ? end_with : 0;
}

static int take(void *arg, size_t i, const uint8_t *bytes, size_t n, struct pl_err *err)
{
    (void)arg;
    assert_true(i < n_wanted && n_taken <= refuse_at);
    if (n_taken == refuse_at) {
        refuse_at = 0; /* no call may follow */
        return pl_err_set(err, PL_ENOSPC, "the disk is full");
    }
    assert_int_equal(n, wanted[i]->raw.len);
    assert_memory_equal(bytes, wanted[i]->raw.data, n);
    taken[i]++;
    n_taken++;
    return 0;
}

static void read_all(void)
{
    static const struct pl_remote_stream_source source = {.plan = plan, .fetch = fetch};

    pl_remote_stream_read(&source, list, n_wanted, take, NULL);
    for (size_t i = 0; i < n_wanted; i++)
        assert_true(taken[i] <= 1);
}

/* --- tests --- */

static void each_record_is_passed_on_once_whatever_the_pieces(void **state)
{
    (void)state;
    seed = 1;
    for (int round = 0; round < 10; round++) {
        make_packs();
        for (size_t n = 0; n <= WANTED; n += 1 + up_to(10)) {
            choose(n);
            read_all();
            assert_int_equal(n_taken, n);
            assert_int_equal(n_fetches, n_planned);
            for (size_t i = 1; i < n_planned; i++) /* what lies close together is one request */
                assert_true(!pl_hash_eq(&planned[i].pack, &planned[i - 1].pack) ||
                            planned[i].start > planned[i - 1].end + PL_REMOTE_PREFETCH_GAP);
        }
    }
}

static bool is_lost(const struct pl_location *where)
{
    for (size_t i = 0; i < n_lost; i++)
        if (pl_hash_eq(&lost[i].pack, &where->pack) && where->offset >= lost[i].start && where->offset < lost[i].end)
            return true;
    return all_lost && (where->pack.b[0] > lost[n_lost - 1].pack.b[0] ||
                        (where->pack.b[0] == lost[n_lost - 1].pack.b[0] && where->offset > lost[n_lost - 1].start));
}

static void a_request_that_breaks_off_goes_on_where_it_ended(void **state)
{
    size_t all = 0;

    (void)state;
    seed = 7;
    make_packs();
    for (int round = 0; round < 100; round++) {
        choose(WANTED);
        breaks = 2;
        end_with = up_to(2) ? PL_ENET : 0; /* also a server that sends less and says nothing */
        read_all();
        for (size_t i = 0; i < n_wanted; i++)
            assert_int_equal(taken[i], !is_lost(&wanted[i]->where));
        all += n_taken == n_wanted && n_fetches > n_planned;
    }
    assert_true(all > 10);
}

static void a_canceled_request_is_the_last_one(void **state)
{
    (void)state;
    seed = 8;
    make_packs();
    choose(WANTED);
    breaks = 1; /* every request */
    end_with = PL_ECANCELED;
    read_all();
    assert_int_equal(n_fetches, 1);
    assert_true(n_planned > 1 && n_taken < n_wanted);
}

static void damage_ends_its_range_only(void **state)
{
    const struct record *bad = &records[1][RECORDS / 2];

    (void)state;
    seed = 9;
    make_packs();
    choose(WANTED);
    wanted[0] = bad;
    list[0] = (struct pl_remote_wanted){bad->id, bad->where, 0};
    packs[1].data[bad->where.offset] ^= 1;
    read_all();
    for (size_t i = 0; i < n_wanted; i++)
        assert_int_equal(taken[i], wanted[i]->where.pack.b[0] != 1 || wanted[i]->where.offset < bad->where.offset);
}

static void nothing_follows_a_record_that_was_refused(void **state)
{
    (void)state;
    seed = 10;
    make_packs();
    for (size_t n = 0; n < WANTED; n += 13) {
        choose(WANTED);
        refuse_at = n;
        read_all();
        assert_int_equal(n_taken, n);
    }
}

static int free_packs(void **state)
{
    (void)state;
    for (size_t p = 0; p < PACKS; p++) {
        pl_buf_finish(&packs[p]);
        for (size_t i = 0; i < RECORDS; i++)
            pl_buf_finish(&records[p][i].raw);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_record_is_passed_on_once_whatever_the_pieces),
        cmocka_unit_test(a_request_that_breaks_off_goes_on_where_it_ended),
        cmocka_unit_test(a_canceled_request_is_the_last_one),
        cmocka_unit_test(damage_ends_its_range_only),
        cmocka_unit_test(nothing_follows_a_record_that_was_refused),
    };

    return cmocka_run_group_tests(tests, NULL, free_packs);
}
