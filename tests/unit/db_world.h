/* db_world: a store with its database in a folder, a fixed workload of transactions on it, and a model of what the workload makes that
 * shares no code with the product: the state after each number of steps as text, to be compared with the database's. */
#pragma once

#include "tests/unit/store_fixture.h"
#include "tests/unit/world_read.h"

#include "pipelined/db/pipelines/pipeline_tx.h"
#include "pipelined/db/tx/commit_tx.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/plan/datum_identity.h"
#include "pipelined/spec/spec.h"
#include "storage/chunk/chunk_list.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/fsck/fsck.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/project_stores.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_ops.h"

#include <limits.h>

/* ---- the workload ---- */

enum step_kind {
    PROJECT,
    REPO,
    REPO_DELETE,
    BRANCH,
    BRANCH_DELETE,
    PUSH,
    COMMIT_DELETE,
    PIPELINE,
    PIPELINE_DELETE,
    JOB,
    RUN_END
};

/* `text` of a push: +path:size puts a file of that many bytes, -path deletes one, !path deletes it with all below; in order of paths.
 * Of a branch: the one it starts from. Of a pipeline: its stages, which all read repo "digits". Of a job: its stage; of a run's end: its
 * state; both of the newest run. */
struct step {
    enum step_kind kind;
    const char *project, *repo, *branch, *text;
};

static const struct step workload[] = {
    {REPO, "default", "digits", "", ""},
    {PUSH, "default", "digits", "master", "+a/1:10 +a/2:3000 +b:64"},
    {PROJECT, "vision", "", "", "without network"},
    {REPO, "vision", "cats", "", ""},
    {PUSH, "default", "digits", "master", "-a/1 +a/3:65 +c/x/y:0"},
    {PUSH, "vision", "cats", "master", "+big:300000 +small:1"},
    {BRANCH, "default", "digits", "dev", "master"},
    {PUSH, "default", "digits", "dev", "!a +b:100000"},
    {PUSH, "default", "digits", "master", "+a/2:3001 !c"},
    {PIPELINE, "default", "flow", "", "prepare"},
    {RUN_END, "", "", "", "killed"},
    {PIPELINE, "default", "flow", "", "prepare train"},
    {JOB, "default", "prepare", "", "success"},
    {RUN_END, "", "", "", "success"},
    {PUSH, "vision", "cats", "dev", "+only:7"},
    {BRANCH_DELETE, "default", "digits", "dev", ""},
    {PUSH, "default", "digits", "master", "+a/4:20 +d:1000"},
    {RUN_END, "", "", "", "failure"},
    {COMMIT_DELETE, "default", "digits", "master", ""},
    {PIPELINE_DELETE, "default", "flow", "", ""},
    {REPO_DELETE, "vision", "cats", "", ""},
    {PUSH, "default", "digits", "master", "!b +e:5"},
};
#define STEPS PL_ARRAY_SIZE(workload)

/* One operation of a push's text; `*text` moves on. */
struct word {
    char op;
    char path[32];
    size_t size;
};

static UNUSED bool next_word(const char **text, struct word *ret)
{
    int used = 0;

    *ret = (struct word){0};
    if (sscanf(*text, " %c%31[^: ]%n", &ret->op, ret->path, &used) < 2)
        return false;
    *text += used;
    if (ret->op == '+')
        ret->size = strtoul(*text + 1, (char **)(uintptr_t)text, 10);
    return true;
}

/* What the file at `path` holds after it was put by step `step`. */
static UNUSED uint8_t *content_of(size_t step, const char *path, size_t size)
{
    uint64_t seed = step * 1000;

    for (const char *p = path; *p; p++)
        seed = seed * 31 + (uint8_t)*p;
    return fixture_alloc(size, seed);
}

/* ---- the model ---- */

struct model_file {
    char path[32];
    size_t step, size;
};

struct model_branch {
    char name[16];
    struct model_file files[16];
    size_t n;
    char history[4096]; /* newest commit first */
    int generation;
};

