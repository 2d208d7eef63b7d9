// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Files over HTTP: what was put is read back, in parts too; lists, globs and differences, whole and in pages. */
#include "storage/system/lock_order.h"
#include "tests/support/fixtures/api_fixture.h"

#define REPO  "/api/v1/repos/default/data"
#define FILES REPO "/refs/master/files"
#define LIST  REPO "/refs/master/list"

/* `n` bytes that do not compress, the same for the same seed. */
static uint8_t *noise(size_t n, uint64_t seed)
{
    uint8_t *out = malloc(n + 8);

    assert_non_null(out);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pl_splitmix64(&seed);

        memcpy(out + i, &v, 8);
    }
    return out;
}

/* ---- bytes ---- */

static void bytes_come_back_as_they_were_put(void **state)
{
    static const size_t sizes[] = {0, 1, 64, 65, 65536, 65537, 262144, 1048576, 1048577, 5000000};
    char target[256];

    (void)state;
    make_repo("data");
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        uint8_t *bytes = noise(sizes[i], i);
        struct answer a;

        snprintf(target, sizeof target, REPO "/branches/master/files/dir/f%zu", sizes[i]);
        a = ask_with("PUT", target, AS_USER, bytes, sizes[i]);
        assert_int_equal(a.status, 201);
        answer_free(&a);
        snprintf(target, sizeof target, FILES "/dir/f%zu", sizes[i]);
        a = ask("GET", target, NULL);
        assert_int_equal(a.status, 200);
        assert_true(a.complete);
        assert_int_equal(a.len, sizes[i]);
        assert_memory_equal(a.body, bytes, sizes[i]);
        answer_free(&a);
        free(bytes);
    }
}

static void a_body_of_unknown_length_is_taken(void **state)
{
    static const char request[] = "PUT " REPO "/branches/master/files/f HTTP/1.1\r\nHost: localhost\r\n" AS_USER
                                  "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    struct answer a;
    int fd;

    (void)state;
    make_repo("data");
    fd = client_connect(port);
    a = client_ask(fd, request);
    close(fd);
    assert_int_equal(a.status, 201);
    answer_free(&a);
    a = ask("GET", FILES "/f", NULL);
    assert_string_equal(a.body, "abcde");
    answer_free(&a);
}

static void parts_of_a_file(void **state)
{
    enum { SIZE = 3000000 };
    static const struct {
        const char *range;
        int status;
        size_t first, count;
    } parts[] = {
        {"bytes=0-0", 206, 0, 1},
        {"bytes=1000000-2000000", 206, 1000000, 1000001},
        {"bytes=2999999-", 206, 2999999, 1},
        {"bytes=-5", 206, SIZE - 5, 5},
        {"bytes=65536-65536", 206, 65536, 1},
        {"bytes=3000000-", 416, 0, 0},
        {"bytes=0-1,5-6", 200, 0, SIZE},
        {"lines=1-2", 200, 0, SIZE},
    };
    static const char *const paths[] = {"/large", "/small"};
    uint8_t *bytes = noise(SIZE, 1);
    struct answer a;
    char headers[256], want[128], got[256];

    (void)state;
    make_repo("data");
    a = ask_with("PUT", REPO "/branches/master/files/large", AS_USER, bytes, SIZE);
    answer_free(&a);
    for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++) {
        snprintf(headers, sizeof headers, AS_USER "Range: %s\r\n", parts[i].range);
        a = ask_with("GET", FILES "/large", headers, "", 0);
        if (a.status != parts[i].status || a.len != parts[i].count)
            fail_msg("%s: %d with %zu bytes", parts[i].range, a.status, a.len);
        assert_memory_equal(a.body, bytes + parts[i].first, a.len);
        if (a.status == 206) {
            snprintf(want, sizeof want, "bytes %zu-%zu/%d", parts[i].first, parts[i].first + parts[i].count - 1, SIZE);
            assert_string_equal(answer_header(&a, "Content-Range", got), want);
        }
        answer_free(&a);
    }
    put_text("data@master", "small", "0123456789", NULL);
    a = ask_with("GET", FILES "/small", AS_USER "Range: bytes=3-5\r\n", "", 0);
    assert_int_equal(a.status, 206);
    assert_string_equal(a.body, "345");
    answer_free(&a);
    for (size_t i = 0; i < PL_ARRAY_SIZE(paths); i++) {
        snprintf(headers, sizeof headers, FILES "%s", paths[i]);
        a = ask_with("HEAD", headers, AS_USER, "", 0);
        assert_int_equal(a.status, 200);
        assert_string_equal(answer_header(&a, "Content-Length", got), i ? "10" : "3000000");
    }
    free(bytes);
}

