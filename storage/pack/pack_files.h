/* pack_files: the packs open for reading, a bounded number of descriptors. Any thread. */
#pragma once

#include "pack_reader.h"
#include "storage/object/object.h"

struct pl_pack_files;

/* `project` and `objects` outlive it. NULL without memory. */
struct pl_pack_files *pl_pack_files_create(struct pl_object_store *objects, const char *project, unsigned max_open);
struct pl_pack_files *pl_pack_files_destroy(struct pl_pack_files *f);
/* Calls fn(input of the pack, arg, err) and returns its result; PL_ECORRUPT when the pack is not there. */
PL_MUST_CHECK
int pl_pack_files_read(struct pl_pack_files *f, const struct pl_hash *pack,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err);
/* Closes a pack's descriptor, when it is open and nobody reads. */
void pl_pack_files_forget(struct pl_pack_files *f, const struct pl_hash *pack);
