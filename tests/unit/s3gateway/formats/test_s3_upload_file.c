// link: pipelined/s3gateway/formats storage/base storage/system
/* s3_uploads: uploads in parts that nobody goes on with do not stay in the way of others. */
#include "tests/support/faults/fake_clock.h"
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/s3gateway/formats/s3_error.h"
#include "pipelined/s3gateway/formats/s3_upload_file.h"
#include "storage/base/clock.h"

#include <dirent.h>
#include <unistd.h>

#define DAY_MS  (24LL * 3600 * 1000)
#define DAY_US  (1000 * DAY_MS)
#define REPO    7
#define UPLOADS 20

struct kept {
    char *dir;
    struct pl_s3_upload_files *all;
};

static void begin(struct kept *k)
{
    struct pl_err err;

    k->dir = fixture_dir();
    assert_ok(pl_s3_upload_files_open(k->dir, pl_clock_wall_us(), &k->all, &err), &err);
}

static void end(struct kept *k)
{
    pl_s3_upload_files_close(k->all);
    fixture_remove(k->dir);
}

static int create(struct kept *k, const char *author, int64_t repo_id, int64_t age_us, struct pl_s3_upload **ret,
                  struct pl_err *err)
{
    struct pl_s3_upload_head head = {.project = "default",
                                     .repo = "r",
                                     .branch = "master",
                                     .key = "k",
                                     .author = author,
                                     .repo_id = repo_id,
                                     .created_us = pl_clock_wall_us() - age_us};

    return pl_s3_upload_create(k->all, &head, ret, err);
}

/* Its id; the reference is given back. */
static void make(struct kept *k, const char *author, int64_t repo_id, int64_t age_us, char ret_id[PL_S3_UPLOAD_ID_HEX + 1])
{
    struct pl_s3_upload *u;
    struct pl_err err;

    assert_ok(create(k, author, repo_id, age_us, &u, &err), &err);
    snprintf(ret_id, PL_S3_UPLOAD_ID_HEX + 1, "%s", pl_s3_upload_id(u));
    pl_s3_upload_unref(u);
}

static bool is_there(struct kept *k, const char *id)
{
    char path[4200];
    struct pl_s3_upload *u = NULL;
    int r = pl_s3_upload_find(k->all, "default", "r", "master", "k", id, &u, NULL);

    pl_s3_upload_unrefp(&u);
    snprintf(path, sizeof path, "%s/%s.upload", k->dir, id);
    assert_int_equal(r == 0, access(path, F_OK) == 0);
    return r == 0;
}

static void add_part(struct kept *k, const char *id, int64_t at_us)
{
    struct pl_s3_part part = {.number = 1, .at_us = at_us, .entry = pl_entry_inline(PL_KIND_FILE, "x", 1)};
    struct pl_s3_upload *u;
    struct pl_err err;

    assert_ok(pl_s3_upload_find(k->all, "default", "r", "master", "k", id, &u, &err), &err);
    assert_ok(pl_s3_upload_add(u, &part, &err), &err);
    pl_s3_upload_unref(u);
}

static int keep_none(void *self, const struct pl_entry *entry, struct pl_err *err)
{
    (void)entry;
    (void)err;
    ++*(size_t *)self;
    return 0;
}

static void what_is_left_alone_for_a_week_ends_while_the_daemon_runs(void **state)
{
    char left[40], young[40], goes_on[40], other[40];
    struct kept k;
    size_t parts = 0;
    struct pl_err err;

    (void)state;
    begin(&k);
    make(&k, "a", REPO, 0, left);
    make(&k, "a", REPO, 0, goes_on);
    clock_ahead_ms += 2 * DAY_MS;
    make(&k, "a", REPO, 0, young);
    add_part(&k, goes_on, pl_clock_wall_us());
    clock_ahead_ms += 6 * DAY_MS;
    make(&k, "a", REPO, 0, other);
    assert_false(is_there(&k, left)); /* the next that begins takes it away */
    assert_true(is_there(&k, goes_on) && is_there(&k, young));
    clock_ahead_ms += 2 * DAY_MS;
    assert_ok(pl_s3_upload_files_keep(k.all, "default", keep_none, &parts, &err), &err); /* so does a collection */
    assert_false(is_there(&k, young) || is_there(&k, goes_on));
    assert_int_equal(parts, 0);
    assert_true(is_there(&k, other));
    end(&k);
}

