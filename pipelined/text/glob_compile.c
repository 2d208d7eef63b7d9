/* A recursive descent over the pattern that emits instructions as it goes. */
#include "pipelined/text/glob_program.h"

#include "storage/base/path.h"

#include <stdarg.h>
#include <stdio.h>

struct glob_parser {
    const char *pattern; /* the pattern as written */
    const char *start;   /* the pattern without leading and trailing slashes */
    const char *p, *end;
    struct pl_glob *g;
    unsigned depth;
    bool literal; /* true while the pattern has had only literal characters, which form the prefix */
    struct pl_err *err;
};

static int glob_sequence(struct glob_parser *ps, char close, char separator);

static int glob_fail(const struct glob_parser *ps, const char *at, const char *fmt, ...) PL_PRINTF(3, 4);
static int glob_fail(const struct glob_parser *ps, const char *at, const char *fmt, ...)
{
    unsigned column = 1;
    char message[256];
    va_list ap;

    for (const char *c = ps->pattern; c < at; c++)
        column += ((unsigned char)*c & 0xC0) != 0x80;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    return pl_err_set(ps->err, PL_EGLOB, "glob \"%s\": column %u: %s", ps->pattern, column, message);
}

static int glob_emit(struct glob_parser *ps, struct glob_instr instr)
{
    struct pl_glob *g = ps->g;

    if (g->n_program >= GLOB_PROGRAM_MAX || (size_t)(g->n_program + 1) * 2 * g->captures > GLOB_SLOTS_MAX)
        return glob_fail(ps, ps->p, "the pattern is too large");
    g->program[g->n_program++] = instr;
    return 0;
}

static int glob_emit_op(struct glob_parser *ps, enum glob_op op)
{
    return glob_emit(ps, (struct glob_instr){.op = (uint8_t)op});
}

/* Emits a SPLIT that prefers the next instruction; the other target is set later. */
static int glob_emit_split(struct glob_parser *ps)
{
    uint16_t next = (uint16_t)(ps->g->n_program + 1);

    return glob_emit(ps, (struct glob_instr){.op = GLOB_SPLIT, .x = next, .y = next});
}

static int glob_emit_char(struct glob_parser *ps, const char *from)
{
    const char *p = from;
    uint32_t c = glob_next_char(&p, ps->end);

    if (ps->literal) {
        memcpy(ps->g->prefix + ps->g->prefix_len, from, (size_t)(p - from));
        ps->g->prefix_len += (size_t)(p - from);
        ps->g->prefix_chars++;
    }
    ps->p = p;
    return glob_emit(ps, (struct glob_instr){.op = GLOB_CHAR, .value = c});
}

/* Emits body*: SPLIT(body, out), body, JUMP back to the SPLIT. `op` is the body, a single instruction. */
static int glob_emit_star(struct glob_parser *ps, enum glob_op op)
{
    uint16_t start = (uint16_t)ps->g->n_program;
    int r;

    r = glob_emit_split(ps);
    if (r == 0)
        r = glob_emit_op(ps, op);
    if (r == 0)
        r = glob_emit(ps, (struct glob_instr){.op = GLOB_JUMP, .x = start});
    if (r == 0)
        ps->g->program[start].y = (uint16_t)ps->g->n_program;
    return r;
}

/* Emits "one or more of any character": body, SPLIT(body, out). */
static int glob_emit_all_plus(struct glob_parser *ps)
{
    uint16_t start = (uint16_t)ps->g->n_program;
    int r;

    r = glob_emit_op(ps, GLOB_ALL);
    if (r == 0)
        r = glob_emit_split(ps);
    if (r == 0)
        ps->g->program[start + 1].x = start;
    return r;
}

/* Emits "any number of whole segments, each with its '/'": (ALL+ '/')? */
static int glob_emit_segments(struct glob_parser *ps)
{
    uint16_t start = (uint16_t)ps->g->n_program;
    int r;

    r = glob_emit_split(ps);
    if (r == 0)
        r = glob_emit_all_plus(ps);
    if (r == 0)
        r = glob_emit(ps, (struct glob_instr){.op = GLOB_CHAR, .value = '/'});
    if (r == 0)
        ps->g->program[start].y = (uint16_t)ps->g->n_program;
    return r;
}

