// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/api/transfer pipelined/db/tx pipelined/net/http_client pipelined/net/loop pipelined/net/remote pipelined/net/server pipelined/spec storage/base storage/dataset/file storage/dataset/ingest storage/object storage/pack storage/store storage/system storage/tree_edit
/* The data plane as its clients use it: packs in and out, commits on top of them, several writers at once, entries read back. */
#include "tests/support/fixtures/pack_fixture.h"

#include "pipelined/api/transfer/upload_session.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/net/http_client/http_client.h"
#include "pipelined/net/remote/remote.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"

#define REPO     "/api/v1/repos/default/data"
#define ONES_ID  "1111111111111111111111111111111111111111111111111111111111111111"
#define PUSH_URL REPO "/branches/master/commits"

/* ---- a client of its own ---- */

struct writer {
    struct pl_http_client *client;
    struct pl_remote *remote;
    struct pl_pack_sink sink;
    struct pl_pack_builder *session;
};

static void writer_open(struct writer *w, const char *token)
{
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    MUST(pl_http_client_create(url, token, &w->client, &err));
    MUST(pl_remote_open(w->client, "default", &w->remote, &err));
    MUST(pl_remote_session(w->remote, &err));
    w->sink = pl_remote_sink(w->remote);
    MUST(pl_pack_builder_open(&w->sink, "default", &w->session, &err));
}

static void writer_close(struct writer *w)
{
    pl_pack_builder_close(w->session);
    pl_remote_close(w->remote);
    pl_http_client_destroy(w->client);
}

struct bytes {
    const uint8_t *p;
    size_t n;
};

static ssize_t read_bytes(void *self, void *out, size_t n, struct pl_err *err)
{
    struct bytes *b = self;

    (void)err;
    n = PL_MIN(n, b->n);
    memcpy(out, b->p, n);
    b->p += n;
    b->n -= n;
    return (ssize_t)n;
}

/* Brings a file's chunks into packs, and the operation that puts it into `ops`. */
static void writer_file(struct writer *w, const char *path, const void *bytes, size_t n, struct pl_buf *ops)
{
    struct bytes source = {bytes, n};
    struct pl_tree_ops_writer writer = {0};
    struct pl_entry entry;

    MUST(pl_file_write_stream(w->session, PL_KIND_FILE, read_bytes, &source, &entry, &err));
    MUST(pl_tree_ops_writer_init(&writer, ops, &err));
    MUST(pl_tree_ops_writer_put(&writer, path, strlen(path), &entry, &err));
    MUST(pl_tree_ops_writer_end(&writer, &err));
    pl_tree_ops_writer_finish(&writer);
}

static json_t *writer_push(struct writer *w, const struct pl_buf *ops)
{
    char target[256];
    struct answer a;
    json_t *value;

    MUST(pl_pack_builder_finish(w->session, &err));
    snprintf(target, sizeof target, PUSH_URL "?message=hello&author=me&session=%s", pl_remote_session_id(w->remote));
    a = ask_with("POST", target, AS_USER, ops->data, ops->len);
    value = json_of(&a);
    if (a.status >= 400)
        fail_msg("push: %s", a.body);
    answer_free(&a);
    return value;
}

static uint8_t *noise(size_t n)
{
    uint8_t *out = malloc(n + 8);
    uint64_t seed = n;

    assert_non_null(out);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pl_splitmix64(&seed);

        memcpy(out + i, &v, 8);
    }
    return out;
}

static int collect(void *self, const void *data, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, data, n, err);
}

/* ---- a push, and reading it back ---- */

