/* The table of all settings of the daemon, and what is generated from it: the parsers of options and of the
 * configuration file, --help, docs/config.md. */
#include "pipelined/daemon/config.h"

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define CONFIG_MAX_BYTES (1u << 20)

/* Kinds of values. TREE: a JSON object or list, which can only be given in the file; the field `fallback`
 * says which of the two. LIST: texts separated by commas, in the file also a JSON array of texts. */
enum kind { TEXT, NUMBER, COUNT, DURATION, SWITCH, TREE, LIST };

static const struct field {
    /* key in the file ("a.b" for {"a": {"b": …}}); the option is "--" and the key, with - for _ and . */
    const char *key;
    enum kind kind;
    size_t offset;
    const char *fallback;
    const char *value; /* placeholder of the value in --help */
    const char *doc;
    /* the setting can only be given in the file: it is a secret, which other users could read in a command
     * line, or a TREE, which is too large for a command line */
    bool file_only;
} fields[] = {
    {"data", TEXT, offsetof(struct pl_config, data), "", "DIR",
     "Data folder of the daemon: database, token, index, cache, logs. Default: ~/.local/share/pipelined, for root "
     "/var/lib/pipelined."},
    {"listen", TEXT, offsetof(struct pl_config, listen), "127.0.0.1:7380", "ADDRESS:PORT",
     "Address to listen on; addresses that other machines reach need tls_cert or behind_proxy. Port 0 picks a free port: "
     "DIR/pipelined.url "
     "holds a URL for this machine once the daemon serves."},
    {"s3_listen", TEXT, offsetof(struct pl_config, s3_listen), "", "ADDRESS:PORT",
     "Address on which the S3 gateway listens, with the rules of listen; \"\": no gateway. Port 0 picks a free port: DIR/s3.url "
     "holds the URL "
     "once the gateway serves."},
    {"s3_domain", TEXT, offsetof(struct pl_config, s3_domain), "", "NAME",
     "Domain below which each bucket is a host (bucket.NAME), for clients that do not put the bucket into the path."},
    {"s3_cors", TEXT, offsetof(struct pl_config, s3_cors), "", "ORIGINS",
     "Origins whose pages may send requests to the S3 gateway, separated by commas; *: all; \"\": none. Their requests must be "
     "signed, too."},
    {"tls_cert", TEXT, offsetof(struct pl_config, tls_cert), "", "FILE",
     "Certificate in PEM, followed by its intermediate certificates. All listeners then speak https; this machine's workers "
     "and pipelinectl reach the daemon on a loopback port. It is read again when it changes, and on SIGHUP."},
    {"tls_key", TEXT, offsetof(struct pl_config, tls_key), "", "FILE", "The certificate's key in PEM, without a passphrase."},
    {"behind_proxy", SWITCH, offsetof(struct pl_config, behind_proxy), "false", "[true|false]",
     "A proxy in front of the daemon speaks TLS: the daemon may listen for other machines without TLS."},
    {"auth.proxy_header", TEXT, offsetof(struct pl_config, proxy_header), "", "NAME",
     "Header in which a proxy names the user whom it has authenticated, such as X-Forwarded-User. It needs behind_proxy, and is "
     "accepted only from "
     "auth.proxy_addresses."},
    {"auth.proxy_addresses", TEXT, offsetof(struct pl_config, proxy_addresses), "", "ADDRESSES",
     "Addresses and networks (10.0.0.0/24) from which auth.proxy_header is accepted, separated by commas. Anyone who can send "
     "from there can "
     "act as any user."},
    {"store", TEXT, offsetof(struct pl_config, store), "", "URL",
     "Object storage: file:///FOLDER or s3://BUCKET/PREFIX; in the file also {\"url\": URL, …} with the keys below. "
     "Default: "
     "DIR/store."},
    {"store.driver", TEXT, offsetof(struct pl_config, store_driver), "", "s3|libs3",
     "S3: driver for the server: s3, which signs with Signature V4, or libs3, a separate module for servers that only "
     "accept V2; libs3 needs store.exclusive. Default: s3."},
    {"store.endpoint", TEXT, offsetof(struct pl_config, store_endpoint), "", "URL",
     "S3: http(s)://HOST[:PORT] of the server. Default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, Amazon's of the region."},
    {"store.region", TEXT, offsetof(struct pl_config, store_region), "", "NAME",
     "S3: the bucket's region. Default: AWS_REGION, AWS_DEFAULT_REGION, the shared profile's, us-east-1."},
    {"store.style", TEXT, offsetof(struct pl_config, store_style), "", "path|virtual",
     "S3: where URLs have the bucket's name, in the path or in the host. Default: path if an endpoint is given."},
    {"store.worker_endpoint", TEXT, offsetof(struct pl_config, store_worker_endpoint), "", "URL",
     "S3: endpoint as workers and clients reach it, for the presigned URLs that they get. Default: the endpoint."},
    {"store.ca", TEXT, offsetof(struct pl_config, store_ca), "", "FILE",
     "S3: file of CA certificates (PEM) to trust instead of the system's; it is also given to those who get presigned URLs. "
     "Default: AWS_CA_BUNDLE, "
     "the system's."},
    {"store.profile", TEXT, offsetof(struct pl_config, store_profile), "", "NAME",
     "S3: profile in the shared credentials file. Default: AWS_PROFILE, default."},
    {"store.access_key", TEXT, offsetof(struct pl_config, store_access_key), "", "KEY",
     "S3: access key. Default: the environment, a web identity, the shared profile, the container's or the instance's role."},
    {"store.secret_key", TEXT, offsetof(struct pl_config, store_secret_key), "", "SECRET", "S3: secret key of store.access_key.",
     true},
    {"store.session_token", TEXT, offsetof(struct pl_config, store_session_token), "", "TOKEN",
     "S3: session token, with temporary credentials.", true},
    {"store.exclusive", SWITCH, offsetof(struct pl_config, store_exclusive), "false", "[true|false]",
     "S3: confirm that no other daemon ever uses this store. Needed if the server has no put-if-absent; then a second daemon "
     "cannot be detected."},
    {"store.cache_mib", COUNT, offsetof(struct pl_config, store_cache_mib), "4096", "N",
     "S3: MiB of packs to keep in DIR/cache/packs, mostly packs of trees."},
    {"executor", TEXT, offsetof(struct pl_config, executor), "local", "local|kubernetes",
     "What starts workers: local (processes of this machine) or kubernetes (pods)."},
    {"kubernetes.kubeconfig", TEXT, offsetof(struct pl_config, kube.kubeconfig), "", "FILE",
     "Account and address for the cluster: kubeconfig files, as in KUBECONFIG. Default: KUBECONFIG, ~/.kube/config, the pod's "
     "own "
     "account."},
    {"kubernetes.context", TEXT, offsetof(struct pl_config, kube.context), "", "NAME",
     "Context of the kubeconfig. Default: its current one."},
    {"kubernetes.namespace", TEXT, offsetof(struct pl_config, kube.namespace), "", "NAME",
     "Namespace of stages' pods; it must not contain secrets of the daemon. Default: the context's."},
    {"kubernetes.image", TEXT, offsetof(struct pl_config, kube.image), "", "IMAGE",
     "Image with pipelined's programs, for the agent beside each command. Required with --executor kubernetes."},
    {"kubernetes.default_image", TEXT, offsetof(struct pl_config, kube.default_image), "", "IMAGE",
     "Image for stages that name none. Default: such stages cannot run."},
    {"kubernetes.pull_secrets", TEXT, offsetof(struct pl_config, kube.pull_secrets), "", "NAMES",
     "Secrets of the namespace with which images are pulled, separated by commas."},
    {"kubernetes.claims", TEXT, offsetof(struct pl_config, kube.claims), "", "NAMES",
     "PersistentVolumeClaims of the namespace that specs may mount, separated by commas: CLAIM, or PROJECT/CLAIM for one "
     "project. Default: none."},
    {"kubernetes.annotations", TEXT, offsetof(struct pl_config, kube.annotations), "", "PREFIXES",
     "Annotations of pods that specs may set, separated by commas: all that begin with one of these. Default: names without a "
     "dot or "
     "slash, and some of autoscalers, Kueue, Prometheus and meshes (docs/kubernetes.md)."},
    {"kubernetes.arch", TEXT, offsetof(struct pl_config, kube.arch), "", "NAMES",
     "Architectures that kubernetes.image is built for (amd64, arm64), separated by commas: pods run only on such nodes. "
     "Default: "
     "any."},
    {"kubernetes.owner", TEXT, offsetof(struct pl_config, kube.owner), "", "NAME",
     "ConfigMap of the namespace that owns the pods: when it is deleted, they are deleted, too. Default: none."},
    {"kubernetes.ca", TEXT, offsetof(struct pl_config, kube.ca), "", "NAME",
     "ConfigMap of the namespace with a ca.crt, with which agents check the daemon's certificate. Default: the image's "
     "certificates."},
    {"kubernetes.trust_bundle", TEXT, offsetof(struct pl_config, kube.trust_bundle), "", "NAME",
     "ConfigMap of the namespace with a ca.crt that commands and agents also trust."},
    {"kubernetes.proxy_env", TREE, offsetof(struct pl_config, kube.proxy_env), "{}", "OBJECT",
     "Environment variables for every container, such as {\"HTTPS_PROXY\": \"http://…\", \"NO_PROXY\": \"…\"}.", true},
    {"kubernetes.cpu_on_gpu_nodes", TEXT, offsetof(struct pl_config, kube.cpu_on_gpu_nodes), "avoid", "avoid|never|allow",
     "Whether stages without GPUs may run on nodes with GPUs."},
    {"kubernetes.mesh", SWITCH, offsetof(struct pl_config, kube.mesh), "false", "[true|false]",
     "Let service meshes add their sidecars to stages' pods."},
    {"kubernetes.grace", DURATION, offsetof(struct pl_config, kube.grace_ms), "30s", "DURATION",
     "How long a pod may take to end, to upload its finished work and the checkpoint, if the stage does not say "
     "(placement.grace)."},
    {"kubernetes.agent_memory", TEXT, offsetof(struct pl_config, kube.agent_memory), "512Mi", "QUANTITY",
     "Memory limit of the agent beside each command."},
    {"kubernetes.node_cache", TEXT, offsetof(struct pl_config, kube.node_cache), "", "FOLDER",
     "Folder on the nodes in which agents cache what they have read, if the namespace admits hostPath; use it for nothing else; "
     "for example /var/cache/pipelined. Default: none."},
    {"kubernetes.pod_template", TREE, offsetof(struct pl_config, kube.pod_template), "{}", "OBJECT",
     "{\"metadata\": …, \"spec\": …} that is merged over every pod; containers are matched by name.", true},
    {"kubernetes.gpu_shapes", TREE, offsetof(struct pl_config, kube.gpu_shapes), "[]", "LIST",
     "Nodes that an autoscaler could bring: [{\"cpu\": N, \"memory\": QUANTITY, \"resources\": {NAME: COUNT}, \"products\": "
     "{LABEL: "
     "VALUE}}].",
     true},
    {"kubernetes.gpu_presets", TREE, offsetof(struct pl_config, kube.gpu_presets), "{}", "OBJECT",
     "Presets for gpu.share, in addition to the built-in ones (docs/kubernetes.md).", true},
    {"kubernetes.trusted_projects", TEXT, offsetof(struct pl_config, kube.trusted_projects), "", "NAMES",
     "Projects whose specs may request everything that a pod can have, separated by commas."},
    {"gpus", NUMBER, offsetof(struct pl_config, gpus), "-1", "N",
     "Number of GPUs of this machine to use; -1: as many as NVIDIA's library finds, 0 without the library."},
    {"sandbox", TEXT, offsetof(struct pl_config, sandbox), "bwrap", "bwrap|none",
     "Sandbox of the local executor: bubblewrap, or none where namespaces are not allowed; without a sandbox scripts have to use "
     "$PL_INPUT_… and "
     "$PL_OUT."},
    {"podman", TEXT, offsetof(struct pl_config, podman), "podman", "PROGRAM",
     "Program with which the local executor gets the images of stages, if it is there; \"\": images are not used."},
    {"sandbox_read_only", LIST, offsetof(struct pl_config, sandbox_read_only), "", "FOLDERS",
     "Folders of this machine that commands of the local executor can read in their sandbox, besides /usr and the like: in the "
     "file a list, [\"/opt\", \"/home/ana/venv\"], as an option separated by commas. A virtual environment needs its own folder "
     "and that of the Python that it is made of (environments.md). Their folders in the daemon's PATH are in PATH of commands, "
     "too. `pipelinectl try` shows the same folders. Default: none."},
    {"public_url", TEXT, offsetof(struct pl_config, public_url), "", "URL",
     "URL that people use, for links. Default: that of the listener."},
    {"worker_url", TEXT, offsetof(struct pl_config, worker_url), "", "URL",
     "URL by which workers on other machines reach the daemon. Its host is also accepted in the Host header."},
    {"hosts", TEXT, offsetof(struct pl_config, hosts), "", "NAMES",
     "Names accepted in the Host header, in addition to the listening address and localhost, separated by commas."},
    {"linger", DURATION, offsetof(struct pl_config, linger_ms), "2s", "DURATION",
     "How long an idle worker is kept for the next run, unless another stage needs its place."},
    {"drain", DURATION, offsetof(struct pl_config, drain_ms), "10s", "DURATION",
     "How long the daemon waits for running tasks after SIGTERM; tasks that have not finished run again after the next start."},
    {"checkpoint_every", COUNT, offsetof(struct pl_config, checkpoint_every), "1000", "N",
     "Number of log objects after which a checkpoint of the log is written to the store (1 to 1000000). If there is something "
     "new, one is written "
     "at least once a day."},
    {"confirm_above", NUMBER, offsetof(struct pl_config, confirm_above), "10", "N",
     "GPU-hours: an update of a pipeline whose jobs are expected to take more needs --yes; -1: no update does."},
    {"gc_every", DURATION, offsetof(struct pl_config, gc_every_ms), "24h", "DURATION",
     "How often data that is no longer needed is removed from the store; 0s: only on request (pipelinectl gc)."},
    {"git.local_folders", TEXT, offsetof(struct pl_config, git_local), "", "FOLDERS",
     "Folders of this machine below which sources may follow git repositories, separated by commas. Whoever may create a source "
     "can read every repository there. Default: none."},
    {"outbound.schemes", TEXT, offsetof(struct pl_config, outbound.schemes), "https,ssh", "SCHEMES",
     "Schemes of addresses that the daemon may use for its users (git repositories, notifications), separated by commas: https, "
     "ssh, http, git."},
    {"outbound.hosts", TEXT, offsetof(struct pl_config, outbound.hosts), "*", "HOSTS",
     "Hosts that such addresses may name, separated by commas: github.com, *.example.org; *: all."},
    {"outbound.networks", TEXT, offsetof(struct pl_config, outbound.networks), "", "NETWORKS",
     "Networks that such connections may go to beside public addresses, separated by commas, such as 10.0.0.0/8: a git server or "
     "receiver of notifications in a private network. Whoever may create a source can reach all services there. Default: none."},
    {"outbound.ca", TEXT, offsetof(struct pl_config, outbound.ca), "", "FILE",
     "File with the certificates (PEM) that such connections trust instead of the machine's."},
    {"log_level", TEXT, offsetof(struct pl_config, log_level), "info", "LEVEL",
     "Lowest level that is logged: debug, info, warn, error."},
};

