// link: pipelined/agent/inputs pipelined/agent/outputs storage/base storage/dataset/checkout storage/dataset/ingest storage/object storage/store storage/system storage/tree_edit
/* /pfs/<input> of a datum: what lies there after a fetch, whatever lay there before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/inputs/input_folder.h"
#include "pipelined/agent/inputs/input_reuse.h"
#include "storage/base/clock.h"
#include "storage/dataset/checkout/checkout.h"
#include "tests/support/faults/seeded_random.h"
#include "tests/support/fixtures/agent_fixture.h"
#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>

static char big[300000];

/* train/b1.csv, train/b2.csv, train/deep/er/x, tool (executable), big (a chunk list), empty/ */
static struct pl_hash make_commit(struct agent_files *f)
{
    char in[128], path[160];

    snprintf(in, sizeof(in), "%s/in", f->dir);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 2654435761u >> 13);
    agent_files_write(in, "train/b1.csv", "one", 3, 0644);
    agent_files_write(in, "train/b2.csv", big, 1000, 0644);
    agent_files_write(in, "train/deep/er/x", big, 90, 0644);
    agent_files_write(in, "tool", "#!/bin/sh\n", 10, 0755);
    agent_files_write(in, "big", big, sizeof(big), 0644);
    snprintf(path, sizeof(path), "%s/empty", in);
    assert_int_equal(mkdir(path, 0755), 0);
    return agent_files_commit(f, in);
}

