// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Pushes: operations onto the head of a branch, alone and against each other. */
#include "tests/support/fixtures/db_world.h"
#include "tests/support/fixtures/output_repo.h"

#include <pthread.h>

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct pl_err err = {0};

    w->dir = fixture_dir();
    assert_ok(world_open(w, "data", &err), &err);
    assert_ok(world_step(w, 0, &err), &err); /* repo digits */
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    world_close(w);
    fixture_remove(w->dir);
    free(w);
    return 0;
}

static int push_on(struct world *w, const char *repo, const char *branch, const char *base, const char *text,
                   struct pl_push_result *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_push_args args = {
        .project = "default", .repo = repo, .branch = branch, .base = base, .message = text, .author = "me"};
    int r = world_ops(w, "default", text, 0, &ops, err);

    args.ops = ops.data;
    args.ops_len = ops.len;
    return r < 0 ? r : pl_db_push(w->db, w->stores, &args, ret, err);
}

static struct pl_push_result push(struct world *w, const char *base, const char *text)
{
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(push_on(w, "digits", "master", base, text, &ret, &err), &err);
    return ret;
}

static void push_raw(struct world *w, const struct pl_entry *entry, int want, const char *message)
{
    struct pl_push_args args = {.project = "default", .repo = "digits", .branch = "master", .message = "", .author = ""};
    struct pl_tree_ops_writer writer = {0};
    struct pl_push_result ret;
    struct pl_buf ops = {0};
    struct pl_err err = {0};

    assert_ok(pl_tree_ops_writer_init(&writer, &ops, &err), &err);
    assert_ok(pl_tree_ops_writer_put(&writer, "dir/file", 8, entry, &err), &err);
    assert_ok(pl_tree_ops_writer_end(&writer, &err), &err);
    args.ops = ops.data;
    args.ops_len = ops.len;
    assert_int_equal(pl_db_push(w->db, w->stores, &args, &ret, &err), want);
    if (message && !strstr(err.msg, message))
        fail_msg("\"%s\" is not in: %s", message, err.msg);
    pl_tree_ops_writer_finish(&writer);
    pl_buf_finish(&ops);
}

static struct pl_commit_row commit_named(struct world *w, const char *ref)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    struct pl_commit_row row;
    struct pl_err err = {0};

    assert_ok(pl_db_commit_named(rd.conn, "default", "digits", ref, &row, &err), &err);
    return row;
}

/* "path path …" of the head. */
static char *paths(struct world *w)
{
    struct pl_commit_row head = commit_named(w, "master");
    struct pl_tree_cursor *c;
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_tree_item item;
    struct pl_store *store;
    struct pl_buf out = {0};

    assert_int_equal(pl_project_stores_get(w->stores, "default", &store, NULL), 0);
    source.self = store;
    assert_int_equal(pl_tree_cursor_create(&source, &head.root, NULL, 0, &c, NULL), 0);
    while (pl_tree_cursor_next(c, &item, NULL) > 0)
        assert_int_equal(pl_buf_addf(&out, NULL, "%s%s", out.len ? " " : "", item.path), 0);
    pl_tree_cursor_destroy(c);
    return pl_buf_take_str(&out);
}

static void assert_paths(struct world *w, const char *want)
{
    char *got = paths(w);

    assert_string_equal(got, want);
    free(got);
}

static int64_t count(struct world *w, const char *sql)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    int64_t n = -1;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &n, sql, ""), 0);
    return n;
}

/* ---- one writer ---- */

static void test_the_first_push_makes_the_branch_and_a_run(void **state)
{
    struct world *w = *state;
    struct pl_push_result r = push(w, NULL, "+a:10 +b:300000");
    struct pl_commit_row head = commit_named(w, "master");

    assert_true(r.changed);
    assert_int_equal(r.files, 2);
    assert_int_equal(r.bytes, 300010);
    assert_string_equal(head.run, r.commit);
    assert_string_equal(head.parent, "");
    assert_int_equal(head.generation, 1);
    assert_true(pl_hash_eq(&head.root, &r.root));
    assert_int_equal(count(w, "SELECT count(*) FROM run WHERE cause = 'push' AND message = '+a:10 +b:300000'"), 1);
    assert_int_equal(count(w, "SELECT count(*) FROM commit_ WHERE author = 'me' AND provenance = '[]' AND stage = ''"), 1);
}

