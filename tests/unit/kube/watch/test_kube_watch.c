// link: pipelined/kube/watch storage/base
/* List, watch, and all that goes wrong between: which request comes next, when, and what its answer means. No server: bytes and times. */
#include "pipelined/kube/watch/kube_watch.h"
#include "storage/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define PATH "/api/v1/namespaces/n/pods"

struct world {
    struct pl_kube_watch *w;
    struct pl_buf heard;
    int64_t now_ms;
    int refuse; /* the code that the next event is answered with */
};

static int on_event(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err)
{
    struct world *x = self;
    const json_t *m = json_object_get(object, "metadata");
    const char *name = json_string_value(json_object_get(m, "name")), *uid = json_string_value(json_object_get(m, "uid"));
    const char *version = json_string_value(json_object_get(m, "resourceVersion"));
    const int refuse = x->refuse;

    x->refuse = 0;
    if (refuse != 0)
        return pl_err_set(err, refuse, "not now");
    if (e == PL_KUBE_SYNCED)
        return pl_buf_add_str(&x->heard, "SYNCED ", err);
    return pl_buf_addf(&x->heard, err, "%s:%s/%s@%s ", pl_kube_event_name(e), name, uid, version != NULL ? version : "");
}

static void setup_world(struct world *x)
{
    const struct pl_kube_watch_config config = {
        .path = PATH, .labels = "app=x,y", .page = 2, .seed = 7, .event = on_event, .self = x};

    *x = (struct world){.now_ms = 1000000};
    assert_int_equal(pl_kube_watch_create(&config, &x->w, NULL), 0);
}

static void finish_world(struct world *x)
{
    pl_kube_watch_destroy(x->w);
    pl_buf_finish(&x->heard);
}

/* What was heard since the last time is exactly this. */
static void heard(struct world *x, const char *want)
{
    assert_string_equal(pl_buf_str(&x->heard), want);
    pl_buf_clear(&x->heard);
}

/* The next request, due now; it must have `part` in its path. */
static struct pl_kube_watch_request asks(struct world *x, const char *part)
{
    struct pl_kube_watch_request q = {0};

    assert_int_equal(pl_kube_watch_next(x->w, x->now_ms, &q, NULL), 0);
    if (strstr(q.path, part) == NULL)
        fail_msg("it asks for %s, not for %s", q.path, part);
    return q;
}

/* Waits until it is due; returns how long that was. */
static int64_t waits(struct world *x)
{
    struct pl_kube_watch_request q;
    const int64_t ms = pl_kube_watch_next(x->w, x->now_ms, &q, NULL);

    assert_true(ms > 0);
    x->now_ms += ms;
    return ms;
}

static void ends(struct world *x, unsigned code, const char *status_json, int error)
{
    struct pl_kube_status status = {.code = code};
    struct pl_err err = {0};

    if (status_json != NULL)
        pl_kube_status_read(code, status_json, strlen(status_json), 0, &status);
    if (error != 0)
        (void)pl_err_set(&err, error, "the connection broke");
    pl_kube_watch_ended(x->w, x->now_ms, &status, &err);
}

static int says(struct world *x, const char *body)
{
    return pl_kube_watch_bytes(x->w, body, strlen(body), NULL);
}

static void answers(struct world *x, const char *body)
{
    assert_int_equal(says(x, body), 0);
    ends(x, 200, NULL, 0);
}

#define POD(name, uid, version)                                                                                                  \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"uid\":\"" uid "\",\"resourceVersion\":\"" version "\"}}"
#define LIST(version, rest, items)                                                                                               \
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" rest "\"},\"items\":[" items "]}"
#define FRAME(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(version)   FRAME("BOOKMARK", "{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"" version "\"}}")
#define EXPIRED             "{\"kind\":\"Status\",\"message\":\"too old resource version: 1 (400)\",\"reason\":\"Expired\",\"code\":410}"
#define AHEAD                                                                                                                    \
    "{\"kind\":\"Status\",\"message\":\"Too large resource version: 99, current: 5\",\"reason\":\"Timeout\",\"code\":504,"       \
    "\"details\":{\"retryAfterSeconds\":1,\"causes\":[{\"reason\":\"ResourceVersionTooLarge\"}]}}"

/* Listed and at the point of watching from version 10, with the pods a and b. */
static void sync_world(struct world *x)
{
    setup_world(x);
    asks(x, PATH "?labelSelector=app%3Dx%2Cy&limit=2");
    answers(x, LIST("10", "", POD("a", "1", "3") "," POD("b", "2", "4")));
    heard(x, "ADDED:a/1@3 ADDED:b/2@4 SYNCED ");
}

