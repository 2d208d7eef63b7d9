// link: pipelined/sched
/* Workers that are pods of a cluster: which start, how many wait for a node at once, and what the job says meanwhile. */
#include "tests/unit/sched/sched_fixture.h"

static void shape(uint64_t id, bool offered, uint32_t pending_max)
{
    kit_do(&k,
           (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE,
                                   .shape = {.id = id,
                                             .offered = offered,
                                             .pending_max = pending_max,
                                             .text = offered ? NULL : "no node offers nvidia.com/gpux; known: nvidia.com/gpu"}});
}

/* The same, offered, and its pods need that of a node. */
static void shape_needs(uint64_t id, uint64_t needs)
{
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE,
                                       .shape = {.id = id, .offered = true, .pending_max = 3, .needs = needs}});
}

static void said(enum pl_sched_event_kind kind, uint64_t worker, bool on, const char *text)
{
    kit_do(&k, (struct pl_sched_event){.kind = kind, .id = worker, .on = on, .text = text});
}

/* One stage of so many workers, whose pods are of shape 7; a job is planned. */
static void open_rows(struct pl_sched_stage def, bool offered, uint32_t pending_max, uint32_t rows)
{
    def.shape = 7;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, def));
    kit_ready(&k);
    if (pending_max)
        shape(7, offered, pending_max);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, rows);
}

static void open_pods(struct pl_sched_stage def, bool offered, uint32_t pending_max)
{
    open_rows(def, offered, pending_max, 10);
}

static void only_so_many_pods_wait_for_a_node(void **state)
{
    uint64_t first, second;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 5}, true, 2);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 2);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    second = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.shape, 7);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.cpu_milli, 0); /* nothing of this machine */
    said(PL_SCHED_EV_WORKER_PLACED, first, false, NULL);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    said(PL_SCHED_EV_WORKER_PLACED, first, true, NULL); /* said once more */
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, second); /* seen by its own words before the cluster's */
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    shape(7, true, 10);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1); /* its five */
    kit_close(&k);
}

static void a_pod_that_is_stopped_makes_room(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 5}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    said(PL_SCHED_EV_WORKER_EXITED, first, false, "pod deleted");
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0); /* it waits a little first */
    SAYS(k, 1, 1, "a worker failed to start (1 in a row; the next one starts after 10s): pod deleted");
    kit_wait(&k, 10000);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    kit_close(&k);
}

static void until_the_cluster_has_told_nothing_starts(void **state)
{
    (void)state;
    open_pods((struct pl_sched_stage){0}, true, 0);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    SAYS(k, 1, 1, "waiting until the cluster reports what it offers");
    shape(7, false, 1);
    SAYS(k, 1, 1, "waiting for the cluster: no node offers nvidia.com/gpux; known: nvidia.com/gpu");
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    shape(7, true, 1); /* it grew */
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    SAYS(k, 1, 1, "starting 1 worker");
    kit_close(&k);
}

static void what_the_cluster_says_is_what_the_job_says(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 2}, true, 2);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.");
    SAYS(k, 1, 1, "starting 2 workers: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.");
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "pulling image \"reg.example/train:7\"");
    SAYS(k, 1, 1, "starting 2 workers: pulling image \"reg.example/train:7\"");
    said(PL_SCHED_EV_WORKER_PLACED, first, true, NULL);
    SAYS(k, 1, 1, "starting 2 workers");
    kit_close(&k);
}

static void why_an_agent_does_not_come_is_what_the_job_says_until_it_has(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 1}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    said(PL_SCHED_EV_WORKER_PLACED, first, true, NULL);
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "its agent has not come: no server at https://d:7380");
    SAYS(k, 1, 1, "starting 1 worker: its agent has not come: no server at https://d:7380");
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, first);
    SAYS(k, 1, 1, "waiting until its worker asks for work");
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "its agent has not come"); /* on its way when it came */
    SAYS(k, 1, 1, "waiting until its worker asks for work");
    kit_close(&k);
}

