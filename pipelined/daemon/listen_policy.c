/* Decides which addresses count as local: only literal loopback addresses, and "localhost". */
#include "pipelined/daemon/listen_policy.h"

#include <arpa/inet.h>
#include <stdio.h>

bool pl_listen_policy_is_loopback(const char *listen)
{
    const char *colon = strrchr(listen, ':');
    struct in6_addr six;
    struct in_addr four;
    char host[64];
    int len = colon ? (int)(colon - listen) : (int)strlen(listen);

    if (len > 2 && listen[0] == '[' && listen[len - 1] == ']') {
        listen++;
        len -= 2;
    }
    if (snprintf(host, sizeof host, "%.*s", len, listen) >= (int)sizeof host)
        return false;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    /* any other name may resolve to an address that other machines reach */
    return pl_streq(host, "localhost");
}

int pl_listen_policy_check(const char *option, const char *listen, bool tls, bool behind_proxy, struct pl_err *err)
{
    int r;

    if (tls || behind_proxy || pl_listen_policy_is_loopback(listen))
        return 0;
    r = pl_err_set(err, PL_EINVAL,
                   "%s %s can be reached from other machines, and without TLS tokens could be read on the network", option,
                   listen);
    return pl_err_hint(
        err, r, "Give --tls-cert FILE and --tls-key FILE; or --behind-proxy, if a proxy in front of the daemon speaks TLS.");
}
