/* sqlite_faults: SQLite's own writes under the same thumb as those of storage/base/io: its default VFS with writes, syncs, truncations
 * and deletions counted, of which the nth fails or is the last thing that the process does. */
#pragma once

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "storage/system/io.h"

static struct {
    _Atomic uint64_t calls;
    uint64_t at;  /* 0 = none */
    int how;      /* SQLITE_FULL, SQLITE_IOERR, PL_IO_EXIT_BEFORE, PL_IO_EXIT_AFTER */
    bool lasting; /* those after it fail too */
    struct sqlite_methods {
        sqlite3_io_methods ours; /* first: a file's pMethods is this struct */
        const sqlite3_io_methods *real;
    } methods[2]; /* files of the database proper lock, the others do not */
    sqlite3_vfs *below;
    sqlite3_vfs vfs;
} sqlite_faults;

/* The nth call from now; 0 switches off. */
static inline void sqlite_fail_nth(uint64_t nth, int how)
{
    sqlite_faults.how = how;
    sqlite_faults.lasting = false;
    sqlite_faults.at = nth ? sqlite_faults.calls + nth : 0;
}

static inline bool sqlite_hit(uint64_t *ret_number)
{
    *ret_number = ++sqlite_faults.calls;
    if (*ret_number != sqlite_faults.at && (!sqlite_faults.at || *ret_number < sqlite_faults.at || !sqlite_faults.lasting))
        return false;
    if (sqlite_faults.how == PL_IO_EXIT_BEFORE)
        _exit(PL_IO_EXIT_STATUS);
    return sqlite_faults.how != PL_IO_EXIT_AFTER;
}

static inline int sqlite_did(uint64_t number, int r)
{
    if (number == sqlite_faults.at && sqlite_faults.how == PL_IO_EXIT_AFTER)
        _exit(PL_IO_EXIT_STATUS);
    return r;
}

static inline const sqlite3_io_methods *sqlite_real(sqlite3_file *f)
{
    return ((const struct sqlite_methods *)f->pMethods)->real;
}

static int fault_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 offset)
{
    uint64_t number;

    if (sqlite_hit(&number))
        return sqlite_faults.how == SQLITE_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    return sqlite_did(number, sqlite_real(f)->xWrite(f, p, n, offset));
}

static int fault_sync(sqlite3_file *f, int flags)
{
    uint64_t number;

    if (sqlite_hit(&number))
        return SQLITE_IOERR_FSYNC;
    return sqlite_did(number, sqlite_real(f)->xSync(f, flags));
}

static int fault_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    uint64_t number;

    if (sqlite_hit(&number))
        return SQLITE_IOERR_TRUNCATE;
    return sqlite_did(number, sqlite_real(f)->xTruncate(f, size));
}

static int fault_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    uint64_t number;

    (void)vfs;
    if (sqlite_hit(&number))
        return SQLITE_IOERR_DELETE;
    return sqlite_did(number, sqlite_faults.below->xDelete(sqlite_faults.below, name, sync));
}

static int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    int r = sqlite_faults.below->xOpen(sqlite_faults.below, name, f, flags, ret_flags);
    struct sqlite_methods *m = &sqlite_faults.methods[(flags & SQLITE_OPEN_MAIN_DB) == 0];

    (void)vfs;
    if (r != SQLITE_OK || !f->pMethods)
        return r;
    if (!m->real) {
        m->real = f->pMethods;
        m->ours = *f->pMethods;
        m->ours.xWrite = fault_write;
        m->ours.xSync = fault_sync;
        m->ours.xTruncate = fault_truncate;
    }
    if (f->pMethods == m->real)
        f->pMethods = &m->ours;
    return SQLITE_OK;
}

/* Once, before the first connection. */
static inline void sqlite_faults_install(void)
{
    sqlite_faults.below = sqlite3_vfs_find(NULL);
    sqlite_faults.vfs = *sqlite_faults.below;
    sqlite_faults.vfs.zName = "faults";
    sqlite_faults.vfs.xOpen = fault_open;
    sqlite_faults.vfs.xDelete = fault_delete;
    sqlite3_vfs_register(&sqlite_faults.vfs, 1);
}
