// link: pipelined/db/open_commits storage/base storage/chunk storage/pack storage/store storage/system
/* The spool of an open commit: what was appended is there after any end of the program, and nothing else is. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/db/open_commits/open_commit_file.h"
#include "storage/chunk/codec.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define COMMIT "0123456789abcdef0123456789abcdef"

static struct pl_open_commit_file_head head(void)
{
    return (struct pl_open_commit_file_head){.commit = COMMIT,
                                             .project = "default",
                                             .repo = "digits",
                                             .branch = "master",
                                             .base = "",
                                             .message = "grüße",
                                             .author = "me",
                                             .owner = "ana",
                                             .repo_id = 7,
                                             .base_root = {{1, 2, 3}},
                                             .created_us = 1234567,
                                             .bucket = true};
}

/* ---- what is appended, drawn from a seed ---- */

#define RECORDS_MAX 4

struct append {
    struct pl_op_set ops;
    struct pl_op_record records[RECORDS_MAX];
    uint8_t *bytes[RECORDS_MAX];
    size_t n;
};

static struct pl_op_record record_of(const uint8_t *bytes, size_t n)
{
    struct pl_op_record r = {.kind = PL_REC_CHUNK, .raw = (uint32_t)n, .stored = (uint32_t)n, .bytes = bytes};

    pl_hash_sha256(bytes, n, &r.id);
    return r;
}

static void draw_op(uint64_t *seed, struct append *a)
{
    char path[32];
    struct pl_tree_op op = {.path = path};
    struct pl_err err = {0};

    op.path_len =
        (size_t)snprintf(path, sizeof path, "d%u/f%u", (unsigned)(pl_splitmix64(seed) % 3), (unsigned)(pl_splitmix64(seed) % 20));
    op.op = pl_splitmix64(seed) % 5 ? PL_TREE_PUT : PL_TREE_DELETE;
    if (pl_splitmix64(seed) % 12 == 0) {
        op.op = PL_TREE_DELETE_PREFIX;
        op.path_len = 2;
    }
    if (op.op == PL_TREE_PUT && a->n)
        op.entry = pl_entry_chunk(PL_KIND_FILE, a->records[0].raw, &a->records[0].id);
    else if (op.op == PL_TREE_PUT)
        op.entry = pl_entry_inline(PL_KIND_FILE, seed, 8);
    assert_ok(pl_op_set_add(&a->ops, &op, &err), &err);
}

static void draw(uint64_t seed, struct append *ret)
{
    *ret = (struct append){.n = pl_splitmix64(&seed) % (RECORDS_MAX + 1)};
    for (size_t i = 0; i < ret->n; i++) {
        size_t n = 65 + pl_splitmix64(&seed) % 6000;

        ret->bytes[i] = fixture_alloc(n, seed);
        ret->records[i] = record_of(ret->bytes[i], n);
    }
    for (size_t ops = pl_splitmix64(&seed) % 6; ops > 0; ops--)
        draw_op(&seed, ret);
}

static void append_finish(struct append *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->bytes[i]);
    pl_op_set_finish(&a->ops);
}

/* The table after the first `n` appends. */
static void expect(uint64_t seed, size_t n, struct pl_buf *ret)
{
    struct pl_op_set t = {0};
    struct pl_err err = {0};

    for (size_t i = 0; i < n; i++) {
        struct append a;

        draw(seed + i, &a);
        assert_ok(pl_op_set_merge(&t, &a.ops, &err), &err);
        append_finish(&a);
    }
    pl_buf_clear(ret);
    assert_ok(pl_op_set_write(&t, ret, &err), &err);
    pl_op_set_finish(&t);
}

static bool same_table(const struct pl_op_set *t, const struct pl_buf *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    struct pl_err err = {0};

    assert_ok(pl_op_set_write(t, &got, &err), &err);
    return got.len == want->len && memcmp(got.data, want->data, got.len) == 0;
}

/* The message that comes with the append of a seed; "" = none. */
static const char *message_of(uint64_t seed, char out[32])
{
    *out = '\0';
    if (seed % 3 == 0)
        snprintf(out, 32, "Größe %llu", (unsigned long long)seed);
    return out;
}

