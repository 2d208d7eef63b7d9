// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Runs, jobs and datums over HTTP: who asks keeps neither the loop nor the database waiting, and long lists come in pages. */
#include "storage/system/lock_order.h"
#include "tests/support/fixtures/api_fixture.h"

#define READERS 4 /* of the fixture's database */

static const char run_id[] = "0123456789abcdef0123456789abcdef";

static int make_run(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_run_args run = {.id = run_id, .cause = "manual", .state = "running"};

    (void)arg;
    return pl_tx_run_create(tx, &run, err);
}

static void begin_job(void)
{
    struct pl_job_args job = {.run = run_id,
                              .project = "default",
                              .stage = "train",
                              .pipeline = "flow",
                              .version = 1,
                              .state = "running",
                              .created_us = 1};

    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_run, NULL, &err));
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, pl_tx_job_progress, &job, &err));
}

/* ---- the loop and the readers ---- */

struct all_readers {
    struct pl_conn *conn[READERS];
};

static struct all_readers take_all_readers(void)
{
    struct all_readers all;

    for (unsigned i = 0; i < READERS; i++) {
        all.conn[i] = pl_db_reader(t.db);
        pl_lock_order_give(PL_LOCK_DB_READER); /* several in one thread, as several threads would have them */
    }
    return all;
}

static void give_all_readers(struct all_readers *all)
{
    for (unsigned i = 0; i < READERS; i++)
        pl_db_reader_done(t.db, all->conn[i]);
}

/* The engine's loop, when it must read itself before it can answer: with a reader held by who asks, neither goes on. */
static json_t *job_live_that_reads(void *self, const char *run, const char *project, const char *stage)
{
    struct all_readers all = take_all_readers();

    (void)self;
    assert_string_equal(run, run_id);
    assert_string_equal(project, "default");
    assert_string_equal(stage, "train");
    give_all_readers(&all);
    return json_pack("{s:i, s:i, s:i}", "waiting", 5, "leased", 2, "workers", 1);
}

static void assert_live(const json_t *job)
{
    const json_t *datums = json_object_get(job, "datums");

    assert_int_equal(number_at(datums, "waiting"), 5);
    assert_int_equal(number_at(datums, "leased"), 2);
    assert_int_equal(number_at(datums, "workers"), 1);
}

static void live_figures_are_asked_for_with_no_reader_held(void **state)
{
    json_t *o;

    (void)state;
    begin_job();
    o = ask_json(200, "GET", "/api/v1/jobs", NULL);
    assert_live(json_array_get(json_object_get(o, "jobs"), 0));
    json_decref(o);
    o = ask_json(200, "GET", "/api/v1/runs/01234567", NULL);
    assert_live(json_array_get(json_object_get(o, "jobs"), 0));
    json_decref(o);
    o = ask_json(200, "GET", "/api/v1/jobs/default/train/01234567", NULL);
    assert_live(o);
    json_decref(o);
}

static void who_waits_for_a_run_does_not_hold_the_loop(void **state)
{
    struct all_readers all;
    struct answer a;
    char head[256];
    int fd;

    (void)state;
    begin_job();
    all = take_all_readers();
    fd = client_connect(port);
    snprintf(head, sizeof head, "GET /api/v1/runs/%s/wait?timeout_ms=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n" AS_USER "\r\n", run_id,
             port);
    assert_true(client_say(fd, head));
    for (unsigned i = 0; i < 8; i++) { /* rows of the loop's: it turns, though the first cannot be looked at */
        a = ask_with("POST", "/api/v1/worker/attach", AS_WORKER, "{}", 2);
        assert_int_equal(a.status, 200);
        answer_free(&a);
    }
    give_all_readers(&all);
    a = client_read_answer(fd);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
}

/* ---- pages ---- */

#define DATUMS   "/api/v1/jobs/default/train/01234567/datums"
#define ATTEMPTS 3