static void what_was_pushed_through_packs_is_read_back(void **state)
{
    enum { SIZE = 3 << 20 };
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, chunk = {0};
    uint8_t *bytes = noise(SIZE);
    struct pl_chunk_reader reader;
    struct writer w;
    struct pl_tree_ops_reader r;
    struct pl_tree_op op;
    struct answer a;
    json_t *o;

    (void)state;
    make_repo("data");
    writer_open(&w, TOKEN);
    writer_file(&w, "big", bytes, SIZE, &ops);
    o = writer_push(&w, &ops);
    assert_true(json_is_true(json_object_get(o, "changed")));
    assert_int_equal(number_at(o, "bytes"), SIZE);
    assert_true(number_at(o, "new_bytes") > SIZE);
    assert_string_equal(text_at(o, "run"), text_at(o, "commit"));
    json_decref(o);
    o = ask_json(200, "GET", REPO "/commits/master", NULL);
    assert_string_equal(text_at(o, "message"), "hello");
    assert_string_equal(text_at(o, "author"), "me");
    json_decref(o);
    a = ask("GET", REPO "/refs/master/files/big", NULL);
    assert_int_equal(a.len, SIZE);
    assert_memory_equal(a.body, bytes, SIZE);
    answer_free(&a);

    MUST(pl_tree_ops_reader_init(&r, ops.data, ops.len, &err));
    assert_int_equal(pl_tree_ops_reader_next(&r, &op, NULL), 1);
    reader = pl_remote_reader(w.remote); /* locate, then a range of the pack */
    MUST(reader.get(reader.self, &op.entry.id, PL_REC_LIST, &chunk, &err));
    assert_memory_equal(chunk.data, "PLCL", 4);
    writer_close(&w);
    free(bytes);
}

static void what_the_store_has_is_not_sent_again(void **state)
{
    enum { SIZE = 1 << 20 };
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, again = {0};
    struct pl_pack_builder_stats stats;
    uint8_t *bytes = noise(SIZE);
    struct writer w;
    json_t *o;

    (void)state;
    make_repo("data");
    writer_open(&w, WORKER_TOKEN);
    writer_file(&w, "a", bytes, SIZE, &ops);
    o = writer_push(&w, &ops);
    json_decref(o);
    writer_close(&w);
    writer_open(&w, WORKER_TOKEN);
    writer_file(&w, "b", bytes, SIZE, &again);
    o = writer_push(&w, &again);
    assert_true(json_is_true(json_object_get(o, "changed")));
    assert_int_equal(number_at(o, "new_bytes"), 0);
    assert_int_equal(number_at(o, "files"), 2);
    pl_pack_builder_stats(w.session, &stats);
    assert_int_equal(stats.new_records, 0);
    json_decref(o);
    writer_close(&w);
    free(bytes);
}

/* Garbage collection has condemned its packs, and somebody reads on. */
static void a_tree_in_a_condemned_pack_is_read(void **state)
{
    char target[256], hex[PL_HASH_HEX + 1];
    struct pl_store *store;
    struct pl_hash *packs;
    struct answer a;
    json_t *o;
    size_t n;

    (void)state;
    make_repo("data");
    put_text("data@master", "file", "text", NULL);
    o = ask_json(200, "GET", REPO "/commits/master", NULL);
    snprintf(hex, sizeof hex, "%s", text_at(o, "root"));
    json_decref(o);
    MUST(pl_project_stores_get(t.stores, "default", &store, &err));
    MUST(pl_store_packs(store, &packs, &n, &err));
    for (size_t i = 0; i < n; i++)
        pl_store_set_seen(store, &packs[i], PL_PACK_HIDDEN);
    free(packs);
    snprintf(target, sizeof target, "/api/v1/trees/default/%s/entries", hex);
    a = ask("GET", target, NULL);
    assert_int_equal(a.status, 200);
    assert_non_null(memmem(a.body, a.len, "text", 4));
    answer_free(&a);
}

/* ---- ids and packs, byte by byte ---- */

static struct answer put_pack(const struct pack *p, const struct pl_hash *id, const char *session)
{
    char target[256], hex[PL_HASH_HEX + 1];

    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s", pl_hash_hex(id, hex), session);
    return ask_with("PUT", target, AS_WORKER, p->bytes.data, p->bytes.len);
}

