/* path: the rules for names, paths and object keys, and text helpers for UTF-8, suggestions and sizes. Paths
 * in trees have no leading slash: "train/b1.csv"; the root is "". Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_PATH_MAX_BYTES    1024
#define PL_SEGMENT_MAX_BYTES 255
#define PL_NAME_MAX_BYTES    51
#define PL_OBJECT_KEY_MAX    512

/* Checks a path inside a tree: valid UTF-8, at most 1,024 bytes, segments of 1 to 255 bytes, no byte below
 * 0x20 or equal to 0x7F, no segment "." or "..". The empty path is refused. PL_EPATH with the reason. */
PL_MUST_CHECK
int pl_path_check(const char *path, size_t len, struct pl_err *err);
/* Converts a path as a user may write it ("/a/b/", "a/b", "/") to its canonical form ("a/b", "a/b", "") and
 * checks it. `out` has room for PL_PATH_MAX_BYTES + 1 bytes. PL_EPATH. */
PL_MUST_CHECK
int pl_path_canonical(const char *in, char *out, struct pl_err *err);
/* Checks the name of a project, repo, branch, stage or input: [A-Za-z0-9][A-Za-z0-9_-]{0,50}, but not 32 hex
 * digits, which would look like a commit's id. `what` ("repo") is used in the message. PL_ENAME. */
PL_MUST_CHECK
int pl_name_check(const char *what, const char *name, struct pl_err *err);
/* Checks the key of an object in a store: 1 to PL_OBJECT_KEY_MAX bytes of [A-Za-z0-9._-] and '/'; segments
 * are not empty and do not start with '.'; the first segment is not "tmp". PL_EINVAL. */
PL_MUST_CHECK
int pl_path_object_key_check(const char *key, struct pl_err *err);
/* True if the link at `path`, relative to a folder, has a relative target that no prefix of it leads out of that folder. */
bool pl_path_link_stays(const char *path, const char *target);
/* Returns true for valid UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool pl_utf8_ok(const void *data, size_t len);
/* Removes an incomplete character at the end of the text, which truncation may have left. Returns `text`. */
char *pl_utf8_trim(char *text);
/* Replaces every byte that does not belong to a valid UTF-8 character with "?", so that JSON accepts the
 * text. Returns `text`. */
char *pl_utf8_clean(char *text);
/* Finds the word for a "did you mean" hint: returns the one of `n` words with the smallest edit distance to
 * `word`, or NULL if that is more than 2 (more than 1 if `word` has fewer than 4 bytes). */
const char *pl_word_nearest(const char *word, const char *const *words, size_t n);
/* Formats a size for people: "1.5 GiB", "12 B". Returns `out`. */
char *pl_size_text(uint64_t bytes, char out[32]);
