/* worker_pod.c: the steps of one worker's pod (see the diagram in worker_pod.h): creates the pod and its
 * claim template, parks the pod and tries again, deletes it, and reports what its state means. At most one
 * request per pod is in progress; its callback runs on the loop. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdio.h>

struct kpod *pl_worker_pod_new(struct kube *k, uint64_t id)
{
    struct kpod *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->kube = k;
    p->loop = k->loop;
    p->id = id;
    p->made_ms = p->waits_ms = pl_clock_mono_ms();
    if (id && pl_map_put(&k->pods, &id, sizeof id, p, NULL, NULL) < 0) {
        free(p);
        return NULL;
    }
    return p;
}

/* Removes the pod from the list of parked pods. */
static void unpark(struct kpod *p)
{
    if (p->step != KPOD_PARKED)
        return;
    TAILQ_REMOVE(&p->kube->parked, p, parked_link);
    p->step = KPOD_MAKING;
}

static void leave_maps(struct kpod *p)
{
    struct kube *k = p->kube;

    unpark(p);
    pl_worker_pod_leave_turns(p);
    p->image_wait = pl_image_wait_unref(&k->image_waits, p->image_wait);
    if (p->id && pl_map_get(&k->pods, &p->id, sizeof p->id) == p)
        pl_map_remove(&k->pods, &p->id, sizeof p->id);
    if (p->uid[0] && pl_map_get(&k->by_uid, p->uid, strlen(p->uid)) == p)
        pl_map_remove(&k->by_uid, p->uid, strlen(p->uid));
}

static void making_free(struct kpod *p)
{
    struct kpod_making *m = TAKE_PTR(p->making);

    if (!m)
        return;
    pl_kube_object_create_finish(&m->op);
    free(m->text);
    free(m->path);
    free(m);
}

static void removal_free(struct kpod *p)
{
    struct kpod_removal *m = TAKE_PTR(p->removal);

    if (m)
        pl_kube_object_delete_finish(&m->op);
    free(m);
}

static void destroy(struct kpod *p)
{
    json_decref(p->object);
    json_decref(p->events);
    json_decref(p->body);
    json_decref(p->claim);
    free(p->order);
    free(p->node);
    free(p->queue_says);
    making_free(p);
    removal_free(p);
    free(p);
}

/* Returns true while a callback of the pod is still pending. */
static bool is_busy(const struct kpod *p)
{
    return p->making || p->removal || p->leaving;
}

void pl_worker_pod_free(struct kpod *p)
{
    leave_maps(p);
    pl_pod_shape_take(p, NULL);
    if (is_busy(p))
        p->kube = NULL; /* the pending callback frees it */
    else
        destroy(p);
}

static void know_uid(struct kpod *p, const char *uid)
{
    if (p->uid[0] || !*uid)
        return;
    snprintf(p->uid, sizeof p->uid, "%s", uid);
    /* without memory the pod's events cannot be matched to it */
    (void)!pl_map_put(&p->kube->by_uid, p->uid, strlen(p->uid), p, NULL, NULL);
}

static void report(struct kpod *p, const char *text, bool hopeless, bool counts)
{
    struct kube *k = p->kube;

    pl_pod_shape_take(p, NULL);
    if (p->reported || !p->id)
        return;
    p->reported = true;
    k->events.exited(k->events.self, p->id,
                     &(struct pl_executor_end){.text = text, .hopeless = hopeless, .counts = counts, .exit = p->exit});
}

/* ---- making a pod ---- */

static void on_made(void *arg);

static void made(struct pl_kube_object_create *op)
{
    struct kpod *p = op->arg;

    pl_loop_post_work(p->loop, &p->work, "kube.made", on_made, p);
}

/* Adds the annotation by which an object that exists already is recognised as the one that this request
 * creates. */
