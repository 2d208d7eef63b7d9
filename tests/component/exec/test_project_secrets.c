// link: pipelined/exec/kubernetes storage/base kube_fake
/* Secrets of projects against the fake API server: what is asked of them, by whoever they were made, and what stages may name. The loop turns
 * only where something is followed. */
#include "tests/support/kube_server/kube_fake.h"

#include "pipelined/exec/kubernetes/project_secrets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define SECRETS "/api/v1/namespaces/n/secrets"
#define VALUE   "aHVudGVyMg=="
#define STORE   "57"

struct fixture {
    struct kube_fake *fake;
    struct pl_loop *loop;
    struct pl_timer *tick;
    struct pl_kube_client *client;
    struct pl_project_secrets *s;
    bool (*holds)(struct fixture *f);
    unsigned changes, ticks;
};

static void on_changed(void *self)
{
    ((struct fixture *)self)->changes++;
}

static void on_tick(void *arg)
{
    struct fixture *f = arg;

    if (f->holds(f))
        pl_loop_stop(f->loop);
    else if (++f->ticks > 10000)
        fail_msg("waited for what did not come");
    else
        pl_timer_start(f->tick, 5);
}

static void until(struct fixture *f, bool (*holds)(struct fixture *f))
{
    f->holds = holds;
    f->ticks = 0;
    pl_timer_start(f->tick, 0);
    pl_loop_run(f->loop);
}

static void create(struct fixture *f, bool may_see, bool may_keep)
{
    const struct pl_project_secrets_config config = {.loop = f->loop,
                                                     .client = f->client,
                                                     .space = "n",
                                                     .store = STORE,
                                                     .may_see = may_see,
                                                     .may_keep = may_keep,
                                                     .changed = on_changed,
                                                     .self = f};

    assert_int_equal(pl_project_secrets_create(&config, &f->s, NULL), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pl_kube_client_config config = {.pause_ms = 5};

    f->fake = kube_fake_start();
    config.kubeconfig =
        (struct pl_kubeconfig){.server = strdup(kube_fake_url(f->fake)), .name_space = strdup("n"), .context = strdup("fake")};
    assert_int_equal(pl_kube_client_create(&config, &f->client, NULL), 0);
    assert_int_equal(pl_loop_create(&f->loop, NULL), 0);
    assert_int_equal(pl_timer_create(f->loop, "test.tick", on_tick, f, &f->tick, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_project_secrets_destroy(f->s);
    pl_kube_client_destroy(f->client);
    pl_timer_destroy(f->tick);
    pl_loop_destroy(f->loop);
    kube_fake_stop(f->fake);
    free(f);
    return 0;
}

/* One request; its code. */
static int ask(struct fixture *f, enum pl_secret_action what, const char *project, const char *name, const char *values,
               struct pl_err *err)
{
    json_t *given = values ? json_loads(values, 0, NULL) : NULL, *unused = NULL;
    const struct pl_secret_op op = {.what = what, .project = project, .name = name, .values = given};
    int r;

    *err = (struct pl_err){0};
    r = pl_project_secrets_carry_out(f->s, &op, &unused, err);
    json_decref(given);
    json_decref(unused);
    return r;
}

/* What the cluster has, as JSON with sorted keys; "" = nothing. */
static void has(struct fixture *f, const char *name, const char *data)
{
    char path[200];
    json_t *object, *want = json_loads(data, JSON_DECODE_ANY, NULL);

    (void)snprintf(path, sizeof path, SECRETS "/%s", name);
    object = kube_fake_get(f->fake, path);
    if (*data == '\0')
        assert_null(object);
    else
        assert_true(json_equal(json_object_get(object, "data"), want));
    json_decref(object);
    json_decref(want);
}

/* `store` NULL: labelled by hand. */
static void put_of(struct fixture *f, const char *name, const char *project, const char *store)
{
    kube_fake_put(f->fake, SECRETS,
                  json_pack("{s:{s:s, s:{s:s*, s:s*}}, s:{s:s}}", "metadata", "name", name, "labels", "pipelined.io/project",
                            project, "pipelined.io/store", store, "data", "k", VALUE));
}

static void put(struct fixture *f, const char *name, const char *project)
{
    put_of(f, name, project, STORE);
}

static int have(struct fixture *f, const char *project, const char *name, struct pl_err *err)
{
    struct pl_secret_use use = {.name = (char *)(uintptr_t)name, .mount = (char *)(uintptr_t) "/s"};
    const struct pl_stage stage = {.secrets = &use, .n_secrets = 1};

    *err = (struct pl_err){0};
    return pl_project_secrets_have(f->s, project, &stage, err);
}

static void they_are_made_changed_and_removed_for_their_project(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;

    create(f, true, true);
    assert_int_equal(have(f, "p", "pg", &err), PL_EUNAVAILABLE);
    assert_non_null(strstr(err.msg, "project p has no secret \"pg\": pipelinectl create secret pg --project p --file KEY=FILE"));
    assert_non_null(strstr(err.msg, "kubectl -n n label secret pg pipelined.io/project=p"));
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "pg", "{\"dsn\": \"" VALUE "\"}", &err), 0);
    has(f, "pg", "{\"dsn\": \"" VALUE "\"}");
    assert_int_equal(have(f, "p", "pg", &err), 0); /* at once, not when it is seen */
    assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", "pg", "{\"user\": \"eA==\"}", &err), 0);
    has(f, "pg", "{\"dsn\": \"" VALUE "\", \"user\": \"eA==\"}");
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", "pg", NULL, &err), 0);
    has(f, "pg", "");
    assert_int_equal(have(f, "p", "pg", &err), PL_EUNAVAILABLE);
}

