// link: pipelined/kube/pod
/* own_limits: which LimitRanges and quotas refuse the containers that pipelined adds to every pod, and what is said then. */
#include "pipelined/kube/pod/own_limits.h"
#include "tests/unit/kube/pod/pod_fixture.h"

#define CONTAINER(limit) "{\"spec\": {\"limits\": [{\"type\": \"Container\", " limit "}]}}"
#define HARD(hard)       "{\"spec\": {\"hard\": {" hard "}}}"

static json_t *rendered(int64_t agent_memory_bytes, bool limits)
{
    struct pl_spec *spec = pod_spec_of("\"resources\": {\"memory\": \"8Gi\", \"cpu\": 4}");
    const struct pl_pod_worker worker = worker_of(spec);
    const struct pl_pod_cluster cluster = {.demands_cpu_limit = limits};
    struct pl_pod_settings settings = plain_settings();
    struct pl_pod pod = {0};
    json_t *ret;

    settings.agent_memory_bytes = agent_memory_bytes;
    assert_int_equal(pl_pod_render(&cluster, &settings, &worker, &pod, NULL), 0);
    ret = json_incref(pod.pod);
    pl_pod_finish(&pod);
    pl_spec_destroy(spec);
    return ret;
}

/* The agent has a limit of 512Mi and requests a quarter of it and 100m; a limit of 1 CPU where a quota demands one. What
 * main asks for is the stage's business. */
static void limits_that_refuse_our_containers_are_told_apart(void **state)
{
    static const struct {
        const char *range, *quota;
        bool limits;
        const char *why; /* NULL: they fit */
        const char *remedy;
    } rows[] = {
        {CONTAINER("\"max\": {\"memory\": \"1Gi\", \"cpu\": \"1\"}, \"default\": {\"cpu\": \"1\"}"), NULL, false, NULL, NULL},
        {CONTAINER("\"max\": {\"memory\": \"512Mi\"}, \"min\": {\"memory\": \"128Mi\", \"cpu\": \"100m\"}"), NULL, false, NULL,
         NULL},
        {CONTAINER("\"max\": {\"memory\": \"256Mi\"}"), NULL, false,
         "LimitRange team allows a container at most 256Mi of memory, and container agent has a limit of 512Mi",
         "Lower kubernetes.agent_memory"},
        {CONTAINER("\"min\": {\"memory\": \"200Mi\"}"), NULL, false,
         "LimitRange team demands of a container at least 200Mi of memory, and container agent requests 128Mi",
         "Raise kubernetes.agent_memory"},
        {CONTAINER("\"maxLimitRequestRatio\": {\"memory\": \"2\"}"), NULL, false,
         "LimitRange team allows a limit of memory of at most 2 times the request, and container agent has 512Mi and requests "
         "128Mi",
         "kubernetes.pod_template"},
        {CONTAINER("\"maxLimitRequestRatio\": {\"memory\": \"4\"}"), NULL, false, NULL, NULL},
        {CONTAINER("\"max\": {\"cpu\": \"50m\"}, \"default\": {\"cpu\": \"50m\"}"), NULL, false,
         "LimitRange team gives containers a limit of 50m cpu, and container agent requests 100m", "kubernetes.pod_template"},
        {CONTAINER("\"max\": {\"cpu\": \"500m\"}, \"default\": {\"cpu\": \"500m\"}"), NULL, true,
         "LimitRange team allows a container at most 500m of cpu, and container agent has a limit of 1",
         "kubernetes.pod_template"},
        {CONTAINER("\"min\": {\"cpu\": \"250m\"}"), NULL, false,
         "LimitRange team demands of a container at least 250m of cpu, and container agent requests 100m",
         "kubernetes.pod_template"},
        {"{\"spec\": {\"limits\": [{\"type\": \"Pod\", \"max\": {\"memory\": \"256Mi\"}}]}}", NULL, false,
         "LimitRange team allows a pod at most 256Mi of memory, and container agent has a limit of 512Mi",
         "Lower kubernetes.agent_memory"},
        {"{\"spec\": {\"limits\": [{\"type\": \"Pod\", \"min\": {\"memory\": \"4Gi\"}}]}}", NULL, false, NULL, NULL},
        {"{\"spec\": {\"limits\": [{\"type\": \"PersistentVolumeClaim\", \"max\": {\"memory\": \"1\"}}]}}", NULL, false, NULL,
         NULL},
        {"{}", NULL, false, NULL, NULL},
        {NULL, HARD("\"limits.memory\": \"64Gi\", \"requests.cpu\": \"100m\", \"pods\": \"0\""), false, NULL, NULL},
        {NULL, HARD("\"limits.memory\": \"256Mi\""), false,
         "ResourceQuota team allows all pods together 256Mi of limits.memory, and container agent of each has a limit of 512Mi",
         "Lower kubernetes.agent_memory"},
        {NULL, HARD("\"requests.memory\": \"0\""), false,
         "ResourceQuota team allows all pods together 0 of requests.memory, and container agent of each requests 128Mi",
         "Lower kubernetes.agent_memory"},
        {NULL, HARD("\"memory\": \"100Mi\""), false, "ResourceQuota team allows all pods together 100Mi of memory, and", "Lower"},
        {NULL, HARD("\"cpu\": \"10m\""), false,
         "ResourceQuota team allows all pods together 10m of cpu, and container agent of each requests 100m",
         "kubernetes.pod_template"},
        {NULL, HARD("\"limits.cpu\": \"500m\""), true,
         "ResourceQuota team allows all pods together 500m of limits.cpu, and container agent of each has a limit of 1",
         "kubernetes.pod_template"},
        {NULL, "{\"spec\": {\"scopes\": [\"BestEffort\"], \"hard\": {\"memory\": \"1\"}}}", false, NULL, NULL},
        {NULL, "{\"spec\": {\"scopeSelector\": {\"matchExpressions\": []}, \"hard\": {\"memory\": \"1\"}}}", false, NULL, NULL},
        {NULL, HARD("\"limits.memory\": \"nonsense\""), false, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *pod = rendered(0, rows[i].limits), *object = json_loads(rows[i].range ? rows[i].range : rows[i].quota, 0, NULL);
        struct pl_own_limits found = {.remedy = ""};
        bool refuses;

        assert_non_null(object);
        json_object_set_new(object, "metadata", json_pack("{s:s}", "name", "team"));
        refuses = rows[i].range ? pl_own_limits_range(object, pod, &found) : pl_own_limits_quota(object, pod, &found);
        if (refuses != (rows[i].why != NULL) ||
            (refuses && (strncmp(found.why, rows[i].why, strlen(rows[i].why)) != 0 || !strstr(found.remedy, rows[i].remedy))))
            fail_msg("row %zu: %d, %s; %s", i, refuses, found.why, found.remedy);
        json_decref(object);
        json_decref(pod);
    }
}

/* What the operator's settings make of the containers is what counts. */
static void less_memory_of_the_agent_fits(void **state)
{
    json_t *pod = rendered(128LL << 20, false), *range = json_loads(CONTAINER("\"max\": {\"memory\": \"256Mi\"}"), 0, NULL);
    struct pl_own_limits found;

    (void)state;
    assert_false(pl_own_limits_range(range, pod, &found));
    json_decref(range);
    json_decref(pod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_that_refuse_our_containers_are_told_apart),
        cmocka_unit_test(less_memory_of_the_agent_fits),
    };

    return cmocka_run_group_tests_name("own_limits", tests, NULL, NULL);
}
