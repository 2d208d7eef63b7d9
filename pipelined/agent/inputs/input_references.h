/* input_refs: the entries of a datum's inputs by reference, for links in its output that lead into them: what is linked to is kept without
 * reading a byte. Looked up in the commit's tree, never in the folder, which holds the next datum's inputs by then. Nodes are kept
 * (PL_INPUT_REFERENCES_NODES). One thread. */
#pragma once

#include "pipelined/agent/inputs/input_entries.h"

#define PL_INPUT_REFERENCES_NODES 16u

struct pl_input_references {
    struct pl_node_cache nodes;
};

PL_MUST_CHECK
int pl_input_references_init(struct pl_input_references *refs, const struct pl_chunk_reader *reader, struct pl_err *err);
void pl_input_references_finish(struct pl_input_references *refs);

/* May the command change the row's input of that name? Then a link into it says nothing of what it held. */
bool pl_input_is_writable(const struct pl_agent_protocol_datum *row, const char *name);

/* Calls `visit` for each file or link of the row's input `name` that is `path` (below the input's folder, "" = all of it) or lies
 * below it, with the rest of its path ("" for the file itself). PL_ENOTFOUND when there is none. */
typedef int (*pl_input_references_visit_fn)(void *self, const char *rest, const struct pl_entry *entry, struct pl_err *err);
PL_MUST_CHECK
int pl_input_references_visit(struct pl_input_references *refs, const struct pl_agent_protocol_datum *row, const char *name,
                              const char *path, pl_input_references_visit_fn visit, void *self, struct pl_err *err);