static void what_is_not_the_projects_is_neither_changed_nor_told(void **state)
{
    static const char *const others[] = {"theirs", "nobody"};
    struct fixture *f = *state;
    struct pl_err err;

    put(f, "theirs", "q");
    put(f, "nobody", NULL);
    create(f, true, true);
    for (size_t i = 0; i < PL_ARRAY_SIZE(others); i++) {
        assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", others[i], "{\"k\": \"eA==\"}", &err), PL_ENOTFOUND);
        assert_int_equal(ask(f, PL_SECRET_DELETE, "p", others[i], NULL, &err), PL_ENOTFOUND);
        assert_int_equal(ask(f, PL_SECRET_CREATE, "p", others[i], "{\"k\": \"eA==\"}", &err), PL_EEXISTS);
        assert_non_null(strstr(err.msg, "that does not belong to project \"p\""));
        assert_int_equal(have(f, "p", others[i], &err), PL_EUNAVAILABLE);
        has(f, others[i], "{\"k\": \"" VALUE "\"}");
    }
    assert_int_equal(have(f, "q", "theirs", &err), 0);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "q", "theirs", "{\"k\": \"eA==\"}", &err), PL_EEXISTS);
    assert_non_null(strstr(err.hint, "pipelinectl update secret theirs"));
}

static void a_list_has_names_and_keys(void **state)
{
    struct fixture *f = *state;
    const struct pl_secret_op op = {.what = PL_SECRET_LIST, .project = "p"};
    char name[32];
    json_t *list = NULL;

    for (unsigned i = 0; i < PL_PROJECT_SECRETS_PAGE * 2 + 1; i++) { /* more than a page */
        (void)snprintf(name, sizeof name, "s%02u", i);
        put(f, name, "p");
    }
    put(f, "other", "q");
    create(f, true, false);
    assert_int_equal(pl_project_secrets_carry_out(f->s, &op, &list, NULL), 0);
    assert_int_equal(json_array_size(list), PL_PROJECT_SECRETS_PAGE * 2 + 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 20), "name")), "s20");
    assert_string_equal(json_string_value(json_array_get(json_object_get(json_array_get(list, 20), "keys"), 0)), "k");
    json_decref(list);
}

static void with_a_project_its_secrets_go_and_no_others(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;

    put(f, "a", "p");
    put(f, "b", "p");
    put(f, "c", "p2");
    put(f, "d", NULL);
    create(f, true, true);
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", NULL, NULL, &err), 0);
    assert_int_equal(kube_fake_count(f->fake, SECRETS), 2);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"DELETE", "/secrets/c", KUBE_FAULT_ANSWER, 403, 0, "{}", 0, 0});
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p2", NULL, NULL, &err), PL_EFORBIDDEN);
    assert_non_null(strstr(err.msg, "project p2 was not deleted, because its secrets cannot be deleted: "));
    assert_non_null(strstr(err.hint, "kubectl -n n delete secret -l pipelined.io/project=p2,pipelined.io/store=57; "));
}

