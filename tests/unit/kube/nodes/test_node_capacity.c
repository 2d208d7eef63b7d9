// link: pipelined/kube/nodes
/* node_capacity: what a cluster could give a pod, in sentences. */
#include "pipelined/kube/nodes/node_capacity_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#define A100 "\"nvidia.com/gpu.present\": \"true\", \"nvidia.com/gpu.product\": \"NVIDIA-A100-SXM4-40GB\""
#define T4                                                                                                                       \
    "\"nvidia.com/gpu.present\": \"true\", \"nvidia.com/gpu.product\": \"Tesla-T4\", \"cloud.google.com/gke-accelerator\": "     \
    "\"nvidia-tesla-t4\""
#define DAY (24LL * 3600 * 1000)

static struct pl_node_capacity *offer_of(void)
{
    struct pl_node_capacity *o = NULL;

    assert_int_equal(pl_node_capacity_create(&o, NULL), 0);
    return o;
}

static void node(struct pl_node_capacity *o, const char *name, const char *cpu, const char *memory, const char *extended,
                 const char *labels, int64_t now_ms)
{
    char text[1024];
    struct pl_err err = {0};
    json_t *json;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\": {\"name\": \"%s\", \"labels\": {%s}}, \"status\": {\"allocatable\": {\"cpu\": \"%s\", "
                   "\"memory\": \"%s\", "
                   "\"pods\": \"110\"%s%s}}}",
                   name, labels, cpu, memory, extended[0] != '\0' ? ", " : "", extended);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    if (pl_node_capacity_node(o, json, now_ms, &err) < 0)
        fail_msg("%s", err.msg);
    json_decref(json);
}

static void pod(struct pl_node_capacity *o, const char *uid, const char *on, const char *limits, const char *phase)
{
    char text[1024];
    json_t *json;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\": {\"uid\": \"%s\"}, \"spec\": {\"nodeName\": \"%s\", \"containers\": [{\"name\": \"c\", "
                   "\"resources\": {\"limits\": "
                   "{%s}}}]}, \"status\": {\"phase\": \"%s\"}}",
                   uid, on, limits, phase);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(pl_node_capacity_pod(o, json, NULL), 0);
    json_decref(json);
}

/* A pod with these limits, which the names in the request are of. */
static json_t *pod_asking(const char *limits, struct pl_node_capacity_request *ret)
{
    char text[512];
    json_t *json;

    (void)snprintf(text, sizeof(text), "{\"spec\": {\"containers\": [{\"resources\": {\"limits\": {%s}}}]}}", limits);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    pl_node_capacity_request(json, ret);
    return json;
}

/* What a pod with these limits is told: "" when it could run. */
static const char *told(const struct pl_node_capacity *o, const char *limits)
{
    static char why[PL_NODE_CAPACITY_WHY_BYTES];
    struct pl_node_capacity_request request;
    json_t *json = pod_asking(limits, &request);
    bool has = pl_node_capacity_has(o, &request, why);

    assert_int_equal(has, why[0] == '\0');
    json_decref(json);
    return why;
}

static int64_t disk_for(const struct pl_node_capacity *o, const char *limits)
{
    struct pl_node_capacity_request request;
    json_t *json = pod_asking(limits, &request);
    int64_t bytes = pl_node_capacity_disk(o, &request);

    json_decref(json);
    return bytes;
}

/* As `node`, with the answer; memory 1000Gi. */
static int try_node(struct pl_node_capacity *o, const char *name, unsigned cpu, const char *extended)
{
    json_t *json = json_pack("{s:{s:s}, s:{s:{s:i, s:s, s:s}}}", "metadata", "name", name, "status", "allocatable", "cpu",
                             (int)cpu, "memory", "1000Gi", extended, "4");
    int r = pl_node_capacity_node(o, json, 1, NULL);

    json_decref(json);
    return r;
}

/* Two nodes of 8 A100, one of 4 T4, one without; 4 of the A100 are held. */
static struct pl_node_capacity *cluster(void)
{
    struct pl_node_capacity *o = offer_of();

    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    node(o, "a2", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    node(o, "t1", "16", "60Gi", "\"nvidia.com/gpu\": \"4\", \"rdma/hca\": \"1\"", T4, 1);
    node(o, "c1", "64", "250Gi", "", "", 1);
    pod(o, "u1", "a1", "\"nvidia.com/gpu\": \"3\"", "Running");
    pod(o, "u2", "a2", "\"nvidia.com/gpu\": 1, \"cpu\": \"2\"", "Pending");
    pod(o, "u3", "a2", "\"nvidia.com/gpu\": \"2\"", "Succeeded");
    pod(o, "u4", "c1", "\"cpu\": \"2\"", "Running");
    return o;
}

static void what_no_node_could_give_is_told_with_what_is_known(void **state)
{
    static const struct {
        const char *limits, *says;
    } cases[] = {
        {"", ""},
        {"\"nvidia.com/gpu\": \"8\"", ""}, /* held ones come free */
        {"\"nvidia.com/gpu\": \"8\", \"cpu\": \"90\", \"memory\": \"900Gi\"", ""},
        {"\"nvidia.com/gpux\": \"1\"", "no node offers nvidia.com/gpux; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: 16, 12 "
                                       "free; Tesla-T4: 4, 4 free), rdma/hca (Tesla-T4: "
                                       "1, 1 free)"},
        {"\"nvidia.com/gpu\": \"16\"", "no node offers 16 nvidia.com/gpu: the largest has 8; known: nvidia.com/gpu (NVIDIA-A100"},
        {"\"nvidia.com/gpu\": \"8\", \"rdma/hca\": \"1\"", "no node offers all of 8 nvidia.com/gpu, 1 rdma/hca; known: "},
        {"\"nvidia.com/gpu\": \"2\", \"cpu\": \"200\", \"memory\": \"10Gi\"",
         "no node has cpu 200 and memory 10Gi in addition to 2 nvidia.com/gpu: the largest has cpu 96 and memory 1000Gi"},
        {"\"memory\": \"2Ti\", \"cpu\": \"1\"", "no node has cpu 1 and memory 2Ti: the largest has cpu 96 and memory 1000Gi"},
    };
    struct pl_node_capacity *o = cluster();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const char *got = told(o, cases[i].limits);

        if (strncmp(got, cases[i].says, strlen(cases[i].says)) != 0 || (cases[i].says[0] == '\0' && got[0] != '\0'))
            fail_msg("%s\nis told: %s", cases[i].limits, got);
    }
    pl_node_capacity_destroy(o);
}

