// link: pipelined/kube/nodes storage/base storage/system
/* Which GPUs nodes have and who holds them; the tables stand in data/gpus: PL_UPDATE=1 writes them. */
#include "pipelined/kube/nodes/gpu_report.h"

#include "storage/base/buf.h"
#include "storage/system/io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define FOLDER PL_TEST_DATA "/gpus/"

static struct pl_gpu_report *report;

static int setup(void **state)
{
    (void)state;
    return pl_gpu_report_create(&report, NULL);
}

static int teardown(void **state)
{
    (void)state;
    report = pl_gpu_report_destroy(report);
    return 0;
}

static void node(const char *name, const char *labels, const char *allocatable)
{
    json_error_t e;
    json_t *n = json_pack_ex(&e, 0, "{s:{s:s, s:o}, s:{s:o, s:[{s:s, s:s}, {s:s, s:s}]}}", "metadata", "name", name, "labels",
                             json_loads(labels, 0, NULL), "status", "allocatable", json_loads(allocatable, 0, NULL), "addresses",
                             "type", "Hostname", "address", name, "type", "InternalIP", "address", "10.0.0.7");

    assert_non_null(n);
    assert_int_equal(pl_gpu_report_node(report, n, NULL), 0);
    json_decref(n);
}

static void pod(const char *name, const char *at, const char *phase, const char *limits, const char *labels,
                const char *annotations)
{
    json_t *p =
        json_pack("{s:{s:s, s:s, s:s, s:o, s:o}, s:{s:s, s:[{s:{s:o}}]}, s:{s:s}}", "metadata", "name", name, "namespace", "ml",
                  "uid", name, "labels", json_loads(labels, 0, NULL), "annotations", json_loads(annotations, 0, NULL), "spec",
                  "nodeName", at, "containers", "resources", "limits", json_loads(limits, 0, NULL), "status", "phase", phase);

    assert_non_null(p);
    assert_int_equal(pl_gpu_report_pod(report, p, NULL), 0);
    json_decref(p);
}

static void is(const char *name, const char *text)
{
    _cleanup_(pl_buf_finish) struct pl_buf want = {0};
    struct pl_err err = {0};
    char path[512];

    snprintf(path, sizeof path, FOLDER "%s", name);
    if (getenv("PL_UPDATE"))
        assert_int_equal(pl_io_write_file(path, text, strlen(text), 0644, &err), 0);
    if (pl_io_read_file(path, &want, &err) < 0)
        fail_msg("%s (PL_UPDATE=1 writes it)", err.msg);
    assert_string_equal(text, pl_buf_str(&want) ? pl_buf_str(&want) : "");
}

static void report_is(const char *name)
{
    json_t *rows = pl_gpu_report_json(report);
    char *text = json_dumps(rows, JSON_INDENT(1) | JSON_SORT_KEYS);

    is(name, text);
    free(text);
    json_decref(rows);
}

static void table_is(const char *name, bool details)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    json_t *rows = pl_gpu_report_json(report);

    assert_int_equal(pl_gpushare_table(rows, details, &out, NULL), 0);
    is(name, pl_buf_str(&out) ? pl_buf_str(&out) : "");
    json_decref(rows);
}

#define STAGE "{\"pipelined.io/project\": \"default\", \"pipelined.io/stage\": \"train\"}"

static void sick_node(const char *name, const char *allocatable, const char *capacity)
{
    json_t *n = json_pack("{s:{s:s}, s:{s:{s:s, s:s}, s:{s:s, s:s}}}", "metadata", "name", name, "status", "allocatable",
                          "nvidia.com/gpu", allocatable, "cpu", "8", "capacity", "nvidia.com/gpu", capacity, "cpu", "9");

    assert_int_equal(pl_gpu_report_node(report, n, NULL), 0);
    json_decref(n);
}

