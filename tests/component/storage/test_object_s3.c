// link: storage/base storage/object storage/system s3_mock
/* object_s3: what every driver does (object_table.h), against a strict server in every guise; and what it does when the server or the
 * network fails. */
#include "storage/object/object_s3.h"
#include "tests/support/s3_server/s3_fixture.h"
#include "tests/support/s3_server/s3_seed_runs.h"
#include "tests/unit/storage/object/object_table.h"

#include <sys/stat.h>
#include <utime.h>

static void every_row_of_the_table_holds_in_every_guise(void **state)
{
    static const struct {
        const char *name;
        struct s3_mock_config mock;
        struct pl_object_config store;
    } guises[] = {
        {"path style, two keys a page", {.page_keys = 2}, {.probe = true}},
        {"virtual style, no prefix", {.virtual_style = true}, {.style = "virtual", .url = "s3://" S3_MOCK_BUCKET}},
        {"TLS", {.tls = true}, {.probe = true}},
        {"without conditions, exclusive", {.ignores_conditions = true}, {.probe = true, .exclusive = true}},
    };

    for (size_t g = 0; g < PL_ARRAY_SIZE(guises); g++) {
        print_message("         %s\n", guises[g].name);
        for (size_t i = 0; i < PL_ARRAY_SIZE(object_table); i++) {
            struct pl_object_config changed = guises[g].store;
            struct place p;

            print_message("           %s\n", object_table[i].name);
            place_open(&p, &guises[g].mock, &changed);
            object_table[i].run(p.store);
            place_close(&p);
            (void)teardown(state);
            (void)setup(state);
        }
    }
}

/* --- one fault at a time --- */

static void open_plain(struct place *p)
{
    place_open(p, &(struct s3_mock_config){0}, NULL);
}

/* Whatever happens once on the way, the outcome is the same, and so is what lies there. */
static void one_failure_is_not_seen(void **state)
{
    static const enum s3_fault_kind kinds[] = {S3_FAULT_500,          S3_FAULT_503,         S3_FAULT_409,   S3_FAULT_RESET_BODY,
                                               S3_FAULT_RESET_BEFORE, S3_FAULT_RESET_AFTER, S3_FAULT_CUT,   S3_FAULT_STALL,
                                               S3_FAULT_500_AFTER,    S3_FAULT_200_ERROR,   S3_FAULT_TWICE, S3_FAULT_LATE,
                                               S3_FAULT_WRONG_ETAG,   S3_FAULT_NO_ETAG,     S3_FAULT_SLOW};
    static const char *const methods[] = {"PUT", "GET", "HEAD", "DELETE"};

    (void)state;
    for (size_t k = 0; k < PL_ARRAY_SIZE(kinds); k++) {
        for (size_t i = 0; i < PL_ARRAY_SIZE(methods); i++) {
            struct place p;
            struct listing l;
            struct pl_err err;
            uint64_t size = 0;

            stall_ms = kinds[k] == S3_FAULT_STALL ? 300 : 10000;
            open_plain(&p);
            stall_ms = 10000;
            s3_mock_fault(p.mock, (struct s3_fault){.kind = kinds[k], .method = methods[i], .times = 1, .bytes = 3});
            table_must_put(p.store, "a/k", "what was put");
            assert_int_equal(table_put(p.store, "a/k", "something else", true, &err), PL_EEXISTS);
            table_assert_object(p.store, "a/k", "what was put");
            assert_ok(pl_object_size(p.store, "a/k", &size, &err), &err);
            assert_int_equal(size, 12);
            assert_string_equal(list(p.store, "", -1, &l), "a/k ");
            assert_ok(pl_object_remove(p.store, "a/k", &err), &err);
            s3_mock_chaos(p.mock, 0, 0);
            assert_int_equal(s3_mock_objects(p.mock), 0);
            place_close(&p);
        }
    }
}

