/* One uv_async wakes the loop for posted functions. The time of each callback is measured, and a uv_prepare
 * adds the times up before each poll. */
#include "pipelined/net/loop/loop.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <uv.h>

struct loop_signal {
    uv_signal_t uv;
    struct pl_loop *loop;
    const char *label;
    pl_loop_fn fn;
    void *arg;
    struct loop_signal *next;
};

struct pl_timer {
    uv_timer_t uv;
    struct pl_loop *loop;
    const char *label;
    pl_loop_fn fn;
    void *arg;
    struct pl_timer *prev, *next; /* list of the loop's timers, so that destroy can close them */
};

struct pl_child {
    uv_process_t uv;
    struct pl_loop *loop;
    const char *label;
    pl_child_exit_fn on_exit;
    void *arg;
    bool own_session;
    bool ended;
};

struct pl_loop {
    uv_loop_t uv;
    uv_async_t async;
    uv_prepare_t prepare;
    pthread_t thread; /* valid only while `running` is true */
    atomic_bool running;
    struct loop_signal *signals;
    struct pl_timer *timers;

    pthread_mutex_t lock; /* guards the fields up to the empty line */
    struct pl_loop_work *first, **last;
    size_t posted, posted_most; /* number of functions posted with pl_loop_post that have not run yet */
    bool stop_asked;
    struct pl_loop_stats stats;

    uint64_t turn_ns; /* time spent in callbacks since the last poll */
    uint64_t worst_ns;
    const char *worst;
};

/* --- time: every callback is measured; the callbacks between two polls are one turn --- */

static void loop_charge(struct pl_loop *l, const char *label, uint64_t begun_ns)
{
    uint64_t ns = uv_hrtime() - begun_ns;

    l->turn_ns += ns;
    if (ns > l->worst_ns) {
        l->worst_ns = ns;
        l->worst = label;
    }
}

static void loop_count_turn(struct pl_loop *l, uint64_t us)
{
    size_t i = 0;

    while (i + 1 < PL_ARRAY_SIZE(l->stats.turn_le) && us > (uint64_t)64 << i)
        i++;
    pthread_mutex_lock(&l->lock);
    l->stats.turns++;
    l->stats.turn_le[i]++;
    l->stats.longest_us = PL_MAX(l->stats.longest_us, us);
    l->stats.slow_turns += us > PL_LOOP_SLOW_MS * 1000;
    pthread_mutex_unlock(&l->lock);
}

/* Ends a turn and records its length; runs before each poll. */
static void on_prepare(uv_prepare_t *p)
{
    struct pl_loop *l = p->data;

    if (l->turn_ns == 0)
        return;
    loop_count_turn(l, l->turn_ns / 1000);
    if (l->turn_ns > PL_LOOP_SLOW_MS * UINT64_C(1000000))
        pl_log_warn("loop", "a turn of the event loop took %llu ms, %llu of them in %s",
                    (unsigned long long)(l->turn_ns / 1000000), (unsigned long long)(l->worst_ns / 1000000), l->worst);
    l->turn_ns = l->worst_ns = 0;
    l->worst = "";
}

/* --- posting --- */

/* Runs all functions that have been posted up to now, in order. */
static void loop_run_posted(struct pl_loop *l)
{
    struct pl_loop_work *w;

    pthread_mutex_lock(&l->lock);
    w = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->lock);

    while (w) {
        struct pl_loop_work *next, copy;
        uint64_t begun = uv_hrtime();

        pthread_mutex_lock(&l->lock);
        next = w->next;
        copy = *w;
        w->queued = false; /* from here on, the owner of this work may post it again or free it */
        l->posted -= copy.owned;
        pthread_mutex_unlock(&l->lock);
        if (copy.owned)
            free(w);
        copy.fn(copy.arg);
        loop_charge(l, copy.label, begun);
        w = next;
    }
}

static void on_async(uv_async_t *a)
{
    struct pl_loop *l = a->data;
    bool stop;

    pthread_mutex_lock(&l->lock);
    /* read the flag before running the functions: then all functions posted before the stop are run */
    stop = l->stop_asked;
    pthread_mutex_unlock(&l->lock);
    loop_run_posted(l);
    if (stop)
        uv_stop(&l->uv);
}

static void loop_queue(struct pl_loop *l, struct pl_loop_work *w)
{
    w->next = NULL;
    w->queued = true;
    *l->last = w;
    l->last = &w->next;
}

void pl_loop_post_work(struct pl_loop *l, struct pl_loop_work *work, const char *label, pl_loop_fn fn, void *arg)
{
    bool first;

    pthread_mutex_lock(&l->lock);
    first = !l->first;
    if (!work->queued) {
        work->label = label;
        work->fn = fn;
        work->arg = arg;
        work->owned = false;
        loop_queue(l, work);
    }
    pthread_mutex_unlock(&l->lock);
    if (first)
        uv_async_send(&l->async);
}