static void assert_message(struct pl_open_commit_file *s, uint64_t seed, size_t n)
{
    _cleanup_free_ char *got = pl_open_commit_file_message(s);
    char want[32] = "";

    while (n > 0 && !*message_of(seed + n - 1, want))
        n--;
    assert_string_equal(got, *want ? want : head().message);
}

static void append_one(struct pl_open_commit_file *s, uint64_t seed)
{
    char message[32];
    struct pl_err err = {0};
    struct append a;

    draw(seed, &a);
    assert_ok(pl_open_commit_file_append(s, a.records, a.n, &a.ops, message_of(seed, message), &err), &err);
    append_finish(&a);
}

static void assert_records(struct pl_open_commit_file *s, uint64_t seed, size_t n)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    struct pl_err err = {0};

    for (size_t i = 0; i < n; i++) {
        struct append a;

        draw(seed + i, &a);
        for (size_t k = 0; k < a.n; k++) {
            assert_true(pl_open_commit_file_has(s, &a.records[k].id));
            assert_ok(pl_open_commit_file_get(s, &a.records[k].id, &got, &err), &err);
            assert_int_equal(got.len, a.records[k].raw);
            assert_memory_equal(got.data, a.bytes[k], got.len);
        }
        append_finish(&a);
    }
}

static char *spool_path(const char *dir)
{
    return strdup(fixture_path(dir, COMMIT PL_OPEN_COMMIT_FILE_SUFFIX));
}

static struct pl_open_commit_file *create(const char *dir)
{
    struct pl_open_commit_file_head h = head();
    struct pl_open_commit_file *s;
    struct pl_err err = {0};

    assert_ok(pl_open_commit_file_create(dir, &h, &s, &err), &err);
    return s;
}

/* Opens it and compares with the state after `low` or `low` + 1 appends: which. */
static size_t reopen(const char *path, uint64_t seed, size_t low, bool may_be_more)
{
    _cleanup_(pl_buf_finish) struct pl_buf want = {0};
    struct pl_op_set t = {0};
    struct pl_open_commit_file *s;
    struct pl_err err = {0};
    size_t n = low;

    assert_ok(pl_open_commit_file_open(path, &t, &s, &err), &err);
    expect(seed, n, &want);
    if (!same_table(&t, &want) && may_be_more)
        expect(seed, ++n, &want);
    if (!same_table(&t, &want))
        fail_msg("neither the state after %zu appends nor one more", low);
    assert_records(s, seed, n);
    assert_message(s, seed, n);
    append_one(s, seed + n); /* and it goes on */
    pl_open_commit_file_close(s);
    pl_op_set_finish(&t);
    assert_ok(pl_open_commit_file_open(path, &t, &s, &err), &err);
    expect(seed, n + 1, &want);
    assert_true(same_table(&t, &want));
    pl_open_commit_file_close(s);
    pl_op_set_finish(&t);
    return n;
}

/* ---- */

static void what_was_appended_is_there_when_it_is_opened_again(void **state)
{
    char *dir = fixture_dir(), *path = spool_path(dir);
    struct pl_open_commit_file *s = create(dir);
    struct pl_op_set t = {0};
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < 30; i++)
        append_one(s, 100 + i);
    assert_records(s, 100, 30);
    pl_open_commit_file_close(s);
    reopen(path, 100, 30, false);
    assert_ok(pl_open_commit_file_open(path, &t, &s, &err), &err);
    assert_string_equal(pl_open_commit_file_head(s)->message, "grüße");
    assert_string_equal(pl_open_commit_file_head(s)->branch, "master");
    assert_string_equal(pl_open_commit_file_head(s)->owner, "ana");
    assert_int_equal(pl_open_commit_file_head(s)->repo_id, 7);
    assert_int_equal(pl_open_commit_file_head(s)->created_us, 1234567);
    assert_int_equal(pl_open_commit_file_head(s)->base_root.b[2], 3);
    assert_true(pl_open_commit_file_head(s)->bucket && !pl_open_commit_file_head(s)->gathered);
    assert_ok(pl_open_commit_file_remove(s, &err), &err);
    assert_int_equal(access(path, F_OK), -1);
    pl_open_commit_file_close(s);
    pl_op_set_finish(&t);
    free(path);
    fixture_remove(dir);
}