struct model_repo {
    char project[16], name[16];
    bool output;
    struct model_branch branches[4];
    size_t n;
};

struct model {
    struct model_repo repos[6];
    size_t n;
    char projects[64], runs[16][64], pipeline[64], job[64];
    size_t n_runs;
    int version;
};

static UNUSED struct model_repo *model_repo(struct model *m, const char *project, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (pl_streq(m->repos[i].project, project) && pl_streq(m->repos[i].name, name))
            return &m->repos[i];
    return NULL;
}

static UNUSED struct model_branch *model_branch(struct model_repo *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (pl_streq(r->branches[i].name, name))
            return &r->branches[i];
    return NULL;
}

static UNUSED void model_repo_add(struct model *m, const char *project, const char *name, bool output)
{
    struct model_repo *r = model_repo(m, project, name);

    if (r)
        return;
    r = &m->repos[m->n++];
    *r = (struct model_repo){.output = output};
    strcpy(r->project, project);
    strcpy(r->name, name);
}

static UNUSED void model_repo_remove(struct model *m, const char *project, const char *name)
{
    struct model_repo *r = model_repo(m, project, name);

    assert_non_null(r);
    memmove(r, r + 1, (size_t)(&m->repos[--m->n] - r) * sizeof *r);
}

static UNUSED void model_remove_files(struct model_branch *b, const struct word *w)
{
    size_t len = strlen(w->path), kept = 0;

    for (size_t i = 0; i < b->n; i++) {
        const char *path = b->files[i].path;
        bool same = pl_streq(path, w->path);
        bool below = w->op == '!' && strncmp(path, w->path, len) == 0 && path[len] == '/';

        if (!same && !below)
            b->files[kept++] = b->files[i];
    }
    b->n = kept;
}

static UNUSED int file_order(const void *a, const void *b)
{
    return strcmp(((const struct model_file *)a)->path, ((const struct model_file *)b)->path);
}

/* A line for the commit, one for each of its files. */
static UNUSED void describe_commit(struct pl_buf *out, int64_t generation, const char *message, int64_t files, int64_t bytes)
{
    assert_int_equal(
        pl_buf_addf(out, NULL, "    commit %d \"%s\" %d files %d bytes\n", (int)generation, message, (int)files, (int)bytes), 0);
}

static UNUSED void describe_file(struct pl_buf *out, const char *path, const void *bytes, size_t n)
{
    struct pl_hash id;
    char hex[PL_HASH_HEX + 1];

    pl_hash_sha256(bytes, n, &id);
    assert_int_equal(pl_buf_addf(out, NULL, "      %s %zu %.16s\n", path, n, pl_hash_hex(&id, hex)), 0);
}

static UNUSED void model_push(struct model *m, size_t step)
{
    const struct step *s = &workload[step];
    struct model_repo *r = model_repo(m, s->project, s->repo);
    struct model_branch *b = model_branch(r, s->branch);
    struct pl_buf text = {0};
    const char *at = s->text;
    struct word w;
    size_t total = 0;

    if (!b) {
        b = &r->branches[r->n++];
        *b = (struct model_branch){0};
        strcpy(b->name, s->branch);
    }
    while (next_word(&at, &w)) {
        model_remove_files(b, &w);
        if (w.op == '+') {
            b->files[b->n] = (struct model_file){.step = step, .size = w.size};
            strcpy(b->files[b->n++].path, w.path);
        }
    }
    qsort(b->files, b->n, sizeof b->files[0], file_order);
    for (size_t i = 0; i < b->n; i++)
        total += b->files[i].size;
    describe_commit(&text, ++b->generation, s->text, (int64_t)b->n, (int64_t)total);
    for (size_t i = 0; i < b->n; i++) {
        uint8_t *bytes = content_of(b->files[i].step, b->files[i].path, b->files[i].size);

        describe_file(&text, b->files[i].path, bytes, b->files[i].size);
        free(bytes);
    }
    assert_int_equal(pl_buf_add_str(&text, b->history, NULL), 0);
    assert_true(text.len < sizeof b->history);
    strcpy(b->history, pl_buf_str(&text));
    pl_buf_finish(&text);
    snprintf(m->runs[m->n_runs++], 64, "push \"%s\" running", s->text);
}

