// link: pipelined/policy
/* keep: which commits a repo keeps. */
#include "pipelined/policy/retention_rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define DAY   PL_RETENTION_DAY_US
#define NOW   (1000 * DAY)
#define NONE  PL_RETENTION_NONE
#define FREE  INT64_MAX /* no run goes on */
#define COUNT 8

/* A repo with eight commits, one a day, the last made just now: 0 ← 1 ← … ← 7, the branch's head. */
struct world {
    struct pl_retention_rule rule[2];
    struct pl_retention_commit commits[COUNT + 1];
    uint32_t heads[4];
    struct pl_retention_edge edges[8];
    struct pl_retention_input w;
};

static struct world *line(struct world *l, struct pl_retention_rule rule)
{
    *l = (struct world){.rule = {rule}, .heads = {COUNT - 1}};
    for (uint32_t i = 0; i < COUNT; i++)
        l->commits[i] = (struct pl_retention_commit){.created_us = NOW - (COUNT - 1 - (int64_t)i) * DAY,
                                                     .order = i + 1,
                                                     .parent = i ? i - 1 : NONE};
    l->w = (struct pl_retention_input){.rules = l->rule,
                                       .commits = l->commits,
                                       .n_commits = COUNT,
                                       .heads = l->heads,
                                       .n_heads = 1,
                                       .edges = l->edges,
                                       .now_us = NOW,
                                       .oldest_run = FREE};
    return l;
}

/* A letter a commit: what becomes of it. */
static const char *told(struct world *l)
{
    static char text[COUNT + 2];
    static const char letters[] = {
        [PL_RETENTION_LOST] = '?', [PL_RETENTION_OLD] = '-',    [PL_RETENTION_ALL] = 'a',   [PL_RETENTION_RULE] = 'r',
        [PL_RETENTION_HEAD] = 'h', [PL_RETENTION_IN_USE] = 'u', [PL_RETENTION_SOURCE] = 's'};

    pl_retention_decide(&l->w);
    for (size_t i = 0; i < l->w.n_commits; i++)
        text[i] = letters[l->commits[i].why];
    text[l->w.n_commits] = '\0';
    return text;
}

static void a_rule_counts_commits_or_days_and_either_keeps(void **state)
{
    static const struct {
        struct pl_retention_rule rule;
        const char *told;
    } table[] = {
        {{0}, "aaaaaaah"},
        {{.results = 1, .logs = 1}, "aaaaaaah"}, /* these are of no commit */
        {{.commits = 1}, "-------h"},
        {{.commits = 3}, "-----rrh"},
        {{.commits = 8}, "rrrrrrrh"},
        {{.commits = 1000}, "rrrrrrrh"},
        {{.days = 1}, "-------h"}, /* the second was made a day ago to the microsecond */
        {{.days = 4}, "----rrrh"},
        {{.days = 365}, "rrrrrrrh"},
        {{.commits = 2, .days = 4}, "----rrrh"},
        {{.commits = 6, .days = 4}, "--rrrrrh"},
    };
    struct world l;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++)
        assert_string_equal(told(line(&l, table[i].rule)), table[i].told);
}

static void every_branch_keeps_its_own(void **state)
{
    struct world l;

    (void)state;
    line(&l, (struct pl_retention_rule){.commits = 2});
    l.heads[1] = 3; /* a branch, or a tag, on an old one */
    l.w.n_heads = 2;
    assert_string_equal(told(&l), "--rh--rh");
    line(&l, (struct pl_retention_rule){.commits = 2});
    l.commits[6].parent = 2; /* 7 ← 6 ← 2, and a branch 5 ← 4 ← 3 */
    l.heads[0] = 5;
    l.heads[1] = 7;
    l.w.n_heads = 2;
    assert_string_equal(told(&l), "----rhrh");
}

/* A deleted branch leaves commits that no branch leads to: 5, 6 and 7. */
static void commits_of_a_deleted_branch_go_only_by_a_rule(void **state)
{
    static const struct {
        struct pl_retention_rule rule;
        const char *told;
    } table[] = {
        {{0}, "aaaahaaa"},
        {{.results = 1, .logs = 1}, "aaaahaaa"}, /* these are of no commit */
        {{.commits = 2}, "---rh???"},            /* the newest so many of each branch */
        {{.commits = 1000}, "rrrrh???"},
        {{.days = 2}, "----h?rr"},
        {{.days = 365}, "rrrrhrrr"},
        {{.commits = 2, .days = 2}, "---rh?rr"},
    };
    struct world l;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        line(&l, table[i].rule);
        l.heads[0] = 4;
        assert_string_equal(told(&l), table[i].told);
    }
    line(&l, (struct pl_retention_rule){0}); /* the repo's last branch was deleted */
    l.w.n_heads = 0;
    assert_string_equal(told(&l), "aaaaaaaa");
}

