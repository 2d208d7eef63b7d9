/* io: functions that read and write files completely, with errors that name the file. All disk writes of the
 * program go through it, so tests can make them fail here. In all functions `what` is the file's name for
 * messages. Any thread. */
#pragma once

#include "storage/base/buf.h"
#include <sys/stat.h>
#include <sys/uio.h>

/* Write all `n` bytes, at the file's position or at `offset`. PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_io_write(int fd, const void *data, size_t n, const char *what, struct pl_err *err);
PL_MUST_CHECK
int pl_io_pwrite(int fd, const void *data, size_t n, uint64_t offset, const char *what, struct pl_err *err);
/* Writes a new file from its beginning and starts writeback of earlier pieces on the way, so that at most
 * twice PL_IO_BEHIND_BYTES are not yet on the disk: a sync of another file on the same disk, such as a log,
 * may have to wait for all such data. The file is not synced at the end. PL_EIO, PL_ENOSPC. */
#define PL_IO_BEHIND_BYTES ((size_t)2 << 20)
PL_MUST_CHECK
int pl_io_write_behind(int fd, const struct iovec *iov, int n, const char *what, struct pl_err *err);
/* Starts writeback in the same way for a caller that writes a new file in pieces. Call it after each write;
 * the write made the file grow from `before` to `now` bytes. */
PL_MUST_CHECK
int pl_io_behind(int fd, uint64_t before, uint64_t now, const char *what, struct pl_err *err);
/* Reads up to `n` bytes, fewer only at the end of the file; returns their number. PL_EIO. */
PL_MUST_CHECK
ssize_t pl_io_read(int fd, void *out, size_t n, const char *what, struct pl_err *err);
/* Reads exactly `n` bytes at `offset`. PL_ECORRUPT if the file ends before the last of these bytes;
 * PL_EIO. */
PL_MUST_CHECK
int pl_io_pread(int fd, void *out, size_t n, uint64_t offset, const char *what, struct pl_err *err);
PL_MUST_CHECK
/* Make a file (fdatasync) or a folder (fsync) durable. A background thread may first wait for other syncs,
 * see sync_priority.h. PL_EIO, PL_ENOSPC. */
int pl_io_fdatasync(int fd, const char *what, struct pl_err *err);
PL_MUST_CHECK
int pl_io_fsync_dir(const char *dir, struct pl_err *err);
/* Syncs the whole filesystem that contains `dir`, including names and data that other processes have not
 * synced. */
PL_MUST_CHECK
int pl_io_syncfs(const char *dir, struct pl_err *err);
/* Renames and never replaces: PL_EEXISTS if `to` exists. Uses renameat2(RENAME_NOREPLACE), or link and unlink
 * if the filesystem does not support it. */
PL_MUST_CHECK
int pl_io_rename_noreplace(const char *from, const char *to, struct pl_err *err);
PL_MUST_CHECK
/* Renames, and replaces `to` if it exists. PL_EIO, PL_ENOTFOUND. */
int pl_io_rename(const char *from, const char *to, struct pl_err *err);
/* Replaces the content of `out` by a whole file of at most `out->max` bytes. PL_ENOTFOUND, PL_ETOOBIG,
 * PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_io_read_file(const char *path, struct pl_buf *out, struct pl_err *err);
/* Writes the file `path` durably and atomically: temporary file, fdatasync, rename, fsync of the folder.
 * `mode` is e.g. 0600. The temporary file is removed on failure. */
PL_MUST_CHECK
int pl_io_write_file(const char *path, const void *data, size_t n, mode_t mode, struct pl_err *err);
/* Opens `path` below the folder `root_fd` without following a symbolic link at any place of the path, for
 * folders that another process may change at any time. `path` is relative and has no ".." ("." is the folder
 * itself). `flags` as for open(2); O_CLOEXEC and O_NONBLOCK are added, so that a FIFO at that place does not
 * block the caller, which must check with fstat what it opened. Returns a descriptor, or -1 with errno (ELOOP
 * or ENOTDIR: a link is in the path). */
PL_MUST_CHECK
int pl_io_open_beneath(int root_fd, const char *path, int flags);
/* Gives the owner all rights on the folder of `path_fd` (O_PATH), even if the folder was renamed meanwhile,
 * and opens it for reading. Returns a descriptor, or -1 with errno. */
PL_MUST_CHECK
int pl_io_open_up(int path_fd);
/* Makes the folder and those above it, like mkdir -p. Returns 0 if it exists. */
PL_MUST_CHECK
int pl_io_mkdirs(const char *path, mode_t mode, struct pl_err *err);
/* Removes a file, or a folder with its content, without following links. Returns 0 if it does not exist.
 * Makes folders writable where necessary. PL_EIO (with EBUSY) if a running process keeps adding files to the
 * folder. */
PL_MUST_CHECK
int pl_io_remove_tree(const char *path, struct pl_err *err);
/* Like pl_io_remove_tree, but for a name in the open folder `at`; the path of `at` is not looked up again. */
PL_MUST_CHECK
int pl_io_remove_tree_at(int at, const char *name, struct pl_err *err);

/* Fault injection, for tests only. The nth call of that kind from now fails once with `errnum`; 0 switches
 * this off. If `errnum` is one of the two values below, the process exits at that call as if killed by kill
 * -9: before the call is made, or after it. The environment variable
 * PL_FAULT="write=17,fsync=3,rename=2,errno=28" does the same. Thread-safe. */
#define PL_IO_EXIT_BEFORE (-1)
#define PL_IO_EXIT_AFTER  (-2)
#define PL_IO_EXIT_STATUS 137
enum pl_io_call { PL_IO_WRITE, PL_IO_FSYNC, PL_IO_RENAME, PL_IO_CALLS };
void pl_io_fail_nth(enum pl_io_call call, uint64_t nth, int errnum);
/* After pl_io_fail_nth: with `lasting`, all calls after the nth fail too, as on a full disk, until this is
 * switched off. */
void pl_io_fail_on(enum pl_io_call call, bool lasting);
/* Returns the number of calls of that kind so far, so that a test can make each of them fail in turn. */
uint64_t pl_io_calls(enum pl_io_call call);
