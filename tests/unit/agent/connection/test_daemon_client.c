// link: pipelined/agent/connection storage/base storage/object storage/store
/* Stores are opened by requests that may hang: other threads go on, and an interrupt ends the request. A store on this machine is read first. The test's main thread is the daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/connection/daemon_client.h"
#include "storage/object/object.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"
#include "tests/support/fixtures/store_fixture.h"
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define FORBIDDEN "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#define HANGS_S   60 /* a test that waits for ever is ended */

static struct world {
    int listener;
    struct pl_uplink *link;
    atomic_bool stopping, wanted;
    char head[4096]; /* of the request that was heard last */
} w;

/* A thread that reads or writes through the connection. */
struct caller {
    pthread_t thread;
    struct pl_uplink_user user;
    bool writes;
    int result;
};

static bool is_wanted(void *self)
{
    (void)self;
    return atomic_load(&w.wanted);
}

static int set_up(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct pl_daemon_client_config config = {.token = "secret", .stopping = &w.stopping};
    socklen_t len = sizeof at;
    struct pl_err err;
    char url[64];

    (void)state;
    atomic_store(&w.wanted, true);
    w.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(bind(w.listener, (struct sockaddr *)&at, sizeof at), errno);
    assert_return_code(listen(w.listener, 8), errno);
    getsockname(w.listener, (struct sockaddr *)&at, &len);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(at.sin_port));
    config.url = url;
    assert_int_equal(pl_daemon_client_create(&config, &w.link, &err), 0);
    alarm(HANGS_S);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    alarm(0);
    w.link = pl_daemon_client_destroy(w.link);
    close(w.listener);
    return 0;
}

/* ---- the daemon ---- */

/* Accepts a connection and hears the head of a request that begins with `start`; leaves it unanswered. */
static int hear(const char *start)
{
    size_t len = 0;
    int fd = accept(w.listener, NULL, NULL);

    if (fd < 0)
        return fd;
    do {
        const ssize_t n = recv(fd, w.head + len, sizeof w.head - 1 - len, 0);

        assert_true(n > 0);
        len += (size_t)n;
        w.head[len] = '\0';
    } while (!strstr(w.head, "\r\n\r\n"));
    assert_memory_equal(w.head, start, strlen(start));
    return fd;
}

static void answer(int fd, const char *text)
{
    char rest[4096];

    assert_true(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0);
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
    close(fd);
}

/* Has no record, until the listener is shut down. */
static void *have_nothing(void *arg)
{
    int fd;

    while ((fd = hear("POST /api/v1/projects/b/")) >= 0)
        answer(fd, NOT_FOUND);
    return arg;
}

/* ---- the agent ---- */

static void *open_own(void *arg)
{
    *(int *)arg = pl_daemon_client_open_store(w.link, "a", NULL);
    return NULL;
}

/* Opens the store of the stage's project. */
static void open_store(void)
{
    pthread_t thread;
    int r = -1;

    assert_int_equal(pthread_create(&thread, NULL, open_own, &r), 0);
    answer(hear("GET /api/v1/status "), FORBIDDEN);
    pthread_join(thread, NULL);
    assert_int_equal(r, 0);
}

static void *call(void *arg)
{
    struct caller *c = arg;
    const struct pl_chunk_reader reader = pl_daemon_client_reader(&c->user);
    const struct pl_pack_sink sink = pl_daemon_client_sink(&c->user);
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    const struct pl_hash id = {{1}};
    uint8_t has = 0;

    c->result = c->writes ? sink.has(sink.self, &id, 1, &has, NULL) : reader.get(reader.self, &id, PL_REC_CHUNK, &bytes, NULL);
    return NULL;
}

static void start(struct caller *c, bool writes)
{
    *c = (struct caller){.user = {.link = w.link, .project = writes ? NULL : "b", .wanted = is_wanted}, .writes = writes};
    assert_int_equal(pthread_create(&c->thread, NULL, call, c), 0);
}

static int result(struct caller *c)
{
    pthread_join(c->thread, NULL);
    return c->result;
}

/* ---- tests ---- */

static void an_interrupt_ends_the_opening_of_a_store(void **state)
{
    char session[PL_DAEMON_CLIENT_SESSION_BYTES];
    struct caller reader;
    int fd;

    (void)state;
    open_store();
    start(&reader, false);
    fd = hear("GET /api/v1/status ");
    assert_int_equal(pl_daemon_client_session(w.link, session), 0); /* what the renewer asks for */
    assert_string_equal(session, "");
    atomic_store(&w.wanted, false);
    pl_uplink_interrupt(w.link);
    assert_int_equal(result(&reader), PL_ECANCELED);
    close(fd);
}