/* The answer to a put is lost, and before it is made again another takes the key: whose it is decides what is said. */
static void a_lost_answer_is_not_taken_for_success(void **state)
{
    struct place p;
    struct pl_err err;

    (void)state;
    open_plain(&p);
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_RESET_BEFORE, .method = "PUT", .times = 1});
    s3_mock_plant(p.mock, "some/prefix/k", "another's", 9);
    assert_int_equal(table_put(p.store, "k", "mine", true, &err), PL_EEXISTS);
    table_assert_object(p.store, "k", "another's");
    place_close(&p);
}

static void what_cannot_be_found_out_is_said_to_be_unknown(void **state)
{
    static const enum s3_fault_kind kinds[] = {S3_FAULT_RESET_AFTER, S3_FAULT_500_AFTER, S3_FAULT_500};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(kinds); i++) {
        struct place p;
        struct pl_err err;

        open_plain(&p);
        s3_mock_fault(p.mock, (struct s3_fault){.kind = kinds[i], .method = "PUT"});
        s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_500, .method = "GET"});
        assert_int_equal(table_put(p.store, "k", "mine", true, &err), PL_ENET);
        s3_mock_chaos(p.mock, 0, 0);
        table_must_put(p.store, "k", "mine"); /* the same again finds out */
        table_assert_object(p.store, "k", "mine");
        place_close(&p);
    }
}

/* libcurl sends again what a kept connection lost, and the answer is to the second: the first may come yet. */
static void what_may_come_yet_is_not_said_to_be_refused(void **state)
{
    struct place p;
    struct pl_err err;

    (void)state;
    open_plain(&p);
    table_must_put(p.store, "before", "a connection to keep");
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_LATE, .method = "PUT", .times = 1, .bytes = 1000});
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .times = 1});
    assert_int_equal(table_put(p.store, "k", "mine", true, &err), PL_ENET);
    s3_mock_chaos(p.mock, 0, 0);
    table_must_put(p.store, "k", "mine");
    table_assert_object(p.store, "k", "mine");
    place_close(&p);
}

/* Nobody listens there: nothing was sent, so nothing is in doubt. */
static void what_never_got_there_is_known_not_to_have(void **state)
{
    struct place p;
    struct pl_object_config c;
    struct pl_object_store *s;
    struct pl_err err;

    (void)state;
    open_plain(&p);
    c = config_of(p.mock);
    c.endpoint = "http://127.0.0.1:1";
    c.deadline_ms = 100;
    assert_ok(pl_object_open(&c, &s, &err), &err);
    assert_int_equal(table_put(s, "k", "x", true, &err), PL_EIO);
    assert_non_null(strstr(err.msg, "cannot be reached"));
    pl_object_close(s);
    place_close(&p);
}

/* An answer of another range, of all, or of which nobody knows where it ends: it is not taken for what was asked for. */
static void what_was_not_asked_for_is_not_taken(void **state)
{
    const size_t large = 3 * PL_S3_RANGE_BYTES, sizes[] = {100, large - 8};
    char *text = malloc(large + 1);
    struct pl_buf got = {.max = 2 * large};
    struct place p;
    struct pl_err err;
    uint64_t size;

    (void)state;
    for (size_t i = 0; i < large; i++)
        text[i] = (char)('a' + i * 7 % 26);
    text[large] = '\0';
    open_plain(&p);
    table_must_put(p.store, "k", text);
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        pl_buf_finish(&got);
        got.max = 2 * large;
        s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_OTHER_RANGE, .method = "GET", .bytes = 8});
        assert_int_equal(pl_object_get(p.store, "k", 0, sizes[i], &got, &err), PL_ECORRUPT);
        s3_mock_chaos(p.mock, 0, 0);
        s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_WHOLE, .method = "GET"});
        assert_int_equal(pl_object_get(p.store, "k", 0, sizes[i], &got, &err), PL_EPROTO);
        assert_true(got.cap <= 2 * sizes[i]); /* of all that came no more is held than was asked for */
        s3_mock_chaos(p.mock, 0, 0);
    }
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_NO_LENGTH, .method = "GET", .times = 1, .bytes = 1000});
    assert_ok(pl_object_get_all(p.store, "k", &got, &err), &err);
    assert_int_equal(got.len, large);
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_NO_LENGTH, .method = "GET", .times = 1, .bytes = 1000});
    assert_ok(table_put(p.store, "k", text, true, &err), &err); /* looked at to its end, it is the same */
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_NO_LENGTH, .method = "GET", .times = 1, .bytes = 5});
    assert_ok(pl_object_tail(p.store, "k", 100, &got, &size, &err), &err);
    assert_int_equal(got.len, 100);
    s3_mock_plant(p.mock, "some/prefix/l", text, 200);
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_OTHER_RANGE, .method = "GET", .bytes = 100});
    assert_int_equal(pl_object_get_some(p.store, "l", 0, 100, &got, &err), PL_ECORRUPT);
    pl_buf_finish(&got);
    free(text);
    place_close(&p);
}