static void who_has_the_file_is_told_so(void **state)
{
    char etag[256], headers[512];
    struct answer a;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "one", NULL);
    a = ask("GET", FILES "/a", NULL);
    assert_non_null(answer_header(&a, "ETag", etag));
    answer_free(&a);
    snprintf(headers, sizeof headers, AS_USER "If-None-Match: %s\r\n", etag);
    put_text("data@master", "b", "another", NULL);
    a = ask_with("GET", FILES "/a", headers, "", 0); /* another commit, the same bytes */
    assert_int_equal(a.status, 304);
    answer_free(&a);
    put_text("data@master", "a", "two", NULL);
    a = ask_with("GET", FILES "/a", headers, "", 0);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "two");
    answer_free(&a);
}

static void nothing_pushed_can_act_as_a_page(void **state)
{
    char value[256];
    struct answer a;

    (void)state;
    make_repo("data");
    put_text("data@master", "x.html", "<script>alert(1)</script>", NULL);
    a = ask("GET", FILES "/x.html", NULL);
    assert_string_equal(answer_header(&a, "Content-Type", value), "application/octet-stream");
    assert_string_equal(answer_header(&a, "X-Content-Type-Options", value), "nosniff");
    answer_free(&a);
}

static void the_type_is_that_of_the_name_and_always_in_a_sandbox(void **state)
{
    static const struct {
        const char *name, *type;
    } files[] = {
        {"a.png", "image/png"},
        {"a.JPEG", "image/jpeg"},
        {"a.svg", "image/svg+xml"},
        {"a.webm", "video/webm"},
        {"a.mp4", "video/mp4"},
        {"a.mp3", "audio/mpeg"},
        {"a.wav", "audio/wav"},
        {"a.pdf", "application/pdf"},
        {"a.html", "application/octet-stream"},
        {"a.png.html", "application/octet-stream"},
        {"a.js", "application/octet-stream"},
        {"a.xml", "application/octet-stream"},
        {".png", "application/octet-stream"},
        {"png", "application/octet-stream"},
    };
    char target[128], value[256];
    struct answer a;

    (void)state;
    make_repo("data");
    for (size_t i = 0; i < PL_ARRAY_SIZE(files); i++) {
        put_text("data@master", files[i].name, "0123456789", NULL);
        snprintf(target, sizeof target, FILES "/%s", files[i].name);
        a = ask_with("GET", target, AS_USER "Range: bytes=2-4\r\n", "", 0);
        assert_int_equal(a.status, 206);
        assert_string_equal(a.body, "234");
        if (!pl_streq(answer_header(&a, "Content-Type", value), files[i].type))
            fail_msg("%s: %s", files[i].name, value);
        assert_string_equal(answer_header(&a, "X-Content-Type-Options", value), "nosniff");
        assert_string_equal(answer_header(&a, "Content-Disposition", value), "attachment");
        assert_string_equal(answer_header(&a, "Content-Security-Policy", value), "sandbox; default-src 'none'");
        answer_free(&a);
    }
}

static void the_same_bytes_again_are_no_commit(void **state)
{
    char first[PL_ID_HEX + 1], again[PL_ID_HEX + 1];
    json_t *commits;

    (void)state;
    make_repo("data");
    assert_true(put_text("data@master", "a", "x", first));
    assert_false(put_text("data@master", "a", "x", again));
    assert_string_equal(first, again);
    commits = ask_json(200, "GET", REPO "/commits", NULL);
    names_are(commits, "commits", "id", first);
    json_decref(commits);
    assert_int_equal(t.n_runs, 1);
    assert_string_equal(t.runs[0], first);
}

/* ---- lists ---- */

