// link: pipelined/kube/nodes storage/base
/* Any bytes as an exporter's answer: what is read of it is within its bounds, and is read again from what it is written as. */
#include "pipelined/kube/nodes/dcgm_metrics.h"
#include "storage/base/buf.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void quote(struct pl_buf *out, const char *label, const char *text)
{
    must(pl_buf_addf(out, NULL, "%s=\"", label) == 0);
    for (; *text; text++)
        must(pl_buf_addf(out, NULL, *text == '\n' ? "\\n" : *text == '"' || *text == '\\' ? "\\%c" : "%c", *text) == 0);
    must(pl_buf_add_str(out, "\",", NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pl_dcgm_gpu *gpus = NULL, *again = NULL;
    struct pl_buf text = {0};
    size_t n_gpus = 0, n_again = 0;

    if (pl_dcgm_read((const char *)data, n, &gpus, &n_gpus, NULL) < 0)
        return 0;
    for (size_t i = 0; i < n_gpus; i++) {
        must(gpus[i].utilisation <= 100 && gpus[i].utilisation >= -1 && gpus[i].used_mib >= -1 && gpus[i].free_mib >= -1);
        must(pl_buf_add_str(&text, "DCGM_FI_DEV_FB_USED{", NULL) == 0);
        quote(&text, "UUID", gpus[i].uuid);
        quote(&text, "GPU_I_ID", gpus[i].instance);
        quote(&text, "namespace", gpus[i].ns);
        quote(&text, "pod", gpus[i].pod);
        quote(&text, "container", gpus[i].container);
        must(pl_buf_add_str(&text, "} 1\n", NULL) == 0);
    }
    must(pl_dcgm_read(text.data ? (const char *)text.data : "", text.len, &again, &n_again, NULL) == 0);
    must(n_again == n_gpus);
    free(gpus);
    free(again);
    pl_buf_finish(&text);
    return 0;
}
