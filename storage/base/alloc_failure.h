/* lack: an allocator that remembers, a thread, that it once had nothing to give. For libraries that say so only by a NULL that is easily
 * lost, as jansson: an object without its member, a list without its element. */
#pragma once

#include "storage/base/base.h"

/* malloc. */
void *pl_alloc_failure_malloc(size_t n);
/* Whether it failed in this thread since the last call. */
bool pl_alloc_failure_take(void);