static void option_name(const struct field *f, char out[64])
{
    snprintf(out, 64, "--%s", f->key);
    for (char *p = out + 2; *p; p++)
        if (*p == '_' || *p == '.')
            *p = '-';
}

/* Parses the text of a setting and stores its value in the field of the configuration. */
static int set(struct pl_config *c, const struct field *f, const char *value, const char *where, struct pl_err *err)
{
    int64_t least = f->kind == COUNT ? 1 : -1, most = f->kind == COUNT ? 1000000 : 64, number;
    void *slot = (char *)c + f->offset;
    char *end, *copy;

    if (f->kind == TEXT || f->kind == LIST) {
        copy = strdup(value);
        if (!copy)
            return pl_err_nomem(err);
        free(*(char **)slot);
        *(char **)slot = copy;
        return 0;
    }
    if (f->kind == TREE) {
        json_decref(*(json_t **)slot);
        *(json_t **)slot = json_loads(value, 0, NULL);
        return *(json_t **)slot ? 0 : pl_err_nomem(err);
    }
    if (f->kind == SWITCH) {
        if (!pl_streq(value, "true") && !pl_streq(value, "false"))
            return pl_err_set(err, PL_EINVAL, "%s is \"%s\": use true or false", where, value);
        *(bool *)slot = pl_streq(value, "true");
        return 0;
    }
    if (f->kind == DURATION) {
        if (pl_duration_parse(value, slot, err) < 0)
            return pl_err_set(err, PL_EINVAL, "%s is \"%s\": use a duration such as 2s, 500ms or 1m30s", where, value);
        return 0;
    }
    number = strtoll(value, &end, 10);
    if (!*value || *end || number < least || number > most)
        return pl_err_set(err, PL_EINVAL, "%s is \"%s\": use a number from %" PRId64 " to %" PRId64, where, value, least, most);
    *(int64_t *)slot = number;
    return 0;
}