/* The wall clock of uploads that are old or of the future says nothing while the daemon runs; a start goes by the time that has passed for
 * sure. */
static void a_clock_that_jumps_ends_no_upload(void **state)
{
    char old[40], future[40], part[40];
    struct kept k;
    struct pl_err err;

    (void)state;
    begin(&k);
    make(&k, "a", REPO, 40 * DAY_US, old);
    make(&k, "a", REPO, -40 * DAY_US, future);
    make(&k, "a", REPO, 40 * DAY_US, part);
    add_part(&k, part, pl_clock_wall_us() - DAY_US);
    make(&k, "a", REPO, 0, (char[40]){0});
    assert_true(is_there(&k, old) && is_there(&k, future));
    for (int i = 0; i < 2; i++) {
        pl_s3_upload_files_close(k.all);
        assert_ok(pl_s3_upload_files_open(k.dir, pl_clock_wall_us() - (i ? 0 : 34 * DAY_US), &k.all, &err), &err);
        assert_int_equal(is_there(&k, old), i == 0);
        assert_true(is_there(&k, future) && is_there(&k, part));
    }
    end(&k);
}

static size_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void an_upload_that_waits_has_no_file_open(void **state)
{
    size_t before = open_files();
    char id[40];
    struct kept k;

    (void)state;
    begin(&k);
    for (int i = 0; i < UPLOADS; i++) {
        make(&k, "a", REPO, 0, id);
        add_part(&k, id, pl_clock_wall_us());
    }
    assert_int_equal(open_files(), before);
    end(&k);
}

/* Copies of an upload's file are uploads as well: nothing need be waited for. */
static void copy_file(struct kept *k, const char *id, unsigned n)
{
    char from[4200], to[4200];

    snprintf(from, sizeof from, "%s/%s.upload", k->dir, id);
    for (unsigned i = 0; i < n; i++) {
        snprintf(to, sizeof to, "%s/%032x.upload", k->dir, i);
        assert_int_equal(link(from, to), 0);
    }
}

static void one_author_leaves_room_for_others(void **state)
{
    struct pl_s3_upload *u;
    struct pl_err err = {0};
    struct kept k;
    char id[40];

    (void)state;
    begin(&k);
    make(&k, "greedy", REPO, 0, id);
    pl_s3_upload_files_close(k.all);
    copy_file(&k, id, PL_S3_UPLOADS_AUTHOR_MAX - 2);
    assert_ok(pl_s3_upload_files_open(k.dir, pl_clock_wall_us(), &k.all, &err), &err);
    make(&k, "greedy", REPO, 0, id);
    assert_int_equal(create(&k, "greedy", REPO, 0, &u, &err), PL_S3_SLOW_DOWN);
    assert_non_null(strstr(err.msg, "greedy has 2500 uploads in progress"));
    make(&k, "modest", REPO, 0, id);
    end(&k);
}

static void what_came_of_one_is_told_of_its_own_repo_alone(void **state)
{
    const struct pl_s3_result came = {
        .etag = "the etag", .version = "the version", .sum_text = "the sum", .sum = PL_S3_SUM_KINDS - 1};
    struct pl_s3_result result = {0};
    char id[40];
    struct pl_s3_upload *u;
    struct pl_err err;
    struct kept k;

    (void)state;
    begin(&k);
    make(&k, "a", REPO, 0, id);
    assert_ok(pl_s3_upload_find(k.all, "default", "r", "master", "k", id, &u, &err), &err);
    assert_ok(pl_s3_upload_end(u, &came, &err), &err);
    pl_s3_upload_unref(u);
    for (int restarted = 0; restarted < 2; restarted++) {
        assert_true(pl_s3_upload_ended(k.all, REPO, "master", id, "k", &result));
        assert_string_equal(result.etag, came.etag);
        assert_string_equal(result.version, came.version);
        assert_string_equal(result.sum_text, came.sum_text);
        assert_int_equal(result.sum, came.sum);
        assert_false(pl_s3_upload_ended(k.all, REPO + 1, "master", id, "k", &result));
        assert_false(pl_s3_upload_ended(k.all, REPO, "dev", id, "k", &result));
        assert_false(pl_s3_upload_ended(k.all, REPO, "master", id, "other", &result));
        k.all = pl_s3_upload_files_close(k.all);
        assert_ok(pl_s3_upload_files_open(k.dir, pl_clock_wall_us(), &k.all, &err), &err);
        result = (struct pl_s3_result){0};
    }
    end(&k);
}

