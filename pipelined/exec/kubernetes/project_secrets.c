/* project_secrets.c: keeps a table of the labelled secrets of the namespace, without their values, and
 * carries out operations on them with blocking requests. Memory that held values is overwritten before it is
 * freed. */
#include "pipelined/exec/kubernetes/project_secrets.h"

#include "pipelined/exec/kubernetes/loop_informer.h"
#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/pod/secret_object.h"
#include "pipelined/text/json_text.h"
#include "storage/base/hash.h"
#include "storage/system/log_line.h"

#include <pthread.h>
#include <stdio.h>

#define KEEP "metadata{labels{" PL_SECRET_LABEL " " PL_SECRET_STORE "}}"
/* number of secrets per page when only their metadata is read. The metadata of one secret may have 256 KiB,
 * because kubectl apply stores the values in an annotation */
#define SEEN_PAGE      50
#define ASK_MS         30000
#define PATH_BYTES     700
#define SELECTOR_BYTES 200
#define COMMAND_BYTES  600
#define MERGE          "application/merge-patch+json"

struct pl_project_secrets {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    char *space, *store;
    bool may_see, may_keep;
    void (*changed)(void *self);
    void *self;
    struct pl_kube_feed *feed;
    pthread_mutex_t lock;
    json_t *known;   /* under `lock`: map of project label → {secret name: null} */
    size_t n;        /* under `lock`: number of secrets in `known`, at most PL_PROJECT_SECRETS_MAX */
    uint64_t number; /* under `lock`: a number that rises with every change of `known` */
};

static const char *name_of(const json_t *object)
{
    return pl_json_str(json_object_get(object, "metadata"), "name");
}

/* ---- the table of known secrets ---- */

/* Removes a secret from the entries of all project labels except `but` (NULL = none), because its label may
 * have changed. Under the lock. */
static bool forget(struct pl_project_secrets *s, const char *name, const char *but)
{
    const char *label;
    json_t *names;
    void *next;
    bool any = false;

    json_object_foreach_safe(s->known, next, label, names)
    {
        if ((but && pl_streq(label, but)) || json_object_del(names, name) < 0)
            continue;
        any = true;
        s->n--;
        if (json_object_size(names) == 0)
            json_object_del(s->known, label);
    }
    return any;
}

static bool remember(struct pl_project_secrets *s, const char *name, const char *label)
{
    json_t *names = json_object_get(s->known, label);

    if (!*label || !*name || s->n >= PL_PROJECT_SECRETS_MAX || json_object_get(names, name))
        return false;
    if (!names && (!(names = json_object()) || json_object_set_new(s->known, label, names) < 0))
        return false;
    if (json_object_set_new(names, name, json_null()) < 0)
        return false;
    s->n++;
    return true;
}

/* Sets the project label under which a secret is known; "" = it belongs to no project. Returns true if the
 * table changed. */
static bool note(struct pl_project_secrets *s, const char *name, const char *label)
{
    bool changed;

    pthread_mutex_lock(&s->lock);
    changed = forget(s, name, label);
    changed = remember(s, name, label) || changed;
    s->number += changed;
    pthread_mutex_unlock(&s->lock);
    return changed;
}

static void on_secret(void *self, enum pl_kube_event e, json_t *object)
{
    struct pl_project_secrets *s = self;

    if (e != PL_KUBE_SYNCED && note(s, name_of(object), e == PL_KUBE_DELETED ? "" : pl_secret_object_label(object, s->store)))
        s->changed(s->self);
}

/* An answer of the API server that may contain values of secrets: every buffer is overwritten before it is
 * freed, also one that became too small. */
struct answer {
    char *text;
    size_t n, cap;
};

static void answer_forget(struct answer *a)
{
    if (a->text)
        explicit_bzero(a->text, a->cap);
    free(a->text);
    *a = (struct answer){0};
}