static void fetch(struct agent_files *f, struct pl_agent_protocol_input *inputs, size_t n, uint64_t want_bytes)
{
    const struct pl_agent_protocol_datum row = {.inputs = inputs, .n_inputs = n};
    struct pl_err err = {0};
    uint64_t bytes = 0;

    if (pl_inputs_stage(f->inputs, &row, false, &bytes, &err) < 0 || pl_inputs_apply(f->inputs, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(bytes, want_bytes);
}

/* Is WORK/pfs/<path> a file of `n` bytes and this mode? */
static bool has_file(struct agent_files *f, const char *path, size_t n, mode_t mode)
{
    char whole[512];
    struct stat st;

    snprintf(whole, sizeof(whole), "%s/pfs/%s", f->work, path);
    return lstat(whole, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == n && (st.st_mode & 07777) == mode &&
           st.st_mtime == PL_CHECKOUT_MTIME_S;
}

static bool is_there(struct agent_files *f, const char *path)
{
    char whole[512];

    snprintf(whole, sizeof(whole), "%s/%s", f->work, path);
    return access(whole, F_OK) == 0;
}

static void a_file_match_gives_that_file(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "digits", .path = "train/b1.csv", .root = make_commit(f), .file = true};

    fetch(f, &in, 1, 3);
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    assert_false(is_there(f, "pfs/digits/train/b2.csv"));
    in.path = "train/b2.csv"; /* the next datum */
    fetch(f, &in, 1, 1000);
    assert_true(has_file(f, "digits/train/b2.csv", 1000, 0444));
    assert_false(is_there(f, "pfs/digits/train/b1.csv"));
    in.path = "tool";
    fetch(f, &in, 1, 10);
    assert_true(has_file(f, "digits/tool", 10, 0555));
    in.path = "big";
    fetch(f, &in, 1, sizeof(big));
    assert_true(has_file(f, "digits/big", sizeof(big), 0444));
}

static void the_root_gives_everything(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "digits", .path = "", .root = make_commit(f)};

    fetch(f, &in, 1, 3 + 1000 + 90 + 10 + sizeof(big));
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    assert_true(has_file(f, "digits/train/deep/er/x", 90, 0444));
    assert_true(has_file(f, "digits/tool", 10, 0555));
    assert_true(is_there(f, "pfs/digits/empty"));
}

/* ---- a tree that nobody should have made ---- */

struct crafted {
    size_t next;
    char link_to[160];
};

static int next_crafted(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    static const char *const paths[] = {"d/a", "d/a-x", "d/a/b"};
    struct crafted *c = self;
    const bool link = c->next == 0;

    (void)err;
    if (c->next == PL_ARRAY_SIZE(paths))
        return 0;
    *ret_path = paths[c->next++];
    *ret_len = strlen(*ret_path);
    *ret = link ? pl_entry_inline(PL_KIND_LINK, c->link_to, strlen(c->link_to)) : pl_entry_inline(PL_KIND_FILE, "evil", 4);
    return 1;
}

/* A link "a" beside "a/b": by the second name nothing is written through the first, with few entries nor with many. */
static void a_file_below_a_link_is_refused(void **state)
{
    struct agent_files *f = *state;
    struct pl_input_folder folder = {.reader = pl_store_chunk_reader(f->store)};
    const uint64_t counts[] = {3, PL_INPUTS_FEW + 1};
    char dest[160], outside[200];

    for (size_t i = 0; i < PL_ARRAY_SIZE(counts); i++) {
        struct crafted c = {0};
        const struct pl_entry_source entries = {.self = &c, .next = next_crafted};
        struct pl_err err = {0};

        snprintf(dest, sizeof dest, "%s/dest%zu", f->dir, i);
        snprintf(c.link_to, sizeof c.link_to, "%s/outside%zu", f->dir, i);
        assert_int_equal(mkdir(dest, 0755), 0);
        assert_int_equal(mkdir(c.link_to, 0755), 0);
        assert_int_equal(pl_input_write(&folder, &entries, counts[i], dest, &err), PL_ECOLLISION);
        snprintf(outside, sizeof outside, "%s/outside%zu/b", f->dir, i);
        assert_int_equal(access(outside, F_OK), -1);
    }
    pl_buf_finish(&folder.scratch);
}

static void files_take_a_part_of_a_match(void **state)
{
    struct agent_files *f = *state;
    const char *globs[] = {"*.csv", NULL}, *none[] = {"*.jpg", NULL};
    struct pl_agent_protocol_input in = {.name = "digits", .path = "train", .root = make_commit(f), .files = globs, .n_files = 1};

    fetch(f, &in, 1, 3 + 1000 + 90);
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    assert_false(is_there(f, "pfs/digits/train/deep"));
    assert_false(is_there(f, "pfs/digits/tool"));
    in.files = none;
    fetch(f, &in, 1, 3 + 1000 + 90);
    assert_true(is_there(f, "pfs/digits/train"));
    assert_false(is_there(f, "pfs/digits/train/b1.csv"));
}

static void an_input_that_stays_the_same_stays_where_it_is(void **state)
{
    struct agent_files *f = *state;
    struct pl_hash root = make_commit(f);
    struct pl_agent_protocol_input in[2] = {{.name = "test", .path = "train/b1.csv", .root = root, .file = true},
                                            {.name = "model", .path = "train", .root = root}};
    struct stat before, after;
    char path[512];

    snprintf(path, sizeof(path), "%s/pfs/model", f->work);
    fetch(f, in, 2, 3 + 1093);
    assert_int_equal(stat(path, &before), 0);
    in[0].path = "train/b2.csv";
    fetch(f, in, 2, 1000 + 1093);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    fetch(f, in, 1, 1000); /* a datum without it */
    assert_false(is_there(f, "pfs/model"));
}

/* To remove it takes the longer the larger it is, and a command would wait. */
static void a_file_that_is_replaced_lies_aside_for_as_long_as_the_command_runs(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "digits", .path = "train/b1.csv", .root = make_commit(f), .file = true};
    const char *const others[] = {"train/b2.csv", "train/b1.csv"};
    char folder[128];

    fetch(f, &in, 1, 3);
    for (size_t i = 0; i < PL_ARRAY_SIZE(others); i++) {
        in.path = others[i];
        fetch(f, &in, 1, i == 0 ? 1000 : 3);
        assert_true(is_there(f, "next/digits"));
        assert_false(is_there(f, i == 0 ? "pfs/digits/train/b1.csv" : "pfs/digits/train/b2.csv"));
        pl_inputs_trim(f->inputs);
        assert_false(is_there(f, "next/digits"));
    }
    snprintf(folder, sizeof(folder), "%s/in", f->dir);
    agent_files_write(folder, "tool", "other", 5, 0755);
    in.root = agent_files_commit(f, folder); /* the very file of the cache, by the same name */
    fetch(f, &in, 1, 3);
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    agent_files_write(folder, "train/b1.csv", "another", 7, 0644);
    in.root = agent_files_commit(f, folder);
    fetch(f, &in, 1, 7);
    assert_true(has_file(f, "digits/train/b1.csv", 7, 0444));
    assert_true(is_there(f, "next/digits"));
    pl_inputs_trim(f->inputs);
    assert_false(is_there(f, "next/digits"));
}