/* A pod of one container with so many devices, of which the kubelet says the health if `health` is not NULL. */
static void sick_pod(const char *name, const char *at, const char *count, const char *health)
{
    json_t *p = json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:[{s:{s:{s:s}}}]}, s:{s:s}}", "metadata", "name", name, "namespace", "ml",
                          "uid", name, "spec", "nodeName", at, "containers", "resources", "limits", "nvidia.com/gpu", count,
                          "status", "phase", "Running");

    if (health)
        json_object_set_new(json_object_get(p, "status"), "containerStatuses",
                            json_pack("[{s:[{s:s, s:[{s:s, s:s}, {s:s, s:s}]}]}]", "allocatedResourcesStatus", "name",
                                      "nvidia.com/gpu", "resources", "resourceID", "GPU-1", "health", health, "resourceID",
                                      "GPU-2", "health", "Healthy"));
    assert_int_equal(pl_gpu_report_pod(report, p, NULL), 0);
    json_decref(p);
}

/* The kubelet counts them as capacity, and not as allocatable. Who holds one is known if the pod's status says it, or
 * if more devices are held than are healthy, and one pod holds them all. */
static void unhealthy_devices_are_told_with_who_holds_one(void **state)
{
    static const struct {
        const char *node, *pod;
        json_int_t capacity, unhealthy, held, of_pod;
    } rows[] = {
        {"free", NULL, 7, 1, 0, 0}, /* nobody has to have it */
        {"all", NULL, 0, 8, 0, 0},  /* no pod gets one: the node is listed nevertheless */
        {"alone", "alone-0", 1, 1, 1, 1}, {"shared", "shared-0", 1, 2, 2, 0}, /* 3 of 1 are held by two: not known by whom */
        {"told", "told-0", 6, 2, 1, 1},   {"well", "well-0", 2, 0, 0, 0},
    };
    json_t *all, *row, *first;

    (void)state;
    sick_node("free", "7", "8");
    sick_node("all", "0", "8");
    sick_node("none", "0", "0");
    sick_node("alone", "1", "2");
    sick_node("shared", "1", "3");
    sick_node("told", "6", "8");
    sick_node("well", "2", "2");
    sick_pod("alone-0", "alone", "2", NULL);
    sick_pod("shared-0", "shared", "1", NULL);
    sick_pod("shared-1", "shared", "2", NULL);
    sick_pod("told-0", "told", "2", "Unhealthy");
    sick_pod("told-1", "told", "2", "Unknown");
    sick_pod("well-0", "well", "2", "Healthy");
    all = pl_gpu_report_json(report);
    assert_int_equal(json_array_size(all), PL_ARRAY_SIZE(rows));
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        row = NULL;
        for (size_t k = 0; k < json_array_size(all); k++)
            if (!strcmp(json_string_value(json_object_get(json_array_get(all, k), "node")), rows[i].node))
                row = json_array_get(all, k);
        first = json_array_get(json_object_get(row, "by"), 0);
        if (json_integer_value(json_object_get(row, "capacity")) != rows[i].capacity ||
            json_integer_value(json_object_get(row, "unhealthy")) != rows[i].unhealthy ||
            json_integer_value(json_object_get(row, "unhealthy_held")) != rows[i].held ||
            json_integer_value(json_object_get(first, "unhealthy")) != rows[i].of_pod)
            fail_msg("%s: %s", rows[i].node, json_dumps(row, 0));
    }
    json_decref(all);
}

