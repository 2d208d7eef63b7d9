// link: pipelined/exec/kubernetes pipelined/kube/pod storage/base kube_fake
/* The executor `kubernetes` against the fake API server: the life of a worker as a pod, told to an engine that only listens. The kubelet is
 * the test itself. */
#include "pipelined/exec/kubernetes/worker_pod.h"
#include "tests/component/exec/exec_kubernetes_fixture.h"

/* --- the life of one --- */

static void a_worker_is_a_pod_from_its_creation_to_its_removal(void **state_)
{
    struct fixture *f = *state_;
    char path[256];
    json_t *pod;

    create(f, true);
    start(f, 7);
    assert_int_equal(f->heard.started, 1);
    until(f, has_pod);
    pod = kube_fake_get(f->fake, path_of(7, path));
    assert_string_equal(json_string_value(json_object_get(json_object_get(json_object_get(pod, "metadata"), "annotations"),
                                                          "pipelined.io/worker")),
                        "7");
    json_decref(pod);
    run(f, 7);
    until(f, is_up);
    assert_string_equal(f->heard.node, "cpu-1");
    finish(f, 7, 0, 0);
    until(f, has_end);
    assert_false(f->heard.hopeless || f->heard.counts);
    until(f, has_no_pod);
    assert_int_equal(f->heard.exited, 1);
    assert_int_equal(f->heard.last, 7);
}

static void a_short_pod_is_never_seen_running(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    patch(f, 7,
          json_pack("{s:{s:s}, s:{s:s, s:[o, o]}}", "spec", "nodeName", "cpu-1", "status", "phase", "Succeeded",
                    "containerStatuses", state("main", "terminated", json_pack("{s:i}", "exitCode", 0)),
                    state("agent", "terminated", json_pack("{s:i}", "exitCode", 0))));
    until(f, has_no_pod);
    assert_int_equal(f->heard.exited, 1);
}

static json_t *of_image(json_t *container)
{
    json_object_set_new(container, "imageID", json_string("debian@sha256:12"));
    return container;
}

static bool has_image(struct fixture *f)
{
    return f->heard.images > 0;
}

static void an_image_that_is_said_later_is_told_later_and_once(void **state_)
{
    struct fixture *f = *state_;

    f->image_late = true;
    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    assert_int_equal(f->heard.images, 0);
    patch(f, 7,
          json_pack("{s:{s:[o, o]}}", "status", "containerStatuses", of_image(state("main", "running", json_object())),
                    state("agent", "running", json_object())));
    until(f, has_image);
    assert_string_equal(f->heard.image, "debian@sha256:12");
    patch(f, 7,
          json_pack("{s:{s:s, s:[o, o]}}", "status", "phase", "Succeeded", "containerStatuses",
                    of_image(state("main", "terminated", json_pack("{s:i}", "exitCode", 0))),
                    state("agent", "terminated", json_pack("{s:i}", "exitCode", 0))));
    until(f, has_end);
    assert_int_equal(f->heard.images, 1);
}

static void which_image_it_runs_in_is_told_before_it_is_up(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    patch(f, 7,
          json_pack("{s:{s:s}, s:{s:s, s:[o]}}", "spec", "nodeName", "cpu-1", "status", "phase", "Running", "containerStatuses",
                    of_image(state("main", "running", json_object()))));
    until(f, is_up);
    assert_string_equal(f->heard.image, "debian@sha256:12");
}

static void which_image_a_short_pod_ran_in_is_told_before_its_end(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    patch(f, 7,
          json_pack("{s:{s:s}, s:{s:s, s:[o, o]}}", "spec", "nodeName", "cpu-1", "status", "phase", "Succeeded",
                    "containerStatuses", of_image(state("main", "terminated", json_pack("{s:i}", "exitCode", 0))),
                    state("agent", "terminated", json_pack("{s:i}", "exitCode", 0))));
    until(f, has_end);
    assert_string_equal(f->heard.image, "debian@sha256:12");
}

static void who_is_told_to_end_is_gone_when_the_cluster_says_so(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    f->x->ops->stop(f->x, 7, false); /* before it was made */
    until(f, has_end);
    until(f, has_no_pod);
    start(f, 8);
    until(f, has_pod);
    run(f, 8);
    until(f, is_up);
    f->x->ops->stop(f->x, 8, true);
    until(f, has_no_pod);
    while (f->heard.exited < 2)
        until(f, has_end);
    assert_int_equal(f->heard.last, 8);
    memset(&f->heard, 0, sizeof f->heard);
    f->x->ops->stop(f->x, 99, true); /* of whom nothing is known */
    until(f, has_end);
    assert_int_equal(f->heard.last, 99);
}