/* A node whose plugin starts anew has its product and no devices; and one without labels has an empty name, as nodes
 * without GPUs have. */
static void each_product_is_listed_once(void **state)
{
    struct pl_node_capacity *o = offer_of();

    (void)state;
    node(o, "a0", "96", "1000Gi", "", A100, 1);
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    node(o, "c1", "64", "250Gi", "", "", 1);
    node(o, "bare", "64", "250Gi", "\"nvidia.com/gpu\": \"2\"", "", 1);
    assert_string_equal(told(o, "\"x/y\": 1"),
                        "no node offers x/y; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: 8, 8 free; 2, 2 free)");
    pl_node_capacity_destroy(o);
}

static void nothing_known_is_no_reason_to_refuse(void **state)
{
    struct pl_node_capacity *o = offer_of();

    (void)state;
    assert_string_equal(told(o, "\"nvidia.com/gpux\": \"1\""), "");
    node(o, "c1", "64", "250Gi", "", "", 1);
    assert_string_equal(told(o, "\"nvidia.com/gpu\": \"1\""), "no node offers nvidia.com/gpu; no node has such resources");
    pl_node_capacity_destroy(o);
}

static void another_node_is_one_that_is_there_or_is_said_to_come(void **state)
{
    static const char *const avoided[] = {"a1", "gone", "a2"};
    static const struct pl_node_capacity_request gpu = {.cpu_milli = 1000, .n = 1, .extended = {{"nvidia.com/gpu", 1}}};
    struct pl_node_capacity *o = offer_of();
    json_t *comes = json_loads("{\"cpu\": \"96\", \"memory\": \"1Ti\", \"resources\": {\"nvidia.com/gpu\": 8}}", 0, NULL);

    (void)state;
    assert_true(pl_node_capacity_has_beside(o, &gpu, avoided, 1)); /* nodes are not seen */
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    node(o, "c1", "96", "1000Gi", "", "", 1);
    assert_false(pl_node_capacity_has_beside(o, &gpu, avoided, 1));
    assert_true(pl_node_capacity_has_beside(o, &(struct pl_node_capacity_request){.cpu_milli = 1000}, avoided, 1));
    node(o, "a2", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    assert_true(pl_node_capacity_has_beside(o, &gpu, avoided, 2));
    assert_false(pl_node_capacity_has_beside(o, &gpu, avoided, 3));
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"7\"", A100, 2); /* one of its devices broke */
    pl_node_capacity_node_gone(o, "a2", 3);
    assert_false(pl_node_capacity_has_beside(o, &gpu, avoided, 1));
    assert_int_equal(pl_node_capacity_shape(o, comes, NULL), 0);
    assert_true(pl_node_capacity_has_beside(o, &gpu, avoided, 3));
    json_decref(comes);
    pl_node_capacity_destroy(o);
}

static void what_is_free_follows_pods_and_nodes(void **state)
{
#define FREE(text) "no node offers x/y; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: " text ")"
    struct pl_node_capacity *o = offer_of();

    (void)state;
    pod(o, "early", "a1", "\"nvidia.com/gpu\": \"2\"", "Running"); /* before its node is known */
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("8, 6 free"));
    pod(o, "u2", "a1", "\"nvidia.com/gpu\": \"1\"", "Running");
    pod(o, "u2", "a1", "\"nvidia.com/gpu\": \"1\"", "Running"); /* told again */
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("8, 5 free"));
    pod(o, "u2", "a1", "\"nvidia.com/gpu\": \"1\"", "Failed");
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("8, 6 free"));
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"7\"", A100, 2); /* one is broken */
    pl_node_capacity_expire(o, 2 + PL_NODE_CAPACITY_SEEN_MS + 1);
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("7, 5 free"));
    node(o, "a2", "96", "1001Gi", "\"nvidia.com/gpu\": \"7\"", A100, 2);
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("14, 12 free"));
    pl_node_capacity_pod_gone(o, "early");
    pl_node_capacity_pod_gone(o, "early");
    pl_node_capacity_pod_gone(o, "never");
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("14, 14 free"));
    pl_node_capacity_without_pods(o);
    assert_string_equal(told(o, "\"x/y\": 1"), FREE("14"));
    pl_node_capacity_destroy(o);
}

