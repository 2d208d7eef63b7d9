/* local_tree: stores a local folder, or the part of it that a filter accepts, as a tree in a store. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/base/hash.h"
#include "storage/pack/pack_sink.h"

/* Stores those files of `folder` for which the filter `takes` returns true, and waits until they are durable.
 * `takes` has the form of the filter in pl_ingest_options, with paths relative to `folder`; NULL = all files.
 * `files_only`: empty folders are left out. `ret_root`: root of the tree in the sink's store; zero if no file was
 * accepted. Errors of an ingest. */
PL_MUST_CHECK
int pl_cli_tree_store(const struct pl_pack_sink *sink, const char *project, const char *folder,
                      bool (*takes)(void *self, const char *path, bool is_dir), void *self, bool files_only,
                      struct pl_hash *ret_root, struct pl_err *err);