static void a_pod_deleted_by_hand_is_a_lost_worker_that_used_no_try(void **state_)
{
    struct fixture *f = *state_;
    char path[256];

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    assert_true(kube_fake_delete(f->fake, path_of(7, path)));
    until(f, has_end);
    assert_false(f->heard.hopeless || f->heard.counts);
    assert_non_null(strstr(f->heard.end, "deleted"));
    assert_int_equal(f->heard.exit, PL_SCHED_EXIT_DISRUPTED);
}

static void a_pod_that_is_deleted_with_its_grace_is_taken_away(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    patch(f, 7, json_pack("{s:{s:s}}", "metadata", "deletionTimestamp", "2026-11-22T10:00:00Z"));
    finish(f, 7, 143, 0);
    until(f, has_end);
    assert_string_equal(f->heard.end, "its pod was deleted");
    assert_int_equal(f->heard.exit, PL_SCHED_EXIT_DISRUPTED);
}

static void a_pod_whose_command_ends_is_not_taken_away(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    finish(f, 7, 1, 0);
    until(f, has_end);
    assert_int_equal(f->heard.exit, PL_SCHED_EXIT_OWN);
}

static bool says_insufficient(struct fixture *f)
{
    return strstr(f->heard.why, "0/1 nodes are available: 1 Insufficient cpu.") != NULL;
}

static void why_it_waits_is_told_in_the_clusters_words(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    patch(f, 7,
          json_pack("{s:{s:s, s:[{s:s, s:s, s:s, s:s}]}}", "status", "phase", "Pending", "conditions", "type", "PodScheduled",
                    "status", "False", "reason", "Unschedulable", "message", "0/1 nodes are available: 1 Insufficient cpu."));
    until(f, says_insufficient);
    assert_int_equal(f->heard.exited, 0);
}

static bool says_secret(struct fixture *f)
{
    return strstr(f->heard.why, "secret \"pg\" not found") != NULL;
}

static void an_event_of_the_pod_says_more(void **state_)
{
    struct fixture *f = *state_;
    char path[256];
    json_t *pod, *uid;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    bind(f, 7);
    until(f, is_placed);
    pod = kube_fake_get(f->fake, path_of(7, path));
    uid = json_object_get(json_object_get(pod, "metadata"), "uid");
    patch(f, 7,
          json_pack("{s:{s:s, s:[o]}}", "status", "phase", "Pending", "containerStatuses",
                    state("main", "waiting", json_pack("{s:s}", "reason", "ContainerCreating"))));
    kube_fake_put(f->fake, EVENTS,
                  json_pack("{s:{s:s}, s:{s:s, s:O}, s:s, s:s, s:s}", "metadata", "name", "e1", "involvedObject", "kind", "Pod",
                            "uid", uid, "reason", "FailedMount", "type", "Warning", "message",
                            "MountVolume.SetUp failed for volume \"secret-pg\" : secret \"pg\" not found"));
    json_decref(pod);
    until(f, says_secret);
}

/* --- what the cluster refuses --- */

static void what_no_pod_of_the_stage_could_be_is_hopeless(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    kube_fake_fault(f->fake,
                    (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_ANSWER, 422, 0,
                                             "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"Pod is invalid: spec: "
                                             "Forbidden\",\"code\":422}",
                                             0, 1});
    start(f, 7);
    until(f, has_end);
    assert_true(f->heard.hopeless);
    assert_non_null(strstr(f->heard.end, "Pod is invalid: spec: Forbidden"));
    assert_int_equal(kube_fake_count(f->fake, PODS), 0);
}

/* --- shapes --- */

