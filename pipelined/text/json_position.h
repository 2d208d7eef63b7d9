/* json_pos: where in a JSON text a value stands. jansson keeps no positions; this scanner of ours reads the same text and gives
 * the same verdict as json_loadb(JSON_REJECT_DUPLICATES) on every input, apart from three bounds that jansson has not:
 * PL_JSON_MAX_BYTES, PL_JSON_DEPTH_MAX and no NUL byte. Positions are found by scanning again: they are wanted for errors only,
 * so nothing is kept.
 *
 * A JSON path names a value: keys joined by dots, indices in brackets, other keys as JSON strings in brackets:
 *     stages[1].input.glob      defaults.env["odd key"]      ""  (the whole text)
 *
 * Memory: the keys of the objects that are open. Any thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_JSON_MAX_BYTES (10u << 20)
#define PL_JSON_DEPTH_MAX 64u

/* Counted from 1; columns in characters (code points), lines by '\n'. */
struct pl_json_pos {
    size_t offset; /* bytes, from 0 */
    uint32_t line;
    uint32_t column;
};

/* Is it a JSON text (object or array) that jansson accepts, within the bounds? PL_ESPEC with a message that names what is wrong,
 * and `ret_at` (may be NULL) where; PL_ETOOBIG; PL_ENOMEM. */
PL_MUST_CHECK
int pl_json_check(const char *text, size_t len, struct pl_json_pos *ret_at, struct pl_err *err);

/* Finds `path` in a text that pl_json_check accepts. True when it is there: `ret_value` is the first byte of its value, `ret_key`
 * the opening quote of its key (for an array element and the root: the value). False: both are those of the deepest value on the
 * way that is there. Either may be NULL. */
bool pl_json_find(const char *text, size_t len, const char *path, struct pl_json_pos *ret_key, struct pl_json_pos *ret_value);

/* Extends a path by a key or an index. */
PL_MUST_CHECK
int pl_json_path_key(struct pl_buf *path, const char *key, struct pl_err *err);
PL_MUST_CHECK
int pl_json_path_index(struct pl_buf *path, size_t index, struct pl_err *err);