/* Its agent has no image of the user's to wait for: that it has come says nothing of the command's container. */
static void an_agent_that_came_first_hides_no_trouble(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 1}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "ErrImagePull of main: reg.example/train:7: not found");
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, first);
    SAYS(k, 1, 1, "waiting for its worker: ErrImagePull of main: reg.example/train:7: not found");
    said(PL_SCHED_EV_WORKER_PLACED, first, false, NULL);
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "ImagePullBackOff of main");
    SAYS(k, 1, 1, "waiting for its worker: ImagePullBackOff of main");
    said(PL_SCHED_EV_WORKER_PLACED, first, true, NULL);
    SAYS(k, 1, 1, "waiting until its worker asks for work");
    kit_close(&k);
}

/* Nodes have changed: its pods ask for something else now. Those that there are count where they were. */
static void a_stage_may_have_pods_of_another_shape_from_now_on(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_SHAPES, .stage = {.stage = 1, .version = 1, .shape = 9}};
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 3}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    shape(7, false, 1);
    SAYS(k, 1, 1, "starting 1 worker");
    kit_do(&k, ev);
    shape(9, true, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.shape, 9);
    said(PL_SCHED_EV_WORKER_PLACED, first, false, NULL); /* of 7 */
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_do(&k, ev); /* the same again */
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    ev.stage.version = 2;
    assert_int_equal(kit_try(&k, ev), PL_ENOTFOUND);
    ev.stage = (struct pl_sched_stage){.stage = 1, .version = 1, .shape = 9, .cpu_shape = 7};
    assert_int_equal(kit_try(&k, ev), PL_EINVAL);
    ev.stage = (struct pl_sched_stage){.stage = 1, .version = 1};
    assert_int_equal(kit_try(&k, ev), PL_EINVAL);
    kit_close(&k);
}

static void reshape(uint64_t stage, uint64_t id)
{
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_SHAPES, .stage = {.stage = stage, .version = 1, .shape = id}});
}

/* The resource was renamed, say: nobody will ever take the pod that asks for it by its old name, and it is the only one that its stage may have. */
static void a_pod_that_waits_for_what_nodes_had_is_made_anew(void **state)
{
    uint64_t first, second;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 1}, true, 0);
    shape_needs(7, 70);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    reshape(1, 9);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* nothing is known of 9 */
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = {.id = 9, .needs = 90, .text = "no node offers it"}});
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* another would fare no better */
    shape_needs(9, 90);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, first);
    assert_true(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.shape, 9);
    second = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    said(PL_SCHED_EV_WORKER_EXITED, first, false, "its pod was deleted");
    SAYS(k, 1, 1, "starting 1 worker"); /* nobody is to blame */
    shape_needs(9, 90);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    said(PL_SCHED_EV_WORKER_PLACED, second, false, NULL);
    reshape(1, 7);
    shape_needs(7, 70);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* it has a node */
    kit_close(&k);
}

/* Shapes differ in much that nobody waits for: which nodes are liked better, what CPU stages avoid. */
static void a_pod_keeps_its_place_while_what_it_needs_is_the_same(void **state)
{
    (void)state;
    open_pods((struct pl_sched_stage){.workers = 2}, true, 0);
    shape_needs(7, 70);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 2);
    reshape(1, 9);
    shape_needs(9, 70);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    reshape(1, 10);
    shape_needs(10, 0); /* not known */
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_close(&k);
}

/* A node may be long in coming, and an image too; what runs answers soon. */
static void a_pod_has_no_deadline_before_it_runs(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){0}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    kit_wait(&k, 48 * 3600 * 1000);
    said(PL_SCHED_EV_WORKER_PLACED, first, false, NULL);
    kit_wait(&k, 3600 * 1000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    said(PL_SCHED_EV_WORKER_PLACED, first, true, NULL);
    kit_wait(&k, 119999);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, first);
    kit_close(&k);
}

static void what_no_pod_can_mend_fails_the_job(void **state)
{
    uint64_t first, second;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 2}, true, 2);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    second = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    said(PL_SCHED_EV_WORKER_PLACED, second, false, "a");
    said(PL_SCHED_EV_WORKER_EXITED, first, true, "image \"reg.example/no:1\" cannot be pulled: not found");
    IS(k, 1, 1, PL_SCHED_STARTING); /* the other one may tell otherwise */
    said(PL_SCHED_EV_WORKER_EXITED, second, true, "image \"reg.example/no:1\" cannot be pulled: not found");
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "image \"reg.example/no:1\" cannot be pulled: not found");
    kit_close(&k);
}

