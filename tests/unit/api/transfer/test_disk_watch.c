// link: pipelined/api/transfer storage/base storage/system
/* disk_watch: a disk that does not answer holds up who asks it, and nobody else. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/api/transfer/disk_watch.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/statvfs.h>

/* The disk: each block is a MiB. */
static struct disk {
    _Atomic uint64_t free_mib;
    _Atomic int asked;
    _Atomic bool hangs;
    sem_t hanging, answer;
} disk;

int statvfs(const char *restrict path, struct statvfs *restrict fs)
{
    uint64_t free_mib = disk.free_mib;

    (void)path;
    disk.asked++;
    if (disk.hangs) {
        sem_post(&disk.hanging);
        sem_wait(&disk.answer);
    }
    *fs = (struct statvfs){.f_bavail = free_mib, .f_blocks = 1 << 20, .f_frsize = 1 << 20};
    return 0;
}

static void *admit(void *arg)
{
    static struct pl_err err;

    return (void *)(intptr_t)pl_disk_watch_admit(arg, 0, &err);
}

static uint64_t known_mib(struct pl_disk_watch *w)
{
    json_t *disks = pl_disk_watch_json(w);
    json_int_t bytes = json_integer_value(json_object_get(json_array_get(disks, 0), "free_bytes"));

    json_decref(disks);
    return (uint64_t)bytes >> 20;
}

static void nobody_waits_for_an_answer_that_another_waits_for(void **state)
{
    char *dir = fixture_dir();
    struct pl_disk_watch_config config = {.data_dir = dir, .store_dir = dir};
    struct pl_disk_watch *w;
    struct pl_err err = {0};
    pthread_t thread;
    void *r;

    (void)state;
    sem_init(&disk.hanging, 0, 0);
    sem_init(&disk.answer, 0, 0);
    disk.free_mib = 900000;
    assert_ok(pl_disk_watch_create(&config, &w, &err), &err);
    assert_int_equal(disk.asked, 1);
    disk.free_mib = 800000;
    disk.hangs = true;
    assert_int_equal(pthread_create(&thread, NULL, admit, w), 0);
    sem_wait(&disk.hanging);
    assert_ok(pl_disk_watch_admit(w, 0, &err), &err); /* by what was known */
    assert_int_equal(pl_disk_watch_admit(w, (uint64_t)900000 << 20, &err), PL_ENOSPC);
    assert_int_equal(known_mib(w), 900000);
    pl_disk_watch_look(w);
    assert_int_equal(disk.asked, 2);
    disk.hangs = false;
    sem_post(&disk.answer);
    pthread_join(thread, &r);
    assert_int_equal((intptr_t)r, 0);
    disk.free_mib = 700000;
    assert_int_equal(known_mib(w), 700000);
    pl_disk_watch_destroy(w);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_for_an_answer_that_another_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
