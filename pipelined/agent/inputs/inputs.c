/* For each input name, a record says what WORK/pfs/<name> (front), WORK/next/<name> (back) and
 * WORK/next/.ahead/<name> (ahead) contain. Staging fills `back`; applying exchanges it with `front`. */
#include "pipelined/agent/inputs/inputs.h"

#include "pipelined/agent/inputs/folder_move.h"
#include "pipelined/agent/inputs/input_reuse.h"
#include "pipelined/agent/inputs/input_update.h"
#include "pipelined/agent/sandbox/sandbox.h"
#include "storage/dataset/checkout/checkout.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* Folders below WORK. Input names do not begin with a dot, so no input uses these names. */
#define CHECKPOINT "next/.checkpoint"
#define AHEAD      "next/.ahead"
#define GONE       "next/.gone" /* holds an abandoned fetch until pl_inputs_trim removes it */

/* Record of what an input's folder contains. */
struct copy {
    bool filled;
    bool writable;
    bool environment;
    struct pl_hash root;
    bool file;
    bool bare; /* the folder's name is the matched file itself, which replaces the previous datum's file */
    char *path;
    char *files; /* the globs, each with its NUL; may be empty */
    size_t files_len;
    struct pl_input_sums sums;
};

/* How apply turns `back`, the staged input, into the current input. */
enum staged {
    NOTHING, /* no change: nothing was staged */
    SAME,    /* no change: the input is already in place */
    AWAY,    /* remove the input: the datum does not have it */
    FILE_IN, /* WORK/next/<name> is a file that replaces the previous datum's file in the same folder */
    FOLDER,  /* WORK/next/<name> is the input */
    /* WORK/next/<name> is a writable input, whose folder is a mount point: empty that folder and move the
     * files there */
    REFILL,
};

struct slot {
    char name[PL_NAME_MAX_BYTES + 1];
    char project[PL_NAME_MAX_BYTES + 1]; /* project of the repo that the input reads; "" = that of the stage */
    struct copy front, back;             /* records of WORK/pfs/<name> and WORK/next/<name> */
    bool littered;                       /* WORK/next/<name> exists */
    /* record of the input staged last, in WORK/next or already applied; `latest` and `ahead` belong to the
     * staging thread */
    struct copy latest;
    struct copy ahead;   /* record of WORK/next/.ahead/<name> */
    bool ahead_littered; /* WORK/next/.ahead/<name> exists */
    enum staged staged;
    struct pl_tree_cursor *cursor; /* finds matches that are files, in the tree `cursor_root` */
    struct pl_hash cursor_root;
};

struct pl_inputs {
    struct pl_inputs_config config;
    struct pl_file_cache *cache;
    struct pl_input_stores stores;
    struct pl_input_folder folder; /* reads the store that use_store chose last */
    bool saved;                    /* WORK/next/.checkpoint holds what an earlier attempt saved */
    bool ahead_made;               /* WORK/next/.ahead exists; belongs to the staging thread */
    struct slot slots[PL_AGENT_PROTOCOL_INPUTS_MAX];
    size_t n_slots;
    struct pl_hash linked; /* root of the tree whose entries WORK/env links to; zero = none, or it is not complete */
};

/* Opens the cache of whole files. A failure is only logged: without the cache, more files are fetched. */
static int open_cache(struct pl_inputs *in, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = pl_file_cache_open(in->config.cache, PL_INPUTS_CACHE_BYTES, &in->cache, &why);

    if (r == PL_ENOMEM)
        return pl_err_nomem(err);
    if (r < 0)
        pl_log_warn("inputs", "cannot use the file cache, so files are fetched again for every datum: %s: %s", in->config.cache,
                    why.msg);
    return 0;
}

