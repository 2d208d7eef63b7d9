// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/api/transfer pipelined/db/tx pipelined/net/http_client pipelined/net/loop pipelined/net/remote pipelined/net/server pipelined/spec storage/base storage/dataset/file storage/dataset/ingest storage/object storage/pack storage/store storage/system storage/tree_edit
/* Packs that a process of the daemon's user wrote into the daemon's folder: the daemon takes them by their head, once, under the same rights and
 * sessions as packs that are sent. */
#include "tests/support/fixtures/pack_fixture.h"
#include "tests/support/fixtures/store_fixture.h"

#include "storage/object/object_offer.h"

/* Writes the pack into the store's folder and has the daemon take it. */
static struct answer offer_pack(const struct pack *p, const struct pl_hash *id, const char *session,
                                char ret_name[PL_OBJECT_OFFER_NAME])
{
    char dir[PATH_MAX], target[320], hex[PL_HASH_HEX + 1];

    snprintf(dir, sizeof dir, "%.3000s/store", t.dir);
    MUST(pl_object_offer_make(dir, p->bytes.data, p->bytes.len, 0, ret_name, &err));
    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s&offer=%s", pl_hash_hex(id, hex), session, ret_name);
    return ask_with("PUT", target, AS_WORKER, "", 0);
}

static void an_offered_pack_is_taken(void **state)
{
    char session[64], name[PL_OBJECT_OFFER_NAME], target[320], hex[PL_HASH_HEX + 1];
    struct pack p, foreign;
    struct answer a;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "content");
    make_pack(&foreign, "elsewhere", "content");
    code_is(offer_pack(&foreign, &foreign.id, session, name), "protocol");
    code_is(offer_pack(&p, &foreign.id, session, name), "protocol");
    assert_false(has_as(AS_WORKER, &p.chunk, session));
    is_good(offer_pack(&p, &p.id, session, name));
    assert_true(has_as(AS_WORKER, &p.chunk, session));
    is_good(offer_pack(&p, &p.id, session, name)); /* twice is as good as once */
    snprintf(target, sizeof target, "%.200s/store/tmp", t.dir);
    assert_int_equal(fixture_count(target), 0);

    snprintf(target, sizeof target, PROJECT "/packs/%s", pl_hash_hex(&p.id, hex));
    a = ask_with("GET", target, AS_WORKER, "", 0);
    assert_int_equal(a.len, p.bytes.len);
    assert_memory_equal(a.body, p.bytes.data, p.bytes.len);
    answer_free(&a);
    pl_buf_finish(&p.bytes);
    pl_buf_finish(&foreign.bytes);
}

/* The session, the rights and the name are checked before the file is touched, and an offer has no body beside it. */
static void an_offer_that_is_not_one_is_refused(void **state)
{
    char session[64], name[PL_OBJECT_OFFER_NAME], dir[PATH_MAX], target[320], hex[PL_HASH_HEX + 1];
    struct pack p;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "content");
    code_is(offer_pack(&p, &p.id, ZERO_ID, name), "invalid");
    snprintf(dir, sizeof dir, "%.3000s/store", t.dir);
    pl_object_offer_withdraw(dir, name); /* the client's part */
    pl_hash_hex(&p.id, hex);
    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s&offer=%s", hex, session, name);
    code_is(ask_with("PUT", target, AS_WORKER, "", 0), "not_found");
    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s&offer=../format", hex, session);
    code_is(ask_with("PUT", target, AS_WORKER, "", 0), "invalid");
    MUST(pl_object_offer_make(dir, p.bytes.data, p.bytes.len, 0, name, &err));
    snprintf(target, sizeof target, PROJECT "/packs/%s?session=%s&offer=%s", hex, session, name);
    code_is(ask_with("PUT", target, AS_WORKER, p.bytes.data, p.bytes.len), "protocol");
    assert_false(has_as(AS_WORKER, &p.chunk, session));
    snprintf(target, sizeof target, "%.200s/store/tmp", t.dir);
    assert_int_equal(fixture_count(target), 0);
    pl_buf_finish(&p.bytes);
}

/* What damages the bytes after the client has closed the pack is refused: the checksum tells. */
static void a_damaged_offer_is_refused(void **state)
{
    char session[64], name[PL_OBJECT_OFFER_NAME], tmp[PATH_MAX];
    struct pack p;

    (void)state;
    open_session(session);
    make_pack(&p, "default", "content");
    p.bytes.data[PL_PACK_HEADER_BYTES + PL_PACK_RECORD_BYTES] ^= 1;
    code_is(offer_pack(&p, &p.id, session, name), "protocol");
    assert_false(has_as(AS_WORKER, &p.chunk, session));
    snprintf(tmp, sizeof tmp, "%.200s/store/tmp", t.dir);
    assert_int_equal(fixture_count(tmp), 0);
    pl_buf_finish(&p.bytes);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_offered_pack_is_taken),
        TEST(a_damaged_offer_is_refused),
        TEST(an_offer_that_is_not_one_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
