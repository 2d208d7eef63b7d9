/* object_libs3: loads the module, repeats calls that fail with a transient error, and implements an exclusive
 * put by checking under a lock that the key is absent before it puts the object. */
#include "storage/object/object_libs3.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/object/libs3_module.h"
#include "storage/object/object_cache.h"
#include "storage/object/stream_compare.h"
#include "storage/s3/s3_credentials.h"
#include "storage/s3/s3_profile.h"
#include "storage/s3/s3_url.h"
#include "storage/system/program_run.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define MODULE_FILE "../lib/pl-libs3.so" /* relative to the folder of the program */
#define PUT_LOCKS   16u
#define KEPT_MAX    ((size_t)256 << 20) /* maximum size of an object for local_fd, in bytes */

struct libs3_store {
    struct pl_object_store store;
    struct pl_s3_place place;
    struct pl_libs3_bucket bucket; /* the strings that it points to are in the fields below */
    char access_key[PL_S3_ACCESS_KEY_MAX + 1];
    char secret[PL_S3_SECRET_MAX + 1];
    struct pl_object_cache *cache; /* NULL = none */
    char *tmp_dir;
    int64_t pause_ms, deadline_ms;
    /* Locks for exclusive puts; the hash of the key selects one. A put holds its lock from the check to the
     * end of the put, so that two threads of this process cannot both put the key. */
    pthread_mutex_t puts[PUT_LOCKS];
};

static struct libs3_store *of(struct pl_object_store *s)
{
    return PL_CONTAINER_OF(s, struct libs3_store, store);
}

/* ---- the module ---- */

static const struct pl_libs3_module *module;
static struct pl_err module_error;

/* Loads the module and verifies its version; on failure sets module_error. */
static void load_once(void)
{
    char path[PATH_MAX], text[PL_LIBS3_TEXT] = "";
    pl_libs3_module_fn fn = NULL;
    void *library;

    if (pl_program_folder_file(MODULE_FILE, path, &module_error) < 0)
        return;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        *(void **)&fn = dlsym(library, PL_LIBS3_FUNCTION);
    if (fn != NULL)
        module = fn(text);
    if (module != NULL && module->version == PL_LIBS3_VERSION)
        return;
    if (library == NULL)
        (void)pl_err_set(&module_error, PL_EUNAVAILABLE,
                         "store.driver \"libs3\": the module cannot be loaded (%s): install libs3-2, and build pipelined where "
                         "libs3-dev is installed",
                         dlerror());
    else
        (void)pl_err_set(&module_error, PL_EUNAVAILABLE,
                         "store.driver \"libs3\": %s does not belong to this version of pipelined%s%s", path,
                         text[0] != '\0' ? ": " : "", text);
    module = NULL;
}

int pl_object_libs3_load(struct pl_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, load_once);
    if (module != NULL)
        return 0;
    return pl_err_set(err, module_error.code, "%s", module_error.msg);
}

/* ---- attempts ---- */

static int code_of(enum pl_libs3_result result)
{
    static const int codes[] = {[PL_LIBS3_OK] = 0,
                                [PL_LIBS3_NOT_FOUND] = PL_ENOTFOUND,
                                [PL_LIBS3_NO_BUCKET] = PL_ENOTFOUND,
                                [PL_LIBS3_DENIED] = PL_EFORBIDDEN,
                                [PL_LIBS3_RANGE] = PL_ECORRUPT,
                                [PL_LIBS3_DAMAGED] = PL_ENET,
                                [PL_LIBS3_NO_MEMORY] = PL_ENOMEM,
                                [PL_LIBS3_STOPPED] = PL_ECANCELED,
                                [PL_LIBS3_AGAIN] = PL_ENET,
                                [PL_LIBS3_FAILED] = PL_EIO};

    return codes[result];
}

static int64_t jitter_ms(int64_t bound)
{
    uint32_t random;

    pl_random_bytes(&random, sizeof(random));
    return (int64_t)(random % (uint64_t)(bound + 1));
}

