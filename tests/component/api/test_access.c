// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Users, tokens and keys over the real API: each route is held against the table of verbs, lists show what may be read, and what was
 * deleted is good for nothing at once. */
#include "tests/support/fixtures/api_people.h"

#include "pipelined/api/server/api_context.h"
#include "pipelined/db/tx/access_tx.h"

static void sees(const char *headers, const char *target, const char *list, const char *key, const char *want)
{
    json_t *value = json_as(headers, target);

    names_are(value, list, key, want);
    json_decref(value);
}

/* ---- the matrix ---- */

/* The pattern with the names of project "here". */
static void fill(const char *pattern, char out[512])
{
    static const struct {
        const char *param, *value;
    } values[] = {{"{project}", "here"},
                  {"{repo}", "data"},
                  {"{stage}", "data"},
                  {"{pipeline}", "data"},
                  {"{branch}", "master"},
                  {"{ref}", "master"},
                  {"{path...}", "file"},
                  {"{commit}", "00000000000000000000000000000001"},
                  {"{run}", "00000000000000000000000000000001"},
                  {"{datum}", "x"},
                  {"{user}", "nobody"},
                  {"{secret}", "s"},
                  {"{container}", "main"},
                  {"{source}", "none"},
                  {"{id}", "0000000000000000000000000000000000000000000000000000000000000001"},
                  {"{root}", "0000000000000000000000000000000000000000000000000000000000000000"}};
    size_t n = 0;

    for (const char *c = pattern; *c;) {
        size_t i = 0;

        while (*c == '{' && i < PL_ARRAY_SIZE(values) && strncmp(c, values[i].param, strlen(values[i].param)) != 0)
            i++;
        if (*c == '{' && i == PL_ARRAY_SIZE(values))
            fail_msg("%s: no value for a parameter", pattern);
        if (*c == '{') {
            n += (size_t)snprintf(out + n, 512 - n, "%s", values[i].value);
            c += strlen(values[i].param);
        } else {
            out[n++] = *c++;
        }
        out[n] = '\0';
    }
}

/* What routes whose handlers ask are asked with, body and query, so that they ask over project "here". */
static const struct {
    const char *method, *pattern, *body, *query;
} bodies[] = {
    {"DELETE", "/api/v1/sessions/{id}", "", "?project=here"},
    {"POST", "/api/v1/sessions", "{\"project\":\"here\"}"},
    {"POST", "/api/v1/repos", "{\"project\":\"here\",\"name\":\"data\",\"exist_ok\":true}"},
    {"POST", "/api/v1/pipelines",
     "{\"dry_run\":true,\"spec\":\"{\\\"project\\\":\\\"here\\\",\\\"pipeline\\\":\\\"p\\\",\\\"stages\\\":[{\\\"name\\\":"
     "\\\"s\\\","
     "\\\"input\\\":{\\\"repo\\\":\\\"data\\\",\\\"glob\\\":\\\"/*\\\"},\\\"run\\\":[\\\"true\\\"]}]}\"}"},
    {"POST", "/api/v1/check",
     "{\"spec\":\"{\\\"project\\\":\\\"here\\\",\\\"pipeline\\\":\\\"p\\\",\\\"stages\\\":[{\\\"name\\\":\\\"s\\\","
     "\\\"input\\\":{\\\"repo\\\":\\\"data\\\",\\\"glob\\\":\\\"/*\\\"},\\\"run\\\":[\\\"true\\\"]}]}\"}"},
    {"PATCH", "/api/v1/users/{user}", "{\"roles\":[{\"scope\":\"here\",\"role\":\"reader\"}]}"},
    {"POST", "/api/v1/projects", "{\"name\":\"here\",\"exist_ok\":true}"},
    {"GET", "/api/v1/defaults", ""},
    {"PUT", "/api/v1/defaults", "{\"project\":\"here\",\"spec\":\"{}\"}"},
    {"GET", "/api/v1/secrets", "", "?project=here"},
    {"POST", "/api/v1/sources", "{\"project\":\"here\",\"name\":\"s\",\"settings\":{}}"},
    {"POST", "/api/v1/notifications", "{\"project\":\"here\",\"name\":\"n\",\"settings\":{}}"},
    {"POST", "/api/v1/secrets", "{\"project\":\"here\",\"name\":\"s\",\"values\":{}}"},
};

