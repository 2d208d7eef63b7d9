/* Finds the local user at the other end of a connection in the kernel's table of TCP sockets (proc_net_tcp(5)). */
#include "pipelined/net/server/http_internal.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#define ADDRESS_DIGITS 32

/* Writes an address and a port in the format of the kernel's table: the address is printed as hexadecimal 32-bit
 * words, each in the machine's byte order. */
static bool table_text(const struct sockaddr_storage *address, char out[ADDRESS_DIGITS + 8])
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;
    uint32_t words[4];

    if (address->ss_family == AF_INET)
        snprintf(out, ADDRESS_DIGITS + 8, "%08" PRIX32 ":%04X", four->sin_addr.s_addr, ntohs(four->sin_port));
    if (address->ss_family != AF_INET6)
        return address->ss_family == AF_INET;
    memcpy(words, &six->sin6_addr, sizeof words);
    snprintf(out, ADDRESS_DIGITS + 8, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X", words[0], words[1], words[2],
             words[3], ntohs(six->sin6_port));
    return true;
}

static bool find_uid(const char *table, const char *local, const char *remote, unsigned *ret)
{
    FILE *f = fopen(table, "re");
    char line[512], from[ADDRESS_DIGITS + 8], to[ADDRESS_DIGITS + 8];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, " %*u: %39s %39s %*x %*x:%*x %*x:%*x %*x %u", from, to, ret) == 3 && pl_streq(from, local) &&
                pl_streq(to, remote);
    if (f)
        fclose(f);
    return found;
}

bool pl_http_peer_user(const struct pl_http_request *r, char *out, size_t size)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&r->lock;
    struct sockaddr_storage ours = {0}, theirs = {0};
    char local[ADDRESS_DIGITS + 8], remote[ADDRESS_DIGITS + 8], room[1024];
    struct passwd entry, *user = NULL;
    socklen_t ours_len = sizeof ours, theirs_len = sizeof theirs;
    unsigned uid;
    bool open;

    pthread_mutex_lock(lock); /* with the lock held, the descriptor cannot be reused for another connection */
    open = r->connection && r->fd >= 0 && getsockname(r->fd, (void *)&ours, &ours_len) == 0 &&
           getpeername(r->fd, (void *)&theirs, &theirs_len) == 0;
    pthread_mutex_unlock(lock);
    if (!open || !table_text(&theirs, local) || !table_text(&ours, remote))
        return false;
    if (!find_uid(theirs.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", local, remote, &uid))
        return false;
    if (getpwuid_r(uid, &entry, room, sizeof room, &user) == 0 && user)
        snprintf(out, size, "%s", user->pw_name);
    else
        snprintf(out, size, "uid %u", uid);
    return true;
}