static void copy_prefix(const char *from, const char *to, size_t n)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_err err = {0};

    assert_ok(pl_io_read_file(from, &bytes, &err), &err);
    assert_true(n <= bytes.len);
    assert_ok(pl_io_write_file(to, bytes.data, n, 0600, &err), &err);
}

static void a_file_cut_anywhere_has_a_prefix_of_the_appends(void **state)
{
    char *dir = fixture_dir(), *path = spool_path(dir), *cut = strdup(fixture_path(dir, "cut"));
    struct pl_open_commit_file *s = create(dir);
    size_t ends[8];
    struct stat st;
    uint64_t rng = 5;

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(stat(path, &st), 0);
        ends[i] = (size_t)st.st_size;
        append_one(s, 300 + i);
    }
    pl_open_commit_file_close(s);
    assert_int_equal(stat(path, &st), 0);
    for (int i = 0; i < 300; i++) {
        size_t n = ends[0] + pl_splitmix64(&rng) % ((size_t)st.st_size - ends[0]), whole = 0;

        while (whole < 7 && ends[whole + 1] <= n)
            whole++;
        copy_prefix(path, cut, n);
        reopen(cut, 300, whole, false);
    }
    free(cut);
    free(path);
    fixture_remove(dir);
}

static void flip(const char *path, size_t at)
{
    int fd = open(path, O_RDWR);
    uint8_t b;

    assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
    b ^= 0x10;
    assert_int_equal(pwrite(fd, &b, 1, (off_t)at), 1);
    close(fd);
}

/* A byte that went bad is an error, unless it lies in the last group: that could be one that never got to the disk. */
static void a_damaged_file_is_refused_and_no_answered_group_is_dropped(void **state)
{
    char *dir = fixture_dir(), *path = spool_path(dir), *bad = strdup(fixture_path(dir, "bad"));
    struct pl_open_commit_file *s = create(dir);
    struct pl_op_set t = {0};
    struct pl_err err = {0};
    struct stat st;
    size_t last = 0;
    uint64_t rng = 6;

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(stat(path, &st), 0);
        last = (size_t)st.st_size;
        append_one(s, 400 + i);
    }
    pl_open_commit_file_close(s);
    assert_int_equal(stat(path, &st), 0);
    for (int i = 0; i < 300; i++) {
        size_t at = pl_splitmix64(&rng) % (size_t)st.st_size;
        int r;

        copy_prefix(path, bad, (size_t)st.st_size);
        flip(bad, at);
        if (at >= last) {
            reopen(bad, 400, 5, false);
            continue;
        }
        r = pl_open_commit_file_open(bad, &t, &s, &err);
        if (r != PL_ECORRUPT && r != PL_EFORMAT)
            fail_msg("byte %zu of %zu: %d", at, (size_t)st.st_size, r);
        assert_int_equal(t.n, 0);
    }
    free(bad);
    free(path);
    fixture_remove(dir);
}

static void a_write_that_fails_leaves_the_file_as_it_was(void **state)
{
    static const enum pl_io_call calls[] = {PL_IO_WRITE, PL_IO_FSYNC};
    char *dir = fixture_dir(), *path = spool_path(dir);
    struct pl_open_commit_file *s = create(dir);
    struct pl_err err = {0};
    struct append a;

    (void)state;
    for (size_t i = 0; i < 10; i++) {
        draw(500 + i, &a);
        pl_io_fail_nth(calls[i % 2], 1, i % 4 < 2 ? ENOSPC : EIO);
        assert_int_equal(pl_open_commit_file_append(s, a.records, a.n, &a.ops, NULL, &err), i % 4 < 2 ? PL_ENOSPC : PL_EIO);
        for (size_t k = 0; k < a.n; k++)
            assert_false(pl_open_commit_file_has(s, &a.records[k].id));
        pl_io_fail_nth(calls[i % 2], 0, 0);
        append_finish(&a);
        append_one(s, 500 + i);
    }
    pl_open_commit_file_close(s);
    reopen(path, 500, 10, false);
    free(path);
    fixture_remove(dir);
}

