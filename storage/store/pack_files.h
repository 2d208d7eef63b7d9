/* pack_files: reads packs from local files or from a bucket. Any thread.
 *
 *   an object store with local files   from these files; a bounded number of descriptors stays open
 *   other object stores                tree nodes, and packs that are read in many places: from a local copy
 *                                      of the whole pack, if the store has a cache folder
 *                                      (pl_object_local_fd); other chunks: by ranges that grow while reads are sequential
 *                                      (pack_read_window) */
#pragma once

#include "storage/object/object.h"
#include "storage/pack/pack_reader.h"
#include "storage/store/index.h"

/* after this many reads that did not continue an earlier read, the whole pack is fetched */
#define PL_PACK_SPOTS_WHOLE 8u

struct pl_pack_files;

/* Creates the reader. `project` and `objects` must outlive it. NULL without memory. */
struct pl_pack_files *pl_pack_files_create(struct pl_object_store *objects, const char *project, unsigned max_open);
struct pl_pack_files *pl_pack_files_destroy(struct pl_pack_files *f);
/* Reads the verified bytes of one record, replacing the content of `ret`. PL_ECORRUPT, also if the pack
 * does not exist. */
PL_MUST_CHECK
int pl_pack_files_record(struct pl_pack_files *f, const struct pl_hash *id, const struct pl_location *where, struct pl_buf *ret,
                         struct pl_err *err);
/* Calls fn(input of the pack, arg, err) and returns its result. The input is optimised for reading the
 * footer, or the whole pack from front to back. PL_ECORRUPT: the pack does not exist. */
PL_MUST_CHECK
int pl_pack_files_read(struct pl_pack_files *f, const struct pl_hash *pack,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err);
/* Closes a pack's descriptor, unless a thread is reading from it, and drops the local copy. */
void pl_pack_files_forget(struct pl_pack_files *f, const struct pl_hash *pack);
