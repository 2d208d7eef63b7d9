/* cancel: keeps the flag of each thread in a thread-local pointer. */
#include "storage/http/cancel.h"

#include <stddef.h>

static _Thread_local const atomic_bool *flag_of_thread = NULL;

void pl_cancel_by(const atomic_bool *flag)
{
    flag_of_thread = flag;
}

const atomic_bool *pl_cancel_flag(void)
{
    return flag_of_thread;
}
