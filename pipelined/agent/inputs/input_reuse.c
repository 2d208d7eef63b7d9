/* A stored checkout is described by the name of its folder alone; there is no other record of it. */
#include "pipelined/agent/inputs/input_reuse.h"

#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>

#define BOOT_HEX   16
#define NAME_BYTES (PL_INPUT_REUSE_KEY + BOOT_HEX + 1 + PL_HASH_HEX + 1 + 16 + 1)
#define PATH_BYTES 4600
/* maximum number of checkouts that one sweep examines; the next sweep handles the rest */
#define SEEN_MAX 256u

struct kept {
    char name[NAME_BYTES];
    int64_t put_ms;
};

static void hash_text(struct pl_hash *h, char *out, size_t bytes)
{
    char hex[PL_HASH_HEX + 1];

    pl_hash_hex(h, hex);
    memcpy(out, hex, bytes);
    out[bytes] = 0;
}

void pl_input_reuse_key(const char *const *texts, size_t n, const void *bytes, size_t len, char out[PL_INPUT_REUSE_KEY])
{
    struct pl_buf all = {0};
    struct pl_hash h;
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = pl_buf_add(&all, texts[i], strlen(texts[i]) + 1, NULL);
    if (r == 0 && len > 0)
        r = pl_buf_add(&all, bytes, len, NULL);
    pl_hash_sha256(all.data, r == 0 ? all.len : 0, &h);
    hash_text(&h, out, PL_INPUT_REUSE_KEY - 1);
    pl_buf_finish(&all);
}

static void boot_text(char out[BOOT_HEX + 1])
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = 256};
    struct pl_hash h;

    /* if the boot id cannot be read, checkouts from before the last boot are used too */
    (void)!pl_io_read_file("/proc/sys/kernel/random/boot_id", &b, NULL);
    pl_hash_sha256(b.data, b.len, &h);
    hash_text(&h, out, BOOT_HEX);
}

/* Parses the folder name of a checkout. True if it is a stored checkout of the machine's present boot. */
static bool read_name(const char *name, const char *boot, struct kept *ret, struct pl_hash *ret_root)
{
    const size_t key = PL_INPUT_REUSE_KEY - 1, root = key + 1 + BOOT_HEX + 1;
    char hex[PL_HASH_HEX + 1];
    char *end;

    if (strlen(name) != NAME_BYTES - 1 || name[key] != '-' || strncmp(name + key + 1, boot, BOOT_HEX) != 0)
        return false;
    memcpy(hex, name + root, PL_HASH_HEX);
    hex[PL_HASH_HEX] = 0;
    memcpy(ret->name, name, NAME_BYTES);
    ret->put_ms = (int64_t)strtoull(name + root + PL_HASH_HEX + 1, &end, 16);
    return *end == 0 && pl_hash_parse(hex, ret_root, NULL) == 0;
}

/* Removes a checkout. Renames it first, so that no other worker takes it while it is partly removed. */
static void drop(const char *cache, const char *name)
{
    char from[PATH_BYTES], to[PATH_BYTES];

    snprintf(from, sizeof(from), "%s/kept/%s", cache, name);
    snprintf(to, sizeof(to), "%s/kept/gone-%d", cache, (int)getpid());
    if (rename(from, to) == 0)
        (void)!pl_io_remove_tree(to, NULL);
}

static int newest_first(const void *a, const void *b)
{
    const int64_t x = ((const struct kept *)a)->put_ms, y = ((const struct kept *)b)->put_ms;

    return (x < y) - (x > y);
}

/* Removes checkouts that are too old or too many, so that one more may be stored. */
static void sweep(const char *cache, const char *boot, int64_t now_ms)
{
    char path[PATH_BYTES];
    struct kept *seen = calloc(SEEN_MAX, sizeof(*seen));
    struct pl_hash root;
    const struct dirent *e;
    DIR *dir;
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/kept", cache);
    dir = seen ? opendir(path) : NULL;
    while (dir && n < SEEN_MAX && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        if (read_name(e->d_name, boot, &seen[n], &root) && now_ms - seen[n].put_ms < PL_INPUT_REUSE_S * INT64_C(1000))
            n++;
        else
            drop(cache, e->d_name);
    }
    if (dir)
        closedir(dir);
    if (n > 0)
        qsort(seen, n, sizeof(*seen), newest_first);
    for (size_t i = PL_INPUT_REUSE_MAX - 1; i < n; i++)
        drop(cache, seen[i].name);
    free(seen);
}

void pl_input_reuse_put(const char *cache, const char *key, const char *folder, const struct pl_hash *root)
{
    const int64_t now_ms = pl_clock_wall_us() / 1000;
    char boot[BOOT_HEX + 1], hex[PL_HASH_HEX + 1], path[PATH_BYTES];

    boot_text(boot);
    snprintf(path, sizeof(path), "%s/kept", cache);
    if (pl_io_mkdirs(path, 0700, NULL) < 0)
        return;
    sweep(cache, boot, now_ms);
    snprintf(path, sizeof(path), "%s/kept/%s-%s-%s-%016" PRIx64, cache, key, boot, pl_hash_hex(root, hex), (uint64_t)now_ms);
    /* the rename fails on another file system, or if the name exists; the checkout is then not stored */
    (void)!rename(folder, path);
}

bool pl_input_reuse_take(const char *cache, const char *key, const char *folder, struct pl_hash *ret_root)
{
    char boot[BOOT_HEX + 1], path[PATH_BYTES];
    const struct dirent *e;
    bool taken = false;
    struct kept one;
    DIR *dir;

    boot_text(boot);
    snprintf(path, sizeof(path), "%s/kept", cache);
    dir = opendir(path);
    while (dir && !taken && (e = readdir(dir))) {
        if (strncmp(e->d_name, key, PL_INPUT_REUSE_KEY - 1) != 0 || !read_name(e->d_name, boot, &one, ret_root))
            continue;
        snprintf(path, sizeof(path), "%s/kept/%s", cache, one.name);
        taken = rename(path, folder) == 0;
    }
    if (dir)
        closedir(dir);
    return taken;
}