static void a_pack_is_asked_for_located_and_read(void **state)
{
    char session[64], target[256], headers[256], hex[PL_HASH_HEX + 1];
    struct pl_hash ids[2] = {{.b = {1}}};
    struct pl_cursor c;
    struct pack p;
    struct answer a;
    uint64_t offset;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "what the chunk holds");
    assert_false(has_as(AS_WORKER, &p.chunk, session));
    a = put_pack(&p, &p.id, session);
    assert_int_equal(a.status, 201);
    answer_free(&a);
    a = put_pack(&p, &p.id, session); /* twice is as good as once */
    assert_int_equal(a.status, 201);
    answer_free(&a);
    assert_true(has_as(AS_WORKER, &p.chunk, session));

    ids[1] = p.chunk;
    a = ask_with("POST", PROJECT "/locate", AS_WORKER, ids, sizeof ids);
    assert_int_equal(a.len, 160);
    for (unsigned i = 0; i < 80; i++)
        assert_int_equal(a.body[i], 0);
    c = pl_cursor_of(a.body + 80, 80);
    assert_int_equal(pl_cursor_u8(&c), 1);
    assert_int_equal(pl_cursor_u8(&c), 0); /* so short a text is stored as it is */
    assert_int_equal(pl_cursor_u8(&c), PL_REC_CHUNK);
    assert_int_equal(pl_cursor_u8(&c), 0);
    assert_int_equal(pl_cursor_le32(&c), 20);
    assert_int_equal(pl_cursor_le32(&c), 20);
    assert_int_equal(pl_cursor_le32(&c), 0);
    offset = pl_cursor_le64(&c);
    assert_memory_equal(pl_cursor_bytes(&c, 32), p.id.b, 32);
    answer_free(&a);

    snprintf(target, sizeof target, PROJECT "/packs/%s", pl_hash_hex(&p.id, hex));
    a = ask_with("GET", target, AS_WORKER, "", 0);
    assert_int_equal(a.len, p.bytes.len);
    assert_memory_equal(a.body, p.bytes.data, p.bytes.len);
    answer_free(&a);
    offset += PL_PACK_RECORD_BYTES;
    snprintf(headers, sizeof headers, AS_WORKER "Range: bytes=%llu-%llu\r\n", (unsigned long long)offset,
             (unsigned long long)offset + 19);
    a = ask_with("GET", target, headers, "", 0);
    assert_int_equal(a.status, 206);
    assert_string_equal(a.body, "what the chunk holds");
    answer_free(&a);
    pl_buf_finish(&p.bytes);
}

static void a_pack_that_lies_is_not_taken(void **state)
{
    char session[64];
    struct pack p, foreign;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "content");
    make_pack(&foreign, "elsewhere", "content");
    code_is(put_pack(&foreign, &foreign.id, session), "protocol");
    code_is(put_pack(&p, &foreign.id, session), "protocol");
    p.bytes.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;
    code_is(put_pack(&p, &p.id, session), "protocol");
    p.bytes.len = 50;
    code_is(put_pack(&p, &p.id, session), "protocol");
    p.bytes.len = 0;
    code_is(put_pack(&p, &p.id, session), "protocol");
    assert_false(has_as(AS_WORKER, &p.chunk, session));
    pl_buf_finish(&p.bytes);
    pl_buf_finish(&foreign.bytes);
}

static int end_sessions(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM session", "");

    (void)arg;
    return PL_MIN(r, 0);
}

static int age_sessions(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE session SET lease_us = lease_us - 800000000", "");

    (void)arg;
    return PL_MIN(r, 0);
}

static void a_session_goes_on_while_it_is_used(void **state)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
    int64_t before = 0, after = 0;
    char session[64];
    struct pack p;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "content");
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, age_sessions, NULL, &err));
    rd = pl_db_read(t.db);
    MUST(pl_sql_int(rd.conn, &err, &before, "SELECT lease_us FROM session", ""));
    assert_false(has_as(AS_WORKER, &p.chunk, session));
    MUST(pl_sql_int(rd.conn, &err, &after, "SELECT lease_us FROM session", ""));
    assert_true(after > before + 600000000);
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, end_sessions, NULL, &err));
    code_is(put_pack(&p, &p.id, session), "retry");
    code_is(put_pack(&p, &p.id, ""), "invalid");
    pl_buf_finish(&p.bytes);
}

static int condemn(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_gc_change change = {.pack = *(const struct pl_hash *)arg, .state = PL_PACK_CONDEMNED};
    struct pl_gc_tx_args args = {.project = "default", .changes = &change, .n = 1};
    int r = pl_tx_pack_state(tx, &args, err);

    assert_true(change.done);
    return r;
}