/* Another one waits for a node, as it may for hours: it would need the same image. */
static void a_pod_that_waits_for_a_node_does_not_put_off_the_end(void **state)
{
    (void)state;
    open_pods((struct pl_sched_stage){.workers = 2}, true, 2);
    said(PL_SCHED_EV_WORKER_EXITED, kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id, true,
         "image \"reg.example/no:1\" cannot be pulled: not found");
    IS(k, 1, 1, PL_SCHED_FAILURE);
    kit_close(&k);
}

/* What its container did is the row's doing when it held no other. */
static void a_row_that_ends_its_pod_has_used_a_try(void **state)
{
    struct pl_sched_event gone = {.kind = PL_SCHED_EV_WORKER_EXITED, .counts = true, .text = "out of memory: its limit is 2Gi"};
    struct pl_sched_action lease;

    (void)state;
    open_rows((struct pl_sched_stage){.tries = 2}, true, 1, 1);
    for (unsigned tries = 1; tries <= 2; tries++) {
        gone.id = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
        kit_up(&k, gone.id);
        lease = *kit_the(&k, PL_SCHED_LEASE);
        assert_int_equal(lease.lease.count, 1);
        assert_int_equal(lease.lease.failures, tries - 1);
        kit_do(&k, gone);
    }
    assert_int_equal(kit_the(&k, PL_SCHED_GIVE_UP)->lease.failures, 2);
    assert_int_equal(kit_the(&k, PL_SCHED_GIVE_UP)->lease.losses, 0);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "datum number 0: out of memory: its limit is 2Gi");
    kit_close(&k);
}

static void of_several_rows_nobody_knows_which_it_was(void **state)
{
    struct pl_sched_event gone = {.kind = PL_SCHED_EV_WORKER_EXITED, .counts = true, .text = "out of memory: its limit is 2Gi"};
    struct pl_sched_action lease;

    (void)state;
    open_pods((struct pl_sched_stage){0}, true, 1);
    gone.id = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    kit_up(&k, gone.id);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    kit_finish(&k, lease, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, gone.id);
    assert_true(kit_the(&k, PL_SCHED_LEASE)->lease.count > 1);
    kit_do(&k, gone);
    assert_int_equal(kit_the(&k, PL_SCHED_RETURNED)->lease.failures, 0);
    assert_int_equal(kit_the(&k, PL_SCHED_RETURNED)->lease.losses, 1);
    kit_close(&k);
}

/* Stage 1 takes GPUs that it can do without: pods of shape 7 with, of shape 8 without one. */
static void open_optional(bool offered)
{
    const struct pl_sched_stage def = {.shape = 7, .cpu_shape = 8, .gpu_count = 1, .gpu_wait_ms = 60000, .workers = 3};

    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, def));
    kit_ready(&k);
    shape(7, offered, 2);
    shape(8, true, 3);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 10);
}

static void without_gpu_is(const char *text)
{
    char why[PL_SCHED_MESSAGE_MAX];

    pl_sched_without_gpu(k.s, kit_job(&k, 1, 1)->id, why);
    assert_string_equal(why, text);
}

static void a_gpu_that_does_not_come_in_time_is_done_without(void **state)
{
    uint64_t worker;

    (void)state;
    open_optional(true);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 2);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.shape, 7);
    kit_wait(&k, 59000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 1000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 2);
    assert_string_equal(kit_nth(&k, PL_SCHED_STOP_WORKER, 0)->worker.reason, "no GPU came within 1m");
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 3);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 2)->worker.shape, 8);
    without_gpu_is("no GPU came within 1m");
    worker = kit_nth(&k, PL_SCHED_START_WORKER, 2)->worker.id;
    assert_null(pl_sched_job_device(k.s, kit_job(&k, 1, 1)->id));
    kit_up(&k, worker);
    assert_string_equal(pl_sched_job_device(k.s, kit_job(&k, 1, 1)->id), "cpu");
    kit_close(&k);
}

