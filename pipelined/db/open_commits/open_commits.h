/* db/open_commits: Open commits: operations that are durable before the request is answered and become one commit
 * later.
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
 *   open_commits_writer    thread that appends groups of operations
 *
 * Each open commit is one file DIR/open/<commit>.spool (open_commit_file.h). Neither the log nor the database
 * knows it before it is finished. With `durable: bucket` the store has a copy of the file (open_commit_bucket.c).
 *
 *   write ──▶ queue ──▶ writer thread: all writes waiting for a commit form a group: check, append, sync ──▶ done()
 *
 *   start ──▶ open ──finish──▶ ending ──push──▶ ended: a commit and its run; the file is deleted
 *               ▲                │failed             ▲
 *               └────────────────┘    abort, idle ───┘
 *
 * There are two kinds. A *started* commit is named by its id and has a base: if other commits have changed
 * its paths since then, finishing it is a conflict. A *gathering* commit belongs to a branch of a repo with
 * commit_window: puts that name no commit go into it, and the last writer wins. It is finished when no put
 * has come for the time commit_window, at most PL_OPEN_COMMIT_GATHER_MAX_MS after its first put.
 *
 * If finishing a gathering commit fails, it stays readable, and finishing is retried every
 * PL_OPEN_COMMIT_RETRY_MS; later gathering commits of the branch wait for it. If its operations can never be
 * applied to the branch, it is set aside, also across restarts, until a user finishes or aborts it. A
 * gathering commit is never dropped for being idle; a started commit is.
 *
 * Bounds: PL_OPEN_COMMITS_MAX commits; PL_TREE_OPS_MAX operations and PL_OPEN_COMMIT_BYTES_MAX bytes of paths and
 * entries in one, PL_OPEN_COMMITS_BYTES_MAX in all; PL_OPEN_COMMIT_QUEUE_BYTES waiting to be written. Functions
 * may be called from any thread unless stated otherwise. */
#pragma once

#include "pipelined/db/open_commits/open_commit_file.h"
#include "pipelined/db/tx/commit_tx.h"
#include "storage/pack/chunk_reader.h"
#include "storage/system/thread_pool.h"

#define PL_OPEN_COMMITS_MAX          1024u
#define PL_OPEN_COMMITS_BYTES_MAX    ((size_t)1 << 30)
#define PL_OPEN_COMMIT_BYTES_MAX     ((size_t)256 << 20)
#define PL_OPEN_COMMIT_QUEUE_BYTES   ((size_t)128 << 20)
#define PL_OPEN_COMMIT_PACK_BYTES    ((uint64_t)64 << 20) /* total size of the spool's records at which they are put into packs */
#define PL_OPEN_COMMIT_DIRECT_BYTES  ((uint64_t)16 << 20) /* files of this size or more go directly into packs */
#define PL_OPEN_COMMIT_GATHER_MAX_MS 60000
#define PL_OPEN_COMMIT_IDLE_MS       (24LL * 3600 * 1000)
#define PL_OPEN_COMMIT_RETRY_MS      5000 /* time until finishing is retried after a temporary error */
#define PL_OPEN_COMMIT_ENDS_KEPT     1000
#define PL_OPEN_COMMIT_VIEW_BYTES    ((size_t)64 << 20)

struct pl_open_commits;
struct pl_open_commit; /* one open commit; a reference keeps it readable, also after its end */

struct pl_open_commits_config {
    struct pl_db *db;
    struct pl_head_cache *heads; /* needed for writes with `check`; otherwise may be NULL */
    struct pl_project_stores *stores;
    struct pl_pool *pool; /* runs jobs that finish gathering commits and put records into packs */
    const char *dir;      /* DIR/open */
    /* Called when a commit was finished, with the id of the run that it started. Any thread; must not block. */
    void (*finished)(void *self, const char *run);
    void *self;
    int64_t idle_ms;  /* 0 = PL_OPEN_COMMIT_IDLE_MS */
    int64_t retry_ms; /* 0 = PL_OPEN_COMMIT_RETRY_MS */
};

/* Opens the open commits in `dir`. A file that cannot be read is renamed to *.damaged, with an event; a file whose
 * commit is in the database, or whose repo no longer exists, is deleted. */
