// link: pipelined/plan storage/base storage/tree storage/tree_edit
/* plan: which datums there are, in which order, with which keys. */
#include "tests/unit/plan/plan_fixture.h"

struct case_of_glob {
    const char *input;     /* fields of the leaf beside "repo" */
    const char *files[8];  /* of the tree */
    const char *datums[8]; /* paths of the matches, in order; "" = root */
};

static void a_glob_says_how_many_datums_there_are(void **state)
{
    static const struct case_of_glob cases[] = {
        {"\"glob\": \"/\"", {"a", "b/c"}, {""}},
        {"\"glob\": \"/\"", {NULL}, {NULL}},
        {"\"glob\": \"/\"", {"d/"}, {NULL}},
        {"\"glob\": \"/*\"", {"a", "b/c", "b/d", "e"}, {"a", "b", "e"}},
        {"\"glob\": \"/*\"", {"a", "empty/"}, {"a"}},
        {"\"glob\": \"/*/*\"", {"a", "b/c", "b/d/x", "b/d/y"}, {"b/c", "b/d"}},
        {"\"glob\": \"/**\"", {"a", "b/c/d"}, {"a", "b", "b/c", "b/c/d"}},
        {"\"glob\": \"/train/*.csv\"",
         {"test/1.csv", "train/1.csv", "train/2.csv", "train/x.txt"},
         {"train/1.csv", "train/2.csv"}},
        {"\"glob\": \"/train/*\"", {"train/1/a", "train/1/b", "train/2"}, {"train/1", "train/2"}},
        {"\"glob\": \"/iris.csv\"", {"iris.csv", "iris.csv2", "irisx/a"}, {"iris.csv"}},
        {"\"glob\": \"/dir\"", {"dir/a", "dir/b", "dir2"}, {"dir"}},
        {"\"glob\": \"/none/*\"", {"a"}, {NULL}},
        /* spec order is that of bytes, with a directory as "a/" */
        {"\"glob\": \"/**\"", {"a!b", "a/x", "a0"}, {"a!b", "a", "a/x", "a0"}},
        /* files: which of a match count */
        {"\"glob\": \"/*\", \"files\": [\"*.npz\"]", {"a/1.npz", "b/1.csv", "c.npz", "d.csv"}, {"a", "c.npz"}},
        {"\"glob\": \"/\", \"files\": [\"*.npz\"]", {"a.csv", "b/c.npz"}, {""}},
        {"\"glob\": \"/\", \"files\": [\"*.npz\"]", {"a.csv"}, {NULL}},
        {"\"glob\": \"/*\", \"files\": [\"/m.npz\"]", {"a/m.npz", "b/x/m.npz"}, {"a"}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct memory m = {0};
        struct pl_node_source source = source_of(&m);
        struct pl_hash root = tree_of(&m, cases[i].files, 8);
        struct pl_plan *plan = NULL;
        struct pl_err err = {0};
        struct pl_spec *spec;
        char fields[256];
        size_t n = 0;

        (void)snprintf(fields, sizeof(fields), "\"input\": {\"repo\": \"r\", %s}", cases[i].input);
        spec = spec_of(fields);
        assert_ok(plan_of(spec, &source, &root, &plan, &err), &err);
        for (; n < plan->n_datums && n < 8 && cases[i].datums[n] != NULL; n++)
            if (!pl_streq(pl_plan_match_of(plan, n, 0)->path, cases[i].datums[n]))
                fail_msg("%s: datum %zu is %s", cases[i].input, n, pl_plan_match_of(plan, n, 0)->path);
        if (n != plan->n_datums || (n < 8 && cases[i].datums[n] != NULL))
            fail_msg("%s: %zu datums", cases[i].input, plan->n_datums);
        pl_plan_destroy(plan);
        pl_spec_destroy(spec);
        memory_finish(&m);
    }
}

/* Brute force: every file and every directory that holds one, sorted as in the enumeration key, each asked alone. */
static size_t brute_force(const struct pl_glob *glob, char (*files)[RANDOM_PATH_BYTES], size_t n, char (*ret)[RANDOM_PATH_BYTES])
{
    char all[64][RANDOM_PATH_BYTES];
    size_t n_all = 0, n_ret = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; files[i][at] != '\0'; at++)
            if (files[i][at] == '/')
                (void)snprintf(all[n_all++], RANDOM_PATH_BYTES, "%.*s/", (int)at, files[i]);
        strcpy(all[n_all++], files[i]);
    }
    qsort(all, n_all, RANDOM_PATH_BYTES, (int (*)(const void *, const void *))(void *)strcmp);
    for (size_t i = 0; i < n_all; i++) {
        size_t len = strlen(all[i]);

        if (i > 0 && pl_streq(all[i], all[i - 1]))
            continue;
        len -= all[i][len - 1] == '/';
        if (pl_glob_match(glob, all[i], len, NULL))
            (void)snprintf(ret[n_ret++], RANDOM_PATH_BYTES, "%.*s", (int)len, all[i]);
    }
    return n_ret;
}

