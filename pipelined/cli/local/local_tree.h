/* local_tree: a folder of this machine, or what a filter takes of it, as a tree in a store. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/base/hash.h"
#include "storage/pack/pack_sink.h"

/* `takes` as the filter of pl_ingest_options (NULL: everything), paths relative to `folder`. `ret_root`: durable in the sink; zero when
 * nothing was taken. Errors of an ingest. */
PL_MUST_CHECK
int pl_cli_tree_store(const struct pl_pack_sink *sink, const char *project, const char *folder,
                      bool (*takes)(void *self, const char *path, bool is_dir), void *self, struct pl_hash *ret_root,
                      struct pl_err *err);