PL_MUST_CHECK
int pl_open_commits_open(const struct pl_open_commits_config *config, struct pl_open_commits **ret, struct pl_err *err);
/* Writes and answers the queued writes and stops the writer thread. After that, writes are refused
 * (PL_ESTOPPING) and no commit is finished automatically. */
void pl_open_commits_stop(struct pl_open_commits *o);
/* Frees everything. Call it after stop, once no pool job of it runs and all references are released. The
 * files stay. NULL is allowed. */
struct pl_open_commits *pl_open_commits_close(struct pl_open_commits *o);

struct pl_open_commit_args {
    const char *project, *repo, *branch;
    const char *message, *author; /* NULL = "" */
    const char *owner;            /* name of the principal that starts it; NULL for a gathering commit, which is the branch's */
    /* true: PL_ENOTFOUND if the branch does not exist; false: finishing the commit creates the branch */
    bool must_exist;
};

/* Starts a commit on the branch's head. Blocks; call it on a pool thread. PL_ENOTFOUND, PL_EOUTPUT,
 * PL_ELIMIT. */
PL_MUST_CHECK
int pl_open_commits_start(struct pl_open_commits *o, const struct pl_open_commit_args *args, struct pl_open_commit **ret,
                          struct pl_err *err);
/* Returns the gathering commit of the branch, and creates it if there is none. Errors as for
 * pl_open_commits_start. */
PL_MUST_CHECK
int pl_open_commits_gather(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                           struct pl_open_commit **ret, struct pl_err *err);
/* Finds an open commit by its id or a prefix of it (at least 4 digits). With `branch_too` the text may also
 * be the name of a branch that has exactly one open commit. PL_ENOTFOUND; PL_ECONFLICT: several match. */
PL_MUST_CHECK
int pl_open_commits_find(struct pl_open_commits *o, const char *project, const char *repo, const char *text, bool branch_too,
                         struct pl_open_commit **ret, struct pl_err *err);
/* True if the text is a prefix (at least 4 digits) of the id of an open commit in a repo that `conn` may read
 * (NULL: in any repo). The run of that id does not exist before the commit is finished. */
bool pl_open_commits_has(struct pl_open_commits *o, const struct pl_conn *conn, const char *text);
struct pl_open_commit *pl_open_commit_ref(struct pl_open_commit *c);
struct pl_open_commit *pl_open_commit_unref(struct pl_open_commit *c);
static inline void pl_open_commit_unrefp(struct pl_open_commit **c)
{
    if (*c)
        *c = pl_open_commit_unref(*c);
}

const struct pl_open_commit_file_head *pl_open_commit_head(const struct pl_open_commit *c);
/* Returns the message of the last write that had one, else the message given at the start; malloc'ed, NULL
 * without memory. */
char *pl_open_commit_message(struct pl_open_commit *c);
struct pl_store *pl_open_commit_store(const struct pl_open_commit *c);
struct pl_open_commit_info {
    size_t operations;
    int64_t window_ms; /* > 0: a gathering commit, which is finished after this time without a put */
    char blocked[256]; /* why it could not be finished automatically; "" = no attempt failed */
    int blocked_code;
    int64_t blocked_us; /* wall clock of the first failed attempt */
    bool set_aside;     /* finishing is not retried: its operations cannot be applied */
};
void pl_open_commit_info(struct pl_open_commit *c, struct pl_open_commit_info *ret);
/* Returns references to the gathering commits of the branch that are not set aside, oldest first; malloc'ed, NULL
 * when there are none. */
PL_MUST_CHECK
int pl_open_commits_gathering(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                              struct pl_open_commit ***ret, size_t *ret_n, struct pl_err *err);
/* Calls `fn` for every open commit, of any repo, that could not be finished automatically. */
PL_MUST_CHECK
int pl_opens_stalled(struct pl_open_commits *o, int (*fn)(void *self, struct pl_open_commit *c), void *self);
/* Calls `fn` for every open commit of a repo. */
PL_MUST_CHECK
int pl_open_commits_each(struct pl_open_commits *o, const char *project, const char *repo,
                         int (*fn)(void *self, struct pl_open_commit *c), void *self);