/* In a process that ends at the nth call, a byte to `fd` for each append acknowledged. */
static void child(const char *dir, enum pl_io_call call, uint64_t nth, int how, int fd)
{
    struct pl_open_commit_file *s;

    pl_io_fail_nth(call, nth, how);
    s = create(dir);
    for (size_t i = 0; i < 6; i++) {
        append_one(s, 600 + i);
        (void)!write(fd, "x", 1);
    }
    _exit(0);
}

static size_t run_child(const char *dir, enum pl_io_call call, uint64_t nth, int how, bool *ret_ended)
{
    int fds[2], status;
    char acks[64];
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0)
        child(dir, call, nth, how, fds[1]);
    close(fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    n = read(fds[0], acks, sizeof acks);
    close(fds[0]);
    *ret_ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    assert_true(*ret_ended || WEXITSTATUS(status) == PL_IO_EXIT_STATUS);
    return n < 0 ? 0 : (size_t)n;
}

static void a_crash_at_any_call_keeps_what_was_acknowledged(void **state)
{
    static const int hows[] = {PL_IO_EXIT_BEFORE, PL_IO_EXIT_AFTER};
    unsigned crashes = 0;

    (void)state;
    for (int call = 0; call < PL_IO_CALLS; call++) {
        for (size_t how = 0; how < 2; how++) {
            bool ended = false;

            for (uint64_t nth = 1; !ended; nth++) {
                char *dir = fixture_dir(), *path = spool_path(dir);
                size_t acked = run_child(dir, (enum pl_io_call)call, nth, hows[how], &ended);

                if (access(path, F_OK) == 0)
                    reopen(path, 600, acked, true);
                else
                    assert_int_equal(acked, 0);
                crashes += !ended;
                free(path);
                fixture_remove(dir);
            }
        }
    }
    assert_true(crashes >= 2 * 14);
}

/* ---- packs ---- */

static uint64_t blocks_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void append_bytes(struct pl_open_commit_file *s, const uint8_t *bytes, size_t n)
{
    struct pl_op_record r = record_of(bytes, n);
    struct pl_err err = {0};

    assert_ok(pl_open_commit_file_append(s, &r, 1, NULL, NULL, &err), &err);
}

static void records_that_are_in_packs_leave_the_file(void **state)
{
    char *dir = fixture_dir(), *path = spool_path(dir);
    uint8_t *one = fixture_alloc(200000, 1), *two = fixture_alloc(100000, 2);
    struct pl_open_commit_file *s = create(dir);
    struct pl_object_store *objects;
    struct pl_pack_builder *session;
    struct pl_op_record first = record_of(one, 200000), second = record_of(two, 100000);
    struct pl_pack_sink sink;
    struct pl_store *store;
    struct pl_op_set t = {0};
    struct pl_buf got = {0};
    struct pl_err err = {0};
    uint64_t group, before;

    (void)state;
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &objects, &err), &err);
    assert_ok(pl_store_open(objects, "default", NULL, &store, &err), &err);
    sink = pl_store_sink(store);
    append_bytes(s, one, 200000);
    assert_int_equal(pl_open_commit_file_unpacked_bytes(s), 200000);
    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    assert_ok(pl_open_commit_file_pack(s, session, &group, &err), &err);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    pl_pack_builder_close(session);
    append_bytes(s, two, 100000); /* comes while the pack is made: it stays */
    before = blocks_of(path);
    assert_ok(pl_open_commit_file_mark_packed(s, group, &err), &err);
    assert_true(blocks_of(path) + 150000 < before);
    assert_int_equal(pl_open_commit_file_get(s, &first.id, &got, &err), PL_ENOTFOUND);
    assert_ok(pl_store_get(store, &first.id, PL_REC_CHUNK, &got, &err), &err);
    assert_ok(pl_open_commit_file_get(s, &second.id, &got, &err), &err);
    assert_int_equal(pl_open_commit_file_unpacked_bytes(s), 100000);
    pl_open_commit_file_close(s);
    assert_ok(pl_open_commit_file_open(path, &t, &s, &err), &err);
    assert_false(pl_open_commit_file_has(s, &first.id));
    assert_ok(pl_open_commit_file_get(s, &second.id, &got, &err), &err);
    pl_open_commit_file_close(s);
    pl_op_set_finish(&t);
    pl_buf_finish(&got);
    pl_store_close(store);
    pl_object_close(objects);
    free(one);
    free(two);
    free(path);
    fixture_remove(dir);
}