/* Describes which values a setting accepts in the file, for error messages. */
static const char *const json_kinds[] = {[TEXT] = "a string",     [NUMBER] = "a number",      [COUNT] = "a number",
                                         [DURATION] = "a string", [SWITCH] = "true or false", [LIST] = "a list of strings"};

static int set_tree(struct pl_config *c, const struct field *f, const json_t *v, const char *where, struct pl_err *err)
{
    json_t **slot = (json_t **)(void *)((char *)c + f->offset);
    const bool list = *f->fallback == '[';

    if (list ? !json_is_array(v) : !json_is_object(v))
        return pl_err_set(err, PL_EINVAL, "%s must be %s", where, list ? "a list" : "an object");
    json_decref(*slot);
    *slot = json_deep_copy(v);
    return *slot ? 0 : pl_err_nomem(err);
}

/* Joins the texts of a JSON array with commas. */
static int set_list(struct pl_config *c, const struct field *f, const json_t *v, const char *where, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf list = {0};
    const json_t *one;
    size_t i;
    int r = 0;

    json_array_foreach(v, i, one)
    {
        if (!json_is_string(one) || strchr(json_string_value(one), ','))
            return pl_err_set(err, PL_EINVAL, "%s[%zu] must be a string without a comma", where, i);
        r = pl_buf_addf(&list, err, "%s%s", i ? "," : "", json_string_value(one));
        if (r < 0)
            return r;
    }
    return pl_buf_str(&list) ? set(c, f, pl_buf_str(&list), where, err) : pl_err_nomem(err);
}

