/* s3_credentials_http: selects a source by the environment variables of Amazon's SDKs, and implements the
 * protocols of the three sources. */
#include "storage/s3/s3_credentials_http.h"

#include "storage/http/loopback_host.h"
#include "storage/http/uri.h"
#include "storage/s3/s3_xml.h"
#include "storage/system/io.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

#define ANSWER_MAX     (64u << 10)
#define TOKEN_FILE_MAX (32u << 10)
#define INSTANCE       "http://169.254.169.254"
#define CONTAINER      "http://169.254.170.2"

static bool given(const char *text)
{
    return text != NULL && *text != '\0';
}

/* ---- selecting a source ---- */

int pl_s3_source_web_identity(struct pl_s3_credential_source *s, const struct pl_s3_credentials_config *config,
                              struct pl_err *err)
{
    const char *file = getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = getenv("AWS_ROLE_ARN"),
               *session = getenv("AWS_ROLE_SESSION_NAME");
    const char *region = given(config->region) ? config->region : "us-east-1", *endpoint = getenv("AWS_ENDPOINT_URL_STS");

    if (!given(file))
        return 0;
    if (!given(role))
        return pl_err_set(err, PL_EINVAL, "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
    if (strlen(file) >= sizeof(s->token_file) || strlen(role) >= sizeof(s->role))
        return pl_err_set(err, PL_EINVAL, "AWS_WEB_IDENTITY_TOKEN_FILE or AWS_ROLE_ARN is too long");
    if (given(config->sts_endpoint))
        endpoint = config->sts_endpoint;
    s->kind = PL_S3_SOURCE_WEB_IDENTITY;
    (void)snprintf(s->name, sizeof(s->name), "the web identity (STS)");
    if (given(endpoint))
        (void)snprintf(s->url, sizeof(s->url), "%.500s/", endpoint);
    else
        (void)snprintf(s->url, sizeof(s->url), "https://sts.%.63s.amazonaws.com%s/", region,
                       strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    (void)snprintf(s->token_file, sizeof(s->token_file), "%s", file);
    (void)snprintf(s->role, sizeof(s->role), "%s", role);
    (void)snprintf(s->session, sizeof(s->session), "%.64s", given(session) ? session : "pipelined");
    return 1;
}

/* Returns true if the authorization token may be sent to the URL. Over plain HTTP the token must not leave
 * this machine: only loopback and the link-local addresses of container credentials endpoints are allowed. */
static bool container_url_ok(const char *url)
{
    static const char *const agents[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};

    if (strncmp(url, "https://", 8) == 0)
        return true;
    if (strncmp(url, "http://", 7) != 0 || memchr(url + 7, '@', strcspn(url + 7, "/")) != NULL)
        return false;
    for (size_t i = 0; i < PL_ARRAY_SIZE(agents); i++) {
        const size_t n = strlen(agents[i]);

        /* strchr also finds the NUL at the end of the URL */
        if (strncmp(url + 7, agents[i], n) == 0 && strchr("/:", url[7 + n]) != NULL)
            return true;
    }
    return pl_is_loopback_host(url + 7);
}

int pl_s3_source_container(struct pl_s3_credential_source *s, struct pl_err *err)
{
    const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");

    if (!given(relative) && !given(full))
        return 0;
    if (!given(relative) && !container_url_ok(full))
        return pl_err_set(err, PL_EINVAL,
                          "AWS_CONTAINER_CREDENTIALS_FULL_URI is \"%.200s\": accepted are https://, and http:// on this machine",
                          full);
    if (given(token) && strlen(token) >= sizeof(s->token))
        return pl_err_set(err, PL_EINVAL, "AWS_CONTAINER_AUTHORIZATION_TOKEN is longer than %zu bytes", sizeof(s->token) - 1);
    s->kind = PL_S3_SOURCE_CONTAINER;
    (void)snprintf(s->name, sizeof(s->name), "the container credentials endpoint");
    if (given(relative))
        (void)snprintf(s->url, sizeof(s->url), CONTAINER "%.400s", relative);
    else
        (void)snprintf(s->url, sizeof(s->url), "%.500s", full);
    (void)snprintf(s->token, sizeof(s->token), "%s", given(token) ? token : "");
    (void)snprintf(s->token_file, sizeof(s->token_file), "%.511s", given(file) ? file : "");
    return 1;
}

int pl_s3_source_instance(struct pl_s3_credential_source *s, const struct pl_s3_credentials_config *config, struct pl_err *err)
{
    const char *off = getenv("AWS_EC2_METADATA_DISABLED"), *endpoint = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");

    if (given(off) && strcasecmp(off, "true") == 0)
        return pl_err_set(
            err, PL_EINVAL,
            "none found: not in the configuration (store.access_key), the environment (AWS_ACCESS_KEY_ID), a web identity, "
            "the shared profile or a container, and AWS_EC2_METADATA_DISABLED is set");
    if (given(config->instance_endpoint))
        endpoint = config->instance_endpoint;
    s->kind = PL_S3_SOURCE_INSTANCE;
    (void)snprintf(s->name, sizeof(s->name), "the instance metadata service");
    (void)snprintf(s->url, sizeof(s->url), "%.400s", given(endpoint) ? endpoint : INSTANCE);
    while (s->url[0] != '\0' && s->url[strlen(s->url) - 1] == '/')
        s->url[strlen(s->url) - 1] = '\0';
    return 1;
}

/* ---- querying a source ---- */

/* Sends one request and returns the body of a successful response in `out`. */
static int ask(struct pl_http_io *io, const char *method, const char *url, const char *header, const struct pl_buf *body,
               struct pl_buf *out, struct pl_err *err)
{
    const char *const headers[] = {header, NULL};
    struct iovec iov = {.iov_base = body != NULL ? body->data : NULL, .iov_len = body != NULL ? body->len : 0};
    const bool put = pl_streq(method, "PUT");
    struct pl_http_exchange x = {.method = method,
                                 .url = url,
                                 .headers = headers,
                                 .body = &iov,
                                 .n_body = body != NULL ? 1 : 0,
                                 .has_body = body != NULL || put,
                                 .timeout_ms = PL_S3_FETCH_TIMEOUT_MS,
                                 .out = out};
    int r;

    pl_buf_clear(out);
    out->max = ANSWER_MAX;
    r = pl_http_io_run(io, &x, err);
    if (r == 0 && (x.status < 200 || x.status > 299))
        r = pl_err_set(err, PL_EAUTH, "%.200s responded with status %u: %.*s", url, x.status, (int)PL_MIN(x.problem.len, 200),
                       x.problem.len > 0 ? (const char *)x.problem.data : "");
    pl_buf_finish(&x.problem);
    if (r == 0 && pl_buf_str(out) == NULL)
        r = pl_err_nomem(err);
    return r;
}

/* Parses "2026-11-21T10:04:05Z", also with a fraction of a second. */
static int read_expiry(const char *text, int64_t *ret, struct pl_err *err)
{
    struct tm tm = {0};
    const char *end = text != NULL ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

    if (end == NULL || (*end != 'Z' && *end != '.'))
        return pl_err_set(err, PL_EPROTO, "the credentials expire at \"%.40s\", which is not a valid time",
                          text != NULL ? text : "");
    *ret = (int64_t)timegm(&tm);
    return 0;
}

static int take(const char *access_key, const char *secret, const char *token, const char *expires, struct pl_s3_access_keys *ret,
                struct pl_err *err)
{
    if (!given(access_key) || !given(secret) || strlen(access_key) > PL_S3_ACCESS_KEY_MAX || strlen(secret) > PL_S3_SECRET_MAX ||
        (token != NULL && strlen(token) > PL_S3_TOKEN_MAX))
        return pl_err_set(err, PL_EPROTO, "the response contains no credentials");
    (void)snprintf(ret->access_key, sizeof(ret->access_key), "%s", access_key);
    (void)snprintf(ret->secret, sizeof(ret->secret), "%s", secret);
    (void)snprintf(ret->token, sizeof(ret->token), "%s", token != NULL ? token : "");
    ret->expires_s = 0;
    return expires != NULL ? read_expiry(expires, &ret->expires_s, err) : 0;
}

/* Parses the JSON that a container credentials endpoint or the instance metadata service returns:
 * {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}. */
static int take_json(const struct pl_buf *text, struct pl_s3_access_keys *ret, struct pl_err *err)
{
    json_t *o = json_loadb((const char *)text->data, text->len, 0, NULL);
    int r;

    if (!json_is_object(o))
        r = pl_err_set(err, PL_EPROTO, "the response is not a JSON object");
    else
        r = take(json_string_value(json_object_get(o, "AccessKeyId")), json_string_value(json_object_get(o, "SecretAccessKey")),
                 json_string_value(json_object_get(o, "Token")), json_string_value(json_object_get(o, "Expiration")), ret, err);
    json_decref(o);
    return r;
}

/* IMDSv2: requests a session token, then the name of the instance's role, then the keys of the role. */
static int fetch_instance(const struct pl_s3_credential_source *s, struct pl_http_io *io, struct pl_s3_access_keys *ret,
                          struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf token = {0}, role = {0}, keys = {0};
    char url[768], header[1100];
    int r;

    (void)snprintf(url, sizeof(url), "%s/latest/api/token", s->url);
    r = ask(io, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL, &token, err);
    /* the instance metadata service is the last source, so usually this means that no source has keys */
    if (r < 0)
        return pl_err_wrap(
            err, PL_EAUTH,
            "none found in the configuration (store.access_key), the environment (AWS_ACCESS_KEY_ID), a web identity, the "
            "shared profile or a container, and no instance metadata service responds");
    if (r == 0 && (token.len == 0 || token.len > 1024 || strcspn((const char *)token.data, "\r\n") != token.len))
        r = pl_err_set(err, PL_EPROTO, "%s returned no token", url);
    if (r < 0)
        return r;
    (void)snprintf(header, sizeof(header), "X-aws-ec2-metadata-token: %.1024s", (const char *)token.data);
    (void)snprintf(url, sizeof(url), "%s/latest/meta-data/iam/security-credentials/", s->url);
    r = ask(io, "GET", url, header, NULL, &role, err);
    if (r < 0)
        return r;
    role.data[strcspn((const char *)role.data, "\r\n")] = '\0';
    if (role.data[0] == '\0')
        return pl_err_set(err, PL_EAUTH, "the instance has no role");
    (void)snprintf(url, sizeof(url), "%s/latest/meta-data/iam/security-credentials/%.200s", s->url, (const char *)role.data);
    r = ask(io, "GET", url, header, NULL, &keys, err);
    return r < 0 ? r : take_json(&keys, ret, err);
}

/* Queries the container credentials endpoint, with the authorization token if the environment has one. */
static int fetch_container(const struct pl_s3_credential_source *s, struct pl_http_io *io, struct pl_s3_access_keys *ret,
                           struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf keys = {0}, file = {.max = TOKEN_FILE_MAX};
    _cleanup_free_ char *header = NULL;
    const char *token = s->token;
    int r = 0;

    if (s->token_file[0] != '\0') {
        r = pl_io_read_file(s->token_file, &file, err);
        if (r == 0 && pl_buf_str(&file) == NULL)
            r = pl_err_nomem(err);
        if (r < 0)
            return r;
        file.data[strcspn((const char *)file.data, "\r\n")] = '\0';
        token = (const char *)file.data;
    }
    if (*token != '\0' && asprintf(&header, "Authorization: %s", token) < 0) {
        header = NULL;
        return pl_err_nomem(err);
    }
    r = ask(io, "GET", s->url, header, NULL, &keys, err);
    return r < 0 ? r : take_json(&keys, ret, err);
}

static int add_field(struct pl_buf *form, const char *name, const char *value, struct pl_err *err)
{
    int r = pl_buf_addf(form, err, "%s%s=", form->len > 0 ? "&" : "", name);

    return r < 0 ? r : pl_uri_escape(value, false, form, err);
}

static int take_sts(const struct pl_buf *text, struct pl_s3_access_keys *ret, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    const struct pl_s3_xml_node *c;
    int r = pl_s3_xml_parse(text->data, text->len, &x, err);

    if (r < 0)
        return r;
    c = pl_s3_xml_child(pl_s3_xml_child(pl_s3_xml_root(x), "AssumeRoleWithWebIdentityResult"), "Credentials");
    return take(pl_s3_xml_text(c, "AccessKeyId"), pl_s3_xml_text(c, "SecretAccessKey"), pl_s3_xml_text(c, "SessionToken"),
                pl_s3_xml_text(c, "Expiration"), ret, err);
}

static int fetch_web_identity(const struct pl_s3_credential_source *s, struct pl_http_io *io, struct pl_s3_access_keys *ret,
                              struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf form = {0}, token = {.max = TOKEN_FILE_MAX}, answer = {0};
    /* read the file for each request, because the token in it is renewed */
    int r = pl_io_read_file(s->token_file, &token, err);

    if (r == 0 && pl_buf_str(&token) == NULL)
        r = pl_err_nomem(err);
    if (r < 0)
        return r;
    token.data[strcspn((const char *)token.data, "\r\n")] = '\0';
    r = add_field(&form, "Action", "AssumeRoleWithWebIdentity", err);
    r = r < 0 ? r : add_field(&form, "Version", "2011-06-15", err);
    r = r < 0 ? r : add_field(&form, "RoleArn", s->role, err);
    r = r < 0 ? r : add_field(&form, "RoleSessionName", s->session, err);
    r = r < 0 ? r : add_field(&form, "WebIdentityToken", (const char *)token.data, err);
    r = r < 0 ? r : ask(io, "POST", s->url, "Content-Type: application/x-www-form-urlencoded", &form, &answer, err);
    return r < 0 ? r : take_sts(&answer, ret, err);
}

int pl_s3_source_fetch(const struct pl_s3_credential_source *s, struct pl_http_io *io, struct pl_s3_access_keys *ret,
                       struct pl_err *err)
{
    switch (s->kind) {
    case PL_S3_SOURCE_WEB_IDENTITY:
        return fetch_web_identity(s, io, ret, err);
    case PL_S3_SOURCE_CONTAINER:
        return fetch_container(s, io, ret, err);
    case PL_S3_SOURCE_INSTANCE:
        return fetch_instance(s, io, ret, err);
    case PL_S3_SOURCE_FIXED:
        break;
    }
    return pl_err_set(err, PL_EINTERNAL, "credentials that are configured cannot be fetched");
}