static void where_a_command_can_write_every_datum_gets_its_own(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "digits", .path = "train", .root = make_commit(f)};
    char path[512];
    struct stat st;

    fetch(f, &in, 1, 1093);
    snprintf(path, sizeof(path), "%s/pfs/digits/train/b2.csv", f->work);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 1); /* no link into the cache */
    assert_int_equal(unlink(path), 0);
    fetch(f, &in, 1, 1093);
    assert_true(has_file(f, "digits/train/b2.csv", 1000, 0444));
}

static void behind_a_read_only_mount_files_are_links_into_the_cache(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "digits", .path = "train/b2.csv", .root = make_commit(f), .file = true};
    char path[512];
    struct stat st;

    fetch(f, &in, 1, 1000);
    snprintf(path, sizeof(path), "%s/pfs/digits/train/b2.csv", f->work);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

static void what_is_not_there_is_named(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "digits", .path = "train/b9.csv", .root = make_commit(f), .file = true};
    const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
    struct pl_err err = {0};
    uint64_t bytes;

    assert_int_equal(pl_inputs_stage(f->inputs, &row, true, &bytes, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "input digits"));
    assert_non_null(strstr(err.msg, "train/b9.csv"));
    assert_false(is_there(f, "next/digits"));
    in.path = "train/b1.csv"; /* and the next datum goes on */
    fetch(f, &in, 1, 3);
}

struct giving_up {
    struct pl_chunk_reader reader;
    _Atomic int gets; /* that succeed still */
};

static int get_until_given_up(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    struct giving_up *g = self;

    if (atomic_fetch_sub(&g->gets, 1) <= 0)
        return pl_err_set(err, PL_ECANCELED, "not wanted any more");
    return g->reader.get(g->reader.self, id, kind, ret, err);
}

/* A worker whose lease is taken back while it fetches takes the next one at once: what is large is removed while that one's command runs. */
static void what_was_begun_of_a_fetch_that_is_given_up_is_removed_later(void **state)
{
    struct agent_files *f = *state;
    struct giving_up g = {.reader = pl_store_chunk_reader(f->store), .gets = 30};
    const struct pl_inputs_config config = {.reader = {.self = &g, .get = get_until_given_up},
                                            .work = f->work,
                                            .read_only = true};
    struct pl_agent_protocol_input in = {.name = "in", .path = ""};
    const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
    struct pl_err err = {0};
    char folder[160], name[32];
    uint64_t bytes;

    pl_inputs_destroy(f->inputs);
    assert_int_equal(pl_inputs_create(&config, &f->inputs, &err), 0);
    snprintf(folder, sizeof(folder), "%s/in", f->dir);
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        big[0] = (char)i;
        agent_files_write(folder, name, big, 1000, 0644);
    }
    in.root = agent_files_commit(f, folder);
    for (int again = 0; again < 2; again++) {
        atomic_store(&g.gets, 30);
        assert_int_equal(pl_inputs_stage(f->inputs, &row, true, &bytes, &err), PL_ECANCELED);
        assert_false(is_there(f, "next/in"));
        assert_true(is_there(f, "next/.gone/f0")); /* one lies aside, also after another try */
    }
    atomic_store(&g.gets, 1000);
    fetch(f, &in, 1, 60000);
    assert_true(has_file(f, "in/f59", 1000, 0444));
    assert_true(is_there(f, "next/.gone"));
    pl_inputs_trim(f->inputs);
    assert_false(is_there(f, "next/.gone"));
}

