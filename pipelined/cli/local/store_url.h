/* store_url: stores that verbs without a daemon work on, by their URL: file:///DIR (or a folder), s3://BUCKET/PREFIX. Of a bucket, what
 * is not in options comes from where Amazon's tools have it: environment, shared profile (object.h). */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/object/object.h"

/* A verb's options for a bucket; `prefix` "" or as in "from-". */
#define PL_CLI_STORE_OPTIONS(prefix)                                                                                             \
    {prefix "endpoint", 0, "URL", "of a bucket: its server (AWS_ENDPOINT_URL)"},                                                 \
        {prefix "region", 0, "NAME", "of a bucket: its region (AWS_REGION)"},                                                    \
        {prefix "profile", 0, "NAME", "of a bucket: whose keys (AWS_PROFILE)"},                                                  \
        {prefix "ca", 0, "FILE", "of a bucket: certificates to trust (AWS_CA_BUNDLE)"},                                          \
        {prefix "driver", 0, "s3|libs3", "of a bucket: libs3 where the server only takes Signature V2"},                         \
    {                                                                                                                            \
        prefix "exclusive", 0, NULL, "of a bucket without put-if-absent: nobody else writes there"                               \
    }

/* Opens the store at `url`, which must be one: it has a marker. Nothing is written there by opening it. `prefix`: of the options.
 * `ret_name`: its URL, absolute, malloc'ed. PL_ENOTFOUND, PL_EFORMAT, PL_EINVAL for a kind that this program does not know. */
PL_MUST_CHECK
int pl_cli_store_open(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err);
/* The same for a place that is to become one: a folder is made when it is not there, and what a bucket's server honours is found out. */
PL_MUST_CHECK
int pl_cli_store_make(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err);
