// link: storage/base storage/object storage/s3 storage/system s3_mock
/* s3_creds: each source gives its keys, in order; what expires is renewed before, and while it is renewed the old ones are used. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/object/object.h"
#include "storage/s3/s3_credentials.h"
#include "tests/support/s3_server/s3_mock.h"

#include <microhttpd.h>
#include <pthread.h>
#include <time.h>

/* Answers as the metadata service of an instance, the agent of a container and STS would, and counts. */
struct agent {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    char url[64], access_key[32], expires[40], seen[512];
    unsigned asked; /* for keys */
    bool down;
};

static struct agent agent;
static struct pl_http_io *io;
static char *dir;

static void *remember_uri(void *arg, const char *uri, struct MHD_Connection *connection)
{
    (void)arg, (void)uri, (void)connection;
    return calloc(1, sizeof(struct pl_buf));
}

static void forget_body(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    (void)arg, (void)connection, (void)code;
    if (*state != NULL)
        pl_buf_finish(*state);
    free(*state);
    *state = NULL;
}

static const char *value_of(struct MHD_Connection *connection, const char *name)
{
    const char *v = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

    return v != NULL ? v : "";
}

/* The text to answer, NULL = 404. */
static char *agent_answer(struct MHD_Connection *connection, const char *url, const char *method, const char *body)
{
    char *text = NULL;
    bool keys = false;
    int n = -1;

    if (pl_streq(url, "/latest/api/token") && pl_streq(method, "PUT") &&
        pl_streq(value_of(connection, "X-aws-ec2-metadata-token-ttl-seconds"), "21600"))
        return strdup("session-token");
    if (strstr(url, "/latest/") == url && !pl_streq(value_of(connection, "X-aws-ec2-metadata-token"), "session-token"))
        return NULL; /* version 2 only */
    if (pl_streq(url, "/latest/meta-data/iam/security-credentials/"))
        return strdup("the-role\n");
    (void)snprintf(agent.seen, sizeof(agent.seen), "%s %s %s %.300s", method, url, value_of(connection, "Authorization"), body);
    keys = pl_streq(url, "/latest/meta-data/iam/security-credentials/the-role") || pl_streq(url, "/agent");
    if (keys)
        n = asprintf(&text, "{\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"secret\",\"Token\":\"token\",\"Expiration\":\"%s\"}",
                     agent.access_key, agent.expires);
    else if (pl_streq(url, "/") && pl_streq(method, "POST"))
        n = asprintf(
            &text,
            "<AssumeRoleWithWebIdentityResponse "
            "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"
            "<Credentials><SessionToken>token</SessionToken><SecretAccessKey>secret</SecretAccessKey><Expiration>%s</Expiration>"
            "<AccessKeyId>%s</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
            agent.expires, agent.access_key);
    agent.asked += n >= 0;
    return n >= 0 ? text : NULL;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **state)
{
    struct pl_buf *body = *state;
    struct MHD_Response *r;
    enum MHD_Result ok;
    char *text;

    (void)arg, (void)version;
    if (body->cap == 0) { /* the head */
        assert_int_equal(pl_buf_reserve(body, 1, NULL), 0);
        return MHD_YES;
    }
    if (*n > 0) {
        assert_int_equal(pl_buf_add(body, data, *n, NULL), 0);
        *n = 0;
        return MHD_YES;
    }
    pthread_mutex_lock(&agent.lock);
    text = agent.down ? NULL : agent_answer(connection, url, method, pl_buf_str(body));
    pthread_mutex_unlock(&agent.lock);
    r = MHD_create_response_from_buffer(text != NULL ? strlen(text) : 0, text != NULL ? text : (void *)"",
                                        text != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    ok = MHD_queue_response(connection, text != NULL ? 200 : 404, r);
    MHD_destroy_response(r);
    return ok;
}

static const char *const variables[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_DISABLED",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT"};

/* Keys that the agent gives from now, good for so long. */
static void give(const char *access_key, int64_t life_s)
{
    time_t at = time(NULL) + life_s;
    struct tm tm;

    pthread_mutex_lock(&agent.lock);
    (void)snprintf(agent.access_key, sizeof(agent.access_key), "%s", access_key);
    strftime(agent.expires, sizeof(agent.expires), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
    pthread_mutex_unlock(&agent.lock);
}

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    for (size_t i = 0; i < PL_ARRAY_SIZE(variables); i++)
        unsetenv(variables[i]);
    setenv("AWS_SHARED_CREDENTIALS_FILE", fixture_path(dir, "credentials"), 1);
    setenv("AWS_CONFIG_FILE", fixture_path(dir, "config"), 1);
    agent = (struct agent){.lock = PTHREAD_MUTEX_INITIALIZER};
    agent.daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, on_request, NULL,
                                    MHD_OPTION_URI_LOG_CALLBACK, remember_uri, NULL, MHD_OPTION_NOTIFY_COMPLETED, forget_body,
                                    NULL, MHD_OPTION_END);
    assert_non_null(agent.daemon);
    (void)snprintf(agent.url, sizeof(agent.url), "http://127.0.0.1:%u",
                   MHD_get_daemon_info(agent.daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    give("FIRST", 3600);
    assert_ok(pl_http_io_create(&(struct pl_http_io_config){.connections = 2, .no_proxy = true}, &io, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io = pl_http_io_destroy(io);
    MHD_stop_daemon(agent.daemon);
    fixture_remove(dir);
    return 0;
}

static void must_give(const struct pl_s3_credentials_config *config, const char *access_key, const char *token,
                      const char *source)
{
    struct pl_s3_credentials *c = NULL;
    struct pl_s3_access_keys keys;
    struct pl_err err;

    assert_ok(pl_s3_credentials_create(config, io, &c, &err), &err);
    assert_ok(pl_s3_credentials_wait(c, time(NULL), 10000, &keys, &err), &err);
    assert_string_equal(keys.access_key, access_key);
    assert_string_equal(keys.token, token);
    assert_string_equal(pl_s3_credentials_source(c), source);
    pl_s3_credentials_destroy(c);
}

static void write_file(const char *name, const char *text)
{
    struct pl_err err;

    assert_ok(pl_io_write_file(fixture_path(dir, name), text, strlen(text), 0600, &err), &err);
}

/* All are there, and taken away one after the other. */
static void the_first_source_that_knows_counts(void **state)
{
    struct pl_s3_credentials_config c = {
        .access_key = "CONFIG", .secret = "s", .instance_endpoint = agent.url, .sts_endpoint = agent.url};

    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
    setenv("AWS_SESSION_TOKEN", "t", 1);
    write_file("token", "the-web-token\n");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", fixture_path(dir, "token"), 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a b", 1);
    write_file("credentials", "[default]\naws_access_key_id=PROFILE\naws_secret_access_key=s\n[two]\naws_access_key_id=TWO\n"
                              "aws_secret_access_key=s\naws_session_token=t2\n");
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/", 1);
    must_give(&c, "CONFIG", "", "configuration");
    c.access_key = c.secret = NULL;
    must_give(&c, "ENV", "t", "environment");
    unsetenv("AWS_ACCESS_KEY_ID");
    must_give(&c, "FIRST", "token", "the web identity (STS)");
    assert_string_equal(
        agent.seen, "POST /  Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b"
                    "&RoleSessionName=pipelined&WebIdentityToken=the-web-token");
    unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    must_give(&c, "PROFILE", "", "profile default");
    setenv("AWS_PROFILE", "two", 1);
    must_give(&c, "TWO", "t2", "profile two");
    write_file("credentials", "");
    {
        char url[96];

        (void)snprintf(url, sizeof(url), "%s/agent", agent.url);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
        write_file("authorization", "Bearer of it");
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", fixture_path(dir, "authorization"), 1);
        must_give(&c, "FIRST", "token", "the container credentials endpoint");
        assert_string_equal(agent.seen, "GET /agent Bearer of it ");
    }
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    must_give(&c, "FIRST", "token", "the instance metadata service");
}

static void half_a_source_is_refused(void **state)
{
    static const char *const strangers[] = {"http://metadata.example/", "http://127.metadata.example/",
                                            "http://localhost:x@metadata.example/", "http://169.254.170.2:80@metadata.example/",
                                            "http://169.254.170.20/"};
    struct pl_s3_credentials *c = NULL;
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_s3_credentials_create(&(struct pl_s3_credentials_config){.access_key = "a"}, io, &c, &err), PL_EINVAL);
    assert_int_equal(pl_s3_credentials_create(&(struct pl_s3_credentials_config){.secret = "a"}, io, &c, &err), PL_EINVAL);
    assert_int_equal(pl_s3_credentials_create(&(struct pl_s3_credentials_config){.profile = "none"}, io, &c, &err), PL_EINVAL);
    for (size_t i = 0; i < PL_ARRAY_SIZE(strangers); i++) { /* would carry the token through the net */
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", strangers[i], 1);
        assert_int_equal(pl_s3_credentials_create(&(struct pl_s3_credentials_config){0}, io, &c, &err), PL_EINVAL);
    }
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "x", 1);
    assert_int_equal(pl_s3_credentials_create(&(struct pl_s3_credentials_config){0}, io, &c, &err), PL_EINVAL);
    setenv("AWS_ACCESS_KEY_ID", "a", 1);
    assert_int_equal(pl_s3_credentials_create(&(struct pl_s3_credentials_config){0}, io, &c, &err), PL_EINVAL);
}

static void without_any_source_it_says_where_it_looked(void **state)
{
    const struct pl_s3_credentials_config config = {.instance_endpoint = agent.url};
    struct pl_s3_credentials *c = NULL;
    struct pl_s3_access_keys keys;
    struct pl_err err;

    (void)state;
    agent.down = true;
    assert_ok(pl_s3_credentials_create(&config, io, &c, &err), &err);
    assert_int_equal(pl_s3_credentials_wait(c, time(NULL), 10000, &keys, &err), PL_EAUTH);
    assert_non_null(strstr(err.msg, "AWS_ACCESS_KEY_ID"));
    pl_s3_credentials_destroy(c);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_int_equal(pl_s3_credentials_create(&config, io, &c, &err), PL_EINVAL);
}

struct news {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n;
};

static void note_news(void *arg)
{
    struct news *news = arg;

    pthread_mutex_lock(&news->lock);
    news->n++;
    pthread_cond_signal(&news->changed);
    pthread_mutex_unlock(&news->lock);
}

static void wait_news(struct news *news, unsigned n)
{
    pthread_mutex_lock(&news->lock);
    while (news->n < n)
        pthread_cond_wait(&news->changed, &news->lock);
    pthread_mutex_unlock(&news->lock);
}

/* --- the sources whose keys expire --- */

static void use_instance(void)
{
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", agent.url, 1);
}

static void use_container(void)
{
    char url[96];

    (void)snprintf(url, sizeof(url), "%s/agent", agent.url);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", fixture_path(dir, "proof"), 1);
}

static void use_web_identity(void)
{
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", fixture_path(dir, "proof"), 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a", 1);
    setenv("AWS_ENDPOINT_URL_STS", agent.url, 1);
}

