// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Pipelines as transactions: what a spec makes, changes and takes away, who owns a name, and what runs. */
#include "tests/support/fixtures/db_world.h"

struct result {
    bool changed;
    int64_t version, gpu_s;
    char run[PL_ID_HEX + 1];
    char changes[256]; /* "prepare new, train unchanged" */
    char price[512];   /* "prepare [run] 3/3 20s 10s, train ≤2/2 ?" */
};

static struct {
    bool confirmed;
    int64_t above_s;
    void (*meanwhile)(struct world *w); /* what others do between the preparation and the transaction */
} asked = {.above_s = -1};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct pl_err err = {0};

    asked.confirmed = false;
    asked.above_s = -1;
    asked.meanwhile = NULL;

    w->dir = fixture_dir();
    assert_ok(world_open(w, "data", &err), &err);
    assert_ok(world_step(w, 0, &err), &err); /* repo digits */
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    world_close(w);
    fixture_remove(w->dir);
    free(w);
    return 0;
}

static void push(struct world *w, const char *repo)
{
    struct step s = {PUSH, "default", repo, "master", "+a:1"};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(world_push(w, &s, 0, &ret, &err), &err);
}

static void add_price(const json_t *change, struct result *ret)
{
    static const char *const bounds[] = {"", "up to ", "about "};
    const json_t *again = json_object_get(change, "again"), *gpu = json_object_get(again, "gpu_s");
    const char *what = json_string_value(json_object_get(change, "what"));
    size_t n = strlen(ret->price), room = sizeof ret->price - n;

    if (!what && !again)
        return;
    n += (size_t)snprintf(ret->price + n, room, "%s%s", n ? ", " : "", json_string_value(json_object_get(change, "stage")));
    if (what)
        n += (size_t)snprintf(ret->price + n, sizeof ret->price - n, " [%s]", what);
    if (!again)
        return;
    n += (size_t)snprintf(
        ret->price + n, sizeof ret->price - n, " %s%d/%d",
        bounds[json_is_true(json_object_get(again, "at_most")) + 2 * json_is_true(json_object_get(again, "estimated"))],
        (int)json_integer_value(json_object_get(again, "datums")), (int)json_integer_value(json_object_get(again, "of")));
    snprintf(ret->price + n, sizeof ret->price - n, json_is_null(gpu) ? " ?" : " %ds %ds", (int)json_integer_value(gpu),
             (int)json_integer_value(json_object_get(again, "worker_s")));
}

/* `text` is a spec with ' for ". */
static int set(struct world *w, const char *text, bool update, bool dry_run, struct result *ret, struct pl_err *err)
{
    struct pl_stage_code code[8] = {0};
    struct pl_pipeline_args args = {.code = code,
                                    .filename = "t.json",
                                    .update = update,
                                    .dry_run = dry_run,
                                    .confirmed = asked.confirmed,
                                    .confirm_above_s = asked.above_s};
    struct pl_spec *spec = NULL;
    char json[4096];
    json_t *one;
    size_t i;
    int r;

    snprintf(json, sizeof json, "%s", text);
    for (char *p = json; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    if (pl_spec_parse(json, strlen(json), "t.json", NULL, &spec, NULL, err) < 0)
        fail_msg("%s", err->msg);
    args.spec = spec;
    for (i = 0; i < spec->n_stages; i++)
        pl_stage_code_identity(&spec->stages[i], NULL, &code[i].identity);
    pl_hash_sha256(json, strlen(json), &args.user_spec);
    args.effective_spec = args.user_spec;
    *err = (struct pl_err){0};
    assert_ok(pl_pipeline_prepare(&args, w->db, err), err);
    if (asked.meanwhile)
        TAKE_PTR(asked.meanwhile)(w);
    r = pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pipeline_set, &args, err);
    *ret = (struct result){.changed = args.changed, .version = args.version, .gpu_s = args.gpu_s};
    strcpy(ret->run, args.run);
    json_array_foreach(args.changes, i, one) add_price(one, ret);
    json_array_foreach(args.changes, i, one)
        snprintf(ret->changes + strlen(ret->changes), sizeof ret->changes - strlen(ret->changes), "%s%s %s", i ? ", " : "",
                 json_string_value(json_object_get(one, "stage")), json_string_value(json_object_get(one, "change")));
    pl_pipeline_args_finish(&args);
    pl_spec_destroy(spec);
    return r;
}

static struct result make(struct world *w, const char *text)
{
    struct pl_err err = {0};
    struct result ret;

