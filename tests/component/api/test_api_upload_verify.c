// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/db/writer pipelined/net/http_client pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/pack storage/s3 storage/store storage/system storage/tree_edit s3_mock
/* What was put into the bucket beside the daemon is read back: what that changes, and what becomes of a pack that lies. */
#include "tests/support/fixtures/presigned_fixture.h"

#include "pipelined/db/writer/db_open.h"
#include "pipelined/db/writer/log_epoch.h"
#include "storage/base/clock.h"
#include "storage/s3/s3_client.h"

#include <stdatomic.h>

/* ---- a pack that lies ---- */

static json_t *quarantine_event(void)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t.db);
    _cleanup_free_ char *text = NULL;
    json_t *o;

    MUST(pl_sql_text(rd.conn, &err, &text, "SELECT data FROM event WHERE type = 'pack.quarantined'", ""));
    o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

/* A byte of a record is another than its id says; all else of the pack is true, and its writer signs for what it holds. */
static void make_liar(struct pack *p, const char *content)
{
    make_pack(p, "default", content);
    p->bytes.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;
}

static void a_pack_that_lies_is_quarantined_and_who_needs_it_is_told(void **state)
{
    static const char content[] = "a text that is longer than what is kept within a tree, so that it is a chunk of its own";
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_tree_ops_writer w = {0};
    char session[64], target[256];
    struct pl_entry entry;
    struct pack p;
    struct answer a;
    json_t *o;

    (void)state;
    make_repo("data");
    open_session(session);
    make_liar(&p, content);
    assert_int_equal(put_signed(&p, session), 200);
    /* the read-back cannot begin before the commit is there */
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = p.hex, .skip = 1});
    assert_int_equal(tell(&p, session), 201);
    entry = pl_entry_chunk(PL_KIND_FILE, sizeof content - 1, &p.chunk);
    MUST(pl_tree_ops_writer_init(&w, &ops, &err));
    MUST(pl_tree_ops_writer_put(&w, "hurt", 4, &entry, &err));
    MUST(pl_tree_ops_writer_end(&w, &err));
    pl_tree_ops_writer_finish(&w);
    snprintf(target, sizeof target, REPO "/branches/master/commits?session=%s", session);
    a = ask_with("POST", target, AS_USER, ops.data, ops.len);
    assert_int_equal(a.status, 201);
    answer_free(&a);
    a = ask("GET", REPO "/refs/master/files/hurt", NULL); /* verified on every read */
    assert_true(a.status >= 500 || a.len == 0 || !memmem(a.body, a.len, content, sizeof content - 1));
    answer_free(&a);
    s3_mock_chaos(mock, 0, 0); /* no more faults */
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    object_is(&p, "p", false);
    object_is(&p, "q", true);
    assert_false(has_as(AS_USER, &p.chunk, session));
    o = quarantine_event();
    assert_string_equal(text_at(o, "pack"), p.hex);
    assert_string_equal(text_at(o, "writer"), "worker 7 of worked");
    assert_int_equal(number_at(o, "bad_records"), 1);
    assert_int_equal(number_at(o, "hurt"), 1);
    assert_non_null(strstr(json_string_value(json_array_get(json_object_get(o, "files"), 0)), "hurt"));
    json_decref(o);
    o = ask_json(200, "POST", "/api/v1/fsck", NULL);
    assert_false(json_is_true(json_object_get(o, "ok")));
    json_decref(o);
    pl_buf_finish(&p.bytes);

    make_pack(&p, "default", content); /* brought again, the commit is whole */
    assert_int_equal(put_signed(&p, session), 200);
    assert_int_equal(tell(&p, session), 201);
    a = ask("GET", REPO "/refs/master/files/hurt", NULL);
    assert_int_equal(a.status, 200);
    assert_true(a.len == sizeof content - 1 && memcmp(a.body, content, a.len) == 0);
    answer_free(&a);
    all_are_read_back();
    o = ask_json(200, "POST", "/api/v1/fsck", NULL);
    assert_true(json_is_true(json_object_get(o, "ok")));
    json_decref(o);
    pl_buf_finish(&p.bytes);
}

/* Whether the newest request was about this. */
static bool recent_is(const char *part)
{
    char recent[256];

    s3_mock_request(mock, s3_mock_requests(mock, NULL) - 1, recent, sizeof recent);
    return strstr(recent, part);
}

/* Twice in a row an answer of the bucket holds other bytes than the bucket. */
static void what_is_damaged_on_the_way_condemns_no_pack(void **state)
{
    char session[64];
    struct pack p;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_FLIP,
                                          .method = "GET",
                                          .key = p.hex,
                                          .skip = 1,
                                          .times = 2,
                                          .bytes = PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES});
    assert_int_equal(tell(&p, session), 201);
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 0);
    assert_int_equal(of_packs("read_back"), 1);
    object_is(&p, "p", true);
    object_is(&p, "q", false);
    json_decref(get_url(&p, 80, 30)); /* it is known */
    pl_buf_finish(&p.bytes);
}

