/* archive_stream: replies with folders and files of trees as a tar or zip archive, which is made while the client receives it.
 * Memory: one chunk, and for zip 4 bytes for each entry. Zip entries are stored, not compressed. A symbolic link that leads out
 * of its folder of the archive becomes a text file with its target. */
#pragma once

#include "pipelined/api/server/api_context.h"
#include "pipelined/text/glob.h"
#include "storage/base/path.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

#define PL_ARCHIVE_ZIP_ENTRIES_MAX (16u << 20) /* most entries of a zip archive: 64 MiB of checksums */

/* A folder of a tree with everything below it, or one file. */
struct pl_archive_part {
    struct pl_node_source source;
    struct pl_chunk_reader reader;
    struct pl_hash root;
    char below[PL_PATH_MAX_BYTES + 2]; /* the folder with its final slash, "" = the whole tree; or the file */
    size_t below_len;
    bool file;                          /* `below` is a file */
    size_t cut;                         /* so many first bytes of paths are left out of the names in the archive */
    char top[PL_SEGMENT_MAX_BYTES + 1]; /* folder of the archive that has the part */
    struct pl_glob_set *files;          /* only files that it selects, by their paths below the folder; NULL = all; owned */
};

struct pl_archive_plan {
    struct pl_archive_part *parts; /* malloc'ed; owned */
    size_t n_parts;
    bool zip;
    int64_t at_us;                              /* time of the entries */
    char file_name[2 * PL_NAME_MAX_BYTES + 48]; /* as which the client saves it: letters, digits, '.', '-' and '_' */
    /* what the sources and readers need; release(owner) is called when the archive is done. release NULL = nothing */
    void *owner;
    void (*release)(void *owner);
};

void pl_archive_plan_finish(struct pl_archive_plan *plan);
/* Reads the query argument `format`, "tar" or "zip"; `zip` is the default. PL_EINVAL. */
PL_MUST_CHECK
int pl_archive_format_read(const struct pl_http_request *req, bool zip, bool *ret_zip, struct pl_err *err);
/* Refuses a zip archive of too many files. PL_ELIMIT; errors of the trees. */
PL_MUST_CHECK
int pl_archive_check_entries(const struct pl_archive_plan *plan, struct pl_err *err);
/* Replies with the archive, and takes the plan over. An error after the first byte cuts the reply off. */
void pl_archive_reply(struct pl_http_request *req, struct pl_archive_plan *plan);
