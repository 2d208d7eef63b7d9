/* object_offer: a file that another process of the daemon's user wrote into the store's folder of temporary files, so
 * that the daemon can make it an object without receiving its bytes. DIR is the store's folder, or the daemon's own
 * folder if the store is a bucket.
 *
 *   client: unnamed file in DIR/tmp ── written ──▶ DIR/tmp/offer-<24 hex digits>
 *   daemon:                            taken: renamed to a path of pl_object_tmp_path ── checked ──▶ pl_object_adopt
 *
 * Only the owner of DIR/tmp can name a file in it (pl_object_offer_allowed checks owner and mode). The name of an offer
 * therefore proves that the offering process runs as the user who owns that folder: it could change the store's
 * files, or read the bucket's key. The daemon itself makes no file of such a name: a client of another user cannot have its own upload, which the daemon
 * writes to DIR/tmp too, taken for an offer. */
#pragma once

#include "storage/base/err.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct pl_object_store;

#define PL_OBJECT_OFFER_NAME 31 /* size of a name with its final NUL */
/* An offer of this age was left by a process that was killed: an offer is taken right after it was named. */
#define PL_OBJECT_OFFER_STALE_SECONDS 3600

/* True if this process's user owns `dir` and its folder of temporary files, and no other user may make names there.
 * Removes offers there that are older than PL_OBJECT_OFFER_STALE_SECONDS. */
bool pl_object_offer_allowed(const char *dir);
/* Writes the bytes into a temporary file of `dir` and names it `ret_name`. If it fails, or the process is
 * killed before it returns, no file stays. The file is not synced: pl_object_adopt does that. PL_ENOSPC: the disk is
 * full, or fewer than `keep_free` bytes would be free afterwards; PL_EUNAVAILABLE, PL_EINVAL: no offer can be made in
 * this folder, now or later; PL_EIO, PL_ENOMEM: this one cannot be made. */
PL_MUST_CHECK
int pl_object_offer_make(const char *dir, const void *bytes, size_t n, uint64_t keep_free, char ret_name[PL_OBJECT_OFFER_NAME],
                         struct pl_err *err);
/* Removes an offer that was not taken. Does nothing if it was. */
void pl_object_offer_withdraw(const char *dir, const char *name);
/* Takes an offer: renames its file to `ret_path`, a path for pl_object_adopt, and returns its size. Of two calls with one
 * name only one succeeds. PL_EINVAL: `name` is not the name of an offer; PL_ENOTFOUND: there is none of this name;
 * PL_EFORBIDDEN: other users may write to the store's folder of temporary files, or the name is
 * not that of a file of its owner; the file then stays. */
PL_MUST_CHECK
int pl_object_offer_take(struct pl_object_store *s, const char *name, char ret_path[PATH_MAX], uint64_t *ret_size,
                         struct pl_err *err);
