/* gpu_slots.c: reads the GPUs once through NVML into a table of slots, then matches a stage's request against
 * that table. A slot for which NVML has no GPU, or any slot on a machine without NVML, has only a number. */
#include "pipelined/exec/local/gpu_slots.h"

#include "pipelined/nvml/nvml.h"
#include "storage/base/buf.h"
#include "storage/system/log_line.h"

#include <fnmatch.h>
#include <stdio.h>

struct slot {
    bool known; /* NVML described the GPU in this slot */
    char product[96];
    char uuid[96];
    unsigned minor;
    int64_t memory_mib;
    unsigned compute; /* compute capability: 100 × major + minor; 0 = unknown */
};

struct pl_gpu_slots {
    struct pl_nvml *nvml; /* the NVML library; NULL: this machine has none */
    unsigned n;
    struct slot slots[PL_EXEC_GPUS_MAX];
};

int pl_gpu_slots_create(int wanted, struct pl_gpu_slots **ret, struct pl_err *err)
{
    struct pl_gpu_slots *g;
    struct pl_err why = {0};

    if (wanted > PL_EXEC_GPUS_MAX)
        return pl_err_set(err, PL_EINVAL, "--gpus %d: use at most %d", wanted, PL_EXEC_GPUS_MAX);
    g = calloc(1, sizeof *g);
    if (!g)
        return pl_err_nomem(err);
    if (pl_nvml_open(&g->nvml, &why) < 0)
        pl_log_debug("exec", "%s", why.msg);
    g->n = wanted >= 0 ? (unsigned)wanted : g->nvml ? PL_MIN(pl_nvml_count(g->nvml), (unsigned)PL_EXEC_GPUS_MAX) : 0;
    for (unsigned i = 0; i < PL_EXEC_GPUS_MAX; i++) {
        struct slot *s = &g->slots[i];
        struct pl_nvml_gpu gpu;

        s->minor = i;
        if (!g->nvml || i >= pl_nvml_count(g->nvml) || pl_nvml_read(g->nvml, i, &gpu, NULL) < 0)
            continue;
        s->known = true;
        s->minor = gpu.minor; /* NVML counts in bus order, which may differ from the numbers of the device nodes */
        s->memory_mib = (int64_t)(gpu.memory_bytes >> 20);
        s->compute = gpu.compute;
        snprintf(s->product, sizeof s->product, "%s", gpu.product);
        snprintf(s->uuid, sizeof s->uuid, "%s", gpu.uuid);
    }
    *ret = g;
    return 0;
}

struct pl_gpu_slots *pl_gpu_slots_destroy(struct pl_gpu_slots *g)
{
    if (!g)
        return NULL;
    pl_nvml_close(g->nvml);
    free(g);
    return NULL;
}

unsigned pl_gpu_slots_count(const struct pl_gpu_slots *g)
{
    return g->n;
}

unsigned pl_gpu_slots_device(const struct pl_gpu_slots *g, unsigned slot)
{
    return g->slots[PL_MIN(slot, PL_EXEC_GPUS_MAX - 1u)].minor;
}

/* ---- GPUs that meet a stage's request ---- */

/* Compares the product name with the pattern, both as NVML spells it and as a Kubernetes node label does,
 * with dashes instead of blanks. */
static bool product_matches(const char *glob, const char *product)
{
    char label[96];

    snprintf(label, sizeof label, "%s", product);
    for (char *p = label; *p; p++)
        if (*p == ' ')
            *p = '-';
    return fnmatch(glob, product, FNM_CASEFOLD) == 0 || fnmatch(glob, label, FNM_CASEFOLD) == 0;
}

static bool meets(const struct slot *s, const struct pl_gpu *want)
{
    return s->known && s->memory_mib >= pl_gpu_memory_mib(want) && s->compute >= want->compute;
}

