/* ip_network: IP addresses and networks as bytes; IPv4 addresses are mapped into ::ffff:0:0/96. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

/* The addresses whose first `bits` bits are those of `bytes`. */
struct pl_network {
    uint8_t bytes[16];
    unsigned bits;
};

/* Parses "10.0.0.7" or "fd00::7". */
bool pl_address_parse(const char *text, uint8_t ret[16]);
/* Reads the address of a socket address; false: it is not one of IPv4 or IPv6. */
bool pl_address_of(const struct sockaddr *address, uint8_t ret[16]);
/* Parses "10.0.0.7", "10.0.0.0/24" or "fd00::/8". */
bool pl_network_parse(const char *text, struct pl_network *ret);
bool pl_network_has(const struct pl_network *n, const uint8_t address[16]);