struct attempts {
    struct libs3_store *s;
    unsigned n;
    int64_t deadline_ms;
    char text[PL_LIBS3_TEXT];
};

static struct attempts attempts_of(struct pl_object_store *store)
{
    struct libs3_store *s = of(store);

    return (struct attempts){.s = s, .deadline_ms = pl_clock_mono_ms() + s->deadline_ms};
}

/* Decides whether to make another attempt. If so, sleeps for a random time, whose upper bound doubles with
 * each attempt, and returns true. */
static bool again(struct attempts *a, enum pl_libs3_result result)
{
    const int64_t bound = PL_MIN(a->s->pause_ms << PL_MIN(a->n, 16u), (int64_t)PL_LIBS3_PAUSE_MAX_MS);
    const int64_t pause_ms = jitter_ms(bound);
    struct timespec ts = {pause_ms / 1000, pause_ms % 1000 * 1000000};

    if ((result != PL_LIBS3_AGAIN && result != PL_LIBS3_DAMAGED) || ++a->n == PL_LIBS3_ATTEMPTS ||
        pl_clock_mono_ms() + pause_ms >= a->deadline_ms)
        return false;
    while (nanosleep(&ts, &ts) < 0 && errno == EINTR) {
    }
    return true;
}

static int outcome(const struct attempts *a, enum pl_libs3_result result, const char *what, const char *key, struct pl_err *err)
{
    if (result == PL_LIBS3_OK)
        return 0;
    if (result == PL_LIBS3_NO_BUCKET)
        return pl_err_set(err, PL_EIO, "%s %s: there is no bucket %s at %s", what, key, a->s->place.bucket, a->s->place.host);
    return pl_err_set(err, code_of(result), "%s %s: libs3: %s", what, key, a->text);
}

/* Writes the object's full key, which is the store's prefix and `key`, to `out`; returns `out`. */
static char *whole(const struct libs3_store *s, const char *key, char out[PL_S3_KEY_MAX + 1])
{
    (void)snprintf(out, PL_S3_KEY_MAX + 1, "%s%s", s->place.prefix, key);
    return out;
}

/* ---- reading ---- */

static int libs3_size(struct pl_object_store *store, const char *key, uint64_t *ret, struct pl_err *err)
{
    struct attempts a = attempts_of(store);
    char name[PL_S3_KEY_MAX + 1];
    enum pl_libs3_result result;

    do
        result = module->size(&a.s->bucket, whole(a.s, key, name), ret, a.text);
    while (again(&a, result));
    return outcome(&a, result, "size of object", key, err);
}

struct reading {
    struct pl_buf *out;
    struct pl_err *err;
};

static int take(void *arg, const void *bytes, size_t n)
{
    struct reading *r = arg;

    return pl_buf_add(r->out, bytes, n, r->err);
}

/* Reads `count` bytes; 0 = up to the end. */
static int read_bytes(struct pl_object_store *store, const char *key, uint64_t offset, uint64_t count, struct pl_buf *ret,
                      struct pl_err *err)
{
    struct attempts a = attempts_of(store);
    struct pl_err why = {0};
    struct reading reading = {ret, &why};
    char name[PL_S3_KEY_MAX + 1];
    enum pl_libs3_result result;

    do {
        pl_buf_clear(ret);
        result = module->get(&a.s->bucket, whole(a.s, key, name), offset, count, take, &reading, a.text);
    } while (again(&a, result));
    if (why.code < 0)
        return pl_err_set(err, why.code, "get object %s: %s", key, why.msg);
    return outcome(&a, result, "get object", key, err);
}

static int ends_early(const char *key, uint64_t size, struct pl_err *err)
{
    return pl_err_set(err, PL_ECORRUPT, "object %s ends early: it has %llu bytes", key, (unsigned long long)size);
}

/* Reads a range. libs3 cannot request an empty range or a range to the end of the object, so for these the
 * object's size is requested first. */
