/* Users and their roles, tokens, S3 keys, and the audit log of changes to them. A secret is in a reply only
 * once, when it is created. */
#include "pipelined/api/access/access.h"
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/tx/access_tx.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"

#include <openssl/crypto.h>
#include <stdio.h>

#define EXPIRES_MAX_MS (3650LL * 86400 * 1000)

static const struct pl_principal *asker(const struct pl_http_request *req)
{
    return pl_http_context(req);
}

static bool operates(const struct pl_http_request *req)
{
    return pl_principal_may(asker(req), PL_VERB_OPERATE, NULL, NULL);
}

static struct pl_audit audit_of(const struct pl_http_request *req, const char *verb, const char *target)
{
    return pl_api_audit_entry(req, asker(req), verb, target);
}

/* Checks that the principal may see and change what belongs to `user`: it is that user, or an operator. */
static int check_own(const struct pl_http_request *req, const char *user, struct pl_err *err)
{
    if (asker(req)->kind == PL_PRINCIPAL_USER && pl_streq(user, asker(req)->name))
        return 0;
    return pl_api_may(req, PL_VERB_OPERATE, NULL, NULL, err);
}

/* Makes a committed change take effect: reloads the credentials and ends streams of revoked principals. */
static int take_effect(struct pl_api *a, struct pl_err *err)
{
    int r = pl_access_reload(a->services.access, err);

    pl_sse_hub_look(a->hub);
    return r;
}

static int change(struct pl_api *a, pl_tx_fn fn, void *args, struct pl_err *err)
{
    int r = pl_db_run(a->config.db, PL_TX_LOGGED, fn, args, err);

    return r < 0 ? r : take_effect(a, err);
}

/* ---- users ---- */

/* Converts [[scope, role]…] of the database to [{"scope", "role"}…]. */
static json_t *roles_json(const json_t *pairs)
{
    json_t *list = json_array(), *pair;
    size_t i;

    json_array_foreach(pairs, i, pair)
        json_array_append_new(list, json_pack("{s:O, s:O}", "scope", json_array_get(pair, 0), "role", json_array_get(pair, 1)));
    return list;
}

static json_t *user_json(const struct pl_rows *rows)
{
    _cleanup_(json_decrefp) json_t *roles = pl_col_json(rows, 1);

    return json_pack("{s:s, s:o, s:I, s:I, s:I}", "name", pl_col_text(rows, 0), "roles", roles_json(roles), "created_us",
                     (json_int_t)pl_col_int(rows, 2), "tokens", (json_int_t)pl_col_int(rows, 3), "s3_keys",
                     (json_int_t)pl_col_int(rows, 4));
}

#define USER_SELECT                                                                                                              \
    "SELECT name, roles, created_us, (SELECT count(*) FROM token t WHERE t.user = u.name),"                                      \
    " (SELECT count(*) FROM s3_key k WHERE k.user = u.name) FROM user u"

static int read_user(struct pl_api *a, const char *name, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, USER_SELECT " WHERE name = ?", "s", name);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "user \"%.64s\" does not exist", name);
    *ret = user_json(&rows);
    return 0;
}

static int list_users(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    char last[PL_USER_MAX + 1] = "";
    struct pl_api_page page;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows, USER_SELECT " WHERE name > ? ORDER BY name LIMIT ?", "si",
                             page.after ? page.after : "", (int64_t)page.limit + 1);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0 && json_array_size(items) < page.limit) {
        snprintf(last, sizeof last, "%s", pl_col_text(&rows, 0));
        json_array_append_new(items, user_json(&rows));
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("users", TAKE_PTR(items), r > 0 ? last : NULL);
    return 0;
}

/* Reads the request's [{"scope", "role"}…] as checked pairs. Granting a role in a project needs the project's
 * admin role; granting one over everything needs the operator's. */