/* The newest push of the workload's master branch goes: back to the commit before. */
static UNUSED void model_commit_delete(struct model *m, const struct step *s)
{
    struct model_branch *b = model_branch(model_repo(m, s->project, s->repo), s->branch);
    char *rest = strstr(b->history + 1, "    commit ");

    memmove(b->history, rest, strlen(rest) + 1);
    b->generation--;
    b->n = 0;
    for (char *line = strchr(b->history, '\n'); line && strncmp(line + 1, "      ", 6) == 0; line = strchr(line + 1, '\n')) {
        struct model_file *f = &b->files[b->n++];

        *f = (struct model_file){0};
        assert_int_equal(sscanf(line + 7, "%31s %zu", f->path, &f->size), 2);
        f->step = SIZE_MAX; /* found below: who put it last */
        for (size_t i = STEPS; f->step == SIZE_MAX && i-- > 0;) {
            char put[64];

            snprintf(put, sizeof put, "+%s:%zu", f->path, f->size);
            if (workload[i].kind == PUSH && strstr(workload[i].text, put))
                f->step = i;
        }
    }
}

static UNUSED void model_pipeline(struct model *m, const struct step *s)
{
    char names[64], *save, *name;

    strcpy(names, s->text);
    for (name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
        model_repo_add(m, s->project, name, true);
    snprintf(m->pipeline, sizeof m->pipeline, "%s %d: %s", s->repo, ++m->version, s->text);
    snprintf(m->runs[m->n_runs++], 64, "pipeline \"%s\" running", s->repo);
}

static UNUSED void model_step(struct model *m, size_t step)
{
    const struct step *s = &workload[step];
    struct model_repo *r = model_repo(m, s->project, s->repo);
    struct model_branch *b = r ? model_branch(r, s->branch) : NULL;

    switch (s->kind) {
    case PROJECT:
        strcat(strcat(m->projects, " "), s->project);
        break;
    case REPO:
        if (!strstr(m->projects, s->project))
            strcat(strcat(m->projects, " "), s->project);
        model_repo_add(m, s->project, s->repo, false);
        break;
    case REPO_DELETE:
        model_repo_remove(m, s->project, s->repo);
        break;
    case BRANCH:
        r->branches[r->n] = *model_branch(r, s->text);
        strcpy(r->branches[r->n++].name, s->branch);
        break;
    case BRANCH_DELETE:
        memmove(b, b + 1, (size_t)(&r->branches[--r->n] - b) * sizeof *b);
        break;
    case PUSH:
        model_push(m, step);
        break;
    case COMMIT_DELETE:
        model_commit_delete(m, s);
        if (*m->pipeline)
            snprintf(m->runs[m->n_runs++], 64, "delete \"a commit of %s was deleted\" running", s->repo);
        break;
    case PIPELINE:
        model_pipeline(m, s);
        break;
    case PIPELINE_DELETE:
        m->pipeline[0] = '\0';
        model_repo_remove(m, s->project, "prepare");
        model_repo_remove(m, s->project, "train");
        break;
    case JOB:
        snprintf(m->job, sizeof m->job, "%s %s", s->repo, s->text);
        break;
    case RUN_END:
        strcpy(strstr(m->runs[m->n_runs - 1], " running"), " ");
        strcat(m->runs[m->n_runs - 1], s->text);
        break;
    }
}

static UNUSED int repo_order(const void *a, const void *b)
{
    const struct model_repo *x = a, *y = b;
    int r = strcmp(x->project, y->project);

    return r ? r : strcmp(x->name, y->name);
}

static UNUSED int branch_order(const void *a, const void *b)
{
    return strcmp(((const struct model_branch *)a)->name, ((const struct model_branch *)b)->name);
}

/* The state after the first `n` steps, malloc'ed. */
static UNUSED char *model_after(size_t n)
{
    struct model *m = calloc(1, sizeof *m);
    struct pl_buf out = {0};

    for (size_t i = 0; i < n; i++)
        model_step(m, i);
    qsort(m->repos, m->n, sizeof m->repos[0], repo_order);
    assert_int_equal(pl_buf_addf(&out, NULL, "projects:%s\n", m->projects), 0);
    for (size_t i = 0; i < m->n; i++) {
        struct model_repo *r = &m->repos[i];

        qsort(r->branches, r->n, sizeof r->branches[0], branch_order);
        assert_int_equal(pl_buf_addf(&out, NULL, "%s/%s %s\n", r->project, r->name, r->output ? "output" : "input"), 0);
        for (size_t k = 0; k < r->n; k++)
            assert_int_equal(pl_buf_addf(&out, NULL, "  branch %s\n%s", r->branches[k].name, r->branches[k].history), 0);
    }
    for (size_t i = 0; i < m->n_runs; i++)
        assert_int_equal(pl_buf_addf(&out, NULL, "run %s\n", m->runs[i]), 0);
    if (*m->job)
        assert_int_equal(pl_buf_addf(&out, NULL, "job %s\n", m->job), 0);
    if (*m->pipeline)
        assert_int_equal(pl_buf_addf(&out, NULL, "pipeline %s\n", m->pipeline), 0);
    free(m);
    return pl_buf_take_str(&out);
}

/* ---- the world ---- */

struct world {
    char *dir;
    struct pl_object_store *objects;
    struct pl_stores *stores;
    struct pl_db *db;
    int fatal;                                                             /* code that the database gave up with, 0 = none */
    int (*open_objects)(struct pl_object_store **ret, struct pl_err *err); /* NULL: the folder DIR/store */
};

static UNUSED void world_fatal(void *arg, const struct pl_err *err)
{
    ((struct world *)arg)->fatal = err->code;
}

static UNUSED void world_pack_state(void *arg, const char *project, const struct pl_hash *pack, const char *state)
{
    pl_gc_pack_state(((struct world *)arg)->stores, project, pack, state);
}

static UNUSED void world_close(struct world *w)
{
    w->db = pl_db_close(w->db);
    w->stores = pl_stores_close(w->stores);
    w->objects = pl_object_close(w->objects);
}

/* Store DIR/store, database and index in DIR/<data>. */
static UNUSED int world_open(struct world *w, const char *data, struct pl_err *err)
{
    char path[PATH_MAX], index[PATH_MAX];
    struct pl_db_config config = {.dir = path, .readers = 2, .fatal = world_fatal, .pack_state = world_pack_state, .arg = w};
    int r;

    snprintf(path, sizeof path, "%s/%s", w->dir, data);
    snprintf(index, sizeof index, "%s/%s/index", w->dir, data);
    w->fatal = 0;
    r = pl_io_mkdirs(index, 0700, err);
    if (r == 0)
        r = w->open_objects ? w->open_objects(&w->objects, err)
                            : pl_object_file_open(fixture_path(w->dir, "store"), &w->objects, err);
    r = r < 0 ? r : pl_stores_open(w->objects, index, &w->stores, err);
    config.objects = w->objects;
    r = r < 0 ? r : pl_db_open(&config, &w->db, err);
    if (r == 0)
        pl_stores_on_open(w->stores, pl_gc_store_opened, w->db);
    if (r < 0)
        world_close(w);
    return r;
}

struct memory_reader {
    const uint8_t *p;
    size_t left;
};

static UNUSED ssize_t read_memory(void *self, void *out, size_t n, struct pl_err *err)
{
    struct memory_reader *m = self;

    (void)err;
    n = PL_MIN(n, m->left);
    memcpy(out, m->p, n);
    m->p += n;
    m->left -= n;
    return (ssize_t)n;
}

/* The text's operations as a stream; the files' bytes are packed and durable. */
static UNUSED int world_ops(struct world *w, const char *project, const char *text, size_t step, struct pl_buf *ops,
                            struct pl_err *err)
{
    _cleanup_(pl_pack_session_closep) struct pl_pack_session *session = NULL;
    _cleanup_(pl_ops_writer_finish) struct pl_ops_writer writer = {0};
    struct pl_pack_sink sink;
    struct pl_store *store;
    struct word word;
    int r = pl_stores_get(w->stores, project, &store, err);

    if (r < 0)
        return r;
    sink = pl_store_sink(store);
    r = pl_pack_session_open(&sink, project, &session, err);
    r = r < 0 ? r : pl_ops_writer_init(&writer, ops, err);
    while (r >= 0 && next_word(&text, &word)) {
        size_t len = strlen(word.path);

        if (word.op == '+') {
            _cleanup_free_ uint8_t *bytes = content_of(step, word.path, word.size);
            struct memory_reader reader = {bytes, word.size};
            struct pl_entry entry;

            r = pl_file_write_stream(session, PL_KIND_FILE, read_memory, &reader, &entry, err);
            r = r < 0 ? r : pl_ops_writer_put(&writer, word.path, len, &entry, err);
        } else {
            r = word.op == '-' ? pl_ops_writer_delete(&writer, word.path, len, err)
                               : pl_ops_writer_delete_prefix(&writer, word.path, len, err);
        }
    }
    r = r < 0 ? r : pl_ops_writer_end(&writer, err);
    return r < 0 ? r : pl_pack_session_finish(session, err);
}

static UNUSED int world_push(struct world *w, const struct step *s, size_t step, struct pl_push_result *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_push_args args = {
        .project = s->project, .repo = s->repo, .branch = s->branch, .message = s->text, .author = "", .base = ""};
    int r = world_ops(w, s->project, s->text, step, &ops, err);

    args.ops = ops.data;
    args.ops_len = ops.len;
    return r < 0 ? r : pl_db_push(w->db, w->stores, &args, ret, err);
}

/* A spec whose stages all read repo "digits" of the default project. */
static UNUSED int world_spec(const struct step *s, struct pl_spec **ret, struct pl_err *err)
{
    char text[1024], names[64], *save, *name;
    int n = snprintf(text, sizeof text, "{\"pipeline\": \"%s\", \"stages\": [", s->repo);

    strcpy(names, s->text);
    for (name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%s{\"name\": \"%s\", \"run\": [\"x\"], \"input\": {\"repo\": \"digits\", \"glob\": \"/*\"}}",
                      name == names ? "" : ", ", name);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    return pl_spec_parse(text, strlen(text), "t", NULL, ret, NULL, err);
}

static UNUSED int world_pipeline(struct world *w, const struct step *s, struct pl_err *err)
{
    _cleanup_(pl_spec_destroyp) struct pl_spec *spec = NULL;
    struct pl_stage_code code[8] = {0};
    struct pl_pipeline_args args = {.code = code, .filename = "t", .update = true};
    int r = world_spec(s, &spec, err);

    if (r < 0)
        return r;
    args.spec = spec;
    for (size_t i = 0; i < spec->n_stages; i++)
        pl_stage_code_identity(&spec->stages[i], NULL, &code[i].identity);
    pl_hash_sha256(s->text, strlen(s->text), &args.user_spec);
    args.effective_spec = args.user_spec;
    r = pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pipeline_set, &args, err);
    json_decref(args.changes);
    return r;
}

static UNUSED int newest_run(struct world *w, char ret[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    _cleanup_free_ char *id = NULL;
    int r = pl_sql_text(rd.conn, err, &id, "SELECT id FROM run ORDER BY ord DESC LIMIT 1", "");

    if (r == 0)
        strcpy(ret, id);
    return r;
}

/* A job has its row before it ends, as in a daemon: so the row's own number is of this machine. */
static UNUSED int world_job(struct world *w, const struct step *s, const char *run, struct pl_err *err)
{
    struct pl_job_args a = {.run = run,
                            .project = s->project,
                            .stage = s->repo,
                            .pipeline = "flow",
                            .version = 2,
                            .state = "running",
                            .created_us = 1,
                            .live = 7};
    int r = pl_db_run(w->db, PL_TX_UNLOGGED, pl_tx_job_progress, &a, err);

    a.state = s->text;
    return r < 0 ? r : pl_db_run(w->db, PL_TX_LOGGED, pl_tx_job_end, &a, err);
}

static UNUSED int world_step(struct world *w, size_t step, struct pl_err *err)
{
    const struct step *s = &workload[step];
    struct pl_repo_args repo = {.project = s->project, .name = s->kind == PROJECT ? s->project : s->repo};
    struct pl_branch_args branch = {.project = s->project, .repo = s->repo, .name = s->branch, .from = s->text};
    struct pl_commit_delete_args commit = {.project = s->project, .repo = s->repo, .run = s->branch};
    struct pl_pipeline_delete_args pipeline = {.project = s->project, .name = s->repo};
    char run[PL_ID_HEX + 1] = "";
    struct pl_run_args end = {.id = run, .state = s->text};
    struct pl_push_result pushed;
    int r = s->kind == JOB || s->kind == RUN_END ? newest_run(w, run, err) : 0;

    if (r < 0)
        return r;
    switch (s->kind) {
    case PROJECT:
        repo.set_network = repo.network_off = *s->text;
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_project_create, &repo, err);
    case REPO:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_create, &repo, err);
    case REPO_DELETE:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, err);
    case BRANCH:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &branch, err);
    case BRANCH_DELETE:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_delete, &branch, err);
    case PUSH:
        return world_push(w, s, step, &pushed, err);
    case COMMIT_DELETE:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_commit_delete, &commit, err);
    case PIPELINE:
        return world_pipeline(w, s, err);
    case PIPELINE_DELETE:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pipeline_delete, &pipeline, err);
    case JOB:
        return world_job(w, s, run, err);
    case RUN_END:
        return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_run_end, &end, err);
    }
    return PL_EINTERNAL;
}