int pl_inputs_create(const struct pl_inputs_config *config, struct pl_inputs **ret, struct pl_err *err)
{
    struct pl_inputs *in = calloc(1, sizeof(*in));
    int r;

    if (!in)
        return pl_err_nomem(err);
    in->config = *config;
    r = pl_input_stores_init(&in->stores,
                             &(struct pl_input_stores_config){.project = config->project,
                                                              .reader = config->reader,
                                                              .user = config->user,
                                                              .nodes = PL_INPUTS_NODES},
                             err);
    if (r == 0 && config->cache && config->read_only)
        r = open_cache(in, err);
    if (r < 0) {
        pl_inputs_destroy(in);
        return r;
    }
    in->folder = (struct pl_input_folder){
        .reader = config->reader, .user = config->user, .cache = in->cache, .nodes = &in->stores.list->nodes};
    *ret = in;
    return 0;
}

static void copy_forget(struct copy *c)
{
    free(c->path);
    free(c->files);
    *c = (struct copy){0};
}

struct pl_inputs *pl_inputs_destroy(struct pl_inputs *in)
{
    if (!in)
        return NULL;
    for (size_t i = 0; i < in->n_slots; i++) {
        copy_forget(&in->slots[i].front);
        copy_forget(&in->slots[i].back);
        copy_forget(&in->slots[i].latest);
        copy_forget(&in->slots[i].ahead);
        pl_tree_cursor_destroy(in->slots[i].cursor);
    }
    pl_input_stores_finish(&in->stores);
    pl_buf_finish(&in->folder.scratch);
    pl_file_cache_close(in->cache);
    free(in);
    return NULL;
}

static struct slot *known_slot(struct pl_inputs *in, const char *name)
{
    for (size_t i = 0; i < in->n_slots; i++)
        if (pl_streq(in->slots[i].name, name))
            return &in->slots[i];
    return NULL;
}

static struct slot *slot_of(struct pl_inputs *in, const struct pl_agent_protocol_input *wi)
{
    struct slot *s = known_slot(in, wi->name);

    if (s || in->n_slots == PL_AGENT_PROTOCOL_INPUTS_MAX)
        return s;
    s = &in->slots[in->n_slots++];
    snprintf(s->name, sizeof(s->name), "%s", wi->name);
    snprintf(s->project, sizeof(s->project), "%s", wi->project ? wi->project : "");
    return s;
}

static void read_from(struct pl_inputs *in, struct pl_input_store *store)
{
    in->folder.reader = store->reader;
    in->folder.user = store->user;
    in->folder.nodes = &store->nodes;
}

/* Makes the store of a project (NULL = that of the stage) the one from which files and nodes are read next. */
static int use_store(struct pl_inputs *in, const char *project, struct pl_err *err)
{
    struct pl_input_store *store;
    int r = pl_input_stores_get(&in->stores, project, &store, err);

    if (r == 0)
        read_from(in, store);
    return r;
}

/* True if the folder holds the same match, of this or another commit. */
static bool copy_is_of(const struct copy *c, const struct pl_agent_protocol_input *wi, const struct pl_buf *files)
{
    return c->filled && c->file == wi->file && pl_streq(c->path, wi->path) && c->files_len == files->len &&
           (files->len == 0 || memcmp(c->files, files->data, files->len) == 0);
}

/* Records that the folder now holds the match `wi`. */
static int copy_note(struct copy *c, const struct pl_agent_protocol_input *wi, const struct pl_buf *files,
                     const struct pl_input_sums *sums, struct pl_err *err)
{
    copy_forget(c);
    c->path = strdup(wi->path);
    c->files = malloc(files->len + 1);
    if (!c->path || !c->files)
        return pl_err_nomem(err);
    if (files->len)
        memcpy(c->files, files->data, files->len);
    c->files_len = files->len;
    c->root = wi->root;
    c->file = wi->file;
    c->writable = wi->writable;
    c->environment = wi->environment;
    c->sums = *sums;
    c->filled = true;
    return 0;
}

/* Finds the entry of the match `wi`, a file, whose store is in use. The cursor stays open: the next match is usually near. */
static int find_file(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, struct pl_entry *ret,
                     struct pl_err *err)
{
    const struct pl_node_source source = pl_node_cache_source(in->folder.nodes);
    struct pl_tree_item item;
    int r = 0;

