/* git_ssh: getaddrinfo, and the known hosts of libssh2. */
#include "pipelined/git/git_ssh.h"

#include "storage/base/hash.h"

#include <arpa/inet.h>
#include <libssh2.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#define SSH_PORT 22u

/* Finds the first address of the family that the rules allow, as text; an IPv6 address in brackets. Returns false if there is
 * none; `err` is then that of one that is forbidden. */
static bool choose(const struct addrinfo *found, int family, const struct pl_outbound *outbound, char ip[INET6_ADDRSTRLEN + 2],
                   struct pl_err *err)
{
    char text[INET6_ADDRSTRLEN] = "";

    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        if (a->ai_family != family || pl_outbound_may_connect(outbound, a->ai_addr, err) < 0)
            continue;
        if (family == AF_INET)
            (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr, text, sizeof text);
        else
            (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr, text, sizeof text);
        snprintf(ip, INET6_ADDRSTRLEN + 2, family == AF_INET ? "%s" : "[%s]", text);
        return true;
    }
    return false;
}

int pl_git_ssh_resolve(const struct pl_git_address *address, const struct pl_outbound *outbound, const char *user, char **ret,
                       struct pl_err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char ip[INET6_ADDRSTRLEN + 2] = "", port[16] = "";
    struct addrinfo *found = NULL;
    struct pl_err why = {0};
    int e = getaddrinfo(address->host, NULL, &hints, &found);
    bool there;

    if (e != 0)
        return pl_err_set(err, PL_ENET, "the address of the host %.200s cannot be found: %s", address->host, gai_strerror(e));
    /* libgit2 tries one address only: IPv4 works on more machines */
    there = choose(found, AF_INET, outbound, ip, &why) || choose(found, AF_INET6, outbound, ip, &why);
    freeaddrinfo(found);
    if (!there)
        return why.code ? pl_err_set(err, why.code, "%s", why.msg)
                        : pl_err_set(err, PL_ENET, "the host %.200s has no address", address->host);
    if (address->port)
        snprintf(port, sizeof port, ":%u", address->port);
    /* libgit2 cannot read USER@[ADDRESS]:PATH; servers of repositories take PATH and /PATH alike */
    if (address->relative && *ip != '[' ? asprintf(ret, "%s@%s:%s", user, ip, address->path) < 0
                                        : asprintf(ret, "%s://%s%s%s%s%s%s", address->scheme, user, *user ? "@" : "", ip, port,
                                                   address->relative ? "/" : "", address->path) < 0)
        return pl_err_nomem(err);
    return 0;
}

static int type_of(const git_cert_hostkey *key, const char **ret_name)
{
    static const struct {
        git_cert_ssh_raw_type_t raw;
        int known;
        const char *name;
    } rows[] = {
        {GIT_CERT_SSH_RAW_TYPE_RSA, LIBSSH2_KNOWNHOST_KEY_SSHRSA, "ssh-rsa"},
        {GIT_CERT_SSH_RAW_TYPE_DSS, LIBSSH2_KNOWNHOST_KEY_SSHDSS, "ssh-dss"},
        {GIT_CERT_SSH_RAW_TYPE_KEY_ECDSA_256, LIBSSH2_KNOWNHOST_KEY_ECDSA_256, "ecdsa-sha2-nistp256"},
        {GIT_CERT_SSH_RAW_TYPE_KEY_ECDSA_384, LIBSSH2_KNOWNHOST_KEY_ECDSA_384, "ecdsa-sha2-nistp384"},
        {GIT_CERT_SSH_RAW_TYPE_KEY_ECDSA_521, LIBSSH2_KNOWNHOST_KEY_ECDSA_521, "ecdsa-sha2-nistp521"},
        {GIT_CERT_SSH_RAW_TYPE_KEY_ED25519, LIBSSH2_KNOWNHOST_KEY_ED25519, "ssh-ed25519"},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        if (rows[i].raw == key->raw_type) {
            *ret_name = rows[i].name;
            return rows[i].known;
        }
    *ret_name = "unknown";
    return 0;
}

/* Reads all lines of `text`. Comments and empty lines are passed over. */
static int read_hosts(LIBSSH2_KNOWNHOSTS *hosts, const char *text, struct pl_err *err)
{
    unsigned number = 1;

    for (const char *at = text; *at; number++) {
        const size_t len = strcspn(at, "\n");
        const size_t used = len > 0 && at[len - 1] == '\r' ? len - 1 : len;

        if (used > 0 && *at != '#' &&
            (*at == '@' || libssh2_knownhost_readline(hosts, at, used, LIBSSH2_KNOWNHOST_FILE_OPENSSH) < 0))
            return pl_err_set(err, PL_EINVAL,
                              "known_hosts of the source's secret: line %u cannot be read: HOST TYPE KEY is expected, as "
                              "ssh-keyscan prints it",
                              number);
        at += len + (at[len] == '\n');
    }
    return 0;
}

/* Writes the fingerprint as ssh does, without padding. */
static void fingerprint_of(const git_cert_hostkey *key, char out[64])
{
    struct pl_hash hash;
    char *text = NULL;

    pl_hash_sha256(key->hostkey, key->hostkey_len, &hash);
    if (pl_base64_encode(hash.b, sizeof hash.b, &text, NULL) == 0)
        snprintf(out, 64, "SHA256:%.43s", text);
    else
        snprintf(out, 64, "unknown");
    free(text);
}

/* Compares the key with the known hosts that were read. */
static int compare(LIBSSH2_KNOWNHOSTS *hosts, const char *host, unsigned port, const git_cert_hostkey *key, struct pl_err *err)
{
    struct libssh2_knownhost *found = NULL;
    const char *name;
    const int type = type_of(key, &name);
    char print[64];
    int check;

    if (!(key->type & GIT_CERT_SSH_RAW) || type == 0)
        return pl_err_set(err, PL_ETLS, "the host %.200s shows no key that can be checked", host);
    check = libssh2_knownhost_checkp(hosts, host, port ? (int)port : (int)SSH_PORT, key->hostkey, key->hostkey_len,
                                     LIBSSH2_KNOWNHOST_TYPE_PLAIN | LIBSSH2_KNOWNHOST_KEYENC_RAW | type, &found);
    if (check == LIBSSH2_KNOWNHOST_CHECK_MATCH)
        return 0;
    fingerprint_of(key, print);
    if (check == LIBSSH2_KNOWNHOST_CHECK_MISMATCH)
        return pl_err_set(err, PL_ETLS,
                          "the key of the host %.200s is not the one in known_hosts of the source's secret: it shows %s %s; "
                          "someone may be in between, or the host has a new key",
                          host, name, print);
    return pl_err_set(err, PL_ETLS,
                      "known_hosts of the source's secret has no key of the type %s for the host %.200s (it shows %s): add the "
                      "line that ssh-keyscan prints, after you have checked it",
                      name, host, print);
}

int pl_git_ssh_check_key(const char *known_hosts, const char *host, unsigned port, const git_cert_hostkey *key,
                         struct pl_err *err)
{
    LIBSSH2_SESSION *session = libssh2_session_init(); /* never connected: the list needs one */
    LIBSSH2_KNOWNHOSTS *hosts = session ? libssh2_knownhost_init(session) : NULL;
    int r = hosts ? read_hosts(hosts, known_hosts, err) : pl_err_nomem(err);

    r = r < 0 ? r : compare(hosts, host, port, key, err);
    if (hosts)
        libssh2_knownhost_free(hosts);
    if (session)
        libssh2_session_free(session);
    return r;
}
