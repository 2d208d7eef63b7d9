/* Builds the JSON body of the request that creates a token or an S3 key. */
#include "pipelined/cli/admin/credential.h"

#include "pipelined/cli/support/args.h"

json_t *pl_cli_credential_body(const struct pl_cli *c, struct pl_err *err)
{
    static const char *const fields[][2] = {{"role", "role"}, {"over", "scope"}, {"expires", "expires"}, {"name", "name"}};
    json_t *body = json_object();
    int failed = !body || (c->n_args && json_object_set_new(body, "user", json_string(c->args[0])) < 0);

    for (size_t i = 0; !failed && i < PL_ARRAY_SIZE(fields); i++) {
        const char *value = pl_cli_value(c, fields[i][0]);

        failed = value && json_object_set_new(body, fields[i][1], json_string(value)) < 0;
    }
    if (!failed)
        return body;
    json_decref(body);
    pl_err_nomem(err);
    return NULL;
}
