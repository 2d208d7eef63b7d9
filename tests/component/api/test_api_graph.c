// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/graph_view pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* The graph over HTTP: which nodes, edges and bands there are, who sees them, what changes its ETag, and the states that need no engine. */
#include "pipelined/api/graph_view/graph_view.h"
#include "tests/support/fixtures/api_people.h"

#define GRAPH "/api/v1/graph"
#define STATE "/api/v1/graph/state"

/* Sets a pipeline from words "STAGE<REPO+REPO": the stage reads these repos. '@' and '/' in a repo mean what they mean in a spec; a repo
 * that ends in '*' has this glob. */
static void set_pipeline(const char *project, const char *name, const char *words)
{
    _cleanup_(pl_buf_finish) struct pl_buf spec = {0};
    json_t *body;
    char *text;

    MUST(pl_buf_addf(&spec, &err, "{\"pipeline\":\"%s\",\"project\":\"%s\",\"stages\":[", name, project));
    for (const char *at = words; *at;) {
        size_t len = strcspn(at, "<");

        MUST(pl_buf_addf(&spec, &err, "%s{\"name\":\"%.*s\",\"run\":[\"x\"],\"input\":{\"cross\":[", at == words ? "" : ",",
                         (int)len, at));
        for (at += len; *at == '<' || *at == '+'; at += len) {
            const bool first = *at++ == '<';
            bool glob;

            len = strcspn(at, "+ ");
            glob = at[len - 1] == '*';
            MUST(pl_buf_addf(&spec, &err, "%s{\"repo\":\"%.*s\",\"name\":\"i%zu\",\"glob\":\"%s\"}", first ? "" : ",",
                             (int)(len - glob), at, (size_t)(at - words), glob ? "/*" : "/"));
        }
        MUST(pl_buf_addf(&spec, &err, "]}}"));
        at += strspn(at, " ");
    }
    MUST(pl_buf_addf(&spec, &err, "]}"));
    body = json_pack("{s:s, s:b, s:b}", "spec", pl_buf_str(&spec), "update", 1, "yes", 1);
    text = json_dumps(body, 0);
    json_decref(ask_json(200, "POST", "/api/v1/pipelines", text));
    free(text);
    json_decref(body);
}

/* The nodes and edges as text: "BAND:KEY<KEY+KEY" of every node, in order, its inputs in theirs; a pill in brackets. */
static void text_of(const json_t *graph, char *out, size_t size)
{
    const json_t *nodes = json_object_get(graph, "nodes"), *node, *edge;
    size_t i, k, n = 0;

    out[0] = '\0';
    json_array_foreach(nodes, i, node)
    {
        const bool pill = pl_streq(text_at(node, "kind"), "repo");
        const char *sep = "<";

        n += (size_t)snprintf(out + n, size - n, "%s%d:%s%s%s", i ? " " : "", (int)number_at(node, "band"), pill ? "(" : "",
                              text_at(node, "key"), pill ? ")" : "");
        json_array_foreach(json_object_get(graph, "edges"), k, edge) if (number_at(edge, "to") == (json_int_t)i)
        {
            n += (size_t)snprintf(out + n, size - n, "%s%s", sep,
                                  text_at(json_array_get(nodes, (size_t)number_at(edge, "from")), "key"));
            sep = "+";
        }
    }
}

static void graph_is(const char *headers, const char *target, const char *want)
{
    json_t *graph = json_as(headers, target);
    char text[2048];

    text_of(graph, text, sizeof text);
    if (strcmp(text, want) != 0)
        fail_msg("%s is\n  %s\nnot\n  %s", target, text, want);
    json_decref(graph);
}

static void a_pipeline_is_a_band_of_stages_and_pills(void **state)
{
    json_t *graph, *edge;

    (void)state;
    graph_is(AS_USER, GRAPH, "");
    make_repo("photos");
    make_repo("labels");
    set_pipeline("default", "street", "decode<photos split<decode+labels* train<split eval<train+split");
    graph_is(AS_USER, GRAPH,
             "0:default/decode<default/photos 0:default/split<default/decode+default/labels 0:default/train<default/split"
             " 0:default/eval<default/train+default/split 0:(default/photos) 0:(default/labels)");
    graph = json_as(AS_USER, GRAPH);
    assert_int_equal(number_at(graph, "total"), 6);
    assert_true(json_is_false(json_object_get(graph, "folded")));
    names_are(json_array_get(json_object_get(graph, "bands"), 0), "pipelines", "name", "street");
    edge = json_array_get(json_object_get(graph, "edges"), 2); /* labels to split */
    assert_string_equal(text_at(edge, "glob"), "/*");
    assert_int_equal(json_array_size(json_object_get(edge, "points")) % 2, 0);
    json_decref(graph);
}

