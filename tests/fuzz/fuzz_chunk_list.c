// link: storage/chunk
/* Any bytes as a chunk list: refused, or all its entries lie within the bytes and add up. */
#include "storage/chunk/chunk_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pl_list list;
    uint64_t sum = 0;

    if (pl_list_decode(data, n, &list, NULL) < 0)
        return 0;
    for (size_t i = 0; i < list.count; i++) {
        struct pl_hash id;
        uint64_t bytes;

        pl_list_entry(&list, i, &id, &bytes);
        if (bytes == 0)
            abort();
        sum += bytes;
    }
    if (sum != list.bytes || list.count == 0 || list.count > PL_LIST_MAX_ENTRIES)
        abort();
    return 0;
}