static void what_is_skipped_could_not_have_matched(void **state)
{
    static const char *const globs[] = {"/*",
                                        "/a/*",
                                        "/**",
                                        "/*/*",
                                        "/a*/b*",
                                        "/{a,d}/**",
                                        "/**/m?",
                                        "/a/**/b",
                                        "/a.b",
                                        "/*/m1/*",
                                        "/d!/*",
                                        "/{a,b/d}",
                                        "/long-segment/**/m[0-2]",
                                        "/a",
                                        "/**/a/**",
                                        "/{**}"};
    uint64_t seed = 11, matched = 0;

    (void)state;
    for (unsigned round = 0; round < 600; round++) {
        const char *pattern = globs[pick(&seed, PL_ARRAY_SIZE(globs))];
        struct memory m = {0};
        struct pl_node_sink sink = sink_of(&m, &small_params[pick(&seed, SMALL_PARAMS)]);
        struct pl_node_source source = source_of(&m);
        struct pl_hash root = {0};
        char files[12][RANDOM_PATH_BYTES], want[64][RANDOM_PATH_BYTES], fields[128];
        struct pl_glob *glob = NULL;
        struct pl_plan *plan = NULL;
        struct pl_err err = {0};
        struct pl_spec *spec;
        size_t n = 0, n_want;

        for (size_t i = 0; i < 12; i++) {
            struct pl_tree_op op = {.op = PL_TREE_PUT, .path = files[n], .entry = pl_entry_inline(PL_KIND_FILE, "x", 1)};

            op.path_len = random_path(&seed, files[n]);
            n += pl_tree_edit(&source, &sink, &root, &op, 1, &root, NULL) == 0; /* names that conflict are left out */
        }
        assert_ok(pl_glob_compile(pattern, &glob, &err), &err);
        n_want = brute_force(glob, files, n, want);
        (void)snprintf(fields, sizeof(fields), "\"input\": {\"repo\": \"r\", \"glob\": \"%s\"}", pattern);
        spec = spec_of(fields);
        assert_ok(plan_of(spec, &source, &root, &plan, &err), &err);
        assert_int_equal(plan->n_datums, n_want);
        for (size_t i = 0; i < n_want; i++)
            assert_string_equal(pl_plan_match_of(plan, i, 0)->path, want[i]);
        matched += n_want;
        pl_glob_destroy(glob);
        pl_plan_destroy(plan);
        pl_spec_destroy(spec);
        memory_finish(&m);
    }
    assert_true(matched > 1000);
}

