/* kubeconfig.c: parses the files, finds the context with its cluster and user in them, and copies their
 * fields. Each entry found remembers its file, for messages and relative paths. */
#include "pipelined/kube/client/kubeconfig.h"

#include "pipelined/kube/client/kube_yaml.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"

#include <stdio.h>
#include <strings.h>

#define NAME_BYTES "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

/* A parsed kubeconfig file. */
struct file {
    const char *path;
    json_t *root;
};

struct files {
    struct file f[PL_KUBECONFIG_FILES];
    size_t n;
};

/* An entry of a kubeconfig list (contexts, clusters or users), with its file. */
struct entry {
    const json_t *value;
    const char *path, *kind, *name;
};

void pl_kubeconfig_finish(struct pl_kubeconfig *c)
{
    char **const all[] = {&c->context,  &c->cluster,         &c->user,       &c->server,    &c->name_space, &c->ca_data,
                          &c->ca_file,  &c->tls_server_name, &c->proxy_url,  &c->cert_data, &c->cert_file,  &c->key_data,
                          &c->key_file, &c->token,           &c->token_file, &c->username,  &c->password};

    for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++) {
        if (*all[i] != NULL)
            explicit_bzero(*all[i], strlen(*all[i]));
        free(*all[i]);
    }
    if (c->plugin != NULL) {
        free(c->plugin->api_version);
        free(c->plugin->command);
        free(c->plugin->install_hint);
        for (size_t i = 0; i < PL_KUBE_EXEC_ARGS; i++) {
            free(c->plugin->args[i]);
            free(c->plugin->env[i]);
        }
        free(c->plugin);
    }
    *c = (struct pl_kubeconfig){0};
}

/* ---- reading files ---- */

static void files_finish(struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        json_decref(f->f[i].root);
}

static int files_read(struct files *f, const struct pl_kubeconfig_text *texts, size_t n, struct pl_err *err)
{
    for (size_t i = 0; i < n; i++) {
        json_t *root = NULL;
        int r;

        if (f->n == PL_KUBECONFIG_FILES)
            return pl_err_set(err, PL_EINVAL, "more than %u kubeconfig files", PL_KUBECONFIG_FILES);
        r = pl_kube_yaml_parse(texts[i].text, texts[i].len, &root, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s", texts[i].path);
        f->f[f->n++] = (struct file){texts[i].path, root};
        if (!json_is_object(root) && !json_is_null(root))
            return pl_err_set(err, PL_EINVAL, "%s: not a kubeconfig", texts[i].path);
    }
    return 0;
}

static int wrong(const struct entry *e, const char *field, const char *why, struct pl_err *err)
{
    return pl_err_set(err, PL_EINVAL, "%s: %s \"%s\": %s %s", e->path, e->kind, e->name, field, why);
}

/* Writes the names of a list's entries, for error messages. */
static void names_of(const struct files *f, const char *list, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < f->n; i++) {
        const json_t *item;
        size_t k;

        json_array_foreach(json_object_get(f->f[i].root, list), k, item)
        {
            const char *name = json_string_value(json_object_get(item, "name"));

            if (name != NULL && len < size)
                len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", name);
        }
    }
}

/* Finds the first entry in the list `list` ("contexts") whose "name" is `name`, and returns the entry's
 * member `kind` ("context"). */
static int find(const struct files *f, const char *list, const char *kind, const char *name, struct entry *ret,
                struct pl_err *err)
{
    char known[400];

    for (size_t i = 0; i < f->n; i++) {
        const json_t *item;
        size_t k;

        json_array_foreach(json_object_get(f->f[i].root, list), k, item)
        {
            const char *its = json_string_value(json_object_get(item, "name"));

            if (its == NULL || !pl_streq(its, name))
                continue;
            *ret = (struct entry){json_object_get(item, kind), f->f[i].path, kind, its};
            return json_is_object(ret->value) || json_is_null(ret->value) || ret->value == NULL
                       ? 0
                       : pl_err_set(err, PL_EINVAL, "%s: %s \"%s\" is not a mapping", ret->path, kind, its);
        }
    }
    names_of(f, list, known, sizeof(known));
    return pl_err_set(err, PL_ENOTFOUND, "the kubeconfig has no %s \"%s\"; it has: %s", kind, name,
                      known[0] != '\0' ? known : "none");
}

