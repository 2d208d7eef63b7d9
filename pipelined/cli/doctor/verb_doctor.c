/* doctor: checks this machine and its daemon. With --cluster, checks whether a cluster has what pipelined
 * needs; this requires only a kubeconfig, and no daemon in the cluster. */
#include "pipelined/cli/doctor/doctor.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/kube/pod/node_cache_path.h"
#include "pipelined/text/quantity.h"

#include "storage/system/io.h"

#define WAIT_S 120

/* Copies from the daemon's configuration those settings that no option sets. The strings point into `tree`,
 * which the caller owns. */
static void take_config(struct pl_doctor_asked *a, const json_t *tree)
{
    const struct {
        const char *key, **slot;
    } keys[] = {
        {"kubernetes.kubeconfig", &a->kubeconfig},
        {"kubernetes.context", &a->context},
        {"kubernetes.namespace", &a->name_space},
        {"kubernetes.image", &a->image},
        {"kubernetes.owner", &a->owner},
        {"kubernetes.default_image", &a->default_image},
        {"kubernetes.ca", &a->ca},
        {"kubernetes.trust_bundle", &a->trust_bundle},
        {"kubernetes.pull_secrets", &a->pull_secret},
        {"kubernetes.arch", &a->arch},
        {"kubernetes.node_cache", &a->node_cache},
        {"kubernetes.agent_memory", &a->agent_memory},
        {"worker_url", &a->worker_url},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        if (!*keys[i].slot && *pl_show_text_at(tree, keys[i].key))
            *keys[i].slot = pl_show_text_at(tree, keys[i].key);
    a->pod_template = pl_show_at(tree, "kubernetes.pod_template");
}

/* Checks settings of the configuration as the daemon does. */
static int check_settings(struct pl_doctor_asked *a, struct pl_err *err)
{
    if (a->agent_memory && (pl_quantity_bytes(a->agent_memory, &a->agent_memory_bytes, NULL) < 0 || a->agent_memory_bytes <= 0))
        return pl_err_set(err, PL_EINVAL, "kubernetes.agent_memory is \"%s\": use a quantity such as 512Mi", a->agent_memory);
    return a->node_cache ? pl_node_cache_path_check(a->node_cache, err) : 0;
}

static int read_config(const char *path, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = 1u << 20};
    json_error_t where;
    int r = pl_io_read_file(path, &text, err);

    if (r < 0)
        return r;
    *ret = json_loadb((const char *)text.data, text.len, 0, &where);
    return *ret ? 0 : pl_err_set(err, PL_EINVAL, "%s:%d:%d: %s", path, where.line, where.column, where.text);
}

static int read_options(struct pl_doctor *d, json_t **config, struct pl_err *err)
{
    const struct pl_cli *c = d->cli;
    const char *file = pl_cli_value(c, "config");
    int r = 0;

    d->asked = (struct pl_doctor_asked){.kubeconfig = pl_cli_value(c, "kubeconfig"),
                                        .context = pl_cli_value(c, "context"),
                                        .name_space = pl_cli_value(c, "namespace"),
                                        .image = pl_cli_value(c, "image"),
                                        .default_image = pl_cli_value(c, "default-image"),
                                        .worker_url = pl_cli_value(c, "worker-url"),
                                        .wait_s = WAIT_S};
    if (pl_cli_value(c, "wait"))
        r = pl_cli_number(c, "wait", 3600, &d->asked.wait_s, err);
    if (r == 0 && file)
        r = read_config(file, config, err);
    if (r == 0 && *config)
        take_config(&d->asked, *config);
    return r < 0 ? r : check_settings(&d->asked, err);
}

static int connect_to(struct pl_doctor *d, struct pl_err *err)
{
    const struct pl_kubeconfig_where where = {.files = d->asked.kubeconfig, .context = d->asked.context};
    struct pl_kube_client_config config = {.pause_ms = 0};
    int r = pl_kubeconfig_load(&where, &config.kubeconfig, err);

    r = r < 0 ? r : pl_kube_client_create(&config, &d->client, err);
    if (r == 0)
        d->space = d->asked.name_space ? d->asked.name_space : pl_kube_client_namespace(d->client);
    return r;
}

