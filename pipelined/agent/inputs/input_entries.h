/* input_entries: lists the entries of one folder that an input matches, in order. It reads ahead in batches,
 * so that the daemon can be asked for the chunks of a whole batch at once. It also has a cache of tree nodes,
 * which the next match uses again. One thread. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "pipelined/text/glob.h"
#include "storage/dataset/checkout/checkout.h"

/* entries in a batch */
#define PL_INPUT_ENTRIES_AHEAD 4096u

/* A cache of tree nodes by hash. When it is full, the least recently used node is replaced. */
struct pl_node_cache {
    struct pl_chunk_reader reader;
    struct pl_node_cache_slot *slots;
    size_t n;
    /* counts uses, for finding the least recently used node */
    uint64_t clock;
};

/* Creates a cache of `n` nodes that uses `reader` (copied) to read nodes that it does not have. PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_cache_init(struct pl_node_cache *c, const struct pl_chunk_reader *reader, size_t n, struct pl_err *err);
void pl_node_cache_finish(struct pl_node_cache *c);
/* Makes a node source that reads through the cache, which must outlive it. */
struct pl_node_source pl_node_cache_source(struct pl_node_cache *c);

/* Lists the entries of one match: a file or folder that an input selects for a datum. */
struct pl_input_entries {
    const struct pl_uplink_user *user; /* NULL = do not announce chunks to the daemon's store */
    /* the chunks of files in this cache are not announced; NULL = no cache */
    struct pl_file_cache *cache;
    struct pl_tree_cursor *cursor;
    struct pl_glob_set *files; /* globs of the wanted files; NULL = all files */
    size_t strip;              /* length of the path prefix that is cut off before matching `files` */
    struct pl_buf paths;       /* paths of the batch, NUL-terminated, one after another */
    /* the batch: `n` entries, of which `next` were returned; path_at is the offset in `paths` of the next
     * one */
    struct pl_entry *entries;
    size_t n, cap, next, path_at;
};

/* Announces to the daemon's store that `entries` will be read next, in this order, so that it fetches their
 * chunks in the background. Skips entries in `cache` (may be NULL). Does nothing if `user` is NULL. */
void pl_input_entries_fetch(const struct pl_uplink_user *user, struct pl_file_cache *cache, const struct pl_entry *entries,
                            size_t n);
/* Begins listing the entries of `in`, which matches a folder. Returned paths are relative to the tree's root.
 * PL_EPATH, PL_ENOMEM, and errors of reading the tree. */
PL_MUST_CHECK
int pl_input_entries_open(struct pl_node_cache *nodes, const struct pl_uplink_user *user, struct pl_file_cache *cache,
                          const struct pl_agent_protocol_input *in, struct pl_input_entries *ret, struct pl_err *err);
void pl_input_entries_finish(struct pl_input_entries *s);
/* Returns 1 and an entry, whose path is valid until the next call; 0 at the end. PL_ECANCELED as for
 * pl_uplink_check; errors of reading the tree. */
PL_MUST_CHECK
int pl_input_entries_next(struct pl_input_entries *s, const char **ret_path, size_t *ret_len, struct pl_entry *ret,
                          struct pl_err *err);
/* Makes an entry source of the listing, which must outlive it. */
struct pl_entry_source pl_input_entries_entries(struct pl_input_entries *s);
