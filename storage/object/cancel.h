/* cancel: what ends the calls of a thread that wait for a server: pl_object_cancel_by (object.h) sets it. */
#pragma once

#include <stdatomic.h>

/* The flag of this thread; NULL = none. */
const atomic_bool *pl_object_cancel_flag(void);
