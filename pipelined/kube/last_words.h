/* last_words: the end of what a container printed, as part of a sentence. Pure. */
#pragma once

#include "storage/base/base.h"

/* The last line of `text` (`n` bytes, foreign) that says something, less what does not belong into a sentence; of our own programs' lines, which
 * are JSON (storage/base/log.h), the message. "" when there is none. What does not fit into `out` is cut at a whole character. */
void pl_last_words(const char *text, size_t n, char *out, size_t size);
