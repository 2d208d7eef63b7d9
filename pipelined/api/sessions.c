#include "sessions.h"

#include "pipelined/db/repo_tx.h"
#include "storage/base/clock.h"

#include <pthread.h>
#include <stdio.h>

#define RENEW_US (PL_SESSION_LEASE_S * 1000000LL / 3 * 2) /* a lease that has less left is renewed */

struct pl_sessions {
    pthread_mutex_t lock;
    struct sum {
        char id[33];
        uint64_t bytes;
    } sums[PL_SESSIONS_COUNTED]; /* a ring */
    size_t next;
};

int pl_sessions_create(struct pl_sessions **ret, struct pl_err *err)
{
    struct pl_sessions *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

struct pl_sessions *pl_sessions_destroy(struct pl_sessions *s)
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
                      PL_SESSION_LEASE_S / 60);
}

int pl_session_use(struct pl_db *db, const char *id, const char *project, struct pl_err *err)
{
    struct pl_session_args args = {.project = project};
    int64_t lease_us = 0;
    int r;

    if (!id || !pl_id_ok(id))
        return pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "\"session\" is missing or no session's id: POST /api/v1/sessions gives one"),
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
    r = pl_db_run(db, PL_TX_UNLOGGED, pl_tx_session_renew, &args, err);
    return r == PL_ENOTFOUND ? ended(id, err) : r;
}

static struct sum *find(struct pl_sessions *s, const char *id)
{
    for (size_t i = 0; i < PL_SESSIONS_COUNTED; i++)
        if (pl_streq(s->sums[i].id, id))
            return &s->sums[i];
    return NULL;
}

void pl_sessions_brought(struct pl_sessions *s, const char *id, uint64_t bytes)
{
    struct sum *sum;

    pthread_mutex_lock(&s->lock);
    sum = find(s, id);
    if (!sum) {
        sum = &s->sums[s->next++ % PL_SESSIONS_COUNTED];
        snprintf(sum->id, sizeof sum->id, "%s", id);
        sum->bytes = 0;
    }
    sum->bytes += bytes;
    pthread_mutex_unlock(&s->lock);
}

uint64_t pl_sessions_take(struct pl_sessions *s, const char *id)
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
