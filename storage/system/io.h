/* io: whole reads and writes with errors that name the file, and the one place where tests make the disk fail. */
#pragma once

#include "storage/base/buf.h"
#include <sys/stat.h>
#include <sys/uio.h>

/* Writes all of it. PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_io_write(int fd, const void *data, size_t n, const char *what, struct pl_err *err);
PL_MUST_CHECK
int pl_io_pwrite(int fd, const void *data, size_t n, uint64_t offset, const char *what, struct pl_err *err);
/* Writes a new file, from its begin, while the disk takes what was written before: at most twice PL_IO_BEHIND_BYTES wait for it. Who else
 * syncs a file on that disk, a log say, may have to wait for what others have under way there. Not synced at the end. */
#define PL_IO_BEHIND_BYTES ((size_t)2 << 20)
PL_MUST_CHECK
int pl_io_write_behind(int fd, const struct iovec *iov, int n, const char *what, struct pl_err *err);
/* The same for who writes such a file piece by piece: it had `before` bytes, and has `now`. */
PL_MUST_CHECK
int pl_io_behind(int fd, uint64_t before, uint64_t now, const char *what, struct pl_err *err);
/* Reads up to `n` bytes until the end of file; returns the count. */
PL_MUST_CHECK
ssize_t pl_io_read(int fd, void *out, size_t n, const char *what, struct pl_err *err);
/* Exactly `n` bytes at `offset`, else PL_ECORRUPT ("ends early"). */
PL_MUST_CHECK
int pl_io_pread(int fd, void *out, size_t n, uint64_t offset, const char *what, struct pl_err *err);
PL_MUST_CHECK
int pl_io_fdatasync(int fd, const char *what, struct pl_err *err);
PL_MUST_CHECK
int pl_io_fsync_dir(const char *dir, struct pl_err *err);
/* All of the filesystem that `dir` is on: also names and bytes that other processes left there without a sync. */
PL_MUST_CHECK
int pl_io_syncfs(const char *dir, struct pl_err *err);
/* renameat2(RENAME_NOREPLACE): PL_EEXISTS when `to` is there. Falls back to link+unlink where the filesystem has no such flag. */
PL_MUST_CHECK
int pl_io_rename_noreplace(const char *from, const char *to, struct pl_err *err);
PL_MUST_CHECK
int pl_io_rename(const char *from, const char *to, struct pl_err *err);
/* A whole file, at most `out->max` bytes. PL_ENOTFOUND, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_io_read_file(const char *path, struct pl_buf *out, struct pl_err *err);
/* Writes `path` by temp name, fdatasync, rename, directory fsync. `mode` e.g. 0600. */
PL_MUST_CHECK
int pl_io_write_file(const char *path, const void *data, size_t n, mode_t mode, struct pl_err *err);
/* Opens `path` below the folder `root_fd` without following a link anywhere in it, the last name included: for folders that another process may
 * change at any moment. `path` is relative and has no ".." ("." is the folder itself). `flags` as for open(2); close-on-exec and non-blocking are
 * added, so that a FIFO put there does not hold up the caller, who looks by fstat what was opened. Returns a descriptor, or -1 with errno (ELOOP or
 * ENOTDIR: a link is in the way). */
PL_MUST_CHECK
int pl_io_open_beneath(int root_fd, const char *path, int flags);
/* Gives its owner all rights over the folder that `path_fd` (O_PATH) holds, whatever has its name now, and opens it for reading: -1 with errno. */
PL_MUST_CHECK
int pl_io_open_up(int path_fd);
/* mkdir -p. Existing is fine. */
PL_MUST_CHECK
int pl_io_mkdirs(const char *path, mode_t mode, struct pl_err *err);
/* Removes a tree without following links; absent is fine. Makes folders writable on the way when they are not. */
PL_MUST_CHECK
int pl_io_remove_tree(const char *path, struct pl_err *err);

/* Fault injection (tests only; also by the environment PL_FAULT="write=17,fsync=3,rename=2,errno=28"): the nth call from now fails
 * once with `errnum`; with one of the two below the process ends there, as by kill -9, before the call or after it was done. 0
 * switches off. Thread-safe. */
#define PL_IO_EXIT_BEFORE (-1)
#define PL_IO_EXIT_AFTER  (-2)
#define PL_IO_EXIT_STATUS 137
enum pl_io_call { PL_IO_WRITE, PL_IO_FSYNC, PL_IO_RENAME, PL_IO_CALLS };
void pl_io_fail_nth(enum pl_io_call call, uint64_t nth, int errnum);
/* After fail_nth: all calls after that one fail too, as on a disk that is full; until it is switched off. */
void pl_io_fail_on(enum pl_io_call call, bool lasting);
/* Calls made so far, so that a test can sweep over all of them. */
uint64_t pl_io_calls(enum pl_io_call call);