/* It was shown when it was looked up, and its pin came too late for the collection. */
static void what_is_condemned_while_it_is_told_of_lives_again(void **state)
{
    struct pl_sessions *sessions;
    char session[64], text[PL_GC_STATE_BYTES];
    struct pl_location at;
    struct pl_store *store;
    struct pack p;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "content");
    is_good(put_pack(&p, &p.id, session));
    MUST(pl_project_stores_get(t.stores, "default", &store, &err));
    MUST(pl_store_locate(store, &p.chunk, &at, &err));
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, end_sessions, NULL, &err));
    MUST(pl_db_run(t.db, PL_TX_LOGGED, condemn, &p.id, &err));
    MUST(pl_pack_state_read(t.db, "default", &p.id, text, &err));
    assert_string_equal(text, PL_PACK_CONDEMNED);
    open_session(session);
    MUST(pl_upload_sessions_create(&sessions, &err));
    MUST(pl_upload_session_pin_numbers(sessions, t.db, store, session, &at.pack_no, 1, &err));
    MUST(pl_pack_state_read(t.db, "default", &p.id, text, &err));
    assert_string_equal(text, "");
    assert_true(has_as(AS_WORKER, &p.chunk, session));
    pl_upload_sessions_destroy(sessions);
    pl_buf_finish(&p.bytes);
}

static void what_cannot_be_is_refused_by_name(void **state)
{
    static const struct {
        const char *code, *part, *method, *target, *body;
    } bad[] = {
        {"invalid", "session", "POST", PROJECT "/have", ""},
        {"protocol", "3 bytes", "POST", PROJECT "/locate", "abc"},
        {"not_found", "nowhere", "POST", "/api/v1/projects/nowhere/locate", ""},
        {"invalid_name", "project", "POST", "/api/v1/projects/.%2E/locate", ""},
        {"not_found", "nowhere", "POST", "/api/v1/sessions", "{\"project\":\"nowhere\"}"},
        {"invalid", "kind", "POST", "/api/v1/sessions", "{\"kind\":\"gc\"}"},
        {"invalid", "id", "GET", PROJECT "/packs/xyz", NULL},
        {"not_found", "", "GET", PROJECT "/packs/" ZERO_ID, NULL},
        {"invalid", "root", "GET", "/api/v1/trees/default/xyz/entries", NULL},
        {"not_found", "", "GET", "/api/v1/trees/default/" ONES_ID "/entries", NULL},
        {"not_found", "/a", "GET", "/api/v1/trees/default/" ZERO_ID "/entries?path=a", NULL},
        {"invalid_path", "path", "GET", "/api/v1/trees/default/" ZERO_ID "/entries?path=a//b", NULL},
        {"invalid_glob", "never closed", "GET", "/api/v1/trees/default/" ZERO_ID "/entries?files=a(", NULL},
        {"not_found", "/x", "POST", "/api/v1/trees/default/" ZERO_ID "/entries", "x"},
        {"invalid_path", "line 2", "POST", "/api/v1/trees/default/" ZERO_ID "/entries", "x\n../y"},
        {"protocol", "operations", "POST", PUSH_URL, "these are no operations"},
        {"protocol", "operations", "POST", PUSH_URL, "PLOP\1"},
        {"invalid_name", "branch", "POST", REPO "/branches/-/commits", "x"},
        {"invalid", "session", "POST", PUSH_URL "?session=x", "x"},
        {"retry", "session", "POST", PUSH_URL "?session=00000000000000000000000000000000", "x"},
    };

    (void)state;
    make_repo("data");
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        refused(bad[i].code, bad[i].part, bad[i].method, bad[i].target, bad[i].body);
}

/* ---- commits ---- */

static void put_op(struct pl_buf *ops, const struct pl_entry *entry)
{
    struct pl_tree_ops_writer w = {0};

    MUST(pl_tree_ops_writer_init(&w, ops, &err));
    MUST(pl_tree_ops_writer_put(&w, "f", 1, entry, &err));
    MUST(pl_tree_ops_writer_end(&w, &err));
    pl_tree_ops_writer_finish(&w);
}

static struct answer push_entry(const struct pl_entry *entry)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};

    put_op(&ops, entry);
    return ask_with("POST", PUSH_URL, AS_USER, ops.data, ops.len);
}