static const char *query_of(const struct pl_api_route *r)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(bodies); i++)
        if (bodies[i].query && pl_streq(bodies[i].method, r->method) && pl_streq(bodies[i].pattern, r->pattern))
            return bodies[i].query;
    return "";
}

static const char *body_of(const struct pl_api_route *r)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(bodies); i++)
        if (pl_streq(bodies[i].method, r->method) && pl_streq(bodies[i].pattern, r->pattern))
            return bodies[i].body;
    if (r->asks && !strstr(r->pattern, "{run}") && !strstr(r->pattern, "{source}") && !strstr(r->pattern, "{notification}"))
        fail_msg("%s %s: a route that asks; say here with which body", r->method, r->pattern);
    return r->body == PL_BODY_JSON ? "{}" : "";
}

/* Routes that look at more than the verb: tested by themselves. */
static bool apart(const struct pl_api_route *r)
{
    return (r->asks && (strstr(r->pattern, "{run}") || strstr(r->pattern, "{source}") || strstr(r->pattern, "{notification}"))) ||
           (strstr(r->pattern, "{user}") && pl_streq(r->method, "GET")) ||
           (strstr(r->pattern, "/tokens") || strstr(r->pattern, "/s3-keys") || strstr(r->pattern, "/login-sessions"));
}

/* Those who may delete it have. */
static void mend_world(void)
{
    status_as(AS_USER, "POST", "/api/v1/projects", "{\"name\":\"here\",\"exist_ok\":true}");
    status_as(AS_USER, "POST", "/api/v1/repos", "{\"project\":\"here\",\"name\":\"data\",\"exist_ok\":true}");
}

static void hold(const struct pl_api_route *r, const struct person *p)
{
    char target[512], headers[256];
    bool may = pl_principal_may(p->who, r->verb, "here",
                                strstr(r->pattern, "{repo}") || strstr(r->pattern, "{stage}") ? "data" : NULL),
         open = r->verb == PL_VERB_OPEN;
    int status;

    fill(r->pattern, target);
    strcat(target, query_of(r));
    snprintf(headers, sizeof headers, "%sAccept: application/json\r\n", p->header);
    status = status_as(headers, r->method, target, body_of(r));
    if (!p->who ? !open && status != 401 : (status == 403) == may || status == 401)
        if (!(open && status == 401)) /* a login without its code */
            fail_msg("%s: %s %s is %d, and the table says %s: %s", p->name, r->method, target, status, may ? "yes" : "no",
                     last_body);
    if (pl_streq(r->method, "DELETE"))
        mend_world();
}

static void make_world(void)
{
    static const char *const projects[] = {"here", "there"};
    char body[128];

    for (size_t i = 0; i < PL_ARRAY_SIZE(projects); i++) {
        snprintf(body, sizeof body, "{\"name\":\"%s\"}", projects[i]);
        does(201, "POST", "/api/v1/projects", body);
        snprintf(body, sizeof body, "{\"project\":\"%s\",\"name\":\"data\"}", projects[i]);
        does(201, "POST", "/api/v1/repos", body);
        snprintf(body, sizeof body, "{\"project\":\"%s\",\"name\":\"more\"}", projects[i]);
        does(201, "POST", "/api/v1/repos", body);
    }
}

static void every_route_does_what_the_table_says(void **state)
{
    struct person people[] = {
        {.name = "nobody"},
        make_person("none", EVERYTHING, "", ""),
        make_person("reader", EVERYTHING, "reader", ""),
        make_person("writer", EVERYTHING, "writer", ""),
        make_person("project-reader", "here", "reader", ""),
        make_person("project-writer", "here", "writer", ""),
        make_person("repo-reader", "here/data", "reader", ""),
        make_person("repo-writer", "here/data", "writer", ""),
        make_person("other-repo", "here/more", "writer", ""),
        make_person("foreign-admin", "there", "admin", ""),
        {.name = "worker", .header = AS_WORKER},
        {.name = "gone worker", .header = "Authorization: Bearer " GONE_TOKEN "\r\n"},
        make_person("repo-admin", "here/data", "admin", ""),
        make_person("project-admin", "here", "admin", ""),
        make_person("admin", EVERYTHING, "admin", ""),
    };
    size_t n, refused_routes = 0;
    const struct pl_api_table *const *tables = pl_api_tables(t.api, &n);

    (void)state;
    make_world();
    MUST(pl_principal_worker(7, 1, "default", "worked", &people[10].who, &err));
    MUST(pl_principal_worker(8, 0, "", "", &people[11].who, &err));
    for (size_t i = 0; i < PL_ARRAY_SIZE(people); i++) {
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < tables[k]->n_routes; j++, refused_routes++)
                if (!apart(&tables[k]->routes[j]))
                    hold(&tables[k]->routes[j], &people[i]);
        pl_principal_unref(people[i].who);
    }
    assert_true(refused_routes > 1000);
}

