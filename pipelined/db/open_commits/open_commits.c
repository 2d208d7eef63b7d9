/* The life of open commits: reading their files at a start, starting new ones, finding them, releasing them. */
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "pipelined/db/tx/repo_tx.h"
#include "storage/base/clock.h"
#include "storage/store/project_stores.h"
#include "storage/system/io.h"
#include "storage/system/lock_order.h"
#include "storage/system/log_line.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>

#define DAMAGED ".damaged"

/* ---- one open commit ---- */

static struct pl_open_commit *open_free(struct pl_open_commit *c)
{
    atomic_fetch_sub(&c->o->bytes, c->table.bytes);
    pl_op_set_finish(&c->table);
    pl_op_set_finish(&c->delta);
    pl_open_commit_nodes_unref(c->nodes);
    pl_tree_cursor_destroy(c->base);
    pl_open_commit_file_close(c->spool);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->view_lock);
    free(c);
    return NULL;
}

struct pl_open_commit *pl_open_commit_ref(struct pl_open_commit *c)
{
    pthread_mutex_lock(&c->o->lock);
    c->refs++;
    pthread_mutex_unlock(&c->o->lock);
    return c;
}

struct pl_open_commit *pl_open_commit_unref(struct pl_open_commit *c)
{
    struct pl_open_commits *o = c->o;
    bool last;

    pthread_mutex_lock(&o->lock);
    last = --c->refs == 0;
    pthread_mutex_unlock(&o->lock);
    return last ? open_free(c) : NULL;
}

const struct pl_open_commit_file_head *pl_open_commit_head(const struct pl_open_commit *c)
{
    return pl_open_commit_file_head(c->spool);
}

char *pl_open_commit_message(struct pl_open_commit *c)
{
    return pl_open_commit_file_message(c->spool);
}

struct pl_store *pl_open_commit_store(const struct pl_open_commit *c)
{
    return c->store;
}

void pl_open_commit_info(struct pl_open_commit *c, struct pl_open_commit_info *ret)
{
    pthread_mutex_lock(&c->lock);
    ret->operations = c->table.n;
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_lock(&c->o->lock);
    ret->window_ms = c->window_ms;
    memcpy(ret->blocked, c->blocked, sizeof ret->blocked);
    ret->blocked_code = c->blocked_code;
    ret->blocked_us = c->blocked_us;
    ret->set_aside = c->set_aside;
    pthread_mutex_unlock(&c->o->lock);
}

/* Makes an open commit from its file and adds it to the list, which gets a reference to the commit. Takes
 * ownership of `table` in any case, and of `spool` only on success. `idle`: ms since the file was last
 * written. */
static int adopt(struct pl_open_commits *o, struct pl_open_commit_file *spool, struct pl_op_set *table, int64_t window_ms,
                 int64_t idle, struct pl_open_commit **ret, struct pl_err *err)
{
    const struct pl_open_commit_file_head *head = pl_open_commit_file_head(spool);
    struct pl_open_commit *c = calloc(1, sizeof *c), **end;
    int r;

    if (!c) {
        pl_op_set_finish(table);
        return pl_err_nomem(err);
    }
    *c = (struct pl_open_commit){.o = o, .spool = spool, .table = *table, .refs = 1, .window_ms = window_ms};
    c->idle_since_ms = pl_clock_mono_ms() - idle;
    *table = (struct pl_op_set){0};
    c->written = c->table.n > 0;
    atomic_fetch_add(&o->bytes, c->table.bytes);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->view_lock, NULL);
    pl_lock_order_spans_requests(&c->view_lock);
    c->first_ms = c->last_ms = pl_clock_mono_ms();
    r = pl_project_stores_get(o->config.stores, head->project, &c->store, err);
    c->source = (struct pl_node_source){c->store, pl_store_node_get};
    r = r < 0 ? r : pl_tree_cursor_create(&c->source, &head->base_root, NULL, 0, &c->base, err);
    if (r < 0) {
        c->spool = NULL;
        open_free(c);
        return r;
    }
    if (head->gathered)
        pl_open_read_set_aside(c);
    pl_open_begin_saving(c);
    pthread_mutex_lock(&o->lock);
    for (end = &o->list; *end; end = &(*end)->next)
        ;
    *end = c;
    o->n++;
    c->refs += ret != NULL;
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
    if (ret)
        *ret = c;
    return 0;
}

