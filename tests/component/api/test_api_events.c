// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit pl_web
/* The event stream over HTTP, the embedded page, and the document that describes every route. */
#include "tests/support/fixtures/api_fixture.h"

#include "pipelined/api/server/api_context.h"
#include "pl_web.h"

#define EVENTS "/api/v1/events"

/* ---- events ---- */

/* Opens the stream; `headers` are whole lines. */
static int follow(const char *headers)
{
    char request[512];
    struct answer a;
    char type[256];
    int fd = client_connect(port);

    snprintf(request, sizeof request, "GET " EVENTS " HTTP/1.1\r\nHost: localhost\r\n" AS_USER "%s\r\n", headers);
    client_say(fd, request);
    client_read_head(fd, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Type", type), "text/event-stream");
    return fd;
}

/* Reads lines until one has `part` in it, which must come before one that has `not_before` (may be NULL). */
static void hears(int fd, const char *part, const char *not_before)
{
    char line[4096];

    while (client_read_line(fd, line, sizeof line)) {
        if (strstr(line, part))
            return;
        if (not_before && strstr(line, not_before))
            fail_msg("\"%s\" came before \"%s\"", not_before, part);
    }
    fail_msg("the stream ended before \"%s\"", part);
}

static void a_push_is_heard_by_who_follows(void **state)
{
    char commit[PL_ID_HEX + 1];
    int fd;

    (void)state;
    make_repo("data");
    fd = follow("");
    put_text("data@master", "a", "1", commit);
    hears(fd, "event: commit", "event: repo"); /* what was before is not told */
    hears(fd, commit, NULL);
    close(fd);
}

static void who_comes_back_hears_what_was_missed(void **state)
{
    char commit[PL_ID_HEX + 1];
    int fd;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", commit);
    fd = follow("Last-Event-ID: 0\r\n"); /* from the ring */
    hears(fd, "event: repo", "event: commit");
    hears(fd, commit, NULL);
    close(fd);
    api_again();
    fd = follow("Last-Event-ID: 0\r\n"); /* from the table */
    hears(fd, "event: repo", "event: commit");
    hears(fd, commit, NULL);
    put_text("data@master", "a", "2", commit);
    hears(fd, commit, NULL);
    close(fd);
}

static int forget_events(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM event WHERE id < (SELECT max(id) FROM event)", "");

    (void)arg;
    return PL_MIN(r, 0);
}

static void who_was_away_too_long_begins_anew(void **state)
{
    int fd;

    (void)state;
    make_repo("data");
    make_repo("more");
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, forget_events, NULL, &err));
    api_again();
    fd = follow("Last-Event-ID: 0\r\n");
    hears(fd, "event: reset", "event: repo");
    close(fd);
    fd = follow("Last-Event-ID: 999999\r\n"); /* of another store */
    hears(fd, "event: reset", NULL);
    close(fd);
}

static json_t *page_of_events(const char *query)
{
    char target[128];
    struct answer a;
    json_t *page;

    snprintf(target, sizeof target, EVENTS "%s", query);
    a = ask_with("GET", target, AS_USER "Accept: application/json\r\n", "", 0);
    assert_int_equal(a.status, 200);
    page = json_of(&a);
    answer_free(&a);
    return page;
}

static void events_are_read_in_pages_too(void **state)
{
    char query[64];
    json_t *page;

    (void)state;
    make_repo("one");
    make_repo("two");
    make_repo("three");
    page = page_of_events("");
    names_are(page, "events", "type", "repo repo repo");
    json_decref(page);
    page = page_of_events("?since=0&limit=2");
    names_are(page, "events", "type", "repo repo");
    assert_string_equal(text_at(json_object_get(json_array_get(json_object_get(page, "events"), 1), "data"), "repo"), "two");
    snprintf(query, sizeof query, "?limit=2&since=%lld", (long long)number_at(page, "last"));
    json_decref(page);
    page = page_of_events(query);
    assert_string_equal(text_at(json_object_get(json_array_get(json_object_get(page, "events"), 0), "data"), "repo"), "three");
    json_decref(page);
    page = page_of_events("?limit=1"); /* the newest */
    assert_string_equal(text_at(json_object_get(json_array_get(json_object_get(page, "events"), 0), "data"), "repo"), "three");
    json_decref(page);
    refused("invalid", "since", "GET", EVENTS "?since=x", NULL);
}

/* ---- the page ---- */

/* A script of the page: "ui/NAME.js", which has each encoding. */
static const char *script_of_page(void)
{
    for (const struct pl_web_file *f = pl_web_files; f->name; f++)
        if (strncmp(f->name, "ui/", 3) == 0 && strcmp(f->name + strlen(f->name) - 3, ".js") == 0)
            return f->name;
    return NULL;
}

