/* object_libs3: the driver for buckets on servers that accept only Signature V2. It makes plain calls through
 * Debian's libs3, in a module that is loaded when the first such store is opened (libs3_module.h).
 *
 * It supports fewer functions than object_s3: no put-if-absent (the operator must set `exclusive`), no
 * presigned requests, no temporary credentials, no multipart uploads, and one object per DELETE. Calls block
 * their thread and are retried after random pauses until their deadline. Memory: only that of the callers. */
#pragma once

#include "storage/object/object.h"

#define PL_LIBS3_ATTEMPTS     8u
#define PL_LIBS3_PAUSE_MS     100 /* upper bound of the first pause; doubles with each attempt */
#define PL_LIBS3_PAUSE_MAX_MS 10000
#define PL_LIBS3_DEADLINE_MS  120000 /* no attempt begins after this time */

/* Loads the module, once per process. PL_EUNAVAILABLE if it is missing or does not load; the message has the
 * path and the missing package. */
PL_MUST_CHECK
int pl_object_libs3_load(struct pl_err *err);
/* Implements pl_object_open for an s3:// URL with the driver "libs3". PL_EUNAVAILABLE: no module, or not
 * `exclusive`; PL_EINVAL, with the field, for settings that the driver does not support; PL_EAUTH: no
 * keys. */
PL_MUST_CHECK
int pl_object_libs3_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err);
