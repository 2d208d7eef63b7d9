/* notify_format: the bodies of notifications, and their signature. Pure. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>

#define PL_NOTIFY_SIGNATURE_CHARS 71u /* "sha256=" and 64 hex digits */
#define PL_NOTIFY_EVENT_CHARS     100u

/* An event on its way to a receiver. */
struct pl_notify_message {
    const char *rule, *project, *delivery; /* `delivery`: an id that is the same each time that this event is sent */
    int64_t id, at_us;                     /* of the event */
    const char *event;                     /* "job.failure" */
    const char *type, *state;
    const json_t *data;
    const char *missed; /* what was not delivered before this event; "" = nothing */
};

/* Writes "TYPE.STATE", or "TYPE" for an event without state. Returns `out`. */
char *pl_notify_event_name(const char *type, const char *state, char out[PL_NOTIFY_EVENT_CHARS]);
/* Writes the body of format json. PL_ENOMEM. */
PL_MUST_CHECK
int pl_notify_format_json(const struct pl_notify_message *m, struct pl_buf *out, struct pl_err *err);
/* Writes the body of format slack, {"text"}: a sentence in which &, < and > are escaped. PL_ENOMEM. */
PL_MUST_CHECK
int pl_notify_format_slack(const struct pl_notify_message *m, struct pl_buf *out, struct pl_err *err);
/* Writes the body of format s3, {"Records", "missed"?}. PL_ENOMEM. */
PL_MUST_CHECK
int pl_notify_format_s3(const struct pl_notify_message *m, const json_t *records, struct pl_buf *out, struct pl_err *err);
/* Makes one record of format s3: the file `path` of the commit was written, or removed. A new reference; NULL without
 * memory. */
json_t *pl_notify_s3_record(const struct pl_notify_message *m, const char *path, bool removed, uint64_t size_bytes);

/* Writes "sha256=HEX", the HMAC-SHA256 of the body. */
void pl_notify_sign(const struct pl_buf *key, const struct pl_buf *body, char out[PL_NOTIFY_SIGNATURE_CHARS + 1]);