static void shapes_outlive_their_nodes_for_thirty_days(void **state)
{
    struct pl_node_capacity *o = cluster(), *next = offer_of();
    json_t *shapes;

    (void)state;
    pl_node_capacity_node_gone(o, "a1", 5 * DAY);
    pl_node_capacity_node_gone(o, "a2", 6 * DAY);
    pl_node_capacity_node_gone(o, "nobody", 6 * DAY);
    assert_string_equal(told(o, "\"nvidia.com/gpu\": \"8\""), "");
    pl_node_capacity_expire(o, 35 * DAY);
    assert_string_equal(told(o, "\"nvidia.com/gpu\": \"8\""), "");
    shapes = pl_node_capacity_shapes(o, 36 * DAY); /* the next life of the daemon */
    for (size_t i = 0; i < json_array_size(shapes); i++)
        assert_int_equal(pl_node_capacity_shape(next, json_array_get(shapes, i), NULL), 0);
    json_decref(shapes);
    assert_string_equal(told(next, "\"nvidia.com/gpu\": \"8\", \"cpu\": \"96\", \"memory\": \"1000Gi\""), "");
    assert_non_null(strstr(told(next, "\"x/y\": 1"), "NVIDIA-A100-SXM4-40GB: 0, 0 free"));
    pl_node_capacity_expire(o, 36 * DAY + 1);
    assert_non_null(strstr(told(o, "\"nvidia.com/gpu\": \"8\""), "no node offers 8 nvidia.com/gpu: the largest has 4"));
    pl_node_capacity_destroy(o);
    pl_node_capacity_destroy(next);
}

static void shapes_of_the_configuration_stay(void **state)
{
    static const char *const wrong[] = {"[]", "{}", "{\"cpu\": \"4\", \"memory\": 0, \"resources\": {}}",
                                        "{\"cpu\": \"4\", \"memory\": \"1Gi\", \"resources\": 7}"};
    struct pl_node_capacity *o = cluster();
    json_t *shape = json_loads("{\"cpu\": \"192\", \"memory\": \"2Ti\", \"resources\": {\"nvidia.com/gpu\": 16}, \"products\": "
                               "{\"nvidia.com/gpu.product\": \"NVIDIA-H100-80GB-HBM3\"}}",
                               0, NULL);
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_node_capacity_shape(o, shape, NULL), 0);
    pl_node_capacity_expire(o, 1000 * DAY);
    assert_string_equal(told(o, "\"nvidia.com/gpu\": \"16\""), "");
    for (size_t i = 0; i < PL_ARRAY_SIZE(wrong); i++) {
        json_t *bad = json_loads(wrong[i], 0, NULL);

        assert_int_equal(pl_node_capacity_shape(o, bad, &err), PL_EINVAL);
        json_decref(bad);
    }
    json_decref(shape);
    pl_node_capacity_destroy(o);
}

static void the_renderer_is_told_labels_products_and_resources(void **state)
{
    struct pl_node_capacity *o = cluster();
    struct pl_pod_cluster facts = {0};

    (void)state;
    assert_int_equal(pl_node_capacity_describe(o, &facts, NULL), 0);
    assert_int_equal(facts.n_products, 3);
    assert_string_equal(facts.products[0].label, PL_GPU_PRODUCT);
    assert_string_equal(facts.products[0].value, "NVIDIA-A100-SXM4-40GB");
    assert_string_equal(facts.products[2].label, "cloud.google.com/gke-accelerator");
    assert_int_equal(facts.n_gpu_labels, 2);
    assert_string_equal(facts.gpu_labels[0], "nvidia.com/gpu.present");
    assert_int_equal(facts.n_resources, 2);
    assert_string_equal(facts.resources[1], "rdma/hca");
    pl_node_capacity_destroy(o);
}

/* Of several nodes with one product the most; also after the nodes have gone and the daemon has started anew. */
static void the_renderer_is_told_memory_and_capability(void **state)
{
#define LABEL(name, value) "\"" name "\": \"" value "\""
#define KARPENTER(memory)                                                                                                        \
    LABEL("karpenter.k8s.aws/instance-gpu-name", "t4") ", " LABEL("karpenter.k8s.aws/instance-gpu-memory", memory)
    static const struct {
        const char *labels;
        int64_t memory_mib;
        unsigned compute;
    } rows[] = {
        {A100 ", " LABEL(PL_GPU_MEMORY, "40960") ", " LABEL(PL_GPU_COMPUTE "major", "8") ", " LABEL(PL_GPU_COMPUTE "minor", "0"),
         40960, 800},
        {A100, 40960, 800},
        {A100 ", " LABEL(PL_GPU_MEMORY, "81559"), 81559, 800},
        {A100 ", " LABEL(PL_GPU_MEMORY, "9999999999"), 81559, 800},
        {A100 ", " LABEL(PL_GPU_MEMORY, "many") ", " LABEL(PL_GPU_COMPUTE "major", "-1"), 81559, 800},
        {KARPENTER("15360"), 15360, 0},
        {T4, 0, 0},
    };
    struct pl_node_capacity *o = NULL, *next = offer_of();
    struct pl_pod_cluster facts = {0};
    json_t *shapes;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        if (i == 0 || strstr(rows[i].labels, "A100") == NULL) {
            pl_node_capacity_destroy(o);
            o = offer_of();
        }
        node(o, (char[]){'n', (char)('0' + i), 0}, "8", "32Gi", "\"nvidia.com/gpu\": \"1\"", rows[i].labels, 1);
        assert_int_equal(pl_node_capacity_describe(o, &facts, NULL), 0);
        if (facts.products[0].memory_mib != rows[i].memory_mib || facts.products[0].compute != rows[i].compute)
            fail_msg("row %zu: %lld MiB, %u", i, (long long)facts.products[0].memory_mib, facts.products[0].compute);
        if (i == 2) {
            shapes = pl_node_capacity_shapes(o, DAY);
            for (size_t k = 0; k < json_array_size(shapes); k++)
                assert_int_equal(pl_node_capacity_shape(next, json_array_get(shapes, k), NULL), 0);
            json_decref(shapes);
        }
    }
    assert_int_equal(pl_node_capacity_describe(next, &facts, NULL), 0);
    assert_int_equal(facts.n_products, 1);
    assert_int_equal(facts.products[0].memory_mib, 81559);
    assert_int_equal(facts.products[0].compute, 800);
    pl_node_capacity_destroy(o);
    pl_node_capacity_destroy(next);
}