int pl_loop_post(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err)
{
    struct pl_loop_work *w = calloc(1, sizeof(*w));
    bool first, full;

    if (!w)
        return pl_err_nomem(err);
    *w = (struct pl_loop_work){.label = label, .fn = fn, .arg = arg, .owned = true};
    pthread_mutex_lock(&l->lock);
    first = !l->first;
    full = l->posted >= PL_LOOP_POSTS_MAX;
    if (!full) {
        loop_queue(l, w);
        l->posted++;
        l->posted_most = PL_MAX(l->posted_most, l->posted);
    }
    pthread_mutex_unlock(&l->lock);
    if (full) {
        free(w);
        return pl_err_set(err, PL_EBUSY, "the event loop is full: %d calls wait; try again", PL_LOOP_POSTS_MAX);
    }
    if (first)
        uv_async_send(&l->async);
    return 0;
}

/* --- life --- */

int pl_loop_create(struct pl_loop **ret, struct pl_err *err)
{
    struct pl_loop *l = calloc(1, sizeof(*l));
    int r;

    if (!l)
        return pl_err_nomem(err);
    r = uv_loop_init(&l->uv);
    if (r < 0) {
        free(l);
        return pl_err_errno(err, -r, "cannot create the event loop");
    }
    r = uv_async_init(&l->uv, &l->async, on_async);
    if (r < 0) {
        uv_loop_close(&l->uv);
        free(l);
        return pl_err_errno(err, -r, "cannot create the wake-up handle of the event loop");
    }
    uv_prepare_init(&l->uv, &l->prepare);
    uv_prepare_start(&l->prepare, on_prepare);
    uv_unref((uv_handle_t *)&l->prepare);
    l->async.data = l;
    l->prepare.data = l;
    l->worst = "";
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    *ret = l;
    return 0;
}

void pl_loop_run(struct pl_loop *l)
{
    l->thread = pthread_self();
    atomic_store(&l->running, true);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    atomic_store(&l->running, false);
    pthread_mutex_lock(&l->lock);
    l->stop_asked = false;
    pthread_mutex_unlock(&l->lock);
}

void pl_loop_stop(struct pl_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop_asked = true;
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->async);
}

bool pl_loop_is_current(const struct pl_loop *l)
{
    return atomic_load(&l->running) && pthread_equal(l->thread, pthread_self());
}

struct uv_loop_s *pl_loop_uv(struct pl_loop *l)
{
    return &l->uv;
}

void pl_loop_get_stats(struct pl_loop *l, struct pl_loop_stats *ret)
{
    pthread_mutex_lock(&l->lock);
    *ret = l->stats;
    ret->posted = l->posted;
    ret->posted_most = l->posted_most;
    pthread_mutex_unlock(&l->lock);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void close_child(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (h->type == UV_PROCESS && !uv_is_closing(h))
        uv_close(h, on_closed);
}

static void refuse_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    pl_log_error("loop", "a handle of kind %s is still open when the loop ends", uv_handle_type_name(h->type));
}

