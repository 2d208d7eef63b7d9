// link: pipelined/kube/client
/* What a refusal means, and how fast is too fast. */
#include "pipelined/kube/client/kube_rate_limit.h"
#include "pipelined/kube/client/kube_response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define STATUS(more) "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\"" more "}"

static void each_refusal_has_its_verdict(void **state)
{
    static const struct {
        unsigned code;
        const char *body;
        enum pl_kube_verdict want;
        int error;
    } rows[] = {
        {200, "{}", PL_KUBE_OK, 0},
        {201, "", PL_KUBE_OK, 0},
        {400, STATUS(",\"reason\":\"BadRequest\",\"message\":\"no\""), PL_KUBE_REFUSED, PL_EINVAL},
        {401, STATUS(",\"reason\":\"Unauthorized\""), PL_KUBE_LOGIN, PL_EAUTH},
        {403, STATUS(",\"message\":\"pods is forbidden: User \\\"x\\\" cannot create resource\""), PL_KUBE_DENIED, PL_EFORBIDDEN},
        {403, STATUS(",\"message\":\"pods \\\"a\\\" is forbidden: violates PodSecurity\""), PL_KUBE_REFUSED, PL_EFORBIDDEN},
        {403,
         STATUS(
             ",\"message\":\"pods \\\"a\\\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5\""),
         PL_KUBE_PARK, PL_ELIMIT},
        {403, STATUS(",\"message\":\"pods \\\"a\\\" is forbidden: status unknown for quota: q, resources: pods\""), PL_KUBE_PARK,
         PL_ELIMIT},
        {403, STATUS(",\"message\":\"pods \\\"a\\\" is forbidden: failed quota: q: must specify limits.cpu for: main\""),
         PL_KUBE_PARK, PL_ELIMIT},
        {403,
         STATUS(",\"message\":\"pods \\\"a\\\" is forbidden: error looking up service account n/default: serviceaccount "
                "\\\"default\\\" not found\""),
         PL_KUBE_PARK, PL_ELIMIT},
        {403, STATUS(",\"message\":\"unable to create new content in namespace n because it is being terminated\""),
         PL_KUBE_ENDING, PL_EFORBIDDEN},
        {403, STATUS(",\"details\":{\"causes\":[{\"reason\":\"NamespaceTerminating\"}]}"), PL_KUBE_ENDING, PL_EFORBIDDEN},
        {404, "404 page not found\n", PL_KUBE_GONE, PL_ENOTFOUND},
        {405, "", PL_KUBE_REFUSED, PL_EINVAL},
        {408, "", PL_KUBE_AGAIN, PL_ENET},
        {409, STATUS(",\"reason\":\"AlreadyExists\",\"message\":\"pods \\\"a\\\" already exists\""), PL_KUBE_EXISTS, PL_EEXISTS},
        {409, STATUS(",\"reason\":\"Conflict\""), PL_KUBE_CONFLICT, PL_ECONFLICT},
        {410, STATUS(",\"reason\":\"Expired\""), PL_KUBE_EXPIRED, PL_ERETRY},
        {413, STATUS(",\"reason\":\"RequestEntityTooLarge\""), PL_KUBE_REFUSED, PL_ETOOBIG},
        {422, STATUS(",\"reason\":\"Invalid\""), PL_KUBE_REFUSED, PL_EINVAL},
        {429, STATUS(",\"reason\":\"TooManyRequests\""), PL_KUBE_AGAIN, PL_EBUSY},
        {500, STATUS(",\"message\":\"etcdserver: leader changed\""), PL_KUBE_AGAIN, PL_ENET},
        {500, STATUS(",\"message\":\"etcdserver: request timed out\""), PL_KUBE_AGAIN, PL_ENET},
        {500, STATUS(",\"reason\":\"ServerTimeout\""), PL_KUBE_AGAIN, PL_ENET},
        {500, STATUS(",\"message\":\"etcdserver: request is too large\""), PL_KUBE_REFUSED, PL_ETOOBIG},
        {500, STATUS(",\"message\":\"rpc error: trying to send message larger than max (3 vs. 2)\""), PL_KUBE_REFUSED,
         PL_ETOOBIG},
        {502, "<html>bad gateway</html>", PL_KUBE_AGAIN, PL_ENET},
        {503, "", PL_KUBE_AGAIN, PL_ENET},
        {504, STATUS(",\"reason\":\"Timeout\""), PL_KUBE_AGAIN, PL_ENET},
        {504, STATUS(",\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\"}]}"), PL_KUBE_AHEAD, PL_ERETRY},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_kube_status s;
        struct pl_err err = {0};
        enum pl_kube_verdict got;
        int r;

        pl_kube_status_read(rows[i].code, rows[i].body, strlen(rows[i].body), 0, &s);
        got = pl_kube_status_verdict(&s);
        r = pl_kube_status_error(&s, &err);
        if (got != rows[i].want || r != rows[i].error || err.code != r)
            fail_msg("%u %s: %s %d, not %s %d", rows[i].code, rows[i].body, pl_kube_verdict_name(got), r,
                     pl_kube_verdict_name(rows[i].want), rows[i].error);
    }
}