/* ---- reading fields ---- */

static int set_text(char **to, const char *text, struct pl_err *err)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return pl_err_nomem(err);
    free(*to);
    *to = copy;
    return 0;
}

/* Copies a string field; a number is converted to text, as in `token: 12345`. */
static int take_text(const struct entry *e, const char *field, char **to, struct pl_err *err)
{
    const json_t *value = json_object_get(e->value, field);
    char number[32];

    if (value == NULL || json_is_null(value))
        return 0;
    if (json_is_integer(value)) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
        return set_text(to, number, err);
    }
    if (!json_is_string(value))
        return wrong(e, field, "is not a string", err);
    return *json_string_value(value) != '\0' ? set_text(to, json_string_value(value), err) : 0;
}

static int take_bool(const struct entry *e, const char *field, bool *to, struct pl_err *err)
{
    const json_t *value = json_object_get(e->value, field);

    if (value != NULL && !json_is_boolean(value) && !json_is_null(value))
        return wrong(e, field, "is neither true nor false", err);
    *to = json_is_true(value);
    return 0;
}

/* Makes a path absolute; a relative one starts at the folder of the file that contains it. */
static int absolute(const char *file, const char *path, char **ret, struct pl_err *err)
{
    const char *slash = strrchr(file, '/');
    int n;

    if (*path == '/')
        return set_text(ret, path, err);
    free(*ret);
    *ret = NULL;
    n = slash != NULL ? asprintf(ret, "%.*s/%s", (int)(slash - file), file, path) : asprintf(ret, "%s", path);
    if (n < 0) {
        *ret = NULL;
        return pl_err_nomem(err);
    }
    return 0;
}

static int take_path(const struct entry *e, const char *field, char **to, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    int r = take_text(e, field, &path, err);

    return r < 0 || path == NULL ? r : absolute(e->path, path, to, err);
}

/* Reads the member "FIELD-data" (base64) as text into `data`; if it is absent, the member FIELD as a path
 * into `file`. */
static int take_pem(const struct entry *e, const char *field, char **data, char **file, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf pem = {.max = PL_KUBECONFIG_MAX};
    _cleanup_free_ char *base64 = NULL;
    char name[64];
    int r;

    (void)snprintf(name, sizeof(name), "%s-data", field);
    r = take_text(e, name, &base64, err);
    if (r < 0 || base64 == NULL)
        return r < 0 ? r : take_path(e, field, file, err);
    for (size_t from = 0, to = 0;; from++) /* skip blanks, which folded YAML scalars contain */
        if (strchr(" \t\r\n", base64[from]) == NULL || base64[from] == '\0') {
            base64[to++] = base64[from];
            if (base64[from] == '\0')
                break;
        }
    if (pl_base64_decode(base64, &pem, NULL) < 0)
        return wrong(e, name, "is not base64", err);
    *data = pl_buf_take_str(&pem);
    return *data != NULL ? 0 : pl_err_nomem(err);
}

/* ---- context, cluster and user ---- */

/* True for a URL "http(s)://HOST…" without query, user name, or invalid characters. */
static bool is_address(const char *url)
{
    const char *host = strncasecmp(url, "http://", 7) == 0 ? url + 7 : strncasecmp(url, "https://", 8) == 0 ? url + 8 : "";

    for (const char *at = host; *at != '\0'; at++)
        if (*at <= ' ' || *at == 0x7f || strchr("?#@\\\"<>", *at) != NULL)
            return false;
    return *host != '\0' && strchr("/:", *host) == NULL;
}

