// link: storage/tree
/* Any bytes as a tree node: refused, or a node that is written as the same bytes again. */
#include "storage/tree/level_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct expected {
    const uint8_t *data;
    size_t n;
};

static int expect_same(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    const struct expected *e = self;

    (void)err;
    if (n != e->n || memcmp(bytes, e->data, n) != 0)
        abort();
    *ret_id = (struct pl_hash){{1}};
    return 0;
}

static int ignore_item(void *self, const struct pl_level_item *item, struct pl_err *err)
{
    (void)self;
    (void)item;
    (void)err;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    /* No boundary of its own: the whole node again. */
    static const struct pl_tree_params params = {PL_NODE_LIMIT_ENTRIES + 1, PL_NODE_LIMIT_ENTRIES + 1, PL_NODE_LIMIT_BYTES, 0};
    struct expected e = {data, n};
    struct pl_node_sink sink = {&e, expect_same, &params};
    struct pl_node node = {0};
    struct pl_level_writer w;
    int r;

    if (pl_node_decode(&node, data, n, NULL) == 0) {
        pl_level_writer_init(&w, &sink, node.tree, node.level, ignore_item, NULL);
        for (uint32_t i = 0; i < node.n; i++) {
            struct pl_level_item item = {
                pl_node_key(&node, i), pl_node_key_len(&node, i), pl_node_value(&node, i), pl_node_value_len(&node, i), {0}};

            r = pl_level_writer_add(&w, &item, NULL);
            if (r < 0)
                abort();
        }
        r = pl_level_writer_flush(&w, NULL);
        if (r < 0)
            abort();
        pl_level_writer_finish(&w);
    }
    pl_node_finish(&node);
    return 0;
}