static void a_gpu_that_came_is_kept(void **state)
{
    uint64_t first;

    (void)state;
    open_optional(true);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    kit_wait(&k, 30000);
    said(PL_SCHED_EV_WORKER_PLACED, first, true, NULL);
    kit_up(&k, first);
    assert_string_equal(pl_sched_job_device(k.s, kit_job(&k, 1, 1)->id), "gpu");
    kit_wait(&k, 40000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* the others may still get one */
    kit_close(&k);
}

static void a_gpu_that_is_taken_away_is_waited_for_again(void **state)
{
    struct pl_sched_event gone = {.kind = PL_SCHED_EV_WORKER_EXITED,
                                  .text = "its pod was preempted",
                                  .exit = PL_SCHED_EXIT_DISRUPTED};

    (void)state;
    open_optional(true);
    gone.id = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    kit_wait(&k, 50000);
    said(PL_SCHED_EV_WORKER_PLACED, gone.id, true, NULL);
    kit_up(&k, gone.id);
    kit_wait(&k, 20000); /* now the first wait is over */
    kit_do(&k, gone);
    kit_wait(&k, 59000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 1000);
    assert_string_equal(kit_nth(&k, PL_SCHED_STOP_WORKER, 0)->worker.reason, "no GPU came within 1m");
    kit_close(&k);
}

static void a_gpu_that_nobody_offers_is_not_waited_for(void **state)
{
    (void)state;
    open_optional(false);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 3);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.shape, 8);
    without_gpu_is("no GPU is on offer: no node offers nvidia.com/gpux; known: nvidia.com/gpu");
    kit_close(&k);
}

/* One that has its node already is not taken from there. */
static void who_waits_without_a_gpu_goes_when_one_is_offered(void **state)
{
    uint64_t first;

    (void)state;
    open_optional(false);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    said(PL_SCHED_EV_WORKER_PLACED, first, false, NULL);
    shape(7, false, 2);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    shape(7, true, 2);
    without_gpu_is("no GPU was on offer"); /* when that one was made */
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 2);
    assert_int_not_equal(kit_nth(&k, PL_SCHED_STOP_WORKER, 0)->worker.id, first);
    assert_int_not_equal(kit_nth(&k, PL_SCHED_STOP_WORKER, 1)->worker.id, first);
    assert_string_equal(kit_nth(&k, PL_SCHED_STOP_WORKER, 0)->worker.reason, "its stage waits for a GPU");
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 2);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.shape, 7);
    kit_close(&k);
}

/* What GPUs are called matters to those alone that wait for one, and the other way round; until it is known whether they are offered nobody goes. */
static void of_each_kind_its_own_shape_counts(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_SHAPES,
                                .stage = {.stage = 1, .version = 1, .shape = 9, .cpu_shape = 8}};

    (void)state;
    open_optional(false);
    kit_do(&k, ev);
    without_gpu_is("no GPU was on offer");
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    shape(9, false, 2);
    shape_needs(8, 80);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* what those need was not known when they were made */
    kit_wait(&k, 60000);
    shape_needs(9, 90);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 3); /* a GPU is on offer */
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 3);
    ev.stage.cpu_shape = 10;
    kit_do(&k, ev);
    shape_needs(10, 100);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    ev.stage.shape = 11;
    kit_do(&k, ev);
    shape_needs(11, 110);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 3);
    kit_close(&k);
}