/* Three tries at each of two datums. */
static int make_attempts(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_hash datum;
    int r = 0;

    (void)arg;
    for (int i = 0; i < 2 * ATTEMPTS && r >= 0; i++) {
        pl_hash_sha256(i < ATTEMPTS ? "x" : "y", 1, &datum);
        r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT INTO attempt(job, datum, attempt, state, exit_code, finished_us)"
                        " VALUES ((SELECT id FROM job), ?, ?, 'failed', 1, 1)",
                        "bi", datum.b, (size_t)PL_HASH_BYTES, (int64_t)(i % ATTEMPTS + 1));
    }
    return PL_MIN(r, 0);
}

static void a_page_may_end_between_two_attempts_at_a_datum(void **state)
{
    char target[256] = DATUMS "?limit=2", seen[256] = "", first[PL_HASH_HEX + 1] = "";
    unsigned pages = 0;

    (void)state;
    begin_job();
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, make_attempts, NULL, &err));
    for (bool more = true; more; pages++) {
        json_t *o = ask_json(200, "GET", target, NULL), *one;
        const char *next = json_string_value(json_object_get(o, "next"));
        size_t i;

        json_array_foreach(json_object_get(o, "datums"), i, one)
        {
            if (!*first)
                strcpy(first, text_at(one, "id"));
            sprintf(seen + strlen(seen), "%s%lld ", pl_streq(first, text_at(one, "id")) ? "a" : "b",
                    (long long)number_at(one, "attempt"));
        }
        more = next;
        if (more)
            snprintf(target, sizeof target, DATUMS "?limit=2&after=%s", next);
        json_decref(o);
    }
    assert_string_equal(seen, "a1 a2 a3 b1 b2 b3 ");
    assert_in_range(pages, 3, 4);
}

static void what_is_no_place_in_a_list_is_refused(void **state)
{
    static const char *const lists[] = {"/api/v1/runs", "/api/v1/jobs", DATUMS, "/api/v1/metrics/default/train",
                                        "/api/v1/pipelines"};
    static const char *const places[] = {"x", "-1", "1x", "99999999999999999999", "%20", "1/1"};
    char target[256];

    (void)state;
    begin_job();
    for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++) {
        for (size_t k = 0; k < PL_ARRAY_SIZE(places); k++) {
            snprintf(target, sizeof target, "%s?after=%s", lists[i], places[k]);
            refused("invalid", "after", "GET", target, NULL);
        }
    }
}

/* ---- failures ---- */

#define FAILURES "/api/v1/jobs/default/train/01234567/failures"

static int keep_attempt(struct pl_tx *tx, int64_t job, int number, int attempt, const char *state, const char *reason,
                        const char *tail, const char *paths, struct pl_err *err)
{
    struct pl_hash datum;

    pl_hash_sha256(&number, sizeof number, &datum);
    return pl_sql_exec(pl_tx_conn(tx), err,
                       "INSERT INTO attempt(job, datum, attempt, state, reason, tail, exit_code, detail, finished_us)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, json_object('paths', ?, 'node', 'n1', 'bytes', json_object('in', ?)), 1)",
                       "ibisssisi", job, datum.b, (size_t)PL_HASH_BYTES, (int64_t)attempt, state, reason, tail,
                       (int64_t)(*tail ? 1 : 0), paths, (int64_t)number);
}

static int renumber_job(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE job SET id = ?", "i", *(const int64_t *)arg);

    return PL_MIN(r, 0);
}

/* An earlier job with one failure; then five datums that failed in one way, one in another, one that was tried again with success. */
static int make_failures(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const int64_t job = *(const int64_t *)arg;
    char tail[64], paths[64];
    int r =
        pl_sql_exec(pl_tx_conn(tx), err,
                    "INSERT INTO job(id, run, project, stage, version, pipeline, state, counts, final, created_us)"
                    " VALUES (?, 'fedcba98', 'default', 'train', 1, 'flow', 'failure', '{\"attempts\": 1, \"failed\": 1}', 1, 1)",
                    "i", job - 1);

    r = r < 0 ? r : keep_attempt(tx, job - 1, 90, 1, "failed", "exit code 1", "Bad: file 90 is empty\n", "in=/a/90", err);
    for (int i = 0; i < 5 && r >= 0; i++) {
        snprintf(tail, sizeof tail, "Bad: file %d is empty\n", i);
        snprintf(paths, sizeof paths, "in=/a/%d", i);
        r = keep_attempt(tx, job, i, 1, "failed", "exit code 1", tail, paths, err);
        r = r < 0 ? r : keep_attempt(tx, job, i, 2, "failed", "exit code 1", tail, paths, err);
    }
    r = r < 0 ? r : keep_attempt(tx, job, 10, 1, "failed", "timed out after 5s", "", "in=/b/10", err);
    r = r < 0 ? r : keep_attempt(tx, job, 11, 1, "failed", "exit code 1", "Bad: luck\n", "in=/b/11", err);
    return r < 0 ? r : keep_attempt(tx, job, 11, 2, "success", "", "", "in=/b/11", err);
}