static void add_hash(struct kpod *p, const json_t *object, json_t *metadata)
{
    _cleanup_free_ char *spec = NULL;
    json_t *annotations = json_object_get(metadata, "annotations");

    if (!annotations && json_object_set_new(metadata, "annotations", json_object()) == 0)
        annotations = json_object_get(metadata, "annotations");
    if (p->step == KPOD_MAKING_CLAIM) { /* pods with the same claim share one template: hash its content only */
        spec = json_dumps(json_object_get(object, "spec"), JSON_COMPACT | JSON_SORT_KEYS);
        json_object_set_new(annotations, PL_KUBE_HASH, json_sprintf("%016" PRIx64, spec ? pl_xxh64(spec, strlen(spec), 0) : 0));
    } else {
        json_object_set_new(annotations, PL_KUBE_HASH, json_sprintf("%" PRIu64, p->id));
        if (p->shape && p->shape->needs) /* the next daemon reads this annotation when it adopts the pod */
            json_object_set_new(annotations, PL_POD_NEEDS, json_sprintf("%016" PRIx64, p->shape->needs));
    }
}

/* Starts the request that creates the object. Takes ownership of `path`. PL_ENOMEM. */
static int send(struct kpod *p, char *path, const json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    struct kpod_making *m = calloc(1, sizeof *m);

    if (!m) {
        free(path);
        return PL_ENOMEM;
    }
    add_hash(p, object, metadata);
    p->making = m;
    m->path = path;
    m->text = json_dumps(object, JSON_COMPACT);
    snprintf(m->name, sizeof m->name, "%s", pl_json_str(metadata, "name"));
    snprintf(m->hash, sizeof m->hash, "%s", pl_json_str(json_object_get(metadata, "annotations"), PL_KUBE_HASH));
    m->op = (struct pl_kube_object_create){.collection = path,
                                           .name = m->name,
                                           .hash = m->hash,
                                           .body = m->text,
                                           .body_len = m->text ? strlen(m->text) : 0,
                                           .tries_ms = PL_POD_TRIES_MS,
                                           .done = made,
                                           .arg = p};
    if (!path || !m->text) {
        making_free(p);
        return PL_ENOMEM;
    }
    /* from here on the text of the object suffices: the JSON objects of thousands of waiting pods would take
     * ten times the memory */
    if (p->step == KPOD_MAKING)
        p->body = (json_decref(p->body), NULL);
    pl_kube_object_create_start(p->kube->client, &m->op);
    return 0;
}

int pl_worker_pod_order(struct kpod *p, const struct pl_worker_spec *spec, struct pl_err *err)
{
    size_t n = strlen(spec->token) + 1;
    char *at;

    for (size_t i = 0; i < spec->n_avoid; i++)
        n += strlen(spec->avoid[i]) + 1;
    p->order = malloc(sizeof *p->order + n);
    if (!p->order)
        return pl_err_nomem(err);
    p->order->spec = *spec;
    p->order->spec.avoid = p->order->avoid;
    p->order->spec.token = p->order->texts;
    at = stpcpy(p->order->texts, spec->token) + 1;
    for (size_t i = 0; i < spec->n_avoid; i++) {
        p->order->avoid[i] = at;
        at = stpcpy(at, spec->avoid[i]) + 1;
    }
    p->memory_bytes = spec->def->resources.memory_bytes;
    return 0;
}

/* Returns true if the facts about the cluster have changed since the pod was rendered, so that a new
 * rendering may differ. */
static bool is_outdated(struct kpod *p)
{
    return p->order && p->facts != pl_kube_facts_of(p->kube, p->order->spec.project);
}

/* Returns the shape of the stage's pods that have no nodes to avoid and no disk space for inputs. Returns
 * NULL if the pod in `spec` is such a pod, because then its own shape is that shape. Clears the list of nodes
 * to avoid if no other node can take the pod. */
static struct kshape *avoiding(struct kube *k, struct pl_worker_spec *spec)
{
    const bool differs = spec->n_avoid > 0 || spec->input_bytes > 0;
    struct kshape *s = differs ? pl_pod_shape_of(k, spec->project, spec->def, spec->version, spec->gpu) : NULL;

    if (s && spec->n_avoid > 0 && !s->queued &&
        !pl_node_capacity_has_beside(pl_cluster_offer(k->cluster), &s->request, spec->avoid, spec->n_avoid))
        spec->n_avoid = 0;
    return s;
}

