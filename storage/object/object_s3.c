/* object_s3: opens the driver, and puts and removes objects. An exclusive put uses If-None-Match and, if the
 * key exists, compares the object's bytes. */
#include "storage/object/object_s3.h"

#include "storage/base/hash.h"
#include "storage/s3/crc32c.h"
#include "storage/s3/s3_profile.h"
#include "storage/s3/s3_response.h"
#include "storage/s3/s3_xml.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define UPLOAD_PREFIX     "s3-"
#define UPLOAD_RANDOM_HEX 32
#define UPLOAD_STALE_S    (24 * 60 * 60)
/* maximum number of rounds of an exclusive put: a round is repeated if the existing object was removed before
 * its bytes could be compared */
#define PUT_ROUNDS 3

/* ---- put ---- */

/* Checksum of the body, which lets the server reject damaged bytes. Without TLS: the SHA-256, which is part
 * of the signature. With TLS, which already protects the bytes in transit: the cheaper CRC-32C. */
struct put_sum {
    char hex[PL_HASH_HEX + 1];
    char crc[PL_CRC32C_BASE64 + 1];
};

static void sum_bytes(const struct iovec *iov, int n, bool tls, struct put_sum *ret)
{
    struct pl_hasher h;
    struct pl_hash hash;
    uint32_t crc = 0;

    pl_hasher_init(&h);
    for (int i = 0; i < n; i++) {
        if (tls)
            crc = pl_crc32c(crc, iov[i].iov_base, iov[i].iov_len);
        else
            pl_hasher_add(&h, iov[i].iov_base, iov[i].iov_len);
    }
    pl_hasher_get(&h, &hash);
    (void)pl_hash_hex(&hash, ret->hex);
    (void)pl_crc32c_base64(crc, ret->crc);
}

int pl_object_s3_put_once(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, bool condition,
                          unsigned *ret_status, struct pl_err *err)
{
    const bool tls = pl_s3_client_tls(s->client);
    struct pl_sigv4_pair headers[2];
    struct pl_s3_call call = {
        .method = "PUT", .key = key, .headers = headers, .body = iov, .n_body = n, .has_body = true, .xml = true, .etag = true};
    struct put_sum sum;
    int r;

    sum_bytes(iov, n, tls, &sum);
    call.payload = tls ? PL_SIGV4_UNSIGNED : sum.hex;
    if (tls)
        headers[call.n_headers++] = (struct pl_sigv4_pair){"x-amz-checksum-crc32c", sum.crc};
    if (condition)
        headers[call.n_headers++] = (struct pl_sigv4_pair){"if-none-match", "*"};
    r = pl_s3_client_run(s->client, &call, err);
    /* no attempt was sent, so it is certain that no object was created */
    if ((r == PL_ENET || r == PL_ETIMEOUT) && !call.unknown)
        r = pl_err_wrap(err, PL_EIO, "the store cannot be reached");
    if (ret_status != NULL)
        *ret_status = call.x.status;
    pl_s3_call_finish(&call);
    return r;
}

/* Puts with If-None-Match. If the key exists, it may have been created by an earlier attempt of the same put
 * whose response was lost, or that a proxy delivered twice; the object then has exactly these bytes, and the
 * put succeeds. */
static int put_absent(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, struct pl_err *err)
{
    int r = PL_EEXISTS, same = PL_ENOTFOUND;

    for (int i = 0; i < PUT_ROUNDS && r == PL_EEXISTS && same == PL_ENOTFOUND; i++) {
        r = pl_object_s3_put_once(s, key, iov, n, true, NULL, err);
        if (r == PL_EEXISTS)
            same = pl_object_s3_compare(s, key, iov, n, err);
    }
    if (r != PL_EEXISTS)
        return r;
    if (same < 0) /* the key exists or existed; whether it holds these bytes is unknown */
        return pl_err_wrap(err, same == PL_ETIMEOUT ? PL_ETIMEOUT : PL_ENET, "compare the existing object");
    return same == 1 ? 0 : pl_err_set(err, PL_EEXISTS, "object %s exists", key);
}

