// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit pl_web
/* The guard: who gets in, by which name, from which page, and with what. */
#include "tests/support/fixtures/api_fixture.h"

#include "pipelined/api/server/api_context.h"
#include "pl_web.h"

#define LIST "GET", "/api/v1/repos"

struct door {
    const char *what, *method, *target, *headers;
    int status; /* 0 = let in: whatever the answer is, it is not the guard's */
};

static void pass_all(const struct door *doors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool posts = pl_streq(doors[i].method, "POST");
        char headers[512], *at;
        struct answer a;

        snprintf(headers, sizeof headers, "%s", doors[i].headers);
        while ((at = strchr(headers, '#')) != NULL) { /* '#' stands for the port */
            char rest[512], number[8];

            snprintf(rest, sizeof rest, "%s", at + 1);
            snprintf(number, sizeof number, "%u", port);
            snprintf(at, sizeof headers - (size_t)(at - headers), "%s%s", number, rest);
        }
        a = ask_with(doors[i].method, doors[i].target, headers, posts ? "{\"name\":\"r\",\"exist_ok\":true}" : "",
                     posts ? 28 : 0);
        if (doors[i].status ? a.status != doors[i].status : a.status == 401 || a.status == 403 || a.status == 421)
            fail_msg("%s: %d, not %d: %.200s", doors[i].what, a.status, doors[i].status, a.body ? a.body : "");
        answer_free(&a);
    }
}

static void only_the_token_opens_the_api(void **state)
{
    static const struct door doors[] = {
        {"no token", LIST, "", 401},
        {"wrong token", LIST, "Authorization: Bearer token-of-the-daemoN\r\n", 401},
        {"start of the token", LIST, "Authorization: Bearer token\r\n", 401},
        {"token with a tail", LIST, "Authorization: Bearer " TOKEN "x\r\n", 401},
        {"empty token", LIST, "Authorization: Bearer \r\n", 401},
        {"other scheme", LIST, "Authorization: Basic " TOKEN "\r\n", 401},
        {"token", LIST, AS_USER, 200},
        {"scheme in other letters", LIST, "Authorization: bearer " TOKEN "\r\n", 200},
        {"made-up cookie", LIST, "Cookie: pl_session=1.00\r\n", 401},
        {"unknown path, stranger", "GET", "/api/v1/nothing", "", 401},
        {"unknown path", "GET", "/api/v1/nothing", AS_USER, 404},
        {"wrong method, stranger", "POST", "/api/v1/events", "", 401},
        {"wrong method", "DELETE", "/api/v1/events", AS_USER, 405},
    };

    (void)state;
    pass_all(doors, PL_ARRAY_SIZE(doors));
}

static void what_everybody_may_ask(void **state)
{
    static const struct door doors[] = {
        {"health", "GET", "/healthz", "", 200},
        {"ready", "GET", "/readyz", "", 200},
        {"page", "GET", "/", "", 0},
        {"page", "HEAD", "/ui/", "", 0},
        {"script", "GET", "/ui/app.js", "", 0},
        {"no such file", "GET", "/ui/no-such-file", "", 0},
        {"login without a code", "GET", "/login", "", 401},
        {"login with a wrong one", "GET", "/login?token=00000000000000000000000000000000", "", 401},
    };

    (void)state;
    pass_all(doors, PL_ARRAY_SIZE(doors));
}

static void a_workers_token_opens_the_data_plane_only(void **state)
{
    static const struct door doors[] = {
        {"session", "POST", "/api/v1/sessions", AS_WORKER, 0},
        {"worker route", "POST", "/api/v1/worker/attach", AS_WORKER, 200},
        {"worker route, daemon's token", "POST", "/api/v1/worker/attach", AS_USER, 200},
        {"worker route, stranger", "POST", "/api/v1/worker/attach", "", 401},
        {"status", "GET", "/api/v1/status", AS_WORKER, 200},
        {"entries", "GET", "/api/v1/trees/default/0000000000000000000000000000000000000000000000000000000000000000/entries",
         AS_WORKER, 200},
        {"repos", LIST, AS_WORKER, 403},
        {"create", "POST", "/api/v1/repos", AS_WORKER, 403},
        {"login link", "POST", "/api/v1/login-links", AS_WORKER, 403},
        {"events", "GET", "/api/v1/events", AS_WORKER, 403},
        {"other worker's token", "POST", "/api/v1/worker/attach", "Authorization: Bearer plw_7_bad\r\n", 401},
    };

    (void)state;
    pass_all(doors, PL_ARRAY_SIZE(doors));
}