/* A page of them has more than three bytes for each of a key. */
static void a_page_of_the_longest_keys_of_others_is_read(void **state)
{
    static const char escaped[] = "\xc3\xa4"; /* %C3%A4 */
    char key[PL_S3_KEY_MAX + 1];
    struct listing l;
    struct place p;

    (void)state;
    open_plain(&p);
    for (int i = 0; i < 1000; i++) {
        int n = snprintf(key, sizeof(key), "some/prefix/%04d", i);

        for (; n + 2 <= PL_S3_KEY_MAX; n += 2)
            memcpy(key + n, escaped, sizeof(escaped));
        s3_mock_plant(p.mock, key, "x", 1);
    }
    table_must_put(p.store, "ours", "x");
    assert_string_equal(list(p.store, "", -1, &l), "ours ");
    place_close(&p);
}

static void what_was_removed_and_is_gone_is_known_to_be(void **state)
{
    static const char *const keys[] = {"a", "b"};
    struct place p;
    struct pl_err err;

    (void)state;
    open_plain(&p);
    table_must_put(p.store, "a", "x");
    table_must_put(p.store, "b", "x");
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_KEYS_SLOW_DOWN, .method = "POST", .times = 1});
    assert_ok(pl_object_remove_many(p.store, keys, 2, &err), &err);
    assert_int_equal(s3_mock_objects(p.mock), 0);
    assert_int_equal(s3_mock_requests(p.mock, "DELETE"), 2);
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_500_AFTER, .method = "DELETE", .times = 1});
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_404, .method = "DELETE", .times = 1});
    assert_ok(pl_object_remove(p.store, "a", &err), &err);
    place_close(&p);
}

static void a_refusal_is_final_and_says_why(void **state)
{
    struct place p;
    struct pl_err err;
    unsigned before;

    (void)state;
    open_plain(&p);
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .times = 1});
    before = s3_mock_requests(p.mock, NULL);
    assert_int_equal(table_put(p.store, "k", "x", true, &err), PL_EFORBIDDEN);
    assert_string_equal(err.msg, "put object k: s3: 403 AccessDenied: as told");
    assert_string_equal(err.field, PL_OBJECT_ERR_FIELD);
    assert_true(err.hint[0] != '\0');
    assert_int_equal(s3_mock_requests(p.mock, NULL) - before, 1);
    assert_int_equal(s3_mock_objects(p.mock), 0);
    place_close(&p);
}

static int get_with(const struct pl_object_config *config, struct pl_err *err)
{
    _cleanup_(pl_object_closep) struct pl_object_store *s = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    int r;

    r = pl_object_open(config, &s, err);
    return r < 0 ? r : pl_object_get_all(s, "k", &b, err);
}

