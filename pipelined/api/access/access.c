/* Reads users, tokens and S3 keys into a new directory, reusing unchanged principals, and swaps it for the
 * current one under a write lock. Look-ups take the read lock and return a reference to the principal. */
#include "pipelined/api/access/access.h"

#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/system/log_line.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>

/* One token or S3 key. */
struct credential {
    struct pl_principal *who;
    struct pl_hash hash;
    char access_key[PL_S3_KEY_CHARS + 1];
    struct pl_buf sealed; /* the S3 key's sealed secret; empty = the secret was lost */
    bool opens;
};

struct directory {
    struct pl_map users;  /* user name → struct pl_principal; the map holds a reference to each */
    struct pl_map tokens; /* SHA-256 of the token → credential, owned by this map */
    struct pl_map ids;    /* id of the token → the same credential, borrowed */
    struct pl_map keys;   /* access key → credential, owned by this map */
    size_t shut;          /* number of S3 keys whose sealed secret cannot be decrypted */
};

struct pl_access {
    struct pl_db *db;
    uint8_t master[PL_SEAL_KEY_BYTES];
    pthread_mutex_t reloading; /* held by the one reload that runs; taken before `lock` */
    pthread_rwlock_t lock;     /* guards `now` */
    struct directory *now;     /* the current directory; NULL = the last reload failed */
    /* number of undecryptable S3 keys that was logged last; guarded by `reloading` */
    size_t shut;
};

/* ---- create and free a directory ---- */

static void free_credential(void *value)
{
    struct credential *c = value;

    if (!c)
        return;
    pl_principal_unref(c->who);
    pl_buf_finish(&c->sealed);
    free(c);
}

static void free_user(void *value)
{
    pl_principal_unref(value);
}

static struct directory *directory_destroy(struct directory *d)
{
    if (!d)
        return NULL;
    pl_map_finish(&d->ids, NULL);
    pl_map_finish(&d->tokens, free_credential);
    pl_map_finish(&d->keys, free_credential);
    pl_map_finish(&d->users, free_user);
    free(d);
    return NULL;
}

static void directory_destroyp(struct directory **d)
{
    *d = directory_destroy(*d);
}

/* ---- read the database ---- */

static int read_role(const char *text, enum pl_role *ret)
{
    return pl_role_parse(text, ret, NULL); /* a role that this version does not know grants nothing */
}

/* Reads [[scope, role]…], as stored in the database. Unreadable grants are skipped. `out` has space for all
 * of them. */
static size_t read_grants(const json_t *roles, struct pl_grant *out)
{
    const json_t *pair;
    size_t n = 0, i;

    json_array_foreach(roles, i, pair)
    {
        const char *scope = json_string_value(json_array_get(pair, 0)), *role = json_string_value(json_array_get(pair, 1));

        if (!scope || !role || strlen(scope) > PL_SCOPE_MAX || read_role(role, &out[n].role) < 0)
            continue;
        snprintf(out[n].scope, sizeof out[n].scope, "%s", scope);
        n++;
    }
    return n;
}

/* Chooses between two copies of one principal: returns the copy `before` of the previous directory if it
 * equals the copy `fresh` that was just read, else `fresh`. Requests and streams that use `before` then
 * continue. Takes the reference to `fresh`; the result is a new reference. */
static struct pl_principal *same_as(struct pl_principal *fresh, struct pl_principal *before)
{
    if (!before || !pl_principal_same(fresh, before))
        return fresh;
    pl_principal_unref(fresh);
    return pl_principal_ref(before);
}

