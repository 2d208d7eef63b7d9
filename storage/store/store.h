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
 *   record_cache      LRU cache of decoded records
 *
 * Inside:
 *   index_memtable    index entries that are not in a segment yet
 *   index_segment     immutable sorted index file (mmap) and the manifest */

/* A store returns only records whose bytes were verified against their ids. All functions except open and
 * close may be called from any thread.
 *
 * Memory: a cache of PL_STORE_CACHE_BYTES for decoded nodes, lists and commits. Descriptors:
 * PL_STORE_OPEN_PACKS. If the object store has no local files: PL_PACK_WINDOWS windows of
 * PL_PACK_READ_WINDOW_BYTES, and copies of packs in the object store's cache folder. */
#pragma once

#include "storage/base/byte_view.h"
#include "storage/object/object.h"
#include "storage/pack/pack_reader.h"
#include "storage/pack/pack_sink.h"
#include "storage/store/index.h"

#define PL_STORE_CACHE_BYTES ((size_t)16 << 20)
#define PL_STORE_OPEN_PACKS  64u
/* maximum number of damaged records that are remembered; when it is reached, the older half is forgotten */
#define PL_STORE_DAMAGED_IDS (1u << 16)

struct pl_store;

/* Opens the store of a project. `objects` must outlive it. `index_dir`: the index is kept in the folder
 * index_dir/<project>; NULL: the index is kept in memory and read from the footers of all packs. Reads the
 * footers of those packs that the index does not cover. If a footer fails verification, the records of
 * that pack are unknown, and pl_store_packs still lists the pack, so that fsck reports it. PL_ENAME,
 * PL_EIO. */
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

/* Reads the raw bytes of a record into `ret`, replacing its content, and verifies them. `kind` 0: any
 * kind. Otherwise the record may not be larger than that kind allows; the kind that it was stored with may
 * differ, because a file can contain the bytes of a tree node. PL_ENOTFOUND; PL_ECORRUPT names pack and
 * offset. */
PL_MUST_CHECK
int pl_store_get(struct pl_store *s, const struct pl_hash *id, uint8_t kind, struct pl_buf *ret, struct pl_err *err);
/* True if a client may skip uploading this record: it is in a visible pack that was verified. False if it
 * is only in hidden packs, only in unread packs (which may be wrong), or was found damaged since the store
 * was opened: the client then uploads it again, and the new copy is the one that is read. */
bool pl_store_has(struct pl_store *s, const struct pl_hash *id);
/* Sets bit i of `ret_bitmap` (least significant bit first, (n + 7) / 8 bytes) to pl_store_has(ids[i]).
 * `packs` (may be NULL) receives for each id the number of its pack (pl_store_pack_id); UINT32_MAX if the
 * bit is 0. */
void pl_store_has_many(struct pl_store *s, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, uint32_t *packs);
/* Finds the place of a record that can be read, also in hidden and unread packs (ret->hidden,
 * ret->unread). PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_store_locate(struct pl_store *s, const struct pl_hash *id, struct pl_location *ret, struct pl_err *err);

/* Makes a pack of the object store visible, after reading only its footer. `doubt`: 0 or PL_DOUBT_UNREAD.
 * Does nothing if the pack is known already. PL_ETOOBIG: an unread pack has more than PL_PACK_RAW_BYTES of
 * uncompressed records. */
PL_MUST_CHECK
int pl_store_add_pack(struct pl_store *s, const struct pl_hash *pack_id, unsigned doubt, struct pl_err *err);
/* Receives a pack from the file `tmp_path` (made by pl_object_tmp_path): verifies every record, the
 * project and `claimed_id`, moves the file into the object store, and makes the pack visible. The file no
 * longer exists afterwards, even if the call fails. The pack is durable after pl_store_flush. If the pack
 * exists already, the result is 0; if the existing copy has a doubt (enum pl_pack_doubt) or is unknown to the
 * index, the object is overwritten with these bytes. PL_ECORRUPT, PL_ENOSPC. */
PL_MUST_CHECK
int pl_store_receive_pack(struct pl_store *s, const char *tmp_path, const struct pl_hash *claimed_id, struct pl_err *err);
/* Like pl_store_receive_pack, for a file that another process of the daemon's user wrote
 * (object_offer.h): only its header, its footer, the checksum of its bytes and the uncompressed size of its records are
 * checked, and the records only if they replace a pack that exists: that process is trusted like this one. */
PL_MUST_CHECK
int pl_store_take_pack(struct pl_store *s, const char *tmp_path, const struct pl_hash *claimed_id, struct pl_err *err);
/* Receives a pack in memory that this process made, as pl_store_receive_pack does; its records are not
 * verified again. */
