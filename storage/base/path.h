/* path: what names and paths are allowed, in one place (DESIGN: "Entries", LANGUAGE: "Names"). Paths in trees have no leading slash:
 * "train/b1.csv"; the root is "". */
#pragma once

#include "storage/base/err.h"

#define PL_PATH_MAX_BYTES    1024
#define PL_SEGMENT_MAX_BYTES 255
#define PL_NAME_MAX_BYTES    51
#define PL_OBJECT_KEY_MAX    512

/* A path inside a tree: valid UTF-8, segments 1..255 bytes, no byte < 0x20 or 0x7F, no empty, "." or ".." segment, ≤ 1,024 bytes.
 * PL_EPATH with the reason. The empty path is refused. */
PL_MUST_CHECK
int pl_path_check(const char *path, size_t len, struct pl_err *err);
/* A user's spelling ("/a/b/", "a/b", "/") into canonical form ("a/b", "a/b", ""); checks it. `out` holds PL_PATH_MAX_BYTES + 1. */
PL_MUST_CHECK
int pl_path_canonical(const char *in, char *out, struct pl_err *err);
/* Names of projects, repos, branches, stages, inputs: [A-Za-z0-9][A-Za-z0-9_-]{0,50}, not 32 or 64 hex digits. `what` goes into the
 * message ("repo"). PL_ENAME. */
PL_MUST_CHECK
int pl_name_check(const char *what, const char *name, struct pl_err *err);
/* The key of an object: 1..PL_OBJECT_KEY_MAX bytes of [A-Za-z0-9._-] and '/', segments not empty and not starting with '.', the first one
 * not "tmp". PL_EINVAL. */
PL_MUST_CHECK
int pl_path_object_key_check(const char *key, struct pl_err *err);
/* Valid UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool pl_utf8_ok(const void *data, size_t len);
/* Takes away a last character of which a cut has left only a part. Returns `text`. */
char *pl_utf8_trim(char *text);
/* Writes "?" over every byte that is no part of a valid character, so that JSON takes the text. Returns `text`. */
char *pl_utf8_clean(char *text);
/* For "did you mean": the nearest of `n` words within edit distance 2 (1 for words under 4 letters), NULL when none. */
const char *pl_word_nearest(const char *word, const char *const *words, size_t n);
/* "1.5 GiB", "12 B": for people. Returns `out`. */
char *pl_size_text(uint64_t bytes, char out[32]);
