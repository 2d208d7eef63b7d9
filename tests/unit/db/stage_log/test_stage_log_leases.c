// link: pipelined/db/pipelines pipelined/db/stage_log pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* What two leases of a datum printed is told apart; logs of the last version of the format. */
#include "tests/unit/db/stage_log/stage_log_fixture.h"

/* ---- leases: a datum whose worker was lost runs again as the same attempt ---- */

/* Fills the open segment with output of another datum, until fewer than `left` bytes fit, or it is sealed. */
static void fill_segment(struct logs *t, uint64_t *offset, size_t left)
{
    static char bytes[200000];
    const int64_t sealed = segments(t);
    const struct pl_stage_log_source filler = {.datum = datum(9), .attempt = 1, .fence = 1};
    size_t room, n;
    struct stat st;

    while (segments(t) == sealed) {
        room = stat(open_file(t), &st) == 0 ? PL_STAGE_LOG_SEGMENT_BYTES - (size_t)st.st_size : sizeof bytes;
        if (left && room < left)
            return;
        n = left ? PL_MIN(sizeof bytes, room - PL_LOG_FRAME_BYTES - 1) : sizeof bytes;
        assert_int_equal(append_bytes(t, &filler, *offset, bytes, n), 0);
        *offset += n;
    }
}

/* One of the attempts is known from the segment before only, and the line of the other one ends the open segment. */
static void test_a_loss_is_told_to_all_its_datums_across_a_seal(void **state)
{
    struct logs *t = *state;
    uint64_t offset = 0;

    append_leased(t, 5, 2, 1, 0, "in the sealed segment\n");
    fill_segment(t, &offset, 0);
    append_leased(t, 5, 1, 1, 0, "in the open one\n");
    fill_segment(t, &offset, PL_LOG_FRAME_BYTES + 10);
    lost(t, 5, "its node is gone");
    assert_int_equal(segments(t), 2);
    assert_log(t, 1, "in the open one\nworker lost: its node is gone\n");
    assert_log(t, 2, "in the sealed segment\nworker lost: its node is gone\n");
}

static void test_what_a_lost_worker_and_the_next_one_printed_is_kept_with_a_line_between(void **state)
{
    struct logs *t = *state;

    append_leased(t, 5, 1, 1, 0, "a long text of the first worker\n");
    append_leased(t, 5, 2, 1, 0, "also ");
    append_leased(t, 6, 3, 1, 0, "of another task\n");
    lost(t, 5, "its pod was preempted");
    lost(t, 5, "its pod was preempted");
    assert_log(t, 2, "also \nworker lost: its pod was preempted\n");
    append_leased(t, 9, 1, 1, 0, "short\n");
    append_leased(t, 9, 1, 1, 0, "short\n"); /* sent twice */
    append_leased(t, 9, 1, 1, 6, "end\n");
    assert_log(t, 1, "a long text of the first worker\nworker lost: its pod was preempted\nshort\nend\n");
    assert_log(t, 3, "of another task\n");
}

/* The worker reported the lease's first datum, and gave the second one back. */
static void test_a_loss_of_one_datum_is_not_told_to_others_of_its_lease(void **state)
{
    struct logs *t = *state;

    append_leased(t, 5, 1, 1, 0, "done\n");
    append_leased(t, 5, 2, 1, 0, "begun\n");
    gave_back(t, 5, 2, "its pod was preempted");
    append_leased(t, 9, 2, 1, 0, "again\n");
    assert_log(t, 1, "done\n");
    assert_log(t, 2, "begun\nworker lost: its pod was preempted\nagain\n");
}

static void test_the_end_of_a_lease_is_shown_although_no_reason_came(void **state)
{
    struct logs *t = *state;

    append_leased(t, 5, 1, 1, 0, "given back in the mid");
    append_leased(t, 9, 1, 1, 0, "begun again\n");
    assert_log(t, 1, "given back in the mid\nlease ended: the datum begins again\nbegun again\n");
}

static void test_bytes_of_an_older_lease_come_too_late(void **state)
{
    struct logs *t = *state;

    append_leased(t, 5, 1, 1, 0, "first\n");
    lost(t, 5, "it stopped responding");
    append_leased(t, 5, 1, 1, 6, "on its way\n"); /* before the next one printed anything: they are kept */
    append_leased(t, 9, 1, 1, 0, "second\n");
    append_leased(t, 5, 1, 1, 17, "too late\n");
    assert_log(t, 1, "first\nworker lost: it stopped responding\non its way\nsecond\n");
}