static void say_wanted(const struct pl_gpu *want, struct pl_buf *out)
{
    const char *before = " with";

    for (size_t i = 0; i < want->n_product; i++)
        if (pl_buf_addf(out, NULL, "%s %.60s", i ? " or" : " with product", want->product[i]) < 0)
            return;
    before = want->n_product ? "," : before;
    if (want->memory_bytes && pl_buf_addf(out, NULL, "%s at least %lld MiB", before, (long long)pl_gpu_memory_mib(want)) < 0)
        return;
    before = want->n_product || want->memory_bytes ? "," : before;
    if (want->compute)
        (void)!pl_buf_addf(out, NULL, "%s compute capability %u.%u", before, want->compute / 100, want->compute % 100);
}

static bool are_alike(const struct slot *a, const struct slot *b)
{
    return a->known == b->known && a->memory_mib == b->memory_mib && a->compute == b->compute && pl_streq(a->product, b->product);
}

/* Lists the machine's GPUs: each kind of GPU once, with its count. */
static void say_there(const struct pl_gpu_slots *g, struct pl_buf *out)
{
    bool some = false;

    for (unsigned i = 0; i < g->n; i++) {
        const struct slot *s = &g->slots[i];
        unsigned first = 0, n = 0;

        while (!are_alike(&g->slots[first], s))
            first++;
        for (unsigned k = i; k < g->n; k++)
            n += are_alike(&g->slots[k], s);
        if (first < i || pl_buf_addf(out, NULL, "%s %u × ", some ? "," : "", n) < 0)
            continue;
        some = true;
        if (s->known)
            (void)!pl_buf_addf(out, NULL, "%s (%lld MiB, compute %u.%u)", s->product, (long long)s->memory_mib, s->compute / 100,
                               s->compute % 100);
        else
            (void)!pl_buf_add_str(out, "declared by --gpus, with unknown properties", NULL);
    }
    if (!some)
        (void)!pl_buf_add_str(out, " no GPU", NULL);
}

int pl_gpu_slots_choose(const struct pl_gpu_slots *g, const struct pl_gpu *want, uint16_t slots[PL_EXEC_GPUS_MAX], char *why,
                        size_t why_size)
{
    static const char *const any[] = {"*"};
    const char *const *globs = want->n_product ? (const char *const *)want->product : any;
    const size_t n_globs = want->n_product ? want->n_product : 1;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    bool taken[PL_EXEC_GPUS_MAX] = {false};
    int n = 0;

    if (want->n_product == 0 && want->memory_bytes == 0 && want->compute == 0)
        return -1;
    for (size_t k = 0; k < n_globs; k++)
        for (unsigned i = 0; i < g->n; i++)
            if (!taken[i] && meets(&g->slots[i], want) && product_matches(globs[k], g->slots[i].product)) {
                taken[i] = true;
                slots[n++] = (uint16_t)i;
            }
    say_wanted(want, &text);
    (void)!pl_buf_add_str(&text, ": this machine has", NULL);
    say_there(g, &text);
    snprintf(why, why_size, "%s", pl_buf_str(&text) ? (const char *)text.data + (text.data[0] == ' ') : "");
    return n;
}

/* ---- GPU report ---- */

static json_t *slot_json(const struct pl_gpu_slots *g, unsigned i)
{
    const struct slot *s = &g->slots[i];
    struct pl_nvml_use now;
    json_t *o;

    if (!s->known)
        return json_pack("{s:i, s:s}", "slot", (int)i, "product", "declared by --gpus, not measured");
    o = json_pack("{s:i, s:s, s:I, s:s}", "slot", (int)i, "product", s->product, "memory_mib", (json_int_t)s->memory_mib, "uuid",
                  s->uuid);
    if (s->compute)
        json_object_set_new(o, "compute", json_sprintf("%u.%u", s->compute / 100, s->compute % 100));
    if (pl_nvml_read_use(g->nvml, i, &now, NULL) < 0)
        return o;
    json_object_set_new(o, "used_mib", json_integer((json_int_t)(now.used_bytes >> 20)));
    if (now.measured)
        json_object_set_new(o, "utilisation", json_integer(now.utilisation));
    return o;
}

json_t *pl_gpu_slots_json(const struct pl_gpu_slots *g, const char *host)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < g->n; i++)
        json_array_append_new(list, slot_json(g, i));
    return json_pack("{s:s, s:s, s:o}", "node", host, "driver", g->nvml ? pl_nvml_driver(g->nvml) : "", "gpus", list);
}
