/* tree_source: the entries of one folder that an input matches, in order, read ahead in batches so that the daemon can be asked about all their
 * chunks at once; and the tree nodes read for that, kept for the next match. One thread. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "pipelined/text/glob.h"
#include "storage/dataset/checkout/checkout.h"

#define PL_INPUT_ENTRIES_AHEAD 4096u

/* Nodes by hash; the one unused for longest goes. */
struct pl_node_cache {
    struct pl_chunk_reader reader;
    struct pl_node_cache_slot *slots;
    size_t n;
    uint64_t clock;
};

PL_MUST_CHECK
int pl_node_cache_init(struct pl_node_cache *c, const struct pl_chunk_reader *reader, size_t n, struct pl_err *err);
void pl_node_cache_finish(struct pl_node_cache *c);
struct pl_node_source pl_node_cache_source(struct pl_node_cache *c);

struct pl_input_entries {
    const struct pl_uplink_user *user; /* NULL: chunks are not asked for ahead */
    struct pl_file_cache *cache;       /* what is here is not asked for; NULL = none */
    struct pl_tree_cursor *cursor;
    struct pl_glob_set *files; /* NULL = all */
    size_t strip;              /* bytes of the path before what `files` is matched against */
    struct pl_buf paths;       /* read ahead: NUL-terminated, one after another */
    struct pl_entry *entries;
    size_t n, cap, next, path_at;
};

/* Lets the daemon's store fetch what is needed for these, which are read next, in this order. `cache`: as above. */
void pl_input_entries_fetch(const struct pl_uplink_user *user, struct pl_file_cache *cache, const struct pl_entry *entries,
                            size_t n);
/* What `in`, which matches a folder, takes of it. Paths are whole (from the tree's root). */
PL_MUST_CHECK
int pl_input_entries_open(struct pl_node_cache *nodes, const struct pl_uplink_user *user, struct pl_file_cache *cache,
                          const struct pl_agent_protocol_input *in, struct pl_input_entries *ret, struct pl_err *err);
void pl_input_entries_finish(struct pl_input_entries *s);
/* 1 and an entry (borrowed until the next call), 0 at the end; PL_ECANCELED as pl_uplink_check. */
PL_MUST_CHECK
int pl_input_entries_next(struct pl_input_entries *s, const char **ret_path, size_t *ret_len, struct pl_entry *ret,
                          struct pl_err *err);
struct pl_entry_source pl_input_entries_entries(struct pl_input_entries *s);