/* Else pods of the daemon's next life, which sees the same nodes one after the other, would ask for the same in other words. */
static void the_renderer_is_told_the_same_in_whatever_order_nodes_were_seen(void **state)
{
    static const struct {
        const char *name, *labels;
    } nodes[] = {{"a1", A100}, {"t1", T4}, {"h1", "\"" PL_GPU_PRODUCT "\": \"NVIDIA-H100-80GB-HBM3\""}};
    static const char *const want[][2] = {{PL_GPU_PRODUCT, "NVIDIA-A100-SXM4-40GB"},
                                          {PL_GPU_PRODUCT, "NVIDIA-H100-80GB-HBM3"},
                                          {PL_GPU_PRODUCT, "Tesla-T4"},
                                          {"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"}};
    const size_t n = PL_ARRAY_SIZE(nodes);

    (void)state;
    for (size_t first = 0; first < 2 * n; first++) {
        struct pl_node_capacity *o = offer_of();
        struct pl_pod_cluster facts = {0};

        for (size_t k = 0; k < n; k++) { /* from the first on, or back */
            const size_t i = (first < n ? first + k : first + n - k) % n;

            node(o, nodes[i].name, "8", "32Gi", "\"nvidia.com/gpu\": \"1\"", nodes[i].labels, 1);
        }
        assert_int_equal(pl_node_capacity_describe(o, &facts, NULL), 0);
        assert_int_equal(facts.n_products, PL_ARRAY_SIZE(want));
        for (size_t i = 0; i < facts.n_products; i++) {
            assert_string_equal(facts.products[i].label, want[i][0]);
            assert_string_equal(facts.products[i].value, want[i][1]);
        }
        pl_node_capacity_destroy(o);
    }
}

static enum pl_share_unit unit_of(struct pl_node_capacity *o)
{
    struct pl_pod_cluster facts = {0};

    assert_int_equal(pl_node_capacity_describe(o, &facts, NULL), 0);
    return facts.gpu_mem_unit;
}

static void the_unit_of_gpu_memory_is_seen_from_the_size_of_a_device(void **state)
{
    static const struct {
        const char *has;
        enum pl_share_unit unit;
    } cases[] = {
        {"\"nvidia.com/gpu\": \"4000\"", PL_UNIT_GIB}, /* nothing is known */
        {"\"aliyun.com/gpu-mem\": \"30\", \"aliyun.com/gpu-count\": \"2\"", PL_UNIT_GIB},
        {"\"aliyun.com/gpu-mem\": \"30218\", \"aliyun.com/gpu-count\": \"2\"", PL_UNIT_MIB},
        {"\"aliyun.com/gpu-mem\": \"1128\", \"aliyun.com/gpu-count\": \"8\"", PL_UNIT_GIB}, /* eight of 141 */
        {"\"aliyun.com/gpu-mem\": \"999\"", PL_UNIT_GIB},
        {"\"aliyun.com/gpu-mem\": \"1000\"", PL_UNIT_MIB},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_node_capacity *o = offer_of();

        node(o, "n", "8", "32Gi", cases[i].has, "", 1);
        if (unit_of(o) != cases[i].unit)
            fail_msg("%s", cases[i].has);
        pl_node_capacity_destroy(o);
    }
}

/* A plugin that was set otherwise: the nodes that are there say what counts now, those that may come back only while there are none. Of both at once
 * the finer unit: so many MiB fit on no node that counts GiB, so few GiB would be next to nothing on one that counts MiB. */
static void the_unit_is_that_of_the_nodes_that_are_there(void **state)
{
    struct pl_node_capacity *o = offer_of();

    (void)state;
    node(o, "n", "8", "32Gi", "\"aliyun.com/gpu-mem\": \"15109\"", "", 1);
    node(o, "n", "8", "32Gi", "\"aliyun.com/gpu-mem\": \"14\"", "", 2);
    assert_int_equal(unit_of(o), PL_UNIT_GIB);
    node(o, "m", "8", "32Gi", "\"aliyun.com/gpu-mem\": \"15109\"", "", 3);
    assert_int_equal(unit_of(o), PL_UNIT_MIB);
    pl_node_capacity_node_gone(o, "m", 4);
    assert_int_equal(unit_of(o), PL_UNIT_GIB);
    pl_node_capacity_node_gone(o, "n", 5);
    assert_int_equal(unit_of(o), PL_UNIT_MIB);
    pl_node_capacity_destroy(o);
}