static int libs3_get(struct pl_object_store *store, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                     struct pl_err *err)
{
    uint64_t size;
    int r;

    if (offset == 0 && len == PL_OBJECT_TO_END)
        return read_bytes(store, key, 0, 0, ret, err);
    if (len != PL_OBJECT_TO_END && ret->max != 0 && len > ret->max)
        return pl_err_set(err, PL_ETOOBIG, "get object %s: %llu bytes were requested; at most %zu are accepted", key,
                          (unsigned long long)len, ret->max);
    if (len == PL_OBJECT_TO_END || len == 0) { /* an empty range cannot be requested */
        r = libs3_size(store, key, &size, err);
        if (r == 0 && offset > size)
            r = ends_early(key, size, err);
        if (r < 0 || len == 0 || offset == size) {
            if (r == 0)
                pl_buf_clear(ret);
            return r;
        }
        len = size - offset;
    }
    if (offset > UINT64_MAX - len)
        return ends_early(key, offset, err);
    r = read_bytes(store, key, offset, len, ret, err);
    return r == 0 && ret->len != len ? ends_early(key, offset + ret->len, err) : r;
}

static int load(void *self, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    ret->max = KEPT_MAX;
    return read_bytes(self, key, 0, 0, ret, err);
}

static int libs3_local_fd(struct pl_object_store *store, const char *key, int *ret_fd, struct pl_err *err)
{
    struct libs3_store *s = of(store);

    if (s->cache == NULL)
        return pl_err_set(err, PL_EUNAVAILABLE, "object %s is in a bucket, and there is no local cache", key);
    return pl_object_cache_get(s->cache, key, load, store, ret_fd, err);
}

static void libs3_forget_local(struct pl_object_store *store, const char *key)
{
    if (of(store)->cache != NULL)
        pl_object_cache_forget(of(store)->cache, key);
}

static int libs3_open_fd(struct pl_object_store *store, const char *key, int *ret_fd, struct pl_err *err)
{
    (void)store;
    (void)ret_fd;
    return pl_err_set(err, PL_EUNAVAILABLE, "object %s is in a bucket, not in a file", key);
}

/* ---- listing ---- */

struct listing {
    struct libs3_store *s;
    pl_object_visit_fn visit;
    void *arg;
    char last[PL_S3_KEY_MAX + 1];
    int code; /* result of `visit`: a non-zero value ends the listing */
    struct pl_err err;
};

static int listed(void *arg, const char *key, uint64_t size)
{
    struct listing *l = arg;
    const size_t prefix = strlen(l->s->place.prefix);

    if (strlen(key) > PL_S3_KEY_MAX || strncmp(key, l->s->place.prefix, prefix) != 0 || strcmp(key, l->last) <= 0) {
        l->code = pl_err_set(&l->err, PL_EIO,
                             "list: the server returned the key \"%.200s\" after \"%.200s\": this store needs keys in byte order",
                             key, l->last);
        return -1;
    }
    (void)snprintf(l->last, sizeof(l->last), "%s", key);
    /* not an object of this store, such as a folder marker or a user's file */
    if (pl_path_object_key_check(key + prefix, NULL) < 0)
        return 0;
    l->code = l->visit(l->arg, key + prefix, size, &l->err);
    return l->code == 0 ? 0 : -1;
}

/* Lists page after page; each page starts after the last key of the previous one. */
static int libs3_list(struct pl_object_store *store, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                      struct pl_err *err)
{
    struct attempts a = attempts_of(store);
    struct listing l = {.s = of(store), .visit = visit, .arg = arg};
    char name[PL_S3_KEY_MAX + 1], before[PL_S3_KEY_MAX + 1];
    enum pl_libs3_result result;
    bool more = true;

    if (*after != '\0')
        (void)whole(l.s, after, l.last);
    /* If the response of a page was cut off, the next request starts after the last key visited, so that no
     * key is visited twice. */
    while (more) {
        memcpy(before, l.last, sizeof(before));
        result =
            module->list(&l.s->bucket, whole(l.s, prefix, name), l.last[0] != '\0' ? l.last : NULL, listed, &l, &more, a.text);
        if (l.code < 0)
            return pl_err_set(err, l.err.code, "%s", l.err.msg);
        if (l.code > 0)
            return 0;
        if (result == PL_LIBS3_OK) {
            if (more && strcmp(before, l.last) == 0)
                return pl_err_set(err, PL_EIO, "list \"%s\": the server announces more keys, but returns none", prefix);
            continue;
        }
        if (!again(&a, result))
            return outcome(&a, result, "list", prefix, err);
        more = true;
    }
    return 0;
}

