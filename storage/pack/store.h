/* store: the records of one project in one object store: get by id, know what is there, take in packs. Every byte that leaves it
 * was verified against its id. All functions may be called from any thread but open and close.
 *
 * Bounds: PL_STORE_CACHE_BYTES of decoded nodes, lists and commits; PL_STORE_OPEN_PACKS descriptors; where the object store has no files,
 * windows of PL_PACK_WINDOWS × PL_PACK_WINDOW_BYTES, and copies of packs in its cache. */
#pragma once

#include "index.h"
#include "pack_reader.h"
#include "pack_sink.h"
#include "storage/object/object.h"

#define PL_STORE_CACHE_BYTES ((size_t)16 << 20)
#define PL_STORE_OPEN_PACKS  64u

struct pl_store;

/* `objects` outlives the store. `index_dir`: the index is the folder index_dir/<project>; NULL: in memory, from the footers of all packs.
 * Footers of packs that the index does not cover are read; one that does not verify leaves its records unknown and the pack in
 * pl_store_packs, where fsck finds it. PL_ENAME, PL_EIO. */
PL_MUST_CHECK
int pl_store_open(struct pl_object_store *objects, const char *project, const char *index_dir, struct pl_store **ret,
                  struct pl_err *err);
struct pl_store *pl_store_close(struct pl_store *s);
static inline void pl_store_closep(struct pl_store **s)
{
    *s = pl_store_close(*s);
}
const char *pl_store_project(const struct pl_store *s);
struct pl_object_store *pl_store_objects(const struct pl_store *s);

/* The raw bytes of a record, verified, into `ret` (replacing what it held). `kind`
 * 0: any; else the record is held to that kind's size; the stored kind may differ (a file may hold the bytes of a node).
 * PL_ENOTFOUND, PL_ECORRUPT (naming pack and offset). */
PL_MUST_CHECK
int pl_store_get(struct pl_store *s, const struct pl_hash *id, uint8_t kind, struct pl_buf *ret, struct pl_err *err);
bool pl_store_has(struct pl_store *s, const struct pl_hash *id);
/* Bit i of `ret_bitmap` (LSB first, (n + 7) / 8 bytes) = ids[i] is there. */
void pl_store_has_many(struct pl_store *s, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap);
/* PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_store_locate(struct pl_store *s, const struct pl_hash *id, struct pl_location *ret, struct pl_err *err);

/* A pack that is in the object store becomes visible. Only its footer is read. Known already: nothing happens. */
PL_MUST_CHECK
int pl_store_add_pack(struct pl_store *s, const struct pl_hash *pack_id, struct pl_err *err);
/* Verifies every record of the file `tmp_path` (from pl_object_tmp_path), checks project and `claimed_id`, takes it into the
 * object store and makes it visible. The file is gone afterwards, whatever the result. Durable after pl_store_flush. PL_ECORRUPT,
 * PL_ENOSPC. A pack that is there already: success. */
PL_MUST_CHECK
int pl_store_receive_pack(struct pl_store *s, const char *tmp_path, const struct pl_hash *claimed_id, struct pl_err *err);
/* The same for a pack in memory that this process made: not verified again. */
PL_MUST_CHECK
int pl_store_put_pack(struct pl_store *s, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err);
/* Packs taken in before this call survive a power failure when it returns. */
PL_MUST_CHECK
int pl_store_flush(struct pl_store *s, struct pl_err *err);
/* Forgets a pack until the store is opened again (quarantine, GC); its object stays. */
void pl_store_drop_pack(struct pl_store *s, const struct pl_hash *pack_id);

/* Whether the pack is known, though its footer may be damaged: not dropped since the store was opened. */
bool pl_store_has_pack(struct pl_store *s, const struct pl_hash *pack_id);
/* Ids of all packs, those with a damaged footer too; the caller frees `*ret`. */
PL_MUST_CHECK
int pl_store_packs(struct pl_store *s, struct pl_hash **ret, size_t *ret_n, struct pl_err *err);
/* Reads every byte of a pack (fsck); `bad` and `arg` as in pl_pack_verify. */
PL_MUST_CHECK
int pl_store_verify_pack(struct pl_store *s, const struct pl_hash *pack_id,
                         void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why), void *arg,
                         struct pl_err *err);
/* Footer of a pack, from the object store. */
PL_MUST_CHECK
int pl_store_pack_footer(struct pl_store *s, const struct pl_hash *pack_id, struct pl_pack_footer *ret, struct pl_err *err);

void pl_store_index_stats(struct pl_store *s, struct pl_index_stats *ret);
/* Writes the index's new entries now, so that the next open reads fewer footers. */
PL_MUST_CHECK
int pl_store_sync_index(struct pl_store *s, struct pl_err *err);

/* Where a pack session (pack_session.h) puts its packs when the store is here. */
struct pl_pack_sink pl_store_sink(struct pl_store *s);
/* `get` of a pl_node_source or pl_list_source whose self is a struct pl_store *. A record that is missing is PL_ECORRUPT: something in
 * the store names it. */
PL_MUST_CHECK
int pl_store_node_get(void *store, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