/* Renders the pod and its claim template by the current facts, and assigns the pod's shape. */
static int render(struct kpod *p, struct pl_err *err)
{
    struct kube *k = p->kube;
    const uint64_t facts = pl_kube_facts_of(k, p->order->spec.project);
    struct pl_worker_spec spec = p->order->spec;
    struct kshape *shape = avoiding(k, &spec);
    struct pl_pod pod = {0};
    int r = pl_kube_render(k, &spec, shape, &pod, err);

    if (r < 0)
        return r;
    pl_pod_shape_take(p, shape ? shape : pl_pod_shape_of_pod(k, &spec, &pod));
    pl_pod_shape_pending(p, true);
    json_decref(p->body);
    json_decref(p->claim);
    p->body = TAKE_PTR(pod.pod);
    p->claim = TAKE_PTR(pod.claim_template);
    p->facts = facts;
    snprintf(p->name, sizeof p->name, "%s", pod.name);
    pl_pod_finish(&pod);
    return 0;
}

/* Puts the pod into the list of parked pods. The pause doubles with each time in a row. */
static void hold(struct kpod *p, enum pl_kube_verdict verdict)
{
    p->step = KPOD_PARKED;
    p->parked_by = verdict;
    p->retry_ms = pl_clock_mono_ms() + PL_MIN(PL_POD_RETRY_MAX_MS, (int64_t)PL_POD_RETRY_MIN_MS << PL_MIN(p->parked, 6u));
    p->parked++;
    TAILQ_INSERT_TAIL(&p->kube->parked, p, parked_link);
}

int pl_worker_pod_make(struct kpod *p, struct pl_err *err)
{
    struct kube *k = p->kube;
    char *path;
    int r = p->order && (!p->body || is_outdated(p)) ? render(p, err) : 0;

    if (r < 0)
        return r;
    if (!pl_kube_is_owner(k)) {
        hold(p, PL_KUBE_AGAIN);
        return 0;
    }
    p->step = p->claim ? KPOD_MAKING_CLAIM : KPOD_MAKING;
    if (!p->claim)
        path = strdup(k->pods_path);
    else if (asprintf(&path, "/apis/resource.k8s.io/%s/namespaces/%s/resourceclaimtemplates", pl_cluster_facts(k->cluster)->dra,
                      k->space) < 0)
        path = NULL;
    return send(p, path, p->claim ? p->claim : p->body) < 0 ? pl_err_nomem(err) : 0;
}

static void failed_to_make(struct kpod *p, const struct pl_err *err, bool hopeless)
{
    p->step = KPOD_THERE;
    report(p, err->msg, hopeless, false);
    pl_worker_pod_free(p);
}

/* Called when the claim template exists: creates the pod. */
static void on_claim(struct kpod *p)
{
    struct pl_err err = {0};

    p->claim = (json_decref(p->claim), NULL);
    if (p->stop)
        (void)pl_err_set(&err, PL_ECANCELED, "it was stopped before its pod was created");
    else if (pl_worker_pod_make(p, &err) == 0)
        return;
    failed_to_make(p, &err, false);
}

/* ---- pods that cannot be made now ---- */

/* Returns true if the refusal may be temporary, so that the request should be retried. */
static bool passes(enum pl_kube_verdict v)
{
    return v == PL_KUBE_AGAIN || v == PL_KUBE_LOGIN || v == PL_KUBE_PARK || v == PL_KUBE_GONE || v == PL_KUBE_ENDING ||
           v == PL_KUBE_DENIED ||
           /* two requests changed a quota at the same time; if the name of the object is in use, the result
            * is PL_KUBE_EXISTS instead */
           v == PL_KUBE_CONFLICT;
}

/* Returns true if the pod was refused because its namespace does not exist or is being deleted. */
static bool is_of_namespace(enum pl_kube_verdict v)
{
    return v == PL_KUBE_GONE || v == PL_KUBE_ENDING;
}