/* ---- writing ---- */

static int md5_of(const struct iovec *iov, int n, char **ret, struct pl_err *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t md5[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    bool good = ctx != NULL && EVP_DigestInit_ex(ctx, EVP_md5(), NULL) == 1;

    for (int i = 0; i < n && good; i++)
        good = EVP_DigestUpdate(ctx, iov[i].iov_base, iov[i].iov_len) == 1;
    good = good && EVP_DigestFinal_ex(ctx, md5, &size) == 1;
    EVP_MD_CTX_free(ctx);
    if (!good)
        return pl_err_set(err, PL_EUNAVAILABLE, "this OpenSSL has no MD5, which the server needs to verify the bytes");
    return pl_base64_encode(md5, size, ret, err);
}

static int put_bytes(struct pl_object_store *store, const char *key, const struct iovec *iov, int n, struct pl_err *err)
{
    struct attempts a = attempts_of(store);
    _cleanup_free_ char *md5 = NULL;
    char name[PL_S3_KEY_MAX + 1];
    enum pl_libs3_result result;
    int r = md5_of(iov, n, &md5, err);

    if (r < 0)
        return r;
    do
        result = module->put(&a.s->bucket, whole(a.s, key, name), iov, n, md5, a.text);
    while (again(&a, result));
    return outcome(&a, result, "put object", key, err);
}

static int compare(void *arg, const void *bytes, size_t n)
{
    struct pl_stream_compare *c = arg;

    (void)pl_stream_compare_add(c, bytes, n);
    return c->differs ? -1 : 0;
}

/* Returns 1 if the object has these bytes, otherwise 0 or an error. If it has, the object may have been
 * created by an earlier attempt of the same put whose response was lost. */
static int is_same(struct pl_object_store *store, const char *key, const struct iovec *iov, int n, struct pl_err *err)
{
    struct attempts a = attempts_of(store);
    char name[PL_S3_KEY_MAX + 1];
    enum pl_libs3_result result;
    struct pl_stream_compare c;

    do {
        c = (struct pl_stream_compare){.iov = iov, .n = n};
        result = module->get(&a.s->bucket, whole(a.s, key, name), 0, 0, compare, &c, a.text);
    } while (!c.differs && again(&a, result));
    if (c.differs)
        return 0;
    return result == PL_LIBS3_OK ? pl_stream_compare_end(&c) : outcome(&a, result, "compare object", key, err);
}

/* Puts an object if its key is absent. No other program writes to the store (`exclusive`), so a check before
 * the put is enough. */
static int put_absent(struct pl_object_store *store, const char *key, const struct iovec *iov, int n, struct pl_err *err)
{
    struct pl_hash hash;
    pthread_mutex_t *lock;
    uint64_t size;
    int r;

    pl_hash_sha256(key, strlen(key), &hash);
    lock = &of(store)->puts[hash.b[0] % PUT_LOCKS];
    (void)pthread_mutex_lock(lock);
    r = libs3_size(store, key, &size, err);
    if (r == 0)
        r = is_same(store, key, iov, n, err);
    if (r == 1)
        r = 0;
    else if (r == 0)
        r = pl_err_set(err, PL_EEXISTS, "object %s exists", key);
    else if (r == PL_ENOTFOUND)
        r = put_bytes(store, key, iov, n, err);
    (void)pthread_mutex_unlock(lock);
    return r;
}

static int libs3_put(struct pl_object_store *store, const char *key, const struct iovec *iov, int n, bool exclusive,
                     struct pl_err *err)
{
    return exclusive ? put_absent(store, key, iov, n, err) : put_bytes(store, key, iov, n, err);
}

static int put_file(struct pl_object_store *store, const char *key, const char *path, struct pl_err *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct iovec iov = {0};
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot open %s", path);
    iov.iov_len = (size_t)st.st_size;
    if (iov.iov_len > 0)
        iov.iov_base = mmap(NULL, iov.iov_len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (iov.iov_base == MAP_FAILED)
        return pl_err_errno(err, errno, "cannot map %s", path);
    r = put_absent(store, key, &iov, 1, err);
    if (iov.iov_len > 0)
        (void)munmap(iov.iov_base, iov.iov_len);
    return r;
}

static int libs3_adopt(struct pl_object_store *store, const char *key, const char *temp_path, struct pl_err *err)
{
    int r = put_file(store, key, temp_path, err);

    (void)unlink(temp_path);
    return r;
}

/* the server answers only when the object is durable */
static int libs3_flush(struct pl_object_store *store, struct pl_err *err)
{
    (void)store;
    (void)err;
    return 0;
}

static int libs3_remove(struct pl_object_store *store, const char *key, struct pl_err *err)
{
    struct attempts a = attempts_of(store);
    char name[PL_S3_KEY_MAX + 1];
    enum pl_libs3_result result;

    do
        result = module->remove(&a.s->bucket, whole(a.s, key, name), a.text);
    while (again(&a, result));
    libs3_forget_local(store, key);
    return result == PL_LIBS3_NOT_FOUND ? 0 : outcome(&a, result, "remove object", key, err);
}

static int libs3_tmp_path(struct pl_object_store *store, char out[PATH_MAX], struct pl_err *err)
{
    uint8_t random[16];
    char hex[2 * sizeof(random) + 1];

    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), hex);
    if (snprintf(out, PATH_MAX, "%s/s3-%s", of(store)->tmp_dir, hex) >= PATH_MAX)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", of(store)->tmp_dir);
    return 0;
}

