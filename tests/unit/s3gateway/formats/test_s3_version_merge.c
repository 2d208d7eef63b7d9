// link: pipelined/s3gateway/formats
/* Pages of versions against brute force, whatever prefix, delimiter and page, and how many changes a page reads. */
#include "pipelined/s3gateway/formats/s3_version_merge.h"

#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define STATES_MAX  400
#define CHANGES_MAX 1200

/* ---- streams in memory ---- */

struct item {
    char path[48];
    bool is_line, folder, marker;
};
struct world {
    size_t states;
    struct item *items[2 * STATES_MAX]; /* of each stream, in order of path */
    size_t n[2 * STATES_MAX];
    size_t reads; /* of all streams */
};

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->path, ((const struct item *)b)->path);
}

static int world_read(void *self, size_t stream, const char *from, size_t from_len,
                      int (*take)(void *arg, const struct pl_s3_change *change, struct pl_err *err), void *arg,
                      struct pl_err *err)
{
    struct world *w = self;
    size_t lo = 0, hi = w->n[stream];

    w->reads++;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const char *path = w->items[stream][mid].path;

        if (pl_key_cmp(path, strlen(path), from, from_len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < w->n[stream]; lo++) {
        const struct item *i = &w->items[stream][lo];
        struct pl_s3_change c = {i->path, strlen(i->path), i->is_line, i->folder, i->marker};
        int r = take(arg, &c, err);

        if (r <= 0)
            return r;
    }
    return 1;
}

static void add(struct world *w, size_t stream, const char *path, bool folder, bool marker)
{
    struct item *i;

    if (!w->items[stream])
        w->items[stream] = calloc(CHANGES_MAX, sizeof **w->items);
    for (size_t k = 0; k < w->n[stream]; k++)
        if (strcmp(w->items[stream][k].path, path) == 0)
            return;
    assert_true(w->n[stream] < CHANGES_MAX);
    i = &w->items[stream][w->n[stream]++];
    snprintf(i->path, sizeof i->path, "%s", path);
    i->folder = folder;
    i->marker = marker;
    i->is_line = !(folder && marker);
}

static void sort(struct world *w)
{
    for (size_t i = 0; i < 2 * w->states; i++)
        if (w->n[i])
            qsort(w->items[i], w->n[i], sizeof **w->items, by_path);
}

static void world_finish(struct world *w)
{
    for (size_t i = 0; i < 2 * w->states; i++)
        free(w->items[i]);
}

/* ---- the lines by brute force ---- */

struct expected {
    char key[52];
    size_t state;
    bool marker, shared;
};

static int by_key(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;
    int order = strcmp(x->key, y->key);

    return order ? order : (x->state > y->state) - (x->state < y->state);
}

static size_t all_lines(const struct world *w, const char *prefix, const char *delimiter, struct expected *out)
{
    size_t n = 0, kept = 0;

    for (size_t s = 0; s < 2 * w->states; s++) {
        for (size_t i = 0; i < w->n[s]; i++) {
            const struct item *it = &w->items[s][i];
            struct expected e = {.state = s / 2, .marker = it->marker};
            const char *at;

            snprintf(e.key, sizeof e.key, "%s%s", it->path, it->folder ? "/" : "");
            if (!it->is_line || strncmp(e.key, prefix, strlen(prefix)) != 0)
                continue;
            at = *delimiter ? strstr(e.key + strlen(prefix), delimiter) : NULL;
            if (at) {
                e.key[at - e.key + (ptrdiff_t)strlen(delimiter)] = '\0';
                e.state = 0;
                e.marker = false;
                e.shared = true;
            }
            out[n++] = e;
        }
    }
    qsort(out, n, sizeof *out, by_key);
    for (size_t i = 0; i < n; i++)
        if (!kept || by_key(&out[kept - 1], &out[i]) != 0)
            out[kept++] = out[i];
    return kept;
}

/* Reads all pages of `size` lines, which end early after `steps_max` changes, and compares them with `want`. Returns
 * the most changes that a page read. */
static uint64_t check_short_pages(struct world *w, const char *prefix, const char *delimiter, size_t size, uint64_t steps_max,
                                  const struct expected *want, size_t n)
{
    struct pl_s3_change_source source = {w, w->states, world_read};
    struct pl_s3_version_question a = {
        .prefix = prefix, .delimiter = delimiter, .key_marker = "", .max = size, .steps_max = steps_max};
    char marker[52], read_to[52] = "";
    uint64_t most = 0;
    size_t at = 0;
    bool more = true;

    while (more) {
        struct pl_s3_version_page page = {0};
        struct pl_err err = {0};

        assert_int_equal(pl_s3_version_merge(&source, &a, &page, &err), 0);
        for (size_t i = 0; i < page.n; i++, at++) {
            assert_true(at < n);
            assert_string_equal(page.lines[i].key, want[at].key);
            assert_int_equal(page.lines[i].state, want[at].state);
            assert_int_equal(page.lines[i].shared, want[at].shared);
            assert_int_equal(page.lines[i].marker, want[at].marker);
        }
        more = page.truncated;
        /* only a page that ended early may be followed by one without a line */
        assert_true(more ? at < n || page.read_to || steps_max < PL_S3_MERGE_STEPS_MAX : at == n);
        assert_true(!page.read_to || more);
        most = PL_MAX(most, page.steps);
        if (page.read_to) {
            assert_true(strcmp(page.read_to, read_to) > 0); /* it goes on */
            snprintf(read_to, sizeof read_to, "%s", page.read_to);
            a.key_marker = read_to;
            a.within_key = true;
            a.marker_state = SIZE_MAX;
        } else if (more) {
            const struct pl_s3_version_line *last = &page.lines[page.n - 1];

            snprintf(marker, sizeof marker, "%s", last->key);
            a.key_marker = marker;
            a.within_key = !last->shared;
            a.marker_state = last->state;
        }
        pl_s3_version_page_finish(&page);
    }
    return most;
}

static uint64_t check_pages(struct world *w, const char *prefix, const char *delimiter, size_t size, const struct expected *want,
                            size_t n)
{
    return check_short_pages(w, prefix, delimiter, size, PL_S3_MERGE_STEPS_MAX, want, n);
}

/* ---- tests ---- */

static void pages_are_those_of_the_definition(void **state)
{
    static const char *const segments[] = {"a", "a-b", "a.b", "b", "-", "z"};
    static const char *const prefixes[] = {"", "a", "a/", "a-", "b/a", "zz"}, *const delimiters[] = {"", "/", "-", "b/"};
    static struct expected want[STATES_MAX * CHANGES_MAX];

    (void)state;
    srand(1);
    for (int round = 0; round < 60; round++) {
        struct world w = {.states = 1 + (size_t)rand() % 6};

        for (int i = 0; i < 40; i++) {
            char path[48];
            size_t n = (size_t)rand() % 2;

            snprintf(path, sizeof path, "%s", segments[rand() % 6]);
            for (size_t k = 0; k < n; k++)
                snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", segments[rand() % 6]);
            add(&w, (size_t)rand() % (2 * w.states), path, rand() % 3 == 0, rand() % 4 == 0);
        }
        /* a path is either a folder or a file within a state, and its kind is the same in both streams */
        for (size_t s = 0; s < w.states; s++)
            for (size_t i = 0; i < w.n[2 * s + 1]; i++)
                w.items[2 * s + 1][i].folder = w.items[2 * s + 1][i].marker = false, w.items[2 * s + 1][i].is_line = true;
        for (size_t s = 0; s < w.states; s++)
            for (size_t i = 0; i < w.n[2 * s]; i++)
                for (size_t k = 0; k < w.n[2 * s + 1]; k++)
                    if (strcmp(w.items[2 * s][i].path, w.items[2 * s + 1][k].path) == 0)
                        w.items[2 * s][i].folder = w.items[2 * s][i].marker = false, w.items[2 * s][i].is_line = true;
        sort(&w);
        for (size_t p = 0; p < PL_ARRAY_SIZE(prefixes); p++)
            for (size_t d = 0; d < PL_ARRAY_SIZE(delimiters); d++) {
                size_t n = all_lines(&w, prefixes[p], delimiters[d], want);

                for (size_t size = 1; size <= 7; size += 2)
                    check_pages(&w, prefixes[p], delimiters[d], size, want, n);
                for (uint64_t steps = 1; steps <= 7; steps += 6)
                    check_short_pages(&w, prefixes[p], delimiters[d], 3, steps, want, n);
            }
        world_finish(&w);
    }
}

/* 400 commits of 300 changes: whichever page, it reads a few changes of each commit, not the 120,000 of all. */
static void a_page_reads_what_it_holds(void **state)
{
    static struct expected want[STATES_MAX * CHANGES_MAX];
    struct world w = {.states = STATES_MAX};
    uint64_t most;
    size_t n;

    (void)state;
    for (size_t s = 0; s < w.states; s++)
        for (size_t i = 0; i < 300; i++) {
            char path[48];

            /* newer commits have lesser keys: what they change replaces all that was found before */
            snprintf(path, sizeof path, "k%03zu-%03zu", s, i);
            add(&w, 2 * s, path, false, false);
        }
    sort(&w);
    n = all_lines(&w, "", "", want);
    assert_int_equal(n, 300 * STATES_MAX);
    most = check_pages(&w, "", "", 1000, want, n);
    /* one change of each commit, and the lines with what their batches read ahead */
    assert_true(most <= 2 * STATES_MAX + 4 * 1000);
    world_finish(&w);
}

static void a_common_prefix_is_not_read_through(void **state)
{
    static struct expected want[STATES_MAX * CHANGES_MAX];
    struct world w = {.states = 3};
    char path[48];
    uint64_t most;
    size_t n;

    (void)state;
    for (size_t s = 0; s < w.states; s++)
        for (size_t i = 0; i < 1000; i++) {
            snprintf(path, sizeof path, "d%zu/%04zu", i / 250, i);
            add(&w, 2 * s, path, false, false);
        }
    sort(&w);
    n = all_lines(&w, "", "/", want);
    assert_int_equal(n, 4);
    most = check_pages(&w, "", "/", 10, want, n);
    assert_true(most < 100);
    world_finish(&w);
}

/* The attributes of deleted files are changes that make no line. */
static void changes_without_a_line_are_read_as_far_as_the_page_goes(void **state)
{
    static struct expected want[STATES_MAX * CHANGES_MAX];
    struct world w = {.states = 4};
    char path[48];
    size_t n;

    (void)state;
    for (size_t s = 0; s < 2 * w.states; s++)
        for (size_t i = 0; i < 1000; i++) {
            snprintf(path, sizeof path, "f%04zu", i);
            add(&w, s, path, false, s % 2 == 0);
            w.items[s][i].is_line = s % 2 == 0;
        }
    n = all_lines(&w, "", "", want);
    assert_int_equal(n, 4000);
    assert_true(check_pages(&w, "", "", 8, want, n) < 150);
    world_finish(&w);
}

/* More changes without a line between two files than a page reads: "a", 1,200,000 changes, "z". */
static int desert_read(void *self, size_t stream, const char *from, size_t from_len,
                       int (*take)(void *arg, const struct pl_s3_change *change, struct pl_err *err), void *arg,
                       struct pl_err *err)
{
    size_t first = 0;

