// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/dataset/log storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Log records: what the table says of their fields is what transactions write and what docs/format.md shows. */
#include "tests/support/fixtures/db_world.h"
#include "tests/support/fixtures/generated_docs.h"

#include "storage/dataset/log/log.h"
#include "storage/dataset/log/log_record.h"

static bool word_in(const char *words, const char *word, size_t len)
{
    for (const char *p = words; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strncmp(p, word, len) == 0 && (p[len] == ' ' || p[len] == '\0' || p[len] == '?'))
            return true;
    return false;
}

/* All fields of the table but the optional ones are there, and no others. */
static void assert_fields(const char *name, const char *fields, json_t *payload)
{
    const char *key;
    json_t *v;

    for (const char *p = fields; *p; p += strcspn(p, " "), p += *p == ' ') {
        size_t len = strcspn(p, " ?");
        char field[64];

        snprintf(field, sizeof field, "%.*s", (int)len, p);
        if (p[len] != '?' && !json_object_get(payload, field))
            fail_msg("record %s lacks %s", name, field);
    }
    json_object_foreach(payload, key, v) if (!word_in(fields, key, strlen(key)))
        fail_msg("record %s has a field %s that the table does not know", name, key);
}

static int on_record(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err)
{
    json_t *payload = json_loadb(record->payload, record->len, JSON_REJECT_DUPLICATES, NULL);
    bool *seen = self;
    char *again;

    (void)seq;
    (void)err;
    assert_true(json_is_object(payload));
    assert_fields(pl_record_name(record->kind), pl_record_fields(record->kind), payload);
    again = json_dumps(payload, JSON_COMPACT | JSON_SORT_KEYS);
    assert_int_equal(strlen(again), record->len);
    assert_memory_equal(again, record->payload, record->len);
    seen[record->kind] = true;
    free(again);
    json_decref(payload);
    return 0;
}

static void test_records_have_the_fields_of_the_table_sorted_and_compact(void **state)
{
    static const uint16_t written[] = {PL_RECORD_OPEN_EPOCH,     PL_RECORD_PROJECT,       PL_RECORD_REPO,
                                       PL_RECORD_REPO_DELETE,    PL_RECORD_BRANCH,        PL_RECORD_BRANCH_DELETE,
                                       PL_RECORD_COMMIT,         PL_RECORD_COMMIT_DELETE, PL_RECORD_RUN,
                                       PL_RECORD_RUN_END,        PL_RECORD_PIPELINE,      PL_RECORD_PIPELINE_DELETE,
                                       PL_RECORD_PROJECT_DELETE, PL_RECORD_JOB,           PL_RECORD_PROJECT_OPTIONS};
    struct world w = {.dir = fixture_dir()};
    struct pl_repo_args project = {.name = "vision"};
    struct pl_log_head head = {0};
    struct pl_err err = {0};
    bool seen[64] = {0};
    struct pl_log_sink sink = {.self = seen, .record = on_record};

    (void)state;
    assert_ok(world_open(&w, "data", &err), &err);
    for (size_t i = 0; i < STEPS; i++)
        assert_ok(world_step(&w, i, &err), &err);
    assert_ok(pl_db_run(w.db, PL_TX_LOGGED, pl_tx_project_delete, &project, &err), &err);
    assert_true(pl_hex_decode(pl_db_store_id(w.db), head.store_id, sizeof head.store_id));
    assert_ok(pl_log_replay(w.objects, &head, &sink, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(written); i++)
        if (!seen[written[i]])
            fail_msg("the workload writes no record %s", pl_record_name(written[i]));
    world_close(&w);
    fixture_remove(w.dir);
}

static void test_fields_are_in_the_order_of_the_alphabet(void **state)
{
    (void)state;
    for (uint16_t kind = 1; pl_record_name(kind); kind++) {
        char last[64] = "", field[64];

        for (const char *p = pl_record_fields(kind); *p; p += strcspn(p, " "), p += *p == ' ') {
            snprintf(field, sizeof field, "%.*s", (int)strcspn(p, " ?"), p);
            if (strcmp(last, field) >= 0)
                fail_msg("record %s: %s after %s", pl_record_name(kind), field, last);
            strcpy(last, field);
        }
    }
    assert_null(pl_record_name(0));
    assert_null(pl_record_fields(999));
}

static void test_the_format_page_has_the_table(void **state)
{
    struct pl_buf table = {0};

    (void)state;
    assert_int_equal(pl_record_markdown(&table, NULL), 0);
    assert_docs_part(DOCS("format.md"), "<!-- made from storage/dataset/log/log_record.h: PL_UPDATE=1 test_log_record -->\n",
                     "\n<!-- end -->", &table);
    pl_buf_finish(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_have_the_fields_of_the_table_sorted_and_compact),
        cmocka_unit_test(test_fields_are_in_the_order_of_the_alphabet),
        cmocka_unit_test(test_the_format_page_has_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