    assert_ok(set(w, text, true, false, &ret, &err), &err);
    return ret;
}

static void assert_refused(struct world *w, const char *text, int code, const char *message)
{
    struct pl_err err = {0};
    struct result ret;

    assert_int_equal(set(w, text, true, false, &ret, &err), code);
    if (!strstr(err.msg, message))
        fail_msg("\"%s\" is not in: %s", message, err.msg);
}

/* The only column of all rows, with commas. */
static char *list(struct world *w, const char *sql)
{
    static char out[1024];
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

    out[0] = '\0';
    assert_int_equal(pl_sql_query(rd.conn, NULL, &rows, sql, ""), 0);
    while (pl_sql_next(rd.conn, &rows, NULL) > 0)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", *out ? ", " : "", pl_col_text(&rows, 0));
    return out;
}

#define REPOS       "SELECT name || ' ' || kind FROM repo ORDER BY name"
#define STAGES      "SELECT version || ' ' || name FROM stage WHERE current = 1 ORDER BY pipeline, position"
#define KEPT        "SELECT group_concat(name, ' ') FROM repo r WHERE " PL_REPO_KEPT
#define NEWEST_RUN  "SELECT stages FROM run ORDER BY ord DESC LIMIT 1"
#define STAGE(n, i) "{'name': '" n "', 'run': ['x'], 'input': {'repo': '" i "', 'glob': '/*'}}"
#define FLOW        "{'pipeline': 'flow', 'stages': [" STAGE("prepare", "digits") ", " STAGE("train", "prepare") "]}"

/* ---- making and changing ---- */

static void test_a_spec_makes_stages_output_repos_and_a_run_of_what_has_inputs(void **state)
{
    struct world *w = *state;
    struct result r;

    push(w, "digits");
    r = make(w, FLOW);
    assert_true(r.changed);
    assert_int_equal(r.version, 1);
    assert_string_equal(r.changes, "prepare new, train new");
    assert_string_equal(list(w, REPOS), "digits input, prepare output, train output");
    assert_string_equal(list(w, STAGES), "1 prepare, 1 train");
    assert_string_equal(list(w, NEWEST_RUN), "[[\"default\",\"prepare\"],[\"default\",\"train\"]]");
    assert_string_equal(list(w, "SELECT cause || ' ' || message FROM run ORDER BY ord DESC LIMIT 1"), "pipeline flow");
    assert_string_equal(list(w, "SELECT id FROM run ORDER BY ord DESC LIMIT 1"), r.run);
    assert_string_equal(list(w, "SELECT run FROM pipeline_version"), r.run);
    assert_string_equal(list(w, "SELECT filename FROM pipeline_version"), "t.json");
}

static void test_without_commits_nothing_runs(void **state)
{
    struct world *w = *state;
    struct result r = make(w, FLOW);

    assert_true(r.changed);
    assert_string_equal(r.run, "");
    assert_string_equal(list(w, "SELECT count(*) FROM run"), "0");
    assert_string_equal(list(w, "SELECT run FROM pipeline_version"), "");
}

static void test_only_stages_with_all_inputs_run(void **state)
{
    struct world *w = *state;

    push(w, "digits");
    make(w, "{'pipeline': 'p', 'repos': {'empty': {}}, 'stages': [" STAGE("a", "digits") ", " STAGE(
                "b", "empty") ", {'name': 'c', 'run': ['x'], 'input': {'cross': [{'repo': 'a', 'glob': '/'}, {'repo': 'b', "
                              "'glob': '/'}]}}]}");
    assert_string_equal(list(w, NEWEST_RUN), "[[\"default\",\"a\"]]");
    assert_string_equal(list(w, REPOS), "a output, b output, c output, digits input, empty input");
}

static void test_the_same_spec_again_is_no_change_however_it_is_written(void **state)
{
    struct world *w = *state;
    struct result r;

    push(w, "digits");
    make(w, FLOW);
    r = make(w, FLOW);
    assert_false(r.changed);
    assert_int_equal(r.version, 1);
    assert_string_equal(r.run, "");
    assert_string_equal(r.changes, "prepare unchanged, train unchanged");
    r = make(w, "{'stages': [{'input': {'glob': '/*', 'repo': 'default/digits@master'}, 'run': ['x'], 'name': 'prepare'}, " STAGE(
                    "train", "prepare") "], 'description': 'other words', 'pipeline': 'flow'}");
    assert_false(r.changed);
    assert_string_equal(list(w, "SELECT count(*) FROM run WHERE cause = 'pipeline'"), "1");
}