static void what_a_job_reads_stays(void **state)
{
    struct world l;

    (void)state;
    line(&l, (struct pl_retention_rule){.commits = 1});
    l.commits[2].why = PL_RETENTION_IN_USE;
    assert_string_equal(told(&l), "--u----h");
    line(&l, (struct pl_retention_rule){.commits = 1}); /* of a branch that was deleted meanwhile */
    l.commits[2].why = PL_RETENTION_IN_USE;
    l.w.n_heads = 0;
    assert_string_equal(told(&l), "??u?????");
}

/* Orders are 1 to 8: a run of order o reads the newest commit that is not above o. */
static void what_a_run_may_yet_read_stays(void **state)
{
    struct world l;

    (void)state;
    line(&l, (struct pl_retention_rule){.commits = 1});
    l.w.oldest_run = 4;
    assert_string_equal(told(&l), "---uuuuu");
    line(&l, (struct pl_retention_rule){.commits = 1});
    for (int i = 0; i < COUNT; i++)
        l.commits[i].order *= 10;
    l.w.oldest_run = 45; /* made between two commits */
    assert_string_equal(told(&l), "---uuuuu");
    line(&l, (struct pl_retention_rule){.commits = 1});
    l.w.oldest_run = 0; /* older than all */
    assert_string_equal(told(&l), "uuuuuuuu");
    line(&l, (struct pl_retention_rule){.commits =
                                            1}); /* on a branch whose other commits are all newer it is where the branches part */
    l.commits[6].parent = 2;
    l.heads[0] = 5;
    l.heads[1] = 7;
    l.w.n_heads = 2;
    l.w.oldest_run = 5;
    assert_string_equal(told(&l), "--u-uuuu");
}

static void what_a_kept_commit_was_made_from_stays(void **state)
{
    struct world l;

    (void)state;
    line(&l, (struct pl_retention_rule){.commits = 1});
    /* of the second repo, whose one commit stays: made from 4, which was made from 1 */
    l.commits[COUNT] = (struct pl_retention_commit){.created_us = NOW, .order = 9, .repo = 1, .parent = NONE};
    l.w.n_commits = COUNT + 1;
    l.heads[1] = COUNT;
    l.w.n_heads = 2;
    l.edges[0] = (struct pl_retention_edge){4, 1};
    l.edges[1] = (struct pl_retention_edge){COUNT, 4};
    l.edges[2] = (struct pl_retention_edge){5, 3}; /* 5 goes, and 3 with it */
    l.w.n_edges = 3;
    assert_string_equal(told(&l), "-s--s--hh");
}

/* ---- against the definition, on worlds made at random ---- */

#define MANY 60

struct random_world {
    struct pl_retention_rule rules[3];
    struct pl_retention_commit commits[MANY];
    uint32_t heads[12];
    struct pl_retention_edge edges[80];
    struct pl_retention_input w;
};

