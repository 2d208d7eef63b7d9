/* alloc_failure: an allocator that remembers, per thread, that an allocation failed. It is for libraries that
 * report lack of memory only by a NULL that callers easily miss. For example, jansson then builds an object
 * that lacks a member, or a list that lacks an element. */
#pragma once

#include "storage/base/base.h"

/* malloc that also remembers a failure. The caller frees the block with free. */
void *pl_alloc_failure_malloc(size_t n);
/* Returns true if an allocation of this thread failed since the last call, and forgets the failure. */
bool pl_alloc_failure_take(void);
