// link: pipelined/spec
/* datum_env: the variables that a command sees. */
#include "pipelined/spec/datum_env.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RUN   "00112233445566778899aabbccddeeff"
#define DATUM "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct pl_datum_env_input inputs[] = {
    {"test-a", "test/b1.csv", NULL},
    {"model", "", "ffeeddccbbaa99887766554433221100"},
};
static const struct pl_datum_env_request request = {
    .pfs = "/pfs",
    .project = "default",
    .pipeline = "digits",
    .stage = "infer",
    .run = RUN,
    .datum_id = DATUM,
    .datum_key = {{0x78, 0x56, 0x34, 0xf2}},
    .gpu_count = 0,
    .inputs = inputs,
    .n_inputs = 2,
};

static void assert_env(const struct pl_datum_env_request *q, const struct pl_env_var *want, size_t n_want)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_env_var *env = NULL;
    size_t n = 0;

    assert_int_equal(pl_datum_env(q, arena, &env, &n, NULL), 0);
    for (size_t i = 0; i < n && i < n_want; i++) {
        assert_string_equal(env[i].key, want[i].key);
        assert_string_equal(env[i].value, want[i].value);
    }
    assert_int_equal(n, n_want);
}

static void a_datum_sees_these_variables(void **state)
{
    static const struct pl_env_var want[] = {
        {"PACH_DATUM_ID", DATUM},
        {"PACH_JOB_ID", RUN},
        {"PACH_OUTPUT_COMMIT_ID", RUN},
        {"PL_DATUM_ID", DATUM},
        {"PL_DEVICE", "cpu"},
        {"PL_GPU_COUNT", "0"},
        {"PL_INPUT_MODEL", "/pfs/model"},
        {"PL_INPUT_MODEL_COMMIT", "ffeeddccbbaa99887766554433221100"},
        {"PL_INPUT_TEST_A", "/pfs/test-a/test/b1.csv"},
        {"PL_JOB_ID", RUN},
        {"PL_OUT", "/pfs/out"},
        {"PL_PIPELINE", "digits"},
        {"PL_PROJECT", "default"},
        {"PL_SEED", "1916032632"}, /* 0xf2345678 without the top bit */
        {"PL_STAGE", "infer"},
        {"PYTHONUNBUFFERED", "1"},
        {"model", "/pfs/model"},
        {"model_COMMIT", "ffeeddccbbaa99887766554433221100"},
    };

    (void)state;
    assert_env(&request, want, PL_ARRAY_SIZE(want));
}

static void the_stages_own_variables_come_last(void **state)
{
    static const struct pl_env_var own[] = {{"A", "1"}, {"PL_SEED", "7"}, {"PYTHONUNBUFFERED", "0"}};
    static const struct pl_env_var want[] = {
        {"A", "1"},
        {"PACH_DATUM_ID", DATUM},
        {"PACH_JOB_ID", RUN},
        {"PACH_OUTPUT_COMMIT_ID", RUN},
        {"PL_DATUM_ID", DATUM},
        {"PL_DEVICE", "gpu"},
        {"PL_GPU_COUNT", "2"},
        {"PL_JOB_ID", RUN},
        {"PL_OUT", "/elsewhere/out"},
        {"PL_PIPELINE", "digits"},
        {"PL_PROJECT", "default"},
        {"PL_SEED", "7"},
        {"PL_STAGE", "infer"},
        {"PYTHONUNBUFFERED", "0"},
    };
    struct pl_datum_env_request q = request;

    (void)state;
    q.pfs = "/elsewhere";
    q.gpu_count = 2;
    q.n_inputs = 0;
    q.env = own;
    q.n_env = PL_ARRAY_SIZE(own);
    assert_env(&q, want, PL_ARRAY_SIZE(want));
}

static void parameters_are_variables_and_stand_in_the_values_of_env(void **state)
{
    static const struct pl_param params[] = {{"lr", "0.1"}, {"batch-size", "8"}};
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"--lr=${params.lr}", "--lr=0.1"},
        {"${params.lr}${params.batch-size}", "0.18"},
        {"${params.none} ${params.lr} ${HOME} $params.lr", "${params.none} 0.1 ${HOME} $params.lr"},
        {"${params.lr", "${params.lr"},
        {"${params.${params.lr}}", "${params.0.1}"},
        {"", ""},
        {"$${params.lr} $${HOME}", "${params.lr} ${HOME}"}, /* the escape */
        {"$$${params.lr} $$ $", "$${params.lr} $$ $"},
        {"$${params.${params.lr}}", "${params.0.1}"},
    };
    static const struct pl_env_var env[] = {{"RATE", "r=${params.lr}"}, {"TEXT", "$${params.lr}"}};
    struct pl_datum_env_request q = request;
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_env_var *got = NULL;
    size_t n = 0, found = 0;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf out = {0};

        assert_int_equal(pl_param_text_expand(cases[i].text, params, 2, &out, NULL), 0);
        assert_string_equal(pl_buf_str(&out), cases[i].want);
    }
    q.params = params;
    q.n_params = 2;
    q.env = env;
    q.n_env = 2;
    assert_int_equal(pl_datum_env(&q, arena, &got, &n, NULL), 0);
    for (size_t i = 0; i < n; i++)
        found += (pl_streq(got[i].key, "TEXT") && pl_streq(got[i].value, "${params.lr}")) ||
                 (pl_streq(got[i].key, "PL_PARAM_LR") && pl_streq(got[i].value, "0.1")) ||
                 (pl_streq(got[i].key, "PL_PARAM_BATCH_SIZE") && pl_streq(got[i].value, "8")) ||
                 (pl_streq(got[i].key, "RATE") && pl_streq(got[i].value, "r=0.1"));
    assert_int_equal(found, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_variables_and_stand_in_the_values_of_env),
        cmocka_unit_test(a_datum_sees_these_variables),
        cmocka_unit_test(the_stages_own_variables_come_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