/* Reads all users into `d`, reusing the principals of `before` (may be NULL) that have not changed. */
static int read_users(struct pl_conn *c, const struct directory *before, struct directory *d, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT name, roles FROM user", "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *roles = pl_col_json(&rows, 1);
        _cleanup_free_ struct pl_grant *grants = calloc(json_array_size(roles) + 1, sizeof *grants);
        const char *name = pl_col_text(&rows, 0);
        struct pl_principal_user from = {.name = name, .token = "", .grants = grants, .limit = {.role = PL_ROLE_ADMIN}};
        struct pl_principal *who;

        if (!roles || !grants)
            return pl_err_nomem(err);
        from.n_grants = read_grants(roles, grants);
        r = pl_principal_user(&from, &who, err);
        if (r < 0)
            return r;
        who = same_as(who, before ? pl_map_get(&before->users, name, strlen(name)) : NULL);
        r = pl_map_put(&d->users, name, strlen(name), who, NULL, err);
        if (r < 0)
            pl_principal_unref(who);
    }
    return r;
}

/* Makes the principal of a token or S3 key from a database row, whose columns 0..3 are user, role, scope and
 * expires_us. `token` is the token's id, "" for an S3 key. */
static int read_principal(const struct pl_rows *rows, const struct directory *d, const char *token,
                          const struct credential *before, struct pl_principal **ret, struct pl_err *err)
{
    const char *name = pl_col_text(rows, 0);
    const struct pl_principal *user = pl_map_get(&d->users, name, strlen(name));
    struct pl_principal_user from = {.name = name, .token = token, .expires_us = pl_col_int(rows, 3)};
    int r = user ? 0 : pl_err_set(err, PL_EINTERNAL, "a token belongs to user \"%s\", which does not exist", name);

    if (r == 0 && read_role(pl_col_text(rows, 1), &from.limit.role) == 0) {
        from.grants = user->grants;
        from.n_grants = user->n_grants;
    }
    snprintf(from.limit.scope, sizeof from.limit.scope, "%s", pl_col_text(rows, 2));
    r = r < 0 ? r : pl_principal_user(&from, ret, err);
    if (r == 0)
        *ret = same_as(*ret, before ? before->who : NULL);
    return r;
}

/* Reads all tokens into `d`, by hash and by id. */
static int read_tokens(struct pl_conn *c, const struct directory *before, struct directory *d, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT user, role, scope, expires_us, hash FROM token", "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct credential *one = calloc(1, sizeof *one);
        char id[PL_TOKEN_ID_HEX + 1];

        if (!one)
            return pl_err_nomem(err);
        one->hash = pl_col_hash(&rows, 4);
        pl_token_id(&one->hash, id);
        r = read_principal(&rows, d, id, before ? pl_map_get(&before->tokens, one->hash.b, PL_HASH_BYTES) : NULL, &one->who, err);
        r = r < 0 ? r : pl_map_put(&d->tokens, one->hash.b, PL_HASH_BYTES, one, NULL, err);
        if (r < 0) {
            free_credential(one);
            return r;
        }
        r = pl_map_put(&d->ids, id, PL_TOKEN_ID_HEX, one, NULL, err);
    }
    return r;
}

static void secret_finish(struct pl_buf *b)
{
    if (b->data)
        OPENSSL_cleanse(b->data, b->len);
    pl_buf_finish(b);
}

/* Reads all S3 keys into `d` and checks that each sealed secret can be decrypted. */
static int read_keys(const struct pl_access *a, struct pl_conn *c, const struct directory *before, struct directory *d,
                     struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT k.user, k.role, k.scope, k.expires_us, k.access_key, s.sealed FROM s3_key k"
                         " LEFT JOIN s3_secret s ON s.access_key = k.access_key",
                         "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct credential *one = calloc(1, sizeof *one);
        const char *key = pl_col_text(&rows, 4);
        const void *sealed = sqlite3_column_blob(rows.stmt, 5);
        _cleanup_(secret_finish) struct pl_buf plain = {0};

        if (!one)
            return pl_err_nomem(err);
        snprintf(one->access_key, sizeof one->access_key, "%s", key);
        r = sealed ? pl_buf_add(&one->sealed, sealed, (size_t)sqlite3_column_bytes(rows.stmt, 5), err) : 0;
        r = r < 0 ? r : read_principal(&rows, d, "", before ? pl_map_get(&before->keys, key, strlen(key)) : NULL, &one->who, err);
        one->opens = r == 0 && one->sealed.len && pl_unseal(a->master, key, one->sealed.data, one->sealed.len, &plain, NULL) == 0;
        d->shut += one->sealed.len && !one->opens;
        r = r < 0 ? r : pl_map_put(&d->keys, key, strlen(key), one, NULL, err);
        if (r < 0) {
            free_credential(one);
            return r;
        }
    }
    return r;
}

