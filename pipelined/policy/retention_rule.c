/* Decides which commits a repo keeps: walks each branch from its head, then keeps the sources of kept commits. Also reads
 * and writes a rule as JSON. */
#include "pipelined/policy/retention_rule.h"

#include <stddef.h>
#include <stdlib.h>

static void better(struct pl_retention_commit *c, enum pl_retention_reason why)
{
    if (why > c->why)
        c->why = (uint8_t)why;
}

/* Returns what the repo's rule decides for a commit `steps` commits behind a branch's head; PL_RETENTION_NONE = no branch
 * reaches it, and the rule's number of commits, which counts those of branches, does not keep it. */
static enum pl_retention_reason by_rule(const struct pl_retention_input *w, const struct pl_retention_commit *c, uint32_t steps)
{
    const struct pl_retention_rule *rule = &w->rules[c->repo];

    if (steps == 0)
        return PL_RETENTION_HEAD;
    if (!rule->commits && !rule->days)
        return PL_RETENTION_ALL;
    if (steps < rule->commits || (rule->days && pl_retention_rule_until(c->created_us, rule->days) > w->now_us))
        return PL_RETENTION_RULE;
    return steps == PL_RETENTION_NONE ? PL_RETENTION_LOST : PL_RETENTION_OLD;
}

/* Walks one branch from its head back and applies the rule to each commit. Stops at a commit that an earlier
 * walk has visited, if two conditions hold. First, this branch cannot change the decision: either the commit
 * is not closer to this head than to the earlier one, or it is beyond the number of commits that the rule
 * counts. Second, the walk has passed all commits of this branch that unfinished runs may read. */
static void walk(struct pl_retention_input *w, uint32_t head)
{
    bool read = w->oldest_run == INT64_MAX; /* all commits that unfinished runs may read have been passed */
    uint32_t steps = 0;

    for (uint32_t at = head; at != PL_RETENTION_NONE; at = w->commits[at].parent, steps++) {
        struct pl_retention_commit *c = &w->commits[at];
        bool known = c->steps <= steps || (c->steps != PL_RETENTION_NONE && steps > 0 && steps >= w->rules[c->repo].commits);
        bool was_read = read;

        if (!read)
            better(c, PL_RETENTION_IN_USE);
        read = read || c->order <= w->oldest_run;
        if (known && was_read)
            return;
        if (!known) {
            c->steps = steps;
            better(c, by_rule(w, c, steps));
        }
    }
}

static int by_commit_falling(const void *a, const void *b)
{
    const struct pl_retention_edge *x = a, *y = b;

    return (x->commit < y->commit) - (x->commit > y->commit);
}

/* Keeps the sources of kept commits. A source is always older than the commit made from it, so one pass from the newest
 * commit to the oldest is enough. */
static void keep_sources(struct pl_retention_input *w)
{
    if (w->n_edges)
        qsort(w->edges, w->n_edges, sizeof *w->edges, by_commit_falling);
    for (size_t i = 0; i < w->n_edges; i++) {
        struct pl_retention_commit *source = &w->commits[w->edges[i].source];

        if (!pl_retention_rule_drops(w->commits[w->edges[i].commit].why) && pl_retention_rule_drops(source->why))
            source->why = PL_RETENTION_SOURCE;
    }
}

void pl_retention_decide(struct pl_retention_input *world)
{
    for (size_t i = 0; i < world->n_commits; i++)
        world->commits[i].steps = PL_RETENTION_NONE;
    for (size_t i = 0; i < world->n_heads; i++)
        walk(world, world->heads[i]);
    for (size_t i = 0; i < world->n_commits; i++)
        if (world->commits[i].steps == PL_RETENTION_NONE)
            better(&world->commits[i], by_rule(world, &world->commits[i], PL_RETENTION_NONE));
    keep_sources(world);
}

/* ---- a rule as JSON ---- */

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {{"commits", offsetof(struct pl_retention_rule, commits)},
               {"days", offsetof(struct pl_retention_rule, days)},
               {"results", offsetof(struct pl_retention_rule, results)},
               {"logs", offsetof(struct pl_retention_rule, logs)}};

static uint32_t *number(struct pl_retention_rule *keep, const char *name)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(numbers); i++)
        if (pl_streq(numbers[i].name, name))
            return (uint32_t *)(void *)((char *)keep + numbers[i].offset);
    return NULL;
}

int pl_retention_read(const json_t *object, struct pl_retention_rule *ret, struct pl_err *err)
{
    struct pl_retention_rule keep = {.said = true};
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "keep is not an object; {} keeps everything"), "keep");
    json_object_foreach((json_t *)object, name, value)
    {
        uint32_t *to = number(&keep, name);
        json_int_t n = json_integer_value(value);

        if (!to)
            return pl_err_field(err,
                                pl_err_set(err, PL_EINVAL, "keep has no \"%.40s\"; accepted: commits, days, results, logs", name),
                                "keep");
        if (!json_is_integer(value) || n < 1 || n > PL_RETENTION_MAX)
            return pl_err_field(err,
                                pl_err_set(err, PL_EINVAL, "keep.%s is not a whole number from 1 to %d", name, PL_RETENTION_MAX),
                                "keep");
        *to = (uint32_t)n;
    }
    *ret = keep;
    return 0;
}

json_t *pl_retention_json(const struct pl_retention_rule *keep)
{
    json_t *object = json_object();

    for (size_t i = 0; i < PL_ARRAY_SIZE(numbers) && object; i++) {
        uint32_t n = *(const uint32_t *)(const void *)((const char *)keep + numbers[i].offset);

        if (n && json_object_set_new(object, numbers[i].name, json_integer(n)) < 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}