static void many_files_come_by_all_cores(void **state)
{
    struct agent_files *f = *state;
    char in[128], name[32];
    struct pl_agent_protocol_input input = {.name = "many", .path = "d"};

    snprintf(in, sizeof(in), "%s/in", f->dir);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "d/%03d", i);
        agent_files_write(in, name, name, strlen(name), 0644);
    }
    input.root = agent_files_commit(f, in);
    fetch(f, &input, 1, 1000);
    assert_true(has_file(f, "many/d/000", 5, 0444));
    assert_true(has_file(f, "many/d/199", 5, 0444));
}

/* --- checkout by difference against checkout --- */

#define NAMES 4

/* "d/1/a.csv" and the like: few names, so that files and folders take each other's place. */
static void some_path(unsigned *seed, char out[64])
{
    static const char *const names[NAMES] = {"1", "a.csv", "b", "e"};
    size_t at = (size_t)sprintf(out, "%s", some(seed, 4) ? "d" : "other");

    for (unsigned depth = some(seed, 4); depth > 0; depth--)
        at += (size_t)sprintf(out + at, "/%s%u", names[some(seed, NAMES)], some(seed, 30));
    if (!strchr(out, '/'))
        strcat(out, "/top");
}

/* One change of the folder: a file, an executable, a link or an empty folder comes, something goes. */
static void change_something(const char *folder, unsigned *seed)
{
    char path[64], whole[256], content[128];

    some_path(seed, path);
    snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    for (char *slash = strchr(whole + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct stat st;
        *slash = 0;
        if (lstat(whole, &st) == 0 && !S_ISDIR(st.st_mode))
            assert_int_equal(unlink(whole), 0);
        *slash = '/';
    }
    assert_int_equal(pl_io_remove_tree(whole, NULL), 0);
    if (some(seed, 4) == 0)
        return;
    snprintf(content, sizeof(content), "%0*u", some(seed, 2) ? 3 : 100, some(seed, 1000));
    agent_files_write(folder, path, content, strlen(content), some(seed, 5) ? 0644 : 0755);
    if (some(seed, 6))
        return;
    assert_int_equal(unlink(whole), 0);
    if (some(seed, 2))
        assert_int_equal(mkdir(whole, 0755), 0);
    else
        assert_int_equal(symlink("1", whole), 0);
}

/* Is all of `a` in `b`, alike? Folders are looked into. */
static void assert_within(const char *a, const char *b)
{
    DIR *dir = opendir(a);
    const struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir))) {
        char x[512], y[512], text_x[300] = "", text_y[300] = "";
        struct stat st_x, st_y;

        if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
            continue;
        snprintf(x, sizeof(x), "%s/%s", a, e->d_name);
        snprintf(y, sizeof(y), "%s/%s", b, e->d_name);
        assert_int_equal(lstat(x, &st_x), 0);
        if (lstat(y, &st_y) < 0)
            fail_msg("%s is not there", y);
        assert_int_equal(st_x.st_mode, st_y.st_mode);
        if (S_ISDIR(st_x.st_mode)) {
            assert_within(x, y);
            continue;
        }
        assert_int_equal(st_x.st_size, st_y.st_size);
        if (S_ISLNK(st_x.st_mode)) {
            assert_true(readlink(x, text_x, sizeof(text_x)) > 0 && readlink(y, text_y, sizeof(text_y)) > 0);
        } else {
            _cleanup_(pl_buf_finish) struct pl_buf buf_x = {0}, buf_y = {0};
            assert_int_equal(st_x.st_mtime, st_y.st_mtime);
            assert_int_equal(pl_io_read_file(x, &buf_x, NULL), 0);
            assert_int_equal(pl_io_read_file(y, &buf_y, NULL), 0);
            assert_memory_equal(buf_x.data, buf_y.data, buf_x.len);
        }
        assert_string_equal(text_x, text_y);
    }
    closedir(dir);
}

