/* input_references: finds the entries of a datum's inputs by path, for links in its output that lead into
 * inputs. The linked files are stored by reference, without reading them. The entries are looked up in the
 * commit's tree and not in the folder, which may already have the next datum's inputs. One thread. */
#pragma once

#include "pipelined/agent/inputs/input_stores.h"

/* tree nodes in the cache of each project */
#define PL_INPUT_REFERENCES_NODES 16u

struct pl_input_references {
    struct pl_input_stores stores;
};

/* Initialises with empty caches. Copies `config`, but for `nodes`, which is PL_INPUT_REFERENCES_NODES. PL_ENOMEM. */
PL_MUST_CHECK
int pl_input_references_init(struct pl_input_references *refs, const struct pl_input_stores_config *config, struct pl_err *err);
void pl_input_references_finish(struct pl_input_references *refs);

/* True if the command may modify the datum's input of that name. A link into such an input does not say what
 * the linked file contained. */
bool pl_input_is_writable(const struct pl_agent_protocol_datum *row, const char *name);

/* Calls `visit` for each file or link of the datum's input `name` whose path is `path` or lies below it.
 * `path` is relative to the input's folder; "" = all of it. `visit` gets the path below `path` as `rest`,
 * which is "" for the entry itself, and as `other` a reader of the entry's content if that is in the store of another
 * project than the stage's, which the output cannot refer to; else NULL. Stops at the first negative result of `visit` and returns it.
 * PL_ENOTFOUND: there is no such entry. */
typedef int (*pl_input_references_visit_fn)(void *self, const char *rest, const struct pl_entry *entry,
                                            const struct pl_chunk_reader *other, struct pl_err *err);
PL_MUST_CHECK
int pl_input_references_visit(struct pl_input_references *refs, const struct pl_agent_protocol_datum *row, const char *name,
                              const char *path, pl_input_references_visit_fn visit, void *self, struct pl_err *err);
