// link: storage/base storage/dataset/checkout storage/dataset/commit storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree_edit
/* fsck: a byte that is wrong anywhere in a store is found, and the files that it hurts are named. */
#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/dataset/commit/commit.h"
#include "storage/dataset/fsck/fsck.h"

#define LABEL "default/data@00112233445566778899aabbccddeeff"

struct findings {
    size_t n;
    size_t packs; /* that name a pack */
    size_t files; /* that name a file */
    char paths[4096];
    char whats[8192];
};

static int collect(void *self, const struct pl_fsck_finding *finding, struct pl_err *err)
{
    struct findings *all = self;
    size_t used = strlen(all->paths), what = strlen(all->whats);

    (void)err;
    all->n++;
    all->packs += finding->pack != NULL;
    all->files += finding->path != NULL;
    if (finding->path != NULL) {
        assert_string_equal(finding->commit, LABEL);
        (void)snprintf(all->paths + used, sizeof(all->paths) - used, "[%s]", finding->path);
    }
    (void)snprintf(all->whats + what, sizeof(all->whats) - what, "[%s]", finding->what);
    return 0;
}

/* A small store: a commit of inline files, one-chunk files, a file of several chunks, a link; enough files for two levels of nodes. */
static struct pl_hash make_store(struct fixture *f, unsigned extra)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, bytes = {0};
    struct pl_pack_sink sink = pl_store_sink(f->store);
    struct pl_commit c = {
        .project = "default", .repo = "data", .id = "00112233445566778899aabbccddeeff", .branch = "master", .generation = 1};
    struct pl_hash id;
    char path[64];

    put_noise(f, "in/one", 3000, 1);
    put_noise(f, "in/list", 400000, 2);
    put_text(f, "in/inline", "small");
    put_link(f, "in/link", "one");
    for (unsigned i = 0; i < extra; i++) {
        print_to(path, sizeof(path), "in/many/%05u", i);
        put_text(f, path, "x");
    }
    OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    c.tree = tree_of(f, &ops);
    OK(f, pl_commit_encode(&c, &bytes, &f->err));
    OK(f, pl_pack_builder_open(&sink, "default", &session, &f->err));
    OK(f, pl_pack_builder_add(session, PL_REC_COMMIT, bytes.data, bytes.len, &id, &f->err));
    OK(f, pl_pack_builder_finish(session, &f->err));
    return id;
}

static struct pl_fsck_report check(struct fixture *f, const struct pl_hash *commit, bool full, struct findings *all)
{
    struct pl_fsck_root root = {.label = LABEL, .object = *commit};
    struct pl_fsck_options o = {.full = full, .finding = collect, .self = all};
    struct pl_fsck_report report = {0};

    *all = (struct findings){0};
    OK(f, pl_fsck(f->store, &root, 1, &o, &report, &f->err));
    assert_int_equal(report.findings, all->n);
    return report;
}

static const char *pack_path(const struct fixture *f, const struct pl_hash *pack)
{
    char key[PL_PACK_KEY_BYTES], path[256];

    print_to(path, sizeof(path), "store/%s", pl_pack_key("default", pack, key));
    return at(f, path);
}