static void a_shape_is_offered_when_a_node_could_take_it(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *gpu = pod_spec_of("\"gpu\": 1");
    uint64_t cpu_shape = 0, gpu_shape = 0;

    create(f, true);
    while (f->heard.shapes == 0 || !f->heard.offered) {
        assert_int_equal(f->x->ops->shape(f->x, "default", &f->spec->stages[0], 1, false, &cpu_shape, NULL), 0);
        until(f, listens);
    }
    assert_int_equal(f->heard.pending_max, 1);
    f->heard.shapes = 0;
    assert_int_equal(f->x->ops->shape(f->x, "default", &gpu->stages[0], 1, true, &gpu_shape, NULL), 0);
    assert_int_not_equal(cpu_shape, gpu_shape);
    assert_int_equal(f->heard.shapes, 1);
    assert_false(f->heard.offered);
    assert_non_null(strstr(f->heard.shape, "no node offers nvidia.com/gpu"));
    kube_fake_put(f->fake, NODES,
                  json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name", "gpu-1", "status",
                            "allocatable", "cpu", "8", "memory", "32Gi", PL_GPU_RESOURCE, "4", "conditions", "type", "Ready",
                            "status", "True"));
    f->heard.shapes = 0;
    while (f->heard.shapes == 0 || !f->heard.offered)
        until(f, listens);
    pl_spec_destroy(gpu);
}

static bool has_none(struct fixture *f)
{
    return strstr(f->heard.shape, "(Tesla-T4: 0, 0 free)") != NULL;
}

/* Nobody tells of it: it is missing in the watch's own list. */
static void a_node_that_goes_before_the_watch_begins_is_offered_no_more(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *gpu = pod_spec_of("\"gpu\": 2");
    uint64_t id;

    put_gpu_node(f, "t4", "Tesla-T4");
    kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", "/api/v1/nodes?limit=500", KUBE_FAULT_ANSWER, 503, 0, "", 0, 0});
    create(f, false);
    assert_int_equal(f->x->ops->shape(f->x, "default", &gpu->stages[0], 1, true, &id, NULL), 0);
    assert_non_null(strstr(f->heard.shape,
                           "no node offers 2 nvidia.com/gpu: the largest has 1; known: nvidia.com/gpu (Tesla-T4: 1, 1 free)"));
    assert_true(kube_fake_delete(f->fake, NODES "/t4"));
    kube_fake_heal(f->fake);
    until(f, has_none);
    pl_spec_destroy(gpu);
}

static bool holds_the_only_one(struct fixture *f)
{
    static struct pl_spec *two;
    uint64_t id;
    bool yes;

    if (!two)
        two = pod_spec_of("\"gpu\": 2");
    assert_int_equal(f->x->ops->shape(f->x, "default", &two->stages[0], 1, true, &id, NULL), 0);
    yes = strstr(f->heard.shape, "(Tesla-T4: 1, 0 free)") != NULL;
    if (yes)
        two = pl_spec_destroy(two);
    return yes;
}

/* What our own pods hold is known by our own list of them; everybody's, which is to bring the others', fails. */
static void our_own_pods_count_once_and_by_our_own_list(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *gpu = pod_spec_of("\"gpu\": 1");
    struct pl_worker_spec spec = worker(f, 7);
    struct pl_err err = {0};

    put_gpu_node(f, "t4", "Tesla-T4");
    kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", "/api/v1/pods?", KUBE_FAULT_ANSWER, 503, 0, "", 0, 0});
    create(f, false);
    spec.def = &gpu->stages[0];
    spec.gpu = true;
    if (f->x->ops->start(f->x, &spec, &err) < 0)
        fail_msg("%s", err.msg);
    until(f, has_pod);
    patch(f, 7, json_pack("{s:{s:s}}", "spec", "nodeName", "t4"));
    until(f, holds_the_only_one);
    kube_fake_heal(f->fake);
    until(f, listens);
    assert_true(holds_the_only_one(f));
    f->x->ops->stop(f->x, 7, true);
    until(f, has_end);
    pl_spec_destroy(gpu);
}

/* No node had what the stage names when it was made; one that has it joins. One that has not changes nothing but the sentence. */
static void a_product_that_comes_later_is_found(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *gpu = pod_spec_of("\"gpu\": {\"product\": [\"*A100*\"]}");
    struct pl_worker_spec spec = worker(f, 7);
    struct pl_err err = {0};
    uint64_t id;

    create(f, true);
    spec.def = &gpu->stages[0];
    spec.gpu = true;
    assert_int_equal(f->x->ops->shape(f->x, "default", spec.def, 1, true, &id, NULL), 0);
    assert_false(f->heard.offered);
    assert_non_null(strstr(f->heard.shape, "no node has a GPU product *A100*; no GPU product is known"));
    put_gpu_node(f, "t4", "Tesla-T4");
    ask_anew(f, &spec, "no node has a GPU product *A100*; known: Tesla-T4", &id);
    assert_false(f->heard.offered);
    assert_int_equal(f->x->ops->start(f->x, &spec, &err), PL_EUNAVAILABLE);
    put_gpu_node(f, "a100", "NVIDIA-A100-SXM4-40GB");
    ask_anew(f, &spec, "", &id);
    if (f->x->ops->start(f->x, &spec, &err) < 0)
        fail_msg("%s", err.msg);
    until(f, has_pod);
    pl_spec_destroy(gpu);
}

