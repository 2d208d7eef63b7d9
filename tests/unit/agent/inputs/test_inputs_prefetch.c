// link: pipelined/agent/inputs pipelined/agent/outputs storage/dataset/ingest storage/object storage/store storage/system storage/tree_edit
/* What is fetched for the row behind the one that waits: it is put in place without another fetch, and never in the place of anything else. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/faults/seeded_random.h"
#include "tests/support/fixtures/agent_fixture.h"

#define FOLDERS 6
#define INPUTS  3

static char big[70000];

/* d0/f, d0/g, d0/deep/h, d1/…: of another content each, and in each commit. */
static struct pl_hash make_commit(struct agent_files *f, unsigned number)
{
    static const char *const names[] = {"f", "g", "deep/h"};
    char folder[128], path[32];

    snprintf(folder, sizeof(folder), "%s/in", f->dir);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 2654435761u >> 13);
    for (unsigned d = 0; d < FOLDERS; d++)
        for (size_t n = 0; n < PL_ARRAY_SIZE(names); n++) {
            snprintf(path, sizeof(path), "d%u/%s", d, names[n]);
            snprintf(big, 64, "%u %s", number, path);
            agent_files_write(folder, path, big, sizeof(big) - 100 * d, 0644);
        }
    return agent_files_commit(f, folder);
}

static void stage(struct pl_inputs *in, const struct pl_agent_protocol_datum *row)
{
    struct pl_err err = {0};
    uint64_t bytes;

    if (pl_inputs_stage(in, row, false, &bytes, &err) < 0)
        fail_msg("%s", err.msg);
}

static void apply(struct pl_inputs *in)
{
    struct pl_err err = {0};

    if (pl_inputs_apply(in, &err) < 0)
        fail_msg("%s", err.msg);
}

/* As the thread that runs commands does; not NULL: it failed. */
static void *apply_beside(void *in)
{
    return pl_inputs_apply(in, NULL) < 0 ? in : NULL;
}

static bool is_there(const struct agent_files *f, const char *path)
{
    char whole[512];

    snprintf(whole, sizeof(whole), "%s/%s", f->work, path);
    return access(whole, F_OK) == 0;
}

static void forget_cache(const struct agent_files *f)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/cache/objects", f->dir);
    assert_int_equal(pl_io_remove_tree(path, NULL), 0);
}

/* Files that follow each other in one folder, in different ones, and folders. */
static void it_is_put_in_place_without_another_fetch(void **state)
{
    static const struct {
        const char *path;
        bool file;
    } matches[] = {{"d0/f", true}, {"d0/g", true}, {"d1/deep/h", true}, {"d2", false}, {"d3", false}};
    struct agent_files *f = *state;
    const struct pl_hash root = make_commit(f, 0);

    for (size_t i = 0; i < PL_ARRAY_SIZE(matches); i++) {
        struct pl_agent_protocol_input in = {.name = "in", .path = matches[i].path, .file = matches[i].file, .root = root};
        const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
        char path[64];
        uint64_t before;

        if (i > 0) {
            pl_inputs_ahead(f->inputs, &row);
            apply(f->inputs); /* the row before */
            forget_cache(f);
        }
        before = pl_io_calls(PL_IO_WRITE);
        stage(f->inputs, &row);
        assert_int_equal(pl_io_calls(PL_IO_WRITE) == before, i > 0);
        assert_false(is_there(f, "next/.ahead/in"));
        if (i + 1 < PL_ARRAY_SIZE(matches))
            continue;
        apply(f->inputs);
        snprintf(path, sizeof(path), "pfs/in/%s/deep/h", in.path);
        assert_true(is_there(f, path));
        assert_false(is_there(f, "pfs/in/d2"));
    }
}

static void what_the_row_before_has_too_is_not_fetched(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "in", .path = "d0", .root = make_commit(f, 0)};
    const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
    uint64_t before;

    stage(f->inputs, &row);
    before = pl_io_calls(PL_IO_WRITE);
    pl_inputs_ahead(f->inputs, &row);
    apply(f->inputs);
    pl_inputs_ahead(f->inputs, &row);
    assert_int_equal(pl_io_calls(PL_IO_WRITE), before);
}

static void what_is_not_wanted_after_all_goes(void **state)
{
    struct agent_files *f = *state;
    const struct pl_hash root = make_commit(f, 0);
    struct pl_agent_protocol_input in[] = {{.name = "in", .path = "d0/f", .file = true, .root = root},
                                           {.name = "in", .path = "d1/f", .file = true, .root = root},
                                           {.name = "in", .path = "d2/f", .file = true, .root = root}};
    struct pl_agent_protocol_datum rows[] = {{.inputs = &in[0], .n_inputs = 1},
                                             {.inputs = &in[1], .n_inputs = 1},
                                             {.inputs = &in[2], .n_inputs = 1}};

    stage(f->inputs, &rows[0]);
    pl_inputs_ahead(f->inputs, &rows[1]);
    apply(f->inputs);
    assert_true(is_there(f, "next/.ahead/in/d1/f"));
    stage(f->inputs, &rows[2]); /* the other one was given back */
    assert_false(is_there(f, "next/.ahead/in"));
    pl_inputs_ahead(f->inputs, &rows[1]);
    apply(f->inputs);
    assert_true(is_there(f, "pfs/in/d2/f"));
    pl_inputs_trim(f->inputs);
    assert_false(is_there(f, "next/.ahead/in"));
}