static void a_cross_takes_every_combination_the_first_input_slowest(void **state)
{
    static const char *const a[] = {"1", "2"}, *const b[] = {"x", "y", "z"};
    static const char *const want[] = {"a=/1, b=/x, c=/", "a=/1, b=/y, c=/", "a=/1, b=/z, c=/",
                                       "a=/2, b=/x, c=/", "a=/2, b=/y, c=/", "a=/2, b=/z, c=/"};
    struct memory m = {0};
    struct pl_node_source source = source_of(&m);
    struct pl_hash roots[3] = {tree_of(&m, a, 2), tree_of(&m, b, 3), tree_of(&m, b, 1)};
    struct pl_spec *spec =
        spec_of("\"input\": {\"cross\": [{\"cross\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"b\", \"glob\": "
                "\"/*\"}]}, {\"repo\": \"c\"}]}");
    struct pl_plan *plan = NULL;
    struct pl_err err = {0};
    char text[64];

    (void)state;
    assert_ok(plan_of(spec, &source, roots, &plan, &err), &err);
    assert_int_equal(plan->n_datums, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(pl_plan_datum_text(plan, i, text, sizeof(text)), want[i]);
    plan = pl_plan_destroy(plan);

    roots[1] = (struct pl_hash){0}; /* nothing committed yet: no combination */
    assert_ok(plan_of(spec, &source, roots, &plan, &err), &err);
    assert_int_equal(plan->n_datums, 0);
    pl_plan_destroy(plan);
    pl_spec_destroy(spec);
    memory_finish(&m);
}

/* a, b: two files each; c: one. The order of the datums, and of their enumeration keys. */
static void unions_and_params_are_enumerated_in_spec_order(void **state)
{
    static const struct {
        const char *input, *want[8];
    } cases[] = {
        {"{\"union\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"b\"}]}", {"a=/1", "a=/2", "b=/"}},
        {"{\"cross\": [{\"union\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"b\"}]}, {\"repo\": \"c\"}]}",
         {"a=/1, c=/", "a=/2, c=/", "b=/, c=/"}},
        {"{\"cross\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"union\": [{\"repo\": \"b\"}, {\"repo\": \"c\"}]}]}",
         {"a=/1, b=/", "a=/1, c=/", "a=/2, b=/", "a=/2, c=/"}},
        {"{\"union\": [{\"cross\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"b\"}]}, {\"repo\": \"c\", \"name\": "
         "\"b\"}]}",
         {"a=/1, b=/", "a=/2, b=/", "b=/"}},
        {"{\"cross\": [{\"params\": {\"k\": [2, 1]}}, {\"repo\": \"b\"}]}", {"params={\"k\":1}, b=/", "params={\"k\":2}, b=/"}},
        {"{\"params\": {\"k\": [2, 1], \"x\": [\"y\"]}}", {"params={\"k\":1,\"x\":\"y\"}", "params={\"k\":2,\"x\":\"y\"}"}},
        {"{\"union\": [{\"repo\": \"a\", \"glob\": \"/none\"}, {\"repo\": \"b\"}]}", {"b=/"}},
        {"{\"cross\": [{\"union\": [{\"repo\": \"a\", \"glob\": \"/none\"}]}, {\"repo\": \"b\"}]}", {NULL}},
    };
    static const char *const files[] = {"1", "2"};
    uint8_t keys[2][PL_ENUM_KEY_MAX];
    size_t lens[2] = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct memory m = {0};
        struct pl_node_source source = source_of(&m);
        struct pl_hash root = tree_of(&m, files, 2), roots[3] = {root, root, root};
        struct pl_plan *plan = NULL;
        struct pl_err err = {0};
        struct pl_spec *spec;
        char text[512];
        size_t d;

        (void)snprintf(text, sizeof(text), "\"input\": %s", cases[i].input);
        spec = spec_of(text);
        assert_ok(plan_of(spec, &source, roots, &plan, &err), &err);
        for (d = 0; d < plan->n_datums; d++) {
            assert_string_equal(pl_plan_datum_text(plan, d, text, sizeof(text)), cases[i].want[d]);
            lens[d & 1] = pl_plan_enum_key(plan, d, keys[d & 1]);
            if (d > 0)
                assert_true(pl_key_cmp(keys[~d & 1], lens[~d & 1], keys[d & 1], lens[d & 1]) < 0);
        }
        assert_null(cases[i].want[d]);
        pl_plan_destroy(plan);
        pl_spec_destroy(spec);
        memory_finish(&m);
    }
}

/* The keys that both plans have. */
static size_t keys_in_common(const struct pl_plan *a, const struct pl_plan *b)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n_datums; i++)
        for (size_t k = 0; k < b->n_datums; k++)
            n += pl_hash_eq(&a->keys[i], &b->keys[k]);
    return n;
}