/* ---- what the database says, in the model's words ---- */

static UNUSED void read_content(struct pl_store *store, const struct pl_entry *e, struct pl_buf *out)
{
    struct pl_list_source source = {store, pl_store_node_get};
    struct pl_list_cursor *lists;
    struct pl_buf chunk = {0};
    struct pl_hash id;
    size_t len;

    if (e->content == PL_CONTENT_INLINE) {
        assert_int_equal(pl_buf_add(out, e->data, e->size, NULL), 0);
    } else if (e->content == PL_CONTENT_CHUNK) {
        assert_int_equal(pl_store_get(store, &e->id, PL_REC_CHUNK, out, NULL), 0);
    } else {
        assert_int_equal(pl_list_cursor_open(&source, &e->id, &lists, NULL), 0);
        while (pl_list_cursor_next(lists, &id, NULL, &len, NULL) > 0) {
            assert_int_equal(pl_store_get(store, &id, PL_REC_CHUNK, &chunk, NULL), 0);
            assert_int_equal(pl_buf_add(out, chunk.data, chunk.len, NULL), 0);
        }
        pl_list_cursor_close(lists);
    }
    pl_buf_finish(&chunk);
}

static UNUSED void describe_tree(struct pl_store *store, const struct pl_hash *root, struct pl_buf *out)
{
    struct pl_node_source source = {store, pl_store_node_get};
    struct pl_tree_cursor *c;
    struct pl_tree_item item;
    struct pl_err err = {0};
    int r;

    assert_ok(pl_tree_cursor_create(&source, root, NULL, 0, &c, &err), &err);
    while ((r = pl_tree_cursor_next(c, &item, &err)) > 0) {
        struct pl_buf bytes = {0};

        read_content(store, &item.entry, &bytes);
        describe_file(out, item.path, bytes.len ? (const void *)bytes.data : "", bytes.len);
        pl_buf_finish(&bytes);
    }
    assert_ok(r, &err);
    pl_tree_cursor_destroy(c);
}