    if (wi->json)
        return pl_err_set(err, PL_ENOTFOUND, "/%s is not a file of a repo", wi->path);
    if (!s->cursor || !pl_hash_eq(&s->cursor_root, &wi->root)) {
        s->cursor = pl_tree_cursor_destroy(s->cursor);
        s->cursor_root = wi->root;
        r = pl_tree_cursor_create(&source, &wi->root, NULL, 0, &s->cursor, err);
    }
    if (r == 0)
        r = pl_tree_cursor_get(s->cursor, wi->path, strlen(wi->path), &item, err);
    if (r < 0) {
        /* after a failure the cursor's position is undefined */
        s->cursor = pl_tree_cursor_destroy(s->cursor);
        return r;
    }
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "/%s is not in the commit", wi->path);
    *ret = item.entry;
    return 0;
}

/* Finds out where the files of those inputs are that are read from this store. `ids` has space for all `n` inputs. */
static void locate_files(struct pl_inputs *in, struct pl_input_store *store, const struct pl_agent_protocol_input *inputs,
                         size_t n, struct pl_hash *ids)
{
    size_t n_ids = 0;

    read_from(in, store);
    for (size_t i = 0; i < n; i++) {
        struct pl_input_store *of = NULL;
        struct pl_entry e;
        struct slot *s;

        if (!inputs[i].file || pl_input_stores_get(&in->stores, inputs[i].project, &of, NULL) < 0 || of != store)
            continue;
        s = slot_of(in, &inputs[i]);
        if (s && find_file(in, s, &inputs[i], &e, NULL) == 0 && (e.content == PL_CONTENT_CHUNK || e.content == PL_CONTENT_LIST))
            ids[n_ids++] = e.id;
    }
    pl_daemon_client_locate(store->user, ids, n_ids);
}

void pl_inputs_prepare(struct pl_inputs *in, const struct pl_agent_protocol_task *task)
{
    _cleanup_free_ struct pl_hash *ids = NULL;
    size_t max = 0;

    if (!in->config.user || task->n_rows < 2)
        return;
    for (size_t i = 0; i < task->n_rows; i++)
        max += task->rows[i].n_inputs;
    ids = malloc((max + 1) * sizeof(*ids));
    /* the loop also reaches the stores that it adds, which are appended to the list */
    for (struct pl_input_store *store = in->stores.list; ids && store; store = store->next)
        locate_files(in, store, task->inputs, max, ids);
}

/* ---- building in WORK/next ---- */

/* Makes the path WORK/<folder>/<name of the input>. */
static int place(const struct pl_inputs *in, const char *folder, const struct slot *s, char out[PL_INPUTS_PATH_MAX],
                 struct pl_err *err)
{
    char parent[PL_INPUTS_PATH_MAX];
    int r = pl_input_path(parent, in->config.work, folder, err);

    return r < 0 ? r : pl_input_path(out, parent, s->name, err);
}

/* Removes the input's folder below WORK/<folder>, and its record. */
static int clear(const struct pl_inputs *in, const struct slot *s, const char *folder, struct copy *copy, bool *littered,
                 struct pl_err *err)
{
    char path[PL_INPUTS_PATH_MAX];
    int r;

    copy_forget(copy);
    if (!*littered)
        return 0;
    r = place(in, folder, s, path, err);
    r = r < 0 ? r : pl_io_remove_tree(path, err);
    *littered = r < 0;
    return r;
}

/* Moves the folder of an abandoned fetch to WORK/next/.gone: removing it may take long, and the worker's next
 * task waits. Does nothing if WORK/next/.gone already exists. */
static void set_aside(const struct pl_inputs *in, const struct slot *s, const char *folder)
{
    char path[PL_INPUTS_PATH_MAX], gone[PL_INPUTS_PATH_MAX];

    if (place(in, folder, s, path, NULL) == 0 && pl_input_path(gone, in->config.work, GONE, NULL) == 0)
        (void)!rename(path, gone);
}

static int clear_next(const struct pl_inputs *in, struct slot *s, struct pl_err *err)
{
    return clear(in, s, "next", &s->back, &s->littered, err);
}

static int clear_ahead(const struct pl_inputs *in, struct slot *s, struct pl_err *err)
{
    return clear(in, s, AHEAD, &s->ahead, &s->ahead_littered, err);
}

/* True if the file of the previous datum `c` and the new file are in the same folder of the tree and no
 * command could write to that folder. Then apply replaces only the file. */
