/* trace_context: the trace that a request belongs to, as its client names it in the header `traceparent` (W3C Trace
 * Context): "00-" 32 hex digits of the trace "-" 16 of the client's span "-" 2 of flags. The context belongs to the
 * thread that works for the request. */
#pragma once

#include "storage/base/base.h"

#define PL_TRACEPARENT_CHARS 55

/* True if the text is a traceparent of version 00: lower-case hex, neither id all zeros. */
bool pl_traceparent_ok(const char *text);
/* Sets this thread's context. NULL and texts that are not a traceparent mean none, as the standard asks. */
void pl_trace_context_set(const char *traceparent);
/* Returns this thread's traceparent; "" = none. Valid until the thread's next pl_trace_context_set. */
const char *pl_trace_context(void);
