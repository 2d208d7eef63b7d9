/* cancel: a flag per thread that ends the thread's blocking HTTP requests. */
#pragma once

#include <stdatomic.h>

/* Requests of the calling thread, to any server, end with PL_ECANCELED soon after `*flag` is set and
 * pl_object_wake is called; the server may nevertheless have carried them out. NULL removes the flag. The
 * flag must outlive the requests. */
void pl_cancel_by(const atomic_bool *flag);
/* Returns the flag of the calling thread; NULL = none. */
const atomic_bool *pl_cancel_flag(void);
