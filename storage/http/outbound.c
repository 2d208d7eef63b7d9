/* outbound: lists of texts and networks, compared one by one. */
#include "storage/http/outbound.h"

#include <arpa/inet.h>
#include <strings.h>

struct pl_outbound {
    struct pl_outbound_settings settings; /* copies */
    char *schemes[PL_OUTBOUND_ENTRIES_MAX], *hosts[PL_OUTBOUND_ENTRIES_MAX];
    size_t n_schemes, n_hosts;
    struct pl_network networks[PL_OUTBOUND_ENTRIES_MAX];
    size_t n_networks;
};

/* Networks that are not public: of this machine, of private networks, and those with a special purpose (RFC 6890 and its
 * registries). 64:ff9b::/96 and 2002::/16 have an IPv4 address inside. */
static const char *const not_public[] = {
    "0.0.0.0/8",      "10.0.0.0/8",   "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24",   "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",  "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4",  "240.0.0.0/4",    "::/96",          "64:ff9b::/96",   "64:ff9b:1::/48",
    "100::/64",       "2001::/23",    "2001:db8::/32",  "2002::/16",      "3fff::/20",      "5f00::/16",
    "168.63.129.16",  "fc00::/7",     "fe80::/10",      "fec0::/10",      "ff00::/8",
};

static const char *const known_schemes[] = {"https", "ssh", "http", "git"};

struct pl_outbound *pl_outbound_destroy(struct pl_outbound *o)
{
    if (!o)
        return NULL;
    for (size_t i = 0; i < o->n_schemes; i++)
        free(o->schemes[i]);
    for (size_t i = 0; i < o->n_hosts; i++)
        free(o->hosts[i]);
    free((char *)(uintptr_t)o->settings.schemes);
    free((char *)(uintptr_t)o->settings.hosts);
    free((char *)(uintptr_t)o->settings.networks);
    free((char *)(uintptr_t)o->settings.ca);
    free(o);
    return NULL;
}

static int add_scheme(struct pl_outbound *o, const char *one, struct pl_err *err)
{
    bool known = false;

    for (size_t i = 0; i < PL_ARRAY_SIZE(known_schemes); i++)
        known = known || pl_streq(one, known_schemes[i]);
    if (!known)
        return pl_err_set(err, PL_EINVAL, "outbound.schemes: \"%.40s\": https, ssh, http or git is expected", one);
    o->schemes[o->n_schemes] = strdup(one);
    return o->schemes[o->n_schemes++] ? 0 : pl_err_nomem(err);
}

static int add_host(struct pl_outbound *o, const char *one, struct pl_err *err)
{
    if (strchr(one + 1, '*') || (*one == '*' && one[1] && one[1] != '.') || strpbrk(one, "/ @"))
        return pl_err_set(err, PL_EINVAL, "outbound.hosts: \"%.200s\": a host such as github.com, *.example.org or * is expected",
                          one);
    o->hosts[o->n_hosts] = strdup(one);
    return o->hosts[o->n_hosts++] ? 0 : pl_err_nomem(err);
}

static int add_network(struct pl_outbound *o, const char *one, struct pl_err *err)
{
    if (!pl_network_parse(one, &o->networks[o->n_networks++]))
        return pl_err_set(err, PL_EINVAL, "outbound.networks: \"%.100s\" is neither an address nor a network such as 10.0.0.0/8",
                          one);
    return 0;
}

/* Calls `add` for each entry of a list that commas or spaces separate. */
static int each(struct pl_outbound *o, const char *name, const char *list, const size_t *n,
                int (*add)(struct pl_outbound *o, const char *one, struct pl_err *err), struct pl_err *err)
{
    _cleanup_free_ char *text = strdup(list);
    char *save = NULL;
    int r = text ? 0 : pl_err_nomem(err);

    for (char *one = text ? strtok_r(text, ", ", &save) : NULL; r == 0 && one; one = strtok_r(NULL, ", ", &save)) {
        if (*n == PL_OUTBOUND_ENTRIES_MAX)
            return pl_err_set(err, PL_ELIMIT, "%s has more than %u entries", name, PL_OUTBOUND_ENTRIES_MAX);
        r = add(o, one, err);
    }
    return r;
}

