/* db/open_commits: Open commits: operations that are durable before the request is answered and become one commit later.
 *
 * In:      Operations with small records.
 * Out:     A view of the branch with pending operations; a push.
 * Uses:    db/{tx, writer}, storage/{base, chunk, pack, store, system, tree, tree_edit}, storage/dataset/commit
 * Threads: A thread of its own appends groups; reads on the pool.
 *
 * Headers for other rooms:
 *   branch_view            a branch's head with pending operations on top
 *   head_cache             in-memory cache of repos and branch heads
 *
 * Inside:
 *   open_commit_bucket     the copy of an open commit in the bucket
 *   open_commit_file       file format of one open commit
 *   open_commits_events    events about open commits
 *   open_commits_finish    finishes or discards open commits
 *   open_commits_internal  state shared by the open-commit files
 *   open_commits_roots     records that open commits need (for garbage collection)
 *   open_commits_shutdown  closes the open commits of a repo or branch that is being deleted
 *   open_commits_view      reads an open commit as a tree
 *   open_commits_writer    thread that appends groups of operations */

/* opens: open commits: operations that gather, answered when they are on the disk, until somebody (or the repo's commit_window) finishes
 * them as one commit with one run. Each is a file DIR/open/<commit>.spool (pipelined/db/open_commits/open_commit_file.h), and nothing else is kept of it:
 * neither log nor database know it before it is finished. With `durable: bucket` the store has a copy of the file (opens_bucket.c).
 *
 *             write ──▶ queue ──▶ writer thread: all that waits for a commit is one group: checked, appended, fdatasync ──▶ done()
 *
 *   start ──▶ open ──finish──▶ ending ──push──▶ ended: a commit, its run; the file goes
 *               ▲                 │failed              ▲
 *               └─────────────────┘     abort, idle ───┘
 *
 * A gathered one whose finish fails is tried again every PL_OPEN_COMMIT_RETRY_MS, whatever the store says, in its place before what gathered
 * later; it stays readable. Only one whose operations cannot be applied to the branch is set aside, also over restarts, until somebody
 * finishes or aborts it. Neither is ever dropped for being idle.
 *
 * Two kinds. One that was *started* is named by its id, and has a base: what others changed of its paths since makes finishing it a
 * conflict. One that *gathers* belongs to a branch of a repo with commit_window: puts that name no commit go into it, the last writer
 * wins, and it is finished when none came for the window, at most PL_OPEN_COMMIT_GATHER_MAX_MS after its first.
 *
 * Bounds: PL_OPEN_COMMITS_MAX commits; PL_TREE_OPS_MAX operations and PL_OPEN_COMMIT_BYTES_MAX of paths and entries in one, PL_OPEN_COMMITS_BYTES_MAX in all;
 * PL_OPEN_COMMIT_QUEUE_BYTES waiting to be written. Any thread, unless said otherwise. */
#pragma once

#include "pipelined/db/open_commits/open_commit_file.h"
#include "pipelined/db/tx/commit_tx.h"
#include "storage/pack/chunk_reader.h"
#include "storage/system/thread_pool.h"

#define PL_OPEN_COMMITS_MAX          1024u
#define PL_OPEN_COMMITS_BYTES_MAX    ((size_t)1 << 30)
#define PL_OPEN_COMMIT_BYTES_MAX     ((size_t)256 << 20)
#define PL_OPEN_COMMIT_QUEUE_BYTES   ((size_t)128 << 20)
#define PL_OPEN_COMMIT_PACK_BYTES    ((uint64_t)64 << 20) /* of records in the spool: then they go into packs */
#define PL_OPEN_COMMIT_DIRECT_BYTES  ((uint64_t)16 << 20) /* a file from here on goes into packs at once */
#define PL_OPEN_COMMIT_GATHER_MAX_MS 60000
#define PL_OPEN_COMMIT_IDLE_MS       (24LL * 3600 * 1000)
#define PL_OPEN_COMMIT_RETRY_MS      5000 /* after a finish that failed for no fault of the operations */
#define PL_OPEN_COMMIT_ENDS_KEPT     1000
#define PL_OPEN_COMMIT_VIEW_BYTES    ((size_t)64 << 20)