/* Exclusive put on a server without put-if-absent: checks that the key is absent, then puts. It does not
 * detect a put of the same key that runs at the same time. */
static int put_looking(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, struct pl_err *err)
{
    int same = pl_object_s3_compare(s, key, iov, n, err);

    if (same == PL_ENOTFOUND)
        return pl_object_s3_put_once(s, key, iov, n, false, NULL, err);
    return same <= 0 ? (same < 0 ? same : pl_err_set(err, PL_EEXISTS, "object %s exists", key)) : 0;
}

static int s3_put(struct pl_object_store *store, const char *key, const struct iovec *iov, int n, bool exclusive,
                  struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);
    int r;

    if (!exclusive)
        r = pl_object_s3_put_once(s, key, iov, n, false, NULL, err);
    else if ((store->caps & PL_OBJECT_PUT_IF_ABSENT) != 0)
        r = put_absent(s, key, iov, n, err);
    else
        r = put_looking(s, key, iov, n, err);
    return r < 0 && r != PL_EEXISTS ? pl_err_wrap(err, r, "put object %s", key) : r;
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
    r = s3_put(store, key, &iov, 1, true, err);
    if (iov.iov_len > 0)
        (void)munmap(iov.iov_base, iov.iov_len);
    return r;
}

static int s3_adopt(struct pl_object_store *store, const char *key, const char *temp_path, struct pl_err *err)
{
    int r = put_file(store, key, temp_path, err);

    (void)unlink(temp_path);
    return r;
}

/* The server answers only when an object is durable. */
static int s3_flush(struct pl_object_store *store, struct pl_err *err)
{
    (void)store;
    (void)err;
    return 0;
}

static int s3_open_fd(struct pl_object_store *store, const char *key, int *ret_fd, struct pl_err *err)
{
    (void)store;
    (void)ret_fd;
    return pl_err_set(err, PL_EUNAVAILABLE, "object %s is in a bucket, not in a file", key);
}

static int s3_tmp_path(struct pl_object_store *store, char out[PATH_MAX], struct pl_err *err)
{
    char hex[UPLOAD_RANDOM_HEX + 1];
    uint8_t random[UPLOAD_RANDOM_HEX / 2];

    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), hex);
    if (snprintf(out, PATH_MAX, "%s/" UPLOAD_PREFIX "%s", pl_object_s3_of(store)->tmp_dir, hex) >= PATH_MAX)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", pl_object_s3_of(store)->tmp_dir);
    return 0;
}

/* ---- remove ---- */

static int s3_remove(struct pl_object_store *store, const char *key, struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);
    struct pl_s3_call call = {.method = "DELETE", .key = key, .xml = true};
    int r = pl_s3_client_run(s->client, &call, err);

    pl_s3_call_finish(&call);
    if (s->cache != NULL)
        pl_object_cache_forget(s->cache, key);
    return r < 0 && r != PL_ENOTFOUND ? pl_err_wrap(err, r, "remove object %s", key) : 0;
}

static int delete_document(const struct pl_s3_place *place, const char *const *keys, size_t n, struct pl_buf *out,
                           struct pl_err *err)
{
    char whole[2 * PL_OBJECT_KEY_MAX + 8];
    int r = pl_s3_xml_begin(out, "Delete", true, err);

    if (r == 0)
        r = pl_s3_xml_add(out, "Quiet", "true", err);
    for (size_t i = 0; i < n && r == 0; i++) {
        (void)snprintf(whole, sizeof(whole), "%s%s", place->prefix, keys[i]);
        r = pl_s3_xml_open(out, "Object", err);
        if (r == 0)
            r = pl_s3_xml_add(out, "Key", whole, err);
        if (r == 0)
            r = pl_s3_xml_close(out, "Object", err);
    }
    return r < 0 ? r : pl_s3_xml_close(out, "Delete", err);
}

