// link: storage/base storage/store storage/system
/* stores: each project's store is opened once, by one thread, while other projects' stores are opened and given. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/store/project_stores.h"

#include <pthread.h>
#include <stdatomic.h>

#define ASKING 8

/* A bucket that does not answer for one project until it is told to. */
static struct {
    const struct pl_object_ops *real;
    struct pl_object_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;
    int refuse; /* answers of this code, of lists that waited */
    unsigned waiting, lists;
} bucket = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static char *dir;
static struct pl_object_store *objects;
static struct pl_project_stores *stores;
static _Atomic unsigned opened;

static int slow_list(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                     struct pl_err *err)
{
    int refuse = 0;

    if (pl_streq(prefix, "p/slow/")) {
        pthread_mutex_lock(&bucket.lock);
        bucket.lists++;
        bucket.waiting++;
        pthread_cond_broadcast(&bucket.changed);
        while (bucket.shut)
            pthread_cond_wait(&bucket.changed, &bucket.lock);
        bucket.waiting--;
        refuse = bucket.refuse;
        bucket.refuse = 0;
        pthread_mutex_unlock(&bucket.lock);
    }
    return refuse < 0 ? pl_err_set(err, refuse, "as told") : bucket.real->list(s, prefix, after, visit, arg, err);
}

static void set_shut(bool shut)
{
    pthread_mutex_lock(&bucket.lock);
    bucket.shut = shut;
    pthread_cond_broadcast(&bucket.changed);
    pthread_mutex_unlock(&bucket.lock);
}

static int note_opened(void *self, struct pl_store *store, struct pl_err *err)
{
    (void)self;
    (void)err;
    assert_ptr_equal(pl_project_stores_peek(stores, pl_store_project(store)), store); /* who changes it meanwhile finds it */
    opened++;
    return 0;
}

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &objects, &err), &err);
    bucket.real = objects->ops;
    bucket.ops = *bucket.real;
    bucket.ops.list = slow_list;
    objects->ops = &bucket.ops;
    bucket.lists = bucket.waiting = 0;
    assert_ok(pl_project_stores_open(objects, fixture_path(dir, "index"), &stores, &err), &err);
    pl_project_stores_on_open(stores, note_opened, NULL);
    opened = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stores = pl_project_stores_close(stores);
    objects->ops = bucket.real;
    objects = pl_object_close(objects);
    fixture_remove(dir);
    return 0;
}

struct asking {
    pthread_t thread;
    struct pl_store *store;
    int r;
    struct pl_err err;
};

static void *ask(void *arg)
{
    struct asking *a = arg;

    a->r = pl_project_stores_get(stores, "slow", &a->store, &a->err);
    return NULL;
}

static void begin(struct asking all[ASKING])
{
    set_shut(true);
    for (size_t i = 0; i < ASKING; i++)
        assert_int_equal(pthread_create(&all[i].thread, NULL, ask, &all[i]), 0);
    pthread_mutex_lock(&bucket.lock);
    while (bucket.waiting == 0)
        pthread_cond_wait(&bucket.changed, &bucket.lock);
    pthread_mutex_unlock(&bucket.lock);
}

static void end(struct asking all[ASKING])
{
    set_shut(false);
    for (size_t i = 0; i < ASKING; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
}

static void a_store_that_opens_slowly_holds_up_no_other(void **state)
{
    struct asking all[ASKING] = {0};
    struct pl_store *quick = NULL;
    struct pl_err err;

    (void)state;
    begin(all);
    assert_ok(pl_project_stores_get(stores, "quick", &quick, &err), &err);
    assert_ptr_equal(pl_project_stores_peek(stores, "quick"), quick);
    assert_null(pl_project_stores_peek(stores, "slow")); /* and does not wait */
    end(all);
    for (size_t i = 0; i < ASKING; i++) {
        assert_ok(all[i].r, &all[i].err);
        assert_ptr_equal(all[i].store, all[0].store);
    }
    assert_int_equal(bucket.lists, 1);
    assert_int_equal(opened, 2);
}

static void a_store_that_does_not_open_is_tried_anew(void **state)
{
    struct asking all[ASKING] = {0};
    struct pl_store *store;
    struct pl_err err;
    unsigned failed = 0;

    (void)state;
    bucket.refuse = PL_ENET;
    begin(all);
    end(all);
    for (size_t i = 0; i < ASKING; i++) {
        failed += all[i].r == PL_ENET;
        assert_true(all[i].r == 0 || (all[i].r == PL_ENET && strstr(all[i].err.msg, "as told")));
    }
    assert_true(failed >= 1); /* and those that waited for that attempt */
    assert_ok(pl_project_stores_get(stores, "slow", &store, &err), &err);
}

static void one_that_was_given_up_is_opened_by_another_thread(void **state)
{
    struct asking all[ASKING] = {0};
    unsigned canceled = 0;

    (void)state;
    bucket.refuse = PL_ECANCELED; /* the client of that request has gone */
    begin(all);
    end(all);
    for (size_t i = 0; i < ASKING; i++)
        canceled += all[i].r == PL_ECANCELED;
    assert_int_equal(canceled, 1);
    assert_int_equal(opened, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_store_that_opens_slowly_holds_up_no_other),
        T(a_store_that_does_not_open_is_tried_anew),
        T(one_that_was_given_up_is_opened_by_another_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
