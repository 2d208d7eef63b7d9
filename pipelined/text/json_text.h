/* json_text: writes a JSON value as text and reads fields of objects, safely when memory runs out. json_dumps of jansson 2.14
 * ignores an allocation failure for the key of an object and returns a text without that key. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>
#include <stdbool.h>

/* Like json_dumps, but never returns an incomplete text. Returns a malloc'ed string, or NULL if memory runs out or `value`
 * is not a JSON value. Any thread. */
char *pl_json_text(const json_t *value, size_t flags);

/* Returns the string field `key` of `object`. Returns "" if the field is missing or not a string, or if `object` is NULL or
 * not an object. The string lives as long as the object. Any thread. */
const char *pl_json_str(const json_t *object, const char *key);
/* Like pl_json_str, but returns NULL if there is no string field `key`. */
const char *pl_json_text_at(const json_t *object, const char *key);

/* Returns the integer field `key` of `object`; 0 if the field is missing or no integer, or if `object` is NULL or not an
 * object. Any thread. */
int64_t pl_json_int(const json_t *object, const char *key);

/* Makes a JSON string of any bytes: what is no UTF-8 becomes U+FFFD. `bytes` may be NULL if `n` is 0. Returns a new reference,
 * or NULL if memory runs out. Any thread. */
json_t *pl_json_bytes(const void *bytes, size_t n);

/* Returns true if the text is an element of `list`; false if `list` is NULL or not an array. Any thread. */
bool pl_json_has_text(const json_t *list, const char *text);
/* Appends `item`, which it takes, to `list`. PL_ENOMEM also when either is NULL, so that an item that could not be
 * made is not lost silently. */
PL_MUST_CHECK
int pl_json_add(json_t *list, json_t *item, struct pl_err *err);

/* Makes jansson allocate with pl_alloc_failure_malloc. Code that has built a value calls pl_alloc_failure_take to learn
 * whether an allocation failed. Call this before other threads use jansson; repeated calls are allowed. */
void pl_json_note_lack(void);
