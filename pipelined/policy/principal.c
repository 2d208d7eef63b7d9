/* The table of permission rules, the checks of names and scopes, and the constructors and queries of a
 * principal. */
#include "pipelined/policy/principal.h"

#include "storage/base/buf.h"

#include <inttypes.h>
#include <stdio.h>

static const struct pl_permission_rule rules[PL_VERBS] = {
#define VERB_RULE(name, wire, over, least, worker, meaning)                                                                      \
    [PL_VERB_##name] = {wire, meaning, PL_PERMISSION_SCOPE_##over, PL_ROLE_##least, PL_WORKER_##worker},
    PL_VERB_MAP(VERB_RULE)
#undef VERB_RULE
};

static const char *const role_names[] = {"none", "metrics", "reader", "writer", "admin"};

const struct pl_permission_rule *pl_permission_rule(enum pl_verb verb)
{
    return verb > PL_VERB_MISSING && verb < PL_VERBS ? &rules[verb] : NULL;
}

int pl_verb_markdown(struct pl_buf *out, struct pl_err *err)
{
    static const char *const overs[] = {[PL_PERMISSION_SCOPE_REPO] = "the repo or stage",
                                        [PL_PERMISSION_SCOPE_MEMBER] = "the project or a repo of it",
                                        [PL_PERMISSION_SCOPE_PROJECT] = "the project",
                                        [PL_PERMISSION_SCOPE_ALL] = "everything"};
    static const char *const workers[] = {[PL_WORKER_NEVER] = "no",
                                          [PL_WORKER_OWN] = "in its stage's project",
                                          [PL_WORKER_READS] =
                                              "in its stage's project, and in those of which the stage reads repos",
                                          [PL_WORKER_ALWAYS] = "yes"};
    int r = pl_buf_add_str(out, "| verb | needs | a worker's token | meaning |\n|---|---|---|---|\n", err);

    for (unsigned verb = PL_VERB_MISSING + 1; verb < PL_VERBS && r == 0; verb++) {
        const struct pl_permission_rule *rule = &rules[verb];

        r = pl_buf_addf(out, err, "| `%s` | ", rule->name);
        if (r == 0 && rule->over <= PL_PERMISSION_SCOPE_SELF)
            r = pl_buf_add_str(out, rule->over == PL_PERMISSION_SCOPE_NOTHING ? "nothing" : "any token of a user", err);
        else if (r == 0)
            r = pl_buf_addf(out, err, "%s of %s", role_names[rule->least], overs[rule->over]);
        r = r < 0 ? r : pl_buf_addf(out, err, " | %s | %s |\n", workers[rule->worker], rule->meaning);
    }
    return r;
}

const char *pl_role_name(enum pl_role role)
{
    return role_names[role];
}

int pl_role_parse(const char *text, enum pl_role *ret, struct pl_err *err)
{
    for (enum pl_role role = PL_ROLE_METRICS; role <= PL_ROLE_ADMIN; role++) {
        if (pl_streq(text, role_names[role])) {
            *ret = role;
            return 0;
        }
    }
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL, "\"%.60s\" is not a role; accepted: reader, writer, admin, metrics", text),
                        "role");
}

int pl_user_check(const char *name, struct pl_err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+";
    size_t len = strlen(name);

    if (len > 0 && len <= PL_USER_MAX && strspn(name, allowed) == len && name[0] != '-' && !pl_streq(name, "daemon"))
        return 0;
    return pl_err_field(
        err,
        pl_err_set(err, PL_ENAME,
                   "\"%.80s\" is not accepted as a user's name: use 1 to %d letters, digits and . _ - @ +, not \"daemon\"", name,
                   PL_USER_MAX),
        "name");
}