static UNUSED void describe_branch(struct world *w, struct pl_conn *c, const char *project, const char *repo, const char *branch,
                                   struct pl_buf *out)
{
    struct pl_commit_row row;
    struct pl_store *store;
    struct pl_err err = {0};
    char ref[64];
    int r = 0;

    assert_ok(pl_stores_get(w->stores, project, &store, &err), &err);
    for (unsigned back = 0; r == 0; back++) {
        _cleanup_free_ char *message = NULL;

        snprintf(ref, sizeof ref, "%s^%u", branch, back);
        r = pl_db_commit_named(c, project, repo, ref, &row, &err);
        if (r < 0)
            break;
        assert_ok(pl_sql_text(c, &err, &message, "SELECT message FROM commit_ WHERE id = ?", "i", row.id), &err);
        describe_commit(out, row.generation, message, row.files, row.bytes);
        describe_tree(store, &row.root, out);
    }
    assert_int_equal(r, PL_ENOTFOUND);
}

/* Each row's only text column, with `before` and a newline. */
static UNUSED void describe_rows(struct pl_conn *c, const char *before, const char *sql, struct pl_buf *out)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

    assert_int_equal(pl_sql_query(c, NULL, &rows, sql, ""), 0);
    while (pl_sql_next(c, &rows, NULL) > 0)
        assert_int_equal(pl_buf_addf(out, NULL, "%s%s\n", before, pl_col_text(&rows, 0)), 0);
}