static int answer_add(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct answer *a = self, grown;

    if (a->n + n > a->cap) {
        if (a->n + n > PL_KUBE_REPLY_MAX)
            return pl_err_set(err, PL_ETOOBIG, "secrets: the API server's answer has more than %u bytes", PL_KUBE_REPLY_MAX);
        grown = (struct answer){.n = a->n, .cap = PL_MAX(2 * a->cap, a->n + n + 16384)};
        grown.text = malloc(grown.cap);
        if (!grown.text)
            return pl_err_nomem(err);
        if (a->n)
            memcpy(grown.text, a->text, a->n);
        answer_forget(a);
        *a = grown;
    }
    memcpy(a->text + a->n, data, n);
    a->n += n;
    return 0;
}

static void answer_restart(void *self)
{
    ((struct answer *)self)->n = 0;
}

/* Gets a JSON object or list from the API server. `accept` selects how much of it: NULL = all. The values of
 * secrets are blanked; their keys stay. */
static int get_json(struct pl_project_secrets *s, const char *path, const char *accept, json_t **ret, struct pl_err *err)
{
    struct answer answer = {0};
    struct pl_kube_call call = {.method = "GET",
                                .path = path,
                                .accept = accept,
                                .deadline_ms = ASK_MS,
                                .write = answer_add,
                                .restart = answer_restart,
                                .write_self = &answer};
    int r = pl_kube_client_run(s->client, &call, err);

    if (r == 0) {
        pl_secret_object_blank(answer.text, answer.n);
        *ret = json_loadb(answer.text ? answer.text : "", answer.n, JSON_ALLOW_NUL, NULL);
        r = *ret ? 0 : pl_err_set(err, PL_EPROTO, "GET %s: the answer is not JSON", path);
    }
    answer_forget(&answer);
    pl_kube_call_finish(&call);
    return r;
}

/* Gets one page of secrets. `more`, a buffer of `n` bytes, contains the continue token of this page and
 * receives that of the next page, "" after the last one. */
static int ask_page(struct pl_project_secrets *s, const char *selector, unsigned limit, const char *accept, char *more, size_t n,
                    json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    int r;

    if (asprintf(&path, "/api/v1/namespaces/%.253s/secrets?limit=%u&labelSelector=%s%s%s", s->space, limit, selector,
                 *more ? "&continue=" : "", more) < 0) {
        path = NULL;
        return pl_err_nomem(err);
    }
    r = get_json(s, path, accept, ret, err);
    if (r == 0)
        snprintf(more, n, "%s", pl_json_str(json_object_get(*ret, "metadata"), "continue"));
    return r;
}

/* Calls `do_one` for the metadata of each selected secret; stops if it returns a negative result. */
static int each(struct pl_project_secrets *s, const char *selector,
                int (*do_one)(void *self, const json_t *object, struct pl_err *err), void *self, struct pl_err *err)
{
    char more[4096] = "";
    int r;

    do {
        _cleanup_(json_decrefp) json_t *page = NULL;
        const json_t *one;
        size_t i;

        r = ask_page(s, selector, SEEN_PAGE, PL_KUBE_METADATA_LIST, more, sizeof more, &page, err);
        json_array_foreach(json_object_get(page, "items"), i, one) r = r < 0 ? r : do_one(self, one, err);
    } while (r == 0 && *more);
    return r;
}

struct learning {
    struct pl_project_secrets *secrets;
    json_t *names; /* names of all listed secrets, as {name: null} */
};

static int learn(void *self, const json_t *object, struct pl_err *err)
{
    struct learning *l = self;

    note(l->secrets, name_of(object), pl_secret_object_label(object, l->secrets->store));
    return json_object_set_new(l->names, name_of(object), json_null()) < 0 ? pl_err_nomem(err) : 0;
}

/* Lists the labelled secrets once, then watches them. A failed listing is only logged, because the watch
 * delivers the secrets later. */
static int follow(struct pl_project_secrets *s, struct pl_err *err)
{
    struct learning all = {.secrets = s, .names = json_object()};
    char path[PATH_BYTES];
    struct pl_loop_informer_config config = {.loop = s->loop,
                                             .client = s->client,
                                             .path = path,
                                             .labels = PL_SECRET_LABEL,
                                             .keep = KEEP,
                                             .metadata_only = true,
                                             .known = all.names,
                                             .event = on_secret,
                                             .self = s};
    struct pl_err why = {0};

    if (!all.names)
        return pl_err_nomem(err);
    snprintf(path, sizeof path, "/api/v1/namespaces/%.253s/secrets", s->space);
    if (each(s, PL_SECRET_LABEL, learn, &all, &why) < 0)
        pl_log_warn("secrets", "%s", why.msg);
    return pl_loop_informer_create(&config, &s->feed, err);
}