/* The next project of the name would have them: so it is said what is there. */
static void a_project_is_not_made_over_secrets_that_are_there(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;
    char name[16];

    create(f, true, true);
    put(f, "other", "q");
    put(f, "nobody", NULL);
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), 0);
    for (unsigned i = 0; i < PL_SECRET_NAMES_SHOWN + 2; i++) {
        (void)snprintf(name, sizeof name, "s%02u", i);
        put(f, name, "p");
    }
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, "namespace n already has secrets for a project \"p\"; kubectl -n n delete secret -l "
                                    "pipelined.io/project=p,pipelined.io/store=57 removes s00, s01, "));
    assert_non_null(strstr(err.msg, "s09 and more"));
    assert_null(strstr(err.msg, "s10"));
    assert_non_null(strstr(err.hint, "pipelinectl create project p --with-secrets"));
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", NULL, NULL, &err), 0);
    put_of(f, "twin", "p", "58");
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), 0);
    put_of(f, "hub", "p", NULL);
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), PL_EINUSE);
    assert_non_null(strstr(
        err.msg,
        "already has secrets for a project \"p\"; kubectl -n n label secret -l "
        "'pipelined.io/project=p,!pipelined.io/store' pipelined.io/project- releases these, which were labelled by hand: hub"));
    kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", "/secrets", KUBE_FAULT_ANSWER, 403, 0, "{}", 0, 0});
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), PL_EFORBIDDEN);
}

/* "p" and "p-" are two projects; a label may not end with "-". */
static void a_projects_name_that_is_no_label_has_one_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;

    create(f, true, true);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p-", "pg", "{\"k\": \"eA==\"}", &err), 0);
    assert_int_equal(have(f, "p-", "pg", &err), 0);
    assert_int_equal(have(f, "p", "pg", &err), PL_EUNAVAILABLE);
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", NULL, NULL, &err), 0);
    assert_int_equal(kube_fake_count(f->fake, SECRETS), 1);
}

static void an_answer_that_was_lost_is_no_conflict(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;

    create(f, true, true);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/secrets", KUBE_FAULT_AFTER, 504, 0, "", 0, 1});
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "pg", "{\"k\": \"eA==\"}", &err), 0);
    has(f, "pg", "{\"k\": \"eA==\"}");
}

/* Two daemons have a namespace, and each a project p. */
static void another_daemons_are_not_given_changed_or_removed(void **state)
{
    struct fixture *f = *state;
    const struct pl_secret_op list = {.what = PL_SECRET_LIST, .project = "p"};
    json_t *listed = NULL;
    struct pl_err err;

    put(f, "ours", "p");
    put_of(f, "twin", "p", "58");
    create(f, true, true);
    assert_int_equal(have(f, "p", "ours", &err), 0);
    assert_int_equal(have(f, "p", "twin", &err), PL_EUNAVAILABLE);
    assert_int_equal(pl_project_secrets_carry_out(f->s, &list, &listed, NULL), 0);
    assert_int_equal(json_array_size(listed), 1);
    json_decref(listed);
    assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", "twin", "{\"k\": \"eA==\"}", &err), PL_ENOTFOUND);
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", "twin", NULL, &err), PL_ENOTFOUND);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "twin", "{\"k\": \"eA==\"}", &err), PL_EEXISTS);
    assert_non_null(strstr(err.msg, "that does not belong to project \"p\""));
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", NULL, NULL, &err), 0);
    has(f, "ours", "");
    has(f, "twin", "{\"k\": \"" VALUE "\"}");
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "made", "{\"k\": \"eA==\"}", &err), 0);
    assert_int_equal(have(f, "p", "made", &err), 0);
    assert_true(
        kube_fake_patch(f->fake, SECRETS "/made", json_pack("{s:{s:{s:s}}}", "metadata", "labels", "pipelined.io/store", "58")));
    assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", "made", "{\"k\": \"eA==\"}", &err), PL_ENOTFOUND);
}

