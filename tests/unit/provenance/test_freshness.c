// link: pipelined/provenance
/* freshness: what makes an output out of date, how many datums have to run, and how it is said. */
#include "pipelined/provenance/freshness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define RUN "9ab2f1c4000000000000000000000000"

static const struct pl_freshness_input read_one[] = {{"in", RUN, true, false, 0}};
static const struct pl_freshness_input newer[] = {{"in", RUN, false, false, 0}};
static const struct pl_freshness_input two_newer[] = {{"in", RUN, true, false, 0},
                                                      {"labels", RUN, false, false, 0},
                                                      {"more", RUN, false, false, 0}};
static const struct pl_freshness_input behind[] = {{"prepare", RUN, true, true, PL_STALE_CODE | PL_STALE_SKIPPED}};
static const struct pl_freshness_input empty[] = {{"in", "", false, false, 0}};
static const struct pl_freshness_input hidden[] = {{"in", RUN, true, false, 0}, {.name = "far", .head = "", .hidden = true}};
static const struct pl_freshness_input half_empty[] = {{"in", RUN, false, false, 0}, {"labels", "", false, false, 0}};

#define INPUTS(list)  .inputs = list, .n_inputs = PL_ARRAY_SIZE(list)
#define MADE_OF(n, l) .has_output = true, .tried = true, .datums = (n), .left = (l)
#define MADE          MADE_OF(22, -1)

