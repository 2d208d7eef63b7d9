/* provenance_walk: collects the commits that a commit was made from, and those that were made from it, and narrows them to
 * what concerns some of its files.
 *
 * Up: each commit names what it was made from. Down: one pass over the commits after it, oldest first; one that was made from a
 * collected one is collected. What the principal may not read is not followed: up it is a commit with a note, down it is not
 * there.
 *
 * Files: an output commit has a tree that says which datum wrote a path, and a datum's key says which paths it read. Up and
 * down use the same relation, so that one is the inverse of the other.
 *
 * The walk holds no database reader while it reads trees, and gives readers back between pages. */
#pragma once

#include "pipelined/api/server/api_context.h"

#include "pipelined/provenance/provenance.h"
#include "storage/base/map.h"

#define PL_WALK_COMMITS_MAX 20000u   /* commits that are collected */
#define PL_WALK_EDGES_MAX   100000u  /* edges between them */
#define PL_WALK_SCAN_MAX    100000u  /* commits after the root that are examined */
#define PL_WALK_FILES_MAX   10000u   /* files of one commit that are followed */
#define PL_WALK_VISITS_MAX  1000000u /* entries of trees that are examined */
#define PL_WALK_DATUMS_MAX  8u       /* datums that are kept of each commit */

/* A datum that wrote one of a commit's followed files. */
struct pl_walk_datum {
    const uint8_t *key; /* enumeration key */
    size_t key_len;
};

/* A commit of the walk. Texts live in the walk's arena. */
struct pl_walk_commit {
    int64_t id; /* of table commit_; 0 = there is none, and `note` says why */
    const char *project, *repo, *run;
    const char *note; /* NULL = it is there */
    struct pl_hash root, owner, table;
    int64_t files, bytes, created_us;
    uint32_t depth; /* edges to the root when it was collected */
    /* Files that are followed, with a walk of files. */
    struct pl_map known;
    const char **paths; /* sorted after pl_walk_files */
    uint32_t n_paths, room;
    bool more; /* there are more files than are followed */
    struct pl_walk_datum datums[PL_WALK_DATUMS_MAX];
    uint32_t n_datums;
};

struct pl_walk_edge {
    uint32_t from, to;
    bool used; /* with a walk of files: a followed file of `to` was made from one of `from` */
};

struct pl_walk {
    struct pl_api *api;
    const struct pl_http_request *req;
    struct pl_arena *arena;
    bool up, down;
    uint32_t depth;
    struct pl_effort effort;
    struct pl_map index; /* "project/repo@run" → number of the commit + 1 */
    struct pl_walk_commit *commits;
    struct pl_walk_edge *edges;
    uint32_t n_commits, n_edges, room_commits, room_edges, root;
    uint32_t visits; /* entries of trees that were examined */
    bool more;       /* a bound was reached: not all was examined */
};

/* Collects the commits around `root`, sorts them into the order in which they were made, and sets `w->root`. `w` has api, req,
 * arena, up, down, depth and effort. Release it with pl_walk_finish also after an error. */
PL_MUST_CHECK
int pl_walk_commits(struct pl_walk *w, const char *project, const char *repo, const struct pl_commit_row *root,
                    struct pl_err *err);
/* Follows the file `path` of the root, or the files below the folder `path`, and drops all edges but those that files take.
 * PL_ENOTFOUND: there is no such file. */
PL_MUST_CHECK
int pl_walk_files(struct pl_walk *w, const char *path, struct pl_err *err);
void pl_walk_finish(struct pl_walk *w);