/* ---- start ---- */

static int check_branch(struct pl_conn *c, int64_t repo, const struct pl_open_commit_args *args, struct pl_err *err)
{
    int64_t id;
    int r = pl_sql_int(c, err, &id, "SELECT id FROM branch WHERE repo = ? AND name = ?", "is", repo, args->branch);

    return r == PL_ENOTFOUND ? pl_err_set(err, r, "repo \"%s\" has no branch \"%s\"", args->repo, args->branch) : r;
}

/* Creates the file of a new commit on the branch's head. */
static int make_spool(struct pl_open_commits *o, const struct pl_open_commit_args *args, bool gathered,
                      struct pl_open_commit_file **ret, struct pl_err *err)
{
    char id[PL_ID_HEX + 1];
    struct pl_open_commit_file_head head = {.commit = id,
                                            .project = args->project,
                                            .repo = args->repo,
                                            .branch = args->branch,
                                            .message = args->message ? args->message : "",
                                            .author = args->author ? args->author : "",
                                            .owner = args->owner ? args->owner : "",
                                            .created_us = pl_clock_wall_us(),
                                            .gathered = gathered};
    struct pl_commit_row row = {0};
    struct pl_repo_row repo;
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(o->config.db);

        r = pl_db_repo_find(rd.conn, args->project, args->repo, &repo, err);
        if (r == 0 && pl_repo_read_only(&repo))
            r = pl_db_refuse_write(rd.conn, args->project, args->repo, err);
        r = r < 0 ? r : pl_db_branch_head(rd.conn, repo.id, args->branch, &row, err);
        if (r == 0)
            r = pl_db_check_new_branch(rd.conn, repo.id, args->branch, err);
        if (r == 0 && args->must_exist)
            r = check_branch(rd.conn, repo.id, args, err);
    }
    if (r < 0)
        return r;
    pl_id_make((uint64_t)(head.created_us / 1000), id);
    head.base = row.run;
    head.base_root = row.root;
    head.repo_id = repo.id;
    head.bucket = repo.bucket;
    return pl_open_commit_file_create(o->dir, &head, ret, err);
}

/* Starts a commit. Caller holds start_lock. */
static int start(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                 struct pl_open_commit **ret, struct pl_err *err)
{
    struct pl_op_set table = {0};
    struct pl_open_commit_file *spool;
    bool full, stopping;
    int r = pl_name_check("branch", args->branch, err);

    pthread_mutex_lock(&o->lock);
    full = o->n >= PL_OPEN_COMMITS_MAX;
    stopping = o->stopping;
    pthread_mutex_unlock(&o->lock);
    if (r == 0 && stopping)
        r = pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    if (r == 0 && full)
        r = pl_err_set(err, PL_ELIMIT, "%u commits are open already: finish or delete some", PL_OPEN_COMMITS_MAX);
    r = r < 0 ? r : make_spool(o, args, window_ms > 0, &spool, err);
    if (r < 0)
        return r;
    r = adopt(o, spool, &table, window_ms, 0, ret, err);
    if (r < 0) {
        /* the caller never got the commit: remove its file, so that the next start does not find it */
        (void)!pl_open_commit_file_remove(spool, NULL);
        pl_open_commit_file_close(spool);
    }
    return r;
}

/* Opens the project's store before start_lock is taken, because that may take long. */
static int open_store(struct pl_open_commits *o, const struct pl_open_commit_args *args, struct pl_err *err)
{
    struct pl_store *store;
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(o->config.db);
        struct pl_repo_row repo;

        r = pl_db_repo_find(rd.conn, args->project, args->repo, &repo, err);
    }
    return r < 0 ? r : pl_project_stores_get(o->config.stores, args->project, &store, err);
}

/* Starts a commit; if the branch is closed for writes, waits until it is open again. */
static int start_when_open(struct pl_open_commits *o, const struct pl_open_commit_args *args, struct pl_open_commit **ret,
                           struct pl_err *err)
{
    bool shut;
    int r = open_store(o, args, err);

    if (r < 0)
        return r;
    do {
        pl_open_commits_wait_closed(o, args);
        pthread_mutex_lock(&o->start_lock);
        shut = pl_open_commits_is_closed(o, args);
        r = shut ? 0 : start(o, args, 0, ret, err);
        pthread_mutex_unlock(&o->start_lock);
    } while (shut);
    return r;
}