static void pipelines_that_read_each_other_share_a_band(void **state)
{
    (void)state;
    make_repo("in");
    set_pipeline("default", "b", "b1<in");
    set_pipeline("default", "a", "a1<in");
    set_pipeline("default", "c", "c1<b1+in");
    graph_is(AS_USER, GRAPH,
             "0:default/a1<default/in 1:default/b1<default/in 1:default/c1<default/b1+default/in 0:(default/in) 1:(default/in)");
    /* alone, a pipeline reads a pill of what another one writes */
    graph_is(AS_USER, GRAPH "?project=default&pipeline=c", "0:default/c1<default/b1+default/in 0:(default/b1) 0:(default/in)");
    graph_is(AS_USER, GRAPH "?project=nowhere", "");
}

static void a_branch_that_the_stage_does_not_write_is_a_pill(void **state)
{
    (void)state;
    make_repo("in");
    set_pipeline("default", "p", "a<in b<a@old+a+in@draft");
    graph_is(AS_USER, GRAPH,
             "0:default/a<default/in 0:default/b<default/a@old+default/a+default/in@draft 0:(default/in) 0:(default/a@old)"
             " 0:(default/in@draft)");
}

static void who_may_not_read_a_repo_sees_neither_it_nor_its_edges(void **state)
{
    struct person reader, other, split;

    (void)state;
    does(201, "POST", "/api/v1/projects", "{\"name\":\"there\"}");
    make_repo("in");
    does(201, "POST", "/api/v1/repos", "{\"project\":\"there\",\"name\":\"secret\"}");
    set_pipeline("default", "p", "a<in+there/secret b<a");
    set_pipeline("there", "q", "z<default/b+secret");
    reader = make_person("reader", "default", "reader", "");
    other = make_person("other", "there", "reader", "");
    split = make_person("split", "default/b", "reader", "");
    graph_is(AS_USER, GRAPH,
             "0:default/a<default/in+there/secret 0:default/b<default/a 0:there/z<default/b+there/secret 0:(default/in)"
             " 0:(there/secret)");
    graph_is(reader.header, GRAPH, "0:default/a<default/in 0:default/b<default/a 0:(default/in)");
    graph_is(other.header, GRAPH, "0:there/z<there/secret 0:(there/secret)");
    graph_is(split.header, GRAPH, "0:default/b");
    {
        json_t *o = json_as(reader.header, STATE);

        names_are(o, "stages", "key", "default/a default/b");
        names_are(o, "repos", "key", "default/in");
        json_decref(o);
    }
    pl_principal_unref(reader.who);
    pl_principal_unref(other.who);
    pl_principal_unref(split.who);
}

/* ---- ETag ---- */

static int status_with(const char *target, const char *etag, char ret_etag[64])
{
    char headers[256];
    const char *found, *end;
    struct answer a;
    int status;

    snprintf(headers, sizeof headers, AS_USER "If-None-Match: %s\r\n", etag);
    a = ask_with("GET", target, headers, "", 0);
    status = a.status;
    found = strcasestr(a.head, "ETag: ");
    assert_non_null(found);
    end = strstr(found, "\r\n");
    snprintf(ret_etag, 64, "%.*s", (int)(end - found) - 6, found + 6);
    answer_free(&a);
    return status;
}

static void the_etag_changes_with_the_picture_and_no_more(void **state)
{
    char first[64], second[64], third[64];

    (void)state;
    make_repo("in");
    set_pipeline("default", "p", "a<in");
    assert_int_equal(status_with(GRAPH, "\"none\"", first), 200);
    assert_int_equal(status_with(GRAPH, first, second), 304);
    assert_string_equal(first, second);
    put_text("in@master", "x", "1", NULL); /* data is no structure */
    assert_int_equal(status_with(GRAPH, first, second), 304);
    assert_int_equal(status_with(GRAPH "?pipeline=q", first, second), 200);
    set_pipeline("default", "p", "a<in b<a");
    assert_int_equal(status_with(GRAPH, first, second), 200);
    assert_string_not_equal(first, second);
    assert_int_equal(status_with(GRAPH, second, third), 304);
}

