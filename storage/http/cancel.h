/* cancel: the flag that ends the blocking requests of a thread. */
#pragma once

#include <stdatomic.h>

/* Requests of this thread, to any server, end with PL_ECANCELED soon after `*flag` is set and pl_object_wake is called; what they change
 * may have been done. NULL removes the flag. The flag outlives the requests. */
void pl_cancel_by(const atomic_bool *flag);
/* The flag of this thread; NULL = none. */
const atomic_bool *pl_cancel_flag(void);
