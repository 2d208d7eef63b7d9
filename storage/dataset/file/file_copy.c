/* Every list is read and added, also where `to` may have it: a list that the sink has says nothing about the chunks below it.
 * Chunks, which are nearly all of a file's bytes, are read only if `to` does not have them: its sink is asked once for those of
 * each list. A file of one chunk is small: it is read sooner than a request of its own would be answered, and the builder asks for
 * many at once. */
#include "storage/dataset/file/file_copy.h"

#include "storage/chunk/chunk_list.h"
#include "storage/pack/pack_format.h"

static int copy_record(const struct pl_hash *id, uint8_t kind, const struct pl_chunk_reader *from, struct pl_pack_builder *to,
                       struct pl_buf *bytes, struct pl_err *err)
{
    struct pl_hash copied;
    int r = from->get(from->self, id, kind, bytes, err);

    r = r < 0 ? r : pl_pack_builder_add(to, kind, bytes->data, bytes->len, &copied, err);
    if (r == 0 && !pl_hash_eq(id, &copied))
        r = pl_err_set(err, PL_ECORRUPT, "a record does not have the hash by which it was read");
    return r < 0 ? r : 0;
}

static int copy_chunk(const struct pl_hash *id, const struct pl_chunk_reader *from, struct pl_pack_builder *to,
                      struct pl_buf *chunk, struct pl_err *err)
{
    return pl_pack_builder_knows(to, id) ? 0 : copy_record(id, PL_REC_CHUNK, from, to, chunk, err);
}

/* Looks up all chunks of a list of level 0. */
static int look_up(const struct pl_list *list, struct pl_pack_builder *to, struct pl_err *err)
{
    _cleanup_free_ struct pl_hash *ids = calloc(list->count, sizeof(*ids));
    uint64_t size;

    if (!ids)
        return pl_err_nomem(err);
    for (size_t i = 0; i < list->count; i++)
        pl_list_entry(list, i, &ids[i], &size);
    return pl_pack_builder_look_up(to, ids, list->count, err);
}

/* Copies a list and what is below it. `level`: the list's level must be lower, which bounds the depth. */
static int copy_list(const struct pl_hash *id, unsigned level, const struct pl_chunk_reader *from, struct pl_pack_builder *to,
                     struct pl_buf *chunk, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_list list;
    int r = copy_record(id, PL_REC_LIST, from, to, &bytes, err);

    r = r < 0 ? r : pl_list_decode(bytes.data, bytes.len, &list, err);
    if (r == 0 && list.level >= level)
        r = pl_err_set(err, PL_ECORRUPT, "a chunk list of level %u is where one of a lower level than %u must be", list.level,
                       level);
    if (r == 0 && list.level == 0)
        r = look_up(&list, to, err);
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        struct pl_hash below;
        uint64_t size;

        pl_list_entry(&list, i, &below, &size);
        r = list.level == 0 ? copy_chunk(&below, from, to, chunk, err) : copy_list(&below, list.level, from, to, chunk, err);
    }
    return r;
}

int pl_file_copy(const struct pl_entry *entry, const struct pl_chunk_reader *from, struct pl_pack_builder *to, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf chunk = {0};

    switch (entry->content) {
    case PL_CONTENT_CHUNK:
        return copy_chunk(&entry->id, from, to, &chunk, err);
    case PL_CONTENT_LIST:
        return copy_list(&entry->id, PL_LIST_MAX_LEVEL + 1, from, to, &chunk, err);
    default:
        return 0;
    }
}
