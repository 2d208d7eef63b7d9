// link: pipelined/kube/client
/* Any bytes as a kubeconfig: refused with the reason, or a cluster that can be asked. Two files in one input are parted by a byte 0. */
#include "pipelined/kube/client/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *cut = n > 0 ? memchr(data, 0, n) : NULL;
    const size_t first = cut != NULL ? (size_t)(cut - data) : n, rest = cut != NULL ? n - first - 1 : 0;
    const struct pl_kubeconfig_text texts[] = {{"/a/config", (const char *)data, first},
                                               {"/b/config", (const char *)data + n - rest, rest}};
    struct pl_kubeconfig c = {0};
    struct pl_err err = {0};
    const int r = pl_kubeconfig_resolve(texts, cut != NULL ? 2 : 1, NULL, &c, &err);

    if (r < 0) {
        must((r == PL_EINVAL || r == PL_ENOTFOUND || r == PL_ETOOBIG) && err.msg[0] != '\0' && c.server == NULL);
        return 0;
    }
    must(strstr(c.server, "://") != NULL && c.context != NULL && c.name_space != NULL);
    must((c.cert_data != NULL || c.cert_file != NULL) == (c.key_data != NULL || c.key_file != NULL));
    must(c.plugin == NULL || c.plugin->command != NULL);
    must(c.token_file == NULL || c.token_file[0] == '/');
    pl_kubeconfig_finish(&c);
    return 0;
}