/* Parks the pod until a retry, and reports why it waits. */
static void park(struct kpod *p, enum pl_kube_verdict verdict, const struct pl_err *err)
{
    struct kube *k = p->kube;
    char why[PL_POD_WHY_BYTES];

    hold(p, verdict);
    if (is_of_namespace(verdict))
        pl_owner_object_recheck(k);
    if (verdict == PL_KUBE_PARK)
        pl_cluster_look_at_limits(k->cluster); /* the quotas that refused the pod may have changed */
    snprintf(why, sizeof why, "%.400s%s%.200s", err->msg, err->hint[0] ? ": " : "", err->hint);
    if (pl_streq(why, p->why))
        return;
    snprintf(p->why, sizeof p->why, "%s", why);
    k->events.waits(k->events.self, p->id, p->why);
}

/* Tries to create a parked pod again, rendered by the current facts. If the stage cannot be rendered as a pod
 * any more, the worker ends; this end does not make its job fail. */
static void make_again(struct kpod *p, enum pl_kube_verdict verdict)
{
    struct pl_err err = {0};
    int r;

    unpark(p);
    r = pl_worker_pod_make(p, &err);
    if (r == PL_ENOMEM)
        park(p, verdict, &err);
    else if (r < 0)
        failed_to_make(p, &err, false);
}

/* Retries the parked pods whose pause is over. With `room`, also retries one pod that a quota refused; with
 * `others`, also retries all pods that were refused for other reasons. Pods that this call parks again are
 * not retried. */
static void make_all_again(struct kube *k, int64_t now_ms, bool room, bool others)
{
    const struct kpod *last = TAILQ_LAST(&k->parked, kpod_list);
    struct kpod *p, *next;

    if (!pl_kube_is_owner(k))
        return;
    for (p = TAILQ_FIRST(&k->parked); p; p = next) {
        const bool by_room = p->parked_by == PL_KUBE_PARK;

        next = p == last ? NULL : TAILQ_NEXT(p, parked_link);
        if (p->leaving || (k->owner_doubt && is_of_namespace(p->parked_by)) ||
            (p->retry_ms > now_ms && !(by_room ? room : others)))
            continue;
        make_again(p, p->parked_by);
        /* only one pod per call: if the quota accepts this pod, the next pod is tried after that */
        room = room && !by_room;
    }
}

void pl_worker_pods_tick_blocked(struct kube *k)
{
    make_all_again(k, pl_clock_mono_ms(), false, false);
}

void pl_worker_pods_try_room(struct kube *k)
{
    make_all_again(k, INT64_MIN, true, false);
}

void pl_worker_pods_try_all(struct kube *k)
{
    make_all_again(k, INT64_MIN, false, true);
}

/* Called after a parked pod was created: the obstacle is gone for other parked pods too, so these are
 * retried. */
static void tell_parked(struct kpod *p)
{
    if (p->parked == 0)
        return;
    p->parked = 0;
    p->kube->outage.granted = p->kube->outage.granted || pl_kube_is_right(p->parked_by);
    if (p->parked_by == PL_KUBE_PARK)
        pl_worker_pods_try_room(p->kube);
    else
        pl_worker_pods_try_all(p->kube);
}

/* Ends a parked worker that was told to stop. If its pod was created after all, the pod is deleted. */
static void on_left(void *arg)
{
    struct kpod *p = arg;

    p->leaving = false;
    if (!p->kube) {
        destroy(p);
        return;
    }
    report(p, "it was stopped before its pod was created", false, false);
    if (!p->uid[0]) {
        pl_worker_pod_free(p);
        return;
    }
    /* the pod exists: its creation was reported as failed but had succeeded, and the watch has seen the
     * pod */
    unpark(p);
    p->step = KPOD_GOING;
    pl_worker_pod_delete(p, p->kill);
}

/* ---- the end of making a pod ---- */

/* Returns false if the facts have changed in the meantime so that the pod would no longer be created, for
 * example because its project lost a secret that the pod uses. */
static bool may_stay(struct kpod *p, struct pl_err *err)
{
    struct pl_pod pod = {0};
    int r = is_outdated(p) ? pl_kube_render(p->kube, &p->order->spec, NULL, &pod, err) : 0;

    pl_pod_finish(&pod);
    return r == 0 || r == PL_ENOMEM;
}

