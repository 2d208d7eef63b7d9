/* s3_credentials: selects the first source that applies, and runs the thread that fetches and renews keys
 * from it. One mutex guards the keys. */
#include "storage/s3/s3_credentials.h"

#include "storage/base/clock.h"
#include "storage/s3/s3_credentials_http.h"
#include "storage/s3/s3_profile.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

struct pl_s3_credentials {
    struct pl_s3_credential_source source;
    struct pl_http_io *io;
    void (*changed)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t news;
    /* guarded by `lock` */
    struct pl_s3_access_keys keys;
    bool have;   /* `keys` is filled */
    bool wanted; /* the thread must fetch keys */
    bool fetching;
    bool started, ending;
    int64_t again_ms;     /* no fetch before this time */
    struct pl_err failed; /* error of the last fetch; code 0 = none */
    pthread_t thread;
};

/* ---- sources that are read without HTTP ---- */

static bool set_text(char *out, size_t size, const char *value)
{
    (void)snprintf(out, size, "%s", value);
    return strlen(value) < size;
}

static int set_keys(struct pl_s3_access_keys *k, const char *access_key, const char *secret, const char *token, const char *where,
                    struct pl_err *err)
{
    if (secret == NULL || *secret == '\0')
        return pl_err_set(err, PL_EINVAL, "%s has an access key but no secret key", where);
    if (!set_text(k->access_key, sizeof(k->access_key), access_key) || !set_text(k->secret, sizeof(k->secret), secret) ||
        !set_text(k->token, sizeof(k->token), token != NULL ? token : ""))
        return pl_err_set(err, PL_EINVAL, "a key in %s is too long", where);
    return 1;
}

static bool given(const char *text)
{
    return text != NULL && *text != '\0';
}

/* Functions that try a source return 1 if it has keys or can be queried for them, 0 to continue with the next
 * source, or an error. */
static int from_config(struct pl_s3_credentials *c, const struct pl_s3_credentials_config *config, struct pl_err *err)
{
    if (!given(config->access_key))
        return given(config->secret) ? pl_err_set(err, PL_EINVAL, "store.secret_key is set, but store.access_key is not") : 0;
    (void)snprintf(c->source.name, sizeof(c->source.name), "configuration");
    return set_keys(&c->keys, config->access_key, config->secret, config->token, "the configuration", err);
}

static int from_environment(struct pl_s3_credentials *c, struct pl_err *err)
{
    const char *access_key = getenv("AWS_ACCESS_KEY_ID");

    if (!given(access_key))
        return 0;
    (void)snprintf(c->source.name, sizeof(c->source.name), "environment");
    return set_keys(&c->keys, access_key, getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID", err);
}

/* Reads the keys of a profile. A profile that was named in the configuration must have keys. */
static int from_profile(struct pl_s3_credentials *c, const struct pl_s3_credentials_config *config, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const char *named = given(config->profile) ? config->profile : getenv("AWS_PROFILE"),
               *profile = given(named) ? named : "default";
    char access_key[PL_S3_ACCESS_KEY_MAX + 1], secret[PL_S3_SECRET_MAX + 1] = "", token[PL_S3_TOKEN_MAX + 1] = "";
    bool section = false;
    int r = pl_s3_profile_read("AWS_SHARED_CREDENTIALS_FILE", "credentials", &text, err);

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    if (r == 0 &&
        pl_s3_profile_value((const char *)text.data, profile, "aws_access_key_id", access_key, sizeof(access_key), &section)) {
        (void)pl_s3_profile_value((const char *)text.data, profile, "aws_secret_access_key", secret, sizeof(secret), NULL);
        (void)pl_s3_profile_value((const char *)text.data, profile, "aws_session_token", token, sizeof(token), NULL);
        (void)snprintf(c->source.name, sizeof(c->source.name), "profile %.64s", profile);
        return set_keys(&c->keys, access_key, secret, token, c->source.name, err);
    }
    if (given(config->profile))
        return pl_err_set(err, PL_EINVAL, "profile \"%.64s\" has no aws_access_key_id in the shared credentials file", profile);
    return 0;
}

static int find_source(struct pl_s3_credentials *c, const struct pl_s3_credentials_config *config, struct pl_err *err)
{
    int r = from_config(c, config, err);

    if (r == 0)
        r = from_environment(c, err);
    if (r == 0)
        r = pl_s3_source_web_identity(&c->source, config, err);
    if (r == 0)
        r = from_profile(c, config, err);
    if (r == 0)
        r = pl_s3_source_container(&c->source, err);
    if (r == 0)
        r = pl_s3_source_instance(&c->source, config, err);
    if (r < 0)
        return r;
    c->have = c->source.kind == PL_S3_SOURCE_FIXED;
    return 0;
}

int pl_s3_credentials_create(const struct pl_s3_credentials_config *config, struct pl_http_io *io, struct pl_s3_credentials **ret,
                             struct pl_err *err)
{
    struct pl_s3_credentials *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return pl_err_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->news, NULL);
    c->io = io;
    c->changed = config->changed;
    c->arg = config->arg;
    r = find_source(c, config, err);
    if (r < 0) {
        pl_s3_credentials_destroy(c);
        return pl_err_wrap(err, r, "credentials");
    }
    *ret = c;
    return 0;
}