/* Stages 1 and 2 of one pipeline and 3 of another, all of shape 7; 4 of shape 8. */
static void shapes_do_not_wait_for_each_other_and_pipelines_share(void **state)
{
    static const uint64_t pipelines[] = {0, 1, 1, 2, 3}, shapes[] = {0, 7, 7, 7, 8};
    uint64_t worker;

    (void)state;
    kit_open(&k, 1, 0);
    for (unsigned i = 1; i <= 4; i++)
        kit_do(&k, kit_stage(i, 1, (struct pl_sched_stage){.pipeline = pipelines[i], .shape = shapes[i], .workers = 3}));
    kit_ready(&k);
    shape(7, true, 1);
    shape(8, true, 2);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 10);
    worker = kit_the(&k, PL_SCHED_START_WORKER)->worker.id; /* now shape 7 is full */
    kit_planned(&k, 2, 1, 10);
    kit_planned(&k, 3, 1, 10);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_planned(&k, 4, 1, 10);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 2);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.stage, 4);
    SAYS(k, 2, 1, "waiting for room on the cluster: other pods of its kind wait for a node");
    said(PL_SCHED_EV_WORKER_WAITS, worker, false, "0/1 nodes are available: 1 Insufficient cpu.");
    SAYS(k, 2, 1, "waiting for room on the cluster: other pods of its kind wait: 0/1 nodes are available: 1 Insufficient cpu.");
    for (int i = 0; i < 4; i++) { /* 3 has none, so it goes first; then each pipeline in turn, and in it each stage */
        static const uint64_t next[] = {3, 1, 3, 2};

        said(PL_SCHED_EV_WORKER_PLACED, worker, false, NULL);
        assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.stage, next[i]);
        worker = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    }
    kit_close(&k);
}

static void pods_of_an_earlier_life_count(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_WORKER};

    (void)state;
    kit_open(&k, 1, 0);
    shape(7, true, 1);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .workers = 3}));
    ev.worker.id = 500;
    ev.worker.stage = 1;
    ev.worker.version = 1;
    ev.worker.shape = 8;
    assert_int_equal(kit_try(&k, ev), PL_EINVAL); /* not a shape of its stage */
    ev.worker.shape = 7;
    ev.worker.starting = true;
    kit_do(&k, ev);
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 10);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0); /* 500 waits for a node */
    kit_wait(&k, 600000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* and is no silent worker */
    said(PL_SCHED_EV_WORKER_PLACED, 500, false, NULL);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    kit_close(&k);
}

static void needs(uint64_t worker, uint64_t number)
{
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_WORKER_NEEDS, .id = worker, .shape = {.needs = number}});
}

/* Nodes changed while the daemon was away: of its pods that wait the cluster tells what they need, once they are seen. */
static void a_pod_of_an_earlier_life_is_made_anew_like_any_other(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_WORKER};

    (void)state;
    kit_open(&k, 1, 0);
    shape_needs(7, 70);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .workers = 3}));
    ev.worker.stage = ev.worker.version = 1;
    ev.worker.shape = 7;
    ev.worker.starting = true;
    for (ev.worker.id = 500; ev.worker.id < 503; ev.worker.id++)
        kit_do(&k, ev);
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 10);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    needs(500, 70);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    said(PL_SCHED_EV_WORKER_PLACED, 501, false, NULL);
    needs(501, 60);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* it has a node */
    needs(502, 60);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, 502);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    needs(999, 60); /* gone meanwhile */
    kit_close(&k);
}

/* The stage of open_optional, whose job has two pods without a GPU that are not up yet; the second has no node. */
static void restore_without_gpu(bool offered)
{
    const struct pl_sched_stage def = {.shape = 7, .cpu_shape = 8, .gpu_count = 1, .gpu_wait_ms = 60000, .workers = 2};
    struct pl_sched_event ev;

    kit_open(&k, 1, 0);
    shape(7, offered, 2);
    shape(8, true, 3);
    kit_do(&k, kit_stage(1, 1, def));
    kit_do(&k, kit_restored_job(&k, 10));
    ev = (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_WORKER};
    ev.worker.stage = ev.worker.version = 1;
    ev.worker.shape = 8;
    ev.worker.starting = true;
    ev.worker.id = 500;
    ev.worker.node = "n1";
    kit_do(&k, ev);
    ev.worker.id = 501;
    ev.worker.node = NULL;
    kit_do(&k, ev);
    kit_ready(&k);
}

/* Its wait was over: it does not begin anew with each life of the daemon. */
static void a_job_that_had_given_up_a_gpu_does_without_in_the_daemons_next_life(void **state)
{
    (void)state;
    restore_without_gpu(true);
    kit_up(&k, 500);
    kit_wait(&k, 1000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    without_gpu_is("no GPU came within 1m");
    kit_close(&k);
    restore_without_gpu(false); /* none was to be had */
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    shape(7, true, 2);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, 501);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.shape, 7);
    kit_close(&k);
}

