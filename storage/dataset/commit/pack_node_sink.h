/* session_sink: tree nodes go into a pack session like any other record. */
#pragma once

#include "storage/tree/tree.h"

struct pl_pack_builder;

/* The session must outlive the sink. */
struct pl_node_sink pl_pack_node_sink(struct pl_pack_builder *session);
