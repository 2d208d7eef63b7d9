/* A list that is searched linearly: a stage reads few projects. */
#include "pipelined/agent/inputs/input_stores.h"

#include <stdio.h>

static int add_store(struct pl_input_stores *s, const char *project, struct pl_input_store **ret, struct pl_err *err)
{
    struct pl_input_store *store = calloc(1, sizeof(*store)), **end = &s->list;
    int r;

    if (!store)
        return pl_err_nomem(err);
    store->user = s->config.user;
    store->reader = s->config.reader;
    if (*project) {
        snprintf(store->project, sizeof(store->project), "%s", project);
        store->is_other = true;
        store->own_user = *s->config.user;
        store->own_user.project = store->project;
        store->user = &store->own_user;
        store->reader = pl_daemon_client_reader(store->user);
    }
    r = pl_node_cache_init(&store->nodes, &store->reader, s->config.nodes, err);
    if (r < 0) {
        free(store);
        return r;
    }
    while (*end)
        end = &(*end)->next;
    *ret = *end = store;
    return 0;
}

int pl_input_stores_init(struct pl_input_stores *s, const struct pl_input_stores_config *config, struct pl_err *err)
{
    struct pl_input_store *own;

    *s = (struct pl_input_stores){.config = *config};
    return add_store(s, "", &own, err);
}

void pl_input_stores_finish(struct pl_input_stores *s)
{
    for (struct pl_input_store *store = s->list, *next; store; store = next) {
        next = store->next;
        pl_node_cache_finish(&store->nodes);
        free(store);
    }
    s->list = NULL;
}

int pl_input_stores_get(struct pl_input_stores *s, const char *project, struct pl_input_store **ret, struct pl_err *err)
{
    const struct pl_input_stores_config *c = &s->config;
    size_t n = 0;

    if (!project || !c->user || !c->project || pl_streq(project, c->project)) {
        *ret = s->list;
        return 0;
    }
    for (struct pl_input_store *store = s->list; store; store = store->next, n++) {
        if (pl_streq(store->project, project)) {
            *ret = store;
            return 0;
        }
    }
    if (n > PL_AGENT_PROTOCOL_INPUTS_MAX)
        return pl_err_set(err, PL_ELIMIT, "a worker reads inputs of at most %u other projects", PL_AGENT_PROTOCOL_INPUTS_MAX);
    return add_store(s, project, ret, err);
}
