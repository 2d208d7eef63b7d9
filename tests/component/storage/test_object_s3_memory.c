// link: storage/base storage/object storage/system s3_mock
/* object_s3: the memory that it takes beside what callers bring stays under the bound of its header, however much goes through it. The mock
 * is a process of its own, and callers' bytes are mapped or reserved before. PL_TRANSFER_MIB: how much each way; 256. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/object/object_s3.h"
#include "tests/support/s3_server/s3_mock.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define CONNECTIONS 8u
#define CALLERS     8
#define OBJECT      ((size_t)32 << 20)
#define SAMPLE_US   500

extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static char *dir;
static pid_t mock;
static int mock_in; /* closed: it ends */
static struct pl_object_store *store;
static uint8_t *bytes; /* mapped */

/* --- the mock --- */

static void serve(int in, int out)
{
    struct s3_mock *m = s3_mock_start(&(struct s3_mock_config){0});
    char byte;

    if (write(out, s3_mock_url(m), strlen(s3_mock_url(m)) + 1) < 0 || read(in, &byte, 1) < 0)
        _exit(1);
    _exit(s3_mock_violations(m) == 0 ? 0 : 1);
}

static void start_mock(char url[64])
{
    int in[2], out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    mock = fork();
    assert_true(mock >= 0);
    if (mock == 0) {
        close(in[1]);
        serve(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    mock_in = in[1];
    assert_true(read(out[0], url, 64) > 0);
    close(out[0]);
}

static int setup(void **state)
{
    char url[64];
    struct pl_object_config c = {.url = "s3://" S3_MOCK_BUCKET "/x",
                                 .endpoint = url,
                                 .region = S3_MOCK_REGION,
                                 .access_key = S3_MOCK_KEY,
                                 .secret_key = S3_MOCK_SECRET,
                                 .connections = CONNECTIONS};
    struct pl_err err;

    (void)state;
    start_mock(url); /* before there are threads */
    dir = fixture_dir();
    c.tmp_dir = dir;
    c.cache_dir = fixture_path(dir, "cache");
    bytes = mmap(NULL, OBJECT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(bytes != MAP_FAILED);
    for (size_t i = 0; i < OBJECT; i += 64)
        bytes[i] = (uint8_t)(i / 64 * 31);
    assert_ok(pl_object_open(&c, &store, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    int status = 0;

    (void)state;
    store = pl_object_close(store);
    (void)munmap(bytes, OBJECT);
    close(mock_in);
    assert_int_equal(waitpid(mock, &status, 0), mock);
    assert_int_equal(status, 0);
    fixture_remove(dir);
    return 0;
}

/* --- what is held --- */

static size_t held(void)
{
    const struct mallinfo2 info = mallinfo2();

    return __sanitizer_get_current_allocated_bytes != NULL ? __sanitizer_get_current_allocated_bytes()
                                                           : info.uordblks + info.hblkhd;
}

static struct {
    pthread_t thread;
    atomic_bool ending;
    size_t before, most;
} watch;

static void *watch_run(void *arg)
{
    (void)arg;
    while (!atomic_load(&watch.ending)) {
        watch.most = PL_MAX(watch.most, held());
        usleep(SAMPLE_US);
    }
    return NULL;
}

static void watch_begin(void)
{
    watch.before = watch.most = held();
    atomic_store(&watch.ending, false);
    assert_int_equal(pthread_create(&watch.thread, NULL, watch_run, NULL), 0);
}

static size_t watch_end(void)
{
    atomic_store(&watch.ending, true);
    (void)pthread_join(watch.thread, NULL);
    return watch.most - watch.before;
}

/* --- callers --- */

static unsigned rounds(void)
{
    const char *mib = getenv("PL_TRANSFER_MIB");

    return (unsigned)PL_MAX((mib != NULL ? strtoul(mib, NULL, 10) : 256) / (OBJECT >> 20) / CALLERS, 1ul);
}

struct caller {
    pthread_t thread;
    char key[8];
    struct pl_buf into;
};

static void *put_and_get(void *arg)
{
    struct caller *c = arg;
    const struct iovec iov = {bytes, OBJECT};
    struct pl_err err;

    for (unsigned i = 0; i < rounds(); i++) {
        assert_ok(pl_object_put(store, c->key, &iov, 1, false, &err), &err);
        assert_ok(pl_object_get(store, c->key, 0, OBJECT, &c->into, &err), &err);
        assert_int_equal(memcmp(c->into.data, bytes, OBJECT), 0);
    }
    return NULL;
}

static void *get_copy(void *arg)
{
    struct caller *c = arg;
    struct pl_err err;
    int fd;

    assert_ok(pl_object_local_fd(store, c->key, &fd, &err), &err);
    close(fd);
    return NULL;
}

static size_t run(struct caller callers[CALLERS], void *(*fn)(void *arg))
{
    watch_begin();
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i].thread, NULL, fn, &callers[i]), 0);
    for (int i = 0; i < CALLERS; i++)
        (void)pthread_join(callers[i].thread, NULL);
    return watch_end();
}

static void what_goes_through_does_not_stay(void **state)
{
    struct caller callers[CALLERS] = {0};
    size_t took;

    (void)state;
    for (int i = 0; i < CALLERS; i++) {
        (void)snprintf(callers[i].key, sizeof(callers[i].key), "k%d", i);
        assert_int_equal(pl_buf_reserve(&callers[i].into, OBJECT, NULL), 0);
    }
    took = run(callers, put_and_get);
    print_message("         %zu MiB each way took %zu KiB\n", rounds() * CALLERS * (OBJECT >> 20), took >> 10);
    assert_true(took > 0 && took <= PL_S3_MEMORY_BYTES(CONNECTIONS));
    for (int i = 0; i < CALLERS; i++)
        pl_buf_finish(&callers[i].into);
    took = run(callers, get_copy);
    print_message("         copies of %d objects took %zu KiB\n", CALLERS, took >> 10);
    assert_true(took >= OBJECT && took <= PL_S3_MEMORY_BYTES(CONNECTIONS) + PL_OBJECT_CACHE_LOADS * (OBJECT + PL_S3_RANGE_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(what_goes_through_does_not_stay, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