static int read_roles(const struct pl_http_request *req, const json_t *roles, json_t *out, struct pl_err *err)
{
    const json_t *one;
    size_t i;
    int r = 0;

    if (roles && !json_is_array(roles))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "roles: a list of {\"scope\", \"role\"} is expected"), "roles");
    json_array_foreach(roles, i, one)
    {
        const char *scope = pl_json_text_at(one, "scope"), *role = pl_json_text_at(one, "role");
        char project[PL_SCOPE_MAX + 1];
        enum pl_role parsed;

        if (!role)
            return pl_err_field(
                err, pl_err_set(err, PL_EINVAL, "roles[%zu] has no role; accepted: reader, writer, admin, metrics, none", i),
                "role");
        scope = scope ? scope : "";
        r = pl_streq(role, "none") ? 0 : pl_role_parse(role, &parsed, err);
        r = r < 0 ? r : pl_scope_check(scope, err);
        if (r == 0 && pl_streq(role, "metrics") && *scope)
            r = pl_err_field(err,
                             pl_err_set(err, PL_EINVAL,
                                        "the role metrics over \"%s\": it holds over everything, so leave the scope out", scope),
                             "scope");
        if (r < 0)
            return r;
        snprintf(project, sizeof project, "%.*s", (int)strcspn(scope, "/"), scope);
        r = pl_api_may(req, *project ? PL_VERB_DELETE_PROJECT : PL_VERB_OPERATE, project, NULL, err);
        r = r < 0 ? r : pl_json_add(out, json_pack("[s, s]", scope, role), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int create_user(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *roles = NULL, *pairs = json_array();
    struct pl_user_args args = {.roles = pairs, .project_roles_max = PL_PROJECT_GRANTS_MAX, .create = true};
    int r = pl_api_body(req, &body, err, "{s:s, s?:O}", "name", &args.name, "roles", &roles);

    r = r < 0 ? r : pl_user_check(args.name, err);
    r = r < 0 ? r : read_roles(req, roles, pairs, err);
    if (r < 0)
        return r;
    args.audit = audit_of(req, "create user", args.name);
    r = change(a, pl_tx_user_set, &args, err);
    r = r < 0 ? r : read_user(a, args.name, ret, err);
    return r < 0 ? r : 201;
}

/* Appends the text for the audit log: "bob images:reader". */
static void tell_roles(const char *user, const json_t *pairs, struct pl_buf *out)
{
    const json_t *pair;
    size_t i;

    if (pl_buf_add_str(out, user, NULL) < 0)
        return;
    json_array_foreach(pairs, i, pair)
    {
        const char *scope = json_string_value(json_array_get(pair, 0));

        if (pl_buf_addf(out, NULL, " %s:%s", *scope ? scope : "everything", json_string_value(json_array_get(pair, 1))) < 0)
            return;
    }
}

/* Sets roles of a user. An admin of a project may set roles in the project for any user whose name they
 * know; the reply to such an admin has only the roles that were set, and nothing else about the user. */
static int update_user(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *roles = NULL, *pairs = json_array();
    _cleanup_(pl_buf_finish) struct pl_buf told = {0};
    struct pl_user_args args = {.name = pl_http_param(req, "user"), .roles = pairs, .project_roles_max = PL_PROJECT_GRANTS_MAX};
    int r = pl_api_body(req, &body, err, "{s:O}", "roles", &roles);

    r = r < 0 ? r : read_roles(req, roles, pairs, err);
    if (r == 0 && json_array_size(pairs) == 0)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "roles is empty: there is nothing to change"), "roles");
    if (r < 0)
        return r;
    tell_roles(args.name, pairs, &told);
    if (!pl_buf_str(&told))
        return pl_err_nomem(err);
    args.audit = audit_of(req, "update user", pl_buf_str(&told));
    r = change(a, pl_tx_user_set, &args, err);
    if (r < 0)
        return r;
    if (operates(req))
        return read_user(a, args.name, ret, err);
    *ret = json_pack("{s:s, s:o}", "name", args.name, "roles", roles_json(pairs));
    return 0;
}

static int inspect_user(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    int r = check_own(req, pl_http_param(req, "user"), err);

    return r < 0 ? r : read_user(a, pl_http_param(req, "user"), ret, err);
}

static int delete_user(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_user_args args = {.name = pl_http_param(req, "user")};

    (void)ret;
    args.audit = audit_of(req, "delete user", args.name);
    return change(a, pl_tx_user_delete, &args, err);
}

