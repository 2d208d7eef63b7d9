// link: pipelined/kube/client storage/base
/* kube_event: what the Events about one object say, that repetitions are counted, and that there are never many. */
#include "pipelined/kube/client/kube_event.h"
#include "storage/base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define AT_US   INT64_C(1795600000000000) /* 2026-11-25T09:46:40Z */
#define FROM_MS 1000000

static const struct pl_kube_event_object about = {"v1", "ConfigMap", "stages", "pipelined", "0a-1b"};

static int setup(void **state)
{
    return pl_kube_events_create((struct pl_kube_events **)state, NULL);
}

static int teardown(void **state)
{
    pl_kube_events_destroy(*state);
    return 0;
}

static void note(struct pl_kube_events *e, const char *message, int64_t after_ms)
{
    pl_kube_events_note(e, "WorkerLost", true, message, FROM_MS + after_ms, AT_US + after_ms * 1000);
}

/* Sends the next event and writes "MESSAGE ×COUNT" to `out`, "" if there is none. */
static const char *next(struct pl_kube_events *e, int64_t after_ms, char out[1200])
{
    json_t *event = pl_kube_events_next(e, &about, FROM_MS + after_ms);

    *out = '\0';
    if (event == NULL)
        return out;
    (void)snprintf(out, 1200, "%s x%d", json_string_value(json_object_get(event, "message")),
                   (int)json_integer_value(json_object_get(event, "count")));
    json_decref(event);
    pl_kube_events_sent(e, PL_KUBE_EVENT_WRITTEN, FROM_MS + after_ms);
    return out;
}

static void an_event_names_its_object_and_says_what_happened(void **state)
{
    json_t *event, *want;

    note(*state, "pod p on a was lost: evicted", 0);
    event = pl_kube_events_next(*state, &about, FROM_MS);
    want = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:i, s:s, s:s, s:{s:s}, s:s, s:s}",
                     "apiVersion", "v1", "kind", "Event", "metadata", "name", "pipelined.00066117b14980000000", "namespace",
                     "stages", "involvedObject", "apiVersion", "v1", "kind", "ConfigMap", "namespace", "stages", "name",
                     "pipelined", "uid", "0a-1b", "reason", "WorkerLost", "message", "pod p on a was lost: evicted", "type",
                     "Warning", "count", 1, "firstTimestamp", "2026-11-25T09:46:40Z", "lastTimestamp", "2026-11-25T09:46:40Z",
                     "source", "component", "pipelined", "reportingComponent", "pipelined", "reportingInstance", "pipelined");
    json_object_set(json_object_get(want, "metadata"), "name", json_object_get(json_object_get(event, "metadata"), "name"));
    if (!json_equal(event, want)) {
        char *text = json_dumps(event, JSON_INDENT(2));

        fail_msg("%s", text);
        free(text);
    }
    assert_int_equal(strncmp(json_string_value(json_object_get(json_object_get(event, "metadata"), "name")), "pipelined.", 10),
                     0);
    json_decref(event);
    json_decref(want);
}

/* At `note_ms` an event with this letter as its message is noted; at `at_ms` that is what is sent. */
struct row {
    const char *what;
    struct {
        int64_t ms;
        const char *letters; /* noted then */
    } noted[4];
    struct {
        int64_t ms;
        const char *text; /* sent then; "" = nothing */
    } sent[12];
};

