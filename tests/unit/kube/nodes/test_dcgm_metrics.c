// link: pipelined/kube/nodes
/* What an exporter tells of GPUs, and what of its text is none. */
#include "pipelined/kube/nodes/dcgm_metrics.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void devices_are_read_with_their_pods(void **state)
{
    static const char text[] =
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n"
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",device=\"nvidia0\",modelName=\"NVIDIA A100-SXM4-40GB\",Hostname=\"n1\","
        "container=\"main\",namespace=\"ml\",pod=\"train-0\"} 37\n"
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-2\",modelName=\"NVIDIA A100-SXM4-40GB\",Hostname=\"n1\"} 0 1700000000000\r\n"
        "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-1\"} 13\n"
        "\n"
        "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-1\",container=\"main\",namespace=\"ml\",pod=\"train-0\"} 10240\n"
        "DCGM_FI_DEV_FB_FREE{ gpu = \"0\", UUID=\"GPU-1\", container=\"main\", namespace=\"ml\", pod=\"train-0\", } 30720\n"
        "DCGM_FI_DEV_FB_USED{gpu=\"1\",UUID=\"GPU-2\"} NaN\n"
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=\"GPU-3\",GPU_I_ID=\"7\",GPU_I_PROFILE=\"1g.5gb\",pod_namespace=\"old\",pod_name="
        "\"p\"} 4.25e-1";
    struct pl_dcgm_gpu *g;
    struct pl_err err = {0};
    size_t n;

    (void)state;
    if (pl_dcgm_read(text, sizeof text - 1, &g, &n, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(n, 3);
    assert_string_equal(g[0].uuid, "GPU-1");
    assert_string_equal(g[0].model, "NVIDIA A100-SXM4-40GB");
    assert_string_equal(g[0].ns, "ml");
    assert_string_equal(g[0].pod, "train-0");
    assert_string_equal(g[0].container, "main");
    assert_true(g[0].utilisation == 37 && g[0].used_mib == 10240 && g[0].free_mib == 30720);
    assert_string_equal(g[1].pod, "");
    assert_true(g[1].utilisation == 0 && g[1].used_mib == -1 && g[1].free_mib == -1);
    assert_string_equal(g[2].instance, "7");
    assert_string_equal(g[2].ns, "old");
    assert_string_equal(g[2].pod, "p");
    assert_true(g[2].utilisation == 42.5);
    free(g);
}

static void what_is_no_such_text_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *says;
    } cases[] = {
        {"<html>", PL_EFORMAT, "line 1"},
        {"ok 1\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\" 1\n", PL_EFORMAT,
         "line 2 is not in Prometheus' text format: DCGM_FI_DEV_GPU_UTIL"},
        {"a{b=\"c\"}\n", PL_EFORMAT, "line 1"},
        {"a{b=\"c}\n", PL_EFORMAT, "line 1"},
        {"a{b=c} 1\n", PL_EFORMAT, "line 1"},
        {"a{b=\"c\\", PL_EFORMAT, "line 1"},
        {"a 1 x", PL_EFORMAT, "line 1"},
        {"a one", PL_EFORMAT, "line 1"},
        {"9a 1", PL_EFORMAT, "line 1"},
        {"", 0, ""},
        {"a 1\na +Inf\na{} -1.5 -17\n", 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_dcgm_gpu *g = NULL;
        struct pl_err err = {0};
        size_t n = 0;
        int r = pl_dcgm_read(cases[i].text, strlen(cases[i].text), &g, &n, &err);

        if (r != cases[i].code || strstr(err.msg, cases[i].says) == NULL || n)
            fail_msg("%s: %d %s", cases[i].text, r, err.msg);
        free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_read_with_their_pods),
        cmocka_unit_test(what_is_no_such_text_is_refused_with_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