static ino_t inode_of(struct agent_files *f, const char *path)
{
    char whole[512];
    struct stat st;

    snprintf(whole, sizeof(whole), "%s/pfs/%s", f->work, path);
    assert_int_equal(stat(whole, &st), 0);
    return st.st_ino;
}

/* Stages the input and puts it in place; `plain` is another worker's folder, where all is built anew. */
static void fetch_both(struct agent_files *f, struct pl_inputs *plain, const char *plain_work, struct pl_agent_protocol_input *in,
                       bool alone)
{
    const struct pl_agent_protocol_datum row = {.inputs = in, .n_inputs = 1};
    char ours[300], theirs[300];
    uint64_t bytes, plain_bytes;
    struct pl_err err = {0};

    if (pl_inputs_stage(f->inputs, &row, alone, &bytes, &err) < 0 || pl_inputs_apply(f->inputs, &err) < 0)
        fail_msg("%s", err.msg);
    pl_inputs_trim(f->inputs);
    if (pl_inputs_stage(plain, &row, false, &plain_bytes, &err) < 0 || pl_inputs_apply(plain, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(bytes, plain_bytes);
    snprintf(ours, sizeof(ours), "%s/pfs/in", f->work);
    snprintf(theirs, sizeof(theirs), "%s/pfs/in", plain_work);
    assert_within(ours, theirs);
    assert_within(theirs, ours);
}

static void a_checkout_becomes_that_of_any_other_commit(void **state)
{
    static const char *globs[] = {"**.csv*", NULL};
    struct agent_files *f = *state;

    unsigned changed = 0; /* in place */

    for (unsigned seed = 0; seed < 12; seed++) {
        unsigned draw = seed * 7919;
        struct pl_agent_protocol_input in = {.name = "in", .path = seed % 3 == 0 ? "" : "d"};
        struct pl_inputs_config config = {.reader = pl_store_chunk_reader(f->store), .work = NULL};
        struct pl_inputs *plain;
        char folder[160], plain_work[200];

        if (seed % 2) {
            in.files = globs;
            in.n_files = 1;
        }
        snprintf(folder, sizeof(folder), "%s/in-%u", f->dir, seed);
        snprintf(plain_work, sizeof(plain_work), "%s/plain-%u", f->dir, seed);
        config.work = plain_work;
        for (int i = 0; i < 2; i++) {
            char path[256];
            snprintf(path, sizeof(path), "%s/%s", plain_work, i ? "next" : "pfs");
            assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
        }
        assert_int_equal(pl_inputs_create(&config, &plain, NULL), 0);
        agent_files_write(folder, "d/kept", "kept", 4, 0644);
        for (int i = 0; i < 500; i++)
            change_something(folder, &draw);
        for (int commit = 0; commit < 8; commit++) {
            const bool alone = some(&draw, 2);
            const ino_t before = commit ? inode_of(f, "in") : 0;

            in.root = agent_files_commit(f, folder);
            fetch_both(f, plain, plain_work, &in, alone);
            changed += commit && alone && inode_of(f, "in") == before;
            for (unsigned i = some(&draw, 40); i > 0; i--)
                change_something(folder, &draw);
        }
        pl_inputs_destroy(plain);
    }
    assert_true(changed > 10);
}

/* train/000 … train/199 and what was asked for. */
static struct pl_hash commit_many(struct agent_files *f, const char *extra)
{
    char in[128], name[32];

    snprintf(in, sizeof(in), "%s/many", f->dir);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "train/%03d", i);
        agent_files_write(in, name, big, 100, 0644);
    }
    agent_files_write(in, extra, extra, strlen(extra), 0644);
    return agent_files_commit(f, in);
}