/* What is true of a pack that lies is read from it until its bytes are in safety. */
static void a_pack_that_cannot_be_set_aside_stays_where_it_is(void **state)
{
    char session[64];
    struct pack p;

    (void)state;
    open_session(session);
    make_liar(&p, "what the chunk holds");
    assert_int_equal(put_signed(&p, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .key = "/x/q/"});
    assert_int_equal(tell(&p, session), 201);
    for (unsigned i = 0; !recent_is("/x/q/"); i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
    json_decref(get_url(&p, 80, 30));
    object_is(&p, "p", true);
    s3_mock_chaos(mock, 0, 0);
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    object_is(&p, "q", true);
    object_is(&p, "p", false);
    pl_buf_finish(&p.bytes);
}

static void nobody_else_is_told_of_what_was_not_read_back(void **state)
{
    char mine[64], theirs[64];
    struct pack p;

    (void)state;
    open_session(mine);
    open_session(theirs);
    make_pack(&p, "default", "what the chunk holds");
    assert_int_equal(put_signed(&p, mine), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = p.hex, .skip = 1});
    assert_int_equal(tell(&p, mine), 201);
    assert_true(has_as(AS_USER, &p.chunk, mine));
    assert_false(has_as(AS_USER, &p.chunk, theirs));
    s3_mock_chaos(mock, 0, 0);
    all_are_read_back();
    assert_true(has_as(AS_USER, &p.chunk, theirs));
    pl_buf_finish(&p.bytes);
}

static const char long_text[] = "a text that is longer than what is kept within a tree, so that it is a chunk of its own";

/* Until faults are taken away (s3_mock_chaos) what is told of this pack is not read back. */
static void hold_read_back(const struct pack *p)
{
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = p->hex, .skip = 1});
}

static void reads_as(const char *path, const char *content)
{
    char target[160];
    struct answer a;

    snprintf(target, sizeof target, REPO "/refs/master/files/%s", path);
    a = ask("GET", target, NULL);
    assert_int_equal(a.status, 200);
    assert_true(a.len == strlen(content) && memcmp(a.body, content, a.len) == 0);
    answer_free(&a);
}

/* The bytes come to the daemon, which has them from nobody but who may lie: as a commit of its own, and into an open one. */
static void the_daemons_own_writers_do_not_rely_on_what_was_not_read_back(void **state)
{
    char session[64], target[256];
    struct pack p;
    json_t *o;

    (void)state;
    make_repo("data");
    for (int open = 0; open < 2; open++) {
        char text[sizeof long_text + 8], path[16];

        snprintf(text, sizeof text, "%s %d", long_text, open);
        snprintf(path, sizeof path, "file%d", open);
        open_session(session);
        make_liar(&p, text);
        assert_int_equal(put_signed(&p, session), 200);
        hold_read_back(&p);
        assert_int_equal(tell(&p, session), 201);
        assert_true(has_as(AS_USER, &p.chunk, session));
        if (open) {
            o = ask_json(201, "POST", REPO "/branches/master/open", "{}");
            snprintf(target, sizeof target, REPO "/open/%s/files/%s", text_at(o, "id"), path);
            does(202, "PUT", target, text);
            snprintf(target, sizeof target, REPO "/open/%s/finish", text_at(o, "id"));
            json_decref(o);
            does(201, "POST", target, "{}");
        } else {
            assert_true(put_text("data@master", path, text, NULL));
        }
        s3_mock_chaos(mock, 0, 0);
        all_are_read_back();
        assert_int_equal(of_packs("quarantined"), open + 1);
        reads_as(path, text);
        pl_buf_finish(&p.bytes);
    }
}

static void put_through(const struct pack *p, const char *session)
{
    char target[256];
    struct answer a;

    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s", p->hex, session);
    a = ask_with("PUT", target, AS_USER, p->bytes.data, p->bytes.len);
    if (a.status != 201)
        fail_msg("PUT of a pack: %d %.300s", a.status, a.body);
    answer_free(&a);
}

/* The liar as it would be if it did not lie: by their footers they are the same pack. */
static void make_true(struct pack *p)
{
    p->bytes.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;
}

