/* kube_object.c: a creation is a POST, followed by a GET if the name is in use; a deletion is a DELETE with
 * the uid as precondition. */
#include "pipelined/kube/client/kube_object.h"

#include "pipelined/kube/client/kube_wait.h"

#include <stdio.h>

/* ---- paths ---- */

static int add_segment(struct pl_buf *out, const char *what, const char *text, struct pl_err *err)
{
    const size_t n = strlen(text);

    if (n == 0 || n > 253 || strspn(text, "-.0123456789abcdefghijklmnopqrstuvwxyz") != n || text[0] == '.' || text[0] == '-')
        return pl_err_set(err, PL_EINVAL,
                          "\"%.100s\" is not a Kubernetes %s: use lower case letters, digits, \"-\" and \".\", at most 253 bytes",
                          text, what);
    return pl_buf_addf(out, err, "/%s", text);
}

int pl_kube_path(struct pl_buf *out, const char *api, const char *space, const char *resource, const char *name, const char *sub,
                 struct pl_err *err)
{
    int r = pl_buf_addf(out, err, strchr(api, '/') != NULL ? "/apis/%s" : "/api/%s", api);

    if (r == 0 && space != NULL)
        r = pl_buf_add_str(out, "/namespaces", err);
    if (r == 0 && space != NULL)
        r = add_segment(out, "namespace", space, err);
    if (r == 0)
        r = pl_buf_addf(out, err, "/%s", resource);
    if (r == 0 && name != NULL)
        r = add_segment(out, "name", name, err);
    if (r == 0 && sub != NULL)
        r = pl_buf_addf(out, err, "/%s", sub);
    if (r == 0 && pl_buf_str(out) == NULL)
        r = pl_err_nomem(err);
    return r;
}

/* Frees the answer; `wipe`: overwrites it first, because it may contain an object that must not stay in
 * memory. */
static void forget_reply(struct pl_kube_call *call, bool wipe)
{
    if (wipe && call->reply.data != NULL)
        explicit_bzero(call->reply.data, call->reply.len);
    pl_kube_call_finish(call);
}

/* ---- creating ---- */

static void create_ended(struct pl_kube_object_create *op)
{
    op->done(op);
}

static void take_uid(struct pl_kube_object_create *op, const json_t *object)
{
    const char *uid = json_string_value(json_object_get(json_object_get(object, "metadata"), "uid"));

    (void)snprintf(op->uid, sizeof(op->uid), "%s", uid != NULL ? uid : "");
}

/* Handles the existing object with the requested name: if its annotation has the hash of the requested
 * object, an earlier attempt created it, and the creation counts as successful. */
static void on_looked(struct pl_kube_object_create *op)
{
    const struct pl_kube_call *call = &op->call_;
    json_t *object = json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL);
    const json_t *meta = json_object_get(object, "metadata");
    const char *hash = json_string_value(json_object_get(json_object_get(meta, "annotations"), PL_KUBE_HASH));

    if (hash != NULL && pl_streq(hash, op->hash)) {
        op->err = (struct pl_err){0};
        op->verdict = PL_KUBE_OK;
        op->made = PL_KUBE_WAS_THERE;
        take_uid(op, object);
    } else {
        (void)pl_err_set(&op->err, PL_EEXISTS, "%s already exists, and is %s", call->path,
                         hash != NULL ? "another version of pipelined's object" : "not pipelined's object");
    }
    json_decref(object);
    create_ended(op);
}

static void post(struct pl_kube_object_create *op);

/* Handles the answer to the POST, or to the GET of the object that has the name. */
static void on_call(struct pl_kube_call *call)
{
    struct pl_kube_object_create *op = call->arg;

    op->err = call->err;
    op->verdict = call->verdict;
    op->status = call->status;
    if (op->looking_ && call->err.code == 0) {
        on_looked(op);
        return;
    }
    if (op->looking_ && call->verdict == PL_KUBE_GONE) { /* deleted meanwhile: the name is free again */
        op->looking_ = false;
        post(op);
        return;
    }
    if (op->looking_ || call->verdict != PL_KUBE_EXISTS || op->dry_run) {
        if (call->err.code == 0) {
            json_t *object = json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL);

            take_uid(op, object);
            json_decref(object);
        }
        create_ended(op);
        return;
    }
    op->looking_ = true;
    forget_reply(call, op->metadata_only);
    pl_buf_clear(&op->path_);
    if (pl_buf_addf(&op->path_, &op->err, "%s/%s", op->collection, op->name) < 0 || pl_buf_str(&op->path_) == NULL) {
        create_ended(op);
        return;
    }
    *call = (struct pl_kube_call){.method = "GET",
                                  .path = (const char *)op->path_.data,
                                  .accept = op->metadata_only ? PL_KUBE_METADATA : NULL,
                                  .tries_ms = op->tries_ms,
                                  .deadline_ms = op->deadline_ms,
                                  .done = on_call,
                                  .arg = op};
    pl_kube_client_start(op->client_, call);
}

