/* lock_order: in debug builds, aborts the program when threads could deadlock.
 *
 * The linker redirects the program's calls of pthread_mutex_* and pthread_rwlock_* to lock_order.c (--wrap,
 * storage/CMakeLists.txt). It records for each thread the locks that it holds, and for all threads which kind
 * of lock was acquired while another kind was held. All locks initialised by the same line of code are one
 * kind. The program prints a report on stderr and aborts if
 *   - the recorded order has a cycle, even if no threads have deadlocked in it,
 *   - a thread locks a mutex that it holds,
 *   - a thread sends a request to the object store while it holds a database reader, or a lock that is not
 *     marked as allowed during requests (pl_lock_order_request).
 * The functions below report resources that threads wait for without a mutex. Release builds check nothing.
 * Any thread. */
#pragma once

#include "storage/base/base.h"

enum pl_lock_thing {
    /* one of a small number of database readers: a thread that has one must not wait for another one */
    PL_LOCK_DB_READER,
    /* the right to run write transactions: held by the database's writer thread, other threads wait for it
     * */
    PL_LOCK_DB_WRITER,
    PL_LOCK_THINGS
};

#ifdef PL_LOCK_ORDER
/* Call pl_lock_order_take before the thread waits for `thing`, and pl_lock_order_give when the thread has
 * returned it. */
void pl_lock_order_take(enum pl_lock_thing thing);
void pl_lock_order_give(enum pl_lock_thing thing);
/* Call before a request `what` to the object store. */
void pl_lock_order_request(const char *what);
/* Allows `lock`, and all locks of its kind, to be held during requests to the object store: for a lock whose
 * purpose is that one thread sends a request on behalf of all threads that wait for the lock. Call after
 * pthread_mutex_init. */
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
