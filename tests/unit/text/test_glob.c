// link: pipelined/text storage/base
/* glob: what each pattern matches, captures and refuses; a naive matcher as oracle; no pattern takes long. */
#include "pipelined/text/glob.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static struct pl_glob *compile(const char *pattern)
{
    struct pl_glob *g = NULL;
    struct pl_err err = {0};

    if (pl_glob_compile(pattern, &g, &err) < 0)
        fail_msg("%s", err.msg);
    return g;
}

static const struct {
    const char *pattern, *path;
    bool matches;
} paths[] = {
    /* as in Pachyderm's matcher */
    {"* ?at * eyes", "my cat has very bright eyes", true},
    {"*ä", "åä", true},
    {"abc", "abc", true},
    {"a*c", "abc", true},
    {"a*c", "a12345c", true},
    {"a?c", "a1c", true},
    {"a?c", "aäc", true},
    {"a/*", "a/b", true},
    {"a/**", "a/b/c", true},
    {"a/?/c", "a/b/c", true},
    {"a/?/?", "a/b/c", true},
    {"?at", "cat", true},
    {"?at", "at", false},
    {"\\*", "*", true},
    {"**", "a/b/c", true},
    {"a/*", "a/b/c", false},
    {"a/?/c", "a/bb/c", false},
    {"*", "a/b/c", false},
    {"?at", "/at", false},
    {"*is*a*", "this is a test", true},
    {"**test**", "this is a test", true},
    {"**is**a***test*", "this is a test", true},
    {"*is", "this is a test", false},
    {"[!a]*", "this is a test3", true},
    {"*abc", "abcabc", true},
    {"?*?", "ac", true},
    {"sta", "stagnation", false},
    {"sta?n", "stagnation", false},
    {"{abc,def}ghi", "defghi", true},
    {"{abc,abcd}a", "abcda", true},
    {"{a,ab}{bc,f}", "abc", true},
    {"{*,**}{a,b}", "ab", true},
    {"{*,**}{a,b}", "ac", false},
    {"[a-z]", "c", true},
    {"[a-z]", "C", false},
    {"[[:alpha:]]", "C", true},
    {"[[:alpha:]]", "5", false},
    {"[[:^alpha:]]", ".", true},
    {"[^[:alpha:]]", ".", true},
    {"/{rate,[a-z][a-z][a-z]}*", "rate", true},
    {"/{rate,[0-9][0-9][0-9]}*", "rate", true},
    {"*/{,*.}example.com", "x/www.example.com", true},
    {"*/{,*.}example.com", "x/example.com", true},
    {"*/{,*.}example.com", "x/example.com.net", false},
    {"[a-z][!a-x]*cat*[h][!b]*eyes*", "my cat has very bright eyes", true},
    {"[a-z][!a-x]*cat*[h][!b]*eyes*", "my dog has very bright eyes", false},
    {"test/(a|b)", "hi/123", false},
    /* slashes at the ends do not count */
    {"/train/*.csv", "train/b1.csv", true},
    {"train/*.csv", "train/b1.csv", true},
    {"/*/", "dir", true},
    {"/train/*.csv", "train/x/b1.csv", false},
    {"/train/*.csv", "Train/b1.csv", false},
    /* the root */
    {"/", "", true},
    {"/", "a", false},
    {"/*", "", false},
    {"/**", "", false},
    {"{**,a}", "", false},
    /* two stars as a segment */
    {"/**/*.jpg", "a.jpg", true},
    {"/**/*.jpg", "x/y/a.jpg", true},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**/b", "a/xb", false},
    {"a/**/b", "axb", false},
    {"a/**", "a", false},
    {"a/**", "a/b", true},
    {"**/a", "ba", false},
    {"**/a", "b/a", true},
    {"**/**/a", "a", true},
    /* two stars elsewhere */
    {"**.2", "dir/file.2", true},
    {"a**z", "a/b/z", true},
    /* classes never take a slash */
    {"a[!b]c", "a/c", false},
    {"a[/]c", "a/c", false},
    {"a[[:punct:]]c", "a/c", false},
    {"[]a]", "]", true},
    {"[a-]", "-", true},
    {"[\\]]", "]", true},
    {"[ä-ö]", "ï", true},
    {"[!ä]", "b", true},
    /* escapes and plain characters */
    {"\\{a\\}", "{a}", true},
    {"a\\(b\\)", "a(b)", true},
    {"a]b", "a]b", true},
    {"a|b,c", "a|b,c", true},
    {"@+!^", "@+!^", true},
    {"{a/b,c}/d", "a/b/d", true},
    {"{a{b,c},d}", "ac", true},
    {"{,a}b", "b", true},
};

