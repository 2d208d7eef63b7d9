/* pack_putter: one thread that puts full packs, one at a time, so that those who fill them go on filling the next. It is started
 * by the first pack: a session that writes little has none.
 *
 *   idle ──offer──▶ busy ──put() returned──▶ idle */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct pl_pack_writer;

struct pl_pack_uploader {
    /* Puts the pack and frees it, or keeps it for later. The putter's thread. */
    void (*put)(void *self, struct pl_pack_writer *w);
    void *self;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct pl_pack_writer *pack; /* NULL: idle */
    bool started, ending;
    pthread_t thread;
};

void pl_pack_uploader_init(struct pl_pack_uploader *p, void (*put)(void *self, struct pl_pack_writer *w), void *self);
/* Waits for the pack that is being put. */
void pl_pack_uploader_finish(struct pl_pack_uploader *p);
/* True: taken. False: busy (or without a thread): the caller puts it itself. Any thread. */
bool pl_pack_uploader_submit(struct pl_pack_uploader *p, struct pl_pack_writer *w);
/* Returns when it is idle. Any thread. */
void pl_pack_uploader_wait(struct pl_pack_uploader *p);
