/* project_stores: the stores of all projects of one object store. Each is opened when it is first needed. */
#pragma once

#include "storage/object/object.h"
#include "storage/store/store.h"

struct pl_project_stores;

/* Creates the set; opens no store yet. Each project gets a folder below `index_dir`. `objects` must
 * outlive the set. */
PL_MUST_CHECK
int pl_project_stores_open(struct pl_object_store *objects, const char *index_dir, struct pl_project_stores **ret,
                           struct pl_err *err);
/* Returns the project's store, which stays open until pl_project_stores_close. Opening it reads from the
 * object store, so call this without a lock or a database reader. Any thread. */
PL_MUST_CHECK
int pl_project_stores_get(struct pl_project_stores *s, const char *project, struct pl_store **ret, struct pl_err *err);
/* Sets a function that is called with each newly opened store, before pl_project_stores_get returns it. If
 * it fails, pl_project_stores_get fails with its error. Call this before the first pl_project_stores_get. */
void pl_project_stores_on_open(struct pl_project_stores *s, int (*opened)(void *self, struct pl_store *store, struct pl_err *err),
                               void *self);
/* Returns the project's store if it is open, or if the function `opened` is running for it now; otherwise
 * NULL. Does not block. Any thread. */
struct pl_store *pl_project_stores_peek(struct pl_project_stores *s, const char *project);
struct pl_object_store *pl_project_stores_objects(struct pl_project_stores *s);
struct pl_project_stores *pl_project_stores_close(struct pl_project_stores *s);