struct pl_open_commits;
struct pl_open_commit; /* one open commit; a reference keeps it readable, also when it has ended */

struct pl_open_commits_config {
    struct pl_db *db;
    struct pl_head_cache_entrys *heads; /* for writes with a check; else may be NULL */
    struct pl_project_stores *stores;
    struct pl_pool *pool; /* finishes what is quiet, packs what is much */
    const char *dir;      /* DIR/open */
    /* A commit was finished and made this run. Any thread, never blocks. */
    void (*finished)(void *self, const char *run);
    void *self;
    int64_t idle_ms;  /* 0 = PL_OPEN_COMMIT_IDLE_MS */
    int64_t retry_ms; /* 0 = PL_OPEN_COMMIT_RETRY_MS */
};

/* Reads what lies in `dir`. A file that cannot be read is renamed to *.damaged and told by an event; one whose commit is in the database,
 * or whose repo is gone, is removed. */
PL_MUST_CHECK
int pl_open_commits_open(const struct pl_open_commits_config *config, struct pl_open_commits **ret, struct pl_err *err);
/* What waits is written and answered; later writes are refused (PL_ESTOPPING); nothing is finished by the clock any more. */
void pl_open_commits_stop(struct pl_open_commits *o);
/* After stop, when the pool does nothing for it any more and all references are given back. The files stay. NULL is fine. */
struct pl_open_commits *pl_open_commits_close(struct pl_open_commits *o);

struct pl_open_commit_args {
    const char *project, *repo, *branch;
    const char *message, *author; /* NULL = "" */
    bool must_exist;              /* the branch: PL_ENOTFOUND when it does not; else it is made with the commit */
};

/* Starts one on the branch's head. Blocks: on the pool. PL_ENOTFOUND, PL_EOUTPUT, PL_ELIMIT. */
PL_MUST_CHECK
int pl_open_commits_start(struct pl_open_commits *o, const struct pl_open_commit_args *args, struct pl_open_commit **ret,
                          struct pl_err *err);
/* The one that gathers on the branch, started when there is none. The same errors. */
PL_MUST_CHECK
int pl_open_commits_gather(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                           struct pl_open_commit **ret, struct pl_err *err);
/* By its id, the start of one (at least 4 digits), or, with `branch_too`, a branch that has but one. PL_ENOTFOUND, PL_ECONFLICT
 * (several). */
PL_MUST_CHECK
int pl_open_commits_find(struct pl_open_commits *o, const char *project, const char *repo, const char *text, bool branch_too,
                         struct pl_open_commit **ret, struct pl_err *err);
/* Whether an open commit of any repo that `conn` may read (NULL: of any) has an id that starts so (at least 4 digits): its run is still to
 * come. */
bool pl_open_commits_has(struct pl_open_commits *o, const struct pl_conn *conn, const char *text);
struct pl_open_commit *pl_open_commit_ref(struct pl_open_commit *c);
struct pl_open_commit *pl_open_commit_unref(struct pl_open_commit *c);
static inline void pl_open_commit_unrefp(struct pl_open_commit **c)
{
    if (*c)
        *c = pl_open_commit_unref(*c);
}

