// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* The daemon about itself over HTTP: whether it takes work, what is held up and who sees why, and checks of its store. */
#include "tests/support/fixtures/api_people.h"

static void a_daemon_that_ends_is_alive_but_not_ready(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct answer health = ask("GET", "/healthz", NULL), ready = ask("GET", "/readyz", NULL);

        assert_int_equal(health.status, 200);
        assert_int_equal(ready.status, i == 0 ? 200 : 503);
        answer_free(&health);
        answer_free(&ready);
        pl_api_drain(t.api);
    }
    does(200, "GET", "/api/v1/repos", NULL); /* all else goes on */
}

/* ---- the cluster ---- */

static json_t *live_without_cluster(void *self)
{
    (void)self;
    return json_pack("{s:{s:s, s:i}}", "outage", "reason", "https://10.0.0.1:6443: 503: etcd is gone", "since_us", 7);
}

/* The outage as the person with these headers sees it. */
static void outage_is_seen(const char *headers, bool with_reason)
{
    json_t *status = json_as(headers, "/api/v1/status"), *outage = json_object_get(json_object_get(status, "live"), "outage");

    assert_int_equal(number_at(outage, "since_us"), 7);
    assert_int_equal(json_object_size(outage), with_reason ? 2 : 1);
    if (with_reason)
        assert_string_equal(text_at(outage, "reason"), "https://10.0.0.1:6443: 503: etcd is gone");
    json_decref(status);
}

/* The reason names the API server and what it says: it is shown to those who operate the daemon. All others see since when. */
static void why_the_cluster_is_gone_is_shown_to_operators_only(void **state)
{
    static const struct {
        const char *name, *scope, *role;
        bool with_reason;
    } rows[] = {{"none", EVERYTHING, "", false},
                {"reader", EVERYTHING, "reader", false},
                {"boss", "default", "admin", false},
                {"root", EVERYTHING, "admin", true}};

    (void)state;
    api_engine.live = live_without_cluster;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct person p = make_person(rows[i].name, rows[i].scope, rows[i].role, "");

        outage_is_seen(p.header, rows[i].with_reason);
        pl_principal_unref(p.who);
    }
    outage_is_seen(AS_WORKER, false);
    api_engine.live = engine_live;
}

/* ---- fsck ---- */

static int lose_projects(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, "ALTER TABLE project RENAME TO elsewhere", ""), 0);
}

static void a_check_that_cannot_be_done_is_no_good_store(void **state)
{
    json_t *o;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", NULL);
    o = ask_json(200, "POST", "/api/v1/fsck", NULL);
    assert_true(json_is_true(json_object_get(o, "ok")));
    assert_int_equal(number_at(o, "commits"), 1);
    json_decref(o);
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, lose_projects, NULL, &err));
    o = ask_json(500, "POST", "/api/v1/fsck", NULL);
    json_decref(o);
}

/* An object store in which whoever reads waits. */
static struct {
    const struct pl_object_ops *real;
    struct pl_object_ops ops;
    bool entered, open; /* under `lock` */
} gate;

static void gate_pass(void)
{
    pthread_mutex_lock(&lock);
    gate.entered = true;
    pthread_cond_broadcast(&changed);
    while (!gate.open)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int gate_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err)
{
    gate_pass();
    return gate.real->size(s, key, ret, err);
}

static int gate_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    gate_pass();
    return gate.real->open_fd(s, key, ret_fd, err);
}

static void gate_begin(void)
{
    gate.entered = gate.open = false;
    gate.real = t.objects->ops;
    gate.ops = *gate.real;
    gate.ops.size = gate_size;
    gate.ops.open_fd = gate_open_fd;
    t.objects->ops = &gate.ops;
}

static void gate_open(void)
{
    pthread_mutex_lock(&lock);
    gate.open = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* A full check that stands at the gate: its connection. */
static int begin_check(void)
{
    char head[256];
    int fd = client_connect(port);

    snprintf(head, sizeof head, "POST /api/v1/fsck?full=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 0\r\n" AS_USER "\r\n",
             port);
    assert_true(client_say(fd, head));
    UNTIL(gate.entered);
    return fd;
}

static void end_check(int fd, int status)
{
    struct answer a;

    gate_open();
    a = client_read_answer(fd);
    assert_int_equal(a.status, status);
    answer_free(&a);
    close(fd);
    t.objects->ops = gate.real;
}

static void one_check_runs_at_a_time(void **state)
{
    int fd;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", NULL);
    gate_begin();
    fd = begin_check();
    refused("busy", "a check is running already", "POST", "/api/v1/fsck", NULL);
    end_check(fd, 200);
    does(200, "POST", "/api/v1/fsck", NULL);
}

static void a_check_ends_with_the_daemon(void **state)
{
    int fd;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", NULL);
    put_text("data@master", "a", "2", NULL); /* another pack, after the one at the gate */
    gate_begin();
    fd = begin_check();
    pl_api_drain(t.api);
    end_check(fd, 409);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_daemon_that_ends_is_alive_but_not_ready),
        TEST(why_the_cluster_is_gone_is_shown_to_operators_only),
        TEST(a_check_that_cannot_be_done_is_no_good_store),
        TEST(one_check_runs_at_a_time),
        TEST(a_check_ends_with_the_daemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
