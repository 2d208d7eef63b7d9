// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* check: fsck of a whole store: what the database needs of each project, the log, and going on where it was interrupted. */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/writer/db_fsck.h"
#include "storage/base/clock.h"

#include <fcntl.h>

struct fixture {
    struct world w;
    char note[PATH_MAX];
    struct pl_db_fsck how;
    /* What the check has said. */
    size_t findings;
    char what[8192];
    unsigned asked, stop_after; /* 0 = never */
};

/* The world's pipelines name the hashes of their specs; here they are in the store as well, as a daemon would have put them. */
static void put_specs(struct fixture *f)
{
    static const char *const specs[] = {"prepare", "prepare train"};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink;
    struct pl_store *store;
    struct pl_err err = {0};
    struct pl_hash id;

    assert_ok(pl_project_stores_get(f->w.stores, "default", &store, &err), &err);
    sink = pl_store_sink(store);
    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(specs); i++)
        assert_ok(pl_pack_builder_add(session, PL_REC_BLOB, specs[i], strlen(specs[i]), &id, &err), &err);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pl_err err = {0};

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    f->w.dir = fixture_dir();
    assert_ok(world_open(&f->w, "data", &err), &err);
    for (size_t i = 0; i < 14; i++) /* before the pipeline goes */
        assert_ok(world_step(&f->w, i, &err), &err);
    put_specs(f);
    snprintf(f->note, sizeof f->note, "%s/fsck.json", f->w.dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    world_close(&f->w);
    fixture_remove(f->w.dir);
    free(f);
    return 0;
}

static int on_finding(void *self, const struct pl_fsck_finding *finding, struct pl_err *err)
{
    struct fixture *f = self;
    size_t used = strlen(f->what);

    (void)err;
    f->findings++;
    snprintf(f->what + used, sizeof f->what - used, "[%s %s %s]", finding->commit ? finding->commit : "",
             finding->path ? finding->path : "", finding->object ? finding->object : "");
    return 0;
}

static bool on_stop(void *self)
{
    struct fixture *f = self;

    return f->stop_after && ++f->asked > f->stop_after;
}

static int check(struct fixture *f, bool anew, struct pl_fsck_report *sum, struct pl_err *err)
{
    struct pl_db_fsck how = {.stores = f->w.stores,
                             .db = f->w.db,
                             .full = true,
                             .anew = anew,
                             .note_path = f->note,
                             .threads = 1,
                             .finding = on_finding,
                             .stop = on_stop,
                             .self = f};

    f->findings = 0;
    f->what[0] = '\0';
    f->asked = 0;
    *sum = (struct pl_fsck_report){0};
    return pl_db_fsck_run(&how, sum, err);
}

static struct pl_fsck_report check_whole(struct fixture *f)
{
    struct pl_fsck_report sum;
    struct pl_err err = {0};

    f->stop_after = 0;
    assert_ok(check(f, false, &sum, &err), &err);
    return sum;
}

static struct pl_hash hash_at(struct fixture *f, const char *sql)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

    assert_int_equal(pl_sql_query(rd.conn, NULL, &rows, sql, ""), 0);
    assert_int_equal(pl_sql_next(rd.conn, &rows, NULL), 1);
    return pl_col_hash(&rows, 0);
}