static void memory_is_asked_of_one_device(void **state)
{
    struct pl_node_capacity *o = offer_of();

    (void)state;
    node(o, "n", "8", "32Gi", "\"aliyun.com/gpu-mem\": \"32\", \"aliyun.com/gpu-count\": \"2\"", "", 1);
    assert_string_equal(told(o, "\"aliyun.com/gpu-mem\": \"16\""), "");
    assert_string_equal(
        told(o, "\"aliyun.com/gpu-mem\": \"17\""),
        "no node offers 17 aliyun.com/gpu-mem of one device: the largest has 16; known: aliyun.com/gpu-mem (32, 32 "
        "free), aliyun.com/gpu-count (2, 2 free)");
    pl_node_capacity_destroy(o);
}

#define STRATEGY(text) "\"nvidia.com/gpu.sharing-strategy\": \"" text "\""

/* "time-slicing nvidia.com/gpu.shared, mps nvidia.com/gpu": what the renderer is told */
static const char *turns_of(struct pl_node_capacity *o)
{
    static char text[512];
    struct pl_pod_cluster facts = {0};
    size_t at = 0;

    text[0] = '\0';
    assert_int_equal(pl_node_capacity_describe(o, &facts, NULL), 0);
    for (size_t i = 0; i < facts.n_turns && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %s", i > 0 ? ", " : "", facts.turns[i].strategy,
                               facts.turns[i].resource);
    return text;
}

static void resources_of_shared_devices_are_known_by_their_strategy(void **state)
{
    struct pl_node_capacity *o = offer_of();

    (void)state;
    node(o, "whole", "8", "32Gi", "\"nvidia.com/gpu\": \"8\"", STRATEGY("none"), 1);
    assert_string_equal(turns_of(o), "");
    node(o, "s1", "8", "32Gi", "\"nvidia.com/gpu\": \"0\", \"nvidia.com/gpu.shared\": \"4\"", STRATEGY("time-slicing"), 1);
    node(o, "s2", "16", "32Gi", "\"nvidia.com/gpu.shared\": \"8\"", STRATEGY("time-slicing"), 1);
    node(o, "m", "8", "32Gi", "\"nvidia.com/gpu\": \"4\"", STRATEGY("mps"), 1);
    assert_string_equal(turns_of(o), "time-slicing nvidia.com/gpu.shared, mps nvidia.com/gpu");
    node(o, "m", "8", "32Gi", "\"nvidia.com/gpu.shared\": \"4\"", STRATEGY("mps"), 2); /* its plugin is set to rename */
    assert_string_equal(turns_of(o), "time-slicing nvidia.com/gpu.shared, mps nvidia.com/gpu.shared");
    node(o, "m", "8", "32Gi", "\"nvidia.com/gpu.shared\": \"0\"", STRATEGY("mps"), 3); /* and starts again */
    assert_string_equal(turns_of(o), "time-slicing nvidia.com/gpu.shared, mps nvidia.com/gpu, mps nvidia.com/gpu.shared");
    /* another's plugin does not */
    node(o, "m", "8", "32Gi", "\"nvidia.com/gpu.shared\": \"0\", \"rdma/hca\": \"1\"", STRATEGY("mps"), 4);
    assert_string_equal(turns_of(o), "time-slicing nvidia.com/gpu.shared, mps nvidia.com/gpu, mps nvidia.com/gpu.shared");
    pl_node_capacity_destroy(o);
}

/* They come back as they were, from the file of the daemon's last life, too. */
static void nodes_that_have_gone_say_what_their_strategy_offers_while_no_other_does(void **state)
{
    struct pl_node_capacity *o = offer_of(), *next = offer_of();
    json_t *shapes;

    (void)state;
    node(o, "m", "8", "32Gi", "\"nvidia.com/gpu\": \"4\"", A100 ", " STRATEGY("mps"), 1);
    pl_node_capacity_node_gone(o, "m", 2);
    assert_string_equal(turns_of(o), "mps nvidia.com/gpu");
    shapes = pl_node_capacity_shapes(o, 36 * DAY);
    assert_int_equal(json_array_size(shapes), 1);
    assert_int_equal(pl_node_capacity_shape(next, json_array_get(shapes, 0), NULL), 0);
    json_decref(shapes);
    assert_string_equal(turns_of(next), "mps nvidia.com/gpu");
    node(next, "m", "8", "32Gi", "\"nvidia.com/gpu\": \"4\"", A100 ", " STRATEGY("mps"), 3);
    shapes = pl_node_capacity_shapes(next, 36 * DAY);
    assert_int_equal(json_array_size(shapes), 1); /* the same one: nothing of it was lost on the way */
    json_decref(shapes);
    pl_node_capacity_destroy(o);
    pl_node_capacity_destroy(next);
}