static void the_page_comes_with_its_policy_and_once(void **state)
{
    char value[512], headers[640];
    struct answer a;

    (void)state;
    if (pl_web_files_count == 0) {
        refused("not_available", "without its web page", "GET", "/", NULL);
        return;
    }
    a = ask_with("GET", "/", "", "", 0);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Type", value), "text/html; charset=utf-8");
    assert_string_equal(answer_header(&a, "Cache-Control", value), "no-cache");
    assert_non_null(answer_header(&a, "Content-Security-Policy", value));
    assert_non_null(strstr(value, "default-src 'none'; script-src 'self'; style-src 'self';"));
    assert_null(strstr(value, "unsafe"));
    assert_non_null(answer_header(&a, "ETag", value));
    answer_free(&a);
    snprintf(headers, sizeof headers, "If-None-Match: %s\r\n", value);
    a = ask_with("GET", "/runs", headers, "", 0);
    assert_int_equal(a.status, 304);
    assert_int_equal(a.len, 0);
    answer_free(&a);
    a = ask_with("GET", "/runs/c41d7e90", headers, "", 0); /* another base: not what the client has */
    assert_int_equal(a.status, 200);
    answer_free(&a);
    a = ask_with("GET", "/ui/nothing.js", "", "", 0);
    assert_int_equal(a.status, 404);
    answer_free(&a);
}

/* Addresses in the page are relative to <base>, which leads from the request's path back to where the daemon is served. */
static void the_page_finds_its_files_from_any_depth(void **state)
{
    static const struct {
        const char *path, *base;
    } rows[] = {
        {"/", "<base href=\"./\">"},
        {"/runs", "<base href=\"./\">"},
        {"/runs/", "<base href=\"./../\">"},
        {"/runs/c41d7e90?view=graph/x", "<base href=\"./../\">"},
        {"/data/p/r/master/-/a%2Fb/c.csv", "<base href=\"./../../../../../../\">"},
    };

    (void)state;
    for (size_t i = 0; pl_web_files_count && i < PL_ARRAY_SIZE(rows); i++) {
        struct answer a = ask_with("GET", rows[i].path, "", "", 0);

        assert_int_equal(a.status, 200);
        if (!strstr(a.body, rows[i].base))
            fail_msg("%s: no %s in\n%s", rows[i].path, rows[i].base, a.body);
        answer_free(&a);
    }
}

static void files_of_the_page_come_in_an_encoding_that_is_accepted(void **state)
{
    static const struct {
        const char *accept, *encoding; /* NULL: no such header */
    } rows[] = {
        {"", NULL},
        {"Accept-Encoding: gzip, deflate, br\r\n", "br"},
        {"Accept-Encoding: gzip\r\n", "gzip"},
        {"Accept-Encoding: deflate, gzip;q=0.5\r\n", "gzip"},
        {"Accept-Encoding: br;q=0, gzip;q=0.0\r\n", NULL},
        {"Accept-Encoding: identity, brotli, x-gzip\r\n", NULL},
        {"Accept-Encoding: BR\r\n", "br"},
    };
    char target[128], value[512];

    (void)state;
    snprintf(target, sizeof target, "/%s", pl_web_files_count ? script_of_page() : "");
    for (size_t i = 0; pl_web_files_count && i < PL_ARRAY_SIZE(rows); i++) {
        struct answer a = ask_with("GET", target, rows[i].accept, "", 0);
        const char *encoding = answer_header(&a, "Content-Encoding", value);

        assert_int_equal(a.status, 200);
        if (!encoding != !rows[i].encoding || (encoding && strcmp(encoding, rows[i].encoding) != 0))
            fail_msg("%s: came as %s", rows[i].accept, encoding ? encoding : "plain");
        assert_string_equal(answer_header(&a, "Content-Type", value), "text/javascript; charset=utf-8");
        assert_string_equal(answer_header(&a, "Cache-Control", value), "public, max-age=31536000, immutable");
        assert_string_equal(answer_header(&a, "Vary", value), "Accept-Encoding");
        answer_free(&a);
    }
}

/* ---- the document ---- */

static const json_t *operation_of(const json_t *document, const char *method, const char *pattern)
{
    char path[256], lower[16];
    size_t n = 0;

    for (const char *c = pattern; *c; c++)
        if (*c != '.' || (c[1] != '.' && c[-1] != '.'))
            path[n++] = *c;
    path[n] = '\0';
    for (n = 0; method[n]; n++)
        lower[n] = (char)(method[n] | 0x20);
    lower[n] = '\0';
    return json_object_get(json_object_get(json_object_get(document, "paths"), path), lower);
}

static void every_route_is_in_the_document(void **state)
{
    json_t *document = ask_json(200, "GET", "/api/v1/openapi.json", NULL);
    const struct pl_api_table *const *tables;
    size_t n, seen = 0;

    (void)state;
    assert_string_equal(text_at(document, "openapi"), "3.1.0");
    tables = pl_api_tables(t.api, &n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < tables[i]->n_routes; k++, seen++) {
            const struct pl_api_route *route = &tables[i]->routes[k];
            const json_t *operation = operation_of(document, route->method, route->pattern);

            if (!operation)
                fail_msg("%s %s is not in the document", route->method, route->pattern);
            assert_string_equal(text_at(operation, "summary"), route->summary);
            assert_true((route->json == NULL) != (route->raw == NULL));
        }
    }
    assert_true(seen > 30);
    assert_non_null(operation_of(document, "POST", "/api/v1/worker/attach"));
    json_decref(document);
}

