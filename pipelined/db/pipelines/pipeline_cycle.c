/* pipeline_cycle: builds a graph of the new stages and all stages upstream of them. Then stages that read no
 * other stage of the graph are removed, again and again. Each stage that is left is on a cycle or reads from
 * one. */
#include "pipelined/db/pipelines/pipeline_cycle.h"

#include "storage/base/path.h"

#include <stdio.h>

/* The graph: stages, named by the branch that they write, "project/stage@branch". */
struct graph {
    struct pl_conn *conn;
    const struct pl_spec *spec;
    json_t *reads;   /* stage → [branches that it reads] */
    json_t *pending; /* branches for which the stage that writes them is still to be looked up */
};

static void graph_finish(struct graph *g)
{
    json_decref(g->reads);
    json_decref(g->pending);
}

static int add_stage(struct graph *g, const char *key, json_t *reads, struct pl_err *err)
{
    json_t *read;
    size_t i;
    int r = !reads || json_object_set_new(g->reads, key, reads) < 0 ? pl_err_nomem(err) : 0;

    json_array_foreach(reads, i, read)
    {
        if (r == 0 && !json_object_get(g->reads, json_string_value(read)) && json_array_append(g->pending, read) < 0)
            r = pl_err_nomem(err);
    }
    return r;
}

/* Adds the stages of the new spec. */
static int add_own(struct graph *g, struct pl_err *err)
{
    char key[3 * PL_NAME_MAX_BYTES + 3];
    int r = 0;

    for (size_t i = 0; r == 0 && i < g->spec->n_stages; i++) {
        const struct pl_stage *s = &g->spec->stages[i];
        json_t *reads = json_array();

        for (size_t k = 0; r == 0 && k < s->n_leaves; k++) {
            if (!pl_input_triggers(s->leaves[k]))
                continue;
            snprintf(key, sizeof key, "%s/%s@%s", s->leaves[k]->project, s->leaves[k]->repo, s->leaves[k]->branch);
            r = pl_json_add(reads, json_string(key), err);
        }
        snprintf(key, sizeof key, "%s/%s@%s", g->spec->project, s->name, s->output.branch);
        if (r == 0)
            r = add_stage(g, key, reads, err);
        else
            json_decref(reads);
    }
    return r;
}

/* Collects the branches that the `input` of a stored spec reads. */
static int collect_reads(const json_t *input, json_t *reads, struct pl_err *err)
{
    const json_t *child, *children = json_object_get(input, "cross");
    size_t i;
    int r = 0;

    if (json_object_get(input, "repo") && !json_is_true(json_object_get(input, "previous")))
        r = pl_json_add(reads, json_incref(json_object_get(input, "repo")), err);
    json_array_foreach(children ? children : json_object_get(input, "union"), i, child)
    {
        r = r < 0 ? r : collect_reads(child, reads, err);
    }
    return r;
}

/* Adds the stage that writes the branch, if it belongs to another pipeline. */
static int add_other(struct graph *g, const char *key, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *spec = NULL;
    char project[PL_NAME_MAX_BYTES + 1], name[PL_NAME_MAX_BYTES + 1];
    const char *slash = strchr(key, '/'), *at = slash ? strchr(slash, '@') : NULL;
    json_t *reads;
    int r;

    if (!at || json_object_get(g->reads, key))
        return 0;
    snprintf(project, sizeof project, "%.*s", (int)(slash - key), key);
    snprintf(name, sizeof name, "%.*s", (int)(at - slash - 1), slash + 1);
    r = pl_sql_query(g->conn, err, &rows,
                     "SELECT s.spec FROM stage s JOIN pipeline p ON p.id = s.pipeline WHERE s.current = 1 AND s.project = ?1"
                     " AND s.name = ?2 AND s.branch = ?3 AND NOT (p.project = ?4 AND p.name = ?5)",
                     "sssss", project, name, at + 1, g->spec->project, g->spec->pipeline);
    r = r < 0 ? r : pl_sql_next(g->conn, &rows, err);
    if (r <= 0)
        return r;
    spec = pl_col_json(&rows, 0);
    reads = json_array();
    r = spec ? collect_reads(json_object_get(spec, "input"), reads, err) : pl_err_nomem(err);
    if (r < 0) {
        json_decref(reads);
        return r;
    }
    return add_stage(g, key, reads, err);
}