/* A project goes: the one sentence that is said. */
static void says_of_those_that_stay(struct fixture *f, const char *project, const char *words)
{
    const struct pl_secret_op op = {.what = PL_SECRET_DELETE, .project = project};
    json_t *said = NULL;

    assert_int_equal(pl_project_secrets_carry_out(f->s, &op, &said, NULL), 0);
    assert_int_equal(json_array_size(said), 1);
    assert_string_equal(json_string_value(json_array_get(said, 0)), words);
    json_decref(said);
}

/* An admin, an operator: by the project's label alone. Another daemon of the namespace may give it to its project of that name, too. */
static void one_that_was_labelled_by_hand_is_given_and_left_to_that_hand(void **state)
{
    static const char *const edit = "kubectl -n n edit secret hub; or have this daemon keep it: kubectl -n n label secret hub "
                                    "pipelined.io/store=57";
    struct fixture *f = *state;
    const struct pl_secret_op list = {.what = PL_SECRET_LIST, .project = "p"};
    json_t *listed = NULL;
    struct pl_err err;

    put_of(f, "hub", "p", NULL);
    create(f, true, true);
    assert_int_equal(have(f, "p", "hub", &err), 0);
    assert_int_equal(pl_project_secrets_carry_out(f->s, &list, &listed, NULL), 0);
    assert_int_equal(json_array_size(listed), 1);
    json_decref(listed);
    assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", "hub", "{\"k\": \"eA==\"}", &err), PL_EFORBIDDEN);
    assert_string_equal(err.msg,
                        "secret \"hub\" of namespace n was labelled for project \"p\" by hand; change or delete it with kubectl");
    assert_string_equal(err.hint, edit);
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", "hub", NULL, &err), PL_EFORBIDDEN);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "hub", "{\"k\": \"eA==\"}", &err), PL_EEXISTS);
    assert_string_equal(err.hint, edit);
    says_of_those_that_stay(
        f, "p",
        "these secrets were labelled for project p by hand and remain: hub. They prevent a new project of that name "
        "until you run: kubectl -n n label secret -l 'pipelined.io/project=p,!pipelined.io/store' pipelined.io/project-");
    has(f, "hub", "{\"k\": \"" VALUE "\"}");
    assert_true(
        kube_fake_patch(f->fake, SECRETS "/hub", json_pack("{s:{s:{s:s}}}", "metadata", "labels", "pipelined.io/store", STORE)));
    assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", "hub", "{\"k\": \"eA==\"}", &err), 0);
}

static void without_the_right_it_is_said_who_can(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;

    put(f, "pg", "p");
    create(f, true, false);
    assert_int_equal(have(f, "p", "pg", &err), 0);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "new", "{\"k\": \"eA==\"}", &err), PL_EFORBIDDEN);
    assert_non_null(strstr(err.hint, "kubectl -n n create secret generic NAME"));
    says_of_those_that_stay(
        f, "p",
        "the daemon's account may not delete secrets, so these of project p remain: pg. They prevent a new project "
        "of that name until you run: kubectl -n n delete secret -l pipelined.io/project=p,pipelined.io/store=57");
    assert_int_equal(kube_fake_count(f->fake, SECRETS), 1);
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), PL_EINUSE);
    f->s = pl_project_secrets_destroy(f->s);
    create(f, false, false);
    assert_int_equal(have(f, "p", "pg", &err), PL_EUNAVAILABLE);
    assert_non_null(strstr(err.msg, "allow the daemon's account to list and watch them"));
    assert_int_equal(ask(f, PL_SECRET_LIST, "p", NULL, NULL, &err), PL_EFORBIDDEN);
    says_of_those_that_stay(
        f, "p",
        "cannot check whether namespace n has secrets of project p: the daemon's account may not list and watch "
        "them");
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), 0); /* no stage is given any */
}

static bool was_told(struct fixture *f)
{
    return f->changes > 0;
}

static bool has_forgotten(struct fixture *f)
{
    size_t n = 0;

    free(pl_project_secrets_names(f->s, "p", &n));
    return n == 1;
}

static bool is_followed(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.watches == 1;
}