static void begin_failed_job(void)
{
    int64_t job = 100;

    begin_job();
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, renumber_job, &job, &err));
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, make_failures, &job, &err));
}

static void failures_that_say_the_same_are_one_group(void **state)
{
    json_t *o;
    const json_t *groups, *one;

    (void)state;
    begin_failed_job();
    o = ask_json(200, "GET", FAILURES, NULL);
    groups = json_object_get(o, "groups");
    assert_int_equal(number_at(o, "kept"), 6); /* the datum that was tried again with success is none */
    assert_int_equal(number_at(o, "failed"), 6);
    assert_int_equal(number_at(o, "jobs_examined"), 1);
    assert_int_equal(json_array_size(groups), 2);
    one = json_array_get(groups, 0);
    assert_int_equal(number_at(one, "count"), 5);
    assert_string_equal(text_at(one, "folder"), "in=/a/");
    assert_string_equal(text_at(one, "node"), "n1");
    assert_string_equal(text_at(one, "reason"), "exit code 1");
    assert_int_equal(number_at(one, "bytes_min"), 0);
    assert_int_equal(number_at(one, "bytes_max"), 4);
    assert_int_equal(number_at(one, "jobs_before"), 1);
    assert_string_equal(text_at(one, "run_before"), "fedcba98");
    one = json_array_get(groups, 1);
    assert_string_equal(text_at(one, "message"), "timed out after 5s");
    assert_int_equal(number_at(one, "jobs_before"), 0);
    assert_string_equal(text_at(one, "run_before"), "");
    json_decref(o);
}

static void a_group_has_its_datums_in_pages(void **state)
{
    char id[64], target[256], next[32] = "";
    unsigned datums = 0, pages = 0;
    json_t *o;

    (void)state;
    begin_failed_job();
    o = ask_json(200, "GET", FAILURES, NULL);
    snprintf(id, sizeof id, "%s", text_at(json_array_get(json_object_get(o, "groups"), 0), "id"));
    json_decref(o);
    for (bool more = true; more; pages++) {
        snprintf(target, sizeof target, FAILURES "?group=%s&limit=2%s%s", id, *next ? "&after=" : "", next);
        o = ask_json(200, "GET", target, NULL);
        assert_int_equal(json_array_size(json_object_get(o, "groups")), 1);
        datums += (unsigned)json_array_size(json_object_get(o, "datums"));
        more = json_object_get(o, "next") != NULL;
        snprintf(next, sizeof next, "%s", more ? text_at(o, "next") : "");
        json_decref(o);
    }
    assert_int_equal(pages, 3);
    assert_int_equal(datums, 5);
    refused("not_found", "group", "GET", FAILURES "?group=0123456789abcdef", NULL);
    refused("invalid", "after", "GET", FAILURES "?after=x", NULL);
}

/* ---- what needs attention ---- */

static int set_reason(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE job SET started_us = NULL, reason = ?", "s", (const char *)arg);

    return PL_MIN(r, 0);
}

static size_t needs_when_it_waits(const char *reason, char *ret_text, size_t size)
{
    json_t *o, *one;
    size_t i, n;

    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, set_reason, (void *)(uintptr_t)reason, &err));
    o = ask_json(200, "GET", "/api/v1/needs", NULL);
    *ret_text = '\0';
    n = 0;
    json_array_foreach(json_object_get(o, "needs"), i, one)
    {
        if (!pl_streq(text_at(one, "kind"), "waiting")) /* the disk of the machine may be low */
            continue;
        snprintf(ret_text, size, "%s", text_at(one, "text"));
        n++;
    }
    json_decref(o);
    return n;
}

