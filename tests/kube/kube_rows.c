// link: pipelined/kube/client pipelined/kube/watch storage/base
/* kube_rows KUBECONFIG rows | namespaces | access | questions: what the client must do against any API server, against the one that the file
 * names; the names of its namespaces; what is off for want of rights; which rights it asks for. For test_client.py and test_deploy.py. */
#include "tests/support/kube_server/kube_client_cases.h"

#include "pipelined/kube/client/kube_permission.h"
#include "storage/base/hash.h"

static struct pl_kube_client *connect_to(const char *file, struct pl_err *err)
{
    struct pl_kube_client_config config = {.kubeconfig = {0}};
    struct pl_kube_client *c = NULL;

    if (pl_kubeconfig_load(&(struct pl_kubeconfig_where){.files = file}, &config.kubeconfig, err) < 0 ||
        pl_kube_client_create(&config, &c, err) < 0)
        return NULL;
    return c;
}

static int setup(void **state)
{
    struct place *p = *state;
    char body[160];
    uint64_t number;
    struct pl_kube_call call = {.method = "POST", .path = "/api/v1/namespaces", .body = body};

    pl_random_bytes(&number, sizeof number);
    (void)snprintf(p->space, sizeof p->space, "rows-%llx", (unsigned long long)number);
    call.body_len = (size_t)snprintf(body, sizeof body,
                                     "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\"}}", p->space);
    assert_int_equal(pl_kube_client_run(p->client, &call, NULL), 0);
    pl_kube_call_finish(&call);
    return 0;
}

static struct place place;

static int take_place(void **state)
{
    *state = &place;
    return setup(state);
}

static int print_namespaces(struct pl_kube_client *c, struct pl_err *err)
{
    json_t *list = NULL, *item;
    size_t i;

    if (pl_kube_client_get(c, "/api/v1/namespaces", &list, err) < 0)
        return 1;
    json_array_foreach(json_object_get(list, "items"), i, item)
        puts(json_string_value(json_object_get(json_object_get(item, "metadata"), "name")));
    json_decref(list);
    return 0;
}

static int print_access(struct pl_kube_client *c, struct pl_err *err)
{
    struct pl_kube_access access;
    struct pl_buf lines = {0};
    int r = pl_kube_access_ask(c, pl_kube_client_namespace(c), &access, &lines, err);

    if (r == 0)
        printf("pods: %s\n%s", access.on[PL_KUBE_MAY_PODS] ? "yes" : "no", lines.len > 0 ? pl_buf_str(&lines) : "");
    pl_buf_finish(&lines);
    return r < 0;
}

static int print_questions(void)
{
    size_t n;
    const struct pl_kube_question *q = pl_kube_questions(&n);

    for (size_t i = 0; i < n; i++)
        printf("%s %s %s%s%s %s\n", q[i].verb, *q[i].group ? q[i].group : "core", q[i].resource, q[i].sub ? "/" : "",
               q[i].sub ? q[i].sub : "", q[i].cluster ? "cluster" : "namespace");
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {KUBE_ROWS};
    struct pl_err err = {0};
    int failed = 1;

    if (argc != 3)
        return 2;
    place.client = connect_to(argv[1], &err);
    if (place.client != NULL && pl_streq(argv[2], "rows"))
        failed = cmocka_run_group_tests(tests, take_place, NULL);
    else if (place.client != NULL && pl_streq(argv[2], "questions"))
        failed = print_questions();
    else if (place.client != NULL && pl_streq(argv[2], "access"))
        failed = print_access(place.client, &err);
    else if (place.client != NULL)
        failed = print_namespaces(place.client, &err);
    if (err.code != 0)
        fprintf(stderr, "%s\n%s\n", err.msg, err.hint);
    pl_kube_client_destroy(place.client);
    return failed != 0;
}
