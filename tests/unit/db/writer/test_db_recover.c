// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/dataset/log storage/pack storage/store storage/system storage/tree storage/tree_edit
/* recover: the store alone gives back every logged record, with checkpoints and without, whatever is broken of them; what is missing from
 * the log is named, not left out. */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/tx/access_tx.h"
#include "pipelined/db/writer/db_recover.h"
#include "pipelined/db/writer/db_snapshot.h"
#include "storage/base/clock.h"
#include "storage/dataset/log/log_checkpoint.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct pl_err err = {0};

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    w->dir = fixture_dir();
    assert_ok(world_open(w, "data", &err), &err);
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

static uint64_t checkpoint(struct world *w)
{
    char dir[PATH_MAX];
    struct pl_snapshot_options o = {.dir = dir};
    struct pl_err err = {0};
    uint64_t seq = 0;

    snprintf(dir, sizeof dir, "%s/data", w->dir);
    assert_ok(pl_db_checkpoint(w->db, &o, &seq, &err), &err);
    return seq;
}

static void steps(struct world *w, size_t from, size_t to)
{
    struct pl_err err = {0};

    for (size_t i = from; i < to; i++)
        assert_ok(world_step(w, i, &err), &err);
}

static void flip(struct world *w, const char *key, off_t at)
{
    const char *path = fixture_path(w->dir, "store");
    char name[PATH_MAX];
    uint8_t byte;
    int fd;

    snprintf(name, sizeof name, "%s/%s", path, key);
    fd = open(name, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void remove_object(struct world *w, const char *key)
{
    struct pl_err err = {0};

    assert_ok(pl_object_remove(w->objects, key, &err), &err);
}

/* Another machine comes to the same state and tables, from checkpoint `from` (0: none), having passed over so many. */
static void assert_recovers(struct world *w, uint64_t from, unsigned passed_over)
{
    struct world other = {.dir = w->dir};
    static unsigned n;
    char *was = world_logged_tables(w), *state = world_state(w), *is, data[32];
    struct pl_err err = {0};
    const struct pl_recover_report *report;

    world_close(w);
    snprintf(data, sizeof data, "other%u", n++);
    assert_ok(world_open(&other, data, &err), &err);
    report = pl_db_recovered(other.db);
    assert_true(report->recovered);
    assert_int_equal(report->ckpt_seq, from);
    assert_int_equal(report->passed_over, passed_over);
    assert_int_equal(report->log_seq + 1, pl_db_log_seq(other.db)); /* and its own open_epoch */
    is = world_logged_tables(&other);
    assert_string_equal(is, was);
    free(is);
    is = world_state(&other);
    assert_string_equal(is, state);
    world_fsck(&other);
    world_close(&other);
    free(was);
    free(state);
    free(is);
    assert_ok(world_open(w, "data", &err), &err); /* the fenced one catches up: its log is the same */
}

static void test_the_log_alone_gives_all(void **state)
{
    struct world *w = *state;

    steps(w, 0, STEPS);
    assert_recovers(w, 0, 0);
}

static void test_a_checkpoint_after_each_step_and_the_log_after_it_give_all(void **state)
{
    struct world *w = *state;
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    struct pl_err err = {0};

    for (size_t i = 0; i < STEPS; i++) {
        uint64_t seq;

        steps(w, i, i + 1);
        seq = checkpoint(w);
        if (i % 5 == 3 || i + 1 == STEPS)
            assert_recovers(w, seq, 0);
    }
    assert_int_equal(pl_log_checkpoint_list(w->objects, seqs, &err), PL_LOG_CHECKPOINT_KEPT);
}

static void test_every_place_for_the_only_checkpoint_gives_the_same(void **state)
{
    struct world *w = *state;

    for (size_t k = 1; k < STEPS; k += 4) {
        uint64_t seq;
        struct pl_err err = {0};

        world_close(w);
        assert_int_equal(pl_io_remove_tree(w->dir, NULL), 0);
        assert_int_equal(mkdir(w->dir, 0700), 0);
        assert_ok(world_open(w, "data", &err), &err);
        steps(w, 0, k);
        seq = checkpoint(w);
        steps(w, k, STEPS);
        assert_recovers(w, seq, 0);
    }
}

/* ---- who may, and what is collected ---- */

static int64_t number(struct world *w, const char *sql)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    int64_t n = -1;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &n, sql, ""), 0);
    return n;
}

