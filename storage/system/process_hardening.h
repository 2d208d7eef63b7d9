/* closed: a process whose memory is nobody's: it holds tokens and keys. */
#pragma once

/* From here on no other process of the same user reads this one's memory or environment, attaches to it or opens its files through /proc, and
 * no core file is written, by a handler of core_pattern neither. Programs that it starts are open again; their core limit stays 0. */
void pl_process_close(void);
