/* s3_profile: the shared files of Amazon's tools: ~/.aws/credentials and ~/.aws/config. */
#pragma once

#include "storage/base/buf.h"

/* The value of `name` in section `profile` ("[name]", or "[profile name]" as in the config file) of the text, trimmed, into `out`; false
 * when it is not there or does not fit. Later sections of the same name win. `*ret_section` (may be NULL): the section is there. */
bool pl_s3_profile_value(const char *text, const char *profile, const char *name, char *out, size_t size, bool *ret_section);
/* The text of the file that `variable` names, else of ~/.aws/`file`. PL_ENOTFOUND, PL_EIO. */
PL_MUST_CHECK
int pl_s3_profile_read(const char *variable, const char *file, struct pl_buf *ret, struct pl_err *err);
