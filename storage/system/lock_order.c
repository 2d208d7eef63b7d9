/* lock_order: a hash table maps each lock to its kind, and is read without a lock. A matrix records which
 * kinds were acquired while which other kind was held. A mutex of this file guards changes of both. A lock
 * for which no pthread_*_init was called is a kind of its own if it is a static variable of the program.
 * Otherwise it is ignored: such locks are local variables of a function that waits for other threads. */
#include "storage/system/lock_order.h"

#ifdef PL_LOCK_ORDER
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define KINDS_MAX 256
#define LOCKS_MAX (1u << 18)
#define HELD_MAX  64
#define NO_KIND   KINDS_MAX

struct place { /* a slot of the hash table from locks to kinds */
    _Atomic(uintptr_t) lock;
    _Atomic(unsigned) kind;
};

enum { NEVER_USED = 0, GIVEN_BACK = 1 };

static struct {
    pthread_mutex_t mutex; /* guards changes of the fields below */
    struct place places[LOCKS_MAX];
    const void *made_at[KINDS_MAX];
    atomic_bool spans_requests[KINDS_MAX];
    /* taken_at[held][taken]: code address at which `taken` was first acquired while `held` was held; NULL
     * = never */
    _Atomic(const void *) taken_at[KINDS_MAX][KINDS_MAX];
    unsigned n_kinds;
} order = {.mutex = PTHREAD_MUTEX_INITIALIZER, .n_kinds = PL_LOCK_THINGS};

static _Thread_local struct {
    struct {
        const void *lock;
        unsigned kind;
    } held[HELD_MAX];
    unsigned n;
} mine;

extern char __data_start, _end;

int __real_pthread_mutex_init(pthread_mutex_t *, const pthread_mutexattr_t *);
int __real_pthread_mutex_destroy(pthread_mutex_t *);
int __real_pthread_mutex_lock(pthread_mutex_t *);
int __real_pthread_mutex_trylock(pthread_mutex_t *);
int __real_pthread_mutex_unlock(pthread_mutex_t *);
int __real_pthread_rwlock_init(pthread_rwlock_t *, const pthread_rwlockattr_t *);
int __real_pthread_rwlock_destroy(pthread_rwlock_t *);
int __real_pthread_rwlock_rdlock(pthread_rwlock_t *);
int __real_pthread_rwlock_wrlock(pthread_rwlock_t *);
int __real_pthread_rwlock_unlock(pthread_rwlock_t *);
int __wrap_pthread_mutex_init(pthread_mutex_t *, const pthread_mutexattr_t *);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *);
int __wrap_pthread_mutex_lock(pthread_mutex_t *);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *);
int __wrap_pthread_rwlock_init(pthread_rwlock_t *, const pthread_rwlockattr_t *);
int __wrap_pthread_rwlock_destroy(pthread_rwlock_t *);
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *);
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *);
int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *);

/* ---- reports ---- */

static void say_code(const char *before, const void *code)
{
    Dl_info at;

    if (code && dladdr(code, &at) && at.dli_fbase)
        fprintf(stderr, "%s addr2line -fe %s 0x%zx\n", before, at.dli_fname,
                (size_t)((const char *)code - (const char *)at.dli_fbase) - 1);
    else
        fprintf(stderr, "%s %p\n", before, code);
}

static void say_kind(const char *before, unsigned kind)
{
    static const char *const things[] = {"a reader of the database", "the writer thread of the database"};

    if (kind < PL_LOCK_THINGS)
        fprintf(stderr, "%s %s\n", before, things[kind]);
    else
        say_code(before, order.made_at[kind]);
}

_Noreturn static void stop(const void *code)
{
    say_code("lock order: here:", code);
    for (unsigned i = 0; i < mine.n; i++)
        say_kind("lock order: this thread holds the lock initialised at:", mine.held[i].kind);
    abort();
}

/* ---- kinds of locks ---- */

static size_t place_of(const void *lock)
{
    return (size_t)(((uintptr_t)lock >> 3) * 0x9E3779B97F4A7C15u >> 32) & (LOCKS_MAX - 1);
}

