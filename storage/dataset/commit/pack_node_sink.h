/* pack_node_sink: a node sink that adds tree nodes as records to a pack builder. */
#pragma once

#include "storage/tree/tree.h"

struct pl_pack_builder;

/* Returns the sink. `session` must outlive it. */
struct pl_node_sink pl_pack_node_sink(struct pl_pack_builder *session);
