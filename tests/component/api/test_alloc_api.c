// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Memory that runs out at any allocation that a request makes, in HTTP server, routes, readers and loop: the request is refused with an
 * error of the catalogue or its connection ends, the daemon goes on, and the next one is answered as before. */
#define ALLOC_SPARED_THREADS "db-" /* test_alloc_commit is about those */
#include "tests/support/faults/alloc_jansson.h"

#include "tests/support/fixtures/api_fixture.h"

#define SPEC                                                                                                                     \
    "{\\\"pipeline\\\": \\\"p\\\", \\\"stages\\\": [{\\\"name\\\": \\\"s\\\", \\\"run\\\": [\\\"x\\\"], \\\"input\\\": "         \
    "{\\\"repo\\\": \\\"data\\\", \\\"glob\\\": \\\"/*\\\"}}]}"
#define STRIDE 3 /* of the allocations of one request */

struct request {
    const char *method, *target, *body;
    bool varies; /* its good answers differ: in figures that move, or because it was done already when its answer was lost */
};

static const struct request requests[] = {
    {"GET", "/api/v1/projects", NULL, false},
    {"GET", "/api/v1/repos", NULL, false},
    {"GET", "/api/v1/repos/default/data", NULL, false},
    {"GET", "/api/v1/repos/default/nothing", NULL, false},
    {"GET", "/api/v1/repos/default/data/branches", NULL, false},
    {"GET", "/api/v1/repos/default/data/commits", NULL, false},
    {"GET", "/api/v1/repos/default/data/commits/master", NULL, false},
    {"GET", "/api/v1/repos/default/data/refs/master/list?recursive=1", NULL, false},
    {"GET", "/api/v1/repos/default/data/refs/master/files/b", NULL, false},
    {"GET", "/api/v1/repos/default/data/refs/master/list?glob=/*", NULL, false},
    {"GET", "/api/v1/repos/default/data/refs/master/archive?format=tar", NULL, false},
    {"GET", "/api/v1/repos/default/data/diff?from=master%5E1&to=master", NULL, false},
    {"GET", "/api/v1/repos/default/data/diff/totals?from=master%5E1&to=master", NULL, false},
    {"GET", "/api/v1/repos/default/data/refs/master/list?find=a", NULL, false},
    {"GET", "/api/v1/runs", NULL, true}, /* what each push changed is counted for 40 ms */
    {"GET", "/api/v1/lineage", NULL, false},
    {"GET", "/api/v1/jobs/default/s/00000000/datums/00/inputs", NULL, false},
    {"POST", "/api/v1/jobs/default/s/00000000/retry", "{\"group\": \"00\"}", false},
    {"GET", "/api/v1/provenance/default/data/master/a?dir=all", NULL, false},
    {"GET", "/api/v1/find?q=data", NULL, false},
    {"GET", "/api/v1/metrics", NULL, false},
    {"GET", "/api/v1/needs", NULL, true},
    {"POST", "/api/v1/check", "{\"spec\": \"" SPEC "\"}", false},
    {"GET", "/api/v1/pipelines", NULL, false},
    {"GET", "/api/v1/pipelines/default/p", NULL, false},
    {"GET", "/api/v1/pipelines/default/p?version=1&origins=1", NULL, false},
    {"GET", "/api/v1/pipelines/default/p/versions", NULL, false},
    {"GET", "/api/v1/pipelines/default/p/diff?from=0&to=1", NULL, false},
    {"GET", "/api/v1/pipelines/default/p/diff?from=1&to=1", NULL, false},
    {"GET", "/api/v1/graph", NULL, false},
    {"GET", "/api/v1/graph/state", NULL, false},
    {"GET", "/api/v1/status", NULL, true},
    {"POST", "/api/v1/pipelines", "{\"spec\": \"" SPEC "\", \"filename\": \"f\", \"update\": true, \"dry_run\": true}", false},
    {"POST", "/api/v1/pipelines", "{\"spec\": \"{\", \"filename\": \"f\"}", false},
    {"POST", "/api/v1/repos", "{\"name\": \"data\"}", false},
    {"POST", "/api/v1/repos", "{\"name\": 7}", false},
    {"POST", "/api/v1/sessions", "{\"project\": \"nothing\"}", false},
    {"PUT", "/api/v1/repos/default/data/branches/other/files/f", "the same always", true},
};

static int setup(void **state)
{
    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    api_setup(state);
    make_repo("data");
    put_text("data@master", "a", "one", NULL);
    put_text("data@master", "b", "two", NULL);
    does(200, "POST", "/api/v1/pipelines", "{\"spec\": \"" SPEC "\", \"filename\": \"f\"}");
    return 0;
}

/* Refused for want of memory: by a code that says so, or "internal" where an answer could not be written. */
static bool is_lack(const struct answer *a)
{
    return a->status == -1 || !a->complete || strstr(a->body, "out_of_memory") || strstr(a->body, "\"internal\"");
}

/* What differs from one answer to the next is left out: none of these have a time in them that moves. */
static bool same_answer(const struct request *q, const struct answer *a, const struct answer *want)
{
    if (q->varies)
        return a->status == 200 || a->status == 201;
    return a->status == want->status && a->complete && a->len == want->len && memcmp(a->body, want->body, a->len) == 0;
}

static struct answer ask_it(const struct request *q)
{
    return ask(q->method, q->target, q->body);
}

/* Whether an allocation failed. */
static bool with_failure(const struct request *q, const struct answer *want, uint64_t n, bool lasting)
{
    struct answer a;
    bool hit;

    alloc_fail_nth(n, lasting);
    a = ask_it(q);
    hit = alloc_fail_end();
    if (!same_answer(q, &a, want) && !(hit && is_lack(&a)))
        fail_msg("%s %s, allocation %llu: %d, not %d: %.400s", q->method, q->target, (unsigned long long)n, a.status,
                 want->status, a.body ? a.body : "");
    answer_free(&a);
    a = ask_it(q);
    if (!same_answer(q, &a, want))
        fail_msg("%s %s after allocation %llu failed: %d, not %d: %.400s", q->method, q->target, (unsigned long long)n, a.status,
                 want->status, a.body ? a.body : "");
    answer_free(&a);
    return hit;
}

static void sweep(bool lasting, uint64_t stride)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(requests); i++) {
        const struct request *q = &requests[i];
        struct answer want = ask_it(q);
        uint64_t n = 1;

        while (with_failure(q, &want, n, lasting))
            n += stride;
        assert_true(n > 2 * stride);
        answer_free(&want);
    }
}

static void test_any_allocation_of_a_request(void **state)
{
    (void)state;
    sweep(false, STRIDE);
}

static void test_no_memory_from_any_allocation_on(void **state)
{
    (void)state;
    sweep(true, 5 * STRIDE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_allocation_of_a_request, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory_from_any_allocation_on, setup, api_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