/* A sink that has nothing, and is told of a record first: then what an earlier session packed is marked, and one of these records
 * is brought again. */
struct marking {
    struct pl_open_commit_file *spool;
    uint64_t group;
    unsigned packs;
    const uint8_t *again; /* RECORD bytes; NULL: none, or it was brought */
};
#define RECORD 500

static int mark_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    struct marking *m = self;
    int r = pl_open_commit_file_mark_packed(m->spool, m->group, err);

    (void)ids;
    memset(ret_bitmap, 0, (n + 7) / 8);
    if (r == 0 && m->again)
        append_bytes(m->spool, m->again, RECORD);
    m->again = NULL;
    return r;
}

static int count_pack(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct marking *m = self;

    (void)pack_id;
    (void)bytes;
    (void)n;
    (void)err;
    m->packs++;
    return 0;
}

/* Records 1 to `n`, each a group of its own; the bytes of number `nth` are the caller's. */
static uint8_t *append_many(struct pl_open_commit_file *s, unsigned n, unsigned nth)
{
    uint8_t *kept = NULL;

    for (unsigned i = 1; i <= n; i++) {
        uint8_t *bytes = fixture_alloc(RECORD, i);

        append_bytes(s, bytes, RECORD);
        if (i == nth)
            kept = bytes;
        else
            free(bytes);
    }
    return kept;
}

/* `again`: the last but one of those that are marked as packed comes again before the session reads it. */
static void pack_while_another_marks(bool again)
{
    enum { N = 2000 };
    char *dir = fixture_dir(), *path = spool_path(dir);
    struct pl_open_commit_file *s = create(dir);
    uint8_t *bytes = append_many(s, N, N - 1);
    struct marking m = {.spool = s, .group = N - 1 /* all but the last */, .again = again ? bytes : NULL};
    struct pl_pack_sink sink = {.self = &m, .has = mark_has, .put_pack = count_pack};
    struct pl_op_record r = record_of(bytes, RECORD);
    struct pl_pack_builder *session;
    struct pl_buf got = {0};
    struct pl_err err = {0};
    uint64_t group;

    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    assert_ok(pl_open_commit_file_pack(s, session, &group, &err), &err);
    assert_int_equal(group, N);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    assert_int_equal(m.packs, 1);
    assert_int_equal(pl_open_commit_file_unpacked_bytes(s), again ? 2 * RECORD : RECORD);
    assert_int_equal(pl_open_commit_file_get(s, &r.id, &got, &err), again ? 0 : PL_ENOTFOUND);
    pl_buf_finish(&got);
    pl_pack_builder_close(session);
    pl_open_commit_file_close(s);
    free(bytes);
    free(path);
    fixture_remove(dir);
}

static void what_is_packed_while_another_session_reads_is_left_out(void **state)
{
    (void)state;
    pack_while_another_marks(false);
}

static void what_is_packed_and_comes_again_while_a_session_reads_is_not_damaged(void **state)
{
    (void)state;
    pack_while_another_marks(true);
}

struct reading {
    struct pl_open_commit_file *spool;
    struct pl_hash id;
    _Atomic bool over;
    unsigned wrong;
    struct pl_err err; /* of the last wrong one */
};

static void *read_main(void *arg)
{
    struct reading *r = arg;
    struct pl_buf got = {0};

    while (!r->over) {
        struct pl_err err = {0};
        int code = pl_open_commit_file_get(r->spool, &r->id, &got, &err);

        if (code == 0 || code == PL_ENOTFOUND)
            continue;
        r->wrong++;
        r->err = err;
    }
    pl_buf_finish(&got);
    return NULL;
}