static int read_all(struct pl_access *a, const struct directory *before, struct directory **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->db);
    _cleanup_(directory_destroyp) struct directory *d = calloc(1, sizeof *d);
    /* one transaction: a consistent view of the three tables */
    int r = d ? pl_sql_script(rd.conn, "BEGIN", err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    r = read_users(rd.conn, before, d, err);
    r = r < 0 ? r : read_tokens(rd.conn, before, d, err);
    r = r < 0 ? r : read_keys(a, rd.conn, before, d, err);
    if (pl_sql_script(rd.conn, "COMMIT", NULL) < 0 && r >= 0)
        r = pl_err_set(err, PL_EIO, "cannot end the transaction that reads users, tokens and S3 keys");
    if (r < 0)
        return r;
    *ret = TAKE_PTR(d);
    return 0;
}

/* ---- reload ---- */

static struct pl_principal *principal_of(void *value, bool user)
{
    return user ? value : ((struct credential *)value)->who;
}

/* Revokes the principals of directory `before` that are missing or changed in directory `now`; if `now` is
 * NULL, all of them. */
static void revoke_missing(const struct pl_map *before, const struct pl_map *now, bool user)
{
    const struct pl_map_slot *slot;
    size_t i = 0;

    while ((slot = pl_map_next(before, &i)) != NULL) {
        struct pl_principal *who = principal_of(slot->value, user);
        void *value = now ? pl_map_get(now, slot->key, slot->key_len) : NULL;

        if (!value || principal_of(value, user) != who)
            atomic_store(&who->revoked, true);
    }
}

static void revoke_gone(const struct directory *before, const struct directory *now)
{
    revoke_missing(&before->users, now ? &now->users : NULL, true);
    revoke_missing(&before->tokens, now ? &now->tokens : NULL, false);
    revoke_missing(&before->keys, now ? &now->keys : NULL, false);
}

static void tell_shut(struct pl_access *a, size_t shut)
{
    if (shut && shut != a->shut)
        pl_log_error("access",
                     "%zu S3 keys cannot be used, because they were sealed with another master.key than the one in DIR: restore "
                     "that file, or delete the keys and create new ones (pipelinectl list s3-key)",
                     shut);
    a->shut = shut;
}

int pl_access_reload(struct pl_access *a, struct pl_err *err)
{
    struct directory *before, *fresh = NULL;
    int r;

    pthread_mutex_lock(&a->reloading);
    /* `a->now` changes only while `reloading` is held, so it can be read without `lock` */
    r = read_all(a, a->now, &fresh, err);
    pthread_rwlock_wrlock(&a->lock);
    before = a->now;
    a->now = fresh;
    pthread_rwlock_unlock(&a->lock);
    if (before)
        revoke_gone(before, fresh);
    if (fresh)
        tell_shut(a, fresh->shut);
    directory_destroy(before);
    pthread_mutex_unlock(&a->reloading);
    return r < 0 ? pl_err_wrap(err, r, "cannot read users and tokens; until this works, only the daemon's own token is accepted")
                 : 0;
}

int pl_access_open(struct pl_db *db, const uint8_t master[PL_SEAL_KEY_BYTES], struct pl_access **ret, struct pl_err *err)
{
    struct pl_access *a = calloc(1, sizeof *a);
    int r;

    if (!a)
        return pl_err_nomem(err);
    a->db = db;
    memcpy(a->master, master, sizeof a->master);
    pthread_mutex_init(&a->reloading, NULL);
    pthread_rwlock_init(&a->lock, NULL);
    r = pl_access_reload(a, err);
    if (r < 0) {
        pl_access_close(a);
        return r;
    }
    *ret = a;
    return 0;
}