static int check(struct fixture *f, const struct pl_stage *def, struct pl_executor_check *ret, struct pl_err *err)
{
    int r = f->x->ops->check(f->x, "default", def, def->gpu.count > 0, ret, err);

    return r < 0 || !ret->body ? r : f->x->ops->ask(f->x, ret, err);
}

static bool says_queue(struct fixture *f)
{
    return strstr(f->heard.why, "queue team-a has not admitted the pod yet") != NULL;
}

/* Its queue says when there is room, and takes away the gate; until then it waits like any other. */
static void a_pod_of_a_queue_is_the_queue_s_to_admit(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *queued = pod_spec_of("\"gpu\": {\"resource\": \"example.com/npu\"}, \"placement\": {\"queue\": \"team-a\"}");
    struct pl_worker_spec spec = worker(f, 7);
    struct pl_executor_check c;
    struct pl_err err = {0};
    uint64_t id;

    create(f, true);
    spec.def = &queued->stages[0];
    spec.gpu = true;
    assert_int_equal(check(f, spec.def, &c, &err), 0);
    assert_string_equal(c.not_offered, "");
    assert_int_equal(f->x->ops->shape(f->x, "default", spec.def, 1, true, &id, NULL), 0);
    assert_true(f->heard.offered);
    assert_int_equal(f->x->ops->start(f->x, &spec, &err), 0);
    until(f, has_pod);
    patch(f, 7,
          json_pack("{s:{s:[{s:s}]}, s:{s:s}}", "spec", "schedulingGates", "name", "kueue.x-k8s.io/admission", "status", "phase",
                    "Pending"));
    until(f, says_queue);
    assert_int_equal(f->heard.exited, 0);
    patch(f, 7, json_pack("{s:{s:n}}", "spec", "schedulingGates"));
    run(f, 7);
    until(f, is_up);
    assert_int_equal(f->heard.exited, 0);
    pl_spec_destroy(queued);
}

/* What it asks for was sound, and is something else once nodes offer that. */
static void a_sound_shape_is_another_when_nodes_have_changed(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *gpu = pod_spec_of("\"gpu\": {\"share\": {\"mode\": \"time-slicing\"}}");
    struct pl_worker_spec spec = worker(f, 7);
    uint64_t first, second;

    create(f, true);
    spec.def = &gpu->stages[0];
    spec.gpu = true;
    assert_int_equal(f->x->ops->shape(f->x, "default", spec.def, 1, true, &first, NULL), 0);
    assert_false(f->heard.offered);
    assert_non_null(strstr(f->heard.shape, "no node offers nvidia.com/gpu;"));
    kube_fake_put(f->fake, NODES,
                  json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name", "turns", "status",
                            "allocatable", "cpu", "8", "memory", "32Gi", "nvidia.com/gpu.shared", "8", "conditions", "type",
                            "Ready", "status", "True"));
    ask_anew(f, &spec, "", &second);
    assert_int_not_equal(first, second);
    pl_spec_destroy(gpu);
}

#define SECRETS "/api/v1/namespaces/n/secrets"