#define AUDIT ((struct pl_audit){"test", "", "", "verb", "target"})

static void set_user(struct world *w, const char *name, bool create, json_t *roles)
{
    struct pl_user_args args = {.name = name, .roles = roles, .project_roles_max = 8, .create = create, .audit = AUDIT};
    struct pl_err err = {0};

    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_user_set, &args, &err), &err);
    json_decref(roles);
}

static void credential(struct world *w, pl_tx_fn tx, const char *user, const char *name)
{
    struct pl_credential_args args = {.access_key = name,
                                      .sealed = "sealed",
                                      .sealed_len = 6,
                                      .user = user,
                                      .name = name,
                                      .role = "writer",
                                      .scope = "vision",
                                      .expires_us = 7,
                                      .audit = AUDIT};
    struct pl_err err = {0};

    pl_hash_sha256(name, strlen(name), &args.hash);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, tx, &args, &err), &err);
}

static void collect(struct world *w, const char *pack, const char *state)
{
    struct pl_gc_change change = {.state = state};
    struct pl_gc_tx_args args = {.project = "default", .changes = &change, .n = 1};
    struct pl_err err = {0};

    pl_hash_sha256(pack, strlen(pack), &change.pack);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pack_state, &args, &err), &err);
    assert_true(change.done);
}

#define ACCESS_STEPS 14u

static void access_step(struct world *w, size_t step)
{
    struct pl_user_args ben = {.name = "ben", .audit = AUDIT};
    struct pl_err err = {0};

    switch (step) {
    case 0:
        return set_user(w, "ada", true, json_pack("[[s, s], [s, s]]", "", "reader", "vision", "writer"));
    case 1:
        return set_user(w, "ben", true, json_pack("[]"));
    case 2:
        return credential(w, pl_tx_token_create, "ada", "laptop");
    case 3:
        return credential(w, pl_tx_token_create, "ben", "goes with ben");
    case 4:
        return credential(w, pl_tx_token_create, "ada", "taken back");
    case 5:
        return credential(w, pl_tx_s3_key_create, "ada", "KEY1");
    case 6:
        return credential(w, pl_tx_s3_key_create, "ada", "KEY2");
    case 7:
        return set_user(w, "ada", false, json_pack("[[s, s], [s, s]]", "", "none", "default/in", "admin"));
    case 8:
        return credential(w, pl_tx_token_delete, "ada", "taken back");
    case 9:
        return credential(w, pl_tx_s3_key_delete, "ada", "KEY2");
    case 10:
        collect(w, "lives again", PL_PACK_CONDEMNED);
        return collect(w, "is condemned", PL_PACK_CONDEMNED);
    case 11:
        collect(w, "is doomed", PL_PACK_CONDEMNED);
        return collect(w, "is doomed", PL_PACK_DOOMED);
    case 12:
        return collect(w, "lives again", PL_PACK_REVIVED);
    default:
        assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_user_delete, &ben, &err), &err);
    }
}

static void test_users_tokens_keys_and_states_of_packs_come_back(void **state)
{
    struct world *w = *state;

    for (size_t k = 0; k <= ACCESS_STEPS; k += 7) {
        struct pl_err err = {0};
        uint64_t seq = 0;

        world_close(w);
        assert_int_equal(pl_io_remove_tree(w->dir, NULL), 0);
        assert_int_equal(mkdir(w->dir, 0700), 0);
        assert_ok(world_open(w, "data", &err), &err);
        steps(w, 0, 3);
        for (size_t i = 0; i < ACCESS_STEPS; i++) {
            if (i == k)
                seq = checkpoint(w);
            access_step(w, i);
        }
        assert_int_equal(number(w, "SELECT count(*) FROM user"), 1);
        assert_int_equal(number(w, "SELECT count(*) FROM token"), 1);
        assert_int_equal(number(w, "SELECT count(*) FROM s3_key"), 1);
        assert_int_equal(number(w, "SELECT count(*) FROM pack_state"), 2);
        assert_recovers(w, seq, 0);
    }
}

