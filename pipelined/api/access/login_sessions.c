/* Keeps the login sessions in the database, with a copy in memory. A cookie is generated like a token.
 * Each change is first a transaction; then all rows are read again and replace the copy in memory, and the
 * principals of removed sessions are revoked, which ends their open streams. Logins are rare and the table
 * is bounded, so reading all of it is cheap enough. */
#include "pipelined/api/access/login_sessions.h"

#include "storage/base/clock.h"
#include "storage/base/map.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>

#define COOKIE_START "pls_"
#define ENDED        "the login session has ended: run pipelinectl open to log in again"

struct session {
    char id[PL_LOGIN_SESSION_ID_HEX + 1];
    struct pl_hash token_hash;
    int64_t expires_us; /* wall clock */
    /* principal of the session; NULL until the first request; replaced when the token's principal has
     * changed */
    struct pl_principal *who;
};

struct pl_login_sessions {
    struct pl_db *db;
    pthread_mutex_t changing; /* lets one thread at a time change sessions; taken before `lock` */
    pthread_mutex_t lock;     /* guards `sessions` */
    struct pl_map sessions;   /* SHA-256 of the cookie → session, which it owns */
};

static void free_session(void *value)
{
    struct session *one = value;

    if (!one)
        return;
    pl_principal_unref(one->who);
    free(one);
}

static void finish_sessions(struct pl_map *m)
{
    pl_map_finish(m, free_session);
}

static int read_rows(struct pl_db *db, struct pl_map *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT hash, id, token_hash, expires_us FROM login_session", "");

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        struct pl_hash hash = pl_col_hash(&rows, 0);
        struct session *one = calloc(1, sizeof *one);

        if (!one)
            return pl_err_nomem(err);
        snprintf(one->id, sizeof one->id, "%s", pl_col_text(&rows, 1));
        one->token_hash = pl_col_hash(&rows, 2);
        one->expires_us = pl_col_int(&rows, 3);
        r = pl_map_put(ret, hash.b, PL_HASH_BYTES, one, NULL, err);
        if (r < 0) {
            free_session(one);
            return r;
        }
    }
    return r;
}

/* Replaces the sessions in memory by the database's rows. A session that is both in memory and in the
 * database keeps its principal. If the row of a session is gone, its principal is revoked. If the rows cannot
 * be read, no session is valid until the next change. The caller holds `changing`. */
static int reload(struct pl_login_sessions *s, struct pl_err *err)
{
    _cleanup_(finish_sessions) struct pl_map fresh = {0};
    const struct pl_map_slot *slot;
    struct pl_map before;
    size_t i = 0;
    int r = read_rows(s->db, &fresh, err);

    if (r < 0)
        finish_sessions(&fresh);
    pthread_mutex_lock(&s->lock);
    before = s->sessions;
    while ((slot = pl_map_next(&before, &i)) != NULL) {
        struct session *old = slot->value, *one = pl_map_get(&fresh, slot->key, slot->key_len);

        if (one)
            one->who = TAKE_PTR(old->who);
        else if (old->who)
            atomic_store(&old->who->revoked, true);
    }
    s->sessions = fresh;
    pthread_mutex_unlock(&s->lock);
    fresh = before;
    return PL_MIN(r, 0);
}

int pl_login_sessions_open(struct pl_db *db, struct pl_login_sessions **ret, struct pl_err *err)
{
    struct pl_login_sessions *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return pl_err_nomem(err);
    s->db = db;
    pthread_mutex_init(&s->changing, NULL);
    pthread_mutex_init(&s->lock, NULL);
    r = reload(s, err);
    if (r < 0) {
        pl_login_sessions_close(s);
        return pl_err_wrap(err, r, "cannot read the login sessions");
    }
    *ret = s;
    return 0;
}

struct pl_login_sessions *pl_login_sessions_close(struct pl_login_sessions *s)
{
    if (!s)
        return NULL;
    finish_sessions(&s->sessions);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->changing);
    free(s);
    return NULL;
}

static int change(struct pl_login_sessions *s, pl_tx_fn fn, struct pl_login_session_args *args, struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&s->changing);
    r = pl_db_run(s->db, PL_TX_UNLOGGED, fn, args, err);
    if (r >= 0)
        r = reload(s, err);
    pthread_mutex_unlock(&s->changing);
    return r;
}

int pl_login_sessions_begin(struct pl_login_sessions *s, struct pl_login_session_args *args,
                            char ret_cookie[PL_LOGIN_SESSION_COOKIE_SIZE], struct pl_err *err)
{
    char cookie[PL_LOGIN_SESSION_COOKIE_SIZE];
    int r;

    pl_token_make(COOKIE_START, cookie, &args->hash);
    pl_token_id(&args->hash, args->id);
    args->created_us = pl_clock_wall_us();
    args->expires_us = args->created_us + PL_LOGIN_SESSION_DAYS * 86400LL * 1000000;
    r = change(s, pl_tx_login_session_create, args, err);
    if (r >= 0)
        memcpy(ret_cookie, cookie, sizeof cookie);
    OPENSSL_cleanse(cookie, sizeof cookie);
    return r;
}

int pl_login_sessions_end(struct pl_login_sessions *s, struct pl_login_session_args *args, struct pl_err *err)
{
    return change(s, pl_tx_login_session_delete, args, err);
}

/* Finds the session of a cookie; NULL if there is none or it has expired. The caller holds the lock. */
static struct session *find(const struct pl_login_sessions *s, const char *cookie)
{
    struct pl_hash given;
    struct session *one;

    pl_hash_sha256(cookie, strlen(cookie), &given);
    one = pl_map_get(&s->sessions, given.b, PL_HASH_BYTES);
    return one && pl_clock_wall_us() < one->expires_us ? one : NULL;
}

int pl_login_sessions_token(struct pl_login_sessions *s, const char *cookie, struct pl_hash *ret, struct pl_err *err)
{
    const struct session *one;

    pthread_mutex_lock(&s->lock);
    one = find(s, cookie);
    if (one)
        *ret = one->token_hash;
    pthread_mutex_unlock(&s->lock);
    return one ? 0 : pl_err_set(err, PL_EAUTH, ENDED);
}

int pl_login_sessions_principal(struct pl_login_sessions *s, const char *cookie, struct pl_principal *token,
                                struct pl_principal **ret, struct pl_err *err)
{
    struct session *one;
    int r = 0;

    pthread_mutex_lock(&s->lock);
    one = find(s, cookie);
    if (!one)
        r = pl_err_set(err, PL_EAUTH, ENDED);
    else if (!one->who || one->who->stands_on != token) {
        struct pl_principal *fresh = NULL;

        r = pl_principal_session(token, one->id, one->expires_us, &fresh, err);
        if (r == 0) {
            pl_principal_unref(one->who);
            one->who = fresh;
        }
    }
    if (r == 0)
        *ret = pl_principal_ref(one->who);
    pthread_mutex_unlock(&s->lock);
    return r;
}
