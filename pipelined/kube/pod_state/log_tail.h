/* log_tail: extracts the end of a container's output for use in a sentence. Pure. */
#pragma once

#include "storage/base/base.h"

#define PL_LOG_TAIL_BYTES 2048u /* bytes of a failed container's output that the kubelet copies to the pod's status */

/* Writes the last line with text of `text` (`n` bytes of any content) to `out`, without control characters.
 * If the line is a JSON record of our own programs (storage/system/log_line.h), only its message is used. ""
 * if there is no such line. The result is UTF-8: invalid bytes become "?". It is cut to `size` at a whole
 * character. `cut`: the beginning of `text` may be missing; then a first line is used only from its second
 * word on, after "…". */
void pl_log_tail(const char *text, size_t n, bool cut, char *out, size_t size);