/* Reads and checks the cluster's fields. */
static int take_cluster(const struct entry *e, struct pl_kubeconfig *c, struct pl_err *err)
{
    int r = take_text(e, "server", &c->server, err);

    if (r == 0)
        r = take_pem(e, "certificate-authority", &c->ca_data, &c->ca_file, err);
    if (r == 0)
        r = take_text(e, "tls-server-name", &c->tls_server_name, err);
    if (r == 0)
        r = take_text(e, "proxy-url", &c->proxy_url, err);
    if (r == 0)
        r = take_bool(e, "insecure-skip-tls-verify", &c->insecure, err);
    if (r < 0)
        return r;
    if (c->server == NULL)
        return wrong(e, "server", "is missing", err);
    if (!is_address(c->server))
        return wrong(e, "server", "is not an address: use https://HOST:PORT", err);
    for (size_t n = strlen(c->server); n > 0 && c->server[n - 1] == '/'; n--)
        c->server[n - 1] = '\0';
    if (c->proxy_url != NULL && strncmp(c->proxy_url, "http://", 7) != 0 && strncmp(c->proxy_url, "https://", 8) != 0 &&
        strncmp(c->proxy_url, "socks5://", 9) != 0)
        return wrong(e, "proxy-url", "is not the address of a proxy: use http://, https:// or socks5://", err);
    if (c->tls_server_name != NULL && strspn(c->tls_server_name, NAME_BYTES) != strlen(c->tls_server_name))
        return wrong(e, "tls-server-name", "is not a host name", err);
    if (c->insecure && (c->ca_data != NULL || c->ca_file != NULL))
        return wrong(e, "insecure-skip-tls-verify", "and a certificate-authority exclude each other", err);
    return 0;
}

/* Copies the plugin's `args`, or with `pairs` its `env` as "NAME=value". */
static int take_list(const struct entry *e, const json_t *list, bool pairs, char **out, struct pl_err *err)
{
    const json_t *item;
    size_t i;

    if (json_array_size(list) > PL_KUBE_EXEC_ARGS)
        return wrong(e, "exec", "has too many args or env", err);
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(pairs ? json_object_get(item, "name") : item);
        const char *value = pairs ? json_string_value(json_object_get(item, "value")) : "";

        if (name == NULL || value == NULL || (pairs && *name == '\0'))
            return wrong(e, "exec",
                         pairs ? "has an env entry without name and value as strings" : "has an arg that is not a string", err);
        if (asprintf(&out[i], pairs ? "%s=%s" : "%s%s", name, value) < 0) {
            out[i] = NULL;
            return pl_err_nomem(err);
        }
    }
    return 0;
}

/* Reads the plugin's command: "./get-token" is relative to the file's folder, "aws" is searched in PATH. */
static int take_command(const struct entry *user, const struct entry *e, struct pl_kube_plugin *p, struct pl_err *err)
{
    _cleanup_free_ char *command = NULL;
    int r = take_text(e, "command", &command, err);

    if (r < 0)
        return r;
    if (command == NULL)
        return wrong(user, "exec", "has no command", err);
    return strchr(command, '/') != NULL ? absolute(e->path, command, &p->command, err) : set_text(&p->command, command, err);
}

/* Reads and checks the user's exec plugin, if there is one. */
static int take_exec(const struct entry *user, struct pl_kubeconfig *c, struct pl_err *err)
{
    struct entry e = *user;
    struct pl_kube_plugin *p;
    const char *mode;
    int r;

    e.value = json_object_get(user->value, "exec");
    if (e.value == NULL || json_is_null(e.value))
        return 0;
    p = c->plugin = calloc(1, sizeof(*p));
    if (p == NULL)
        return pl_err_nomem(err);
    r = take_text(&e, "apiVersion", &p->api_version, err);
    if (r == 0)
        r = take_command(user, &e, p, err);
    if (r == 0)
        r = take_text(&e, "installHint", &p->install_hint, err);
    if (r == 0)
        r = take_bool(&e, "provideClusterInfo", &p->wants_cluster, err);
    if (r == 0)
        r = take_list(user, json_object_get(e.value, "args"), false, p->args, err);
    if (r == 0)
        r = take_list(user, json_object_get(e.value, "env"), true, p->env, err);
    if (r < 0)
        return r;
    if (p->api_version == NULL || (!pl_streq(p->api_version, "client.authentication.k8s.io/v1") &&
                                   !pl_streq(p->api_version, "client.authentication.k8s.io/v1beta1")))
        return wrong(user, "exec", "has an unsupported apiVersion: use client.authentication.k8s.io/v1 or /v1beta1", err);
    mode = json_string_value(json_object_get(e.value, "interactiveMode"));
    if (mode != NULL && pl_streq(mode, "Always"))
        return wrong(user, "exec",
                     "needs a terminal (interactiveMode: Always), which a daemon does not have: use a token or a certificate",
                     err);
    return 0;
}

