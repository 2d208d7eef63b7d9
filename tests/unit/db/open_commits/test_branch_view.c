// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* A branch with what gathers on it, against a map that the same operations are done to: every path that is asked for, and a walk from any
 * place. PL_TEST_SEEDS: how many random branches (40). */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/open_commits/branch_view.h"

#include <pthread.h>

#define PATHS  48
#define LAYERS 3

struct fixture {
    struct world *w;
    struct pl_pool *pool;
    struct pl_open_commits *opens;
    struct pl_head_cache *heads;
};

static void on_finished(void *self, const char *run)
{
    (void)self;
    (void)run;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pl_open_commits_config config;
    struct pl_err err = {0};
    char dir[PATH_MAX];

    f->w = calloc(1, sizeof *f->w);
    f->w->dir = fixture_dir();
    assert_ok(world_open(f->w, "data", &err), &err);
    assert_ok(world_step(f->w, 0, &err), &err); /* repo digits */
    assert_ok(pl_pool_create("test", 2, 100, &f->pool, &err), &err);
    assert_ok(pl_head_cache_create(f->w->db, &f->heads, &err), &err);
    snprintf(dir, sizeof dir, "%s/open", f->w->dir);
    config = (struct pl_open_commits_config){
        .db = f->w->db, .heads = f->heads, .stores = f->w->stores, .pool = f->pool, .dir = dir, .finished = on_finished};
    assert_ok(pl_open_commits_open(&config, &f->opens, &err), &err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_open_commits_stop(f->opens);
    pl_pool_destroy(f->pool);
    pl_open_commits_close(f->opens);
    pl_head_cache_destroy(f->heads);
    world_close(f->w);
    fixture_remove(f->w->dir);
    free(f->w);
    free(f);
    return 0;
}

/* ---- the model ---- */

/* What is at each path: 0 nothing, else which number was put there. */
struct shadow {
    int at[PATHS];
};

static const char *path_of(int i, char out[32])
{
    static const char *const folders[] = {"a", "a-b", "a.c", "b/c", "b/d", "e"};

    snprintf(out, 32, "%s/%02d", folders[i % 6], i / 6);
    return out;
}

static bool is_below(int i, const char *folder)
{
    char path[32];
    size_t n = strlen(folder);

    path_of(i, path);
    return n == 0 || (strncmp(path, folder, n) == 0 && path[n] == '/');
}

/* ---- operations ---- */

struct done {
    struct pl_open_commit_write write;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is;
    int r;
};

static void on_done(struct pl_open_commit_write *w, int r, const struct pl_err *err)
{
    struct done *d = PL_CONTAINER_OF(w, struct done, write);

    (void)err;
    pthread_mutex_lock(&d->lock);
    d->r = r;
    d->is = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
}

static int write_ops(struct pl_open_commit *c, const struct pl_tree_op *ops, size_t n,
                     int (*check)(struct pl_open_commit_write *w, const struct pl_branch_file *now, struct pl_err *err))
{
    struct done d = {.write = {.ops = ops, .n_ops = n, .bytes = 100, .check = check, .done = on_done},
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .wake = PTHREAD_COND_INITIALIZER};
    struct pl_err err = {0};

    assert_ok(pl_open_commit_write(c, &d.write, &err), &err);
    pthread_mutex_lock(&d.lock);
    while (!d.is)
        pthread_cond_wait(&d.wake, &d.lock);
    pthread_mutex_unlock(&d.lock);
    return d.r;
}

static struct pl_entry entry_of(int number)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d", number);

    return pl_entry_inline(PL_KIND_FILE, text, (size_t)n);
}

static int number_of(const struct pl_entry *e)
{
    char text[16];

    snprintf(text, sizeof text, "%.*s", (int)e->size, (const char *)e->data);
    return atoi(text);
}

