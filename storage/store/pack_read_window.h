/* pack_read_window: keeps ranges of remote packs in memory for records that lie close together, such as the
 * files of one folder. A window that does not continue an earlier window is small. A window that continues
 * one is twice as large as it, up to PL_PACK_READ_WINDOW_BYTES. Any thread. While one thread fetches a
 * window, other threads that need the same bytes wait for it. */
#pragma once

#include "storage/base/buf.h"
#include "storage/store/index.h"

#define PL_PACK_READ_WINDOW_LEAST ((uint64_t)256 << 10)
#define PL_PACK_READ_WINDOW_BYTES ((uint64_t)8 << 20) /* largest range of one read */
#define PL_PACK_WINDOWS           4                   /* windows kept: 32 MiB */

struct pl_pack_read_windows;

/* Reads the bytes start..end of a pack into `ret`, which is empty and bounded to that size; fewer bytes if
 * the pack ends before `end`. PL_ENOTFOUND: the pack does not exist. */
typedef int (*pl_pack_read_window_fetch)(void *self, const struct pl_hash *pack, uint64_t start, uint64_t end, struct pl_buf *ret,
                                         struct pl_err *err);

/* Creates a set of windows. NULL without memory. */
struct pl_pack_read_windows *pl_pack_windows_create(pl_pack_read_window_fetch fetch, void *self);
struct pl_pack_read_windows *pl_pack_windows_destroy(struct pl_pack_read_windows *w);
/* Reads the verified bytes of a record, replacing the content of `ret`. `*ret_new_spot` (may be NULL) is set
 * if the read fetched a window that does not continue an existing one. PL_ECORRUPT; errors of `fetch`. */
PL_MUST_CHECK
int pl_pack_windows_read(struct pl_pack_read_windows *w, const struct pl_hash *id, const struct pl_location *where,
                         struct pl_buf *ret, bool *ret_new_spot, struct pl_err *err);
