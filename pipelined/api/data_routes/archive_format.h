/* archive_format: the bytes of tar and zip archives around those of their files. Pure: appends to a buffer; the caller adds
 * the content.
 *
 *   tar   for each entry: header, content, padding; at the end: two empty blocks. A POSIX ustar header; a pax header comes
 *         before it if the name, the link or the size does not fit.
 *   zip   for each entry: local header, content [, descriptor]; at the end: the central directory and its end record.
 *         Entries are stored, not compressed. An entry whose checksum is not known when its header is written has a
 *         descriptor after its content. From 4 GiB or 65,535 entries on the fields of zip64 (APPNOTE.TXT 4.5.3).
 *
 * The zip writer is our own because a streaming library (libarchive, libzip) wants a blocking sink or a file, keeps the
 * central directory in memory, and would be one more package of the daemon; stored entries are three small structures. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/path.h"

#define PL_ARCHIVE_NAME_MAX (PL_PATH_MAX_BYTES + PL_SEGMENT_MAX_BYTES + 2)

enum pl_archive_kind { PL_ARCHIVE_FILE, PL_ARCHIVE_EXEC, PL_ARCHIVE_LINK, PL_ARCHIVE_DIR };

struct pl_archive_entry {
    enum pl_archive_kind kind;
    /* path in the archive: relative, without a final slash, without "." and ".." (pl_path_check) */
    const char *name;
    uint64_t size;      /* bytes of the content; of a LINK those of its target, of a DIR 0 */
    const char *target; /* of a LINK in a tar archive */
    int64_t at_us;      /* time of the last change, microseconds since 1970 */
};

/* Appends the header of an entry. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_archive_tar_header(const struct pl_archive_entry *e, struct pl_buf *out, struct pl_err *err);
/* Appends the padding after a content of this size. */
PL_MUST_CHECK
int pl_archive_tar_padding(uint64_t size, struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_archive_tar_end(struct pl_buf *out, struct pl_err *err);

/* A zip entry as its headers have it. A backslash in a name, which some programs take for a slash, is written as "_". */
struct pl_archive_zip_entry {
    struct pl_archive_entry entry;
    uint32_t crc;    /* CRC-32 of the content; of an entry with a descriptor it may be unset in the local header */
    bool descriptor; /* a descriptor follows the content */
    uint64_t offset; /* of the local header in the archive; for the central directory */
};

PL_MUST_CHECK
int pl_archive_zip_header(const struct pl_archive_zip_entry *e, struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_archive_zip_descriptor(const struct pl_archive_zip_entry *e, struct pl_buf *out, struct pl_err *err);
/* Returns the bytes from an entry's local header to the end of its descriptor. */
uint64_t pl_archive_zip_bytes(const struct pl_archive_zip_entry *e);
/* Appends the entry's record in the central directory. */
PL_MUST_CHECK
int pl_archive_zip_record(const struct pl_archive_zip_entry *e, struct pl_buf *out, struct pl_err *err);
/* Appends what follows the central directory of `bytes` bytes at `offset`. */
PL_MUST_CHECK
int pl_archive_zip_end(uint64_t entries, uint64_t offset, uint64_t bytes, struct pl_buf *out, struct pl_err *err);
/* Continues a CRC-32 (the one of zip and gzip) with `n` bytes; starts with 0. */
uint32_t pl_archive_crc32(uint32_t crc, const void *data, size_t n);