int pl_scope_check(const char *text, struct pl_err *err)
{
    const char *slash = strchr(text, '/');
    char project[PL_NAME_MAX_BYTES + 2];
    int r = 0;

    if (!*text)
        return 0;
    snprintf(project, sizeof project, "%.*s", (int)(slash ? slash - text : (int)strlen(text)), text);
    r = pl_name_check("project", project, err);
    if (r == 0 && slash)
        r = pl_name_check("repo", slash + 1, err);
    return r < 0 ? pl_err_field(err, r, "scope") : 0;
}

bool pl_scope_covers(const char *outer, const char *inner)
{
    size_t len = strlen(outer);

    return len == 0 || (strncmp(outer, inner, len) == 0 && (inner[len] == '\0' || inner[len] == '/'));
}

/* ---- constructors ---- */

static struct pl_principal *make(enum pl_principal_kind kind, size_t n_grants)
{
    struct pl_principal *p = calloc(1, sizeof *p + n_grants * sizeof *p->grants);

    if (p) {
        atomic_init(&p->refs, 1);
        p->kind = kind;
        p->limit.role = PL_ROLE_ADMIN;
    }
    return p;
}

/* Adds the intersection of a user's grant and the token's limit: the narrower scope with the lower role. Adds nothing if
 * the two scopes do not overlap. */
static void add_limited(struct pl_principal *p, const struct pl_grant *grant, const struct pl_grant *limit)
{
    struct pl_grant *to = &p->grants[p->n_grants];

    if (pl_scope_covers(limit->scope, grant->scope))
        *to = *grant;
    else if (pl_scope_covers(grant->scope, limit->scope))
        *to = *limit;
    else
        return;
    to->role = PL_MIN(grant->role, limit->role);
    p->n_grants++;
}

int pl_principal_user(const struct pl_principal_user *from, struct pl_principal **ret, struct pl_err *err)
{
    struct pl_principal *p = make(PL_PRINCIPAL_USER, from->n_grants);

    if (!p)
        return pl_err_nomem(err);
    snprintf(p->name, sizeof p->name, "%s", from->name);
    snprintf(p->token, sizeof p->token, "%s", from->token);
    p->expires_us = from->expires_us;
    p->limit = from->limit;
    for (size_t i = 0; i < from->n_grants; i++)
        add_limited(p, &from->grants[i], &from->limit);
    *ret = p;
    return 0;
}

int pl_principal_daemon(struct pl_principal **ret, struct pl_err *err)
{
    struct pl_principal *p = make(PL_PRINCIPAL_DAEMON, 1);

    if (!p)
        return pl_err_nomem(err);
    snprintf(p->name, sizeof p->name, "daemon");
    p->grants[0].role = PL_ROLE_ADMIN;
    p->n_grants = 1;
    *ret = p;
    return 0;
}

int pl_principal_worker(uint64_t worker, uint64_t version, const char *project, const char *stage, struct pl_principal **ret,
                        struct pl_err *err)
{
    struct pl_principal *p = make(PL_PRINCIPAL_WORKER, 0);

    if (!p)
        return pl_err_nomem(err);
    snprintf(p->name, sizeof p->name, "worker %" PRIu64, worker);
    snprintf(p->project, sizeof p->project, "%s", project);
    snprintf(p->stage, sizeof p->stage, "%s", stage);
    p->worker = worker;
    p->version = version;
    *ret = p;
    return 0;
}

int pl_principal_worker_reads(struct pl_principal *p, const char *names, size_t len, struct pl_err *err)
{
    p->reads = len ? calloc(1, len + 1) : NULL;
    if (!p->reads)
        return len ? pl_err_nomem(err) : 0;
    memcpy(p->reads, names, len);
    return 0;
}

int pl_principal_session(struct pl_principal *token, const char *session, int64_t expires_us, struct pl_principal **ret,
                         struct pl_err *err)
{
    struct pl_principal *p = make(token->kind, token->n_grants);