struct pl_s3_credentials *pl_s3_credentials_destroy(struct pl_s3_credentials *c)
{
    if (c == NULL)
        return NULL;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
    if (c->started)
        pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->news);
    pthread_mutex_destroy(&c->lock);
    explicit_bzero(&c->keys, sizeof(c->keys));
    free(c);
    return NULL;
}

/* ---- the thread that fetches keys ---- */

/* Fetches keys from the source. The caller holds the lock, which is released during the fetch. */
static void fetch(struct pl_s3_credentials *c)
{
    struct pl_s3_access_keys keys = {0};
    struct pl_err err = {0};
    int r;

    pthread_mutex_unlock(&c->lock);
    r = pl_s3_source_fetch(&c->source, c->io, &keys, &err);
    pthread_mutex_lock(&c->lock);
    c->fetching = false;
    c->failed = err;
    c->failed.code = r < 0 ? r : 0;
    if (r == 0) {
        c->keys = keys;
        c->have = true;
    }
    c->again_ms = r < 0 ? pl_clock_mono_ms() + PL_S3_CREDENTIALS_AGAIN_MS : 0;
    explicit_bzero(&keys, sizeof(keys));
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
    if (c->changed != NULL)
        c->changed(c->arg);
    pthread_mutex_lock(&c->lock);
}

static void *fetch_thread(void *arg)
{
    struct pl_s3_credentials *c = arg;

    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        if (!c->wanted) {
            pthread_cond_wait(&c->news, &c->lock);
            continue;
        }
        c->wanted = false;
        c->fetching = true;
        fetch(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Makes the thread fetch keys, unless it is fetching or a fetch has just failed. The caller holds the
 * lock. */
static int want(struct pl_s3_credentials *c, struct pl_err *err)
{
    sigset_t all, old;
    int failed = 0;

    if (c->wanted || c->fetching || pl_clock_mono_ms() < c->again_ms)
        return 0;
    if (!c->started) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        failed = pthread_create(&c->thread, NULL, fetch_thread, c);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (failed != 0)
            return pl_err_errno(err, failed, "cannot start a thread");
        c->started = true;
    }
    c->wanted = true;
    pthread_cond_broadcast(&c->news);
    return 0;
}

/* Does the work of pl_s3_credentials_get. The caller holds the lock. */
static int get(struct pl_s3_credentials *c, int64_t now_s, struct pl_s3_access_keys *ret, struct pl_err *err)
{
    const bool expires = c->have && c->keys.expires_s > 0;
    int r = 0;

    if (c->source.kind != PL_S3_SOURCE_FIXED && (!c->have || (expires && now_s > c->keys.expires_s - PL_S3_CREDENTIALS_EARLY_S)))
        r = want(c, err);
    if (r < 0)
        return r;
    if (c->have && (!expires || now_s < c->keys.expires_s)) {
        *ret = c->keys;
        return 0;
    }
    if (c->wanted || c->fetching)
        return pl_err_set(err, PL_EBUSY, "credentials are being fetched from %s", c->source.name);
    if (err != NULL)
        *err = c->failed;
    return pl_err_wrap(err, c->failed.code < 0 ? c->failed.code : PL_EAUTH, "credentials from %s", c->source.name);
}

int pl_s3_credentials_get(struct pl_s3_credentials *c, int64_t now_s, struct pl_s3_access_keys *ret, struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = get(c, now_s, ret, err);
    pthread_mutex_unlock(&c->lock);
    return r;
}

int pl_s3_credentials_wait(struct pl_s3_credentials *c, int64_t now_s, int64_t timeout_ms, struct pl_s3_access_keys *ret,
                           struct pl_err *err)
{
    struct timespec until;
    int r;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    pthread_mutex_lock(&c->lock);
    while ((r = get(c, now_s, ret, err)) == PL_EBUSY)
        if (pthread_cond_timedwait(&c->news, &c->lock, &until) == ETIMEDOUT) {
            r = pl_err_set(err, PL_ETIMEOUT, "no credentials were received from %s in time", c->source.name);
            break;
        }
    pthread_mutex_unlock(&c->lock);
    return r;
}

bool pl_s3_credentials_refused(struct pl_s3_credentials *c, const struct pl_s3_access_keys *keys)
{
    bool can = c->source.kind != PL_S3_SOURCE_FIXED;

    pthread_mutex_lock(&c->lock);
    if (can && pl_streq(c->keys.access_key, keys->access_key) && pl_streq(c->keys.token, keys->token)) {
        c->have = false;
        can = pl_clock_mono_ms() >= c->again_ms;
    }
    pthread_mutex_unlock(&c->lock);
    return can;
}

const char *pl_s3_credentials_source(const struct pl_s3_credentials *c)
{
    return c->source.name;
}
