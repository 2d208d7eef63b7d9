/* sched_node_failures: remembers, per job, the nodes on which its workers were lost. After repeated losses
 * the job's new pods avoid the node for an hour. */
#include "pipelined/sched/sched_internal.h"

/* ---- losses of a job's workers ---- */

void pl_sched_nodes_forget(struct rows *rows)
{
    for (size_t i = 0; i < rows->n_lost_on; i++)
        free(rows->lost_on[i].node);
    rows->n_lost_on = 0;
}

static bool is_avoided(const struct pl_sched *s, const struct lost_on *on)
{
    return on->losses >= PL_SCHED_NODE_LOSSES && s->now - on->at < PL_SCHED_NODE_FORGET_MS;
}

static struct lost_on *find(const struct rows *rows, const char *node)
{
    for (size_t i = 0; i < rows->n_lost_on; i++)
        if (pl_streq(rows->lost_on[i].node, node))
            return (struct lost_on *)&rows->lost_on[i];
    return NULL;
}

/* Returns the entry to use for one more node: an unused one, else that of the node whose last loss is the
 * oldest. */
static struct lost_on *place(struct rows *rows)
{
    struct lost_on *oldest = &rows->lost_on[0];

    if (rows->n_lost_on < PL_SCHED_NODES_AVOIDED)
        return &rows->lost_on[rows->n_lost_on++];
    for (size_t i = 1; i < rows->n_lost_on; i++)
        if (rows->lost_on[i].at < oldest->at)
            oldest = &rows->lost_on[i];
    free(oldest->node);
    return oldest;
}

static struct job *job_of(const struct worker *w)
{
    struct job *first = TAILQ_FIRST(&w->version->stage->lane);

    if (w->n_tasks > 0)
        return w->tasks[0]->job;
    return first && first->version == w->version ? first : NULL;
}

/* Counts a loss. Losses within PL_SCHED_BACKOFF_MIN_MS count once, because workers that are lost together
 * with their node are one failure of the node; a worker that was started after the counted loss is another. */
void pl_sched_node_lost(struct pl_sched *s, const struct worker *w)
{
    struct job *job = job_of(w);
    struct lost_on *on;
    char *node;

    if (!w->node || !job || !job->rows)
        return;
    on = find(job->rows, w->node);
    if (!on) {
        node = pl_sched_strdup(s, w->node);
        if (!node)
            return;
        on = place(job->rows);
        *on = (struct lost_on){.node = node, .losses = 1, .at = s->now, .last_id = s->last_id};
    } else if (s->now - on->at >= PL_SCHED_BACKOFF_MIN_MS || w->id > on->last_id) {
        on->losses = s->now - on->at < PL_SCHED_NODE_FORGET_MS ? on->losses + 1 : 1;
        on->at = s->now;
        on->last_id = s->last_id;
    }
}

/* ---- which nodes are avoided ---- */

void pl_sched_node_placed(struct pl_sched *s, struct worker *w, const char *node)
{
    if (!node || !*node || (w->node && pl_streq(w->node, node)))
        return;
    free(w->node);
    w->node = pl_sched_strdup(s, node);
}

void pl_sched_nodes_avoid(struct pl_sched *s, struct worker *w, const struct rows *rows, struct pl_sched_action *start)
{
    const char **nodes = w->shape ? pl_sched_keep(s, NULL, PL_SCHED_NODES_AVOIDED * sizeof(*nodes)) : NULL;
    size_t n = 0;

    for (size_t i = 0; nodes && rows && i < rows->n_lost_on; i++)
        if (is_avoided(s, &rows->lost_on[i]))
            nodes[n++] = pl_sched_keep(s, rows->lost_on[i].node, strlen(rows->lost_on[i].node) + 1);
    start->worker.avoid = nodes;
    start->worker.n_avoid = n;
    w->avoids = n > 0;
}

bool pl_sched_node_is_avoided(const struct pl_sched *s, const struct rows *rows, const struct worker *w)
{
    const struct lost_on *on = w->node ? find(rows, w->node) : NULL;

    return on && is_avoided(s, on) && (w->made < on->at || (w->made == on->at && !w->avoids));
}

bool pl_sched_node_idles(const struct pl_sched *s, const struct rows *rows, const struct worker *w)
{
    bool lost = false;

    if (w->n_tasks > 0 || !pl_sched_node_is_avoided(s, rows, w))
        return false;
    for (size_t i = 0; i < rows->n_bins; i++) {
        const struct bin *bin = &rows->bins[i];

        if (bin->rows.count == 0 || bin->not_before > s->now)
            continue;
        if (bin->losses == 0)
            return false;
        lost = true;
    }
    return lost;
}