struct pl_delete_loss; /* repo_tx.h */
/* Counts in loss->open_commits and loss->operations the open commits that have operations and that go with the repo, or that
 * cannot be finished without the branch (if not NULL). Its gathering commits can: the delete of a branch finishes them. PL_ENOMEM. */
PL_MUST_CHECK
int pl_open_commits_loss(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                         struct pl_delete_loss *loss, struct pl_err *err);

/* ---- writing ---- */

struct pl_branch_file; /* branch_view.h */

/* One write. The struct, and everything that its pointers refer to, belongs to the caller and must live until
 * `done` is called. */
struct pl_open_commit_write {
    /* the data that they refer to is in the store (checked with pl_db_check_content) or in `records` */
    const struct pl_tree_op *ops;
    size_t n_ops;
    const struct pl_op_record *records; /* records that are in no pack */
    size_t n_records;
    size_t bytes; /* total size of `ops` and `records` */
    /* new message of the commit, checked with pl_open_commit_file_check_message; NULL or "" = unchanged */
    const char *message;
    /* May be NULL. Called on the writer thread just before the operations are applied. It gets the file at
     * the path of the first operation, as readers of the branch see it (NULL: there is none). If it returns a
     * negative error, the write is refused with it. Must not block. */
    int (*check)(struct pl_open_commit_write *w, const struct pl_branch_file *now, struct pl_err *err);
    /* Called exactly once on the writer thread; 0 = the write survives a crash. Must not block. */
    void (*done)(struct pl_open_commit_write *w, int r, const struct pl_err *err);
    /* The fields below are used by the writer thread only. */
    struct pl_open_commit_write *next;
    int result;
    struct pl_err err;
};

/* Queues a write. If the queue is full, waits until there is space; call it on a pool thread. PL_ERETRY: the
 * commit is being finished or has ended, and `done` is not called. Errors that `done` gets: PL_ECOLLISION,
 * PL_ELIMIT, PL_ENOSPC, PL_EIO, …; then nothing of the write was applied. */
PL_MUST_CHECK
int pl_open_commit_write(struct pl_open_commit *c, struct pl_open_commit_write *w, struct pl_err *err);
/* Revives the hidden packs to which the operations of a later write refer (pl_db_check_content). Blocks; call
 * it on a pool thread. PL_ERETRY. */
PL_MUST_CHECK
int pl_open_commit_revive(struct pl_open_commit *c, const struct pl_pack_set *hidden, struct pl_err *err);
/* True if the client may skip uploading this record, because it is in the spool or in a pack. Such a pack is
 * made durable before the write is done. Until then the caller must keep a store hold (pl_store_hold). */
bool pl_open_commit_has(struct pl_open_commit *c, const struct pl_hash *id);

/* ---- finishing ---- */

/* Finishes the open commit: makes it a commit with `message`, or with pl_open_commit_message if `message` is
 * NULL or "". Blocks; call it on a pool thread. PL_ECONFLICT (names the paths), PL_ECOLLISION, PL_ENOTFOUND
 * (no such repo), errors of the store: the commit stays open. PL_ERETRY: another thread is finishing it, or
 * it has ended. */
PL_MUST_CHECK
int pl_open_commit_finish(struct pl_open_commit *c, const char *message, struct pl_push_result *ret, struct pl_err *err);
/* The end of an open commit that did not become a commit. */
struct pl_open_commit_end {
    char commit[PL_ID_HEX + 1];
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    bool unchanged;           /* true: finished, but its operations changed nothing; false: dropped */
    char head[PL_ID_HEX + 1]; /* if `unchanged`: the branch's head; "" = the branch has none */
    char reason[512];         /* a sentence for the user that says how it ended */
};
/* Finds the record of how an open commit ended, by the id of the open commit or a prefix of the id (at least
 * 4 digits). Searches the last PL_OPEN_COMMIT_ENDS_KEPT records: those of one repo, or (NULL) of all repos
 * that `c` may read. If several match, returns the newest. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_open_commit_end_find(struct pl_conn *c, const char *project, const char *repo, const char *text,
                            struct pl_open_commit_end *ret, struct pl_err *err);
/* Drops the open commit. `why` is the reason in the event. */
PL_MUST_CHECK
int pl_open_commit_abort(struct pl_open_commit *c, const char *why, struct pl_err *err);
/* Finishes the gathering commits of the branch, for an operation that needs their changes in the head.
 * Blocks. */