static void test_a_changed_stage_runs_and_what_reads_it(void **state)
{
    struct world *w = *state;
    struct result r;

    push(w, "digits");
    make(w, "{'pipeline': 'p', 'stages': [" STAGE("a", "digits") ", " STAGE("b", "a") ", " STAGE("c", "digits") "]}");
    r = make(w, "{'pipeline': 'p', 'stages': [{'name': 'a', 'run': ['y'], 'input': {'repo': 'digits', 'glob': '/*'}}, " STAGE(
                    "b", "a") ", " STAGE("c", "digits") "]}");
    assert_int_equal(r.version, 2);
    assert_string_equal(r.changes, "a changed, b unchanged, c unchanged");
    assert_string_equal(list(w, NEWEST_RUN), "[[\"default\",\"a\"],[\"default\",\"b\"]]");
    assert_string_equal(list(w, STAGES), "2 a, 2 b, 2 c");
    assert_string_equal(list(w, "SELECT version || ' ' || name FROM stage WHERE current = 0 ORDER BY position"), "1 a, 1 b, 1 c");
}

static void turn_round(struct world *w)
{
    make(w, "{'pipeline': 'other', 'stages': [" STAGE("b", "a") "]}");
}

static void test_a_circle_that_others_close_meanwhile_is_refused(void **state)
{
    struct world *w = *state;

    make(w, "{'pipeline': 'p', 'stages': [" STAGE("a", "digits") "]}");
    make(w, "{'pipeline': 'other', 'stages': [" STAGE("b", "digits") "]}");
    asked.meanwhile = turn_round;
    assert_refused(w, "{'pipeline': 'p', 'stages': [" STAGE("a", "b") "]}", PL_EINVAL,
                   "the stages form a circle: a reads b, b reads a");
    assert_refused(w, "{'pipeline': 'p', 'stages': [" STAGE("a", "b") "]}", PL_EINVAL,
                   "the stages form a circle: a reads b, b reads a");
    assert_string_equal(list(w, STAGES), "1 a, 2 b");
}

/* ---- what an update costs ---- */

struct past_job {
    const char *stage, *run; /* of the run: a digit */
    int total, done, failed, gpu_ms, held_ms;
};

static int add_past_job(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct past_job *j = arg;
    char counts[128], ms[128], run[PL_ID_HEX + 1];

    memset(run, *j->run, PL_ID_HEX);
    run[PL_ID_HEX] = '\0';
    snprintf(counts, sizeof counts, "{\"total\": %d, \"done\": %d, \"failed\": %d}", j->total, j->done, j->failed);
    snprintf(ms, sizeof ms, "{\"gpu\": %d, \"held\": %d}", j->gpu_ms, j->held_ms);
    return pl_sql_exec(pl_tx_conn(tx), err,
                       "INSERT INTO job(run, project, stage, version, pipeline, state, counts, ms, planned, final, created_us)"
                       " VALUES (?, 'default', ?, 1, 'flow', 'success', ?, ?, 1, 1, 1)",
                       "ssss", run, j->stage, counts, ms);
}

static void past_job(struct world *w, const char *stage, const char *run, int total, int done, int failed, int gpu_ms,
                     int held_ms)
{
    struct past_job j = {stage, run, total, done, failed, gpu_ms, held_ms};
    struct pl_err err = {0};

    assert_ok(pl_db_run(w->db, PL_TX_UNLOGGED, add_past_job, &j, &err), &err);
}

/* As if it had written something. */
static int prepare_has_head(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM branch WHERE repo = (SELECT id FROM repo WHERE name = 'prepare')", "");

    (void)arg;

    return r < 0 ? r
                 : pl_sql_exec(pl_tx_conn(tx), err,
                               "INSERT INTO branch(repo, name, head, created_us)"
                               " SELECT id, 'master', (SELECT max(id) FROM commit_), 1 FROM repo"
                               " WHERE name = 'prepare'",
                               "");
}

/* Stages "prepare" (of digits) and "train" (of prepare), each with more of its spec. */
static const char *flow_with(const char *prepare, const char *train)
{
    static char text[1024];

    snprintf(text, sizeof text,
             "{'pipeline': 'flow', 'stages': [{'name': 'prepare', 'input': {'repo': 'digits', 'glob': '/*'}, %s},"
             " {'name': 'train', 'input': {'repo': 'prepare'}, %s}]}",
             prepare, train);
    return text;
}

