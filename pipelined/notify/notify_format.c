/* notify_format: JSON for programs, a sentence for people, and S3's form of bucket notifications (Amazon S3 User Guide,
 * "Event message structure", version 2.1). */
#include "pipelined/notify/notify_format.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/http/uri.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define BUCKET_CHARS 400u

char *pl_notify_event_name(const char *type, const char *state, char out[PL_NOTIFY_EVENT_CHARS])
{
    snprintf(out, PL_NOTIFY_EVENT_CHARS, "%s%s%s", type, *state ? "." : "", state);
    return out;
}

/* Appends the text of `body`, which it takes. */
static int add_json(json_t *body, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_free_ char *text = body ? pl_json_text(body, JSON_COMPACT) : NULL;

    json_decref(body);
    return text ? pl_buf_add(out, text, strlen(text), err) : pl_err_nomem(err);
}

/* Adds the field "missed" to the object, if there is something to say. Returns `body`; NULL without memory. */
static json_t *with_missed(json_t *body, const struct pl_notify_message *m)
{
    if (body && *m->missed && json_object_set_new(body, "missed", json_string(m->missed)) < 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

int pl_notify_format_json(const struct pl_notify_message *m, struct pl_buf *out, struct pl_err *err)
{
    char at[32];

    return add_json(with_missed(json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:O}", "event", m->event, "delivery", m->delivery, "id",
                                          (json_int_t)m->id, "at", pl_clock_text(m->at_us, at), "notify", m->rule, "project",
                                          m->project, "data", m->data),
                                m),
                    out, err);
}

/* ---- sentences ---- */

/* Appends text in which the characters that Slack takes for markup are escaped. */
static int add_escaped(struct pl_buf *out, const char *text, struct pl_err *err)
{
    int r = 0;

    for (; *text && r == 0; text++)
        r = *text == '&'   ? pl_buf_add(out, "&amp;", 5, err)
            : *text == '<' ? pl_buf_add(out, "&lt;", 4, err)
            : *text == '>' ? pl_buf_add(out, "&gt;", 4, err)
                           : pl_buf_add(out, text, 1, err);
    return r;
}

/* Appends " WORD VALUE" if the event has the field `key`; ids are shown with 8 digits. */
static int add_field(struct pl_buf *out, const struct pl_notify_message *m, const char *word, const char *key, struct pl_err *err)
{
    const char *value = pl_json_str(m->data, key);
    const bool id = strcmp(key, "run") == 0 || strcmp(key, "commit") == 0 || strcmp(key, "id") == 0;
    char text[9];
    int r;

    if (!*value)
        return 0;
    snprintf(text, sizeof text, "%.8s", value);
    r = pl_buf_add(out, word, strlen(word), err);
    return r < 0 ? r : add_escaped(out, id ? text : value, err);
}

/* Appends what the event is about. */
static int add_subject(struct pl_buf *out, const struct pl_notify_message *m, struct pl_err *err)
{
    static const struct {
        const char *word, *key;
    } fields[] = {{" ", "id"},     {" ", "pipeline"},         {" ", "source"},
                  {" ", "notify"}, {" of stage ", "stage"},   {" of run ", "run"},
                  {" ", "commit"}, {" on branch ", "branch"}, {" of repo ", "repo"},
                  {" of ", "of"},  {" at ", "path"},          {" in project ", "project"}};
    int r = add_escaped(out, m->type, err);

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(fields); i++)
        r = add_field(out, m, fields[i].word, fields[i].key, err);
    return r;
}

/* Appends the state, and why it is so. */
static int add_outcome(struct pl_buf *out, const struct pl_notify_message *m, struct pl_err *err)
{
    const json_t *files = json_object_get(m->data, "files"), *bytes = json_object_get(m->data, "bytes");
    int r = *m->state ? pl_buf_add(out, ": ", 2, err) : 0;

    r = r < 0 || !*m->state ? r : add_escaped(out, m->state, err);
    r = r < 0 ? r : add_field(out, m, ": ", "reason", err);
    r = r < 0 ? r : add_field(out, m, ": ", "error", err);
    r = r < 0 ? r : add_field(out, m, ": ", "why", err);
    if (r == 0 && json_is_integer(files) && json_is_integer(bytes))
        r = pl_buf_addf(out, err, ", %" JSON_INTEGER_FORMAT " files, %" JSON_INTEGER_FORMAT " bytes", json_integer_value(files),
                        json_integer_value(bytes));
    return r;
}