PL_MUST_CHECK
int pl_open_commits_flush(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                          struct pl_err *err);
/* Finishes the gathering commits of every branch that a stage of the pipeline reads. Blocks. */
PL_MUST_CHECK
int pl_open_commits_flush_inputs(struct pl_open_commits *o, const char *project, const char *pipeline, struct pl_err *err);
/* Calls `act` while all open commits of the branch, or of the whole repo (`branch` NULL), are empty and
 * closed for writes. Writers wait until `act` returns and then see its effect. If `act` succeeds, the
 * gathering commits end; if it was for the whole repo, the started ones end too. PL_ECONFLICT: an open commit
 * has operations, and `act` is not called. Blocks; call it on a pool thread. PL_ESTOPPING, errors of `act`. */
PL_MUST_CHECK
int pl_open_commits_while_empty(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                                int (*act)(void *self, struct pl_err *err), void *self, struct pl_err *err);
/* Drops the open commits of the deleted repo that had this row id. Those of a new repo of the same name stay. */
void pl_open_commits_drop_repo(struct pl_open_commits *o, const char *project, const char *repo, int64_t repo_id);

/* ---- reading ---- */

/* Data in the store that an open commit needs: the content of an entry (PL_CONTENT_CHUNK, PL_CONTENT_LIST),
 * or a whole tree (PL_CONTENT_NONE). */
struct pl_open_commit_need {
    struct pl_hash id;
    uint8_t content;
};
/* Returns what all open commits of the project need in the store at this moment, for garbage collection. The
 * caller frees `*ret`. PL_ELIMIT: more than PL_OPEN_COMMIT_NEEDS_MAX, which is possible if many small lists
 * repeat the same pieces. */
#define PL_OPEN_COMMIT_NEEDS_MAX (1u << 23) /* 264 MiB of struct pl_open_commit_need */
PL_MUST_CHECK
int pl_open_commits_roots(struct pl_open_commits *o, const char *project, struct pl_open_commit_need **ret, size_t *ret_n,
                          struct pl_err *err);

/* A view: the tree of an open commit's operations applied to its base. Some of its nodes are only in memory.
 * Valid until pl_open_commit_view_finish. */
struct pl_open_commit_view {
    struct pl_hash root;
    struct pl_node_source source;
    struct pl_open_nodes *nodes;
};
PL_MUST_CHECK
int pl_open_commit_view_init(struct pl_open_commit *c, struct pl_open_commit_view *ret, struct pl_err *err);
void pl_open_commit_view_finish(struct pl_open_commit_view *v);
/* Returns a reader of file content that looks in the spool first, then in the store. Valid while the caller
 * has a reference to the commit. */
struct pl_chunk_reader pl_open_commit_reader(struct pl_open_commit *c);
/* Says in `ret_known` whether the operations of the commit put, delete or do not name the file at a path. If
 * they put it, also returns its entry, and its attributes in `ret_attributes` (emptied first). */
PL_MUST_CHECK
int pl_open_commit_lookup(struct pl_open_commit *c, const char *path, size_t path_len, struct pl_entry *ret,
                          struct pl_buf *ret_attributes, enum pl_op_set_item *ret_known, struct pl_err *err);
/* Finds the first path ≥ this one that an operation of the commit names. False: there is none. */
bool pl_open_commit_path_from(struct pl_open_commit *c, const char *path, size_t path_len, char ret[PL_PATH_MAX_BYTES + 1],
                              size_t *ret_len);
/* Puts the records that are in the spool so far into packs. Blocks; call it on a pool thread. */
PL_MUST_CHECK
int pl_open_commit_pack_records(struct pl_open_commit *c, struct pl_err *err);
/* Puts everything into packs, including tree nodes, so that readers of the store can read the tree with the
 * root `ret_root`. The tree is kept until the next call or the end of the open commit. Blocks; call it on a
 * pool thread. */
PL_MUST_CHECK
int pl_open_commit_pack(struct pl_open_commit *c, struct pl_hash *ret_root, struct pl_err *err);