static void what_a_folding_would_change_is_no_other_picture_of_a_small_graph(void **state)
{
    static const char *const same[] = {GRAPH "?keep=default/a", GRAPH "?fold=false", GRAPH "?fold=false&keep=default/in"};
    char first[64], second[64];

    (void)state;
    make_repo("in");
    set_pipeline("default", "p", "a<in");
    assert_int_equal(status_with(GRAPH, "\"none\"", first), 200);
    for (size_t i = 0; i < PL_ARRAY_SIZE(same); i++)
        assert_int_equal(status_with(same[i], first, second), 304);
}

static void the_etag_of_the_state_changes_with_a_commit(void **state)
{
    char first[64], second[64];

    (void)state;
    make_repo("in");
    set_pipeline("default", "p", "a<in");
    assert_int_equal(status_with(STATE, "\"none\"", first), 200);
    assert_int_equal(status_with(STATE, first, second), 304);
    put_text("in@master", "x", "1", NULL);
    assert_int_equal(status_with(STATE, first, second), 200);
}

static void a_client_that_knows_any_state_gets_none(void **state)
{
    char etag[64];

    (void)state;
    make_repo("in");
    set_pipeline("default", "p", "a<in");
    assert_int_equal(status_with(GRAPH, "*", etag), 304);
    assert_int_equal(status_with(STATE, "*", etag), 304);
}

/* ---- folding ---- */

/* A pipeline "fan": s reads in; w0 … w219 read s. */
static void set_fan(void)
{
    _cleanup_(pl_buf_finish) struct pl_buf words = {0};

    MUST(pl_buf_addf(&words, &err, "s<in"));
    for (unsigned i = 0; i < 220; i++)
        MUST(pl_buf_addf(&words, &err, " w%u<s", i));
    set_pipeline("default", "fan", pl_buf_str(&words));
}

static const char run_id[] = "0123456789abcdef0123456789abcdef";

static int make_run(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_run_args run = {.id = run_id, .cause = "manual", .state = "running"};

    (void)arg;
    return pl_tx_run_create(tx, &run, err);
}

static void begin_job_for(const char *stage, const char *job_state, const char *reason)
{
    struct pl_job_args job = {.run = run_id,
                              .project = "default",
                              .stage = stage,
                              .pipeline = "fan",
                              .version = 1,
                              .state = job_state,
                              .reason = reason,
                              .created_us = 7};

    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, pl_tx_job_progress, &job, &err));
}

static void begin_job(const char *stage, const char *job_state)
{
    begin_job_for(stage, job_state, "its reason");
}

static void a_large_graph_folds_around_what_runs_or_is_asked_for(void **state)
{
    json_t *graph, *node;

    (void)state;
    make_repo("in");
    set_fan();
    graph = json_as(AS_USER, GRAPH);
    assert_int_equal(number_at(graph, "total"), 222);
    assert_true(json_is_true(json_object_get(graph, "folded")));
    names_are(graph, "nodes", "kind", "stage stages repo");
    node = json_array_get(json_object_get(graph, "nodes"), 1);
    assert_int_equal(number_at(node, "count"), 220);
    assert_int_equal(json_array_size(json_object_get(node, "members")), 220);
    json_decref(graph);

    graph = json_as(AS_USER, GRAPH "?fold=false");
    assert_int_equal(json_array_size(json_object_get(graph, "nodes")), 222);
    json_decref(graph);

    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_run, NULL, &err));
    begin_job("w3", "running");
    begin_job("w4", "created");
    begin_job_for("w6", "starting", "waiting for 1 GPU: 0 of 2 free");
    graph = json_as(AS_USER, GRAPH "?keep=default/w7&keep=default/w8@old&keep=default/w9@master&keep=default/nothing&keep=w5");
    names_are(graph, "nodes", "kind", "stage stages stage stage repo");
    assert_string_equal(text_at(json_array_get(json_object_get(graph, "nodes"), 2), "name"), "w3");
    assert_string_equal(text_at(json_array_get(json_object_get(graph, "nodes"), 3), "name"), "w7");
    json_decref(graph);
}