static bool is_next_file(const struct pl_inputs *in, const struct copy *c, const struct pl_agent_protocol_input *wi)
{
    const char *a = c->filled ? strrchr(c->path, '/') : NULL, *b = strrchr(wi->path, '/');
    size_t len = b ? (size_t)(b - wi->path) : 0;

    if (!in->config.read_only || wi->writable || !c->filled || !c->file || !wi->file || (a ? (size_t)(a - c->path) : 0) != len)
        return false;
    return memcmp(c->path, wi->path, len) == 0;
}

/* Writes the matched file at the path `next`. */
static int build_file(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const char *next,
                      struct pl_input_sums *ret, struct pl_err *err)
{
    struct pl_entry e;
    int r;

    if (wi->json) {
        *ret = (struct pl_input_sums){.files = 1, .bytes = strlen(wi->json)};
        return pl_io_write_file(next, wi->json, strlen(wi->json), 0444, err);
    }
    r = find_file(in, s, wi, &e, err);
    if (r == 0)
        r = pl_input_entry(&in->folder, &e, AT_FDCWD, next, err);
    if (r == 0)
        *ret = (struct pl_input_sums){.files = 1, .bytes = e.size};
    return r;
}

/* Writes the input's folder at the path `next`. */
static int build_folder(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const char *next,
                        struct pl_input_sums *ret, struct pl_err *err)
{
    char path[PL_INPUTS_PATH_MAX];
    int r = 0;

    if (mkdir(next, 0755) < 0)
        return pl_err_errno(err, errno, "%s", next);
    if (!wi->file)
        return pl_input_build(&in->folder, wi, next, ret, err);
    r = pl_input_parents(next, wi->path, err);
    r = r < 0 ? r : pl_input_path(path, next, wi->path, err);
    return r < 0 ? r : build_file(in, s, wi, path, ret, err);
}

/* Writes what apply puts in place at the path `next`: the matched file alone (`bare`) or the input's folder. */
static int build(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, bool bare, const char *next,
                 struct pl_input_sums *ret, struct pl_err *err)
{
    return bare ? build_file(in, s, wi, next, ret, err) : build_folder(in, s, wi, next, ret, err);
}

/* Writes the input's folder as copies of the files, without hard links to the cache. */
static int build_writable(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const char *next,
                          struct pl_input_sums *ret, struct pl_err *err)
{
    int r;

    in->folder.cache = NULL;
    r = build_folder(in, s, wi, next, ret, err);
    in->folder.cache = in->cache;
    return r < 0 ? r : pl_input_make_writable(next, in->config.by_group, err);
}

/* True if `c`, the checkout of another commit, can be changed into the match `wi` instead of writing `wi`
 * anew. */
static bool may_change(const struct pl_inputs *in, const struct copy *c, const struct pl_agent_protocol_input *wi,
                       const struct pl_buf *files)
{
    return in->cache && !wi->writable && !wi->file && c->sums.files >= PL_INPUTS_CHANGE_FILES && copy_is_of(c, wi, files);
}

/* Changes the checkout of an older commit into the match `wi`: the checkout in WORK/next or, if no command
 * runs (`alone`), the one in WORK/pfs. Returns 1 if it did, 0 if the input must be built. */
static int change(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const struct pl_buf *files,
                  bool alone, struct pl_err *err)
{
    const bool aside = may_change(in, &s->back, wi, files);
    struct copy *c = aside ? &s->back : &s->front;
    struct pl_err why = {0};
    char path[PL_INPUTS_PATH_MAX];
    int r;

    if (!aside && !(alone && may_change(in, &s->front, wi, files)))
        return 0;
    r = place(in, aside ? "next" : "pfs", s, path, err);
    if (r < 0)
        return r;
    r = pl_input_change(&in->folder, &c->root, wi, path, &c->sums, &why);
    c->root = wi->root;
    if (r == 0) {
        s->staged = aside ? FOLDER : SAME;
        return 1;
    }
    copy_forget(c);
    if (r == PL_ECANCELED) {
        set_aside(in, s, aside ? "next" : "pfs");
        (void)!pl_io_remove_tree(path, NULL);
        return pl_err_set(err, r, "%s", why.msg);
    }
    pl_log_warn("inputs", "input %s could not be updated and is written again: %s", s->name, why.msg);
    return aside ? 0 : pl_io_remove_tree(path, err);
}

