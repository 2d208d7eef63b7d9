/* Each transaction checks existence and bounds, emits its record, and adds an entry to the audit log. */
#include "pipelined/db/tx/access_tx.h"

#define AUDIT_TRIM_EVERY 256

/* ---- audit ---- */

int pl_tx_audit(struct pl_tx *tx, const struct pl_audit *a, struct pl_err *err)
{
    struct pl_conn *c = pl_tx_conn(tx);
    int r = pl_sql_exec(c, err, "INSERT INTO audit(at_us, who, token, peer, verb, target) VALUES (?, ?, ?, ?, ?, ?)", "isssss",
                        pl_tx_now_us(tx), a->who, a->token ? a->token : "", a->peer, a->verb, a->target ? a->target : "");
    int64_t last = 0;

    r = r < 0 ? r : pl_sql_int(c, err, &last, "SELECT max(id) FROM audit", "");
    if (r < 0 || last % AUDIT_TRIM_EVERY)
        return PL_MIN(r, 0);
    r = pl_sql_exec(c, err, "DELETE FROM audit WHERE id <= ? OR (at_us < ? AND id < ?)", "iii", last - PL_AUDIT_ROWS_MAX,
                    pl_tx_now_us(tx) - (int64_t)PL_AUDIT_DAYS * 86400 * 1000000, last);
    return PL_MIN(r, 0);
}

int pl_tx_audit_alone(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_tx_audit(tx, arg, err);
}

/* ---- users ---- */

static int no_user(const char *name, struct pl_err *err)
{
    int r = pl_err_set(err, PL_ENOTFOUND, "user \"%s\" does not exist", name);

    return pl_err_hint(err, r, "pipelinectl create user %s", name);
}

/* Checks that there are fewer than `max` users, tokens or keys in all. `count` is the text of the query that
 * counts them. */
static int check_count(struct pl_tx *tx, const char *count, int64_t max, const char *what, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &n, count, "");

    if (r == 0 && n >= max)
        r = pl_err_set(err, PL_ELIMIT, "there are %lld %s already, the largest number allowed: delete unused ones", (long long)n,
                       what);
    return r;
}

/* Checks that the user has fewer than PL_USER_KEYS_MAX tokens or keys, so that one user cannot use up the
 * total limit. `count` is the text of the query that counts them. */
static int check_own(struct pl_tx *tx, const char *count, const char *user, const char *what, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &n, count, "s", user);

    if (r == 0 && n >= PL_USER_KEYS_MAX)
        r = pl_err_set(err, PL_ELIMIT, "user \"%s\" has %lld %s already, the largest number allowed: delete unused ones", user,
                       (long long)n, what);
    return r;
}

static int read_roles(struct pl_tx *tx, const char *user, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows, "SELECT roles FROM user WHERE name = ?", "s", user);

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r <= 0)
        return r;
    *ret = pl_col_json(&rows, 0);
    return *ret ? 1 : pl_err_nomem(err);
}

static const char *scope_of(const json_t *pair)
{
    return json_string_value(json_array_get(pair, 0));
}

static bool same_project(const char *a, const char *b)
{
    size_t len = strcspn(a, "/");

    return len == strcspn(b, "/") && memcmp(a, b, len) == 0;
}

/* Sets the role that `pair` ([scope, role]) names on its scope, or removes it if the role is "none". Each
 * project has its own limit, so that the admins of one project cannot use up another's. A change of an
 * existing role is never refused. */
static int set_role(const struct pl_user_args *a, json_t *roles, json_t *pair, struct pl_err *err)
{
    size_t i, there = 0, before = json_array_size(roles);
    const char *scope = scope_of(pair);
    json_t *one;

    json_array_foreach(roles, i, one)
    {
        if (pl_streq(scope_of(one), scope)) {
            json_array_remove(roles, i);
            break;
        }
        there += same_project(scope_of(one), scope);
    }
    if (pl_streq(json_string_value(json_array_get(pair, 1)), "none"))
        return 0;
    if (json_array_size(roles) == before && there >= a->project_roles_max)
        return pl_err_set(err, PL_ELIMIT,
                          "user \"%s\" has %zu roles in project \"%.*s\", the largest number allowed: give a role for the whole "
                          "project instead",
                          a->name, there, (int)strcspn(scope, "/"), scope);
    return pl_json_add(roles, json_incref(pair), err);
}

