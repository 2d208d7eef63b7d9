/* ingest_walk: lists the contents of the sources, in order of their paths in the repo, as batches for the
 * readers. Used only in this room.
 *
 * A folder is read and sorted as a whole when it is entered. Folders are sorted as "name/", so that a
 * depth-first walk gives the order of the tree. Every name is opened relative to its folder's descriptor,
 * without following links, except the sources themselves and links that the options say to follow.
 * Single-threaded. */
#pragma once

#include "storage/dataset/file/shared_dir.h"
#include "storage/dataset/ingest/ingest.h"

#define PL_WALK_BATCH_ITEMS 128u
#define PL_WALK_BATCH_DIRS  16u /* open folders per batch */

enum pl_walk_type { PL_WALK_FILE, PL_WALK_LINK, PL_WALK_EMPTY_DIR };

/* A file, link or empty folder that the walk found. A reader later fills in its entry. */
struct pl_walk_item {
    const struct pl_ingest_source *source;
    struct pl_dir_ref *dir; /* folder of `name`; NULL = the process's working folder */
    uint32_t path;          /* offset in the batch's texts, NUL-terminated */
    uint32_t path_len;
    uint32_t name; /* offset in the batch's texts: a file's name in `dir`; a link's target */
    uint8_t type;  /* enum pl_walk_type */
    bool cached;   /* the entry came from the stat cache */
    bool fresh;    /* the file was read, and the entry may be stored in the stat cache under `key` */
    bool follow;   /* if `name` is a link, follow it */
    struct pl_stat_key key;
    struct pl_entry entry;
};

struct pl_walk_batch {
    struct pl_walk_item items[PL_WALK_BATCH_ITEMS];
    uint32_t n;
    uint32_t dirs;
    struct pl_buf texts;
    int64_t read_ns; /* wall clock when the reading of the batch began, in ns */
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
/* Releases the folders; keeps the memory. */
void pl_walk_batch_clear(struct pl_walk_batch *b);
void pl_walk_batch_finish(struct pl_walk_batch *b);

struct pl_walk;

/* Creates a walk. Sources and options are borrowed. */
PL_MUST_CHECK
int pl_walk_create(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                   struct pl_walk **ret, struct pl_err *err);
struct pl_walk *pl_walk_destroy(struct pl_walk *w);
static inline void pl_walk_destroyp(struct pl_walk **w)
{
    *w = pl_walk_destroy(*w);
}
/* Fills an empty batch and returns 1, or 0 at the end. Paths ascend within each source. */
PL_MUST_CHECK
int pl_walk_next(struct pl_walk *w, struct pl_walk_batch *b, struct pl_err *err);

/* Writes the item's local path for a message: bytes that are not printable UTF-8 as \xNN, cut to the size.
 * Returns `out`. */
#define PL_WALK_QUOTE_BYTES 640
char *pl_walk_local(const struct pl_walk_batch *b, const struct pl_walk_item *item, char out[PL_WALK_QUOTE_BYTES]);
/* Returns a name for a file type that cannot be stored: "a socket", "a FIFO", … */
const char *pl_walk_mode_name(mode_t mode);