static void repetitions_are_counted_and_there_are_never_many(void **state)
{
    static const struct row rows[] = {
        {"each once", {{0, "ab"}}, {{0, "a x1"}, {0, "b x1"}, {0, ""}, {120000, ""}}},
        {"those of a minute together",
         {{0, "a"}, {10, "aaa"}},
         {{5, "a x1"}, {20, ""}, {60004, ""}, {60005, "a x3"}, {60006, ""}}},
        {"before the first is sent, too", {{0, "aaaa"}}, {{1, "a x4"}, {2, ""}}},
        {"a minute later it is another one", {{0, "a"}, {60001, "a"}}, {{0, "a x1"}, {60001, "a x1"}, {60002, ""}}},
        {"five at once, then one per second",
         {{0, "abcdefgh"}},
         {{0, "a x1"},
          {0, "b x1"},
          {0, "c x1"},
          {0, "d x1"},
          {0, "e x1"},
          {0, ""},
          {999, ""},
          {1000, "f x1"},
          {1000, ""},
          {2000, "g x1"},
          {3000, "h x1"},
          {3000, ""}}},
        {"after a rest five at once again",
         {{0, "abcdefg"}, {20000, "hijklmn"}},
         {{0, "a x1"},
          {0, "b x1"},
          {0, "c x1"},
          {0, "d x1"},
          {0, "e x1"},
          {20000, "f x1"},
          {20000, "g x1"},
          {20000, "h x1"},
          {20000, "i x1"},
          {20000, "j x1"},
          {20000, ""}}},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        char out[1200];
        size_t noted = 0;

        pl_kube_events_destroy(*state);
        assert_int_equal(setup(state), 0);
        for (size_t k = 0; k < PL_ARRAY_SIZE(rows[i].sent) && rows[i].sent[k].text != NULL; k++) {
            for (; noted < PL_ARRAY_SIZE(rows[i].noted) && rows[i].noted[noted].letters != NULL &&
                   rows[i].noted[noted].ms <= rows[i].sent[k].ms;
                 noted++)
                for (const char *l = rows[i].noted[noted].letters; *l != '\0'; l++)
                    note(*state, (const char[]){*l, '\0'}, rows[i].noted[noted].ms);
            if (strcmp(next(*state, rows[i].sent[k].ms, out), rows[i].sent[k].text) != 0)
                fail_msg("%s: at %d ms: \"%s\", not \"%s\"", rows[i].what, (int)rows[i].sent[k].ms, out, rows[i].sent[k].text);
        }
    }
}

/* The next one that is written says how many there were. */
static void what_is_too_many_is_dropped_and_counted(void **state)
{
    char out[1200], text[16];

    for (unsigned i = 0; i < PL_KUBE_EVENTS_KEPT + 7; i++) {
        (void)snprintf(text, sizeof text, "e%u", i);
        note(*state, text, 0);
    }
    assert_string_equal(next(*state, 0, out), "e0 (7 other events were not written) x1");
    assert_string_equal(next(*state, 0, out), "e1 x1");
    for (unsigned i = 2; i < PL_KUBE_EVENTS_KEPT; i++)
        assert_true(*next(*state, 1000 * (int64_t)i, out));
    assert_string_equal(next(*state, 50000, out), "");
    note(*state, "late", 50000); /* takes the place of one that was written */
    assert_string_equal(next(*state, 50000, out), "late x1");
}

static void one_that_cannot_be_written_is_sent_three_times(void **state)
{
    int64_t at_ms = 0;
    char out[1200];

    note(*state, "a", 0);
    for (unsigned i = 0; i < PL_KUBE_EVENT_TRIES; i++) {
        json_t *event = pl_kube_events_next(*state, &about, FROM_MS + at_ms);

        assert_non_null(event);
        assert_null(pl_kube_events_next(*state, &about, FROM_MS + at_ms)); /* one at a time */
        json_decref(event);
        pl_kube_events_sent(*state, PL_KUBE_EVENT_AGAIN, FROM_MS + at_ms);
        assert_null(pl_kube_events_next(*state, &about, FROM_MS + at_ms));
        at_ms += PL_KUBE_EVENT_PAUSE_MS;
    }
    assert_string_equal(next(*state, at_ms + PL_KUBE_EVENT_WINDOW_MS, out), "");
    note(*state, "b", at_ms);
    assert_string_equal(next(*state, at_ms, out), "b (1 other events were not written) x1");
}

/* Sends the next event, and `sent` became of it. */
static void send(struct pl_kube_events *e, enum pl_kube_event_sent sent, int64_t after_ms)
{
    json_t *event = pl_kube_events_next(e, &about, FROM_MS + after_ms);

    assert_non_null(event);
    json_decref(event);
    pl_kube_events_sent(e, sent, FROM_MS + after_ms);
}

/* What was dropped before it, too, of which its message should have told. */
static void what_is_refused_for_good_is_dropped_as_often_as_it_happened(void **state)
{
    char out[1200], text[16];

    for (unsigned i = 0; i < PL_KUBE_EVENTS_KEPT + 7; i++) {
        (void)snprintf(text, sizeof text, "e%u", i);
        note(*state, text, 0);
    }
    note(*state, "e0", 0);
    send(*state, PL_KUBE_EVENT_REFUSED, 0);
    assert_string_equal(next(*state, 0, out), "e1 (9 other events were not written) x1");
    assert_string_equal(next(*state, 0, out), "e2 x1");
}

