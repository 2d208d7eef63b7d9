/* process_hardening: protects the memory of this process, which holds tokens and keys, from other
 * processes. */
#pragma once

/* From this call on no process of the same user can read this process's memory or environment, attach a
 * debugger to it or open its files through /proc; and no core dump is written, not even by a handler in
 * core_pattern. Programs that it starts are not protected in this way, but their core limit is 0 as well. */
void pl_process_close(void);