static void test_a_damaged_newest_checkpoint_is_passed_over(void **state)
{
    struct world *w = *state;
    uint64_t first, second, third;
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];

    steps(w, 0, 5);
    first = checkpoint(w);
    steps(w, 5, 9);
    second = checkpoint(w);
    steps(w, 9, 14);
    third = checkpoint(w);
    steps(w, 14, STEPS);
    pl_log_checkpoint_key(third, key);
    flip(w, key, 1000);
    assert_recovers(w, second, 1);
    pl_log_checkpoint_key(second, key);
    flip(w, key, 0);
    assert_recovers(w, first, 2);
    pl_log_checkpoint_key(first, key);
    flip(w, key, 45);
    assert_recovers(w, 0, 3);
}

/* Good in itself, but of another store, or of another log of this one. */
static void test_a_checkpoint_of_another_log_is_passed_over(void **state)
{
    struct world *w = *state;
    struct world elsewhere = {.dir = fixture_dir()};
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_err err = {0};
    struct pl_log_checkpoint_head head;
    struct iovec iov;
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];
    uint64_t seq;

    steps(w, 0, 8);
    assert_ok(world_open(&elsewhere, "data", &err), &err);
    steps(&elsewhere, 0, 5);
    seq = checkpoint(&elsewhere);
    pl_log_checkpoint_key(seq, key);
    assert_ok(pl_object_get_all(elsewhere.objects, key, &bytes, &err), &err);
    iov = (struct iovec){bytes.data, bytes.len};
    assert_ok(pl_object_put(w->objects, key, &iov, 1, true, &err), &err);
    assert_recovers(w, 0, 1);
    world_close(&elsewhere);
    fixture_remove(elsewhere.dir);

    remove_object(w, key);
    seq = checkpoint(w);
    assert_ok(pl_log_checkpoint_get(w->objects, seq, fixture_path(w->dir, "db"), &head, &err), &err);
    pl_log_checkpoint_key(seq, key);
    remove_object(w, key);
    head.log_hash.b[5] ^= 1;
    assert_ok(pl_log_checkpoint_put(w->objects, &head, fixture_path(w->dir, "db"), fixture_path(w->dir, "pressed"), NULL, NULL,
                                    &err),
              &err);
    assert_recovers(w, 0, 1);
}

