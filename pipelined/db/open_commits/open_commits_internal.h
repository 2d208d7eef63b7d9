/* opens_internal: what the files of open commits share: opens (life), opens_end (how they end), opens_writer (the thread that writes
 * groups), opens_view (reading). */
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
    struct pl_node_source source; /* of the store */

    /* Under o->lock. */
    struct pl_open_commit *next; /* of the list; the oldest first */
    unsigned refs;
    enum pl_open_commit_state state;
    struct pl_open_commit_write *first, *last; /* waiting */
    size_t pending;                            /* waiting or being written */
    struct pl_open_commit *next_ready;
    bool ready, packing;
    bool queued;  /* ENDING, and nobody is at it yet: whoever comes first does it, the pool's job or who waits for the end */
    bool written; /* something was */
    int64_t window_ms;
    uint64_t packed_group;     /* records of the spool up to this group are in packs */
    int64_t first_ms, last_ms; /* monotonic: of its first and last write */
    int64_t retry_ms;          /* not finished by the clock before that */
    int64_t look_ms;           /* when to see whether it is idle */
    int64_t idle_since_ms;     /* monotonic: when a client last wrote to it, or tried to finish it */
    bool closed;               /* takes no more puts that name no commit */
    bool set_aside;            /* its operations cannot be applied: somebody must look at it, and others go before it */
    char blocked[256];         /* why the clock could not finish it; "" = it did not fail */
    int blocked_code;
    int64_t blocked_us; /* wall clock: since when */

    atomic_bool saved;   /* the bucket may have something of it */
    unsigned save_tries; /* the writer's */

    struct pl_tree_cursor *base; /* the writer's */

    pthread_mutex_t lock;   /* what follows: what is durable */
    struct pl_op_set table; /* upon the base */
    struct pl_op_set delta; /* upon `nodes`' root; only while there is one */
    struct pl_hash packed;  /* the tree that pl_open_commit_pack put last */
    struct pl_open_nodes *nodes;
    struct pl_hash root; /* of `nodes` without `delta` */

    pthread_mutex_t view_lock; /* one view is made at a time */
};

/* What nobody may write to for the moment. */
struct pl_open_commits_shutdown {
    struct pl_open_commits_shutdown *next;
    const char *project, *repo, *branch; /* branch: NULL = all */
};

struct pl_open_commits {
    struct pl_open_commits_config config;
    char *dir;
    _Atomic size_t bytes; /* of all tables */

    struct pl_open_saved *saved; /* a start's: what the bucket has */
    size_t n_saved;

    pthread_mutex_t start_lock; /* one is started at a time */
    pthread_mutex_t lock;       /* what follows */
    pthread_cond_t wake;        /* of the writer */
    pthread_cond_t room;        /* in the queue */
    pthread_cond_t ended;       /* something was written, or ended, or is shut no more */
    struct pl_open_commit *list;
    struct pl_open_commits_shutdown *shut;
    size_t n;
    struct pl_open_commit *ready_first, *ready_last;
    size_t queue_bytes;
    unsigned jobs;    /* on the pool */
    int64_t sweep_ms; /* when to sweep the bucket; 0 = there is nothing to sweep */
    bool stopping;
    pthread_t thread;
    bool thread_started;
};

/* opens_writer */
PL_MUST_CHECK
int pl_open_commits_writer_start(struct pl_open_commits *o, struct pl_err *err);
/* Writes what waits, then ends. */
void pl_open_commits_writer_stop(struct pl_open_commits *o);

/* opens_end: what the clock says is due; the time (monotonic ms) at which to look again. Under o->lock. */
int64_t pl_open_commits_due(struct pl_open_commits *o, int64_t now_ms);
/* References of all of a repo; malloc'ed. */
PL_MUST_CHECK
int pl_open_commits_list(struct pl_open_commits *o, const char *project, const char *repo, struct pl_open_commit ***ret,
                         size_t *ret_n);
/* opens_shut: whether the branch is shut; waits until it is not, or all stops. */
bool pl_open_commits_is_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args);
void pl_open_commits_wait_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args);
/* ENDING is ours: nobody writes to it any more, and what waits is written. PL_ERETRY: another one ends it, or has. */
PL_MUST_CHECK
int pl_open_commit_begin_end(struct pl_open_commit *c, struct pl_err *err);
/* opens_told: beside its file it is kept that it is set aside, and why: the next start must not apply it over what came later. */
void pl_open_set_aside(struct pl_open_commit *c);
/* opens_told: a start reads that back. */
void pl_open_read_set_aside(struct pl_open_commit *c);
/* opens_told: that note goes. */
void pl_open_forget_set_aside(const struct pl_open_commit *c);
/* It does not end after all. */
void pl_open_commit_retry(struct pl_open_commit *c);
/* Until whoever is at it has ended it, or opened it again, or all stops. */
void pl_open_commit_wait_end(struct pl_open_commit *c);
/* Takes it out of the list and its file away. */
void pl_open_commit_removed(struct pl_open_commit *c);
/* An event; failing to write it is not told to anybody. */
void pl_open_commit_event(struct pl_open_commit *c, const char *change, const char *why);
/* The same for one that ends without a commit, before its file goes: it is kept how (struct pl_open_commit_end). `head`: NULL = it is dropped. */
void pl_open_commit_ends(struct pl_open_commit *c, const char *head, const char *why);

/* opens_bucket: before the files are read: those that lack something of what the bucket has are fetched. */
PL_MUST_CHECK
int pl_opens_restore(struct pl_open_commits *o, struct pl_err *err);
void pl_opens_saved_finish(struct pl_open_commits *o);
/* From here on what is written goes into the bucket first, if it is durable there. */
void pl_open_begin_saving(struct pl_open_commit *c);
/* The bucket has nothing of it any more. Blocks. */
PL_MUST_CHECK
int pl_open_unsave(struct pl_open_commit *c, struct pl_err *err);
/* Removes from the bucket what belongs to no open commit. On the pool, or before anything is written. */
void pl_opens_sweep(struct pl_open_commits *o);
/* It is swept after a while. */
void pl_opens_sweep_later(struct pl_open_commits *o, const struct pl_err *why);

/* opens_view */
void pl_open_commit_nodes_unref(struct pl_open_nodes *n);
/* A group is durable: it goes into the table, which has room for it (pl_op_set_reserve). Caller holds c->lock. */
void pl_open_commit_group_durable(struct pl_open_commit *c, struct pl_op_set *group);