static void test_leases_are_told_apart_after_a_restart(void **state)
{
    struct logs *t = *state;

    append_leased(t, 5, 1, 1, 0, "first");
    restart(t);
    append_leased(t, 5, 1, 1, 0, "first, once");
    restart(t);
    lost(t, 5, "its node is gone");
    seal(t);
    restart(t);
    append_leased(t, 9, 1, 1, 0, "second\n");
    restart(t);
    append_leased(t, 9, 1, 1, 0, "second\nend\n");
    assert_log(t, 1, "first, once\nworker lost: its node is gone\nsecond\nend\n");
}

/* ---- older versions of the format ---- */

/* The open segment as a daemon of an older version left it: an empty frame that names the job, and two of datum 1, in version
 * 2 under the fence 7. */
static void write_version(struct logs *t, unsigned version)
{
    static const char owner_text[] = "0123456789abcdef0123456789abcdef/default/train", texts[2][4] = {"one", "two"};
    struct pl_buf b = {0};
    struct pl_hash owner, id = datum(1);

    pl_hash_sha256(owner_text, strlen(owner_text), &owner);
    assert_int_equal(pl_buf_add(&b, version == 1 ? "PLSL\001" : "PLSL\002", 5, NULL), 0);
    assert_int_equal(pl_buf_add(&b, owner.b, 32, NULL), 0);
    assert_int_equal(pl_buf_add(&b, (uint8_t[24]){0}, version == 1 ? 16 : 24, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pl_buf_add(&b, id.b, 32, NULL), 0);
        assert_int_equal(pl_buf_add_le32(&b, 1, NULL), 0);
        if (version == 2)
            assert_int_equal(pl_buf_add_le64(&b, 7, NULL), 0);
        assert_int_equal(pl_buf_add_le64(&b, 3 * i, NULL), 0);
        assert_int_equal(pl_buf_add_le32(&b, 3, NULL), 0);
        assert_int_equal(pl_buf_add(&b, texts[i], 3, NULL), 0);
    }
    pl_stage_logs_close(t->l);
    assert_int_equal(pl_io_write_file(open_file(t), b.data, b.len, 0600, NULL), 0);
    pl_buf_finish(&b);
    open_logs(t);
}

static void goes_on(struct logs *t, unsigned version)
{
    struct pl_stage_log_cursor cursor = {0};
    char *text;

    write_version(t, version);
    text = read_on(t, 1, &cursor, 3); /* a follower across the change */
    assert_string_equal(text, "onetwo");
    free(text);
    append_leased(t, 7, 1, 1, 3, "two, three\n"); /* the worker of then still holds its lease */
    text = read_on(t, 1, &cursor, 100);
    assert_string_equal(text, ", three\n");
    free(text);
    assert_int_equal(segments(t), 1); /* the segment of the older version, sealed as it is */
    lost(t, 7, "its node is gone");
    append_leased(t, 9, 1, 1, 0, "again\n");
    seal(t);
    restart(t);
    assert_log(t, 1, "onetwo, three\nworker lost: its node is gone\nagain\n");
}

static void test_a_log_of_version_1_is_read_and_goes_on(void **state)
{
    goes_on(*state, 1);
}

static void test_a_log_of_version_2_is_read_and_goes_on(void **state)
{
    goes_on(*state, 2);
}

static void test_an_empty_log_of_version_1_is_begun_anew(void **state)
{
    struct logs *t = *state;

    write_version(t, 1);
    pl_stage_logs_close(t->l);
    assert_int_equal(truncate(open_file(t), 53), 0);
    open_logs(t);
    append(t, 1, 1, 0, "first\n");
    seal(t);
    assert_log(t, 1, "first\n");
    assert_int_equal(segments(t), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_loss_is_told_to_all_its_datums_across_a_seal),
        T(test_what_a_lost_worker_and_the_next_one_printed_is_kept_with_a_line_between),
        T(test_a_loss_of_one_datum_is_not_told_to_others_of_its_lease),
        T(test_the_end_of_a_lease_is_shown_although_no_reason_came),
        T(test_bytes_of_an_older_lease_come_too_late),
        T(test_leases_are_told_apart_after_a_restart),
        T(test_a_log_of_version_1_is_read_and_goes_on),
        T(test_a_log_of_version_2_is_read_and_goes_on),
        T(test_an_empty_log_of_version_1_is_begun_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