/* Whether the daemon was told of the lie or not, and whether it is taken out just then: it cannot be set aside for a while. */
static void a_lie_goes_when_the_truth_comes(void **state)
{
    char session[64];
    struct pack p;

    (void)state;
    for (int told = 0; told < 3; told++) {
        char text[64];

        snprintf(text, sizeof text, "what the chunk holds %d", told);
        open_session(session);
        make_liar(&p, text);
        assert_int_equal(put_signed(&p, session), 200);
        s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .key = "/x/q/"});
        if (told == 1)
            hold_read_back(&p);
        if (told)
            assert_int_equal(tell(&p, session), 201);
        for (unsigned i = 0; told == 2 && !recent_is("/x/q/"); i++) {
            assert_true(i < 6000);
            usleep(10000);
        }
        make_true(&p);
        put_through(&p, session);
        s3_mock_chaos(mock, 0, 0);
        all_are_read_back();
        assert_int_equal(of_packs("quarantined"), 0);
        assert_true(has_as(AS_USER, &p.chunk, session));
        object_is(&p, "p", true);
        pl_buf_finish(&p.bytes);
    }
}

/* The next daemon finds what is in the bucket. */
static void begin_again(void)
{
    char index[128];

    snprintf(index, sizeof index, "%s/index", t.dir);
    MUST(pl_project_stores_open(t.objects, index, &t.stores, &err));
    api_begin();
}

/* The bucket stands still while a pack is read back: who stops the daemon does not wait for it. */
static void a_daemon_that_stops_does_not_wait_for_what_is_read_back(void **state)
{
    const int64_t began_ms = pl_clock_mono_ms();
    char session[64];
    struct pack p;

    (void)state;
    open_session(session);
    make_liar(&p, "what is read back later");
    assert_int_equal(put_signed(&p, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_STALL, .method = "GET", .key = p.hex, .skip = 1});
    assert_int_equal(tell(&p, session), 201);
    for (unsigned i = 0; s3_mock_requests(mock, "GET") < 2 || !recent_is(p.hex); i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
    atomic_store(&t.told, NULL);
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    fixture_await_loop();
    assert_true(pl_clock_mono_ms() - began_ms < PL_S3_STALL_MS - 5000);
    t.api = pl_api_destroy(t.api);
    pl_project_stores_close(t.stores);
    s3_mock_chaos(mock, 0, 0);
    begin_again();
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    pl_buf_finish(&p.bytes);
}

static void what_was_not_read_back_is_read_by_the_next_daemon(void **state)
{
    char session[64];
    struct pack told, untold;

    (void)state;
    open_session(session);
    make_liar(&told, "of which the daemon was told");
    make_liar(&untold, "of which it was not");
    assert_int_equal(put_signed(&told, session), 200);
    assert_int_equal(put_signed(&untold, session), 200);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = told.hex, .skip = 1});
    assert_int_equal(tell(&told, session), 201);
    atomic_store(&t.told, NULL);
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    fixture_await_loop();
    t.api = pl_api_destroy(t.api);
    pl_project_stores_close(t.stores); /* the next one finds the pack in the bucket */
    s3_mock_chaos(mock, 0, 0);
    begin_again();
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 2);
    object_is(&told, "q", true);
    object_is(&untold, "q", true);
    assert_false(has_as(AS_USER, &untold.chunk, session));
    pl_buf_finish(&told.bytes);
    pl_buf_finish(&untold.bytes);
}

static void stop(void)
{
    atomic_store(&t.told, NULL);
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    fixture_await_loop();
    t.api = pl_api_destroy(t.api);
    pl_project_stores_close(t.stores);
}

static atomic_int fatal;

static void note_fatal(void *arg, const struct pl_err *e)
{
    (void)arg;
    atomic_store(&fatal, e->code);
}

/* The other daemon may have got the truth under that name. */
static void a_daemon_that_was_taken_over_takes_nothing_out(void **state)
{
    struct pl_db_config config = {.dir = t.data, .objects = t.objects, .readers = 4, .fatal = note_fatal, .event = on_event};
    struct pl_log_head head, other;
    char session[64];
    struct pack p;

    (void)state;
    stop();
    t.db = pl_db_close(t.db);
    MUST(pl_db_open(&config, &t.db, &err));
    begin_again();
    open_session(session);
    make_liar(&p, "a lie when it was looked at");
    assert_int_equal(put_signed(&p, session), 200);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t.db);

        MUST(pl_db_read_head(rd.conn, &head, &err));
    }
    MUST(pl_log_epoch_open(t.objects, &head, &other, &err));
    assert_int_equal(tell(&p, session), 201);
    for (unsigned i = 0; atomic_load(&fatal) == 0; i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
    assert_int_equal(atomic_load(&fatal), PL_EFENCED);
    object_is(&p, "p", true);
    pl_buf_finish(&p.bytes);
}