static const struct {
    const char *what;
    struct pl_freshness_facts facts;
    enum pl_freshness_state state;
    int64_t datums;
    const char *text, *command;
} rows[] = {
    {"all is as it was", {MADE, INPUTS(read_one)}, PL_FRESHNESS_CURRENT, 0, "", ""},
    {"a job that has no reason", {MADE, INPUTS(read_one), .running = true}, PL_FRESHNESS_CURRENT, 0, "", ""},
    {"stopped, and current", {MADE, INPUTS(read_one), .stopped = true}, PL_FRESHNESS_CURRENT, 0, "", ""},
    {"nothing to read", {.left = -1, .datums = -1, INPUTS(empty)}, PL_FRESHNESS_EMPTY, 0, "", ""},
    {"one input without a commit", {.left = -1, .datums = -1, .tried = true, INPUTS(half_empty)}, PL_FRESHNESS_EMPTY, 0, "", ""},
    {"an input that lost its commits", {MADE, INPUTS(empty)}, PL_FRESHNESS_CURRENT, 0, "", ""},
    {"never due", {.left = -1, .datums = -1}, PL_FRESHNESS_EMPTY, 0, "", ""},
    {"no output of what is there",
     {.left = -1, .datums = -1, INPUTS(read_one)},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: no output yet",
     "pipelinectl run pipeline lab"},
    {"no inputs, and a job that failed",
     {.left = -1, .datums = -1, .tried = true},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: no output yet",
     "pipelinectl run pipeline lab"},
    {"no output, the job failed",
     {.left = 3, .datums = -1, .tried = true, INPUTS(newer)},
     PL_FRESHNESS_STALE,
     3,
     "out of date: 3 datums, no output yet",
     "pipelinectl run pipeline lab"},
    {"code",
     {MADE, INPUTS(read_one), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     22,
     "out of date: 22 datums, code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"code, one datum",
     {MADE_OF(1, -1), INPUTS(read_one), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     1,
     "out of date: 1 datum, code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"code, number unknown",
     {MADE_OF(-1, -1), INPUTS(read_one), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"code, and a job of it failed",
     {MADE_OF(22, 5), INPUTS(read_one), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     5,
     "out of date: 5 datums, code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"code, under way",
     {MADE, INPUTS(read_one), .change = PL_OUTPUT_BY_CODE, .running = true},
     PL_FRESHNESS_UPDATING,
     22,
     "out of date: 22 datums, code changed in run 5e11aa00; being brought up to date by run 1f0c2b7a",
     "pipelinectl wait run 1f0c2b7a"},
    {"the selection of inputs",
     {MADE, INPUTS(read_one), .change = PL_OUTPUT_BY_INPUT},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: selection of inputs changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"the prefix",
     {MADE, INPUTS(read_one), .change = PL_OUTPUT_BY_FORM},
     PL_FRESHNESS_STALE,
     0,
     "out of date: output prefix changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"an input",
     {MADE, INPUTS(newer)},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: input in changed in run 9ab2f1c4",
     "pipelinectl run pipeline lab"},
    {"two inputs of three",
     {MADE, INPUTS(two_newer)},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: input labels changed in run 9ab2f1c4 and 1 more",
     "pipelinectl run pipeline lab"},
    {"an input, and its job failed",
     {MADE_OF(22, 2), INPUTS(newer)},
     PL_FRESHNESS_STALE,
     2,
     "out of date: 2 datums, input in changed in run 9ab2f1c4",
     "pipelinectl run pipeline lab"},
    {"an input, and code",
     {MADE, INPUTS(newer), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: code changed in run 5e11aa00, input in changed in run 9ab2f1c4",
     "pipelinectl run pipeline lab"},
    {"code, and the selection of inputs",
     {MADE, INPUTS(read_one), .change = PL_OUTPUT_BY_BOTH},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"an input that is hidden", {MADE, INPUTS(hidden)}, PL_FRESHNESS_CURRENT, -1, "", ""},
    {"code, and an input that is hidden",
     {MADE, INPUTS(hidden), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"skipped datums without a cache",
     {MADE, .skipped = 3, .uncached = true, INPUTS(read_one)},
     PL_FRESHNESS_STALE,
     22,
     "out of date: 3 datums skipped",
     "pipelinectl run pipeline lab"},
    {"code without a cache, and a job of it failed",
     {MADE_OF(22, 5), .uncached = true, INPUTS(read_one), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     22,
     "out of date: 22 datums, code changed in run 5e11aa00",
     "pipelinectl run pipeline lab"},
    {"skipped datums",
     {MADE, .skipped = 3, INPUTS(read_one)},
     PL_FRESHNESS_STALE,
     3,
     "out of date: 3 datums skipped",
     "pipelinectl run pipeline lab"},
    {"skipped datums, and code",
     {MADE, .skipped = 1, INPUTS(read_one), .change = PL_OUTPUT_BY_CODE},
     PL_FRESHNESS_STALE,
     22,
     "out of date: 22 datums, code changed in run 5e11aa00, 1 datum skipped",
     "pipelinectl run pipeline lab"},
    {"upstream",
     {MADE, INPUTS(behind)},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: its input prepare is out of date (code, skipped)",
     "pipelinectl run pipeline other"},
    {"stopped",
     {MADE, INPUTS(newer), .stopped = true},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: input in changed in run 9ab2f1c4; pipeline lab is stopped",
     "pipelinectl start pipeline lab"},
    {"stopped while a job ends",
     {MADE, INPUTS(newer), .stopped = true, .running = true},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: input in changed in run 9ab2f1c4; pipeline lab is stopped",
     "pipelinectl start pipeline lab"},
    {"stopped, upstream",
     {MADE, INPUTS(behind), .stopped = true},
     PL_FRESHNESS_STALE,
     -1,
     "out of date: its input prepare is out of date (code, skipped); pipeline lab is stopped",
     "pipelinectl start pipeline lab"},
};

static void each_reason_is_found_counted_and_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const struct pl_freshness_words words = {.project = "default",
                                                 .pipeline = "lab",
                                                 .changed_run = "5e11aa00bb",
                                                 .changed_version = 3,
                                                 .running_run = "1f0c2b7a00",
                                                 .upstream_command = "pipelinectl run pipeline other",
                                                 .stopped = rows[i].facts.stopped};
        char text[PL_FRESHNESS_TEXT_MAX], command[PL_FRESHNESS_TEXT_MAX];
        struct pl_freshness f;

        pl_freshness_decide(&rows[i].facts, &f);
        pl_freshness_text(&f, &rows[i].facts, &words, text);
        pl_freshness_command(&f, &words, command);
        if (f.state != rows[i].state || f.datums != rows[i].datums)
            fail_msg("%s: %s, %lld datums", rows[i].what, pl_freshness_state_name(f.state), (long long)f.datums);
        if (strcmp(text, rows[i].text) != 0 || strcmp(command, rows[i].command) != 0)
            fail_msg("%s: \"%s\" and \"%s\"", rows[i].what, text, command);
        assert_int_equal(pl_freshness_is_stale(&f), *rows[i].text != '\0');
    }
}

/* A change that set off no run is named by its version, and a pipeline outside the default project with its project. */
static void words_name_what_is_known(void **state)
{
    const struct pl_freshness_facts facts = {MADE, INPUTS(read_one), .change = PL_OUTPUT_BY_CODE};
    struct pl_freshness_words words = {"vision", "lab", "", 3, "", "", false};
    char text[PL_FRESHNESS_TEXT_MAX];
    struct pl_freshness f;

    (void)state;
    pl_freshness_decide(&facts, &f);
    pl_freshness_text(&f, &facts, &words, text);
    assert_string_equal(text, "out of date: 22 datums, code changed in version 3");
    pl_freshness_command(&f, &words, text);
    assert_string_equal(text, "pipelinectl run pipeline vision/lab");
    words.changed_version = 0;
    pl_freshness_text(&f, &facts, &words, text);
    assert_string_equal(text, "out of date: 22 datums, code changed");
    assert_string_equal(pl_stale_name(PL_STALE_UPSTREAM), "upstream");
}

static void text_that_has_no_room_is_cut(void **state)
{
    char name[2 * PL_FRESHNESS_TEXT_MAX], text[PL_FRESHNESS_TEXT_MAX];
    const struct pl_freshness_input long_one[] = {{name, RUN, false, false, 0}};
    const struct pl_freshness_facts facts = {MADE, INPUTS(long_one), .skipped = 4};
    const struct pl_freshness_words words = {"default", "lab", "", 0, "", "", false};
    struct pl_freshness f;

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    pl_freshness_decide(&facts, &f);
    pl_freshness_text(&f, &facts, &words, text);
    assert_int_equal(strlen(text), PL_FRESHNESS_TEXT_MAX - 1);
}

static void a_run_is_priced_by_what_is_known(void **state)
{
    static const struct {
        const char *what;
        unsigned why;
        int64_t datums, total;
        bool force, upstream, every;
        struct pl_freshness_price price;
    } table[] = {
        {"current", 0, 0, 22, false, false, false, {0, false}},
        {"current, forced", 0, 0, 22, true, false, false, {22, false}},
        {"current, without a cache", 0, 0, 22, false, false, true, {22, false}},
        {"without a cache, its input may change", 0, 0, 22, false, true, true, {22, false, true}},
        {"a newer input, forced", PL_STALE_INPUT, -1, 22, true, false, false, {22, false, true}},
        {"an input that is hidden", 0, -1, 22, false, false, false, {22, true}},
        {"current, its input may change", 0, 0, 22, false, true, false, {22, true}},
        {"code", PL_STALE_CODE, 22, 22, false, false, false, {22, false}},
        {"code, its input may change", PL_STALE_CODE, 22, 22, false, true, false, {22, true}},
        {"a newer input", PL_STALE_INPUT, -1, 22, false, false, false, {22, true}},
        {"skipped", PL_STALE_SKIPPED, 3, 22, false, false, false, {3, false}},
        {"a failed job of new code", PL_STALE_CODE, 5, 22, false, false, false, {5, false}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        const struct pl_freshness f = {.why = table[i].why, .datums = table[i].datums, .every = table[i].every};
        const struct pl_freshness_price p = pl_freshness_price(&f, table[i].total, table[i].force, table[i].upstream);

        if (p.datums != table[i].price.datums || p.at_most != table[i].price.at_most || p.estimated != table[i].price.estimated)
            fail_msg("%s: %s%s%lld", table[i].what, p.at_most ? "up to " : "", p.estimated ? "about " : "", (long long)p.datums);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_is_found_counted_and_said),
        cmocka_unit_test(words_name_what_is_known),
        cmocka_unit_test(text_that_has_no_room_is_cut),
        cmocka_unit_test(a_run_is_priced_by_what_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