static void boxes_are_opened_and_shut_by_hand(void **state)
{
    json_t *graph;

    (void)state;
    make_repo("in");
    set_fan();
    graph = json_as(AS_USER, GRAPH "?spread=default/w9");
    assert_int_equal(json_array_size(json_object_get(graph, "nodes")), 222);
    json_decref(graph);
    graph = json_as(AS_USER, GRAPH "?shut=default/fan&shut=other/fan");
    names_are(graph, "nodes", "kind", "pipelines repo");
    assert_int_equal(number_at(json_array_get(json_object_get(graph, "nodes"), 0), "count"), 221);
    json_decref(graph);
    graph = json_as(AS_USER, GRAPH "?shut=default/fan&fold=false&keep=default/w9");
    names_are(graph, "nodes", "kind", "pipelines stage repo");
    json_decref(graph);
    graph = json_as(AS_USER, GRAPH "?open=default/fan&shut=default/fa&shut=default/fan2");
    names_are(graph, "nodes", "kind", "stage stages repo");
    json_decref(graph);
}

static void many_bands_come_in_pages(void **state)
{
    json_t *graph;
    char name[16], words[32];

    (void)state;
    make_repo("in");
    for (unsigned i = 0; i < 503; i++) {
        snprintf(name, sizeof name, "p%03u", i);
        snprintf(words, sizeof words, "s%03u<in", i);
        set_pipeline("default", name, words);
    }
    graph = json_as(AS_USER, GRAPH);
    assert_int_equal(json_array_size(json_object_get(graph, "bands")), 500);
    assert_int_equal(number_at(graph, "bands_left"), 3);
    json_decref(graph);
    graph_is(AS_USER, GRAPH "?band=501", "0:default/s501<default/in 1:default/s502<default/in 0:(default/in) 1:(default/in)");
    graph_is(AS_USER, GRAPH "?band=900", "");
    graph = json_as(AS_USER, STATE "?band=501");
    assert_int_equal(json_array_size(json_object_get(graph, "stages")), 503);
    json_decref(graph);
    refused("invalid", "band", "GET", GRAPH "?band=x", NULL);
}

static void too_many_keys_are_refused(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf target = {0};

    (void)state;
    MUST(pl_buf_addf(&target, &err, GRAPH "?keep=a"));
    for (unsigned i = 0; i < 100; i++)
        MUST(pl_buf_addf(&target, &err, "&keep=a"));
    refused("invalid", "keep", "GET", pl_buf_str(&target), NULL);
    pl_buf_finish(&target);
    MUST(pl_buf_addf(&target, &err, GRAPH "?shut=a"));
    for (unsigned i = 0; i < 100; i++)
        MUST(pl_buf_addf(&target, &err, "&shut=a"));
    refused("invalid", "shut", "GET", pl_buf_str(&target), NULL);
}

/* ---- state ---- */

static const json_t *with_key(const json_t *o, const char *list, const char *key)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(o, list), i, one) if (pl_streq(text_at(one, "key"), key)) return one;
    fail_msg("%s has no %s", list, key);
    return NULL;
}

static void the_state_says_what_stages_do_and_repos_hold(void **state)
{
    char commit[PL_ID_HEX + 1];
    json_t *o;

    (void)state;
    make_repo("in");
    set_pipeline("default", "fan", "s<in@draft w<s v<in");
    put_text("in@master", "x", "12345", commit);
    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_run, NULL, &err));
    begin_job("s", "created");
    begin_job("w", "running");
    o = json_as(AS_USER, STATE);
    assert_string_equal(text_at(with_key(o, "stages", "default/s"), "state"), "waiting");
    assert_string_equal(text_at(with_key(o, "stages", "default/s"), "reason"), "its reason");
    assert_string_equal(text_at(with_key(o, "stages", "default/w"), "state"), "running");
    assert_string_equal(text_at(with_key(o, "stages", "default/w"), "run"), run_id);
    assert_int_equal(number_at(with_key(o, "stages", "default/w"), "created_us"), 7);
    assert_string_equal(text_at(json_object_get(with_key(o, "repos", "default/in"), "commit"), "id"), commit);
    assert_int_equal(number_at(json_object_get(with_key(o, "repos", "default/in"), "commit"), "bytes"), 5);
    assert_null(json_object_get(with_key(o, "repos", "default/in@draft"), "commit"));
    assert_true(json_is_true(json_object_get(with_key(o, "repos", "default/in@draft"), "exists")));
    json_decref(o);
    does(200, "POST", "/api/v1/pipelines/default/fan/stop", NULL);
    o = json_as(AS_USER, STATE "?project=default&pipeline=fan");
    assert_true(json_is_true(json_object_get(with_key(o, "stages", "default/w"), "stopped")));
    json_decref(o);
}

