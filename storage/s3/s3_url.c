/* s3_url: parses the configuration of a bucket and formats hosts and paths. */
#include "storage/s3/s3_url.h"

#include "storage/http/uri.h"

#include <stdio.h>
#include <strings.h>

static bool bucket_ok(const char *s, size_t len)
{
    return len >= 3 && len <= PL_S3_BUCKET_MAX && s[0] != '.' && s[0] != '-' && s[len - 1] != '.' && s[len - 1] != '-' &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") >= len;
}

static int bad(struct pl_err *err, const char *field, const char *value, const char *accepted)
{
    (void)pl_err_set(err, PL_EINVAL, "%s is \"%.200s\": accepted is %s", field, value, accepted);
    return pl_err_field(err, PL_EINVAL, field);
}

/* Parses s3://BUCKET/PREFIX; the prefix is stored with a final '/'. */
static int read_url(struct pl_s3_place *p, const char *url, struct pl_err *err)
{
    const char *bucket = strncmp(url, "s3://", 5) == 0 ? url + 5 : "";
    const size_t len = strcspn(bucket, "/");
    const char *prefix = bucket + len;
    size_t n;

    if (!bucket_ok(bucket, len))
        return bad(err, "store", url, "s3://BUCKET/PREFIX, a bucket of 3 to 63 letters, digits, '-', '_' and '.'");
    memcpy(p->bucket, bucket, len);
    p->bucket[len] = '\0';
    prefix += strspn(prefix, "/");
    n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/')
        n--;
    if (n > PL_OBJECT_KEY_MAX)
        return bad(err, "store", url, "s3://BUCKET/PREFIX with a prefix of at most 512 bytes");
    memcpy(p->prefix, prefix, n);
    p->prefix[n] = '\0';
    if (n > 0 && pl_path_object_key_check(p->prefix, NULL) < 0)
        return bad(err, "store", url, "s3://BUCKET/PREFIX with a prefix of letters, digits, '.', '_', '-' and '/'");
    if (n > 0)
        memcpy(p->prefix + n, "/", 2);
    return 0;
}

/* Sets the host to Amazon's endpoint for the region. */
static void amazon_host(struct pl_s3_place *p)
{
    const bool china = strncmp(p->region, "cn-", 3) == 0;

    p->tls = true;
    p->base[0] = '\0';
    (void)snprintf(p->host, sizeof(p->host), "s3.%s.amazonaws.com%s", p->region, china ? ".cn" : "");
}

static bool host_ok(const char *s, size_t len)
{
    return len > 0 && len <= PL_S3_ENDPOINT_MAX &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]") >= len;
}

static void set_host(struct pl_s3_place *p, bool tls, const char *host, size_t len)
{
    const char *port = tls ? ":443" : ":80";

    if (len > strlen(port) && strncmp(host + len - strlen(port), port, strlen(port)) == 0)
        /* Clients omit the scheme's default port from Host, and so it is not signed. */
        len -= strlen(port);
    memcpy(p->host, host, len);
    p->host[len] = '\0';
    p->tls = tls;
    p->amazon = false;
}

int pl_s3_place_behind(struct pl_s3_place *p, const char *endpoint, struct pl_err *err)
{
    static const char accepted[] = "http://HOST[:PORT] or https://HOST[:PORT]";
    const bool tls = strncasecmp(endpoint, "https://", 8) == 0;
    const char *host = endpoint + (tls ? 8 : 7), *path;
    size_t len, n;

    if (!tls && strncasecmp(endpoint, "http://", 7) != 0)
        return bad(err, "endpoint", endpoint, accepted);
    len = strcspn(host, "/");
    path = host + len;
    if (!host_ok(host, len))
        return bad(err, "endpoint", endpoint, accepted);
    n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n >= sizeof(p->base) || memchr(path, '?', n) != NULL || memchr(path, '%', n) != NULL)
        return bad(err, "endpoint", endpoint, accepted);
    set_host(p, tls, host, len);
    memcpy(p->base, path, n);
    p->base[n] = '\0';
    return 0;
}

/* Follows a redirect: if `path` is the path of the object in this URL style, sets the host of `p` and returns
 * true. Otherwise returns false and leaves `p` unchanged. */