static void only_new_combinations_and_changed_inputs_that_count_have_new_keys(void **state)
{
#define CROSS_OF(params, reference) "\"input\": {\"cross\": [{\"repo\": \"r\"" reference "}, {\"params\": {\"k\": " params "}}]}"
    static const struct {
        const char *before, *after, *files_after;
        size_t n, common;
    } cases[] = {
        {CROSS_OF("[1, 2]", ""), CROSS_OF("[2, 3, 1]", ""), "1=x", 3, 2},
        {CROSS_OF("[1, 2]", ""), CROSS_OF("[1, 2]", ""), "1=y", 2, 0},
        {CROSS_OF("[1, 2]", ", \"reference\": true"), CROSS_OF("[1, 2]", ", \"reference\": true"), "1=y", 2, 2},
        {CROSS_OF("[1, 2]", ""), CROSS_OF("[1, 2]", ", \"reference\": true"), "1=x", 2, 0},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        static const char *const files[] = {"1=x"};
        struct memory m = {0};
        struct pl_node_source source = source_of(&m);
        struct pl_hash before[2] = {tree_of(&m, files, 1)}, after[2] = {tree_of(&m, &cases[i].files_after, 1)};
        struct pl_spec *specs[2] = {spec_of(cases[i].before), spec_of(cases[i].after)};
        struct pl_plan *plans[2] = {NULL, NULL};
        struct pl_err err = {0};

        assert_ok(plan_of(specs[0], &source, before, &plans[0], &err), &err);
        assert_ok(plan_of(specs[1], &source, after, &plans[1], &err), &err);
        assert_int_equal(plans[1]->n_datums, cases[i].n);
        assert_int_equal(keys_in_common(plans[0], plans[1]), cases[i].common);
        for (size_t k = 0; k < 2; k++) {
            pl_plan_destroy(plans[k]);
            pl_spec_destroy(specs[k]);
        }
        memory_finish(&m);
    }
}

static struct pl_plan *plan_one(struct memory *m, const char *fields, const char *const *files, size_t n,
                                struct pl_spec **ret_spec)
{
    struct pl_node_source source = source_of(m);
    struct pl_hash root = tree_of(m, files, n);
    struct pl_plan *plan = NULL;
    struct pl_err err = {0};

    *ret_spec = spec_of(fields);
    assert_ok(plan_of(*ret_spec, &source, &root, &plan, &err), &err);
    return plan;
}

static void enumeration_keys_are_what_the_header_says(void **state)
{
    static const char *const files[] = {"a!b", "a/x", "a0"};
    static const struct {
        const char *bytes;
        size_t n;
    } want[] = {{"\0\0a!b\0", 6}, {"\0\0a/\0", 5}, {"\0\0a/x\0", 6}, {"\0\0a0\0", 5}};
    struct memory m = {0};
    struct pl_spec *spec;
    struct pl_plan *plan = plan_one(&m, "\"input\": {\"repo\": \"r\", \"glob\": \"/**\"}", files, 3, &spec);
    uint8_t key[PL_ENUM_KEY_MAX];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pl_plan_enum_key(plan, i, key), want[i].n);
        assert_memory_equal(key, want[i].bytes, want[i].n);
    }
    pl_plan_destroy(plan);
    pl_spec_destroy(spec);
    plan = plan_one(&m, "\"input\": {\"repo\": \"r\"}", files, 3, &spec);
    assert_int_equal(pl_plan_enum_key(plan, 0, key), 3);
    assert_memory_equal(key, "\0\0\0", 3);
    pl_plan_destroy(plan);
    pl_spec_destroy(spec);
    memory_finish(&m);
}

