/* stores: the stores of all projects that live in one object store, each opened when it is first asked for. */
#pragma once

#include "storage/object/object.h"
#include "storage/store/store.h"

struct pl_project_stores;

/* `index_dir` gets a folder a project. `objects` outlives it. */
PL_MUST_CHECK
int pl_project_stores_open(struct pl_object_store *objects, const char *index_dir, struct pl_project_stores **ret,
                           struct pl_err *err);
/* The project's store, open until pl_project_stores_close. Opening it asks the object store: hold no lock and no reader of the database. Any thread. */
PL_MUST_CHECK
int pl_project_stores_get(struct pl_project_stores *s, const char *project, struct pl_store **ret, struct pl_err *err);
/* From now on `opened` is called with each store that is opened, before pl_project_stores_get gives it to anybody; its error is pl_project_stores_get's. Before
 * the first pl_project_stores_get. */
void pl_project_stores_on_open(struct pl_project_stores *s, int (*opened)(void *self, struct pl_store *store, struct pl_err *err),
                               void *self);
/* The project's store if it is open, or given to `opened` at this time; else NULL. Waits for nothing. Any thread. */
struct pl_store *pl_project_stores_peek(struct pl_project_stores *s, const char *project);
struct pl_object_store *pl_project_stores_objects(struct pl_project_stores *s);
struct pl_project_stores *pl_project_stores_close(struct pl_project_stores *s);
