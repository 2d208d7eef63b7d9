#include "chunk_reader.h"

#include "store.h"

static int store_get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    return pl_store_get(self, id, (uint8_t)kind, ret, err);
}

struct pl_chunk_reader pl_store_chunk_reader(struct pl_store *store)
{
    return (struct pl_chunk_reader){.self = store, .get = store_get};
}