/* Reads and checks the user's fields. */
static int take_user(const struct entry *e, struct pl_kubeconfig *c, struct pl_err *err)
{
    int r = take_pem(e, "client-certificate", &c->cert_data, &c->cert_file, err);

    if (r == 0)
        r = take_pem(e, "client-key", &c->key_data, &c->key_file, err);
    if (r == 0)
        r = take_text(e, "token", &c->token, err);
    if (r == 0)
        r = take_path(e, "tokenFile", &c->token_file, err);
    if (r == 0)
        r = take_text(e, "username", &c->username, err);
    if (r == 0)
        r = take_text(e, "password", &c->password, err);
    if (r == 0)
        r = take_exec(e, c, err);
    if (r < 0)
        return r;
    if (json_is_object(json_object_get(e->value, "auth-provider")))
        return wrong(e, "auth-provider", "was removed from Kubernetes in 1.26: use the provider's exec plugin", err);
    if ((c->cert_data != NULL || c->cert_file != NULL) != (c->key_data != NULL || c->key_file != NULL))
        return wrong(e, "client-certificate and client-key", "go together: one is missing", err);
    return 0;
}

/* ---- resolving the configuration ---- */

static int choose_context(const struct files *f, const char *context, struct entry *ret, struct pl_err *err)
{
    for (size_t i = 0; i < f->n && context == NULL; i++) {
        context = json_string_value(json_object_get(f->f[i].root, "current-context"));
        if (context != NULL && *context == '\0')
            context = NULL;
    }
    if (context == NULL) {
        char known[400];

        names_of(f, "contexts", known, sizeof(known));
        return pl_err_set(err, PL_ENOTFOUND, "the kubeconfig has no current-context: name one of: %s",
                          known[0] != '\0' ? known : "none");
    }
    return find(f, "contexts", "context", context, ret, err);
}

/* Reads the named context, and the cluster and the user that the context names. */
static int resolve(const struct files *f, const char *name, struct pl_kubeconfig *c, struct pl_err *err)
{
    struct entry context, cluster, user;
    int r = choose_context(f, name, &context, err);

    if (r == 0)
        r = set_text(&c->context, context.name, err);
    if (r == 0)
        r = take_text(&context, "cluster", &c->cluster, err);
    if (r == 0)
        r = take_text(&context, "user", &c->user, err);
    if (r == 0)
        r = set_text(&c->name_space, "default", err);
    if (r == 0)
        r = take_text(&context, "namespace", &c->name_space, err);
    if (r == 0 && c->cluster == NULL)
        r = wrong(&context, "cluster", "is missing", err);
    if (r == 0)
        r = find(f, "clusters", "cluster", c->cluster, &cluster, err);
    if (r == 0)
        r = take_cluster(&cluster, c, err);
    if (r < 0 || c->user == NULL) /* a context without a user: send anonymous requests */
        return r;
    r = find(f, "users", "user", c->user, &user, err);
    return r < 0 ? r : take_user(&user, c, err);
}

int pl_kubeconfig_resolve(const struct pl_kubeconfig_text *texts, size_t n, const char *context, struct pl_kubeconfig *ret,
                          struct pl_err *err)
{
    struct pl_kubeconfig c = {0};
    struct files f = {0};
    int r = files_read(&f, texts, n, err);

    if (r == 0)
        r = resolve(&f, context, &c, err);
    files_finish(&f);
    if (r < 0)
        pl_kubeconfig_finish(&c);
    else
        *ret = c;
    return r;
}

/* ---- finding the files ---- */

struct texts {
    struct pl_kubeconfig_text t[PL_KUBECONFIG_FILES];
    char *paths[PL_KUBECONFIG_FILES];
    struct pl_buf bufs[PL_KUBECONFIG_FILES];
    size_t n;
};

static void texts_finish(struct texts *t)
{
    for (size_t i = 0; i < PL_KUBECONFIG_FILES; i++) {
        free(t->paths[i]);
        pl_buf_finish(&t->bufs[i]);
    }
}

