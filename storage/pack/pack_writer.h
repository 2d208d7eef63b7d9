/* pack_writer: gathers records in memory and seals them into one pack.
 *
 *   idle ──add──▶ filling ──add returns PL_EPACKFULL──▶ seal ──▶ sealed (bytes, id) ──reset──▶ idle
 *
 * One thread at a time. Memory: `max_bytes` of address space, of which only
 * the filled pages use memory, and 56 to 112 bytes per record. */
#pragma once

#include "storage/pack/pack_format.h"

struct pl_pack_writer;

/* Creates a writer. `max_bytes`: largest size of the pack, 0 = PL_PACK_MAX_BYTES. `project` is copied.
 * PL_ENAME, PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_writer_create(const char *project, const uint8_t nonce[PL_PACK_NONCE_BYTES], size_t max_bytes,
                          struct pl_pack_writer **ret, struct pl_err *err);
struct pl_pack_writer *pl_pack_writer_destroy(struct pl_pack_writer *w);
static inline void pl_pack_writer_destroyp(struct pl_pack_writer **w)
{
    *w = pl_pack_writer_destroy(*w);
}

/* Adds a record whose e->stored bytes are at `stored`; they are copied. e->offset is ignored. Returns 1 if
 * the record was added, 0 if the pack already contains its id. PL_EPACKFULL: it does not fit (not a
 * failure: seal this pack and use another one); PL_ETOOBIG: it fits no pack of this size; PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_writer_add(struct pl_pack_writer *w, const struct pl_pack_entry *e, const void *stored, struct pl_err *err);
/* Adds all records of `from`, which does not change. PL_EPACKFULL: a record does not fit; the records added
 * before it stay in the pack. */
PL_MUST_CHECK
int pl_pack_writer_add_all(struct pl_pack_writer *w, const struct pl_pack_writer *from, struct pl_err *err);

uint32_t pl_pack_writer_count(const struct pl_pack_writer *w);
/* Returns the size that the pack would have if it were sealed now, in bytes. */
size_t pl_pack_writer_size(const struct pl_pack_writer *w);

/* Writes header, footer and trailer, and returns the pack, which stays valid until reset or destroy, and
 * its id. The kind of the pack is derived from the kinds of its records. PL_EINVAL: the pack is empty;
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_writer_seal(struct pl_pack_writer *w, const void **ret_bytes, size_t *ret_size, struct pl_hash *ret_id,
                        struct pl_err *err);
/* Removes all records, so that the writer can fill another pack; keeps its memory. */
void pl_pack_writer_reset(struct pl_pack_writer *w);
