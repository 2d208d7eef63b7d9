/* kube_permission.c: the table of permissions, one SelfSubjectAccessReview for each, all sent at once. */
#include "pipelined/kube/client/kube_permission.h"

#include <pthread.h>
#include <stdio.h>

#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

static const struct pl_kube_question questions[] = {
    {PL_KUBE_MAY_PODS, "create", "", "pods", NULL, false},
    {PL_KUBE_MAY_PODS, "get", "", "pods", NULL, false},
    {PL_KUBE_MAY_PODS, "list", "", "pods", NULL, false},
    {PL_KUBE_MAY_PODS, "watch", "", "pods", NULL, false},
    {PL_KUBE_MAY_PODS, "delete", "", "pods", NULL, false},
    {PL_KUBE_MAY_MANIFESTS, "get", "", "configmaps", NULL, false},
    {PL_KUBE_MAY_EVENTS, "list", "", "events", NULL, false},
    {PL_KUBE_MAY_EVENTS, "watch", "", "events", NULL, false},
    {PL_KUBE_MAY_WRITE_EVENTS, "create", "", "events", NULL, false},
    {PL_KUBE_MAY_LOGS, "get", "", "pods", "log", false},
    {PL_KUBE_MAY_NODES, "list", "", "nodes", NULL, true},
    {PL_KUBE_MAY_NODES, "watch", "", "nodes", NULL, true},
    {PL_KUBE_MAY_ALL_PODS, "list", "", "pods", NULL, true},
    {PL_KUBE_MAY_ALL_PODS, "watch", "", "pods", NULL, true},
    {PL_KUBE_MAY_QUOTAS, "list", "", "resourcequotas", NULL, false},
    {PL_KUBE_MAY_QUOTAS, "list", "", "limitranges", NULL, false},
    {PL_KUBE_MAY_ROOM, "watch", "", "resourcequotas", NULL, false},
    {PL_KUBE_MAY_ROOM, "watch", "", "limitranges", NULL, false},
    {PL_KUBE_MAY_RUNTIME_CLASSES, "list", "node.k8s.io", "runtimeclasses", NULL, true},
    {PL_KUBE_MAY_CLAIMS, "create", "resource.k8s.io", "resourceclaimtemplates", NULL, false},
    {PL_KUBE_MAY_CLAIMS, "get", "resource.k8s.io", "resourceclaimtemplates", NULL, false},
    {PL_KUBE_MAY_SECRETS, "list", "", "secrets", NULL, false},
    {PL_KUBE_MAY_SECRETS, "watch", "", "secrets", NULL, false},
    {PL_KUBE_MAY_KEEP_SECRETS, "create", "", "secrets", NULL, false},
    {PL_KUBE_MAY_KEEP_SECRETS, "get", "", "secrets", NULL, false},
    {PL_KUBE_MAY_KEEP_SECRETS, "patch", "", "secrets", NULL, false},
    {PL_KUBE_MAY_KEEP_SECRETS, "delete", "", "secrets", NULL, false},
};

#define QUESTIONS PL_ARRAY_SIZE(questions)

const struct pl_kube_question *pl_kube_questions(size_t *ret_n)
{
    *ret_n = QUESTIONS;
    return questions;
}

/* ---- conclusions from the replies ---- */

static int add_question(struct pl_buf *out, const struct pl_kube_question *q, bool first, struct pl_err *err)
{
    return pl_buf_addf(out, err, "%s%s %s%s%s%s%s%s", first ? "" : ", ", q->verb, q->resource, q->sub != NULL ? "/" : "",
                       q->sub != NULL ? q->sub : "", *q->group != '\0' ? "." : "", q->group, q->cluster ? " (cluster)" : "");
}

static int add_line(struct pl_buf *out, enum pl_kube_feature f, const enum pl_kube_reply *replies, size_t n, struct pl_err *err)
{
    static const char *const without[] = {
#define PL_KUBE_FEATURE_TEXT(name, text) text,
        PL_KUBE_FEATURES(PL_KUBE_FEATURE_TEXT)
#undef PL_KUBE_FEATURE_TEXT
    };
    bool first = true;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        if (questions[i].feature != f || replies[i] != PL_KUBE_NO)
            continue;
        r = add_question(out, &questions[i], first, err);
        first = false;
    }
    return r < 0 ? r : pl_buf_addf(out, err, ": not allowed: %s\n", without[f]);
}

