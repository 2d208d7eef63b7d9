/* principal: the identity of a caller and its permissions. The guard (guard.h) makes a principal from the token, cookie or
 * signature of each request and passes it on as the request's context. Each route names its verb in pl_http_route.access.
 * The table below gives the role that each verb needs; docs/security.md shows the table to users.
 *
 *   token ──▶ user ──▶ grants {scope, role} ─┐
 *                └─ limit of the token ──────┴─▶ pl_principal_may(verb, project, repo)
 *
 * Immutable except for the reference count and the flags `revoked` and `exchanged`, which are atomic. Requests share
 * principals; any thread may use one; nothing blocks. */
#pragma once

#include "storage/base/err.h"
#include "storage/base/path.h"

#include <stdatomic.h>

#define PL_USER_MAX           64 /* bytes of a user's name */
#define PL_PROJECT_GRANTS_MAX 64 /* grants of one user in one project; each project has its own limit */
#define PL_SCOPE_MAX          (2 * PL_NAME_MAX_BYTES + 1)
#define PL_WORKER_TOKEN_START "plw_"
#define PL_TOKEN_ID_HEX       12 /* the first digits of the token's SHA-256 */
#define PL_ACCESS_VERB(a)     ((enum pl_verb)((a)&0xff))
/* Flag of pl_http_route.access: the body or the query names the project and repo, so the handler checks the permission. */
#define PL_ACCESS_ASKS 0x100u
/* Flag used with PL_ACCESS_ASKS: before the body is read, refuse a caller who lacks the verb's role over every scope. */
#define PL_ACCESS_SOMEWHERE 0x200u

/* Each role may do what the lower ones may. A principal whose only role is METRICS reads /metrics and nothing else,
 * not even what other users may do without any role. */
enum pl_role { PL_ROLE_NONE, PL_ROLE_METRICS, PL_ROLE_READER, PL_ROLE_WRITER, PL_ROLE_ADMIN };

/* Object of a verb; it determines which grants count. */
enum pl_permission_scope {
    PL_PERMISSION_SCOPE_NOTHING, /* needs no authentication */
    PL_PERMISSION_SCOPE_SELF,    /* any authenticated user */
    PL_PERMISSION_SCOPE_REPO,    /* grants over the repo, its project, or everything */
    PL_PERMISSION_SCOPE_MEMBER,  /* grants over the project or everything, or over any repo of the project */
    PL_PERMISSION_SCOPE_PROJECT, /* grants over the project, or everything */
    PL_PERMISSION_SCOPE_ALL      /* grants over everything */
};

/* Permission of a worker's token for a verb. */
enum pl_worker_permission {
    PL_WORKER_NEVER,
    PL_WORKER_OWN,   /* in the project of its stage */
    PL_WORKER_READS, /* in the project of its stage, and in the projects of which its stage reads repos */
    PL_WORKER_ALWAYS /* the handler checks the request against the worker's leases */
};

