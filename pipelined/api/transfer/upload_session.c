/* Upload sessions and their pins are rows of the database. A ring in memory has, for each recent session, the
 * number of bytes received and the packs already pinned, so that no pin is written twice. */
#include "pipelined/api/transfer/upload_session.h"

#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/tx/upload_session_tx.h"
#include "storage/base/clock.h"

#include <pthread.h>
#include <stdio.h>

/* a lease with less time left is renewed */
#define RENEW_US (PL_UPLOAD_SESSION_LEASE_S * 1000000LL / 3 * 2)

struct pl_sessions {
    pthread_mutex_t lock;
    struct sum {
        char id[33];
        uint64_t bytes;
        /* packs known to be pinned: each as its number + 1, at index number % PL_UPLOAD_SESSION_PINS; 0 =
         * none */
        uint32_t pinned[PL_UPLOAD_SESSION_PINS];
    } sums[PL_UPLOAD_SESSIONS_COUNTED]; /* ring of the sessions with counters; the oldest slot is reused */
    size_t next;
};

int pl_upload_sessions_create(struct pl_sessions **ret, struct pl_err *err)
{
    struct pl_sessions *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

struct pl_sessions *pl_upload_sessions_destroy(struct pl_sessions *s)
{
    if (!s)
        return NULL;
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

static int ended(const char *id, struct pl_err *err)
{
    return pl_err_set(err, PL_ERETRY, "session %s is not known in this project, or its lease of %d minutes has run out", id,
                      PL_UPLOAD_SESSION_LEASE_S / 60);
}

int pl_upload_session_use(struct pl_db *db, const char *id, const char *project, struct pl_err *err)
{
    struct pl_upload_session_args args = {.project = project};
    int64_t lease_us = 0;
    int r;

    if (!id || !pl_id_ok(id))
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL,
                                       "\"session\" is missing or not the id of a session: POST /api/v1/sessions returns one"),
                            "session");
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);

        r = pl_sql_int(rd.conn, err, &lease_us, "SELECT lease_us FROM session WHERE id = ? AND project = ?", "ss", id, project);
    }
    if (r < 0)
        return r == PL_ENOTFOUND ? ended(id, err) : r;
    if (lease_us - pl_clock_wall_us() > RENEW_US)
        return 0;
    snprintf(args.id, sizeof args.id, "%s", id);
    r = pl_db_run(db, PL_TX_UNLOGGED, pl_tx_upload_session_renew, &args, err);
    return r == PL_ENOTFOUND ? ended(id, err) : r;
}

static struct sum *find(struct pl_sessions *s, const char *id)
{
    for (size_t i = 0; i < PL_UPLOAD_SESSIONS_COUNTED; i++)
        if (pl_streq(s->sums[i].id, id))
            return &s->sums[i];
    return NULL;
}

/* Returns the session's slot in `sums`; if it has none, reuses the oldest slot. The caller holds the lock. */
static struct sum *place(struct pl_sessions *s, const char *id)
{
    struct sum *sum = find(s, id);

    if (!sum) {
        sum = &s->sums[s->next++ % PL_UPLOAD_SESSIONS_COUNTED];
        *sum = (struct sum){0};
        snprintf(sum->id, sizeof sum->id, "%s", id);
    }
    return sum;
}

int pl_upload_session_pin(struct pl_db *db, const char *project, const char *id, const struct pl_hash *packs, size_t n,
                          struct pl_err *err)
{
    struct pl_upload_session_args args = {.project = project, .packs = packs, .n = n};
    int r;

    snprintf(args.id, sizeof args.id, "%s", id);
    r = n ? pl_db_run(db, PL_TX_UNLOGGED, pl_tx_upload_session_pin, &args, err) : 0;
    return r == PL_ENOTFOUND ? ended(id, err) : r;
}

int pl_upload_session_add_pack(struct pl_db *db, const char *project, const char *id, const struct pl_hash *pack,
                               struct pl_err *err)
{
    _cleanup_(pl_pack_set_finish) struct pl_pack_set set = {0};
    char hex[PL_HASH_HEX + 1], state[PL_GC_STATE_BYTES];
    int r = pl_upload_session_pin(db, project, id, pack, 1, err);