/* Replies with the principal's name and its roles, as far as the limit of its token allows them. */
static int who_am_i(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const struct pl_principal *who = asker(req);
    json_t *roles = json_array();

    (void)a;
    (void)err;
    for (size_t i = 0; i < who->n_grants; i++)
        json_array_append_new(roles,
                              json_pack("{s:s, s:s}", "scope", who->grants[i].scope, "role", pl_role_name(who->grants[i].role)));
    *ret = json_pack("{s:s, s:s, s:I, s:o}", "name", who->name, "token", who->token, "expires_us", (json_int_t)who->expires_us,
                     "roles", roles);
    return 0;
}

/* ---- tokens and S3 keys ---- */

/* The properties of a new token or S3 key. Its texts belong to `body`. */
struct wanted {
    json_t *body;
    struct pl_credential_args args;
};

static void wanted_finish(struct wanted *w)
{
    json_decref(w->body);
}

/* Limits a new token or S3 key to the remaining life of the requesting token, and, except for operators, to
 * that token's role and scope. */
static int check_limit(const struct pl_http_request *req, struct wanted *w, struct pl_err *err)
{
    const struct pl_principal *who = asker(req);
    struct pl_grant wanted = {0};
    int r = pl_role_parse(w->args.role, &wanted.role, err);

    if (r == 0 && wanted.role == PL_ROLE_METRICS) /* a user's role, not a limit: tables and log know three limits */
        r = pl_err_field(
            err,
            pl_err_set(err, PL_EINVAL,
                       "role: the limit \"metrics\" is not accepted; accepted: reader, writer, admin; a token of a user "
                       "whose only role is metrics reads only /metrics"),
            "role");
    r = r < 0 ? r : pl_scope_check(w->args.scope, err);
    if (who->expires_us && (!w->args.expires_us || w->args.expires_us > who->expires_us))
        w->args.expires_us = who->expires_us;
    if (r < 0 || operates(req))
        return r;
    snprintf(wanted.scope, sizeof wanted.scope, "%s", w->args.scope);
    if (wanted.role > who->limit.role || !pl_scope_covers(who->limit.scope, wanted.scope))
        return pl_err_set(err, PL_EFORBIDDEN, "your token has the role %s over %s, and a token that it creates cannot have more",
                          pl_role_name(who->limit.role), *who->limit.scope ? who->limit.scope : "everything");
    return 0;
}

static int read_expires(const char *text, int64_t *ret_us, struct pl_err *err)
{
    int64_t ms = 0;
    int r = text ? pl_duration_parse(text, &ms, err) : 0;

    if (r == 0 && text && (ms <= 0 || ms > EXPIRES_MAX_MS))
        r = pl_err_set(err, PL_EINVAL, "expires: \"%.40s\" is out of range; accepted: 1s to 3650d, or nothing", text);
    if (r == 0 && text)
        *ret_us = pl_clock_wall_us() + ms * 1000;
    return r < 0 ? pl_err_field(err, r, "expires") : 0;
}

/* Reads the request for a token or S3 key and checks it. */
static int read_wanted(struct pl_http_request *req, struct wanted *w, struct pl_err *err)
{
    const struct pl_principal *who = asker(req);
    const char *expires = NULL;
    int r;

    w->args = (struct pl_credential_args){.name = "",
                                          .user = who->kind == PL_PRINCIPAL_USER ? who->name : NULL,
                                          .role = pl_role_name(who->limit.role),
                                          .scope = who->limit.scope};
    r = pl_api_body(req, &w->body, err, "{s?:s, s?:s, s?:s, s?:s, s?:s}", "user", &w->args.user, "name", &w->args.name, "role",
                    &w->args.role, "scope", &w->args.scope, "expires", &expires);
    if (r == 0 && !w->args.user)
        r = pl_err_hint(
            err,
            pl_err_field(err,
                         pl_err_set(err, PL_EINVAL,
                                    "user: the daemon's own token belongs to no user: name the user to create the new one for"),
                         "user"),
            "Create one with pipelinectl create user NAME --role ROLE, then name that user.");
    if (r == 0 && strlen(w->args.name) > 200)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "name: %zu bytes; at most 200", strlen(w->args.name)), "name");
    r = r < 0 ? r : check_own(req, w->args.user, err);
    r = r < 0 ? r : read_expires(expires, &w->args.expires_us, err);
    return r < 0 ? r : check_limit(req, w, err);
}