static void test_each_push_stands_on_the_one_before(void **state)
{
    struct world *w = *state;
    struct pl_push_result a = push(w, NULL, "+a:10"), b = push(w, NULL, "+b:20"), c = push(w, NULL, "-a");
    struct pl_commit_row row = commit_named(w, "master");

    assert_string_equal(row.run, c.commit);
    assert_string_equal(row.parent, b.commit);
    assert_int_equal(row.generation, 3);
    row = commit_named(w, "master^2");
    assert_string_equal(row.run, a.commit);
    assert_int_equal(row.generation, 1);
    assert_paths(w, "b");
}

static void test_a_push_that_changes_nothing_makes_no_commit_and_no_run(void **state)
{
    struct world *w = *state;
    struct pl_push_result a = push(w, NULL, "+a:10 +b:100"), again = push(w, NULL, "+a:10 +b:100"), gone = push(w, NULL, "-c");

    assert_false(again.changed);
    assert_string_equal(again.commit, a.commit);
    assert_int_equal(again.files, 2);
    assert_int_equal(again.bytes, 110);
    assert_false(gone.changed);
    assert_int_equal(count(w, "SELECT count(*) FROM commit_"), 1);
    assert_int_equal(count(w, "SELECT count(*) FROM run"), 1);
}

static void test_nothing_onto_an_empty_branch_is_no_commit(void **state)
{
    struct world *w = *state;
    struct pl_push_result r = push(w, NULL, "!everything");

    assert_false(r.changed);
    assert_string_equal(r.commit, "");
    assert_int_equal(count(w, "SELECT count(*) FROM branch"), 0);
}

static void test_the_last_writer_wins_when_no_base_is_named(void **state)
{
    struct world *w = *state;

    push(w, NULL, "+a:10 +b:10");
    push(w, NULL, "+a:20");
    push(w, "", "+a:30 +c:1");
    assert_paths(w, "a b c");
    assert_int_equal(commit_named(w, "master").bytes, 41);
}

/* ---- a named base ---- */

static void test_disjoint_changes_since_the_base_are_joined(void **state)
{
    struct world *w = *state;
    struct pl_push_result base = push(w, NULL, "+a:10 +b:10 +d/x:1");

    push(w, NULL, "+b:11 +d/y:1");
    push(w, base.commit, "+a:12 -d/x");
    assert_paths(w, "a b d/y");
}

static void test_a_path_changed_since_the_base_is_a_conflict_that_names_it(void **state)
{
    static const struct {
        const char *theirs, *ours, *named;
    } rows[] = {
        {"+a:11", "+a:12", "1 path changed since base "},
        {"+a:11", "+a:12", ": /a"},
        {"-a", "+a:12", ": /a"},
        {"+a:11", "-a", ": /a"},
        {"+d/x:5", "!d", ": /d/x"},
        {"+d/deep/new:5", "!d", ": /d/deep/new"},
        {"+a:11 +b:11", "+a:12 +b:12", "2 paths changed since base "},
    };
    struct world *w = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_push_result base = push(w, NULL, "+a:10 +b:10 +d/x:1"), ret;
        struct pl_err err = {0};

        push(w, NULL, rows[i].theirs);
        assert_int_equal(push_on(w, "digits", "master", base.commit, rows[i].ours, &ret, &err), PL_ECONFLICT);
        if (!strstr(err.msg, rows[i].named))
            fail_msg("row %zu: \"%s\" is not in: %s", i, rows[i].named, err.msg);
        push(w, NULL, "!d +new:1");
    }
}

