/* glob_program: a glob as a program for the matcher (private to glob). Instructions run over the characters of a path; those that
 * consume none (JUMP, SPLIT, SAVE) are followed at once. SPLIT prefers x. */
#pragma once

#include "pipelined/text/glob.h"

#define GLOB_PROGRAM_MAX 2048u /* instructions */
#define GLOB_SLOTS_MAX   8192u /* instructions × 2 × captures: what the matcher keeps on the stack */
#define GLOB_RANGES_MAX  4096u

enum glob_op { GLOB_CHAR, GLOB_ANY, GLOB_ALL, GLOB_CLASS, GLOB_SPLIT, GLOB_JUMP, GLOB_SAVE, GLOB_MATCH };

struct glob_instr {
    uint8_t op;
    bool negated;   /* CLASS */
    uint16_t x, y;  /* JUMP, SPLIT: targets; CLASS: number of ranges in x */
    uint32_t value; /* CHAR: code point; CLASS: first range; SAVE: slot */
};

struct glob_range {
    uint32_t low, high;
};

struct pl_glob {
    struct glob_instr *program;
    unsigned n_program;
    struct glob_range *ranges;
    unsigned n_ranges;
    unsigned captures;
    bool root;
    char *prefix;
    size_t prefix_len;
    unsigned prefix_chars; /* as many CHAR instructions the program begins with */
};

/* One character at *p (< end), which moves past it. Bytes that are no UTF-8 stand for themselves, outside Unicode. */
static inline uint32_t glob_next_char(const char **p, const char *end)
{
    const uint8_t *b = (const uint8_t *)*p;
    size_t n = b[0] < 0x80 ? 1 : b[0] >= 0xF0 ? 4 : b[0] >= 0xE0 ? 3 : b[0] >= 0xC0 ? 2 : 0;
    uint32_t c;

    if (n == 1) {
        (*p)++;
        return b[0];
    }
    if (n == 0 || (size_t)(end - *p) < n) {
        (*p)++;
        return 0x110000u + b[0];
    }
    c = b[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (b[i] & 0x3Fu);
    *p += n;
    return c;
}

/* As pl_glob_compile; `any_depth`: as if the pattern began with a segment of two stars. */
int pl_glob_program_compile(const char *pattern, bool any_depth, struct pl_glob **ret, struct pl_err *err);