static void uploads_end_with_their_repo(void **state)
{
    char gone[40], stays[40];
    size_t parts = 0;
    struct pl_err err;
    struct kept k;

    (void)state;
    begin(&k);
    make(&k, "a", REPO, 0, gone);
    make(&k, "a", REPO + 1, 0, stays);
    add_part(&k, gone, pl_clock_wall_us());
    pl_s3_upload_files_drop_repo(k.all, REPO);
    assert_false(is_there(&k, gone));
    assert_true(is_there(&k, stays));
    assert_ok(pl_s3_upload_files_keep(k.all, "default", keep_none, &parts, &err), &err);
    assert_int_equal(parts, 0);
    end(&k);
}

/* Its lines of parts become those of a daemon that did not write the kind of their checksum. */
static void make_older(struct kept *k, const char *id)
{
    static const char kind[] = ",\"sum_kind\":0";
    char path[4200], line[4096], json[4096] = "";
    FILE *f, *older;

    snprintf(path, sizeof path, "%s/%s.upload", k->dir, id);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(unlink(path), 0);
    older = fopen(path, "w");
    assert_non_null(older);
    while (fgets(line, sizeof line, f)) {
        char *at;

        line[strcspn(line, "\n")] = '\0';
        snprintf(json, sizeof json, "%s", strchr(line, ' ') + 1);
        at = strstr(json, kind);
        if (at)
            memmove(at, at + strlen(kind), strlen(at + strlen(kind)) + 1);
        fprintf(older, "%016llx %s\n", (unsigned long long)pl_xxh64(json, strlen(json), 0), json);
    }
    assert_true(fclose(f) == 0 && fclose(older) == 0);
    assert_true(strstr(json, "\"part\":1") && !strstr(json, "sum_kind"));
}

static void a_part_of_an_older_daemon_has_a_checksum_of_a_kind_that_is_not_known(void **state)
{
    struct pl_s3_part *parts = NULL;
    struct pl_s3_upload *u;
    struct kept k;
    struct pl_err err;
    char id[40];
    size_t n;

    (void)state;
    begin(&k);
    make(&k, "a", REPO, 0, id);
    add_part(&k, id, pl_clock_wall_us());
    pl_s3_upload_files_close(k.all);
    make_older(&k, id);
    assert_ok(pl_s3_upload_files_open(k.dir, pl_clock_wall_us(), &k.all, &err), &err);
    assert_ok(pl_s3_upload_find(k.all, "default", "r", "master", "k", id, &u, &err), &err);
    assert_ok(pl_s3_upload_parts(u, &parts, &n, &err), &err);
    assert_true(n == 1 && parts[0].sum_unknown && !parts[0].sum_kind);
    free(parts);
    pl_s3_upload_unref(u);
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_alone_for_a_week_ends_while_the_daemon_runs),
        cmocka_unit_test(a_clock_that_jumps_ends_no_upload),
        cmocka_unit_test(an_upload_that_waits_has_no_file_open),
        cmocka_unit_test(one_author_leaves_room_for_others),
        cmocka_unit_test(what_came_of_one_is_told_of_its_own_repo_alone),
        cmocka_unit_test(uploads_end_with_their_repo),
        cmocka_unit_test(a_part_of_an_older_daemon_has_a_checksum_of_a_kind_that_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
