/* pack_uploader: a thread that puts full packs into the sink, one at a time, so that the threads that fill
 * packs need not wait for the upload. The first pack starts the thread; a builder that fills no pack has no
 * thread.
 *
 *   idle ──submit──▶ busy ──put() returned──▶ idle */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct pl_pack_writer;

struct pl_pack_uploader {
    /* Puts the pack and takes ownership of the writer. Called on the upload thread. */
    void (*put)(void *self, struct pl_pack_writer *w);
    void *self;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct pl_pack_writer *pack; /* the pack being put; NULL = idle */
    bool started, ending;
    pthread_t thread;
};

void pl_pack_uploader_init(struct pl_pack_uploader *p, void (*put)(void *self, struct pl_pack_writer *w), void *self);
/* Waits until the pack in progress was put, and ends the thread. */
void pl_pack_uploader_finish(struct pl_pack_uploader *p);
/* Hands over a pack and returns true. False: the thread is busy or could not be started, and the caller
 * must put the pack itself. Any thread. */
bool pl_pack_uploader_submit(struct pl_pack_uploader *p, struct pl_pack_writer *w);
/* Waits until no pack is being put. Any thread. */
void pl_pack_uploader_wait(struct pl_pack_uploader *p);
