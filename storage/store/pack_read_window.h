/* pack_window: ranges of packs that lie elsewhere, kept for the records that lie next to each other, as the files of a folder do. A window
 * begins small and doubles as long as reading goes on behind the last one: up to PL_PACK_READ_WINDOW_BYTES. Any thread; while one thread fetches
 * a window, others that need it wait for it. */
#pragma once

#include "storage/base/buf.h"
#include "storage/store/index.h"

#define PL_PACK_READ_WINDOW_LEAST ((uint64_t)256 << 10)
#define PL_PACK_READ_WINDOW_BYTES ((uint64_t)8 << 20) /* of one ranged read */
#define PL_PACK_WINDOWS           4                   /* kept: 32 MiB */

struct pl_pack_read_windows;

/* The bytes start..end of a pack into `ret`, which is empty and takes no more; fewer when the pack ends before. PL_ENOTFOUND: there is no
 * such pack. */
typedef int (*pl_pack_read_window_fetch)(void *self, const struct pl_hash *pack, uint64_t start, uint64_t end, struct pl_buf *ret,
                                         struct pl_err *err);

/* NULL without memory. */
struct pl_pack_read_windows *pl_pack_windows_create(pl_pack_read_window_fetch fetch, void *self);
struct pl_pack_read_windows *pl_pack_windows_destroy(struct pl_pack_read_windows *w);
/* The record's verified bytes, replacing what `ret` held. `*ret_new_spot` (may be NULL): a window was fetched that does not go on behind
 * another. PL_ECORRUPT; errors of `fetch`. */
PL_MUST_CHECK
int pl_pack_windows_read(struct pl_pack_read_windows *w, const struct pl_hash *id, const struct pl_location *where,
                         struct pl_buf *ret, bool *ret_new_spot, struct pl_err *err);
