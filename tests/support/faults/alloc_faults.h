/* alloc_faults: memory that runs out. Every malloc, calloc, realloc, strdup and their like of this program and of all its libraries is
 * counted; the nth fails, alone or with all after it. Works by defining the names in the program itself, which the dynamic linker
 * prefers to those of libc and of the sanitizers; what they did is done by the sanitizer's, or libc's, own. For one file of a program. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/base/err.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* They are called while a sanitizer starts, before it can look at any access. */
#define ALLOC_BARE   __attribute__((no_sanitize("address", "thread", "undefined")))
#define ALLOC_PUBLIC ALLOC_BARE __attribute__((visibility("default")))
#define ALLOC_WEAK   __attribute__((weak))

/* The sanitizers' allocator, where there is one. */
extern void *__interceptor_malloc(size_t n) ALLOC_WEAK;
extern void *__interceptor_calloc(size_t n, size_t size) ALLOC_WEAK;
extern void *__interceptor_realloc(void *p, size_t n) ALLOC_WEAK;
extern void *__interceptor_reallocarray(void *p, size_t n, size_t size) ALLOC_WEAK;
extern int __interceptor_posix_memalign(void **ret, size_t align, size_t n) ALLOC_WEAK;
extern void *__interceptor_aligned_alloc(size_t align, size_t n) ALLOC_WEAK;
extern int __interceptor_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) ALLOC_WEAK;
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);

static struct {
    _Atomic uint64_t calls; /* allocations of threads that are not spared, while counting */
    _Atomic uint64_t at;    /* the one that fails, 0 = none */
    _Atomic bool counting, lasting;
    _Atomic uint64_t failed;
} alloc_faults;

/* This thread's allocations neither fail nor count: it belongs to the test, or it is just being made (a sanitizer's own allocations
 * there are not for us). */
static __thread bool alloc_spared = true;
/* The next one of this thread fails in any case. */
static __thread bool alloc_doomed;

static __attribute__((unused)) void *alloc_spared_malloc(size_t n)
{
    bool was = alloc_spared;
    void *p;

    alloc_spared = true;
    p = malloc(n);
    alloc_spared = was;
    return p;
}
#define FIXTURE_MALLOC alloc_spared_malloc /* of fixtures included after this */

/* The nth allocation from now fails; with `lasting` all after it too, until alloc_fail_end. */
static inline void alloc_fail_nth(uint64_t nth, bool lasting)
{
    alloc_faults.calls = 0;
    alloc_faults.failed = 0;
    alloc_faults.at = nth;
    alloc_faults.lasting = lasting;
    alloc_faults.counting = true;
}

/* Memory is plenty again. True when an allocation failed since alloc_fail_nth. */
static inline bool alloc_fail_end(void)
{
    alloc_faults.counting = false;
    return alloc_faults.failed > 0;
}

ALLOC_BARE static bool alloc_hit(void)
{
    uint64_t n;

    if (alloc_doomed) {
        alloc_doomed = false;
        return true;
    }
    if (!alloc_faults.counting || alloc_spared)
        return false;
    n = ++alloc_faults.calls;
    if (alloc_faults.at == 0 || (alloc_faults.lasting ? n < alloc_faults.at : n != alloc_faults.at))
        return false;
    alloc_faults.failed++;
    errno = ENOMEM;
    return true;
}

ALLOC_PUBLIC void *malloc(size_t n)
{
    if (alloc_hit())
        return NULL;
    return __interceptor_malloc ? __interceptor_malloc(n) : __libc_malloc(n);
}

