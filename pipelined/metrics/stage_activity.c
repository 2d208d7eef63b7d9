/* stage_activity: a small table, searched from front to back. */
#include "pipelined/metrics/stage_activity.h"

#include <stdio.h>

static struct pl_stage_place *take_place(struct pl_stage_activity *a, const char *project, const char *stage, int64_t now_ms)
{
    struct pl_stage_place *quiet = a->places;

    if (a->n < PL_STAGE_ACTIVITY_MAX) {
        quiet = &a->places[a->n++];
    } else {
        for (size_t i = 1; i < a->n; i++)
            if (a->places[i].active_ms < quiet->active_ms)
                quiet = &a->places[i];
        if (now_ms - quiet->active_ms < PL_STAGE_ACTIVITY_QUIET_MS) {
            snprintf(a->rest.stage, sizeof a->rest.stage, "other");
            return &a->rest;
        }
    }
    *quiet = (struct pl_stage_place){0};
    snprintf(quiet->project, sizeof quiet->project, "%s", project);
    snprintf(quiet->stage, sizeof quiet->stage, "%s", stage);
    return quiet;
}

struct pl_stage_place *pl_stage_activity_at(struct pl_stage_activity *a, const char *project, const char *stage, int64_t now_ms)
{
    struct pl_stage_place *place = NULL;

    for (size_t i = 0; i < a->n && !place; i++)
        if (pl_streq(a->places[i].stage, stage) && pl_streq(a->places[i].project, project))
            place = &a->places[i];
    if (!place)
        place = take_place(a, project, stage, now_ms);
    place->active_ms = now_ms;
    return place;
}

void pl_stage_activity_clear_now(struct pl_stage_activity *a)
{
    for (size_t i = 0; i < a->n; i++)
        a->places[i].now = (struct pl_stage_now){0};
    a->rest.now = (struct pl_stage_now){0};
}

void pl_stage_work_add(struct pl_stage_work *to, const struct pl_stage_work *w)
{
    to->success += w->success;
    to->failed += w->failed;
    to->recovered += w->recovered;
    to->retry += w->retry;
    to->lost += w->lost;
    to->reused += w->reused;
    to->wait_ms += w->wait_ms;
    to->fetch_ms += w->fetch_ms;
    to->compute_ms += w->compute_ms;
    to->upload_ms += w->upload_ms;
    to->gpu_ms += w->gpu_ms;
    to->gpu_compute_ms += w->gpu_compute_ms;
    to->gpu_lost_ms += w->gpu_lost_ms;
    to->bytes_in += w->bytes_in;
    to->bytes_out += w->bytes_out;
}