static void assert_does_not_start(struct world *w, const char *data, const char *text)
{
    struct world other = {.dir = w->dir};
    struct pl_err err = {0};

    assert_int_equal(world_open(&other, data, &err), PL_ELOG);
    if (!strstr(err.msg, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
}

/* What cannot be recovered is refused by name and leaves no database; when it is mended the same call does it. */
static void assert_refused(struct world *w, const char *data, const char *text)
{
    char path[PATH_MAX];

    assert_does_not_start(w, data, text);
    snprintf(path, sizeof path, "%s/%s/pipelined.db", w->dir, data);
    assert_true(access(path, F_OK) < 0);
    snprintf(path, sizeof path, "%s/%s/recover.db", w->dir, data);
    assert_true(access(path, F_OK) < 0);
}

static void move_object(struct world *w, const char *from, const char *to)
{
    char a[PATH_MAX], b[PATH_MAX];

    snprintf(a, sizeof a, "%s/%s", w->dir, from);
    snprintf(b, sizeof b, "%s/%s", w->dir, to);
    assert_int_equal(rename(a, b), 0);
}

static void test_a_gap_in_the_log_is_named(void **state)
{
    struct world *w = *state;
    static const char *const gaps[] = {"log/0000000000000001", "log/0000000000000006"};
    char path[PATH_MAX];

    steps(w, 0, 12);
    for (size_t i = 0; i < PL_ARRAY_SIZE(gaps); i++) {
        char text[64];

        snprintf(path, sizeof path, "store/%s", gaps[i]);
        snprintf(text, sizeof text, "%s is missing", gaps[i]);
        move_object(w, path, "aside");
        assert_refused(w, "gap", text);
        move_object(w, "aside", path);
    }
    assert_recovers(w, 0, 0);
}

/* Not filled by the epoch of the daemon that starts there: the objects behind it would be of another chain then. */
static void test_a_gap_behind_an_older_database_is_named(void **state)
{
    struct world *w = *state, other = {.dir = w->dir};
    struct pl_err err = {0};
    uint64_t seq;

    steps(w, 0, 6);
    world_close(w);
    assert_ok(world_open(&other, "older", &err), &err);
    seq = pl_db_log_seq(other.db);
    world_close(&other);
    assert_ok(world_open(w, "data", &err), &err);
    steps(w, 6, 12);
    for (uint64_t gap = seq + 1; gap < seq + 4; gap++) {
        char key[64], text[PATH_MAX];

        snprintf(key, sizeof key, "store/log/%016llx", (unsigned long long)gap);
        snprintf(text, sizeof text, "log/%016llx is missing", (unsigned long long)gap);
        move_object(w, key, "aside");
        assert_does_not_start(w, "older", text);
        snprintf(text, sizeof text, "%s/%s", w->dir, key);
        assert_true(access(text, F_OK) < 0); /* nothing has taken its place */
        move_object(w, "aside", key);
    }
    assert_ok(world_open(&other, "older", &err), &err);
    world_close(&other);
}

static void test_a_gap_before_the_checkpoint_is_no_reason_and_after_it_is(void **state)
{
    struct world *w = *state;
    uint64_t seq;
    char key[64], text[64];

    steps(w, 0, 8);
    seq = checkpoint(w);
    steps(w, 8, 14);
    move_object(w, "store/log/0000000000000003", "aside");
    assert_recovers(w, seq, 0);
    snprintf(key, sizeof key, "store/log/%016llx", (unsigned long long)seq + 2);
    snprintf(text, sizeof text, "log/%016llx is missing", (unsigned long long)seq + 2);
    move_object(w, key, "aside2");
    assert_refused(w, "gap", text);
}

static void test_a_checkpoint_newer_than_the_log_is_refused(void **state)
{
    struct world *w = *state;
    char text[64], key[64];
    uint64_t seq;

    steps(w, 0, 8);
    seq = checkpoint(w);
    snprintf(key, sizeof key, "store/log/%016llx", (unsigned long long)seq);
    move_object(w, key, "aside");
    snprintf(text, sizeof text, "log/%016llx is missing", (unsigned long long)seq);
    assert_refused(w, "other", text);
    move_object(w, "aside", key);
    assert_recovers(w, seq, 0);
}

static void test_a_damaged_log_object_is_named(void **state)
{
    struct world *w = *state;

    steps(w, 0, 8);
    flip(w, "log/0000000000000005", 90);
    assert_refused(w, "other", "log/0000000000000006"); /* which names another hash of the one before */
}

/* ---- what is not logged ---- */

static int script(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_sql_script(pl_tx_conn(tx), arg, err);
}

static void unlogged(struct world *w, const char *sql)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(w->db, PL_TX_UNLOGGED, script, (void *)(uintptr_t)sql, &err), &err);
}

static void open_other(struct world *w, struct world *other)
{
    struct pl_err err = {0};

    world_close(w);
    *other = (struct world){.dir = w->dir};
    assert_ok(world_open(other, "other", &err), &err);
}