/* Nodes come and go for years: what a stage's pods ask for is another each time. */
static void a_shape_that_nothing_is_of_is_forgotten(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 2}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    for (uint64_t id = 8; id < PL_SCHED_SHAPES_MAX + 100; id++) {
        reshape(1, id);
        shape(id, false, 1); /* it wishes for one all the time */
    }
    assert_false(pl_sched_has_shape(k.s, PL_SCHED_SHAPES_MAX + 98));
    assert_true(pl_sched_has_shape(k.s, 7)); /* its pod is */
    said(PL_SCHED_EV_WORKER_EXITED, first, false, "pod deleted");
    assert_false(pl_sched_has_shape(k.s, 7));
    shape(7, true, 1); /* late news */
    assert_false(pl_sched_has_shape(k.s, 7));
    kit_do(&k, kit_stage(2, 1, (struct pl_sched_stage){.shape = 7}));
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_REMOVED, .id = 2});
    assert_false(pl_sched_has_shape(k.s, 7));
    kit_close(&k);
}

static void only_new_shapes_are_too_many(void **state)
{
    (void)state;
    kit_open(&k, 1, 0);
    for (uint64_t id = 1; id <= PL_SCHED_SHAPES_MAX; id++)
        shape(id, true, 1);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7}));
    assert_int_equal(kit_try(&k, kit_stage(2, 1, (struct pl_sched_stage){.shape = PL_SCHED_SHAPES_MAX + 1})), PL_ELIMIT);
    kit_ready(&k); /* who was told of and taken by nobody goes */
    kit_do(&k, kit_stage(2, 1, (struct pl_sched_stage){.shape = PL_SCHED_SHAPES_MAX + 1}));
    reshape(2, 7);
    kit_close(&k);
}

static void bad_values_are_refused(void **state)
{
    const struct pl_sched_event no_shape = {.kind = PL_SCHED_EV_SHAPE, .shape = {.offered = true}};

    (void)state;
    kit_open(&k, 1, 0);
    assert_int_equal(kit_try(&k, no_shape), PL_EINVAL);
    assert_int_equal(kit_try(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .cpu_shape = 8})), PL_EINVAL);
    assert_int_equal(kit_try(&k, kit_stage(1, 1, (struct pl_sched_stage){.cpu_shape = 8, .gpu_count = 1})), PL_EINVAL);
    assert_int_equal(
        kit_try(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .cpu_shape = 8, .gpu_count = 1, .gpu_required = true})),
        PL_EINVAL);
    kit_close(&k);
}

/* --- placement.pending */

static void a_job_fails_that_gets_no_place_in_time(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 2, .pending_ms = 600000}, true, 2);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    said(PL_SCHED_EV_WORKER_WAITS, first, false, "0/3 nodes are available: 3 Insufficient memory.");
    kit_wait(&k, 599999);
    IS(k, 1, 1, PL_SCHED_STARTING);
    kit_wait(&k, 1);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "no pod got a node within 10m (placement.pending): 0/3 nodes are available: 3 Insufficient memory.");
    kit_close(&k);
}

static void a_job_whose_pods_no_node_can_take_fails_in_time(void **state)
{
    (void)state;
    open_pods((struct pl_sched_stage){.pending_ms = 60000}, true, 0);
    kit_wait(&k, 300000); /* nothing is known of the cluster: that does not count */
    IS(k, 1, 1, PL_SCHED_STARTING);
    shape(7, false, 1);
    kit_wait(&k, 59999);
    IS(k, 1, 1, PL_SCHED_STARTING);
    kit_wait(&k, 1);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "no pod got a node within 1m (placement.pending): no node offers nvidia.com/gpux; known: nvidia.com/gpu");
    kit_close(&k);
}

static void a_place_begins_the_wait_anew(void **state)
{
    uint64_t first;

    (void)state;
    open_pods((struct pl_sched_stage){.workers = 1, .pending_ms = 60000}, true, 1);
    first = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    kit_wait(&k, 50000);
    said(PL_SCHED_EV_WORKER_PLACED, first, false, "n1");
    kit_wait(&k, 200000); /* it pulls its image */
    IS(k, 1, 1, PL_SCHED_STARTING);
    said(PL_SCHED_EV_WORKER_EXITED, first, false, "its node is gone");
    kit_wait(&k, 59999);
    IS(k, 1, 1, PL_SCHED_STARTING);
    kit_wait(&k, 1);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    kit_close(&k);
}