static void an_interrupt_ends_the_opening_of_an_upload_session(void **state)
{
    char session[PL_DAEMON_CLIENT_SESSION_BYTES];
    struct caller writer;
    int fd;

    (void)state;
    open_store();
    start(&writer, true);
    fd = hear("POST /api/v1/sessions ");
    assert_int_equal(pl_daemon_client_session(w.link, session), 0);
    assert_string_equal(session, "");
    atomic_store(&w.wanted, false);
    pl_uplink_interrupt(w.link);
    assert_int_equal(result(&writer), PL_ECANCELED);
    close(fd);
}

/* An interrupt that concerns other work: the request is made again. */
static void an_opening_that_is_still_wanted_is_repeated_after_an_interrupt(void **state)
{
    struct caller reader;
    pthread_t rest;
    int fd;

    (void)state;
    open_store();
    start(&reader, false);
    fd = hear("GET /api/v1/status ");
    pl_uplink_interrupt(w.link);
    answer(hear("GET /api/v1/status "), FORBIDDEN);
    close(fd);
    assert_int_equal(pthread_create(&rest, NULL, have_nothing, NULL), 0);
    assert_int_equal(result(&reader), PL_ENOTFOUND);
    shutdown(w.listener, SHUT_RDWR);
    pthread_join(rest, NULL);
}

/* The slower one closes its own: the leak check sees it if not. */
static void two_threads_may_open_the_same_store(void **state)
{
    struct caller readers[2];
    pthread_t rest;
    int fds[2];

    (void)state;
    open_store();
    start(&readers[0], false);
    start(&readers[1], false);
    fds[0] = hear("GET /api/v1/status ");
    fds[1] = hear("GET /api/v1/status ");
    assert_int_equal(pthread_create(&rest, NULL, have_nothing, NULL), 0);
    answer(fds[0], FORBIDDEN);
    answer(fds[1], FORBIDDEN);
    assert_int_equal(result(&readers[0]), PL_ENOTFOUND);
    assert_int_equal(result(&readers[1]), PL_ENOTFOUND);
    shutdown(w.listener, SHUT_RDWR);
    pthread_join(rest, NULL);
}

struct both {
    struct pl_uplink_user user;
    struct pl_hash ids[2];
};

static void *prefetch(void *arg)
{
    const struct both *b = arg;

    pl_daemon_client_prefetch(&b->user, b->ids, 2);
    return NULL;
}

/* The daemon is asked only for what that store does not have. */
static void a_store_on_this_machine_is_read_before_that_of_the_daemon(void **state)
{
    char *dir = fixture_dir();
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct both b = {.user = {.link = w.link}, .ids = {{{0}}, {{1}}}};
    const struct pl_chunk_reader reader = pl_daemon_client_reader(&b.user);
    struct pl_object_store *objects;
    struct pl_pack_builder *builder;
    struct pl_pack_sink sink;
    struct pl_store *store;
    pthread_t thread, rest;
    struct pl_err err;

    (void)state;
    assert_ok(pl_object_file_open(dir, &objects, &err), &err);
    assert_ok(pl_store_open(objects, "b", NULL, &store, &err), &err);
    sink = pl_store_sink(store);
    assert_ok(pl_pack_builder_open(&sink, "b", &builder, &err), &err);
    assert_ok(pl_pack_builder_add(builder, PL_REC_CHUNK, "own", 3, &b.ids[0], &err), &err);
    assert_ok(pl_pack_builder_finish(builder, &err), &err);
    pl_pack_builder_close(builder);
    open_store();
    b.user.project = "b";
    b.user.first = store;

    assert_ok(reader.get(reader.self, &b.ids[0], PL_REC_CHUNK, &bytes, &err), &err);
    assert_int_equal(bytes.len, 3);
    assert_memory_equal(bytes.data, "own", 3);
    assert_int_equal(pthread_create(&thread, NULL, prefetch, &b), 0);
    answer(hear("GET /api/v1/status "), FORBIDDEN);
    answer(hear("POST /api/v1/projects/b/locate "), NOT_FOUND);
    assert_non_null(strcasestr(w.head, "\r\nContent-Length: 32\r\n")); /* one id */
    pthread_join(thread, NULL);
    assert_int_equal(pthread_create(&rest, NULL, have_nothing, NULL), 0);
    assert_int_equal(reader.get(reader.self, &b.ids[1], PL_REC_CHUNK, &bytes, NULL), PL_ENOTFOUND);
    shutdown(w.listener, SHUT_RDWR);
    pthread_join(rest, NULL);
    b.user.link = NULL; /* a store that is all there is lacks what is named: it is damaged */
    assert_int_equal(reader.get(reader.self, &b.ids[1], PL_REC_CHUNK, &bytes, NULL), PL_ECORRUPT);
    pl_store_close(store);
    pl_object_close(objects);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_interrupt_ends_the_opening_of_a_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_interrupt_ends_the_opening_of_an_upload_session, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_opening_that_is_still_wanted_is_repeated_after_an_interrupt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_threads_may_open_the_same_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_on_this_machine_is_read_before_that_of_the_daemon, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