int pl_project_secrets_create(const struct pl_project_secrets_config *config, struct pl_project_secrets **ret, struct pl_err *err)
{
    struct pl_project_secrets *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return pl_err_nomem(err);
    *s = (struct pl_project_secrets){.loop = config->loop,
                                     .client = config->client,
                                     .may_see = config->may_see,
                                     .may_keep = config->may_keep,
                                     .changed = config->changed,
                                     .self = config->self,
                                     .number = 1};
    pthread_mutex_init(&s->lock, NULL);
    s->space = strdup(config->space);
    s->store = strdup(config->store);
    s->known = json_object();
    r = s->space && s->store && s->known ? 0 : pl_err_nomem(err);
    r = r == 0 && s->may_see ? follow(s, err) : r;
    if (r < 0) {
        pl_project_secrets_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct pl_project_secrets *pl_project_secrets_destroy(struct pl_project_secrets *s)
{
    if (!s)
        return NULL;
    s->feed = pl_loop_informer_destroy(s->feed);
    json_decref(s->known);
    pthread_mutex_destroy(&s->lock);
    free(s->space);
    free(s->store);
    free(s);
    return NULL;
}

/* Returns the names in one allocation: the array of pointers, followed by the texts. */
static const char **copy_names(const json_t *names, size_t *ret_n)
{
    size_t n = json_object_size(names), bytes = 0, i = 0;
    const char *name, **list;
    json_t *unused;
    char *at;

    json_object_foreach((json_t *)(uintptr_t)names, name, unused) bytes += strlen(name) + 1;
    list = malloc(n * sizeof *list + bytes + 1);
    if (!list)
        return NULL;
    at = (char *)(list + n);
    json_object_foreach((json_t *)(uintptr_t)names, name, unused)
    {
        list[i++] = at;
        at = stpcpy(at, name) + 1;
    }
    *ret_n = n;
    return list;
}

const char **pl_project_secrets_names(struct pl_project_secrets *s, const char *project, size_t *ret_n)
{
    char label[PL_SECRET_LABEL_BYTES];
    const char **list;

    pl_secret_label(project, label);
    pthread_mutex_lock(&s->lock);
    list = copy_names(json_object_get(s->known, label), ret_n);
    pthread_mutex_unlock(&s->lock);
    return list;
}

static bool has(struct pl_project_secrets *s, const char *project, const char *name)
{
    char label[PL_SECRET_LABEL_BYTES];
    bool yes;

    pl_secret_label(project, label);
    pthread_mutex_lock(&s->lock);
    yes = json_object_get(json_object_get(s->known, label), name) != NULL;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

int pl_project_secrets_have(struct pl_project_secrets *s, const char *project, const struct pl_stage *stage, struct pl_err *err)
{
    char label[PL_SECRET_LABEL_BYTES];

    if (stage->n_secrets && !s->may_see)
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "cannot list the secrets of namespace %s, so no stage gets any: allow the daemon's account to list and "
                          "watch them",
                          s->space);
    for (size_t i = 0; i < stage->n_secrets; i++) {
        const struct pl_secret_use *use = &stage->secrets[i];

        if (has(s, project, use->name))
            continue;
        pl_secret_label(project, label);
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "project %s has no secret \"%s\": pipelinectl create secret %s --project %s --file %s=FILE; or, if "
                          "namespace %s has it already: kubectl -n %s label secret %s " PL_SECRET_LABEL "=%s",
                          project, use->name, use->name, project, use->key ? use->key : "KEY", s->space, s->space, use->name,
                          label);
    }
    return 0;
}

uint64_t pl_project_secrets_number(struct pl_project_secrets *s)
{
    uint64_t number;

    pthread_mutex_lock(&s->lock);
    number = s->number;
    pthread_mutex_unlock(&s->lock);
    return number;
}

/* ---- operations ---- */

static void path_of(const struct pl_project_secrets *s, const char *name, char ret[PATH_BYTES])
{
    snprintf(ret, PATH_BYTES, "/api/v1/namespaces/%.253s/secrets%s%.253s", s->space, name ? "/" : "", name ? name : "");
}

static int may_not(const struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    char label[PL_SECRET_LABEL_BYTES];

    pl_secret_label(op->project, label);
    pl_err_set(err, PL_EFORBIDDEN, "the daemon's account may not %s secrets in namespace %s",
               op->what == PL_SECRET_LIST ? "list" : "keep", s->space);
    return pl_err_hint(err, PL_EFORBIDDEN,
                       "Create them with kubectl -n %s create secret generic NAME, and give them the label " PL_SECRET_LABEL
                       "=%s.",
                       s->space, label);
}

static int no_secret(const struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    pl_err_set(err, PL_ENOTFOUND, "secret \"%s\" does not exist in project \"%s\" (namespace %s)", op->name, op->project,
               s->space);
    return pl_err_hint(err, PL_ENOTFOUND, "pipelinectl list secret --project %s", op->project);
}

/* Makes the error for a secret that was labelled for the project by hand, and that the daemon therefore does
 * not change. */
static int lent(const struct pl_project_secrets *s, const struct pl_secret_op *op, int code, struct pl_err *err)
{
    pl_err_set(err, code,
               "secret \"%s\" of namespace %s was labelled for project \"%s\" by hand; change or delete it with kubectl",
               op->name, s->space, op->project);
    return pl_err_hint(err, code,
                       "kubectl -n %s edit secret %s; or have this daemon keep it: kubectl -n %s label secret %s " PL_SECRET_STORE
                       "=%s",
                       s->space, op->name, s->space, op->name, s->store);
}

/* Gets the named secret, as much of it as `accept` selects, and sets *ret_whose to the owner of the
 * secret. */
static int look_at(struct pl_project_secrets *s, const struct pl_secret_op *op, const char *accept, json_t **ret,
                   enum pl_secret_whose *ret_whose, struct pl_err *err)
{
    char path[PATH_BYTES];
    int r;

    path_of(s, op->name, path);
    r = get_json(s, path, accept, ret, err);
    *ret_whose = r < 0 ? PL_SECRET_OTHERS : pl_secret_object_whose(*ret, op->project, s->store);
    return r;
}

/* Gets a secret that is to be changed or deleted; fails unless this daemon manages it for the project. */
static int get_own(struct pl_project_secrets *s, const struct pl_secret_op *op, const char *accept, json_t **ret,
                   struct pl_err *err)
{
    enum pl_secret_whose whose;
    int r = look_at(s, op, accept, ret, &whose, err);

    if (r == PL_ENOTFOUND || (r == 0 && whose == PL_SECRET_OTHERS))
        return no_secret(s, op, err);
    return r == 0 && whose == PL_SECRET_LENT ? lent(s, op, PL_EFORBIDDEN, err) : r;
}

static void forget_text(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* Makes the error for a name that is in use; the text of the error depends on the owner of the secret that
 * has the name. */
static int taken(struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *there = NULL;
    enum pl_secret_whose whose;

    (void)!look_at(s, op, PL_KUBE_METADATA, &there, &whose, NULL);
    if (whose == PL_SECRET_LENT)
        return lent(s, op, PL_EEXISTS, err);
    if (whose == PL_SECRET_OWN) {
        pl_err_set(err, PL_EEXISTS, "secret \"%s\" already exists in project \"%s\"", op->name, op->project);
        return pl_err_hint(err, PL_EEXISTS, "pipelinectl update secret %s --project %s changes its keys.", op->name, op->project);
    }
    pl_err_set(err, PL_EEXISTS, "namespace %s has a secret \"%s\" that does not belong to project \"%s\"", s->space, op->name,
               op->project);
    return pl_err_hint(err, PL_EEXISTS, "Projects share the names of their namespace: choose another name.");
}

/* Adds a random annotation, by which a repeated create request recognises the object that the first request
 * made. The annotation reveals nothing about the secret's values. */
static void add_mark(json_t *object, char mark[33])
{
    uint8_t bytes[16];

    pl_random_bytes(bytes, sizeof bytes);
    pl_hex_encode(bytes, sizeof bytes, mark);
    (void)json_object_set_new(json_object_get(object, "metadata"), "annotations", json_pack("{s:s}", PL_KUBE_HASH, mark));
}

/* Creates the secret in the cluster; the text that holds its values is overwritten afterwards. */
static int create(struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *object = pl_secret_object(op, s->space, s->store);
    struct pl_kube_object_create make = {.name = op->name, .metadata_only = true};
    char path[PATH_BYTES], mark[33], *text;
    _cleanup_free_ const char **names = NULL;
    size_t n = 0;
    int r;

    names = pl_project_secrets_names(s, op->project, &n);
    if (!object || !names)
        return pl_err_nomem(err);
    if (n >= PL_SECRETS_MAX)
        return pl_err_set(err, PL_ELIMIT, "project %s has %zu secrets, the maximum", op->project, n);
    path_of(s, NULL, path);
    add_mark(object, mark);
    text = json_dumps(object, JSON_COMPACT);
    if (!text)
        return pl_err_nomem(err);
    make.collection = path;
    make.hash = mark;
    make.body = text;
    make.body_len = strlen(text);
    r = pl_kube_object_create_run(s->client, &make);
    if (r < 0 && err)
        *err = make.err;
    pl_kube_object_create_finish(&make);
    forget_text(text);
    if (r == PL_EEXISTS)
        r = taken(s, op, err);
    return r;
}

/* Sets the operation's keys in the existing secret `there`; the text that holds the values is overwritten
 * afterwards. */
static int set_keys(struct pl_project_secrets *s, const struct pl_secret_op *op, const json_t *there, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *patch = pl_secret_object_patch(op);
    struct pl_kube_call call = {.method = "PATCH", .content_type = MERGE, .accept = PL_KUBE_METADATA};
    char path[PATH_BYTES], *text;
    int r;

    /* with the uid in it, the patch fails if the secret was replaced in the meantime */
    json_object_set_new(patch, "metadata", json_pack("{s:s}", "uid", pl_json_str(json_object_get(there, "metadata"), "uid")));
    text = json_dumps(patch, JSON_COMPACT);
    if (!text)
        return pl_err_nomem(err);
    path_of(s, op->name, path);
    call.path = path;
    call.body = text;
    call.body_len = strlen(text);
    r = pl_kube_client_run(s->client, &call, err);
    if (call.reply.data)
        explicit_bzero(call.reply.data, call.reply.len);
    pl_kube_call_finish(&call);
    forget_text(text);
    return r;
}

static int update(struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *there = NULL, *all = json_object();
    int r = get_own(s, op, NULL, &there, err);

    if (r < 0)
        return r;
    (void)json_object_update(all, json_object_get(there, "data"));
    (void)json_object_update(all, (json_t *)(uintptr_t)op->values);
    if (json_object_size(all) > PL_SECRET_KEYS_MAX)
        return pl_err_set(err, PL_ELIMIT, "secret %s would have %zu keys: at most %u are allowed", op->name,
                          json_object_size(all), PL_SECRET_KEYS_MAX);
    return set_keys(s, op, there, err);
}

/* Reads the values also of secrets that the daemon does not manage: the project's stages may use them, too. */
static int read_values(struct pl_project_secrets *s, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *there = NULL;
    enum pl_secret_whose whose;
    int r = look_at(s, op, NULL, &there, &whose, err);

    if (r == PL_ENOTFOUND || (r == 0 && whose == PL_SECRET_OTHERS))
        return no_secret(s, op, err);
    if (r == 0 && !(*ret = json_deep_copy(json_object_get(there, "data"))))
        r = (*ret = json_object()) ? 0 : pl_err_nomem(err);
    pl_secret_values_erase(json_object_get(there, "data"));
    return r;
}

static int delete_object(struct pl_project_secrets *s, const json_t *object, struct pl_err *err)
{
    char path[PATH_BYTES];
    struct pl_kube_object_delete remove = {
        .path = path, .uid = pl_json_str(json_object_get(object, "metadata"), "uid"), .grace_s = -1, .metadata_only = true};
    int r;

    path_of(s, name_of(object), path);
    r = pl_kube_object_delete_run(s->client, &remove);
    if (r < 0 && err)
        *err = remove.err;
    pl_kube_object_delete_finish(&remove);
    if (r == 0)
        note(s, name_of(object), "");
    return r;
}

static int delete_one(struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *there = NULL;
    int r = get_own(s, op, PL_KUBE_METADATA, &there, err);

    return r < 0 ? r : delete_object(s, there, err);
}

static void selector_of(const char *project, char *ret, size_t n)
{
    char label[PL_SECRET_LABEL_BYTES];

    pl_secret_label(project, label);
    snprintf(ret, n, PL_SECRET_LABEL "=%s", label);
}

/* Collects the names of the project's secrets that are not deleted, separately those that this daemon manages
 * (`own`) and those labelled by hand (`lent`). */
struct staying {
    struct pl_project_secrets *secrets;
    const char *project;
    struct names {
        struct pl_buf text;
        size_t n;
    } own, lent;
};

static void add_name(struct names *names, const json_t *object)
{
    pl_secret_names_add(&names->text, names->n++, name_of(object));
}

static const char *names_text(struct names *names)
{
    const char *text = pl_buf_str(&names->text);

    return text ? text : "";
}

static void staying_finish(struct staying *stay)
{
    pl_buf_finish(&stay->own.text);
    pl_buf_finish(&stay->lent.text);
}

static int leave(void *self, const json_t *object, struct pl_err *err)
{
    struct staying *stay = self;
    const enum pl_secret_whose whose = pl_secret_object_whose(object, stay->project, stay->secrets->store);

    (void)err;
    if (whose != PL_SECRET_OTHERS)
        add_name(whose == PL_SECRET_OWN ? &stay->own : &stay->lent, object);
    return 0;
}

static int remove_or_leave(void *self, const json_t *object, struct pl_err *err)
{
    struct staying *stay = self;
    struct pl_project_secrets *s = stay->secrets;

    return s->may_keep && pl_secret_object_whose(object, stay->project, s->store) == PL_SECRET_OWN ? delete_object(s, object, err)
                                                                                                   : leave(self, object, err);
}

/* Writes the command that the user must run: it deletes the secrets that this daemon manages, or removes the
 * project's label from those labelled by hand. */
static void own_command(const struct pl_project_secrets *s, const char *project, char *ret, size_t n)
{
    char label[PL_SECRET_LABEL_BYTES];

    pl_secret_label(project, label);
    snprintf(ret, n, "kubectl -n %s delete secret -l " PL_SECRET_LABEL "=%s," PL_SECRET_STORE "=%s", s->space, label, s->store);
}

static void lent_command(const struct pl_project_secrets *s, const char *project, char *ret, size_t n)
{
    char label[PL_SECRET_LABEL_BYTES];

    pl_secret_label(project, label);
    snprintf(ret, n, "kubectl -n %s label secret -l '" PL_SECRET_LABEL "=%s,!" PL_SECRET_STORE "' " PL_SECRET_LABEL "-", s->space,
             label);
}

/* Returns sentences about the secrets that remain after their project was deleted. */
static json_t *say_stay(const struct pl_project_secrets *s, struct staying *stay)
{
    static const char again[] = "They prevent a new project of that name until you run";
    char own[COMMAND_BYTES], lent[COMMAND_BYTES];
    json_t *says = json_array();

    own_command(s, stay->project, own, sizeof own);
    lent_command(s, stay->project, lent, sizeof lent);
    if (!s->may_see)
        json_array_append_new(says,
                              json_sprintf("cannot check whether namespace %s has secrets of project %s: the daemon's account "
                                           "may not list and watch them",
                                           s->space, stay->project));
    if (stay->own.n)
        json_array_append_new(
            says, json_sprintf("the daemon's account may not delete secrets, so these of project %s remain: %s. %s: %s",
                               stay->project, names_text(&stay->own), again, own));
    if (stay->lent.n)
        json_array_append_new(says, json_sprintf("these secrets were labelled for project %s by hand and remain: %s. %s: %s",
                                                 stay->project, names_text(&stay->lent), again, lent));
    return says;
}

/* Deletes all secrets of a project that is being deleted. */
static int delete_all(struct pl_project_secrets *s, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    struct staying stay = {.secrets = s, .project = op->project};
    char selector[SELECTOR_BYTES], own[COMMAND_BYTES];
    int r;

    selector_of(op->project, selector, sizeof selector);
    r = s->may_see ? each(s, selector, remove_or_leave, &stay, err) : 0;
    if (r < 0) {
        own_command(s, op->project, own, sizeof own);
        pl_err_wrap(err, r, "project %s was not deleted, because its secrets cannot be deleted", op->project);
        pl_err_hint(err, r, "%s; then delete the project again", own);
    } else {
        *ret = say_stay(s, &stay);
    }
    staying_finish(&stay);
    return r;
}

static int say_there(const struct pl_project_secrets *s, struct staying *stay, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf says = {0};
    char command[COMMAND_BYTES];
    const char *text;

    own_command(s, stay->project, command, sizeof command);
    if (stay->own.n)
        (void)!pl_buf_addf(&says, NULL, "; %s removes %s", command, names_text(&stay->own));
    lent_command(s, stay->project, command, sizeof command);
    if (stay->lent.n)
        (void)!pl_buf_addf(&says, NULL, "; %s releases these, which were labelled by hand: %s", command, names_text(&stay->lent));
    text = pl_buf_str(&says);
    pl_err_set(err, PL_EINUSE, "namespace %s already has secrets for a project \"%s\"%s", s->space, stay->project,
               text ? text : "");
    return pl_err_hint(err, PL_EINUSE,
                       "Run these commands, or take the secrets over: pipelinectl create project %s --with-secrets",
                       stay->project);
}

/* Fails if there already are secrets for the project that is to be created. If the daemon may not list
 * secrets, no stage gets any, so no check is needed. */
static int none(struct pl_project_secrets *s, const struct pl_secret_op *op, struct pl_err *err)
{
    struct staying stay = {.secrets = s, .project = op->project};
    char selector[SELECTOR_BYTES];
    int r;

    selector_of(op->project, selector, sizeof selector);
    r = s->may_see ? each(s, selector, leave, &stay, err) : 0;
    if (r == 0 && stay.own.n + stay.lent.n > 0)
        r = say_there(s, &stay, err);
    staying_finish(&stay);
    return r;
}

static int list(struct pl_project_secrets *s, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = json_array();
    char more[4096] = "", selector[SELECTOR_BYTES];
    int r;

    selector_of(op->project, selector, sizeof selector);
    do {
        _cleanup_(json_decrefp) json_t *page = NULL, *part = NULL;

        r = ask_page(s, selector, PL_PROJECT_SECRETS_PAGE, NULL, more, sizeof more, &page, err);
        part = r < 0 ? NULL : pl_secret_object_list(json_object_get(page, "items"), op->project, s->store);
        if (r == 0 && (!part || json_array_extend(all, part) < 0))
            r = pl_err_nomem(err);
    } while (r == 0 && *more);
    if (r == 0)
        *ret = json_incref(all); /* the API server sorts all pages by name */
    return r;
}

int pl_project_secrets_carry_out(struct pl_project_secrets *s, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    char label[PL_SECRET_LABEL_BYTES];
    int r;

    if (op->what == PL_SECRET_NONE)
        return none(s, op, err);
    if (op->what == PL_SECRET_DELETE && !op->name)
        return delete_all(s, op, ret, err);
    if (op->what == PL_SECRET_LIST ? !s->may_see : !s->may_keep)
        return may_not(s, op, err);
    switch (op->what) {
    case PL_SECRET_LIST:
        return list(s, op, ret, err);
    case PL_SECRET_CREATE:
        pl_secret_label(op->project, label);
        r = create(s, op, err);
        if (r == 0)
            /* a stage that is started next may use the secret before the watch reports it */
            note(s, op->name, label);
        return r;
    case PL_SECRET_UPDATE:
        return update(s, op, err);
    case PL_SECRET_READ:
        return read_values(s, op, ret, err);
    default:
        return delete_one(s, op, err);
    }
}
