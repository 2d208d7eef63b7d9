// link: pipelined/source
/* A stop at any moment of the start: while the list of sources is read, nothing waits for the thread, and nothing wakes it later. */
#include "pipelined/source/source.h"

#include "pipelined/db/writer/db.h"
#include "storage/object/object.h"
#include "storage/store/project_stores.h"
#include "storage/system/io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define STOPS    150
#define APART_NS 10000 /* by this much each stop is later than the one before: the last come after the list was read */

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void a_stop_while_the_list_is_read_is_not_missed(void **state)
{
    char dir[] = "/tmp/test_source_stop.XXXXXX", store[64];
    struct pl_object_store *objects = NULL;
    struct pl_db_config config = {.dir = dir, .readers = 2};
    struct pl_pipeline_host host = {.local = true};
    struct pl_outbound *outbound = NULL;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(store, sizeof store, "%s/store", dir);
    assert_int_equal(pl_object_file_open(store, &objects, NULL), 0);
    config.objects = objects;
    assert_int_equal(pl_outbound_create(&(struct pl_outbound_settings){.schemes = "", .hosts = "", .networks = "", .ca = ""},
                                        &outbound, NULL),
                     0);
    assert_int_equal(pl_db_open(&config, &host.db, NULL), 0);
    alarm(60); /* a stop that is missed has no end */
    for (int i = 0; i < STOPS; i++) {
        struct pl_sources *s = NULL;
        int64_t begun;

        assert_int_equal(
            pl_sources_start(
                &(struct pl_sources_config){.host = &host, .data_dir = dir, .local_folders = "", .outbound = outbound}, &s, NULL),
            0);
        begun = now_ns();
        while (now_ns() - begun < (int64_t)i * APART_NS)
            ;
        pl_sources_drain(s);
        while (!pl_sources_drained(s, 1000))
            ;
        pl_sources_destroy(s);
    }
    alarm(0);
    pl_outbound_destroy(outbound);
    pl_db_close(host.db);
    pl_object_close(objects);
    assert_int_equal(pl_io_remove_tree(dir, NULL), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(a_stop_while_the_list_is_read_is_not_missed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
