// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Sessions of browsers over the real API: who sees and ends which, and what ends with them. */
#include "tests/support/fixtures/api_people.h"

#include "pipelined/api/server/api_context.h"

#define SESSIONS "/api/v1/login-sessions"
#define WHOAMI   "/api/v1/whoami"

/* The id of the session that the cookie header belongs to. */
static void session_id(const char *cookie, char out[32])
{
    json_t *value = json_as(cookie, SESSIONS), *one;
    size_t i;

    *out = '\0';
    json_array_foreach(json_object_get(value, "login_sessions"), i, one)
    {
        if (json_is_true(json_object_get(one, "current")))
            snprintf(out, 32, "%s", text_at(one, "id"));
    }
    assert_int_equal(strlen(out), PL_LOGIN_SESSION_ID_HEX);
    json_decref(value);
}

static int open_events(const char *headers)
{
    int stream = client_connect(port);
    char head[700];
    int len = snprintf(head, sizeof head, "GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n", port, headers);
    struct answer a;

    assert_true(client_send(stream, head, (size_t)len));
    client_read_head(stream, &a);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    return stream;
}

static size_t sessions_seen(const char *headers, const char *target)
{
    json_t *value = json_as(headers, target);
    size_t n = json_array_size(json_object_get(value, "login_sessions"));

    json_decref(value);
    return n;
}

static void a_session_is_listed_with_where_it_came_from(void **state)
{
    struct person bob = make_person("bob", EVERYTHING, "reader", "");
    char cookie[400];
    json_t *value, *one;

    (void)state;
    log_in(bob.header, cookie);
    value = json_as(bob.header, SESSIONS);
    one = json_array_get(json_object_get(value, "login_sessions"), 0);
    assert_string_equal(text_at(one, "user"), "bob");
    assert_string_equal(text_at(one, "peer"), "127.0.0.1");
    assert_string_equal(text_at(one, "state"), "good");
    assert_false(json_is_true(json_object_get(one, "current")));
    assert_int_equal(number_at(one, "expires_us") - number_at(one, "created_us"), PL_LOGIN_SESSION_DAYS * 86400LL * 1000000);
    json_decref(value);
    pl_principal_unref(bob.who);
}

static void a_deleted_session_ends_at_once_and_no_other(void **state)
{
    struct person bob = make_person("bob", EVERYTHING, "reader", "");
    char one[400], other[400], id[32], target[128];
    struct answer a;
    int stream, goes_on;

    (void)state;
    log_in(bob.header, one);
    log_in(bob.header, other);
    session_id(one, id);
    stream = open_events(one);
    goes_on = open_events(other);

    snprintf(target, sizeof target, SESSIONS "/%.6s", id);
    assert_int_equal(status_as(bob.header, "DELETE", target, NULL), 200);
    assert_int_equal(status_as(one, "GET", WHOAMI, NULL), 401);
    assert_true(client_read_chunked(stream, &a)); /* the stream ends, whole */
    answer_free(&a);
    assert_int_equal(status_as(other, "GET", WHOAMI, NULL), 200);
    assert_int_equal(status_as(bob.header, "GET", WHOAMI, NULL), 200);
    assert_int_equal(status_as(bob.header, "DELETE", target, NULL), 404);
    close(stream);
    close(goes_on);
    pl_principal_unref(bob.who);
}

static void a_browser_ends_its_own_session(void **state)
{
    char cookie[400], set[256];
    struct answer a;

    (void)state;
    log_in(AS_USER, cookie);
    a = ask_with("DELETE", SESSIONS "/current", cookie, "", 0);
    assert_int_equal(a.status, 200);
    assert_non_null(answer_header(&a, "Set-Cookie", set));
    assert_non_null(strstr(set, "Max-Age=0"));
    answer_free(&a);
    assert_int_equal(status_as(cookie, "GET", WHOAMI, NULL), 401);
    refused("invalid", "has no login session", "DELETE", SESSIONS "/current", NULL); /* a token has none */
}

static void users_see_and_end_their_own_sessions_and_admins_all(void **state)
{
    struct person bob = make_person("bob", EVERYTHING, "reader", ""), eve = make_person("eve", EVERYTHING, "writer", "");
    char bobs[400], daemons[400], id[32], target[128];

    (void)state;
    log_in(bob.header, bobs);
    log_in(AS_USER, daemons);
    session_id(bobs, id);
    snprintf(target, sizeof target, SESSIONS "/%s", id);
    assert_int_equal(sessions_seen(eve.header, SESSIONS), 0);
    assert_int_equal(sessions_seen(bobs, SESSIONS), 1);
    assert_int_equal(sessions_seen(daemons, SESSIONS), 2);
    assert_int_equal(sessions_seen(daemons, SESSIONS "?user=bob"), 1);
    assert_int_equal(status_as(eve.header, "GET", SESSIONS "?user=bob", NULL), 403);
    assert_int_equal(status_as(eve.header, "DELETE", target, NULL), 404); /* it does not tell that there is one */
    assert_int_equal(status_as(bobs, "GET", WHOAMI, NULL), 200);
    assert_int_equal(status_as(daemons, "DELETE", target, NULL), 200);
    assert_int_equal(status_as(bobs, "GET", WHOAMI, NULL), 401);
    pl_principal_unref(bob.who);
    pl_principal_unref(eve.who);
}

