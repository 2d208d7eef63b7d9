/* json_position: finds the line and column of a value in a JSON text, because jansson keeps no positions. This scanner
 * accepts the same texts as json_loadb(JSON_REJECT_DUPLICATES), with three more limits: PL_JSON_MAX_BYTES,
 * PL_JSON_DEPTH_MAX and no NUL byte. Only error messages need positions, so the text is scanned again for each one.
 *
 * A JSON path names a value: keys joined by dots, indices in brackets, other keys as JSON strings in brackets:
 *     stages[1].input.glob      defaults.env["odd key"]      ""  (the whole text)
 *
 * Memory: the keys of the objects that enclose the current position. Any thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_JSON_MAX_BYTES (10u << 20)
#define PL_JSON_DEPTH_MAX 64u

/* A position in a text. Lines and columns count from 1; a column is a code point; '\n' ends a line. */
struct pl_json_pos {
    size_t offset; /* bytes, from 0 */
    uint32_t line;
    uint32_t column;
};

/* Checks that `text` is a JSON object or array within the limits. Returns PL_ESPEC with a message that says what is wrong,
 * PL_ETOOBIG or PL_ENOMEM. On an error in the text, `ret_at` (may be NULL) gets its position. */
PL_MUST_CHECK
int pl_json_check(const char *text, size_t len, struct pl_json_pos *ret_at, struct pl_err *err);

/* Finds `path` in a text that pl_json_check accepts. Returns true if the value exists: `ret_value` gets the
 * first byte of the value, `ret_key` the opening quote of its key (for an array element or the root: the
 * value). If it does not exist, returns false with the positions of the deepest existing value on the path.
 * `ret_key` and `ret_value` may be NULL. */
bool pl_json_find(const char *text, size_t len, const char *path, struct pl_json_pos *ret_key, struct pl_json_pos *ret_value);

/* Append the key of a member, or the index of an element, to a JSON path. */
PL_MUST_CHECK
int pl_json_path_key(struct pl_buf *path, const char *key, struct pl_err *err);
PL_MUST_CHECK
int pl_json_path_index(struct pl_buf *path, size_t index, struct pl_err *err);