struct pl_access *pl_access_close(struct pl_access *a)
{
    if (!a)
        return NULL;
    directory_destroy(a->now);
    pthread_rwlock_destroy(&a->lock);
    pthread_mutex_destroy(&a->reloading);
    OPENSSL_cleanse(a->master, sizeof a->master);
    free(a);
    return NULL;
}

/* ---- new tokens and keys ---- */

void pl_token_make(const char *start, char out[PL_TOKEN_CHARS + 1], struct pl_hash *ret_hash)
{
    uint8_t random[(PL_TOKEN_CHARS - 4) / 2];

    assert(strlen(start) == strlen(PL_TOKEN_START));
    pl_random_bytes(random, sizeof random);
    memcpy(out, start, strlen(start));
    pl_hex_encode(random, sizeof random, out + strlen(start));
    pl_hash_sha256(out, PL_TOKEN_CHARS, ret_hash);
}

char *pl_token_id(const struct pl_hash *hash, char out[PL_TOKEN_ID_HEX + 1])
{
    pl_hex_encode(hash->b, PL_TOKEN_ID_HEX / 2, out);
    return out;
}

/* Fills `out` with `n` random letters and digits, five random bits each. */
static void random_text(char *out, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    uint8_t random[64];

    pl_random_bytes(random, n);
    for (size_t i = 0; i < n; i++)
        out[i] = letters[random[i] & 31];
    out[n] = '\0';
    OPENSSL_cleanse(random, sizeof random);
}

void pl_s3_key_make(char access_key[PL_S3_KEY_CHARS + 1], char secret[PL_S3_SECRET_CHARS + 1])
{
    memcpy(access_key, "PL", 2);
    random_text(access_key + 2, PL_S3_KEY_CHARS - 2);
    random_text(secret, PL_S3_SECRET_CHARS);
}

/* ---- look-ups ---- */

static int not_ready(struct pl_err *err)
{
    return pl_err_set(err, PL_EBUSY, "the daemon could not read its users: try again, or restart it");
}

/* Gives a new reference to the principal, unless its credential has expired. The caller holds the lock. */
static int take(struct pl_principal *who, const char *what, struct pl_principal **ret, struct pl_err *err)
{
    if (who->expires_us && pl_clock_wall_us() >= who->expires_us)
        return pl_err_set(err, PL_EAUTH, "%s has expired: create a new one", what);
    *ret = pl_principal_ref(who);
    return 0;
}

int pl_access_token(struct pl_access *a, const char *token, struct pl_principal **ret, struct pl_err *err)
{
    struct pl_hash given;

    pl_hash_sha256(token, strlen(token), &given);
    return pl_access_token_by_hash(a, &given, ret, err);
}

int pl_access_token_by_hash(struct pl_access *a, const struct pl_hash *hash, struct pl_principal **ret, struct pl_err *err)
{
    const struct credential *one;
    int r;

    pthread_rwlock_rdlock(&a->lock);
    one = a->now ? pl_map_get(&a->now->tokens, hash->b, PL_HASH_BYTES) : NULL;
    if (!a->now)
        r = not_ready(err);
    else if (!one || !pl_secret_eq(one->hash.b, hash->b, PL_HASH_BYTES))
        r = pl_err_set(err, PL_EAUTH, "unknown token: it belongs to another daemon, or was deleted");
    else
        r = take(one->who, "the token", ret, err);
    pthread_rwlock_unlock(&a->lock);
    return r;
}

int pl_access_token_by_id(struct pl_access *a, const char *id, struct pl_hash *ret_hash, struct pl_principal **ret,
                          struct pl_err *err)
{
    const struct credential *one;
    int r;