static void one_op(struct pl_open_commit *c, struct shadow *m, uint64_t *rng, int number)
{
    static const char *const folders[] = {"a", "b", "b/c", "a-b", ""};
    struct pl_buf said = {0};
    struct pl_tree_op op = {0};
    char path[32];
    int i = (int)(pl_splitmix64(rng) % PATHS);
    const char *folder = folders[pl_splitmix64(rng) % 5];

    op.path = path_of(i, path);
    switch (pl_splitmix64(rng) % 12) {
    case 0:
        op = (struct pl_tree_op){.op = PL_TREE_DELETE_PREFIX, .path = folder};
        for (int k = 0; k < PATHS; k++)
            if (is_below(k, folder))
                m->at[k] = 0;
        break;
    case 1:
    case 2:
    case 3:
        op.op = PL_TREE_DELETE;
        m->at[i] = 0;
        break;
    default:
        op.op = PL_TREE_PUT;
        op.entry = entry_of(number);
        m->at[i] = number;
        if (number % 2) { /* odd ones bring attributes */
            assert_int_equal(pl_file_attributes_begin(&said, NULL), 0);
            assert_int_equal(pl_file_attributes_add_modified(&said, number, NULL), 0);
            op.attributes = (struct pl_file_attributes){said.data, said.len};
        }
    }
    op.path_len = strlen(op.path);
    assert_int_equal(write_ops(c, &op, 1, NULL), 0);
    pl_buf_finish(&said);
}

/* ---- comparing ---- */

static void assert_file(const struct pl_branch_file *f, int number)
{
    struct pl_entry want = entry_of(number);
    struct pl_file_attributes a = {f->attributes.data, f->attributes.len};

    assert_true(pl_entry_eq(&f->entry, &want));
    assert_int_equal(pl_file_attributes_modified(&a, -1), number % 2 ? number : -1);
}

static int by_path(const void *a, const void *b)
{
    char x[32], y[32];

    return strcmp(path_of(*(const int *)a, x), path_of(*(const int *)b, y));
}

static void assert_walk(const struct pl_branch_view *v, const struct shadow *m, const char *from)
{
    struct pl_branch_walk *w;
    struct pl_branch_item *item;
    int order[PATHS], i = 0, r;
    char path[32];

    for (int k = 0; k < PATHS; k++)
        order[k] = k;
    qsort(order, PATHS, sizeof *order, by_path);
    assert_int_equal(pl_branch_walk_create(v, &w, NULL), 0);
    assert_int_equal(pl_branch_walk_seek(w, from, strlen(from), NULL), 0);
    while ((r = pl_branch_walk_next(w, &item, NULL)) > 0) {
        if (r == PL_BRANCH_WALK_GONE)
            continue;
        while (i < PATHS && (!m->at[order[i]] || strcmp(path_of(order[i], path), from) < 0))
            i++;
        assert_true(i < PATHS);
        assert_string_equal(item->path, path_of(order[i], path));
        assert_file(&item->file, m->at[order[i]]);
        i++;
    }
    assert_int_equal(r, 0);
    for (; i < PATHS; i++)
        assert_true(!m->at[order[i]] || strcmp(path_of(order[i], path), from) < 0);
    pl_branch_walk_destroy(w);
}

static void assert_view(const struct pl_branch_view *v, const struct shadow *m)
{
    static const char *const folders[] = {"a", "b", "b/c", "a-b", "none"};
    struct pl_branch_file f = {0};
    char path[32];

    for (int i = 0; i < PATHS; i++) {
        int r;

        path_of(i, path);
        r = pl_branch_view_get(v, path, strlen(path), &f, NULL);

        if (r != (m->at[i] != 0))
            fail_msg("%s: %d, not %d, with %zu open commits", path, r, m->at[i], v->n_opens);
        if (r)
            assert_file(&f, m->at[i]);
    }
    pl_branch_file_finish(&f);
    for (size_t k = 0; k < PL_ARRAY_SIZE(folders); k++) {
        bool has = false;

        for (int i = 0; i < PATHS; i++)
            has |= m->at[i] && is_below(i, folders[k]);
        if (pl_branch_view_has_dir(v, folders[k], strlen(folders[k]), NULL) != has)
            fail_msg("directory %s: %d", folders[k], !has);
    }
    assert_walk(v, m, "");
    assert_walk(v, m, "a-b/03");
    assert_walk(v, m, "b");
    assert_walk(v, m, "zzz");
}

