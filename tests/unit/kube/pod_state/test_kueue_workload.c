// link: pipelined/kube/pod_state
/* workload: which of a Workload's conditions says why its pod is held back. */
#include "pipelined/kube/pod_state/kueue_workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define LIST(conditions)           "{\"items\": [{\"status\": {\"conditions\": [" conditions "]}}]}"
#define ONE(type, status, message) "{\"type\": \"" type "\", \"status\": \"" status "\", \"message\": \"" message "\"}"
#define PENDING                    ONE("QuotaReserved", "False", "couldn't assign flavors to pod set main")

static const struct {
    const char *list, *words;
} cases[] = {
    {"{}", ""},
    {"{\"items\": []}", ""},
    {"{\"items\": [7]}", ""},
    {LIST(""), ""},
    {LIST(PENDING), "couldn't assign flavors to pod set main"},
    {LIST(ONE("Evicted", "True", "preempted") ", " PENDING), "couldn't assign flavors to pod set main"},
    {LIST(ONE("QuotaReserved", "True", "reserved") ", " ONE("Admitted", "False", "waits for a check")), "waits for a check"},
    {LIST(ONE("Evicted", "True", "the ClusterQueue is stopped")), "the ClusterQueue is stopped"},
    {LIST(ONE("QuotaReserved", "True", "reserved") ", " ONE("Admitted", "True", "admitted")), ""},
};

static void the_condition_that_decides_is_told(void **state)
{
    char out[200];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        json_t *list = json_loads(cases[i].list, 0, NULL);

        assert_non_null(list);
        pl_kueue_workload_reason(list, out, sizeof out);
        assert_string_equal(out, cases[i].words);
        json_decref(list);
    }
}

static void workloads_are_found_by_their_pod(void **state)
{
    char path[PL_KUEUE_WORKLOAD_PATH_MAX];

    (void)state;
    pl_kueue_workload_path("n", "u-1", path);
    assert_string_equal(
        path, "/apis/kueue.x-k8s.io/v1beta1/namespaces/n/workloads?limit=1&labelSelector=kueue.x-k8s.io%2Fjob-uid%3Du-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_condition_that_decides_is_told),
        cmocka_unit_test(workloads_are_found_by_their_pod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