static void a_commit_names_only_what_is_there_and_as_long_as_it_is(void **state)
{
    char content[101], session[64];
    struct pl_entry entry;
    struct pack p;

    (void)state;
    make_repo("data");
    memset(content, 'x', 100);
    content[100] = '\0';
    open_session(session);
    make_pack(&p, "default", content);
    entry = pl_entry_chunk(PL_KIND_FILE, 100, &p.chunk);
    code_is(push_entry(&entry), "retry");
    is_good(put_pack(&p, &p.id, session));
    entry.size = 99;
    code_is(push_entry(&entry), "invalid");
    entry.size = 100;
    is_good(push_entry(&entry));
    pl_buf_finish(&p.bytes);
}

/* The head is taken, and with it the session; that ends while the body comes. */
static struct answer end_session_meanwhile(const char *method, const char *target, const void *body, size_t n)
{
    int fd = client_connect(port), len;
    char text[1024];
    struct answer a;

    len = snprintf(text, sizeof text,
                   "%s %s HTTP/1.1\r\nHost: localhost\r\n" AS_USER "Content-Length: %zu\r\nExpect: 100-continue\r\n\r\n", method,
                   target, n);
    assert_true(client_send(fd, text, (size_t)len));
    assert_true(client_read_line(fd, text, sizeof text));
    assert_string_equal(text, "HTTP/1.1 100 Continue\r\n");
    assert_true(client_read_line(fd, text, sizeof text));
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, end_sessions, NULL, &err));
    assert_true(client_send(fd, body, n));
    a = client_read_answer(fd);
    close(fd);
    return a;
}

/* What it was told, or has brought, may be gone by then; and what lies there of others may not be what it says. */
static void what_comes_after_its_session_ended_is_refused(void **state)
{
    static const char content[] = "a text that is longer than what is kept within a tree, so that it is a chunk of its own";
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    char session[64], target[256], hex[PL_HASH_HEX + 1];
    struct pl_entry entry;
    struct pack p;

    (void)state;
    make_repo("data");
    open_session(session);
    make_pack(&p, "default", content);
    is_good(put_pack(&p, &p.id, session));
    entry = pl_entry_chunk(PL_KIND_FILE, sizeof content - 1, &p.chunk);
    put_op(&ops, &entry);
    snprintf(target, sizeof target, PUSH_URL "?session=%s", session);
    code_is(end_session_meanwhile("POST", target, ops.data, ops.len), "retry");

    does(201, "POST", REPO "/branches/master/open", "{}");
    open_session(session);
    snprintf(target, sizeof target, REPO "/open/master/ops?session=%s", session);
    code_is(end_session_meanwhile("POST", target, ops.data, ops.len), "retry");

    open_session(session);
    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s", pl_hash_hex(&p.id, hex), session);
    code_is(end_session_meanwhile("PUT", target, p.bytes.data, p.bytes.len), "retry");
    pl_buf_finish(&p.bytes);
}

static void a_named_base_is_held_to(void **state)
{
    static const struct edit first[] = {{PL_TREE_PUT, "a", "1"}, {PL_TREE_PUT, "d/x", "1"}, {PL_TREE_PUT, "d/y", "1"}};
    static const struct edit theirs[] = {{PL_TREE_PUT, "a", "2"}, {PL_TREE_PUT, "d/x", "2"}};
    static const struct edit same[] = {{PL_TREE_PUT, "a", "3"}, {PL_TREE_PUT, "d/x", "3"}}, other[] = {{PL_TREE_PUT, "b", "3"}};
    static const struct edit folder[] = {{PL_TREE_DELETE_PREFIX, "d", NULL}};
    char query[96];
    struct answer a;
    json_t *o;

    (void)state;
    make_repo("data");
    o = push_good("master", first, PL_ARRAY_SIZE(first));
    snprintf(query, sizeof query, "master?base=%s", text_at(o, "commit"));
    json_decref(o);
    json_decref(push_good("master", theirs, PL_ARRAY_SIZE(theirs)));
    a = push_edits(query, same, PL_ARRAY_SIZE(same));
    assert_int_equal(a.status, 409);
    assert_non_null(strstr(a.body, "2 paths changed since base"));
    assert_non_null(strstr(a.body, "/a, /d/x"));
    code_is(a, "conflict");
    code_is(push_edits(query, folder, 1), "conflict");
    json_decref(push_good(query, other, PL_ARRAY_SIZE(other)));  /* nobody touched it: merged */
    json_decref(push_good("master", same, PL_ARRAY_SIZE(same))); /* without a base the last writer wins */
    a = ask("GET", REPO "/refs/master/files/a", NULL);
    assert_string_equal(a.body, "3");
    answer_free(&a);
}