    if (!p)
        return pl_err_nomem(err);
    snprintf(p->name, sizeof p->name, "%s", token->name);
    snprintf(p->token, sizeof p->token, "%s", token->token);
    snprintf(p->session, sizeof p->session, "%s", session);
    p->expires_us = token->expires_us;
    p->session_expires_us = expires_us;
    p->stands_on = pl_principal_ref(token);
    p->limit = token->limit;
    p->n_grants = token->n_grants;
    memcpy(p->grants, token->grants, token->n_grants * sizeof *p->grants);
    *ret = p;
    return 0;
}

struct pl_principal *pl_principal_ref(struct pl_principal *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

struct pl_principal *pl_principal_unref(struct pl_principal *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1) {
        pl_principal_unref(p->stands_on);
        free(p->reads);
        free(p);
    }
    return NULL;
}

/* ---- queries ---- */

bool pl_principal_same(const struct pl_principal *a, const struct pl_principal *b)
{
    if (a->kind != b->kind || !pl_streq(a->name, b->name) || !pl_streq(a->token, b->token) || a->expires_us != b->expires_us ||
        a->n_grants != b->n_grants || a->limit.role != b->limit.role || !pl_streq(a->limit.scope, b->limit.scope))
        return false;
    for (size_t i = 0; i < a->n_grants; i++)
        if (a->grants[i].role != b->grants[i].role || !pl_streq(a->grants[i].scope, b->grants[i].scope))
            return false;
    return true;
}

bool pl_principal_stands(const struct pl_principal *p, int64_t now_us)
{
    if (p->stands_on && (now_us >= p->session_expires_us || !pl_principal_stands(p->stands_on, now_us)))
        return false;
    return !atomic_load(&p->revoked) && (!p->expires_us || now_us < p->expires_us);
}

/* True if a grant over `scope` counts for `wanted`. Both are "" (everything), "PROJECT" or "PROJECT/REPO". With `parts` a
 * grant over a part of `wanted` counts too. */
static bool counts(const char *scope, const char *wanted, bool parts)
{
    return pl_scope_covers(scope, wanted) || (parts && pl_scope_covers(wanted, scope));
}

enum pl_role pl_principal_role(const struct pl_principal *p, enum pl_permission_scope over, const char *project, const char *repo)
{
    char wanted[PL_SCOPE_MAX + 2] = "";
    enum pl_role role = PL_ROLE_NONE;

    if ((over == PL_PERMISSION_SCOPE_REPO && (!repo || !*repo)) ||
        (over > PL_PERMISSION_SCOPE_SELF && over < PL_PERMISSION_SCOPE_ALL && (!project || !*project)))
        return PL_ROLE_NONE; /* the caller did not name the project or repo: grant nothing */
    if (over == PL_PERMISSION_SCOPE_REPO)
        snprintf(wanted, sizeof wanted, "%s/%s", project, repo);
    else if (over == PL_PERMISSION_SCOPE_MEMBER || over == PL_PERMISSION_SCOPE_PROJECT)
        snprintf(wanted, sizeof wanted, "%s", project);
    for (size_t i = 0; i < p->n_grants; i++)
        if (counts(p->grants[i].scope, wanted, over == PL_PERMISSION_SCOPE_MEMBER))
            role = PL_MAX(role, p->grants[i].role);
    return role;
}

bool pl_principal_has(const struct pl_principal *p, enum pl_role role)
{
    for (size_t i = 0; i < p->n_grants; i++)
        if (p->grants[i].role >= role)
            return true;
    return false;
}

/* True if the principal has the role METRICS and no higher one anywhere. */
static bool only_watches(const struct pl_principal *p)
{
    return pl_principal_has(p, PL_ROLE_METRICS) && !pl_principal_has(p, PL_ROLE_READER);
}

/* True if the worker's stage reads repos of this other project. */
static bool worker_reads(const struct pl_principal *p, const char *project)
{
    for (const char *name = p->reads; name && *name; name += strlen(name) + 1)
        if (pl_streq(name, project))
            return true;
    return false;
}

