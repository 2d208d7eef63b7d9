// link: pipelined/merge pipelined/plan storage/base storage/tree storage/tree_edit
/* plan and commit from a base against plan and commit in full: random repos, stages, edits and failures, and both must agree in every
 * datum, in what is run, and in every byte of output, owner tree and datum table. */
#include "tests/unit/plan/plan_fixture.h"

#include "pipelined/merge/merge.h"
#include "pipelined/merge/merge_incremental.h"
#include "storage/tree_edit/tree_ops.h"

#define REPOS      3
#define ROUNDS     8
#define DATUMS_MAX 200 /* a seed with more ends there: it costs much and shows little */
#define TABLES_MAX 9   /* the base and the 8 before it */

/* A result that a datum has: its row, whose bytes are kept here. */
struct result {
    struct pl_datum_row row;
    uint8_t ops[PL_DATUM_ROW_INLINE_OPS_MAX];
};

struct world {
    uint64_t seed;
    struct memory m;
    const struct pl_tree_params *params;
    struct pl_hash repos[REPOS];
    unsigned round;
    bool skip; /* datums that fail are left out */
    /* the last commit */
    bool has_base;
    struct pl_spec *base_spec;
    struct pl_hash base_code, base_roots[PL_SPEC_LEAVES_MAX];
    struct pl_merge_incremental_roots base;
    struct pl_map base_keys; /* enumeration key → datum key of the base; of a datum that failed, a wrong one */
    struct pl_hash tables[TABLES_MAX];
    size_t n_tables;
    struct pl_map kept; /* datum key → result of jobs that failed since */
    /* what the seeds came to, so that a test that compares nothing is seen */
    uint64_t again, partials, datums, planned, gone, carried, collisions, failed, commits, reused_old, expect_failed, dirs;
};

/* ---- random stages ---- */

static const char *const globs[] = {"/",    "/*",           "/*",         "/*",         "/**",   "/*/*",
                                    "/a/*", "/a*/(*)",      "/{a,d}/**",  "/**/m?",     "/*/m1", "/d!/*",
                                    "/d",   "/(*)/{m0,m1}", "/**/m[0-2]", "/{a,b/d}/*", "/a.b",  "/a/**/b"};
static const char *const files[] = {
    "", "", "", ", \"files\": [\"m*\"]", ", \"files\": [\"/a\"]", ", \"files\": [\"b\", \"a.b\"]"};

/* A stage as it is made up. */
struct making {
    uint64_t *seed;
    unsigned n; /* leaves so far: their names */
    bool has_union, has_params;
    char text[1500];
    size_t len;
};

static void say(struct making *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct making *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    m->len += (size_t)vsnprintf(m->text + m->len, sizeof(m->text) - m->len, format, args);
    va_end(args);
    assert_true(m->len < sizeof(m->text));
}

static void random_leaf(struct making *m)
{
    if (!m->has_params && m->n > 0 && pick(m->seed, 6) == 0) {
        m->has_params = true;
        say(m, "{\"params\": {\"k\": [1, 2, 10]}}");
        return;
    }
    say(m, "{\"repo\": \"r%u\", \"name\": \"i%u\", \"glob\": \"%s\"%s%s}", (unsigned)pick(m->seed, REPOS), m->n++,
        globs[pick(m->seed, PL_ARRAY_SIZE(globs))], files[pick(m->seed, PL_ARRAY_SIZE(files))],
        pick(m->seed, 6) == 0 ? ", \"reference\": true" : "");
}

static void random_tree(struct making *m, unsigned depth)
{
    size_t children = 1 + pick(m->seed, 3);
    bool sum = pick(m->seed, 3) == 0;

    if (depth == 0 || m->n > 4 || pick(m->seed, 3) == 0) {
        random_leaf(m);
        return;
    }
    m->has_union = m->has_union || sum;
    say(m, "{\"%s\": [", sum ? "union" : "cross");
    for (size_t i = 0; i < children; i++) {
        say(m, "%s", i > 0 ? ", " : "");
        random_tree(m, depth - 1);
    }
    say(m, "]}");
}

