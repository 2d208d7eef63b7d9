/* json_text: a JSON value as text, a text of a JSON value, and jansson where memory lacks. jansson's json_dumps (2.14) takes no notice when there is no memory for an object's key, and gives
 * a text without it. */
#pragma once

#include <jansson.h>

/* As json_dumps: malloc'ed, NULL without memory (or for what is no JSON value); never a part. Any thread. */
char *pl_json_text(const json_t *value, size_t flags);

/* The text of a field; "" where the object (NULL, or none) lacks it or has something else there. Lives as long as the object. Any thread. */
const char *pl_json_str(const json_t *object, const char *key);
/* The same, but NULL where there is no text of that name. */
const char *pl_json_text_at(const json_t *object, const char *key);

/* From now on jansson allocates with pl_alloc_failure_malloc: whoever has made a value asks pl_alloc_failure_take whether all of it is there. Before other
 * threads use jansson, or again. */
void pl_json_note_lack(void);
