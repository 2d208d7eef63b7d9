/* Starts and stops the gateway: one HTTP server whose five routes, one for each method, lead to
 * pl_s3_on_request, and the files of multipart uploads. */
#include "pipelined/s3gateway/gateway/gateway_internal.h"

#include "pipelined/s3gateway/formats/s3_cors.h"
#include "pipelined/s3gateway/formats/s3_upload_file.h"
#include "storage/system/log_line.h"

#include <unistd.h>

#define S3_THREADS 2

static void add_route(struct pl_s3 *s, size_t *n, const char *method, enum pl_http_body body)
{
    s->routes[(*n)++] = (struct pl_http_route){
        .method = method, .pattern = "/{path...}", .where = PL_ON_POOL, .body = body, .handler = pl_s3_on_request, .arg = s};
}

static int serve(struct pl_s3 *s, const char *listen, struct pl_err *err)
{
    struct pl_http_options options = {.listen = listen,
                                      .routes = s->routes,
                                      .tell = pl_s3_error_tell,
                                      .tell_type = PL_S3_XML,
                                      .loop = s->services->loop,
                                      .pool = s->services->pool,
                                      .threads = S3_THREADS,
                                      .per_address = s->services->per_address,
                                      .tls = s->services->tls};

    add_route(s, &options.n_routes, "GET", PL_BODY_NONE);
    add_route(s, &options.n_routes, "PUT", PL_BODY_STREAM);
    add_route(s, &options.n_routes, "POST", PL_BODY_STREAM);
    add_route(s, &options.n_routes, "DELETE", PL_BODY_NONE);
    add_route(s, &options.n_routes, "OPTIONS", PL_BODY_NONE);
    return pl_http_server_start(&options, &s->server, err);
}

int pl_s3_start(struct pl_api_services *services, const struct pl_s3_config *config, struct pl_s3 **ret, struct pl_err *err)
{
    struct pl_s3 *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return pl_err_nomem(err);
    s->services = services;
    s->domain = strdup(config->domain);
    s->cors = strdup(config->cors);
    r = pl_principal_daemon(&s->daemon, err);
    if (r == 0)
        r = s->domain && s->cors
                ? pl_s3_upload_files_open(config->dir, pl_clock_trust_passed_us(pl_db_clock(services->db)), &s->uploads, err)
                : pl_err_nomem(err);
    r = r < 0 ? r : pl_s3_cors_start(s, config->dir, err);
    r = r < 0 ? r : serve(s, config->listen, err);
    r = r < 0 ? r : pl_http_listener_url(config->listen, pl_http_server_port(s->server), services->tls, &s->url, err);
    if (r < 0) {
        pl_s3_destroy(s);
        return pl_err_wrap(err, r, "S3");
    }
    *ret = s;
    return 0;
}

const char *pl_s3_url(const struct pl_s3 *s)
{
    return s->url;
}

int pl_s3_gc_roots(struct pl_s3 *s, const char *dir, struct pl_db *db, const char *project,
                   int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err), void *self, struct pl_err *err)
{
    struct pl_s3_upload_files *uploads = NULL;
    int r;

    if (s)
        return pl_s3_upload_files_keep(s->uploads, project, fn, self, err);
    if (access(dir, F_OK) != 0)
        return 0;
    r = pl_s3_upload_files_open(dir, pl_clock_trust_passed_us(pl_db_clock(db)), &uploads, err);
    r = r < 0 ? r : pl_s3_upload_files_keep(uploads, project, fn, self, err);
    pl_s3_upload_files_close(uploads);
    return r;
}

void pl_s3_drop_repo(struct pl_s3 *s, int64_t repo_id)
{
    if (!s)
        return;
    pl_s3_upload_files_drop_repo(s->uploads, repo_id);
    pl_s3_cors_drop_repo(s->rules, repo_id);
}

void pl_s3_stop(struct pl_s3 *s, int64_t deadline_ms)
{
    if (s)
        pl_http_server_stop(s->server, deadline_ms);
}

struct pl_s3 *pl_s3_destroy(struct pl_s3 *s)
{
    if (!s)
        return NULL;
    pl_http_server_destroy(s->server);
    pl_s3_upload_files_close(s->uploads);
    pl_s3_cors_close(s->rules);
    pl_principal_unref(s->daemon);
    free(s->domain);
    free(s->cors);
    free(s->url);
    free(s);
    return NULL;
}