static void the_servers_words_are_kept(void **state)
{
    const char *body = STATUS(
        ",\"reason\":\"Invalid\",\"message\":\"Pod \\\"a\\\" is invalid: spec.x: must be an integer\",\"code\":422,\"details\":"
        "{\"retryAfterSeconds\":3,\"causes\":[{\"reason\":\"FieldValueInvalid\",\"field\":\"spec.x\"},{\"field\":\"y\"}]}");
    struct pl_kube_status s;
    struct pl_err err = {0};

    (void)state;
    pl_kube_status_read(422, body, strlen(body), 0, &s);
    assert_string_equal(s.message, "Pod \"a\" is invalid: spec.x: must be an integer");
    assert_string_equal(s.reason, "Invalid");
    assert_string_equal(s.cause, "FieldValueInvalid");
    assert_int_equal(s.retry_after_s, 3);
    assert_int_equal(pl_kube_status_error(&s, &err), PL_EINVAL);
    assert_string_equal(err.field, "spec.x");
    pl_kube_status_read(429, body, strlen(body), 7, &s); /* the header knows better */
    assert_int_equal(s.retry_after_s, 7);
    pl_kube_status_read(502, "\n <html>\nrest", 13, 0, &s);
    assert_string_equal(s.message, "<html>");
    pl_kube_status_read(503, "", 0, 0, &s);
    assert_string_equal(s.message, "the API server answers with status 503");
    assert_int_equal(pl_kube_status_error(&(struct pl_kube_status){.code = 200}, &err), 0);
}

/* Takes what may be taken in `ms`, answered with `status` after `took_ms`; returns how many. */
static unsigned run(struct pl_kube_rate *r, int64_t *now_ms, int64_t ms, unsigned status, int64_t took_ms)
{
    const int64_t end = *now_ms + ms;
    unsigned n = 0;

    while (*now_ms < end) {
        const int64_t wait = pl_kube_rate_take(r, *now_ms);

        if (wait == 0) {
            n++;
            pl_kube_rate_answer(r, *now_ms, status, 0, took_ms);
        }
        *now_ms += wait;
    }
    return n;
}

static void the_rate_climbs_while_the_server_keeps_up(void **state)
{
    struct pl_kube_rate r;
    int64_t now_ms = 5000;

    (void)state;
    pl_kube_rate_init(&r, now_ms);
    assert_in_range(run(&r, &now_ms, 1000, 201, 5), 400, 2500);
    assert_true(run(&r, &now_ms, 4000, 201, 5) > 4000);
    assert_true(r.rate > 1500 && r.rate <= PL_KUBE_RATE_MOST);
}

static void it_is_halved_once_a_second_and_climbs_slowly_after(void **state)
{
    static const struct {
        const char *what;
        unsigned status;
        int64_t took_ms;
        bool halves;
    } rows[] = {{"throttled", 429, 5, true}, {"failing", 500, 5, true},  {"gone", 0, 5, true},
                {"slow", 201, 2500, true},   {"refused", 422, 5, false}, {"there already", 409, 5, false}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_kube_rate r;
        int64_t now_ms = 0;

        pl_kube_rate_init(&r, now_ms);
        r.rate = 800;
        for (int k = 0; k < 20; k++) /* what was under way */
            pl_kube_rate_answer(&r, now_ms, rows[i].status, 0, rows[i].took_ms);
        if (rows[i].halves ? r.rate != 400 : r.rate < 800)
            fail_msg("%s: %f a second", rows[i].what, r.rate);
        now_ms += PL_KUBE_CUT_MS;
        if (rows[i].halves) {
            const double before = r.rate;

            run(&r, &now_ms, 1000, 201, 5);
            assert_true(r.rate > before && r.rate < before + 2 * PL_KUBE_RATE_STEP);
        }
    }
}

static void a_minute_of_429_costs_few_requests_and_nothing_for_ever(void **state)
{
    struct pl_kube_rate r;
    int64_t now_ms = 0;

    (void)state;
    pl_kube_rate_init(&r, now_ms);
    run(&r, &now_ms, 5000, 201, 5);
    assert_true(run(&r, &now_ms, 60000, 429, 5) < 6000);
    assert_true(r.rate >= PL_KUBE_RATE_LEAST && r.rate < 2);
    run(&r, &now_ms, 60000, 201, 5);
    assert_true(r.rate > 100);
}

static void retry_after_stops_everything_so_long(void **state)
{
    struct pl_kube_rate r;

    (void)state;
    pl_kube_rate_init(&r, 0);
    pl_kube_rate_answer(&r, 0, 429, 3, 5);
    assert_int_equal(pl_kube_rate_take(&r, 1000), 2000);
    assert_int_equal(pl_kube_rate_take(&r, 3000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_has_its_verdict),
        cmocka_unit_test(the_servers_words_are_kept),
        cmocka_unit_test(the_rate_climbs_while_the_server_keeps_up),
        cmocka_unit_test(it_is_halved_once_a_second_and_climbs_slowly_after),
        cmocka_unit_test(a_minute_of_429_costs_few_requests_and_nothing_for_ever),
        cmocka_unit_test(retry_after_stops_everything_so_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