/* ---- open and close ---- */

static void libs3_destroy(struct pl_object_store *store)
{
    struct libs3_store *s = of(store);

    pl_object_cache_close(s->cache);
    for (size_t i = 0; i < PUT_LOCKS; i++)
        (void)pthread_mutex_destroy(&s->puts[i]);
    OPENSSL_cleanse(s->secret, sizeof(s->secret));
    free(s->tmp_dir);
    free(s);
}

static const struct pl_object_ops libs3_ops = {
    .put = libs3_put,
    .adopt = libs3_adopt,
    .flush = libs3_flush,
    .get = libs3_get,
    .size = libs3_size,
    .open_fd = libs3_open_fd,
    .list = libs3_list,
    .remove = libs3_remove,
    .tmp_path = libs3_tmp_path,
    .destroy = libs3_destroy,
    .local_fd = libs3_local_fd,
    .forget_local = libs3_forget_local,
};

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static const char *first_of(const char *a, const char *b, const char *c)
{
    if (given(a))
        return a;
    return given(b) ? b : c;
}

/* Finds the access key in the configuration, the environment or the shared credentials file. Only permanent
 * keys are accepted. */
static int find_keys(struct libs3_store *s, const struct pl_object_config *config, struct pl_err *err)
{
    const char *key = first_of(config->access_key, getenv("AWS_ACCESS_KEY_ID"), NULL);
    const char *secret = first_of(config->secret_key, getenv("AWS_SECRET_ACCESS_KEY"), NULL);
    const char *profile = first_of(config->profile, getenv("AWS_PROFILE"), "default");
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};

    if (given(config->session_token) || (!given(config->access_key) && given(key) && given(getenv("AWS_SESSION_TOKEN"))))
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL,
                                       "temporary keys cannot be used with the driver libs3: Signature V2 does not support them"),
                            "session_token");
    if (given(key) && given(secret)) {
        if (snprintf(s->access_key, sizeof(s->access_key), "%s", key) < (int)sizeof(s->access_key) &&
            snprintf(s->secret, sizeof(s->secret), "%s", secret) < (int)sizeof(s->secret))
            return 0;
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "the access key or its secret is too long"), "access_key");
    }
    if (pl_s3_profile_read("AWS_SHARED_CREDENTIALS_FILE", "credentials", &text, NULL) == 0 &&
        pl_s3_profile_value((const char *)text.data, profile, "aws_access_key_id", s->access_key, sizeof(s->access_key), NULL) &&
        pl_s3_profile_value((const char *)text.data, profile, "aws_secret_access_key", s->secret, sizeof(s->secret), NULL))
        return 0;
    return pl_err_set(
        err, PL_EAUTH,
        "no keys for s3://%s: set store.access_key and store.secret_key, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or profile "
        "\"%.100s\" of ~/.aws/credentials",
        s->place.bucket, profile);
}