static bool worker_may(const struct pl_principal *p, const struct pl_permission_rule *rule, const char *project)
{
    if (atomic_load(&p->exchanged) && rule != pl_permission_rule(PL_VERB_ATTACH))
        return false;
    /* the worker was removed: its token still serves only for the worker protocol, which tells the worker
     * to exit */
    if (!*p->project)
        return rule == pl_permission_rule(PL_VERB_ATTACH) || rule == pl_permission_rule(PL_VERB_WORK);
    if (rule->worker == PL_WORKER_NEVER || rule->worker == PL_WORKER_ALWAYS)
        return rule->worker == PL_WORKER_ALWAYS;
    return project && (pl_streq(project, p->project) || (rule->worker == PL_WORKER_READS && worker_reads(p, project)));
}

bool pl_principal_may(const struct pl_principal *p, enum pl_verb verb, const char *project, const char *repo)
{
    const struct pl_permission_rule *rule = pl_permission_rule(verb);

    if (!rule)
        return false;
    if (rule->over == PL_PERMISSION_SCOPE_NOTHING)
        return true;
    if (!p)
        return false;
    if (p->kind == PL_PRINCIPAL_WORKER)
        return worker_may(p, rule, project);
    if (rule->over == PL_PERMISSION_SCOPE_SELF)
        return !only_watches(p);
    return pl_principal_role(p, rule->over, project, repo) >= rule->least;
}

/* Makes the error of a refusal: who, which verb, which scope, which role is needed, and how to get it. */
static int forbid(const struct pl_principal *p, const struct pl_permission_rule *rule, const char *project, const char *repo,
                  struct pl_err *err)
{
    char where[PL_SCOPE_MAX + 32] = "everything";
    int r;

    if (rule->over == PL_PERMISSION_SCOPE_REPO)
        snprintf(where, sizeof where, "%.51s/%.51s", project ? project : "", repo ? repo : "");
    else if (rule->over == PL_PERMISSION_SCOPE_MEMBER || rule->over == PL_PERMISSION_SCOPE_PROJECT)
        snprintf(where, sizeof where, "project %.51s", project ? project : "");
    if (atomic_load(&p->exchanged))
        return pl_err_set(err, PL_EAUTH, "this token of %s was exchanged when the worker attached", p->name);
    if (p->kind == PL_PRINCIPAL_WORKER)
        return pl_err_set(err, PL_EFORBIDDEN, "a worker's token does not allow \"%s\"%s%s%s", rule->name,
                          rule->worker == PL_WORKER_NEVER ? "" : " outside project ",
                          rule->worker == PL_WORKER_NEVER ? "" : p->project,
                          rule->worker == PL_WORKER_READS ? " and the projects that its stage reads" : "");
    if (rule->over == PL_PERMISSION_SCOPE_SELF)
        return pl_err_set(err, PL_EFORBIDDEN, "%s has only the role metrics, which reads /metrics and nothing else", p->name);
    r = pl_err_set(err, PL_EFORBIDDEN, "\"%s\" needs the role %s over %s, but %s has the role %s there", rule->name,
                   pl_role_name(rule->least), where, p->name, pl_role_name(pl_principal_role(p, rule->over, project, repo)));
    return pl_err_hint(err, r, "An admin can grant it: pipelinectl update user %s --role %s%s%s", p->name,
                       pl_role_name(rule->least), rule->over == PL_PERMISSION_SCOPE_ALL ? "" : " --over ",
                       rule->over == PL_PERMISSION_SCOPE_ALL    ? ""
                       : rule->over == PL_PERMISSION_SCOPE_REPO ? where
                                                                : where + strlen("project "));
}

int pl_principal_check(const struct pl_principal *p, enum pl_verb verb, const char *project, const char *repo, struct pl_err *err)
{
    const struct pl_permission_rule *rule = pl_permission_rule(verb);

    if (pl_principal_may(p, verb, project, repo))
        return 0;
    if (!p || !rule)
        return pl_err_set(err, PL_EAUTH, "the request carries no token");
    return forbid(p, rule, project, repo, err);
}