const struct pl_open_commit_file_head *pl_open_commit_head(const struct pl_open_commit *c);
/* The last one that came with a write, else that of its start; malloc'ed, NULL without memory. */
char *pl_open_commit_message(struct pl_open_commit *c);
struct pl_store *pl_open_commit_store(const struct pl_open_commit *c);
struct pl_open_commit_info {
    size_t operations;
    int64_t window_ms; /* > 0: it gathers */
    char blocked[256]; /* why the clock could not finish it; "" = it did not fail */
    int blocked_code;
    int64_t blocked_us; /* wall clock: since when */
    bool set_aside;     /* it is not tried again: its operations cannot be applied */
};
void pl_open_commit_info(struct pl_open_commit *c, struct pl_open_commit_info *ret);
/* References of all that gather on the branch, and are not set aside, the oldest first; malloc'ed, NULL when there are none. */
PL_MUST_CHECK
int pl_open_commits_gathering(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                              struct pl_open_commit ***ret, size_t *ret_n, struct pl_err *err);
/* Calls `fn` for every one, of any repo, that the clock could not finish. */
PL_MUST_CHECK
int pl_opens_stalled(struct pl_open_commits *o, int (*fn)(void *self, struct pl_open_commit *c), void *self);
/* Calls `fn` for every one of a repo. */
PL_MUST_CHECK
int pl_open_commits_each(struct pl_open_commits *o, const char *project, const char *repo,
                         int (*fn)(void *self, struct pl_open_commit *c), void *self);

/* ---- writing ---- */

struct pl_branch_file; /* branch_view.h */

/* Memory of the caller until `done`, like all it points to. */
struct pl_open_commit_write {
    const struct pl_tree_op *ops; /* checked (pl_db_check_content), or of `records` */
    size_t n_ops;
    const struct pl_op_record *records; /* bytes that are in no pack */
    size_t n_records;
    size_t bytes;        /* of all that */
    const char *message; /* pl_open_commit_file_check_message; the commit's from now on; NULL or "": it stays */
    /* When not NULL: asked on the writer thread, just before the operations are taken, with what is at the path of the first one (NULL:
     * nothing), as who reads the branch sees it. Negative: nothing is taken, and that is told by done. Does not block. */
    int (*check)(struct pl_open_commit_write *w, const struct pl_branch_file *now, struct pl_err *err);
    /* Exactly once, on the writer thread: 0 = it survives a crash. Does not block. */
    void (*done)(struct pl_open_commit_write *w, int r, const struct pl_err *err);
    /* The writer's. */
    struct pl_open_commit_write *next;
    int result;
    struct pl_err err;
};

/* Waits for room in the queue: on the pool. PL_ERETRY: it is being finished, or has ended; then `done` is not called. Through done:
 * PL_ECOLLISION, PL_ELIMIT, PL_ENOSPC, PL_EIO, …: nothing of it was taken. */
PL_MUST_CHECK
int pl_open_commit_write(struct pl_open_commit *c, struct pl_open_commit_write *w, struct pl_err *err);
/* Hidden packs that operations of a write to come stand on live again (pl_db_check_content). Blocks: on the pool. PL_ERETRY. */
PL_MUST_CHECK
int pl_open_commit_revive(struct pl_open_commit *c, const struct pl_pack_set *hidden, struct pl_err *err);
/* Whether a record need not be sent along: it is in a pack (made durable before the write is done) or in the spool. Under a hold that
 * lasts until the write is done. */
bool pl_open_commit_has(struct pl_open_commit *c, const struct pl_hash *id);

/* ---- ending ---- */

/* Makes it a commit, with `message`; when that is NULL or "" with the last one that came with a write, else with that of its start. Blocks: on the pool. PL_ECONFLICT with the paths, PL_ECOLLISION, PL_ENOTFOUND (its repo), errors of the store: it
 * stays open. PL_ERETRY: somebody else is at it. */
