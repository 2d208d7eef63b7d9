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
    struct pl_open_commit *next; /* in the list, oldest first */
    unsigned refs;
    enum pl_open_commit_state state;
    struct pl_open_commit_write *first, *last; /* waiting writes */
    size_t pending;                            /* writes waiting or being written */
    struct pl_open_commit *next_ready;
    bool ready, packing;
    bool queued;  /* ENDING, and not yet taken over: either the pool's job or a waiting thread ends it */
    bool written; /* it has had a write */
    int64_t window_ms;
    uint64_t packed_group;     /* packs have the spool's records up to this group */
    int64_t first_ms, last_ms; /* monotonic: of the first and the last write */
    int64_t retry_ms;          /* the clock does not finish it before this time */
    int64_t look_ms;           /* next check whether it is idle */
    int64_t idle_since_ms;     /* monotonic: last write by a client, or attempt to finish it */
    bool closed;               /* takes no more puts that name no commit */
    bool set_aside;            /* its operations cannot be applied: left to a user; later ones may go first */
    char blocked[256];         /* why the clock could not finish it; "" = it did not fail */
    int blocked_code;
    int64_t blocked_us; /* wall clock of the first failure */

    atomic_bool saved;   /* the bucket may have objects of it */
    unsigned save_tries; /* writer thread only */

    struct pl_tree_cursor *base; /* writer thread only */

    pthread_mutex_t lock;   /* guards the fields below: the durable state */
    struct pl_op_set table; /* all operations, on top of the base */
    struct pl_op_set delta; /* operations on top of `root`; only while `nodes` is set */
    struct pl_hash packed;  /* root that pl_open_commit_pack returned last */
    struct pl_open_nodes *nodes;
    struct pl_hash root; /* of `nodes`, without `delta` */

    pthread_mutex_t view_lock; /* one view is made at a time */
};

/* A repo or branch that is closed for new writes for the moment. */
struct pl_open_commits_shutdown {
    struct pl_open_commits_shutdown *next;
    const char *project, *repo, *branch; /* branch: NULL = all branches */
};

struct pl_open_commits {
    struct pl_open_commits_config config;
    char *dir;
    _Atomic size_t bytes; /* of all tables */

    struct pl_open_saved *saved; /* at start: what the bucket has */
    size_t n_saved;

    pthread_mutex_t start_lock; /* one commit is started at a time */
    pthread_mutex_t lock;       /* guards the fields below */
    pthread_cond_t wake;        /* wakes the writer */
    pthread_cond_t room;        /* space in the queue */
    pthread_cond_t ended;       /* signalled after a write, an end, or a reopening */
    struct pl_open_commit *list;
    struct pl_open_commits_shutdown *shut;
    size_t n;
    struct pl_open_commit *ready_first, *ready_last;
    size_t queue_bytes;
    unsigned jobs;    /* running on the pool */
    int64_t sweep_ms; /* when to sweep the bucket; 0 = never */
    bool stopping;
    pthread_t thread;
    bool thread_started;
};

/* open_commits_writer.c */
PL_MUST_CHECK
int pl_open_commits_writer_start(struct pl_open_commits *o, struct pl_err *err);
/* Writes what is queued, then ends the thread. */
void pl_open_commits_writer_stop(struct pl_open_commits *o);

/* open_commits_finish.c: starts whatever is due and returns the time (monotonic ms) of the next check. Caller
 * holds o->lock. */
int64_t pl_open_commits_due(struct pl_open_commits *o, int64_t now_ms);
/* Returns references to all open commits of a repo; malloc'ed. */
PL_MUST_CHECK
int pl_open_commits_list(struct pl_open_commits *o, const char *project, const char *repo, struct pl_open_commit ***ret,
                         size_t *ret_n);
/* open_commits_shutdown.c: the first says whether the branch is closed, the second waits until it is open or the
 * daemon stops. */
bool pl_open_commits_is_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args);
void pl_open_commits_wait_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args);
/* Takes the commit over for its end: sets ENDING, and waits until queued writes are written. PL_ERETRY: another
 * thread is ending it, or has. */
PL_MUST_CHECK
int pl_open_commit_begin_end(struct pl_open_commit *c, struct pl_err *err);
/* open_commits_events.c: saves in a file that the commit is set aside, and why, so that the next start does not
 * apply it over later puts. */
void pl_open_set_aside(struct pl_open_commit *c);
/* Reads that file at a start. */
void pl_open_read_set_aside(struct pl_open_commit *c);
/* Removes that file. */
void pl_open_forget_set_aside(const struct pl_open_commit *c);
/* Reopens a commit whose end failed. */
void pl_open_commit_retry(struct pl_open_commit *c);
/* Waits until the thread that is ending the commit has ended or reopened it, or the daemon stops. */
void pl_open_commit_wait_end(struct pl_open_commit *c);
/* Removes the commit from the list and deletes its file. */
void pl_open_commit_removed(struct pl_open_commit *c);
/* Writes an event; a failure is only logged. */
void pl_open_commit_event(struct pl_open_commit *c, const char *change, const char *why);
/* The same for a commit that ends without a commit, before its file is deleted; also records the end (struct
 * pl_open_commit_end). `head`: NULL = it is dropped. */
void pl_open_commit_ends(struct pl_open_commit *c, const char *head, const char *why);

/* open_commit_bucket.c: fetches the files of which the bucket has more than the disk. Before the files are read. */
PL_MUST_CHECK
int pl_opens_restore(struct pl_open_commits *o, struct pl_err *err);
void pl_opens_saved_finish(struct pl_open_commits *o);
/* From now on every write goes to the bucket first, if the repo is durable there. */
void pl_open_begin_saving(struct pl_open_commit *c);
/* Removes the commit's objects from the bucket. Blocks. */
PL_MUST_CHECK
int pl_open_unsave(struct pl_open_commit *c, struct pl_err *err);
/* Removes from the bucket the objects of commits that are not open. On the pool, or before the first write. */
void pl_opens_sweep(struct pl_open_commits *o);
/* Schedules a sweep after the retry time. */
void pl_opens_sweep_later(struct pl_open_commits *o, const struct pl_err *why);

/* open_commits_view.c */
void pl_open_commit_nodes_unref(struct pl_open_nodes *n);
/* Moves a group that is durable into the table, which has space for it (pl_op_set_reserve). Caller holds c->lock. */
void pl_open_commit_group_durable(struct pl_open_commit *c, struct pl_op_set *group);