int pl_open_commits_start(struct pl_open_commits *o, const struct pl_open_commit_args *args, struct pl_open_commit **ret,
                          struct pl_err *err)
{
    int r = pl_open_commits_flush(o, args->project, args->repo, args->branch, err);

    r = r < 0 ? r : start_when_open(o, args, ret, err);
    if (r == 0)
        pl_open_commit_event(*ret, "started", NULL);
    return r;
}

static bool is_of(const struct pl_open_commit *c, const char *project, const char *repo)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);

    return pl_streq(h->repo, repo) && pl_streq(h->project, project);
}

/* Returns a reference to the gathering commit of the branch, or NULL. Caller holds the lock. */
static struct pl_open_commit *find_gathering(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms)
{
    for (struct pl_open_commit *c = o->list; c; c = c->next) {
        if (c->state != PL_OPEN_OPEN || c->closed || !pl_open_commit_head(c)->gathered || !is_of(c, args->project, args->repo) ||
            !pl_streq(pl_open_commit_head(c)->branch, args->branch))
            continue;
        c->refs++;
        c->window_ms = window_ms;
        return c;
    }
    return NULL;
}

static struct pl_open_commit *gathering(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms)
{
    struct pl_open_commit *c;

    pthread_mutex_lock(&o->lock);
    c = find_gathering(o, args, window_ms);
    pthread_mutex_unlock(&o->lock);
    return c;
}

int pl_open_commits_gather(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                           struct pl_open_commit **ret, struct pl_err *err)
{
    struct pl_open_commit *c = gathering(o, args, window_ms);
    int r = c ? 0 : open_store(o, args, err);

    while (r == 0 && !c) {
        pl_open_commits_wait_closed(o, args);
        pthread_mutex_lock(&o->start_lock);
        c = gathering(o, args, window_ms); /* another thread may have created one in the meantime */
        r = c || pl_open_commits_is_closed(o, args) ? 0 : start(o, args, window_ms, &c, err);
        pthread_mutex_unlock(&o->start_lock);
    }
    if (r == 0)
        *ret = c;
    return r;
}

/* ---- find ---- */

#define IDS_SHOWN 5u /* ids in the message of a text that names several open commits */

static bool starts_so(const struct pl_open_commit *c, const char *text, size_t len)
{
    return len >= PL_COMMIT_REF_PREFIX_DIGITS && len <= PL_ID_HEX && strncmp(pl_open_commit_head(c)->commit, text, len) == 0;
}

int pl_open_commits_find(struct pl_open_commits *o, const char *project, const char *repo, const char *text, bool branch_too,
                         struct pl_open_commit **ret, struct pl_err *err)
{
    struct pl_open_commit *found = NULL;
    char ids[IDS_SHOWN * sizeof ", 12345678"] = "";
    size_t len = strlen(text), n = 0;

    pthread_mutex_lock(&o->lock);
    for (struct pl_open_commit *c = o->list; c; c = c->next) {
        if (!is_of(c, project, repo) ||
            !(starts_so(c, text, len) || (branch_too && pl_streq(pl_open_commit_head(c)->branch, text))))
            continue;
        if (n < IDS_SHOWN)
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s%.8s", n ? ", " : "", pl_open_commit_head(c)->commit);
        n++;
        found = c;
    }
    if (n == 1)
        found->refs++;
    pthread_mutex_unlock(&o->lock);
    if (n > 1) {
        const bool own = pl_streq(project, "default");
        int r = pl_err_set(err, PL_ECONFLICT, "%zu open commits of %s match \"%s\": %s%s: name one by its digits", n, repo, text,
                           ids, n > IDS_SHOWN ? ", …" : "");

        return pl_err_hint(err, r, "pipelinectl list commit %s%s%s --open", own ? "" : project, own ? "" : "/", repo);
    }
    if (n == 0)
        return pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" has no open commit \"%s\"", repo, text);
    *ret = found;
    return 0;
}

static bool may_read(const struct pl_conn *conn, const struct pl_open_commit *c)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);

    return !conn || (conn->readable && conn->readable(conn->who, h->project, h->repo));
}