/* One record, brought and packed again and again, is read or is in a pack; it is never damaged. */
static void a_record_that_moves_is_read_or_in_a_pack(void **state)
{
    enum { TIMES = 2000 };
    char *dir = fixture_dir();
    struct pl_open_commit_file *s = create(dir);
    uint8_t *bytes = fixture_alloc(RECORD, 1);
    struct pl_op_record record = record_of(bytes, RECORD);
    struct reading reading = {.spool = s, .id = record.id};
    struct pl_err err = {0};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, read_main, &reading), 0);
    for (uint64_t i = 0; i < TIMES; i++) { /* marking is a group too */
        append_bytes(s, bytes, RECORD);
        assert_ok(pl_open_commit_file_mark_packed(s, 2 * i + 1, &err), &err);
    }
    reading.over = true;
    pthread_join(thread, NULL);
    assert_ok(reading.wrong ? reading.err.code : 0, &reading.err);
    pl_open_commit_file_close(s);
    free(bytes);
    fixture_remove(dir);
}

/* A head without the member is what versions before it wrote; a later one writes it so for a commit without owner. */
static void a_head_without_an_owner_is_read(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char *dir = fixture_dir(), *path = spool_path(dir);
    struct pl_open_commit_file_head h = head();
    struct pl_open_commit_file *s;
    struct pl_op_set t = {0};
    struct pl_err err = {0};

    (void)state;
    h.owner = "";
    assert_ok(pl_open_commit_file_create(dir, &h, &s, &err), &err);
    pl_open_commit_file_close(s);
    assert_ok(pl_io_read_file(path, &bytes, &err), &err);
    assert_null(memmem(bytes.data, bytes.len, "owner", 5));
    assert_ok(pl_open_commit_file_open(path, &t, &s, &err), &err);
    assert_string_equal(pl_open_commit_file_head(s)->owner, "");
    assert_string_equal(pl_open_commit_file_head(s)->author, "me");
    pl_open_commit_file_close(s);
    pl_op_set_finish(&t);
    free(path);
    fixture_remove(dir);
}

static void a_head_that_names_nothing_good_is_refused(void **state)
{
    char *dir = fixture_dir();
    struct pl_open_commit_file_head h = head();
    struct pl_open_commit_file *s;
    struct pl_err err = {0};

    (void)state;
    h.repo = "../x";
    assert_int_equal(pl_open_commit_file_create(dir, &h, &s, &err), PL_ENAME);
    h = head();
    h.commit = "../../etc/passwd";
    assert_int_equal(pl_open_commit_file_create(dir, &h, &s, &err), PL_EINVAL);
    h = head();
    h.message = "\xff";
    assert_int_equal(pl_open_commit_file_create(dir, &h, &s, &err), PL_EINVAL);
    h = head();
    h.owner = "\xff";
    assert_int_equal(pl_open_commit_file_create(dir, &h, &s, &err), PL_EINVAL);
    assert_int_equal(fixture_count(dir), 0);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_appended_is_there_when_it_is_opened_again),
        cmocka_unit_test(a_file_cut_anywhere_has_a_prefix_of_the_appends),
        cmocka_unit_test(a_damaged_file_is_refused_and_no_answered_group_is_dropped),
        cmocka_unit_test(a_write_that_fails_leaves_the_file_as_it_was),
        cmocka_unit_test(a_crash_at_any_call_keeps_what_was_acknowledged),
        cmocka_unit_test(records_that_are_in_packs_leave_the_file),
        cmocka_unit_test(what_is_packed_while_another_session_reads_is_left_out),
        cmocka_unit_test(what_is_packed_and_comes_again_while_a_session_reads_is_not_damaged),
        cmocka_unit_test(a_record_that_moves_is_read_or_in_a_pack),
        cmocka_unit_test(a_head_without_an_owner_is_read),
        cmocka_unit_test(a_head_that_names_nothing_good_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
