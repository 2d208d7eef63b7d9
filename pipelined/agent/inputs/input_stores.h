/* input_stores: where a worker reads its inputs from: for each project of which its stage reads repos, a reader of the
 * project's records and a cache of its tree nodes. The daemon answers for records within a project only, so an input is
 * read from the store of its own project, whatever other stores have. One thread. */
#pragma once

#include "pipelined/agent/inputs/input_entries.h"

struct pl_input_stores_config {
    const char *project;           /* project of the worker's stage; NULL = all inputs are read with `reader`. Borrowed */
    struct pl_chunk_reader reader; /* reads records of that project */
    /* connection with which the stores of other projects are opened; NULL = all inputs are read with `reader`. Borrowed */
    const struct pl_uplink_user *user;
    size_t nodes; /* decoded tree nodes in the cache of each project, of at most 256 KiB each */
};

/* The store of one project. */
struct pl_input_store {
    struct pl_input_store *next;
    bool is_other;                     /* it is not the store of the project of the worker's stage */
    const struct pl_uplink_user *user; /* for announcing chunks; NULL = do not announce */
    struct pl_chunk_reader reader;
    struct pl_node_cache nodes;
    /* private */
    char project[PL_NAME_MAX_BYTES + 1]; /* "" = that of the worker's stage */
    struct pl_uplink_user own_user;
};

struct pl_input_stores {
    struct pl_input_stores_config config;
    struct pl_input_store *list; /* the store of the stage's project, then those that were needed so far */
};

/* Makes the store of the stage's project. Copies `config`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_input_stores_init(struct pl_input_stores *s, const struct pl_input_stores_config *config, struct pl_err *err);
void pl_input_stores_finish(struct pl_input_stores *s);
/* Returns the store of a project; NULL = that of the worker's stage. It stays until pl_input_stores_finish. At most
 * PL_AGENT_PROTOCOL_INPUTS_MAX projects: PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_input_stores_get(struct pl_input_stores *s, const char *project, struct pl_input_store **ret, struct pl_err *err);