static struct pl_spec *random_spec(uint64_t *seed)
{
    static const char *const prefixes[] = {"", "", "${datum}/", "${i0.path}/", "${i0.stem}-"};
    static const char *const rest[] = {"", "", "", ", \"cache\": {\"code\": false}", ", \"cache\": {\"salt\": \"x\"}"};
    static const char *const expects[] = {
        "", "", "", "", ", \"expect\": [\"/**/f1\"]", ", \"expect\": [\"/**/e[01]\", \"/**/own\"]"};
    struct making m = {.seed = seed};

    say(&m, "\"input\": ");
    random_tree(&m, (unsigned)pick(seed, 4));
    say(&m, ", \"output\": {\"prefix\": \"%s\"%s}%s", prefixes[pick(seed, m.has_union ? 3 : PL_ARRAY_SIZE(prefixes))],
        expects[pick(seed, PL_ARRAY_SIZE(expects))], rest[pick(seed, PL_ARRAY_SIZE(rest))]);
    return spec_of(m.text);
}

/* ---- random edits ---- */

/* Of few segments, among them such as sort before "/". */
static size_t few_paths(uint64_t *seed, char out[RANDOM_PATH_BYTES])
{
    static const char *const segments[] = {"a", "b", "a.b", "d", "d!", "m0", "m1"};
    size_t depth = 1 + (pick(seed, 4) != 0) + (pick(seed, 3) == 0), n = 0;

    for (size_t i = 0; i < depth; i++)
        n += (size_t)sprintf(out + n, "%s%s", i > 0 ? "/" : "", segments[pick(seed, PL_ARRAY_SIZE(segments))]);
    return n;
}

/* Some puts and deletes, now and then of a whole folder or of everything. */
static void edit_repo(struct world *w, struct pl_hash *root, size_t n, bool fill)
{
    struct pl_node_source source = source_of(&w->m);
    struct pl_node_sink sink = sink_of(&w->m, w->params);

    for (size_t i = 0; i < n; i++) {
        char path[RANDOM_PATH_BYTES];
        struct pl_tree_op op = {.op = PL_TREE_PUT, .path = path, .path_len = few_paths(&w->seed, path)};

        op.entry = random_entry(&w->seed);
        if (pick(&w->seed, 2) == 0) /* of few contents: what changes may be the kind alone */
            op.entry = pl_entry_inline(pick(&w->seed, 3) == 0 ? PL_KIND_EXEC : PL_KIND_FILE, &"ab"[pick(&w->seed, 2)], 1);
        if (fill)
            op.op = PL_TREE_PUT;
        else if (pick(&w->seed, 3) == 0)
            op.op = PL_TREE_DELETE;
        else if (pick(&w->seed, 8) == 0)
            op.op = PL_TREE_DELETE_PREFIX;
        if (!fill && pick(&w->seed, 100) == 0) {
            op.op = PL_TREE_DELETE_PREFIX;
            op.path_len = 0;
        }
        if (pl_tree_edit(&source, &sink, root, &op, 1, root, NULL) < 0)
            continue; /* a name that conflicts is left out */
    }
}

/* ---- what datums write ---- */

/* Mostly files of its own, and folders that others write as well; now and then a file that collides. */
static const char *const shared[][4] = {{"e0/", "e1/x/"}, {"e0/x/", "e1/"}, {"e0/"}, {"e1/x/y/"}, {"e0/x/y/"}, {"e1/"}};

static uint64_t bits_of(const struct pl_hash *h)
{
    uint64_t bits;

    memcpy(&bits, h->b, sizeof(bits));
    return bits;
}