static json_t *wanted_json(const struct wanted *w)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I}", "user", w->args.user, "name", w->args.name, "role", w->args.role, "scope",
                     w->args.scope, "expires_us", (json_int_t)w->args.expires_us);
}

static int create_token(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(wanted_finish) struct wanted w = {0};
    char token[PL_TOKEN_CHARS + 1], id[PL_TOKEN_ID_HEX + 1], target[PL_USER_MAX + PL_TOKEN_ID_HEX + 2];
    int r = read_wanted(req, &w, err);

    if (r < 0)
        return r;
    pl_token_make(PL_TOKEN_START, token, &w.args.hash);
    snprintf(target, sizeof target, "%s %s", w.args.user, pl_token_id(&w.args.hash, id));
    w.args.audit = audit_of(req, "create token", target);
    r = change(a, pl_tx_token_create, &w.args, err);
    if (r == 0) {
        *ret = wanted_json(&w);
        json_object_set_new(*ret, "id", json_string(id));
        json_object_set_new(*ret, "token", json_string(token));
    }
    OPENSSL_cleanse(token, sizeof token);
    return r < 0 ? r : 201;
}

/* Creates an S3 key: seals its secret with the master key, stores it, and replies with the secret. */
static int create_s3_key(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(wanted_finish) struct wanted w = {0};
    _cleanup_(pl_buf_finish) struct pl_buf sealed = {0};
    char key[PL_S3_KEY_CHARS + 1], secret[PL_S3_SECRET_CHARS + 1], target[PL_USER_MAX + PL_S3_KEY_CHARS + 2];
    int r = read_wanted(req, &w, err);

    if (r < 0)
        return r;
    pl_s3_key_make(key, secret);
    r = pl_seal(a->config.master_key, key, secret, PL_S3_SECRET_CHARS, &sealed, err);
    snprintf(target, sizeof target, "%s %s", w.args.user, key);
    w.args.access_key = key;
    w.args.sealed = sealed.data;
    w.args.sealed_len = sealed.len;
    w.args.audit = audit_of(req, "create s3-key", target);
    r = r < 0 ? r : change(a, pl_tx_s3_key_create, &w.args, err);
    if (r == 0) {
        *ret = wanted_json(&w);
        json_object_set_new(*ret, "access_key", json_string(key));
        json_object_set_new(*ret, "secret_key", json_string(secret));
    }
    OPENSSL_cleanse(secret, sizeof secret);
    return r < 0 ? r : 201;
}

/* Columns of tokens and S3 keys: id, user, name, role, scope, expires_us, created_us. */
#define TOKEN_SELECT                                                                                                             \
    "SELECT id, user, name, role, scope, expires_us, created_us FROM"                                                            \
    " (SELECT lower(substr(hex(hash), 1, 12)) AS id, * FROM token)"
#define S3_KEY_SELECT "SELECT id, user, name, role, scope, expires_us, created_us FROM (SELECT access_key AS id, * FROM s3_key)"

/* Columns of login sessions: id, user, token_hash, peer, agent, expires_us, created_us. */
#define LOGIN_SESSION_SELECT "SELECT id, user, token_hash, peer, agent, expires_us, created_us FROM login_session"

struct kind {
    const char *select, *list, *id, *what;
};
static const struct kind token_kind = {TOKEN_SELECT, "tokens", "id", "token"},
                         s3_key_kind = {S3_KEY_SELECT, "s3_keys", "access_key", "S3 key"},
                         login_session_kind = {LOGIN_SESSION_SELECT, "login_sessions", "id", "login session"};

/* Makes the JSON of a login session. State "ended": the token to which the session is bound was deleted,
 * replaced or has expired. */
