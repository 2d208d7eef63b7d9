// link: pipelined/plan storage/tree
/* identity: the three hashes byte by byte (the values come from a second implementation), and what does and does not change them. */
#include "pipelined/plan/datum_identity.h"
#include "storage/tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *hex(const struct pl_hash *h)
{
    static char text[PL_HASH_HEX + 1];

    return pl_hash_hex(h, text);
}

static struct pl_spec *stage_with(const char *fields)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};
    char text[1024];

    (void)snprintf(text, sizeof(text), "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, %s}]}",
                   fields);
    if (pl_spec_parse(text, strlen(text), "t", NULL, &spec, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return spec;
}

static struct pl_hash code_identity(const char *fields, const struct pl_hash *code_root)
{
    struct pl_spec *spec = stage_with(fields);
    struct pl_hash id;

    pl_stage_code_identity(&spec->stages[0], code_root, &id);
    pl_spec_destroy(spec);
    return id;
}

static void code_identity_is_what_the_header_says(void **state)
{
    struct pl_hash root, id;

    (void)state;
    memset(&root, 7, sizeof(root));
    id = code_identity("\"run\": [\"x\"]", NULL);
    assert_string_equal(hex(&id), "44242b2fac6a6b45b39aa3534be77a7c70fa96176b8c4a40a5c725d1f0fcbea0");
    id =
        code_identity("\"script\": \"true\\n\", \"image\": \"img:1\", \"env\": {\"B\": \"x\", \"A\": 1}, \"code\": \"c\"", &root);
    assert_string_equal(hex(&id), "d0b92d55e26ec9d992c4e87d56662fdee95e98be096dc173585abbdd822cce32");
}

static void only_what_the_command_sees_is_in_the_code_identity(void **state)
{
    static const struct {
        const char *fields;
        bool same;
    } cases[] = {
        {"\"run\": [\"x\"], \"workers\": 4", true},
        {"\"run\": [\"x\"], \"gpu\": 2", true},
        {"\"run\": [\"x\"], \"resources\": {\"cpu\": 2}", true},
        {"\"run\": [\"x\"], \"timeout\": \"1h\", \"datum\": {\"tries\": 3}", true},
        {"\"run\": [\"x\"], \"output\": {\"prefix\": \"y/\"}", true},
        {"\"run\": [\"x\", \"\"]", false},
        {"\"run\": [\"x\"], \"env\": {\"A\": 1}", false},
        {"\"run\": [\"x\"], \"image\": \"y\"", false},
        {"\"run\": [\"x\"], \"python\": \"/y\"", false},
        {"\"script\": \"x\"", false},
    };
    struct pl_hash base = code_identity("\"run\": [\"x\"]", NULL);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_hash id = code_identity(cases[i].fields, NULL);

        if (pl_hash_eq(&id, &base) != cases[i].same)
            fail_msg("%s", cases[i].fields);
    }
}

static const struct pl_hash content[] = {
    {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}}};
static const struct pl_input inputs[] = {
    {.project = "default", .repo = "digits", .branch = "master", .name = "test"},
    {.project = "default", .repo = "train", .branch = "master", .name = "model"},
};
static const struct pl_datum_leaf leaves[] = {
    {&inputs[0], "test/b1.csv", 11, PL_KIND_FILE, &content[0]},
    {&inputs[1], "", 0, PL_KIND_DIR, &content[1]},
};

static void datum_id_and_key_are_what_the_header_says(void **state)
{
    struct pl_cache cache = {.enabled = true, .code = true, .salt = ""};
    struct pl_hash code = code_identity("\"run\": [\"x\"]", NULL), id, key;

    (void)state;
    pl_datum_id(leaves, 2, &id);
    assert_string_equal(hex(&id), "c8b91c77751d8cbf811abf0fb0887bb109ae5e628889812bdbc35a2417241fad");
    pl_datum_key(leaves, 2, &code, &cache, &key);
    assert_string_equal(hex(&key), "7199d6616c20b34eb3067a19d2fb862abf9ca9729f23cf12601a4d93b1252c21");
    cache = (struct pl_cache){.enabled = true, .code = false, .salt = "s"};
    pl_datum_key(leaves, 2, &code, &cache, &key);
    assert_string_equal(hex(&key), "ee32158d0ec48ebbb41185e41b8ad9331159678b7a5f0b5e0a3fa94c08e55652");
}

static void a_fork_of_a_repo_keeps_the_key_and_changes_the_id(void **state)
{
    const struct pl_cache cache = {.enabled = true, .code = true, .salt = ""};
    const struct pl_hash code = {{0}};
    struct pl_input fork = inputs[0];
    struct pl_datum_leaf forked[2] = {leaves[0], leaves[1]};
    struct pl_hash a, b;

    (void)state;
    fork.branch = "try";
    fork.repo = "copy";
    forked[0].input = &fork;
    pl_datum_key(leaves, 2, &code, &cache, &a);
    pl_datum_key(forked, 2, &code, &cache, &b);
    assert_true(pl_hash_eq(&a, &b));
    pl_datum_id(leaves, 2, &a);
    pl_datum_id(forked, 2, &b);
    assert_false(pl_hash_eq(&a, &b));
}

static void name_path_kind_and_content_are_in_the_key(void **state)
{
    const struct pl_cache cache = {.enabled = true, .code = true, .salt = ""};
    const struct pl_hash code = {{0}};
    struct pl_input renamed = inputs[0];
    struct pl_hash base, other;

    (void)state;
    renamed.name = "tset";
    pl_datum_key(leaves, 1, &code, &cache, &base);
    for (unsigned i = 0; i < 5; i++) {
        struct pl_datum_leaf leaf = leaves[0];

        if (i == 0)
            leaf.input = &renamed;
        else if (i == 1)
            leaf.path_len--;
        else if (i == 2)
            leaf.kind = PL_KIND_EXEC;
        else if (i == 3)
            leaf.content = &content[1];
        pl_datum_key(&leaf, 1, &code, &cache, &other);
        assert_int_equal(pl_hash_eq(&base, &other), i == 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_identity_is_what_the_header_says),
        cmocka_unit_test(only_what_the_command_sees_is_in_the_code_identity),
        cmocka_unit_test(datum_id_and_key_are_what_the_header_says),
        cmocka_unit_test(a_fork_of_a_repo_keeps_the_key_and_changes_the_id),
        cmocka_unit_test(name_path_kind_and_content_are_in_the_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
