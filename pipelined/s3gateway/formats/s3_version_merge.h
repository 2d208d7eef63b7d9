/* s3_version_merge: merges the changes of a branch's states into the lines of one page of ListObjectVersions.
 *
 * A state is an open commit or a commit, numbered from the newest, 0. It has two streams of changes, each in order
 * of path: those of its files, and those of their attributes. Lines are in order of key, then the newest first.
 *
 *   stream 0 ─┐
 *   stream 1 ─┼─▶ heap by (key, state) ─▶ line, line …   until the page is full
 *   stream n ─┘
 *
 * A stream is read from the page's first key on, in batches that double (1, 2, 4 … PL_S3_MERGE_BATCH_MAX), so a page
 * reads O(streams + lines) changes, wherever in the history it begins. No I/O of its own; one thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_S3_MERGE_BATCH_MAX 256u
/* changes that one page reads, and look-ups of folders that it begins with; the page then ends early, even without
 * a line */
#define PL_S3_MERGE_STEPS_MAX 1000000u

/* One change of a stream. */
struct pl_s3_change {
    const char *path;
    size_t path_len;
    bool is_line; /* false: it makes no line, and only tells how far the stream was read */
    bool folder;  /* an empty folder: its key is the path and a slash */
    bool marker;  /* the key was deleted */
};

/* Where the changes come from. Stream 2 s has the files of state s, stream 2 s + 1 their attributes. */
struct pl_s3_change_source {
    void *self;
    size_t states;
    /* Calls `take` for each change of the stream whose path is at or behind `from`, in order of path, until it
     * returns 0 or a negative code, which is returned. Returns 1 after the stream's last change within the prefix. */
    int (*read)(void *self, size_t stream, const char *from, size_t from_len,
                int (*take)(void *arg, const struct pl_s3_change *change, struct pl_err *err), void *arg, struct pl_err *err);
};

struct pl_s3_version_question {
    const char *prefix, *delimiter; /* "" = none */
    const char *key_marker;         /* "" = the first page */
    /* The page begins with the versions of `key_marker` behind `marker_state`, or with the next key, although that
     * may have the same common prefix. False: it begins behind the key and its common prefix. */
    bool within_key;
    size_t marker_state; /* SIZE_MAX = all versions of the key were listed */
    size_t max;          /* lines of the page, at least 1 */
    uint64_t steps_max;  /* PL_S3_MERGE_STEPS_MAX */
};

struct pl_s3_version_line {
    char *key; /* NUL-terminated; owned */
    size_t len;
    size_t state;
    bool marker; /* the key was deleted */
    bool shared; /* a common prefix */
};

struct pl_s3_version_page {
    struct pl_s3_version_line *lines;
    size_t n, cap;
    bool truncated;
    /* If the page ended early: the next page begins behind this key, within its common prefix (`within_key`,
     * `marker_state` SIZE_MAX). NULL: behind the last line. Owned. */
    char *read_to;
    size_t marker_newest; /* newest state that changed the key `key_marker`; SIZE_MAX = none */
    uint64_t steps;       /* changes that were read, and look-ups of folders */
};

/* Makes one page. `ret` must be `{0}`; finish it also after an error. PL_S3_SLOW_DOWN: more look-ups of
 * folders than PL_S3_MERGE_STEPS_MAX before the first key; PL_ENOMEM, errors of `read`. */
PL_MUST_CHECK
int pl_s3_version_merge(const struct pl_s3_change_source *source, const struct pl_s3_version_question *question,
                        struct pl_s3_version_page *ret, struct pl_err *err);
void pl_s3_version_page_finish(struct pl_s3_version_page *p);
