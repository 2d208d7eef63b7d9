/* some: chance that comes again with its seed. */
#pragma once

/* 0 … n − 1. */
static inline unsigned some(unsigned *seed, unsigned n)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % n;
}
