// link: pipelined/net/http_client pipelined/net/remote storage/base storage/system
/* A sink that outlives lost connections: how often it tries, and when it gives up. The sink below is played. */
#include "pipelined/net/http_client/http_client.h"
#include "pipelined/net/remote/retrying_sink.h"
#include "tests/support/fixtures/store_fixture.h"

static struct {
    int fail_with;     /* what a call gives */
    unsigned failures; /* so many times, then 0 */
    unsigned calls, told;
} below;

static int answer(struct pl_err *err)
{
    below.calls++;
    if (!below.failures)
        return 0;
    below.failures--;
    return pl_err_set(err, below.fail_with, "lost");
}

static int below_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    (void)self;
    (void)ids;
    (void)n;
    ret_bitmap[0] = 5;
    return answer(err);
}

static int below_put(void *self, const struct pl_hash *id, const void *bytes, size_t n, struct pl_err *err)
{
    (void)self;
    (void)id;
    (void)bytes;
    (void)n;
    return answer(err);
}

static void tell(void *arg, const struct pl_err *err)
{
    (void)arg;
    assert_string_equal(err->msg, "lost");
    below.told++;
}

static struct pl_retrying_sink patient(struct pl_http_client *client, int code, unsigned failures)
{
    struct pl_retrying_sink p = {.client = client,
                                 .project = "default",
                                 .below = {.has = below_has, .put_pack = below_put},
                                 .patience_ms = 60000,
                                 .lost = tell};

    memset(&below, 0, sizeof below);
    below.fail_with = code;
    below.failures = failures;
    pl_retrying_sink_done(&p);
    return p;
}

static struct pl_http_client *nobody(void)
{
    struct pl_http_client *c;
    struct pl_err err = {0};

    assert_ok(pl_http_client_create("http://127.0.0.1:1", NULL, &c, &err), &err);
    return c;
}

static void a_call_is_made_again_until_it_comes_through(void **state)
{
    static const int codes[] = {PL_ENET, PL_ETIMEOUT, PL_ESTOPPING, PL_EBUSY};
    struct pl_http_client *client = nobody();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(codes); i++) {
        struct pl_retrying_sink p = patient(client, codes[i], 2);
        struct pl_pack_sink sink = pl_retrying_sink(&p);
        struct pl_hash id = {{1}};
        struct pl_err err = {0};
        uint8_t bitmap = 0;

        assert_ok(sink.has(sink.self, &id, 1, &bitmap, &err), &err);
        assert_int_equal(bitmap, 5);
        assert_int_equal(below.calls, 3);
        assert_int_equal(below.told, 1); /* once, not for each */
        below.failures = 1;
        assert_ok(sink.put_pack(sink.self, &id, "x", 1, &err), &err);
        assert_int_equal(below.calls, 5);
        assert_int_equal(below.told, 2);
    }
    pl_http_client_destroy(client);
}

static void what_will_not_come_back_is_told_at_once(void **state)
{
    static const int codes[] = {PL_ENOSPC, PL_EAUTH, PL_ECORRUPT, PL_EPROTO, PL_EINVAL};
    struct pl_http_client *client = nobody();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(codes); i++) {
        struct pl_retrying_sink p = patient(client, codes[i], 1000);
        struct pl_pack_sink sink = pl_retrying_sink(&p);
        struct pl_hash id = {{1}};
        struct pl_err err = {0};

        assert_int_equal(sink.put_pack(sink.self, &id, "x", 1, &err), codes[i]);
        assert_string_equal(err.msg, "lost");
        assert_int_equal(below.calls, 1);
    }
    pl_http_client_destroy(client);
}

static void patience_ends(void **state)
{
    struct pl_http_client *client = nobody();
    struct pl_retrying_sink p = patient(client, PL_ENET, 1000);
    struct pl_pack_sink sink = pl_retrying_sink(&p);
    struct pl_hash id = {{1}};
    struct pl_err err = {0};

    (void)state;
    p.patience_ms = 250;
    pl_retrying_sink_done(&p); /* it counts from here */
    assert_int_equal(sink.put_pack(sink.self, &id, "x", 1, &err), PL_ENET);
    assert_in_range(below.calls, 2, 4);
    pl_http_client_destroy(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_is_made_again_until_it_comes_through),
                                       cmocka_unit_test(what_will_not_come_back_is_told_at_once),
                                       cmocka_unit_test(patience_ends)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
