/* store_fixture: what the tests of storage share: a folder of their own, seeded bytes, a store in it. */
#pragma once

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "storage/base/hash.h"
#include "storage/system/io.h"

#define UNUSED __attribute__((unused))

#ifndef FIXTURE_MALLOC /* a test that lets memory run out has one that is spared */
#define FIXTURE_MALLOC malloc
#endif

/* Fails the test with the message of `err` when r < 0. */
#define assert_ok(r, err)                                                                                                        \
    do {                                                                                                                         \
        int ok_result_ = (r);                                                                                                    \
        if (ok_result_ < 0)                                                                                                      \
            fail_msg("%s:%d: %d: %s", __FILE__, __LINE__, ok_result_, (err)->msg);                                               \
    } while (0)

/* A fresh folder under TMPDIR; give it back with fixture_remove. */
static UNUSED char *fixture_dir(void)
{
    const char *base = getenv("TMPDIR");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/pl-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static UNUSED void fixture_remove(char *dir)
{
    struct pl_err err;

    assert_ok(pl_io_remove_tree(dir, &err), &err);
    free(dir);
}

/* "<dir>/<name>" in one of four buffers of the thread. */
static UNUSED const char *fixture_path(const char *dir, const char *name)
{
    static _Thread_local char paths[4][4096];
    static _Thread_local unsigned next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

/* `n` bytes of SplitMix64 from `seed`, little-endian numbers one after another. */
static UNUSED void fixture_bytes(void *out, size_t n, uint64_t seed)
{
    uint8_t *p = out;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pl_splitmix64(&seed);

        v = htole64(v);
        memcpy(p + i, &v, n - i < 8 ? n - i : 8);
    }
}

static UNUSED uint8_t *fixture_alloc(size_t n, uint64_t seed)
{
    uint8_t *p = FIXTURE_MALLOC(n + 1);

    assert_non_null(p);
    fixture_bytes(p, n, seed);
    return p;
}

/* Files and folders in a folder, itself not counted; 0 when it is not there. */
static UNUSED size_t fixture_count(const char *dir)
{
    char command[4200], line[64];
    FILE *f;

    (void)snprintf(command, sizeof(command), "find '%s' -mindepth 1 2>/dev/null | wc -l", dir);
    f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    pclose(f);
    return strtoul(line, NULL, 10);
}
