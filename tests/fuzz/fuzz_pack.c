// link: storage/pack
/* Any bytes as a pack: refused, or every record of it is read. The footer's hash is set right first, since no mutation would get past it. */
#include "storage/pack/pack_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void mend(uint8_t *bytes, size_t n)
{
    size_t footer = 0;
    struct pl_hash hash;

    if (n < PL_PACK_TRAIL_BYTES)
        return;
    for (size_t i = 0; i < 8; i++)
        footer |= (size_t)bytes[n - PL_PACK_TRAIL_BYTES + 8 + i] << (8 * i);
    if (footer > n - PL_PACK_TRAIL_BYTES)
        return;
    pl_hash_sha256(bytes + footer, n - PL_PACK_TRAIL_BYTES - footer, &hash);
    memcpy(bytes + n - PL_HASH_BYTES, hash.b, PL_HASH_BYTES);
}

static void read_all(const struct pl_pack_input *in)
{
    struct pl_pack_footer f;
    struct pl_buf b = {0};

    if (pl_pack_footer_read(in, &f, NULL) < 0)
        return;
    for (uint32_t i = 0; i < f.count; i++) {
        if (pl_pack_record_read(in, &f.entries[i], &b, NULL) == 0 && b.len != f.entries[i].raw)
            abort();
        if (pl_pack_footer_find(&f, &f.entries[i].id) != &f.entries[i])
            abort();
    }
    pl_buf_finish(&b);
    pl_pack_footer_finish(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    struct pl_pack_memory memory = {copy, n};
    struct pl_pack_input in = pl_pack_input_memory(&memory);
    struct pl_pack_verify how = {0};

    if (copy == NULL)
        return 0;
    memcpy(copy, data, n);
    mend(copy, n);
    read_all(&in);
    if (pl_pack_verify(&in, &how, NULL, NULL) == 0 && n < PL_PACK_OVERHEAD(1))
        abort();
    free(copy);
    return 0;
}