/* `proof`: it reads the file "proof" anew each time, for that one expires, too. */
static const struct {
    const char *name;
    void (*use)(void);
    bool proof;
} expiring[] = {
    {"instance metadata, version 2", use_instance, false},
    {"container's agent", use_container, true},
    {"web identity", use_web_identity, true},
};

static void assert_proof(size_t source, const char *proof)
{
    pthread_mutex_lock(&agent.lock);
    if (expiring[source].proof && strstr(agent.seen, proof) == NULL)
        fail_msg("%s: \"%s\" is not in %s", expiring[source].name, proof, agent.seen);
    pthread_mutex_unlock(&agent.lock);
}

static void renew(size_t source)
{
    struct news news = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    const struct pl_s3_credentials_config config = {.changed = note_news, .arg = &news};
    const int64_t now_s = time(NULL);
    struct pl_s3_credentials *c = NULL;
    struct pl_s3_access_keys keys, old;
    struct pl_err err;

    assert_ok(pl_s3_credentials_create(&config, io, &c, &err), &err);
    assert_int_equal(pl_s3_credentials_get(c, now_s, &keys, &err), PL_EBUSY); /* nobody waits on the thread that asks */
    wait_news(&news, 1);
    assert_proof(source, "first-proof");
    assert_ok(pl_s3_credentials_get(c, now_s, &keys, &err), &err);
    give("SECOND", 7200);
    write_file("proof", "second-proof");
    assert_ok(pl_s3_credentials_get(c, keys.expires_s - PL_S3_CREDENTIALS_EARLY_S, &keys, &err), &err);
    assert_int_equal(agent.asked, 1);
    assert_ok(pl_s3_credentials_get(c, keys.expires_s - PL_S3_CREDENTIALS_EARLY_S + 1, &old, &err), &err);
    assert_string_equal(old.access_key, "FIRST"); /* while the next are fetched */
    wait_news(&news, 2);
    assert_proof(source, "second-proof");
    assert_ok(pl_s3_credentials_get(c, now_s + 3601, &keys, &err), &err);
    assert_string_equal(keys.access_key, "SECOND");
    assert_int_equal(agent.asked, 2);
    pthread_mutex_lock(&agent.lock);
    agent.down = true;
    pthread_mutex_unlock(&agent.lock);
    assert_ok(pl_s3_credentials_get(c, keys.expires_s - 10, &keys, &err), &err); /* in vain, but these are still good */
    wait_news(&news, 3);
    assert_ok(pl_s3_credentials_get(c, keys.expires_s - 10, &keys, &err), &err);
    assert_true(pl_s3_credentials_get(c, keys.expires_s, &keys, &err) < 0);
    pl_s3_credentials_destroy(c);
}

