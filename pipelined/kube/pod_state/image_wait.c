/* A map from the part of pod names that all pods of a stage version share to an entry, which counts its pods. */
#include "pipelined/kube/pod_state/image_wait.h"

#include "pipelined/kube/pod_state/pod_state.h"

/* longest time between two failures of one wait; a failure that comes later is another one */
#define GAP_MS PL_POD_PULL_MS

struct pl_image_wait {
    uint32_t refs;
    bool waits;
    int64_t since_ms, last_ms; /* of the failures to get the image: the first in a row, and the last */
    size_t len;
    char stage[];
};

/* Returns the length of the pod's name without its index and start. */
static size_t stage_length(const char *pod)
{
    size_t n = strlen(pod);

    for (unsigned parts = 0; parts < 2; parts++) {
        while (n > 0 && pod[n - 1] != '-')
            n--;
        n -= n > 0;
    }
    return n;
}

struct pl_image_wait *pl_image_wait_ref(struct pl_map *stages, const char *pod)
{
    const size_t len = stage_length(pod);
    struct pl_image_wait *w = pl_map_get(stages, pod, len);

    if (!w) {
        w = calloc(1, sizeof *w + len + 1);
        if (!w)
            return NULL;
        w->len = len;
        memcpy(w->stage, pod, len);
        if (pl_map_put(stages, w->stage, len, w, NULL, NULL) < 0) {
            free(w);
            return NULL;
        }
    }
    w->refs++;
    return w;
}

struct pl_image_wait *pl_image_wait_unref(struct pl_map *stages, struct pl_image_wait *w)
{
    if (!w || --w->refs > 0)
        return NULL;
    (void)pl_map_remove(stages, w->stage, w->len);
    free(w);
    return NULL;
}

static bool waits(const struct pl_image_wait *w, int64_t now_ms)
{
    return w->waits && now_ms - w->last_ms <= GAP_MS;
}

void pl_image_wait_failed(struct pl_image_wait *w, int64_t since_ms, int64_t now_ms)
{
    w->since_ms = waits(w, now_ms) ? PL_MIN(w->since_ms, since_ms) : since_ms;
    w->last_ms = now_ms;
    w->waits = true;
}

void pl_image_wait_up(struct pl_image_wait *w)
{
    w->waits = false;
}

int64_t pl_image_wait_ms(const struct pl_image_wait *w, int64_t now_ms)
{
    return waits(w, now_ms) ? now_ms - w->since_ms : 0;
}