PL_MUST_CHECK
int pl_open_commit_finish(struct pl_open_commit *c, const char *message, struct pl_push_result *ret, struct pl_err *err);
/* How one ended that made no commit. */
struct pl_open_commit_end {
    char commit[PL_ID_HEX + 1];
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    bool unchanged;           /* finished, and it changed nothing; else it was dropped */
    char head[PL_ID_HEX + 1]; /* unchanged: the branch's commit; "" = it has none */
    char reason[512];         /* a sentence */
};
/* By its id or the start of one (at least 4 digits), of the last PL_OPEN_COMMIT_ENDS_KEPT, in one repo or (NULL) in any that `c` may read; the
 * newest when several are meant. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_open_commit_end_find(struct pl_conn *c, const char *project, const char *repo, const char *text,
                            struct pl_open_commit_end *ret, struct pl_err *err);
/* Forgets it; `why` goes into the event. */
PL_MUST_CHECK
int pl_open_commit_abort(struct pl_open_commit *c, const char *why, struct pl_err *err);
/* Finishes what gathers on the branch, if anything: before something that shall see it. Blocks. */
PL_MUST_CHECK
int pl_open_commits_flush(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                          struct pl_err *err);
/* The same for every branch that a stage of the pipeline reads. Blocks. */
PL_MUST_CHECK
int pl_open_commits_flush_inputs(struct pl_open_commits *o, const char *project, const char *pipeline, struct pl_err *err);
/* Calls `act` while nothing can get into what is open on the repo's branch, or on any of its branches (`branch` NULL), and all of that is
 * empty: who would write waits until it has returned, and finds then what it left. What gathered ends when `act` succeeds, with the whole
 * repo also what was started. PL_ECONFLICT: something has operations; then `act` is not called. Blocks: on the pool. PL_ESTOPPING, errors
 * of `act`. */
PL_MUST_CHECK
int pl_open_commits_while_empty(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                                int (*act)(void *self, struct pl_err *err), void *self, struct pl_err *err);
/* The repo with this row id is gone: so are its open commits, but not those of another that has its name by now. */
void pl_open_commits_drop_repo(struct pl_open_commits *o, const char *project, const char *repo, int64_t repo_id);

/* ---- reading ---- */

/* What an open commit needs of the store: the content of an entry (PL_CONTENT_CHUNK, PL_CONTENT_LIST), or a whole tree (PL_CONTENT_NONE). */
struct pl_open_commit_need {
    struct pl_hash id;
    uint8_t content;
};
/* What all open commits of the project need, as of now; the caller frees `*ret`. For garbage collection. PL_ELIMIT: more than
 * PL_OPEN_COMMIT_NEEDS_MAX, which lists whose pieces come again and again can say of few bytes. */
#define PL_OPEN_COMMIT_NEEDS_MAX (1u << 23) /* 264 MiB */
PL_MUST_CHECK
int pl_open_commits_roots(struct pl_open_commits *o, const char *project, struct pl_open_commit_need **ret, size_t *ret_n,
                          struct pl_err *err);

/* What it would be if it were finished on its base: a tree whose nodes are partly in memory. Valid until finish. */
struct pl_open_commit_view {
    struct pl_hash root;
    struct pl_node_source source;
    struct pl_open_nodes *nodes;
};
PL_MUST_CHECK
int pl_open_commit_view_init(struct pl_open_commit *c, struct pl_open_commit_view *ret, struct pl_err *err);
void pl_open_commit_view_finish(struct pl_open_commit_view *v);
/* Bytes of files: of the spool, else of the store. As long as the commit is referenced. */
struct pl_chunk_reader pl_open_commit_reader(struct pl_open_commit *c);
/* What its operations say of a path; of a file its entry and its attributes, into `ret_attributes` (emptied first). */
PL_MUST_CHECK
int pl_open_commit_lookup(struct pl_open_commit *c, const char *path, size_t path_len, struct pl_entry *ret,
                          struct pl_buf *ret_attributes, enum pl_op_set_item *ret_known, struct pl_err *err);
/* The first path ≥ this one that an operation names. False: there is none. */
bool pl_open_commit_path_from(struct pl_open_commit *c, const char *path, size_t path_len, char ret[PL_PATH_MAX_BYTES + 1],
                              size_t *ret_len);
/* Puts the bytes of what was written so far into packs. Blocks: on the pool. */
PL_MUST_CHECK
int pl_open_commit_pack_records(struct pl_open_commit *c, struct pl_err *err);
/* Puts all of it into packs, tree nodes too, so that whoever can read the store can read the tree `ret_root`, until the next call or
 * the commit's end. Blocks: on the pool. */
PL_MUST_CHECK
int pl_open_commit_pack(struct pl_open_commit *c, struct pl_hash *ret_root, struct pl_err *err);