static int glob_stars(struct glob_parser *ps)
{
    const char *from = ps->p;
    bool at_start = ps->depth == 0 && (from == ps->start || from[-1] == '/');
    size_t n = strspn(from, "*");

    ps->p += PL_MIN(n, (size_t)(ps->end - from));
    if (ps->p < ps->end && *ps->p == '(')
        return glob_fail(ps, ps->p - 1, "*( is not supported: for a star before a capture write {*}(…)");
    if (n == 1)
        return glob_emit_star(ps, GLOB_ANY);
    if (at_start && ps->p == ps->end)
        return glob_emit_all_plus(ps);
    if (at_start && *ps->p == '/') {
        ps->p++;
        return glob_emit_segments(ps);
    }
    return glob_emit_star(ps, GLOB_ALL);
}

static int glob_add_range(struct glob_parser *ps, uint32_t low, uint32_t high)
{
    if (ps->g->n_ranges >= GLOB_RANGES_MAX)
        return glob_fail(ps, ps->p, "the pattern is too large");
    ps->g->ranges[ps->g->n_ranges++] = (struct glob_range){low, high};
    return 0;
}

/* Character classes in ASCII, as in POSIX, and "word" as in Perl. Each has pairs of a first and a last
 * character. */
static const struct {
    const char *name, *pairs;
} glob_posix[] = {
    {"alnum", "09AZaz"}, {"alpha", "AZaz"}, {"ascii", "\x01\x7f"}, {"blank", "\t\t  "},  {"cntrl", "\x01\x1f\x7f\x7f"},
    {"digit", "09"},     {"graph", "!~"},   {"lower", "az"},       {"print", " ~"},      {"punct", "!/:@[`{~"},
    {"space", "\t\r  "}, {"upper", "AZ"},   {"word", "09AZ__az"},  {"xdigit", "09AFaf"},
};

static bool glob_in_posix(const char *pairs, uint32_t c)
{
    for (; *pairs != '\0'; pairs += 2)
        if (c >= (unsigned char)pairs[0] && c <= (unsigned char)pairs[1])
            return true;
    return false;
}

/* Compiles a class name like [:alpha:] or [:^alpha:] inside brackets; the position is at "[:". */
static int glob_posix_class(struct glob_parser *ps)
{
    const char *name = ps->p + 2, *close;
    bool negated = name < ps->end && *name == '^';
    int r = 0;

    name += negated;
    close = memmem(name, (size_t)(ps->end - name), ":]", 2);
    if (close == NULL)
        return glob_fail(ps, ps->p, "[: is never closed by :]");
    for (unsigned i = 0; i < PL_ARRAY_SIZE(glob_posix); i++) {
        if (strlen(glob_posix[i].name) != (size_t)(close - name) || memcmp(glob_posix[i].name, name, (size_t)(close - name)) != 0)
            continue;
        for (uint32_t c = 1, low; c < 0x80 && r == 0; c++) {
            if (glob_in_posix(glob_posix[i].pairs, c) == negated)
                continue;
            for (low = c; c + 1 < 0x80 && glob_in_posix(glob_posix[i].pairs, c + 1) != negated; c++)
                ;
            r = glob_add_range(ps, low, c);
        }
        if (r == 0 && negated)
            r = glob_add_range(ps, 0x80, UINT32_MAX);
        ps->p = close + 2;
        return r;
    }
    return glob_fail(ps, ps->p, "[:%.*s:] is not a character class", (int)(close - name), name);
}

/* Reads one character inside brackets, without a preceding '\'. */
static int glob_class_char(struct glob_parser *ps, uint32_t *ret)
{
    if (*ps->p == '\\') {
        ps->p++;
        if (ps->p == ps->end)
            return glob_fail(ps, ps->p - 1, "\\ must be followed by a character");
    }
    *ret = glob_next_char(&ps->p, ps->end);
    return 0;
}

static int glob_class_member(struct glob_parser *ps)
{
    const char *at = ps->p;
    uint32_t low = 0, high;
    int r;

    if (ps->end - ps->p > 1 && ps->p[0] == '[' && ps->p[1] == ':')
        return glob_posix_class(ps);
    r = glob_class_char(ps, &low);
    if (r < 0)
        return r;
    high = low;
    if (ps->end - ps->p > 1 && ps->p[0] == '-' && ps->p[1] != ']') {
        ps->p++;
        r = glob_class_char(ps, &high);
        if (r < 0)
            return r;
    }
    if (high < low)
        return glob_fail(ps, at, "the range is reversed");
    return glob_add_range(ps, low, high);
}