    (void)self;
    if (stream)
        return 1;
    if (from_len && *from > 'm')
        first = 1200001;
    else if (from_len && *from == 'm')
        first = 1 + strtoul(from + 1, NULL, 10) + (from_len > 8);
    else if (from_len > 1 || (from_len && *from > 'a'))
        first = 1;
    for (size_t i = first; i < 1200002; i++) {
        bool line = i == 0 || i == 1200001;
        char path[16];
        struct pl_s3_change c = {.path = path, .is_line = line, .folder = !line};
        int r;

        if (line)
            snprintf(path, sizeof path, "%s", i ? "z" : "a");
        else
            snprintf(path, sizeof path, "m%07zu", i - 1);
        c.path_len = strlen(path);
        r = take(arg, &c, err);
        if (r <= 0)
            return r;
    }
    return 1;
}

/* Reads the page behind `key_marker`, and checks that it read no more than it may. */
static void read_desert(const char *delimiter, const char *key_marker, struct pl_s3_version_page *ret)
{
    struct pl_s3_change_source source = {NULL, 1, desert_read};
    struct pl_s3_version_question a = {.prefix = "",
                                       .delimiter = delimiter,
                                       .key_marker = key_marker,
                                       .within_key = *key_marker,
                                       .marker_state = SIZE_MAX,
                                       .max = 10,
                                       .steps_max = PL_S3_MERGE_STEPS_MAX};

    assert_int_equal(pl_s3_version_merge(&source, &a, ret, NULL), 0);
    assert_true(ret->steps <= PL_S3_MERGE_STEPS_MAX + PL_S3_MERGE_BATCH_MAX);
}

static void a_page_ends_within_many_changes_that_make_no_line(void **state)
{
    static const char *const delimiters[] = {"", "0"}; /* with "0", the changes have a common prefix */

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(delimiters); i++) {
        struct pl_s3_version_page page = {0}, next = {0}, behind = {0};

        read_desert(delimiters[i], "", &page);
        assert_int_equal(page.n, 1);
        assert_string_equal(page.lines[0].key, "a");
        assert_true(page.truncated);
        read_desert(delimiters[i], page.read_to, &next);
        assert_int_equal(next.n, 1);
        assert_string_equal(next.lines[0].key, "z");
        assert_false(next.truncated);
        /* a page that begins within the changes may have no line at all */
        read_desert(delimiters[i], "m0000001", &behind);
        assert_int_equal(behind.n, 0);
        assert_true(behind.truncated);
        assert_true(strcmp(behind.read_to, page.read_to) > 0);
        pl_s3_version_page_finish(&page);
        pl_s3_version_page_finish(&next);
        pl_s3_version_page_finish(&behind);
    }
}