static void those_that_others_make_are_seen(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;
    uint64_t number;
    size_t n = 0;
    const char **names;

    put(f, "a", "p");
    create(f, true, true);
    assert_int_equal(have(f, "p", "a", &err), 0); /* before the loop has turned */
    until(f, is_followed);
    number = pl_project_secrets_number(f->s);
    put(f, "b", "p");
    until(f, was_told);
    assert_true(pl_project_secrets_number(f->s) != number);
    names = pl_project_secrets_names(f->s, "p", &n);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    free(names);
    f->changes = 0;
    assert_true(
        kube_fake_patch(f->fake, SECRETS "/a", json_pack("{s:{s:{s:s}}}", "metadata", "labels", "pipelined.io/project", "q")));
    until(f, was_told);
    assert_int_equal(have(f, "p", "a", &err), PL_EUNAVAILABLE);
    assert_int_equal(have(f, "q", "a", &err), 0);
    f->changes = 0;
    assert_true(kube_fake_delete(f->fake, SECRETS "/b"));
    until(f, was_told);
    assert_int_equal(have(f, "p", "b", &err), PL_EUNAVAILABLE);
}

/* Only where names of keys are wanted, and there is no other way to them. */
static void values_are_asked_for_where_their_keys_are(void **state)
{
    struct fixture *f = *state;
    struct kube_fake_view view;
    struct pl_err err;

    put(f, "a", "p");
    put(f, "theirs", "q");
    create(f, true, true);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "pg", "{\"k\": \"eA==\"}", &err), 0);
    assert_int_equal(ask(f, PL_SECRET_CREATE, "p", "theirs", "{\"k\": \"eA==\"}", &err), PL_EEXISTS);
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", "a", NULL, &err), 0);
    assert_int_equal(ask(f, PL_SECRET_NONE, "p", NULL, NULL, &err), PL_EINUSE);
    kube_fake_look(f->fake, &view);
    assert_int_equal(view.with_data, 0);
    assert_int_equal(ask(f, PL_SECRET_UPDATE, "p", "pg", "{\"l\": \"eA==\"}", &err), 0);
    kube_fake_look(f->fake, &view);
    assert_int_equal(view.with_data, 1); /* looked at before, for their number; not told again by the PATCH */
    assert_int_equal(ask(f, PL_SECRET_DELETE, "p", NULL, NULL, &err), 0);
    kube_fake_look(f->fake, &view);
    assert_int_equal(view.with_data, 1);
}

/* The watch's first list is late: what goes before it is told by no event. */
static void one_that_goes_before_the_watch_begins_is_known_no_more(void **state)
{
    struct fixture *f = *state;
    struct pl_err err;

    put(f, "stays", "p");
    put(f, "goes", "p");
    put(f, "freed", "p");
    kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", "limit=500", KUBE_FAULT_ANSWER, 503, 0, "{}", 0, 0});
    create(f, true, true);
    assert_int_equal(have(f, "p", "goes", &err), 0);
    assert_true(kube_fake_delete(f->fake, SECRETS "/goes"));
    assert_true(
        kube_fake_patch(f->fake, SECRETS "/freed", json_pack("{s:{s:{s:n}}}", "metadata", "labels", "pipelined.io/project")));
    kube_fake_heal(f->fake);
    until(f, has_forgotten);
    assert_int_equal(have(f, "p", "goes", &err), PL_EUNAVAILABLE);
    assert_int_equal(have(f, "p", "freed", &err), PL_EUNAVAILABLE);
    assert_int_equal(have(f, "p", "stays", &err), 0);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(they_are_made_changed_and_removed_for_their_project),
        ROW(what_is_not_the_projects_is_neither_changed_nor_told),
        ROW(a_list_has_names_and_keys),
        ROW(with_a_project_its_secrets_go_and_no_others),
        ROW(a_project_is_not_made_over_secrets_that_are_there),
        ROW(a_projects_name_that_is_no_label_has_one_of_its_own),
        ROW(an_answer_that_was_lost_is_no_conflict),
        ROW(another_daemons_are_not_given_changed_or_removed),
        ROW(one_that_was_labelled_by_hand_is_given_and_left_to_that_hand),
        ROW(without_the_right_it_is_said_who_can),
        ROW(values_are_asked_for_where_their_keys_are),
        ROW(those_that_others_make_are_seen),
        ROW(one_that_goes_before_the_watch_begins_is_known_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
