// link: storage/dataset/commit
/* Commit objects: one byte sequence per commit, and nothing else is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/dataset/commit/commit.h"

static struct pl_hash hash_of(uint8_t byte)
{
    struct pl_hash h;

    memset(h.b, byte, sizeof(h.b));
    return h;
}

static struct pl_commit full_commit(void)
{
    static struct pl_hash parents[2];
    static const struct pl_commit_source sources[2] = {
        {.project = "default", .repo = "model", .branch = "master", .commit = "000102030405060708090a0b0c0d0e0f"},
        {.project = "vision", .repo = "digits", .branch = "dev", .commit = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"},
    };

    parents[0] = hash_of(0xA1);
    parents[1] = hash_of(0xA2);
    return (struct pl_commit){.project = "vision",
                              .repo = "train",
                              .id = "00112233445566778899aabbccddeeff",
                              .branch = "master",
                              .tree = hash_of(1),
                              .attributes = hash_of(2),
                              .table = hash_of(3),
                              .owner = hash_of(4),
                              .generation = 7,
                              .wall_us = 1795255445000000,
                              .files = 300,
                              .bytes = 1u << 20,
                              .author = "Ada",
                              .message = "first",
                              .stage = "train",
                              .code = hash_of(9),
                              .parents = parents,
                              .n_parents = 2,
                              .provenance = sources,
                              .n_provenance = 2};
}

static void encoded(const struct pl_commit *c, struct pl_buf *ret)
{
    struct pl_err err = {0};

    if (pl_commit_encode(c, ret, &err) < 0)
        fail_msg("%s", err.msg);
}

static void all_fields_come_back(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_commit in = full_commit(), out;
    struct pl_err err = {0};

    (void)state;
    encoded(&in, &b);
    assert_int_equal(pl_commit_decode(b.data, b.len, arena, &out, &err), 0);
    assert_string_equal(out.project, in.project);
    assert_string_equal(out.repo, in.repo);
    assert_string_equal(out.id, in.id);
    assert_string_equal(out.branch, in.branch);
    assert_true(pl_hash_eq(&out.tree, &in.tree) && pl_hash_eq(&out.attributes, &in.attributes) &&
                pl_hash_eq(&out.table, &in.table) && pl_hash_eq(&out.owner, &in.owner) && pl_hash_is_zero(&out.metrics) &&
                pl_hash_is_zero(&out.logs));
    assert_int_equal(out.generation, 7);
    assert_true(out.wall_us == in.wall_us && out.files == 300 && out.bytes == 1u << 20);
    assert_string_equal(out.author, "Ada");
    assert_string_equal(out.message, "first");
    assert_string_equal(out.stage, "train");
    assert_true(pl_hash_eq(&out.code, &in.code));
    assert_int_equal(out.n_parents, 2);
    assert_memory_equal(out.parents, in.parents, 2 * sizeof(struct pl_hash));
    assert_int_equal(out.n_provenance, 2);
    assert_string_equal(out.provenance[1].repo, "digits");
    assert_string_equal(out.provenance[1].commit, in.provenance[1].commit);
}

/* The format, pinned. A change of these bytes is a change of the format. */
static void bytes_are_those_of_the_format(void **state)
{
    static const char small[] = "504c434f01" /* PLCO, version 1 */
                                "0764656661756c74"
                                "0164"                             /* default, d */
                                "00112233445566778899aabbccddeeff" /* id */
                                "066d6173746572";                  /* master; 6 roots, … follow */
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_commit c = {
        .project = "default", .repo = "d", .id = "00112233445566778899aabbccddeeff", .branch = "master", .generation = 1};
    char hex[2 * 512 + 1], id[PL_HASH_HEX + 1];
    struct pl_hash h;

    (void)state;
    encoded(&c, &b);
    assert_int_equal(b.len, sizeof(small) / 2 + 6 * 32 + 1 + 8 + 1 + 1 + 1 + 1 + 1 + 32 + 1 + 1);
    pl_hex_encode(b.data, b.len, hex);
    assert_memory_equal(hex, small, sizeof(small) - 1);
    assert_string_equal(hex + sizeof(small) - 1 + 6 * 64, "01"               /* generation */
                                                          "0000000000000000" /* wall */
                                                          "0000"             /* files, bytes */
                                                          "000000"           /* author, message, stage */
                                                          "0000000000000000000000000000000000000000000000000000000000000000"
                                                          "0000"); /* parents, provenance */
    pl_buf_clear(&b);
    c = full_commit();
    encoded(&c, &b);
    pl_hash_sha256(b.data, b.len, &h);
    assert_string_equal(pl_hash_hex(&h, id), "0ed50271517d7b97a34dd62e016426015d63cc1ad39114cfee2e63a272b303a8");
}