static void test_of_many_conflicts_five_are_named(void **state)
{
    struct world *w = *state;
    struct pl_push_result base = push(w, NULL, "+1:1 +2:1 +3:1 +4:1 +5:1 +6:1 +7:1"), ret;
    struct pl_err err = {0};

    push(w, NULL, "+1:2 +2:2 +3:2 +4:2 +5:2 +6:2 +7:2");
    assert_int_equal(push_on(w, "digits", "master", base.commit, "+1:3 +2:3 +3:3 +4:3 +5:3 +6:3 +7:3", &ret, &err), PL_ECONFLICT);
    assert_non_null(strstr(err.msg, "7 paths changed since base"));
    assert_non_null(strstr(err.msg, "/1, /2, /3, /4, /5, …"));
}

static void test_a_base_that_does_not_exist_is_not_found(void **state)
{
    struct world *w = *state;
    struct pl_push_result ret;
    struct pl_err err = {0};

    push(w, NULL, "+a:10");
    assert_int_equal(push_on(w, "digits", "master", "0123456789abcdef0123456789abcdef", "+a:11", &ret, &err), PL_ENOTFOUND);
    assert_int_equal(push_on(w, "digits", "master", "nobranch", "+a:11", &ret, &err), PL_ENOTFOUND);
}

/* An object store that lets somebody else push just before the first pack of a push comes to it. */
static struct {
    const struct pl_object_ops *real;
    struct pl_object_ops ops;
    struct world *w;
    bool done;
} rival;

static void rival_pushes(void)
{
    if (rival.done)
        return;
    rival.done = true;
    push(rival.w, NULL, "+a:20");
}

static int rival_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive,
                     struct pl_err *err)
{
    rival_pushes();
    return rival.real->put(s, key, iov, n, exclusive, err);
}

static int rival_adopt(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err)
{
    rival_pushes();
    return rival.real->adopt(s, key, temp_path, err);
}

static void test_a_base_is_the_commit_it_named_when_the_push_began(void **state)
{
    struct world *w = *state;
    struct pl_push_result ret;
    struct pl_err err = {0};

    push(w, NULL, "+a:10");
    rival.w = w;
    rival.done = false;
    rival.real = w->objects->ops;
    rival.ops = *rival.real;
    rival.ops.put = rival_put;
    rival.ops.adopt = rival_adopt;
    w->objects->ops = &rival.ops;
    assert_int_equal(push_on(w, "digits", "master", "master", "+a:30", &ret, &err), PL_ECONFLICT);
    w->objects->ops = rival.real;
    assert_true(rival.done);
    assert_non_null(strstr(err.msg, ": /a"));
    assert_int_equal(commit_named(w, "master").bytes, 20);
}

/* ---- what is said of a file beside its bytes ---- */

/* Pushes operations, each "PATH", "PATH=TEXT", "-PATH" or "!PATH": a file of one byte with this content type, or without attributes;
 * deletes. */
static struct pl_push_result push_said(struct world *w, int64_t at_us, const char *const *words)
{
    struct pl_push_args args = {.project = "default", .repo = "digits", .branch = "master", .message = "", .author = ""};
    struct pl_buf ops = {0}, said = {0};
    struct pl_tree_ops_writer writer = {0};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(pl_tree_ops_writer_init(&writer, &ops, &err), &err);
    for (; *words; words++) {
        bool puts = **words != '-' && **words != '!';
        const char *path = *words + !puts, *type = strchr(path, '=');
        struct pl_tree_op op = {.op = puts             ? PL_TREE_PUT
                                      : **words == '-' ? PL_TREE_DELETE
                                                       : PL_TREE_DELETE_PREFIX,
                                .path = path,
                                .path_len = type ? (size_t)(type - path) : strlen(path),
                                .entry = pl_entry_inline(PL_KIND_FILE, "x", 1)};

        pl_buf_clear(&said);
        if (type) {
            assert_ok(pl_file_attributes_begin(&said, &err), &err);
            assert_ok(pl_file_attributes_add_modified(&said, at_us, &err), &err);
            assert_ok(pl_file_attributes_add(&said, PL_ATTR_TYPE, type + 1, strlen(type + 1), &err), &err);
            op.attributes = (struct pl_file_attributes){said.data, said.len};
        }
        assert_ok(pl_tree_ops_writer_add(&writer, &op, &err), &err);
    }
    assert_ok(pl_tree_ops_writer_end(&writer, &err), &err);
    args.ops = ops.data;
    args.ops_len = ops.len;
    assert_ok(pl_db_push(w->db, w->stores, &args, &ret, &err), &err);
    pl_tree_ops_writer_finish(&writer);
    pl_buf_finish(&ops);
    pl_buf_finish(&said);
    return ret;
}
#define SAID(w, at_us, ...) push_said(w, at_us, (const char *const[]){__VA_ARGS__, NULL})

