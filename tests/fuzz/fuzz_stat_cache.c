// link: storage/dataset/ingest storage/system
/* Any bytes as the stat cache's file, with its key and checksum set right first: no cache, or one whose every answer is an entry that a
 * tree may hold; and it can be added to and written anew. */
#include "storage/dataset/ingest/stat_cache.h"
#include "storage/system/io.h"

#include <stdio.h>

#define HEADER_BYTES 64
#define RECORD_BYTES 112
#define STORE        "00112233445566778899aabbccddeeff"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char dir[] = "/tmp/pl-fuzz-stat-XXXXXX", file[128];

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void clean_up(void)
{
    (void)!pl_io_remove_tree(dir, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    must(mkdtemp(dir) != NULL);
    (void)atexit(clean_up);
    (void)snprintf(file, sizeof file, "%s/stat/" STORE "-p", dir);
    return 0;
}

static uint64_t number(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static void mend(uint8_t *bytes, size_t n)
{
    uint64_t key = pl_xxh64(STORE "/p", strlen(STORE "/p"), 0), sum;

    if (n < HEADER_BYTES)
        return;
    sum = pl_xxh64(bytes + HEADER_BYTES, n - HEADER_BYTES, 0);
    memcpy(bytes + 32, &key, sizeof key);
    memcpy(bytes + 40, &sum, sizeof sum);
}

/* Each record of a file that counted as one is asked for by its own key. */
static void ask(const struct pl_stat_cache *c, const uint8_t *bytes)
{
    const uint8_t *records;
    struct pl_stat_key key;
    struct pl_entry e;

    if (pl_stat_cache_len(c) == 0)
        return;
    records = bytes + HEADER_BYTES + 4 * number(bytes + 24);
    for (uint64_t i = 0; i < pl_stat_cache_len(c); i++) {
        memcpy(&key, records + i * RECORD_BYTES, sizeof key);
        if (pl_stat_cache_get(c, &key, &e))
            must(pl_entry_check(&e, NULL) == 0 && e.size == key.size);
        key.ino++;
        if (pl_stat_cache_get(c, &key, &e))
            must(e.size == key.size);
    }
}

static void add_to(struct pl_stat_cache *c)
{
    const struct pl_stat_key key = {.dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5};
    const struct pl_entry entry = pl_entry_inline(PL_KIND_FILE, "abc", 3);
    struct pl_stat_cache *again;
    struct pl_entry e;

    must(pl_stat_cache_put(c, &key, &entry, key.ctime_ns + PL_STAT_CACHE_SETTLE_NS, NULL) == 0);
    must(pl_stat_cache_save(c, NULL) == 0);
    must(pl_stat_cache_open(dir, STORE, "p", &again, NULL) == 0);
    must(pl_stat_cache_len(again) <= pl_stat_cache_len(c) + 1);
    must(pl_stat_cache_get(again, &key, &e) && e.size == 3 && memcmp(e.data, "abc", 3) == 0);
    pl_stat_cache_close(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    struct pl_stat_cache *c;

    if (copy == NULL)
        return 0;
    memcpy(copy, data, n);
    mend(copy, n);
    (void)unlink(file);
    must(pl_stat_cache_open(dir, STORE, "p", &c, NULL) == 0); /* makes the folder */
    pl_stat_cache_close(c);
    must(pl_io_write_file(file, copy, n, 0600, NULL) == 0);
    must(pl_stat_cache_open(dir, STORE, "p", &c, NULL) == 0);
    ask(c, copy);
    add_to(c);
    pl_stat_cache_close(c);
    free(copy);
    return 0;
}
