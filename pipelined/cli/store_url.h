/* store_url: stores that verbs without a daemon work on, by their URL. */
#pragma once

#include "storage/object/object.h"

/* Opens the store at "file:///DIR" (or a folder), which must be one: it has a marker. `ret_name`: its URL, absolute, malloc'ed.
 * PL_ENOTFOUND, PL_EFORMAT, PL_EUNAVAILABLE for a kind that this program does not know. */
PL_MUST_CHECK
int pl_cli_store_open(const char *url, struct pl_object_store **ret, char **ret_name, struct pl_err *err);
/* The same for a place that is to become one: made when it is not there. */
PL_MUST_CHECK
int pl_cli_store_make(const char *url, struct pl_object_store **ret, char **ret_name, struct pl_err *err);