static void a_stage_with_a_secret_waits_for_it_and_gets_no_others(void **state_)
{
    static const char *const labels[] = {"other", "default"};
    struct fixture *f = *state_;
    struct pl_spec *stage = pod_spec_of("\"secrets\": [{\"name\": \"pg\", \"mount\": \"/keys\"}]");
    struct pl_worker_spec spec = worker(f, 7);
    struct pl_executor_check c;
    struct pl_err err = {0};
    uint64_t id;

    create(f, true);
    spec.def = &stage->stages[0];
    kube_fake_put(f->fake, SECRETS,
                  json_pack("{s:{s:s, s:{s:s}}}", "metadata", "name", "pg", "labels", "pipelined.io/project", labels[0]));
    assert_int_equal(check(f, spec.def, &c, &err), 0);
    assert_non_null(strstr(c.not_offered, "project default has no secret \"pg\": pipelinectl create secret pg"));
    assert_int_equal(f->x->ops->shape(f->x, "default", spec.def, 1, false, &id, NULL), 0);
    assert_false(f->heard.offered);
    assert_non_null(strstr(f->heard.shape, "project default has no secret \"pg\""));
    assert_int_equal(f->x->ops->start(f->x, &spec, &err), PL_EUNAVAILABLE);
    f->heard.reshapes = 0;
    assert_true(kube_fake_patch(f->fake, SECRETS "/pg",
                                json_pack("{s:{s:{s:s}}}", "metadata", "labels", "pipelined.io/project", labels[1])));
    ask_anew(f, &spec, "", &id);
    assert_int_equal(f->x->ops->start(f->x, &spec, &err), 0);
    until(f, has_pod);
    pl_spec_destroy(stage);
}

enum { MANY = 200 };

static bool knows_all(struct fixture *f)
{
    const struct kube *k = (const struct kube *)f->x;
    _cleanup_free_ const char **names = NULL;
    size_t n = 0;

    names = pl_project_secrets_names(k->secrets, "default", &n);
    return names && n == MANY;
}

/* As when an operator brings all of a team's: what there is is looked at together. */
static void many_secrets_are_told_together(void **state_)
{
    struct fixture *f = *state_;
    char name[32];

    create(f, true);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "s%u", i);
        kube_fake_put(f->fake, SECRETS,
                      json_pack("{s:{s:s, s:{s:s}}}", "metadata", "name", name, "labels", "pipelined.io/project", "default"));
    }
    until(f, knows_all);
    until(f, is_reshaped);
    assert_true(f->heard.reshapes <= MANY / 10);
}

static bool has_no_shape(struct fixture *f)
{
    return ((const struct kube *)f->x)->shapes.len == 0;
}

static void a_shape_that_no_stage_or_pod_has_is_forgotten_and_told_of_anew(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    assert_int_equal(f->x->ops->shape(f->x, "default", &f->spec->stages[0], 1, false, &f->unused, NULL), 0);
    start(f, 7);
    until(f, has_pod);
    for (unsigned i = 0; i < 2; i++) { /* each time that nodes are looked at */
        f->heard.reshapes = 0;
        put_gpu_node(f, i ? "b" : "a", i ? "Tesla-T4" : "NVIDIA-A100-SXM4-40GB");
        until(f, is_reshaped);
    }
    assert_false(has_no_shape(f));
    f->x->ops->stop(f->x, 7, true);
    until(f, has_no_shape);
    f->heard.shapes = 0;
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(f->x->ops->shape(f->x, "default", &f->spec->stages[0], 1, false, &f->unused, NULL), 0);
        assert_int_equal(f->heard.shapes, i);
    }
}

static void each_pod_that_finds_a_node_lets_more_follow(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 1);
    until(f, has_pod);
    bind(f, 1);
    until(f, is_placed);
    assert_int_equal(f->heard.pending_max, 2);
}

/* --- would it be taken? --- */

static unsigned long writes_of(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.writes;
}

static void what_the_cluster_says_of_a_stage_is_told_before_it_has_work(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *gpu = pod_spec_of("\"gpu\": 1"), *like = pod_spec_of("\"env\": {}"),
                   *later = pod_spec_of("\"gpu\": {\"count\": 1, \"product\": [\"*H900*\"]}");
    struct pl_executor_check c;
    struct pl_err err = {0};
    unsigned long writes;

    create(f, true);
    writes = writes_of(f);
    assert_int_equal(check(f, &f->spec->stages[0], &c, &err), 0);
    assert_string_equal(c.not_checked, "");
    assert_int_equal(check(f, &like->stages[0], &c, &err), 0);
    assert_int_equal(writes_of(f), writes + 1); /* those that are alike are asked of once */
    assert_int_equal(kube_fake_count(f->fake, PODS), 0);
    assert_int_equal(check(f, &gpu->stages[0], &c, &err), 0);
    assert_non_null(strstr(c.not_offered, "no node offers nvidia.com/gpu"));
    assert_int_equal(check(f, &later->stages[0], &c, &err), 0); /* a node may yet come */
    assert_non_null(strstr(c.not_offered, "H900"));
    pl_spec_destroy(gpu);
    pl_spec_destroy(like);
    pl_spec_destroy(later);
}