/* Called when the pod exists: keeps it, or deletes it if it would no longer be created. */
static void is_there(struct kpod *p)
{
    struct pl_err err = {0};
    const bool stays = may_stay(p, &err);

    p->step = stays ? KPOD_THERE : KPOD_GOING;
    p->made_ms = pl_clock_mono_ms();
    p->body = (json_decref(p->body), NULL);
    free(TAKE_PTR(p->order));
    tell_parked(p);
    if (!stays) {
        p->kill = true;
        report(p, err.msg, false, false);
    }
    pl_worker_pod_tick(p);
}

/* Adds to a refusal what pipelined's own containers have to do with it, if they have. */
static void explain(const struct kpod *p, struct pl_err *err)
{
    char own[PL_CLUSTER_OWN_LIMITS_BYTES] = "", words[300];

    if (p->shape && p->shape->pod)
        pl_cluster_own_limits(p->kube->cluster, p->shape->pod, own);
    if (!*own)
        return;
    snprintf(words, sizeof words, "%.290s", err->msg);
    pl_err_set(err, err->code, "%s (%s)", own, words);
}

/* Handles the end of a request that creates an object: creates the next object, retries, or ends the
 * worker. */
static void on_made(void *arg)
{
    struct kpod *p = arg;
    struct pl_err err = p->making->op.err;
    const enum pl_kube_verdict verdict = p->making->op.verdict;

    if (p->kube && err.code == 0 && p->step == KPOD_MAKING)
        know_uid(p, p->making->op.uid);
    making_free(p);
    if (p->kube && (verdict == PL_KUBE_REFUSED || verdict == PL_KUBE_PARK))
        explain(p, &err);
    if (!p->kube)
        destroy(p);
    /* `seen`: the pod exists although the answer to its creation was lost */
    else if (p->step == KPOD_MAKING && (err.code == 0 || p->seen))
        is_there(p);
    else if (err.code == 0)
        on_claim(p);
    else if (passes(verdict) && !p->stop)
        park(p, verdict, &err);
    else if (verdict == PL_KUBE_REFUSED && !p->stop && is_outdated(p))
        make_again(p, verdict); /* the refused object is outdated: create the current one */
    else
        failed_to_make(p, &err, verdict == PL_KUBE_REFUSED);
}

/* ---- deleting a pod ---- */

static void on_deleted(void *arg)
{
    struct kpod *p = arg;
    const struct pl_err err = p->removal->op.err;
    const bool was_gone = p->removal->op.was_gone;

    removal_free(p);
    if (!p->kube) {
        destroy(p);
    } else if (err.code < 0) {
        pl_log_warn("kubernetes", "cannot delete pod %s: %s", p->name, err.msg);
        p->asked = KPOD_ASKED_NOTHING; /* the next timer tick sends the deletion again */
    } else if (was_gone) {
        pl_worker_pod_gone(p, "its pod no longer exists");
    } else if (p->kill) {
        pl_worker_pod_delete(p, true); /* if the accepted request was a graceful one, send the kill now */
    }
}

static void deleted(struct pl_kube_object_delete *op)
{
    struct kpod *p = op->arg;

    pl_loop_post_work(p->loop, &p->work, "kube.deleted", on_deleted, p);
}

/* Sends the request to delete the pod, unless a request is in progress, the pod's uid is unknown, the same
 * request was already sent, or another daemon may have taken over the store. */
void pl_worker_pod_delete(struct kpod *p, bool kill)
{
    struct kpod_removal *m;

    p->stop = true;
    p->kill = p->kill || kill;
    if (p->step == KPOD_PARKED && !p->leaving) {
        p->leaving = true; /* on_left reports the end in a later loop turn, not within the caller's call */
        pl_loop_post_work(p->loop, &p->work, "kube.left", on_left, p);
    }
    if (is_busy(p) || !p->uid[0] || p->asked >= (p->kill ? KPOD_KILLED : KPOD_ASKED_TO_END))
        return; /* a callback or the next timer tick repeats the call, or the request was already sent */
    if (!pl_kube_is_owner(p->kube))
        return; /* the next timer tick repeats the call */
    m = calloc(1, sizeof *m);
    if (!m)
        return; /* no memory: the next timer tick tries again */
    snprintf(m->path, sizeof m->path, "%s/%s", p->kube->pods_path, p->name);
    m->op =
        (struct pl_kube_object_delete){.path = m->path, .uid = p->uid, .grace_s = p->kill ? 1 : -1, .done = deleted, .arg = p};
    p->removal = m;
    p->asked = p->kill ? KPOD_KILLED : KPOD_ASKED_TO_END;
    pl_kube_object_delete_start(p->kube->client, &m->op);
}