/* ---- lists ---- */

static void lists_show_what_may_be_read(void **state)
{
    struct person all = make_person("all", EVERYTHING, "reader", ""), one = make_person("one", "here/data", "reader", ""),
                  none = make_person("none", EVERYTHING, "", "");

    (void)state;
    make_world();
    does(201, "PUT", "/api/v1/repos/here/data/branches/master/files/x", "1");
    does(201, "PUT", "/api/v1/repos/there/data/branches/master/files/x", "2");
    sees(all.header, "/api/v1/projects", "projects", "name", "here there");
    sees(one.header, "/api/v1/projects", "projects", "name", "here");
    sees(none.header, "/api/v1/projects", "projects", "name", "");
    sees(all.header, "/api/v1/repos", "repos", "name", "data more data more");
    sees(one.header, "/api/v1/repos", "repos", "name", "data");
    sees(one.header, "/api/v1/repos?project=here&limit=1", "repos", "name", "data");
    assert_int_equal(status_as(one.header, "GET", "/api/v1/repos?project=there", NULL), 403);
    assert_int_equal(status_as(one.header, "GET", "/api/v1/repos?project=nowhere", NULL),
                     403); /* whether it is there is not told */
    sees(none.header, "/api/v1/repos", "repos", "name", "");
    sees(all.header, "/api/v1/events?since=0", "events", "type", "repo repo repo repo commit commit");
    sees(one.header, "/api/v1/events?since=0", "events", "type", "repo commit");
    sees(none.header, "/api/v1/events?since=0", "events", "type", "");
    pl_principal_unref(all.who);
    pl_principal_unref(one.who);
    pl_principal_unref(none.who);
}

/* ---- tokens ---- */

static void a_token_makes_no_token_that_is_more(void **state)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {
        {"{}", 201},
        {"{\"role\":\"reader\",\"scope\":\"here/data\"}", 201},
        {"{\"role\":\"writer\"}", 403},
        {"{\"scope\":\"\"}", 403},
        {"{\"scope\":\"there\"}", 403},
        {"{\"user\":\"daemon\"}", 403},
        {"{\"user\":\"other\"}", 403},
        {"{\"role\":\"owner\"}", 400},
        {"{\"scope\":\"a/b/c\"}", 400},
        {"{\"expires\":\"soon\"}", 400},
        {"{\"expires\":\"0s\"}", 400},
        {"{\"expires\":\"4000d\"}", 400},
        {"{\"expires\":\"1d\"}", 201},
    };
    struct person p = make_person("bob", EVERYTHING, "writer", "\"role\":\"reader\",\"scope\":\"here\",\"expires\":\"1h\""),
                  other = make_person("other", EVERYTHING, "admin", "");
    json_t *made, *mine;
    struct answer a;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        int status = status_as(p.header, "POST", "/api/v1/tokens", rows[i].body);

        if (status != rows[i].status)
            fail_msg("%s: %d, not %d", rows[i].body, status, rows[i].status);
        if (status == 403)
            assert_int_equal(status_as(p.header, "POST", "/api/v1/s3-keys", rows[i].body), 403);
    }
    a = ask_with("POST", "/api/v1/tokens", p.header, "{\"expires\":\"30d\"}", 17);
    made = json_of(&a);
    mine = json_as(p.header, "/api/v1/whoami");
    assert_int_equal(number_at(made, "expires_us"), number_at(mine, "expires_us")); /* nor longer */
    assert_string_equal(text_at(made, "role"), "reader");
    assert_string_equal(text_at(made, "scope"), "here");
    json_decref(made);
    json_decref(mine);
    answer_free(&a);
    refused("invalid", "user", "POST", "/api/v1/tokens", "{}"); /* the daemon's token is nobody's */
    pl_principal_unref(p.who);
    pl_principal_unref(other.who);
}