static void a_job_without_a_gpu_waits(void **state)
{
    json_t *o;

    (void)state;
    make_repo("in");
    set_pipeline("default", "fan", "s<in w<in");
    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_run, NULL, &err));
    begin_job_for("s", "starting", "waiting for 1 GPU: 0 of 2 free");
    begin_job_for("w", "starting", "");
    o = json_as(AS_USER, STATE);
    assert_string_equal(text_at(with_key(o, "stages", "default/s"), "state"), "waiting");
    assert_string_equal(text_at(with_key(o, "stages", "default/s"), "reason"), "waiting for 1 GPU: 0 of 2 free");
    assert_string_equal(text_at(with_key(o, "stages", "default/w"), "state"), "starting");
    json_decref(o);
}

static void an_ended_job_has_a_word_and_a_device(void **state)
{
    static const struct {
        const char *stage, *gpu, *job_state, *reason;
        int failed, gpus, attempts;
        const char *word, *device; /* NULL = not said */
    } cases[] = {
        {"done", "false", "success", "", 0, 0, 1, "done", "cpu"},
        {"part", "false", "success", "", 1, 0, 2, "partly_failed", "cpu"},
        {"failed", "false", "failure", "exit 3", 1, 0, 1, "failed", "cpu"},
        {"stopped", "false", "killed", "stopped by ada", 0, 0, 0, "stopped", "cpu"},
        {"replaced", "false", "killed", "superseded by run 01234567", 0, 0, 0, "superseded", "cpu"},
        {"behind", "false", "unrunnable", "stage failed failed", 0, 0, 0, "not_run", "cpu"},
        /* a stage that may have a GPU: what its commands ran on; before that either is possible */
        {"held", "{\"count\":1,\"required\":false}", "success", "", 0, 1, 1, "done", "gpu"},
        {"without", "{\"count\":1,\"required\":false}", "success", "", 0, 0, 1, "done", "cpu"},
        {"reused", "{\"count\":1,\"required\":false}", "success", "", 0, 0, 0, "done", NULL},
        {"must", "{\"count\":1,\"required\":true}", "killed", "stopped by ada", 0, 0, 0, "stopped", "gpu"},
    };
    _cleanup_(pl_buf_finish) struct pl_buf spec = {0};
    json_t *body, *o;
    char *text;

    (void)state;
    make_repo("in");
    MUST(pl_buf_addf(&spec, &err, "{\"pipeline\":\"fan\",\"stages\":["));
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        MUST(pl_buf_addf(&spec, &err, "%s{\"name\":\"%s\",\"run\":[\"x\"],\"gpu\":%s,\"input\":{\"repo\":\"in\"}}", i ? "," : "",
                         cases[i].stage, cases[i].gpu));
    MUST(pl_buf_addf(&spec, &err, "]}"));
    body = json_pack("{s:s, s:b}", "spec", pl_buf_str(&spec), "yes", 1);
    text = json_dumps(body, 0);
    does(200, "POST", "/api/v1/pipelines", text);
    free(text);
    json_decref(body);
    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_run, NULL, &err));
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_job_args job = {.run = run_id,
                                  .project = "default",
                                  .stage = cases[i].stage,
                                  .pipeline = "fan",
                                  .version = 1,
                                  .state = cases[i].job_state,
                                  .reason = cases[i].reason,
                                  .created_us = 7,
                                  .counts = json_pack("{s:i, s:i}", "failed", cases[i].failed, "attempts", cases[i].attempts),
                                  .ms = json_pack("{s:i}", "gpus", cases[i].gpus)};

        MUST(pl_db_run(t.db, PL_TX_LOGGED, pl_tx_job_end, &job, &err));
        json_decref(job.counts);
        json_decref(job.ms);
    }
    o = json_as(AS_USER, STATE);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const json_t *one = json_array_get(json_object_get(o, "stages"), i);
        const char *device = json_string_value(json_object_get(one, "device"));

        if (!pl_streq(text_at(one, "name"), cases[i].stage) || !pl_streq(text_at(one, "state"), cases[i].word) ||
            !pl_streq(device ? device : "none", cases[i].device ? cases[i].device : "none"))
            fail_msg("%s: %s is %s on %s, not %s on %s", cases[i].stage, text_at(one, "name"), text_at(one, "state"), device,
                     cases[i].word, cases[i].device);
    }
    json_decref(o);
}