static int glob_class(struct glob_parser *ps)
{
    struct glob_instr instr = {.op = GLOB_CLASS, .value = ps->g->n_ranges};
    const char *open = ps->p++, *first;
    int r;

    if (ps->p < ps->end && (*ps->p == '!' || *ps->p == '^')) {
        instr.negated = true;
        ps->p++;
    }
    for (first = ps->p; ps->p < ps->end && (*ps->p != ']' || ps->p == first);) {
        r = glob_class_member(ps);
        if (r < 0)
            return r;
    }
    if (ps->p >= ps->end)
        return glob_fail(ps, open, "[ is never closed");
    ps->p++;
    instr.x = (uint16_t)(ps->g->n_ranges - instr.value);
    return glob_emit(ps, instr);
}

/* Compiles the alternatives of a group between `open` and `close`; the position is behind `open`. Each
 * alternative begins with a SPLIT to the next one and ends with a JUMP behind the last. Until that target is
 * known, the field x of the JUMPs links them into a list. */
static int glob_alternatives(struct glob_parser *ps, const char *open, char close, char separator)
{
    uint16_t split, chain = UINT16_MAX;
    int r;

    if (++ps->depth > PL_GLOB_DEPTH_MAX)
        return glob_fail(ps, open, "more than %u nested groups", PL_GLOB_DEPTH_MAX);
    for (;;) {
        split = (uint16_t)ps->g->n_program;
        r = glob_emit_split(ps);
        if (r == 0)
            r = glob_sequence(ps, close, separator);
        if (r < 0)
            return r;
        if (ps->p >= ps->end)
            return glob_fail(ps, open, "%c is never closed", *open);
        if (*ps->p++ == close)
            break;
        r = glob_emit(ps, (struct glob_instr){.op = GLOB_JUMP, .x = chain});
        if (r < 0)
            return r;
        chain = (uint16_t)(ps->g->n_program - 1);
        ps->g->program[split].y = (uint16_t)ps->g->n_program;
    }
    while (chain != UINT16_MAX) {
        uint16_t next = ps->g->program[chain].x;

        ps->g->program[chain].x = (uint16_t)ps->g->n_program;
        chain = next;
    }
    ps->depth--;
    return 0;
}

static int glob_capture(struct glob_parser *ps)
{
    const char *open = ps->p++;
    unsigned slot = 2 * ps->g->captures;
    int r;

    if (ps->g->captures >= PL_GLOB_CAPTURES_MAX)
        return glob_fail(ps, open, "more than %u captures", PL_GLOB_CAPTURES_MAX);
    ps->g->captures++;
    r = glob_emit(ps, (struct glob_instr){.op = GLOB_SAVE, .value = slot});
    if (r == 0)
        r = glob_alternatives(ps, open, ')', '|');
    return r < 0 ? r : glob_emit(ps, (struct glob_instr){.op = GLOB_SAVE, .value = slot + 1});
}

/* Compiles one element of a pattern. */
static int glob_item(struct glob_parser *ps)
{
    const char *at = ps->p;

    if (strchr("@+!?", *at) != NULL && at + 1 < ps->end && at[1] == '(')
        return glob_fail(ps, at, "%c( is not supported: use ( for a capture, or write \\%c( for the character", *at, *at);
    if (strchr("*?[{(", *at) != NULL)
        ps->literal = false;
    switch (*at) {
    case '*':
        return glob_stars(ps);
    case '?':
        ps->p++;
        return glob_emit_op(ps, GLOB_ANY);
    case '[':
        return glob_class(ps);
    case '{':
        ps->p++;
        return glob_alternatives(ps, at, '}', ',');
    case '(':
        return glob_capture(ps);
    case '}':
    case ')':
        return glob_fail(ps, at, "%c closes no group: write \\%c for the character", *at, *at);
    case '/':
        if (at > ps->start && at[-1] == '/')
            return glob_fail(ps, at, "an empty segment");
        return glob_emit_char(ps, at);
    case '\\':
        if (at + 1 >= ps->end)
            return glob_fail(ps, at, "\\ must be followed by a character");
        return glob_emit_char(ps, at + 1);
    default:
        return glob_emit_char(ps, at);
    }
}