static void flip(const struct fixture *f, const struct pl_hash *pack, uint64_t offset)
{
    const char *path = pack_path(f, pack);
    uint8_t byte;
    int fd;

    assert_int_equal(chmod(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static void reopen(struct fixture *f)
{
    fixture_close_store(f);
    fixture_open_store(f);
}

static void a_good_store_has_no_findings(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 2000);
    struct findings all;
    struct pl_fsck_report report = {0};

    report = check(f, &commit, false, &all);
    assert_int_equal(all.n, 0);
    assert_int_equal(report.files, 2004);
    assert_true(report.nodes > 2);
    assert_int_equal(report.records, 0);
    report = check(f, &commit, true, &all);
    assert_int_equal(all.n, 0);
    assert_true(report.records > report.nodes + 4);
}

/* Every byte of every pack: the check by itself, and through a store that is opened on the damage. */
static void every_flipped_byte_is_found(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    _cleanup_free_ struct pl_hash *packs = NULL;
    struct findings all;
    size_t n;

    OK(f, pl_store_packs(f->store, &packs, &n, &f->err));
    for (size_t p = 0; p < n; p++) {
        struct stat st;

        assert_int_equal(stat(pack_path(f, &packs[p]), &st), 0);
        for (off_t at_byte = 0;
             at_byte<st.st_size; at_byte += st.st_size> 20000 && at_byte > 200 && at_byte < st.st_size - 900 ? 4099 : 1) {
            flip(f, &packs[p], (uint64_t)at_byte);
            reopen(f);
            (void)check(f, &commit, true, &all);
            if (all.packs == 0)
                fail_msg("pack %zu: byte %ld of %ld: not found", p, (long)at_byte, (long)st.st_size);
            flip(f, &packs[p], (uint64_t)at_byte);
        }
    }
}

/* Flips a byte in the middle of what is stored for a record. */
static void flip_record(struct fixture *f, const struct pl_hash *id)
{
    struct pl_location where;

    OK(f, pl_store_locate(f->store, id, &where, &f->err));
    flip(f, &where.pack, where.offset + PL_PACK_RECORD_BYTES + where.stored / 2);
    reopen(f);
}

static struct pl_entry entry_of(struct fixture *f, const struct pl_hash *commit, const char *path)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_node_source nodes = {.self = f->store, .get = pl_store_node_get};
    struct pl_commit c;
    struct pl_entry e;

    OK(f, pl_store_get(f->store, commit, PL_REC_COMMIT, &bytes, &f->err));
    OK(f, pl_commit_decode(bytes.data, bytes.len, arena, &c, &f->err));
    OK(f, pl_tree_get(&nodes, &c.tree, path, strlen(path), &e, &f->err));
    return e;
}

static void a_damaged_chunk_names_its_file(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    struct pl_entry e = entry_of(f, &commit, "one");
    struct findings all;

    flip_record(f, &e.id);
    (void)check(f, &commit, true, &all);
    assert_int_equal(all.packs, 1);
    assert_string_equal(all.paths, "[one]");
}

static void a_damaged_chunk_of_a_list_names_its_file_once(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    struct pl_entry e = entry_of(f, &commit, "list");
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_list list;
    struct pl_hash chunk;
    struct findings all;
    uint64_t len;

    OK(f, pl_store_get(f->store, &e.id, PL_REC_LIST, &bytes, &f->err));
    OK(f, pl_list_decode(bytes.data, bytes.len, &list, &f->err));
    for (size_t i = 0; i < 2; i++) {
        pl_list_entry(&list, i, &chunk, &len);
        flip_record(f, &chunk);
    }
    (void)check(f, &commit, true, &all);
    assert_int_equal(all.packs, 2);
    assert_string_equal(all.paths, "[list]");
}

static void a_damaged_list_names_its_file(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    struct pl_entry e = entry_of(f, &commit, "list");
    struct findings all;

    flip_record(f, &e.id);
    (void)check(f, &commit, true, &all);
    assert_string_equal(all.paths, "[list]");
    (void)check(f, &commit, false, &all); /* lists are read by the quick check as well */
    assert_string_equal(all.paths, "[list]");
}

static void a_lost_pack_names_all_its_files(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    struct pl_entry e = entry_of(f, &commit, "one");
    struct pl_location where;
    struct findings all;

    OK(f, pl_store_locate(f->store, &e.id, &where, &f->err));
    assert_int_equal(unlink(pack_path(f, &where.pack)), 0);
    reopen(f);
    (void)check(f, &commit, false, &all);
    assert_string_equal(all.paths, "[list][one]");
}

static void a_damaged_leaf_says_which_files_are_hurt(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 3000);
    struct pl_node_source nodes = {.self = f->store, .get = pl_store_node_get};
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0}, root = {0};
    struct pl_commit c;
    struct pl_hash leaf;
    struct findings all;

    OK(f, pl_store_get(f->store, &commit, PL_REC_COMMIT, &bytes, &f->err));
    OK(f, pl_commit_decode(bytes.data, bytes.len, arena, &c, &f->err));
    OK(f, nodes.get(nodes.self, &c.tree, &root, &f->err));
    /* the first child of the root: behind header and first key come 32 bytes of id */
    memcpy(leaf.b, root.data + 11 + 2 + root.data[12], PL_HASH_BYTES);
    flip_record(f, &leaf);
    (void)check(f, &commit, true, &all);
    assert_int_equal(all.files, 1);
    assert_non_null(strstr(all.whats, "files after \"\" up to this one are affected"));
}