/* Makes the key under which a checkout is stored for the next worker. */
static void key_of(const struct pl_inputs *in, const struct slot *s, const char *path, const char *files, size_t files_len,
                   char out[PL_INPUT_REUSE_KEY])
{
    const char *const texts[] = {in->config.project, in->config.stage, s->project, s->name, path};

    pl_input_reuse_key(texts, PL_ARRAY_SIZE(texts), files, files_len, out);
}

/* Moves a checkout of this match that another worker has stored to WORK/next/<name>, where change() finds it. */
static int take_kept(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const struct pl_buf *files,
                     struct pl_err *err)
{
    const struct pl_input_sums enough = {.files = PL_INPUTS_CHANGE_FILES};
    char next[PL_INPUTS_PATH_MAX], key[PL_INPUT_REUSE_KEY];
    struct pl_hash root;
    int r;

    if (!in->cache || !in->config.stage || wi->file || wi->writable || s->back.filled || copy_is_of(&s->front, wi, files))
        return 0;
    r = clear_next(in, s, err);
    r = r < 0 ? r : place(in, "next", s, next, err);
    if (r < 0)
        return r;
    key_of(in, s, wi->path, (const char *)files->data, files->len, key);
    if (!pl_input_reuse_take(in->config.cache, key, next, &root))
        return 0;
    s->littered = true;
    r = copy_note(&s->back, wi, files, &enough, err);
    s->back.root = root;
    return r;
}

void pl_inputs_keep(struct pl_inputs *in)
{
    for (size_t i = 0; i < in->n_slots; i++) {
        struct slot *s = &in->slots[i];
        const struct copy *c = &s->front;
        char pfs[PL_INPUTS_PATH_MAX], key[PL_INPUT_REUSE_KEY];

        if (!in->cache || !in->config.stage || !c->filled || c->file || c->writable || c->sums.files < PL_INPUT_REUSE_FILES ||
            pl_file_cache_bytes(in->cache) > PL_INPUTS_CACHE_BYTES / 2 || place(in, "pfs", s, pfs, NULL) < 0)
            continue;
        key_of(in, s, c->path, c->files, c->files_len, key);
        pl_input_reuse_put(in->config.cache, key, pfs, &c->root);
        copy_forget(&s->front);
    }
}

/* Fetches one input ahead, unless the staged datum has the same: it will be in place, or can be changed. */
static int ahead_one(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, struct pl_err *err)
{
    const bool bare = is_next_file(in, &s->latest, wi);
    _cleanup_(pl_buf_finish) struct pl_buf files = {0};
    struct pl_input_sums sums = {0};
    char parent[PL_INPUTS_PATH_MAX], path[PL_INPUTS_PATH_MAX];
    int r = pl_input_files_key(wi, &files, err);

    if (r < 0 || wi->json || wi->writable || copy_is_of(&s->latest, wi, &files))
        return r;
    r = use_store(in, wi->project, err);
    r = r < 0 ? r : clear_ahead(in, s, err);
    r = r < 0 ? r : pl_input_path(parent, in->config.work, AHEAD, err);
    if (r == 0 && !in->ahead_made)
        r = pl_io_mkdirs(parent, 0755, err);
    r = r < 0 ? r : pl_input_path(path, parent, s->name, err);
    if (r < 0)
        return r;
    in->ahead_made = s->ahead_littered = true;
    r = build(in, s, wi, bare, path, &sums, err);
    r = r < 0 ? r : copy_note(&s->ahead, wi, &files, &sums, err);
    s->ahead.bare = bare;
    return r;
}

void pl_inputs_ahead(struct pl_inputs *in, const struct pl_agent_protocol_datum *row)
{
    for (size_t i = 0; i < row->n_inputs; i++) {
        /* do not add a record for a new input here: that would race with apply */
        struct slot *s = known_slot(in, row->inputs[i].name);
        int r = s ? ahead_one(in, s, &row->inputs[i], NULL) : 0;

        if (r == PL_ECANCELED)
            set_aside(in, s, AHEAD);
        if (r < 0)
            (void)!clear_ahead(in, s, NULL);
    }
}

