/* worker_image: one entry for each request, which is the JSON text that the process gets. */
#include "pipelined/exec/local/worker_image.h"

#include "pipelined/sandbox_view/image.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/map.h"
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define OUTPUT_MAX (1u << 20)

struct fetch {
    struct pl_worker_images *images;
    char *request;
    struct pl_child *child; /* NULL: it has ended */
    int output;             /* what the process prints, in memory */
    struct pl_worker_image_wait *waiting;
    char *text; /* the result: the image, or why there is none */
    bool failed, hopeless;
    bool killed; /* the process was killed, because nobody waited any more */
    bool posted; /* `tell` will be called */
    int64_t ended_ms;
    struct pl_loop_work tell;
};

struct pl_worker_images {
    struct pl_loop *loop;
    const char *program, *podman, *locks;
    bool found;            /* podman was there */
    struct pl_map fetches; /* map: request → struct fetch */
};

int pl_worker_images_create(struct pl_loop *loop, const char *program, const char *podman, const char *locks,
                            struct pl_worker_images **ret, struct pl_err *err)
{
    struct pl_worker_images *m = calloc(1, sizeof *m);

    if (!m)
        return pl_err_nomem(err);
    *m = (struct pl_worker_images){.loop = loop, .program = program, .podman = podman, .locks = locks};
    *ret = m;
    return 0;
}

static void fetch_free(struct fetch *f)
{
    pl_closep(&f->output);
    free(f->request);
    free(f->text);
    free(f);
}

struct pl_worker_images *pl_worker_images_destroy(struct pl_worker_images *m)
{
    const struct pl_map_slot *slot;

    if (!m)
        return NULL;
    for (size_t i = 0; (slot = pl_map_next(&m->fetches, &i));) {
        struct fetch *f = slot->value;

        if (f->child)
            (void)pl_child_kill(f->child, SIGTERM, true, NULL);
        fetch_free(f);
    }
    pl_map_finish(&m->fetches, NULL);
    free(m);
    return NULL;
}

bool pl_worker_images_can(struct pl_worker_images *m)
{
    m->found = m->found || pl_image_has_podman(m->podman);
    return m->found;
}

bool pl_worker_images_off(const struct pl_worker_images *m)
{
    return !*m->podman;
}

/* Tells all workers that wait the result. */
static void tell(void *arg)
{
    struct fetch *f = arg;
    const char *text = f->text ? f->text : "out of memory";

    assert(f->text || f->failed);
    f->posted = false;
    while (f->waiting) {
        struct pl_worker_image_wait *w = f->waiting;

        f->waiting = w->next;
        w->done(w->self, f->failed ? NULL : text, text, f->hopeless);
    }
}

/* Reads what the process printed. */
static char *read_output(int fd)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    char *text = size >= 0 && size <= OUTPUT_MAX ? calloc(1, (size_t)size + 1) : NULL;

    if (!text || pread(fd, text, (size_t)size, 0) != size) {
        free(text);
        return NULL;
    }
    while (*text && text[strlen(text) - 1] == '\n')
        text[strlen(text) - 1] = '\0';
    return text;
}

static int begin(struct pl_worker_images *m, struct fetch *f, struct pl_err *err);

static void on_ended(void *arg, int status, int signum)
{
    struct fetch *f = arg;
    struct pl_err err = {0};

    f->child = NULL;
    f->failed = status != 0 || signum != 0;
    f->hopeless = status == PL_IMAGE_EXIT_HOPELESS;
    f->ended_ms = pl_clock_mono_ms();
    f->text = read_output(f->output);
    f->output = (close(f->output), -1);
    if (f->killed && f->waiting) { /* a worker came after the last one had left */
        f->killed = false;
        free(TAKE_PTR(f->text));
        if (begin(f->images, f, &err) == 0)
            return;
        f->text = strdup(err.msg);
    }
    if (!f->text || !*f->text) {
        free(f->text);
        f->failed = true;
        f->text = strdup(signum ? "the process that gets the image was killed" : "the process that gets the image said nothing");
    }
    tell(f);
}

static int begin(struct pl_worker_images *m, struct fetch *f, struct pl_err *err)
{
    const char *const argv[] = {m->program, "--get-image", f->request, NULL};
    struct pl_child_options o = {.label = "image.exit", .argv = argv, .n_fds = 3, .own_session = true};

    f->output = memfd_create("image", MFD_CLOEXEC);
    if (f->output < 0)
        return pl_err_errno(err, errno, "memfd_create");
    o.fds[0] = -1;
    o.fds[1] = o.fds[2] = f->output;
    return pl_child_spawn(m->loop, &o, on_ended, f, &f->child, err);
}

/* Forgets results that are too old. */
static void trim(struct pl_worker_images *m)
{
    const int64_t now_ms = pl_clock_mono_ms();
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&m->fetches, &i));) {
        struct fetch *f = slot->value;

        if (f->child || f->posted || now_ms - f->ended_ms < PL_WORKER_IMAGE_KEEP_MS)
            continue;
        pl_map_remove(&m->fetches, f->request, strlen(f->request));
        fetch_free(f);
    }
}

int pl_worker_images_get(struct pl_worker_images *m, const struct pl_stage *def, struct pl_worker_image_wait *w,
                         struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *doc = pl_image_request(m->podman, m->locks, def);
    _cleanup_free_ char *request = doc ? pl_json_text(doc, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    struct fetch *f;
    int r;

    if (!request)
        return pl_err_nomem(err);
    trim(m);
    f = pl_map_get(&m->fetches, request, strlen(request));
    if (f && !f->child && f->failed) { /* the next try is one */
        pl_map_remove(&m->fetches, request, strlen(request));
        fetch_free(TAKE_PTR(f));
    }
    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f)
            return pl_err_nomem(err);
        *f = (struct fetch){.images = m, .request = TAKE_PTR(request), .output = -1};
        r = pl_map_put(&m->fetches, f->request, strlen(f->request), f, NULL, err);
        if (r == 0) {
            r = begin(m, f, err);
            if (r < 0)
                pl_map_remove(&m->fetches, f->request, strlen(f->request));
        }
        if (r < 0) {
            fetch_free(f);
            return pl_err_wrap(err, r, "image %.300s", def->image);
        }
    }
    w->next = f->waiting;
    f->waiting = w;
    f->posted = !f->child;
    if (f->posted)
        pl_loop_post_work(m->loop, &f->tell, "image.tell", tell, f);
    return 0;
}

void pl_worker_images_leave(struct pl_worker_images *m, struct pl_worker_image_wait *w)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&m->fetches, &i));) {
        struct fetch *f = slot->value;

        for (struct pl_worker_image_wait **at = &f->waiting; *at; at = &(*at)->next)
            if (*at == w) {
                *at = w->next;
                if (!f->waiting && f->child) {
                    f->killed = true;
                    (void)pl_child_kill(f->child, SIGTERM, true, NULL); /* podman removes what it has of the image */
                }
                return;
            }
    }
}
