// link: storage/base storage/system
/* lock_order: a debug build ends with a report where threads could wait for each other for ever, also when they do not meet. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/system/lock_order.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER, c = PTHREAD_MUTEX_INITIALIZER;

static void both(pthread_mutex_t *first, pthread_mutex_t *second)
{
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void one_order(void)
{
    for (int i = 0; i < 3; i++) {
        both(&a, &b);
        both(&b, &c);
        both(&a, &c);
    }
}

static void two_orders(void)
{
    both(&a, &b);
    both(&b, &a);
}

static void a_ring_of_three(void)
{
    both(&a, &b);
    both(&b, &c);
    both(&c, &a);
}

static void an_attempt_waits_for_nothing(void)
{
    both(&a, &b);
    pthread_mutex_lock(&b);
    assert_int_equal(pthread_mutex_trylock(&a), 0);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
}

static void the_same_again(void)
{
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&a);
}

/* Those of one line of code are one kind: the order of two others of theirs shows that of these. */
static void two_orders_of_kinds(void)
{
    pthread_mutex_t of_one_kind[2];

    for (int i = 0; i < 2; i++)
        pthread_mutex_init(&of_one_kind[i], NULL);
    both(&a, &of_one_kind[0]);
    both(&of_one_kind[1], &a);
}

/* A lock that is gone has no part in it: another one may lie there. */
static void one_that_lies_where_another_was(void)
{
    pthread_mutex_t m;

    pthread_mutex_init(&m, NULL);
    both(&a, &m);
    pthread_mutex_destroy(&m);
    pthread_mutex_init(&m, NULL);
    both(&m, &a);
}

static void two_readers(void)
{
    pl_lock_order_take(PL_LOCK_DB_READER);
    pl_lock_order_take(PL_LOCK_DB_READER);
}

static void a_mutex_and_a_reader_in_two_orders(void)
{
    pthread_mutex_lock(&a);
    pl_lock_order_take(PL_LOCK_DB_READER);
    pthread_mutex_unlock(&a);
    pthread_mutex_lock(&a);
}

static void a_request_with_a_reader(void)
{
    pl_lock_order_take(PL_LOCK_DB_READER);
    pl_lock_order_request("log/1");
}

static void a_request_with_a_lock(void)
{
    pthread_mutex_lock(&a);
    pl_lock_order_request("log/1");
}

static void a_request_with_nothing(void)
{
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pl_lock_order_take(PL_LOCK_DB_READER);
    pl_lock_order_give(PL_LOCK_DB_READER);
    pl_lock_order_request("log/1");
}

static void a_request_with_a_lock_that_is_for_it(void)
{
    pl_lock_order_spans_requests(&a);
    pthread_mutex_lock(&a);
    pl_lock_order_request("log/1");
    pthread_mutex_unlock(&a);
}

static const struct {
    const char *name;
    void (*run)(void);
    bool ends;
} cases[] = {
    {"one order", one_order, false},
    {"two orders", two_orders, true},
    {"a ring of three", a_ring_of_three, true},
    {"an attempt", an_attempt_waits_for_nothing, false},
    {"the same again", the_same_again, true},
    {"two orders of kinds", two_orders_of_kinds, true},
    {"one where another was", one_that_lies_where_another_was, false},
    {"two readers", two_readers, true},
    {"a mutex and a reader", a_mutex_and_a_reader_in_two_orders, true},
    {"a request with a reader", a_request_with_a_reader, true},
    {"a request with a lock", a_request_with_a_lock, true},
    {"a request with nothing", a_request_with_nothing, false},
    {"a request with a lock that is for it", a_request_with_a_lock_that_is_for_it, false},
};

/* In a process of its own: what one has recorded stays. */
static bool ends(void (*run)(void))
{
    const struct rlimit no_core = {0};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setrlimit(RLIMIT_CORE, &no_core);
        fclose(stderr);
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0; /* sanitizers can be told to turn SIGABRT into a status */
}

static void debug_builds_end_where_threads_could_wait_for_ever(void **state)
{
    (void)state;
#ifndef PL_LOCK_ORDER
    skip();
#endif
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        if (ends(cases[i].run) != cases[i].ends)
            fail_msg("%s: it %s", cases[i].name, cases[i].ends ? "goes on" : "ends");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(debug_builds_end_where_threads_could_wait_for_ever)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
