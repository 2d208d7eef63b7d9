/* lock_order: debug builds stop the program when two threads could wait for each other for ever.
 *
 * The linker sends the program's calls of pthread_mutex_* and pthread_rwlock_* through lock_order.c (--wrap, storage/base/CMakeLists.txt), which
 * records for each thread the locks that it holds, and for all threads which kind of lock was taken while which other was held. All locks that
 * one line of code initialises are one kind. abort() and a report on stderr follow when
 *   - the recorded order has a cycle, whether or not threads have met in it,
 *   - a thread takes a mutex that it holds,
 *   - a thread asks the object store while it holds a database reader or a lock that is not made for that (pl_lock_order_request).
 * What threads wait for and no mutex stands for is told here. Release builds have none of this. Any thread. */
#pragma once

#include "storage/base/base.h"

enum pl_lock_thing {
    PL_LOCK_DB_READER, /* one of a few: a thread with one must not wait for a second */
    PL_LOCK_DB_WRITER, /* the thread that runs transactions: held by it, waited for by others */
    PL_LOCK_THINGS
};

#ifdef PL_LOCK_ORDER
/* Before the thread waits for `thing`; it has it from then on until it gives it. */
void pl_lock_order_take(enum pl_lock_thing thing);
void pl_lock_order_give(enum pl_lock_thing thing);
/* Before a request to the object store `what`. */
void pl_lock_order_request(const char *what);
/* `lock` exists so that one thread asks the object store for many: it may be held over requests. After pthread_mutex_init. */
void pl_lock_order_spans_requests(const void *lock);
#else
static inline void pl_lock_order_take(enum pl_lock_thing thing)
{
    (void)thing;
}
static inline void pl_lock_order_give(enum pl_lock_thing thing)
{
    (void)thing;
}
static inline void pl_lock_order_request(const char *what)
{
    (void)what;
}
static inline void pl_lock_order_spans_requests(const void *lock)
{
    (void)lock;
}
#endif
