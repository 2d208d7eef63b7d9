// link: pipelined/net/agent_protocol storage/base
/* Any JSON as the daemon's answers to attach and next: refused with the field's name, or all of it can be used; and any bytes as what a
 * command printed. */
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/base/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void fuzz_attach(json_t *doc)
{
    struct pl_agent_protocol_attach a;
    struct pl_err err = {0};
    size_t words = 0;

    if (pl_agent_protocol_attach_read(json_incref(doc), &a, &err) < 0) {
        must(err.code == PL_EPROTO || err.code == PL_EINVAL);
        must(err.msg[0] != '\0');
        return;
    }
    while (a.run && a.run[words])
        words++;
    must((words > 0) != (a.script != NULL));
    for (size_t i = 0; i < a.n_env; i++)
        must(a.env[i].key && a.env[i].value);
    must(a.stage && a.project && a.pipeline && a.n_gpus <= PL_AGENT_PROTOCOL_GPUS_MAX);
    must(a.renew_ms >= 10 && a.lease_ms >= a.renew_ms);
    pl_agent_protocol_attach_finish(&a);
}

static void use_row(const struct pl_agent_protocol_datum *row)
{
    for (size_t i = 0; i < row->n_inputs; i++) {
        const struct pl_agent_protocol_input *in = &row->inputs[i];
        size_t files = 0;

        must(pl_name_check("input", in->name, NULL) == 0);
        must(*in->path == '\0' || pl_path_check(in->path, strlen(in->path), NULL) == 0);
        while (in->files && in->files[files])
            files++;
        must(files == in->n_files);
    }
    must(strlen(row->datum) == PL_HASH_HEX);
}

/* The task's rows come back as a result that names it. */
static void answer(const struct pl_agent_protocol_task *t)
{
    struct pl_agent_protocol_outcome *outcomes = calloc(t->n_rows, sizeof *outcomes);
    json_t *result;

    must(outcomes != NULL);
    for (size_t i = 0; i < t->n_rows; i++) {
        outcomes[i].index = t->rows[i].index;
        outcomes[i].success = i % 3 == 0;
        outcomes[i].gave_back = i % 3 == 1;
    }
    result = pl_agent_protocol_result_json(&t->lease, outcomes, t->n_rows);
    must(result && pl_agent_protocol_lease_is(&t->lease, result));
    must(json_array_size(json_object_get(result, "rows")) + json_array_size(json_object_get(result, "gave_back")) == t->n_rows);
    json_decref(result);
    free(outcomes);
}

static void fuzz_next(json_t *doc)
{
    enum pl_agent_protocol_next_kind kind;
    struct pl_agent_protocol_task t;
    struct pl_err err = {0};

    if (pl_agent_protocol_next_read(json_incref(doc), &kind, &t, &err) < 0) {
        must(err.code == PL_EPROTO && err.msg[0] != '\0');
        return;
    }
    if (kind != PL_WIRE_TASK)
        return;
    must(t.n_rows > 0 && t.n_rows <= PL_AGENT_PROTOCOL_DATUMS_MAX);
    for (size_t i = 0; i < t.n_rows; i++)
        use_row(&t.rows[i]);
    answer(&t);
    pl_agent_protocol_task_finish(&t);
}

static void fuzz_text(const uint8_t *data, size_t n)
{
    char *text = pl_agent_protocol_text(data, n, 64);

    must(text && strlen(text) <= 3 * 64 && pl_utf8_ok(text, strlen(text)));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json_t *doc = json_loadb((const char *)data, n, 0, NULL);

    fuzz_text(data, n);
    if (doc) {
        fuzz_attach(doc);
        fuzz_next(doc);
    }
    json_decref(doc);
    return 0;
}