/* "path=type@time …" of the head's second tree. */
static void assert_said(struct world *w, const char *want)
{
    struct pl_commit_row head = commit_named(w, "master");
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_tree_cursor *c;
    struct pl_tree_item item;
    struct pl_store *store;
    struct pl_buf out = {0};

    assert_int_equal(pl_project_stores_get(w->stores, "default", &store, NULL), 0);
    source.self = store;
    assert_int_equal(pl_tree_cursor_create(&source, &head.attributes, NULL, 0, &c, NULL), 0);
    while (pl_tree_cursor_next(c, &item, NULL) > 0) {
        struct pl_file_attributes a = {item.entry.row, (size_t)item.entry.size};
        struct pl_attribute_field type;

        assert_true(pl_file_attributes_find(&a, PL_ATTR_TYPE, &type));
        assert_int_equal(pl_buf_addf(&out, NULL, "%s%s=%.*s@%d", out.len ? " " : "", item.path, (int)type.len,
                                     (const char *)type.bytes, (int)pl_file_attributes_modified(&a, -1)),
                         0);
    }
    pl_tree_cursor_destroy(c);
    assert_string_equal(out.len ? pl_buf_str(&out) : "", want);
    pl_buf_finish(&out);
}

static void test_what_is_said_of_a_file_goes_with_it(void **state)
{
    struct world *w = *state;
    struct pl_commit_row head;

    SAID(w, 1, "a=x", "a-b=y", "a.c", "d.x=z", "d/1=z", "d/2=z");
    assert_said(w, "a=x@1 a-b=y@1 d.x=z@1 d/1=z@1 d/2=z@1");
    SAID(w, 2, "a");
    assert_said(w, "a-b=y@1 d.x=z@1 d/1=z@1 d/2=z@1");
    SAID(w, 3, "-a-b", "d/1=new");
    assert_said(w, "d.x=z@1 d/1=new@3 d/2=z@1");
    SAID(w, 4, "!d", "d/3=q");
    assert_said(w, "d.x=z@1 d/3=q@4");
    SAID(w, 5, "!", "e=r");
    assert_said(w, "e=r@5");
    SAID(w, 6, "-e", "f");
    assert_said(w, "");
    head = commit_named(w, "master");
    assert_true(pl_hash_is_zero(&head.attributes));
}

/* Of more files than one node of the second tree has room for, many times over: the sums of the first are of this commit still. */
static void test_much_can_be_said_of_many_files(void **state)
{
    enum { N = 20000, ROW = 400 };
    struct world *w = *state;
    _cleanup_free_ struct pl_tree_op *ops = calloc(N, sizeof *ops);
    _cleanup_free_ char *paths = calloc(N, 16);
    struct pl_push_args args = {
        .project = "default", .repo = "digits", .branch = "master", .message = "", .author = "", .list = ops, .n_list = N};
    struct pl_push_result ret;
    struct pl_buf said = {0};
    char type[ROW];
    struct pl_err err = {0};

    memset(type, 't', sizeof type);
    assert_ok(pl_file_attributes_begin(&said, &err), &err);
    assert_ok(pl_file_attributes_add_modified(&said, 1, &err), &err);
    assert_ok(pl_file_attributes_add(&said, PL_ATTR_TYPE, type, sizeof type, &err), &err);
    for (size_t i = 0; i < N; i++)
        ops[i] = (struct pl_tree_op){.op = PL_TREE_PUT,
                                     .path = paths + 16 * i,
                                     .path_len = (size_t)snprintf(paths + 16 * i, 16, "f%07zu", i),
                                     .entry = pl_entry_inline(PL_KIND_FILE, "x", 1),
                                     .attributes = {said.data, said.len}};
    assert_ok(pl_db_push(w->db, w->stores, &args, &ret, &err), &err);
    assert_true(ret.changed);
    assert_int_equal(ret.files, N);
    assert_int_equal(ret.bytes, N);
    pl_buf_finish(&said);
}