/* Where a scheduler's extender counts, as HAMi's does, nodes have a part of what its pods ask for. */
static void what_others_may_count_is_no_lack(void **state)
{
    static const struct {
        struct pl_node_capacity_request request;
        bool has;
    } cases[] = {
        {{.n = 2, .extended = {{"nvidia.com/gpu", 1}, {"nvidia.com/gpumem", 3000}}}, false},
        {{.elsewhere = true, .n = 2, .extended = {{"nvidia.com/gpu", 1}, {"nvidia.com/gpumem", 3000}}}, true},
        {{.elsewhere = true, .n = 2, .extended = {{"nvidia.com/gpu", 9}, {"nvidia.com/gpumem", 3000}}}, false},
        {{.elsewhere = true, .cpu_milli = 1000000, .n = 1, .extended = {{"nvidia.com/gpumem", 3000}}}, false},
    };
    struct pl_node_capacity *o = cluster();
    char why[PL_NODE_CAPACITY_WHY_BYTES];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        if (pl_node_capacity_has(o, &cases[i].request, why) != cases[i].has || (why[0] == '\0') != cases[i].has ||
            pl_node_capacity_has_beside(o, &cases[i].request, NULL, 0) != cases[i].has)
            fail_msg("%zu: %s", i, why);
    pl_node_capacity_destroy(o);
}

static void a_request_is_what_the_scheduler_counts(void **state)
{
    json_t *json = json_loads(
        "{\"spec\": {\"containers\": [{\"resources\": {\"requests\": {\"cpu\": \"500m\", \"memory\": \"1Gi\"}, \"limits\": "
        "{\"cpu\": \"4\", \"nvidia.com/gpu\": \"2\"}}}, {\"resources\": {\"limits\": {\"cpu\": \"1\", \"memory\": \"1Gi\"}}}], "
        "\"initContainers\": [{\"resources\": {\"requests\": {\"cpu\": \"3\", \"memory\": \"1Mi\"}}}]}}",
        0, NULL);
    struct pl_node_capacity_request request;

    (void)state;
    pl_node_capacity_request(json, &request);
    assert_int_equal(request.cpu_milli, 3000);
    assert_int_equal(request.memory_bytes, 2LL << 30);
    assert_int_equal(request.n, 1);
    assert_string_equal(request.extended[0].name, "nvidia.com/gpu");
    assert_int_equal(request.extended[0].count, 2);
    json_decref(json);
}

/* Allocatable memory differs from node to node by some MiB: they are of one shape all the same. */
static void a_large_cluster_is_a_few_shapes(void **state)
{
    unsigned nodes = getenv("PL_OFFER_NODES") ? (unsigned)atoi(getenv("PL_OFFER_NODES")) : 2000;
    struct pl_node_capacity *o = offer_of();
    struct timespec from, to;
    char name[32], memory[32], uid[48];
    json_t *shapes;

    (void)state;
    for (unsigned i = 0; i < nodes; i++) {
        (void)snprintf(name, sizeof(name), "node-%u", i);
        (void)snprintf(memory, sizeof(memory), "%uMi", 512000 + i % 900);
        node(o, name, i % 3 ? "64" : "96", memory, i % 2 ? "\"nvidia.com/gpu\": \"8\"" : "", i % 4 ? A100 : T4, 1);
    }
    for (unsigned i = 0; i < 5 * nodes; i++) {
        (void)snprintf(name, sizeof(name), "node-%u", i % nodes);
        (void)snprintf(uid, sizeof(uid), "00000000-0000-4000-8000-%012u", i);
        pod(o, uid, name, i / nodes == 0 ? "\"nvidia.com/gpu\": \"1\"" : "\"cpu\": \"1\"", "Running");
    }
    shapes = pl_node_capacity_shapes(o, 36 * DAY);
    assert_in_range(json_array_size(shapes), 2, 24);
    json_decref(shapes);
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < 100; i++)
        (void)told(o, "\"nvidia.com/gpux\": \"1\"");
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    print_message("%u nodes, %u pods: %.1f µs an answer\n", nodes, 5 * nodes,
                  ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e3 / 100);
    pl_node_capacity_destroy(o);
}

/* Koordinator counts memory of GPUs in bytes; nonsense is as much as there is a number for. */
static void counts_are_as_large_as_nodes_and_pods_say(void **state)
{
    static const char *const limits[] = {"\"cpu\": 9223372036854775807, \"memory\": 9223372036854775807",
                                         "\"koordinator.sh/gpu-memory\": 9223372036854775807"};
    struct pl_node_capacity *o = offer_of();
    char both[400];

    (void)state;
    node(o, "k1", "96", "1000Gi", "\"koordinator.sh/gpu-memory\": \"80Gi\"", "", 1);
    pod(o, "u1", "k1", "\"koordinator.sh/gpu-memory\": \"30Gi\"", "Running");
    assert_string_equal(told(o, "\"koordinator.sh/gpu-memory\": \"80Gi\""), "");
    assert_string_equal(told(o, "\"koordinator.sh/gpu-memory\": \"81Gi\""),
                        "no node offers 86973087744 koordinator.sh/gpu-memory: the largest has 85899345920; known: "
                        "koordinator.sh/gpu-memory (85899345920, 53687091200 free)");
    for (size_t i = 0; i < PL_ARRAY_SIZE(limits); i++) {
        (void)snprintf(both, sizeof(both), "%s}}}, {\"resources\": {\"limits\": {%s}}}, {\"resources\": {\"limits\": {%s",
                       limits[i], limits[i], limits[i]);
        assert_non_null(strstr(told(o, both), i == 0 ? "no node has cpu" : "no node offers 11529"));
    }
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(both, sizeof(both), "%u", i);
        node(o, both, "9000000000000", "1000Gi", "\"koordinator.sh/gpu-memory\": 9223372036854775807", "", 1);
        pod(o, both, "k1", "\"koordinator.sh/gpu-memory\": 9223372036854775807", "Running");
    }
    assert_non_null(strstr(told(o, "\"x/y\": 1"), "(18446744073709551615, "));
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(both, sizeof(both), "%u", i);
        pl_node_capacity_pod_gone(o, both);
        pl_node_capacity_node_gone(o, both, 2);
    }
    pl_node_capacity_expire(o, 2 + PL_NODE_CAPACITY_SEEN_MS + 1);
    assert_non_null(strstr(told(o, "\"x/y\": 1"), "(85899345920, 53687091200 free)"));
    pl_node_capacity_destroy(o);
}