/* Not even an admin of everything: who found a token that ends soon would keep its rights for ever. */
static void a_token_that_expires_makes_none_that_lives_longer(void **state)
{
    static const char *const targets[] = {"/api/v1/tokens", "/api/v1/s3-keys"}, *const asked[] = {"{}", "{\"expires\":\"30d\"}"};
    struct person p = make_person("root", EVERYTHING, "admin", "\"role\":\"admin\",\"expires\":\"1h\"");
    json_t *mine = json_as(p.header, "/api/v1/whoami");

    (void)state;
    assert_true(number_at(mine, "expires_us") > 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(targets) * PL_ARRAY_SIZE(asked); i++) {
        struct answer a = ask_with("POST", targets[i / 2], p.header, asked[i % 2], strlen(asked[i % 2]));
        json_t *made = json_of(&a);

        assert_int_equal(a.status, 201);
        assert_int_equal(number_at(made, "expires_us"), number_at(mine, "expires_us"));
        json_decref(made);
        answer_free(&a);
    }
    json_decref(mine);
    pl_principal_unref(p.who);
}

/* The id of the token of whoever the header is of. */
static void token_id(const char *header, char out[PL_TOKEN_ID_HEX + 1])
{
    json_t *who = json_as(header, "/api/v1/whoami");

    snprintf(out, PL_TOKEN_ID_HEX + 1, "%s", text_at(who, "token"));
    assert_int_equal(strlen(out), PL_TOKEN_ID_HEX);
    json_decref(who);
}

static void a_deleted_token_is_good_for_nothing_at_once(void **state)
{
    struct person p = make_person("bob", EVERYTHING, "reader", "");
    char id[PL_TOKEN_ID_HEX + 1], cookie[400], target[128], link[128];
    struct answer a;
    json_t *made;
    int stream;

    (void)state;
    token_id(p.header, id);
    log_in(p.header, cookie);
    {
        json_t *who = json_as(cookie, "/api/v1/whoami");

        assert_string_equal(text_at(who, "name"), "bob");
        json_decref(who);
    }
    assert_int_equal(status_as(cookie, "POST", "/api/v1/repos", "{\"name\":\"r\"}"),
                     403); /* the cookie is bob's, not the daemon's */
    a = ask_with("POST", "/api/v1/login-links", p.header, "", 0);
    made = json_of(&a);
    snprintf(link, sizeof link, "%s", strstr(text_at(made, "url"), "/login?"));
    json_decref(made);
    answer_free(&a);
    stream = client_connect(port); /* a stream that is open meanwhile */
    {
        char head[512];
        int len = snprintf(head, sizeof head, "GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n", port, p.header);

        assert_true(client_send(stream, head, (size_t)len));
        client_read_head(stream, &a);
        assert_int_equal(a.status, 200);
    }

    snprintf(target, sizeof target, "/api/v1/tokens/%.6s", id);
    does(200, "DELETE", target, NULL);
    assert_int_equal(status_as(p.header, "GET", "/api/v1/whoami", NULL), 401);
    assert_int_equal(status_as(cookie, "GET", "/api/v1/whoami", NULL), 401);
    assert_int_equal(status_as("", "GET", link, NULL), 401);
    assert_true(client_read_chunked(stream, &a)); /* it ends, whole */
    answer_free(&a);
    close(stream);
    does(404, "DELETE", target, NULL);
    pl_principal_unref(p.who);
}

static void other_roles_count_at_once(void **state)
{
    struct person p = make_person("bob", EVERYTHING, "", "");

    (void)state;
    make_world();
    assert_int_equal(status_as(p.header, "GET", "/api/v1/repos/here/data", NULL), 403);
    does(200, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"here\",\"role\":\"reader\"}]}");
    assert_int_equal(status_as(p.header, "GET", "/api/v1/repos/here/data", NULL), 200);
    does(200, "PATCH", "/api/v1/users/bob",
         "{\"roles\":[{\"scope\":\"here\",\"role\":\"none\"},{\"scope\":\"there/data\",\"role\":\"writer\"}]}");
    assert_int_equal(status_as(p.header, "GET", "/api/v1/repos/here/data", NULL), 403);
    assert_int_equal(status_as(p.header, "PUT", "/api/v1/repos/there/data/branches/master/files/x", "1"), 201);
    does(200, "DELETE", "/api/v1/users/bob", NULL);
    assert_int_equal(status_as(p.header, "GET", "/api/v1/repos/there/data", NULL), 401);
    pl_principal_unref(p.who);
}