static const struct edit tree[] = {
    {PL_TREE_PUT, "README", "read me"},  {PL_TREE_PUT, "test!x", "12"},     {PL_TREE_PUT, "test/b1.csv", "1"},
    {PL_TREE_PUT, "test/b2.csv", "22"},  {PL_TREE_PUT, "train/a/1", "333"}, {PL_TREE_PUT, "train/a/2", "4444"},
    {PL_TREE_PUT, "train/b/1", "55555"}, {PL_TREE_PUT, "train/empty", "/"}, {PL_TREE_PUT, "train/z.csv", "->b/1"},
};

/* "kind:path:size" of every item, page after page of `limit`. */
static void listing_is(const char *query, unsigned limit, const char *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    char target[512], next[256] = "";
    unsigned pages = 0;

    do {
        json_t *list, *item;
        size_t i;

        snprintf(target, sizeof target, LIST "?limit=%u&%s%s%s", limit, query, *next ? "&after=" : "", next);
        list = ask_json(200, "GET", target, NULL);
        assert_true(json_array_size(json_object_get(list, "files")) <= limit);
        json_array_foreach(json_object_get(list, "files"), i, item)
        {
            MUST(pl_buf_addf(&got, &err, "%s%.1s:%s:%lld", got.len ? " " : "", text_at(item, "kind"), text_at(item, "path"),
                             (long long)number_at(item, "size")));
        }
        snprintf(next, sizeof next, "%s", json_string_value(json_object_get(list, "next")) ? text_at(list, "next") : "");
        json_decref(list);
        assert_true(++pages < 30);
    } while (*next);
    if (!pl_streq(pl_buf_str(&got), want))
        fail_msg("%s by %u: %s\nwanted: %s", query, limit, pl_buf_str(&got), want);
}

static void lists_and_globs(void **state)
{
    static const struct {
        const char *query, *want;
    } lists[] = {
        {"", "f:README:7 f:test!x:2 d:test:3 d:train:15"},
        {"path=/", "f:README:7 f:test!x:2 d:test:3 d:train:15"},
        {"path=test", "f:test/b1.csv:1 f:test/b2.csv:2"},
        {"path=/train/", "d:train/a:7 d:train/b:5 d:train/empty:0 l:train/z.csv:3"},
        {"path=train&recursive=1", "f:train/a/1:3 f:train/a/2:4 f:train/b/1:5 d:train/empty:0 l:train/z.csv:3"},
        {"path=README", "f:README:7"},
        {"path=train/empty", ""},
        {"recursive=1",
         "f:README:7 f:test!x:2 f:test/b1.csv:1 f:test/b2.csv:2 f:train/a/1:3 f:train/a/2:4 f:train/b/1:5 d:train/empty:0"
         " l:train/z.csv:3"},
        {"glob=/*", "f:README:7 f:test!x:2 d:test:3 d:train:15"},
        {"glob=/", "d::27"},
        {"glob=/**",
         "f:README:7 f:test!x:2 d:test:3 f:test/b1.csv:1 f:test/b2.csv:2 d:train:15 d:train/a:7 f:train/a/1:3 f:train/a/2:4"
         " d:train/b:5 f:train/b/1:5 d:train/empty:0 l:train/z.csv:3"},
        {"glob=/t*/*.csv", "f:test/b1.csv:1 f:test/b2.csv:2 l:train/z.csv:3"},
        {"glob=/train/*/1", "f:train/a/1:3 f:train/b/1:5"},
        {"glob=/train/a", "d:train/a:7"},
        {"glob=/train/a&recursive=1", "f:train/a/1:3 f:train/a/2:4"},
        {"glob=/**/1", "f:train/a/1:3 f:train/b/1:5"},
        {"glob=/**/1&path=train/b", "f:train/b/1:5"},
        {"glob=/test/*&path=train", ""},
        {"glob=/nothing", ""},
        {"find=B1", "f:test/b1.csv:1"},
        {"find=A", "f:README:7 d:train:15 d:train/a:7"},
        {"find=1", "f:test/b1.csv:1 f:train/a/1:3 f:train/b/1:5"},
        {"find=csv&path=train", "l:train/z.csv:3"},
        {"find=nowhere", ""},
    };
    char commit[PL_ID_HEX + 1];
    json_t *o;

    (void)state;
    make_repo("data");
    o = push_good("master", tree, PL_ARRAY_SIZE(tree));
    snprintf(commit, sizeof commit, "%s", text_at(o, "commit"));
    json_decref(o);
    for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++)
        for (unsigned limit = 1; limit < 12; limit += 3)
            listing_is(lists[i].query, limit, lists[i].want);
    o = ask_json(200, "GET", LIST "?path=test", NULL);
    assert_string_equal(text_at(o, "commit"), commit);
    json_decref(o);
    o = ask_json(200, "GET", LIST, NULL);
    assert_int_equal(number_at(json_array_get(json_object_get(o, "files"), 3), "files"), 4); /* an empty directory is no file */
    json_decref(o);
}