/* State of Kahn's algorithm: stages that read no remaining stage are removed one after the other. */
struct prune {
    json_t *readers; /* branch → [stages that read it] */
    json_t *waits;   /* stage → number of remaining stages that it reads */
    json_t *free;    /* stages that read no remaining stage */
};

static void prune_finish(struct prune *p)
{
    json_decref(p->readers);
    json_decref(p->waits);
    json_decref(p->free);
}

/* Counts the remaining stages that the stage reads, and lists it as their reader. */
static int prune_add(struct prune *p, const json_t *reads, const char *key, const json_t *list, struct pl_err *err)
{
    const json_t *read;
    json_int_t n = 0;
    size_t i;
    int r = 0;

    json_array_foreach(list, i, read)
    {
        const char *name = json_string_value(read);
        json_t *readers = json_object_get(p->readers, name);

        if (r < 0 || !json_object_get(reads, name))
            continue;
        n++;
        if (!readers && json_object_set_new(p->readers, name, readers = json_array()) < 0)
            return pl_err_nomem(err);
        r = pl_json_add(readers, json_string(key), err);
    }
    if (r == 0 && json_object_set_new(p->waits, key, json_integer(n)) < 0)
        return pl_err_nomem(err);
    return r < 0 || n ? r : pl_json_add(p->free, json_string(key), err);
}

/* Removes stages that read no remaining stage until there is none. Stages on a cycle, and stages downstream
 * of a cycle, remain. */
static int prune(json_t *reads, struct pl_err *err)
{
    _cleanup_(prune_finish) struct prune p = {json_object(), json_object(), json_array()};
    const char *key;
    json_t *list, *reader;
    size_t i;
    int r = p.readers && p.waits && p.free ? 0 : pl_err_nomem(err);

    json_object_foreach(reads, key, list)
    {
        r = r < 0 ? r : prune_add(&p, reads, key, list, err);
    }
    for (size_t at = 0; r == 0 && at < json_array_size(p.free); at++) {
        key = json_string_value(json_array_get(p.free, at));
        json_object_del(reads, key);
        json_array_foreach(json_object_get(p.readers, key), i, reader)
        {
            json_t *n = json_object_get(p.waits, json_string_value(reader));

            json_integer_set(n, json_integer_value(n) - 1);
            if (r == 0 && json_integer_value(n) == 0)
                r = pl_json_add(p.free, json_incref(reader), err);
        }
    }
    return r;
}

static const char *read_of(const json_t *reads, const char *key)
{
    const json_t *read;
    size_t i;

    json_array_foreach(json_object_get(reads, key), i, read)
    {
        if (json_object_get(reads, json_string_value(read)))
            return json_string_value(read);
    }
    return NULL; /* cannot happen after prune */
}

static int name_len(const char *key)
{
    return (int)strcspn(strchr(key, '/') + 1, "@");
}

static int report(const json_t *reads, struct pl_err *err)
{
    const char *key = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)reads)), *first, *next;
    char text[512];
    size_t n = 0;

    /* follow the inputs for as many steps as there are stages; the stage reached after that is on a cycle */
    for (size_t i = 0; i < json_object_size(reads); i++)
        key = read_of(reads, key);
    first = key;
    do {
        next = read_of(reads, key);
        if (n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s reads %.*s", n ? ", " : "", name_len(key),
                                  strchr(key, '/') + 1, name_len(next), strchr(next, '/') + 1);
        key = next;
    } while (!pl_streq(key, first));
    return pl_err_set(err, PL_EINVAL, "the stages form a circle: %s", text);
}

int pl_pipeline_cycle_check(struct pl_conn *c, const struct pl_spec *spec, struct pl_err *err)
{
    _cleanup_(graph_finish) struct graph g = {.conn = c, .spec = spec, .reads = json_object(), .pending = json_array()};
    size_t own;
    int r = g.reads && g.pending ? add_own(&g, err) : pl_err_nomem(err);

    own = json_object_size(g.reads);
    for (size_t i = 0; r == 0 && i < json_array_size(g.pending); i++)
        r = add_other(&g, json_string_value(json_array_get(g.pending, i)), err);
    /* the spec reads no stage of another pipeline, so there can be no cycle */
    if (r < 0 || json_object_size(g.reads) == own)
        return r;
    r = prune(g.reads, err);
    return r == 0 && json_object_size(g.reads) ? report(g.reads, err) : r;
}
