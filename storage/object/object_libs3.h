/* object_libs3: the driver for buckets whose server only takes Signature V2: plain calls by Debian's libs3, in a module that is loaded with
 * the first such store (libs3_module.h).
 *
 * Less than object_s3 gives: no put-if-absent (the operator says `exclusive`), no presigned requests, no temporary credentials, no multipart,
 * one object at a time in each DELETE. Calls block their thread; each is tried again with full jitter until its deadline.
 * Memory: what callers bring. */
#pragma once

#include "storage/object/object.h"

#define PL_LIBS3_ATTEMPTS     8u
#define PL_LIBS3_PAUSE_MS     100 /* of the first repetition at most; doubles */
#define PL_LIBS3_PAUSE_MAX_MS 10000
#define PL_LIBS3_DEADLINE_MS  120000 /* no attempt begins later */

/* Whether the module is there and loads; `err` says where it was looked for and which package is missing. */
PL_MUST_CHECK
int pl_object_libs3_load(struct pl_err *err);
/* pl_object_open of an s3:// URL with the driver "libs3". PL_EUNAVAILABLE: no module, or not `exclusive`; PL_EINVAL naming the field for what
 * this driver cannot do; PL_EAUTH: no keys. */
PL_MUST_CHECK
int pl_object_libs3_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err);