static void nodes_and_products_with_who_holds_them(void **state)
{
    static const struct pl_dcgm_gpu use[] = {
        {.uuid = "GPU-1", .ns = "ml", .pod = "train-0", .utilisation = 90, .used_mib = 1000, .free_mib = -1},
        {.uuid = "GPU-2", .ns = "ml", .pod = "train-0", .utilisation = 70, .used_mib = 500, .free_mib = -1},
        {.uuid = "GPU-3", .utilisation = 5, .used_mib = -1, .free_mib = -1}};

    (void)state;
    node("b", "{\"nvidia.com/gpu.product\": \"NVIDIA-A100-SXM4-40GB\"}",
         "{\"cpu\": \"8\", \"nvidia.com/gpu\": \"8\", \"nvidia.com/mig-1g.5gb\": \"0\", \"rdma/hca\": \"4\"}");
    node("a", "{\"cloud.google.com/gke-accelerator\": \"nvidia-tesla-t4\"}",
         "{\"nvidia.com/gpu\": 1, \"nvidia.com/mig-1g.5gb\": \"7\"}");
    node("plain", "{}", "{\"cpu\": \"8\"}");
    pod("train-0", "b", "Running", "{\"nvidia.com/gpu\": \"2\"}", STAGE, "{}");
    pod("jupyter", "b", "Pending", "{\"nvidia.com/gpu\": \"1\"}", "{}", "{}");
    pod("over", "b", "Succeeded", "{\"nvidia.com/gpu\": \"1\"}", "{}", "{}");
    pod("waits", "", "Pending", "{\"nvidia.com/gpu\": \"1\"}", "{}", "{}");
    pod("gone", "a", "Running", "{\"nvidia.com/mig-1g.5gb\": \"1\"}", "{}", "{}");
    pl_gpu_report_pod_gone(report, "gone");
    assert_int_equal(pl_gpu_report_use(report, "b", use, PL_ARRAY_SIZE(use), NULL), 0);
    report_is("nodes.json");
    table_is("nothing-shared.txt", false);
    node("b", "{}", "{\"cpu\": \"8\"}"); /* its devices have gone */
    pl_gpu_report_node_gone(report, "a");
    report_is("none.json");
}

static void memory_of_devices_is_counted_as_the_scheduler_gives_it(void **state)
{
    (void)state;
    node("n1", "{}", "{\"aliyun.com/gpu-mem\": \"30\", \"aliyun.com/gpu-count\": \"2\"}");
    node("node-with-one", "{}", "{\"aliyun.com/gpu-mem\": \"15\", \"aliyun.com/gpu-count\": \"1\"}");
    pod("binpack-1", "n1", "Running", "{\"aliyun.com/gpu-mem\": \"2\"}", "{}", "{\"ALIYUN_COM_GPU_MEM_IDX\": \"0\"}");
    pod("binpack-2", "n1", "Running", "{\"aliyun.com/gpu-mem\": \"4\"}", STAGE, "{\"ALIYUN_COM_GPU_MEM_IDX\": \"1\"}");
    pod("two", "n1", "Running", "{\"aliyun.com/gpu-mem\": \"6\"}", "{}",
        "{\"scheduler.framework.gpushare.allocation\": \"{\\\"main\\\":{\\\"0\\\":3,\\\"1\\\":3}}\"}");
    table_is("shared.txt", false);
    pod("new", "node-with-one", "Pending", "{\"aliyun.com/gpu-mem\": \"5\"}", "{}", "{\"ALIYUN_COM_GPU_MEM_IDX\": \"-1\"}");
    table_is("shared-pending.txt", false);
    table_is("shared-details.txt", true);
    report_is("shared.json");
}

static void tell(double utilisation, double used_mib)
{
    const struct pl_dcgm_gpu use[] = {
        {.uuid = "GPU-1", .ns = "ml", .pod = "train-0", .utilisation = utilisation, .used_mib = used_mib, .free_mib = -1},
        {.uuid = "GPU-2", .ns = "ml", .pod = "train-0", .utilisation = utilisation, .used_mib = used_mib, .free_mib = -1},
        {.uuid = "GPU-3", .ns = "ml", .pod = "jupyter", .utilisation = 5, .used_mib = 7, .free_mib = -1}};

    assert_int_equal(pl_gpu_report_use(report, "b", use, PL_ARRAY_SIZE(use), NULL), 0);
}

