/* remote_window: ranges of packs read over HTTP and kept for the records that lie next to each other, as the files of a folder do. A
 * window begins small and doubles as long as reading goes on behind the last one: up to PL_REMOTE_WINDOW_BYTES. Any thread; while one
 * thread fetches a window, others that need it wait for it. */
#pragma once

#include "http_client.h"
#include "remote.h"
#include "storage/pack/index.h"

struct remote_windows;

/* `project` and `client` outlive it. NULL without memory. */
struct remote_windows *pl_remote_windows_create(struct pl_http_client *client, const char *project);
struct remote_windows *pl_remote_windows_destroy(struct remote_windows *w);
/* The record's verified bytes. PL_ECORRUPT, PL_ENOTFOUND (no such pack), the client's errors. */
PL_MUST_CHECK
int pl_remote_windows_read(struct remote_windows *w, const struct pl_hash *id, const struct pl_location *where,
                           struct pl_buf *ret, struct pl_err *err);
