/* input_kept: checkouts of folders that outlive their worker, for the next worker of the stage to turn into those of another commit. In the
 * cache's folder, each of them one folder whose name says what it is:
 *
 *   CACHE/kept/<key, 32 hex>-<boot of the machine, 16 hex>-<root, 64 hex>-<when, ms, 16 hex>
 *
 * The key is a hash of what must be the same (project, stage, input, path, globs). Put and taken by one rename, so each has one owner.
 * What another boot left is not trusted: nothing of it was synced. Bounds: PL_INPUT_REUSE_MAX checkouts, none older than PL_INPUT_REUSE_S; each put
 * looks after that. Any process, any thread. */
#pragma once

#include "storage/base/hash.h"

#define PL_INPUT_REUSE_MAX   8u
#define PL_INPUT_REUSE_S     (7 * 24 * 3600)
#define PL_INPUT_REUSE_FILES 1000u /* fewer are as quickly made */

#define PL_INPUT_REUSE_KEY   33 /* bytes of a key as text */

/* What makes up the key: `n` texts, and bytes. */
void pl_input_reuse_key(const char *const *texts, size_t n, const void *bytes, size_t len, char out[PL_INPUT_REUSE_KEY]);
/* Takes over `folder`, the checkout of `root`. Failures leave it where it is: it was only of use. */
void pl_input_reuse_put(const char *cache, const char *key, const char *folder, const struct pl_hash *root);
/* Makes `folder`, which is not there, one that was put with that key. False: there is none. */
bool pl_input_reuse_take(const char *cache, const char *key, const char *folder, struct pl_hash *ret_root);