static void what_the_cluster_refuses_is_told_apart_from_what_it_cannot_answer(void **state_)
{
    static const struct {
        unsigned status;
        const char *body;
        int code;
    } rows[] = {
        {422, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"Pod is invalid\",\"code\":422}", PL_EINVAL},
        {400, "{\"kind\":\"Status\",\"reason\":\"BadRequest\",\"message\":\"unknown field\",\"code\":400}", PL_EINVAL},
        {403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"exceeded quota: q\",\"code\":403}", 0},
        {403, "{\"kind\":\"Status\",\"message\":\"admission webhook does not support dry run\",\"code\":403}", 0},
    };
    struct fixture *f = *state_;
    struct pl_executor_check c;
    struct pl_err err;

    create(f, true);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        kube_fake_heal(f->fake);
        kube_fake_fault(f->fake,
                        (struct kube_fake_fault){"POST", "dryRun", KUBE_FAULT_ANSWER, rows[i].status, 0, rows[i].body, 0, 1});
        err = (struct pl_err){0};
        assert_int_equal(check(f, &f->spec->stages[0], &c, &err), rows[i].code);
        if (rows[i].code == 0)
            assert_string_not_equal(c.not_checked, "");
    }
}

/* Who hangs once hangs for all: of a pipeline of many stages the first alone waits. What it took before it is known to take. */
static void a_server_that_does_not_answer_is_asked_once(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *other = pod_spec_of("\"user\": 5");
    struct kube_fake_view before, after;
    struct pl_executor_check c;
    struct pl_err err = {0};

    create(f, true);
    assert_int_equal(check(f, &f->spec->stages[0], &c, &err), 0);
    assert_false(c.away);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "dryRun", KUBE_FAULT_ANSWER, 503, 0, "", 0, 0});
    assert_int_equal(check(f, &other->stages[0], &c, &err), 0);
    assert_true(c.away);
    assert_string_not_equal(c.not_checked, "");
    kube_fake_look(f->fake, &before);
    assert_int_equal(f->x->ops->check(f->x, "default", &other->stages[0], false, &c, &err), 0);
    c.away = true;
    assert_int_equal(f->x->ops->ask(f->x, &c, &err), 0);
    assert_non_null(strstr(c.not_checked, "was not asked, because it did not answer for the previous stage"));
    assert_true(c.away);
    assert_int_equal(f->x->ops->check(f->x, "default", &f->spec->stages[0], false, &c, &err), 0);
    c.away = true;
    assert_int_equal(f->x->ops->ask(f->x, &c, &err), 0);
    assert_string_equal(c.not_checked, "");
    kube_fake_look(f->fake, &after);
    assert_int_equal(before.requests, after.requests);
    pl_spec_destroy(other);
}

/* --- another life of the daemon --- */

static bool nothing_is_under_way(struct fixture *f)
{
    return f->heard.exited == 2;
}

static void running_pods_are_adopted_and_strays_removed(void **state_)
{
    struct fixture *f = *state_;
    struct pl_worker_spec spec;

    create(f, true);
    start(f, 7);
    start(f, 8);
    start(f, 9);
    while (kube_fake_count(f->fake, PODS) < 3)
        until(f, listens);
    run(f, 7);
    until(f, is_up);
    f->x = pl_executor_destroy(f->x);
    memset(&f->heard, 0, sizeof f->heard);

    create(f, false);
    spec = worker(f, 7);
    f->x->ops->adopt(f->x, &spec, 0, 0);
    spec = worker(f, 10); /* it went while nobody looked */
    f->x->ops->adopt(f->x, &spec, 0, 0);
    until(f, has_end);
    assert_int_equal(f->heard.last, 10);
    until(f, has_pod); /* 8 and 9 were nobody's */
    until(f, is_up);
    finish(f, 7, 0, 0);
    until(f, nothing_is_under_way);
    until(f, has_no_pod);
    assert_int_equal(f->heard.last, 7);
}

static void whose_stage_is_no_more_is_found_by_its_number_and_ended(void **state_)
{
    struct fixture *f = *state_;
    struct pl_worker_spec spec;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    f->x = pl_executor_destroy(f->x);
    create(f, false);
    spec = worker(f, 7);
    spec.def = NULL;
    f->x->ops->adopt(f->x, &spec, 0, 0);
    f->x->ops->stop(f->x, 7, true);
    until(f, has_no_pod);
    until(f, has_end);
    assert_int_equal(f->heard.last, 7);
}