static void wrong_keys_buckets_and_certificates_are_told_apart(void **state)
{
    struct s3_mock *mock = s3_mock_start(&(struct s3_mock_config){.tls = true}),
                   *other = s3_mock_start(&(struct s3_mock_config){.tls = true});
    struct pl_object_config good = config_of(mock), c;
    struct pl_err err;

    (void)state;
    good.ca = s3_mock_ca(mock);
    assert_int_equal(get_with(&good, &err), PL_ENOTFOUND);
    c = good;
    c.access_key = "AKIANOBODY";
    assert_int_equal(get_with(&c, &err), PL_EFORBIDDEN);
    c = good;
    c.url = "s3://another-bucket/x";
    assert_int_equal(get_with(&c, &err), PL_EINVAL);
    assert_non_null(strstr(err.msg, "NoSuchBucket"));
    c = good;
    c.ca = NULL; /* the system knows no such certificate */
    assert_int_equal(get_with(&c, &err), PL_EUNAVAILABLE);
    c.ca = s3_mock_ca(other);
    assert_int_equal(get_with(&c, &err), PL_EUNAVAILABLE);
    c.ca = fixture_path(dir, "none.pem");
    assert_int_equal(get_with(&c, &err), PL_ENOTFOUND);
    assert_string_equal(err.field, "ca");
    c = good; /* nobody there */
    c.deadline_ms = 20000;
    c.endpoint = "http://127.0.0.1:1";
    assert_int_equal(get_with(&c, &err), PL_ENET);
    assert_int_equal(s3_mock_violations(mock), 0);
    s3_mock_stop(mock);
    s3_mock_stop(other);
}

static void the_servers_clock_counts(void **state)
{
    static const int64_t ahead_s[] = {3 * 3600, -3 * 3600};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(ahead_s); i++) {
        struct place p;
        struct pl_err err;
        uint64_t size;
        unsigned before;

        open_plain(&p);
        s3_mock_set_clock(p.mock, ahead_s[i]);
        assert_int_equal(pl_object_size(p.store, "none", &size, &err), PL_ENOTFOUND); /* by HEAD, whose answer has no body */
        before = s3_mock_requests(p.mock, NULL);
        table_must_put(p.store, "k", "x");
        assert_int_equal(s3_mock_requests(p.mock, NULL) - before, 1); /* once it is known, it is known */
        place_close(&p);
    }
}

static void the_bucket_is_followed_to_its_region(void **state)
{
    struct place p, elsewhere;
    unsigned before;

    (void)state;
    open_plain(&p);
    s3_mock_set_region(p.mock, "eu-else-2");
    table_must_put(p.store, "k", "x");
    before = s3_mock_requests(p.mock, NULL);
    table_assert_object(p.store, "k", "x");
    assert_int_equal(s3_mock_requests(p.mock, NULL) - before, 1);
    open_plain(&elsewhere);
    s3_mock_set_region(elsewhere.mock, "eu-else-2");
    s3_mock_set_redirect(p.mock, s3_mock_url(elsewhere.mock));
    table_must_put(p.store, "there", "y");
    assert_int_equal(s3_mock_objects(elsewhere.mock), 1);
    s3_mock_set_redirect(elsewhere.mock, s3_mock_url(p.mock)); /* a circle ends */
    assert_int_equal(table_put(p.store, "never", "y", true, NULL), PL_EINVAL);
    s3_mock_set_region(elsewhere.mock, S3_MOCK_REGION);
    s3_mock_set_redirect(elsewhere.mock, NULL);
    place_close(&elsewhere);
    place_close(&p);
}

/* Amazon sends those who name the bucket in the path to a host that has it in its name. */
static void a_redirect_is_followed_to_the_same_object_or_not_at_all(void **state)
{
    const struct s3_mock_config virtual = {.virtual_style = true};
    struct place p, elsewhere;
    struct pl_buf bytes = {0};
    char origin[256];

    (void)state;
    open_plain(&p);
    place_open(&elsewhere, &virtual, &(struct pl_object_config){.style = "virtual"});
    (void)snprintf(origin, sizeof(origin), "http://" S3_MOCK_BUCKET ".%s", strstr(s3_mock_url(elsewhere.mock), "://") + 3);
    s3_mock_set_redirect(p.mock, origin);
    table_must_put(p.store, "k", "x");
    assert_true(s3_mock_object(elsewhere.mock, "some/prefix/k", &bytes));
    assert_int_equal(s3_mock_objects(elsewhere.mock), 1);
    table_assert_object(p.store, "k", "x");
    (void)snprintf(origin, sizeof(origin), "%s/of/others", s3_mock_url(elsewhere.mock));
    s3_mock_set_redirect(p.mock, origin);
    assert_int_equal(table_put(p.store, "l", "y", true, NULL), PL_EINVAL);
    assert_int_equal(s3_mock_objects(elsewhere.mock), 1);
    s3_mock_set_redirect(p.mock, NULL);
    pl_buf_finish(&bytes);
    place_close(&elsewhere);
    place_close(&p);
}