ALLOC_PUBLIC void *calloc(size_t n, size_t size)
{
    if (alloc_hit())
        return NULL;
    return __interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

ALLOC_PUBLIC void *realloc(void *p, size_t n)
{
    if (alloc_hit())
        return NULL;
    return __interceptor_realloc ? __interceptor_realloc(p, n) : __libc_realloc(p, n);
}

ALLOC_PUBLIC void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (alloc_hit() || __builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return __interceptor_realloc ? __interceptor_realloc(p, bytes) : __libc_realloc(p, bytes);
}

ALLOC_PUBLIC void *aligned_alloc(size_t align, size_t n)
{
    if (alloc_hit())
        return NULL;
    return __interceptor_aligned_alloc ? __interceptor_aligned_alloc(align, n) : __libc_memalign(align, n);
}

ALLOC_PUBLIC int posix_memalign(void **ret, size_t align, size_t n)
{
    void *p;

    if (alloc_hit())
        return ENOMEM;
    if (__interceptor_posix_memalign)
        return __interceptor_posix_memalign(ret, align, n);
    p = __libc_memalign(align, n);
    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

ALLOC_BARE static char *alloc_copy(const char *s, size_t n)
{
    char *copy = malloc(n + 1);

    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

ALLOC_PUBLIC char *strndup(const char *s, size_t max)
{
    return alloc_copy(s, strnlen(s, max));
}

ALLOC_PUBLIC char *strdup(const char *s)
{
    return alloc_copy(s, strlen(s));
}

struct alloc_thread {
    void *(*fn)(void *);
    void *arg;
};

static void *alloc_thread_main(void *arg)
{
    struct alloc_thread t = *(struct alloc_thread *)arg;

    __libc_free(arg);
    alloc_spared = false;
    return t.fn(t.arg);
}

/* Threads of the product and of libraries take part from their first line on. */
ALLOC_PUBLIC int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    __typeof__(&pthread_create) real = __interceptor_pthread_create;
    struct alloc_thread *t = __libc_malloc(sizeof *t);
    int r;

    if (!real)
        real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
    *t = (struct alloc_thread){fn, arg};
    r = real(ret, attr, alloc_thread_main, t);
    if (r != 0)
        __libc_free(t);
    return r;
}

/* A thread that gives itself a name that begins so is spared. */
#ifdef ALLOC_SPARED_THREADS
ALLOC_PUBLIC int pthread_setname_np(pthread_t thread, const char *name)
{
    if (pthread_equal(thread, pthread_self()) && strncmp(name, ALLOC_SPARED_THREADS, strlen(ALLOC_SPARED_THREADS)) == 0)
        alloc_spared = true;
    return 0;
}
#endif

/* ---- a sweep: a work that meets a failure at each allocation it makes ---- */

struct alloc_work {
    void (*begin)(void *arg);                   /* all as it was before; may be NULL */
    int (*run)(void *arg, struct pl_err *err);  /* the product's work */
    void (*check)(void *arg, const char *what); /* it has succeeded: is the result right? */
    uint64_t stride;                            /* 0 = 1 */
};

/* A failure is PL_ENOMEM with a message; the next try, without one, succeeds; the result is right. The allocations of the work. */
static __attribute__((unused)) uint64_t alloc_sweep_as(const struct alloc_work *w, void *arg, bool lasting)
{
    uint64_t stride = w->stride ? w->stride : 1;
    bool reached = true;

    for (uint64_t n = 1; reached; n += stride) {
        struct pl_err err = {0};
        char what[64];
        int r;

        snprintf(what, sizeof what, "%s from allocation %llu on", lasting ? "no memory" : "a failure", (unsigned long long)n);
        if (w->begin)
            w->begin(arg);
        alloc_fail_nth(n, lasting);
        alloc_spared = false;
        r = w->run(arg, &err);
        alloc_spared = true;
        reached = alloc_fail_end();
        if (r < 0 && (!reached || r != PL_ENOMEM || !*err.msg))
            fail_msg("%s: %d: %s", what, r, err.msg);
        if (r < 0)
            r = w->run(arg, &err);
        if (r < 0)
            fail_msg("%s: the next try: %d: %s", what, r, err.msg);
        w->check(arg, what);
    }
    return alloc_faults.calls;
}

static __attribute__((unused)) void alloc_sweep(const struct alloc_work *w, void *arg)
{
    struct pl_err err = {0};

    if (w->begin)
        w->begin(arg);
    if (w->run(arg, &err) < 0) /* what libraries make once and keep is made now */
        fail_msg("%s", err.msg);
    w->check(arg, "plenty of memory");
    alloc_sweep_as(w, arg, false);
    if (alloc_sweep_as(w, arg, true) < 10)
        fail_msg("it hardly allocates");
}
