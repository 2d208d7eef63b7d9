/* shared_dir: an open folder with a reference count, shared by a walker and several reader or writer
 * threads; the last reference closes it. Used by the rooms of storage/dataset. */
#pragma once

#include "storage/base/err.h"
#include <stdatomic.h>

struct pl_dir_ref {
    int fd;
    atomic_uint refs;
};

/* Makes the first reference to an open folder; it owns the descriptor `fd`. Without memory it closes `fd` and
 * returns NULL. */
static inline struct pl_dir_ref *pl_dir_ref_create(int fd)
{
    struct pl_dir_ref *d = malloc(sizeof(*d));

    if (d == NULL) {
        close(fd);
        return NULL;
    }
    d->fd = fd;
    atomic_init(&d->refs, 1);
    return d;
}

static inline struct pl_dir_ref *pl_dir_ref_ref(struct pl_dir_ref *d)
{
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

static inline struct pl_dir_ref *pl_dir_ref_unref(struct pl_dir_ref *d)
{
    if (d != NULL && atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) == 1) {
        close(d->fd);
        free(d);
    }
    return NULL;
}
