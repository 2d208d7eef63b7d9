/* transfer: bytes in and out in bounded memory: spool (bodies), sessions (of pack writers), download, listing, read_back (packs that were put
 * straight into the bucket), disk_watch (is there room?), turns (costly requests), push and open_put (operations onto a branch, or into an open
 * commit). Routes and the S3 gateway stand on the same services. */
#pragma once

#include "pipelined/api/access/access.h"
#include "pipelined/api/access/audit.h"
#include "pipelined/api/access/guard.h"
#include "pipelined/api/transfer/disk_watch.h"
#include "pipelined/api/transfer/request_turns.h"
#include "pipelined/db/open_commits/head_cache.h"
#include "pipelined/db/open_commits/open_commits.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/store/project_stores.h"
#include "storage/system/thread_pool.h"

/* Services of the daemon that routes and the S3 gateway share. The API makes them; they are there from pl_api_start to pl_api_destroy. Any
 * thread. */
struct pl_api_services {
    struct pl_db *db;
    struct pl_stores *stores;
    struct pl_loop *loop;
    struct pl_pool *pool;
    struct pl_heads *heads;
    struct pl_opens *opens;
    struct pl_disk_watch *disks;
    struct pl_turns *turns;
    struct pl_access *access;
    struct pl_guard *guard;
    struct pl_audit_log *audit;
    const char *token; /* the daemon's */
    char *tmp_dir;     /* DIR/tmp: emptied at the start */
    /* Of listeners: */
    bool tls;             /* https */
    unsigned per_address; /* connections of one address; 0 = no limit */
    /* A transaction has made a run: schedule it (pl_engine_ops). Never blocks. */
    void (*run_created)(void *engine, const char *run);
    void *engine;
};
