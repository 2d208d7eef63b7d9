// link: pipelined/api/graph_view storage/base
/* graph_views: which pictures of the graph are kept. */
#include "pipelined/api/graph_view/graph_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static struct pl_graph_views *views;

static int views_setup(void **state)
{
    struct pl_err err = {0};

    (void)state;
    return pl_graph_views_create(&views, &err);
}

static int views_teardown(void **state)
{
    (void)state;
    views = pl_graph_views_destroy(views);
    return 0;
}

static struct pl_hash key_of(unsigned number)
{
    struct pl_hash key;

    pl_hash_sha256(&number, sizeof number, &key);
    return key;
}

/* Keeps a picture of `size` bytes that begins with its number. */
static void keep(unsigned number, size_t size)
{
    const struct pl_hash key = key_of(number);
    struct pl_buf text = {0};
    struct pl_err err = {0};

    assert_int_equal(pl_buf_reserve(&text, size, &err), 0);
    memset(text.data, 0, size);
    memcpy(text.data, &number, sizeof number);
    text.len = size;
    pl_graph_picture_keep(views, &key, &text);
    pl_buf_finish(&text);
}

static bool is_kept(unsigned number)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const struct pl_hash key = key_of(number);
    struct pl_err err = {0};
    const int r = pl_graph_picture_recall(views, &key, &text, &err);

    assert_in_range(r, 0, 1);
    if (r)
        assert_memory_equal(text.data, &number, sizeof number);
    return r == 1;
}

static void pictures_are_bounded_in_bytes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++)
        keep(i, 8 * MIB);
    assert_false(is_kept(0));
    for (unsigned i = 1; i < 5; i++)
        assert_true(is_kept(i));
    keep(9, PL_GRAPH_PICTURE_BYTES + 1); /* is larger than all of them may be, and pushes none out */
    assert_false(is_kept(9));
    for (unsigned i = 1; i < 5; i++)
        assert_true(is_kept(i));
}

static void pictures_are_bounded_in_number(void **state)
{
    (void)state;
    for (unsigned i = 0; i <= PL_GRAPH_PICTURES; i++)
        keep(i, 100);
    assert_false(is_kept(0));
    for (unsigned i = 1; i <= PL_GRAPH_PICTURES; i++)
        assert_true(is_kept(i));
}

/* One caller asks for picture 0 again and again; another one searches, with a new picture for each word. */
static void a_picture_that_is_asked_for_stays(void **state)
{
    (void)state;
    keep(0, 100);
    for (unsigned i = 1; i <= 3 * PL_GRAPH_PICTURES; i++) {
        keep(i, 100);
        assert_true(is_kept(0));
    }
}

static void a_picture_that_two_requests_made_is_kept_once(void **state)
{
    (void)state;
    keep(1, 100);
    for (unsigned i = 0; i < 2 * PL_GRAPH_PICTURES; i++)
        keep(0, 100);
    assert_true(is_kept(0));
    assert_true(is_kept(1));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, views_setup, views_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pictures_are_bounded_in_bytes),
        TEST(pictures_are_bounded_in_number),
        TEST(a_picture_that_is_asked_for_stays),
        TEST(a_picture_that_two_requests_made_is_kept_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