void pl_worker_pod_gone(struct kpod *p, const char *text)
{
    if (!p->stop)
        p->exit = p->adopted && !p->seen ? PL_SCHED_EXIT_UNMADE : PL_SCHED_EXIT_DISRUPTED;
    pl_worker_pod_note_gone(p);
    report(p, text, false, false);
    pl_worker_pod_free(p);
}

/* ---- states of a pod ---- */

/* Reports the pod's image once. Some nodes report a container as running before they know its image. */
static void tell_image(struct kpod *p, const struct pl_pod_state *st)
{
    if (!st->image || p->image_told || !p->id || !p->kube->events.image)
        return;
    p->image_told = true;
    p->kube->events.image(p->kube->events.self, p->id, st->image);
}

static void end(struct kpod *p, const struct pl_pod_state *st)
{
    const char *text = st->why[0] ? st->why : "its pod has ended";

    tell_image(p, st);
    if (st->deleted && !p->stop) /* something else deleted the pod, possibly by deleting the owner object */
        pl_owner_object_recheck(p->kube);
    if (st->disrupted && !p->stop)
        p->exit = PL_SCHED_EXIT_DISRUPTED;
    report(p, text, st->verdict == PL_POD_GIVEN_UP, st->verdict == PL_POD_FAILED);
    p->step = KPOD_GOING;
    pl_worker_pod_delete(p, false);
}

/* Reports the pod's node, and that its containers run, when either is new. */
static void tell_place(struct kpod *p, const struct pl_pod_state *st)
{
    struct kube *k = p->kube;
    const bool up = st->verdict == PL_POD_RUNS, news = (st->bound && !p->bound) || (up && !p->up);

    if (st->bound && !p->bound && p->shape && (!p->adopted || p->waited))
        pl_pending_pod_limit_bound(&p->shape->ramp, pl_clock_mono_ms());
    p->bound = p->bound || st->bound;
    if (up)
        tell_image(p, st);
    if (up && !p->up && p->image_wait)
        pl_image_wait_up(p->image_wait);
    if (up && !p->up)
        pl_worker_pod_is_up(p, st->node ? st->node : "?");
    if (st->bound)
        pl_pod_shape_pending(p, false);
    if (news)
        k->events.placed(k->events.self, p->id, st->node ? st->node : "", up);
}

/* Reports that the cluster takes the pod away, while its agent gives back what it has; and that it does not any more. */
static void tell_leaves(struct kpod *p, const struct pl_pod_state *st)
{
    const struct pl_executor_events *events = &p->kube->events;
    const bool leaves = st->deleted || st->disrupted;

    if (p->leaves == leaves || p->stop || !events->leaves)
        return;
    p->leaves = leaves;
    events->leaves(events->self, p->id, !leaves ? "" : st->disrupted && st->why[0] ? st->why : "its pod was deleted");
}

/* Reports once what an adopted pod without a node requires of a node. A pod without the annotation was made
 * by a daemon that did not write it, and is left as it is. */
static void tell_needs(struct kpod *p)
{
    struct kube *k = p->kube;
    const json_t *annotations;
    uint64_t needs;

    if (!p->adopted || p->bound || p->waited)
        return;
    p->waited = true;
    pl_pod_shape_pending(p, true);
    annotations = json_object_get(json_object_get(p->object, "metadata"), "annotations");
    needs = strtoull(pl_json_str(annotations, PL_POD_NEEDS), NULL, 16);
    if (needs && k->events.needs)
        k->events.needs(k->events.self, p->id, needs);
}

