#include "storage/dataset/commit/pack_node_sink.h"

#include "storage/pack/pack_builder.h"

struct pl_node_sink pl_pack_node_sink(struct pl_pack_builder *session)
{
    return (struct pl_node_sink){.self = session, .put = pl_pack_builder_node_put};
}