/* What is in the head is put by open commits that are finished, so that it has attributes too. */
static void views_are_what_the_operations_make(void **state)
{
    struct fixture *f = *state;
    const char *seeds = getenv("PL_TEST_SEEDS");
    uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 40;
    struct pl_open_commit_args args = {.project = "default", .repo = "digits", .branch = "master", .message = "", .author = ""};
    struct shadow m = {0};
    int number = 1;

    for (uint64_t seed = 1; seed <= n; seed++) {
        struct pl_open_commit *open[LAYERS], *list[LAYERS];
        struct pl_branch_view v = {0};
        struct pl_push_result result;
        struct shadow head = m;
        struct pl_err err = {0};
        uint64_t rng = seed;

        for (int i = 0; i < LAYERS; i++) {
            struct pl_store *store;

            assert_ok(pl_open_commits_start(f->opens, &args, &open[i], &err), &err);
            for (uint64_t k = pl_splitmix64(&rng) % 12; k > 0; k--)
                one_op(open[i], &m, &rng, number++);
            memcpy(list, open, sizeof list);
            assert_ok(pl_project_stores_get(f->w->stores, "default", &store, &err), &err);
            assert_ok(pl_branch_view_init(f->heads, NULL, store, "digits", "master", &v, &err), &err);
            v.opens = list;
            v.n_opens = (size_t)i + 1;
            assert_view(&v, &m);
        }
        m = head; /* one of them becomes the head of the next turn; what the others did to it is forgotten */
        for (int i = 0; i < LAYERS; i++) {
            if (i == 0)
                assert_ok(pl_open_commit_finish(open[i], "", &result, &err), &err);
            else
                assert_ok(pl_open_commit_abort(open[i], "test", &err), &err);
            pl_open_commit_unref(open[i]);
        }
        {
            struct pl_store *store;
            struct pl_branch_file file = {0};
            char path[32];

            assert_ok(pl_project_stores_get(f->w->stores, "default", &store, &err), &err);
            assert_ok(pl_branch_view_init(f->heads, f->opens, store, "digits", "master", &v, &err), &err);
            assert_int_equal(v.n_opens, 0);
            for (int i = 0; i < PATHS; i++) {
                path_of(i, path);
                m.at[i] = 0;
                if (pl_branch_view_get(&v, path, strlen(path), &file, NULL) > 0)
                    m.at[i] = number_of(&file.entry);
            }
            pl_branch_file_finish(&file);
            assert_view(&v, &m);
            pl_branch_view_finish(&v);
        }
    }
}

/* ---- what is asked just before a put ---- */

static int want_nothing(struct pl_open_commit_write *w, const struct pl_branch_file *now, struct pl_err *err)
{
    (void)w;
    return now ? pl_err_set(err, PL_EEXISTS, "it is there") : 0;
}

static void a_condition_sees_all_that_was_taken_before(void **state)
{
    struct fixture *f = *state;
    struct pl_open_commit_args args = {.project = "default", .repo = "digits", .branch = "first", .message = "", .author = ""};
    struct pl_tree_op put = {.op = PL_TREE_PUT, .path = "a", .path_len = 1, .entry = entry_of(1)},
                      gone = {.op = PL_TREE_DELETE, .path = "a", .path_len = 1};
    struct pl_push_result result;
    struct pl_err err = {0};
    struct pl_open_commit *c;

    assert_ok(pl_open_commits_gather(f->opens, &args, 60000, &c, &err), &err);
    assert_int_equal(write_ops(c, &put, 1, want_nothing), 0);
    assert_int_equal(write_ops(c, &put, 1, want_nothing), PL_EEXISTS);
    assert_int_equal(write_ops(c, &gone, 1, NULL), 0);
    assert_int_equal(write_ops(c, &put, 1, want_nothing), 0);
    assert_ok(pl_open_commit_finish(c, "", &result, &err), &err);
    pl_open_commit_unref(c);
    assert_ok(pl_open_commits_gather(f->opens, &args, 60000, &c, &err), &err);
    assert_int_equal(write_ops(c, &put, 1, want_nothing), PL_EEXISTS); /* in the head */
    pl_open_commit_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(views_are_what_the_operations_make, setup, teardown),
        cmocka_unit_test_setup_teardown(a_condition_sees_all_that_was_taken_before, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