/* Returns the slot of `lock`, or the never-used slot at which the search ends. */
static struct place *look_up(const void *lock)
{
    size_t i = place_of(lock);
    uintptr_t found;

    while ((found = atomic_load(&order.places[i].lock)) != (uintptr_t)lock && found != NEVER_USED)
        i = (i + 1) & (LOCKS_MAX - 1);
    return &order.places[i];
}

/* Stores the kind of a lock. The caller holds the mutex. The table never becomes full: it has more slots than
 * any test has locks. */
static void put_kind(const void *lock, unsigned kind)
{
    struct place *p = look_up(lock);

    if (atomic_load(&p->lock) == NEVER_USED)
        for (size_t i = place_of(lock); atomic_load(&(p = &order.places[i])->lock) > GIVEN_BACK; i = (i + 1) & (LOCKS_MAX - 1))
            ;
    atomic_store(&p->kind, kind);
    atomic_store(&p->lock, (uintptr_t)lock);
}

static unsigned new_kind(const void *made_at)
{
    for (unsigned k = PL_LOCK_THINGS; k < order.n_kinds; k++)
        if (order.made_at[k] == made_at)
            return k;
    if (order.n_kinds == KINDS_MAX) {
        fprintf(stderr, "lock order: more than %d kinds of locks: raise KINDS_MAX\n", KINDS_MAX);
        abort();
    }
    order.made_at[order.n_kinds] = made_at;
    return order.n_kinds++;
}

static void made(const void *lock, const void *made_at)
{
    __real_pthread_mutex_lock(&order.mutex);
    put_kind(lock, new_kind(made_at));
    __real_pthread_mutex_unlock(&order.mutex);
}

/* Removes a lock from the table. Removed slots at the end of a probe sequence become never-used again, so
 * that searches stay short. */
static void unmade(const void *lock)
{
    struct place *p;

    __real_pthread_mutex_lock(&order.mutex);
    p = look_up(lock);
    if (atomic_load(&p->lock) == (uintptr_t)lock) {
        size_t i = (size_t)(p - order.places);

        atomic_store(&p->lock, GIVEN_BACK);
        if (atomic_load(&order.places[(i + 1) & (LOCKS_MAX - 1)].lock) == NEVER_USED)
            for (; atomic_load(&order.places[i].lock) == GIVEN_BACK; i = (i - 1) & (LOCKS_MAX - 1))
                atomic_store(&order.places[i].lock, NEVER_USED);
    }
    __real_pthread_mutex_unlock(&order.mutex);
}

static unsigned kind_of(const void *lock)
{
    const struct place *p = look_up(lock);

    if (atomic_load(&p->lock) == (uintptr_t)lock)
        return atomic_load(&p->kind);
    if ((const char *)lock < &__data_start || (const char *)lock >= &_end)
        return NO_KIND;
    made(lock, lock);
    return kind_of(lock);
}

/* ---- the order of kinds ---- */

/* Returns true if `to` was acquired while `from` was held, directly or through other kinds, and prints the
 * chain. `seen` marks the kinds already searched. */
static bool leads(unsigned from, unsigned to, bool seen[KINDS_MAX])
{
    seen[from] = true;
    for (unsigned k = 0; k < order.n_kinds; k++) {
        if (!order.taken_at[from][k] || (k != to && (seen[k] || !leads(k, to, seen))))
            continue;
        say_kind("lock order: while this was held:", from);
        say_kind("lock order:   this was taken:", k);
        say_code("lock order:   by:", order.taken_at[from][k]);
        return true;
    }
    return false;
}

static void note(unsigned held, unsigned kind, const void *code)
{
    bool seen[KINDS_MAX] = {false};

    if (atomic_load_explicit(&order.taken_at[held][kind], memory_order_relaxed))
        return;
    __real_pthread_mutex_lock(&order.mutex);
    if (leads(kind, held, seen)) {
        say_kind("lock order: but now, while this is held:", held);
        say_kind("lock order:   this is about to be taken:", kind);
        stop(code);
    }
    atomic_store(&order.taken_at[held][kind], code);
    __real_pthread_mutex_unlock(&order.mutex);
}