/* A worker that fetches nothing ahead, in a folder of its own. */
static struct pl_inputs *plain_inputs(struct agent_files *f, const char *work)
{
    const struct pl_inputs_config config = {.reader = pl_store_chunk_reader(f->store), .work = work};
    struct pl_inputs *in;
    char path[256];

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", work, i ? "next" : "pfs");
        assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
    }
    assert_int_equal(pl_inputs_create(&config, &in, NULL), 0);
    return in;
}

struct drawn {
    struct pl_agent_protocol_input inputs[INPUTS];
    char paths[INPUTS][64];
    struct pl_agent_protocol_datum row;
};

static void draw(struct drawn *d, unsigned *seed, const struct pl_hash roots[2], bool writable)
{
    static const char *const names[INPUTS] = {"a", "b", "c"}, *const files[] = {"f", "g", "deep/h"};

    memset(d, 0, sizeof(*d));
    for (unsigned i = 0; i < INPUTS; i++) {
        struct pl_agent_protocol_input *in = &d->inputs[d->row.n_inputs];
        const bool file = some(seed, 2);

        if (some(seed, 8) == 0)
            continue;
        if (file)
            snprintf(d->paths[i], sizeof(d->paths[i]), "d%u/%s", some(seed, FOLDERS), files[some(seed, PL_ARRAY_SIZE(files))]);
        else
            snprintf(d->paths[i], sizeof(d->paths[i]), "d%u", some(seed, FOLDERS));
        *in = (struct pl_agent_protocol_input){.name = names[i],
                                               .path = d->paths[i],
                                               .file = file,
                                               .root = roots[some(seed, 2)],
                                               .writable = writable && i == 0,
                                               .json = file && some(seed, 8) == 0 ? "{}" : NULL};
        d->row.n_inputs++;
    }
    d->row.inputs = d->inputs;
}

static void assert_same(const struct agent_files *f, const char *plain, const struct drawn *d)
{
    for (size_t i = 0; i < d->row.n_inputs; i++) {
        char command[700];

        snprintf(command, sizeof(command), "diff -r %s/pfs/%s %s/pfs/%s", f->work, d->inputs[i].name, plain, d->inputs[i].name);
        if (system(command) != 0)
            fail_msg("input %s: %s", d->inputs[i].name, command);
    }
}

/* Whatever is fetched ahead, of the next row or of one that does not come, with writes that fail: the inputs are the row's own. */
static void every_row_has_its_own_inputs(struct agent_files *f)
{
    const struct pl_hash roots[2] = {make_commit(f, 1), make_commit(f, 2)};

    for (unsigned seed = 0; seed < 6; seed++) {
        unsigned at = seed * 7919 + 1;
        struct drawn now, next, never;
        struct pl_inputs *plain;
        pthread_t applies;
        void *failed;
        char work[200];

        snprintf(work, sizeof(work), "%s/plain-%u", f->dir, seed);
        plain = plain_inputs(f, work);
        draw(&now, &at, roots, seed % 2);
        for (unsigned i = 0; i < 60; i++) {
            stage(f->inputs, &now.row);
            draw(&next, &at, roots, seed % 2);
            draw(&never, &at, roots, seed % 2);
            if (some(&at, 4) == 0)
                pl_io_fail_nth(PL_IO_WRITE, 1 + some(&at, 6), ENOSPC);
            assert_int_equal(pthread_create(&applies, NULL, apply_beside, f->inputs), 0);
            if (some(&at, 4))
                pl_inputs_ahead(f->inputs, some(&at, 5) ? &next.row : &never.row);
            assert_int_equal(pthread_join(applies, &failed), 0);
            assert_null(failed);
            pl_io_fail_nth(PL_IO_WRITE, 0, 0);
            stage(plain, &now.row);
            apply(plain);
            assert_same(f, work, &now);
            if (some(&at, 10) == 0)
                pl_inputs_trim(f->inputs);
            memcpy(&now, &next, sizeof(now));
            now.row.inputs = now.inputs;
            for (size_t k = 0; k < now.row.n_inputs; k++)
                for (unsigned p = 0; p < INPUTS; p++)
                    if (next.inputs[k].path == next.paths[p])
                        now.inputs[k].path = now.paths[p];
        }
        pl_inputs_destroy(plain);
    }
}

static void every_row_has_its_own_inputs_behind_a_read_only_mount(void **state)
{
    every_row_has_its_own_inputs(*state);
}

static void every_row_has_its_own_inputs_where_commands_can_write(void **state)
{
    every_row_has_its_own_inputs(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_put_in_place_without_another_fetch, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(what_the_row_before_has_too_is_not_fetched, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_wanted_after_all_goes, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(every_row_has_its_own_inputs_behind_a_read_only_mount, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(every_row_has_its_own_inputs_where_commands_can_write, agent_files_set_up_writable,
                                        agent_files_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