static json_t *login_session_json(struct pl_api *a, const struct pl_http_request *req, const struct pl_rows *rows)
{
    _cleanup_(pl_principal_unrefp) struct pl_principal *token = NULL;
    bool daemon = pl_streq(pl_col_text(rows, 1), "daemon");
    const struct pl_hash hash = pl_col_hash(rows, 2);
    int64_t expires_us = pl_col_int(rows, 5);
    char id[PL_TOKEN_ID_HEX + 1];
    const char *state = "good";

    if (expires_us <= pl_clock_wall_us())
        state = "expired";
    else if (!daemon && pl_access_token_by_hash(a->services.access, &hash, &token, NULL) < 0)
        state = "ended";
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:b}", "id", pl_col_text(rows, 0), "user", pl_col_text(rows, 1),
                     "token", daemon ? "" : pl_token_id(&hash, id), "peer", pl_col_text(rows, 3), "agent", pl_col_text(rows, 4),
                     "expires_us", (json_int_t)expires_us, "created_us", (json_int_t)pl_col_int(rows, 6), "state", state,
                     "current", pl_streq(pl_col_text(rows, 0), asker(req)->session));
}

static json_t *credential_json(struct pl_api *a, const struct kind *kind, const struct pl_rows *rows)
{
    bool lost = kind == &s3_key_kind && !pl_access_s3_key_opens(a->services.access, pl_col_text(rows, 0));
    int64_t expires_us = pl_col_int(rows, 5);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s}", kind->id, pl_col_text(rows, 0), "user", pl_col_text(rows, 1),
                     "name", pl_col_text(rows, 2), "role", pl_col_text(rows, 3), "scope", pl_col_text(rows, 4), "expires_us",
                     (json_int_t)expires_us, "created_us", (json_int_t)pl_col_int(rows, 6), "state",
                     expires_us && expires_us <= pl_clock_wall_us() ? "expired"
                     : lost                                         ? "lost"
                                                                    : "good");
}

/* Lists one page of tokens, S3 keys or login sessions: the principal's own, or all for an operator. */
static int list_credentials(struct pl_api *a, struct pl_http_request *req, const struct kind *kind, json_t **ret,
                            struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    const char *user = pl_http_query(req, "user");
    char last[PL_S3_KEY_CHARS + 1] = "", sql[600];
    struct pl_api_page page;
    int r = pl_api_page_read(req, &page, err);

    if (!operates(req) && !user)
        user = asker(req)->name;
    r = r < 0 || !user ? r : check_own(req, user, err);
    snprintf(sql, sizeof sql, "%s WHERE id > ?1 AND (?2 IS NULL OR user = ?2) ORDER BY id LIMIT ?3", kind->select);
    r = r < 0 ? r : pl_sql_query(rd.conn, err, &rows, sql, "ssi", page.after ? page.after : "", user, (int64_t)page.limit + 1);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0 && json_array_size(items) < page.limit) {
        snprintf(last, sizeof last, "%s", pl_col_text(&rows, 0));
        json_array_append_new(items,
                              kind == &login_session_kind ? login_session_json(a, req, &rows) : credential_json(a, kind, &rows));
    }
    if (r < 0)
        return r;
    *ret = pl_api_list(kind->list, TAKE_PTR(items), r > 0 ? last : NULL);
    return 0;
}

static int list_tokens(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return list_credentials(a, req, &token_kind, ret, err);
}

static int list_s3_keys(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return list_credentials(a, req, &s3_key_kind, ret, err);
}

static int list_login_sessions(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return list_credentials(a, req, &login_session_kind, ret, err);
}

/* Finds the token or key by a prefix of its id, among those that the principal may see. */
static int find_credential(struct pl_api *a, const struct pl_http_request *req, const struct kind *kind,
                           char ret_id[PL_S3_KEY_CHARS + 1], char ret_user[PL_USER_MAX + 1], struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *start = pl_http_param(req, "id"), *user = operates(req) ? NULL : asker(req)->name;
    char sql[600];
    int r, found = 0;

    snprintf(sql, sizeof sql, "%s WHERE substr(id, 1, length(?1)) = ?1 AND (?2 IS NULL OR user = ?2) LIMIT 2", kind->select);
    r = strlen(start) < 4
            ? pl_err_set(err, PL_EINVAL, "\"%s\" is too short to identify a %s: give the first 4 digits of its id, or more",
                         start, kind->what)
            : pl_sql_query(rd.conn, err, &rows, sql, "ss", start, user);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        snprintf(ret_id, PL_S3_KEY_CHARS + 1, "%s", pl_col_text(&rows, 0));
        snprintf(ret_user, PL_USER_MAX + 1, "%s", pl_col_text(&rows, 1));
        found++;
    }
    if (r < 0)
        return r;
    if (found > 1)
        return pl_err_set(err, PL_ECONFLICT, "more than one %s begins with \"%s\": give more digits", kind->what, start);
    return found ? 0 : pl_err_set(err, PL_ENOTFOUND, "there is no %s \"%.60s\"", kind->what, start);
}