#define RUN           "'run': ['x']"
#define A(run, input) "{'pipeline': 'p', 'stages': [{'name': 'a', 'run': ['" run "'], 'input': {'repo': 'digits'" input "}}]}"

static void test_an_update_says_what_it_runs_again_and_what_that_took(void **state)
{
    static const struct {
        const char *prepare, *train, *price;
        int gpu_s;
    } cases[] = {
        {RUN ", 'image': 'app:1.5'", RUN, "prepare [image app:1.4 → app:1.5] 4/4 0s 8s, train up to 2/2 200s 220s", 200},
        {RUN ", 'image': 'app:1.4'", RUN ", 'env': {'A': '1'}", "train [env] 2/2 200s 220s", 200},
        {RUN ", 'image': 'app:1.4', 'workers': 7", RUN, "prepare [workers 1 → 7] 0/4 0s 0s, train 0/2 0s 0s", 0},
        {RUN ", 'image': 'app:1.4', 'cache': {'salt': 's'}", RUN, "prepare [cache] 4/4 0s 8s, train up to 2/2 200s 220s", 200},
        {"'run': ['y', 'z'], 'image': 'app:1.4', 'cache': {'code': false}", RUN,
         "prepare [cache, run] 4/4 0s 8s, train up to 2/2 200s 220s", 200},
    };
    struct world *w = *state;
    struct pl_err err = {0};
    struct result r;

    push(w, "digits");
    r = make(w, flow_with(RUN ", 'image': 'app:1.4'", RUN));
    assert_string_equal(r.price, "");
    past_job(w, "prepare", "1", 9, 9, 0, 0, 9000);
    past_job(w, "prepare", "2", 3, 2, 1, 0, 6000); /* the last one that ran something: 2 s each */
    past_job(w, "prepare", "3", 4, 0, 0, 0, 0);    /* the last one */
    past_job(w, "train", "1", 2, 1, 0, 100000, 110000);
    assert_ok(pl_db_run(w->db, PL_TX_UNLOGGED, prepare_has_head, NULL, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        assert_int_equal(set(w, flow_with(cases[i].prepare, cases[i].train), true, true, &r, &err), PL_ECANCELED);
        assert_string_equal(r.price, cases[i].price);
        assert_int_equal(r.gpu_s, cases[i].gpu_s);
    }
}

static void test_a_change_of_the_input_is_an_estimate_whatever_else_changes(void **state)
{
    struct world *w = *state;

    push(w, "digits");
    make(w, A("x", ""));
    past_job(w, "a", "1", 5, 0, 0, 0, 0); /* it never ran anything */
    assert_string_equal(make(w, A("x", ", 'glob': '/**'")).price, "a [input] about 5/5 ?");
    assert_string_equal(make(w, A("y", ", 'glob': '/*'")).price, "a [input, run] about 5/5 ?");
}

static void test_what_costs_much_wants_a_word(void **state)
{
    struct world *w = *state;
    struct pl_err err = {0};
    struct result r;

    push(w, "digits");
    make(w, flow_with(RUN, RUN));
    past_job(w, "train", "1", 2, 2, 0, 7200000, 7200000);
    assert_ok(pl_db_run(w->db, PL_TX_UNLOGGED, prepare_has_head, NULL, &err), &err);
    asked.above_s = 7199;
    assert_int_equal(set(w, flow_with(RUN, "'run': ['y']"), true, false, &r, &err), PL_ECONFIRM);
    assert_string_equal(err.msg,
                        "pipeline \"flow\": the update may repeat work that took 2.0 GPU-hours; above 2.0 (confirm_above) it "
                        "must be confirmed");
    assert_non_null(strstr(err.hint, "--yes"));
    assert_string_equal(list(w, STAGES), "1 prepare, 1 train");
    assert_int_equal(set(w, flow_with(RUN, "'run': ['y']"), true, true, &r, &err), PL_ECANCELED);
    assert_ok(set(w, flow_with(RUN, RUN ", 'workers': 3"), true, false, &r, &err), &err);
    asked.above_s = 7200;
    assert_ok(set(w, flow_with(RUN, "'run': ['y']"), true, false, &r, &err), &err);
    asked.above_s = 0;
    asked.confirmed = true;
    assert_ok(set(w, flow_with(RUN, "'run': ['z']"), true, false, &r, &err), &err);
    asked.above_s = -1;
    asked.confirmed = false;
    assert_ok(set(w, flow_with(RUN, "'run': ['0']"), true, false, &r, &err), &err);
    assert_int_equal(r.version, 5);
}

/* ---- going away ---- */

static void test_a_removed_stage_leaves_its_repo_which_can_then_be_deleted(void **state)
{
    struct world *w = *state;
    struct pl_repo_args repo = {.project = "default", .name = "train"};
    struct pl_err err = {0};
    struct result r;

    push(w, "digits");
    make(w, FLOW);
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, "written by pipeline \"flow\""));
    r = make(w, "{'pipeline': 'flow', 'stages': [" STAGE("prepare", "digits") "]}");
    assert_true(r.changed);
    assert_string_equal(r.changes, "prepare unchanged, train removed");
    assert_string_equal(r.run, "");
    assert_string_equal(list(w, REPOS), "digits input, prepare output, train output");
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
}