static void test_saying_the_same_again_changes_nothing_and_saying_another_thing_does(void **state)
{
    struct world *w = *state;
    struct pl_push_result first = SAID(w, 1, "a=x"), again = SAID(w, 2, "a=x"), other = SAID(w, 3, "a=y"), root;

    assert_true(first.changed);
    assert_false(again.changed);
    assert_string_equal(again.commit, first.commit);
    assert_true(other.changed);
    assert_true(pl_hash_eq(&other.root, &first.root));
    assert_said(w, "a=y@3");
    root = push(w, NULL, "+b:10");
    assert_true(root.changed);
    assert_said(w, "a=y@3");
}

/* ---- what is refused ---- */

static void test_data_that_is_not_there_is_named_and_can_be_sent_again(void **state)
{
    struct world *w = *state;
    struct pl_hash id;
    char hex[PL_HASH_HEX + 1];
    struct pl_entry entry;

    pl_hash_sha256("nowhere", 7, &id);
    entry = pl_entry_chunk(PL_KIND_FILE, 1000, &id);
    push_raw(w, &entry, PL_ERETRY, pl_hash_hex(&id, hex));
    push_raw(w, &entry, PL_ERETRY, "/dir/file");
    entry = pl_entry_list(PL_KIND_FILE, 100000, &id);
    push_raw(w, &entry, PL_ERETRY, hex);
    assert_int_equal(count(w, "SELECT count(*) FROM run"), 0);
}

static void test_an_entry_that_lies_about_its_size_is_refused(void **state)
{
    struct world *w = *state;
    struct pl_commit_row head;
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_entry chunk, list;
    struct pl_store *store;

    push(w, NULL, "+chunk:1000 +list:300000");
    head = commit_named(w, "master");
    assert_int_equal(pl_project_stores_get(w->stores, "default", &store, NULL), 0);
    source.self = store;
    assert_int_equal(pl_tree_get(&source, &head.root, "chunk", 5, &chunk, NULL), 0);
    assert_int_equal(pl_tree_get(&source, &head.root, "list", 4, &list, NULL), 0);
    assert_int_equal(list.content, PL_CONTENT_LIST);
    chunk.size++;
    push_raw(w, &chunk, PL_EINVAL, "the entry says 1001 bytes, but its data has 1000");
    list.size--;
    push_raw(w, &list, PL_EINVAL, "the entry says 299999 bytes, but its data has 300000");
    list = pl_entry_list(PL_KIND_FILE, 100000, &chunk.id); /* a chunk's bytes are no list */
    push_raw(w, &list, PL_ECORRUPT, NULL);
}

static void test_names_and_paths_that_are_not_allowed_are_refused(void **state)
{
    struct world *w = *state;
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_int_equal(push_on(w, "digits", "no spaces", NULL, "+a:1", &ret, &err), PL_ENAME);
    assert_int_equal(push_on(w, "digit", "master", NULL, "+a:1", &ret, &err), PL_ENOTFOUND);
    assert_string_equal(err.hint, "did you mean \"digits\"?");
    push(w, NULL, "+a:1");
    assert_int_equal(push_on(w, "digits", "master", NULL, "+a/b:1", &ret, &err), PL_ECOLLISION);
    assert_paths(w, "a");
}

