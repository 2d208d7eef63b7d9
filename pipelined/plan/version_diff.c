/* version_diff: compares stage by stage, then follows the inputs: a stage that reads one which runs anew may have new
 * content to work on. */
#include "pipelined/plan/version_diff.h"

#include "pipelined/spec/spec.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <stdio.h>

#define EDGES_PER_STAGE_MAX PL_SPEC_LEAVES_MAX

/* A stage that reads what another stage writes; both are indices of `after`. */
struct edge {
    uint32_t reader, writer;
};

struct diff {
    struct pl_version_stages before, after;
    json_t *names;        /* {name: index} of `after` */
    json_t *names_before; /* the same of `before` */
    enum pl_again *again; /* one per stage of `after` */
    struct pl_buf edges;  /* struct edge */
    struct pl_err *err;
};

static json_t *index_names(struct pl_version_stages stages)
{
    _cleanup_(json_decrefp) json_t *names = json_object();

    for (size_t i = 0; i < stages.n; i++)
        if (json_object_set_new(names, stages.items[i].name, json_integer((json_int_t)i)) < 0)
            return NULL;
    return TAKE_PTR(names);
}

static const struct pl_version_stage *find(struct pl_version_stages stages, const json_t *names, const char *name)
{
    const json_t *at = json_object_get(names, name);

    return at ? &stages.items[json_integer_value(at)] : NULL;
}

/* ---- who reads whom ---- */

/* Adds the edge of one input. A `reference` input with one match is in no datum key with its content. */
static int add_edge(struct diff *d, size_t reader, const json_t *input)
{
    const char *project = d->after.items[reader].project, *repo = pl_json_str(input, "repo"), *slash = strchr(repo, '/');
    const bool here = slash && strncmp(repo, project, (size_t)(slash - repo)) == 0 && !project[slash - repo];
    struct edge edge = {.reader = (uint32_t)reader};
    char name[PL_NAME_MAX_BYTES + 1];
    const json_t *at;

    if (!here || (json_is_true(json_object_get(input, "reference")) && pl_streq(pl_json_str(input, "glob"), "/")))
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(slash + 1, "@"), slash + 1);
    at = json_object_get(d->names, name);
    if (!at || (size_t)json_integer_value(at) == reader)
        return 0;
    edge.writer = (uint32_t)json_integer_value(at);
    return pl_buf_add(&d->edges, &edge, sizeof edge, d->err);
}

/* Adds the edges of a tree of inputs, which is at most PL_SPEC_DEPTH_MAX deep. */
static int add_edges(struct diff *d, size_t reader, const json_t *tree)
{
    const json_t *child, *children = json_object_get(tree, "cross");
    size_t i;
    int r = json_object_get(tree, "repo") ? add_edge(d, reader, tree) : 0;

    children = children ? children : json_object_get(tree, "union");
    json_array_foreach((json_t *)(uintptr_t)children, i, child)
    {
        r = r < 0 ? r : add_edges(d, reader, child);
    }
    return r;
}

/* Marks the stages that read one which runs anew, until no more are found: at most once per stage. */
static void follow_edges(struct diff *d)
{
    const struct edge *edges = (const struct edge *)(const void *)d->edges.data;
    const size_t n = d->edges.len / sizeof *edges;
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            if (d->again[edges[i].writer] == PL_AGAIN_NONE || d->again[edges[i].reader] != PL_AGAIN_NONE)
                continue;
            d->again[edges[i].reader] = PL_AGAIN_SOME;
            more = true;
        }
    }
}

/* ---- the list ---- */

static bool same_stage(const struct pl_version_stage *a, const struct pl_version_stage *b)
{
    return json_equal(a->spec, b->spec) && pl_hash_eq(&a->identity, &b->identity) && pl_hash_eq(&a->code_root, &b->code_root);
}

/* Adds what differs in a stage that both versions have: "fields" and "code". */
static int add_fields(json_t *entry, const struct pl_version_stage *before, const struct pl_version_stage *after,
                      struct pl_err *err)
{
    const bool code = !pl_hash_eq(&before->code_root, &after->code_root);
    char from[PL_HASH_HEX + 1] = "", to[PL_HASH_HEX + 1] = "";
    json_t *fields = json_array();
    int r;

