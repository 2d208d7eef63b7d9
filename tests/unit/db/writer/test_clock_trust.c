// link: pipelined/db/writer storage/base storage/system
/* The wall clock jumps, the clock since boot does not: what time it is for whoever takes data away. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/db/writer/clock_trust.h"

#include <time.h>

#define HOUR (3600LL * 1000000)
#define DAY  (24 * HOUR)
#define T0   (20000 * DAY) /* what the test begins at */

static int64_t wall_us, boot_us;

int clock_gettime(clockid_t which, struct timespec *ret)
{
    const int64_t us = which == CLOCK_REALTIME ? wall_us : boot_us;

    *ret = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    return 0;
}

static int test_setup(void **state)
{
    (void)state;
    wall_us = T0;
    boot_us = 5 * DAY;
    return 0;
}

static struct pl_clock_trust *known(int64_t us)
{
    struct pl_clock_trust *t = NULL;
    struct pl_err err = {0};

    assert_ok(pl_clock_trust_create(us, &t, &err), &err);
    return t;
}

/* `pass` of time, and a jump of the wall clock; then it is `now`, and doubted or not. */
struct step {
    int64_t pass, jump, now;
    bool doubted;
};

static void play(int64_t known_us, const struct step *steps, size_t n)
{
    struct pl_clock_trust *t = known(known_us);

    for (size_t i = 0; i < n; i++) {
        struct pl_clock_view v;
        struct pl_err err = {0};

        boot_us += steps[i].pass;
        wall_us += steps[i].pass + steps[i].jump;
        v = pl_clock_trust_look(t);
        if (v.doubted != steps[i].doubted || v.now_us != T0 + steps[i].now)
            fail_msg("step %zu: doubted %d, now %+lld h", i, v.doubted, (long long)((v.now_us - T0) / HOUR));
        assert_int_equal(pl_clock_trust_check(&v, &err), v.doubted ? PL_ECONFIRM : 0);
    }
    pl_clock_trust_destroy(t);
}

static void test_a_jump_ahead_is_doubted_until_it_is_taken_back(void **state)
{
    static const struct step steps[] = {
        {HOUR, 0, HOUR, false},
        {HOUR, 40 * DAY, 2 * HOUR, true},
        {30 * DAY, 0, 30 * DAY + 2 * HOUR, true}, /* time passes all the same */
        {HOUR, -40 * DAY, 30 * DAY + 3 * HOUR, false},
        {0, 2 * HOUR, 30 * DAY + 3 * HOUR, true},
        {0, -2 * HOUR, 30 * DAY + 3 * HOUR, false},
        {0, HOUR / 2, 30 * DAY + 3 * HOUR + HOUR / 2, false}, /* a clock that is set right */
    };

    (void)state;
    play(T0 - HOUR, steps, PL_ARRAY_SIZE(steps));
}

static void test_a_jump_back_and_its_end_are_believed(void **state)
{
    static const struct step steps[] = {
        {HOUR, -40 * DAY, HOUR - 40 * DAY, false},
        {DAY, 0, DAY + HOUR - 40 * DAY, false},
        {HOUR, 40 * DAY, DAY + 2 * HOUR, false},
    };

    (void)state;
    play(T0, steps, PL_ARRAY_SIZE(steps));
}

static void test_a_start_believes_a_week_without_a_daemon(void **state)
{
    static const struct step week[] = {{HOUR, 0, HOUR, false}, {0, DAY, HOUR, true}};
    static const struct step month[] = {{HOUR, 0, HOUR - 30 * DAY, true}, {0, -25 * DAY, HOUR - 25 * DAY, false}};

    (void)state;
    play(T0 - 6 * DAY, week, PL_ARRAY_SIZE(week));
    test_setup(NULL);
    play(T0 - 30 * DAY, month, PL_ARRAY_SIZE(month));
}

static void test_somebody_says_that_it_is_right(void **state)
{
    struct pl_clock_trust *t = known(T0 - 30 * DAY);

    (void)state;
    assert_true(pl_clock_trust_look(t).doubted);
    pl_clock_trust_believe(t);
    assert_false(pl_clock_trust_look(t).doubted);
    assert_true(pl_clock_trust_look(t).now_us == T0);
    boot_us += HOUR;
    assert_true(pl_clock_trust_passed_us(t) == T0 - 30 * DAY + HOUR); /* it was not running for a month */
    pl_clock_trust_destroy(t);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, test_setup)
    const struct CMUnitTest tests[] = {
        TEST(test_a_jump_ahead_is_doubted_until_it_is_taken_back),
        TEST(test_a_jump_back_and_its_end_are_believed),
        TEST(test_a_start_believes_a_week_without_a_daemon),
        TEST(test_somebody_says_that_it_is_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