static int text_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Writes the paths into `paths`, ascending; "/" at the end: an empty directory. */
static size_t outputs_of(uint64_t *bits, char (*paths)[RANDOM_PATH_BYTES])
{
    const char *const *list = shared[pick(bits, PL_ARRAY_SIZE(shared))];
    unsigned own = (unsigned)pick(bits, 100000);
    size_t n = 0;

    if (pick(bits, 4) != 0)
        (void)snprintf(paths[n++], RANDOM_PATH_BYTES, "own/%u", own);
    if (pick(bits, 3) == 0)
        (void)snprintf(paths[n++], RANDOM_PATH_BYTES, "own-%u/f%u", own, (unsigned)pick(bits, 2));
    if (pick(bits, 3) == 0) /* below a folder that another has empty */
        (void)snprintf(paths[n++], RANDOM_PATH_BYTES, "e%u/x/y/z%u", (unsigned)pick(bits, 2), own);
    else if (pick(bits, 3) == 0)
        for (size_t i = 0; i < 2 && list[i] != NULL; i++)
            strcpy(paths[n++], list[i]);
    if (pick(bits, 40) == 0)
        strcpy(paths[n++], "own/same");
    if (pick(bits, 100) == 0)
        strcpy(paths[n++], "e2");
    else if (pick(bits, 30) == 0)
        strcpy(paths[n++], "e2/");
    qsort(paths, n, RANDOM_PATH_BYTES, text_compare);
    return n;
}

/* A datum is run: the same key gives the same outputs. */
static struct result *run_datum(struct world *w, const struct pl_hash *key)
{
    uint64_t bits = bits_of(key);
    char paths[8][RANDOM_PATH_BYTES];
    struct result *res = calloc(1, sizeof(*res));
    struct pl_buf ops = {0};
    struct pl_tree_ops_writer writer = {0};
    struct pl_node_sink sink = sink_of(&w->m, w->params);
    struct pl_tree_builder *tree = NULL;
    size_t n = outputs_of(&bits, paths);
    struct pl_err err = {0};

    assert_non_null(res);
    res->row = (struct pl_datum_row){.state = PL_ROW_SUCCESS, .key = *key};
    memcpy(res->row.run, &w->round, sizeof(w->round));
    assert_ok(pl_tree_ops_writer_init(&writer, &ops, &err), &err);
    assert_ok(pl_tree_builder_create(&sink, &tree, &err), &err);
    for (size_t i = 0; i < n; i++) {
        struct pl_entry e = pl_entry_inline(PL_KIND_FILE, key->b, 8);
        size_t len = strlen(paths[i]);

        if (paths[i][len - 1] == '/') {
            e = pl_entry_dir();
            len--;
            w->dirs++;
        }
        assert_ok(pl_tree_ops_writer_put(&writer, paths[i], len, &e, &err), &err);
        assert_ok(pl_tree_builder_add(tree, paths[i], len, &e, &err), &err);
    }
    assert_ok(pl_tree_ops_writer_end(&writer, &err), &err);
    assert_ok(pl_tree_builder_finish(tree, &res->row.root, NULL, &err), &err);
    res->row.outputs = n == 0 ? PL_ROW_NO_OUTPUT : (enum pl_datum_row_outputs)(PL_ROW_INLINE + pick(&bits, 2));
    if (res->row.outputs != PL_ROW_TREE)
        res->row.root = (struct pl_hash){0};
    if (res->row.outputs == PL_ROW_INLINE) {
        memcpy(res->ops, ops.data, ops.len);
        res->row.ops = res->ops;
        res->row.ops_len = ops.len;
    }
    pl_tree_builder_destroy(tree);
    pl_tree_ops_writer_finish(&writer);
    pl_buf_finish(&ops);
    return res;
}

/* ---- reuse, by the rules of the engine ---- */

static struct result *copy_row(const struct pl_datum_row *row)
{
    struct result *res = calloc(1, sizeof(*res));

    assert_non_null(res);
    res->row = *row;
    if (row->outputs == PL_ROW_INLINE) {
        memcpy(res->ops, row->ops, row->ops_len);
        res->row.ops = res->ops;
    }
    return res;
}