/* Compiles elements up to the end of the pattern, or up to `close` or `separator` (0 = none), which is not
 * consumed. */
static int glob_sequence(struct glob_parser *ps, char close, char separator)
{
    while (ps->p < ps->end && (close == '\0' || (*ps->p != close && *ps->p != separator))) {
        int r = glob_item(ps);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Refuses patterns with text that no path can contain. */
static int glob_check_text(const struct glob_parser *ps)
{
    size_t n = strlen(ps->pattern);

    if (n == 0)
        return pl_err_set(ps->err, PL_EGLOB,
                          "the glob is empty: \"/\" is the whole repo, \"/*\" each file and folder of its root");
    if (n > PL_GLOB_MAX_BYTES)
        return pl_err_set(ps->err, PL_EGLOB, "the glob \"%.40s…\" is %zu bytes long; at most %u", ps->pattern, n,
                          PL_GLOB_MAX_BYTES);
    if (!pl_utf8_ok(ps->pattern, n))
        return pl_err_set(ps->err, PL_EGLOB, "the glob is not valid UTF-8");
    for (const char *p = ps->pattern; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            return glob_fail(ps, p, "a path cannot contain the control byte 0x%02x", (unsigned)(unsigned char)*p);
    for (const char *p = ps->start, *next; p < ps->end; p = next + 1) {
        next = memchr(p, '/', (size_t)(ps->end - p));
        if (next == NULL)
            next = ps->end;
        if ((next - p == 1 && p[0] == '.') || (next - p == 2 && p[0] == '.' && p[1] == '.'))
            return glob_fail(ps, p, "a path cannot contain the segment \"%.*s\"", (int)(next - p), p);
    }
    return 0;
}

static struct pl_glob *glob_create(size_t pattern_len)
{
    struct pl_glob *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->program = calloc(GLOB_PROGRAM_MAX, sizeof(*g->program));
    g->ranges = calloc(GLOB_RANGES_MAX, sizeof(*g->ranges));
    g->prefix = calloc(1, pattern_len + 1);
    return g->program != NULL && g->ranges != NULL && g->prefix != NULL ? g : pl_glob_destroy(g);
}

/* Frees the unused parts of the arrays, because a spec may hold many globs. */
static void glob_shrink(struct pl_glob *g)
{
    void *p;

    p = realloc(g->program, g->n_program * sizeof(*g->program));
    if (p != NULL)
        g->program = p;
    p = realloc(g->ranges, PL_MAX(g->n_ranges, 1u) * sizeof(*g->ranges));
    if (p != NULL)
        g->ranges = p;
}

int pl_glob_program_compile(const char *pattern, bool any_depth, struct pl_glob **ret, struct pl_err *err)
{
    _cleanup_(pl_glob_destroyp) struct pl_glob *g = NULL;
    struct glob_parser ps = {.pattern = pattern, .end = pattern + strlen(pattern), .literal = !any_depth, .err = err};
    int r;

    ps.start = pattern + (pattern[0] == '/');
    if (ps.end > ps.start && ps.end[-1] == '/' && !(ps.end - 1 > ps.start && ps.end[-2] == '\\'))
        ps.end--;
    ps.p = ps.start;
    r = glob_check_text(&ps);
    if (r < 0)
        return r;
    g = ps.g = glob_create(strlen(pattern));
    if (g == NULL)
        return pl_err_nomem(err);
    g->root = ps.start == ps.end;
    if (any_depth)
        r = glob_emit_segments(&ps);
    if (r == 0)
        r = glob_sequence(&ps, '\0', '\0');
    if (r == 0)
        r = glob_emit_op(&ps, GLOB_MATCH);
    if (r < 0)
        return r;
    glob_shrink(g);
    *ret = TAKE_PTR(g);
    return 0;
}

int pl_glob_compile(const char *pattern, struct pl_glob **ret, struct pl_err *err)
{
    return pl_glob_program_compile(pattern, false, ret, err);
}