static void a_list_of_several_pages_then_a_watch(void **state)
{
    struct world x;
    struct pl_kube_watch_request q;
    struct pl_kube_watch_view view;

    (void)state;
    setup_world(&x);
    q = asks(&x, "limit=2");
    assert_false(q.watching);
    assert_null(strstr(q.path, "resourceVersion"));
    answers(&x, LIST("10", "tok=en+/", POD("a", "1", "3") "," POD("b", "2", "4")));
    heard(&x, "ADDED:a/1@3 ADDED:b/2@4 ");
    asks(&x, "limit=2&continue=tok%3Den%2B%2F");
    answers(&x, LIST("10", "", POD("c", "3", "5")));
    heard(&x, "ADDED:c/3@5 SYNCED ");
    q = asks(&x, "&watch=1&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=");
    assert_true(q.watching && q.stall_ms >= 1000 * PL_KUBE_WATCH_S + PL_KUBE_PATIENCE_MS);
    assert_int_equal(says(&x, FRAME("MODIFIED", POD("a", "1", "11")) FRAME("DELETED", POD("b", "2", "12")) BOOKMARK("20")
                                  FRAME("ADDED", POD("d", "4", "21"))),
                     0);
    heard(&x, "MODIFIED:a/1@11 DELETED:b/2@12 ADDED:d/4@21 ");
    x.now_ms += 290000;
    ends(&x, 200, NULL, 0);
    asks(&x, "resourceVersion=21");
    pl_kube_watch_look(x.w, &view);
    assert_int_equal(view.objects, 3);
    assert_int_equal(view.lists, 1);
    assert_int_equal(view.watches, 2);
    assert_true(view.synced && view.problem[0] == '\0');
    finish_world(&x);
}

static void too_old_in_band_or_as_status_lists_again_and_makes_up_for_what_was_missed(void **state)
{
    (void)state;
    for (int in_band = 0; in_band < 2; in_band++) {
        struct world x;

        sync_world(&x);
        asks(&x, "watch=1");
        if (in_band) {
            assert_int_equal(says(&x, FRAME("ERROR", EXPIRED)), PL_ERETRY);
            ends(&x, 0, NULL, PL_ERETRY);
        } else {
            ends(&x, 410, EXPIRED, 0);
        }
        asks(&x, "limit=2");
        /* a went, b came again under its name, c is new */
        answers(&x, LIST("500", "", POD("b", "9", "400") "," POD("c", "3", "401")));
        heard(&x, "DELETED:b/2@ ADDED:b/9@400 ADDED:c/3@401 DELETED:a/1@ SYNCED ");
        asks(&x, "resourceVersion=500");
        finish_world(&x);
    }
}

static void what_did_not_change_meanwhile_brings_nothing(void **state)
{
    struct world x;

    (void)state;
    sync_world(&x);
    asks(&x, "watch=1");
    ends(&x, 410, EXPIRED, 0);
    asks(&x, "limit=2");
    answers(&x, LIST("500", "", POD("a", "1", "3") "," POD("b", "2", "44")));
    heard(&x, "MODIFIED:b/2@44 SYNCED ");
    finish_world(&x);
}

static void a_storm_of_410_is_met_with_pauses(void **state)
{
    struct world x;
    int64_t waited = 0;

    (void)state;
    sync_world(&x);
    asks(&x, "watch=1");
    ends(&x, 410, EXPIRED, 0);
    for (int i = 0; i < 12; i++) {
        asks(&x, "limit=2");
        ends(&x, 410, EXPIRED, 0);
        waited += waits(&x);
    }
    assert_true(waited > 60000);
    finish_world(&x);
}

static void a_token_that_expired_begins_the_list_again_and_nothing_is_told_twice(void **state)
{
    struct world x;

    (void)state;
    setup_world(&x);
    asks(&x, "limit=2");
    answers(&x, LIST("10", "t", POD("a", "1", "3") "," POD("b", "2", "4")));
    asks(&x, "continue=t");
    ends(&x, 410, EXPIRED, 0);
    asks(&x, "limit=2");
    answers(&x, LIST("30", "", POD("b", "2", "4")));
    heard(&x, "ADDED:a/1@3 ADDED:b/2@4 DELETED:a/1@ SYNCED ");
    finish_world(&x);
}