/* Each of many commits changed a key before the prefix and one behind it. */
static int untouched_read(void *self, size_t stream, const char *from, size_t from_len,
                          int (*take)(void *arg, const struct pl_s3_change *change, struct pl_err *err), void *arg,
                          struct pl_err *err)
{
    static const char *const paths[] = {"a", "z"};
    size_t *reads = self;

    (*reads)++;
    for (size_t i = 0; i < PL_ARRAY_SIZE(paths) && stream % 2 == 0; i++) {
        struct pl_s3_change c = {.path = paths[i], .path_len = 1, .is_line = true};
        int r = pl_key_cmp(c.path, 1, from, from_len) < 0 ? 1 : take(arg, &c, err);

        if (r <= 0)
            return r;
    }
    return 1;
}

static void a_prefix_that_no_commit_touched_costs_three_readings_of_each(void **state)
{
    size_t reads = 0;
    struct pl_s3_change_source source = {&reads, 10000, untouched_read};
    struct pl_s3_version_question a = {
        .prefix = "m/", .delimiter = "", .key_marker = "", .max = 1000, .steps_max = PL_S3_MERGE_STEPS_MAX};
    struct pl_s3_version_page page = {0};

    (void)state;
    assert_int_equal(pl_s3_version_merge(&source, &a, &page, NULL), 0);
    assert_int_equal(page.n, 0);
    assert_false(page.truncated);
    /* its files, its attributes, and whether "m" is an empty folder */
    assert_int_equal(reads, 3 * source.states);
    assert_int_equal(page.steps, 2 * source.states);
    pl_s3_version_page_finish(&page);
}

