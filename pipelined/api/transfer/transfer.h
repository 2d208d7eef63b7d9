/* api/transfer: Bytes in and out in bounded memory: body spool, upload sessions, downloads, verification of
 * direct uploads, disk watch, pushes. Declares struct pl_api_services, which the routes and the S3 gateway
 * share.
 *
 * In:      Bodies, packs.
 * Out:     Durable packs, operations on a branch or an open commit, responses.
 * Uses:    api/access, db/{open_commits, tx, writer}, net/{loop, server}, policy, text, storage/{base, chunk, http,
 *          pack, store, system, tree, tree_edit}, storage/dataset/{file, ingest}
 * Threads: Storage pool; bodies on HTTP threads.
 *
 * Headers for other rooms:
 *   body_spool       keeps a request body in memory or an unnamed file
 *   branch_push      operations of a request body to a commit and a run
 *   download         sends one file as a response
 *   media_type       media type of a file by its name
 *   open_commit_put  one request's operations for an open commit
 *   tree_listing     pages of a file list
 *   upload_session   sessions of pack writers
 *   upload_verify    verifies packs uploaded straight to the bucket
 *
 * Inside:
 *   disk_watch       watches free disk space
 *   request_effort   bound on the work of one request */

/* transfer: the services that the REST routes and the S3 gateway share. */
#pragma once

#include "pipelined/api/access/access.h"
#include "pipelined/api/access/audit.h"
#include "pipelined/api/access/guard.h"
#include "pipelined/api/transfer/disk_watch.h"
#include "pipelined/api/transfer/request_effort.h"
#include "pipelined/db/open_commits/head_cache.h"
#include "pipelined/db/open_commits/open_commits.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/store/project_stores.h"
#include "storage/system/pool_turns.h"

/* Services of the daemon for routes and the S3 gateway. The API creates them; they exist from pl_api_start to
 * pl_api_destroy. Any thread. */
struct pl_api_services {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_loop *loop;
    struct pl_pool *pool;
    struct pl_head_cache *heads;
    struct pl_open_commits *opens;
    struct pl_disk_watch *disks;
    struct pl_turns *turns;
    struct pl_access *access;
    struct pl_login_sessions *login_sessions;
    struct pl_guard *guard;
    struct pl_audit_log *audit;
    const char *token; /* the daemon's own token */
    char *tmp_dir;     /* DIR/tmp, emptied at the start */
    /* The two fields below are settings of the listeners. */
    bool tls;             /* the listeners serve https */
    unsigned per_address; /* limit of connections per client address; 0 = no limit */
    /* Tells the engine that a transaction has created a run, which it then schedules (pl_engine_ops). Never
     * blocks. */
    void (*run_created)(void *engine, const char *run);
    void *engine;
};