/*  X(NAME, wire name, over, least role, what a worker may, meaning) */
#define PL_VERB_MAP(X)                                                                                                           \
    X(OPEN, "open", NOTHING, NONE, ALWAYS, "liveness, the files of the web page, a login link, signed webhooks")                 \
    X(LIST, "look", SELF, NONE, NEVER, "lists, and views across repos: they show only what the caller may read")                 \
    X(STATUS, "status", SELF, NONE, ALWAYS, "the daemon's version and figures")                                                  \
    X(METRICS, "metrics", ALL, METRICS, NEVER, "the daemon's figures for a monitoring system: `GET /metrics`")                   \
    X(READ_PIPELINES, "survey", MEMBER, READER, NEVER, "a project's pipelines, as specified")                                    \
    X(READ, "read", REPO, READER, NEVER, "a repo's branches, commits and files; a stage's jobs, logs and metrics")               \
    X(WRITE, "write", REPO, WRITER, NEVER, "put, commit, branch; rerun and stop a stage")                                        \
    X(REMOVE, "remove", REPO, ADMIN, NEVER, "delete a repo")                                                                     \
    X(FETCH, "fetch", MEMBER, READER, READS, "bytes by their hash, which only callers with access to them know")                 \
    X(STORE, "store", MEMBER, WRITER, OWN, "upload packs: bytes that no commit refers to yet")                                   \
    X(DEFINE, "define", PROJECT, WRITER, NEVER,                                                                                  \
      "create repos; create, change, run, stop and delete pipelines, whose code then runs")                                      \
    X(DELETE_PROJECT, "govern", PROJECT, ADMIN, NEVER,                                                                           \
      "delete the project; its defaults, and whether its stages may have the network")                                           \
    X(OPERATE, "operate", ALL, ADMIN, NEVER, "create projects; users, other users' tokens, checks, audit")                       \
    X(ATTACH, "attach", ALL, ADMIN, ALWAYS, "attach of a worker; the only use of its first token after the exchange")            \
    X(WORK, "work", ALL, ADMIN, ALWAYS, "the worker protocol: each worker for itself and its leases")

enum pl_verb {
    PL_VERB_MISSING, /* the route names no verb: the program refuses to start */
#define PL_VERB_ENUM(name, ...) PL_VERB_##name,
    PL_VERB_MAP(PL_VERB_ENUM)
#undef PL_VERB_ENUM
        PL_VERBS
};

struct pl_permission_rule {
    const char *name, *meaning;
    enum pl_permission_scope over;
    enum pl_role least;
    enum pl_worker_permission worker;
};
/* Returns the rule of `verb`; NULL for PL_VERB_MISSING and for numbers that are not verbs. */
const struct pl_permission_rule *pl_permission_rule(enum pl_verb verb);

/* Appends the Markdown table of verbs for docs/security.md to `out`. */
struct pl_buf;
PL_MUST_CHECK
int pl_verb_markdown(struct pl_buf *out, struct pl_err *err);

/* Returns "none", "metrics", "reader", "writer" or "admin"; a static string. */
const char *pl_role_name(enum pl_role role);
/* Parses "metrics", "reader", "writer" or "admin"; "none" is not accepted. Returns PL_EINVAL with the error field "role" and a message
 * that lists the accepted roles. */
PL_MUST_CHECK
int pl_role_parse(const char *text, enum pl_role *ret, struct pl_err *err);

/* Checks a user name: 1 to PL_USER_MAX letters, digits and . _ - @ +, not starting with -, not "daemon". Returns PL_ENAME
 * with the error field "name". */
PL_MUST_CHECK
int pl_user_check(const char *name, struct pl_err *err);

/* A role over a scope: "" (everything), "PROJECT" or "PROJECT/REPO". */
struct pl_grant {
    char scope[PL_SCOPE_MAX + 1];
    enum pl_role role;
};
/* Checks the form of a scope. Returns PL_EINVAL or PL_ENAME with the error field "scope". */
PL_MUST_CHECK
int pl_scope_check(const char *text, struct pl_err *err);

/* True if the scope `inner` lies within the scope `outer`. */
bool pl_scope_covers(const char *outer, const char *inner);

enum pl_principal_kind { PL_PRINCIPAL_DAEMON, PL_PRINCIPAL_USER, PL_PRINCIPAL_WORKER };