int pl_tx_user_set(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_user_args *a = arg;
    _cleanup_(json_decrefp) json_t *roles = NULL;
    json_t *pair;
    size_t i;
    int r = read_roles(tx, a->name, &roles, err);

    if (r > 0 && a->create)
        return pl_err_set(err, PL_EEXISTS, "user \"%s\" exists already: change roles with update user", a->name);
    if (r == 0 && !a->create)
        return no_user(a->name, err);
    if (r == 0)
        r = check_count(tx, "SELECT count(*) FROM user", PL_USERS_MAX, "users", err);
    roles = roles ? roles : json_array();
    json_array_foreach(a->roles, i, pair)
    {
        r = r < 0 ? r : set_role(a, roles, pair, err);
    }
    r = r < 0
            ? r
            : pl_tx_emit(tx, PL_RECORD_USER,
                         json_pack("{s:s, s:I, s:O}", "name", a->name, "at", (json_int_t)pl_tx_now_us(tx), "roles", roles), err);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

int pl_tx_user_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_user_args *a = arg;
    _cleanup_(json_decrefp) json_t *roles = NULL;
    int r = read_roles(tx, a->name, &roles, err);

    if (r <= 0)
        return r < 0 ? r : no_user(a->name, err);
    r = pl_tx_emit(tx, PL_RECORD_USER_DELETE, json_pack("{s:s}", "name", a->name), err);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

/* ---- tokens and keys ---- */

static int need_user(struct pl_tx *tx, const char *user, struct pl_err *err)
{
    int64_t one;
    int r = pl_sql_int(pl_tx_conn(tx), err, &one, "SELECT 1 FROM user WHERE name = ?", "s", user);

    return r == PL_ENOTFOUND ? no_user(user, err) : r;
}

/* Makes the fields of a log record that tokens and keys share, and adds the fields of `known`, an object with
 * the credential's "hash" or "access_key". Releases `known`. */
static json_t *credential_record(struct pl_tx *tx, const struct pl_credential_args *a, json_t *known)
{
    json_t *rest = json_pack("{s:I, s:I, s:s, s:s, s:s, s:s}", "at", (json_int_t)pl_tx_now_us(tx), "expires",
                             (json_int_t)a->expires_us, "name", a->name, "role", a->role, "scope", a->scope, "user", a->user);

    if (!known || !rest || json_object_update(rest, known) < 0) {
        json_decref(rest);
        rest = NULL;
    }
    json_decref(known);
    return rest;
}

static json_t *token_known(const struct pl_credential_args *a)
{
    char hex[PL_HASH_HEX + 1];

    return json_pack("{s:s}", "hash", pl_hash_hex(&a->hash, hex));
}

int pl_tx_token_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_credential_args *a = arg;
    int r = need_user(tx, a->user, err);

    r = r < 0 ? r : check_own(tx, "SELECT count(*) FROM token WHERE user = ?", a->user, "tokens", err);
    r = r < 0 ? r : check_count(tx, "SELECT count(*) FROM token", PL_TOKENS_MAX, "tokens", err);
    r = r < 0 ? r : pl_tx_emit(tx, PL_RECORD_TOKEN, credential_record(tx, a, token_known(a)), err);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

int pl_tx_token_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_credential_args *a = arg;
    int64_t one;
    int r = pl_sql_int(pl_tx_conn(tx), err, &one, "SELECT 1 FROM token WHERE hash = ?", "h", &a->hash);

    if (r < 0)
        return r == PL_ENOTFOUND ? 0 : r;
    r = pl_tx_emit(tx, PL_RECORD_TOKEN_DELETE, token_known(a), err);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

int pl_tx_token_rotate(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_credential_args *a = arg, old = {.hash = a->old};
    int64_t one;
    int r = pl_sql_int(pl_tx_conn(tx), err, &one, "SELECT 1 FROM token WHERE hash = ?", "h", &a->old);

    r = r < 0 ? r : pl_tx_emit(tx, PL_RECORD_TOKEN_DELETE, token_known(&old), err);
    r = r < 0 ? r : pl_tx_emit(tx, PL_RECORD_TOKEN, credential_record(tx, a, token_known(a)), err);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

int pl_tx_s3_key_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_credential_args *a = arg;
    int r = need_user(tx, a->user, err);

    r = r < 0 ? r : check_own(tx, "SELECT count(*) FROM s3_key WHERE user = ?", a->user, "S3 keys", err);
    r = r < 0 ? r : check_count(tx, "SELECT count(*) FROM s3_key", PL_S3_KEYS_MAX, "S3 keys", err);
    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_S3_KEY, credential_record(tx, a, json_pack("{s:s}", "access_key", a->access_key)), err);
    r = r < 0 ? r
              : pl_sql_exec(pl_tx_conn(tx), err, "INSERT INTO s3_secret(access_key, sealed) VALUES (?, ?)", "sb", a->access_key,
                            a->sealed, a->sealed_len);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

int pl_tx_s3_key_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_credential_args *a = arg;
    int64_t one;
    int r = pl_sql_int(pl_tx_conn(tx), err, &one, "SELECT 1 FROM s3_key WHERE access_key = ?", "s", a->access_key);

    if (r < 0)
        return r == PL_ENOTFOUND ? 0 : r;
    r = pl_tx_emit(tx, PL_RECORD_S3_KEY_DELETE, json_pack("{s:s}", "access_key", a->access_key), err);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}