/* Rejects settings that this driver does not support, instead of ignoring them. */
static int check(const struct pl_object_config *config, const struct pl_s3_place *place, struct pl_err *err)
{
    if (given(config->ca))
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL, "the driver libs3 trusts only the system's certificates: remove store.ca"),
                            "ca");
    if (given(config->worker_endpoint))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "the driver libs3 cannot presign URLs: remove store.worker_endpoint"),
                            "worker_endpoint");
    if (place->base[0] != '\0')
        return pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "the driver libs3 does not support a path in an endpoint (\"%s\")", place->base),
            "endpoint");
    if (config->exclusive)
        return 0;
    return pl_err_field(
        err,
        pl_err_set(err, PL_EUNAVAILABLE,
                   "the driver libs3 has no put-if-absent, so two daemons could overwrite each other's data: set store.exclusive "
                   "to true if no other daemon ever uses this store"),
        "exclusive");
}

static int find_place(struct libs3_store *s, const struct pl_object_config *config, struct pl_err *err)
{
    const char *endpoint = first_of(config->endpoint, getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"));
    int r = pl_s3_place_init(&s->place, config->url, endpoint, config->region, config->style, err);

    s->bucket = (struct pl_libs3_bucket){.host = s->place.host,
                                         .bucket = s->place.bucket,
                                         .access_key = s->access_key,
                                         .secret_key = s->secret,
                                         .tls = s->place.tls,
                                         .path_style = s->place.path_style};
    return r < 0 ? r : check(config, &s->place, err);
}

static int one_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)arg;
    (void)key;
    (void)size;
    (void)err;
    return 1;
}

static int open_local(struct libs3_store *s, const struct pl_object_config *config, struct pl_err *err)
{
    s->tmp_dir = strdup(first_of(config->tmp_dir, getenv("TMPDIR"), "/tmp"));
    if (s->tmp_dir == NULL)
        return pl_err_nomem(err);
    if (!given(config->cache_dir))
        return 0;
    return pl_object_cache_open(config->cache_dir, config->cache_bytes != 0 ? config->cache_bytes : PL_OBJECT_CACHE_BYTES,
                                &s->cache, err);
}

int pl_object_libs3_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err)
{
    struct libs3_store *s;
    int r = pl_object_libs3_load(err);

    if (r < 0)
        return pl_err_field(err, r, "driver");
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return pl_err_nomem(err);
    s->store.ops = &libs3_ops;
    s->pause_ms = config->pause_ms != 0 ? config->pause_ms : PL_LIBS3_PAUSE_MS;
    s->deadline_ms = config->deadline_ms != 0 ? config->deadline_ms : PL_LIBS3_DEADLINE_MS;
    for (size_t i = 0; i < PUT_LOCKS; i++)
        (void)pthread_mutex_init(&s->puts[i], NULL);
    r = find_place(s, config, err);
    if (r == 0)
        r = find_keys(s, config, err);
    if (r == 0)
        r = open_local(s, config, err);
    if (r == 0) /* a first request verifies the bucket and the keys */
        r = libs3_list(&s->store, "", "", one_key, NULL, err);
    if (r < 0) {
        libs3_destroy(&s->store);
        return pl_err_wrap(err, r, "store %s", config->url);
    }
    *ret = &s->store;
    return 0;
}