/* Fewer roles count in a session at once, and a replaced token takes its sessions along. */
static void a_session_may_do_what_its_token_may(void **state)
{
    struct person bob = make_person("bob", EVERYTHING, "writer", "");
    json_t *who = json_as(bob.header, WHOAMI), *list;
    char cookie[400], target[128];
    int stream;
    struct answer a;

    (void)state;
    log_in(bob.header, cookie);
    assert_int_equal(status_as(cookie, "POST", "/api/v1/repos", "{\"name\":\"r\"}"), 201);
    does(200, "PATCH", "/api/v1/users/bob", "{\"roles\":[{\"scope\":\"\",\"role\":\"reader\"}]}");
    assert_int_equal(status_as(cookie, "POST", "/api/v1/repos", "{\"name\":\"s\"}"), 403);
    assert_int_equal(status_as(cookie, "GET", WHOAMI, NULL), 200);
    stream = open_events(cookie);
    snprintf(target, sizeof target, "/api/v1/tokens/%s/rotate", text_at(who, "token"));
    does(201, "POST", target, NULL);
    assert_int_equal(status_as(cookie, "GET", WHOAMI, NULL), 401);
    assert_true(client_read_chunked(stream, &a));
    answer_free(&a);
    close(stream);
    list = ask_json(200, "GET", SESSIONS "?user=bob", NULL);
    assert_string_equal(text_at(json_array_get(json_object_get(list, "login_sessions"), 0), "state"), "ended");
    json_decref(list);
    json_decref(who);
    pl_principal_unref(bob.who);
}

static void the_oldest_sessions_of_a_user_make_room(void **state)
{
    struct person bob = make_person("bob", EVERYTHING, "reader", ""), eve = make_person("eve", EVERYTHING, "reader", "");
    char first[400], second[400], last[400], eves[400];

    (void)state;
    log_in(eve.header, eves);
    log_in(bob.header, first);
    log_in(bob.header, second);
    for (int i = 2; i < PL_LOGIN_SESSIONS_PER_USER; i++)
        log_in(bob.header, last);
    assert_int_equal(status_as(first, "GET", WHOAMI, NULL), 200);
    log_in(bob.header, last);
    assert_int_equal(status_as(first, "GET", WHOAMI, NULL), 401);
    assert_int_equal(status_as(second, "GET", WHOAMI, NULL), 200);
    assert_int_equal(status_as(last, "GET", WHOAMI, NULL), 200);
    assert_int_equal(status_as(eves, "GET", WHOAMI, NULL), 200);
    pl_principal_unref(bob.who);
    pl_principal_unref(eve.who);
}

/* pl_tx_fn: every session was begun 31 days ago. */
static int age_sessions(struct pl_tx *tx, void *arg, struct pl_err *why)
{
    int r =
        pl_sql_exec(pl_tx_conn(tx), why, "UPDATE login_session SET created_us = created_us - ?1, expires_us = expires_us - ?1",
                    "i", 31LL * 86400 * 1000000);

    (void)arg;
    return PL_MIN(r, 0);
}

static void sessions_are_read_from_the_database_and_expire(void **state)
{
    struct pl_login_sessions *again;
    char cookie[400], value[PL_LOGIN_SESSION_COOKIE_SIZE];
    struct pl_hash hash;

    (void)state;
    log_in(AS_USER, cookie);
    snprintf(value, sizeof value, "%s", strchr(cookie, '=') + 1);
    MUST(pl_login_sessions_open(t.db, &again, &err));
    MUST(pl_login_sessions_token(again, value, &hash, &err));
    assert_int_equal(pl_login_sessions_token(again, "pls_0000000000000000000000000000000000000000", &hash, NULL), PL_EAUTH);
    pl_login_sessions_close(again);

    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, age_sessions, NULL, &err));
    MUST(pl_login_sessions_open(t.db, &again, &err));
    assert_int_equal(pl_login_sessions_token(again, value, &hash, NULL), PL_EAUTH);
    pl_login_sessions_close(again);
    log_in(AS_USER, cookie); /* removes what has expired */
    assert_int_equal(sessions_seen(cookie, SESSIONS), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_is_listed_with_where_it_came_from),
        TEST(a_deleted_session_ends_at_once_and_no_other),
        TEST(a_browser_ends_its_own_session),
        TEST(users_see_and_end_their_own_sessions_and_admins_all),
        TEST(a_session_may_do_what_its_token_may),
        TEST(the_oldest_sessions_of_a_user_make_room),
        TEST(sessions_are_read_from_the_database_and_expire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