static void a_page_goes_on_where_the_last_ended_though_the_tree_changed(void **state)
{
    static const struct edit gone[] = {{PL_TREE_DELETE_PREFIX, "test", NULL}};
    json_t *o;

    (void)state;
    make_repo("data");
    json_decref(push_good("master", tree, PL_ARRAY_SIZE(tree)));
    json_decref(push_good("master", gone, 1));
    o = ask_json(200, "GET", LIST "?after=test/", NULL);
    names_are(o, "files", "path", "train");
    json_decref(o);
}

/* ---- differences ---- */

static void changes_are(const char *query, const char *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    char target[512], next[256] = "";

    do {
        json_t *o, *item;
        size_t i;

        snprintf(target, sizeof target, REPO "/diff?limit=2&%s%s%s", query, *next ? "&after=" : "", next);
        o = ask_json(200, "GET", target, NULL);
        json_array_foreach(json_object_get(o, "changes"), i, item)
        {
            bool has_old = json_object_get(item, "old"), has_new = json_object_get(item, "new");

            assert_true(has_old == !pl_streq(text_at(item, "change"), "added"));
            assert_true(has_new == !pl_streq(text_at(item, "change"), "removed"));
            MUST(pl_buf_addf(&got, &err, "%s%.1s:%s", got.len ? " " : "", text_at(item, "change"), text_at(item, "path")));
        }
        snprintf(next, sizeof next, "%s", json_object_get(o, "next") ? text_at(o, "next") : "");
        json_decref(o);
    } while (*next);
    assert_string_equal(pl_buf_str(&got), want);
}

static void what_differs_between_two_commits(void **state)
{
    static const struct edit edits[] = {{PL_TREE_PUT, "new", "1"},
                                        {PL_TREE_DELETE_PREFIX, "test", NULL},
                                        {PL_TREE_PUT, "test/b2.csv", "changed"},
                                        {PL_TREE_PUT, "train/a/3", "3"}};

    (void)state;
    make_repo("data");
    json_decref(push_good("master", tree, PL_ARRAY_SIZE(tree)));
    json_decref(push_good("master", edits, PL_ARRAY_SIZE(edits)));
    changes_are("", "a:new r:test/b1.csv c:test/b2.csv a:train/a/3");
    changes_are("from=master%5E&to=master", "a:new r:test/b1.csv c:test/b2.csv a:train/a/3");
    changes_are("from=master&to=master%5E", "r:new a:test/b1.csv c:test/b2.csv r:train/a/3");
    changes_are("from=master&to=master", "");
    changes_are("path=test", "r:test/b1.csv c:test/b2.csv");
    changes_are("path=test/b2.csv", "c:test/b2.csv");
    changes_are("path=train/a", "a:train/a/3");
    changes_are("to=master%5E&path=test", "a:test/b1.csv a:test/b2.csv");
}

/* ---- refused ---- */