static void two_edits_that_cannot_both_be(void **state)
{
    static const struct edit file[] = {{PL_TREE_PUT, "a", "1"}}, below[] = {{PL_TREE_PUT, "a/b", "1"}};

    (void)state;
    make_repo("data");
    json_decref(push_good("master", file, 1));
    code_is(push_edits("master", below, 1), "path_collision");
}

static void *push_some(void *arg)
{
    char name[32];
    struct edit e[] = {{PL_TREE_PUT, name, "mine"}, {PL_TREE_PUT, "shared", arg}};

    for (unsigned i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s-%u", (const char *)arg, i);
        json_decref(push_good("master", e, 2));
    }
    return NULL;
}

static void many_writers_of_one_branch(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    pthread_t threads[PL_ARRAY_SIZE(names)];
    struct answer a;
    json_t *o;

    (void)state;
    make_repo("data");
    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        pthread_create(&threads[i], NULL, push_some, (void *)(uintptr_t)names[i]);
    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        pthread_join(threads[i], NULL);
    o = ask_json(200, "GET", REPO "/commits/master", NULL);
    assert_int_equal(number_at(o, "files"), 31);
    assert_int_equal(number_at(o, "generation"), 30);
    json_decref(o);
    a = ask("GET", REPO "/refs/master/files/shared", NULL);
    assert_true(a.len == 1 && a.body[0] >= 'a' && a.body[0] <= 'f');
    answer_free(&a);
    assert_int_equal(t.n_runs, 30);
}

static void a_large_push_goes_through_a_file(void **state)
{
    enum { N = 30000 };
    struct edit *edits = calloc(N, sizeof *edits);
    char(*paths)[32] = calloc(N, sizeof *paths);
    json_t *o;

    (void)state;
    make_repo("data");
    for (unsigned i = 0; i < N; i++) {
        snprintf(paths[i], sizeof paths[i], "folder-%03u/file-%06u", i / 100, i);
        edits[i] = (struct edit){PL_TREE_PUT, paths[i], "the quick brown fox jumps over it"};
    }
    o = push_good("master", edits, N); /* 2 MB */
    assert_int_equal(number_at(o, "files"), N);
    json_decref(o);
    o = ask_json(200, "GET", REPO "/refs/master/list?limit=10000", NULL);
    assert_int_equal(json_array_size(json_object_get(o, "files")), N / 100);
    json_decref(o);
    free(edits);
    free(paths);
}

/* ---- entries ---- */

static const struct edit tree[] = {
    {PL_TREE_PUT, "README", "1"},   {PL_TREE_PUT, "a/b.csv", "1"}, {PL_TREE_PUT, "a/deep/c.csv", "1"},
    {PL_TREE_PUT, "a/deep/x", "1"}, {PL_TREE_PUT, "a/none", "/"},  {PL_TREE_PUT, "ab", "1"},
};

static void entries_are(struct pl_remote *remote, const struct pl_hash *root, const char *path, const char *const *files,
                        const char *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, got = {0};
    struct pl_tree_ops_reader r;
    struct pl_tree_op op;

    MUST(pl_remote_entries(remote, root, path, files, collect, &ops, &err));
    MUST(pl_tree_ops_reader_init(&r, ops.data, ops.len, &err));
    while (pl_tree_ops_reader_next(&r, &op, NULL) > 0)
        MUST(pl_buf_addf(&got, &err, "%s%.*s", got.len ? " " : "", (int)op.path_len, op.path));
    assert_true(r.ended);
    assert_string_equal(pl_buf_str(&got), want);
}