/* A job that waits for another stage or an earlier run waits for what is under way. */
static void a_job_that_waits_for_a_place_needs_attention(void **state)
{
    char text[128];

    (void)state;
    begin_job(); /* long ago: in 1970 */
    assert_int_equal(needs_when_it_waits("waiting for 2 GPUs: 0 of 1 free", text, sizeof text), 1);
    assert_string_equal(text, "train is waiting for 2 GPUs: 0 of 1 free");
    assert_int_equal(needs_when_it_waits("starting 1 worker: no node has 2 GPUs", text, sizeof text), 1);
    assert_string_equal(text, "train is starting 1 worker: no node has 2 GPUs");
    assert_int_equal(
        needs_when_it_waits("a worker failed to start (5 in a row; the next one starts after 1m): x", text, sizeof text), 1);
    assert_string_equal(text, "train: a worker failed to start (5 in a row; the next one starts after 1m): x");
    assert_int_equal(needs_when_it_waits("starting 1 worker", text, sizeof text), 0);
    assert_int_equal(needs_when_it_waits("waiting for stage prepare of run 01234567", text, sizeof text), 0);
    assert_int_equal(needs_when_it_waits("waiting for its turn: run 01234567 goes first", text, sizeof text), 0);
    assert_int_equal(needs_when_it_waits("running on 1 worker", text, sizeof text), 0);
}

/* ---- what nodes and people call images ---- */

static int make_images(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    static const char *const images[] = {"r@sha256:\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", "r@sha256:b"};
    struct pl_hash datum;
    int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE job SET version = (SELECT id FROM stage)", "");

    (void)arg;
    for (int i = 0; i < 2 && r >= 0; i++) {
        pl_hash_sha256(images[i], strlen(images[i]), &datum);
        r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT INTO attempt(job, datum, attempt, state, detail, finished_us)"
                        " VALUES ((SELECT id FROM job), ?, ?, 'success', json_object('image_id', ?), ?)",
                        "bisi", datum.b, (size_t)PL_HASH_BYTES, (int64_t)i, images[i], (int64_t)i);
    }
    return PL_MIN(r, 0);
}

/* Names are cut where a character does not end. */
static void a_job_is_told_whatever_its_images_are_called(void **state)
{
    char image[128], body[600];
    json_t *o;

    (void)state;
    memset(image, 'a', 99);
    strcpy(image + 99, "\xc3\xa4:tag");
    make_repo("data");
    snprintf(body, sizeof body,
             "{\"filename\": \"f.json\", \"spec\": \"{\\\"pipeline\\\": \\\"flow\\\", \\\"repos\\\": {\\\"data\\\": {}}, "
             "\\\"stages\\\": [{\\\"name\\\": \\\"train\\\", \\\"image\\\": \\\"%s\\\", \\\"run\\\": [\\\"x\\\"], "
             "\\\"input\\\": {\\\"repo\\\": \\\"data\\\"}}]}\"}",
             image);
    does(200, "POST", "/api/v1/pipelines", body);
    begin_job();
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, make_images, NULL, &err));
    o = ask_json(200, "GET", "/api/v1/jobs/default/train/01234567", NULL);
    assert_int_equal(json_array_size(json_object_get(o, "images")), 2);
    assert_int_equal(json_array_size(json_object_get(o, "warnings")), 1);
    json_decref(o);
}

static int setup(void **state)
{
    int r = api_setup(state);

    api_engine.job_live = job_live_that_reads;
    return r;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(live_figures_are_asked_for_with_no_reader_held),
        TEST(who_waits_for_a_run_does_not_hold_the_loop),
        TEST(a_page_may_end_between_two_attempts_at_a_datum),
        TEST(what_is_no_place_in_a_list_is_refused),
        TEST(failures_that_say_the_same_are_one_group),
        TEST(a_job_that_waits_for_a_place_needs_attention),
        TEST(a_group_has_its_datums_in_pages),
        TEST(a_job_is_told_whatever_its_images_are_called),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