struct pl_loop *pl_loop_destroy(struct pl_loop *l)
{
    if (!l)
        return NULL;
    while (l->first)
        loop_run_posted(l);
    while (l->signals) {
        struct loop_signal *s = l->signals;

        l->signals = s->next;
        uv_close((uv_handle_t *)&s->uv, on_closed);
    }
    while (l->timers)
        pl_timer_destroy(l->timers);
    uv_walk(&l->uv, close_child, NULL);
    uv_close((uv_handle_t *)&l->async, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_run(&l->uv, UV_RUN_NOWAIT); /* runs the callbacks of the handles that were closed above */
    while (uv_loop_close(&l->uv) == UV_EBUSY) {
        if (uv_run(&l->uv, UV_RUN_NOWAIT) == 0)
            continue;
        uv_walk(&l->uv, refuse_handle, NULL);
        abort();
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

/* --- timers --- */

static void on_timer(uv_timer_t *u)
{
    struct pl_timer *t = u->data;
    struct pl_loop *l = t->loop; /* copy loop and label now, because the callback may free the timer */
    const char *label = t->label;
    uint64_t begun = uv_hrtime();

    t->fn(t->arg);
    loop_charge(l, label, begun);
}

int pl_timer_create(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_timer **ret, struct pl_err *err)
{
    struct pl_timer *t = calloc(1, sizeof(*t));

    if (!t)
        return pl_err_nomem(err);
    uv_timer_init(&l->uv, &t->uv); /* never fails */
    t->uv.data = t;
    t->loop = l;
    t->label = label;
    t->fn = fn;
    t->arg = arg;
    t->next = l->timers;
    if (t->next)
        t->next->prev = t;
    l->timers = t;
    *ret = t;
    return 0;
}

void pl_timer_start(struct pl_timer *t, uint64_t delay_ms)
{
    /* without this update, libuv would count the delay from the start of the present turn */
    uv_update_time(&t->loop->uv);
    uv_timer_start(&t->uv, on_timer, delay_ms, 0);
}

void pl_timer_stop(struct pl_timer *t)
{
    uv_timer_stop(&t->uv);
}

bool pl_timer_active(const struct pl_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->uv);
}

struct pl_timer *pl_timer_destroy(struct pl_timer *t)
{
    if (!t)
        return NULL;
    if (t->prev)
        t->prev->next = t->next;
    else
        t->loop->timers = t->next;
    if (t->next)
        t->next->prev = t->prev;
    uv_close((uv_handle_t *)&t->uv, on_closed);
    return NULL;
}

/* --- signals --- */

static void on_signal(uv_signal_t *u, int signum)
{
    struct loop_signal *s = u->data;
    uint64_t begun = uv_hrtime();

    (void)signum;
    s->fn(s->arg);
    loop_charge(s->loop, s->label, begun);
}

int pl_loop_on_signal(struct pl_loop *l, int signum, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err)
{
    struct loop_signal *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return pl_err_nomem(err);
    *s = (struct loop_signal){.loop = l, .label = label, .fn = fn, .arg = arg};
    r = uv_signal_init(&l->uv, &s->uv);
    if (r < 0) {
        free(s);
        return pl_err_errno(err, -r, "cannot watch for signal %d", signum);
    }
    s->uv.data = s;
    r = uv_signal_start(&s->uv, on_signal, signum);
    if (r < 0) {
        uv_close((uv_handle_t *)&s->uv, on_closed);
        return pl_err_errno(err, -r, "cannot watch for signal %d", signum);
    }
    s->next = l->signals;
    l->signals = s;
    return 0;
}

/* --- child processes --- */

static void on_child_exit(uv_process_t *u, int64_t status, int signum)
{
    struct pl_child *c = u->data;
    uint64_t begun = uv_hrtime();

    c->ended = true;
    c->on_exit(c->arg, signum ? 0 : (int)status, signum);
    loop_charge(c->loop, c->label, begun);
    uv_close((uv_handle_t *)u, on_closed);
}

/* Sets the child's file descriptors. Opens /dev/null into `*null_fd` when it is first needed. */
static int child_stdio(const struct pl_child_options *o, uv_stdio_container_t *stdio, int *null_fd, struct pl_err *err)
{
    unsigned n = PL_MAX(o->n_fds, 3);

    for (unsigned i = 0; i < n; i++) {
        int fd = i < o->n_fds ? o->fds[i] : -1;

        if (fd < 0 && *null_fd < 0) {
            *null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (*null_fd < 0)
                return pl_err_errno(err, errno, "open /dev/null");
        }
        stdio[i].flags = UV_INHERIT_FD;
        stdio[i].data.fd = fd < 0 ? *null_fd : fd;
    }
    return 0;
}

int pl_child_spawn(struct pl_loop *l, const struct pl_child_options *o, pl_child_exit_fn on_exit, void *arg,
                   struct pl_child **ret, struct pl_err *err)
{
    uv_stdio_container_t stdio[PL_CHILD_FDS_MAX];
    _cleanup_close_ int null_fd = -1;
    uv_process_options_t u = {0};
    struct pl_child *c;
    int r;

    if (o->n_fds > PL_CHILD_FDS_MAX)
        return pl_err_set(err, PL_EINVAL, "%s: %u file descriptors for a child are too many: at most %d", o->label, o->n_fds,
                          PL_CHILD_FDS_MAX);
    r = child_stdio(o, stdio, &null_fd, err);
    if (r < 0)
        return r;
    c = calloc(1, sizeof(*c));
    if (!c)
        return pl_err_nomem(err);
    *c = (struct pl_child){.loop = l, .label = o->label, .on_exit = on_exit, .arg = arg, .own_session = o->own_session};
    c->uv.data = c;
    u.exit_cb = on_child_exit;
    u.file = o->argv[0];
    u.args = (char **)(uintptr_t)o->argv;
    u.env = (char **)(uintptr_t)o->env;
    u.cwd = o->cwd;
    u.flags = o->own_session ? UV_PROCESS_DETACHED : 0;
    u.stdio_count = (int)PL_MAX(o->n_fds, 3);
    u.stdio = stdio;
    r = uv_spawn(&l->uv, &c->uv, &u);
    if (r < 0) {
        /* libuv requires the handle to be closed even if the spawn failed */
        uv_close((uv_handle_t *)&c->uv, on_closed);
        return pl_err_errno(err, -r, "start %s", o->argv[0]);
    }
    *ret = c;
    return 0;
}

pid_t pl_child_pid(const struct pl_child *c)
{
    return c->uv.pid;
}

int pl_child_kill(struct pl_child *c, int signum, bool group, struct pl_err *err)
{
    pid_t pid = c->uv.pid;

    if (c->ended)
        return 0; /* the pid may belong to another process by now */
    if (kill(group && c->own_session ? -pid : pid, signum) < 0 && errno != ESRCH)
        return pl_err_errno(err, errno, "send signal %d to %s (%d)", signum, c->label, (int)pid);
    return 0;
}