static void test_attempts_and_events_are_those_of_the_checkpoint(void **state)
{
    struct world *w = *state;
    struct world other;
    int64_t newest;

    steps(w, 0, 13);
    unlogged(
        w,
        "INSERT INTO attempt(job, datum, attempt, state, finished_us) SELECT id, x'01', 1, 'failed', 5 FROM job;"
        "INSERT INTO event(at_us, type, data) VALUES (1, 'test', '{}'), (2, 'test', '{}');"
        "INSERT INTO worker(stage, created_us) VALUES (1, 1);"
        "INSERT INTO session(id, project, kind, opened_seq, lease_us) VALUES ('00112233445566778899aabbccddeeff', 'default',"
        " 'write', 1, 1);"
        "INSERT INTO log_segment(job, id, worker, blob, file, raw_bytes, created_us) SELECT id, 0, '', NULL, 'x', 1, 1 FROM job;"
        "INSERT INTO log_segment(job, id, worker, blob, raw_bytes, created_us) SELECT id, 1, '', zeroblob(32), 1, 1 FROM job");
    checkpoint(w);
    unlogged(w, "INSERT INTO attempt(job, datum, attempt, state, finished_us) SELECT id, x'02', 1, 'failed', 5 FROM job;"
                "INSERT INTO event(at_us, type, data) VALUES (3, 'later', '{}')");
    steps(w, 13, STEPS);
    newest = number(w, "SELECT max(id) FROM event");
    open_other(w, &other);
    assert_int_equal(number(&other, "SELECT count(*) FROM attempt"), 1);
    assert_int_equal(number(&other, "SELECT count(*) FROM event WHERE type = 'test'"), 2);
    assert_int_equal(number(&other, "SELECT count(*) FROM event WHERE type = 'later'"), 0);
    assert_true(number(&other, "SELECT id FROM event WHERE type = 'recovered'") > newest); /* no id comes twice */
    assert_int_equal(number(&other, "SELECT count(*) FROM worker"), 0);
    assert_int_equal(number(&other, "SELECT count(*) FROM session"), 0);
    assert_int_equal(number(&other, "SELECT count(*) FROM log_segment"), 1);
    world_close(&other);
}

static void test_a_job_that_ended_with_its_run_since_is_not_under_way(void **state)
{
    struct world *w = *state;
    struct world other;

    steps(w, 0, 12); /* the run of the pipeline's second version is open */
    unlogged(
        w, "INSERT INTO job(run, project, stage, version, pipeline, state, created_us) SELECT id, 'default', 'train', 2, 'flow',"
           " 'running', 1 FROM run WHERE state = 'running' ORDER BY ord DESC LIMIT 1;"
           "INSERT INTO result(job, id, rows) SELECT id, 0, x'00' FROM job WHERE stage = 'train'");
    checkpoint(w);
    assert_int_equal(number(w, "SELECT count(*) FROM job WHERE final = 0"), 1);
    unlogged(w, "DELETE FROM job WHERE stage = 'train'"); /* as its end would */
    steps(w, 12, 14);
    open_other(w, &other);
    assert_int_equal(number(&other, "SELECT count(*) FROM job WHERE final = 0"), 0);
    assert_int_equal(number(&other, "SELECT count(*) FROM result"), 0);
    assert_int_equal(number(&other, "SELECT count(*) FROM job WHERE final = 1"), 1);
    world_close(&other);
}

/* ---- secrets ---- */

static bool holds(const struct pl_buf *bytes, const char *needle)
{
    return memmem(bytes->data, bytes->len, needle, strlen(needle)) != NULL;
}

static void test_no_secret_leaves_in_a_checkpoint(void **state)
{
    struct world *w = *state;
    _cleanup_(pl_buf_finish) struct pl_buf raw = {0};
    const struct pl_recover_report *report;
    struct world other;
    struct pl_log_checkpoint_head head;
    struct pl_err err = {0};
    const json_t *text;
    bool told = false;
    uint64_t seq;
    size_t i;

    steps(w, 0, 3);
    unlogged(
        w,
        "INSERT INTO user(name, created_us) VALUES ('ada', 1);"
        "INSERT INTO token(hash, user, role, created_us) VALUES (CAST('a-token-hash-that-stays' AS BLOB), 'ada', 'admin', 1);"
        "INSERT INTO s3_key(access_key, user, role, created_us) VALUES ('KEY1', 'ada', 'admin', 1), ('KEY2', 'ada', 'admin', 1);"
        "INSERT INTO s3_secret(access_key, sealed) VALUES ('KEY1', CAST('sealed-secret-one' AS BLOB)),"
        " ('KEY2', CAST('sealed-secret-two' AS BLOB))");
    unlogged(w, "DELETE FROM s3_key WHERE access_key = 'KEY2'"); /* its secret goes with it; the bytes lie in a free cell still */
    seq = checkpoint(w);
    assert_ok(pl_log_checkpoint_get(w->objects, seq, fixture_path(w->dir, "db"), &head, &err), &err);
    assert_ok(pl_io_read_file(fixture_path(w->dir, "db"), &raw, &err), &err);
    assert_true(holds(&raw, "a-token-hash-that-stays"));
    assert_true(holds(&raw, "KEY1"));
    assert_false(holds(&raw, "sealed-secret"));
    open_other(w, &other);
    report = pl_db_recovered(other.db);
    json_array_foreach(report->anew, i, text)
    {
        told =
            told || pl_streq(json_string_value(text), "S3 key without its secret (make a new one with create s3-key): ada/KEY1");
    }
    assert_true(told);
    assert_int_equal(number(&other, "SELECT length(sealed) FROM s3_secret WHERE access_key = 'KEY1'"), 0);
    assert_int_equal(number(&other, "SELECT json_array_length(value, '$.anew') FROM meta WHERE key = 'recovered'"), 3);
    world_close(&other);
}