static int set_value(struct pl_config *c, const struct field *f, const json_t *v, const char *where, struct pl_err *err)
{
    const bool is_number = f->kind == NUMBER || f->kind == COUNT;
    char number[32];

    if (f->kind == TREE)
        return set_tree(c, f, v, where, err);
    if (f->kind == LIST && json_is_array(v))
        return set_list(c, f, v, where, err);
    if (is_number && json_is_integer(v)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        return set(c, f, number, where, err);
    }
    if (f->kind == SWITCH && json_is_boolean(v))
        return set(c, f, json_is_true(v) ? "true" : "false", where, err);
    if (!is_number && f->kind != SWITCH && json_is_string(v))
        return set(c, f, json_string_value(v), where, err);
    return pl_err_set(err, PL_EINVAL, "%s must be %s", where, json_kinds[f->kind]);
}

/* True if the table has keys that begin with "path.". */
static bool has_parts(const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < PL_ARRAY_SIZE(fields); i++)
        if (strncmp(fields[i].key, path, n) == 0 && fields[i].key[n] == '.')
            return true;
    return false;
}

static int set_json(struct pl_config *c, const char *file, const char *key, const json_t *v, struct pl_err *err);

/* Reads the members of a JSON object into their settings: {"a": {"b": …}} sets the key "a.b". For a setting
 * "a" that also has a value of its own, the member "url" of the object is that value. */