static void test_create_does_not_change_what_exists(void **state)
{
    struct world *w = *state;
    struct pl_err err = {0};
    struct result r;

    assert_ok(set(w, FLOW, false, false, &r, &err), &err);
    assert_int_equal(set(w, FLOW, false, false, &r, &err), PL_EEXISTS);
    assert_string_equal(err.msg, "pipeline \"flow\" exists already in project \"default\"");
    assert_string_equal(err.hint, "pipelinectl update pipeline -f FILE");
}

static void test_a_dry_run_says_what_would_change_and_keeps_nothing(void **state)
{
    struct world *w = *state;
    struct pl_err err = {0};
    struct result r;
    uint64_t seq = pl_db_log_seq(w->db);

    assert_int_equal(set(w, FLOW, false, true, &r, &err), PL_ECANCELED);
    assert_true(r.changed);
    assert_string_equal(r.changes, "prepare new, train new");
    assert_int_equal(pl_db_log_seq(w->db), seq);
    assert_string_equal(list(w, REPOS), "digits input");
}

/* A spec asks for a repo that was deleted by force: an unchanged pipeline makes it again, a dry run does not. */
static void test_a_dry_run_of_an_unchanged_pipeline_makes_no_repo(void **state)
{
    static const char spec[] = "{'pipeline': 'p', 'repos': {'words': {}}, 'stages': [" STAGE("count", "words") "]}";
    struct world *w = *state;
    struct pl_repo_args repo = {.project = "default", .name = "words", .force = true};
    struct pl_err err = {0};
    struct result r;

    make(w, spec);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
    assert_int_equal(set(w, spec, true, true, &r, &err), PL_ECANCELED);
    assert_false(r.changed);
    assert_string_equal(list(w, REPOS), "count output, digits input");
    assert_false(make(w, spec).changed);
    assert_string_equal(list(w, REPOS), "count output, digits input, words input");
}

/* ---- what is refused ---- */

static void test_a_missing_input_repo_is_named_with_the_remedy(void **state)
{
    assert_refused(
        *state, "{'pipeline': 'p', 'stages': [" STAGE("a", "words") "]}", PL_ENOTFOUND,
        "stage \"a\": repo \"words\" does not exist: pipelinectl create repo words, or add \"repos\": {\"words\": {}}");
    assert_string_equal(list(*state, REPOS), "digits input");
}

static void test_a_stage_of_another_pipeline_keeps_its_name(void **state)
{
    struct world *w = *state;

    make(w, FLOW);
    assert_refused(w, "{'pipeline': 'other', 'stages': [" STAGE("train", "digits") "]}", PL_EINUSE,
                   "stage \"train\" already belongs to pipeline \"flow\" in project \"default\"");
    assert_string_equal(list(w, "SELECT name FROM pipeline"), "flow");
}

static void test_a_stage_does_not_take_an_input_repos_name(void **state)
{
    assert_refused(*state, "{'pipeline': 'p', 'repos': {'words': {}}, 'stages': [" STAGE("digits", "words") "]}", PL_EINUSE,
                   "stage \"digits\" would write repo \"digits\", which is an input repo: rename the stage");
}

static void test_a_project_must_exist(void **state)
{
    assert_refused(*state, "{'pipeline': 'p', 'project': 'vision', 'repos': {'words': {}}, 'stages': [" STAGE("a", "words") "]}",
                   PL_ENOTFOUND, "project \"vision\" does not exist");
}

/* ---- heads that move without a push ---- */

static void end_newest_run(struct world *w)
{
    struct pl_err err = {0};
    char run[PL_ID_HEX + 1];
    struct pl_run_args end = {.id = run, .state = "success"};

    assert_ok(newest_run(w, run, &err), &err);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_run_end, &end, &err), &err);
}