/* One bit in the middle of the record's bytes. */
static void flip_record(struct fixture *f, const char *project, const struct pl_hash *id)
{
    struct pl_location at;
    struct pl_store *store;
    char key[PL_PACK_KEY_BYTES], path[PATH_MAX];
    struct pl_err err = {0};
    uint8_t byte;
    off_t offset;
    int fd;

    assert_ok(pl_project_stores_get(f->w.stores, project, &store, &err), &err);
    assert_ok(pl_store_locate(store, id, &at, &err), &err);
    snprintf(path, sizeof path, "%s/store/%s", f->w.dir, pl_pack_key(project, &at.pack, key));
    offset = at.offset + PL_PACK_RECORD_BYTES + at.stored / 2;
    assert_int_equal(chmod(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

static void a_good_store_has_no_findings(void **state)
{
    struct fixture *f = *state;
    struct pl_fsck_report sum = check_whole(f);

    assert_int_equal(sum.findings, 0);
    assert_int_equal(sum.commits, 5);
    assert_true(sum.blobs >= 4); /* the user's and the effective spec of two versions */
    assert_true(sum.records > 0);
    assert_true(sum.log_objects >= 15);
    assert_true(access(f->note, F_OK) < 0);
}

static void a_damaged_spec_is_named_by_its_pipeline(void **state)
{
    struct fixture *f = *state;
    struct pl_hash spec = hash_at(f, "SELECT user_spec FROM pipeline_version WHERE version = 2");

    flip_record(f, "default", &spec);
    check_whole(f);
    assert_non_null(strstr(f->what, "spec of pipeline default/flow version 2"));
    assert_null(strstr(f->what, "digits@"));
}

static int script(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_sql_script(pl_tx_conn(tx), arg, err);
}

static void a_lost_stage_log_and_lost_code_are_named(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};

    assert_ok(pl_db_run(f->w.db, PL_TX_UNLOGGED, script,
                        (char[]){"INSERT INTO log_segment(job, id, worker, blob, raw_bytes, created_us)"
                                 " SELECT id, 0, '', randomblob(32), 1, 1 FROM job;"
                                 "UPDATE stage SET code_root = randomblob(32) WHERE current = 1 AND name = 'train'"},
                        &err),
              &err);
    check_whole(f);
    assert_non_null(strstr(f->what, "log of default/prepare in run "));
    assert_non_null(strstr(f->what, "code of stage default/train version 2"));
}

static void a_missing_log_object_is_found(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};

    assert_ok(pl_object_remove(f->w.objects, "log/0000000000000004", &err), &err);
    check_whole(f);
    assert_non_null(strstr(f->what, "log/0000000000000004"));
}

static void an_interrupted_check_goes_on_and_tells_all_findings_in_the_end(void **state)
{
    struct fixture *f = *state;
    struct pl_hash spec = hash_at(f, "SELECT effective_spec FROM pipeline_version WHERE version = 1");
    uint64_t all, most = 0;
    bool ended = false;

    flip_record(f, "default", &spec);
    all = check_whole(f).packs;
    assert_int_equal(f->findings, 3); /* the record, and whose it is, as written and in effect */
    for (unsigned n = 1; !ended; n++) {
        struct pl_fsck_report sum;
        struct pl_err err = {0};

        f->stop_after = n;
        ended = check(f, true, &sum, &err) == 0;
        if (ended)
            break;
        assert_int_equal(err.code, PL_ECANCELED);
        sum = check_whole(f);
        assert_int_equal(f->findings, 3);
        assert_int_equal(sum.packs + sum.earlier, all);
        assert_true(access(f->note, F_OK) < 0);
        most = PL_MAX(most, sum.earlier);
    }
    assert_true(most > all / 2);
}

static void a_note_of_another_store_or_of_long_ago_is_not_gone_on_with(void **state)
{
    static const char *const ids[] = {"00000000000000000000000000000000", NULL};
    struct fixture *f = *state;
    struct pl_err err = {0};

    for (unsigned i = 0; i < 2; i++) {
        int64_t days = i == 0 ? 0 : PL_DB_FSCK_NOTE_DAYS + 1;
        char text[512];
        int n = snprintf(text, sizeof text,
                         "{\"store\":\"%s\",\"began_us\":%lld,\"projects\":{\"default\":{\"after\":\"%064d\",\"bad\":[]}}}",
                         ids[i] ? ids[i] : pl_db_store_id(f->w.db), (long long)(pl_clock_wall_us() - days * 86400 * 1000000), 0);

        memset(strstr(text, "after") + 8, 'f', 64);
        assert_ok(pl_io_write_file(f->note, text, (size_t)n, 0600, &err), &err);
        assert_int_equal(check_whole(f).earlier, 0);
        assert_true(access(f->note, F_OK) < 0);
    }
    assert_ok(pl_io_write_file(f->note, "{\"store\":", 9, 0600, &err), &err);
    assert_int_equal(check_whole(f).earlier, 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_good_store_has_no_findings),
        TEST(a_damaged_spec_is_named_by_its_pipeline),
        TEST(a_lost_stage_log_and_lost_code_are_named),
        TEST(a_missing_log_object_is_found),
        TEST(an_interrupted_check_goes_on_and_tells_all_findings_in_the_end),
        TEST(a_note_of_another_store_or_of_long_ago_is_not_gone_on_with),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