static void a_damaged_commit_is_named(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0), other = commit;
    struct findings all;

    other.b[0] ^= 1;
    (void)check(f, &other, false, &all);
    assert_int_equal(all.n, 1);
    flip_record(f, &commit);
    (void)check(f, &commit, true, &all);
    assert_true(all.n >= 2);
}

static bool yes(void *self)
{
    (void)self;
    return true;
}

static void it_can_be_stopped(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    struct pl_fsck_root root = {.label = LABEL, .object = commit};
    struct pl_fsck_options o = {.stop = yes};
    struct pl_fsck_report report = {0};

    FAILS(f, pl_fsck(f->store, &root, 1, &o, &report, &f->err), PL_ECANCELED, "stopped");
}

/* ---- several threads, and going on ---- */

/* A store of more than `n` packs; the commit that needs all. */
static struct pl_hash many_packs(struct fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
        char path[64];

        print_to(path, sizeof(path), "in/pack%03u", i);
        put_noise(f, path, 3000, 100 + i);
        OK(f, ingest_folder(f, "in", NULL, &ops, NULL));
    }
    return make_store(f, 0);
}

struct steps {
    struct pl_hash upto; /* of the last call */
    uint64_t calls, stop_after;
    struct findings all;
};

static int note_step(void *self, const struct pl_fsck_progress *p, struct pl_err *err)
{
    struct steps *s = self;

    (void)err;
    if (!pl_streq(p->stage, "packs"))
        return 0;
    s->calls++;
    if (p->upto != NULL) {
        assert_true(memcmp(s->upto.b, p->upto->b, PL_HASH_BYTES) <= 0);
        s->upto = *p->upto;
    }
    return s->calls == s->stop_after ? PL_ECANCELED : 0;
}

static int collect_steps(void *self, const struct pl_fsck_finding *finding, struct pl_err *err)
{
    return collect(&((struct steps *)self)->all, finding, err);
}

static struct pl_fsck_options step_options(struct steps *s, unsigned threads)
{
    return (struct pl_fsck_options){.full = true, .threads = threads, .finding = collect_steps, .progress = note_step, .self = s};
}

static void several_threads_find_what_one_finds(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = many_packs(f, 12);
    struct pl_fsck_root root = {.label = LABEL, .object = commit};
    _cleanup_free_ struct pl_hash *packs = NULL;
    struct steps found[2] = {0};
    struct pl_fsck_report sums[2] = {0};
    size_t n;

    OK(f, pl_store_packs(f->store, &packs, &n, &f->err));
    assert_true(n >= 12);
    for (size_t i = 0; i < n; i += 3)
        flip(f, &packs[i], 300);
    reopen(f);
    for (unsigned i = 0; i < 2; i++) {
        struct pl_fsck_options o = step_options(&found[i], i == 0 ? 1 : 8);

        OK(f, pl_fsck(f->store, &root, 1, &o, &sums[i], &f->err));
        assert_int_equal(found[i].calls, n);
    }
    assert_true(sums[0].findings > 0);
    assert_memory_equal(&sums[0], &sums[1], sizeof(sums[0]));
    assert_string_equal(found[0].all.paths, found[1].all.paths);
}

/* Interrupted anywhere it goes on: together they read each pack once, and the end result has all findings of the damaged ones. */
static void an_interrupted_check_goes_on(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = many_packs(f, 9);
    struct pl_fsck_root root = {.label = LABEL, .object = commit};
    _cleanup_free_ struct pl_hash *packs = NULL;
    size_t n;

    OK(f, pl_store_packs(f->store, &packs, &n, &f->err));
    for (unsigned at = 1; at <= n; at++) {
        struct steps first = {.stop_after = at}, second = {0};
        struct pl_fsck_options o = step_options(&first, at % 2 ? 1 : 3);
        struct pl_fsck_report sum = {0};

        FAILS(f, pl_fsck(f->store, &root, 1, &o, &sum, &f->err), PL_ECANCELED, "");
        o = step_options(&second, 2);
        o.after = &first.upto;
        sum = (struct pl_fsck_report){0};
        OK(f, pl_fsck(f->store, &root, 1, &o, &sum, &f->err));
        assert_int_equal(sum.packs + sum.earlier, n);
        if (at % 2)
            assert_int_equal(sum.earlier, at);
        assert_int_equal(sum.findings, 0);
    }
}