static int md5_base64(const struct pl_buf *b, char **ret, struct pl_err *err)
{
    uint8_t md5[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (EVP_Digest(b->data, b->len, md5, &n, EVP_md5(), NULL) != 1)
        return pl_err_set(err, PL_EUNAVAILABLE, "this OpenSSL has no MD5, which DeleteObjects requires");
    return pl_base64_encode(md5, n, ret, err);
}

/* Handles a key that a batch request did not remove: if the error code is transient, removes the key with a
 * separate request. */
static int delete_again(struct pl_object_store *store, const char *key, const char *code, struct pl_err *err)
{
    const char *prefix = pl_object_s3_of(store)->place.prefix;
    const enum pl_s3_response_class class = pl_s3_response_class_of(400, code);

    if (pl_streq(code, "NoSuchKey"))
        return 0;
    if ((class != PL_S3_RETRY && class != PL_S3_REDUCE_RATE) || strncmp(key, prefix, strlen(prefix)) != 0)
        return pl_err_set(err, PL_EIO, "s3: %s: %s", key, code);
    return s3_remove(store, key + strlen(prefix), err);
}

/* Reads the response of a batch, which lists the keys that were not removed. */
static int read_delete(struct pl_object_store *store, const struct pl_buf *reply, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    const struct pl_s3_xml_node *e;
    const char *key, *code;
    int r = pl_s3_xml_parse(reply->data, reply->len, &x, err);

    if (r == 0 && !pl_streq(pl_s3_xml_root(x)->name, "DeleteResult"))
        r = pl_err_set(err, PL_EPROTO, "the response to DeleteObjects is a document \"%.64s\"", pl_s3_xml_root(x)->name);
    for (e = r == 0 ? pl_s3_xml_child(pl_s3_xml_root(x), "Error") : NULL; e != NULL && r == 0; e = pl_s3_xml_again(e)) {
        code = pl_s3_xml_text(e, "Code");
        key = pl_s3_xml_text(e, "Key");
        r = delete_again(store, key != NULL ? key : "?", code != NULL ? code : "?", err);
    }
    return r;
}

/* Removes up to PL_S3_DELETE_KEYS objects with one request. `*ret_none`: the server does not support the
 * request. */
static int delete_batch(struct pl_object_store *store, const char *const *keys, size_t n, bool *ret_none, struct pl_err *err)
{
    static const struct pl_sigv4_pair query[] = {{"delete", ""}};
    _cleanup_(pl_buf_finish) struct pl_buf body = {0};
    _cleanup_free_ char *md5 = NULL;
    struct pl_sigv4_pair headers[] = {{"content-md5", NULL}, {"content-type", "application/xml"}};
    struct iovec iov;
    char hex[PL_HASH_HEX + 1];
    struct pl_hash hash;
    struct pl_s3_call call = {.method = "POST",
                              .query = query,
                              .n_query = 1,
                              .headers = headers,
                              .n_headers = 2,
                              .body = &iov,
                              .n_body = 1,
                              .has_body = true,
                              .payload = hex,
                              .xml = true};
    struct pl_object_s3 *s = pl_object_s3_of(store);
    int r = delete_document(&s->place, keys, n, &body, err);

    if (r == 0)
        r = md5_base64(&body, &md5, err);
    if (r < 0)
        return r;
    headers[0].value = md5;
    iov = (struct iovec){body.data, body.len};
    pl_hash_sha256(body.data, body.len, &hash);
    (void)pl_hash_hex(&hash, hex);
    r = pl_s3_client_run(s->client, &call, err);
    *ret_none = r == PL_EUNAVAILABLE && call.x.status != 0;
    if (r == 0)
        r = read_delete(store, &call.reply, err);
    pl_s3_call_finish(&call);
    return r;
}

static int remove_each(struct pl_object_store *store, const char *const *keys, size_t n, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = s3_remove(store, keys[i], err);
    return r;
}

static int s3_remove_many(struct pl_object_store *store, const char *const *keys, size_t n, struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i += PL_S3_DELETE_KEYS) {
        const size_t some = PL_MIN(n - i, (size_t)PL_S3_DELETE_KEYS);
        bool none = atomic_load(&s->no_batch);

        if (!none)
            r = delete_batch(store, keys + i, some, &none, err);
        if (none) {
            atomic_store(&s->no_batch, true);
            r = remove_each(store, keys + i, some, err);
        }
    }
    for (size_t i = 0; s->cache != NULL && i < n; i++)
        pl_object_cache_forget(s->cache, keys[i]);
    return r < 0 ? pl_err_wrap(err, r, "remove %zu objects", n) : 0;
}