static void an_admin_of_a_project_gives_roles_in_it(void **state)
{
    static const struct {
        const char *scope, *role;
        int status;
    } rows[] = {{"here", "writer", 200},  {"here/data", "admin", 200},   {"here", "none", 200},
                {"there", "reader", 403}, {"there/data", "reader", 403}, {"", "reader", 403},
                {"her", "reader", 403},   {"here/", "reader", 400},      {"here", "owner", 400}};
    struct person boss = make_person("boss", "here", "admin", ""), bob = make_person("bob", EVERYTHING, "", "");
    char body[128];

    (void)state;
    make_world();
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        int status;

        snprintf(body, sizeof body, "{\"roles\":[{\"scope\":\"%s\",\"role\":\"%s\"}]}", rows[i].scope, rows[i].role);
        status = status_as(boss.header, "PATCH", "/api/v1/users/bob", body);
        if (status != rows[i].status)
            fail_msg("%s: %d, not %d", body, status, rows[i].status);
    }
    assert_int_equal(status_as(boss.header, "GET", "/api/v1/users", NULL), 403);
    assert_int_equal(status_as(boss.header, "GET", "/api/v1/users/bob", NULL), 403);
    assert_int_equal(status_as(bob.header, "GET", "/api/v1/users/bob", NULL), 200);
    pl_principal_unref(boss.who);
    pl_principal_unref(bob.who);
}

/* The roles that the admin of one project gives take no place of those that others give. */
static void a_projects_admin_uses_up_the_places_of_no_other(void **state)
{
    struct person boss = make_person("boss", "here", "admin", ""), bob = make_person("bob", EVERYTHING, "", "");
    _cleanup_(json_decrefp) json_t *roles = json_array(), *more = json_object();
    _cleanup_(json_decrefp) json_t *whoami = NULL;
    char *body;

    (void)state;
    make_world();
    for (int i = 0; i < PL_PROJECT_GRANTS_MAX; i++)
        json_array_append_new(roles, json_pack("{s:o, s:s}", "scope", json_sprintf("here/r%d", i), "role", "reader"));
    json_object_set(more, "roles", roles);
    body = json_dumps(more, 0);
    assert_int_equal(status_as(boss.header, "PATCH", "/api/v1/users/bob", body), 200);
    free(body);
    assert_int_equal(
        status_as(boss.header, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"here/more\",\"role\":\"reader\"}]}"), 422);
    assert_non_null(strstr(last_body, "roles in project"));
    assert_int_equal(
        status_as(boss.header, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"here/r1\",\"role\":\"writer\"}]}"), 200);
    does(200, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"there\",\"role\":\"reader\"}]}");
    does(200, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"\",\"role\":\"reader\"}]}");
    does(200, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"her\",\"role\":\"reader\"}]}");
    whoami = json_as(bob.header, "/api/v1/whoami");
    assert_int_equal(json_array_size(json_object_get(whoami, "roles")), PL_PROJECT_GRANTS_MAX + 3);
    assert_int_equal(status_as(bob.header, "GET", "/api/v1/repos/there/data", NULL), 200);
    pl_principal_unref(boss.who);
    pl_principal_unref(bob.who);
}

/* Who asks again and again for what no role allows is told to come later; what is allowed, and other users, are not slowed. */
static void refusals_of_one_user_have_a_limit(void **state)
{
    struct person bob = make_person("bob", "here", "reader", ""), eve = make_person("eve", "here", "reader", "");
    int last = 0;

    (void)state;
    make_world();
    for (int i = 0; i <= PL_GUARD_FAILURES; i++) /* by the guard, and by a handler that asks */
        last = status_as(eve.header, i % 2 ? "GET" : "PATCH", i % 2 ? "/api/v1/repos/there/data" : "/api/v1/users/bob",
                         i % 2 ? NULL : "{\"roles\":[{\"scope\":\"there\",\"role\":\"reader\"}]}");
    for (int i = 0; i < 5000 && last == 403; i++) /* a slow machine: some have leaked away, five in a second */
        last = status_as(eve.header, "GET", "/api/v1/repos/there/data", NULL);
    assert_int_equal(last, 503);
    assert_int_equal(status_as(eve.header, "GET", "/api/v1/repos/here/data", NULL), 200);
    assert_int_equal(status_as(bob.header, "GET", "/api/v1/repos/there/data", NULL), 403);
    pl_principal_unref(bob.who);
    pl_principal_unref(eve.who);
}

