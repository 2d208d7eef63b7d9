/* The matcher: keeps a list of threads (positions in the program) and advances all of them over one character
 * after another, as described by Thompson and Pike. */
#include "pipelined/text/glob_program.h"

#include "storage/base/path.h"

#define GLOB_SET_MAX 1000u

/* The threads of the matcher at one position of the path, in order of preference. The capture positions of
 * thread i begin at slots[i * n_slots]. */
struct glob_threads {
    unsigned n;
    uint16_t pc[GLOB_PROGRAM_MAX];
    uint16_t slots[GLOB_SLOTS_MAX];
};

struct glob_run {
    const struct pl_glob *g;
    unsigned n_slots; /* number of capture positions of a thread; 0 = the caller does not want captures */
    /* mark[pc] == step: a thread at program position pc was already added for the current position of the
     * path */
    uint16_t step;
    uint16_t mark[GLOB_PROGRAM_MAX];
    uint16_t slots[2 * PL_GLOB_CAPTURES_MAX]; /* capture positions of the thread that is being added */
    struct glob_threads lists[2];
    struct glob_threads *now, *next;
};

/* Adds a thread at `pc`, following JUMP, SPLIT and SAVE; `at` is the position in the path. */
static void glob_add(struct glob_run *run, unsigned pc, size_t at)
{
    const struct glob_instr *instr = &run->g->program[pc];
    struct glob_threads *to = run->next;
    uint16_t old;

    if (run->mark[pc] == run->step)
        return;
    run->mark[pc] = run->step;
    switch (instr->op) {
    case GLOB_JUMP:
        glob_add(run, instr->x, at);
        return;
    case GLOB_SPLIT:
        glob_add(run, instr->x, at);
        glob_add(run, instr->y, at);
        return;
    case GLOB_SAVE:
        old = run->slots[instr->value];
        run->slots[instr->value] = (uint16_t)at;
        glob_add(run, pc + 1, at);
        run->slots[instr->value] = old;
        return;
    default:
        to->pc[to->n] = (uint16_t)pc;
        if (run->n_slots > 0)
            memcpy(to->slots + (size_t)to->n * run->n_slots, run->slots, run->n_slots * sizeof(uint16_t));
        to->n++;
    }
}

static bool glob_in_class(const struct pl_glob *g, const struct glob_instr *instr, uint32_t c)
{
    const struct glob_range *ranges = g->ranges + instr->value;
    bool in = false;

    for (unsigned i = 0; i < instr->x && !in; i++)
        in = c >= ranges[i].low && c <= ranges[i].high;
    return in != instr->negated;
}

static bool glob_takes(const struct pl_glob *g, const struct glob_instr *instr, uint32_t c)
{
    switch (instr->op) {
    case GLOB_CHAR:
        return c == instr->value;
    case GLOB_ANY:
        return c != '/';
    case GLOB_ALL:
        return true;
    case GLOB_CLASS:
        return c != '/' && glob_in_class(g, instr, c);
    default:
        return false;
    }
}

static void glob_swap(struct glob_run *run)
{
    struct glob_threads *now = run->now;

    run->now = run->next;
    run->next = now;
}

/* Starts the threads after the glob's literal prefix, with which the path begins. */
static void glob_start(struct glob_run *run, const struct pl_glob *g, bool captures)
{
    run->g = g;
    run->n_slots = captures ? 2 * g->captures : 0;
    run->step = 1;
    run->now = &run->lists[0];
    run->next = &run->lists[1];
    run->now->n = run->next->n = 0;
    memset(run->mark, 0, g->n_program * sizeof(run->mark[0]));
    memset(run->slots, 0xFF, sizeof(run->slots));
    glob_add(run, g->prefix_chars, g->prefix_len);
    glob_swap(run);
}

/* Advances all threads over one character; `at` is the position after it. False if no thread is left. */
static bool glob_step(struct glob_run *run, uint32_t c, size_t at)
{
    run->step++;
    run->next->n = 0;
    for (unsigned i = 0; i < run->now->n; i++) {
        unsigned pc = run->now->pc[i];

        if (!glob_takes(run->g, &run->g->program[pc], c))
            continue;
        if (run->n_slots > 0)
            memcpy(run->slots, run->now->slots + (size_t)i * run->n_slots, run->n_slots * sizeof(uint16_t));
        glob_add(run, pc + 1, at);
    }
    glob_swap(run);
    return run->now->n > 0;
}

/* Returns the preferred thread that has matched; -1 if there is none. */
static int glob_through(const struct glob_run *run)
{
    for (unsigned i = 0; i < run->now->n; i++)
        if (run->g->program[run->now->pc[i]].op == GLOB_MATCH)
            return (int)i;
    return -1;
}

static bool glob_wants_more(const struct glob_run *run)
{
    for (unsigned i = 0; i < run->now->n; i++)
        if (run->g->program[run->now->pc[i]].op != GLOB_MATCH)
            return true;
    return false;
}

static void glob_give_captures(const struct glob_run *run, unsigned thread, struct pl_span *ret)
{
    const uint16_t *slots = run->now->slots + (size_t)thread * run->n_slots;

    for (unsigned i = 0; i < run->g->captures; i++) {
        ret[i] = (struct pl_span){slots[2 * i], slots[2 * i + 1]};
        if (ret[i].start == PL_SPAN_NONE || ret[i].end == PL_SPAN_NONE)
            ret[i] = (struct pl_span){PL_SPAN_NONE, PL_SPAN_NONE};
    }
}