/* The row of an earlier commit, from the base on; NULL: none. */
static struct result *find_row(struct world *w, const struct pl_plan *p, size_t d, size_t n_tables)
{
    uint8_t key[PL_ENUM_KEY_MAX];
    size_t len = pl_plan_enum_key(p, d, key);
    struct pl_node_source source = source_of(&w->m);
    struct pl_err err = {0};

    for (size_t i = 0; i < n_tables; i++) {
        struct pl_tree_cursor *cursor = NULL;
        struct result *res = NULL;
        struct pl_datum_row row;
        int r;

        assert_ok(pl_tree_cursor_create(&source, &w->tables[i], NULL, 0, &cursor, &err), &err);
        r = pl_datum_table_find(cursor, key, len, &p->keys[d], &row, &err);
        assert_ok(r, &err);
        res = r > 0 ? copy_row(&row) : NULL;
        pl_tree_cursor_destroy(cursor);
        if (res != NULL)
            return res;
    }
    return NULL;
}

/* A result for every datum: reused, or run; NULL where it fails. `ret_runs`: which were run. */
static void results_of(struct world *w, const struct pl_plan *p, struct result **results, bool *runs)
{
    for (size_t d = 0; d < p->n_datums; d++) {
        const struct result *kept = pl_map_get(&w->kept, p->keys[d].b, PL_HASH_BYTES);
        uint64_t luck = bits_of(&p->keys[d]) + w->round * 7919;

        results[d] = find_row(w, p, d, w->n_tables);
        if (results[d] == NULL && kept != NULL)
            results[d] = copy_row(&kept->row);
        runs[d] = results[d] == NULL;
        if (runs[d] && pick(&luck, w->skip ? 20 : 150) != 0)
            results[d] = run_datum(w, &p->keys[d]);
    }
}

/* ---- a job: plan and results ---- */

struct job {
    struct pl_plan *plan;
    struct result **results;
    bool *runs;
    size_t n_runs, failed;
    struct pl_map by_key; /* enumeration key → datum, plus 1 */
};

static void job_finish(struct job *j)
{
    for (size_t d = 0; j->plan != NULL && d < j->plan->n_datums; d++)
        free(j->results[d]);
    free(j->results);
    free(j->runs);
    pl_map_finish(&j->by_key, NULL);
    pl_plan_destroy(j->plan);
}

static void job_results(struct world *w, struct job *j)
{
    uint8_t key[PL_ENUM_KEY_MAX];

    j->results = calloc(j->plan->n_datums + 1, sizeof(struct result *));
    j->runs = calloc(j->plan->n_datums + 1, sizeof(bool));
    assert_true(j->results != NULL && j->runs != NULL);
    results_of(w, j->plan, j->results, j->runs);
    for (size_t d = 0; d < j->plan->n_datums; d++) {
        size_t len = pl_plan_enum_key(j->plan, d, key);

        assert_int_equal(pl_map_put(&j->by_key, key, len, (void *)(d + 1), NULL, NULL), 0);
        j->n_runs += j->runs[d];
        j->failed += j->results[d] == NULL;
    }
}

static size_t datum_at(const struct job *j, const uint8_t *key, size_t len)
{
    return (size_t)pl_map_get(&j->by_key, key, len);
}

/* ---- the two plans agree ---- */

static void same_datum(const struct pl_plan *a, size_t x, const struct pl_plan *b, size_t y)
{
    struct pl_buf one = {0}, two = {0};
    struct pl_hash id, other;
    char text[256], other_text[256];

    assert_true(pl_hash_eq(&a->keys[x], &b->keys[y]));
    pl_plan_datum_id(a, x, &id);
    pl_plan_datum_id(b, y, &other);
    assert_true(pl_hash_eq(&id, &other));
    assert_string_equal(pl_plan_datum_text(a, x, text, sizeof(text)), pl_plan_datum_text(b, y, other_text, sizeof(other_text)));
    assert_int_equal(pl_plan_prefix(a, x, &one, NULL), pl_plan_prefix(b, y, &two, NULL));
    assert_true(one.len == two.len && (one.len == 0 || memcmp(one.data, two.data, one.len) == 0));
    pl_buf_finish(&one);
    pl_buf_finish(&two);
}

