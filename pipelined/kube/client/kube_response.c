/* kube_response.c: classifies answers by status code and, where the code is ambiguous, by the Status object's
 * causes and message. */
#include "pipelined/kube/client/kube_response.h"

#include "storage/base/path.h"

#include <stdio.h>
#include <strings.h>

const char *pl_kube_verdict_name(enum pl_kube_verdict v)
{
    static const char *const names[] = {
#define PL_KUBE_VERDICT_TEXT(name, code) #name,
        PL_KUBE_VERDICTS(PL_KUBE_VERDICT_TEXT)
#undef PL_KUBE_VERDICT_TEXT
    };

    return (unsigned)v < PL_ARRAY_SIZE(names) ? names[v] : "?";
}

/* Copies a text, cut to the buffer's size without splitting a UTF-8 character. */
static void copy(char *out, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);

    if (text[n] != '\0')
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    memcpy(out, text, n);
    out[n] = '\0';
}

static void copy_member(const json_t *object, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text != NULL)
        copy(out, size, text);
}

bool pl_kube_status_take(const json_t *object, struct pl_kube_status *ret)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const json_t *details = json_object_get(object, "details");
    const json_t *cause = json_array_get(json_object_get(details, "causes"), 0);
    const json_int_t code = json_integer_value(json_object_get(object, "code"));
    const json_int_t after = json_integer_value(json_object_get(details, "retryAfterSeconds"));

    *ret = (struct pl_kube_status){0};
    if (kind == NULL || !pl_streq(kind, "Status"))
        return false;
    ret->code = code >= 100 && code <= 599 ? (unsigned)code : 0;
    ret->retry_after_s = after > 0 ? (uint32_t)PL_MIN(after, (json_int_t)3600) : 0;
    copy_member(object, "reason", ret->reason, sizeof(ret->reason));
    copy_member(object, "message", ret->message, sizeof(ret->message));
    copy_member(cause, "reason", ret->cause, sizeof(ret->cause));
    copy_member(cause, "field", ret->field, sizeof(ret->field));
    return true;
}

/* Uses the first non-empty line of the body as the message if the body is not a Status object; proxies and
 * old servers send such bodies. */
static void take_text(const char *body, size_t n, struct pl_kube_status *ret)
{
    size_t from = 0, len;

    while (from < n && strchr(" \t\r\n", body[from]) != NULL && body[from] != '\0')
        from++;
    for (len = 0; from + len < n && body[from + len] >= ' ' && len < sizeof(ret->message) - 1;)
        len++;
    (void)snprintf(ret->message, sizeof(ret->message), "%.*s", (int)len, body + from);
    (void)pl_utf8_clean(ret->message);
}

void pl_kube_status_read(unsigned code, const void *body, size_t n, uint32_t retry_after_s, struct pl_kube_status *ret)
{
    json_t *object = n > 0 ? json_loadb(body, n, JSON_ALLOW_NUL, NULL) : NULL;

    *ret = (struct pl_kube_status){0};
    if (object == NULL || !pl_kube_status_take(object, ret))
        if (n > 0)
            take_text(body, n, ret);
    json_decref(object);
    ret->code = code;
    if (retry_after_s > 0)
        ret->retry_after_s = retry_after_s;
    if (ret->message[0] == '\0')
        (void)snprintf(ret->message, sizeof(ret->message), "the API server answers with status %u", code);
}

static bool says(const struct pl_kube_status *s, const char *words)
{
    return strstr(s->message, words) != NULL;
}

static enum pl_kube_verdict forbidden(const struct pl_kube_status *s)
{
    if (pl_streq(s->cause, "NamespaceTerminating") || says(s, "because it is being terminated"))
        return PL_KUBE_ENDING;
    /* the usage of a new quota has not been counted so far */
    if (says(s, "exceeded quota") || says(s, "status unknown for quota") ||
        says(s, "failed quota") /* a quota requires limits that the pod does not have */ ||
        /* the service account of a new namespace does not exist so far */
        says(s, "error looking up service account"))
        return PL_KUBE_PARK;
    return says(s, " is forbidden: User ") && says(s, " cannot ") ? PL_KUBE_DENIED : PL_KUBE_REFUSED;
}

static enum pl_kube_verdict server_fault(const struct pl_kube_status *s)
{
    if (pl_streq(s->cause, "ResourceVersionTooLarge") || says(s, "Too large resource version"))
        return PL_KUBE_AHEAD;
    return says(s, "request is too large") || says(s, "trying to send message larger than max") ? PL_KUBE_REFUSED : PL_KUBE_AGAIN;
}

enum pl_kube_verdict pl_kube_status_verdict(const struct pl_kube_status *s)
{
    if (s->code >= 200 && s->code <= 299)
        return PL_KUBE_OK;
    switch (s->code) {
    case 0:
    case 408:
    case 429:
        return PL_KUBE_AGAIN;
    case 401:
        return PL_KUBE_LOGIN;
    case 403:
        return forbidden(s);
    case 404:
        return PL_KUBE_GONE;
    case 409:
        return pl_streq(s->reason, "AlreadyExists") ? PL_KUBE_EXISTS : PL_KUBE_CONFLICT;
    case 410:
        return PL_KUBE_EXPIRED;
    default:
        return s->code >= 500 ? server_fault(s) : PL_KUBE_REFUSED;
    }
}

int pl_kube_status_error(const struct pl_kube_status *s, struct pl_err *err)
{
    static const int codes[] = {
#define PL_KUBE_VERDICT_CODE(name, code) code,
        PL_KUBE_VERDICTS(PL_KUBE_VERDICT_CODE)
#undef PL_KUBE_VERDICT_CODE
    };
    const enum pl_kube_verdict v = pl_kube_status_verdict(s);
    int r = codes[v];

    if (r == 0)
        return 0;
    if (v == PL_KUBE_REFUSED && s->code == 403)
        r = PL_EFORBIDDEN;
    else if (v == PL_KUBE_REFUSED && (s->code == 413 || s->code >= 500))
        r = PL_ETOOBIG;
    else if (s->code == 429)
        r = PL_EBUSY;
    (void)pl_err_set(err, r, "%s", s->message);
    if (v == PL_KUBE_LOGIN)
        (void)pl_err_hint(err, r, "Check the credentials that the kubeconfig names; a token may have expired.");
    else if (v == PL_KUBE_DENIED)
        (void)pl_err_hint(err, r, "Give the daemon's account the permission that the message names.");
    if (s->field[0] != '\0')
        (void)pl_err_field(err, r, s->field);
    return r;
}