/* ---- open and close ---- */

static void s3_forget_local(struct pl_object_store *store, const char *key)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);

    if (s->cache != NULL)
        pl_object_cache_forget(s->cache, key);
}

static bool s3_has_local(struct pl_object_store *store, const char *key)
{
    const struct pl_object_s3 *s = pl_object_s3_of(store);

    return s->cache != NULL && pl_object_cache_has(s->cache, key);
}

static void s3_keep_local(struct pl_object_store *store, const char *key, const void *bytes, size_t n)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);

    if (s->cache != NULL)
        pl_object_cache_keep(s->cache, key, bytes, n);
}

static void s3_destroy(struct pl_object_store *store)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);

    pl_s3_client_destroy(s->client);
    pl_object_cache_close(s->cache);
    free(s->tmp_dir);
    free(s->store.ca);
    free(s);
}

static void s3_wake(struct pl_object_store *store)
{
    pl_http_io_wake(pl_s3_client_io(pl_object_s3_of(store)->client));
}

static void s3_requests(struct pl_object_store *store, struct pl_object_requests *ret)
{
    struct pl_s3_client_view view;

    pl_s3_client_look(pl_object_s3_of(store)->client, &view);
    *ret = (struct pl_object_requests){
        .sent = view.requests, .retries = view.retries, .forbidden = view.forbidden, .busy = view.busy, .errors = view.errors};
}

static const struct pl_object_ops s3_ops = {
    .requests = s3_requests,
    .wake = s3_wake,
    .put = s3_put,
    .adopt = s3_adopt,
    .flush = s3_flush,
    .get = pl_object_s3_get,
    .size = pl_object_s3_size,
    .open_fd = s3_open_fd,
    .list = pl_object_s3_list,
    .remove = s3_remove,
    .tmp_path = s3_tmp_path,
    .destroy = s3_destroy,
    .remove_many = s3_remove_many,
    .get_some = pl_object_s3_get_some,
    .tail = pl_object_s3_tail,
    .local_fd = pl_object_s3_local_fd,
    .forget_local = s3_forget_local,
    .has_local = s3_has_local,
    .keep_local = s3_keep_local,
    .sign_get = pl_object_s3_sign_get,
    .sign_put = pl_object_s3_sign_put,
};

static const char *first_of(const char *a, const char *b, const char *c)
{
    if (a != NULL && *a != '\0')
        return a;
    return b != NULL && *b != '\0' ? b : c;
}

/* Returns the region in the shared config file, for a store whose region is not set elsewhere; "" if there is
 * none. */
static const char *profile_region(const struct pl_object_config *config, char out[PL_SIGV4_REGION_MAX + 1])
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const char *profile = first_of(config->profile, getenv("AWS_PROFILE"), "default");

    if (pl_s3_profile_read("AWS_CONFIG_FILE", "config", &text, NULL) < 0 ||
        !pl_s3_profile_value((const char *)text.data, profile, "region", out, PL_SIGV4_REGION_MAX + 1, NULL))
        out[0] = '\0';
    return out;
}