static void an_answer_that_was_lost_makes_no_second_pod(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_AFTER, 504, 0, "", 0, 1});
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    assert_int_equal(f->heard.exited, 0);
    assert_int_equal(kube_fake_count(f->fake, PODS), 1);
}

static void who_may_make_no_pods_is_told_at_the_start(void **state_)
{
    struct fixture *f = *state_;
    struct pl_exec_kubernetes_config config = {.loop = f->loop,
                                               .kubeconfig = f->kubeconfig,
                                               .context = "",
                                               .settings = &f->settings,
                                               .events = {f, on_started, on_exited, on_placed, on_waits, on_shape, on_reshape}};
    struct pl_err err = {0};

    f->settings = (struct pl_pod_settings){.store_id = STORE, .image = "pipelined:1"};
    kube_fake_deny(f->fake, " create /pods ");
    assert_int_equal(pl_exec_kubernetes_create(&config, &f->x, &err), PL_EFORBIDDEN);
    assert_non_null(strstr(err.msg, "cannot create pods in namespace n"));
}

static void is_target(struct fixture *f, const char *status)
{
    patch(f, 7,
          json_pack("{s:{s:[{s:s, s:s, s:s, s:s}]}}", "status", "conditions", "type", "DisruptionTarget", "status", status,
                    "reason", "PreemptionByScheduler", "message", "a pod of a higher priority"));
}

static bool leaves(struct fixture *f)
{
    return f->heard.leaves == 1;
}

static bool stays(struct fixture *f)
{
    return f->heard.leaves == 2;
}

/* As the control plane does when nobody has deleted it after two minutes. */
static void a_pod_that_is_not_taken_away_after_all_stays(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    is_target(f, "True");
    until(f, leaves);
    assert_non_null(strstr(f->heard.leaves_why, "a pod of a higher priority"));
    is_target(f, "False");
    until(f, stays);
    assert_string_equal(f->heard.leaves_why, "");
    assert_int_equal(f->heard.exited, 0);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(a_worker_is_a_pod_from_its_creation_to_its_removal),
        ROW(a_short_pod_is_never_seen_running),
        ROW(which_image_it_runs_in_is_told_before_it_is_up),
        ROW(an_image_that_is_said_later_is_told_later_and_once),
        ROW(which_image_a_short_pod_ran_in_is_told_before_its_end),
        ROW(who_is_told_to_end_is_gone_when_the_cluster_says_so),
        ROW(a_pod_deleted_by_hand_is_a_lost_worker_that_used_no_try),
        ROW(a_pod_that_is_deleted_with_its_grace_is_taken_away),
        ROW(a_pod_whose_command_ends_is_not_taken_away),
        ROW(a_pod_that_is_not_taken_away_after_all_stays),
        ROW(why_it_waits_is_told_in_the_clusters_words),
        ROW(an_event_of_the_pod_says_more),
        ROW(what_no_pod_of_the_stage_could_be_is_hopeless),
        ROW(a_shape_is_offered_when_a_node_could_take_it),
        ROW(a_node_that_goes_before_the_watch_begins_is_offered_no_more),
        ROW(a_product_that_comes_later_is_found),
        ROW(a_sound_shape_is_another_when_nodes_have_changed),
        ROW(a_pod_of_a_queue_is_the_queue_s_to_admit),
        ROW(a_stage_with_a_secret_waits_for_it_and_gets_no_others),
        ROW(our_own_pods_count_once_and_by_our_own_list),
        ROW(many_secrets_are_told_together),
        ROW(a_shape_that_no_stage_or_pod_has_is_forgotten_and_told_of_anew),
        ROW(each_pod_that_finds_a_node_lets_more_follow),
        ROW(what_the_cluster_says_of_a_stage_is_told_before_it_has_work),
        ROW(what_the_cluster_refuses_is_told_apart_from_what_it_cannot_answer),
        ROW(a_server_that_does_not_answer_is_asked_once),
        ROW(running_pods_are_adopted_and_strays_removed),
        ROW(whose_stage_is_no_more_is_found_by_its_number_and_ended),
        ROW(an_answer_that_was_lost_makes_no_second_pod),
        ROW(who_may_make_no_pods_is_told_at_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
