/* ip_network: IPv4 prefixes count 96 bits more, those of the mapping. */
#include "storage/http/ip_network.h"

#include "storage/base/base.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#define MAPPED_BITS 96

static bool parse(const char *text, uint8_t ret[16], bool *ret_four)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    memcpy(ret, mapped, sizeof mapped);
    *ret_four = inet_pton(AF_INET, text, ret + 12) == 1;
    return *ret_four || inet_pton(AF_INET6, text, ret) == 1;
}

bool pl_address_parse(const char *text, uint8_t ret[16])
{
    bool four;

    return parse(text, ret, &four);
}

bool pl_address_of(const struct sockaddr *address, uint8_t ret[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (address->sa_family == AF_INET) {
        memcpy(ret, mapped, sizeof mapped);
        memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(ret, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    }
    return address->sa_family == AF_INET || address->sa_family == AF_INET6;
}

bool pl_network_parse(const char *text, struct pl_network *ret)
{
    const char *slash = strchr(text, '/');
    char address[64], *end = NULL;
    unsigned long bits = 0;
    bool four;

    if (snprintf(address, sizeof address, "%.*s", slash ? (int)PL_MIN(slash - text, 63) : 63, text) >= (int)sizeof address)
        return false;
    if (slash)
        bits = strtoul(slash + 1, &end, 10);
    if (!parse(address, ret->bytes, &four) || (slash && (*end || !isdigit((unsigned char)slash[1]) || bits > (four ? 32 : 128))))
        return false;
    ret->bits = slash ? (unsigned)bits + (four ? MAPPED_BITS : 0) : 128;
    return true;
}

bool pl_network_has(const struct pl_network *n, const uint8_t address[16])
{
    const unsigned whole = n->bits / 8, rest = n->bits % 8;

    return memcmp(n->bytes, address, whole) == 0 && (rest == 0 || (n->bytes[whole] ^ address[whole]) >> (8 - rest) == 0);
}
