/* Lists a folder's entries and filters them by path; looks up a single file directly. */
#include "pipelined/agent/inputs/input_references.h"

int pl_input_references_init(struct pl_input_references *refs, const struct pl_input_stores_config *config, struct pl_err *err)
{
    struct pl_input_stores_config mine = *config;

    mine.nodes = PL_INPUT_REFERENCES_NODES;
    return pl_input_stores_init(&refs->stores, &mine, err);
}

void pl_input_references_finish(struct pl_input_references *refs)
{
    pl_input_stores_finish(&refs->stores);
}

bool pl_input_is_writable(const struct pl_agent_protocol_datum *row, const char *name)
{
    for (size_t i = 0; i < row->n_inputs; i++)
        if (pl_streq(row->inputs[i].name, name))
            return row->inputs[i].writable;
    return false;
}

/* Returns what reads the content of entries that the stage's project does not have. */
static const struct pl_chunk_reader *content_of(const struct pl_input_store *store)
{
    return store->is_other ? &store->reader : NULL;
}

static int visit_folder(struct pl_input_store *store, const struct pl_agent_protocol_input *wi, const char *path,
                        pl_input_references_visit_fn visit, void *self, struct pl_err *err)
{
    struct pl_input_entries source = {0};
    struct pl_entry e;
    const char *p;
    size_t len, n = strlen(path), found = 0;
    int r = pl_input_entries_open(&store->nodes, NULL, NULL, wi, &source, err);

    while (r >= 0 && (r = pl_input_entries_next(&source, &p, &len, &e, err)) > 0) {
        if (n > 0 && (strncmp(p, path, n) != 0 || (p[n] != 0 && p[n] != '/')))
            continue;
        found++;
        r = visit(self, n == 0 ? p : p[n] ? p + n + 1 : "", &e, content_of(store), err);
    }
    pl_input_entries_finish(&source);
    if (r == 0 && found == 0)
        return pl_err_set(err, PL_ENOTFOUND, "the input has no file /%s", path);
    return r;
}

static int visit_file(struct pl_input_store *store, const struct pl_agent_protocol_input *wi, const char *path,
                      pl_input_references_visit_fn visit, void *self, struct pl_err *err)
{
    const struct pl_node_source source = pl_node_cache_source(&store->nodes);
    const size_t n = strlen(path);
    struct pl_entry e;
    int r;

    if (wi->json)
        return pl_err_set(err, PL_ENOTFOUND, "/%s is not a file of a repo: copy it", wi->path);
    r = pl_tree_get(&source, &wi->root, wi->path, strlen(wi->path), &e, err);
    if (r < 0)
        return r;
    if (pl_streq(wi->path, path))
        return visit(self, "", &e, content_of(store), err);
    if (n == 0 || (strncmp(wi->path, path, n) == 0 && wi->path[n] == '/'))
        return visit(self, wi->path + n + (n > 0), &e, content_of(store), err);
    return pl_err_set(err, PL_ENOTFOUND, "the input has no file /%s", path);
}

int pl_input_references_visit(struct pl_input_references *refs, const struct pl_agent_protocol_datum *row, const char *name,
                              const char *path, pl_input_references_visit_fn visit, void *self, struct pl_err *err)
{
    for (size_t i = 0; i < row->n_inputs; i++) {
        const struct pl_agent_protocol_input *wi = &row->inputs[i];
        struct pl_input_store *store;
        int r;

        if (!pl_streq(wi->name, name))
            continue;
        r = pl_input_stores_get(&refs->stores, wi->project, &store, err);
        if (r < 0)
            return r;
        return wi->file ? visit_file(store, wi, path, visit, self, err) : visit_folder(store, wi, path, visit, self, err);
    }
    return pl_err_set(err, PL_ENOTFOUND, "there is no input %s", name);
}
