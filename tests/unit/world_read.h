/* world_read: a reader of a database that a test may hold longer than the daemon may. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/system/lock_order.h"
#include "tests/unit/store_fixture.h"

/* A reader that is held while the store is read: the daemon may not do that (lock_order.h), a test on one thread may. */
static UNUSED struct pl_db_reading world_read(struct pl_db *db)
{
    struct pl_db_reading rd = pl_db_read(db);

    pl_lock_order_give(PL_LOCK_DB_READER);
    return rd;
}