#define READER(n, i) "{'pipeline': '" n "', 'stages': [" STAGE(n, i) "]}"

static void test_a_branch_made_at_a_commit_runs_the_stages_that_read_it(void **state)
{
    struct world *w = *state;
    struct pl_branch_args dev = {.project = "default", .repo = "digits", .name = "dev", .from = "master"},
                          old = {.project = "default", .repo = "digits", .name = "old", .from = "master"},
                          empty = {.project = "default", .repo = "digits", .name = "empty", .from = ""};
    struct pl_err err = {0};
    char run[PL_ID_HEX + 1];

    push(w, "digits");
    make(w, READER("one", "digits@dev"));
    make(w, READER("two", "digits@dev"));
    make(w, READER("of-empty", "digits@empty"));
    make(w, READER("of-master", "digits"));
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &dev, &err), &err);
    assert_ok(newest_run(w, run, &err), &err);
    assert_string_equal(dev.started, run);
    assert_string_equal(list(w, NEWEST_RUN), "[[\"default\",\"one\"],[\"default\",\"two\"]]");
    assert_string_equal(list(w, "SELECT cause || ': ' || message FROM run ORDER BY ord DESC LIMIT 1"),
                        "push: branch digits@dev was made");
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &old, &err), &err);
    assert_string_equal(old.started, "");
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &empty, &err), &err);
    assert_string_equal(empty.started, "");
}

static void test_a_deleted_commit_runs_the_stages_that_read_what_fell_back(void **state)
{
    struct world *w = *state;
    struct pl_commit_delete_args gone = {.project = "default", .repo = "digits", .run = "master"};
    struct pl_branch_args dev = {.project = "default", .repo = "digits", .name = "dev", .from = "master"};
    struct pl_err err = {0};
    char run[PL_ID_HEX + 1];

    push(w, "digits");
    end_newest_run(w);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &dev, &err), &err);
    make(w, READER("of-dev", "digits@dev"));
    make(w, READER("of-master", "digits"));
    make(w, READER("of-other", "digits@other"));
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit_delete, &gone, &err), &err);
    assert_ok(newest_run(w, run, &err), &err);
    assert_string_equal(gone.started, run);
    assert_string_equal(list(w, NEWEST_RUN), "[[\"default\",\"of-dev\"],[\"default\",\"of-master\"]]");
    assert_string_equal(list(w, "SELECT cause FROM run ORDER BY ord DESC LIMIT 1"), "delete");
}

static void test_a_stages_commit_is_not_deleted_and_the_remedy_exists(void **state)
{
    struct world *w = *state;
    struct pl_commit_delete_args gone = {.project = "default", .repo = "one", .run = "master"};
    struct pl_repo_args repo = {.project = "default", .name = "one"};
    struct pl_err err = {0};

    make(w, READER("one", "digits"));
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit_delete, &gone, &err), PL_EOUTPUT);
    assert_non_null(strstr(err.msg, "push other input, or delete pipeline \"one\""));
    make(w, "{'pipeline': 'one', 'stages': [" STAGE("other", "digits") "]}");
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit_delete, &gone, &err), PL_EOUTPUT);
    assert_non_null(strstr(err.msg, "by a stage that its pipeline no longer has: delete repo \"one\""));
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
}

static void test_a_branch_that_a_stage_reads_is_deleted_by_force_only(void **state)
{
    struct world *w = *state;
    struct pl_branch_args a = {.project = "default", .repo = "digits", .name = "dev", .from = "master"};
    struct pl_err err = {0};

    push(w, "digits");
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &a, &err), &err);
    make(w, READER("reader", "digits@dev"));
    make(w, READER("other", "digits@dev2"));
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_delete, &a, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, "stage \"reader\" reads branch \"dev\" of repo \"digits\""));
    a.force = true;
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_delete, &a, &err), &err);
    a.name = "master"; /* which nobody reads */
    a.force = false;
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_delete, &a, &err), &err);
}

/* ---- deleting ---- */

static int delete_pipeline(struct world *w, const char *name, bool keep_repos, bool force, struct pl_err *err)
{
    struct pl_pipeline_delete_args a = {.project = "default", .name = name, .keep_repos = keep_repos, .force = force};

    *err = (struct pl_err){0};
    return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pipeline_delete, &a, err);
}