static void what_cannot_be_is_refused_by_name(void **state)
{
    static const struct {
        const char *code, *part, *method, *target;
    } bad[] = {
        {"not_found", "no /nothing", "GET", FILES "/nothing"},
        {"not_found", "no /README/x", "GET", FILES "/README/x"},
        {"invalid", "is a directory", "GET", FILES "/test"},
        {"invalid", "is a directory", "GET", FILES "/"},
        {"invalid", "empty folder", "GET", FILES "/train/empty"},
        {"invalid_path", "..", "GET", FILES "/a/%2E%2E/b"},
        {"invalid_path", "root", "PUT", REPO "/branches/master/files/"},
        {"invalid_path", "", "PUT", REPO "/branches/master/files/a//b"},
        {"invalid", "percent-encoded", "PUT", REPO "/branches/master/files/a%00b"},
        {"invalid", "UTF-8", "PUT", REPO "/branches/master/files/a%FFb"},
        {"invalid_path", "", "PUT", REPO "/branches/master/files/a%01b"},
        {"path_collision", "test", "PUT", REPO "/branches/master/files/test"},
        {"path_collision", "README", "PUT", REPO "/branches/master/files/README/x"},
        {"not_found", "nothing", "GET", LIST "?path=nothing"},
        {"invalid_path", "path", "GET", LIST "?path=../x"},
        {"invalid_glob", "never closed", "GET", LIST "?glob=/a(b"},
        {"invalid", "limit", "GET", LIST "?limit=20000"},
        {"invalid", "without \"/\"", "GET", LIST "?find=a/b"},
        {"invalid", "neither glob nor recursive", "GET", LIST "?find=a&recursive=1"},
        {"not_found", "none", "GET", REPO "/refs/none/list"},
        {"not_found", "from", "GET", REPO "/diff?from=none"},
        {"not_found", "to", "GET", REPO "/diff?to=none"},
        {"not_found", "branch", "PUT", REPO "/branches/master/files/README?base=none"},
    };

    (void)state;
    make_repo("data");
    json_decref(push_good("master", tree, PL_ARRAY_SIZE(tree)));
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        refused(bad[i].code, bad[i].part, bad[i].method, bad[i].target, pl_streq(bad[i].method, "PUT") ? "x" : NULL);
}

static void what_was_half_sent_leaves_nothing(void **state)
{
    static const char half[] =
        "PUT " REPO "/branches/master/files/f HTTP/1.1\r\nHost: localhost\r\n" AS_USER "Content-Length: 10\r\n\r\nabc";
    int fd;

    (void)state;
    make_repo("data");
    fd = client_connect(port);
    client_say(fd, half);
    close(fd);
    refused("not_found", "no branch", "GET", FILES "/f", NULL);
}

/* ---- why ---- */

/* An object store whose reads need the whole database for a moment. */
static struct {
    const struct pl_object_ops *real;
    struct pl_object_ops ops;
    _Atomic unsigned reads;
} greedy;

static int greedy_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    struct pl_conn *all[4];

    for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++) {
        all[i] = pl_db_reader(t.db);
        pl_lock_order_give(PL_LOCK_DB_READER); /* several in one thread, as several threads would have them */
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++)
        pl_db_reader_done(t.db, all[i]);
    greedy.reads++;
    return greedy.real->open_fd(s, key, ret_fd, err);
}

static void why_reads_trees_with_no_reader_held(void **state)
{
    char path[32];
    json_t *o;

    (void)state;
    make_repo("data");
    for (int i = 0; i < 25; i++) {
        snprintf(path, sizeof path, "d/%02d", i);
        put_text("data@master", path, path, NULL);
    }
    greedy.real = t.objects->ops;
    greedy.ops = *greedy.real;
    greedy.ops.open_fd = greedy_open_fd;
    t.objects->ops = &greedy.ops;
    o = ask_json(200, "GET", "/api/v1/why/default/data/master/d", NULL);
    t.objects->ops = greedy.real;
    assert_true(greedy.reads > 0);
    assert_int_equal(number_at(o, "files"), 25);
    assert_int_equal(json_array_size(json_object_get(o, "inputs")), 20);
    json_decref(o);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_come_back_as_they_were_put),
        TEST(a_body_of_unknown_length_is_taken),
        TEST(parts_of_a_file),
        TEST(who_has_the_file_is_told_so),
        TEST(nothing_pushed_can_act_as_a_page),
        TEST(the_type_is_that_of_the_name_and_always_in_a_sandbox),
        TEST(the_same_bytes_again_are_no_commit),
        TEST(lists_and_globs),
        TEST(a_page_goes_on_where_the_last_ended_though_the_tree_changed),
        TEST(what_differs_between_two_commits),
        TEST(what_cannot_be_is_refused_by_name),
        TEST(what_was_half_sent_leaves_nothing),
        TEST(why_reads_trees_with_no_reader_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
