// link: pipelined/policy
/* How often is too often: bursts, what leaks away, many keys at once, and more of them than there is room for. */
#include "pipelined/policy/rate_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BUCKETS 64

static struct pl_rate_limit_bucket buckets[BUCKETS];

static struct pl_rate_limit rate(unsigned burst, unsigned leak_a_minute)
{
    memset(buckets, 0, sizeof buckets);
    return (struct pl_rate_limit){.buckets = buckets, .n = BUCKETS, .burst = burst, .leak_a_minute = leak_a_minute};
}

/* A letter a hit: '.' under, '!' the first over, 'x' over. */
static char letter(enum pl_rate_limit_verdict v)
{
    return v == PL_RATE_UNDER ? '.' : v == PL_RATE_FIRST ? '!' : 'x';
}

/* Of a bucket for 3 that loses 60 a minute: one a second. */
static void a_burst_is_let_and_then_as_much_as_leaks(void **state)
{
    static const struct {
        const char *what;
        int64_t at_ms[16];
        size_t n;
        const char *want;
    } rows[] = {
        {"a burst to the brim", {0, 0, 0}, 3, "..."},
        {"one more", {0, 0, 0, 0}, 4, "...!"},
        {"the first is told once", {0, 0, 0, 0, 1, 2}, 6, "...!xx"},
        {"one has leaked", {0, 0, 0, 1000}, 4, "...."},
        {"not quite", {0, 0, 0, 999}, 4, "...!"},
        {"what is over adds nothing", {0, 0, 0, 100, 200, 300, 1000}, 7, "...!xx."},
        {"as many as leak, for ever", {0, 1000, 2000, 3000, 4000, 5000, 6000, 7000}, 8, "........"},
        {"a little more than that", {0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000}, 9, ".....!.x."},
        {"down to half it is told anew", {0, 0, 0, 0, 2000, 2000, 2000, 2000}, 8, "...!..!x"},
        {"a long rest", {0, 0, 0, 0, 3600000, 3600000, 3600000, 3600000}, 8, "...!...!"},
        {"longer than a number", {0, 0, 0, 0, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}, 8, "...!...!"},
        {"a clock that stands back", {5000, 5000, 5000, 4000, 5900, 6000}, 6, "...!x."},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_rate_limit r = rate(3, 60);
        char got[17] = "";

        for (size_t k = 0; k < rows[i].n; k++)
            got[k] = letter(pl_rate_limit_hit(&r, 7, rows[i].at_ms[k]));
        if (!pl_streq(got, rows[i].want))
            fail_msg("%s: %s, not %s", rows[i].what, got, rows[i].want);
    }
}

static void keys_do_not_count_for_each_other(void **state)
{
    struct pl_rate_limit r = rate(3, 60);

    (void)state;
    for (int i = 0; i < 100; i++)
        pl_rate_limit_hit(&r, 1, i);
    for (uint64_t key = 2; key < 8; key++)
        for (int i = 0; i < 3; i++)
            assert_int_equal(pl_rate_limit_hit(&r, key, 100), PL_RATE_UNDER);
    assert_int_equal(pl_rate_limit_hit(&r, 1, 100), PL_RATE_OVER);
    assert_int_equal(pl_rate_limit_hit(&r, 0, 100), PL_RATE_OVER); /* none is 1 */
}

/* A million addresses pass by: nothing grows, and the one that goes on is not forgotten for those that come once. */
static void memory_is_bounded_and_the_fullest_stay(void **state)
{
    struct pl_rate_limit r = rate(3, 60);
    unsigned over = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000000; i++) {
        pl_rate_limit_hit(&r, 1000 + i * 7919, (int64_t)(i / 1000));
        if (i % 10 == 0)
            over += pl_rate_limit_hit(&r, 1, (int64_t)(i / 1000)) != PL_RATE_UNDER;
    }
    assert_true(over > 99000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_let_and_then_as_much_as_leaks),
        cmocka_unit_test(keys_do_not_count_for_each_other),
        cmocka_unit_test(memory_is_bounded_and_the_fullest_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