/* The stream is cut at each byte of three frames: whatever had come, the rest comes, and nothing twice. */
static void a_watch_cut_at_each_byte_goes_on_from_the_last_version(void **state)
{
    static const char *const frames[] = {FRAME("MODIFIED", POD("a", "1", "11")), FRAME("DELETED", POD("b", "2", "12")),
                                         FRAME("ADDED", POD("c", "3", "13"))};
    static const char *const versions[] = {"=10&", "=11&", "=12&", "=13&"};
    char stream[1024];

    (void)state;
    (void)snprintf(stream, sizeof stream, "%s%s%s", frames[0], frames[1], frames[2]);
    for (size_t cut = 0; cut <= strlen(stream); cut++) {
        for (int broken = 0; broken < 2; broken++) {
            struct world x;
            size_t told = 0;

            sync_world(&x);
            asks(&x, "watch=1");
            assert_int_equal(pl_kube_watch_bytes(x.w, stream, cut, NULL), 0);
            ends(&x, broken ? 0 : 200, NULL, broken ? PL_ENET : 0);
            for (size_t end = 0; told < 3 && cut + 1 >= (end += strlen(frames[told])); told++)
                ; /* a frame is told with its last brace: the newline may be missing */
            if (pl_kube_watch_next(x.w, x.now_ms, &(struct pl_kube_watch_request){0}, NULL) > 0)
                waits(&x);
            else
                ends(&x, 0, NULL, PL_ENET), waits(&x);
            asks(&x, versions[told]);
            for (size_t i = told; i < 3; i++)
                assert_int_equal(says(&x, frames[i]), 0);
            heard(&x, "MODIFIED:a/1@11 DELETED:b/2@12 ADDED:c/3@13 ");
            finish_world(&x);
        }
    }
}

static void a_page_cut_at_each_byte_is_asked_for_again(void **state)
{
    const char *page = LIST("10", "", POD("a", "1", "3") "," POD("b", "2", "4"));

    (void)state;
    for (size_t cut = 0; cut < strlen(page); cut++) {
        struct world x;

        setup_world(&x);
        asks(&x, "limit=2");
        assert_int_equal(pl_kube_watch_bytes(x.w, page, cut, NULL), 0);
        ends(&x, cut % 2 ? 0 : 200, NULL, cut % 2 ? PL_ETIMEOUT : 0);
        waits(&x);
        asks(&x, "limit=2");
        answers(&x, page);
        heard(&x, "ADDED:a/1@3 ADDED:b/2@4 SYNCED ");
        finish_world(&x);
    }
}

static void a_server_set_back_to_the_past_is_listed_anew(void **state)
{
    struct world x;

    (void)state;
    sync_world(&x);
    for (unsigned i = 0; i < PL_KUBE_EMPTY_MAX; i++) {
        asks(&x, "watch=1");
        if (i % 2)
            assert_int_equal(says(&x, FRAME("ERROR", AHEAD)), PL_ERETRY), ends(&x, 200, NULL, 0);
        else
            ends(&x, 504, AHEAD, 0);
        assert_true(waits(&x) >= 1000); /* Retry-After of the details */
    }
    asks(&x, "limit=2");
    answers(&x, LIST("5", "", POD("a", "1", "3")));
    heard(&x, "DELETED:b/2@ SYNCED ");
    asks(&x, "resourceVersion=5");
    finish_world(&x);
}

static void watches_that_say_nothing_lead_to_a_list_but_not_to_a_hot_loop(void **state)
{
    struct world x;

    (void)state;
    sync_world(&x);
    asks(&x, "watch=1");
    ends(&x, 200, NULL, 0); /* the first short one goes on at once */
    asks(&x, "watch=1");
    ends(&x, 200, NULL, 0);
    assert_true(waits(&x) >= PL_KUBE_BACKOFF_MS / 2);
    asks(&x, "watch=1");
    ends(&x, 200, NULL, 0);
    waits(&x);
    asks(&x, "limit=2");
    answers(&x, LIST("10", "", POD("a", "1", "3")));
    heard(&x, "DELETED:b/2@ SYNCED ");
    /* one that lasted long without even a bookmark: at once */
    asks(&x, "watch=1");
    x.now_ms += PL_KUBE_QUIET_MS;
    ends(&x, 200, NULL, 0);
    asks(&x, "limit=2");
    answers(&x, LIST("10", "", ""));
    /* bookmarks are enough */
    asks(&x, "watch=1");
    assert_int_equal(says(&x, BOOKMARK("60")), 0);
    x.now_ms += 300000;
    ends(&x, 200, NULL, 0);
    asks(&x, "resourceVersion=60");
    finish_world(&x);
}