int pl_notify_format_slack(const struct pl_notify_message *m, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    int r = add_subject(&text, m, err);

    r = r < 0 ? r : add_outcome(&text, m, err);
    if (r == 0 && *m->missed) {
        r = pl_buf_add(&text, "\nNot delivered before: ", 23, err);
        r = r < 0 ? r : add_escaped(&text, m->missed, err);
    }
    return r < 0 ? r : add_json(json_pack("{s:s%}", "text", (const char *)text.data, text.len), out, err);
}

/* ---- S3 ---- */

/* Writes the name under which the S3 gateway serves the branch (s3gateway/gateway.h). */
static void bucket_of(const struct pl_notify_message *m, char out[BUCKET_CHARS])
{
    const char *repo = pl_json_str(m->data, "repo"), *branch = pl_json_str(m->data, "branch");
    const bool home = strcmp(m->project, "default") == 0;

    if (home && strcmp(branch, "master") == 0)
        snprintf(out, BUCKET_CHARS, "%s", repo);
    else
        snprintf(out, BUCKET_CHARS, "%s.%s%s%s", branch, repo, home ? "" : ".", home ? "" : m->project);
}

json_t *pl_notify_s3_record(const struct pl_notify_message *m, const char *path, bool removed, uint64_t size_bytes)
{
    _cleanup_(pl_buf_finish) struct pl_buf key = {0};
    char bucket[BUCKET_CHARS], arn[BUCKET_CHARS + 16], at[32], when[40], sequencer[17];
    json_t *object;

    if (pl_uri_escape(path, true, &key, NULL) < 0)
        return NULL;
    bucket_of(m, bucket);
    snprintf(arn, sizeof arn, "arn:aws:s3:::%s", bucket);
    snprintf(sequencer, sizeof sequencer, "%016" PRIX64, (uint64_t)m->id);
    pl_clock_text(m->at_us, at);
    snprintf(when, sizeof when, "%.19s.%03dZ", at, (int)(m->at_us / 1000 % 1000));
    object = json_pack("{s:s%, s:s}", "key", (const char *)key.data, key.len, "sequencer", sequencer);
    if (object && !removed && json_object_set_new(object, "size", json_integer((json_int_t)size_bytes)) < 0) {
        json_decref(object);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s}, s:{s:s}, s:{s:s, s:s}, s:{s:s, s:s, s:{s:s, s:{s:s}, s:s}, s:o}}",
                     "eventVersion", "2.1", "eventSource", "aws:s3", "awsRegion", "eu-central-1", "eventTime", when, "eventName",
                     removed ? "ObjectRemoved:Delete" : "ObjectCreated:Put", "userIdentity", "principalId", "pipelined",
                     "requestParameters", "sourceIPAddress", "", "responseElements", "x-amz-request-id", m->delivery,
                     "x-amz-id-2", pl_json_str(m->data, "commit"), "s3", "s3SchemaVersion", "1.0", "configurationId", m->rule,
                     "bucket", "name", bucket, "ownerIdentity", "principalId", m->project, "arn", arn, "object", object);
}

int pl_notify_format_s3(const struct pl_notify_message *m, const json_t *records, struct pl_buf *out, struct pl_err *err)
{
    return add_json(with_missed(json_pack("{s:O}", "Records", records), m), out, err);
}

void pl_notify_sign(const struct pl_buf *key, const struct pl_buf *body, char out[PL_NOTIFY_SIGNATURE_CHARS + 1])
{
    unsigned char mac[PL_HASH_BYTES];
    unsigned len = sizeof mac;

    HMAC(EVP_sha256(), key->data ? (const void *)key->data : "", (int)key->len, body->data, body->len, mac, &len);
    memcpy(out, "sha256=", 7);
    pl_hex_encode(mac, sizeof mac, out + 7);
}
