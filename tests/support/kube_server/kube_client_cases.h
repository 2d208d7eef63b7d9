/* What the client must do against any API server: run on the fake one by test_kube_client, on a real one by tests/kube. */
#pragma once

#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/watch/kube_informer.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Where the rows run: a client, and a namespace that is theirs alone. */
struct place {
    struct pl_kube_client *client;
    char space[64];
};

static char *path_of(const struct place *p, const char *resource, const char *name, char out[256])
{
    struct pl_buf b = {0};

    assert_int_equal(pl_kube_path(&b, "v1", p->space, resource, name, NULL, NULL), 0);
    (void)snprintf(out, 256, "%s", (const char *)b.data);
    pl_buf_finish(&b);
    return out;
}

/* --- waiting --- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t done;
};
#define GATE                                                                                                                     \
    {                                                                                                                            \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                                                   \
    }

static void pass(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->done++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void await(struct gate *g, size_t n)
{
    pthread_mutex_lock(&g->lock);
    while (g->done < n)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void on_created(struct pl_kube_object_create *op)
{
    pass(op->arg);
}

static void on_deleted_row(struct pl_kube_object_delete *op)
{
    pass(op->arg);
}

/* --- one object, whole --- */

static char *pod_body(const char *name, const char *hash, char out[1024])
{
    (void)snprintf(out, 1024,
                   "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"row\"},"
                   "\"annotations\":{\"%s\":\"%s\"}},"
                   "\"spec\":{\"restartPolicy\":\"Never\",\"automountServiceAccountToken\":false,\"containers\":[{\"name\":"
                   "\"main\",\"image\":\"x\"}]}}",
                   name, PL_KUBE_HASH, hash);
    return out;
}

static struct pl_kube_object_create make_pod(const struct place *p, const char *name, const char *hash, const char *body,
                                             bool dry_run)
{
    struct gate g = GATE;
    char path[256];
    struct pl_kube_object_create op = {.collection = path_of(p, "pods", NULL, path),
                                       .name = name,
                                       .hash = hash,
                                       .body = body,
                                       .body_len = strlen(body),
                                       .dry_run = dry_run,
                                       .done = on_created,
                                       .arg = &g};

    pl_kube_object_create_start(p->client, &op);
    await(&g, 1);
    pl_kube_object_create_finish(&op);
    return op;
}

static struct pl_kube_object_delete delete_pod(const struct place *p, const char *name, const char *uid)
{
    struct gate g = GATE;
    char path[256];
    struct pl_kube_object_delete op = {
        .path = path_of(p, "pods", name, path), .uid = uid, .grace_s = 0, .done = on_deleted_row, .arg = &g};

    pl_kube_object_delete_start(p->client, &op);
    await(&g, 1);
    pl_kube_object_delete_finish(&op);
    return op;
}

static void an_object_is_made_once_however_often_it_is_asked_for(void **state)
{
    const struct place *p = *state;
    char body[1024], uid[64];
    struct pl_kube_object_create op = make_pod(p, "once", "h1", pod_body("once", "h1", body), false);

    if (op.err.code != 0)
        fail_msg("%s", op.err.msg);
    assert_int_equal(op.made, PL_KUBE_MADE);
    (void)snprintf(uid, sizeof uid, "%s", op.uid);
    assert_true(strlen(uid) > 10);
    op = make_pod(p, "once", "h1", body, false);
    assert_int_equal(op.err.code, 0);
    assert_int_equal(op.made, PL_KUBE_WAS_THERE);
    assert_string_equal(op.uid, uid);
    op = make_pod(p, "once", "h2", pod_body("once", "h2", body), false);
    assert_int_equal(op.err.code, PL_EEXISTS);
    assert_non_null(strstr(op.err.msg, "/pods/once already exists, and is another version of pipelined's object"));
    assert_int_equal(delete_pod(p, "once", uid).err.code, 0);
}