/* Moves what was fetched ahead to the path `next`, which does not exist. Returns 1 if it did, 0 if something
 * else was fetched ahead. In both cases nothing remains in WORK/next/.ahead/<name>. */
static int take_ahead(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const struct pl_buf *files,
                      bool bare, const char *next, struct pl_input_sums *ret, struct pl_err *err)
{
    const bool same =
        !wi->writable && s->ahead.bare == bare && copy_is_of(&s->ahead, wi, files) && pl_hash_eq(&s->ahead.root, &wi->root);
    char path[PL_INPUTS_PATH_MAX];
    int r = 0;

    if (same) {
        *ret = s->ahead.sums;
        r = place(in, AHEAD, s, path, err);
        if (r == 0 && rename(path, next) < 0)
            r = pl_err_errno(err, errno, "%s", path);
        s->ahead_littered = r < 0;
    }
    r = r < 0 ? r : clear_ahead(in, s, err);
    return r < 0 ? r : same;
}

/* Stages one input: leaves it in place, changes an older checkout, takes what was fetched ahead, or builds. */
static int stage_one(struct pl_inputs *in, struct slot *s, const struct pl_agent_protocol_input *wi, const struct pl_buf *files,
                     bool alone, struct pl_err *err)
{
    const bool bare = is_next_file(in, &s->front, wi);
    char next[PL_INPUTS_PATH_MAX];
    struct pl_input_sums sums = {0};
    int r;

    if (in->config.read_only && !wi->writable && copy_is_of(&s->front, wi, files) && pl_hash_eq(&s->front.root, &wi->root)) {
        s->staged = SAME;
        return 0;
    }
    r = take_kept(in, s, wi, files, err);
    r = r < 0 ? r : change(in, s, wi, files, alone, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = clear_next(in, s, err);
    r = r < 0 ? r : place(in, "next", s, next, err);
    if (r < 0)
        return r;
    s->littered = true;
    r = take_ahead(in, s, wi, files, bare, next, &sums, err);
    if (r == 0)
        r = wi->writable ? build_writable(in, s, wi, next, &sums, err) : build(in, s, wi, bare, next, &sums, err);
    r = r < 0 ? r : copy_note(&s->back, wi, files, &sums, err);
    if (r == PL_ECANCELED)
        set_aside(in, s, "next");
    if (r < 0) {
        (void)!clear_next(in, s, NULL);
        return r;
    }
    s->staged = wi->writable ? REFILL : bare ? FILE_IN : FOLDER;
    return 0;
}

void pl_inputs_trim(struct pl_inputs *in)
{
    char gone[PL_INPUTS_PATH_MAX];

    if (pl_input_path(gone, in->config.work, GONE, NULL) == 0)
        (void)!pl_io_remove_tree(gone, NULL); /* usually there is no abandoned fetch */
    for (size_t i = 0; i < in->n_slots; i++) {
        struct slot *s = &in->slots[i];

        (void)!clear_ahead(in, s, NULL);
        if (!in->cache || !s->back.filled || s->back.file || s->back.sums.files < PL_INPUTS_CHANGE_FILES)
            /* an older checkout that may still be used is removed when the next input is staged */
            (void)!clear_next(in, s, NULL);
    }
}

static bool row_has(const struct pl_agent_protocol_datum *row, const char *name)
{
    for (size_t i = 0; i < row->n_inputs; i++)
        if (pl_streq(row->inputs[i].name, name))
            return true;
    return false;
}

/* Writes a whole tree as files that the command may modify. */
static int checkout_writable(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err)
{
    const struct pl_agent_protocol_input all = {.name = "code", .path = "", .root = *root};
    /* no hard links, because the command may write to the files */
    const struct pl_checkout_options options = {.replace = true};
    struct pl_input_entries source = {0};
    int r = use_store(in, NULL, err);

    r = r < 0 ? r : pl_input_entries_open(in->folder.nodes, in->folder.user, NULL, &all, &source, err);
    if (r == 0) {
        const struct pl_entry_source entries = pl_input_entries_entries(&source);
        r = pl_checkout(&entries, &in->folder.reader, dest, &options, NULL, err);
    }
    pl_input_entries_finish(&source);
    return r < 0 ? r : pl_input_make_writable(dest, in->config.by_group, err);
}

/* Writes the checkpoint of an earlier attempt at the datum to WORK/next/.checkpoint. */
static int stage_checkpoint(struct pl_inputs *in, const struct pl_agent_protocol_datum *row, struct pl_err *err)
{
    char path[PL_INPUTS_PATH_MAX];
    int r = pl_input_path(path, in->config.work, CHECKPOINT, err);

    if (r == 0 && in->saved)
        r = pl_io_remove_tree(path, err);
    in->saved = row->has_checkpoint;
    if (r == 0 && row->has_checkpoint)
        r = checkout_writable(in, &row->checkpoint, path, err);
    return r < 0 ? pl_err_wrap(err, r, "checkpoint") : 0;
}

int pl_inputs_stage(struct pl_inputs *in, const struct pl_agent_protocol_datum *row, bool alone, uint64_t *ret_bytes,
                    struct pl_err *err)
{
    uint64_t bytes = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n_slots; i++) {
        in->slots[i].staged = NOTHING;
        if (!in->slots[i].front.filled || row_has(row, in->slots[i].name))
            continue;
        r = clear_next(in, &in->slots[i], err);
        in->slots[i].staged = AWAY;
    }
    for (size_t i = 0; r == 0 && i < row->n_inputs; i++) {
        const struct pl_agent_protocol_input *wi = &row->inputs[i];
        struct slot *s = slot_of(in, wi);
        _cleanup_(pl_buf_finish) struct pl_buf files = {0};

        if (!s)
            return pl_err_set(err, PL_ELIMIT, "a worker supports at most %u inputs", PL_AGENT_PROTOCOL_INPUTS_MAX);
        r = pl_input_files_key(wi, &files, err);
        r = r < 0 ? r : use_store(in, wi->project, err);
        r = r < 0 ? r : stage_one(in, s, wi, &files, alone, err);
        r = r < 0 ? r : copy_note(&s->latest, wi, &files, &(struct pl_input_sums){0}, err);
        if (r < 0)
            return pl_err_wrap(err, r, "input %s", wi->name);
        bytes += s->staged == SAME ? s->front.sums.bytes : s->back.sums.bytes;
    }
    if (r == 0 && in->config.checkpoint)
        r = stage_checkpoint(in, row, err);
    if (r == 0)
        *ret_bytes = bytes;
    return r;
}

