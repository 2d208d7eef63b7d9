/* ingest_walk: what lies in the sources, in the order of their paths in the repo, as batches for the readers. Internal to
 * storage/dataset.
 *
 * A folder is read and sorted as a whole when it is entered (folders as "name/", so that depth first is the order of the tree). Every
 * name is reached from its folder's descriptor without following a link, except the sources themselves and links that the policy
 * follows. One thread. */
#pragma once

#include "storage/dataset/file/shared_dir.h"
#include "storage/dataset/ingest/ingest.h"

#define PL_WALK_BATCH_ITEMS 128u
#define PL_WALK_BATCH_DIRS  16u /* open folders a batch may hold */

enum pl_walk_type { PL_WALK_FILE, PL_WALK_LINK, PL_WALK_EMPTY_DIR };

/* One thing found, and later what it became. */
struct pl_walk_item {
    const struct pl_ingest_source *source;
    struct pl_dir_ref *dir; /* where `name` is looked up; NULL: the process's working folder */
    uint32_t path;          /* offsets into the batch's texts, NUL-terminated */
    uint32_t path_len;
    uint32_t name; /* file: name in `dir`; link: its target */
    uint8_t type;  /* enum pl_walk_type */
    bool cached;   /* entry came from the stat cache */
    bool fresh;    /* entry was read: may be recorded under `key` */
    bool follow;   /* the name itself may be a link */
    struct pl_stat_key key;
    struct pl_entry entry;
};

struct pl_walk_batch {
    struct pl_walk_item items[PL_WALK_BATCH_ITEMS];
    uint32_t n;
    uint32_t dirs;
    struct pl_buf texts;
    int64_t read_ns; /* wall clock when its reading began */
    bool done;
};

static inline const char *pl_walk_path(const struct pl_walk_batch *b, const struct pl_walk_item *item)
{
    return (const char *)b->texts.data + item->path;
}
static inline const char *pl_walk_name(const struct pl_walk_batch *b, const struct pl_walk_item *item)
{
    return (const char *)b->texts.data + item->name;
}
/* Lets go of the folders; keeps the memory. */
void pl_walk_batch_clear(struct pl_walk_batch *b);
void pl_walk_batch_finish(struct pl_walk_batch *b);

struct pl_walk;

/* Sources and options are borrowed. */
PL_MUST_CHECK
int pl_walk_create(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                   struct pl_walk **ret, struct pl_err *err);
struct pl_walk *pl_walk_destroy(struct pl_walk *w);
static inline void pl_walk_destroyp(struct pl_walk **w)
{
    *w = pl_walk_destroy(*w);
}
/* Fills an empty batch: 1, or 0 when nothing is left. Within one source paths ascend. */
PL_MUST_CHECK
int pl_walk_next(struct pl_walk *w, struct pl_walk_batch *b, struct pl_err *err);

/* The item's path on this machine, for a message: bytes that are not printable UTF-8 as \xNN, cut at the size. Returns `out`. */
#define PL_WALK_QUOTE_BYTES 640
char *pl_walk_local(const struct pl_walk_batch *b, const struct pl_walk_item *item, char out[PL_WALK_QUOTE_BYTES]);
/* "socket", "FIFO", …: what a mode is that cannot be stored. */
const char *pl_walk_mode_name(mode_t mode);