static UNUSED void describe_repo(struct world *w, struct pl_conn *c, int64_t id, const char *project, const char *name,
                                 struct pl_buf *out)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

    assert_int_equal(pl_sql_query(c, NULL, &rows, "SELECT name FROM branch WHERE repo = ? ORDER BY name", "i", id), 0);
    while (pl_sql_next(c, &rows, NULL) > 0) {
        assert_int_equal(pl_buf_addf(out, NULL, "  branch %s\n", pl_col_text(&rows, 0)), 0);
        describe_branch(w, c, project, name, pl_col_text(&rows, 0), out);
    }
}

/* The state, malloc'ed. */
static UNUSED char *world_state(struct world *w)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(w->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_buf out = {0};

    describe_rows(rd.conn, "projects:",
                  "SELECT coalesce(group_concat(' ' || name, ''), '') FROM (SELECT name FROM project ORDER BY created_us, name)",
                  &out);
    assert_int_equal(pl_sql_query(rd.conn, NULL, &rows, "SELECT id, project, name, kind FROM repo ORDER BY project, name", ""),
                     0);
    while (pl_sql_next(rd.conn, &rows, NULL) > 0) {
        assert_int_equal(
            pl_buf_addf(&out, NULL, "%s/%s %s\n", pl_col_text(&rows, 1), pl_col_text(&rows, 2), pl_col_text(&rows, 3)), 0);
        describe_repo(w, rd.conn, pl_col_int(&rows, 0), pl_col_text(&rows, 1), pl_col_text(&rows, 2), &out);
    }
    describe_rows(rd.conn, "run ", "SELECT cause || ' \"' || message || '\" ' || state FROM run ORDER BY ord", &out);
    describe_rows(rd.conn, "job ", "SELECT stage || ' ' || state FROM job WHERE final = 1", &out);
    describe_rows(
        rd.conn, "pipeline ",
        "SELECT p.name || ' ' || p.version || ': ' || group_concat(s.name, ' ') FROM pipeline p JOIN (SELECT * FROM stage"
        " WHERE current = 1 ORDER BY position) s ON s.pipeline = p.id GROUP BY p.id",
        &out);
    return pl_buf_take_str(&out);
}

