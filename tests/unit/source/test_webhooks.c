// link: pipelined/source storage/base
/* When the key of a webhook is read, and that names that are no source cost the same. */
#include "pipelined/source/webhooks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The secrets of a project, and how often they are read. */
static struct {
    char value[64]; /* of secret "hub" of project "p"; "" = there is none */
    int fails;      /* error of all readings; 0 = none */
    int reads, others;
} store;

static int secrets(void *engine, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    const bool hub = strcmp(op->project, "p") == 0 && strcmp(op->name, "hub") == 0;
    char *text = NULL;

    assert_ptr_equal(engine, &store);
    assert_int_equal(op->what, PL_SECRET_READ);
    *(hub ? &store.reads : &store.others) += 1;
    if (store.fails)
        return pl_err_set(err, store.fails, "it fails");
    if (!hub || !*store.value)
        return pl_err_set(err, PL_ENOTFOUND, "no such secret");
    assert_int_equal(pl_base64_encode(store.value, strlen(store.value), &text, err), 0);
    *ret = json_pack("{s:s}", PL_WEBHOOK_SECRET_KEY, text);
    free(text);
    return 0;
}

static const char *token_of(const void *self, const char *name)
{
    return strcmp(name, "X-Gitlab-Token") == 0 ? self : NULL;
}

static int setup(void **state)
{
    memset(&store, 0, sizeof store);
    strcpy(store.value, "good");
    return pl_webhook_keys_create((struct pl_webhook_keys **)state, NULL);
}

static int teardown(void **state)
{
    pl_webhook_keys_destroy(*state);
    return 0;
}

static bool takes(struct pl_webhook_keys *k, const char *source, const char *token, bool known)
{
    const struct pl_webhook hook = {.source = source, .header = token_of, .self = token, .secrets = secrets, .engine = &store};
    const struct pl_webhook_secret hub = {"p", "hub"};

    return pl_webhook_keys_check(k, &hook, known ? &hub : NULL);
}

static void a_key_is_read_once_for_many(void **state)
{
    for (int i = 0; i < 1000; i++)
        assert_true(takes(*state, "team", "good", true));
    assert_int_equal(store.reads, 1);
}

static void wrong_signatures_do_not_read_it_again_at_once(void **state)
{
    assert_true(takes(*state, "team", "good", true));
    for (int i = 0; i < 1000; i++)
        assert_false(takes(*state, "team", "bad", true));
    assert_int_equal(store.reads, 1);
}

static void a_changed_secret_holds_at_once(void **state)
{
    assert_true(takes(*state, "team", "good", true));
    strcpy(store.value, "new");
    pl_webhook_keys_changed(*state);
    assert_true(takes(*state, "team", "new", true));
    assert_false(takes(*state, "team", "good", true));
    strcpy(store.value, "");
    pl_webhook_keys_changed(*state);
    assert_false(takes(*state, "team", "new", true));
}

static void an_error_of_the_store_keeps_the_key(void **state)
{
    assert_true(takes(*state, "team", "good", true));
    store.fails = PL_EUNAVAILABLE;
    pl_webhook_keys_changed(*state);
    assert_true(takes(*state, "team", "good", true));
    store.fails = PL_ENOTFOUND;
    pl_webhook_keys_changed(*state);
    assert_false(takes(*state, "team", "good", true));
}

static void a_thousand_sources_have_a_key_each(void **state)
{
    char name[16];

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 1000; i++) {
            snprintf(name, sizeof name, "s%d", i);
            assert_true(takes(*state, name, "good", true));
        }
    assert_true(store.reads < 1200); /* 1000, and few whose rows are taken */
}

static void other_names_are_refused_and_cost_a_bounded_number_of_readings(void **state)
{
    char name[16];

    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_false(takes(*state, name, "good", false));
    }
    assert_in_range(store.others, 1, PL_WEBHOOK_WRONG + 5);
    assert_int_equal(store.reads, 0);
    assert_true(takes(*state, "team", "good", true)); /* a source is not hurt by them */
}

/* The first reading of a name, and none after it: the same for both. */
static void a_source_and_another_name_have_the_same_steps(void **state)
{
    for (int i = 0; i < 10; i++) {
        assert_false(takes(*state, "team", "bad", true));
        assert_false(takes(*state, "none", "bad", false));
        assert_int_equal(store.reads, 1);
        assert_int_equal(store.others, 1);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_key_is_read_once_for_many),
        T(wrong_signatures_do_not_read_it_again_at_once),
        T(a_changed_secret_holds_at_once),
        T(an_error_of_the_store_keeps_the_key),
        T(a_thousand_sources_have_a_key_each),
        T(other_names_are_refused_and_cost_a_bounded_number_of_readings),
        T(a_source_and_another_name_have_the_same_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