static void only_the_object_with_that_uid_is_removed(void **state)
{
    const struct place *p = *state;
    char body[1024], path[256], uid[64];
    struct pl_kube_object_delete gone;
    json_t *object = NULL;

    (void)snprintf(uid, sizeof uid, "%s", make_pod(p, "mine", "h", pod_body("mine", "h", body), false).uid);
    gone = delete_pod(p, "mine", "11111111-2222-3333-4444-555555555555");
    assert_int_equal(gone.err.code, 0);
    assert_true(gone.was_gone);
    assert_int_equal(pl_kube_client_get(p->client, path_of(p, "pods", "mine", path), &object, NULL), 0);
    json_decref(object);
    gone = delete_pod(p, "mine", uid);
    assert_int_equal(gone.err.code, 0);
    assert_false(gone.was_gone);
    assert_int_equal(pl_kube_client_get(p->client, path, &object, NULL), PL_ENOTFOUND);
    assert_true(delete_pod(p, "mine", uid).was_gone);
}

static void a_dry_run_keeps_nothing_and_says_what_is_wrong(void **state)
{
    const struct place *p = *state;
    struct pl_kube_object_create op;
    char body[1024], path[256];
    json_t *object = NULL;
    struct pl_err err = {0};

    op = make_pod(p, "dry", "h", pod_body("dry", "h", body), true);
    assert_int_equal(op.err.code, 0);
    assert_int_equal(pl_kube_client_get(p->client, path_of(p, "pods", "dry", path), &object, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "pods \"dry\" not found");
    op = make_pod(
        p, "dry", "h",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{},\"spec\":{\"containers\":[{\"name\":\"m\",\"image\":\"x\"}]}}",
        true);
    assert_int_equal(op.err.code, PL_EINVAL);
    assert_int_equal(op.status.code, 422);
    assert_non_null(strstr(op.err.msg, "name or generateName is required"));
}

/* --- many --- */

#define MANY 200

struct one {
    struct pl_kube_object_create op;
    char name[32], body[1024];
};

static void many_are_made_at_once_over_few_connections(void **state)
{
    const struct place *p = *state;
    struct one *all = calloc(MANY, sizeof *all);
    struct gate g = GATE;
    struct pl_kube_client_view view;
    char path[256];

    path_of(p, "pods", NULL, path);
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(all[i].name, sizeof all[i].name, "many-%zu", i);
        pod_body(all[i].name, "h", all[i].body);
        all[i].op = (struct pl_kube_object_create){.collection = path,
                                                   .name = all[i].name,
                                                   .hash = "h",
                                                   .body = all[i].body,
                                                   .body_len = strlen(all[i].body),
                                                   .done = on_created,
                                                   .arg = &g};
        pl_kube_object_create_start(p->client, &all[i].op);
    }
    await(&g, MANY);
    for (size_t i = 0; i < MANY; i++) {
        if (all[i].op.err.code != 0)
            fail_msg("%s: %s", all[i].name, all[i].op.err.msg);
        assert_int_equal(delete_pod(p, all[i].name, all[i].op.uid).err.code, 0);
        pl_kube_object_create_finish(&all[i].op);
    }
    pl_kube_client_look(p->client, &view);
    assert_int_equal(view.running, 0);
    assert_int_equal(view.waiting, 0);
    assert_true(view.requests >= 2 * MANY);
    free(all);
}

/* --- kept up to date --- */

/* What an informer told, a text; waiters are woken by each. */
struct ear {
    struct gate gate;
    struct pl_buf told; /* gate.lock */
};

static int on_told(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err)
{
    struct ear *x = self;
    const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
    int r;

    pthread_mutex_lock(&x->gate.lock);
    r = e == PL_KUBE_SYNCED ? pl_buf_add_str(&x->told, "SYNCED ", err)
                            : pl_buf_addf(&x->told, err, "%s:%s ", pl_kube_event_name(e), name != NULL ? name : "?");
    pthread_cond_broadcast(&x->gate.changed);
    pthread_mutex_unlock(&x->gate.lock);
    return r;
}

/* Until `what` was told, and how often. */
static size_t await_told(struct ear *x, const char *what)
{
    size_t n = 0;

    pthread_mutex_lock(&x->gate.lock);
    while (x->told.len == 0 || strstr(pl_buf_str(&x->told), what) == NULL)
        pthread_cond_wait(&x->gate.changed, &x->gate.lock);
    for (const char *at = pl_buf_str(&x->told); (at = strstr(at, what)) != NULL; at++)
        n++;
    pthread_mutex_unlock(&x->gate.lock);
    return n;
}