static bool all_are_readable(const void *who, const char *project, const char *name)
{
    (void)who, (void)project, (void)name;
    return true;
}

static bool is_of_p(const void *self, const char *project, const char *pipeline, const char *stage)
{
    (void)self, (void)project, (void)stage;
    return pl_streq(pipeline, "p");
}

/* Appends "STAGE:REASONS:" and whether there are words for them. */
static int add_words(void *self, const struct pl_graph_use *use, struct pl_err *e)
{
    char *out = self;

    (void)e;
    if (!use->from_repo)
        sprintf(out + strlen(out), "%s:%u:%s ", use->stage, use->fresh->is.why,
                *use->fresh->text && *use->fresh->command ? "words" : "none");
    return 0;
}

/* All stages are decided; words, which may take a query each, are made for those that are asked for. */
static void words_are_made_for_the_stages_that_are_asked_for(void **state)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
    struct pl_graph_ask ask = {.readable = all_are_readable, .words = is_of_p, .in_order = true};
    struct pl_graph_views *views;
    struct pl_graph_view *view;
    char some[128] = "", all[128] = "";

    (void)state;
    does(201, "POST", "/api/v1/repos", "{\"project\":\"default\",\"name\":\"in\"}");
    set_pipeline("default", "p", "lab<in");
    set_pipeline("default", "q", "end<in");
    does(201, "PUT", "/api/v1/repos/default/in/branches/master/files/x", "1");
    rd = pl_db_read(t.db);
    MUST(pl_graph_views_create(&views, &err));
    MUST(pl_graph_view_get(views, rd.conn, &view, &err));
    MUST(pl_graph_uses(view, rd.conn, &ask, add_words, some, &err));
    assert_string_equal(some, "lab:32:words end:32:none ");
    ask.words = NULL;
    MUST(pl_graph_uses(view, rd.conn, &ask, add_words, all, &err));
    assert_string_equal(all, "lab:32:words end:32:words ");
    pl_graph_view_unref(view);
    pl_graph_views_destroy(views);
}

/* Pipelines may be set between the reading of the view and that of the jobs. */
static void a_view_that_is_older_than_its_stages_is_told_without_their_jobs(void **state)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
    const struct pl_graph_ask ask = {.readable = all_are_readable, .in_order = true};
    struct pl_graph_views *views;
    struct pl_graph_view *view;
    char words[128] = "";

    (void)state;
    does(201, "POST", "/api/v1/repos", "{\"project\":\"default\",\"name\":\"in\"}");
    set_pipeline("default", "p", "lab<in end<lab");
    does(201, "PUT", "/api/v1/repos/default/in/branches/master/files/x", "1");
    rd = pl_db_read(t.db);
    MUST(pl_graph_views_create(&views, &err));
    MUST(pl_graph_view_get(views, rd.conn, &view, &err));
    does(200, "DELETE", "/api/v1/pipelines/default/p", NULL);
    MUST(pl_graph_uses(view, rd.conn, &ask, add_words, words, &err));
    assert_non_null(strstr(words, "lab:"));
    pl_graph_view_unref(view);
    pl_graph_views_destroy(views);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_are_made_for_the_stages_that_are_asked_for),
        TEST(a_view_that_is_older_than_its_stages_is_told_without_their_jobs),
        TEST(a_pipeline_is_a_band_of_stages_and_pills),
        TEST(pipelines_that_read_each_other_share_a_band),
        TEST(a_branch_that_the_stage_does_not_write_is_a_pill),
        TEST(who_may_not_read_a_repo_sees_neither_it_nor_its_edges),
        TEST(the_etag_changes_with_the_picture_and_no_more),
        TEST(what_a_folding_would_change_is_no_other_picture_of_a_small_graph),
        TEST(the_etag_of_the_state_changes_with_a_commit),
        TEST(a_client_that_knows_any_state_gets_none),
        TEST(a_large_graph_folds_around_what_runs_or_is_asked_for),
        TEST(boxes_are_opened_and_shut_by_hand),
        TEST(many_bands_come_in_pages),
        TEST(too_many_keys_are_refused),
        TEST(the_state_says_what_stages_do_and_repos_hold),
        TEST(a_job_without_a_gpu_waits),
        TEST(an_ended_job_has_a_word_and_a_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