/* ---- pipelines ---- */

/* Whoever makes a stage must be one who may read what it reads; whether that is there is not told. */
static void a_stage_reads_what_its_maker_may_read(void **state)
{
    static const struct {
        const char *repo;
        int status;
    } rows[] = {{"data", 200}, {"there/data", 403}, {"there/nothing", 403}, {"there/more", 200}};
    struct person p = make_person("bob", "here", "writer", "");
    char body[512];

    (void)state;
    make_world();
    does(200, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"there/more\",\"role\":\"reader\"}]}");
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct answer a;

        snprintf(body, sizeof body,
                 "{\"dry_run\":true,\"spec\":\"{\\\"project\\\":\\\"here\\\",\\\"pipeline\\\":\\\"p\\\",\\\"stages\\\":[{"
                 "\\\"name\\\":\\\"s\\\","
                 "\\\"input\\\":{\\\"repo\\\":\\\"%s\\\",\\\"glob\\\":\\\"/*\\\"},\\\"run\\\":[\\\"true\\\"]}]}\"}",
                 rows[i].repo);
        a = ask_with("POST", "/api/v1/pipelines", p.header, body, strlen(body));
        if (a.status != rows[i].status)
            fail_msg("%s: %d, not %d: %.300s", rows[i].repo, a.status, rows[i].status, a.body);
        answer_free(&a);
    }
    pl_principal_unref(p.who);
}

/* ---- S3 keys ---- */

static void an_s3_key_is_found_with_its_secret_till_it_is_deleted(void **state)
{
    struct person p = make_person("bob", "here", "writer", "");
    struct answer a = ask_with("POST", "/api/v1/s3-keys", p.header, "{\"role\":\"reader\"}", 17);
    json_t *made = json_of(&a);
    const char *key = text_at(made, "access_key");
    char secret[PL_S3_SECRET_CHARS + 1], target[128];
    _cleanup_(pl_buf_finish) struct pl_buf file = {0};
    struct pl_access *access = t.api->services.access;
    struct pl_principal *who;

    (void)state;
    assert_int_equal(a.status, 201);
    MUST(pl_access_s3_key(access, key, secret, &who, &err));
    assert_string_equal(secret, text_at(made, "secret_key"));
    assert_string_equal(who->name, "bob");
    assert_true(pl_principal_may(who, PL_VERB_READ, "here", "data"));
    assert_false(pl_principal_may(who, PL_VERB_WRITE, "here", "data")); /* the key's own limit */
    assert_int_equal(pl_access_s3_key(access, "PLAAAAAAAAAAAAAAAAAA", secret, &who, NULL), PL_EAUTH);
    snprintf(target, sizeof target, "%s/pipelined.db-wal", t.data);
    MUST(pl_io_read_file(target, &file, &err));
    assert_null(memmem(file.data, file.len, text_at(made, "secret_key"), PL_S3_SECRET_CHARS)); /* nowhere as it is */
    assert_non_null(memmem(file.data, file.len, key, strlen(key)));
    pl_principal_unref(who);
    snprintf(target, sizeof target, "/api/v1/s3-keys/%s", key);
    assert_int_equal(status_as(p.header, "DELETE", target, NULL), 200);
    assert_int_equal(pl_access_s3_key(access, key, secret, &who, NULL), PL_EAUTH);
    json_decref(made);
    answer_free(&a);
    pl_principal_unref(p.who);
}

/* ---- audit ---- */

