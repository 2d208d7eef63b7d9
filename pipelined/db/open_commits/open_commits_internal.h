/* open_commits_internal: state and functions shared by the open-commit files. Lock order: o->start_lock, o->lock;
 * c->view_lock, c->lock. */
#pragma once

#include "pipelined/db/open_commits/open_commits.h"
#include "storage/tree_edit/op_overlay.h"

#include <pthread.h>
#include <stdatomic.h>

enum pl_open_commit_state { PL_OPEN_OPEN, PL_OPEN_ENDING, PL_OPEN_ENDED };

struct pl_open_commit {
    struct pl_open_commits *o;
    struct pl_open_commit_file *spool;
    struct pl_store *store;
    struct pl_node_source source; /* reads the store's nodes */

    /* Under o->lock. */
    struct pl_open_commit *next; /* next commit in pl_open_commits.list, which is ordered from oldest to newest */
    unsigned refs;
    enum pl_open_commit_state state;
    struct pl_open_commit_write *first, *last; /* waiting writes */
    size_t pending;                            /* writes waiting or being written */
    struct pl_open_commit *next_ready;
    bool ready, packing;
    bool queued;  /* a pool job was queued to end the commit, and neither that job nor another thread has claimed it so far */
    bool written; /* at least one write was queued for it */
    int64_t window_ms;
    uint64_t packed_group;     /* number of the spool's last group whose records are in packs */
    int64_t first_ms, last_ms; /* monotonic: of the first and the last write */
    int64_t retry_ms;          /* monotonic; it is not finished automatically before this time */
    int64_t look_ms;           /* monotonic; time of the next check whether it is idle */
    int64_t idle_since_ms;     /* monotonic; last write by a client, or last attempt to finish it */
    bool closed;               /* a gathering commit that gets no more puts; they go into a new one */
    /* its operations cannot be applied: a user must decide, and later commits of the branch need not wait */
    bool set_aside;
    char blocked[256]; /* why it could not be finished automatically; "" = no attempt failed */
    int blocked_code;
    int64_t blocked_us; /* wall clock of the first failed attempt */

    atomic_bool saved;   /* the bucket may have objects of this commit */
    unsigned save_tries; /* number of puts to the bucket so far; writer thread only */

    struct pl_tree_cursor *base; /* cursor in the tree of the base; writer thread only */

    pthread_mutex_t lock;   /* guards the fields below, which describe what is durable in the spool */
    struct pl_op_set table; /* all operations of the commit, on top of the base */
    struct pl_op_set delta; /* operations since the last view, on top of `root`; used only while `nodes` is set */
    struct pl_hash packed;  /* root that the last pl_open_commit_pack returned */
    struct pl_open_nodes *nodes;
    struct pl_hash root; /* root of the last view in `nodes`, without the operations in `delta` */

    pthread_mutex_t view_lock; /* held while a view is made: one at a time */
};

/* A repo or branch that is closed for new writes while it is being deleted. */
struct pl_open_commits_shutdown {
    struct pl_open_commits_shutdown *next;
    const char *project, *repo, *branch; /* branch: NULL = all branches */
};

struct pl_open_commits {
    struct pl_open_commits_config config;
    char *dir;
    _Atomic size_t bytes; /* total size of the operations of all open commits */

    struct pl_open_saved *saved; /* used at start: for each open commit, the objects that the bucket has */
    size_t n_saved;

    pthread_mutex_t start_lock; /* held while a commit is started: one at a time */
    pthread_mutex_t lock;       /* guards the fields below */
    pthread_cond_t wake;        /* wakes the writer thread */
    pthread_cond_t room;        /* signalled when the queue has space again */
    pthread_cond_t ended;       /* signalled after a write, and when a commit has ended or was reopened */
    struct pl_open_commit *list;
    struct pl_open_commits_shutdown *shut;
    size_t n;
    struct pl_open_commit *ready_first, *ready_last;
    size_t queue_bytes;
    unsigned jobs;    /* number of jobs on the pool */
    int64_t sweep_ms; /* monotonic; when to sweep the bucket; 0 = no sweep is due */
    bool stopping;
    pthread_t thread;
    bool thread_started;
};