static void pauses_double_up_to_their_bound_and_differ_by_seed(void **state)
{
    struct world x;
    int64_t last = 0;

    (void)state;
    setup_world(&x);
    for (int i = 0; i < 12; i++) {
        const int64_t most = PL_MIN((int64_t)PL_KUBE_BACKOFF_MOST, (int64_t)PL_KUBE_BACKOFF_MS << i);

        asks(&x, "limit=2");
        ends(&x, i % 3 == 2 ? 503 : 0, NULL, i % 3 == 2 ? 0 : PL_ENET);
        last = waits(&x);
        assert_in_range(last, most / 2, most);
    }
    asks(&x, "limit=2");
    answers(&x, LIST("10", "", ""));
    asks(&x, "watch=1");
    ends(&x, 0, NULL, PL_ENET);
    assert_in_range(waits(&x), PL_KUBE_BACKOFF_MS / 2, PL_KUBE_BACKOFF_MS); /* a success ends the row */
    finish_world(&x);
}

static void a_refusal_is_kept_for_people_word_for_word(void **state)
{
    struct world x;
    struct pl_kube_watch_view view;

    (void)state;
    setup_world(&x);
    asks(&x, "limit=2");
    ends(&x, 403,
         "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"pods is forbidden: User \\\"x\\\" cannot "
         "list\"}",
         0);
    pl_kube_watch_look(x.w, &view);
    assert_string_equal(view.problem, "pods is forbidden: User \"x\" cannot list");
    assert_false(view.synced);
    waits(&x);
    asks(&x, "limit=2");
    answers(&x, LIST("10", "", ""));
    pl_kube_watch_look(x.w, &view);
    assert_string_equal(view.problem, "");
    finish_world(&x);
}

static void what_its_owner_does_not_take_is_told_again(void **state)
{
    struct world x;

    (void)state;
    sync_world(&x);
    static const char *const frames[] = {FRAME("ADDED", POD("c", "3", "11")), FRAME("MODIFIED", POD("c", "3", "12")),
                                         FRAME("DELETED", POD("c", "3", "13"))};
    for (size_t i = 0; i < PL_ARRAY_SIZE(frames); i++) {
        asks(&x, "watch=1");
        x.refuse = PL_EBUSY;
        assert_int_equal(says(&x, frames[i]), PL_EBUSY);
        ends(&x, 0, NULL, PL_EBUSY);
        waits(&x);
        asks(&x, "watch=1");
        assert_int_equal(says(&x, frames[i]), 0);
        x.now_ms += 5000;
        ends(&x, 200, NULL, 0);
    }
    heard(&x, "ADDED:c/3@11 MODIFIED:c/3@12 DELETED:c/3@13 ");
    finish_world(&x);
}

static void frames_that_make_no_sense_lead_to_a_list(void **state)
{
    static const char *const bad[] = {FRAME("GROWN", POD("a", "1", "11")), FRAME("ADDED", "{\"metadata\":{}}"),
                                      FRAME("ADDED", "{\"metadata\":{\"name\":\"z\",\"uid\":\"1\"}}"), "not json", "{\"type\":}"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct world x;

        sync_world(&x);
        asks(&x, "watch=1");
        assert_int_equal(says(&x, bad[i]), PL_EPROTO);
        ends(&x, 0, NULL, PL_EPROTO);
        waits(&x);
        asks(&x, "limit=2");
        finish_world(&x);
    }
}

static void a_success_that_brings_a_status_is_a_refusal(void **state)
{
    struct world x;

    (void)state;
    setup_world(&x);
    asks(&x, "limit=2");
    assert_int_equal(says(&x,
                          "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"etcdserver: leader changed\",\"code\":500}"),
                     PL_ERETRY);
    ends(&x, 200, NULL, PL_ERETRY);
    waits(&x);
    asks(&x, "limit=2");
    finish_world(&x);
}

/* A random cluster against a model: after each list and each stream both hold the same. */
struct model {
    struct world x;
    unsigned uid[8]; /* of pods p0…p7; 0 = not there */
    unsigned version[8], now, seen_uid[8];
};

static int on_model(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err)
{
    struct model *m = self;
    const json_t *meta = json_object_get(object, "metadata");
    unsigned i, uid;

    (void)err;
    if (e == PL_KUBE_SYNCED)
        return 0;
    i = (unsigned)atoi(json_string_value(json_object_get(meta, "name")) + 1);
    uid = (unsigned)atoi(json_string_value(json_object_get(meta, "uid")));
    assert_true(i < 8);
    if (e == PL_KUBE_ADDED)
        assert_int_equal(m->seen_uid[i], 0);
    else
        assert_int_equal(m->seen_uid[i], uid);
    m->seen_uid[i] = e == PL_KUBE_DELETED ? 0 : uid;
    return 0;
}