static void the_audit_tells_who_did_what(void **state)
{
    struct person p = make_person("bob", "here", "admin", "");
    char cookie[400];
    json_t *audit;

    (void)state;
    make_world();
    log_in(p.header, cookie);
    assert_int_equal(status_as(p.header, "DELETE", "/api/v1/repos/here/more", NULL), 200);
    assert_int_equal(status_as(p.header, "DELETE", "/api/v1/repos/there/more", NULL), 403);
    pl_pool_drain(pool); /* refusals are written behind their requests, each by itself: in no order without this */
    assert_int_equal(status_as(p.header, "GET", "/api/v1/audit", NULL), 403);
    pl_pool_drain(pool);
    audit = ask_json(200, "GET", "/api/v1/audit?user=bob", NULL);
    names_are(audit, "audit", "verb", "refused refused remove login");
    names_are(audit, "audit", "target",
              "GET /api/v1/audit DELETE /api/v1/repos/there/more DELETE /api/v1/repos/here/more by a link");
    names_are(audit, "audit", "peer", "127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1");
    json_decref(audit);
    audit = ask_json(200, "GET", "/api/v1/audit?user=daemon&limit=3", NULL);
    names_are(audit, "audit", "verb", "define define operate");
    json_decref(audit);
    pl_principal_unref(p.who);
}

static size_t refusals_of(const char *user)
{
    char target[128];
    json_t *audit;
    size_t n;

    pl_pool_drain(pool);
    snprintf(target, sizeof target, "/api/v1/audit?limit=1000&user=%s", user);
    audit = ask_json(200, "GET", target, NULL);
    n = json_array_size(json_object_get(audit, "audit"));
    json_decref(audit);
    return n;
}

/* Changes of who may what that are not allowed are told each by each; a thousand of one user do not push out what others did. */
static void what_was_refused_is_told_and_cannot_flood_the_audit(void **state)
{
    static const struct {
        const char *method, *target, *body;
    } asked[] = {
        {"POST", "/api/v1/users", "{\"name\":\"eve\"}"},
        {"PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"\",\"role\":\"admin\"}]}"},
        {"PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"there\",\"role\":\"reader\"}]}"},
        {"DELETE", "/api/v1/users/carol", NULL},
        {"POST", "/api/v1/tokens", "{\"user\":\"carol\"}"},
        {"POST", "/api/v1/s3-keys", "{\"user\":\"carol\"}"},
    };
    struct person bob = make_person("bob", "here", "admin", "\"role\":\"writer\""),
                  carol = make_person("carol", "there", "reader", "");

    (void)state;
    make_world();
    for (size_t i = 0; i < PL_ARRAY_SIZE(asked); i++) {
        assert_int_equal(status_as(bob.header, asked[i].method, asked[i].target, asked[i].body), 403);
        assert_int_equal(refusals_of("bob"), i + 1);
    }
    for (int i = 0; i < PL_GUARD_FAILURES; i++)
        assert_int_equal(status_as(carol.header, "DELETE", "/api/v1/repos/here/data", NULL), 403);
    assert_in_range(refusals_of("carol"), PL_API_TELLINGS, PL_API_TELLINGS + 10);
    assert_int_equal(refusals_of("bob"), PL_ARRAY_SIZE(asked));
    pl_principal_unref(bob.who);
    pl_principal_unref(carol.who);
}

/* ---- what the log gives back ---- */

/* pl_tx_fn: PL_USER_KEYS_MAX tokens and S3 keys of a user, less the token that they came with. */
static int make_all(struct pl_tx *tx, void *arg, struct pl_err *why)
{
    int r = 0;

    for (int i = 0; i < PL_USER_KEYS_MAX && r == 0; i++) {
        char key[PL_S3_KEY_CHARS + 1];
        struct pl_credential_args one = {.user = arg,
                                         .name = "",
                                         .role = "reader",
                                         .scope = "",
                                         .access_key = key,
                                         .sealed = "x",
                                         .sealed_len = 1,
                                         .audit = {.who = "daemon", .verb = "create"}};

        snprintf(key, sizeof key, "PL%018d", i);
        pl_hash_sha256(key, strlen(key), &one.hash);
        r = i ? pl_tx_token_create(tx, &one, why) : 0;
        r = r < 0 ? r : pl_tx_s3_key_create(tx, &one, why);
    }
    return r;
}