unsigned pl_glob_test(const struct pl_glob *g, const char *path, size_t len, struct pl_span *ret_captures)
{
    /* not initialised as a whole, because it is large; glob_start sets the parts that are used */
    __attribute__((uninitialized)) struct glob_run run;
    const char *p = path + g->prefix_len, *end = path + len;
    unsigned result = 0;
    int thread;

    if (len == 0)
        return g->root ? PL_GLOB_MATCH | PL_GLOB_BELOW : PL_GLOB_BELOW;
    if (len > PL_PATH_MAX_BYTES || memcmp(path, g->prefix, PL_MIN(len, g->prefix_len)) != 0)
        return 0;
    if (len < g->prefix_len)
        return g->prefix[len] == '/' ? PL_GLOB_BELOW : 0;
    glob_start(&run, g, ret_captures != NULL);
    while (p < end) {
        uint32_t c = glob_next_char(&p, end);

        if (!glob_step(&run, c, (size_t)(p - path)))
            return 0;
    }
    thread = glob_through(&run);
    if (thread >= 0) {
        result |= PL_GLOB_MATCH;
        if (ret_captures != NULL)
            glob_give_captures(&run, (unsigned)thread, ret_captures);
    }
    if (glob_step(&run, '/', len + 1) && glob_wants_more(&run))
        result |= PL_GLOB_BELOW;
    return result;
}

bool pl_glob_match(const struct pl_glob *g, const char *path, size_t len, struct pl_span *ret_captures)
{
    return (pl_glob_test(g, path, len, ret_captures) & PL_GLOB_MATCH) != 0;
}

bool pl_glob_match_within(const struct pl_glob *g, const char *path, size_t len)
{
    __attribute__((uninitialized)) struct glob_run run;
    const char *p = path + g->prefix_len, *end = path + len;

    if (g->root)
        return true;
    if (len == 0 || len > PL_PATH_MAX_BYTES || len < g->prefix_len || memcmp(path, g->prefix, g->prefix_len) != 0)
        return false;
    glob_start(&run, g, false);
    while (p < end) {
        uint32_t c = glob_next_char(&p, end);

        if (c == '/' && glob_through(&run) >= 0)
            return true;
        if (!glob_step(&run, c, (size_t)(p - path)))
            return false;
    }
    return glob_through(&run) >= 0;
}

struct pl_glob *pl_glob_destroy(struct pl_glob *g)
{
    if (g == NULL)
        return NULL;
    free(g->program);
    free(g->ranges);
    free(g->prefix);
    free(g);
    return NULL;
}

unsigned pl_glob_captures(const struct pl_glob *g)
{
    return g->captures;
}

bool pl_glob_is_root(const struct pl_glob *g)
{
    return g->root;
}

const char *pl_glob_prefix(const struct pl_glob *g, size_t *ret_len)
{
    *ret_len = g->prefix_len;
    return g->prefix;
}

struct pl_glob_set {
    size_t n;
    uint64_t steps; /* maximum number of steps per byte of a path */
    struct pl_glob *globs[];
};

static bool glob_at_any_depth(const char *pattern)
{
    size_t n = strlen(pattern);

    while (n > 0 && pattern[n - 1] == '/')
        n--;
    return n > 0 && memchr(pattern, '/', n) == NULL;
}

int pl_glob_set_compile(const char *const *patterns, size_t n, struct pl_glob_set **ret, struct pl_err *err)
{
    _cleanup_(pl_glob_set_destroyp) struct pl_glob_set *s = NULL;

    if (n > GLOB_SET_MAX)
        return pl_err_set(err, PL_ELIMIT, "a list has %zu globs; at most %u are allowed", n, GLOB_SET_MAX);
    s = calloc(1, sizeof(*s) + n * sizeof(s->globs[0]));
    if (s == NULL)
        return pl_err_nomem(err);
    for (; s->n < n; s->n++) {
        int r = pl_glob_program_compile(patterns[s->n], glob_at_any_depth(patterns[s->n]), &s->globs[s->n], err);

        if (r < 0)
            return r;
        s->steps += s->globs[s->n]->n_program - s->globs[s->n]->prefix_chars;
        if (s->steps > PL_GLOB_SET_STEPS) {
            s->n++; /* count this glob, so that pl_glob_set_destroy frees it */
            return pl_err_set(err, PL_ELIMIT, "the globs of a list are too large together: use fewer or shorter globs");
        }
    }
    *ret = TAKE_PTR(s);
    return 0;
}

struct pl_glob_set *pl_glob_set_destroy(struct pl_glob_set *s)
{
    if (s == NULL)
        return NULL;
    for (size_t i = 0; i < s->n; i++)
        pl_glob_destroy(s->globs[i]);
    free(s);
    return NULL;
}

/* Counts the instructions after the literal prefix, which is compared as a whole. */
static uint64_t glob_steps(const struct pl_glob *g)
{
    return g->n_program - g->prefix_chars;
}

uint64_t pl_glob_cost(const struct pl_glob *g, size_t len)
{
    return 1 + glob_steps(g) * len;
}

uint64_t pl_glob_set_cost(const struct pl_glob_set *s, size_t len)
{
    return 1 + s->steps * len;
}

bool pl_glob_set_takes(const struct pl_glob_set *s, const char *path, size_t len)
{
    bool takes = s->n == 0;

    for (size_t i = 0; i < s->n && !takes; i++)
        takes = pl_glob_match_within(s->globs[i], path, len);
    return takes;
}