/* Planned: exactly the datums that the base lacks or has with another key, in the order of the full plan. */
static void check_planned(struct world *w, const struct job *full, const struct job *part)
{
    uint8_t key[PL_ENUM_KEY_MAX];
    size_t last = 0, changed = 0;

    for (size_t d = 0; d < part->plan->n_datums; d++) {
        size_t at = datum_at(full, key, pl_plan_enum_key(part->plan, d, key));

        if (at == 0)
            fail_msg("a datum is planned that is not there");
        if (at <= last)
            fail_msg("planned datums are not in spec order");
        last = at;
        same_datum(full->plan, at - 1, part->plan, d);
        assert_int_equal(full->runs[at - 1], part->runs[d]);
    }
    for (size_t d = 0; d < full->plan->n_datums; d++) {
        size_t len = pl_plan_enum_key(full->plan, d, key);
        const struct pl_hash *was = pl_map_get(&w->base_keys, key, len);
        bool planned = datum_at(part, key, len) != 0;

        if (planned != (was == NULL || !pl_hash_eq(was, &full->plan->keys[d])))
            fail_msg("a datum that %s is %s", was == NULL ? "is new" : "changed or not", planned ? "planned" : "not planned");
        assert_true(planned || !full->runs[d]);
        changed += planned;
    }
    assert_int_equal(changed, part->plan->n_datums);
    assert_int_equal(full->n_runs, part->n_runs);
}

static void check_gone(struct world *w, const struct job *full, const struct pl_plan *part)
{
    uint8_t key[PL_ENUM_KEY_MAX];
    const struct pl_map_slot *slot;
    size_t gone = 0;

    for (size_t i = 0; (slot = pl_map_next(&w->base_keys, &i)) != NULL;)
        gone += datum_at(full, slot->key, slot->key_len) == 0;
    assert_int_equal(part->n_gone, gone);
    for (size_t d = part->n_datums; d < part->n_datums + part->n_gone; d++) {
        size_t len = pl_plan_enum_key(part, d, key);

        assert_non_null(pl_map_get(&w->base_keys, key, len));
        assert_int_equal(datum_at(full, key, len), 0);
    }
}

/* ---- commits ---- */

static struct pl_datum_row failed_row(const struct world *w, const struct pl_hash *key)
{
    struct pl_datum_row row = {.state = PL_ROW_FAILED, .key = *key};

    memcpy(row.run, &w->round, sizeof(w->round));
    return row;
}

static int commit_full(struct world *w, const struct job *j, struct pl_merge_incremental_roots *ret, struct pl_tree_stats *stats,
                       struct pl_err *err)
{
    _cleanup_(pl_merge_destroyp) struct pl_merge *merge = NULL;
    struct pl_node_source source = source_of(&w->m);
    struct pl_node_sink sink = sink_of(&w->m, w->params);
    size_t n = j->plan->n_datums;
    struct pl_datum_table_row *rows = calloc(n + 1, sizeof(*rows));
    uint8_t(*keys)[PL_ENUM_KEY_MAX] = calloc(n + 1, sizeof(*keys));
    int r = pl_merge_create(j->plan, 0, &merge, err);