static int set_parts(struct pl_config *c, const char *file, const char *key, const json_t *o, struct pl_err *err)
{
    char path[128];
    const char *part;
    json_t *v;
    int r = 0;

    json_object_foreach((json_t *)o, part, v)
    {
        snprintf(path, sizeof path, "%.60s.%.60s", key, part);
        r = set_json(c, file, pl_streq(part, "url") ? key : path, v, err);
        if (r < 0)
            break;
    }
    return r;
}

static int set_json(struct pl_config *c, const char *file, const char *key, const json_t *v, struct pl_err *err)
{
    const char *keys[PL_ARRAY_SIZE(fields)], *near;
    char where[256];

    snprintf(where, sizeof where, "%s: %s", file, key);
    if (json_is_object(v) && has_parts(key))
        return set_parts(c, file, key, v, err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(fields); i++) {
        keys[i] = fields[i].key;
        if (pl_streq(fields[i].key, key))
            return set_value(c, &fields[i], v, where, err);
    }
    near = pl_word_nearest(key, keys, PL_ARRAY_SIZE(fields));
    return near ? pl_err_set(err, PL_EINVAL, "%s: unknown key \"%s\": did you mean \"%s\"?", file, key, near)
                : pl_err_set(err, PL_EINVAL, "%s: unknown key \"%s\"", file, key);
}

