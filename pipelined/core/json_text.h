/* json_text: a JSON value as text. jansson's json_dumps (2.14) takes no notice when there is no memory for an object's key, and gives
 * a text without it. */
#pragma once

#include <jansson.h>

/* As json_dumps: malloc'ed, NULL without memory (or for what is no JSON value); never a part. Any thread. */
char *pl_json_text(const json_t *value, size_t flags);