    assert_true(rows != NULL && keys != NULL);
    for (size_t d = 0; d < n && r == 0; d++) {
        const struct pl_datum_row left_out = failed_row(w, &j->plan->keys[d]);
        const struct pl_datum_row *row = j->results[d] != NULL ? &j->results[d]->row : &left_out;

        rows[d] = (struct pl_datum_table_row){keys[d], pl_plan_enum_key(j->plan, d, keys[d]), *row};
        r = j->results[d] != NULL ? pl_merge_datum(merge, d, err) : pl_merge_failed(merge, d, err);
        if (r == 0 && row->outputs == PL_ROW_INLINE)
            r = pl_merge_add_ops(merge, row->ops, row->ops_len, err);
        else if (r == 0 && row->outputs == PL_ROW_TREE)
            r = pl_merge_add_tree(merge, &source, &row->root, err);
    }
    r = r < 0 ? r : pl_merge_finish(merge, err);
    r = r < 0 ? r : pl_merge_expect(merge, err);
    r = r < 0 ? r : pl_merge_build(merge, &sink, &ret->output, &ret->owner, stats, err);
    r = r < 0 ? r : pl_datum_table_build(&sink, rows, n, &ret->table, err);
    free(rows);
    free(keys);
    return r;
}

static int commit_carried(struct world *w, const struct job *j, bool held, struct pl_merge_incremental_roots *ret,
                          struct pl_tree_stats *stats, struct pl_err *err)
{
    _cleanup_(pl_merge_incremental_destroyp) struct pl_carry *carry = NULL;
    struct pl_node_source source = source_of(&w->m);
    struct pl_node_sink sink = sink_of(&w->m, w->params);
    int r = pl_merge_incremental_create(j->plan, &w->base, &source, 0, &carry, err);

    for (size_t d = 0; d < j->plan->n_datums + j->plan->n_gone && r == 0; d++) {
        const struct pl_datum_row left_out = d < j->plan->n_datums ? failed_row(w, &j->plan->keys[d]) : (struct pl_datum_row){0};

        r = pl_merge_incremental_datum(carry, d,
                                       d >= j->plan->n_datums  ? NULL
                                       : j->results[d] != NULL ? &j->results[d]->row
                                                               : &left_out,
                                       err);
    }
    r = r < 0 ? r : pl_merge_incremental_finish(carry, &sink, ret, stats, err);
    return r < 0 ? r : pl_merge_incremental_expect(carry, held, err);
}

static void same_commits(struct world *w, const struct job *full, const struct job *part, bool held)
{
    struct pl_merge_incremental_roots a, b;
    struct pl_tree_stats sa = {0}, sb = {0};
    struct pl_err ea = {0}, eb = {0};
    int ra = commit_full(w, full, &a, &sa, &ea), rb = commit_carried(w, part, held, &b, &sb, &eb);

    if ((ra < 0) != (rb < 0) || (ra < 0 && ra != rb && ra != PL_EPATH))
        fail_msg("in full: %d %s; carried: %d %s", ra, ra < 0 ? ea.msg : "", rb, rb < 0 ? eb.msg : "");
    if (ra < 0)
        return;
    if (!pl_hash_eq(&a.output, &b.output))
        fail_msg("the outputs differ");
    if (!pl_hash_eq(&a.owner, &b.owner))
        fail_msg("the owners differ");
    if (!pl_hash_eq(&a.table, &b.table))
        fail_msg("the tables differ");
    assert_int_equal(sa.files, sb.files);
    assert_int_equal(sa.bytes, sb.bytes);
    w->carried++;
}

/* ---- a round ---- */

static void free_kept(struct world *w)
{
    pl_map_finish(&w->kept, free);
    w->kept = (struct pl_map){0};
}

static void keep_results(struct world *w, struct job *full)
{
    for (size_t d = 0; d < full->plan->n_datums; d++) {
        void *old = NULL;

        if (!full->runs[d] || full->results[d] == NULL)
            continue;
        assert_int_equal(pl_map_put(&w->kept, full->plan->keys[d].b, PL_HASH_BYTES, full->results[d], &old, NULL), 0);
        full->results[d] = NULL;
        free(old);
    }
}