    /* garbage collection does not advance the state of a pinned pack, so the state read now stays valid */
    r = r < 0 ? r : pl_pack_state_read(db, project, pack, state, err);
    if (r < 0 || !*state)
        return r;
    if (pl_streq(state, PL_PACK_DOOMED))
        return pl_err_set(err, PL_ERETRY,
                          "pack %s was uploaded before, and removed after its session had ended: upload the data again",
                          pl_hash_hex(pack, hex));
    r = pl_pack_set_add(&set, pack, err);
    return r < 0 ? r : pl_db_revive(db, project, &set, err);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Removes from `numbers` repeated numbers and the packs that are known to be pinned. Returns the number of
 * packs that remain. */
static size_t new_pins(struct pl_sessions *s, const char *id, uint32_t *numbers, size_t n)
{
    struct sum *sum;
    size_t left = 0;

    qsort(numbers, n, sizeof *numbers, compare_numbers);
    pthread_mutex_lock(&s->lock);
    sum = place(s, id);
    for (size_t i = 0; i < n; i++) {
        uint32_t no = numbers[i];

        if (no != UINT32_MAX && (i == 0 || no != numbers[i - 1]) && sum->pinned[no % PL_UPLOAD_SESSION_PINS] != no + 1)
            numbers[left++] = no;
    }
    pthread_mutex_unlock(&s->lock);
    return left;
}

static void remember_pins(struct pl_sessions *s, const char *id, const uint32_t *numbers, size_t n)
{
    struct sum *sum;

    pthread_mutex_lock(&s->lock);
    sum = place(s, id);
    for (size_t i = 0; i < n; i++)
        sum->pinned[numbers[i] % PL_UPLOAD_SESSION_PINS] = numbers[i] + 1;
    pthread_mutex_unlock(&s->lock);
}

/* Finds packs that garbage collection has condemned between the look-up and the pin. A condemned pack can
 * still be revived: the hold on the store has kept garbage collection from dooming it, which is final
 * (gc.h). */
static int find_condemned(struct pl_db *db, const char *project, const struct pl_hash *packs, size_t n, struct pl_pack_set *ret,
                          struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    char state[PL_GC_STATE_BYTES];
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        r = pl_pack_state_get(rd.conn, project, &packs[i], state, err);
        if (r == 0 && *state)
            r = pl_pack_set_add(ret, &packs[i], err);
    }
    return r;
}

int pl_upload_session_pin_numbers(struct pl_sessions *s, struct pl_db *db, struct pl_store *store, const char *id,
                                  uint32_t *numbers, size_t n, struct pl_err *err)
{
    _cleanup_(pl_pack_set_finish) struct pl_pack_set condemned = {0};
    _cleanup_free_ struct pl_hash *packs = NULL;
    size_t left = n ? new_pins(s, id, numbers, n) : 0, m = 0;
    int r;

    if (!left)
        return 0;
    packs = reallocarray(NULL, left, sizeof *packs);
    if (!packs)
        return pl_err_nomem(err);
    for (size_t i = 0; i < left; i++)
        m += pl_store_pack_id(store, numbers[i], &packs[m]);
    r = pl_upload_session_pin(db, pl_store_project(store), id, packs, m, err);
    r = r < 0 ? r : find_condemned(db, pl_store_project(store), packs, m, &condemned, err);
    r = r < 0 ? r : pl_db_revive(db, pl_store_project(store), &condemned, err);
    if (r == 0)
        remember_pins(s, id, numbers, left);
    return r;
}

void pl_upload_sessions_count_bytes(struct pl_sessions *s, const char *id, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    place(s, id)->bytes += bytes;
    pthread_mutex_unlock(&s->lock);
}

uint64_t pl_upload_sessions_take(struct pl_sessions *s, const char *id)
{
    uint64_t bytes = 0;
    struct sum *sum;

    pthread_mutex_lock(&s->lock);
    sum = find(s, id);
    if (sum) {
        bytes = sum->bytes;
        sum->bytes = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return bytes;
}
