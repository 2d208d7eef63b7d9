// link: pipelined/metrics storage/base storage/system
/* The text of /metrics: headers, escapes, numbers and formats; and who has a label of their own. */
#include "pipelined/metrics/metric_text.h"
#include "pipelined/metrics/stage_activity.h"

#include "tests/support/fixtures/generated_docs.h"

#include <stdio.h>

static void has(struct pl_buf *text, const char *want)
{
    if (!strstr(pl_buf_str(text), want))
        fail_msg("\"%s\" is not in:\n%s", want, pl_buf_str(text));
}

static void write_some(struct pl_metric_text *t)
{
    const char *const stage[] = {"a\\b", "say \"x\"\n", "compute"};

    pl_metric_add(t, PL_METRIC_BUILD, 1, (const char *const[]){"1.2", "local"});
    pl_metric_add_one(t, PL_METRIC_JOBS_ENDED, "success", 12345678901234.0);
    pl_metric_add_one(t, PL_METRIC_JOBS_ENDED, "failure", 0);
    pl_metric_add_one(t, PL_METRIC_QUEUE_AGE, NULL, 0.25);
    pl_metric_add(t, PL_METRIC_STAGE_PHASE, 2.5, stage);
}

static void a_counter_has_its_suffix_and_a_label_its_escapes(void **state)
{
    struct pl_buf out = {0};
    struct pl_metric_text t = {.out = &out};

    (void)state;
    write_some(&t);
    assert_int_equal(pl_metric_text_end(&t, NULL), 0);
    has(&out, "# TYPE pipelined_build info\n# HELP pipelined_build Version and executor of the daemon.\n"
              "pipelined_build_info{version=\"1.2\",executor=\"local\"} 1\n# TYPE pipelined_start_time_seconds gauge\n");
    has(&out, "# TYPE pipelined_jobs_ended counter\n# HELP pipelined_jobs_ended Jobs that ended, by their final state.\n"
              "pipelined_jobs_ended_total{state=\"success\"} 12345678901234\npipelined_jobs_ended_total{state=\"failure\"} 0\n");
    has(&out, "\n# UNIT pipelined_queue_oldest_age_seconds seconds\n");
    has(&out, "\npipelined_queue_oldest_age_seconds 0.25\n");
    has(&out, "{project=\"a\\\\b\",stage=\"say \\\"x\\\"\\n\",phase=\"compute\"} 2.5\n");
    assert_string_equal(pl_buf_str(&out) + out.len - 6, "# EOF\n");
    pl_buf_finish(&out);
}

static void the_plain_format_calls_a_counter_as_its_samples(void **state)
{
    struct pl_buf out = {0};
    struct pl_metric_text t = {.out = &out, .plain = true};

    (void)state;
    write_some(&t);
    assert_int_equal(pl_metric_text_end(&t, NULL), 0);
    has(&out, "# TYPE pipelined_build_info gauge\n");
    has(&out, "# TYPE pipelined_jobs_ended_total counter\n");
    assert_null(strstr(pl_buf_str(&out), "# UNIT"));
    assert_null(strstr(pl_buf_str(&out), "# EOF"));
    pl_buf_finish(&out);
}

static void a_text_that_is_too_long_is_an_error(void **state)
{
    struct pl_buf out = {.max = 300};
    struct pl_metric_text t = {.out = &out};

    (void)state;
    write_some(&t);
    assert_int_equal(pl_metric_text_end(&t, NULL), PL_ETOOBIG);
    pl_buf_finish(&out);
}

static void a_client_gets_the_format_that_it_accepts(void **state)
{
    static const struct {
        const char *accept;
        bool open;
    } cases[] = {{NULL, true},
                 {"*/*", true},
                 {"text/plain", false},
                 {"text/plain;version=0.0.4;q=0.5,*/*;q=0.1", false},
                 {"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", true}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_int_equal(pl_metric_wants_open(cases[i].accept), cases[i].open);
}

static const char *place_of(struct pl_stage_activity *a, unsigned stage, int64_t now_ms)
{
    char name[32];
    struct pl_stage_place *p;

    snprintf(name, sizeof name, "s%u", stage);
    p = pl_stage_activity_at(a, "here", name, now_ms);
    p->work.success++;
    return p->stage;
}

/* Sum over all places of what is counted now: what a stage without a place did is in `rest`. */
static uint64_t sum_of(const struct pl_stage_activity *a)
{
    uint64_t sum = a->rest.work.success;

    for (size_t i = 0; i < a->n; i++)
        sum += a->places[i].work.success;
    return sum;
}

static void a_thousand_stages_have_fifty_places(void **state)
{
    static struct pl_stage_activity a;
    unsigned own = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        own += !pl_streq(place_of(&a, i, 1000 + i), "other");
    assert_int_equal(own, PL_STAGE_ACTIVITY_MAX);
    assert_int_equal(a.n, PL_STAGE_ACTIVITY_MAX);
    assert_int_equal(sum_of(&a), 1000);
}

static void a_quiet_stage_gives_its_place_up(void **state)
{
    static struct pl_stage_activity a;
    const int64_t later = PL_STAGE_ACTIVITY_QUIET_MS;

    (void)state;
    for (unsigned i = 0; i < PL_STAGE_ACTIVITY_MAX; i++)
        place_of(&a, i, 0);
    for (unsigned i = 1; i < PL_STAGE_ACTIVITY_MAX; i++)
        place_of(&a, i, 1);
    assert_string_equal(place_of(&a, 777, later - 1), "other");
    assert_string_equal(place_of(&a, 777, later), "s777"); /* that of s0 */
    assert_int_equal(pl_stage_activity_at(&a, "here", "s777", later)->work.success, 1);
    assert_int_equal(a.rest.work.success, 1);
    assert_string_equal(place_of(&a, 0, later), "other"); /* all others were active a moment ago */
    assert_string_equal(place_of(&a, 0, later + 1), "s0");
}

static void the_page_has_the_table(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf want = {0};

    (void)state;
    assert_int_equal(pl_metric_markdown(&want, NULL), 0);
    assert_int_equal(pl_buf_add_str(&want, "\n", NULL), 0);
    assert_docs_part(DOCS("metrics.md"), "<!-- made from pipelined/metrics/metric_list.h: PL_UPDATE=1 test_metric_text -->\n",
                     "<!-- end -->", &want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_has_its_suffix_and_a_label_its_escapes),
        cmocka_unit_test(the_plain_format_calls_a_counter_as_its_samples),
        cmocka_unit_test(a_text_that_is_too_long_is_an_error),
        cmocka_unit_test(a_client_gets_the_format_that_it_accepts),
        cmocka_unit_test(a_thousand_stages_have_fifty_places),
        cmocka_unit_test(a_quiet_stage_gives_its_place_up),
        cmocka_unit_test(the_page_has_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