static void test_a_message_that_no_log_can_hold_is_refused(void **state)
{
    struct world *w = *state;
    struct pl_push_args args = {.project = "default", .repo = "digits", .branch = "master", .message = "\xff", .author = ""};
    struct pl_push_result ret;
    struct pl_buf ops = {0};
    struct pl_err err = {0};

    assert_ok(world_ops(w, "default", "+a:1", 0, &ops, &err), &err);
    args.ops = ops.data;
    args.ops_len = ops.len;
    assert_int_equal(pl_db_push(w->db, w->stores, &args, &ret, &err), PL_EINVAL);
    args.message = "";
    args.author = "\xff";
    assert_int_equal(pl_db_push(w->db, w->stores, &args, &ret, &err), PL_EINVAL);
    args.ops_len = 3;
    assert_int_equal(pl_db_push(w->db, w->stores, &args, &ret, &err), PL_EPROTO);
    pl_buf_finish(&ops);
}

static void test_an_output_repo_takes_no_push(void **state)
{
    struct world *w = *state;
    struct pl_repo_args repo = {.project = "default", .name = "train", .output = true};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, make_output_tx, &repo, &err), &err);
    assert_int_equal(push_on(w, "train", "master", NULL, "+a:1", &ret, &err), PL_EOUTPUT);
    assert_non_null(strstr(err.msg, "repo \"train\""));
}

/* A job may end after its output repo was deleted, and a repo of its own was made by somebody. */
static void test_a_stage_does_not_write_an_input_repo(void **state)
{
    struct world *w = *state;
    struct pl_commit_args c = {.project = "default",
                               .repo = "digits",
                               .branch = "master",
                               .run = "0123456789abcdef0123456789abcdef",
                               .output = true,
                               .expect = -1};
    struct pl_err err = {0};

    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit, &c, &err), PL_EOUTPUT);
    assert_int_equal(count(w, "SELECT count(*) FROM commit_"), 0);
}

static void test_a_commit_built_on_another_head_is_refused(void **state)
{
    struct world *w = *state;
    struct pl_push_result a = push(w, NULL, "+a:1"), b = push(w, NULL, "+b:1");
    struct pl_commit_row old = commit_named(w, a.commit), head = commit_named(w, b.commit);
    struct pl_commit_args c = {.project = "default",
                               .repo = "digits",
                               .branch = "master",
                               .run = "0123456789abcdef0123456789abcdef",
                               .object = head.object,
                               .root = old.root,
                               .generation = 2};
    struct pl_err err = {0};

    c.expect = old.id;
    c.parent = old.run;
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit, &c, &err), PL_ERETRY);
    c.expect = 0;
    c.parent = "";
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit, &c, &err), PL_ERETRY);
    c.expect = head.id; /* a row number that has come again for another commit */
    c.parent = old.run;
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit, &c, &err), PL_ERETRY);
    c.parent = head.run;
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit, &c, &err), 0);
}

/* ---- many writers ---- */

#define PUSHERS 4
#define PUSHES  6

struct pusher {
    struct world *w;
    char name;
    int r;
    struct pl_err err;
};

static void *pusher_main(void *arg)
{
    struct pusher *p = arg;
    struct pl_push_result ret;
    char text[64];

    for (int i = 0; i < PUSHES && p->r == 0; i++) {
        snprintf(text, sizeof text, "+shared/%c%d:%d +%c/%d:100", p->name, i, i, p->name, i);
        p->r = push_on(p->w, "digits", "master", NULL, text, &ret, &p->err);
        if (p->r == 0 && !ret.changed)
            p->r = PL_EINTERNAL;
    }
    return NULL;
}