/* The commit is the base from now on. Takes the spec. */
static void take_base(struct world *w, struct job *full, struct pl_spec *spec, const struct pl_hash *code,
                      const struct pl_hash *roots, const struct pl_merge_incremental_roots *made)
{
    uint8_t key[PL_ENUM_KEY_MAX];

    pl_map_finish(&w->base_keys, free);
    w->base_keys = (struct pl_map){0};
    for (size_t d = 0; d < full->plan->n_datums; d++) {
        struct pl_hash *copy = malloc(sizeof(*copy));
        size_t len = pl_plan_enum_key(full->plan, d, key);

        assert_non_null(copy);
        *copy = full->plan->keys[d];
        if (full->results[d] == NULL) {
            copy->b[0] ^= 1;
            w->again++;
        }
        assert_int_equal(pl_map_put(&w->base_keys, key, len, copy, NULL, NULL), 0);
    }
    if (w->base_spec != spec)
        pl_spec_destroy(w->base_spec);
    w->base_spec = spec;
    w->base_code = *code;
    memcpy(w->base_roots, roots, sizeof(w->base_roots));
    w->base = *made;
    memmove(w->tables + 1, w->tables, (TABLES_MAX - 1) * sizeof(*w->tables));
    w->tables[0] = made->table;
    w->n_tables = PL_MIN(w->n_tables + 1, (size_t)TABLES_MAX);
    w->has_base = true;
    free_kept(w);
    w->commits++;
}

static bool same_expect(const struct pl_stage *a, const struct pl_stage *b)
{
    bool same = a->output.n_expect == b->output.n_expect;

    for (size_t i = 0; same && i < a->output.n_expect; i++)
        same = pl_streq(a->output.expect[i], b->output.expect[i]);
    return same;
}

static void plan_both(struct world *w, const struct pl_spec *spec, const struct pl_hash *code, const struct pl_hash *roots,
                      struct job *full, struct job *part)
{
    struct pl_node_source source = source_of(&w->m);
    struct pl_plan_input inputs[PL_SPEC_LEAVES_MAX];
    struct pl_plan_request request = {.stage = &spec->stages[0], .inputs = inputs, .code_identity = *code};
    struct pl_err err = {0};
    bool follows = false;

    for (size_t i = 0; i < spec->stages[0].n_leaves; i++)
        inputs[i] = (struct pl_plan_input){.root = roots[i], .source = &source};
    assert_ok(pl_plan_create(&request, &full->plan, &err), &err);
    job_results(w, full);
    if (w->has_base)
        assert_ok(pl_plan_may_follow(&spec->stages[0], code, &w->base_spec->stages[0], &w->base_code, &follows, &err), &err);
    if (!follows)
        return;
    request.base = w->base_roots;
    request.base_datums = w->base_keys.len;
    request.base_source = &source;
    request.base_owner = w->base.owner;
    assert_ok(pl_plan_create(&request, &part->plan, &err), &err);
    job_results(w, part);
    w->partials++;
    w->planned += part->plan->n_datums;
    w->datums += full->plan->n_datums;
    w->gone += part->plan->n_gone;
    assert_int_equal(part->plan->n_total, full->plan->n_datums);
    check_planned(w, full, part);
    check_gone(w, full, part->plan);
}

static bool round_of(struct world *w, struct pl_spec *spec, const struct pl_hash *code)
{
    struct pl_hash roots[PL_SPEC_LEAVES_MAX] = {0};
    struct job full = {0}, part = {0};
    struct pl_merge_incremental_roots made;
    struct pl_tree_stats stats;
    struct pl_err err = {0};
    bool taken = false, small;
    int r;

    for (size_t i = 0; i < spec->stages[0].n_leaves; i++)
        if (pl_input_reads(spec->stages[0].leaves[i]))
            roots[i] = w->repos[spec->stages[0].leaves[i]->repo[1] - '0'];
    plan_both(w, spec, code, roots, &full, &part);
    small = full.plan->n_datums <= DATUMS_MAX;
    if (full.failed > 0 && !w->skip) {
        assert_true(part.plan == NULL || part.failed);
        keep_results(w, &full);
        w->failed++;
    } else {
        if (part.plan != NULL)
            same_commits(w, &full, &part, same_expect(&spec->stages[0], &w->base_spec->stages[0]));
        r = commit_full(w, &full, &made, &stats, &err);
        w->collisions += r == PL_ECOLLISION;
        w->expect_failed += r == PL_ESTAGE;
        if (r == 0)
            take_base(w, &full, spec, code, roots, &made);
        else
            keep_results(w, &full);
        taken = r == 0;
    }
    job_finish(&full);
    job_finish(&part);
    if (!taken && spec != w->base_spec)
        pl_spec_destroy(spec);
    return small;
}