static int hash_of_id(struct pl_api *a, const char *id, struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT hash FROM token WHERE lower(substr(hex(hash), 1, 12)) = ?", "s", id);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r > 0)
        *ret = pl_col_hash(&rows, 0);
    return r < 0 ? r : r == 0 ? pl_err_set(err, PL_ENOTFOUND, "token %s was deleted just now", id) : 0;
}

/* Reads the properties of the token `old`. */
static int read_token(struct pl_api *a, struct wanted *w, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT user, name, role, scope, expires_us FROM token WHERE hash = ?", "h",
                         &w->args.old);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "the token was deleted just now");
    json_decref(w->body);
    w->body = json_pack("{s:s, s:s, s:s, s:s}", "user", pl_col_text(&rows, 0), "name", pl_col_text(&rows, 1), "role",
                        pl_col_text(&rows, 2), "scope", pl_col_text(&rows, 3));
    w->args.expires_us = pl_col_int(&rows, 4);
    return json_unpack(w->body, "{s:s, s:s, s:s, s:s}", "user", &w->args.user, "name", &w->args.name, "role", &w->args.role,
                       "scope", &w->args.scope) < 0
               ? pl_err_nomem(err)
               : 0;
}

static int delete_credential(struct pl_api *a, struct pl_http_request *req, const struct kind *kind, json_t **ret,
                             struct pl_err *err)
{
    char id[PL_S3_KEY_CHARS + 1], user[PL_USER_MAX + 1], target[sizeof id + sizeof user];
    struct pl_credential_args args = {.access_key = id};
    bool token = kind == &token_kind;
    int r = find_credential(a, req, kind, id, user, err);

    r = r < 0 || !token ? r : hash_of_id(a, id, &args.hash, err);
    if (r < 0)
        return r;
    snprintf(target, sizeof target, "%s %s", user, id);
    args.audit = audit_of(req, token ? "delete token" : "delete s3-key", target);
    r = change(a, token ? pl_tx_token_delete : pl_tx_s3_key_delete, &args, err);
    if (r == 0)
        *ret = json_pack("{s:s}", "deleted", id);
    return r;
}

/* Replaces a token by a new one with the same properties, limited like any new token. */
static int rotate_token(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(wanted_finish) struct wanted w = {.body = json_object()};
    char old[PL_S3_KEY_CHARS + 1], user[PL_USER_MAX + 1], token[PL_TOKEN_CHARS + 1], id[PL_TOKEN_ID_HEX + 1],
        target[sizeof user + 2 * sizeof old];
    int r = find_credential(a, req, &token_kind, old, user, err);

    r = r < 0 ? r : hash_of_id(a, old, &w.args.old, err);
    r = r < 0 ? r : read_token(a, &w, err);
    r = r < 0 ? r : check_limit(req, &w, err);
    if (r < 0)
        return r;
    pl_token_make(PL_TOKEN_START, token, &w.args.hash);
    snprintf(target, sizeof target, "%s %s by %s", user, old, pl_token_id(&w.args.hash, id));
    w.args.audit = audit_of(req, "rotate token", target);
    r = change(a, pl_tx_token_rotate, &w.args, err);
    if (r == 0) {
        *ret = wanted_json(&w);
        json_object_set_new(*ret, "id", json_string(id));
        json_object_set_new(*ret, "token", json_string(token));
    }
    OPENSSL_cleanse(token, sizeof token);
    return r < 0 ? r : 201;
}

static int delete_token(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return delete_credential(a, req, &token_kind, ret, err);
}

static int delete_s3_key(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return delete_credential(a, req, &s3_key_kind, ret, err);
}

/* Ends a login session. The id "current" stands for the session of the request itself, so that a page can
 * log out without knowing the id. */
