// link: storage/object
/* sign_url: a request that others may make, as the driver signs it after it has tried the server out.
 *
 *   pl-sign-url URL ENDPOINT get KEY OFFSET BYTES SECONDS
 *   pl-sign-url URL ENDPOINT put KEY BYTES SHA256 SECONDS     keys as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
 *
 * Prints {"caps", "url", "headers"}; what a URL and a header hold needs no escapes. */
#include "storage/object/object.h"

#include <stdio.h>

static int sign(struct pl_object_store *s, char **a, struct pl_object_signed *ret, struct pl_err *err)
{
    const uint32_t life_s = (uint32_t)strtoul(a[4], NULL, 10);

    if (pl_streq(a[0], "get"))
        return pl_object_sign_get(s, a[1], strtoull(a[2], NULL, 10), strtoull(a[3], NULL, 10), life_s, ret, err);
    return pl_object_sign_put(s, a[1], strtoull(a[2], NULL, 10), a[3], life_s, ret, err);
}

int main(int argc, char **argv)
{
    struct pl_object_config config = {.probe = true};
    struct pl_object_signed q = {0};
    struct pl_object_store *s = NULL;
    struct pl_err err = {0};
    int r;

    if (argc != 8)
        return 2;
    config.url = argv[1];
    config.endpoint = argv[2];
    r = pl_object_open(&config, &s, &err);
    r = r < 0 ? r : sign(s, argv + 3, &q, &err);
    if (r < 0) {
        fprintf(stderr, "%s\n", err.msg);
    } else {
        printf("{\"caps\": %u, \"url\": \"%s\", \"headers\": [", pl_object_caps(s), q.url);
        for (size_t i = 0; i < q.n_headers; i++)
            printf("%s\"%s\"", i ? ", " : "", q.headers[i]);
        printf("]}\n");
    }
    pl_object_signed_finish(&q);
    pl_object_close(s);
    return r < 0;
}
