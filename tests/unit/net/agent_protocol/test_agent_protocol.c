// link: pipelined/net/agent_protocol
/* Agent protocol 1: what the daemon says is checked field by field; what the agent says is what the contract names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include <stdio.h>

#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static uint8_t empty_ops[] = "PLOP\1\0";

static json_t *load(const char *text)
{
    json_error_t where;
    json_t *doc = json_loads(text, 0, &where);

    if (!doc)
        fail_msg("%s: %s", where.text, text);
    return doc;
}

static void attach_gives_the_stage(void **state)
{
    (void)state;
    struct pl_agent_protocol_attach a;

    assert_int_equal(
        pl_agent_protocol_attach_read(
            load("{\"protocol\":1,\"lease_ms\":30000,\"renew_ms\":10000,\"project\":\"p\",\"pipeline\":\"digits\",\"stage\":"
                 "{\"name\":\"train\",\"run\":[\"python3\",\"t.py\"],\"env\":{\"A\":\"1\",\"B\":\"x y\"},\"code_root\":\"" ID
                 "\",\"resources\":{\"shm\":\"1Gi\"}},\"gpu\":{\"devices\":[1,3],\"count\":2},\"session\":\"s\"}"),
            &a, NULL),
        0);
    assert_string_equal(a.stage, "train");
    assert_string_equal(a.pipeline, "digits");
    assert_null(a.run[2]);
    assert_string_equal(a.run[1], "t.py");
    assert_null(a.run[2]);
    assert_int_equal(a.n_env, 2);
    assert_string_equal(a.code_root, ID);
    assert_true(a.has_gpus);
    assert_int_equal(a.gpus[1], 3);
    assert_int_equal(a.gpu_count, 2);
    assert_int_equal(a.shm_bytes, 1 << 30);
    pl_agent_protocol_attach_finish(&a);
}

static void a_malformed_attach_names_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"protocol\":2,\"stage\":{\"name\":\"s\",\"run\":[\"x\"]}}", "protocol 2"},
        {"{\"protocol\":1}", "stage"},
        {"{\"protocol\":1,\"stage\":{\"run\":[\"x\"]}}", "stage.name"},
        {"{\"protocol\":1,\"stage\":{\"name\":\"s\"}}", "stage.run"},
        {"{\"protocol\":1,\"stage\":{\"name\":\"s\",\"run\":[]}}", "stage.run"},
        {"{\"protocol\":1,\"stage\":{\"name\":\"s\",\"run\":[1]}}", "stage.run"},
        {"{\"protocol\":1,\"stage\":{\"name\":\"s\",\"run\":[\"x\"],\"env\":[]}}", "stage.env"},
        {"{\"protocol\":1,\"stage\":{\"name\":\"s\",\"run\":[\"x\"],\"code_root\":\"zz\"}}", "stage.code_root"},
        {"{\"protocol\":1,\"renew_ms\":0,\"stage\":{\"name\":\"s\",\"run\":[\"x\"]}}", "renew_ms"},
        {"{\"protocol\":1,\"gpu\":{\"count\":-1},\"stage\":{\"name\":\"s\",\"run\":[\"x\"]}}", "gpu.count"},
        {"{\"protocol\":1,\"gpu\":{\"devices\":[\"a\"]},\"stage\":{\"name\":\"s\",\"run\":[\"x\"]}}", "gpu.devices"},
        {"[]", "protocol"},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_agent_protocol_attach a;
        struct pl_err err = {0};
        assert_int_equal(pl_agent_protocol_attach_read(load(cases[i].text), &a, &err), PL_EPROTO);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("%s: %s", cases[i].text, err.msg);
    }
}

static void next_gives_task_idle_or_end(void **state)
{
    (void)state;
    enum pl_agent_protocol_next_kind kind;
    struct pl_agent_protocol_task t;

    assert_int_equal(pl_agent_protocol_next_read(load("{\"idle\":true}"), &kind, &t, NULL), 0);
    assert_int_equal(kind, PL_WIRE_IDLE);
    assert_int_equal(pl_agent_protocol_next_read(load("{\"end\":true}"), &kind, &t, NULL), 0);
    assert_int_equal(kind, PL_WIRE_END);
    assert_int_equal(pl_agent_protocol_next_read(
                         load("{\"task\":{\"id\":7,\"fence\":9,\"job\":\"j\",\"run\":\"r\",\"rows\":[{\"index\":3,\"datum\":\"" ID
                              "\",\"key\":\"" ID
                              "\",\"attempt\":2,\"timeout_ms\":500,\"inputs\":[{\"name\":\"a\",\"path\":\"/x/y.csv\",\"root\":"
                              "\"" ID "\",\"kind\":\"file\",\"files\":[]},{\"name\":\"b\",\"path\":\"\",\"root\":\"" ID
                              "\",\"kind\":\"dir\",\"files\":[\"*.npz\",\"m\"]}]},{\"index\":4,\"datum\":\"" ID "\",\"key\":\"" ID
                              "\",\"inputs\":[]}]}}"),
                         &kind, &t, NULL),
                     0);
    assert_int_equal(kind, PL_WIRE_TASK);
    assert_string_equal(t.lease.task, "7");
    assert_true(t.lease.task_is_number);
    assert_int_equal(t.n_rows, 2);
    assert_int_equal(t.rows[0].timeout_ms, 500);
    assert_int_equal(t.rows[0].attempt, 2);
    assert_string_equal(t.rows[0].inputs[0].path, "x/y.csv");
    assert_true(t.rows[0].inputs[0].file);
    assert_null(t.rows[0].inputs[0].files);
    assert_false(t.rows[0].inputs[1].file);
    assert_string_equal(t.rows[0].inputs[1].files[1], "m");
    assert_null(t.rows[0].inputs[1].files[2]);
    assert_int_equal(t.rows[1].n_inputs, 0);
    pl_agent_protocol_task_finish(&t);
}

static void a_malformed_task_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{\"task\":{\"fence\":1,\"rows\":[]}}",
        "{\"task\":{\"id\":1,\"rows\":[]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[{}]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[{\"index\":0,\"datum\":\"x\",\"key\":\"" ID "\"}]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[{\"index\":-1,\"datum\":\"" ID "\",\"key\":\"" ID "\"}]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[{\"index\":0,\"datum\":\"" ID "\",\"key\":\"" ID
        "\",\"inputs\":[{\"name\":\"../x\",\"root\":\"" ID "\"}]}]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[{\"index\":0,\"datum\":\"" ID "\",\"key\":\"" ID
        "\",\"inputs\":[{\"name\":\"x\",\"path\":\"../../etc\",\"root\":\"" ID "\"}]}]}}",
        "{\"task\":{\"id\":1,\"fence\":1,\"rows\":[{\"index\":0,\"datum\":\"" ID "\",\"key\":\"" ID
        "\",\"inputs\":[{\"name\":\"x\",\"root\":\"" ID "\",\"files\":[1]}]}]}}",
        "[]",
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        enum pl_agent_protocol_next_kind kind;
        struct pl_agent_protocol_task t;
        if (pl_agent_protocol_next_read(load(cases[i]), &kind, &t, NULL) != PL_EPROTO)
            fail_msg("accepted: %s", cases[i]);
    }
}

static void a_result_holds_rows_and_what_was_given_back(void **state)
{
    (void)state;
    char bye[] = "bye";
    const struct pl_agent_protocol_lease lease = {.task = "42", .task_is_number = true, .fence = 5};
    struct pl_agent_protocol_outcome o[3] = {
        {.index = 1, .success = true, .ops = empty_ops, .ops_len = 7},
        {.index = 2,
         .run = {.how = PL_RUNNER_SIGNALED, .code = 9, .timed_out = true},
         .reason = "timed out after 1s",
         .tail = bye},
        {.index = 3, .gave_back = true},
    };
    json_t *result = pl_agent_protocol_result_json(&lease, o, 3), *rows = json_object_get(result, "rows"), *row;

    assert_int_equal(json_integer_value(json_object_get(result, "task")), 42);
    assert_int_equal(json_integer_value(json_object_get(result, "fence")), 5);
    assert_int_equal(json_array_size(rows), 2);
    row = json_array_get(rows, 0);
    assert_string_equal(json_string_value(json_object_get(row, "state")), "success");
    assert_string_equal(json_string_value(json_object_get(json_object_get(row, "output"), "ops")), "UExPUAEAAA==");
    row = json_array_get(rows, 1);
    assert_string_equal(json_string_value(json_object_get(row, "state")), "failed");
    assert_int_equal(json_integer_value(json_object_get(row, "signal")), 9);
    assert_true(json_is_true(json_object_get(row, "timed_out")));
    assert_string_equal(json_string_value(json_object_get(row, "tail")), "bye");
    assert_null(json_object_get(row, "output"));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(result, "gave_back"), 0)), 3);
    json_decref(result);
}

static void tails_of_failed_rows_come_first(void **state)
{
    (void)state;
    enum { N = 600 };
    const struct pl_agent_protocol_lease lease = {.task = "t", .fence = 1};
    struct pl_agent_protocol_outcome *o = calloc(N, sizeof(*o));
    char tail[PL_AGENT_PROTOCOL_TAIL_MAX + 1];
    size_t shown = 0;
    json_t *result, *rows;

    memset(tail, 'x', PL_AGENT_PROTOCOL_TAIL_MAX);
    tail[PL_AGENT_PROTOCOL_TAIL_MAX] = 0;
    for (int i = 0; i < N; i++)
        o[i] = (struct pl_agent_protocol_outcome){.index = (uint32_t)i, .success = i < N - 1, .ops = empty_ops, .tail = tail};
    result = pl_agent_protocol_result_json(&lease, o, N);
    rows = json_object_get(result, "rows");
    for (size_t i = 0; i < N; i++)
        shown += json_string_length(json_object_get(json_array_get(rows, i), "tail"));
    assert_true(shown <= PL_AGENT_PROTOCOL_TAILS_MAX);
    assert_int_equal(json_string_length(json_object_get(json_array_get(rows, N - 1), "tail")), PL_AGENT_PROTOCOL_TAIL_MAX);
    json_decref(result);
    free(o);
}

static void text_is_valid_utf8_from_a_character_on(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n, max;
        const char *out;
    } cases[] = {
        {"hello", 5, 10, "hello"},
        {"hello", 5, 3, "llo"},
        {"", 0, 10, ""},
        {"a\xff"
         "b",
         3, 10,
         "a\xef\xbf\xbd"
         "b"},
        {"\xc3\xa4x", 3, 2, "x"},
        {"x\xe2\x82", 3, 10, "x\xef\xbf\xbd\xef\xbf\xbd"},
        {"a\0b", 3, 10,
         "a\xef\xbf\xbd"
         "b"},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        char *text = pl_agent_protocol_text((const uint8_t *)cases[i].in, cases[i].n, cases[i].max);
        assert_string_equal(text, cases[i].out);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attach_gives_the_stage),
        cmocka_unit_test(a_malformed_attach_names_the_field),
        cmocka_unit_test(next_gives_task_idle_or_end),
        cmocka_unit_test(a_malformed_task_is_refused),
        cmocka_unit_test(a_result_holds_rows_and_what_was_given_back),
        cmocka_unit_test(tails_of_failed_rows_come_first),
        cmocka_unit_test(text_is_valid_utf8_from_a_character_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
