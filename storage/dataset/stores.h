/* stores: the stores of all projects that live in one object store, each opened when it is first asked for. */
#pragma once

#include "storage/object/object.h"
#include "storage/pack/store.h"

struct pl_stores;

/* `index_dir` gets a folder a project. `objects` outlives it. */
PL_MUST_CHECK
int pl_stores_open(struct pl_object_store *objects, const char *index_dir, struct pl_stores **ret, struct pl_err *err);
/* The project's store, open until pl_stores_close. Any thread. */
PL_MUST_CHECK
int pl_stores_get(struct pl_stores *s, const char *project, struct pl_store **ret, struct pl_err *err);
struct pl_object_store *pl_stores_objects(struct pl_stores *s);
struct pl_stores *pl_stores_close(struct pl_stores *s);
