/* source_address: which repositories a source may follow: those below folders that an admin has named, and servers that the
 * daemon's rules for outbound connections allow. Immutable after it is made; any thread. */
#pragma once

#include "storage/http/outbound.h"

#define PL_SOURCE_FOLDERS_MAX 64u

struct pl_source_addresses {
    const struct pl_outbound *outbound; /* borrowed */
    char *data_dir;                     /* the daemon's folder, where no repository may lie */
    char *text;                         /* the setting, for messages */
    char *real[PL_SOURCE_FOLDERS_MAX];  /* folders with local repositories, links resolved */
    char *named[PL_SOURCE_FOLDERS_MAX]; /* the same as configured */
    size_t n;
};

/* Reads the setting git.local_folders, folders separated by commas. `data_dir` is copied. PL_EINVAL: a folder is not absolute, is
 * none, or lies in or above data_dir. PL_ENOMEM. In each case pl_source_addresses_finish frees what was made. */
PL_MUST_CHECK
int pl_source_addresses_read(struct pl_source_addresses *a, const char *folders, const char *data_dir,
                             const struct pl_outbound *outbound, struct pl_err *err);
void pl_source_addresses_finish(struct pl_source_addresses *a);

/* Checks the address of a repository. The errors have the field "git". PL_EFORBIDDEN: the settings exclude it; PL_ENOTFOUND:
 * no such folder, which is only said below the allowed ones; PL_EINVAL: not an address. */
PL_MUST_CHECK
int pl_source_address_check(const struct pl_source_addresses *a, const char *git, struct pl_err *err);