static void paths_that_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(paths); i++) {
        struct pl_glob *g = compile(paths[i].pattern);

        if (pl_glob_match(g, paths[i].path, strlen(paths[i].path), NULL) != paths[i].matches)
            fail_msg("%s on \"%s\": not %d", paths[i].pattern, paths[i].path, paths[i].matches);
        pl_glob_destroy(g);
    }
}

static void captures_are_those_of_a_greedy_matcher(void **state)
{
    static const struct {
        const char *pattern, *path;
        const char *captures[4]; /* "-": took no part */
    } cases[] = {
        {"test/(a|b)/x.go", "test/a/x.go", {"a"}},
        {"test/(a|b)/x.go", "test/b/x.go", {"b"}},
        {"test/(a|b)/(*).go", "test/a/x.go", {"a", "x"}},
        {"/(*)/(*).jpg", "cats/tom.jpg", {"cats", "tom"}},
        {"(*)(*)", "abc", {"abc", ""}},
        {"(*)-(*)", "a-b-c", {"a-b", "c"}},
        {"({a,ab})(*)", "abc", {"a", "bc"}},
        {"({ab,a})(*)", "abc", {"ab", "c"}},
        {"{(a),(b)}c", "bc", {"-", "b"}},
        {"((a)(b))", "ab", {"ab", "a", "b"}},
        {"(**)/x", "a/b/x", {"a/b"}},
        {"**/(*).csv", "a/b/c.csv", {"c"}},
        {"(ä*)", "äöü", {"äöü"}},
        {"fold-([0-9])", "fold-3", {"3"}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_glob *g = compile(cases[i].pattern);
        struct pl_span spans[PL_GLOB_CAPTURES_MAX];

        assert_true(pl_glob_match(g, cases[i].path, strlen(cases[i].path), spans));
        for (unsigned c = 0; c < pl_glob_captures(g); c++) {
            char got[64] = "-";

            if (spans[c].start != PL_SPAN_NONE)
                (void)snprintf(got, sizeof(got), "%.*s", spans[c].end - spans[c].start, cases[i].path + spans[c].start);
            assert_string_equal(got, cases[i].captures[c]);
        }
        assert_true(pl_glob_captures(g) == 4 || cases[i].captures[pl_glob_captures(g)] == NULL);
        pl_glob_destroy(g);
    }
}

static void bad_patterns_are_refused_with_their_column(void **state)
{
    static const struct {
        const char *pattern, *says;
    } cases[] = {
        {"", "the glob is empty"},
        {"/a(b", "column 3: ( is never closed"},
        {"/ä/(b", "column 4: ( is never closed"},
        {"{a,b", "column 1: { is never closed"},
        {"{a,(b}", "column 6: } closes no group"},
        {"a}", "column 2: } closes no group"},
        {"a)", "column 2: ) closes no group"},
        {"[ab", "column 1: [ is never closed"},
        {"[]", "column 1: [ is never closed"},
        {"[z-a]", "column 2: the range is reversed"},
        {"[[:foo:]]", "column 2: [:foo:] is not a character class"},
        {"[[:alpha]", "column 2: [: is never closed by :]"},
        {"a\\", "column 2: \\ must be followed by a character"},
        {"/*(a)", "column 2: *( is not supported"},
        {"/@(a|b)", "column 2: @( is not supported"},
        {"/+(a)", "column 2: +( is not supported"},
        {"/?(a)", "column 2: ?( is not supported"},
        {"/!(a)", "column 2: !( is not supported"},
        {"a//b", "column 3: an empty segment"},
        {"a/../b", "column 3: a path cannot contain the segment \"..\""},
        {"./a", "column 1: a path cannot contain the segment \".\""},
        {"a\tb", "column 2: a path cannot contain the control byte 0x09"},
        {"\xff", "not valid UTF-8"},
        {"(((((((((((((((((a)))))))))))))))))", "16"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_err err = {0};
        struct pl_glob *g = NULL;

        assert_int_equal(pl_glob_compile(cases[i].pattern, &g, &err), PL_EGLOB);
        assert_null(g);
        if (strstr(err.msg, cases[i].says) == NULL)
            fail_msg("%s", err.msg);
    }
}

static void where_to_seek_and_what_to_skip(void **state)
{
    static const struct {
        const char *pattern, *prefix;
    } prefixes[] = {{"/train/*.csv", "train/"}, {"/", ""},      {"/a/b", "a/b"}, {"/a\\*/b?", "a*/b"}, {"/{a,b}", ""},
                    {"a/**/b", "a/"},           {"a/(*)", "a/"}};
    static const struct {
        const char *pattern, *dir;
        bool below;
    } dirs[] = {
        {"/*", "a", false},          {"/*/*", "a", true}, {"/*/*", "a/b", false},   {"/train/*.csv", "train", true},
        {"/train/*", "test", false}, {"/**", "a", true},  {"/a/**/b", "a/x", true}, {"/{a/b,c}", "a", true},
        {"/{a/b,c}", "c", false},    {"/", "", true},     {"/a", "", true},         {"/train/*.csv", "tra", false},
    };
    size_t len;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(prefixes); i++) {
        struct pl_glob *g = compile(prefixes[i].pattern);
        const char *prefix = pl_glob_prefix(g, &len);

        assert_int_equal(len, strlen(prefixes[i].prefix));
        assert_memory_equal(prefix, prefixes[i].prefix, len);
        pl_glob_destroy(g);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(dirs); i++) {
        struct pl_glob *g = compile(dirs[i].pattern);

        if (((pl_glob_test(g, dirs[i].dir, strlen(dirs[i].dir), NULL) & PL_GLOB_BELOW) != 0) != dirs[i].below)
            fail_msg("%s below %s", dirs[i].pattern, dirs[i].dir);
        pl_glob_destroy(g);
    }
}

static void files_of_a_match(void **state)
{
    static const struct {
        const char *patterns[3];
        const char *path;
        bool takes;
    } cases[] = {
        {{NULL}, "anything/at/all", true},
        {{"*.npz"}, "a.npz", true},
        {{"*.npz"}, "deep/down/a.npz", true},
        {{"*.npz"}, "a.csv", false},
        {{"*.npz", "*.csv"}, "a.csv", true},
        {{"/model.npz"}, "model.npz", true},
        {{"/model.npz"}, "x/model.npz", false},
        {{"predictions.csv"}, "b1/predictions.csv", true},
        {{"**/metrics.json"}, "metrics.json", true},
        {{"a/*.csv"}, "a/x.csv", true},
        {{"a/*.csv"}, "b/a/x.csv", false},
        /* a directory that matches takes all in it */
        {{"/plots"}, "plots/a/b.png", true},
        {{"plots/"}, "x/plots/b.png", true},
        {{"plots"}, "plotsx/b.png", false},
        {{"/"}, "a", true},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_glob_set *set = NULL;
        size_t n = 0;

        while (n < 3 && cases[i].patterns[n] != NULL)
            n++;
        assert_int_equal(pl_glob_set_compile(cases[i].patterns, n, &set, NULL), 0);
        if (pl_glob_set_takes(set, cases[i].path, strlen(cases[i].path)) != cases[i].takes)
            fail_msg("%s on %s", cases[i].patterns[0] != NULL ? cases[i].patterns[0] : "nothing", cases[i].path);
        pl_glob_set_destroy(set);
    }
}

/* ---- the oracle: alternatives written out, then plain backtracking over one wildcard at a time (single-byte characters) ---- */

static bool naive(const char *p, const char *whole, const char *s);

/* Two stars at p: as a whole segment any number of segments, elsewhere any characters. */
static bool naive_super(const char *p, const char *whole, const char *s)
{
    bool segment = (p == whole || p[-1] == '/') && (p[2] == '/' || p[2] == '\0');

    if (segment && p[2] == '/') {
        if (naive(p + 3, whole, s))
            return true;
        for (const char *t = s; *t != '\0'; t++)
            if (*t == '/' && t > s && naive(p + 3, whole, t + 1))
                return true;
        return false;
    }
    for (const char *t = s + segment; t <= s + strlen(s); t++)
        if (naive(p + 2, whole, t))
            return true;
    return false;
}

static bool naive_star(const char *p, const char *whole, const char *s)
{
    for (const char *t = s;; t++) {
        if (naive(p + 1, whole, t))
            return true;
        if (*t == '\0' || *t == '/')
            return false;
    }
}

/* [ab] or [!a]: all that the generator makes. */
static bool naive_class(const char *p, const char *whole, const char *s)
{
    bool in = p[1] == '!' ? *s != p[2] : *s == p[1] || *s == p[2];

    return *s != '/' && in && naive(strchr(p, ']') + 1, whole, s + 1);
}

static bool naive(const char *p, const char *whole, const char *s)
{
    if (*p == '\0')
        return *s == '\0';
    if (p[0] == '*')
        return p[1] == '*' ? naive_super(p, whole, s) : naive_star(p, whole, s);
    if (*s == '\0')
        return false;
    if (*p == '?')
        return *s != '/' && naive(p + 1, whole, s + 1);
    if (*p == '[')
        return naive_class(p, whole, s);
    return *p == *s && naive(p + 1, whole, s + 1);
}

static bool naive_alternatives(const char *pattern, const char *s)
{
    const char *open = strchr(pattern, '{'), *close, *comma;
    char flat[128];

    if (open == NULL)
        return naive(pattern, pattern, s);
    close = strchr(open, '}');
    comma = strchr(open, ',');
    (void)snprintf(flat, sizeof(flat), "%.*s%.*s%s", (int)(open - pattern), pattern, (int)(comma - open - 1), open + 1,
                   close + 1);
    if (naive_alternatives(flat, s))
        return true;
    (void)snprintf(flat, sizeof(flat), "%.*s%.*s%s", (int)(open - pattern), pattern, (int)(close - comma - 1), comma + 1,
                   close + 1);
    return naive_alternatives(flat, s);
}

/* Two stars are generated as a whole segment or next to letters only, and alternatives hold letters: the places where writing out
 * alternatives would change what a segment is do not occur. */
static void random_patterns_match_as_the_oracle_says(void **state)
{
    static const char *const items[] = {"a", "b", "a", "/", "*", "?", "[ab]", "[!a]", "{a,b}", "{ab,}", "/**/", "a**b"};
    uint64_t seed = 3, matched = 0;

    (void)state;
    for (unsigned round = 0; round < 60000; round++) {
        char pattern[64] = "", path[16];
        struct pl_glob *g = NULL;
        size_t len = 0, n = pl_splitmix64(&seed) % 6 + 1;
        bool want;

        for (size_t i = 0; i < n; i++)
            strcat(pattern, items[pl_splitmix64(&seed) % PL_ARRAY_SIZE(items)]);
        for (size_t i = pl_splitmix64(&seed) % 8 + 1; i > 0; i--)
            path[len++] = "aabb/"[pl_splitmix64(&seed) % 5];
        path[len] = '\0';
        if (pl_path_check(path, len, NULL) < 0 || strstr(pattern, "**{") != NULL || strstr(pattern, "***") != NULL ||
            strstr(pattern, "}**") != NULL || pattern[0] == '/' || pattern[strlen(pattern) - 1] == '/' ||
            strstr(pattern, "}*") != NULL || strstr(pattern, "*{") != NULL || pl_glob_compile(pattern, &g, NULL) < 0)
            continue;
        want = naive_alternatives(pattern, path);
        matched += want;
        if (pl_glob_match(g, path, len, NULL) != want)
            fail_msg("%s on %s: not %d", pattern, path, want);
        for (size_t i = 1; i < len; i++) { /* nothing below a directory matches unless it is said to be possible */
            if (path[i] == '/' && want)
                assert_true((pl_glob_test(g, path, i, NULL) & PL_GLOB_BELOW) != 0);
        }
        pl_glob_destroy(g);
    }
    assert_true(matched > 1000);
}

static void no_pattern_takes_long(void **state)
{
    char pattern[PL_GLOB_MAX_BYTES + 1] = "", path[PL_PATH_MAX_BYTES + 1] = "";
    struct pl_glob *g;
    clock_t start;

    (void)state;
    for (unsigned i = 0; i < 250; i++)
        strcat(pattern, "a**");
    strcat(pattern, "b");
    memset(path, 'a', PL_PATH_MAX_BYTES);
    for (unsigned i = 200; i < PL_PATH_MAX_BYTES; i += 200)
        path[i] = '/';
    g = compile(pattern);
    start = clock();
    assert_false(pl_glob_match(g, path, PL_PATH_MAX_BYTES, NULL));
    assert_true(clock() - start < CLOCKS_PER_SEC); /* backtracking would outlive us */
    pl_glob_destroy(g);
}

/* Literal beginnings are free: a thousand names are a small list, some hundred stars in each glob are not. */
static void globs_that_are_too_large_together_are_refused(void **state)
{
    const char *patterns[200];
    char dear[601] = "", literal[601] = "/";
    struct pl_glob_set *set;
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < 600; i += 2)
        memcpy(dear + i, "*a", 3);
    memset(literal + 1, 'a', sizeof literal - 2);
    for (size_t i = 0; i < PL_ARRAY_SIZE(patterns); i++)
        patterns[i] = dear;
    assert_int_equal(pl_glob_set_compile(patterns, PL_ARRAY_SIZE(patterns), &set, &err), PL_ELIMIT);
    for (size_t i = 0; i < PL_ARRAY_SIZE(patterns); i++)
        patterns[i] = literal;
    assert_int_equal(pl_glob_set_compile(patterns, PL_ARRAY_SIZE(patterns), &set, &err), 0);
    assert_true(pl_glob_set_cost(set, 1000) < 1000 * 1000);
    pl_glob_set_destroy(set);
}

