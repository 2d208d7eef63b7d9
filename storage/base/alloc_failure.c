/* alloc_failure: malloc with a thread-local flag that is set when an allocation fails. */
#include "storage/base/alloc_failure.h"

static __thread bool lacked;

void *pl_alloc_failure_malloc(size_t n)
{
    void *p = malloc(n);

    lacked = lacked || !p;
    return p;
}

bool pl_alloc_failure_take(void)
{
    bool was = lacked;

    lacked = false;
    return was;
}