static void test_a_deleted_pipeline_takes_its_output_repos_along(void **state)
{
    struct world *w = *state;
    struct pl_err err;

    make(w, FLOW);
    assert_ok(delete_pipeline(w, "flow", false, false, &err), &err);
    assert_string_equal(list(w, REPOS), "digits input");
    assert_string_equal(list(w, "SELECT count(*) FROM stage"), "0");
    assert_int_equal(delete_pipeline(w, "flow", false, false, &err), PL_ENOTFOUND);
    assert_int_equal(make(w, FLOW).version, 1);
}

#define CHECKPOINTS "SELECT group_concat(stage, ' ') FROM (SELECT stage FROM checkpoint ORDER BY stage)"

static int leave_checkpoints(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT OR REPLACE INTO checkpoint(project, stage, key, root, at_us)"
                        " SELECT DISTINCT project, name, x'01', x'02', 3 FROM stage",
                        "");

    (void)arg;
    return r < 0 ? r : 0;
}

static void test_checkpoints_go_with_their_pipeline_or_repo(void **state)
{
    struct pl_repo_args prepare = {.project = "default", .name = "prepare"};
    struct world *w = *state;
    struct pl_err err = {0};

    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("prepare",
                                                     "digits") ", " STAGE("train", "digits") ", " STAGE("chart", "digits") "]}");
    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("train", "digits") ", " STAGE("chart", "digits") "]}");
    assert_ok(pl_db_run(w->db, PL_TX_UNLOGGED, leave_checkpoints, NULL, &err), &err);
    assert_string_equal(list(w, CHECKPOINTS), "chart prepare train");
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &prepare, &err), &err);
    assert_string_equal(list(w, CHECKPOINTS), "chart train");
    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("train", "digits") "]}");
    make(w, "{'pipeline': 'other', 'stages': [" STAGE("chart", "digits") "]}");
    assert_ok(delete_pipeline(w, "flow", true, false, &err), &err);
    assert_string_equal(list(w, CHECKPOINTS), "chart"); /* another pipeline's by now */
    assert_ok(delete_pipeline(w, "other", false, false, &err), &err);
    assert_string_equal(list(w, "SELECT count(*) FROM checkpoint"), "0");
}

static void test_kept_repos_are_inputs_until_the_next_stage_of_the_name(void **state)
{
    struct world *w = *state;
    struct pl_err err;

    make(w, FLOW);
    assert_ok(delete_pipeline(w, "flow", true, false, &err), &err);
    assert_string_equal(list(w, KEPT), "prepare train");
    make(w, "{'pipeline': 'other', 'stages': [" STAGE("train", "digits") "]}");
    assert_string_equal(list(w, KEPT), "prepare");
}

static void test_what_another_pipeline_reads_is_deleted_by_force_only(void **state)
{
    struct world *w = *state;
    struct pl_err err;

    make(w, FLOW);
    make(w, "{'pipeline': 'reader', 'stages': [" STAGE("chart", "train") "]}");
    assert_int_equal(delete_pipeline(w, "flow", false, false, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, "stage \"chart\" reads repo \"train\""));
    assert_string_equal(list(w, STAGES), "1 prepare, 1 train, 1 chart");
    assert_ok(delete_pipeline(w, "flow", false, true, &err), &err);
    assert_string_equal(list(w, REPOS), "chart output, digits input");
}

/* A stage that an earlier version had may be another pipeline's by now, or its name a repo of somebody's own. */
static void test_a_deleted_pipeline_leaves_names_that_it_gave_up(void **state)
{
    struct world *w = *state;
    struct pl_repo_args train = {.project = "default", .name = "train"};
    struct pl_err err = {0};

    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("prepare",
                                                     "digits") ", " STAGE("train", "digits") ", " STAGE("chart", "digits") "]}");
    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("prepare", "digits") "]}");
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &train, &err), &err);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_create, &train, &err), &err);
    push(w, "train");
    make(w, "{'pipeline': 'other', 'stages': [" STAGE("chart", "train") "]}");
    assert_ok(delete_pipeline(w, "flow", false, false, &err), &err);
    assert_string_equal(list(w, REPOS), "chart output, digits input, train input");
    assert_string_equal(list(w, STAGES), "1 chart");
}

static int may_commit_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_tx_job_may_commit(tx, arg, err);
}

/* Of the newest run's job of the first version of "prepare" that was made. */
static int may_commit(struct world *w, struct pl_err *err)
{
    struct pl_job_args a = {.project = "default", .stage = "prepare", .version = 1};
    char run[PL_ID_HEX + 1] = "";

    *err = (struct pl_err){0};
    assert_ok(newest_run(w, run, err), err);
    a.run = run;
    return pl_db_run(w->db, PL_TX_LOGGED, may_commit_tx, &a, err);
}

