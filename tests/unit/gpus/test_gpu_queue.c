// link: pipelined/gpus
/* gpu_queue: what would let a waiting job start, as a sentence; who holds it, as far as the reader may know. */
#include "pipelined/gpus/gpu_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MINUTE 60000000ll

static json_t *json(const char *text)
{
    char copy[4096];
    json_t *o;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    o = json_loads(copy, 0, NULL);
    if (!o)
        fail_msg("no JSON: %s", copy);
    return o;
}

static bool not_secret(const void *who, const char *project, const char *stage)
{
    (void)who;
    (void)stage;
    return strcmp(project, "secret") != 0;
}

static json_t *explain(const char *entry, const char *report, bool sees_pods)
{
    const struct pl_gpu_queue_reader reader = {.now_us = 100 * MINUTE, .may_see = not_secret, .sees_pods = sees_pods};
    json_t *o = json(entry), *about = json(report);

    assert_int_equal(pl_gpu_queue_explain(o, about, &reader, NULL), 0);
    json_decref(about);
    return o;
}

#define A(gpus)    "{'project': 'p', 'stage': 'a', 'run': '1111111122222222', 'gpus': " #gpus "}"
#define B(gpus)    "{'project': 'p', 'stage': 'b', 'gpus': " #gpus "}"
#define IDLE(gpus) "{'project': 'p', 'stage': 'idle', 'run': '33333333', 'gpus': " #gpus ", 'idle_since_us': 3180000000}"
#define HIDDEN     "{'project': 'secret', 'stage': 'x', 'gpus': 1}"
#define GPU(ahead, want, free, of, holders)                                                                                      \
    "{'for': 'gpu', 'ahead': " #ahead ", 'want': {'gpus': " #want "}, 'free': " #free ", 'of': " #of ", 'holders': [" holders "]}"
#define POD(ahead, want)                                                                                                         \
    "{'for': 'pod', 'ahead': " #ahead ", 'want': {'gpus': " #want ", 'resource': 'nvidia.com/gpu', 'product': ['*A100*']}}"
#define NODES                                                                                                                    \
    "{'nodes': [{'node': 'n1', 'resource': 'nvidia.com/gpu', 'product': 'NVIDIA-A100', 'capacity': 4, 'allocated': 3, 'by':"     \
    " [{'count': 2, 'project': 'p', 'stage': 'a', 'run': '11111111'}, {'count': 1, 'namespace': 'x', 'pod': 'notebook',"         \
    " 'idle_since_us': 3180000000}]}, {'node': 'n2', 'resource': 'nvidia.com/gpu', 'product': 'NVIDIA A100', 'capacity': 1,"     \
    " 'allocated': 0, 'by': []}, {'node': 'n3', 'resource': 'nvidia.com/gpu', 'product': 'H100', 'capacity': 8, 'allocated': 0," \
    " 'by': []}]}"

static void what_would_let_it_start(void **state)
{
    static const struct {
        const char *entry, *report, *start;
    } cases[] = {
        {"{'for': 'start'}", "{}", "it has a place: its workers are starting"},
        {"{'for': 'never', 'want': {'gpus': 4}}", "{}", "it cannot start here: add what it wants, or ask for less in its spec"},
        {GPU(0, 2, 0, 1, A(1)), "{}", "it cannot start here: add what it wants, or ask for less in its spec"},
        {GPU(0, 1, 0, 1, A(1)), "{}", "it starts when a of run 11111111 ends"},
        {GPU(0, 1, 0, 2, A(1) "," B(1)), "{}", "it starts when a of run 11111111 or b ends"},
        {GPU(0, 2, 0, 2, A(1) "," B(1)), "{}", "it starts when a of run 11111111 and b end"},
        {GPU(0, 4, 1, 4, B(1) "," A(2)), "{}", "it starts when a of run 11111111 and b end"},
        {GPU(0, 2, 1, 4, A(1) "," B(1) "," HIDDEN), "{}",
         "it starts when a of run 11111111, b or something that you may not see ends"},
        {GPU(0, 1, 0, 9, A(1) "," A(1) "," A(1) "," A(1) "," A(1)), "{}",
         "it starts when a of run 11111111, a of run 11111111, a of run 11111111 or 2 others ends"},
        {GPU(3, 1, 0, 2, A(1) "," IDLE(1)), "{}",
         "it starts when idle of run 33333333 or a of run 11111111 ends; idle of run 33333333 has done nothing for 47 min;"
         " 3 stages go before it"},
        {GPU(1, 1, 1, 2, A(1)), "{}", "it starts when it is its turn; 1 stage goes before it"},
        {GPU(0, 1, 1, 2, A(1)), "{}", "it starts when there is CPU and memory for it"},
        {GPU(0, 3, 0, 4, A(1)), "{}", "it starts when 3 more GPUs are given back"},
        {"{'for': 'cpu', 'ahead': 0, 'want': {'gpus': 0}, 'holders': [{'project': 'p', 'stage': 'a', 'run': '11111111',"
         " 'gpus': 0}]}",
         "{}", "it starts when a of run 11111111 ends"},
        {"{'for': 'pod', 'ahead': 2, 'want': {'gpus': 0}}", "{}",
         "it starts when a node has room for its pod; 2 stages go before it"},
        {POD(0, 1), NODES, "it starts when there is CPU and memory for it; pod x/notebook has done nothing for 47 min"},
        {POD(0, 2), NODES, "it starts when pod x/notebook or a of run 11111111 ends; pod x/notebook has done nothing for 47 min"},
        {POD(0, 3), NODES, "it starts when a of run 11111111 ends; pod x/notebook has done nothing for 47 min"},
        {POD(0, 5), NODES, "it cannot start here: add what it wants, or ask for less in its spec"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        json_t *o = explain(cases[i].entry, cases[i].report, true);
        const char *start = json_string_value(json_object_get(o, "start"));

        if (strcmp(start, cases[i].start) != 0)
            fail_msg("case %zu: \"%s\"", i, start);
        json_decref(o);
    }
}

static void the_reader_learns_what_it_may_see(void **state)
{
    json_t *o = explain(POD(0, 2), NODES, false), *want;

    (void)state;
    want = json("[{'gpus': 2, 'project': 'p', 'stage': 'a', 'run': '11111111', 'node': 'n1'}, {'gpus': 1}]");
    if (!json_equal(json_object_get(o, "holders"), want))
        fail_msg("%s", json_dumps(o, JSON_COMPACT));
    assert_int_equal(json_integer_value(json_object_get(o, "free")), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "of")), 5);
    json_decref(want);
    json_decref(o);
    o = explain(GPU(0, 1, 0, 1, HIDDEN), "{}", false);
    want = json("[{'gpus': 1}]");
    assert_true(json_equal(json_object_get(o, "holders"), want));
    json_decref(want);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_would_let_it_start),
        cmocka_unit_test(the_reader_learns_what_it_may_see),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