static void enumeration_keys_ascend_in_spec_order(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct memory m = {0};
        struct pl_node_sink sink = sink_of(&m, NULL);
        struct pl_node_source source = source_of(&m);
        struct pl_hash roots[2];
        struct pl_spec *spec =
            spec_of("\"input\": {\"cross\": [{\"repo\": \"a\", \"glob\": \"/**\"}, {\"repo\": \"b\", \"glob\": "
                    "\"/{*,*/*}\"}]}");
        struct pl_plan *plan = NULL;
        struct pl_err err = {0};
        uint8_t keys[2][PL_ENUM_KEY_MAX];
        size_t lens[2] = {0};

        for (size_t t = 0; t < 2; t++) {
            struct pl_hash root = {0};

            for (size_t i = 0; i < 8; i++) {
                char path[RANDOM_PATH_BYTES];
                size_t len = random_path(&seed, path);
                struct pl_tree_op op = {
                    .op = PL_TREE_PUT, .path = path, .path_len = len, .entry = pl_entry_inline(PL_KIND_FILE, "x", 1)};

                (void)!pl_tree_edit(&source, &sink, &root, &op, 1, &root, NULL); /* name conflicts leave it as it is */
            }
            roots[t] = root;
        }
        assert_ok(plan_of(spec, &source, roots, &plan, &err), &err);
        for (size_t d = 0; d < plan->n_datums; d++) {
            lens[d & 1] = pl_plan_enum_key(plan, d, keys[d & 1]);
            if (d > 0)
                assert_true(pl_key_cmp(keys[~d & 1], lens[~d & 1], keys[d & 1], lens[d & 1]) < 0);
        }
        pl_plan_destroy(plan);
        pl_spec_destroy(spec);
        memory_finish(&m);
    }
}

static void a_long_enumeration_key_becomes_its_hash(void **state)
{
    static const struct {
        size_t path_len, key_len;
    } cases[] = {{PL_ENUM_KEY_MAX - 3, PL_ENUM_KEY_MAX}, {PL_ENUM_KEY_MAX - 2, 33}};
    char path[PL_PATH_MAX_BYTES + 1];
    const char *files[] = {path};
    uint8_t key[PL_ENUM_KEY_MAX], exact[PL_ENUM_KEY_MAX + 1] = {0};
    struct pl_hash hash;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct memory m = {0};
        struct pl_spec *spec;
        struct pl_plan *plan;
        size_t len = cases[i].path_len;

        for (size_t p = 0; p < len; p++)
            path[p] = p % 100 == 99 ? '/' : 'p';
        path[len] = '\0';
        plan = plan_one(&m, "\"input\": {\"repo\": \"r\", \"glob\": \"/p**p\"}", files, 1, &spec);
        assert_int_equal(pl_plan_match_of(plan, plan->n_datums - 1, 0)->path_len, len);
        assert_int_equal(pl_plan_enum_key(plan, plan->n_datums - 1, key), cases[i].key_len);
        memcpy(exact + 2, path, len);
        if (cases[i].key_len > 33) {
            assert_memory_equal(key, exact, len + 3);
        } else {
            pl_hash_sha256(exact, len + 3, &hash);
            assert_int_equal(key[0], 0xFF);
            assert_memory_equal(key + 1, hash.b, PL_HASH_BYTES);
        }
        pl_plan_destroy(plan);
        pl_spec_destroy(spec);
        memory_finish(&m);
    }
}