static uint64_t seed;
static uint32_t any(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

static void make(struct random_world *m)
{
    *m = (struct random_world){0};
    m->w = (struct pl_retention_input){.rules = m->rules,
                                       .commits = m->commits,
                                       .n_commits = 1 + any(MANY),
                                       .heads = m->heads,
                                       .edges = m->edges,
                                       .now_us = NOW};
    m->w.oldest_run = any(2) ? FREE : any(MANY + 2);
    for (int i = 0; i < 3; i++)
        m->rules[i] = (struct pl_retention_rule){.commits = any(2) * any(6), .days = any(2) * any(20)};
    for (uint32_t i = 0; i < m->w.n_commits; i++) {
        struct pl_retention_commit *c = &m->commits[i];

        *c = (struct pl_retention_commit){.created_us = NOW - any(30) * DAY,
                                          .order = i + 1,
                                          .repo = any(3),
                                          .parent = NONE,
                                          .why = any(20) ? 0 : PL_RETENTION_IN_USE};
        for (uint32_t tries = 0; i && tries < 6 && c->parent == NONE; tries++) {
            uint32_t p = any(i);

            c->parent = m->commits[p].repo == c->repo ? p : NONE;
        }
    }
    m->w.n_heads = any(12);
    for (size_t i = 0; i < m->w.n_heads; i++)
        m->heads[i] = any((uint32_t)m->w.n_commits);
    while (m->w.n_commits > 1 && m->w.n_edges < PL_ARRAY_SIZE(m->edges) && any(40)) {
        uint32_t commit = 1 + any((uint32_t)m->w.n_commits - 1);

        m->edges[m->w.n_edges++] = (struct pl_retention_edge){commit, any(commit)};
    }
}

/* Whether each stays, by the words of the header. */
static void oracle(const struct random_world *m, bool stays[MANY])
{
    bool grew = true, reached[MANY] = {false};

    for (size_t i = 0; i < m->w.n_commits; i++)
        stays[i] = m->commits[i].why == PL_RETENTION_IN_USE;
    for (size_t h = 0; h < m->w.n_heads; h++) {
        uint32_t steps = 0;
        bool read = false;

        for (uint32_t at = m->heads[h]; at != NONE; at = m->commits[at].parent, steps++) {
            const struct pl_retention_commit *c = &m->commits[at];
            const struct pl_retention_rule *rule = &m->rules[c->repo];

            stays[at] = stays[at] || steps == 0 || (!rule->commits && !rule->days) || steps < rule->commits ||
                        c->created_us > NOW - (int64_t)rule->days * DAY || (m->w.oldest_run != FREE && !read);
            read = read || c->order <= m->w.oldest_run;
            reached[at] = true;
        }
    }
    for (size_t i = 0; i < m->w.n_commits; i++) {
        const struct pl_retention_rule *rule = &m->rules[m->commits[i].repo];

        if (!reached[i])
            stays[i] = stays[i] || (!rule->commits && !rule->days) || m->commits[i].created_us > NOW - (int64_t)rule->days * DAY;
    }
    while (grew) {
        grew = false;
        for (size_t i = 0; i < m->w.n_edges; i++) {
            if (stays[m->edges[i].commit] && !stays[m->edges[i].source])
                grew = stays[m->edges[i].source] = true;
        }
    }
}

static void decisions_are_those_of_the_definition(void **state)
{
    static struct random_world m;
    bool stays[MANY];
    size_t dropped = 0, kept = 0;

    (void)state;
    for (unsigned n = 0; n < 20000; n++) {
        seed = n;
        make(&m);
        oracle(&m, stays);
        pl_retention_decide(&m.w);
        for (size_t i = 0; i < m.w.n_commits; i++) {
            if (pl_retention_rule_drops(m.commits[i].why) == stays[i])
                fail_msg("world %u, commit %zu: %d, but %s", n, i, m.commits[i].why, stays[i] ? "it stays" : "it goes");
            kept += stays[i];
            dropped += !stays[i];
        }
    }
    assert_true(kept > 50000 && dropped > 50000);
}

/* A hundred thousand branches on one long history, from the oldest on: each is nearer to its own past than those before. */
static void many_branches_cost_what_they_keep(void **state)
{
    enum { LONG = 200000, BRANCHES = 100000 };
    struct pl_retention_commit *commits = calloc(LONG, sizeof *commits);
    uint32_t *heads = calloc(BRANCHES, sizeof *heads);
    struct pl_retention_rule rule = {.commits = 2};
    struct pl_retention_input w = {.rules = &rule,
                                   .commits = commits,
                                   .n_commits = LONG,
                                   .heads = heads,
                                   .n_heads = BRANCHES,
                                   .now_us = NOW,
                                   .oldest_run = FREE};
    size_t dropped = 0;

    (void)state;
    assert_true(commits && heads);
    for (uint32_t i = 0; i < LONG; i++)
        commits[i] = (struct pl_retention_commit){.created_us = 0, .order = i, .parent = i ? i - 1 : NONE};
    for (uint32_t i = 0; i < BRANCHES; i++)
        heads[i] = LONG - 1 - i;
    pl_retention_decide(&w);
    for (uint32_t i = 0; i < LONG; i++)
        dropped += pl_retention_rule_drops(commits[i].why);
    assert_int_equal(dropped, LONG - BRANCHES - 1);
    free(commits);
    free(heads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_counts_commits_or_days_and_either_keeps),
        cmocka_unit_test(every_branch_keeps_its_own),
        cmocka_unit_test(commits_of_a_deleted_branch_go_only_by_a_rule),
        cmocka_unit_test(what_a_job_reads_stays),
        cmocka_unit_test(what_a_run_may_yet_read_stays),
        cmocka_unit_test(what_a_kept_commit_was_made_from_stays),
        cmocka_unit_test(decisions_are_those_of_the_definition),
        cmocka_unit_test(many_branches_cost_what_they_keep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