static void every_cut_and_every_byte_too_many_is_refused(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_commit in = full_commit(), out;
    struct pl_err err = {0};

    (void)state;
    encoded(&in, &b);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(pl_commit_decode(b.data, n, arena, &out, &err), PL_EFORMAT);
    assert_int_equal(pl_buf_add_u8(&b, 0, &err), 0);
    assert_int_equal(pl_commit_decode(b.data, b.len, arena, &out, &err), PL_EFORMAT);
}

/* Whatever is accepted is what encode writes: no two byte sequences for one commit. */
static void what_decodes_encodes_to_the_same_bytes(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0}, again = {0};
    struct pl_commit in = full_commit(), out;
    struct pl_err err = {0};

    (void)state;
    encoded(&in, &b);
    for (size_t i = 0; i < b.len; i++) {
        static const uint8_t flips[] = {0x01, 0x80, 0xFF};

        for (size_t k = 0; k < sizeof(flips); k++) {
            _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);

            b.data[i] ^= flips[k];
            if (pl_commit_decode(b.data, b.len, arena, &out, &err) == 0) {
                pl_buf_clear(&again);
                encoded(&out, &again);
                assert_int_equal(again.len, b.len);
                assert_memory_equal(again.data, b.data, b.len);
            }
            b.data[i] ^= flips[k];
        }
    }
}

static void a_newer_version_is_named(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_commit in = full_commit(), out;
    struct pl_err err = {0};

    (void)state;
    encoded(&in, &b);
    b.data[4] = 2;
    assert_int_equal(pl_commit_decode(b.data, b.len, arena, &out, &err), PL_EFORMAT);
    assert_non_null(strstr(err.msg, "version 2"));
}

static void what_is_missing_or_out_of_order_is_refused(void **state)
{
    struct pl_commit good = full_commit(), c;
    struct pl_commit_source swapped[2] = {good.provenance[1], good.provenance[0]};
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err = {0};

    (void)state;
    c = good;
    c.repo = "";
    assert_int_equal(pl_commit_encode(&c, &b, &err), PL_EINVAL);
    c = good;
    c.repo = "a/b";
    assert_int_equal(pl_commit_encode(&c, &b, &err), PL_ENAME);
    c = good;
    c.id[3] = 'X';
    assert_int_equal(pl_commit_encode(&c, &b, &err), PL_EINVAL);
    c = good;
    c.generation = 0;
    assert_int_equal(pl_commit_encode(&c, &b, &err), PL_EINVAL);
    c = good;
    c.message = "\xff";
    assert_int_equal(pl_commit_encode(&c, &b, &err), PL_EINVAL);
    c = good;
    c.provenance = swapped;
    assert_int_equal(pl_commit_encode(&c, &b, &err), PL_EINVAL);
    assert_non_null(strstr(err.msg, "not sorted"));
    assert_int_equal(b.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields_come_back),
        cmocka_unit_test(bytes_are_those_of_the_format),
        cmocka_unit_test(every_cut_and_every_byte_too_many_is_refused),
        cmocka_unit_test(what_decodes_encodes_to_the_same_bytes),
        cmocka_unit_test(a_newer_version_is_named),
        cmocka_unit_test(what_is_missing_or_out_of_order_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