static void entries_of_a_folder_a_file_and_a_choice(void **state)
{
    static const char *const csv[] = {"*.csv", NULL}, *const deep[] = {"/deep", NULL}, *const two[] = {"/b.csv", "x", NULL};
    static const struct {
        const char *path;
        const char *const *files;
        const char *want;
    } cases[] = {
        {"", NULL, "README a/b.csv a/deep/c.csv a/deep/x a/none ab"},
        {"a", NULL, "b.csv deep/c.csv deep/x none"},
        {"a/deep", NULL, "c.csv x"},
        {"a/none", NULL, ""},
        {"a/b.csv", NULL, "b.csv"},
        {"README", NULL, "README"},
        {"a", csv, "b.csv deep/c.csv"},
        {"a", deep, "deep/c.csv deep/x"},
        {"a", two, "b.csv deep/x"},
        {"a/b.csv", csv, "b.csv"},
        {"README", csv, ""},
    };
    struct writer w;
    struct pl_hash root;
    json_t *o;

    (void)state;
    make_repo("data");
    o = push_good("master", tree, PL_ARRAY_SIZE(tree));
    MUST(pl_hash_parse(text_at(o, "root"), &root, &err));
    json_decref(o);
    writer_open(&w, WORKER_TOKEN);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        entries_are(w.remote, &root, cases[i].path, cases[i].files, cases[i].want);
    root = (struct pl_hash){0};
    entries_are(w.remote, &root, "", NULL, "");
    writer_close(&w);
}

/* The names that are given for these, below `path`; what is missing when that is refused. */
static void named_are(struct pl_remote *remote, const struct pl_hash *root, const char *path, const char *names, const char *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0}, got = {0}, lines = {0};
    struct pl_tree_ops_reader r;
    struct pl_tree_op op;
    struct pl_err why = {0};

    MUST(pl_buf_add_str(&lines, names, &err));
    if (pl_remote_named_entries(remote, root, path, &lines, &ops, &why) < 0) {
        assert_int_equal(why.code, PL_ENOTFOUND);
        MUST(pl_buf_add_str(&got, strstr(why.msg, "no file") ? strstr(why.msg, "no file") : why.msg, &err));
    } else {
        MUST(pl_tree_ops_reader_init(&r, ops.data, ops.len, &err));
        while (pl_tree_ops_reader_next(&r, &op, NULL) > 0)
            MUST(pl_buf_addf(&got, &err, "%s%.*s", got.len ? " " : "", (int)op.path_len, op.path));
        assert_true(r.ended);
    }
    assert_string_equal(got.len ? pl_buf_str(&got) : "", want);
}

static void entries_of_files_by_their_names(void **state)
{
    static const struct {
        const char *path, *names, *want;
    } cases[] = {
        {"", "ab\na/deep/x\nREADME\n", "README a/deep/x ab"}, /* in the order of a tree */
        {"a", "deep/x\nb.csv", "b.csv deep/x"},
        {"a/deep", "x\nx\nx\n", "x"},
        {"", "", ""},
        {"a", "b.csv\nc.csv\n", "no file /a/c.csv"},
        {"", "a", "no file /a"},
        {"", "a/none", "no file /a/none"}, /* an empty folder */
        {"nowhere", "x", "no file /nowhere/x"},
    };
    struct writer w;
    struct pl_hash root;
    json_t *o;

    (void)state;
    make_repo("data");
    o = push_good("master", tree, PL_ARRAY_SIZE(tree));
    MUST(pl_hash_parse(text_at(o, "root"), &root, &err));
    json_decref(o);
    writer_open(&w, WORKER_TOKEN);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        named_are(w.remote, &root, cases[i].path, cases[i].names, cases[i].want);
    writer_close(&w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_pushed_through_packs_is_read_back),
        TEST(what_the_store_has_is_not_sent_again),
        TEST(a_tree_in_a_condemned_pack_is_read),
        TEST(a_pack_is_asked_for_located_and_read),
        TEST(a_pack_that_lies_is_not_taken),
        TEST(a_session_goes_on_while_it_is_used),
        TEST(what_cannot_be_is_refused_by_name),
        TEST(a_commit_names_only_what_is_there_and_as_long_as_it_is),
        TEST(what_comes_after_its_session_ended_is_refused),
        TEST(what_is_condemned_while_it_is_told_of_lives_again),
        TEST(a_named_base_is_held_to),
        TEST(two_edits_that_cannot_both_be),
        TEST(many_writers_of_one_branch),
        TEST(a_large_push_goes_through_a_file),
        TEST(entries_of_a_folder_a_file_and_a_choice),
        TEST(entries_of_files_by_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