    pthread_rwlock_rdlock(&a->lock);
    one = a->now ? pl_map_get(&a->now->ids, id, strlen(id)) : NULL;
    if (!a->now)
        r = not_ready(err);
    else if (!one)
        r = pl_err_set(err, PL_EAUTH, "the token of this login session was deleted");
    else
        r = take(one->who, "the token of this login session", ret, err);
    if (r == 0)
        *ret_hash = one->hash;
    pthread_rwlock_unlock(&a->lock);
    return r;
}

int pl_access_user(struct pl_access *a, const char *name, struct pl_principal **ret, struct pl_err *err)
{
    struct pl_principal *who;
    int r;

    pthread_rwlock_rdlock(&a->lock);
    who = a->now ? pl_map_get(&a->now->users, name, strlen(name)) : NULL;
    if (!a->now)
        r = not_ready(err);
    else if (!who)
        r = pl_err_hint(err, pl_err_set(err, PL_EAUTH, "user \"%.64s\" does not exist here", name),
                        "An admin can create the user: pipelinectl create user NAME");
    else
        r = take(who, "the user", ret, err);
    pthread_rwlock_unlock(&a->lock);
    return r;
}

static int unseal(const struct pl_access *a, const struct credential *one, char ret_secret[PL_S3_SECRET_CHARS + 1],
                  struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf plain = {0};
    int r = one->sealed.len ? pl_unseal(a->master, one->access_key, one->sealed.data, one->sealed.len, &plain, err) : PL_ECORRUPT;

    if (r == 0 && plain.len == PL_S3_SECRET_CHARS) {
        memcpy(ret_secret, plain.data, PL_S3_SECRET_CHARS);
        ret_secret[PL_S3_SECRET_CHARS] = '\0';
        OPENSSL_cleanse(plain.data, plain.len);
        return 0;
    }
    if (r == PL_ENOMEM)
        return r;
    return pl_err_set(err, PL_EAUTH,
                      one->sealed.len
                          ? "the secret of S3 key %s was sealed with another master.key: restore that file, or create a new key"
                          : "the secret of S3 key %s was lost with the machine on which it was created: create a new key",
                      one->access_key);
}

bool pl_access_s3_key_opens(struct pl_access *a, const char *access_key)
{
    const struct credential *one;
    bool opens;

    pthread_rwlock_rdlock(&a->lock);
    one = a->now ? pl_map_get(&a->now->keys, access_key, strlen(access_key)) : NULL;
    opens = one && one->opens;
    pthread_rwlock_unlock(&a->lock);
    return opens;
}

int pl_access_s3_key(struct pl_access *a, const char *access_key, char ret_secret[PL_S3_SECRET_CHARS + 1],
                     struct pl_principal **ret, struct pl_err *err)
{
    struct pl_principal *who = NULL;
    const struct credential *one;
    int r;

    pthread_rwlock_rdlock(&a->lock);
    one = a->now ? pl_map_get(&a->now->keys, access_key, strlen(access_key)) : NULL;
    if (!a->now)
        r = not_ready(err);
    else if (!one)
        r = pl_err_set(err, PL_EAUTH, "S3 key \"%.40s\" does not exist here", access_key);
    else
        r = take(one->who, "the S3 key", &who, err);
    r = r < 0 ? r : unseal(a, one, ret_secret, err);
    pthread_rwlock_unlock(&a->lock);
    if (r < 0)
        pl_principal_unref(who);
    else
        *ret = who;
    return r;
}

bool pl_access_may_read(const void *who, const char *project, const char *name)
{
    if (project && name)
        return pl_principal_may(who, PL_VERB_READ, project, name);
    if (project)
        return pl_principal_may(who, PL_VERB_READ_PIPELINES, project, NULL);
    return pl_principal_role(who, PL_PERMISSION_SCOPE_ALL, NULL, NULL) >= PL_ROLE_READER;
}