int pl_outbound_create(const struct pl_outbound_settings *settings, struct pl_outbound **ret, struct pl_err *err)
{
    struct pl_outbound *o = calloc(1, sizeof *o);
    int r;

    if (!o)
        return pl_err_nomem(err);
    o->settings.schemes = strdup(settings->schemes);
    o->settings.hosts = strdup(settings->hosts);
    o->settings.networks = strdup(settings->networks);
    o->settings.ca = strdup(settings->ca);
    r = o->settings.schemes && o->settings.hosts && o->settings.networks && o->settings.ca ? 0 : pl_err_nomem(err);
    if (r == 0)
        r = each(o, "outbound.schemes", settings->schemes, &o->n_schemes, add_scheme, err);
    if (r == 0)
        r = each(o, "outbound.hosts", settings->hosts, &o->n_hosts, add_host, err);
    if (r == 0)
        r = each(o, "outbound.networks", settings->networks, &o->n_networks, add_network, err);
    if (r < 0) {
        pl_outbound_destroy(o);
        return r;
    }
    *ret = o;
    return 0;
}

/* True if the host is the entry, or "*.example.org" is the entry and the host lies below example.org. */
static bool is_host(const char *entry, const char *host)
{
    const size_t n = strlen(host), tail = strlen(entry) - 1;

    if (*entry != '*')
        return strcasecmp(entry, host) == 0;
    return tail == 0 || (n > tail && strcasecmp(host + n - tail, entry + 1) == 0);
}

int pl_outbound_check(const struct pl_outbound *o, const char *scheme, const char *host, const char *field, struct pl_err *err)
{
    bool named = false, allowed = false;

    for (size_t i = 0; i < o->n_schemes; i++)
        named = named || strcasecmp(o->schemes[i], scheme) == 0;
    for (size_t i = 0; i < o->n_hosts; i++)
        allowed = allowed || is_host(o->hosts[i], host);
    if (named && allowed)
        return 0;
    if (!named)
        pl_err_set(err, PL_EFORBIDDEN, "%s: %.40s: addresses are not accepted: the daemon's setting outbound.schemes allows %s",
                   field, scheme, *o->settings.schemes ? o->settings.schemes : "none");
    else
        pl_err_set(err, PL_EFORBIDDEN, "%s: the host \"%.200s\" is not accepted: the daemon's setting outbound.hosts allows %s",
                   field, host, *o->settings.hosts ? o->settings.hosts : "none");
    return pl_err_field(err, PL_EFORBIDDEN, field);
}

bool pl_outbound_allows(const struct pl_outbound *o, const struct sockaddr *address)
{
    struct pl_network n;
    uint8_t bytes[16];

    if (!pl_address_of(address, bytes))
        return false;
    for (size_t i = 0; i < o->n_networks; i++)
        if (pl_network_has(&o->networks[i], bytes))
            return true;
    for (size_t i = 0; i < PL_ARRAY_SIZE(not_public); i++)
        if (!pl_network_parse(not_public[i], &n) || pl_network_has(&n, bytes))
            return false;
    return true;
}

int pl_outbound_may_connect(const void *self, const struct sockaddr *address, struct pl_err *err)
{
    char text[INET6_ADDRSTRLEN] = "";
    uint8_t bytes[16];

    if (pl_outbound_allows(self, address))
        return 0;
    if (pl_address_of(address, bytes))
        (void)inet_ntop(address->sa_family == AF_INET ? AF_INET : AF_INET6, address->sa_family == AF_INET ? bytes + 12 : bytes,
                        text, sizeof text);
    return pl_err_set(err, PL_EFORBIDDEN,
                      "connections to %s are not allowed: the address is not public, and the daemon's setting outbound.networks "
                      "does not name its network",
                      *text ? text : "this kind of address");
}

const struct pl_outbound_settings *pl_outbound_settings_of(const struct pl_outbound *o)
{
    return &o->settings;
}