/* The stage of the next round: mostly the base's, now and then with other code, or another stage altogether. */
static struct pl_spec *next_spec(struct world *w, struct pl_hash *code)
{
    if (pick(&w->seed, 12) == 0)
        code->b[0]++;
    if (w->has_base && pick(&w->seed, 10) != 0)
        return w->base_spec;
    return random_spec(&w->seed);
}

static void run_seed(struct world *total, uint64_t seed)
{
    struct world w = {.seed = seed};
    struct pl_hash code = {{1}};

    w.skip = pick(&w.seed, 2) == 0;
    w.params = &small_params[pick(&w.seed, SMALL_PARAMS)];
    for (size_t i = 0; i < REPOS; i++)
        edit_repo(&w, &w.repos[i], 4 + pick(&w.seed, 20), true);
    for (w.round = 1; w.round <= ROUNDS; w.round++) {
        if (!round_of(&w, next_spec(&w, &code), &code))
            break;
        for (size_t i = 0; i < REPOS; i++)
            edit_repo(&w, &w.repos[i], pick(&w.seed, 3) == 0 ? 0 : pick(&w.seed, 9), false);
    }
    total->again += w.again;
    total->partials += w.partials;
    total->datums += w.datums;
    total->planned += w.planned;
    total->gone += w.gone;
    total->carried += w.carried;
    total->collisions += w.collisions;
    total->failed += w.failed;
    total->commits += w.commits;
    total->expect_failed += w.expect_failed;
    total->dirs += w.dirs;
    pl_spec_destroy(w.base_spec);
    pl_map_finish(&w.base_keys, free);
    free_kept(&w);
    memory_finish(&w.m);
}

static uint64_t seed_now; /* 0: none is under way */

/* After the test: which seed it failed with. */
static int say_seed(void **state)
{
    (void)state;
    if (seed_now != 0)
        print_message("PL_SEED=%llu does it again\n", (unsigned long long)seed_now);
    return 0;
}

/* PL_SEED=n runs that one alone; PL_SEEDS=m so many, from there on. */
static void a_plan_from_a_base_is_the_full_plan(void **state)
{
    const char *one = getenv("PL_SEED"), *many = getenv("PL_SEEDS");
    uint64_t from = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t n = many != NULL ? strtoull(many, NULL, 10) : one != NULL ? 1 : 2000;
    struct world total = {0};

    (void)state;
    for (uint64_t seed = from; seed < from + n; seed++) {
        seed_now = seed;
        run_seed(&total, seed);
    }
    seed_now = 0;
    print_message("%llu partial plans of %llu datums: %llu planned, %llu failed, %llu gone, %llu commits carried; %llu "
                  "collisions, %llu jobs "
                  "failed, %llu "
                  "unmet expectations, %llu empty directories\n",
                  (unsigned long long)total.partials, (unsigned long long)total.datums, (unsigned long long)total.planned,
                  (unsigned long long)total.again, (unsigned long long)total.gone, (unsigned long long)total.carried,
                  (unsigned long long)total.collisions, (unsigned long long)total.failed, (unsigned long long)total.expect_failed,
                  (unsigned long long)total.dirs);
    if (n < 1000)
        return;
    assert_true(total.partials > n && total.planned > n && total.gone > n / 2 && total.carried > n);
    assert_true(total.collisions > n / 20 && total.failed > n / 50 && total.again > n / 10 && total.dirs > n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_plan_from_a_base_is_the_full_plan, say_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