static void push(const void *lock, unsigned kind)
{
    if (mine.n == HELD_MAX) {
        fprintf(stderr, "lock order: a thread holds more than %d locks: raise HELD_MAX\n", HELD_MAX);
        abort();
    }
    mine.held[mine.n].lock = lock;
    mine.held[mine.n++].kind = kind;
}

static void pop(const void *lock)
{
    unsigned i = mine.n;

    while (i > 0 && mine.held[i - 1].lock != lock)
        i--;
    if (i == 0)
        return;
    mine.n--;
    for (i--; i < mine.n; i++)
        mine.held[i] = mine.held[i + 1];
}

/* Checks an acquisition before the thread waits for `lock`. The order of two locks of the same kind is not
 * checked, because all locks of a kind look the same here. */
static void take(const void *lock, bool exclusive, const void *code)
{
    const unsigned kind = kind_of(lock);

    if (kind == NO_KIND)
        return;
    for (unsigned i = 0; i < mine.n; i++) {
        if (exclusive && mine.held[i].lock == lock) {
            fprintf(stderr, "lock order: this thread holds this lock already\n");
            stop(code);
        }
        if (mine.held[i].kind != kind)
            note(mine.held[i].kind, kind, code);
    }
    push(lock, kind);
}

/* the address of element i stands for `enum pl_lock_thing` i in the list `held` */
static const char thing_keys[PL_LOCK_THINGS];

void pl_lock_order_take(enum pl_lock_thing thing)
{
    const void *code = __builtin_return_address(0);

    for (unsigned i = 0; i < mine.n; i++) {
        if (mine.held[i].kind == (unsigned)thing && thing == PL_LOCK_DB_READER) {
            fprintf(stderr, "lock order: this thread has a database reader and would wait for a second one\n");
            stop(code);
        }
        if (mine.held[i].kind != (unsigned)thing)
            note(mine.held[i].kind, thing, code);
    }
    push(&thing_keys[thing], thing);
}

void pl_lock_order_give(enum pl_lock_thing thing)
{
    pop(&thing_keys[thing]);
}

void pl_lock_order_request(const char *what)
{
    for (unsigned i = 0; i < mine.n; i++) {
        const unsigned kind = mine.held[i].kind;

        /* the database's writer thread is exempt, because it puts the log objects into the store */
        if (kind == PL_LOCK_DB_WRITER || atomic_load(&order.spans_requests[kind]))
            continue;
        say_kind("lock order: held over a request to the object store:", kind);
        fprintf(stderr, "lock order: the request: %s\n", what);
        stop(__builtin_return_address(0));
    }
}

void pl_lock_order_spans_requests(const void *lock)
{
    atomic_store(&order.spans_requests[kind_of(lock)], true);
}

/* ---- replacements of the pthread functions ---- */

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
    made(m, __builtin_return_address(0));
    return __real_pthread_mutex_init(m, attr);
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
    unmade(m);
    return __real_pthread_mutex_destroy(m);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    take(m, true, __builtin_return_address(0));
    return __real_pthread_mutex_lock(m);
}

/* trylock does not wait and therefore cannot be the last step of a deadlock; locks acquired while it is held
 * are checked. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
    const int r = __real_pthread_mutex_trylock(m);
    const unsigned kind = r == 0 ? kind_of(m) : NO_KIND;

    if (kind != NO_KIND)
        push(m, kind);
    return r;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    pop(m);
    return __real_pthread_mutex_unlock(m);
}

int __wrap_pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr)
{
    made(l, __builtin_return_address(0));
    return __real_pthread_rwlock_init(l, attr);
}

int __wrap_pthread_rwlock_destroy(pthread_rwlock_t *l)
{
    unmade(l);
    return __real_pthread_rwlock_destroy(l);
}

int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
    take(l, false, __builtin_return_address(0));
    return __real_pthread_rwlock_rdlock(l);
}

int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
    take(l, true, __builtin_return_address(0));
    return __real_pthread_rwlock_wrlock(l);
}

int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *l)
{
    pop(l);
    return __real_pthread_rwlock_unlock(l);
}
#endif
