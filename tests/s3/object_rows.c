// link: storage/base storage/object storage/system
/* object_rows: the table of store operations (tests/unit/storage/object/object_table.h) against a server that runs.
 *
 *   pl-object-rows DRIVER URL ENDPOINT     keys as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; each row gets a prefix below URL */
#include "tests/unit/storage/object/object_table.h"

struct target {
    const char *driver, *url, *endpoint;
};

static struct target target;
static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = fixture_dir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_remove(dir);
    return 0;
}

static void row_holds(void **state)
{
    const struct object_row *row = *state;
    char url[256];
    const struct pl_object_config config = {.url = url,
                                            .driver = target.driver,
                                            .endpoint = target.endpoint,
                                            .tmp_dir = dir,
                                            .cache_dir = fixture_path(dir, "cache"),
                                            .exclusive = pl_streq(target.driver, "libs3"),
                                            .probe = true};
    struct pl_object_store *store = NULL;
    struct pl_err err;

    (void)snprintf(url, sizeof(url), "%s/%s", target.url, row->name);
    assert_ok(pl_object_open(&config, &store, &err), &err);
    row->run(store);
    pl_object_close(store);
}

/* An attempt whose answer was lost is found to be our own. */
static void what_is_there_with_the_same_bytes_was_put(struct pl_object_store *s)
{
    const struct iovec parts[] = {{(void *)"in ", 3}, {NULL, 0}, {(void *)"parts", 5}, {NULL, 0}};
    struct pl_err err;

    table_must_put(s, "k", "in parts");
    assert_ok(pl_object_put(s, "k", parts, PL_ARRAY_SIZE(parts), true, &err), &err);
    assert_int_equal(pl_object_put(s, "k", parts, 2, true, &err), PL_EEXISTS);
    assert_int_equal(table_put(s, "k", "in partz", true, &err), PL_EEXISTS);
    assert_int_equal(table_put(s, "k", "in parts and more", true, &err), PL_EEXISTS);
    table_must_put(s, "empty", "");
    assert_ok(table_put(s, "empty", "", true, &err), &err);
}

static const struct object_row of_buckets = {"what-is-there-with-the-same-bytes-was-put",
                                             what_is_there_with_the_same_bytes_was_put};

int main(int argc, char **argv)
{
    struct CMUnitTest tests[PL_ARRAY_SIZE(object_table) + 1];

    if (argc != 4) {
        fprintf(stderr, "usage: pl-object-rows DRIVER URL ENDPOINT\n");
        return 2;
    }
    target = (struct target){argv[1], argv[2], argv[3]};
    for (size_t i = 0; i < PL_ARRAY_SIZE(object_table); i++)
        tests[i] = (struct CMUnitTest){object_table[i].name, row_holds, setup, teardown, (void *)&object_table[i]};
    tests[PL_ARRAY_SIZE(object_table)] = (struct CMUnitTest){of_buckets.name, row_holds, setup, teardown, (void *)&of_buckets};
    return cmocka_run_group_tests_name("object_rows", tests, NULL, NULL);
}