static void in_place_while_no_command_runs_else_two_copies_in_turn(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "in", .path = ""};
    const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
    struct pl_hash root[3] = {commit_many(f, "x"), commit_many(f, "y"), commit_many(f, "z")};
    ino_t first, second;
    uint64_t bytes;

    in.root = root[0];
    fetch(f, &in, 1, 200 * 100 + 1);
    first = inode_of(f, "in");
    in.root = root[1];
    assert_int_equal(pl_inputs_stage(f->inputs, &row, true, &bytes, NULL), 0); /* alone */
    assert_int_equal(pl_inputs_apply(f->inputs, NULL), 0);
    assert_int_equal(inode_of(f, "in"), first);
    assert_true(has_file(f, "in/y", 1, 0444));
    in.root = root[2];
    fetch(f, &in, 1, 200 * 100 + 3); /* a command runs: built aside */
    second = inode_of(f, "in");
    assert_int_not_equal(second, first);
    in.root = root[0];
    fetch(f, &in, 1, 200 * 100 + 1); /* the older one */
    assert_int_equal(inode_of(f, "in"), first);
    assert_false(is_there(f, "pfs/in/y"));
    in.root = root[2];
    fetch(f, &in, 1, 200 * 100 + 3);
    assert_int_equal(inode_of(f, "in"), second);
}

static void a_checkout_that_is_not_what_it_should_be_is_made_anew(void **state)
{
    struct agent_files *f = *state;
    struct pl_agent_protocol_input in = {.name = "in", .path = "", .root = commit_many(f, "x")};
    char path[512];
    uint64_t bytes;
    const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};

    fetch(f, &in, 1, 200 * 100 + 1);
    snprintf(path, sizeof(path), "%s/many/x", f->dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/pfs/in/x", f->work);
    assert_int_equal(unlink(path), 0); /* nobody may, but if */
    in.root = commit_many(f, "y");
    assert_int_equal(pl_inputs_stage(f->inputs, &row, true, &bytes, NULL), 0);
    assert_int_equal(pl_inputs_apply(f->inputs, NULL), 0);
    assert_true(has_file(f, "in/y", 1, 0444) && has_file(f, "in/train/199", 100, 0444));
    assert_false(is_there(f, "pfs/in/x"));
}

/* --- checkouts that outlive their worker --- */

/* Another worker of the stage, with a work folder of its own. */
static struct pl_inputs *next_worker(struct agent_files *f, unsigned number, const char *stage, char work[200])
{
    struct pl_inputs_config config = {
        .reader = pl_store_chunk_reader(f->store), .work = work, .read_only = true, .project = "p", .stage = stage};
    static char cache[160]; /* used as long as it lives */
    char path[256];
    struct pl_inputs *in;

    snprintf(work, 200, "%s/worker-%u", f->dir, number);
    snprintf(cache, sizeof(cache), "%s/cache", f->dir);
    config.cache = cache;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", work, i ? "next" : "pfs");
        assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
    }
    assert_int_equal(pl_inputs_create(&config, &in, NULL), 0);
    return in;
}