PL_MUST_CHECK
int pl_store_put_pack(struct pl_store *s, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err);
/* Makes all packs received before this call durable: they survive a power failure. */
PL_MUST_CHECK
int pl_store_flush(struct pl_store *s, struct pl_err *err);
/* Removes a pack from the index until the store is opened again (quarantine, garbage collection); its
 * object stays. */
void pl_store_drop_pack(struct pl_store *s, const struct pl_hash *pack_id);

/* True if the pack exists and was not dropped since the store was opened. Its footer may be damaged. */
bool pl_store_has_pack(struct pl_store *s, const struct pl_hash *pack_id);

/* Sets which lookups find the records of a pack from now on. A new pack is PL_PACK_SHOWN. For garbage
 * collection (storage/dataset/gc/gc.h). */
void pl_store_set_seen(struct pl_store *s, const struct pl_hash *pack_id, enum pl_pack_seen seen);
/* Sets or clears the mark that only the pack's footer was read, not its records. A record of an unread pack
 * is read from another pack if one has it, and a client must upload a record even if an unread pack has it.
 * The mark is independent of pl_store_set_seen. */
void pl_store_set_unread(struct pl_store *s, const struct pl_hash *pack_id, bool unread);
bool pl_store_is_unread(struct pl_store *s, const struct pl_hash *pack_id);
/* Returns the id of the pack with this number. Numbers are valid while the store is open. False if the
 * pack was dropped. */
bool pl_store_pack_id(struct pl_store *s, uint32_t no, struct pl_hash *ret);

/* A hold protects lookups from garbage collection: a pack that is condemned during a hold is not doomed
 * before the hold ends. Every part of this process that asks the store which records exist, or puts packs,
 * and then writes references to them into the database, begins a hold before the first lookup and ends it
 * after the write. The struct is linked into a list and must not move. A zeroed struct (`{0}`) is not a
 * hold; releasing it does nothing. Holds may be nested. */
struct pl_store_hold {
    struct pl_store *store;
    struct pl_store_hold *prev, *next;
    uint64_t since;
    uint32_t packs;
};
void pl_store_hold(struct pl_store *s, struct pl_store_hold *h);
void pl_store_release(struct pl_store_hold *h);
/* Returns the current value of the counter that numbers holds: a hold that begins later has a higher
 * `since`. */
uint64_t pl_store_moment(struct pl_store *s);
/* True if all holds that began up to `moment` have ended. */
bool pl_store_quiet_since(struct pl_store *s, uint64_t moment);
/* Returns a number N: all packs with numbers below N existed before the oldest hold that has not ended
 * began. */
uint32_t pl_store_settled_packs(struct pl_store *s);
/* Opens a view of all index entries that exist now (index.h). */
PL_MUST_CHECK
int pl_store_view(struct pl_store *s, struct pl_index_view **ret, struct pl_err *err);

/* Returns the ids of all packs, including those with a damaged footer. The caller frees `*ret`. */
PL_MUST_CHECK
int pl_store_packs(struct pl_store *s, struct pl_hash **ret, size_t *ret_n, struct pl_err *err);
/* Reads and verifies every byte of a pack, for fsck. `bad` and `arg`: see pl_pack_verify. Remembers the
 * damaged records that it finds. If the pack is intact, forgets damage that was remembered for it. */
PL_MUST_CHECK
int pl_store_verify_pack(struct pl_store *s, const struct pl_hash *pack_id,
                         void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why), void *arg,
                         struct pl_err *err);
/* Calls fn(input of the pack, arg, err) and returns its result. PL_ECORRUPT: the pack does not exist. */
PL_MUST_CHECK
int pl_store_read_pack(struct pl_store *s, const struct pl_hash *pack_id,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err);
/* Reads a pack's footer from the object store and checks its id and project. */
PL_MUST_CHECK
int pl_store_pack_footer(struct pl_store *s, const struct pl_hash *pack_id, struct pl_pack_footer *ret, struct pl_err *err);

void pl_store_index_stats(struct pl_store *s, struct pl_index_stats *ret);
/* Writes the new index entries to disk now, so that the next open reads fewer footers. */
PL_MUST_CHECK
int pl_store_sync_index(struct pl_store *s, struct pl_err *err);

/* Returns a sink for a pack builder (pack_builder.h) that puts packs into this store. */
struct pl_pack_sink pl_store_sink(struct pl_store *s);
/* Reads a node or list: `get` of a pl_node_source or pl_list_source whose self is a struct pl_store *. A
 * missing record is PL_ECORRUPT, because another record refers to it. */
PL_MUST_CHECK
int pl_store_node_get(void *store, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
/* Calls `look` with a record's bytes: `show` of a pl_node_shower whose self is a struct pl_store *. The
 * bytes of a cached record are not copied. */
PL_MUST_CHECK
int pl_store_node_show(void *store, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err);