static void contents_are_those_of_the_match(void **state)
{
    static const char *const before[] = {"a/1=x", "a/2=y", "b/1=z"}, *const after[] = {"a/1=x", "a/2=changed", "b/1=z"};
    struct memory m = {0};
    struct pl_spec *specs[4];
    struct pl_plan *all = plan_one(&m, "\"input\": {\"repo\": \"r\", \"glob\": \"/*\"}", before, 3, &specs[0]);
    struct pl_plan *changed = plan_one(&m, "\"input\": {\"repo\": \"r\", \"glob\": \"/*\"}", after, 3, &specs[1]);
    struct pl_plan *ones =
        plan_one(&m, "\"input\": {\"repo\": \"r\", \"glob\": \"/*\", \"files\": [\"1\"]}", before, 3, &specs[2]);
    struct pl_plan *ones_changed =
        plan_one(&m, "\"input\": {\"repo\": \"r\", \"glob\": \"/*\", \"files\": [\"1\"]}", after, 3, &specs[3]);
    struct pl_hash a, b;

    (void)state;
    assert_false(pl_hash_eq(&all->keys[0], &changed->keys[0])); /* a/2 changed: datum a runs again, b does not */
    assert_true(pl_hash_eq(&all->keys[1], &changed->keys[1]));
    assert_true(pl_hash_eq(&ones->keys[0], &ones_changed->keys[0])); /* files it does not take do not count */
    assert_false(pl_hash_eq(&all->keys[0], &ones->keys[0]));
    pl_plan_datum_id(all, 0, &a);
    pl_plan_datum_id(changed, 0, &b);
    assert_true(pl_hash_eq(&a, &b)); /* a name, whatever the content */
    pl_plan_datum_id(all, 1, &b);
    assert_false(pl_hash_eq(&a, &b));
    pl_plan_destroy(all);
    pl_plan_destroy(changed);
    pl_plan_destroy(ones);
    pl_plan_destroy(ones_changed);
    for (size_t i = 0; i < 4; i++)
        pl_spec_destroy(specs[i]);
    memory_finish(&m);
}

static void the_root_is_its_tree(void **state)
{
    static const char *const files[] = {"a", "b"};
    struct memory m = {0};
    struct pl_hash root = tree_of(&m, files, 2);
    struct pl_spec *spec;
    struct pl_plan *plan = plan_one(&m, "\"input\": {\"repo\": \"r\"}", files, 2, &spec);

    (void)state;
    assert_true(pl_hash_eq(&pl_plan_match_of(plan, 0, 0)->content, &root));
    assert_int_equal(pl_plan_match_of(plan, 0, 0)->kind, PL_KIND_DIR);
    pl_plan_destroy(plan);
    pl_spec_destroy(spec);
    memory_finish(&m);
}

static void prefixes_are_rendered_for_each_datum(void **state)
{
    static const char *const files[] = {"cats/tom.jpg", "top.jpg"};
    static const struct {
        const char *glob, *prefix, *want[2];
    } cases[] = {
        {"/**/(*).jpg", "${r.1}/", {"tom/", "top/"}},
        {"/**/*.jpg", "${r.dir}/x-", {"cats/x-", "x-"}},
        {"/**/*.jpg", "", {"", ""}},
        {"/**/*.jpg", "${r.path}/", {"cats/tom.jpg/", "top.jpg/"}},
    };
    struct memory of_params = {0};
    struct pl_spec *params_spec;
    struct pl_plan *params =
        plan_one(&of_params,
                 "\"input\": {\"params\": {\"lr\": [0.1], \"name\": [\"b\", \"a\"]}}, \"output\": {\"prefix\": "
                 "\"lr=${params.lr}/${params.name}-\"}",
                 files, 2, &params_spec);
    struct pl_buf rendered = {0};

    (void)state;
    assert_int_equal(pl_plan_prefix(params, 1, &rendered, NULL), 0);
    assert_string_equal(pl_buf_str(&rendered), "lr=0.1/b-");
    pl_buf_finish(&rendered);
    pl_plan_destroy(params);
    pl_spec_destroy(params_spec);
    memory_finish(&of_params);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct memory m = {0};
        struct pl_spec *spec;
        char fields[256];
        struct pl_plan *plan;

        (void)snprintf(fields, sizeof(fields), "\"input\": {\"repo\": \"r\", \"glob\": \"%s\"}, \"output\": {\"prefix\": \"%s\"}",
                       cases[i].glob, cases[i].prefix);
        plan = plan_one(&m, fields, files, 2, &spec);
        assert_int_equal(plan->n_datums, 2);
        for (size_t d = 0; d < 2; d++) {
            struct pl_buf out = {0};

            assert_int_equal(pl_plan_prefix(plan, d, &out, NULL), 0);
            assert_string_equal(pl_buf_str(&out), cases[i].want[d]);
            pl_buf_finish(&out);
        }
        pl_plan_destroy(plan);
        pl_spec_destroy(spec);
        memory_finish(&m);
    }
}

