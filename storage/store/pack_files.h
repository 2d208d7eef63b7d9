/* pack_files: the bytes of packs, wherever they lie. Any thread.
 *
 *   a store of files       from the files; a bounded number of descriptors stays open
 *   a store without files  trees, and packs of which records in many places are wanted, from whole copies on this disk (where the store
 *                          has a cache: pl_object_local_fd); chunks by ranges that grow while reading goes on (pack_window) */
#pragma once

#include "storage/object/object.h"
#include "storage/pack/pack_reader.h"
#include "storage/store/index.h"

#define PL_PACK_SPOTS_WHOLE 8u /* so many separate places of a pack read: then all of it comes */

struct pl_pack_files;

/* `project` and `objects` outlive it. NULL without memory. */
struct pl_pack_files *pl_pack_files_create(struct pl_object_store *objects, const char *project, unsigned max_open);
struct pl_pack_files *pl_pack_files_destroy(struct pl_pack_files *f);
/* One record's verified bytes, replacing what `ret` held. PL_ECORRUPT, also when the pack is not there. */
PL_MUST_CHECK
int pl_pack_files_record(struct pl_pack_files *f, const struct pl_hash *id, const struct pl_location *where, struct pl_buf *ret,
                         struct pl_err *err);
/* Calls fn(input of the pack, arg, err) and returns its result; PL_ECORRUPT when the pack is not there. For the footer, and for all of it from
 * front to back. */
PL_MUST_CHECK
int pl_pack_files_read(struct pl_pack_files *f, const struct pl_hash *pack,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err);
/* Closes a pack's descriptor, when it is open and nobody reads, and forgets its copy. */
void pl_pack_files_forget(struct pl_pack_files *f, const struct pl_hash *pack);