/* "-", "--", "---" … may each be an empty folder whose key is behind the marker. */
static void folders_before_a_page_are_not_looked_up_byte_by_byte(void **state)
{
    struct world w = {.states = STATES_MAX};
    struct pl_s3_change_source source = {&w, w.states, world_read};
    struct pl_s3_version_question a = {.prefix = "", .delimiter = "", .max = 10, .steps_max = PL_S3_MERGE_STEPS_MAX};
    struct pl_s3_version_page page = {0};
    char marker[1025];

    (void)state;
    memset(marker, '-', sizeof marker - 1);
    marker[sizeof marker - 1] = '\0';
    a.key_marker = marker;
    for (size_t s = 0; s < w.states; s++) {
        add(&w, 2 * s, "---", true, false);
        add(&w, 2 * s, "a", false, false);
    }
    assert_int_equal(pl_s3_version_merge(&source, &a, &page, NULL), 0);
    assert_int_equal(page.n, 10);
    assert_string_equal(page.lines[0].key, "---/");
    assert_true(w.reads <= 5 * w.states);
    pl_s3_version_page_finish(&page);
    world_finish(&w);
}

/* Each state has all paths that the marker begins with: they must be looked up, but not without end. */
static int dashes_read(void *self, size_t stream, const char *from, size_t from_len,
                       int (*take)(void *arg, const struct pl_s3_change *change, struct pl_err *err), void *arg,
                       struct pl_err *err)
{
    size_t *reads = self;
    struct pl_s3_change c = {.path = from, .path_len = from_len};

    (*reads)++;
    return stream % 2 ? 1 : take(arg, &c, err);
}

static void look_ups_of_folders_are_bounded(void **state)
{
    size_t reads = 0;
    struct pl_s3_change_source source = {&reads, 10000, dashes_read};
    struct pl_s3_version_question a = {.prefix = "", .delimiter = "", .max = 10, .steps_max = PL_S3_MERGE_STEPS_MAX};
    struct pl_s3_version_page page = {0};
    char marker[1025];

    (void)state;
    memset(marker, '-', sizeof marker - 1);
    marker[sizeof marker - 1] = '\0';
    a.key_marker = marker;
    assert_int_equal(pl_s3_version_merge(&source, &a, &page, NULL), PL_S3_SLOW_DOWN);
    assert_true(reads <= PL_S3_MERGE_STEPS_MAX + 1);
    pl_s3_version_page_finish(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_those_of_the_definition),
        cmocka_unit_test(a_page_reads_what_it_holds),
        cmocka_unit_test(a_common_prefix_is_not_read_through),
        cmocka_unit_test(changes_without_a_line_are_read_as_far_as_the_page_goes),
        cmocka_unit_test(a_page_ends_within_many_changes_that_make_no_line),
        cmocka_unit_test(a_prefix_that_no_commit_touched_costs_three_readings_of_each),
        cmocka_unit_test(folders_before_a_page_are_not_looked_up_byte_by_byte),
        cmocka_unit_test(look_ups_of_folders_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