static int conclude(struct pl_doctor *d, struct pl_err *err)
{
    int r = 0;

    if (d->cli->json) {
        _cleanup_(json_decrefp) json_t *document =
            json_pack("{s:O, s:i, s:i, s:i}", "checks", d->lines, "ok", (int)d->count[PL_DOCTOR_OK], "warn",
                      (int)d->count[PL_DOCTOR_WARN], "fail", (int)d->count[PL_DOCTOR_FAIL]);

        r = document ? pl_show_json(document, err) : pl_err_nomem(err);
    } else {
        pl_show_say(d->cli, "%u ok, %u warn, %u FAIL\n", d->count[PL_DOCTOR_OK], d->count[PL_DOCTOR_WARN],
                    d->count[PL_DOCTOR_FAIL]);
    }
    if (r < 0 || !d->count[PL_DOCTOR_FAIL])
        return r;
    return pl_err_set(err, PL_EUNAVAILABLE, "%s", d->client ? "stages cannot run in this cluster yet" : "a check has failed");
}

static int examine_cluster(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *config = NULL;
    struct pl_err why = {0};
    int r;

    /* record interrupts instead of ending at once, so that the test pod is always deleted */
    pl_cli_note_interrupt();
    r = read_options(d, &config, err);
    r = r < 0 ? r : connect_to(d, err);
    if (r < 0)
        return r;
    r = pl_doctor_cluster(d, &why);
    if (r == 0 && d->access.on[PL_KUBE_MAY_PODS] && !d->no_space)
        r = pl_doctor_probe(d, &why);
    if (r < 0 && d->count[PL_DOCTOR_FAIL] == 0) {
        *err = why;
        return r;
    }
    return conclude(d, err);
}

/* Runs the checks of this machine. Refuses options that only apply to a cluster. */
static int examine_machine(struct pl_doctor *d, struct pl_err *err)
{
    int r;

    if (d->cli->n_given) {
        pl_err_set(err, PL_EUSAGE, "--%s is an option of doctor --cluster", d->cli->given[0].option->name);
        return pl_err_hint(err, PL_EUSAGE, "Without --cluster, doctor checks this machine and its daemon.");
    }
    r = pl_doctor_machine(d, err);
    return r < 0 ? r : conclude(d, err);
}

static int doctor(struct pl_cli *c, struct pl_err *err)
{
    struct pl_doctor d = {.cli = c, .lines = json_array()};
    int r = pl_cli_flag(c, "cluster") ? examine_cluster(&d, err) : examine_machine(&d, err);

    pl_kube_client_destroy(d.client);
    json_decref(d.classes);
    free(d.class_names);
    json_decref(d.lines);
    return r;
}

static const struct pl_option options[] = {
    {"cluster", 0, NULL, "check a Kubernetes cluster (else this machine and its daemon)"},
    {"kubeconfig", 0, "FILE", "kubeconfig (else KUBECONFIG, ~/.kube/config, the pod's own account)"},
    {"context", 0, "NAME", "context of the kubeconfig (else its current one)"},
    {"namespace", 'n', "NAME", "namespace in which stages' pods run (else the context's)"},
    {"config", 0, "FILE", "configuration of the daemon; its kubernetes.* and worker_url are used"},
    {"image", 0, "IMAGE", "image of pipelined, to start a test pod (else none is started)"},
    {"default-image", 0, "IMAGE", "image of stages that name none; the test pod runs it"},
    {"worker-url", 0, "URL", "URL by which pods reach the daemon"},
    {"wait", 0, "SECONDS", "how long to wait for the test pod (120)"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"doctor",
     NULL,
     "[--cluster [--config FILE] [--namespace NAME] [--image IMAGE]]",
     0,
     0,
     options,
     doctor,
     "Checks this machine and its daemon, or with --cluster whether stages can run as pods; prints ok, warn or FAIL for each "
     "check, and what to do.",
     {"doctor", "doctor --cluster --config config.json --image registry.example/pipelined:0.1.0",
      "doctor --cluster --context staging --namespace pipelined-stages --json"}},
};
PL_CLI_TABLE(doctor, verbs);
