/* glob: patterns over the paths of a tree.
 *
 *   *        any characters but '/'            ?          one character but '/'
 *   [a-z]    one of these, never '/'           [!a] [^a]  one but these        [[:alpha:]]  POSIX classes (ASCII)
 *   {a,b}    either; may be nested             \x         x itself
 *   (…)      captures what it matches, numbered by '(' from 1; (a|b) either. {…} and (…) may hold '/'
 *   **       as a whole segment: any number of segments ("a/ ** /b" without the blanks matches a/b and a/x/y/b; "a/ **" all below
 * a); elsewhere: any characters, '/' as well /        the root, which nothing else matches
 *
 * Leading and trailing '/' are ignored. A pattern matches files and directories alike: "/train/ *" matches the directories in
 * train as well, and a matching directory stands for everything in it. A character is a code point. The
 * quantified groups @( *( +( ?( !( are not supported; the error message names them.
 *
 * The matcher runs all alternatives side by side (Thompson, Pike): time is at most length of path × size of pattern, whatever the
 * pattern. Captures are those of a backtracking matcher that tries the longest `*` and the first alternative first, as in
 * Pachyderm. A compiled glob does not change: any thread may match with it. */
#pragma once

#include "storage/base/err.h"

#define PL_GLOB_MAX_BYTES    1024u
#define PL_GLOB_CAPTURES_MAX 16u
#define PL_GLOB_DEPTH_MAX    16u /* maximum nesting depth of groups */
/* maximum number of instructions of all globs of a set, without their literal prefixes */
#define PL_GLOB_SET_STEPS 65536u

struct pl_glob;

/* Bytes start..end of the path; start = PL_SPAN_NONE if the capture was not part of the match. */
#define PL_SPAN_NONE UINT16_MAX
struct pl_span {
    uint16_t start, end;
};

/* Compiles a pattern; free *ret with pl_glob_destroy. Returns PL_ENOMEM, or PL_EGLOB with a message like
 * `glob "/a(b": column 3: ( is never closed`. */
PL_MUST_CHECK
int pl_glob_compile(const char *pattern, struct pl_glob **ret, struct pl_err *err);
struct pl_glob *pl_glob_destroy(struct pl_glob *g);
static inline void pl_glob_destroyp(struct pl_glob **g)
{
    *g = pl_glob_destroy(*g);
}

unsigned pl_glob_captures(const struct pl_glob *g);
/* True if the pattern is "/", which makes one datum of the whole repo. */
bool pl_glob_is_root(const struct pl_glob *g);
/* Returns the literal prefix of all matching paths, for example "train/" for "/train/ *.csv". A caller can
 * skip all paths before this prefix. The prefix has *ret_len bytes and belongs to the glob. */
const char *pl_glob_prefix(const struct pl_glob *g, size_t *ret_len);

#define PL_GLOB_MATCH 1u /* the path matches */
/* a path below this one (path/…) may match; without this bit the directory can be skipped */
#define PL_GLOB_BELOW 2u
/* Tests a path without leading slash ("" = the root) of at most PL_PATH_MAX_BYTES. Returns a combination of the two bits
 * above. On a match, `ret_captures` (may be NULL) gets pl_glob_captures() spans. */
unsigned pl_glob_test(const struct pl_glob *g, const char *path, size_t len, struct pl_span *ret_captures);
/* True if pl_glob_test would return PL_GLOB_MATCH. */
bool pl_glob_match(const struct pl_glob *g, const char *path, size_t len, struct pl_span *ret_captures);
/* True if the path or a directory above it matches. */
bool pl_glob_match_within(const struct pl_glob *g, const char *path, size_t len);

/* A set of globs, such as the `files` of an input. A pattern that contains no '/', not even a leading one, matches at any
 * depth. A pattern that matches a directory selects everything in it. An empty set selects everything. */
struct pl_glob_set;

/* Compiles at most 1,000 patterns with at most PL_GLOB_SET_STEPS instructions in all. Returns PL_EGLOB, PL_ELIMIT or
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_glob_set_compile(const char *const *patterns, size_t n, struct pl_glob_set **ret, struct pl_err *err);
struct pl_glob_set *pl_glob_set_destroy(struct pl_glob_set *s);
static inline void pl_glob_set_destroyp(struct pl_glob_set **s)
{
    *s = pl_glob_set_destroy(*s);
}
/* Return the largest cost of matching a path of `len` bytes, in matcher steps of a few nanoseconds each. */
uint64_t pl_glob_cost(const struct pl_glob *g, size_t len);
uint64_t pl_glob_set_cost(const struct pl_glob_set *s, size_t len);
/* True if the set selects the file. `path` is relative to the matched directory; if the match is a file, `path` is the last
 * segment of its path. */
bool pl_glob_set_takes(const struct pl_glob_set *s, const char *path, size_t len);