/* ---- all that the log must give back, row by row ---- */

static UNUSED void dump_table(struct pl_conn *c, const char *table, struct pl_buf *out)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    bool job = pl_streq(table, "job"); /* its row's number, and what the scheduler keeps there, are of this machine */
    char sql[256];

    snprintf(sql, sizeof sql,
             job ? "SELECT * FROM %s WHERE final = 1 ORDER BY run, project, stage" : "SELECT * FROM %s ORDER BY 1, 2", table);
    assert_int_equal(pl_sql_query(c, NULL, &rows, sql, ""), 0);
    while (pl_sql_next(c, &rows, NULL) > 0) {
        assert_int_equal(pl_buf_addf(out, NULL, "%s", table), 0);
        for (int i = 0; i < sqlite3_column_count(rows.stmt); i++) {
            const char *name = sqlite3_column_name(rows.stmt, i);
            const uint8_t *blob = sqlite3_column_blob(rows.stmt, i);
            int n = sqlite3_column_bytes(rows.stmt, i);

            if (job && (pl_streq(name, "id") || pl_streq(name, "live") || pl_streq(name, "planned")))
                continue;
            assert_int_equal(pl_buf_addf(out, NULL, " %s=%d:", name, sqlite3_column_type(rows.stmt, i)), 0);
            assert_int_equal(pl_buf_reserve(out, 2 * (size_t)n + 1, NULL), 0);
            pl_hex_encode(blob, (size_t)n, (char *)out->data + out->len);
            out->len += 2 * (size_t)n;
        }
        assert_int_equal(pl_buf_add_u8(out, '\n', NULL), 0);
    }
}