/* Makes `root` its input and leaves; the folder's inode. */
static ino_t work_once(struct agent_files *f, unsigned number, const char *stage, const struct pl_hash *root, uint64_t want_bytes)
{
    struct pl_agent_protocol_input in = {.name = "in", .path = "", .root = *root};
    const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
    char work[200], path[300];
    struct pl_inputs *inputs = next_worker(f, number, stage, work);
    struct pl_err err = {0};
    struct stat st;
    uint64_t bytes;

    if (pl_inputs_stage(inputs, &row, true, &bytes, &err) < 0 || pl_inputs_apply(inputs, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(bytes, want_bytes);
    snprintf(path, sizeof(path), "%s/pfs/in", work);
    assert_int_equal(stat(path, &st), 0);
    pl_inputs_keep(inputs);
    pl_inputs_destroy(inputs);
    assert_int_equal(pl_io_remove_tree(work, NULL), 0);
    return st.st_ino;
}

static unsigned count_kept(struct agent_files *f)
{
    const struct dirent *e;
    char path[200];
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/cache/kept", f->dir);
    dir = opendir(path);
    while (dir && (e = readdir(dir)))
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static struct pl_hash commit_thousand(struct agent_files *f, const char *content)
{
    char in[128], name[32];

    snprintf(in, sizeof(in), "%s/thousand", f->dir);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "%03d", i);
        agent_files_write(in, name, big, 80, 0644);
    }
    agent_files_write(in, "500", content, strlen(content), 0644);
    return agent_files_commit(f, in);
}

static void the_next_worker_goes_on_with_the_last_ones_checkout(void **state)
{
    struct agent_files *f = *state;
    struct pl_hash one = commit_thousand(f, "one"), three = commit_thousand(f, "three");
    ino_t first = work_once(f, 1, "st", &one, 999 * 80 + 3);

    assert_int_equal(count_kept(f), 1);
    assert_int_equal(work_once(f, 2, "st", &three, 999 * 80 + 5), first);
    assert_int_not_equal(work_once(f, 3, "other", &three, 999 * 80 + 5), first);
    assert_int_equal(count_kept(f), 2);
    assert_int_equal(work_once(f, 4, "st", &three, 999 * 80 + 5), first); /* the very same */
}

static void few_checkouts_are_kept_the_newest(void **state)
{
    struct agent_files *f = *state;
    char cache[160], folder[200], key[PL_INPUT_REUSE_KEY], name[16];
    struct pl_hash root = {.b = {1}};
    const char *text = name;

    snprintf(cache, sizeof(cache), "%s/cache", f->dir);
    snprintf(folder, sizeof(folder), "%s/one", f->dir);
    for (unsigned i = 0; i < PL_INPUT_REUSE_MAX + 3; i++) {
        const int64_t now_ms = pl_clock_wall_us() / 1000;
        snprintf(name, sizeof(name), "%u", i);
        pl_input_reuse_key(&text, 1, NULL, 0, key);
        assert_int_equal(mkdir(folder, 0755), 0);
        pl_input_reuse_put(cache, key, folder, &root);
        while (pl_clock_wall_us() / 1000 == now_ms)
            sched_yield();
    }
    assert_int_equal(count_kept(f), PL_INPUT_REUSE_MAX);
    assert_true(pl_input_reuse_take(cache, key, folder, &root));
    assert_int_equal(root.b[0], 1);
    assert_false(pl_input_reuse_take(cache, key, folder, &root));
    text = "0";
    pl_input_reuse_key(&text, 1, NULL, 0, key);
    assert_int_equal(rmdir(folder), 0);
    assert_false(pl_input_reuse_take(cache, key, folder, &root));
}

/* ---- a disk that fails ---- */

static void assert_bytes(struct agent_files *f, const char *path, const void *want, size_t n)
{
    char whole[512];
    struct pl_buf got = {0};

    snprintf(whole, sizeof(whole), "%s/pfs/digits/%s", f->work, path);
    assert_int_equal(pl_io_read_file(whole, &got, NULL), 0);
    assert_int_equal(got.len, n);
    assert_memory_equal(got.data, want, n);
    pl_buf_finish(&got);
}

/* The commit number `n`: one file says so. */
static struct pl_hash commit_number(struct agent_files *f, unsigned n)
{
    char in[128], text[100];

    snprintf(in, sizeof(in), "%s/in", f->dir);
    memset(text, 'x', sizeof(text));
    snprintf(text, sizeof(text), "%u", n);
    agent_files_write(in, "train/b2.csv", text, sizeof(text), 0644);
    return agent_files_commit(f, in);
}

static void assert_number(struct agent_files *f, unsigned n)
{
    char text[100];

    memset(text, 'x', sizeof(text));
    snprintf(text, sizeof(text), "%u", n);
    assert_bytes(f, "train/b2.csv", text, sizeof(text));
    assert_bytes(f, "train/b1.csv", "one", 3);
    assert_bytes(f, "big", big, sizeof(big));
}

static void a_failure_at_any_write_leaves_what_is_in_place_and_the_next_try_does_all(void **state)
{
    static const uint64_t bytes = 3 + 100 + 90 + 10 + sizeof(big);
    struct agent_files *f = *state;
    unsigned number = 0, failures = 0;
    bool more = true;

    (void)make_commit(f);
    for (uint64_t n = 1; more; n++) {
        struct pl_agent_protocol_input in = {.name = "digits", .path = "", .root = commit_number(f, ++number)};
        const struct pl_agent_protocol_datum row = {.inputs = &in, .n_inputs = 1};
        struct pl_err err = {0};
        uint64_t before, staged;
        int r;

        fetch(f, &in, 1, bytes);
        assert_number(f, number);
        in.root = commit_number(f, ++number);
        before = pl_io_calls(PL_IO_WRITE);
        pl_io_fail_nth(PL_IO_WRITE, n, ENOSPC);
        r = pl_inputs_stage(f->inputs, &row, false, &staged, &err);
        pl_io_fail_nth(PL_IO_WRITE, 0, 0);
        more = pl_io_calls(PL_IO_WRITE) - before >= n;
        if (r < 0 ? r != PL_ENOSPC || !strstr(err.msg, "digits") : more)
            fail_msg("write %u: %d: %s", (unsigned)n, r, err.msg);
        failures += r < 0;
        if (r < 0)
            assert_number(f, number - 1);
        fetch(f, &in, 1, bytes);
        assert_number(f, number);
    }
    assert_true(failures > 0);
}

static void the_code_is_a_copy_that_can_be_written_to(void **state)
{
    struct agent_files *f = *state;
    struct pl_hash root = make_commit(f);
    char code[256], path[512];
    struct stat st;
    struct pl_err err = {0};

    snprintf(code, sizeof(code), "%s/code", f->work);
    if (pl_inputs_code(f->inputs, &root, code, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(path, sizeof(path), "%s/tool", code);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(st.st_nlink, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_match_gives_that_file, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(the_root_gives_everything, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(files_take_a_part_of_a_match, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(a_file_below_a_link_is_refused, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(an_input_that_stays_the_same_stays_where_it_is, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_replaced_lies_aside_for_as_long_as_the_command_runs, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(where_a_command_can_write_every_datum_gets_its_own, agent_files_set_up_writable,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(behind_a_read_only_mount_files_are_links_into_the_cache, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_named, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(what_was_begun_of_a_fetch_that_is_given_up_is_removed_later, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(many_files_come_by_all_cores, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(a_checkout_becomes_that_of_any_other_commit, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(in_place_while_no_command_runs_else_two_copies_in_turn, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(a_checkout_that_is_not_what_it_should_be_is_made_anew, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(the_next_worker_goes_on_with_the_last_ones_checkout, agent_files_set_up,
                                        agent_files_tear_down),
        cmocka_unit_test_setup_teardown(few_checkouts_are_kept_the_newest, agent_files_set_up, agent_files_tear_down),
        cmocka_unit_test_setup_teardown(a_failure_at_any_write_leaves_what_is_in_place_and_the_next_try_does_all,
                                        agent_files_set_up, agent_files_tear_down),
        {"a_failure_at_any_write… (writable)", a_failure_at_any_write_leaves_what_is_in_place_and_the_next_try_does_all,
         agent_files_set_up_writable, agent_files_tear_down, NULL},
        cmocka_unit_test_setup_teardown(the_code_is_a_copy_that_can_be_written_to, agent_files_set_up, agent_files_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