static int delete_login_session(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    char id[PL_S3_KEY_CHARS + 1], user[PL_USER_MAX + 1], target[sizeof id + sizeof user], cookie[PL_SET_COOKIE_SIZE];
    bool current = pl_streq(pl_http_param(req, "id"), "current");
    struct pl_login_session_args args = {0};
    int r;

    if (current && !*asker(req)->session)
        return pl_err_set(err, PL_EINVAL,
                          "the request has no login session: give the id of one (pipelinectl list login-session)");
    if (current) {
        snprintf(id, sizeof id, "%s", asker(req)->session);
        snprintf(user, sizeof user, "%s", asker(req)->name);
    } else {
        r = find_credential(a, req, &login_session_kind, id, user, err);
        if (r < 0)
            return r;
    }
    snprintf(target, sizeof target, "%s %s", user, id);
    snprintf(args.id, sizeof args.id, "%.*s", PL_LOGIN_SESSION_ID_HEX, id);
    args.audit = audit_of(req, "delete login-session", target);
    r = pl_login_sessions_end(a->services.login_sessions, &args, err);
    if (r < 0)
        return r;
    pl_sse_hub_look(a->hub);
    if (current) {
        pl_guard_set_cookie(a->services.guard, req, "", 0, false, cookie);
        pl_http_reply_header(req, "Set-Cookie", cookie);
    }
    *ret = json_pack("{s:s}", "deleted", args.id);
    return 0;
}

/* ---- audit log ---- */