/* Reads the settings in a JSON configuration file. */
static int read_file(struct pl_config *c, const char *file, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = CONFIG_MAX_BYTES};
    json_error_t where;
    json_t *o, *v;
    const char *key;
    int r = pl_io_read_file(file, &text, err);

    if (r < 0)
        return r;
    o = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(o)) {
        json_decref(o);
        return pl_err_set(err, PL_EINVAL, "%s:%d:%d: %s", file, where.line, where.column, o ? "not an object" : where.text);
    }
    json_object_foreach(o, key, v)
    {
        r = set_json(c, file, key, v, err);
        if (r < 0)
            break;
    }
    json_decref(o);
    return r;
}

static int unknown_option(const char *arg, struct pl_err *err)
{
    char names[PL_ARRAY_SIZE(fields)][64];
    const char *words[PL_ARRAY_SIZE(fields)], *near;
    size_t n = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(fields); i++) {
        if (fields[i].file_only)
            continue;
        option_name(&fields[i], names[n]);
        words[n] = names[n];
        n++;
    }
    near = pl_word_nearest(arg, words, n);
    return pl_err_set(err, PL_EUSAGE, "unknown option %s%s%s (pipelined --help)", arg, near ? ": did you mean " : "",
                      near ? near : "");
}

/* Parses the option at argv[i]. Returns the number of words that it consists of, or a negative error code. */
static int read_option(struct pl_config *c, char **argv, int i, int argc, struct pl_err *err)
{
    const char *eq = strchr(argv[i], '=');
    size_t len = eq ? (size_t)(eq - argv[i]) : strlen(argv[i]);
    char name[64];
    int r;

    for (size_t k = 0; k < PL_ARRAY_SIZE(fields); k++) {
        option_name(&fields[k], name);
        if (strlen(name) != len || strncmp(name, argv[i], len) != 0)
            continue;
        if (fields[k].file_only)
            return pl_err_set(err, PL_EUSAGE, "%s is only accepted in the file of --config%s", fields[k].key,
                              fields[k].kind == TREE ? "" : ": all users of this machine can see command lines");
        if (fields[k].kind == SWITCH && !eq && (i + 1 >= argc || argv[i + 1][0] == '-')) {
            r = set(c, &fields[k], "true", name, err);
            return r < 0 ? r : 1;
        }
        if (!eq && i + 1 >= argc)
            return pl_err_set(err, PL_EUSAGE, "%s needs a value: %s %s", name, name, fields[k].value);
        r = set(c, &fields[k], eq ? eq + 1 : argv[i + 1], name, err);
        return r < 0 ? r : eq ? 1 : 2;
    }
    return unknown_option(argv[i], err);
}