static void add_pod(const struct model *m, unsigned i, struct pl_buf *out)
{
    assert_int_equal(pl_buf_addf(out, NULL, "{\"metadata\":{\"name\":\"p%u\",\"uid\":\"%u\",\"resourceVersion\":\"%u\"}}", i,
                                 m->uid[i], m->version[i]),
                     0);
}

/* Something happens; told in `frames` unless it is NULL. */
static void change(struct model *m, uint64_t random, struct pl_buf *frames)
{
    const unsigned i = (unsigned)(random % 8);
    const char *type = m->uid[i] == 0 ? "ADDED" : (random >> 8) % 3 == 0 ? "DELETED" : "MODIFIED";

    m->version[i] = ++m->now;
    if (*type == 'A')
        m->uid[i] = m->now;
    if (frames != NULL) {
        assert_int_equal(pl_buf_addf(frames, NULL, "{\"type\":\"%s\",\"object\":", type), 0);
        add_pod(m, i, frames);
        assert_int_equal(pl_buf_add_str(frames, "}\n", NULL), 0);
    }
    if (*type == 'D')
        m->uid[i] = 0;
}

static void answer_model(struct model *m, const struct pl_kube_watch_request *q, uint64_t *random)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const uint64_t luck = pl_splitmix64(random) % 8;
    bool any = false;
    size_t n;

    if (q->watching && luck == 0) { /* all that happens is missed */
        for (int k = 0; k < 5; k++)
            change(m, pl_splitmix64(random), NULL);
        ends(&m->x, 410, EXPIRED, 0);
        return;
    }
    if (q->watching) {
        for (int k = 0; k < 5; k++)
            change(m, pl_splitmix64(random), &text);
    } else {
        assert_int_equal(pl_buf_addf(&text, NULL, "{\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[", m->now), 0);
        for (unsigned i = 0; i < 8; i++)
            if (m->uid[i] != 0) {
                assert_int_equal(pl_buf_add_str(&text, any ? "," : "", NULL), 0);
                add_pod(m, i, &text);
                any = true;
            }
        assert_int_equal(pl_buf_add_str(&text, "]}", NULL), 0);
    }
    n = q->watching || luck > 1 ? text.len : (size_t)(pl_splitmix64(random) % text.len); /* sometimes a page is cut */
    assert_int_equal(pl_kube_watch_bytes(m->x.w, text.data, n, NULL), 0);
    m->x.now_ms += q->watching ? 2000 : 10;
    ends(&m->x, 200, NULL, 0);
    if (q->watching || n == text.len)
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(m->seen_uid[i], m->uid[i]);
}

static void any_history_ends_in_the_same_state(void **state)
{
    uint64_t random = 42;

    (void)state;
    for (int run = 0; run < 50; run++) {
        struct model m = {.x.now_ms = 1};
        const struct pl_kube_watch_config config = {.path = PATH, .seed = random, .event = on_model, .self = &m};

        assert_int_equal(pl_kube_watch_create(&config, &m.x.w, NULL), 0);
        for (int step = 0; step < 60; step++) {
            struct pl_kube_watch_request q;
            const int64_t ms = pl_kube_watch_next(m.x.w, m.x.now_ms, &q, NULL);

            m.x.now_ms += ms;
            if (ms == 0)
                answer_model(&m, &q, &random);
        }
        pl_kube_watch_destroy(m.x.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_several_pages_then_a_watch),
        cmocka_unit_test(too_old_in_band_or_as_status_lists_again_and_makes_up_for_what_was_missed),
        cmocka_unit_test(what_did_not_change_meanwhile_brings_nothing),
        cmocka_unit_test(a_storm_of_410_is_met_with_pauses),
        cmocka_unit_test(a_token_that_expired_begins_the_list_again_and_nothing_is_told_twice),
        cmocka_unit_test(a_watch_cut_at_each_byte_goes_on_from_the_last_version),
        cmocka_unit_test(a_page_cut_at_each_byte_is_asked_for_again),
        cmocka_unit_test(a_server_set_back_to_the_past_is_listed_anew),
        cmocka_unit_test(watches_that_say_nothing_lead_to_a_list_but_not_to_a_hot_loop),
        cmocka_unit_test(pauses_double_up_to_their_bound_and_differ_by_seed),
        cmocka_unit_test(a_refusal_is_kept_for_people_word_for_word),
        cmocka_unit_test(what_its_owner_does_not_take_is_told_again),
        cmocka_unit_test(frames_that_make_no_sense_lead_to_a_list),
        cmocka_unit_test(a_success_that_brings_a_status_is_a_refusal),
        cmocka_unit_test(any_history_ends_in_the_same_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
