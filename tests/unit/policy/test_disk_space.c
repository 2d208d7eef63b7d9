// link: pipelined/policy
/* disk_room: how full the disk of a store may become. */
#include "pipelined/policy/disk_space.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

static void what_a_disk_keeps_free_follows_from_its_size(void **state)
{
    static const struct {
        uint64_t total, full, low;
    } table[] = {
        {0, 0, 0},
        {24 * MIB, 3 * MIB, 3 * MIB},            /* an eighth of a small disk */
        {2 * GIB - 8, GIB / 4 - 1, GIB / 4 - 1}, /* the largest of these */
        {2 * GIB, GIB, GIB},                     /* from here on 1 GiB */
        {8 * GIB, GIB, GIB},                     /* and the warning with it, */
        {20 * GIB, GIB, 2 * GIB},                /* until 10 % is more */
        {50 * GIB, GIB, 5 * GIB},                /* 2 % is 1 GiB */
        {100 * GIB, 2 * GIB, 10 * GIB},          /* 2 % */
        {100 * TIB, 2 * TIB, 10 * TIB},
        {UINT64_MAX, UINT64_MAX / 100 * 2, UINT64_MAX / 10}, /* without overflow */
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        assert_in_range(pl_disk_space_full_bytes(table[i].total), table[i].full, table[i].full + 1);
        assert_in_range(pl_disk_space_low_bytes(table[i].total), table[i].low, table[i].low + 1);
    }
}

/* A row a moment in the life of a disk of 100 GiB: 2 GiB and 10 GiB are its marks, 2.25 GiB and 12 GiB the ways back. */
static void a_state_ends_later_than_it_began(void **state)
{
    static const struct {
        uint64_t free_mib;
        enum pl_disk_space room;
    } life[] = {
        {102400, PL_ROOM_OK}, {10240, PL_ROOM_OK},  {10239, PL_ROOM_LOW}, {10240, PL_ROOM_LOW}, {12287, PL_ROOM_LOW},
        {12288, PL_ROOM_OK},  {11000, PL_ROOM_OK},  {9000, PL_ROOM_LOW},  {2048, PL_ROOM_LOW},  {2047, PL_ROOM_FULL},
        {2048, PL_ROOM_FULL}, {2303, PL_ROOM_FULL}, {2304, PL_ROOM_LOW},  {2048, PL_ROOM_LOW},  {0, PL_ROOM_FULL},
        {102400, PL_ROOM_OK}, {1, PL_ROOM_FULL},    {12287, PL_ROOM_LOW}, {12288, PL_ROOM_OK},
    };
    enum pl_disk_space room = PL_ROOM_OK;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(life); i++) {
        room = pl_disk_space_next(room, life[i].free_mib * MIB, 100 * GIB);
        if (room != life[i].room)
            fail_msg("moment %zu: %s, not %s", i, pl_disk_space_name(room), pl_disk_space_name(life[i].room));
    }
}

/* Whatever was before: with more room it never stands worse, and the marks hold. */
static void more_room_is_never_worse(void **state)
{
    static const uint64_t totals[] = {0, 1, 4 * MIB, GIB, 2 * GIB, 9 * GIB, 12 * GIB, 40 * GIB, 3 * TIB};

    (void)state;
    for (size_t t = 0; t < PL_ARRAY_SIZE(totals); t++) {
        for (int before = PL_ROOM_OK; before <= PL_ROOM_FULL; before++) {
            enum pl_disk_space last = PL_ROOM_FULL;

            for (unsigned i = 0; i <= 1000; i++) {
                uint64_t free_bytes = totals[t] / 1000 * i;
                enum pl_disk_space room = pl_disk_space_next((enum pl_disk_space)before, free_bytes, totals[t]);

                assert_true(room <= last);
                assert_true(free_bytes >= pl_disk_space_full_bytes(totals[t]) || room == PL_ROOM_FULL);
                assert_true(free_bytes >= pl_disk_space_low_bytes(totals[t]) || room != PL_ROOM_OK);
                last = room;
            }
            assert_int_equal(pl_disk_space_next((enum pl_disk_space)before, totals[t], totals[t]), PL_ROOM_OK);
        }
    }
}

/* A disk without room for the log's own is full for pushes, if it has a size at all worth the name. */
static void the_log_stops_after_pushes(void **state)
{
    (void)state;
    assert_true(PL_DISK_SPACE_LOG_BYTES < PL_DISK_SPACE_FULL_BYTES);
    assert_true(pl_disk_space_full_bytes(32 * MIB) == PL_DISK_SPACE_LOG_BYTES);
    assert_string_equal(pl_disk_space_name(PL_ROOM_OK), "ok");
    assert_string_equal(pl_disk_space_name(PL_ROOM_LOW), "low");
    assert_string_equal(pl_disk_space_name(PL_ROOM_FULL), "full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_disk_keeps_free_follows_from_its_size),
        cmocka_unit_test(a_state_ends_later_than_it_began),
        cmocka_unit_test(more_room_is_never_worse),
        cmocka_unit_test(the_log_stops_after_pushes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