/* Makes the path of the data folder absolute, because workers run in other folders and find the daemon
 * through it. */
static int settle_data(struct pl_config *c, struct pl_err *err)
{
    const char *home = getenv("HOME"), *xdg = getenv("XDG_DATA_HOME");
    _cleanup_free_ char *here = NULL;
    char *dir = NULL;
    int n;

    if (c->data[0] == '/')
        return 0;
    if (*c->data) {
        here = getcwd(NULL, 0);
        if (!here)
            return pl_err_errno(err, errno, "--data %s: cannot find the current folder", c->data);
        n = asprintf(&dir, "%s/%s", pl_streq(here, "/") ? "" : here, c->data);
    } else if (geteuid() == 0)
        n = asprintf(&dir, "/var/lib/pipelined");
    else if (xdg && *xdg)
        n = asprintf(&dir, "%s/pipelined", xdg);
    else
        n = asprintf(&dir, "%s/.local/share/pipelined", home ? home : ".");
    if (n < 0)
        return pl_err_nomem(err);
    free(c->data);
    c->data = dir;
    return 0;
}

/* Parses all options except --config. */
static int read_options(int argc, char **argv, struct pl_config *c, struct pl_err *err)
{
    for (int i = 1, r; i < argc; i += r) {
        r = 1;
        if (pl_streq(argv[i], "--help") || pl_streq(argv[i], "-h"))
            c->show_help = true;
        else if (pl_streq(argv[i], "--version"))
            c->show_version = true;
        else if (pl_streq(argv[i], "--print-config-doc"))
            c->show_doc = true;
        else if (pl_streq(argv[i], "--config"))
            r = 2; /* the file that --config names was read before the options */
        else if (strncmp(argv[i], "--config=", 9) == 0)
            r = 1;
        else
            r = read_option(c, argv, i, argc, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_executor(const struct pl_config *c, struct pl_err *err)
{
    if (!pl_streq(c->executor, "local") && !pl_streq(c->executor, "kubernetes"))
        return pl_err_set(err, PL_EINVAL, "--executor is \"%s\": use local or kubernetes", c->executor);
    return 0;
}

/* Checks that sandbox_read_only lists absolute paths. A colon separates the folders in the workers'
 * environment. */
static int check_folders(const char *list, struct pl_err *err)
{
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n && (*list != '/' || memchr(list, ':', n)))
            return pl_err_set(
                err, PL_EINVAL,
                "--sandbox-read-only has \"%.*s\": use absolute paths of folders without a colon, separated by commas",
                (int)PL_MIN(n, 200u), list);
    }
    return 0;
}

static int check_level(const char *name, struct pl_err *err)
{
    enum pl_log_level level;

    if (pl_log_level_parse(name, &level))
        return 0;
    return pl_err_set(err, PL_EINVAL, "--log-level is \"%s\": use debug, info, warn or error", name);
}

/* Sets all settings: first the defaults, then the configuration file, then the options; then checks the
 * result. */
int pl_config_read(int argc, char **argv, struct pl_config *ret, struct pl_err *err)
{
    struct pl_config c = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(fields); i++)
        r = set(&c, &fields[i], fields[i].fallback, fields[i].key, err);
    for (int i = 1; r == 0 && i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0)
            r = read_file(&c, argv[i] + 9, err);
        else if (pl_streq(argv[i], "--config"))
            r = i + 1 < argc ? read_file(&c, argv[i + 1], err)
                             : pl_err_set(err, PL_EUSAGE, "--config needs a value: --config FILE");
    }
    r = r < 0 ? r : read_options(argc, argv, &c, err);
    r = r < 0 ? r : settle_data(&c, err);
    r = r < 0 ? r : check_level(c.log_level, err);
    r = r < 0 ? r : check_executor(&c, err);
    r = r < 0 ? r : check_folders(c.sandbox_read_only, err);
    if (r < 0) {
        pl_config_finish(&c);
        return r;
    }
    *ret = c;
    return 0;
}