static bool is_of_type(const json_t *schemas, const json_t *type, const json_t *value);

static bool is_object_of(const json_t *schemas, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"), *name, *part;
    const char *key;
    size_t i;

    json_array_foreach(json_object_get(schema, "required"), i,
                       name) if (!json_object_get(value, json_string_value(name))) return false;
    json_object_foreach((json_t *)(uintptr_t)value, key,
                        part) if (!json_object_get(properties, key) ||
                                  !is_of_type(schemas, json_object_get(properties, key), part)) return false;
    return true;
}

static bool is_of_type(const json_t *schemas, const json_t *type, const json_t *value)
{
    const char *plain = json_string_value(json_object_get(type, "type")), *ref = json_string_value(json_object_get(type, "$ref"));
    const json_t *any = json_object_get(type, "anyOf"), *item;
    size_t i;

    json_array_foreach(any, i, item) if (is_of_type(schemas, item, value)) return true;
    if (ref)
        return is_object_of(schemas, json_object_get(schemas, strrchr(ref, '/') + 1), value);
    if (any || !plain)
        return !any;
    if (pl_streq(plain, "array")) {
        json_array_foreach(value, i, item) if (!is_of_type(schemas, json_object_get(type, "items"), item)) return false;
        return json_is_array(value);
    }
    return (pl_streq(plain, "string") && json_is_string(value)) || (pl_streq(plain, "integer") && json_is_integer(value)) ||
           (pl_streq(plain, "boolean") && json_is_boolean(value)) || (pl_streq(plain, "object") && json_is_object(value)) ||
           (pl_streq(plain, "null") && json_is_null(value)) || (pl_streq(plain, "number") && json_is_number(value));
}

static void answers_are_as_the_document_says(void **state)
{
    static const struct {
        const char *schema, *target;
    } answers[] = {
        {"Projects", "/api/v1/projects"},
        {"Repos", "/api/v1/repos"},
        {"Repo", "/api/v1/repos/default/data"},
        {"Branches", "/api/v1/repos/default/data/branches"},
        {"Branch", "/api/v1/repos/default/data/branches/empty"},
        {"Commits", "/api/v1/repos/default/data/commits?limit=1"},
        {"Commit", "/api/v1/repos/default/data/commits/master"},
        {"Files", "/api/v1/repos/default/data/refs/master/list?limit=1"},
        {"Changes", "/api/v1/repos/default/data/diff"},
    };
    json_t *document = ask_json(200, "GET", "/api/v1/openapi.json", NULL), *value;
    const json_t *schemas = json_object_get(json_object_get(document, "components"), "schemas");
    struct answer a;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", NULL);
    put_text("data@master", "d/b", "2", NULL);
    does(201, "POST", "/api/v1/repos/default/data/branches", "{\"name\":\"empty\"}");
    for (size_t i = 0; i < PL_ARRAY_SIZE(answers); i++) {
        value = ask_json(200, "GET", answers[i].target, NULL);
        if (!is_object_of(schemas, json_object_get(schemas, answers[i].schema), value))
            fail_msg("%s does not answer a %s", answers[i].target, answers[i].schema);
        json_decref(value);
    }
    value = page_of_events("");
    assert_true(is_object_of(schemas, json_object_get(schemas, "Events"), value));
    json_decref(value);
    value = ask_json(201, "POST", "/api/v1/sessions", "{}");
    assert_true(is_object_of(schemas, json_object_get(schemas, "Session"), value));
    json_decref(value);
    a = ask("GET", "/api/v1/nothing", NULL);
    value = json_of(&a);
    assert_true(is_object_of(schemas, json_object_get(schemas, "Error"), value));
    json_decref(value);
    answer_free(&a);
    json_decref(document);
}

static void every_shape_in_the_document_is_used(void **state)
{
    json_t *document = ask_json(200, "GET", "/api/v1/openapi.json", NULL), *schema;
    json_t *schemas = json_object_get(json_object_get(document, "components"), "schemas");
    char *text = json_dumps(document, 0), ref[128];
    const char *name;

    (void)state;
    json_object_foreach(schemas, name, schema)
    {
        snprintf(ref, sizeof ref, "\"#/components/schemas/%s\"", name);
        if (!strstr(text, ref))
            fail_msg("nothing is a %s", name);
    }
    free(text);
    json_decref(document);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_push_is_heard_by_who_follows),
        TEST(who_comes_back_hears_what_was_missed),
        TEST(who_was_away_too_long_begins_anew),
        TEST(events_are_read_in_pages_too),
        TEST(the_page_comes_with_its_policy_and_once),
        TEST(the_page_finds_its_files_from_any_depth),
        TEST(files_of_the_page_come_in_an_encoding_that_is_accepted),
        TEST(every_route_is_in_the_document),
        TEST(answers_are_as_the_document_says),
        TEST(every_shape_in_the_document_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