static void test_writers_of_one_branch_at_once_lose_nothing(void **state)
{
    struct world *w = *state;
    struct pusher pushers[PUSHERS];
    pthread_t threads[PUSHERS];
    struct pl_commit_row row;
    char ref[32];

    for (int i = 0; i < PUSHERS; i++) {
        pushers[i] = (struct pusher){.w = w, .name = (char)('t' + i)};
        assert_int_equal(pthread_create(&threads[i], NULL, pusher_main, &pushers[i]), 0);
    }
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(pushers[i].r, &pushers[i].err);
    }
    for (unsigned back = 0; back < PUSHERS * PUSHES; back++) { /* one line, each commit one push more than its parent */
        snprintf(ref, sizeof ref, "master^%u", back);
        row = commit_named(w, ref);
        assert_int_equal(row.generation, PUSHERS * PUSHES - back);
        assert_int_equal(row.files, 2 * (PUSHERS * PUSHES - back));
    }
    assert_string_equal(row.parent, "");
    world_fsck(w);
}

/* ---- deleting ---- */

static int delete_commit(struct world *w, const char *ref, struct pl_err *err)
{
    struct pl_commit_delete_args a = {.project = "default", .repo = "digits", .run = ref};

    return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit_delete, &a, err);
}

static void end_runs(struct world *w)
{
    struct pl_err err = {0};
    char id[PL_ID_HEX + 1];
    struct pl_run_args end = {.id = id, .state = "success"};

    while (count(w, "SELECT count(*) FROM run WHERE state = 'running'")) {
        {
            _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
            _cleanup_free_ char *text = NULL;

            assert_int_equal(pl_sql_text(rd.conn, NULL, &text, "SELECT id FROM run WHERE state = 'running' LIMIT 1", ""), 0);
            strcpy(id, text);
        }
        assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_run_end, &end, &err), &err);
    }
}

static void test_only_the_newest_commit_of_a_run_that_is_over_can_be_deleted(void **state)
{
    struct world *w = *state;
    struct pl_push_result a = push(w, NULL, "+a:1"), b = push(w, NULL, "+b:1"), c;
    struct pl_err err = {0};

    assert_int_equal(delete_commit(w, b.commit, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, "still running"));
    end_runs(w);
    assert_int_equal(delete_commit(w, a.commit, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, "1 later commits"));
    assert_ok(delete_commit(w, "master", &err), &err);
    assert_string_equal(commit_named(w, "master").run, a.commit);
    c = push(w, NULL, "+c:1");
    assert_string_equal(commit_named(w, "master").parent, a.commit);
    assert_int_equal(commit_named(w, c.commit).generation, 2);
    assert_paths(w, "a c");
    assert_int_equal(delete_commit(w, b.commit, &err), PL_ENOTFOUND);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_the_first_push_makes_the_branch_and_a_run),
        T(test_each_push_stands_on_the_one_before),
        T(test_a_push_that_changes_nothing_makes_no_commit_and_no_run),
        T(test_nothing_onto_an_empty_branch_is_no_commit),
        T(test_the_last_writer_wins_when_no_base_is_named),
        T(test_disjoint_changes_since_the_base_are_joined),
        T(test_a_path_changed_since_the_base_is_a_conflict_that_names_it),
        T(test_of_many_conflicts_five_are_named),
        T(test_a_base_that_does_not_exist_is_not_found),
        T(test_a_base_is_the_commit_it_named_when_the_push_began),
        T(test_what_is_said_of_a_file_goes_with_it),
        T(test_much_can_be_said_of_many_files),
        T(test_saying_the_same_again_changes_nothing_and_saying_another_thing_does),
        T(test_data_that_is_not_there_is_named_and_can_be_sent_again),
        T(test_an_entry_that_lies_about_its_size_is_refused),
        T(test_names_and_paths_that_are_not_allowed_are_refused),
        T(test_a_message_that_no_log_can_hold_is_refused),
        T(test_an_output_repo_takes_no_push),
        T(test_a_stage_does_not_write_an_input_repo),
        T(test_a_commit_built_on_another_head_is_refused),
        T(test_writers_of_one_branch_at_once_lose_nothing),
        T(test_only_the_newest_commit_of_a_run_that_is_over_can_be_deleted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
