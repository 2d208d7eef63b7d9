/* The automaton is a table of the next node for each node and byte; failure links are resolved while it is built. */
#include "pipelined/db/stage_log/log_search.h"

#include <assert.h>
#include <ctype.h>

#define NODES_MAX (PL_LOG_SEARCH_BYTES + 1)

static const char *const error_words[] = {"error", "exception", "traceback", "fatal", "panic", "segmentation fault", "killed"};

struct node {
    uint16_t next[256];
    uint16_t length; /* of the text that ends here; 0 = none */
};

struct pl_log_search {
    bool words;
    size_t n;
    struct node nodes[NODES_MAX];
};

/* Adds a path for the text. A byte that leads nowhere leads to node 0. */
static void add_text(struct pl_log_search *s, const char *text)
{
    uint16_t at = 0;

    for (const char *c = text; *c; c++) {
        const unsigned char low = (unsigned char)tolower((unsigned char)*c);
        uint16_t *next = &s->nodes[at].next[low];

        if (*next == 0)
            *next = (uint16_t)s->n++;
        at = *next;
        assert(s->n <= NODES_MAX);
    }
    s->nodes[at].length = (uint16_t)strlen(text);
}

/* Replaces each missing edge by that of the longest proper suffix, level by level, and copies the edges of small letters to
 * capitals. */
static void link_nodes(struct pl_log_search *s)
{
    uint16_t queue[NODES_MAX], fail[NODES_MAX] = {0};
    size_t head = 0, tail = 0;

    for (unsigned c = 0; c < 256; c++)
        if (s->nodes[0].next[c])
            queue[tail++] = s->nodes[0].next[c];
    while (head < tail) {
        const uint16_t at = queue[head++];
        struct node *node = &s->nodes[at];

        if (!node->length)
            node->length = s->nodes[fail[at]].length;
        for (unsigned c = 0; c < 256; c++) {
            const uint16_t of_suffix = s->nodes[fail[at]].next[c];

            if (node->next[c]) {
                fail[node->next[c]] = of_suffix;
                queue[tail++] = node->next[c];
            } else {
                node->next[c] = of_suffix;
            }
        }
    }
    for (size_t i = 0; i < s->n; i++)
        for (unsigned c = 'A'; c <= 'Z'; c++)
            s->nodes[i].next[c] = s->nodes[i].next[c - 'A' + 'a'];
}

static int compile(const char *const *texts, size_t n, bool words, struct pl_log_search **ret, struct pl_err *err)
{
    struct pl_log_search *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    s->words = words;
    s->n = 1;
    for (size_t i = 0; i < n; i++)
        add_text(s, texts[i]);
    link_nodes(s);
    *ret = s;
    return 0;
}

int pl_log_search_text(const char *text, struct pl_log_search **ret, struct pl_err *err)
{
    const size_t n = strlen(text);

    if (n == 0 || n > PL_LOG_SEARCH_BYTES || strchr(text, '\n'))
        return pl_err_set(err, PL_EINVAL, "the text to find has %zu bytes%s: use 1 to %u bytes in one line", n,
                          strchr(text, '\n') ? " and a line break" : "", PL_LOG_SEARCH_BYTES);
    return compile(&text, 1, false, ret, err);
}

int pl_log_search_errors(struct pl_log_search **ret, struct pl_err *err)
{
    return compile(error_words, PL_ARRAY_SIZE(error_words), true, ret, err);
}

struct pl_log_search *pl_log_search_free(struct pl_log_search *s)
{
    free(s);
    return NULL;
}

static bool in_word(uint8_t c)
{
    return isalnum(c) || c == '_';
}

/* True if the word of `length` bytes that has just ended begins a word, or a part of a name in capitals. */
static bool begins_word(const struct pl_log_search_state *state, size_t length)
{
    const uint8_t first = state->tail[(state->bytes - length) % PL_LOG_SEARCH_TAIL];
    const uint8_t before = state->tail[(state->bytes - length - 1) % PL_LOG_SEARCH_TAIL];
    const uint8_t second = state->tail[(state->bytes - length + 1) % PL_LOG_SEARCH_TAIL];

    return state->bytes == length || !in_word(before) || (isupper(first) && islower(second));
}

bool pl_log_search_feed(const struct pl_log_search *s, struct pl_log_search_state *state, uint64_t from, const void *bytes,
                        size_t n, size_t *ret_used)
{
    const uint8_t *p = bytes;

    for (size_t i = 0; i < n; i++) {
        const bool ended = state->pending && !in_word(p[i]);
        uint16_t length;

        state->pending = false;
        if (ended && state->line >= from) {
            *ret_used = i;
            return true;
        }
        state->node = s->nodes[state->node].next[p[i]];
        state->tail[state->bytes++ % PL_LOG_SEARCH_TAIL] = p[i];
        state->line += p[i] == '\n';
        length = s->nodes[state->node].length;
        if (length == 0)
            continue;
        if (s->words) {
            state->pending = begins_word(state, length);
        } else if (state->line >= from) {
            *ret_used = i + 1;
            return true;
        }
    }
    *ret_used = n;
    return false;
}