static int find_places(struct pl_object_s3 *s, const struct pl_object_config *config, struct pl_err *err)
{
    char from_profile[PL_SIGV4_REGION_MAX + 1] = "";
    const char *endpoint = first_of(config->endpoint, getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"));
    const char *region = first_of(config->region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"));
    int r;

    if (region == NULL || *region == '\0')
        region = profile_region(config, from_profile);
    r = pl_s3_place_init(&s->place, config->url, endpoint, region, config->style, err);
    s->elsewhere = config->worker_endpoint != NULL && config->worker_endpoint[0] != '\0';
    if (r < 0 || !s->elsewhere)
        return r;
    s->workers = s->place;
    r = pl_s3_place_behind(&s->workers, config->worker_endpoint, err);
    return r < 0 ? pl_err_field(err, r, "worker_endpoint") : 0;
}

/* Creates the S3 client from the configuration and the environment. */
static int open_client(struct pl_object_s3 *s, const struct pl_object_config *config, struct pl_err *err)
{
    const struct pl_s3_client_config c = {
        .place = s->place,
        .creds = {.access_key = config->access_key,
                  .secret = config->secret_key,
                  .token = config->session_token,
                  .profile = config->profile},
        .ca = first_of(config->ca, getenv("AWS_CA_BUNDLE"), NULL),
        .connections = config->connections,
        .pause_ms = config->pause_ms,
        .stall_ms = config->stall_ms,
        .deadline_ms = config->deadline_ms,
    };

    if (c.ca != NULL && access(c.ca, R_OK) < 0)
        return pl_err_field(err, pl_err_errno(err, errno, "ca is \"%s\"", c.ca), "ca");
    if (c.ca != NULL && (s->store.ca = strdup(c.ca)) == NULL)
        return pl_err_nomem(err);
    return pl_s3_client_create(&c, &s->client, err);
}

/* Removes files of uploads that a crash left, if they are older than a day. */
static void remove_stale_uploads(const char *dir)
{
    const time_t before = time(NULL) - UPLOAD_STALE_S;
    struct dirent *e;
    struct stat st;
    DIR *d = opendir(dir);

    while (d != NULL && (e = readdir(d)) != NULL)
        if (strncmp(e->d_name, UPLOAD_PREFIX, strlen(UPLOAD_PREFIX)) == 0 &&
            strlen(e->d_name) == strlen(UPLOAD_PREFIX) + UPLOAD_RANDOM_HEX &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_mtime < before)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL)
        closedir(d);
}

static int open_local(struct pl_object_s3 *s, const struct pl_object_config *config, struct pl_err *err)
{
    s->tmp_dir = strdup(first_of(config->tmp_dir, getenv("TMPDIR"), "/tmp"));
    if (s->tmp_dir == NULL)
        return pl_err_nomem(err);
    if (config->tmp_dir != NULL) /* a configured folder is used only by this program */
        remove_stale_uploads(s->tmp_dir);
    if (config->cache_dir == NULL || config->cache_dir[0] == '\0')
        return 0;
    return pl_object_cache_open(config->cache_dir, config->cache_bytes != 0 ? config->cache_bytes : PL_OBJECT_CACHE_BYTES,
                                &s->cache, err);
}

/* Tests the server if configured, and requires put-if-absent unless the store is exclusive. */
static int find_caps(struct pl_object_s3 *s, const struct pl_object_config *config, struct pl_err *err)
{
    int r;

    s->store.caps = PL_OBJECT_PUT_IF_ABSENT;
    if (!config->probe)
        return 0;
    r = pl_object_s3_probe(s, err);
    if (r < 0)
        return r;
    if ((s->store.caps & PL_OBJECT_PUT_IF_ABSENT) == 0 && !config->exclusive) {
        (void)pl_err_set(err, PL_EUNAVAILABLE,
                         "the server does not refuse a second put of the same key (If-None-Match: *), so two daemons could "
                         "overwrite each other's data: "
                         "use another store, or set store.exclusive to true if no other daemon ever uses this one");
        return pl_err_field(err, PL_EUNAVAILABLE, "store.exclusive");
    }
    return 0;
}

int pl_object_s3_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err)
{
    struct pl_object_s3 *s = calloc(1, sizeof(*s));
    int r;

    if (s == NULL)
        return pl_err_nomem(err);
    s->store.ops = &s3_ops;
    r = find_places(s, config, err);
    if (r == 0)
        r = open_local(s, config, err);
    if (r == 0)
        r = open_client(s, config, err);
    if (r == 0)
        r = find_caps(s, config, err);
    if (r < 0) {
        s3_destroy(&s->store);
        return pl_err_wrap(err, r, "store %.200s", config->url);
    }
    *ret = &s->store;
    return 0;
}