static void test_a_job_commits_while_its_stage_is_there(void **state)
{
    struct world *w = *state;
    struct pl_err err;

    push(w, "digits");
    make(w, FLOW);
    assert_ok(may_commit(w, &err), &err);
    make(w, "{'pipeline': 'flow', 'stages': [{'name': 'prepare', 'run': ['y'], 'input': {'repo': 'digits', 'glob': '/*'}}]}");
    assert_ok(may_commit(w, &err), &err); /* a newer version: the older one's job may end */
    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("train", "digits") "]}");
    assert_int_equal(may_commit(w, &err), PL_ECANCELED);
    assert_string_equal(err.msg, "stage prepare was deleted while its job committed");
}

static void test_a_job_of_a_deleted_pipeline_does_not_commit_into_the_next_one(void **state)
{
    struct world *w = *state;
    struct pl_err err;

    push(w, "digits");
    make(w, FLOW);
    assert_ok(delete_pipeline(w, "flow", false, false, &err), &err);
    make(w, FLOW);
    assert_int_equal(may_commit(w, &err), PL_ECANCELED);
}

static void test_an_ended_job_does_not_commit(void **state)
{
    static const struct step end = {JOB, "default", "prepare", "", "killed"};
    struct world *w = *state;
    char run[PL_ID_HEX + 1] = "";
    struct pl_err err = {0};

    push(w, "digits");
    make(w, FLOW);
    assert_ok(newest_run(w, run, &err), &err);
    assert_ok(world_job(w, &end, run, &err), &err);
    assert_int_equal(may_commit(w, &err), PL_ECANCELED);
}

static void test_pipelines_come_back_from_the_log(void **state)
{
    struct world *w = *state, other = {.dir = w->dir};
    struct pl_err err = {0};
    char *was, *is;

    push(w, "digits");
    make(w, FLOW);
    make(w, "{'pipeline': 'flow', 'stages': [" STAGE("prepare", "digits") "]}");
    make(w, "{'pipeline': 'reader', 'stages': [" STAGE("chart", "prepare") "]}");
    assert_ok(delete_pipeline(w, "reader", true, false, &err), &err);
    was = world_logged_tables(w);
    world_close(w);
    assert_ok(world_open(&other, "other", &err), &err);
    is = world_logged_tables(&other);
    assert_string_equal(is, was);
    world_close(&other);
    free(was);
    free(is);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_spec_makes_stages_output_repos_and_a_run_of_what_has_inputs),
        T(test_without_commits_nothing_runs),
        T(test_only_stages_with_all_inputs_run),
        T(test_the_same_spec_again_is_no_change_however_it_is_written),
        T(test_a_changed_stage_runs_and_what_reads_it),
        T(test_a_circle_that_others_close_meanwhile_is_refused),
        T(test_an_update_says_what_it_runs_again_and_what_that_took),
        T(test_a_change_of_the_input_is_an_estimate_whatever_else_changes),
        T(test_what_costs_much_wants_a_word),
        T(test_a_removed_stage_leaves_its_repo_which_can_then_be_deleted),
        T(test_create_does_not_change_what_exists),
        T(test_a_dry_run_says_what_would_change_and_keeps_nothing),
        T(test_a_dry_run_of_an_unchanged_pipeline_makes_no_repo),
        T(test_a_missing_input_repo_is_named_with_the_remedy),
        T(test_a_stage_of_another_pipeline_keeps_its_name),
        T(test_a_stage_does_not_take_an_input_repos_name),
        T(test_a_project_must_exist),
        T(test_a_branch_made_at_a_commit_runs_the_stages_that_read_it),
        T(test_a_deleted_commit_runs_the_stages_that_read_what_fell_back),
        T(test_a_stages_commit_is_not_deleted_and_the_remedy_exists),
        T(test_a_branch_that_a_stage_reads_is_deleted_by_force_only),
        T(test_a_deleted_pipeline_takes_its_output_repos_along),
        T(test_checkpoints_go_with_their_pipeline_or_repo),
        T(test_kept_repos_are_inputs_until_the_next_stage_of_the_name),
        T(test_what_another_pipeline_reads_is_deleted_by_force_only),
        T(test_a_deleted_pipeline_leaves_names_that_it_gave_up),
        T(test_a_job_commits_while_its_stage_is_there),
        T(test_a_job_of_a_deleted_pipeline_does_not_commit_into_the_next_one),
        T(test_an_ended_job_does_not_commit),
        T(test_pipelines_come_back_from_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
