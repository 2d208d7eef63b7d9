// link: pipelined/agent/inputs pipelined/agent/outputs storage/base storage/dataset/ingest storage/object storage/store storage/system storage/tree_edit
/* Checkpoints while datums come and go: what is told of a row is the folder of that row. A link that notes what it is told stands in
 * for the daemon's (threads). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/outputs/datum_checkpoint.h"
#include "storage/base/clock.h"
#include "tests/support/fixtures/swap_fixture.h"

#define EVERY_MS 1
#define ROWS     600
#define KINDS    8 /* of folders: row i has number i % KINDS */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct pl_hash root[ROWS];
    unsigned told[ROWS];
} noted = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static struct agent_files fixture, *const files =
                                       &fixture; /* only dir, objects and store: no inputs, they would link the true link */

/* ---- the link ---- */

struct pl_pack_sink pl_daemon_client_sink(const struct pl_uplink_user *user)
{
    (void)user;
    return pl_store_sink(files->store);
}

void pl_uplink_interrupt(struct pl_uplink *l)
{
    (void)l;
}

int pl_daemon_client_json(struct pl_uplink *l, const char *path, const json_t *body, bool cancel, json_t **ret,
                          struct pl_err *err)
{
    json_int_t row = json_integer_value(json_object_get(body, "index"));
    struct pl_hash root;
    int r = pl_hash_parse(json_string_value(json_object_get(body, "root")), &root, err);

    (void)l;
    (void)cancel;
    if (r < 0 || row < 0 || row >= ROWS || strcmp(path, "/api/v1/worker/checkpoint") != 0)
        return pl_err_set(err, PL_EINVAL, "%s: not of a checkpoint", path);
    pthread_mutex_lock(&noted.mutex);
    noted.root[row] = root;
    noted.told[row]++;
    pthread_cond_broadcast(&noted.changed);
    pthread_mutex_unlock(&noted.mutex);
    *ret = json_object();
    return 0;
}

/* ---- tests ---- */

static int setup(void **state)
{
    struct pl_store_marker marker;
    struct pl_err err = {0};
    char path[160];

    (void)state;
    memset(noted.told, 0, sizeof(noted.told));
    strcpy(files->dir, "/tmp/pl-test-checkpoint-XXXXXX");
    assert_non_null(mkdtemp(files->dir));
    snprintf(path, sizeof(path), "%s/in", files->dir);
    assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
    snprintf(path, sizeof(path), "%s/store", files->dir);
    assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
    if (pl_object_file_open(path, &files->objects, &err) < 0 || pl_store_marker_init(files->objects, &marker, &err) < 0 ||
        pl_store_open(files->objects, "default", NULL, &files->store, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pl_store_close(files->store);
    pl_object_close(files->objects);
    assert_int_equal(pl_io_remove_tree(files->dir, NULL), 0);
    return 0;
}

static void fill(const char *folder, unsigned row)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", row % KINDS);
    agent_files_write(folder, "of", text, strlen(text), 0644);
}

/* Each row ends at about the time that the thread wakes up for it. */
static void what_is_told_of_a_row_is_its_own_folder(void **state)
{
    struct pl_checkpoint_config config = {.worker = "w", .project = "default", .every_ms = EVERY_MS};
    struct pl_agent_protocol_lease lease = {0};
    struct pl_hash expected[KINDS];
    struct pl_checkpoint *c = NULL;
    unsigned told = 0;
    char folder[160];

    (void)state;
    snprintf(folder, sizeof(folder), "%s/in", files->dir);
    for (unsigned i = 0; i < KINDS; i++) {
        fill(folder, i);
        expected[i] = agent_files_commit(files, folder);
    }
    config.folder = folder;
    assert_int_equal(pl_checkpoint_create(&config, &c, NULL), 0);
    for (unsigned row = 0; row < ROWS; row++) {
        int64_t until;

        fill(folder, row);
        pl_checkpoint_begin(c, &lease, row);
        until = pl_clock_mono_us() + EVERY_MS * 1000;
        while (pl_clock_mono_us() < until)
            ;
        pl_checkpoint_end(c, row == ROWS - 1);
    }
    pl_checkpoint_destroy(c);
    for (unsigned row = 0; row < ROWS; row++) {
        told += noted.told[row] > 0;
        if (noted.told[row] > 0 && !pl_hash_eq(&noted.root[row], &expected[row % KINDS]))
            fail_msg("row %u: the folder of another", row);
    }
    assert_true(told > 0 && noted.told[ROWS - 1] > 0);
}

/* Nothing of a row comes after its end. */
static void a_row_that_has_ended_is_left_alone(void **state)
{
    struct pl_checkpoint_config config = {.worker = "w", .project = "default", .every_ms = EVERY_MS};
    struct pl_agent_protocol_lease lease = {0};
    struct pl_checkpoint *c = NULL;
    unsigned told;
    char folder[160];

    (void)state;
    snprintf(folder, sizeof(folder), "%s/in", files->dir);
    config.folder = folder;
    assert_int_equal(pl_checkpoint_create(&config, &c, NULL), 0);
    fill(folder, 0);
    pl_checkpoint_begin(c, &lease, 0);
    pthread_mutex_lock(&noted.mutex);
    while (noted.told[0] == 0)
        pthread_cond_wait(&noted.changed, &noted.mutex);
    pthread_mutex_unlock(&noted.mutex);
    pl_checkpoint_end(c, false);
    told = noted.told[0];
    fill(folder, 1);
    pl_checkpoint_begin(c, &lease, 1);
    pthread_mutex_lock(&noted.mutex);
    while (noted.told[1] == 0)
        pthread_cond_wait(&noted.changed, &noted.mutex);
    pthread_mutex_unlock(&noted.mutex);
    pl_checkpoint_end(c, false);
    pl_checkpoint_destroy(c);
    assert_int_equal(told, noted.told[0]);
}

/* The command swaps what is being stored for links that lead outside: nothing of that is stored, and no mode is changed there. */
static void nothing_outside_is_stored_for_a_command_that_swaps(void **state)
{
    struct pl_checkpoint_config config = {.worker = "w", .project = "default", .every_ms = 3600000};
    struct pl_agent_protocol_lease lease = {0};
    struct pl_checkpoint *c = NULL;
    struct swapper s = {.seed = 23};
    char folder[160];

    (void)state;
    snprintf(folder, sizeof(folder), "%s/in", files->dir);
    config.folder = folder;
    assert_int_equal(pl_checkpoint_create(&config, &c, NULL), 0);
    swapper_start(&s, folder, files->dir, 3);
    for (unsigned i = 0; swapper_goes_on(&s, i); i++) {
        pl_checkpoint_begin(c, &lease, 0);
        pl_checkpoint_end(c, true); /* which stores the folder */
    }
    swapper_stop(&s);
    pl_checkpoint_destroy(c);
    assert_true(noted.told[0] > 0);
    assert_false(pl_store_has(files->store, &s.secret_id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_told_of_a_row_is_its_own_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_that_has_ended_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_outside_is_stored_for_a_command_that_swaps, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
