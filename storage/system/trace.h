/* trace: what a room does, for a developer who debugs it. Off unless the environment variable PIPELINED_TRACE names the room when the
 * program starts: names of rooms below storage/ and pipelined/, separated by commas; a folder's name means all rooms in it, "all" every
 * room.
 *
 *   PIPELINED_TRACE=sched,exec pipelined …      PIPELINED_TRACE=net/http_client pipelinectl list repo
 *
 * Lines go to standard error: time in microseconds, thread, room, text. Never trace a secret. Any thread. */
#pragma once

#include "storage/base/base.h"

/* Returns true if the room is traced. The first call reads the environment variable. */
bool pl_trace_on(const char *room);
/* Writes one trace line with the time, the thread, the room and the formatted text. */
void pl_trace_write(const char *room, const char *fmt, ...) PL_PRINTF(2, 3);

/* Writes a trace line if the room is traced; only then are the arguments evaluated. `room` is a string
 * literal. */
#define pl_trace(room, ...)                                                                                                      \
    do {                                                                                                                         \
        static _Atomic signed char pl_trace_here_; /* 0 = not looked up yet, 1 = on, -1 = off */                                 \
        if (pl_trace_here_ == 0)                                                                                                 \
            pl_trace_here_ = pl_trace_on(room) ? 1 : -1;                                                                         \
        if (pl_trace_here_ > 0)                                                                                                  \
            pl_trace_write(room, __VA_ARGS__);                                                                                   \
    } while (0)
