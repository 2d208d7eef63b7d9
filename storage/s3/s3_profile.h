/* s3_profile: reads the shared files of Amazon's tools: ~/.aws/credentials and ~/.aws/config. Any thread. */
#pragma once

#include "storage/base/buf.h"

/* Finds the value of `name` in section `profile` ("[name]", or "[profile name]" as in the config file) of
 * `text`, and copies it, trimmed, to `out`. Returns false if it is absent or does not fit. Later sections of
 * the same name override earlier ones. `*ret_section` (may be NULL) tells whether the section exists. */
bool pl_s3_profile_value(const char *text, const char *profile, const char *name, char *out, size_t size, bool *ret_section);
/* Reads the file that the environment variable `variable` names, else ~/.aws/`file`. PL_ENOTFOUND, PL_EIO,
 * PL_ETOOBIG, PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_profile_read(const char *variable, const char *file, struct pl_buf *ret, struct pl_err *err);