static struct pl_kube_informer *listen_in(const struct place *p, struct ear *x, const char *labels, unsigned page)
{
    struct pl_kube_informer *i = NULL;
    char path[256];
    const struct pl_kube_watch_config config = {.path = path_of(p, "pods", NULL, path),
                                                .labels = labels,
                                                .keep = "metadata{labels annotations deletionTimestamp} spec{nodeName} status",
                                                .page = page,
                                                .pause_ms = 10,
                                                .event = on_told,
                                                .self = x};

    *x = (struct ear){.gate = GATE};
    assert_int_equal(pl_kube_informer_create(p->client, &config, &i, NULL), 0);
    return i;
}

static void stop_listening(struct pl_kube_informer *i, struct ear *x)
{
    pl_kube_informer_destroy(i);
    pl_buf_finish(&x->told);
}

/* A label of a pod, changed. */
static void relabel(const struct place *p, const char *name, const char *value)
{
    char path[256], body[128];
    struct pl_kube_call call = {.method = "PATCH",
                                .path = path_of(p, "pods", name, path),
                                .body = body,
                                .body_len =
                                    (size_t)snprintf(body, sizeof body, "{\"metadata\":{\"labels\":{\"app\":\"%s\"}}}", value),
                                .content_type = "application/merge-patch+json"};
    struct pl_err err = {0};

    if (pl_kube_client_run(p->client, &call, &err) != 0)
        fail_msg("%s", err.msg);
    pl_kube_call_finish(&call);
}

static void a_collection_is_kept_up_to_date(void **state)
{
    const struct place *p = *state;
    struct pl_kube_informer *i;
    struct pl_kube_informer_view view;
    struct ear x;
    char body[1024], name[16], uid[5][64];

    for (int k = 0; k < 5; k++) {
        (void)snprintf(name, sizeof name, "w%d", k);
        (void)snprintf(uid[k], sizeof uid[k], "%s", make_pod(p, name, "h", pod_body(name, "h", body), false).uid);
    }
    i = listen_in(p, &x, "app=row", 2);
    await_told(&x, "SYNCED ");
    assert_int_equal(await_told(&x, "ADDED:w4"), 1);
    make_pod(p, "w5", "h", pod_body("w5", "h", body), false);
    await_told(&x, "ADDED:w5");
    relabel(p, "w1", "other"); /* leaves what is selected */
    assert_int_equal(await_told(&x, "DELETED:w1"), 1);
    relabel(p, "w1", "row");
    await_told(&x, "ADDED:w1");
    delete_pod(p, "w2", uid[2]);
    assert_int_equal(await_told(&x, "DELETED:w2"), 1);
    do
        pl_kube_informer_look(i, &view); /* events are told before they are counted */
    while (view.objects != 5 && sched_yield() == 0);
    assert_true(view.synced && view.lists == 1 && view.problem[0] == '\0');
    stop_listening(i, &x);
}

static void what_the_server_says_is_said_word_for_word(void **state)
{
    const struct place *p = *state;
    struct pl_kube_call call = {.method = "POST", .path = "/api/v1/namespaces/none-such/pods?x", .body = "{", .body_len = 1};
    json_t *object = NULL;
    struct pl_err err = {0};
    char path[256];

    assert_int_equal(pl_kube_client_run(p->client, &call, &err), PL_EINVAL);
    assert_int_equal(call.verdict, PL_KUBE_REFUSED);
    assert_int_equal(call.status.code, 400);
    assert_string_equal(err.msg, call.status.message);
    pl_kube_call_finish(&call);
    assert_int_equal(pl_kube_client_get(p->client, path_of(p, "pods", "nobody", path), &object, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "pods \"nobody\" not found");
    assert_int_equal(pl_kube_client_get(p->client, "/version", &object, &err), 0);
    assert_string_equal(json_string_value(json_object_get(object, "major")), "1");
    json_decref(object);
}

#define KUBE_ROWS                                                                                                                \
    cmocka_unit_test(an_object_is_made_once_however_often_it_is_asked_for),                                                      \
        cmocka_unit_test(only_the_object_with_that_uid_is_removed),                                                              \
        cmocka_unit_test(a_dry_run_keeps_nothing_and_says_what_is_wrong),                                                        \
        cmocka_unit_test(many_are_made_at_once_over_few_connections), cmocka_unit_test(a_collection_is_kept_up_to_date),         \
        cmocka_unit_test(what_the_server_says_is_said_word_for_word)
