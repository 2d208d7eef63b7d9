/* remote_locations: a table of the record locations that the daemon has reported, by record id. It has two
 * generations: when the young one is full, it becomes the old one and the previous old one is dropped, so
 * that recent ids stay. Not thread-safe. */
#pragma once

#include "pipelined/net/remote/remote.h"
#include "storage/store/index.h"

#define REMOTE_TABLE_GENERATION (PL_REMOTE_LOCATED_MAX / 2)

struct remote_table;

/* Creates an empty table. NULL if memory runs out. */
struct remote_table *pl_remote_locations_create(void);
struct remote_table *pl_remote_locations_destroy(struct remote_table *t);
/* Adds the location of a record; the member `where->pack_no` is ignored. PL_ENOMEM. */
PL_MUST_CHECK
int pl_remote_locations_put(struct remote_table *t, const struct pl_hash *id, const struct pl_location *where,
                            struct pl_err *err);
bool pl_remote_locations_find(const struct remote_table *t, const struct pl_hash *id, struct pl_location *ret);
void pl_remote_locations_forget(struct remote_table *t, const struct pl_hash *id);