/* open_commits_writer.c */
PL_MUST_CHECK
int pl_open_commits_writer_start(struct pl_open_commits *o, struct pl_err *err);
/* Writes the queued writes, then ends the thread. */
void pl_open_commits_writer_stop(struct pl_open_commits *o);

/* open_commits_finish.c: starts pool jobs for the commits that are due and returns the time (monotonic ms) of
 * the next check. Caller holds o->lock. */
int64_t pl_open_commits_due(struct pl_open_commits *o, int64_t now_ms);
/* Returns references to all open commits of a repo; malloc'ed. */
PL_MUST_CHECK
int pl_open_commits_list(struct pl_open_commits *o, const char *project, const char *repo, struct pl_open_commit ***ret,
                         size_t *ret_n);
/* open_commits_shutdown.c: pl_open_commits_is_closed says whether the branch is closed for writes;
 * pl_open_commits_wait_closed waits until it is open or the daemon stops. */
bool pl_open_commits_is_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args);
void pl_open_commits_wait_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args);
/* Claims the commit in order to end it: sets its state to ENDING and waits until its queued writes are
 * written. PL_ERETRY: another thread is ending it, or it has ended. */
PL_MUST_CHECK
int pl_open_commit_begin_end(struct pl_open_commit *c, struct pl_err *err);
/* open_commits_events.c: writes a file that says that the commit is set aside, and why, so that the next
 * start does not apply its operations over later puts. */
void pl_open_set_aside(struct pl_open_commit *c);
/* Reads the file that pl_open_set_aside wrote, at a start. */
void pl_open_read_set_aside(struct pl_open_commit *c);
/* Removes the file that pl_open_set_aside wrote. */
void pl_open_forget_set_aside(const struct pl_open_commit *c);
/* Sets a commit that could not be ended back to the state OPEN. */
void pl_open_commit_retry(struct pl_open_commit *c);
/* Waits until the commit has ended or was reopened, or the daemon stops. */
void pl_open_commit_wait_end(struct pl_open_commit *c);
/* Removes the commit from the list and deletes its file and its objects in the bucket. */
void pl_open_commit_removed(struct pl_open_commit *c);
/* Writes an event about the commit; a failure is only logged. */
void pl_open_commit_event(struct pl_open_commit *c, const char *change, const char *why);
/* Writes the event of an open commit that ends without a new commit, and records how it ended (struct
 * pl_open_commit_end). Call it before the file is deleted. `head`: the branch's head, since nothing changed;
 * NULL = the open commit is dropped. */
void pl_open_commit_ends(struct pl_open_commit *c, const char *head, const char *why);

/* open_commit_bucket.c: fetches the files of which the bucket has more bytes than the disk. Call it before
 * the files are read. */
PL_MUST_CHECK
int pl_opens_restore(struct pl_open_commits *o, struct pl_err *err);
void pl_opens_saved_finish(struct pl_open_commits *o);
/* If the repo has durable set to "bucket", every write is from now on put into the bucket before it is
 * appended to the file. */
void pl_open_begin_saving(struct pl_open_commit *c);
/* Removes the commit's objects from the bucket. Blocks. */
PL_MUST_CHECK
int pl_open_unsave(struct pl_open_commit *c, struct pl_err *err);
/* Removes from the bucket the objects of commits that are not open. Call it on a pool thread, or before the
 * first write. */
void pl_opens_sweep(struct pl_open_commits *o);
/* Logs `why` and schedules a sweep after config.retry_ms. */
void pl_opens_sweep_later(struct pl_open_commits *o, const struct pl_err *why);

/* open_commits_view.c */
void pl_open_commit_nodes_unref(struct pl_open_nodes *n);
/* Adds the operations of a durable group to c->table, in which pl_op_set_reserve has reserved space. Caller
 * holds c->lock. */
void pl_open_commit_group_durable(struct pl_open_commit *c, struct pl_op_set *group);
