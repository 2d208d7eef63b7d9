/* worker_image: gets the images of workers of this machine, by the agent's option --get-image in a process of its
 * own: a fetch may take minutes. Workers that want the same image at the same time share one process.
 *
 *   wanted ──▶ process runs ──▶ result, kept for PL_WORKER_IMAGE_KEEP_MS ──▶ forgotten
 *                  │ nobody waits any more
 *                  └──▶ killed
 *
 * Loop thread. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/spec/spec.h"
#include "storage/base/err.h"

/* how long a result stands: workers of one job start one after another */
#define PL_WORKER_IMAGE_KEEP_MS 10000

struct pl_worker_images;

/* A worker that waits for its image, in the caller's memory. */
struct pl_worker_image_wait {
    /* Called once, never within pl_worker_images_get. `image`: the image for the agent's option --image; NULL: there is
     * none, and `why` says why; `hopeless`: another try will fail in the same way. */
    void (*done)(void *self, const char *image, const char *why, bool hopeless);
    void *self;
    struct pl_worker_image_wait *next; /* private */
};

/* `program`: path of pipelined-worker; `podman`: podman's name or path, "" = images are not used; `locks`: a folder, so that
 * processes for several stages fetch an image once. All are borrowed. */
PL_MUST_CHECK
int pl_worker_images_create(struct pl_loop *loop, const char *program, const char *podman, const char *locks,
                            struct pl_worker_images **ret, struct pl_err *err);
/* Kills what runs. No `done` is called any more. */
struct pl_worker_images *pl_worker_images_destroy(struct pl_worker_images *m);
/* True if podman is there or was there once: if it goes, workers fail to start, and no command runs with this machine's
 * files unawares. */
bool pl_worker_images_can(struct pl_worker_images *m);
/* True if images are switched off. */
bool pl_worker_images_off(const struct pl_worker_images *m);
PL_MUST_CHECK
int pl_worker_images_get(struct pl_worker_images *m, const struct pl_stage *def, struct pl_worker_image_wait *w,
                         struct pl_err *err);
/* Takes a waiting worker back: its `done` is not called. */
void pl_worker_images_leave(struct pl_worker_images *m, struct pl_worker_image_wait *w);