static void of_a_node_that_went_nothing_is_kept_once_its_pods_have(void **state)
{
    struct pl_node_capacity *o = offer_of();

    (void)state;
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", A100, 1);
    pod(o, "u1", "a1", "\"nvidia.com/gpu\": \"3\"", "Running");
    pod(o, "u2", "a1", "\"nvidia.com/gpu\": \"1\"", "Running");
    pl_node_capacity_node_gone(o, "a1", 2);
    assert_int_equal(o->nodes.len, 1); /* its pods may be those of the next node of that name */
    pl_node_capacity_pod_gone(o, "u1");
    assert_int_equal(o->nodes.len, 1);
    pod(o, "u2", "a1", "\"nvidia.com/gpu\": \"1\"", "Failed");
    assert_int_equal(o->nodes.len, 0);
    pod(o, "u3", "never", "\"nvidia.com/gpu\": \"1\"", "Running");
    pod(o, "u3", "other", "\"nvidia.com/gpu\": \"1\"", "Running");
    assert_int_equal(o->nodes.len, 1);
    pl_node_capacity_pod_gone(o, "u3");
    assert_int_equal(o->nodes.len, 0);
    pl_node_capacity_destroy(o);
}

/* A cluster of more kinds of nodes than are counted. */
static void an_update_that_is_refused_changes_nothing(void **state)
{
    struct pl_node_capacity *o = offer_of();
    char name[32];

    (void)state;
    assert_int_equal(try_node(o, "gpu-1", 1, "nvidia.com/gpu"), 0);
    assert_int_equal(try_node(o, "gpu-2", 1, "nvidia.com/gpu"), 0);
    pod(o, "u1", "gpu-1", "\"nvidia.com/gpu\": \"3\"", "Running");
    for (unsigned i = 1; i < PL_NODE_CAPACITY_SHAPES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "cpu-%u", i);
        assert_int_equal(try_node(o, name, i + 1, "example.com/nic"), 0);
    }
    assert_int_equal(try_node(o, "new", 5000, "nvidia.com/gpu"), PL_ELIMIT);
    assert_int_equal(o->nodes.len, PL_NODE_CAPACITY_SHAPES_MAX + 1);
    assert_int_equal(try_node(o, "gpu-1", 5000, "nvidia.com/gpu"), PL_ELIMIT);
    assert_non_null(strstr(told(o, "\"x/y\": 1"), "nvidia.com/gpu (8, 5 free)")); /* it is where it was, and so is its pod */
    assert_int_equal(try_node(o, "cpu-7", 5000, "example.com/nic"), 0);           /* alone of its kind: it has a place */
    pl_node_capacity_node_gone(o, "gpu-2", 2);
    assert_int_equal(try_node(o, "gpu-1", 6000, "nvidia.com/gpu"), 0);
    assert_non_null(strstr(told(o, "\"x/y\": 1"), "nvidia.com/gpu (4, 1 free)"));
    pl_node_capacity_destroy(o);
}

/* Names of what pods ask for are more than are kept: what is known of a pod stays, and of none that is new. */
static void a_pod_that_is_refused_holds_what_it_held(void **state)
{
    struct pl_node_capacity *o = offer_of();
    char limits[64];
    json_t *other;

    (void)state;
    node(o, "a1", "96", "1000Gi", "\"nvidia.com/gpu\": \"8\"", "", 1);
    pod(o, "u1", "a1", "\"nvidia.com/gpu\": \"3\"", "Running");
    for (unsigned i = 1; i < PL_NODE_CAPACITY_NAMES_MAX; i++) {
        (void)snprintf(limits, sizeof(limits), "\"example.com/r%u\": 1", i);
        pod(o, "p", "a1", limits, "Running");
    }
    pl_node_capacity_pod_gone(o, "p");
    for (unsigned i = 0; i < 2; i++) {
        other = json_pack("{s:{s:s}, s:{s:s, s:[{s:{s:{s:i}}}]}}", "metadata", "uid", i == 0 ? "u1" : "u2", "spec", "nodeName",
                          i == 0 ? "a1" : "a2", "containers", "resources", "limits", "example.com/more", 1);
        assert_int_equal(pl_node_capacity_pod(o, other, NULL), PL_ELIMIT);
        json_decref(other);
    }
    assert_int_equal(o->nodes.len, 1);
    assert_non_null(strstr(told(o, "\"x/y\": 1"), "nvidia.com/gpu (8, 5 free)"));
    pl_node_capacity_destroy(o);
}

