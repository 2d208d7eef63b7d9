// link: pipelined/metrics
/* run_figures: what the figures of a metrics.jsonl come to, and curves that keep every peak. */
#include "pipelined/metrics/run_figures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct pl_point at(double step, double value)
{
    return (struct pl_point){step, value};
}

static void last_least_and_largest_have_their_steps(void **state)
{
    static struct pl_run_figures f;
    const double values[] = {3, 1, 4, 1, 5, 4};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(values); i++)
        pl_run_figures_add(&f, "loss", at((double)i, values[i]));
    pl_run_figures_add(&f, "lr", at(0, 0.1));
    pl_run_figures_add(&f, "loss", at(9, NAN));
    pl_run_figures_add(&f, "loss", at(INFINITY, 0));
    assert_int_equal(f.n, 2);
    assert_string_equal(f.list[0].name, "loss");
    assert_int_equal(f.list[0].n, 6);
    assert_true(f.list[0].last.value == 4 && f.list[0].last.step == 5);
    assert_true(f.list[0].least.value == 1 && f.list[0].least.step == 1); /* of two the first */
    assert_true(f.list[0].largest.value == 5 && f.list[0].largest.step == 4);
}

static void names_are_bounded_in_number_and_length(void **state)
{
    static struct pl_run_figures f;
    char name[400];

    (void)state;
    for (unsigned i = 0; i < PL_RUN_FIGURES_MAX + 7; i++) {
        snprintf(name, sizeof name, "m%u", i);
        pl_run_figures_add(&f, name, at(0, i));
    }
    assert_int_equal(f.n, PL_RUN_FIGURES_MAX);
    assert_int_equal(f.more, 7);
    memset(&f, 0, sizeof f);
    memset(name, 'x', PL_FIGURE_NAME_BYTES - 1);
    strcpy(name + PL_FIGURE_NAME_BYTES - 1, "\u00e9\u00e9");
    pl_run_figures_add(&f, name, at(0, 1));
    assert_int_equal(strlen(f.list[0].name), PL_FIGURE_NAME_BYTES - 1); /* not within a character */
    pl_run_figures_add(&f, name, at(1, 2));
    assert_int_equal(f.n, 1);
}

static bool has(const struct pl_point *points, size_t n, double step)
{
    for (size_t i = 0; i < n; i++)
        if (points[i].step == step)
            return true;
    return false;
}

/* Of random curves: bounded, in order, the ends and the extremes of the whole kept, and of each piece its peak. */
static void a_thinned_curve_keeps_ends_and_peaks(void **state)
{
    (void)state;
    srand(21);
    for (unsigned round = 0; round < 400; round++) {
        const size_t n = (size_t)(rand() % 3000), most = PL_CURVE_POINTS_MIN + (size_t)(rand() % 500);
        struct pl_point *points = calloc(n + 1, sizeof *points);
        double least = INFINITY, largest = -INFINITY;
        size_t left;

        for (size_t i = 0; i < n; i++) {
            points[i] = at((double)i, (double)(rand() % 1000));
            least = fmin(least, points[i].value);
            largest = fmax(largest, points[i].value);
        }
        left = pl_curve_thin(points, n, most);
        assert_true(left <= most && (n > most || left == n));
        for (size_t i = 0; i < left; i++) {
            assert_true(i == 0 || points[i].step > points[i - 1].step);
            least = points[i].value == least ? -INFINITY : least;
            largest = points[i].value == largest ? INFINITY : largest;
        }
        if (n > 0)
            assert_true(has(points, left, 0) && has(points, left, (double)n - 1) && isinf(least) && isinf(largest));
        free(points);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_least_and_largest_have_their_steps),
        cmocka_unit_test(names_are_bounded_in_number_and_length),
        cmocka_unit_test(a_thinned_curve_keeps_ends_and_peaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
