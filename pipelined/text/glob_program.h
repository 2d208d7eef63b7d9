/* glob_program: the program that a glob is compiled to (private to glob). Instructions consume the characters
 * of a path. JUMP, SPLIT and SAVE consume none and are followed at once. SPLIT prefers its target x. */
#pragma once

#include "pipelined/text/glob.h"

#define GLOB_PROGRAM_MAX 2048u /* maximum number of instructions */
/* maximum of instructions × 2 × captures, because the matcher keeps that many numbers on the stack */
#define GLOB_SLOTS_MAX  8192u
#define GLOB_RANGES_MAX 4096u

enum glob_op { GLOB_CHAR, GLOB_ANY, GLOB_ALL, GLOB_CLASS, GLOB_SPLIT, GLOB_JUMP, GLOB_SAVE, GLOB_MATCH };

struct glob_instr {
    uint8_t op;
    bool negated;  /* CLASS: matches the characters outside its ranges */
    uint16_t x, y; /* JUMP, SPLIT: targets; CLASS: x is its number of ranges */
    /* CHAR: code point; CLASS: index of its first range; SAVE: number of the capture position to set */
    uint32_t value;
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
    unsigned prefix_chars; /* number of CHAR instructions at the beginning of the program */
};

/* Decodes the character at *p (< end) and moves *p behind it. Bytes that are not UTF-8 become values outside
 * Unicode. */
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

/* Like pl_glob_compile. `any_depth`: compiles the pattern as if it began with a segment of two stars. */
int pl_glob_program_compile(const char *pattern, bool any_depth, struct pl_glob **ret, struct pl_err *err);
