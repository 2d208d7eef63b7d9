/* store_url: opens the stores that verbs without a daemon work on, by URL: file:///DIR (or a folder's path)
 * or s3://BUCKET/PREFIX. Settings of a bucket that no option gives come from where Amazon's tools keep them,
 * the environment and the shared profile (object.h). */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/object/object.h"

/* Options of a verb for access to a bucket; `prefix` is "" or a prefix of their names, such as "from-". */
#define PL_CLI_STORE_OPTIONS(prefix)                                                                                             \
    {prefix "endpoint", 0, "URL", "bucket: URL of its server (else AWS_ENDPOINT_URL)"},                                          \
        {prefix "region", 0, "NAME", "bucket: its region (else AWS_REGION)"},                                                    \
        {prefix "profile", 0, "NAME", "bucket: profile with the keys (else AWS_PROFILE)"},                                       \
        {prefix "ca", 0, "FILE", "bucket: file of CA certificates to trust (else AWS_CA_BUNDLE)"},                               \
        {prefix "driver", 0, "s3|libs3", "bucket: libs3 for a server that only accepts Signature V2 (else s3)"},                 \
    {                                                                                                                            \
        prefix "exclusive", 0, NULL, "bucket without put-if-absent: confirm that no other program writes there"                  \
    }

/* Opens the existing store at `url`; it must have a store marker. Opening writes nothing. `prefix` is that of
 * the options. `ret_name`: the store's absolute URL, malloc'ed. PL_ENOTFOUND, PL_EFORMAT; PL_EINVAL: an
 * unknown kind of URL. */
PL_MUST_CHECK
int pl_cli_store_open(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err);
/* Opens a place that is to become a store. Creates the folder if it does not exist, and tests which
 * conditional writes a bucket's server supports. */
PL_MUST_CHECK
int pl_cli_store_make(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err);
