/* remote_table: where records are, as a daemon said: id → location. Two generations: when the young one is full the old one goes, so that
 * what was asked for lately stays. Not thread-safe. */
#pragma once

#include "pipelined/net/remote/remote.h"
#include "storage/store/index.h"

#define REMOTE_TABLE_GENERATION (PL_REMOTE_LOCATED_MAX / 2)

struct remote_table;

/* NULL without memory. */
struct remote_table *pl_remote_locations_create(void);
struct remote_table *pl_remote_locations_destroy(struct remote_table *t);
/* `where->pack_no` is not kept. PL_ENOMEM. */
PL_MUST_CHECK
int pl_remote_locations_put(struct remote_table *t, const struct pl_hash *id, const struct pl_location *where,
                            struct pl_err *err);
bool pl_remote_locations_find(const struct remote_table *t, const struct pl_hash *id, struct pl_location *ret);
void pl_remote_locations_forget(struct remote_table *t, const struct pl_hash *id);
