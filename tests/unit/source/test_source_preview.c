// link: pipelined/source
/* The text of a preview: what changes of pipelines add up to. */
#include "pipelined/source/source_preview.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define STAGE(change) "{\"stage\":\"s\",\"change\":\"" change "\"}"
#define AGAIN(n, gpu_s, at_most)                                                                                                 \
    "{\"stage\":\"s\",\"change\":\"changed\",\"again\":{\"datums\":" n ",\"of\":999,\"gpu_s\":" gpu_s at_most "}}"
#define ONE(change, stages) "{\"pipeline\":\"p\",\"path\":\"p.json\",\"change\":\"" change "\",\"stages\":[" stages "]}"

static void changes_add_up_to_a_text(void **state)
{
    static const struct {
        const char *changes;
        size_t pruned;
        enum pl_source_prune prune;
        const char *text;
    } rows[] = {
        {"[]", 0, PL_PRUNE_OFF, "would change nothing"},
        {"[" ONE("unchanged", STAGE("unchanged")) "]", 0, PL_PRUNE_OFF, "would change nothing"},
        {"[" ONE("created", STAGE("new")) "]", 0, PL_PRUNE_OFF, "would create 1 pipeline: 1 new stage to run"},
        {"[" ONE("updated", STAGE("unchanged")) "]", 0, PL_PRUNE_OFF, "would update 1 pipeline"},
        {"[" ONE("updated", AGAIN("1", "null", "")) "]", 0, PL_PRUNE_OFF, "would update 1 pipeline: 1 datum to run (1 stage)"},
        {"[" ONE("created", STAGE("new")) "," ONE("updated", AGAIN("300", "8100", "")) "," ONE("updated",
                                                                                               AGAIN("40", "900", "")) "]",
         0, PL_PRUNE_OFF,
         "would create 1, update 2 pipelines: 340 datums to run, about 2.5 GPU-hours (3 stages, 1 of them new and not counted)"},
        {"[" ONE("updated", AGAIN("7", "30", ",\"at_most\":true") "," STAGE("removed")) "]", 0, PL_PRUNE_STOP,
         "would update 1 pipeline: up to 7 datums to run, less than 0.1 GPU-hours (1 stage)"},
        {"[" ONE("updated", AGAIN("7", "null", ",\"at_most\":true") "," AGAIN("2", "null", ",\"estimated\":true")) "]", 0,
         PL_PRUNE_OFF, "would update 1 pipeline: about 9 datums to run (2 stages)"},
        {"[" ONE("unchanged", "") "]", 1, PL_PRUNE_STOP, "would stop 1 pipeline"},
        {"[" ONE("started", "") "]", 2, PL_PRUNE_DELETE, "would start 1, delete 2 pipelines"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *changes = json_loads(rows[i].changes, 0, NULL), *text;

        assert_non_null(changes);
        text = pl_source_preview_text(changes, rows[i].pruned, rows[i].prune);
        assert_string_equal(json_string_value(text), rows[i].text);
        json_decref(text);
        json_decref(changes);
    }
}

/* A note is that of the look before if it says the same, and otherwise a new one. */
static void a_note_stays_while_it_says_the_same(void **state)
{
    json_t *before = pl_status_note("aa", true, "fine", NULL), *note;

    (void)state;
    json_object_set_new(before, "done", json_true());
    note = pl_status_note("aa", true, "fine", before);
    assert_true(json_equal(note, before));
    json_decref(note);
    for (int i = 0; i < 3; i++) {
        note = pl_status_note(i == 0 ? "bb" : "aa", i != 1, i == 2 ? "better" : "fine", before);
        assert_false(json_is_true(json_object_get(note, "done")));
        json_decref(note);
    }
    json_decref(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_add_up_to_a_text),
        cmocka_unit_test(a_note_stays_while_it_says_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