/* Reports why the pod waits, if the reason is new. */
static void tell_why(struct kpod *p, const struct pl_pod_state *st)
{
    struct kube *k = p->kube;

    if (st->no_growth && p->shape) {
        pl_pending_pod_limit_refused(&p->shape->ramp);
        pl_pod_shape_look(k, p->shape);
    }
    if (st->verdict != PL_POD_WAITS || pl_streq(st->why, p->why))
        return;
    snprintf(p->why, sizeof p->why, "%s", st->why);
    k->events.waits(k->events.self, p->id, p->why);
}

/* Restarts the pod's waiting time while no particular reason keeps its container waiting. */
static void note_reason(struct kpod *p)
{
    const json_t *status = json_object_get(p->object, "status"), *main = NULL, *one;
    const char *reason;
    size_t i;

    json_array_foreach(json_object_get(status, "containerStatuses"), i,
                       one) if (pl_streq(json_string_value(json_object_get(one, "name")), "main")) main = one;
    reason = json_string_value(json_object_get(json_object_get(json_object_get(main, "state"), "waiting"), "reason"));
    if (!reason || pl_streq(reason, "ContainerCreating") || pl_streq(reason, "PodInitializing"))
        p->waits_ms = pl_clock_mono_ms();
}

/* Decides what the pod's current state means and acts on it. */
void pl_worker_pod_tick(struct kpod *p)
{
    struct pl_pod_asked asked;
    struct pl_pod_state st;

    if (p->step == KPOD_GOING || p->stop)
        pl_worker_pod_delete(p, p->kill);
    if (p->step != KPOD_THERE)
        return;
    if (!p->object) {
        if (!p->seen && pl_clock_mono_ms() - p->made_ms > PL_POD_UNSEEN_MS)
            /* delete the pod: either the answer says that the pod does not exist, or the watch reports the
             * end of the pod */
            pl_worker_pod_delete(p, true);
        return;
    }
    note_reason(p);
    if (!p->image_wait)
        p->image_wait = pl_image_wait_ref(&p->kube->image_waits, p->name);
    asked = (struct pl_pod_asked){.memory_bytes = p->memory_bytes,
                                  .waited_ms = pl_clock_mono_ms() - p->waits_ms,
                                  .no_image_ms = p->image_wait ? pl_image_wait_ms(p->image_wait, pl_clock_mono_ms()) : 0,
                                  .queue_says = p->queue_says};
    pl_pod_state(p->object, p->events, &asked, &st);
    if (st.no_image && p->image_wait)
        pl_image_wait_failed(p->image_wait, p->waits_ms, pl_clock_mono_ms());
    if (st.verdict > PL_POD_RUNS) {
        end(p, &st);
        return;
    }
    tell_place(p, &st);
    tell_needs(p);
    tell_why(p, &st);
    tell_leaves(p, &st);
    if (st.queued)
        pl_kueue_pending_check(p);
    if (p->up) { /* from now on only updates of the pod object matter, not cluster events */
        p->object = (json_decref(p->object), NULL);
        p->events = (json_decref(p->events), NULL);
    }
}

void pl_worker_pod_seen(struct kpod *p, json_t *object)
{
    const char *uid = json_string_value(json_object_get(json_object_get(object, "metadata"), "uid"));

    if (p->uid[0] && !pl_streq(p->uid, uid))
        return; /* the object is another pod with the same name */
    know_uid(p, uid ? uid : "");
    p->seen = true;
    pl_worker_pod_note_ended(p, object);
    json_incref(object);
    json_decref(p->object);
    p->object = object;
    if (p->step == KPOD_PARKED && !p->leaving) {
        unpark(p);
        is_there(p);
        return;
    }
    pl_worker_pod_tick(p);
}

void pl_worker_pod_event(struct kpod *p, json_t *event)
{
    if (p->up)
        return;
    if (!p->events)
        p->events = json_array();
    if (json_array_size(p->events) >= PL_POD_EVENTS_MAX)
        json_array_remove(p->events, 0);
    json_array_append(p->events, event);
    pl_worker_pod_tick(p);
}