/* ---- while the writer writes ---- */

struct busy {
    struct world *w;
    atomic_bool stop;
    unsigned made;
};

static void *keep_writing(void *arg)
{
    struct busy *b = arg;

    for (; !atomic_load(&b->stop); b->made++) {
        char name[24];
        struct pl_repo_args a = {.project = "default", .name = name};
        struct pl_err err;

        snprintf(name, sizeof name, "r%u", b->made);
        if (pl_db_run(b->w->db, PL_TX_LOGGED, pl_tx_repo_create, &a, &err) < 0)
            break;
    }
    return NULL;
}

static void test_a_checkpoint_beside_a_busy_writer_is_one_state_of_the_log(void **state)
{
    struct world *w = *state;
    struct busy busy = {.w = w};
    pthread_t thread;
    uint64_t seq = 0;

    steps(w, 0, 1);
    unlogged(w, "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                " INSERT INTO event(at_us, type, data) SELECT i, 'filler', json_object('n', hex(randomblob(100))) FROM n");
    assert_int_equal(pthread_create(&thread, NULL, keep_writing, &busy), 0);
    for (int i = 0; i < 5; i++)
        seq = checkpoint(w);
    atomic_store(&busy.stop, true);
    pthread_join(thread, NULL);
    assert_true(busy.made > 5);
    assert_recovers(w, seq, 0);
}

struct giving_up {
    unsigned asked, after;
};

static bool after_some(void *arg)
{
    struct giving_up *g = arg;

    return ++g->asked > g->after;
}

static void test_a_checkpoint_that_is_given_up_leaves_nothing(void **state)
{
    struct world *w = *state;
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX], seq;
    struct pl_err err = {0};
    char dir[PATH_MAX];
    size_t files;

    steps(w, 0, 3);
    snprintf(dir, sizeof dir, "%s/scratch", w->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (unsigned after = 0; after < 2; after++) {
        struct giving_up g = {.after = after};
        struct pl_snapshot_options o = {.dir = dir, .stop = after_some, .arg = &g};

        assert_int_equal(pl_db_checkpoint(w->db, &o, &seq, &err), PL_ECANCELED);
        files = fixture_count(dir);
        assert_int_equal(files, 0);
        assert_int_equal(pl_log_checkpoint_list(w->objects, seqs, &err), 0);
    }
    steps(w, 3, 5); /* no reader was kept */
    checkpoint(w);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_log_alone_gives_all),
        TEST(test_a_checkpoint_after_each_step_and_the_log_after_it_give_all),
        TEST(test_every_place_for_the_only_checkpoint_gives_the_same),
        TEST(test_users_tokens_keys_and_states_of_packs_come_back),
        TEST(test_a_damaged_newest_checkpoint_is_passed_over),
        TEST(test_a_checkpoint_of_another_log_is_passed_over),
        TEST(test_a_gap_in_the_log_is_named),
        TEST(test_a_gap_behind_an_older_database_is_named),
        TEST(test_a_gap_before_the_checkpoint_is_no_reason_and_after_it_is),
        TEST(test_a_checkpoint_newer_than_the_log_is_refused),
        TEST(test_a_damaged_log_object_is_named),
        TEST(test_attempts_and_events_are_those_of_the_checkpoint),
        TEST(test_a_job_that_ended_with_its_run_since_is_not_under_way),
        TEST(test_no_secret_leaves_in_a_checkpoint),
        TEST(test_a_checkpoint_beside_a_busy_writer_is_one_state_of_the_log),
        TEST(test_a_checkpoint_that_is_given_up_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
