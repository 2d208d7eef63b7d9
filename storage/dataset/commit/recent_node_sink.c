#include "storage/dataset/commit/recent_node_sink.h"

#include "storage/pack/pack_builder.h"

void pl_recent_node_sink_init(struct pl_recent_node_sink *r, struct pl_pack_builder *session, const struct pl_node_source *below)
{
    memset(r, 0, sizeof *r);
    r->session = session;
    r->below = *below;
}

void pl_recent_node_sink_finish(struct pl_recent_node_sink *r)
{
    for (size_t i = 0; i < PL_RECENT_NODE_SINK_MAX; i++)
        pl_buf_finish(&r->nodes[i].bytes);
}

static int put(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct pl_recent_node_sink *r = self;
    struct pl_recent_node *slot = &r->nodes[r->next % PL_RECENT_NODE_SINK_MAX];
    int rc = pl_pack_builder_node_put(r->session, bytes, n, ret_id, err);

    if (rc < 0)
        return rc;
    pl_buf_clear(&slot->bytes);
    rc = pl_buf_add(&slot->bytes, bytes, n, err);
    if (rc < 0)
        return rc;
    slot->id = *ret_id;
    r->next++;
    return 0;
}

static int get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_recent_node_sink *r = self;

    for (size_t i = 0; i < PL_RECENT_NODE_SINK_MAX; i++)
        if (r->nodes[i].bytes.len && pl_hash_eq(&r->nodes[i].id, id))
            return pl_buf_add(ret, r->nodes[i].bytes.data, r->nodes[i].bytes.len, err);
    return r->below.get(r->below.self, id, ret, err);
}

struct pl_node_sink pl_recent_node_sink_sink(struct pl_recent_node_sink *r)
{
    return (struct pl_node_sink){.self = r, .put = put};
}

struct pl_node_source pl_recent_node_sink_source(struct pl_recent_node_sink *r)
{
    return (struct pl_node_source){r, get};
}