struct pl_principal {
    atomic_uint refs;
    enum pl_principal_kind kind;
    char name[PL_USER_MAX + 1];      /* name of the user, "daemon", or "worker 7" */
    char token[PL_TOKEN_ID_HEX + 1]; /* id of the token of the request; "" = none */
    int64_t expires_us;              /* wall clock; 0 = never */
    atomic_bool revoked;             /* the token, key or user was deleted or changed: its open streams end */
    /* WORKER: this is the worker's first token and was exchanged; it only allows repeating the exchange */
    atomic_bool exchanged;
    uint64_t worker;                     /* WORKER: id of the worker */
    uint64_t version;                    /* WORKER: version of the stage that it serves */
    char project[PL_NAME_MAX_BYTES + 1]; /* WORKER: project of that stage */
    char stage[PL_NAME_MAX_BYTES + 1];   /* WORKER: name of that stage */
    /* WORKER: the other projects of which that stage reads repos, each with its NUL, ended by ""; owned; NULL = none */
    char *reads;
    /* Login session of a browser: its id ("" = none), its end (wall clock, µs), and an owned reference to the principal of
     * the token that it was opened with. */
    char session[PL_TOKEN_ID_HEX + 1];
    int64_t session_expires_us;
    struct pl_principal *stands_on;
    struct pl_grant limit; /* USER: limit of the token; tokens that it creates get no more */
    size_t n_grants;       /* USER: the user's grants within `limit`; DAEMON: admin over everything */
    struct pl_grant grants[];
};

struct pl_principal_user {
    const char *name, *token; /* token: id of the token, "" = none */
    const struct pl_grant *grants;
    size_t n_grants;
    struct pl_grant limit; /* limit of the token; {"", PL_ROLE_ADMIN} = no limit */
    int64_t expires_us;
};
/* The constructors return one reference that the caller owns. They return PL_ENOMEM if memory runs out. */
PL_MUST_CHECK
int pl_principal_user(const struct pl_principal_user *from, struct pl_principal **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_principal_daemon(struct pl_principal **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_principal_worker(uint64_t worker, uint64_t version, const char *project, const char *stage, struct pl_principal **ret,
                        struct pl_err *err);
/* Lets the worker fetch from these other projects, of which its stage reads repos: names that each end with NUL, `len`
 * bytes in all. Copies them. Call it before another thread has the principal. Returns PL_ENOMEM. */
PL_MUST_CHECK
int pl_principal_worker_reads(struct pl_principal *p, const char *names, size_t len, struct pl_err *err);
/* Makes the principal of a login session of `token`, with the same user, grants and limit. It can be revoked alone, and it
 * ends when `token` is revoked. It holds a reference to `token`. Returns PL_ENOMEM. */
PL_MUST_CHECK
int pl_principal_session(struct pl_principal *token, const char *session, int64_t expires_us, struct pl_principal **ret,
                         struct pl_err *err);
struct pl_principal *pl_principal_ref(struct pl_principal *p);
/* Drops a reference and frees the principal with the last one. Accepts NULL; returns NULL. */
struct pl_principal *pl_principal_unref(struct pl_principal *p);
static inline void pl_principal_unrefp(struct pl_principal **p)
{
    *p = pl_principal_unref(*p);
}

/* True if the token, key, user and session are neither revoked nor expired at `now_us`. Streams that outlast their request
 * call this repeatedly. */
bool pl_principal_stands(const struct pl_principal *p, int64_t now_us);
/* True if the principal has `role` or a higher role over any scope. */
bool pl_principal_has(const struct pl_principal *p, enum pl_role role);
/* True if both have the same user, token, expiry, limit and grants. */
bool pl_principal_same(const struct pl_principal *a, const struct pl_principal *b);
/* Returns the highest role that counts for the scope `over`. Give `project` and `repo` if `over` needs them, else NULL.
 * Returns PL_ROLE_NONE for a worker. */
enum pl_role pl_principal_role(const struct pl_principal *p, enum pl_permission_scope over, const char *project,
                               const char *repo);
/* True if the principal may do `verb`. A stage is named by its output repo in `repo`. A NULL principal may do only
 * PL_VERB_OPEN. */
bool pl_principal_may(const struct pl_principal *p, enum pl_verb verb, const char *project, const char *repo);
/* Like pl_principal_may, but returns 0 or PL_EFORBIDDEN. The message names the caller, the verb, the scope and the role
 * that is needed. */
PL_MUST_CHECK
int pl_principal_check(const struct pl_principal *p, enum pl_verb verb, const char *project, const char *repo,
                       struct pl_err *err);