/* ---- putting inputs in place ---- */

static void exchange_notes(struct slot *s)
{
    const struct copy front = s->front;

    s->front = s->back;
    s->back = front;
    s->littered = s->back.filled;
}

/* Puts a folder in place; the previous one is then in WORK/next. */
static int folder_in(struct slot *s, const char *next, const char *pfs, struct pl_err *err)
{
    const int r = pl_folder_put(next, pfs, err);

    if (r < 0)
        return r;
    if (r == 0)
        copy_forget(&s->front);
    exchange_notes(s);
    s->littered = r > 0;
    return 0;
}

/* Replaces a single file in place. The old file is moved to WORK/next: removing a large file takes time, and
 * the command waits. */
static int file_in(struct slot *s, const char *next, const char *pfs, struct pl_err *err)
{
    char old[PL_INPUTS_PATH_MAX], new[PL_INPUTS_PATH_MAX];
    int r = pl_input_path(old, pfs, s->front.path, err);

    r = r < 0 ? r : pl_input_path(new, pfs, s->back.path, err);
    r = r < 0 ? r : pl_folder_put(next, new, err);
    if (r >= 0 && !pl_streq(old, new) && rename(old, next) < 0)
        r = pl_err_errno(err, errno, "%s", old);
    if (r < 0)
        return r;
    copy_forget(&s->front);
    exchange_notes(s);
    s->littered = true;
    return 0;
}