static int list_audit(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    struct pl_api_page page;
    int64_t before = 0;
    char last[32] = "";
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_page_number(&page, INT64_MAX, &before, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             "SELECT id, at_us, who, token, peer, verb, target FROM audit WHERE id < ?1"
                             " AND (?2 IS NULL OR who = ?2) ORDER BY id DESC LIMIT ?3",
                             "isi", before, pl_http_query(req, "user"), (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        snprintf(last, sizeof last, "%lld", (long long)pl_col_int(&rows, 0));
        json_array_append_new(items, json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s}", "id", (json_int_t)pl_col_int(&rows, 0),
                                               "at_us", (json_int_t)pl_col_int(&rows, 1), "who", pl_col_text(&rows, 2), "token",
                                               pl_col_text(&rows, 3), "peer", pl_col_text(&rows, 4), "verb",
                                               pl_col_text(&rows, 5), "target", pl_col_text(&rows, 6)));
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("audit", json_incref(items), json_array_size(items) == page.limit ? last : NULL);
    return 0;
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/whoami", who_am_i, .verb = PL_VERB_LIST,
     .summary = "Returns the user whose token the request uses, and the roles that the token has.", .reply = "WhoAmI"},
    {"GET", "/api/v1/users", list_users, .verb = PL_VERB_OPERATE, .summary = "Lists users by name, with their roles.",
     .query = "after limit:integer", .reply = "Users"},
    {"POST", "/api/v1/users", create_user, .body = PL_BODY_JSON, .audits = true, .verb = PL_VERB_OPERATE,
     .summary = "Creates a user, with or without roles.", .request = "NewUser", .reply = "User"},
    {"GET", "/api/v1/users/{user}", inspect_user, .verb = PL_VERB_LIST, .summary = "Describes a user; users may see themselves.",
     .reply = "User"},
    {"PATCH", "/api/v1/users/{user}", update_user, .body = PL_BODY_JSON, .audits = true, .verb = PL_VERB_DELETE_PROJECT,
     .asks = true,
     .summary = "Sets roles of a user, each over its scope (\"\" = everything, PROJECT, PROJECT/REPO); the role none removes "
                "one. Admins of a project may set roles in it.",
     .request = "UserChange", .reply = "UserChanged"},
    {"DELETE", "/api/v1/users/{user}", delete_user, .audits = true, .verb = PL_VERB_OPERATE,
     .summary = "Deletes a user with all tokens and keys, which stop working at once.", .reply = "Nothing"},
    {"GET", "/api/v1/tokens", list_tokens, .verb = PL_VERB_LIST,
     .summary = "Lists the user's own tokens; for admins of everything, the tokens of all users.",
     .query = "user after limit:integer", .reply = "Tokens"},
    {"POST", "/api/v1/tokens", create_token, .body = PL_BODY_JSON, .audits = true, .verb = PL_VERB_LIST,
     .summary = "Creates a token for the user, or, by admins of everything, for another user: limited to role over scope, until "
                "it expires. The token is shown only this once.",
     .request = "NewCredential", .reply = "NewToken"},
    {"DELETE", "/api/v1/tokens/{id}", delete_token, .audits = true, .verb = PL_VERB_LIST,
     .summary =
         "Deletes a token, by its id or a prefix of it, and at once ends the sessions and streams that were opened with it.",
     .reply = "Deleted"},
    {"POST", "/api/v1/tokens/{id}/rotate", rotate_token, .audits = true, .verb = PL_VERB_LIST,
     .summary = "Replaces a token, which ends at once with its sessions and streams, by a new one with the same name, limit and "
                "expiry. The token is shown only this once.",
     .reply = "NewToken"},
    {"GET", "/api/v1/s3-keys", list_s3_keys, .verb = PL_VERB_LIST,
     .summary = "Lists the user's own keys for S3 clients; for admins of everything, the keys of all users. State lost: the "
                "secret was lost with a machine.",
     .query = "user after limit:integer", .reply = "S3Keys"},
    {"POST", "/api/v1/s3-keys", create_s3_key, .body = PL_BODY_JSON, .audits = true, .verb = PL_VERB_LIST,
     .summary =
         "Creates a key for S3 clients, with the same fields and limits as for a token. The secret is shown only this once.",
     .request = "NewCredential", .reply = "NewS3Key"},
    {"DELETE", "/api/v1/s3-keys/{id}", delete_s3_key, .audits = true, .verb = PL_VERB_LIST,
     .summary = "Deletes a key, by its access key or a prefix of it.", .reply = "Deleted"},
    {"GET", "/api/v1/login-sessions", list_login_sessions, .verb = PL_VERB_LIST,
     .summary = "Lists the user's own browser sessions; for admins of everything, the browser sessions of all users.",
     .query = "user after limit:integer", .reply = "LoginSessions"},
    {"DELETE", "/api/v1/login-sessions/{id}", delete_login_session, .audits = true, .verb = PL_VERB_LIST,
     .summary = "Ends a browser session at once, named by its id or a prefix of it; `current` names the session of the request.",
     .reply = "Deleted"},
    {"GET", "/api/v1/audit", list_audit, .verb = PL_VERB_OPERATE,
     .summary = "Lists the audit log, newest first: logins, refusals, changes of permissions, and what was created and deleted; "
                "kept for a year.",
     .query = "user after limit:integer", .reply = "Audit"},
};
static const struct pl_api_schema schemas[] = {
    {"Role", "scope:string role:string"},
    {"WhoAmI", "name:string token:string expires_us:integer roles:Role[]"},
    {"User", "name:string roles:Role[] created_us:integer tokens:integer s3_keys:integer"},
    {"Users", "users:User[] next:string?"},
    {"NewUser", "name:string roles:Role[]?"},
    {"UserChange", "roles:Role[]"},
    {"UserChanged", "name:string roles:Role[] created_us:integer? tokens:integer? s3_keys:integer?"},
    {"NewCredential", "user:string? name:string? role:string? scope:string? expires:string?"},
    {"NewToken", "user:string name:string role:string scope:string expires_us:integer id:string token:string"},
    {"NewS3Key", "user:string name:string role:string scope:string expires_us:integer access_key:string secret_key:string"},
    {"Token", "id:string user:string name:string role:string scope:string expires_us:integer created_us:integer state:string"},
    {"Tokens", "tokens:Token[] next:string?"},
    {"S3Key",
     "access_key:string user:string name:string role:string scope:string expires_us:integer created_us:integer state:string"},
    {"S3Keys", "s3_keys:S3Key[] next:string?"},
    {"LoginSession",
     "id:string user:string token:string peer:string agent:string expires_us:integer created_us:integer state:string"
     " current:boolean"},
    {"LoginSessions", "login_sessions:LoginSession[] next:string?"},
    {"Deleted", "deleted:string"},
    {"AuditEntry", "id:integer at_us:integer who:string token:string peer:string verb:string target:string"},
    {"Audit", "audit:AuditEntry[] next:string?"},
};
PL_API_TABLE(access, routes, schemas);