/* Reads a file of the list; a file that does not exist is skipped. */
static int add_file(struct texts *t, const char *path, size_t len, struct pl_err *err)
{
    struct pl_buf *buf = &t->bufs[t->n];
    int r;

    if (len == 0)
        return 0;
    if (t->n == PL_KUBECONFIG_FILES)
        return pl_err_set(err, PL_EINVAL, "more than %u kubeconfig files", PL_KUBECONFIG_FILES);
    free(t->paths[t->n]);
    t->paths[t->n] = strndup(path, len);
    if (t->paths[t->n] == NULL)
        return pl_err_nomem(err);
    buf->max = PL_KUBECONFIG_MAX;
    r = pl_io_read_file(t->paths[t->n], buf, err);
    if (r == PL_ENOTFOUND)
        return 0;
    if (r < 0)
        return r;
    t->t[t->n] = (struct pl_kubeconfig_text){t->paths[t->n], buf->data != NULL ? (const char *)buf->data : "", buf->len};
    t->n++;
    return 0;
}

static int read_files(const char *list, struct texts *t, struct pl_err *err)
{
    int r = 0;

    while (r == 0) {
        const size_t len = strcspn(list, ":");

        r = add_file(t, list, len, err);
        if (list[len] == '\0')
            break;
        list += len + 1;
    }
    return r;
}

/* Returns the list of kubeconfig files "a:b": the configured one, else $KUBECONFIG, else ~/.kube/config. The
 * caller frees it. */
static char *which_files(const char *given)
{
    const char *env = getenv("KUBECONFIG"), *home = getenv("HOME");
    char *out = NULL;

    if (given != NULL)
        return strdup(given);
    if (env != NULL && *env != '\0')
        return strdup(env);
    return asprintf(&out, "%s/.kube/config", home != NULL ? home : "") < 0 ? NULL : out;
}

int pl_kubeconfig_load(const struct pl_kubeconfig_where *where, struct pl_kubeconfig *ret, struct pl_err *err)
{
    const char *dir = where->account_dir != NULL ? where->account_dir : PL_KUBE_ACCOUNT_DIR;
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    _cleanup_free_ char *list = NULL;
    struct texts t = {0};
    int r;

    if (where->in_cluster)
        return pl_kubeconfig_in_cluster(dir, host, port, ret, err);
    list = which_files(where->files);
    r = list != NULL ? read_files(list, &t, err) : pl_err_nomem(err);
    if (r == 0 && t.n > 0)
        r = pl_kubeconfig_resolve(t.t, t.n, where->context, ret, err);
    else if (r == 0 && host != NULL && where->files == NULL)
        r = pl_kubeconfig_in_cluster(dir, host, port, ret, err);
    else if (r == 0)
        r = pl_err_set(err, PL_ENOTFOUND, "no kubeconfig at %s, and this is not a pod (KUBERNETES_SERVICE_HOST is not set)",
                       list);
    texts_finish(&t);
    return r;
}

int pl_kubeconfig_in_cluster(const char *dir, const char *host, const char *port, struct pl_kubeconfig *ret, struct pl_err *err)
{
    _cleanup_(pl_kubeconfig_finish) struct pl_kubeconfig c = {0};
    _cleanup_(pl_buf_finish) struct pl_buf name = {.max = 4096};
    _cleanup_free_ char *path = NULL;
    const bool v6 = host != NULL && strchr(host, ':') != NULL && *host != '[';
    int r = 0;

    if (host == NULL || *host == '\0' || port == NULL || *port == '\0')
        return pl_err_set(err, PL_ENOTFOUND,
                          "this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
    if (asprintf(&c.server, v6 ? "https://[%s]:%s" : "https://%s:%s", host, port) < 0 ||
        asprintf(&c.ca_file, "%s/ca.crt", dir) < 0 || asprintf(&c.token_file, "%s/token", dir) < 0 ||
        asprintf(&path, "%s/namespace", dir) < 0)
        return pl_err_nomem(err);
    if (access(c.token_file, R_OK) != 0)
        return pl_err_set(err, PL_ENOTFOUND, "%s cannot be read: give the pod a service account (automountServiceAccountToken)",
                          c.token_file);
    if (access(c.ca_file, R_OK) != 0) {
        free(c.ca_file);
        c.ca_file = NULL;
    }
    r = pl_io_read_file(path, &name, NULL);
    while (name.len > 0 && name.data[name.len - 1] <= ' ')
        name.len--;
    c.name_space = r == 0 && name.len > 0 ? pl_buf_take_str(&name) : strdup("default");
    c.context = strdup("in-cluster");
    if (c.name_space == NULL || c.context == NULL)
        return pl_err_nomem(err);
    *ret = c;
    c = (struct pl_kubeconfig){0};
    return 0;
}
