/* run_timeline: a pen moves along the time of a worker; what it draws is merged where it is narrower than a pixel. */
#include "pipelined/api/answer_routes/run_timeline.h"

#include <assert.h>
#include <string.h>

const char *const pl_phase_names[PL_PHASES] = {"wait", "start", "fetch", "compute", "upload", "idle", "idle_gpu", "work"};

struct pen {
    const struct pl_timeline_view *view;
    int64_t pixel_us; /* width of a pixel, at least 1 */
    int64_t at_us;    /* all before it is drawn */
    int64_t end_us;   /* of the worker: nothing after it is drawn */
    struct pl_phase_span *out;
    size_t n;
    /* spans that are too narrow to be drawn alone: where they begin, and the time of each phase in them */
    int64_t narrow_from_us, narrow_us[PL_PHASES];
    int64_t sum_us[PL_PHASES];
};

/* Adds a span after the last one, or makes that longer. */
static void put(struct pen *p, int64_t from_us, int64_t to_us, enum pl_phase phase)
{
    if (p->n > 0 && p->out[p->n - 1].phase == phase) {
        p->out[p->n - 1].to_us = to_us;
        return;
    }
    assert(p->n <= p->view->px);
    p->out[p->n++] = (struct pl_phase_span){from_us, to_us, phase};
}

/* Draws the narrow spans as one, of the phase that takes most of its time. */
static void flush(struct pen *p)
{
    enum pl_phase most = 0;

    for (unsigned i = 1; i < PL_PHASES; i++)
        if (p->narrow_us[i] > p->narrow_us[most])
            most = i;
    if (p->at_us > p->narrow_from_us)
        put(p, p->narrow_from_us, p->at_us, most);
    memset(p->narrow_us, 0, sizeof p->narrow_us);
    p->narrow_from_us = p->at_us;
}

/* Draws from where the pen is to `to_us`. */
static void draw(struct pen *p, int64_t to_us, enum pl_phase phase)
{
    const int64_t to = PL_MIN(PL_MIN(to_us, p->end_us), p->view->to_us);

    if (to <= p->at_us)
        return;
    p->sum_us[phase] += to - p->at_us;
    p->narrow_us[phase] += to - p->at_us;
    p->at_us = to;
    if (p->at_us - p->narrow_from_us >= p->pixel_us)
        flush(p);
}

/* Draws one attempt. Of the time for which it held the worker, what it did not compute it waited: for a datum, for inputs, for
 * outputs. */
static void draw_attempt(struct pen *p, const struct pl_attempt_times *a, enum pl_phase idle)
{
    const int64_t compute = PL_MIN(a->compute_us, a->held_us), other = a->held_us - compute;
    const int64_t fetch = PL_MIN(a->fetch_us, PL_MAX(other - a->wait_us, 0)), upload = PL_MIN(a->upload_us, other - fetch);
    int64_t at = a->from_us + (other - fetch - upload);

    draw(p, at, idle);
    draw(p, at += fetch, PL_PHASE_FETCH);
    draw(p, at += compute, PL_PHASE_COMPUTE);
    draw(p, at + upload, PL_PHASE_UPLOAD);
}

size_t pl_timeline_lane(const struct pl_worker_times *w, const struct pl_attempt_times *attempts, size_t n,
                        const struct pl_timeline_view *view, struct pl_phase_span *out, int64_t ms[PL_PHASES])
{
    const enum pl_phase idle = w->has_gpus ? PL_PHASE_IDLE_GPU : PL_PHASE_IDLE, gap = w->incomplete ? PL_PHASE_WORK : idle;
    const int64_t begin = PL_MAX(w->from_us, view->from_us);
    struct pen p = {.view = view,
                    .pixel_us = (view->to_us - view->from_us - 1) / view->px + 1,
                    .at_us = begin,
                    .end_us = w->to_us,
                    .narrow_from_us = begin,
                    .out = out};

    if (w->unplaced)
        draw(&p, w->to_us, PL_PHASE_WAIT);
    else if (w->placed_us > w->from_us)
        draw(&p, w->placed_us, PL_PHASE_WAIT);
    for (size_t i = 0; i < n; i++) {
        draw(&p, PL_MIN(attempts[i].from_us, w->to_us), i > 0 ? gap : w->incomplete ? PL_PHASE_WORK : PL_PHASE_START);
        draw_attempt(&p, &attempts[i], idle);
    }
    draw(&p, w->to_us, w->working || w->incomplete ? PL_PHASE_WORK : n > 0 ? idle : PL_PHASE_START);
    flush(&p);
    for (unsigned i = 0; i < PL_PHASES; i++)
        ms[i] = p.sum_us[i] / 1000;
    return p.n;
}

void pl_timeline_crowd_add(const struct pl_timeline_view *view, const struct pl_phase_span *spans, size_t n, uint32_t *there,
                           uint32_t *busy)
{
    const double pixel_us = (double)(view->to_us - view->from_us) / view->px;

    for (size_t i = 0; i < n; i++) {
        const bool works = spans[i].phase == PL_PHASE_COMPUTE || spans[i].phase == PL_PHASE_WORK;
        const double from = (double)(spans[i].from_us - view->from_us) / pixel_us - 0.5;
        uint32_t px = from > 0 ? (uint32_t)from + (from > (double)(uint32_t)from) : 0;

        for (; px < view->px && ((double)px + 0.5) * pixel_us < (double)(spans[i].to_us - view->from_us); px++) {
            there[px]++;
            busy[px] += works;
        }
    }
}
