/* object_rows: the table of store operations (tests/unit/object_table.h) against a server that runs.
 *
 *   pl-object-rows DRIVER URL ENDPOINT     keys as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; each row gets a prefix below URL */
#include "tests/unit/object_table.h"

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

int main(int argc, char **argv)
{
    struct CMUnitTest tests[PL_ARRAY_SIZE(object_table)];

    if (argc != 4) {
        fprintf(stderr, "usage: pl-object-rows DRIVER URL ENDPOINT\n");
        return 2;
    }
    target = (struct target){argv[1], argv[2], argv[3]};
    for (size_t i = 0; i < PL_ARRAY_SIZE(object_table); i++)
        tests[i] = (struct CMUnitTest){object_table[i].name, row_holds, setup, teardown, (void *)&object_table[i]};
    return cmocka_run_group_tests_name("object_rows", tests, NULL, NULL);
}