/* What a checkpoint and the log give back says nothing of packs that were put since. */
static void after_a_recovery_all_packs_are_read_back(void **state)
{
    struct pl_db_config config = {.dir = t.data, .objects = t.objects, .readers = 4, .fatal = on_fatal, .event = on_event};
    char session[64], path[160];
    struct pack good, bad;

    (void)state;
    open_session(session);
    make_liar(&bad, "a lie that was not read back");
    make_liar(&good, "the truth");
    make_true(&good);
    assert_int_equal(put_signed(&bad, session), 200);
    assert_int_equal(put_signed(&good, session), 200);
    stop();
    t.db = pl_db_close(t.db);
    snprintf(path, sizeof path, "%s/pipelined.db", t.data);
    assert_int_equal(unlink(path), 0);
    MUST(pl_db_open(&config, &t.db, &err));
    begin_again();
    open_session(session);
    all_are_read_back();
    assert_int_equal(of_packs("quarantined"), 1);
    object_is(&bad, "q", true);
    object_is(&good, "p", true);
    assert_true(has_as(AS_USER, &good.chunk, session));
    assert_false(has_as(AS_USER, &bad.chunk, session));
    stop();
    begin_again(); /* once */
    assert_int_equal(of_packs("unread"), 0);
    pl_buf_finish(&bad.bytes);
    pl_buf_finish(&good.bytes);
}

static char *note_of(const struct pack *p)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t.db);
    char *state = NULL;

    (void)!pl_sql_text(rd.conn, NULL, &state, "SELECT state FROM brought_pack WHERE pack = ?", "h", &p->id);
    return state;
}

/* By a URL, or through the daemon. */
static void what_was_quarantined_may_be_put_again_and_stays_over_starts(void **state)
{
    char session[64], *note;
    struct pack p;

    (void)state;
    for (int beside = 0; beside < 2; beside++) {
        open_session(session);
        make_liar(&p, beside ? "what the chunk holds" : "what another one holds");
        assert_int_equal(put_signed(&p, session), 200);
        assert_int_equal(tell(&p, session), 201);
        all_are_read_back();
        object_is(&p, "p", false);
        note = note_of(&p);
        assert_string_equal(note, "quarantined");
        free(note);
        make_true(&p);
        if (beside) {
            assert_int_equal(put_signed(&p, session), 200);
            assert_int_equal(tell(&p, session), 201);
        } else {
            put_through(&p, session);
        }
        all_are_read_back();
        assert_null(note_of(&p));
        for (int again = 0; again < 2; again++) {
            object_is(&p, "p", true);
            open_session(session);
            assert_true(has_as(AS_USER, &p.chunk, session));
            stop();
            begin_again();
            all_are_read_back();
        }
        pl_buf_finish(&p.bytes);
    }
}

static int say_quarantined(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pack *p = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT OR REPLACE INTO brought_pack(project, pack, session, writer, bytes, at_us, state)"
                        " VALUES ('default', ?, '', 'ada', 1, 1, 'quarantined')",
                        "h", &p->id);

    return PL_MIN(r, 0);
}

/* The last daemon ended between saying so and taking it out; or another pack came under its name. Its bytes tell. */
static void what_is_told_to_lie_is_looked_at_before_it_is_taken_out(void **state)
{
    struct pack good, liar;
    char session[64];

    (void)state;
    open_session(session);
    make_pack(&good, "default", "what is true");
    make_liar(&liar, "what is not");
    put_through(&good, session);
    assert_int_equal(put_signed(&liar, session), 200);
    stop();
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, say_quarantined, &good, &err));
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, say_quarantined, &liar, &err));
    begin_again();
    all_are_read_back();
    object_is(&good, "p", true);
    object_is(&liar, "p", false);
    assert_true(has_as(AS_USER, &good.chunk, session));
    assert_null(note_of(&good));
    pl_buf_finish(&good.bytes);
    pl_buf_finish(&liar.bytes);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pack_that_lies_is_quarantined_and_who_needs_it_is_told),
        TEST(what_is_damaged_on_the_way_condemns_no_pack),
        TEST(a_pack_that_cannot_be_set_aside_stays_where_it_is),
        TEST(nobody_else_is_told_of_what_was_not_read_back),
        TEST(the_daemons_own_writers_do_not_rely_on_what_was_not_read_back),
        TEST(a_lie_goes_when_the_truth_comes),
        TEST(a_daemon_that_stops_does_not_wait_for_what_is_read_back),
        TEST(what_was_not_read_back_is_read_by_the_next_daemon),
        TEST(after_a_recovery_all_packs_are_read_back),
        TEST(a_daemon_that_was_taken_over_takes_nothing_out),
        TEST(what_was_quarantined_may_be_put_again_and_stays_over_starts),
        TEST(what_is_told_to_lie_is_looked_at_before_it_is_taken_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