/* n files "f0000000"…, flat. */
static struct pl_hash many_files(struct memory *m, unsigned n)
{
    struct pl_node_sink sink = sink_of(m, NULL);
    struct pl_tree_builder *b = NULL;
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_hash root;
    char path[16];

    assert_int_equal(pl_tree_builder_create(&sink, &b, NULL), 0);
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(path, sizeof(path), "f%07u", i);
        assert_int_equal(pl_tree_builder_add(b, path, 8, &e, NULL), 0);
    }
    assert_int_equal(pl_tree_builder_finish(b, &root, NULL, NULL), 0);
    pl_tree_builder_destroy(b);
    return root;
}

static void bounds_are_errors_that_say_which(void **state)
{
    struct memory m = {0};
    struct pl_node_source source = source_of(&m);
    struct pl_hash roots[2] = {many_files(&m, 5000), many_files(&m, 5000)};
    struct pl_spec *spec =
        spec_of("\"input\": {\"cross\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"b\", \"glob\": \"/*\"}]}");
    struct pl_plan_input inputs[2] = {{roots[0], &source}, {roots[1], &source}};
    struct pl_plan_request request = {.stage = &spec->stages[0], .inputs = inputs};
    struct pl_plan *plan = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_plan_create(&request, &plan, &err), PL_ELIMIT);
    assert_string_equal(err.msg, "stage s would have more than 16777216 datums (a 5000 × b 5000)");
    request.max_bytes = 1 << 20;
    assert_int_equal(pl_plan_create(&request, &plan, &err), PL_ELIMIT);
    assert_non_null(strstr(err.msg, "limit of 1 MiB"));
    pl_spec_destroy(spec);
    memory_finish(&m);
}

static void a_hundred_thousand_datums_stay_under_200_bytes_each(void **state)
{
    struct memory m = {0};
    struct pl_node_source source = source_of(&m);
    struct pl_hash root = many_files(&m, 100000);
    struct pl_spec *spec = spec_of("\"input\": {\"repo\": \"r\", \"glob\": \"/*\"}");
    struct pl_plan_input input = {root, &source};
    struct pl_plan_request request = {.stage = &spec->stages[0], .inputs = &input, .max_bytes = 100000 * (200 + 16)};
    struct pl_plan *plan = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_ok(pl_plan_create(&request, &plan, &err), &err);
    assert_int_equal(plan->n_datums, 100000);
    pl_plan_destroy(plan);
    pl_spec_destroy(spec);
    memory_finish(&m);
}

static void a_source_that_fails_is_named_by_its_input(void **state)
{
    struct memory m = {0};
    struct pl_node_source source = source_of(&m);
    struct pl_hash root = {{1}};
    struct pl_spec *spec = spec_of("\"input\": {\"repo\": \"photos\", \"glob\": \"/*\"}");
    struct pl_plan *plan = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(plan_of(spec, &source, &root, &plan, &err), PL_ENOTFOUND);
    assert_ptr_equal(strstr(err.msg, "input photos: "), err.msg);
    pl_spec_destroy(spec);
    memory_finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_glob_says_how_many_datums_there_are),
        cmocka_unit_test(what_is_skipped_could_not_have_matched),
        cmocka_unit_test(a_cross_takes_every_combination_the_first_input_slowest),
        cmocka_unit_test(unions_and_params_are_enumerated_in_spec_order),
        cmocka_unit_test(only_new_combinations_and_changed_inputs_that_count_have_new_keys),
        cmocka_unit_test(enumeration_keys_are_what_the_header_says),
        cmocka_unit_test(enumeration_keys_ascend_in_spec_order),
        cmocka_unit_test(a_long_enumeration_key_becomes_its_hash),
        cmocka_unit_test(contents_are_those_of_the_match),
        cmocka_unit_test(the_root_is_its_tree),
        cmocka_unit_test(prefixes_are_rendered_for_each_datum),
        cmocka_unit_test(bounds_are_errors_that_say_which),
        cmocka_unit_test(a_hundred_thousand_datums_stay_under_200_bytes_each),
        cmocka_unit_test(a_source_that_fails_is_named_by_its_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