/* Seen from the driver: keys end in the middle of the work, and the work goes on with others. */
static void work_on(void)
{
    struct s3_mock *mock = s3_mock_start(&(struct s3_mock_config){.access_key = "FIRST", .secret = "secret", .token = "token"});
    struct pl_object_config config = {
        .url = "s3://" S3_MOCK_BUCKET, .endpoint = s3_mock_url(mock), .region = S3_MOCK_REGION, .pause_ms = 1};
    struct iovec iov = {(void *)"x", 1};
    struct pl_object_store *s;
    struct pl_err err;
    uint64_t size;

    assert_ok(pl_object_open(&config, &s, &err), &err);
    assert_ok(pl_object_put(s, "a", &iov, 1, true, &err), &err);
    s3_mock_set_keys(mock, "SECOND", "secret", "token");
    give("SECOND", 3600);
    assert_ok(pl_object_put(s, "b", &iov, 1, true, &err), &err);
    s3_mock_set_keys(mock, "THIRD", "secret", "token");
    give("THIRD", 3600);
    assert_ok(pl_object_size(s, "b", &size, &err), &err); /* HEAD: no body says that they have expired */
    assert_int_equal(s3_mock_violations(mock), 0);
    pl_object_close(s);
    s3_mock_stop(mock);
}

static void of_each_source(void **state, void (*run)(size_t source))
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(expiring); i++) {
        print_message("         %s\n", expiring[i].name);
        write_file("proof", "first-proof");
        expiring[i].use();
        run(i);
        (void)teardown(state);
        (void)setup(state);
    }
}

static void keys_are_renewed_before_they_expire(void **state)
{
    of_each_source(state, renew);
}

static void work_on_with(size_t source)
{
    (void)source;
    work_on();
}

static void work_goes_on_with_new_keys(void **state)
{
    of_each_source(state, work_on_with);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_source_that_knows_counts),
        TEST(half_a_source_is_refused),
        TEST(without_any_source_it_says_where_it_looked),
        TEST(keys_are_renewed_before_they_expire),
        TEST(work_goes_on_with_new_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