/* Others are written between its tries. */
static void what_was_dropped_is_told_of_once(void **state)
{
    char out[1200], text[16];

    for (unsigned i = 0; i < PL_KUBE_EVENTS_KEPT + 7; i++) {
        (void)snprintf(text, sizeof text, "e%u", i);
        note(*state, text, 0);
    }
    send(*state, PL_KUBE_EVENT_AGAIN, 0);
    assert_string_equal(next(*state, 0, out), "e1 x1");
    assert_string_equal(next(*state, PL_KUBE_EVENT_PAUSE_MS, out), "e0 (7 other events were not written) x1");
    assert_string_equal(next(*state, PL_KUBE_EVENT_PAUSE_MS, out), "e2 x1");
}

/* Returns the name of the next event, which is to be sent once more; the caller's. */
static char *try_once(struct pl_kube_events *e, int64_t after_ms)
{
    json_t *event = pl_kube_events_next(e, &about, FROM_MS + after_ms);
    char *name;

    assert_non_null(event);
    assert_int_equal(json_integer_value(json_object_get(event, "count")), 1);
    name = strdup(json_string_value(json_object_get(json_object_get(event, "metadata"), "name")));
    json_decref(event);
    pl_kube_events_sent(e, PL_KUBE_EVENT_AGAIN, FROM_MS + after_ms);
    return name;
}

/* The answer to the first try may be lost: the second one must not make another event, nor say what the first did not. */
static void a_further_try_is_the_same_event(void **state)
{
    char *first, *other, *second, out[1200];

    note(*state, "a", 0);
    first = try_once(*state, 0);
    note(*state, "a", 1);
    note(*state, "b", 1);
    other = try_once(*state, 2);
    second = try_once(*state, PL_KUBE_EVENT_PAUSE_MS);
    assert_string_equal(first, second);
    assert_string_not_equal(first, other);
    assert_string_equal(next(*state, 2 * PL_KUBE_EVENT_PAUSE_MS, out), "a x1");
    assert_string_equal(next(*state, 2 * PL_KUBE_EVENT_PAUSE_MS, out), "b x1");
    assert_string_equal(next(*state, 2 * PL_KUBE_EVENT_PAUSE_MS + PL_KUBE_EVENT_WINDOW_MS, out), "a x1"); /* the other time */
    free(first);
    free(other);
    free(second);
}

/* The words of a program may be in any encoding, and a long message is cut, perhaps within a character. */
static void a_message_that_is_not_utf8_is_written_all_the_same(void **state)
{
    char out[1200], text[PL_KUBE_EVENT_MESSAGE_BYTES + 8], cut[1200];
    const size_t max = PL_KUBE_EVENT_MESSAGE_BYTES - 1;

    memset(text, 'a', sizeof text);
    memcpy(text + max - 1, "\xc3\xa9", 3); /* its second byte is cut off */
    (void)snprintf(cut, sizeof cut, "%.*s x1", (int)max - 1, text);
    note(*state, "exit: \xe9t\xe9.", 0);
    note(*state, text, 1);
    note(*state, "b", 2);
    assert_string_equal(next(*state, 2, out), "exit: ?t?. x1");
    assert_string_equal(next(*state, 2, out), cut);
    assert_string_equal(next(*state, 2, out), "b x1");
}

static void one_that_cannot_be_built_is_in_nobodys_way(void **state)
{
    static const struct pl_kube_event_object not_utf8 = {"v1", "ConfigMap", "stages", "pipelined", "\xe9"};
    char out[1200];

    note(*state, "a", 0);
    note(*state, "a", 1);
    assert_null(pl_kube_events_next(*state, &not_utf8, FROM_MS + 1));
    note(*state, "b", 2);
    assert_string_equal(next(*state, 2, out), "b (2 other events were not written) x1");
    assert_string_equal(next(*state, 2, out), "");
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(an_event_names_its_object_and_says_what_happened),
        ROW(repetitions_are_counted_and_there_are_never_many),
        ROW(what_is_too_many_is_dropped_and_counted),
        ROW(one_that_cannot_be_written_is_sent_three_times),
        ROW(what_is_refused_for_good_is_dropped_as_often_as_it_happened),
        ROW(what_was_dropped_is_told_of_once),
        ROW(a_further_try_is_the_same_event),
        ROW(a_message_that_is_not_utf8_is_written_all_the_same),
        ROW(one_that_cannot_be_built_is_in_nobodys_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