/* Every table that schema.sql marks with [log]. */
static UNUSED char *world_logged_tables(struct world *w)
{
    static struct pl_buf schema;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    struct pl_buf out = {.max = 16u << 20};
    char table[64];
    unsigned tables = 0;

    if (!schema.len)
        assert_int_equal(pl_io_read_file(PL_TEST_DATA "/../../../schema.sql", &schema, NULL), 0);
    for (const char *at = pl_buf_str(&schema); (at = strstr(at, "\nCREATE TABLE ")); at++) {
        const char *mark = strstr(at, "[log]");

        assert_int_equal(sscanf(at, "\nCREATE TABLE %63s", table), 1);
        if (!mark || mark > strchr(at + 1, '\n'))
            continue;
        dump_table(rd.conn, table, &out);
        tables++;
    }
    assert_true(tables >= 15);
    return pl_buf_take_str(&out);
}

/* ---- fsck over all commits ---- */

static UNUSED int world_finding(void *self, const struct pl_fsck_finding *f, struct pl_err *err)
{
    (void)self, (void)err;
    print_error("fsck: %s (%s %s)\n", f->what, f->commit ? f->commit : "", f->path ? f->path : "");
    return 0;
}

static UNUSED void world_fsck(struct world *w)
{
    static const char *const projects[] = {"default", "vision"};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(w->db);

    for (size_t i = 0; i < PL_ARRAY_SIZE(projects); i++) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
        struct pl_fsck_options options = {.finding = world_finding};
        struct pl_fsck_report report = {0};
        struct pl_fsck_root roots[1024];
        struct pl_store *store;
        struct pl_err err = {0};
        size_t n = 0;

        assert_int_equal(pl_sql_query(rd.conn, NULL, &rows,
                                      "SELECT c.object FROM commit_ c JOIN repo r ON r.id = c.repo WHERE r.project = ?", "s",
                                      projects[i]),
                         0);
        while (pl_sql_next(rd.conn, &rows, NULL) > 0) {
            assert_true(n < PL_ARRAY_SIZE(roots));
            roots[n++] = (struct pl_fsck_root){"commit", pl_col_hash(&rows, 0)};
        }
        assert_ok(pl_stores_get(w->stores, projects[i], &store, &err), &err);
        assert_ok(pl_fsck(store, roots, n, &options, &report, &err), &err);
        assert_int_equal(report.findings, 0);
    }
}
