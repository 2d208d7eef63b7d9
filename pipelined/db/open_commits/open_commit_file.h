/* open_commit_file: the file of one open commit (the spool): its operations, and the bytes of small files until
 * they are in packs. An append is on the disk when it returns; a crash during an append leaves everything before
 * it intact.
 *
 *   append ──▶ [head][group 1][group 2] … ──open after a crash──▶ the same groups; an incomplete last one is cut off
 *                        └ records are read from here until mark_packed says that packs have them
 *
 *   0   "PLSP"   4 bytes
 *   4   u8       version, 1; 3 bytes zero
 *   8   u32      length of the head
 *   12  u64      XXH64 of the head
 *   20  head     JSON: struct pl_open_commit_file_head
 *
 *   group: 0 "PLSG"  4 u32 length of meta  8 u64 length of data  16 u64 number: 1, 2, …  24 u64 XXH64 of meta, seeded
 *          with the XXH64 of these 24 bytes, seeded with that of the commit's id
 *   32  meta     u64 records of groups up to this number are in packs, u64 XXH64 of data, varint number of records,
 *                each: id 32, u8 kind, u8 codec, varint raw size, varint stored size; then varint length of a
 *                message, the message; then an ops stream (tree_ops.h), or nothing
 *       data     the records' stored bytes, one after another; holes once they are in packs
 *
 * A group is written with one write and one fdatasync, and the next is begun only when it is on the disk. So a
 * group that does not verify and is not the last one means a damaged file (PL_ECORRUPT), never a lost write. */
#pragma once

#include "storage/base/hash.h"
#include "storage/base/path.h"
#include "storage/tree_edit/op_set.h"

#include <sys/uio.h>

#define PL_OPEN_COMMIT_FILE_SUFFIX     ".spool"
#define PL_OPEN_COMMIT_FILE_META_MAX   ((size_t)512 << 20)
#define PL_OPEN_COMMIT_FILE_TEXT_MAX   (64u << 10) /* bytes of a message */
#define PL_OPEN_COMMIT_FILE_AUTHOR_MAX 255u        /* also of an owner */

struct pl_open_commit_file;
struct pl_pack_builder;

/* The file's head: the commit that the operations belong to. Texts are borrowed; those of an opened file live as
 * long as the file. */
struct pl_open_commit_file_head {
    const char *commit; /* 32 hex digits; also the file's name */
    const char *project, *repo, *branch, *base, *message, *author;
    const char *owner;        /* name of the principal that started it; "" = not known, or a gathering commit */
    int64_t repo_id;          /* row id of the repo; another repo with the same name does not get the operations */
    struct pl_hash base_root; /* root of the tree that the operations start from; zero = empty */
    int64_t created_us;
    bool gathered; /* a gathering commit (commit_window); false: a client started it */
    bool bucket;   /* the repo has durable: bucket */
};

/* A record as stored in the file. */
struct pl_op_record {
    struct pl_hash id;
    uint8_t kind, codec;
    uint32_t raw, stored;
    const void *bytes; /* `stored` bytes, borrowed */
};

/* Creates DIR/<commit>.spool without groups, durable. PL_ENAME, PL_EINVAL (texts), PL_ENOSPC, PL_EIO. */
PL_MUST_CHECK
int pl_open_commit_file_create(const char *dir, const struct pl_open_commit_file_head *head, struct pl_open_commit_file **ret,
                               struct pl_err *err);
/* Opens an existing file and adds all its operations to `set`, which is empty. PL_EFORMAT, PL_ECORRUPT, PL_EIO. */
PL_MUST_CHECK
int pl_open_commit_file_open(const char *path, struct pl_op_set *set, struct pl_open_commit_file **ret, struct pl_err *err);
/* Closes the file, which stays on the disk. NULL is allowed. */
struct pl_open_commit_file *pl_open_commit_file_close(struct pl_open_commit_file *s);
static inline void pl_open_commit_file_closep(struct pl_open_commit_file **s)
{
    *s = pl_open_commit_file_close(*s);
}
const struct pl_open_commit_file_head *pl_open_commit_file_head(const struct pl_open_commit_file *s);
/* Deletes the file. */
PL_MUST_CHECK
int pl_open_commit_file_remove(struct pl_open_commit_file *s, struct pl_err *err);
/* Returns the size of the file in bytes; the whole file verifies. */
uint64_t pl_op_spool_size(const struct pl_open_commit_file *s);
/* From now on calls `fn` before every append, with the bytes to append and their offset in the file. If `fn`
 * fails, nothing is appended. The copy that `fn` keeps has the first `copied` bytes of the file; its first
 * call passes all later bytes too. */
void pl_op_spool_copy_to(struct pl_open_commit_file *s,
                         int (*fn)(void *self, uint64_t offset, const struct iovec *iov, int n, struct pl_err *err), void *self,
                         uint64_t copied);

/* Returns how many bytes were cut off when the file was opened: an append that a crash interrupted and that
 * was never acknowledged. */
uint64_t pl_open_commit_file_cut_bytes(const struct pl_open_commit_file *s);

/* ---- one thread at a time ---- */

/* Appends one group: the records that the file does not have yet, the operations of `ops` (may be NULL), and a new
 * message for the commit (already checked; NULL or "" = unchanged). Durable when it returns 0. On failure the file
 * is as before; if it cannot be restored, every later append is refused. PL_ENOSPC, PL_EIO, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_open_commit_file_append(struct pl_open_commit_file *s, const struct pl_op_record *records, size_t n,
                               const struct pl_op_set *ops, const char *message, struct pl_err *err);
/* Checks a message. PL_EINVAL: longer than PL_OPEN_COMMIT_FILE_TEXT_MAX, or not UTF-8. */
PL_MUST_CHECK
static inline int pl_open_commit_file_check_message(const char *message, struct pl_err *err)
{
    if (strlen(message) > PL_OPEN_COMMIT_FILE_TEXT_MAX)
        return pl_err_set(err, PL_EINVAL, "the message is longer than %u bytes", PL_OPEN_COMMIT_FILE_TEXT_MAX);
    return pl_utf8_ok(message, strlen(message)) ? 0 : pl_err_set(err, PL_EINVAL, "the message is not UTF-8");
}
/* Records that all records of groups up to `group` are in packs: drops them from the index and frees their
 * space in the file. */
PL_MUST_CHECK
int pl_open_commit_file_mark_packed(struct pl_open_commit_file *s, uint64_t group, struct pl_err *err);

/* ---- any thread ---- */

/* Returns the message of the newest group that has a message, else the message in the head; malloc'ed. NULL
 * when memory runs out. */
char *pl_open_commit_file_message(struct pl_open_commit_file *s);
bool pl_open_commit_file_has(struct pl_open_commit_file *s, const struct pl_hash *id);
/* Reads the raw bytes of a record into `ret` (replacing its content) and verifies them. PL_ENOTFOUND: the
 * file does not have the record, or a pack has it now; PL_ECORRUPT. */
PL_MUST_CHECK
int pl_open_commit_file_get(struct pl_open_commit_file *s, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
/* Returns the total size in bytes of the records that are not in packs. */
uint64_t pl_open_commit_file_unpacked_bytes(struct pl_open_commit_file *s);
/* Adds all records that are not in packs to the pack builder `session`. `ret_group` is the value to give to
 * pl_open_commit_file_mark_packed once the pack builder is finished. If mark_packed is called for an earlier
 * pack builder in the meantime, the records of that one are skipped. */
PL_MUST_CHECK
int pl_open_commit_file_pack(struct pl_open_commit_file *s, struct pl_pack_builder *to, uint64_t *ret_group, struct pl_err *err);
