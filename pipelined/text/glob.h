/* glob: patterns over the paths of a tree.
 *
 *   *        any characters but '/'            ?          one character but '/'
 *   [a-z]    one of these, never '/'           [!a] [^a]  one but these        [[:alpha:]]  POSIX classes (ASCII)
 *   {a,b}    either; may be nested             \x         x itself
 *   (…)      captures what it matches, numbered by '(' from 1; (a|b) either. {…} and (…) may hold '/'
 *   **       as a whole segment: any number of segments ("a/ ** /b" without the blanks matches a/b and a/x/y/b; "a/ **" all below
 * a); elsewhere: any characters, '/' as well /        the root, which nothing else matches
 *
 * Leading and trailing '/' do not count. A pattern matches files and directories alike: "/train/ *" matches the directories in
 * train as well, and a directory that matches is the whole of what is in it. A character is a code point. Not available yet,
 * refused by name: the quantified groups @( *( +( ?( !(.
 *
 * The matcher runs all alternatives side by side (Thompson, Pike): time is at most length of path × size of pattern, whatever the
 * pattern. Captures are those of a backtracking matcher that tries the longest `*` and the first alternative first, as in
 * Pachyderm. A compiled glob does not change: any thread may match with it. */
#pragma once

#include "storage/base/err.h"

#define PL_GLOB_MAX_BYTES    1024u
#define PL_GLOB_CAPTURES_MAX 16u
#define PL_GLOB_DEPTH_MAX    16u    /* groups inside each other */
#define PL_GLOB_SET_STEPS    65536u /* instructions of all globs of a set behind their literal beginnings */

struct pl_glob;

/* Bytes start..end of the path; start = PL_SPAN_NONE when the group took no part. */
#define PL_SPAN_NONE UINT16_MAX
struct pl_span {
    uint16_t start, end;
};

/* PL_EGLOB: `glob "/a(b": column 3: ( is never closed`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_glob_compile(const char *pattern, struct pl_glob **ret, struct pl_err *err);
struct pl_glob *pl_glob_destroy(struct pl_glob *g);
static inline void pl_glob_destroyp(struct pl_glob **g)
{
    *g = pl_glob_destroy(*g);
}

unsigned pl_glob_captures(const struct pl_glob *g);
/* The pattern is "/": one datum whatever is in the repo. */
bool pl_glob_is_root(const struct pl_glob *g);
/* Every path that matches starts with these bytes ("train/" of "/train/ *.csv"): where to seek. The glob's, `*ret_len` bytes. */
const char *pl_glob_prefix(const struct pl_glob *g, size_t *ret_len);

#define PL_GLOB_MATCH 1u /* the path matches */
#define PL_GLOB_BELOW 2u /* something below the path (path/…) may match: without this bit the directory need not be entered */
/* `path` without leading slash, "" = the root, at most PL_PATH_MAX_BYTES. `ret_captures` (may be NULL) gets pl_glob_captures()
 * spans on a match. */
unsigned pl_glob_test(const struct pl_glob *g, const char *path, size_t len, struct pl_span *ret_captures);
/* Exactly as pl_glob_test's PL_GLOB_MATCH. */
bool pl_glob_match(const struct pl_glob *g, const char *path, size_t len, struct pl_span *ret_captures);
/* The path or a directory above it matches. */
bool pl_glob_match_within(const struct pl_glob *g, const char *path, size_t len);

/* glob set: `files` of an input. A pattern without '/' (a leading one counts) matches at any depth; a pattern that matches a
 * directory takes all in it. The empty set takes everything. */
struct pl_glob_set;

/* `n` ≤ 1,000, and PL_GLOB_SET_STEPS steps of the matcher for each byte of a path. PL_EGLOB, PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_glob_set_compile(const char *const *patterns, size_t n, struct pl_glob_set **ret, struct pl_err *err);
struct pl_glob_set *pl_glob_set_destroy(struct pl_glob_set *s);
static inline void pl_glob_set_destroyp(struct pl_glob_set **s)
{
    *s = pl_glob_set_destroy(*s);
}
/* What a match with a path of `len` bytes costs at most, in steps of the matcher: some nanoseconds each. */
uint64_t pl_glob_cost(const struct pl_glob *g, size_t len);
uint64_t pl_glob_set_cost(const struct pl_glob_set *s, size_t len);
/* Is the file taken? `path` is relative to the match; of a match that is a file itself, its last segment. */
bool pl_glob_set_takes(const struct pl_glob_set *s, const char *path, size_t len);
