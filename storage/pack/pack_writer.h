/* pack_writer: gathers records in memory and seals them into one pack.
 *
 *   idle ──add──▶ filling ──add says PL_EPACKFULL──▶ seal ──▶ sealed (bytes, id) ──reset──▶ idle
 *
 * One thread at a time. Memory: the pack's bytes (address space for all of `max_bytes`, pages as they are filled), 52 bytes a
 * record. */
#pragma once

#include "storage/pack/pack_format.h"

struct pl_pack_writer;

/* `max_bytes` 0 = PL_PACK_MAX_BYTES; `project` is copied. PL_ENAME, PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_writer_create(const char *project, const uint8_t nonce[PL_PACK_NONCE_BYTES], size_t max_bytes,
                          struct pl_pack_writer **ret, struct pl_err *err);
struct pl_pack_writer *pl_pack_writer_destroy(struct pl_pack_writer *w);
static inline void pl_pack_writer_destroyp(struct pl_pack_writer **w)
{
    *w = pl_pack_writer_destroy(*w);
}

/* Adds a record; offset of `e` is ignored, `stored` holds e->stored bytes, which are copied. 1 = added, 0 = its id is in the pack
 * already. PL_EPACKFULL when it does not fit (seal and use another: not a failure), PL_ETOOBIG when it fits no pack, PL_ENOMEM.
 */
PL_MUST_CHECK
int pl_pack_writer_add(struct pl_pack_writer *w, const struct pl_pack_entry *e, const void *stored, struct pl_err *err);
/* Adds all records of `from`, which stays as it is. PL_EPACKFULL as above. */
PL_MUST_CHECK
int pl_pack_writer_add_all(struct pl_pack_writer *w, const struct pl_pack_writer *from, struct pl_err *err);

uint32_t pl_pack_writer_count(const struct pl_pack_writer *w);
/* Bytes that the pack would have if sealed now. */
size_t pl_pack_writer_size(const struct pl_pack_writer *w);

/* Writes header, footer and trailer. The pack is at `*ret_bytes` until reset or destroy. Its kind follows from its records.
 * PL_EINVAL when it has none. */
PL_MUST_CHECK
int pl_pack_writer_seal(struct pl_pack_writer *w, const void **ret_bytes, size_t *ret_size, struct pl_hash *ret_id,
                        struct pl_err *err);
/* Empty again, memory kept. */
void pl_pack_writer_reset(struct pl_pack_writer *w);