static void packs_with_findings_are_read_again_when_it_goes_on(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0), after;
    struct pl_entry e = entry_of(f, &commit, "one");
    struct pl_fsck_root root = {.label = LABEL, .object = commit};
    struct pl_fsck_report sum = {0};
    struct pl_location where;
    struct steps s = {0};
    struct pl_fsck_options o = step_options(&s, 1);

    flip_record(f, &e.id);
    OK(f, pl_store_locate(f->store, &e.id, &where, &f->err));
    memset(after.b, 0xff, sizeof(after.b));
    o.after = &after;
    OK(f, pl_fsck(f->store, &root, 1, &o, &sum, &f->err));
    assert_int_equal(sum.packs, 0);
    assert_int_equal(sum.findings, 0); /* nothing is read that the check before has read */
    o.again = &where.pack;
    o.n_again = 1;
    OK(f, pl_fsck(f->store, &root, 1, &o, &sum, &f->err));
    assert_int_equal(sum.packs, 1);
    assert_string_equal(s.all.paths, "[one]");
}

/* ---- what else must be whole ---- */

static bool no(void *self, const struct pl_fsck_root *root)
{
    (void)self;
    (void)root;
    return false;
}

static void what_was_deleted_meanwhile_is_not_said_to_be_hurt(void **state)
{
    struct fixture *f = *state;
    struct pl_hash commit = make_store(f, 0);
    struct pl_entry e = entry_of(f, &commit, "one");
    struct pl_fsck_root root = {.label = LABEL, .object = commit};
    struct findings all = {0};
    struct pl_fsck_options o = {.finding = collect, .alive = no, .self = &all};
    struct pl_fsck_report sum = {0};
    struct pl_location where;

    OK(f, pl_store_locate(f->store, &e.id, &where, &f->err));
    pl_store_drop_pack(f->store, &where.pack);
    OK(f, pl_fsck(f->store, &root, 1, &o, &sum, &f->err));
    assert_int_equal(all.n, 0);
    o.alive = NULL;
    OK(f, pl_fsck(f->store, &root, 1, &o, &sum, &f->err));
    assert_true(all.n > 0);
}

static void trees_of_code_and_blobs_are_checked_like_commits(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_hash commit = make_store(f, 0);
    struct pl_entry e = entry_of(f, &commit, "one");
    struct pl_fsck_root roots[2] = {{.label = LABEL, .kind = PL_FSCK_TREE}, {.label = LABEL, .kind = PL_FSCK_BLOB}};
    struct findings all = {0};
    struct pl_fsck_options o = {.full = true, .finding = collect, .self = &all};
    struct pl_fsck_report sum = {0};
    struct pl_commit c;

    OK(f, pl_store_get(f->store, &commit, PL_REC_COMMIT, &bytes, &f->err));
    OK(f, pl_commit_decode(bytes.data, bytes.len, arena, &c, &f->err));
    roots[0].object = c.tree;
    roots[1].object = e.id;
    OK(f, pl_fsck(f->store, roots, 2, &o, &sum, &f->err));
    assert_int_equal(all.n, 0);
    assert_int_equal(sum.files, 4);
    assert_int_equal(sum.blobs, 1);
    flip_record(f, &e.id);
    OK(f, pl_fsck(f->store, roots, 2, &o, &sum, &f->err));
    assert_string_equal(all.paths, "[one]"); /* of the tree; and of the blob, which has no path */
    assert_int_equal(all.n, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_good_store_has_no_findings),
        TEST(every_flipped_byte_is_found),
        TEST(a_damaged_chunk_names_its_file),
        TEST(a_damaged_chunk_of_a_list_names_its_file_once),
        TEST(a_damaged_list_names_its_file),
        TEST(a_lost_pack_names_all_its_files),
        TEST(a_damaged_leaf_says_which_files_are_hurt),
        TEST(a_damaged_commit_is_named),
        TEST(it_can_be_stopped),
        TEST(several_threads_find_what_one_finds),
        TEST(an_interrupted_check_goes_on),
        TEST(packs_with_findings_are_read_again_when_it_goes_on),
        TEST(what_was_deleted_meanwhile_is_not_said_to_be_hurt),
        TEST(trees_of_code_and_blobs_are_checked_like_commits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
