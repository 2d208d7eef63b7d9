// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* What open commits need of the store: bounded, whatever their lists say. */
#include "tests/unit/db/open_commits/open_commits_world.h"

#include "storage/chunk/chunk_list.h"

/* A list of as many entries as there may be, all of them the same. */
static void make_list(struct pl_buf *ret, uint8_t level, const struct pl_hash *id, uint64_t bytes)
{
    static const uint8_t head[] = {'P', 'L', 'C', 'L', 1};
    struct pl_err err = {0};

    assert_ok(pl_buf_add(ret, head, sizeof head, &err), &err);
    assert_ok(pl_buf_add_u8(ret, level, &err), &err);
    assert_ok(pl_buf_add(ret, "\x80\x20", 2, &err), &err); /* 4,096 as a varint */
    for (unsigned i = 0; i < PL_LIST_MAX_ENTRIES; i++) {
        assert_ok(pl_buf_add(ret, id->b, PL_HASH_BYTES, &err), &err);
        for (unsigned k = 0; k < (level ? 8 : 3); k++)
            assert_ok(pl_buf_add_u8(ret, (uint8_t)(bytes >> 8 * k), &err), &err);
    }
}

static struct pl_op_record record_of(const struct pl_buf *bytes, uint8_t kind)
{
    struct pl_op_record r = {.kind = kind, .raw = (uint32_t)bytes->len, .stored = (uint32_t)bytes->len, .bytes = bytes->data};

    pl_hash_sha256(bytes->data, bytes->len, &r.id);
    return r;
}

/* Three records of 300 KiB in all say that a file has 16,777,216 pieces. */
static void test_a_list_that_is_named_often_is_gone_through_once(void **state)
{
    struct opens_world o = {.w.dir = fixture_dir()};
    const struct pl_open_commit_args args = {.project = "default", .repo = "digits", .branch = "master"};
    _cleanup_(pl_buf_finish) struct pl_buf chunk = {0}, low = {0}, high = {0};
    struct pl_op_record records[3];
    struct pl_tree_op op = {.op = PL_TREE_PUT, .path = "f", .path_len = 1};
    struct open_waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct pl_open_commit_need *needs = NULL;
    struct pl_err err = {0};
    struct pl_open_commit *c;
    size_t n = 0;

    (void)state;
    assert_ok(opens_world_open(&o, &err), &err);
    assert_ok(pl_buf_add_u8(&chunk, 'x', &err), &err);
    records[0] = record_of(&chunk, PL_REC_CHUNK);
    make_list(&low, 0, &records[0].id, 1);
    records[1] = record_of(&low, PL_REC_LIST);
    make_list(&high, 1, &records[1].id, PL_LIST_MAX_ENTRIES);
    records[2] = record_of(&high, PL_REC_LIST);
    op.entry = pl_entry_list(PL_KIND_FILE, (uint64_t)PL_LIST_MAX_ENTRIES * PL_LIST_MAX_ENTRIES, &records[2].id);
    w.write = (struct pl_open_commit_write){
        .ops = &op, .n_ops = 1, .records = records, .n_records = 3, .bytes = low.len + high.len, .done = open_written};
    assert_ok(pl_open_commits_start(o.opens, &args, &c, &err), &err);
    assert_ok(open_put_wait(c, &w, &err), &err);
    assert_ok(pl_open_commits_roots(o.opens, "default", &needs, &n, &err), &err);
    assert_in_range(n, 3, PL_LIST_MAX_ENTRIES + 8);
    free(TAKE_PTR(needs));
    assert_ok(pl_open_commit_abort(c, "over", &err), &err);
    assert_ok(pl_open_commits_roots(o.opens, "default", &needs, &n, &err), &err);
    assert_int_equal(n, 0);
    free(needs);
    pl_open_commit_unref(c);
    opens_world_close(&o);
    fixture_remove(o.w.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_list_that_is_named_often_is_gone_through_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
