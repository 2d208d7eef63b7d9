/* storage/store: All records of one project in one object store, found through the index.
 *
 * In:      Packs to add; record ids.
 * Out:     Verified records; locations.
 * Uses:    storage/{base, object, pack, system}
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   index             finds pack, offset and size of a record by id
 *   pack_files        reads packs from local files or from the bucket
 *   pack_read_window  keeps neighbouring ranges of remote packs for sequential reads
 *   project_stores    the stores of all projects of one object store, opened on demand
 *
 * Inside:
 *   index_memtable    index entries that are not in a segment yet
 *   index_segment     immutable sorted index file (mmap) and the manifest
 *   record_cache      LRU cache of decoded records */

/* store: the records of one project in one object store: get by id, know what is there, take in packs. Every byte that leaves it
 * was verified against its id. All functions may be called from any thread but open and close.
 *
 * Bounds: PL_STORE_CACHE_BYTES of decoded nodes, lists and commits; PL_STORE_OPEN_PACKS descriptors; where the object store has no files,
 * windows of PL_PACK_WINDOWS × PL_PACK_READ_WINDOW_BYTES, and copies of packs in its cache. */
#pragma once

#include "storage/base/byte_view.h"
#include "storage/object/object.h"
#include "storage/pack/pack_reader.h"
#include "storage/pack/pack_sink.h"
#include "storage/store/index.h"

#define PL_STORE_CACHE_BYTES ((size_t)16 << 20)
#define PL_STORE_OPEN_PACKS  64u
#define PL_STORE_DAMAGED_IDS (1u << 16) /* damaged records kept in mind; the older half goes */

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
/* Need it not be brought? What lies only in hidden packs must be, or in unread ones, which may lie; and what was found damaged since the
 * store was opened (read, or verified with its pack), so that whoever has it brings it again. The new record is then the one that is read. */
bool pl_store_has(struct pl_store *s, const struct pl_hash *id);
/* Bit i of `ret_bitmap` (LSB first, (n + 7) / 8 bytes) = pl_store_has(ids[i]). `packs` (may be NULL) gets the number of its pack for each
 * that is there (pl_store_pack_id), UINT32_MAX for others. */
void pl_store_has_many(struct pl_store *s, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, uint32_t *packs);
/* Where it can be read, hidden and unread packs too (ret->hidden, ret->unread). PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_store_locate(struct pl_store *s, const struct pl_hash *id, struct pl_location *ret, struct pl_err *err);

/* A pack that is in the object store becomes visible, doubted as `doubt` (0, or PL_DOUBT_UNREAD) says. Only its footer is read. Known already:
 * nothing happens. PL_ETOOBIG: of an unread one, more than PL_PACK_RAW_BYTES inflated. */
PL_MUST_CHECK
int pl_store_add_pack(struct pl_store *s, const struct pl_hash *pack_id, unsigned doubt, struct pl_err *err);
/* Verifies every record of the file `tmp_path` (from pl_object_tmp_path), checks project and `claimed_id`, takes it into the
 * object store and makes it visible. The file is gone afterwards, whatever the result. Durable after pl_store_flush. PL_ECORRUPT,
 * PL_ENOSPC. A pack that is there already: success; when it is doubted, or unknown, its object gets these bytes. */
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

/* Who finds the records of a pack from now on; shown when it is added. For garbage collection (storage/dataset/gc/gc.h). */
void pl_store_set_seen(struct pl_store *s, const struct pl_hash *pack_id, enum pl_pack_seen seen);
/* Only the pack's footer was read: what lies in it is found elsewhere, if it is elsewhere too, and nobody leaves out bytes because the pack
 * has them. Who finds the pack stays as it is. */
void pl_store_set_unread(struct pl_store *s, const struct pl_hash *pack_id, bool unread);
bool pl_store_is_unread(struct pl_store *s, const struct pl_hash *pack_id);
/* The pack of a number, as long as the store is open; false when it was forgotten. */
bool pl_store_pack_id(struct pl_store *s, uint32_t no, struct pl_hash *ret);

/* A hold: "from here on I look things up and will let something stand on them". No pack that is condemned while it lasts is doomed before
 * it ends. Everybody in this process who asks the store what is there, or puts packs, and then writes what stands on that into the
 * database, has one from before the first until after the last. In place; `{0}` is none, and ending that does nothing. Nested is fine. */
struct pl_store_hold {
    struct pl_store *store;
    struct pl_store_hold *prev, *next;
    uint64_t since;
    uint32_t packs;
};
void pl_store_hold(struct pl_store *s, struct pl_store_hold *h);
void pl_store_release(struct pl_store_hold *h);
/* A moment: holds that begin later have a higher `since`. */
uint64_t pl_store_moment(struct pl_store *s);
/* Whether all holds that had begun at that moment have ended. */
bool pl_store_quiet_since(struct pl_store *s, uint64_t moment);
/* Packs with lower numbers were there before any hold that lasts. */
uint32_t pl_store_settled_packs(struct pl_store *s);
/* All entries of this moment (index.h). */
PL_MUST_CHECK
int pl_store_view(struct pl_store *s, struct pl_index_view **ret, struct pl_err *err);

/* Ids of all packs, those with a damaged footer too; the caller frees `*ret`. */
PL_MUST_CHECK
int pl_store_packs(struct pl_store *s, struct pl_hash **ret, size_t *ret_n, struct pl_err *err);
/* Reads every byte of a pack (fsck); `bad` and `arg` as in pl_pack_verify. */
PL_MUST_CHECK
int pl_store_verify_pack(struct pl_store *s, const struct pl_hash *pack_id,
                         void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why), void *arg,
                         struct pl_err *err);
/* Calls fn(bytes of the pack, arg, err) and returns its result; PL_ECORRUPT when the pack is not there. */
PL_MUST_CHECK
int pl_store_read_pack(struct pl_store *s, const struct pl_hash *pack_id,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err);
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
/* `show` of a pl_node_shower, the same way: the bytes of a record that is cached are not copied. */
PL_MUST_CHECK
int pl_store_node_show(void *store, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err);