static void one_user_takes_no_more_than_theirs(void **state)
{
    struct person greedy = make_person("greedy", EVERYTHING, "reader", ""),
                  other = make_person("other", EVERYTHING, "reader", "");

    (void)state;
    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_all, greedy.name, &err));
    for (size_t i = 0; i < 2; i++) {
        const char *path = i ? "/api/v1/s3-keys" : "/api/v1/tokens";

        assert_int_equal(status_as(greedy.header, "POST", path, "{}"), pl_err_info(PL_ELIMIT)->http_status);
        assert_non_null(strstr(last_body, "user \\\"greedy\\\" has 1000"));
        assert_int_equal(status_as(other.header, "POST", path, "{}"), 201);
    }
    pl_principal_unref(greedy.who);
    pl_principal_unref(other.who);
}

static void login_links_of_others_are_not_pushed_out(void **state)
{
    struct person noisy = make_person("noisy", EVERYTHING, "reader", "");
    json_t *link = ask_json(201, "POST", "/api/v1/login-links", "");
    struct answer a;

    (void)state;
    for (int i = 0; i < 2 * PL_LOGIN_CODES_MAX; i++)
        assert_int_equal(status_as(noisy.header, "POST", "/api/v1/login-links", ""), 201);
    a = ask_with("GET", strstr(text_at(link, "url"), "/login"), "", "", 0);
    assert_int_equal(a.status, 303);
    answer_free(&a);
    json_decref(link);
    pl_principal_unref(noisy.who);
}

static void users_and_tokens_come_back_from_the_log(void **state)
{
    struct person p = make_person("bob", EVERYTHING, "reader", ""), gone = make_person("gone", EVERYTHING, "admin", "");
    struct answer a = ask_with("POST", "/api/v1/s3-keys", p.header, "{}", 2);
    struct pl_db_config config = {.readers = 2, .fatal = on_fatal, .objects = t.objects};
    static const uint8_t master[PL_SEAL_KEY_BYTES] = "the key of another machine";
    json_t *made = json_of(&a);
    char path[128], secret[PL_S3_SECRET_CHARS + 1], token[64];
    struct pl_principal *who;
    struct pl_access *access;
    struct pl_db *db;

    (void)state;
    does(200, "DELETE", "/api/v1/users/gone", NULL);
    snprintf(path, sizeof path, "%s/other", t.dir);
    MUST(pl_io_mkdirs(path, 0700, &err));
    config.dir = path;
    MUST(pl_db_open(&config, &db, &err));
    MUST(pl_access_open(db, master, &access, &err));
    assert_int_equal(sscanf(p.header, "Authorization: Bearer %63s", token), 1);
    MUST(pl_access_token(access, token, &who, &err));
    assert_string_equal(who->name, "bob");
    assert_true(pl_principal_may(who, PL_VERB_READ, "here", "data"));
    pl_principal_unref(who);
    assert_int_equal(sscanf(gone.header, "Authorization: Bearer %63s", token), 1);
    assert_int_equal(pl_access_token(access, token, &who, NULL), PL_EAUTH);
    /* of the key it is known that there was one */
    assert_int_equal(pl_access_s3_key(access, text_at(made, "access_key"), secret, &who, NULL), PL_EAUTH);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
        int64_t n = 0;

        MUST(pl_sql_int(rd.conn, &err, &n, "SELECT count(*) FROM s3_key WHERE access_key = ?", "s", text_at(made, "access_key")));
        assert_int_equal(n, 1);
    }
    pl_access_close(access);
    pl_db_close(db);
    json_decref(made);
    answer_free(&a);
    pl_principal_unref(p.who);
    pl_principal_unref(gone.who);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_route_does_what_the_table_says),
        TEST(lists_show_what_may_be_read),
        TEST(a_token_makes_no_token_that_is_more),
        TEST(a_token_that_expires_makes_none_that_lives_longer),
        TEST(a_deleted_token_is_good_for_nothing_at_once),
        TEST(other_roles_count_at_once),
        TEST(an_admin_of_a_project_gives_roles_in_it),
        TEST(a_projects_admin_uses_up_the_places_of_no_other),
        TEST(refusals_of_one_user_have_a_limit),
        TEST(a_stage_reads_what_its_maker_may_read),
        TEST(an_s3_key_is_found_with_its_secret_till_it_is_deleted),
        TEST(the_audit_tells_who_did_what),
        TEST(what_was_refused_is_told_and_cannot_flood_the_audit),
        TEST(one_user_takes_no_more_than_theirs),
        TEST(login_links_of_others_are_not_pushed_out),
        TEST(users_and_tokens_come_back_from_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