static void connections_are_kept_and_bounded(void **state)
{
    static const struct s3_mock_config mocks[] = {{0}, {.tls = true}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(mocks); i++) {
        struct pl_object_config changed = {0};
        struct place p;

        place_open(&p, &mocks[i], &changed);
        for (int k = 0; k < 20; k++) {
            char key[16];

            (void)snprintf(key, sizeof(key), "k%d", k);
            table_must_put(p.store, key, "some bytes");
            assert_int_equal(table_put(p.store, key, "some others", true, NULL), PL_EEXISTS);
            table_assert_object(p.store, key, "some bytes");
        }
        assert_int_equal(s3_mock_connections(p.mock), 1);
        place_close(&p);
    }
}

struct many {
    struct pl_object_store *store;
    int n;
};

static void *put_many(void *arg)
{
    const struct many *m = arg;
    char key[32];

    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof(key), "t%d/%d", m->n, i);
        table_must_put(m->store, key, "x");
    }
    return NULL;
}

/* However many ask: so many connections, each with libcurl's buffers; the bytes are in callers' memory, within the bounds that they give. */
static void requests_and_connections_are_counted(void **state)
{
    enum { THREADS = 48, CONNECTIONS = 6 };
    const size_t n = 2 * PL_S3_RANGE_BYTES + 1;
    _cleanup_free_ uint8_t *bytes = fixture_alloc(n, 3);
    struct s3_mock *mock = s3_mock_start(&(struct s3_mock_config){0});
    struct pl_object_config c = config_of(mock);
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    pthread_t threads[THREADS];
    struct many many[THREADS];
    struct pl_object_store *s;
    struct pl_err err;

    (void)state;
    c.connections = CONNECTIONS;
    assert_ok(pl_object_open(&c, &s, &err), &err);
    for (int i = 0; i < THREADS; i++) {
        many[i] = (struct many){s, i};
        pthread_create(&threads[i], NULL, put_many, &many[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    s3_mock_plant(mock, "some/prefix/large", bytes, n);
    assert_ok(pl_object_get(s, "large", 0, n, &b, &err), &err);
    assert_memory_equal(b.data, bytes, n);
    b.max = n - 1;
    assert_int_equal(pl_object_get(s, "large", 0, n, &b, &err), PL_ETOOBIG);
    assert_int_equal(pl_object_get_all(s, "large", &b, &err), PL_ETOOBIG);
    assert_in_range(s3_mock_at_once(mock), 2, CONNECTIONS);
    assert_in_range(s3_mock_connections(mock), 2, CONNECTIONS);
    pl_object_close(s);
    s3_mock_stop(mock);
}

static void a_server_that_asks_for_less_gets_less(void **state)
{
    pthread_t threads[16];
    struct many many[16];
    struct place p;

    (void)state;
    open_plain(&p);
    s3_mock_fault(p.mock, (struct s3_fault){.kind = S3_FAULT_503, .times = 20});
    for (int i = 0; i < 16; i++) {
        many[i] = (struct many){p.store, i};
        pthread_create(&threads[i], NULL, put_many, &many[i]);
    }
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(s3_mock_objects(p.mock), 16 * 5);
    place_close(&p);
}

/* --- what a server honours --- */

static void capabilities_are_found_by_trying(void **state)
{
    static const struct {
        struct s3_mock_config mock;
        unsigned caps;
    } cases[] = {
        {{0}, PL_OBJECT_PUT_IF_ABSENT | PL_OBJECT_SIGNED_GET | PL_OBJECT_SIGNED_PUT | PL_OBJECT_SIGNED_PUT_ABSENT},
        {{.tls = true}, PL_OBJECT_PUT_IF_ABSENT | PL_OBJECT_SIGNED_GET | PL_OBJECT_SIGNED_PUT | PL_OBJECT_SIGNED_PUT_ABSENT},
        {{.ignores_conditions = true}, PL_OBJECT_SIGNED_GET | PL_OBJECT_SIGNED_PUT},
        {{.refuses_conditions = true}, PL_OBJECT_SIGNED_GET | PL_OBJECT_SIGNED_PUT},
        {{.ignores_signed_ranges = true}, PL_OBJECT_PUT_IF_ABSENT | PL_OBJECT_SIGNED_PUT | PL_OBJECT_SIGNED_PUT_ABSENT},
        {{.ignores_signed_hashes = true}, PL_OBJECT_PUT_IF_ABSENT | PL_OBJECT_SIGNED_GET},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_object_config changed = {.probe = true, .exclusive = true};
        struct place p;
        struct pl_object_signed q;
        struct listing l;

        place_open(&p, &cases[i].mock, &changed);
        assert_int_equal(pl_object_caps(p.store), cases[i].caps);
        assert_int_equal(s3_mock_objects(p.mock), 0); /* it leaves nothing behind */
        assert_string_equal(list(p.store, "", -1, &l), "");
        if ((cases[i].caps & PL_OBJECT_SIGNED_GET) == 0)
            assert_int_equal(pl_object_sign_get(p.store, "k", 0, 4, 60, &q, NULL), PL_EUNAVAILABLE);
        if ((cases[i].caps & PL_OBJECT_SIGNED_PUT) == 0)
            assert_int_equal(pl_object_sign_put(p.store, "k", 4, S3_MOCK_KEY, 60, &q, NULL), PL_EUNAVAILABLE);
        place_close(&p);
    }
}

static void without_conditions_a_store_must_be_said_to_be_ours(void **state)
{
    static const struct s3_mock_config mocks[] = {{.ignores_conditions = true}, {.refuses_conditions = true}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(mocks); i++) {
        struct s3_mock *mock = s3_mock_start(&mocks[i]);
        struct pl_object_config c = config_of(mock);
        struct pl_object_store *s = NULL;
        struct pl_err err = {0};

        c.probe = true;
        assert_int_equal(pl_object_open(&c, &s, &err), PL_EUNAVAILABLE);
        assert_string_equal(err.field, "store.exclusive");
        assert_non_null(strstr(err.msg, "set store.exclusive to true"));
        s3_mock_stop(mock);
    }
}

/* --- the copy on this disk --- */

static void uploads_that_a_crash_left_go(void **state)
{
    struct utimbuf old = {1, 1};
    char upload[PATH_MAX], young[PATH_MAX];
    struct place p;
    struct pl_err err;

    (void)state;
    open_plain(&p);
    assert_ok(pl_object_tmp_path(p.store, upload, &err), &err);
    assert_ok(pl_object_tmp_path(p.store, young, &err), &err);
    place_close(&p);
    assert_ok(pl_io_write_file(upload, "", 0, 0644, &err), &err);
    assert_ok(pl_io_write_file(young, "", 0, 0644, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "s3-other"), "", 0, 0644, &err), &err);
    assert_int_equal(utime(upload, &old), 0);
    assert_int_equal(utime(fixture_path(dir, "s3-other"), &old), 0);
    open_plain(&p);
    assert_int_equal(access(upload, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(fixture_path(dir, "s3-other"), F_OK), 0);
    place_close(&p);
}

static void copies_are_kept_up_to_a_bound(void **state)
{
    struct s3_mock *mock = s3_mock_start(&(struct s3_mock_config){0});
    struct pl_object_config c = config_of(mock);
    struct pl_object_store *s;
    struct pl_err err;
    unsigned before;
    int fd;

    (void)state;
    c.cache_bytes = 25;
    assert_ok(pl_object_open(&c, &s, &err), &err);
    for (int i = 0; i < 4; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "k%d", i);
        table_must_put(s, key, "0123456789");
        assert_ok(pl_object_local_fd(s, key, &fd, &err), &err);
        close(fd);
    }
    assert_int_equal(fixture_count(fixture_path(dir, "cache")), 2);
    before = s3_mock_requests(mock, NULL);
    assert_ok(pl_object_local_fd(s, "k3", &fd, &err), &err);
    close(fd);
    assert_int_equal(s3_mock_requests(mock, NULL), before);
    pl_object_close(s);
    assert_ok(pl_object_open(&c, &s, &err), &err); /* what lies there is taken over */
    assert_ok(pl_object_local_fd(s, "k2", &fd, &err), &err);
    close(fd);
    assert_int_equal(s3_mock_requests(mock, NULL), before);
    table_must_put(s, "larger", "0123456789012345678901234567890");
    assert_ok(pl_object_local_fd(s, "larger", &fd, &err), &err);
    assert_int_equal(lseek(fd, 0, SEEK_END), 31);
    close(fd);
    assert_int_equal(fixture_count(fixture_path(dir, "cache")), 2);
    pl_object_close(s);
    s3_mock_stop(mock);
}

static void copies_make_way_when_the_disk_is_full(void **state)
{
    struct place p;
    struct pl_err err;
    int fd;

    (void)state;
    open_plain(&p);
    for (int i = 0; i < 3; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "k%d", i);
        table_must_put(p.store, key, "0123456789");
        if (i == 2)
            pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
        assert_ok(pl_object_local_fd(p.store, key, &fd, &err), &err);
        assert_int_equal(lseek(fd, 0, SEEK_END), 10);
        close(fd);
    }
    assert_int_equal(fixture_count(fixture_path(dir, "cache")), 1);
    place_close(&p);
}

/* --- seeds --- */

#define SEED_KEYS 12

/* What is known of each key: what must be there, or what may be. */
struct known {
    char text[32];  /* "" = nothing */
    char maybe[32]; /* an unknown put of it; "" = none */
};

static bool is_trouble(int r)
{
    return r == PL_ENET || r == PL_ETIMEOUT || r == PL_EBUSY;
}

static void settle_unknown(struct pl_object_store *s, const char *key, struct known *k)
{
    int r;

    while (is_trouble(r = table_put(s, key, k->maybe, true, NULL)) || r == PL_EIO || r == PL_EFORBIDDEN)
        ;
    if (r == PL_EEXISTS) /* then another's was there before */
        assert_true(k->text[0] != '\0');
    else
        assert_int_equal(r, 0);
    if (r == 0 && k->text[0] == '\0')
        memcpy(k->text, k->maybe, sizeof(k->text));
    k->maybe[0] = '\0';
}

static void check_known(struct s3_mock *mock, const struct known *known)
{
    for (int i = 0; i < SEED_KEYS; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf b = {0};
        char key[64];
        bool there;

        (void)snprintf(key, sizeof(key), "some/prefix/k/%d", i);
        there = s3_mock_object(mock, key, &b);
        if (there != (known[i].text[0] != '\0') || (there && !pl_streq(pl_buf_str(&b), known[i].text)))
            fail_msg("%s holds \"%s\", known is \"%s\"", key, there ? pl_buf_str(&b) : "", known[i].text);
    }
}

static void one_step(struct pl_object_store *s, struct known *known, uint64_t *random, unsigned step)
{
    const unsigned i = (unsigned)(pl_splitmix64(random) % SEED_KEYS), what = (unsigned)(pl_splitmix64(random) % 8);
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct known *k = &known[i];
    char key[16], text[32];
    struct pl_err err = {0};
    int r;

    (void)snprintf(key, sizeof(key), "k/%u", i);
    (void)snprintf(text, sizeof(text), "step %u", step);
    if (k->maybe[0] != '\0') {
        settle_unknown(s, key, k);
    } else if (what < 4) { /* put if absent */
        r = table_put(s, key, text, true, &err);
        assert_true(r == 0 || r == PL_EEXISTS || r == PL_EIO || r == PL_EFORBIDDEN || is_trouble(r));
        if (r == 0)
            assert_string_equal(k->text, ""); /* never over another's */
        if (r == PL_EEXISTS)
            assert_true(k->text[0] != '\0');
        if (r == 0)
            memcpy(k->text, text, sizeof(text));
        if (is_trouble(r))
            memcpy(k->maybe, text, sizeof(text));
    } else if (what < 7) { /* get */
        r = pl_object_get_all(s, key, &b, &err);
        if (r == 0)
            assert_string_equal(pl_buf_str(&b), k->text);
        else
            assert_true(is_trouble(r) || r == PL_EFORBIDDEN || (r == PL_ENOTFOUND && k->text[0] == '\0'));
    } else { /* a list shows what is known, and nothing else */
        struct listing l = {.stop_after = -1};

        r = pl_object_list(s, key, note_key, &l, &err);
        assert_true(r == 0 || r == PL_EFORBIDDEN || is_trouble(r));
    }
}

static void one_seed(uint64_t seed)
{
    struct known known[SEED_KEYS] = {0};
    struct s3_mock *mock = s3_mock_start(&(struct s3_mock_config){.page_keys = 5, .cruel = true});
    struct pl_object_config c = config_of(mock);
    struct pl_object_store *s;
    uint64_t random = seed;
    struct pl_err err;

    c.stall_ms = 100;
    assert_ok(pl_object_open(&c, &s, &err), &err);
    s3_mock_chaos(mock, seed, 10 + (unsigned)(pl_splitmix64(&random) % 60));
    for (unsigned step = 1; step <= 40; step++) {
        if (pl_splitmix64(&random) % 8 == 0) /* the server's clock jumps */
            s3_mock_set_clock(mock, (int64_t)(pl_splitmix64(&random) % 14400) - 7200);
        one_step(s, known, &random, step);
    }
    s3_mock_chaos(mock, 0, 0); /* what was late comes now */
    for (int i = 0; i < SEED_KEYS; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k/%d", i);
        if (known[i].maybe[0] != '\0')
            settle_unknown(s, key, &known[i]);
    }
    check_known(mock, known);
    pl_object_close(s);
    if (s3_mock_violations(mock) != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, s3_mock_violation(mock));
    s3_mock_stop(mock);
}

static void seed_of_its_own(uint64_t seed)
{
    char *before = dir;

    dir = fixture_dir();
    one_seed(seed);
    fixture_remove(dir);
    dir = before;
}

/* Nothing acknowledged is lost, nothing refused appears, nothing is replaced. */
static void under_any_faults_what_was_acknowledged_stays(void **state)
{
    (void)state;
    run_seeds(40, seed_of_its_own);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_row_of_the_table_holds_in_every_guise),
        TEST(one_failure_is_not_seen),
        TEST(a_lost_answer_is_not_taken_for_success),
        TEST(what_cannot_be_found_out_is_said_to_be_unknown),
        TEST(what_may_come_yet_is_not_said_to_be_refused),
        TEST(what_never_got_there_is_known_not_to_have),
        TEST(what_was_not_asked_for_is_not_taken),
        TEST(a_page_of_the_longest_keys_of_others_is_read),
        TEST(what_was_removed_and_is_gone_is_known_to_be),
        TEST(a_refusal_is_final_and_says_why),
        TEST(wrong_keys_buckets_and_certificates_are_told_apart),
        TEST(the_servers_clock_counts),
        TEST(the_bucket_is_followed_to_its_region),
        TEST(a_redirect_is_followed_to_the_same_object_or_not_at_all),
        TEST(connections_are_kept_and_bounded),
        TEST(requests_and_connections_are_counted),
        TEST(a_server_that_asks_for_less_gets_less),
        TEST(capabilities_are_found_by_trying),
        TEST(without_conditions_a_store_must_be_said_to_be_ours),
        TEST(uploads_that_a_crash_left_go),
        TEST(copies_are_kept_up_to_a_bound),
        TEST(copies_make_way_when_the_disk_is_full),
        TEST(under_any_faults_what_was_acknowledged_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