/* Each reading counts for one taking, so that what a datum did is not the next one's. */
static void what_a_pod_did_is_taken_once(void **state)
{
    struct pl_gpu_told told;

    (void)state;
    tell(90, 100); /* nobody knows that pod yet */
    pod("train-0", "b", "Running", "{\"nvidia.com/gpu\": \"2\"}", STAGE, "{}");
    pod("jupyter", "b", "Running", "{\"nvidia.com/gpu\": \"1\"}", "{}", "{}");
    assert_false(pl_gpu_report_take(report, "ml", "train-0", &told));
    tell(90, 100);
    tell(30, 300);
    pod("train-0", "b", "Running", "{\"nvidia.com/gpu\": \"2\"}", STAGE, "{}"); /* something of it changed */
    tell(60, 200);
    assert_true(pl_gpu_report_take(report, "ml", "train-0", &told));
    assert_true(told.utilisation == 60 && told.mem_peak_bytes == (int64_t)600 << 20);
    assert_false(pl_gpu_report_take(report, "ml", "train-0", &told));
    tell(-1, 100); /* of a device that says nothing of its use */
    assert_false(pl_gpu_report_take(report, "ml", "train-0", &told));
    tell(10, -1);
    assert_true(pl_gpu_report_take(report, "ml", "train-0", &told));
    assert_true(told.utilisation == 10 && told.mem_peak_bytes == 0);
    assert_false(pl_gpu_report_take(report, "ml", "jupyter", &told)); /* no stage's */
    tell(10, 10);
    pod("train-0", "b", "Succeeded", "{\"nvidia.com/gpu\": \"2\"}", STAGE, "{}");
    assert_false(pl_gpu_report_take(report, "ml", "train-0", &told));
}

static void devices_of_many_units_are_counted_in_mib(void **state)
{
    (void)state;
    node("n1", "{}", "{\"aliyun.com/gpu-mem\": \"15109\", \"aliyun.com/gpu-count\": \"1\"}");
    table_is("shared-mib.txt", false);
}

static void large_devices_are_counted_in_gib(void **state)
{
    (void)state;
    node("h200", "{}", "{\"aliyun.com/gpu-mem\": \"1120\", \"aliyun.com/gpu-count\": \"8\"}"); /* of 140 each */
    table_is("shared-large.txt", false);
}

static void a_node_that_says_no_number_of_devices_has_one(void **state)
{
    (void)state;
    node("n1", "{}", "{\"aliyun.com/gpu-mem\": \"15109\"}");
    table_is("shared-uncounted.txt", false);
}

/* 2 of 32 GiB and 1024 of 16384 MiB are 3072 of 49152 MiB. */
static void where_nodes_count_in_two_units_the_smaller_is_told(void **state)
{
    (void)state;
    node("gib", "{}", "{\"aliyun.com/gpu-mem\": \"32\", \"aliyun.com/gpu-count\": \"2\"}");
    node("mib", "{}", "{\"aliyun.com/gpu-mem\": \"16384\", \"aliyun.com/gpu-count\": \"1\"}");
    pod("placed", "gib", "Running", "{\"aliyun.com/gpu-mem\": \"2\"}", "{}", "{\"ALIYUN_COM_GPU_MEM_IDX\": \"1\"}");
    pod("small", "mib", "Running", "{\"aliyun.com/gpu-mem\": \"1024\"}", "{}", "{\"ALIYUN_COM_GPU_MEM_IDX\": \"0\"}");
    table_is("shared-units.txt", false);
    pod("new", "gib", "Pending", "{\"aliyun.com/gpu-mem\": \"1\"}", STAGE, "{\"ALIYUN_COM_GPU_MEM_IDX\": \"-1\"}");
    table_is("shared-units-details.txt", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_and_products_with_who_holds_them, setup, teardown),
        cmocka_unit_test_setup_teardown(unhealthy_devices_are_told_with_who_holds_one, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_of_devices_is_counted_as_the_scheduler_gives_it, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_pod_did_is_taken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(devices_of_many_units_are_counted_in_mib, setup, teardown),
        cmocka_unit_test_setup_teardown(large_devices_are_counted_in_gib, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_that_says_no_number_of_devices_has_one, setup, teardown),
        cmocka_unit_test_setup_teardown(where_nodes_count_in_two_units_the_smaller_is_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
