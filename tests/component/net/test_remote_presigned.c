// link: pipelined/net/loop pipelined/net/remote pipelined/net/server storage/base
/* Packs by presigned URLs: every request to the daemon and to the bucket can be interrupted, and is then not made in another way. One
 * server plays both. */
#include "pipelined/net/remote/remote_presigned.h"
#include "tests/support/fixtures/http_fixture.h"

#include "storage/base/hash.h"
#include <sched.h>
#include <unistd.h>

#define PROJECT "/api/v1/projects/default"

static struct pl_http_client *client;
static struct pl_remote_signed *presigned;
static atomic_bool cancel;
static struct pl_http_request *held; /* guarded by the fixture's lock */
static const char *to_hold;          /* the last part of the path whose first request gets no answer */
static const struct pl_hash pack = {{1, 2, 3}};

/* --- the daemon and the bucket --- */

/* Keeps the request if it is the one to hold. */
static bool hold(struct pl_http_request *r, const char *name)
{
    bool mine;

    pthread_mutex_lock(&lock);
    mine = to_hold && pl_streq(to_hold, name);
    if (mine) {
        to_hold = NULL;
        held = r;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return mine;
}

static void on_urls(struct pl_http_request *r, void *arg)
{
    char url[64];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/bucket", port);
    if (!hold(r, arg))
        pl_http_reply_json(r, 200, json_pack("{s:[{s:s, s:[], s:i}]}", "urls", "url", url, "headers", "expires_s", 900));
}

static void on_told(struct pl_http_request *r, void *arg)
{
    if (!hold(r, arg))
        pl_http_reply_json(r, 200, json_pack("{s:[{}]}", "packs"));
}

static void on_bucket(struct pl_http_request *r, void *arg)
{
    if (!hold(r, arg)) /* a pack that is not there is no reason to leave the bucket alone for a while */
        pl_http_reply(r, pl_streq(pl_http_method(r), "PUT") ? 200 : 404, "text/plain", "", 0);
}

static char get_urls[] = "get-urls", put_urls[] = "put-urls", packs[] = "packs", bucket[] = "bucket";

static const struct pl_http_route routes[] = {
    {"POST", PROJECT "/get-urls", PL_ON_LOOP, PL_BODY_JSON, 0, on_urls, get_urls, 0},
    {"POST", PROJECT "/put-urls", PL_ON_LOOP, PL_BODY_JSON, 0, on_urls, put_urls, 0},
    {"POST", PROJECT "/packs", PL_ON_LOOP, PL_BODY_JSON, 0, on_told, packs, 0},
    {"GET", "/bucket", PL_ON_LOOP, PL_BODY_NONE, 0, on_bucket, bucket, 0},
    {"PUT", "/bucket", PL_ON_LOOP, PL_BODY_BYTES, 0, on_bucket, bucket, 0},
};

static int start(void **state)
{
    char url[64];

    (void)state;
    held = NULL;
    to_hold = NULL;
    atomic_store(&cancel, false);
    assert_int_equal(fixture_start((struct pl_http_options){.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)}), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    assert_int_equal(pl_http_client_create(url, "secret", &client, NULL), 0);
    presigned = pl_remote_presigned_create(client, "default", &cancel);
    assert_non_null(presigned);
    pl_remote_presigned_allow(presigned, true, true);
    return 0;
}

static int stop(void **state)
{
    presigned = pl_remote_presigned_destroy(presigned);
    client = pl_http_client_destroy(client);
    return fixture_stop(state);
}

/* --- the client --- */

static int fetch(void)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    return pl_remote_presigned_fetch(presigned, &pack, 0, 10, &out);
}

static int refuse(void *self, const void *data, size_t n, struct pl_err *err)
{
    (void)self, (void)data, (void)n;
    return pl_err_set(err, PL_EINTERNAL, "no bytes are expected");
}

static int stream(void)
{
    return pl_remote_presigned_stream(presigned, &(struct pl_remote_range){pack, 0, 10}, refuse, NULL);
}

static int put(void)
{
    return pl_remote_presigned_put(presigned, "s-1", &pack, "0123456789", 10);
}

static void interrupt(void)
{
    pl_http_client_interrupt(client); /* as pl_remote_interrupt does */
    pl_remote_signed_interrupt(presigned);
}

static void set_cancel(void)
{
    atomic_store(&cancel, true);
}

static void *when_held(void *end)
{
    UNTIL(held);
    ((void (*)(void))end)();
    return NULL;
}

static void expect_canceled(int (*call)(void), const char *held_path, void (*end)(void))
{
    pthread_t thread;

    held = NULL;
    to_hold = held_path;
    pthread_create(&thread, NULL, when_held, (void *)end);
    if (call() != PL_ECANCELED)
        fail_msg("%s was not canceled", held_path);
    pthread_join(thread, NULL);
    pl_http_reply(held, 500, "text/plain", "", 0);
}

/* --- tests --- */

static const struct {
    int (*call)(void);
    const char *path;
} requests[] = {{fetch, "get-urls"}, {fetch, "bucket"}, {stream, "get-urls"}, {stream, "bucket"},
                {put, "put-urls"},   {put, "bucket"},   {put, "packs"}};

static void test_an_interrupt_ends_each_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(requests); i++)
        expect_canceled(requests[i].call, requests[i].path, interrupt);
    assert_int_equal(put(), 0); /* later ones are not affected */
}

static void test_closing_ends_each_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(requests); i++) {
        atomic_store(&cancel, false);
        expect_canceled(requests[i].call, requests[i].path, set_cancel);
    }
}

static atomic_int second; /* thread id; 0 = it has not begun */

/* True if the thread waits, in this test for the lock that the first reader holds. */
static bool sleeps(int thread)
{
    char path[64], state = '?';
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    f = thread ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    (void)!fscanf(f, "%*d (%*[^)]) %c", &state);
    fclose(f);
    return state == 'S';
}

static void *fetch_second(void *arg)
{
    (void)arg;
    UNTIL(held);
    atomic_store(&second, gettid());
    return (void *)(intptr_t)fetch();
}

static void *interrupt_both(void *arg)
{
    (void)arg;
    while (!sleeps(atomic_load(&second)))
        sched_yield();
    pl_http_client_interrupt(client);
    return NULL;
}

/* One request for URLs serves all readers: those that wait for it are interrupted with it. */
static void test_an_interrupt_ends_who_waits_for_the_request_of_another(void **state)
{
    pthread_t reader, interrupter;
    void *r;

    (void)state;
    to_hold = "get-urls";
    pthread_create(&reader, NULL, fetch_second, NULL);
    pthread_create(&interrupter, NULL, interrupt_both, NULL);
    assert_int_equal(fetch(), PL_ECANCELED);
    pthread_join(interrupter, NULL);
    pthread_join(reader, &r);
    assert_int_equal((intptr_t)r, PL_ECANCELED);
    pl_http_reply(held, 500, "text/plain", "", 0);
}

#define SERVED(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(test_an_interrupt_ends_each_request),
        SERVED(test_closing_ends_each_request),
        SERVED(test_an_interrupt_ends_who_waits_for_the_request_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
