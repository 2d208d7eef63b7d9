/* last_words: the end of what a container printed, as part of a sentence. Pure. */
#pragma once

#include "storage/base/base.h"

#define PL_LOG_TAIL_BYTES 2048u /* of what a container printed, its last so many are in the status of one that failed (kubelet) */

/* The last line of `text` (`n` bytes, foreign) that says something, less what does not belong into a sentence; of our own programs' lines, which
 * are JSON (storage/system/log_line.h), the message. "" when there is none. It is UTF-8: a byte that is none becomes "?". What does not fit into `out` is cut
 * at a whole character. `cut`: something may be missing before `text`: of what may be no whole line the words are taken from the second on, behind "…". */
void pl_log_tail(const char *text, size_t n, bool cut, char *out, size_t size);