bool pl_open_commits_has(struct pl_open_commits *o, const struct pl_conn *conn, const char *text)
{
    size_t len = strlen(text);
    bool has = false;

    pthread_mutex_lock(&o->lock);
    for (struct pl_open_commit *c = o->list; c && !has; c = c->next)
        has = starts_so(c, text, len) && may_read(conn, c);
    pthread_mutex_unlock(&o->lock);
    return has;
}

int pl_open_commits_gathering(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                              struct pl_open_commit ***ret, size_t *ret_n, struct pl_err *err)
{
    struct pl_open_commit **list = NULL;
    size_t n = 0, cap = 0;
    bool failed = false;

    pthread_mutex_lock(&o->lock);
    for (struct pl_open_commit *c = o->list; c && !failed; c = c->next) {
        if (!pl_open_commit_head(c)->gathered || c->set_aside || !is_of(c, project, repo) ||
            !pl_streq(pl_open_commit_head(c)->branch, branch))
            continue;
        if (n == cap) {
            struct pl_open_commit **grown = reallocarray(list, cap + 4, sizeof(struct pl_open_commit *));

            failed = !grown;
            if (failed)
                break;
            list = grown;
            cap += 4;
        }
        c->refs++;
        list[n++] = c;
    }
    pthread_mutex_unlock(&o->lock);
    for (size_t i = 0; failed && i < n; i++)
        pl_open_commit_unref(list[i]);
    if (failed) {
        free(list);
        return pl_err_nomem(err);
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

int pl_open_commits_list(struct pl_open_commits *o, const char *project, const char *repo, struct pl_open_commit ***ret,
                         size_t *ret_n)
{
    struct pl_open_commit **list;

    *ret_n = 0;
    pthread_mutex_lock(&o->lock);
    list = calloc(o->n + 1, sizeof(struct pl_open_commit *));
    for (struct pl_open_commit *c = list ? o->list : NULL; c; c = c->next) {
        if (!is_of(c, project, repo))
            continue;
        c->refs++;
        list[(*ret_n)++] = c;
    }
    pthread_mutex_unlock(&o->lock);
    *ret = list;
    return list ? 0 : PL_ENOMEM;
}

static int call_each(struct pl_open_commit **list, size_t n, int (*fn)(void *self, struct pl_open_commit *c), void *self)
{
    int r = 0;

    for (size_t i = 0; i < n; i++) {
        if (r == 0)
            r = fn(self, list[i]);
        pl_open_commit_unref(list[i]);
    }
    return r;
}

int pl_open_commits_each(struct pl_open_commits *o, const char *project, const char *repo,
                         int (*fn)(void *self, struct pl_open_commit *c), void *self)
{
    _cleanup_free_ struct pl_open_commit **list = NULL;
    size_t n;
    int r = pl_open_commits_list(o, project, repo, &list, &n);

    return r < 0 ? r : call_each(list, n, fn, self);
}

struct counting {
    const char *branch; /* NULL: all */
    struct pl_delete_loss *loss;
};

static int count_one(void *self, struct pl_open_commit *c)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);
    const struct counting *to = self;
    struct pl_open_commit_info info;

    if (to->branch && (h->gathered || !pl_streq(h->branch, to->branch)))
        return 0;
    pl_open_commit_info(c, &info);
    to->loss->open_commits += info.operations > 0;
    to->loss->operations += (int64_t)info.operations;
    return 0;
}

int pl_open_commits_loss(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                         struct pl_delete_loss *loss, struct pl_err *err)
{
    struct counting to = {branch, loss};

    loss->open_commits = loss->operations = 0;
    return pl_open_commits_each(o, project, repo, count_one, &to) < 0 ? pl_err_nomem(err) : 0;
}

int pl_opens_stalled(struct pl_open_commits *o, int (*fn)(void *self, struct pl_open_commit *c), void *self)
{
    _cleanup_free_ struct pl_open_commit **list = NULL;
    size_t n = 0;

    pthread_mutex_lock(&o->lock);
    list = calloc(o->n + 1, sizeof(struct pl_open_commit *));
    for (struct pl_open_commit *c = list ? o->list : NULL; c; c = c->next) {
        if (!*c->blocked)
            continue;
        c->refs++;
        list[n++] = c;
    }
    pthread_mutex_unlock(&o->lock);
    return list ? call_each(list, n, fn, self) : PL_ENOMEM;
}

