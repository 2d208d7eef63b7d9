/* input_reuse: checkouts of folders that remain when their worker ends, so that the next worker of the stage
 * can change them into the checkout of another commit. Each is a folder in the cache's folder, named
 *
 *   CACHE/kept/<key, 32 hex digits>-<boot of the machine, 16>-<tree root, 64>-<time in ms, 16>
 *
 * The key is a hash of everything that must be equal (project, stage, input, path, globs). A checkout is
 * stored and taken by one rename, so it always has one owner. Checkouts from before the last boot are not
 * used, because they were never synced to disk. There are at most PL_INPUT_REUSE_MAX checkouts, none older
 * than PL_INPUT_REUSE_S; each put removes the excess. Any process, any thread. */
#pragma once

#include "storage/base/hash.h"

#define PL_INPUT_REUSE_MAX 8u
#define PL_INPUT_REUSE_S   (7 * 24 * 3600)
/* checkouts of fewer files are not stored, because writing them again is as fast */
#define PL_INPUT_REUSE_FILES 1000u

#define PL_INPUT_REUSE_KEY   33 /* bytes of a key as text, including the NUL */

/* Computes the key of a checkout: a hash of the `n` strings `texts` and the `len` bytes `bytes`. */
void pl_input_reuse_key(const char *const *texts, size_t n, const void *bytes, size_t len, char out[PL_INPUT_REUSE_KEY]);
/* Stores `folder`, the checkout of `root`, by renaming it. On failure the folder stays where it is, without
 * an error, because storing is only an optimisation. */
void pl_input_reuse_put(const char *cache, const char *key, const char *folder, const struct pl_hash *root);
/* Takes a checkout with that key by renaming it to `folder`, which must not exist. `*ret_root` is its tree.
 * False if there is none. */
bool pl_input_reuse_take(const char *cache, const char *key, const char *folder, struct pl_hash *ret_root);