/* Sends the POST, with strict field validation: the server refuses unknown fields. */
static void post(struct pl_kube_object_create *op)
{
    forget_reply(&op->call_, op->metadata_only);
    pl_buf_clear(&op->path_);
    if (pl_buf_addf(&op->path_, &op->err, "%s?fieldManager=pipelined&fieldValidation=Strict%s", op->collection,
                    op->dry_run ? "&dryRun=All" : "") < 0 ||
        pl_buf_str(&op->path_) == NULL) {
        op->err.code = PL_ENOMEM;
        create_ended(op);
        return;
    }
    op->call_ = (struct pl_kube_call){.method = "POST",
                                      .path = (const char *)op->path_.data,
                                      .accept = op->metadata_only ? PL_KUBE_METADATA : NULL,
                                      .body = op->body,
                                      .body_len = op->body_len,
                                      .tries_ms = op->tries_ms,
                                      .deadline_ms = op->deadline_ms,
                                      .done = on_call,
                                      .arg = op};
    pl_kube_client_start(op->client_, &op->call_);
}

void pl_kube_object_create_start(struct pl_kube_client *c, struct pl_kube_object_create *op)
{
    op->client_ = c;
    op->err = (struct pl_err){0};
    op->made = PL_KUBE_MADE;
    op->uid[0] = '\0';
    op->looking_ = false;
    post(op);
}

static void create_woke(struct pl_kube_object_create *op)
{
    pl_kube_wake(op->arg);
}

int pl_kube_object_create_run(struct pl_kube_client *c, struct pl_kube_object_create *op)
{
    struct kube_wait w = PL_KUBE_WAIT;

    op->done = create_woke;
    op->arg = &w;
    pl_kube_object_create_start(c, op);
    pl_kube_await(&w);
    return op->err.code;
}

void pl_kube_object_create_finish(struct pl_kube_object_create *op)
{
    forget_reply(&op->call_, op->metadata_only);
    pl_buf_finish(&op->path_);
}

/* ---- deleting ---- */

static void on_deleted(struct pl_kube_call *call)
{
    struct pl_kube_object_delete *op = call->arg;

    op->err = call->err;
    op->was_gone = call->verdict == PL_KUBE_GONE || call->verdict == PL_KUBE_CONFLICT;
    if (op->was_gone) /* CONFLICT: the uid differs, so the name belongs to a newer object, which must stay */
        op->err = (struct pl_err){0};
    op->done(op);
}

void pl_kube_object_delete_start(struct pl_kube_client *c, struct pl_kube_object_delete *op)
{
    char grace[48] = "";
    int r;

    op->err = (struct pl_err){0};
    if (op->grace_s >= 0)
        (void)snprintf(grace, sizeof(grace), "\"gracePeriodSeconds\":%lld,", (long long)op->grace_s);
    pl_buf_clear(&op->body_);
    r = pl_buf_addf(
        &op->body_, &op->err,
        "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",%s\"propagationPolicy\":\"%s\",\"preconditions\":{\"uid\":\"%s\"}}",
        grace, op->propagate != NULL ? op->propagate : "Background", op->uid);
    if (r < 0) {
        op->done(op);
        return;
    }
    op->call_ = (struct pl_kube_call){.method = "DELETE",
                                      .path = op->path,
                                      .later = true,
                                      .accept = op->metadata_only ? PL_KUBE_METADATA : NULL,
                                      .body = (const char *)op->body_.data,
                                      .body_len = op->body_.len,
                                      .deadline_ms = op->deadline_ms,
                                      .done = on_deleted,
                                      .arg = op};
    pl_kube_client_start(c, &op->call_);
}

static void delete_woke(struct pl_kube_object_delete *op)
{
    pl_kube_wake(op->arg);
}

int pl_kube_object_delete_run(struct pl_kube_client *c, struct pl_kube_object_delete *op)
{
    struct kube_wait w = PL_KUBE_WAIT;

    op->done = delete_woke;
    op->arg = &w;
    pl_kube_object_delete_start(c, op);
    pl_kube_await(&w);
    return op->err.code;
}

void pl_kube_object_delete_finish(struct pl_kube_object_delete *op)
{
    forget_reply(&op->call_, op->metadata_only);
    pl_buf_finish(&op->body_);
}
