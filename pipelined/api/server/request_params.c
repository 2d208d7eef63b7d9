/* Helpers that read a request for handlers (api_context.h): bodies, pages, names, commits, stores. */
#include "pipelined/api/server/api_context.h"

#include "storage/store/project_stores.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

/* Returns the name of the field whose value has a wrong type, or NULL if the body itself has the wrong type.
 * jansson reports the error as a position in the format string (`column`). The function counts the fields
 * before this position and skips their arguments: each field has two, its name and the address of its value,
 * and both are pointers. */
static const char *key_at(const char *fmt, int column, va_list ap)
{
    int n = 0;

    for (int i = 0; i < column && fmt[i]; i++)
        n += fmt[i] == ':';
    for (int i = 0; i < 2 * (n - 1); i++)
        (void)va_arg(ap, void *);
    return n > 0 ? va_arg(ap, const char *) : NULL;
}

int pl_api_body(struct pl_http_request *req, json_t **ret_body, struct pl_err *err, const char *fmt, ...)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    const char *key = NULL;
    json_error_t e = {0};
    va_list ap;
    int r = pl_http_body_json(req, &body, err);

    if (r < 0)
        return r;
    va_start(ap, fmt);
    r = json_vunpack_ex(body, &e, JSON_STRICT, fmt, ap);
    va_end(ap);
    if (r == 0) {
        *ret_body = TAKE_PTR(body);
        return 0;
    }
    if (json_error_code(&e) == json_error_wrong_type) {
        va_start(ap, fmt);
        key = key_at(fmt, e.column, ap);
        va_end(ap);
    }
    r = pl_err_set(err, PL_EINVAL, "the request's body is not valid: %s%s%s", key ? key : "", key ? ": " : "", e.text);
    return key ? pl_err_field(err, r, key) : r;
}

int pl_api_may(const struct pl_http_request *req, enum pl_verb verb, const char *project, const char *repo, struct pl_err *err)
{
    return pl_principal_check(pl_http_context(req), verb, project, repo, err);
}

struct pl_db_reading pl_api_read(struct pl_api *a, const struct pl_http_request *req)
{
    struct pl_db_reading rd = pl_db_read(a->config.db);

    rd.conn->readable = pl_access_may_read;
    rd.conn->who = pl_http_context(req);
    return rd;
}

int pl_api_page_read(const struct pl_http_request *req, struct pl_api_page *ret, struct pl_err *err)
{
    uint64_t limit;
    int r = pl_http_query_u64(req, "limit", PL_API_LIMIT_DEFAULT, PL_API_LIMIT_MAX, &limit, err);

    if (r == 0 && limit == 0)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "limit is 0; accepted: 1 to %u", PL_API_LIMIT_MAX), "limit");
    if (r < 0)
        return r;
    ret->after = pl_http_query(req, "after");
    if (ret->after && !*ret->after)
        ret->after = NULL;
    ret->limit = (size_t)limit;
    return 0;
}

int pl_api_page_refuse(const struct pl_api_page *page, struct pl_err *err)
{
    return pl_err_field(
        err, pl_err_set(err, PL_EINVAL, "\"%.100s\" is not a position in a list: use the \"next\" of a page", page->after),
        "after");
}

int pl_api_page_number(const struct pl_api_page *page, int64_t start, int64_t *ret, struct pl_err *err)
{
    long long value = start;
    char *end;

    if (page->after) {
        errno = 0;
        value = strtoll(page->after, &end, 10);
        if (errno || *end || !isdigit((unsigned char)*page->after))
            return pl_api_page_refuse(page, err);
    }
    *ret = value;
    return 0;
}

json_t *pl_api_list(const char *name, json_t *items, const char *next)
{
    json_t *list = json_object();

    json_object_set_new(list, name, items);
    if (next)
        json_object_set_new(list, "next", json_string(next));
    return list;
}

int pl_api_commit_at(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_row *ret,
                     struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

    return pl_db_commit_named(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "repo"), ref, ret, err);
}

int pl_api_commit(struct pl_api *a, const struct pl_http_request *req, struct pl_commit_row *ret, struct pl_err *err)
{
    return pl_api_commit_at(a, req, pl_http_param(req, "ref"), ret, err);
}

int pl_api_project(struct pl_conn *c, const char *project, struct pl_err *err)
{
    int r = pl_name_check("project", project, err);

    return r < 0 ? pl_err_field(err, r, "project") : pl_db_project_check(c, project, err);
}

int pl_api_project_listed(struct pl_conn *c, const char *project, struct pl_err *err)
{
    _cleanup_free_ char *names = NULL;
    int r = pl_api_project(c, project, err);

    if (r == PL_ENOTFOUND &&
        pl_sql_text(c, NULL, &names,
                    "SELECT group_concat(name, ', ') FROM (SELECT name FROM project WHERE readable(name, NULL) ORDER BY name"
                    " LIMIT 20) HAVING count(*) > 0",
                    "") == 0)
        r = pl_err_hint(err, r, "There are: %s", names);
    return r;
}

int pl_api_project_filter(const struct pl_http_request *req, struct pl_conn *c, const char **ret, struct pl_err *err)
{
    *ret = pl_http_query(req, "project");
    return *ret ? pl_api_project_listed(c, *ret, err) : 0;
}

int pl_api_store_named(struct pl_api *a, const char *project, struct pl_store **ret, struct pl_err *err)
{
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_api_project(rd.conn, project, err);
    }
    return r < 0 ? r : pl_project_stores_get(a->config.stores, project, ret, err);
}

int pl_api_store(struct pl_api *a, const struct pl_http_request *req, struct pl_store **ret, struct pl_err *err)
{
    return pl_api_store_named(a, pl_http_param(req, "project"), ret, err);
}

int pl_api_path_arg(const struct pl_http_request *req, const char *name, char *out, struct pl_err *err)
{
    const char *text = pl_http_query(req, name);
    int r;

    *out = '\0';
    if (!text)
        return 0;
    r = pl_path_canonical(text, out, err);
    return r < 0 ? pl_err_field(err, r, name) : 0;
}

json_t *pl_api_time_or_null(int64_t us)
{
    return us ? json_integer(us) : json_null();
}

json_t *pl_api_hash_json(const struct pl_hash *h)
{
    char hex[PL_HASH_HEX + 1];

    return json_string(pl_hash_is_zero(h) ? "" : pl_hash_hex(h, hex));
}