static void without_a_bound_a_job_waits_for_a_place_for_ever(void **state)
{
    (void)state;
    open_pods((struct pl_sched_stage){.workers = 1}, true, 1);
    for (int i = 0; i < 10; i++)
        kit_wait(&k, 86400000);
    IS(k, 1, 1, PL_SCHED_STARTING);
    kit_close(&k);
}

/* It goes to the CPU first, and the CPU's pod has all of the time. */
static void the_wait_for_a_gpu_that_is_not_required_comes_first(void **state)
{
    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1,
                         (struct pl_sched_stage){
                             .gpu_count = 1, .gpu_wait_ms = 30000, .shape = 7, .cpu_shape = 8, .pending_ms = 10000}));
    kit_ready(&k);
    shape(7, true, 1);
    shape(8, true, 1);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    assert_true(kit_the(&k, PL_SCHED_START_WORKER)->worker.gpu);
    kit_wait(&k, 29999);
    IS(k, 1, 1, PL_SCHED_STARTING);
    kit_wait(&k, 1);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 1);
    kit_wait(&k, 9999);
    IS(k, 1, 1, PL_SCHED_STARTING);
    kit_wait(&k, 1);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_so_many_pods_wait_for_a_node),
        cmocka_unit_test(a_pod_that_is_stopped_makes_room),
        cmocka_unit_test(until_the_cluster_has_told_nothing_starts),
        cmocka_unit_test(what_the_cluster_says_is_what_the_job_says),
        cmocka_unit_test(why_an_agent_does_not_come_is_what_the_job_says_until_it_has),
        cmocka_unit_test(an_agent_that_came_first_hides_no_trouble),
        cmocka_unit_test(a_stage_may_have_pods_of_another_shape_from_now_on),
        cmocka_unit_test(a_pod_that_waits_for_what_nodes_had_is_made_anew),
        cmocka_unit_test(a_pod_keeps_its_place_while_what_it_needs_is_the_same),
        cmocka_unit_test(a_pod_has_no_deadline_before_it_runs),
        cmocka_unit_test(what_no_pod_can_mend_fails_the_job),
        cmocka_unit_test(a_pod_that_waits_for_a_node_does_not_put_off_the_end),
        cmocka_unit_test(a_row_that_ends_its_pod_has_used_a_try),
        cmocka_unit_test(of_several_rows_nobody_knows_which_it_was),
        cmocka_unit_test(a_job_fails_that_gets_no_place_in_time),
        cmocka_unit_test(a_job_whose_pods_no_node_can_take_fails_in_time),
        cmocka_unit_test(a_place_begins_the_wait_anew),
        cmocka_unit_test(without_a_bound_a_job_waits_for_a_place_for_ever),
        cmocka_unit_test(the_wait_for_a_gpu_that_is_not_required_comes_first),
        cmocka_unit_test(a_gpu_that_does_not_come_in_time_is_done_without),
        cmocka_unit_test(a_gpu_that_came_is_kept),
        cmocka_unit_test(a_gpu_that_is_taken_away_is_waited_for_again),
        cmocka_unit_test(a_gpu_that_nobody_offers_is_not_waited_for),
        cmocka_unit_test(who_waits_without_a_gpu_goes_when_one_is_offered),
        cmocka_unit_test(of_each_kind_its_own_shape_counts),
        cmocka_unit_test(shapes_do_not_wait_for_each_other_and_pipelines_share),
        cmocka_unit_test(pods_of_an_earlier_life_count),
        cmocka_unit_test(a_pod_of_an_earlier_life_is_made_anew_like_any_other),
        cmocka_unit_test(a_job_that_had_given_up_a_gpu_does_without_in_the_daemons_next_life),
        cmocka_unit_test(a_shape_that_nothing_is_of_is_forgotten),
        cmocka_unit_test(only_new_shapes_are_too_many),
        cmocka_unit_test(bad_values_are_refused),
    };

    return cmocka_run_group_tests_name("sched_shapes", tests, NULL, NULL);
}