static void a_pattern_that_is_too_large_is_refused(void **state)
{
    char pattern[PL_GLOB_MAX_BYTES + 64] = "";
    struct pl_glob *g = NULL;
    struct pl_err err = {0};

    (void)state;
    for (unsigned i = 0; i < PL_GLOB_CAPTURES_MAX; i++)
        strcat(pattern, "(a)");
    for (unsigned i = 0; i < 200; i++)
        strcat(pattern, "a**");
    assert_int_equal(pl_glob_compile(pattern, &g, &err), PL_EGLOB);
    assert_non_null(strstr(err.msg, "too large"));
    memset(pattern, 'a', PL_GLOB_MAX_BYTES + 1);
    assert_int_equal(pl_glob_compile(pattern, &g, &err), PL_EGLOB);
    pattern[PL_GLOB_MAX_BYTES] = '\0';
    assert_int_equal(pl_glob_compile(pattern, &g, &err), 0);
    pl_glob_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_match),
        cmocka_unit_test(captures_are_those_of_a_greedy_matcher),
        cmocka_unit_test(bad_patterns_are_refused_with_their_column),
        cmocka_unit_test(where_to_seek_and_what_to_skip),
        cmocka_unit_test(files_of_a_match),
        cmocka_unit_test(random_patterns_match_as_the_oracle_says),
        cmocka_unit_test(no_pattern_takes_long),
        cmocka_unit_test(globs_that_are_too_large_together_are_refused),
        cmocka_unit_test(a_pattern_that_is_too_large_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