    if (json_object_set_new(entry, "fields", fields) < 0)
        return pl_err_nomem(err);
    r = pl_stage_change_fields(before->spec, after->spec, code, fields, err);
    if (r < 0 || !code)
        return r;
    if (!pl_hash_is_zero(&before->code_root))
        pl_hash_hex(&before->code_root, from);
    if (!pl_hash_is_zero(&after->code_root))
        pl_hash_hex(&after->code_root, to);
    return json_object_set_new(entry, "code", json_pack("[s, s]", from, to)) < 0 ? pl_err_nomem(err) : 0;
}

/* Adds the names of the stages that stage `i` reads and that run anew. */
static int add_because(const struct diff *d, size_t i, json_t *entry)
{
    const struct edge *edges = (const struct edge *)(const void *)d->edges.data;
    json_t *list = NULL;
    int r = 0;

    for (size_t k = 0; r == 0 && k < d->edges.len / sizeof *edges; k++) {
        const char *writer = d->after.items[edges[k].writer].name;

        if (edges[k].reader != i || d->again[edges[k].writer] == PL_AGAIN_NONE || pl_json_has_text(list, writer))
            continue;
        if (!list && json_object_set_new(entry, "because", list = json_array()) < 0)
            return pl_err_nomem(d->err);
        r = pl_json_add(list, json_string(writer), d->err);
    }
    return r;
}

static int add_stage(const struct diff *d, size_t i, json_t *list, size_t *same)
{
    const struct pl_version_stage *now = &d->after.items[i], *old = find(d->before, d->names_before, now->name);
    const bool equal = old && same_stage(old, now);
    json_t *entry;
    int r;

    if (equal && d->again[i] == PL_AGAIN_NONE) {
        ++*same;
        return 0;
    }
    entry = json_pack("{s:s, s:s, s:s}", "stage", now->name, "change",
                      !old    ? "new"
                      : equal ? "unchanged"
                              : "changed",
                      "again", pl_again_name(d->again[i]));
    r = pl_json_add(list, entry, d->err);
    r = r < 0 || !old || equal ? r : add_fields(entry, old, now, d->err);
    return r < 0 || !old ? r : add_because(d, i, entry);
}

static int compare(struct diff *d, json_t *list, size_t *same)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < d->after.n; i++) {
        const struct pl_version_stage *now = &d->after.items[i], *old = find(d->before, d->names_before, now->name);

        /* an unchanged stage without cache runs all its datums in each of its jobs, but the change gives it none */
        d->again[i] = !old                   ? PL_AGAIN_ALL
                      : same_stage(old, now) ? PL_AGAIN_NONE
                                             : pl_stage_again(old->spec, now->spec, !pl_hash_eq(&old->identity, &now->identity));
        r = add_edges(d, i, json_object_get(now->spec, "input"));
    }
    if (r == 0)
        follow_edges(d);
    for (size_t i = 0; r == 0 && i < d->after.n; i++)
        r = add_stage(d, i, list, same);
    for (size_t i = 0; r == 0 && i < d->before.n; i++)
        if (!json_object_get(d->names, d->before.items[i].name))
            r = pl_json_add(list, json_pack("{s:s, s:s}", "stage", d->before.items[i].name, "change", "removed"), d->err);
    return r;
}

int pl_version_diff(struct pl_version_stages before, struct pl_version_stages after, json_t **ret, size_t *ret_same,
                    struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array(), *names = index_names(after), *names_before = index_names(before);
    _cleanup_free_ enum pl_again *again = calloc(after.n + 1, sizeof *again);
    struct diff d = {.before = before,
                     .after = after,
                     .names = names,
                     .names_before = names_before,
                     .again = again,
                     .edges.max = (after.n + 1) * EDGES_PER_STAGE_MAX * sizeof(struct edge),
                     .err = err};
    size_t same = 0;
    int r = list && names && names_before && again ? compare(&d, list, &same) : pl_err_nomem(err);

    pl_buf_finish(&d.edges);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(list);
    *ret_same = same;
    return 0;
}