void pl_config_finish(struct pl_config *c)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(fields); i++)
        if (fields[i].kind == TEXT || fields[i].kind == LIST)
            free(*(char **)((char *)c + fields[i].offset));
        else if (fields[i].kind == TREE)
            json_decref(*(json_t **)(void *)((char *)c + fields[i].offset));
    memset(c, 0, sizeof *c);
}

int pl_config_show_folders(const struct pl_config *c, struct pl_err *err)
{
    const char *set = getenv("PIPELINED_SANDBOX_RO");
    _cleanup_free_ char *all = strdup(c->sandbox_read_only);

    if (!all)
        return pl_err_nomem(err);
    if (set && *set && !*all)
        pl_log_warn("config", "the variable PIPELINED_SANDBOX_RO is not read any more: put \"%.900s\" into sandbox_read_only",
                    set);
    for (char *p = all; (p = strchr(p, ',')) != NULL;)
        *p = ':';
    return setenv("PIPELINED_SANDBOX_RO", all, 1) < 0 ? pl_err_nomem(err) : 0;
}

int pl_config_help(struct pl_buf *out, struct pl_err *err)
{
    char name[64];
    int r = pl_buf_add_str(out,
                           "pipelined: the daemon of versioned datasets and pipelines\n\n"
                           "  pipelined                      serve on 127.0.0.1:7380 with the default folder\n"
                           "  pipelined --data DIR           serve with another folder\n"
                           "  pipelined --config FILE.json   options from a file (docs/config.md)\n\n",
                           err);

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(fields); i++) {
        if (fields[i].file_only)
            continue;
        option_name(&fields[i], name);
        r = pl_buf_addf(out, err, "  %s %s\n      %s\n", name, fields[i].value, fields[i].doc);
    }
    return r;
}

int pl_config_markdown(struct pl_buf *out, struct pl_err *err)
{
    static const char *const kinds[] = {
        [TEXT] = "text",           [NUMBER] = "number", [COUNT] = "number", [DURATION] = "duration", [SWITCH] = "true or false",
        [TREE] = "object or list", [LIST] = "list"};
    char name[64], option[68];
    int r = pl_buf_add_str(
        out,
        "# Configuration of the daemon\n\n"
        "`pipelined --config FILE` reads a JSON object with these keys; each is an option, too, and an option wins over the"
        " file. `a.b` is written `{\"a\": {\"b\": …}}`. An unknown key is refused. This page is made from the table in"
        " `pipelined/daemon/config.c`.\n\n"
        "| key | option | value | default | meaning |\n|---|---|---|---|---|\n",
        err);

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(fields); i++) {
        option_name(&fields[i], name);
        snprintf(option, sizeof option, "`%s`", name);
        r = pl_buf_addf(out, err, "| `%s` | %s | %s | %s%s%s | %s |\n", fields[i].key, fields[i].file_only ? "file only" : option,
                        kinds[fields[i].kind], *fields[i].fallback ? "`" : "",
                        *fields[i].fallback ? fields[i].fallback : "see right", *fields[i].fallback ? "`" : "", fields[i].doc);
    }
    return r;
}
