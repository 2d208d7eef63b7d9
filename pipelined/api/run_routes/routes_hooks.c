/* Webhooks: servers of repositories say that a source may have a new commit. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/source/source.h"
#include "pipelined/source/webhooks.h"

#define HOOK_BODY_MAX (1u << 20)

static const char *header_of(const void *req, const char *name)
{
    return pl_http_header(req, name);
}

/* Takes a webhook. Whatever is wrong with one has the same answer, which does not tell names of sources from others; refusals
 * of one address are counted like wrong tokens. */
static int take_hook(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const struct pl_buf *body = pl_http_body(req);
    const struct pl_webhook hook = {.source = pl_http_param(req, "source"),
                                    .header = header_of,
                                    .self = req,
                                    .body = body->data,
                                    .n = body->len,
                                    .secrets = a->config.engine->secrets,
                                    .engine = a->config.engine_self};
    int r;

    if (!pl_sources_webhook(a->config.sources, &hook)) {
        r = pl_err_set(err, PL_EAUTH,
                       "there is no source of this name that takes webhooks, or the webhook is not signed with its secret");
        return pl_guard_refuse(a->services.guard, pl_http_peer(req), r, err);
    }
    *ret = json_pack("{s:s}", "source", hook.source);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "POST",
     .pattern = "/hooks/{source}",
     .json = take_hook,
     .body = PL_BODY_BYTES,
     .body_max = HOOK_BODY_MAX,
     .verb = PL_VERB_OPEN,
     .summary =
         "Looks at a source soon, if the request is signed with the secret that the source's `hook_secret` names, as webhooks "
         "of GitHub, GitLab, Gitea, Forgejo and Bitbucket are. The body is not read.",
     .request = "application/json",
     .reply = "SourceHook"},
};

static const struct pl_api_schema schemas[] = {
    {"SourceHook", "source:string"},
};
PL_API_TABLE(hooks, routes, schemas);
