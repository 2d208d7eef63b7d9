/* loopback_host: separates the host from port and path, then compares it. */
#include "storage/http/loopback_host.h"

#include "storage/base/base.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

/* True if a port, a path or nothing follows the host. Rejects text before an '@', which would be a user
 * name. */
static bool ends_there(const char *rest)
{
    if (*rest == ':')
        rest += 1 + strspn(rest + 1, "0123456789");
    return *rest == '\0' || *rest == '/';
}

bool pl_is_loopback_host(const char *host)
{
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    const size_t n = end != NULL ? (size_t)(end + 1 - host) : strcspn(host, ":/");
    struct in_addr four;
    char name[256];

    if (n >= sizeof(name) || !ends_there(host + n))
        return false;
    (void)snprintf(name, sizeof(name), "%.*s", (int)n, host);
    if (inet_pton(AF_INET, name, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return pl_streq(name, "[::1]") || strcasecmp(name, "localhost") == 0 ||
           (n > 10 && strcasecmp(name + n - 10, ".localhost") == 0);
}