/* The path of every route says all that its verb is over, or the handler asks, never both. */
static void every_route_says_who_may_ask(void **state)
{
    size_t n, routes = 0;
    const struct pl_api_table *const *tables = pl_api_tables(t.api, &n);

    (void)state;
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < tables[k]->n_routes; i++) {
            const struct pl_api_route *r = &tables[k]->routes[i];
            const struct pl_permission_rule *rule = pl_permission_rule(r->verb);
            bool project = strstr(r->pattern, "{project}"), repo = strstr(r->pattern, "{repo}") || strstr(r->pattern, "{stage}"),
                 named;

            if (!rule)
                fail_msg("%s %s has no verb", r->method, r->pattern);
            if (r->verb == PL_VERB_OPEN && strncmp(r->pattern, "/api/", 5) == 0)
                fail_msg("%s %s is open to everybody", r->method, r->pattern);
            named = rule->over == PL_PERMISSION_SCOPE_REPO                                                  ? project && repo
                    : rule->over == PL_PERMISSION_SCOPE_PROJECT || rule->over == PL_PERMISSION_SCOPE_MEMBER ? project
                                                                                                            : true;
            if (named == r->asks)
                fail_msg("%s %s: \"%s\" is over what the path %s, and the handler %s", r->method, r->pattern, rule->name,
                         named ? "names" : "does not name", r->asks ? "asks" : "does not ask");
            routes++;
        }
    }
    assert_true(routes > 60);
}

/* A name that leads here from elsewhere (DNS rebinding) is refused before anything else is looked at. */
static void the_host_must_be_ours(void **state)
{
    static const struct door doors[] = {
        {"address and port", LIST, AS_USER "Host: 127.0.0.1:#\r\n", 200},
        {"address alone", LIST, AS_USER "Host: 127.0.0.1\r\n", 200},
        {"localhost", LIST, AS_USER "Host: localhost:#\r\n", 200},
        {"LocalHost", LIST, AS_USER "Host: LocalHost\r\n", 200},
        {"IPv6", LIST, AS_USER "Host: [::1]:#\r\n", 200},
        {"IPv6 alone", LIST, AS_USER "Host: [::1]\r\n", 200},
        {"configured", LIST, AS_USER "Host: data.example:#\r\n", 200},
        {"of the public URL", LIST, AS_USER "Host: people.example\r\n", 200},
        {"of the public URL, other port", LIST, AS_USER "Host: people.example:81\r\n", 421},
        {"other port", LIST, AS_USER "Host: 127.0.0.1:1\r\n", 421},
        {"other name", LIST, AS_USER "Host: evil.example\r\n", 421},
        {"ours as a prefix", LIST, AS_USER "Host: localhost.evil.example:#\r\n", 421},
        {"empty", LIST, AS_USER "Host: \r\n", 421},
        {"nonsense", LIST, AS_USER "Host: [::1\r\n", 421},
        {"before the token", LIST, "Host: evil.example\r\n", 421},
        {"open routes too", "GET", "/healthz", "Host: evil.example\r\n", 421},
        {"unknown paths too", "GET", "/nothing", AS_USER "Host: evil.example\r\n", 421},
    };

    (void)state;
    pass_all(doors, PL_ARRAY_SIZE(doors));
}