static bool move_to(struct pl_s3_place *p, bool tls, const char *host, size_t len, bool path_style, const char *key,
                    const char *path)
{
    const size_t bucket = strlen(p->bucket);
    struct pl_s3_place to = *p;
    char own[PL_S3_URL_MAX];

    if (!path_style) {
        if (len <= bucket + 1 || strncasecmp(host, p->bucket, bucket) != 0 || host[bucket] != '.')
            return false;
        host += bucket + 1;
        len -= bucket + 1;
    }
    if (!host_ok(host, len))
        return false;
    set_host(&to, tls, host, len);
    to.path_style = path_style;
    if (!pl_streq(pl_s3_place_path(&to, key, own), path))
        return false;
    *p = to;
    return true;
}

bool pl_s3_place_follow(struct pl_s3_place *p, const char *key, const char *location)
{
    _cleanup_(pl_buf_finish) struct pl_buf decoded = {.max = PL_S3_URL_MAX};
    const bool tls = strncasecmp(location, "https://", 8) == 0;
    const char *host = location + (tls ? 8 : 7), *path;
    size_t len;

    if (!tls && (p->tls || strncasecmp(location, "http://", 7) != 0))
        return false;
    len = strcspn(host, "/?");
    if (pl_uri_unescape(host + len, strcspn(host + len, "?"), false, &decoded, NULL) < 0)
        return false;
    /* "/bucket/" equals "/bucket" */
    if (key == NULL && decoded.len > 1 && decoded.data[decoded.len - 1] == '/')
        decoded.len--;
    path = pl_buf_str(&decoded);
    return path != NULL && (move_to(p, tls, host, len, true, key, path) || move_to(p, tls, host, len, false, key, path));
}

static int read_style(struct pl_s3_place *p, const char *style, struct pl_err *err)
{
    if (style == NULL || *style == '\0')
        /* Amazon's wildcard certificate does not match a bucket name with dots */
        p->path_style = !p->amazon || strchr(p->bucket, '.') != NULL;
    else if (pl_streq(style, "path"))
        p->path_style = true;
    else if (pl_streq(style, "virtual"))
        p->path_style = false;
    else
        return bad(err, "style", style, "path or virtual");
    return 0;
}

int pl_s3_place_move(struct pl_s3_place *p, const char *region, struct pl_err *err)
{
    struct pl_sigv4_scope scope;

    if (pl_sigv4_scope_init(&scope, "20000101T000000Z", region, "s3", NULL) < 0)
        return bad(err, "region", region, "a name like us-east-1");
    memcpy(p->region, scope.region, sizeof(p->region));
    if (p->amazon)
        amazon_host(p);
    return 0;
}

int pl_s3_place_init(struct pl_s3_place *p, const char *url, const char *endpoint, const char *region, const char *style,
                     struct pl_err *err)
{
    struct pl_s3_place place = {.amazon = endpoint == NULL || *endpoint == '\0'};
    int r = read_url(&place, url, err);

    if (r == 0)
        r = pl_s3_place_move(&place, region != NULL && *region != '\0' ? region : "us-east-1", err);
    if (r == 0 && !place.amazon)
        r = pl_s3_place_behind(&place, endpoint, err);
    if (r == 0)
        r = read_style(&place, style, err);
    if (r == 0)
        *p = place;
    return r;
}

char *pl_s3_place_host(const struct pl_s3_place *p, char out[PL_S3_HOST_MAX + 1])
{
    (void)snprintf(out, PL_S3_HOST_MAX + 1, "%s%s%s", p->path_style ? "" : p->bucket, p->path_style ? "" : ".", p->host);
    return out;
}

char *pl_s3_place_origin(const struct pl_s3_place *p, char out[PL_S3_HOST_MAX + 9])
{
    char host[PL_S3_HOST_MAX + 1];

    (void)snprintf(out, PL_S3_HOST_MAX + 9, "http%s://%s", p->tls ? "s" : "", pl_s3_place_host(p, host));
    return out;
}

char *pl_s3_place_path(const struct pl_s3_place *p, const char *key, char out[PL_S3_URL_MAX])
{
    if (key == NULL)
        (void)snprintf(out, PL_S3_URL_MAX, "%s/%s", p->base, p->path_style ? p->bucket : "");
    else
        (void)snprintf(out, PL_S3_URL_MAX, "%s/%s%s%s%s", p->base, p->path_style ? p->bucket : "", p->path_style ? "/" : "",
                       p->prefix, key);
    return out;
}