static int refill_in(struct slot *s, const char *next, const char *pfs, struct pl_err *err)
{
    int r = pl_folder_refill(next, pfs, err);

    if (r < 0)
        return r;
    copy_forget(&s->front);
    exchange_notes(s);
    s->littered = true; /* the emptied folder remains in WORK/next */
    return 0;
}

/* Removes the input from WORK/pfs. */
static int away(struct slot *s, const char *next, const char *pfs, struct pl_err *err)
{
    if (s->front.writable) {
        copy_forget(&s->front);
        return pl_sandbox_clear(pfs, err);
    }
    if (rename(pfs, next) < 0)
        return pl_err_errno(err, errno, "%s", pfs);
    copy_forget(&s->back);
    exchange_notes(s);
    return 0;
}

static int apply_one(const struct pl_inputs *in, struct slot *s, struct pl_err *err)
{
    char next[PL_INPUTS_PATH_MAX], pfs[PL_INPUTS_PATH_MAX];
    int r = place(in, "next", s, next, err);

    r = r < 0 ? r : place(in, "pfs", s, pfs, err);
    if (r == 0)
        r = s->staged == FOLDER    ? folder_in(s, next, pfs, err)
            : s->staged == FILE_IN ? file_in(s, next, pfs, err)
            : s->staged == REFILL  ? refill_in(s, next, pfs, err)
                                   : away(s, next, pfs, err);
    if (r < 0) { /* after an error the next datum must not see the previous datum's files */
        (void)!(s->front.writable || s->staged == REFILL ? pl_sandbox_clear(pfs, NULL) : pl_io_remove_tree(pfs, NULL));
        copy_forget(&s->front);
    }
    return r;
}

/* Makes WORK/env, which is mounted at /pl/env, a folder of links to what is in the input: the input's own folder is replaced as a
 * whole. */
static int link_environment(struct pl_inputs *in, const struct slot *s, struct pl_err *err)
{
    char from[PL_INPUTS_PATH_MAX], to[PL_INPUTS_PATH_MAX], seen[PL_NAME_MAX_BYTES + sizeof("/pfs/")];
    int r = place(in, "pfs", s, from, err);

    in->linked = (struct pl_hash){0};
    snprintf(seen, sizeof(seen), "/pfs/%s", s->name);
    r = r < 0 ? r : pl_input_path(to, in->config.work, "env", err);
    r = r < 0 ? r : pl_sandbox_clear(to, err);
    r = r < 0 ? r : pl_folder_link(from, seen, to, err);
    in->linked = r < 0 ? in->linked : s->front.root;
    return r;
}

/* Puts the saved checkpoint in place; removes the previous datum's checkpoint even if there is no new one. */
static int apply_checkpoint(const struct pl_inputs *in, struct pl_err *err)
{
    char from[PL_INPUTS_PATH_MAX], to[PL_INPUTS_PATH_MAX];
    int r = pl_input_path(from, in->config.work, CHECKPOINT, err);

    r = r < 0 ? r : pl_input_path(to, in->config.work, "checkpoint", err);
    r = r < 0 ? r : in->saved ? pl_folder_refill(from, to, err) : pl_sandbox_clear(to, err);
    return r < 0 ? pl_err_wrap(err, r, "checkpoint") : 0;
}

int pl_inputs_apply(struct pl_inputs *in, struct pl_err *err)
{
    for (size_t i = 0; i < in->n_slots; i++) {
        struct slot *s = &in->slots[i];
        int r = s->staged == NOTHING || s->staged == SAME ? 0 : apply_one(in, s, err);

        if (s->staged != SAME)
            s->staged = NOTHING;
        /* also if its folder stayed in place: its files may have been changed there */
        if (r == 0 && s->front.filled && s->front.environment && !pl_hash_eq(&in->linked, &s->front.root))
            r = link_environment(in, s, err);
        if (r < 0)
            return pl_err_wrap(err, r, "input %s", s->name);
    }
    return in->config.checkpoint ? apply_checkpoint(in, err) : 0;
}

/* ---- the stage's code ---- */

int pl_inputs_code(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err)
{
    int r = checkout_writable(in, root, dest, err);

    return r < 0 ? pl_err_wrap(err, r, "code") : 0;
}