int pl_kube_access_conclude(const enum pl_kube_reply *replies, size_t n, struct pl_kube_access *ret, struct pl_buf *lines,
                            struct pl_err *err)
{
    struct pl_kube_access a = {.unknown = 0};
    int r = 0;

    for (size_t f = 0; f < PL_KUBE_FEATURE_COUNT; f++)
        a.on[f] = true;
    for (size_t i = 0; i < n; i++) {
        if (replies[i] == PL_KUBE_NO)
            a.on[questions[i].feature] = false;
        a.unknown += replies[i] == PL_KUBE_UNKNOWN;
    }
    for (unsigned f = 0; f < PL_KUBE_FEATURE_COUNT && r == 0 && lines != NULL; f++)
        if (!a.on[f])
            r = add_line(lines, (enum pl_kube_feature)f, replies, n, err);
    if (r == 0)
        *ret = a;
    return r;
}

/* ---- querying the permissions ---- */

struct asking {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t left;
    struct pl_kube_call calls[QUESTIONS];
    char bodies[QUESTIONS][512];
};

static void on_reply(struct pl_kube_call *call)
{
    struct asking *a = call->arg;

    pthread_mutex_lock(&a->lock);
    a->left--;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static size_t write_body(const struct pl_kube_question *q, const char *space, char out[512])
{
    char in_space[300] = "", sub[64] = "";

    if (!q->cluster)
        (void)snprintf(in_space, sizeof(in_space), "\"namespace\":\"%.253s\",", space);
    if (q->sub != NULL)
        (void)snprintf(sub, sizeof(sub), "\"subresource\":\"%s\",", q->sub);
    return (size_t)snprintf(
        out, 512,
        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\",\"spec\":{\"resourceAttributes\":{%s%s"
        "\"verb\":\"%s\",\"group\":\"%s\",\"resource\":\"%s\"}}}",
        in_space, sub, q->verb, q->group, q->resource);
}

static enum pl_kube_reply read_reply(const struct pl_kube_call *call)
{
    enum pl_kube_reply reply = PL_KUBE_UNKNOWN;
    json_t *review, *allowed;

    if (call->err.code != 0)
        return reply;
    review = json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL);
    allowed = json_object_get(json_object_get(review, "status"), "allowed");
    if (json_is_boolean(allowed))
        reply = json_is_true(allowed) ? PL_KUBE_YES : PL_KUBE_NO;
    json_decref(review);
    return reply;
}

static void ask_all(struct pl_kube_client *c, const char *space, struct asking *a)
{
    a->left = QUESTIONS;
    for (size_t i = 0; i < QUESTIONS; i++) {
        a->calls[i] = (struct pl_kube_call){.method = "POST",
                                            .path = REVIEWS,
                                            .body = a->bodies[i],
                                            .body_len = write_body(&questions[i], space, a->bodies[i]),
                                            .done = on_reply,
                                            .arg = a};
        pl_kube_client_start(c, &a->calls[i]);
    }
    pthread_mutex_lock(&a->lock);
    while (a->left > 0)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

int pl_kube_access_ask(struct pl_kube_client *c, const char *space, struct pl_kube_access *ret, struct pl_buf *lines,
                       struct pl_err *err)
{
    struct asking *a = calloc(1, sizeof(*a));
    enum pl_kube_reply replies[QUESTIONS];
    size_t unknown = 0;
    int r = 0;

    if (a == NULL)
        return pl_err_nomem(err);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    ask_all(c, space, a);
    for (size_t i = 0; i < QUESTIONS; i++) {
        replies[i] = read_reply(&a->calls[i]);
        unknown += replies[i] == PL_KUBE_UNKNOWN;
        pl_kube_call_finish(&a->calls[i]);
    }
    if (unknown == QUESTIONS && a->calls[0].err.code != 0) {
        r = a->calls[0].err.code;
        if (err != NULL)
            *err = a->calls[0].err;
    } else {
        r = pl_kube_access_conclude(replies, QUESTIONS, ret, lines, err);
    }
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
    free(a);
    return r;
}