/* As Kubernetes' scheduler sums: what runs at the same time together. */
static void what_a_pod_asks_for_is_what_it_has_at_once(void **state)
{
#define ASKS(cpu, gpu) "\"resources\": {\"limits\": {\"cpu\": " #cpu ", \"memory\": \"" #cpu "Gi\", \"x.io/gpu\": " #gpu "}}"
#define STAYS          "\"restartPolicy\": \"Always\", "
    static const struct {
        const char *pod;
        int cpus, gpus;
    } rows[] = {
        {"{}", 0, 0},
        {"{\"containers\": [{" ASKS(2, 1) "}, {" ASKS(3, 1) "}]}", 5, 2},
        {"{\"initContainers\": [{" ASKS(4, 0) "}, {" ASKS(1, 3) "}], \"containers\": [{" ASKS(2, 1) "}]}", 4, 3},
        {"{\"initContainers\": [{" STAYS ASKS(4, 1) "}], \"containers\": [{" ASKS(2, 1) "}]}", 6, 2},
        {"{\"initContainers\": [{" ASKS(7, 0) "}, {" STAYS ASKS(4, 1) "}], \"containers\": [{" ASKS(2, 1) "}]}", 7, 2},
        {"{\"initContainers\": [{" STAYS ASKS(4, 1) "}, {" ASKS(7, 4) "}], \"containers\": [{" ASKS(2, 1) "}]}", 11, 5},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *json = json_pack("{s:o}", "spec", json_loads(rows[i].pod, 0, NULL));
        struct pl_node_capacity_request asks;

        pl_node_capacity_request(json, &asks);
        if (asks.cpu_milli != rows[i].cpus * 1000 || asks.memory_bytes != (int64_t)rows[i].cpus << 30 ||
            asks.n != (rows[i].gpus > 0) || (asks.n > 0 && asks.extended[0].count != rows[i].gpus))
            fail_msg("%s\nasks for %lldm, %lld", rows[i].pod, (long long)asks.cpu_milli, (long long)asks.extended[0].count);
        json_decref(json);
    }
}

/* Of the nodes that could take the pod: a disk of others is of no use to it. */
static void the_largest_disk_that_a_pod_may_have_is_known(void **state)
{
    static const char *const big = "\"ephemeral-storage\": \"1Ti\"", *const gpu = "\"nvidia.com/gpu\": 1, \"cpu\": \"2\"";
    struct pl_node_capacity *o = offer_of();

    (void)state;
    assert_true(disk_for(o, "\"cpu\": \"2\"") == 0);
    node(o, "c1", "8", "32Gi", "", "", 1);
    assert_true(disk_for(o, "\"cpu\": \"2\"") == 0); /* not said */
    node(o, "c2", "8", "32Gi", big, "", 1);
    node(o, "g1", "4", "32Gi", "\"nvidia.com/gpu\": 4, \"ephemeral-storage\": \"94580335255\"", A100, 1);
    node(o, "g2", "4", "32Gi", "\"nvidia.com/gpu\": 4, \"ephemeral-storage\": \"20Gi\"", T4, 1);
    assert_true(disk_for(o, "\"cpu\": \"2\"") == 1LL << 40);
    assert_true(disk_for(o, gpu) == 94580335255);
    assert_true(disk_for(o, "\"nvidia.com/gpu\": 1, \"cpu\": \"6\"") == 0); /* none */
    pl_node_capacity_node_gone(o, "g1", 2);
    assert_true(disk_for(o, gpu) == 94580335255); /* it may come back */
    pl_node_capacity_expire(o, 2 + PL_NODE_CAPACITY_SEEN_MS + 1);
    assert_true(disk_for(o, gpu) == 20LL << 30);
    pl_node_capacity_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_node_could_give_is_told_with_what_is_known),
        cmocka_unit_test(each_product_is_listed_once),
        cmocka_unit_test(nothing_known_is_no_reason_to_refuse),
        cmocka_unit_test(another_node_is_one_that_is_there_or_is_said_to_come),
        cmocka_unit_test(what_is_free_follows_pods_and_nodes),
        cmocka_unit_test(shapes_outlive_their_nodes_for_thirty_days),
        cmocka_unit_test(shapes_of_the_configuration_stay),
        cmocka_unit_test(the_renderer_is_told_labels_products_and_resources),
        cmocka_unit_test(the_renderer_is_told_memory_and_capability),
        cmocka_unit_test(the_renderer_is_told_the_same_in_whatever_order_nodes_were_seen),
        cmocka_unit_test(the_unit_of_gpu_memory_is_seen_from_the_size_of_a_device),
        cmocka_unit_test(the_unit_is_that_of_the_nodes_that_are_there),
        cmocka_unit_test(memory_is_asked_of_one_device),
        cmocka_unit_test(resources_of_shared_devices_are_known_by_their_strategy),
        cmocka_unit_test(nodes_that_have_gone_say_what_their_strategy_offers_while_no_other_does),
        cmocka_unit_test(what_others_may_count_is_no_lack),
        cmocka_unit_test(a_request_is_what_the_scheduler_counts),
        cmocka_unit_test(a_large_cluster_is_a_few_shapes),
        cmocka_unit_test(counts_are_as_large_as_nodes_and_pods_say),
        cmocka_unit_test(of_a_node_that_went_nothing_is_kept_once_its_pods_have),
        cmocka_unit_test(an_update_that_is_refused_changes_nothing),
        cmocka_unit_test(a_pod_that_is_refused_holds_what_it_held),
        cmocka_unit_test(what_a_pod_asks_for_is_what_it_has_at_once),
        cmocka_unit_test(the_largest_disk_that_a_pod_may_have_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