/* The error tells the operator which setting to change. */
static void a_foreign_host_is_told_which_setting_would_let_it_in(void **state)
{
    static const struct {
        const char *host, *says;
    } rows[] = {
        {"pipelined.pipelined.svc:#",
         "is not a name of this daemon: if it leads here, add pipelined.pipelined.svc to the setting hosts"},
        {"pipelined.pipelined.svc", "add pipelined.pipelined.svc to the setting hosts"},
        {"127.0.0.1:1", "does not listen on port 1: if a proxy or a Service does, set public_url or worker_url to its URL"},
        {"[::1", "\\\"[::1\\\" is not a name of this daemon"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const size_t n = strcspn(rows[i].host, "#");
        char headers[200], number[8] = "";
        struct answer a;

        if (rows[i].host[n])
            snprintf(number, sizeof number, "%u", port);
        snprintf(headers, sizeof headers, AS_USER "Host: %.*s%s\r\n", (int)n, rows[i].host, number);
        a = ask_with(LIST, headers, NULL, 0);
        assert_int_equal(a.status, 421);
        if (!strstr(a.body, rows[i].says))
            fail_msg("%s: %s", rows[i].host, a.body);
        answer_free(&a);
    }
}

static void a_foreign_page_may_only_read(void **state)
{
    static const struct door doors[] = {
        {"own page", "POST", "/api/v1/repos", AS_USER "Host: localhost:#\r\nOrigin: http://localhost:#\r\n", 201},
        {"public page", "POST", "/api/v1/repos", AS_USER "Host: people.example\r\nOrigin: https://people.example\r\n", 200},
        {"foreign page", "POST", "/api/v1/repos", AS_USER "Origin: http://evil.example\r\n", 403},
        {"page of another port here", "POST", "/api/v1/repos", AS_USER "Host: localhost:#\r\nOrigin: http://localhost\r\n", 403},
        {"page without origin", "POST", "/api/v1/repos", AS_USER "Origin: null\r\n", 403},
        {"foreign page deletes", "DELETE", "/api/v1/repos/default/r", AS_USER "Origin: http://evil.example\r\n", 403},
        {"foreign page reads", LIST, AS_USER "Origin: http://evil.example\r\n", 200},
    };

    (void)state;
    pass_all(doors, PL_ARRAY_SIZE(doors));
}

/* The path and query of a fresh login link. */
static void login_link(char out[256])
{
    json_t *link = ask_json(201, "POST", "/api/v1/login-links", "");
    const char *url = text_at(link, "url");

    assert_memory_equal(url, "https://people.example/pl/login?token=", 38);
    snprintf(out, 256, "%s", url + strlen("https://people.example/pl"));
    json_decref(link);
}

static void a_login_link_gives_a_cookie_once(void **state)
{
    char target[256], cookie[256], headers[400];
    struct answer a;

    (void)state;
    login_link(target);
    a = ask_with("HEAD", target, "", "", 0); /* a look at it does not spend it */
    assert_int_equal(a.status, 200);
    a = ask_with("GET", target, "", "", 0);
    assert_int_equal(a.status, 303);
    assert_string_equal(answer_header(&a, "Location", cookie), "./");
    assert_non_null(answer_header(&a, "Set-Cookie", cookie));
    assert_non_null(strstr(cookie, "HttpOnly"));
    assert_non_null(strstr(cookie, "SameSite=Strict"));
    assert_non_null(strstr(cookie, "; Secure")); /* people come by https */
    answer_free(&a);

    cookie[strcspn(cookie, ";")] = '\0';
    snprintf(headers, sizeof headers, "Cookie: other=1; %s\r\n", cookie);
    a = ask_with("GET", "/api/v1/repos", headers, "", 0);
    assert_int_equal(a.status, 200);
    answer_free(&a);

    a = ask_with("GET", target, "", "", 0);
    assert_int_equal(a.status, 401);
    answer_free(&a);

    cookie[strlen(cookie) - 1] ^= 1;
    snprintf(headers, sizeof headers, "Cookie: %s\r\n", cookie);
    a = ask_with("GET", "/api/v1/repos", headers, "", 0);
    assert_int_equal(a.status, 401);
    answer_free(&a);
}

/* Copies a text, with the daemon's port in place of "#". */
static void with_port(const char *text, char *out, size_t size)
{
    const size_t n = strcspn(text, "#");

    if (text[n])
        snprintf(out, size, "%.*s%u%s", (int)n, text, port, text + n + 1);
    else
        snprintf(out, size, "%s", text);
}

/* Several daemons may be behind one host: each has a cookie of its own. */
static void a_cookie_is_for_the_address_of_the_login(void **state)
{
    static const struct {
        const char *host, *name, *path;
    } rows[] = {
        {"Host: people.example\r\n", "pl_session=", "; Path=/pl;"}, /* the public URL: https://people.example/pl */
        {"Host: PEOPLE.example\r\n", "pl_session=", "; Path=/pl;"},
        {"Host: data.example\r\n", "pl_session=", "; Path=/;"}, /* past the proxy that knows /pl */
        {"Host: 127.0.0.1:#\r\n", "pl_session_#=", "; Path=/;"},
        {"Host: [::1]:#\r\n", "pl_session_#=", "; Path=/;"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        char target[256], host[128], name[64], cookie[256], headers[512];
        struct answer a;

        with_port(rows[i].host, host, sizeof host);
        with_port(rows[i].name, name, sizeof name);
        login_link(target);
        a = ask_with("GET", target, host, "", 0);
        assert_int_equal(a.status, 303);
        assert_non_null(answer_header(&a, "Set-Cookie", cookie));
        answer_free(&a);
        assert_memory_equal(cookie, name, strlen(name));
        assert_non_null(strstr(cookie, rows[i].path));

        cookie[strcspn(cookie, ";")] = '\0';
        snprintf(headers, sizeof headers, "%sCookie: %s\r\n", host, cookie);
        a = ask_with("GET", "/api/v1/repos", headers, "", 0);
        assert_int_equal(a.status, 200);
        answer_free(&a);
        /* the cookie of a daemon on another port is none */
        snprintf(headers, sizeof headers, "%sCookie: pl_session_1=%s\r\n", host, strchr(cookie, '=') + 1);
        a = ask_with("GET", "/api/v1/repos", headers, "", 0);
        assert_int_equal(a.status, 401);
        answer_free(&a);
        /* the cookie ends under the name and path that it has */
        snprintf(headers, sizeof headers, "%sCookie: %s\r\n", host, cookie);
        a = ask_with("DELETE", "/api/v1/login-sessions/current", headers, "", 0);
        assert_int_equal(a.status, 200);
        assert_non_null(answer_header(&a, "Set-Cookie", cookie));
        answer_free(&a);
        assert_memory_equal(cookie, name, strlen(name));
        assert_non_null(strstr(cookie, rows[i].path));
        assert_non_null(strstr(cookie, "; Max-Age=0;"));
    }
}

/* After the login comes the place that the browser asked for, and never one of somebody else's. */
static void a_login_leads_to_the_place_asked_for(void **state)
{
    static const struct {
        const char *to, *location;
    } rows[] = {
        {"%2Fruns%2Fc41d%3Fview%3Dgraph", "./runs/c41d?view=graph"},
        {"%2Fdata%2Fp%2Fr%2Fmaster%2F-%2Fa%2520b", "./data/p/r/master/-/a%20b"},
        {"%2F", "./"},
        {"", "./"},
        {"runs", "./"},
        {"%2F%2Fevil.example%2F", "./"},
        {"https%3A%2F%2Fevil.example", "./"},
        {"%2F%5Cevil.example", "./"},
        {"%2Fruns%0D%0ASet-Cookie:%20a=b", "./"},
        {"%2Fruns%20x", "./"},
        {"%2Fr%C3%BCn", "./"},
    };
    char target[256], with_to[512], value[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct answer a;

        login_link(target);
        snprintf(with_to, sizeof with_to, "%s&to=%s", target, rows[i].to);
        a = ask_with("GET", with_to, "", "", 0);
        assert_int_equal(a.status, 303);
        assert_string_equal(answer_header(&a, "Location", value), rows[i].location);
        answer_free(&a);
    }
}

/* A browser gets the form, a program an error. */
static void a_browser_without_a_good_link_gets_the_form(void **state)
{
    static const struct {
        const char *target, *accept;
        int status;
    } rows[] = {
        {"/login", "Accept: text/html,*/*\r\n", 200},
        {"/login?token=0", "Accept: text/html,*/*\r\n", 401},
        {"/login?token=0", "", 401},
    };
    char value[128];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct answer a = ask_with("GET", rows[i].target, rows[i].accept, "", 0);
        bool page = *rows[i].accept && pl_web_files_count > 0;

        assert_int_equal(a.status, *rows[i].accept && !page ? 503 : rows[i].status);
        assert_string_equal(answer_header(&a, "Content-Type", value), page ? "text/html; charset=utf-8" : "application/json");
        answer_free(&a);
    }
}

static void a_cookie_outlives_a_restart(void **state)
{
    char target[256], cookie[256], headers[400];
    struct answer a;

    (void)state;
    login_link(target);
    /* the host names no port: after the restart the daemon has another one */
    a = ask_with("GET", target, "Host: data.example\r\n", "", 0);
    assert_non_null(answer_header(&a, "Set-Cookie", cookie));
    answer_free(&a);
    cookie[strcspn(cookie, ";")] = '\0';
    api_again();
    snprintf(headers, sizeof headers, "Host: data.example\r\nCookie: %s\r\n", cookie);
    a = ask_with("GET", "/api/v1/repos", headers, "", 0);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

static void who_guesses_is_turned_away_and_who_knows_is_not(void **state)
{
    struct answer a = {0};

    (void)state;
    for (unsigned i = 0; i < 1000 && a.status != 503; i++) {
        answer_free(&a);
        a = ask_with("GET", "/api/v1/repos", "Authorization: Bearer guess\r\n", "", 0);
    }
    assert_int_equal(a.status, 503);
    answer_free(&a);
    does(200, "GET", "/api/v1/repos", "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_the_token_opens_the_api),
        TEST(what_everybody_may_ask),
        TEST(a_workers_token_opens_the_data_plane_only),
        TEST(every_route_says_who_may_ask),
        TEST(the_host_must_be_ours),
        TEST(a_foreign_host_is_told_which_setting_would_let_it_in),
        TEST(a_foreign_page_may_only_read),
        TEST(a_login_link_gives_a_cookie_once),
        TEST(a_cookie_is_for_the_address_of_the_login),
        TEST(a_login_leads_to_the_place_asked_for),
        TEST(a_browser_without_a_good_link_gets_the_form),
        TEST(a_cookie_outlives_a_restart),
        TEST(who_guesses_is_turned_away_and_who_knows_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