static int drop_one(void *self, struct pl_open_commit *c)
{
    const int64_t *repo_id = self;
    struct pl_err err = {0};

    if (pl_open_commit_head(c)->repo_id == *repo_id && pl_open_commit_abort(c, "its repo was deleted", &err) < 0)
        pl_log_warn("open", "%s: %s", pl_open_commit_head(c)->commit, err.msg);
    return 0;
}

void pl_open_commits_drop_repo(struct pl_open_commits *o, const char *project, const char *repo, int64_t repo_id)
{
    if (pl_open_commits_each(o, project, repo, drop_one, &repo_id) < 0)
        pl_log_warn("open", "%s/%s: its open commits are dropped at the next start", project, repo);
}

/* ---- at a start ---- */

/* Checks whether the file's commit is still open. Returns 1 and the repo's commit_window if it is, 0 if the
 * commit was finished or its repo no longer exists. */
static int still_open(struct pl_open_commits *o, const struct pl_open_commit_file_head *h, int64_t *ret_window_ms,
                      struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(o->config.db);
    struct pl_repo_row repo;
    int64_t finished = 0;
    int r = pl_db_repo_seek(rd.conn, h->project, h->repo, &repo, err);

    if (r == 0 || (r > 0 && (repo.id != h->repo_id || pl_repo_read_only(&repo))))
        return 0;
    r = r < 0 ? r
              : pl_sql_int(rd.conn, err, &finished, "SELECT count(*) FROM commit_ WHERE repo = ? AND run = ?", "is", repo.id,
                           h->commit);
    *ret_window_ms = h->gathered ? PL_MAX(repo.commit_window_ms, 1) : 0;
    return r < 0 ? r : !finished;
}

static int damaged_event(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_tx_event(tx, "commit", json_incref(arg), err);
}

/* Renames a damaged file, so that it does not keep the daemon from starting. The file is kept for repair. */
static void set_aside(struct pl_open_commits *o, const char *path, const struct pl_err *why)
{
    char aside[PATH_MAX];
    json_t *event = json_pack("{s:s, s:s, s:s}", "change", "damaged", "file", path, "reason", why->msg);

    pl_log_error("open", "%s", why->msg);
    if (snprintf(aside, sizeof aside, "%s" DAMAGED, path) >= (int)sizeof aside || pl_io_rename(path, aside, NULL) < 0)
        pl_log_error("open", "%s cannot be renamed", path);
    if (event && pl_db_run(o->config.db, PL_TX_UNLOGGED, damaged_event, event, NULL) < 0)
        pl_log_warn("open", "cannot write the event that says that %s is damaged", path);
    json_decref(event);
}

/* Returns the time in ms since the file was last written, counting only time in which a daemon was running. */
static int64_t idle_ms(const struct pl_open_commits *o, const char *path)
{
    const int64_t now_ms = pl_clock_trust_passed_us(pl_db_clock(o->config.db)) / 1000;
    struct stat st;

    return stat(path, &st) == 0 ? PL_MAX(0, now_ms - (int64_t)st.st_mtim.tv_sec * 1000) : 0;
}

/* Opens one file: adopts it, deletes it if its commit has ended, or sets it aside if it is damaged. */
static int read_one(struct pl_open_commits *o, const char *path, struct pl_err *err)
{
    struct pl_op_set table = {0};
    struct pl_open_commit_file *spool;
    struct pl_err why = {0};
    int64_t window_ms = 0;
    int r = pl_open_commit_file_open(path, &table, &spool, &why);

    if (r == PL_ECORRUPT || r == PL_EFORMAT) {
        set_aside(o, path, &why);
        return 0;
    }
    if (r < 0) {
        *err = why;
        return r;
    }
    if (pl_open_commit_file_cut_bytes(spool))
        pl_log_info("open", "%s: dropped %llu bytes at its end, which were never acknowledged", path,
                    (unsigned long long)pl_open_commit_file_cut_bytes(spool));
    r = still_open(o, pl_open_commit_file_head(spool), &window_ms, err);
    if (r > 0) {
        r = adopt(o, spool, &table, window_ms, idle_ms(o, path), NULL, err);
        if (r == 0)
            return 0;
    }
    r = r < 0 ? r : pl_open_commit_file_remove(spool, err);
    pl_op_set_finish(&table);
    pl_open_commit_file_close(spool);
    return r;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    /* compare the last 12 digits of the ids: the time at which the commit was started */
    return strcmp((*a)->d_name + PL_ID_HEX - 12, (*b)->d_name + PL_ID_HEX - 12);
}

