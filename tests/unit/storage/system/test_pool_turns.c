// link: storage/base storage/system
/* turns: so many costly requests of each principal run at once, so many more wait, and others are not held up. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/system/pool_turns.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t done;
static atomic_int running, most;

static void pass_gate(void *arg)
{
    int now = atomic_fetch_add(&running, 1) + 1;

    (void)arg;
    pthread_mutex_lock(&gate);
    if (now > atomic_load(&most))
        atomic_store(&most, now);
    pthread_mutex_unlock(&gate);
    atomic_fetch_sub(&running, 1);
    sem_post(&done);
}

static void post(void *arg)
{
    (void)arg;
    sem_post(&done);
}

static void each_waits_for_their_own(void **state)
{
    struct pl_turns *t;
    struct pl_pool *p;
    struct pl_err err;

    (void)state;
    sem_init(&done, 0, 0);
    assert_ok(pl_pool_create("test", 4, 128, &p, &err), &err); /* two threads do slow work: one for each principal */
    assert_ok(pl_turns_create(p, &t, &err), &err);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 1 + PL_TURNS_WAITING; i++)
        assert_ok(pl_turns_run(t, "mallory", pass_gate, NULL, &err), &err);
    assert_int_equal(pl_turns_run(t, "mallory", pass_gate, NULL, &err), PL_EBUSY);
    assert_ok(pl_turns_run(t, "bob", post, NULL, &err), &err);
    sem_wait(&done);
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < 1 + PL_TURNS_WAITING; i++)
        sem_wait(&done);
    assert_int_equal(atomic_load(&most), 1);
    assert_ok(pl_turns_run(t, "mallory", post, NULL, &err), &err); /* they may again */
    sem_wait(&done);
    pl_pool_destroy(p);
    pl_turns_destroy(t);
    sem_destroy(&done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_waits_for_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
