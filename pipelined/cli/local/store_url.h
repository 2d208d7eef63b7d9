/* store_url: opens, by URL, the stores on which subcommands without a daemon work: file:///DIR (or the path
 * of a folder) or s3://BUCKET/PREFIX. Settings of a bucket for which no option is given come from the
 * environment and the shared profile, where Amazon's tools keep them (object.h). */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/object/object.h"

/* The options for access to a bucket. `prefix` is what their names begin with, such as "from-", or "". */
#define PL_CLI_STORE_OPTIONS(prefix)                                                                                             \
    {prefix "endpoint", 0, "URL", "bucket: URL of its server (else AWS_ENDPOINT_URL)"},                                          \
        {prefix "region", 0, "NAME", "bucket: its region (else AWS_REGION)"},                                                    \
        {prefix "profile", 0, "NAME", "bucket: profile with the keys (else AWS_PROFILE)"},                                       \
        {prefix "ca", 0, "FILE", "bucket: file of CA certificates to trust (else AWS_CA_BUNDLE)"},                               \
        {prefix "driver", 0, "s3|libs3", "bucket: libs3 for a server that only accepts Signature V2 (else s3)"},                 \
    {                                                                                                                            \
        prefix "exclusive", 0, NULL, "bucket without put-if-absent: confirm that no other program writes there"                  \
    }

/* Opens the existing store at `url`; the store must have a marker. Opening writes nothing. `prefix`: what the
 * names of the bucket's options begin with. `ret_name`: the store's absolute URL, malloc'ed. PL_ENOTFOUND,
 * PL_EFORMAT; PL_EINVAL: an unknown kind of URL. */
PL_MUST_CHECK
int pl_cli_store_open(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err);
/* Opens a folder or bucket in which the caller will create a store. A folder is created if it does not exist.
 * For a bucket, tests which conditional writes its server supports. */
PL_MUST_CHECK
int pl_cli_store_make(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err);