/* Selects spools, and files that an interrupted creation or fetch of a spool left. */
static int is_spool(const struct dirent *e)
{
    return strlen(e->d_name) >= PL_ID_HEX &&
           strncmp(e->d_name + PL_ID_HEX, PL_OPEN_COMMIT_FILE_SUFFIX, strlen(PL_OPEN_COMMIT_FILE_SUFFIX)) == 0 &&
           !pl_streq(e->d_name + strlen(e->d_name) - strlen(DAMAGED), DAMAGED);
}

static int read_file(struct pl_open_commits *o, const char *path, struct pl_err *err)
{
    size_t len = strlen(path), suffix = strlen(PL_OPEN_COMMIT_FILE_SUFFIX);

    if (len > suffix && pl_streq(path + len - suffix, PL_OPEN_COMMIT_FILE_SUFFIX))
        return read_one(o, path, err);
    return unlink(path) < 0 ? pl_err_errno(err, errno, "remove %s", path) : 0;
}

static int read_all(struct pl_open_commits *o, struct pl_err *err)
{
    struct dirent **names = NULL;
    int n = scandir(o->dir, &names, is_spool, by_name), r = 0;
    char path[PATH_MAX];

    if (n < 0)
        return pl_err_errno(err, errno, "list %s", o->dir);
    for (int i = 0; i < n; i++) {
        if (r == 0 && snprintf(path, sizeof path, "%s/%s", o->dir, names[i]->d_name) < (int)sizeof path)
            r = read_file(o, path, err);
        free(names[i]);
    }
    free(names);
    return r;
}

int pl_open_commits_open(const struct pl_open_commits_config *config, struct pl_open_commits **ret, struct pl_err *err)
{
    struct pl_open_commits *o = calloc(1, sizeof *o);
    pthread_condattr_t monotonic;
    int r;

    if (!o)
        return pl_err_nomem(err);
    o->config = *config;
    if (!o->config.idle_ms)
        o->config.idle_ms = PL_OPEN_COMMIT_IDLE_MS;
    if (!o->config.retry_ms)
        o->config.retry_ms = PL_OPEN_COMMIT_RETRY_MS;
    pthread_mutex_init(&o->start_lock, NULL);
    /* start_lock may be held during a request to the object store, because starting a commit reads only one
     * tree node, from a store that is open already (open_store) */
    pl_lock_order_spans_requests(&o->start_lock);
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&o->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&o->room, NULL);
    pthread_cond_init(&o->ended, NULL);
    o->dir = strdup(config->dir);
    o->config.dir = o->dir;
    r = o->dir ? pl_io_mkdirs(o->dir, 0700, err) : pl_err_nomem(err);
    r = r < 0 ? r : pl_opens_restore(o, err);
    r = r < 0 ? r : read_all(o, err);
    if (r == 0 && o->n_saved)
        pl_opens_sweep(o);
    pl_opens_saved_finish(o);
    r = r < 0 ? r : pl_open_commits_writer_start(o, err);
    if (r < 0) {
        pl_open_commits_close(o);
        return pl_err_wrap(err, r, "open commits");
    }
    *ret = o;
    return 0;
}

void pl_open_commits_stop(struct pl_open_commits *o)
{
    if (o)
        pl_open_commits_writer_stop(o);
}

struct pl_open_commits *pl_open_commits_close(struct pl_open_commits *o)
{
    struct pl_open_commit *next;

    if (!o)
        return NULL;
    pl_open_commits_writer_stop(o);
    for (struct pl_open_commit *c = o->list; c; c = next) {
        next = c->next;
        pl_open_commit_unref(c);
    }
    pthread_cond_destroy(&o->wake);
    pthread_cond_destroy(&o->room);
    pthread_cond_destroy(&o->ended);
    pthread_mutex_destroy(&o->start_lock);
    pthread_mutex_destroy(&o->lock);
    free(o->dir);
    free(o);
    return NULL;
}
