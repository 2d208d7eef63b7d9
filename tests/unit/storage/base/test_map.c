// link: storage/base storage/system
/* map: against a brute-force list of pairs. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/base/map.h"

#define KEYS  300
#define STEPS 20000

static void it_agrees_with_a_list_under_random_work(void **state)
{
    struct pl_map m = {0};
    void *list[KEYS] = {0}; /* value of each key, NULL = absent */
    uint64_t seed = 42;

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        uint64_t random = pl_splitmix64(&seed);
        size_t k = random % KEYS, visited = 0, present = 0, i = 0;
        char key[32];
        size_t len = (size_t)snprintf(key, sizeof(key), "%.*s%zu", (int)(k % 7), "aaaaaaa", k);
        void *value = (void *)(uintptr_t)(step + 1), *old;
        struct pl_err err;

        switch (random >> 32 & 3) {
        case 0:
            assert_ptr_equal(pl_map_remove(&m, key, len), list[k]);
            list[k] = NULL;
            break;
        case 1:
            assert_ptr_equal(pl_map_get(&m, key, len), list[k]);
            break;
        default:
            assert_ok(pl_map_put(&m, key, len, value, &old, &err), &err);
            assert_ptr_equal(old, list[k]);
            list[k] = value;
        }
        if (step % 500 != 0)
            continue;
        while (pl_map_next(&m, &i) != NULL)
            visited++;
        for (k = 0; k < KEYS; k++)
            present += list[k] != NULL;
        assert_int_equal(visited, present);
        assert_int_equal(m.len, present);
        assert_true(m.cap <= 1024); /* removed keys do not pile up */
    }
    pl_map_finish(&m, NULL);
}

static void keys_are_bytes_and_are_copied(void **state)
{
    struct pl_map m = {0};
    char key[3] = {'a', '\0', 'b'};
    size_t i = 0;
    struct pl_err err;

    (void)state;
    assert_ok(pl_map_put(&m, key, 3, strdup("1"), NULL, &err), &err);
    assert_ok(pl_map_put(&m, "a", 1, strdup("2"), NULL, &err), &err);
    assert_ok(pl_map_put(&m, "", 0, strdup("3"), NULL, &err), &err);
    key[2] = 'c';
    assert_null(pl_map_get(&m, key, 3));
    assert_string_equal(pl_map_get(&m, "a\0b", 3), "1");
    assert_string_equal(pl_map_get(&m, "a", 1), "2");
    assert_string_equal(pl_map_get(&m, "", 0), "3");
    assert_non_null(pl_map_next(&m, &i));
    pl_map_finish(&m, free);
    assert_null(pl_map_get(&m, "a", 1));
    i = 0;
    assert_null(pl_map_next(&m, &i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_list_under_random_work),
        cmocka_unit_test(keys_are_bytes_and_are_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
