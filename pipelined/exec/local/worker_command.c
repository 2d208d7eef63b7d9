/* worker_command: writes the texts into the structure's own fields and points the lists to them. */
#include "pipelined/exec/local/worker_command.h"

#include "storage/system/io.h"
#include <assert.h>
#include <stdio.h>

static int read_url(struct pl_worker_command *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = sizeof c->url};
    const int r = pl_io_read_file(c->url_file, &text, err);

    if (r < 0)
        return r;
    snprintf(c->url, sizeof c->url, "%.*s", (int)text.len, (const char *)text.data);
    c->url[strcspn(c->url, "\r\n")] = '\0';
    return 0;
}

static void add(struct pl_worker_command *c, const char *option, const char *value)
{
    assert(c->n + 2 < PL_ARRAY_SIZE(c->argv)); /* the last stays NULL */
    c->argv[c->n++] = option;
    if (value)
        c->argv[c->n++] = value;
}

static void add_gpus(struct pl_worker_command *c, const struct pl_worker_command_config *config,
                     const struct pl_worker_spec *spec)
{
    size_t used = 0;

    if (spec->n_gpus == 0)
        return;
    for (size_t i = 0; i < spec->n_gpus && used < sizeof c->gpus; i++)
        used += (size_t)snprintf(c->gpus + used, sizeof c->gpus - used, "%s%u", i ? "," : "",
                                 pl_gpu_slots_device(config->gpus, spec->gpus[i]));
    add(c, "--gpu-devices", c->gpus);
}

int pl_worker_command_make(const struct pl_worker_command_config *config, const struct pl_worker_spec *spec,
                           struct pl_worker_command *c, struct pl_err *err)
{
    int r;

    snprintf(c->url_file, sizeof c->url_file, "%s/pipelined.url", config->data_dir);
    r = read_url(c, err);
    if (r < 0)
        return r;
    snprintf(c->name, sizeof c->name, "%s", spec->name);
    snprintf(c->work, sizeof c->work, "%s/work/%s", config->data_dir, spec->name);
    snprintf(c->cache, sizeof c->cache, "%s/cache", config->data_dir);
    snprintf(c->secrets, sizeof c->secrets, "%s/%s", config->secrets, spec->project);
    snprintf(c->token, sizeof c->token, "PIPELINED_WORKER_TOKEN=%s", spec->token);
    add(c, config->program, NULL);
    add(c, "--url", c->url);
    add(c, "--url-file", c->url_file);
    add(c, "--worker", c->name);
    add(c, "--incarnation", "1");
    add(c, "--work", c->work);
    add(c, "--cache", c->cache);
    add(c, "--sandbox", config->sandbox);
    add(c, "--held-fd", "3");
    if (*config->store_dir)
        add(c, "--store-dir", config->store_dir);
    if (*config->ca)
        add(c, "--ca", config->ca);
    if (spec->def->n_secrets)
        add(c, "--secrets", c->secrets);
    if (*pl_worker_limits_cgroup(config->limits, spec->id, c->cgroup))
        add(c, "--cgroup", c->cgroup);
    add_gpus(c, config, spec);
    c->env[pl_worker_env_list(c->env)] = c->token;
    return 0;
}

void pl_worker_command_image(struct pl_worker_command *c, const char *image)
{
    add(c, "--image", image);
}
