/* principal: who asks, and what they may do. The guard (guard.h) makes one of every request's token, cookie or signature and hands it on as
 * the request's context; each route names the verb that it is, and on what (pl_http_route.access); the table below says which role that
 * takes. docs/security.md tells it to people.
 *
 *   token ──▶ user ──▶ grants {scope, role} ─┐
 *                └─ limit of the token ──────┴─▶ pl_principal_may(verb, project, repo)
 *
 * Immutable but for the reference count: shared between requests, any thread, nothing blocks. */
#pragma once

#include "storage/base/err.h"
#include "storage/base/path.h"

#include <stdatomic.h>

#define PL_USER_MAX           64 /* bytes of a user's name */
#define PL_PROJECT_GRANTS_MAX 64 /* of one user in one project: its admins take no place that others give */
#define PL_SCOPE_MAX          (2 * PL_NAME_MAX_BYTES + 1)
#define PL_WORKER_TOKEN_START "plw_"
#define PL_TOKEN_ID_HEX       12 /* the first digits of the token's SHA-256 */
#define PL_ACCESS_VERB(a)     ((enum pl_verb)((a)&0xff))
/* In pl_http_route.access beside the verb: which project and repo it touches stands in the body or the query, and the handler asks. */
#define PL_ACCESS_ASKS 0x100u
/* Beside that: who has the verb's role nowhere is refused before the body comes. */
#define PL_ACCESS_SOMEWHERE 0x200u

enum pl_role { PL_ROLE_NONE, PL_ROLE_READER, PL_ROLE_WRITER, PL_ROLE_ADMIN };

/* What a verb is done to: which grants count. */
enum pl_permission_scope {
    PL_PERMISSION_SCOPE_NOTHING, /* nobody need say who they are */
    PL_PERMISSION_SCOPE_SELF,    /* anybody who did */
    PL_PERMISSION_SCOPE_REPO,    /* grants over the repo, its project, or everything */
    PL_PERMISSION_SCOPE_MEMBER,  /* as a part of the project: a grant over any of its repos will do too */
    PL_PERMISSION_SCOPE_PROJECT, /* grants over the project, or everything */
    PL_PERMISSION_SCOPE_ALL      /* grants over everything */
};

/* What a worker's token is good for. */
enum pl_worker_permission {
    PL_WORKER_NEVER,
    PL_WORKER_OWN,   /* in the project of its stage */
    PL_WORKER_ALWAYS /* the handler holds it against the worker's leases */
};

/*  X(NAME, wire name, over, least role, what a worker may, meaning) */
#define PL_VERB_MAP(X)                                                                                                           \
    X(OPEN, "open", NOTHING, NONE, ALWAYS, "whether it is alive, the files of the web page, a login link")                       \
    X(LIST, "look", SELF, NONE, NEVER, "lists, and what spans repos: they show what the asker may read")                         \
    X(STATUS, "status", SELF, NONE, ALWAYS, "the daemon's version and figures")                                                  \
    X(READ_PIPELINES, "survey", MEMBER, READER, NEVER, "a project's pipelines, as they are written")                             \
    X(READ, "read", REPO, READER, NEVER, "a repo's branches, commits and files; a stage's jobs, logs and metrics")               \
    X(WRITE, "write", REPO, WRITER, NEVER, "put, commit, branch; rerun and stop a stage")                                        \
    X(REMOVE, "remove", REPO, ADMIN, NEVER, "delete a repo")                                                                     \
    X(FETCH, "fetch", MEMBER, READER, OWN, "bytes by the hash of what they are, which only who may read was told")               \
    X(STORE, "store", MEMBER, WRITER, OWN, "bring packs: bytes that no commit names yet")                                        \
    X(DEFINE, "define", PROJECT, WRITER, NEVER, "make repos; create, change, run and delete pipelines, whose code then runs")    \
    X(DELETE_PROJECT, "govern", PROJECT, ADMIN, NEVER,                                                                           \
      "delete the project; its defaults, and whether its stages may have the network")                                           \
    X(OPERATE, "operate", ALL, ADMIN, NEVER, "make projects; users, tokens of others, checks, audit")                            \
    X(ATTACH, "attach", ALL, ADMIN, ALWAYS, "a worker's beginning; all that its first token is good for once it was exchanged")  \
    X(WORK, "work", ALL, ADMIN, ALWAYS, "the protocol of workers: each for itself and the leases it holds")

enum pl_verb {
    PL_VERB_MISSING, /* a route that says nothing: the program does not start with one */
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
/* NULL for PL_VERB_MISSING and what is none. */
const struct pl_permission_rule *pl_permission_rule(enum pl_verb verb);

/* The table of docs/security.md, appended. */
struct pl_buf;
PL_MUST_CHECK
int pl_verb_markdown(struct pl_buf *out, struct pl_err *err);

/* "reader", "writer", "admin"; "none". */
const char *pl_role_name(enum pl_role role);
/* PL_EINVAL, field "role", with what is accepted. "none" is none. */
PL_MUST_CHECK
int pl_role_parse(const char *text, enum pl_role *ret, struct pl_err *err);

/* A user's name: 1 to PL_USER_MAX of letters, digits and . _ - @ +, not "daemon". PL_ENAME, field "name". */
PL_MUST_CHECK
int pl_user_check(const char *name, struct pl_err *err);

/* Where a role holds: "" = everything, "PROJECT", "PROJECT/REPO". */
struct pl_grant {
    char scope[PL_SCOPE_MAX + 1];
    enum pl_role role;
};
/* PL_EINVAL, PL_ENAME, field "scope". */
PL_MUST_CHECK
int pl_scope_check(const char *text, struct pl_err *err);

/* Whether all that `inner` is about lies within `outer`. */
bool pl_scope_covers(const char *outer, const char *inner);

enum pl_principal_kind { PL_PRINCIPAL_DAEMON, PL_PRINCIPAL_USER, PL_PRINCIPAL_WORKER };

struct pl_principal {
    atomic_uint refs;
    enum pl_principal_kind kind;
    char name[PL_USER_MAX + 1];      /* of the user; "daemon" with the daemon's own token, "worker 7" */
    char token[PL_TOKEN_ID_HEX + 1]; /* id of the token it came with; "" = none */
    int64_t expires_us;              /* wall clock; 0 = never */
    atomic_bool revoked;             /* its token, key or user was deleted or changed: streams that it opened end */
    atomic_bool exchanged;           /* WORKER, of its first token: it was exchanged, and may only ask for the other once more */
    uint64_t worker;                 /* WORKER: its id, */
    uint64_t version;                /* the stage version that it serves, */
    char project[PL_NAME_MAX_BYTES + 1]; /* and where that is */
    char stage[PL_NAME_MAX_BYTES + 1];
    /* A browser's session: its id ("" = none), when it ends, and the principal of the token that it stands on (a reference of its own). */
    char session[PL_TOKEN_ID_HEX + 1];
    int64_t session_expires_us;
    struct pl_principal *stands_on;
    struct pl_grant limit; /* USER: of the token: what it gives on is never more */
    size_t n_grants;       /* USER: what the token leaves of the user's; DAEMON: admin over everything */
    struct pl_grant grants[];
};

struct pl_principal_user {
    const char *name, *token; /* token: its id, "" */
    const struct pl_grant *grants;
    size_t n_grants;
    struct pl_grant limit; /* of the token: never more than that; {"", PL_ROLE_ADMIN} = no limit */
    int64_t expires_us;
};
/* One reference, the caller's. PL_ENOMEM. */
PL_MUST_CHECK
int pl_principal_user(const struct pl_principal_user *from, struct pl_principal **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_principal_daemon(struct pl_principal **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_principal_worker(uint64_t worker, uint64_t version, const char *project, const char *stage, struct pl_principal **ret,
                        struct pl_err *err);
/* A session of `token`: the same user, roles and limits, revoked on its own or with `token`, of which it holds a reference. PL_ENOMEM. */
PL_MUST_CHECK
int pl_principal_session(struct pl_principal *token, const char *session, int64_t expires_us, struct pl_principal **ret,
                         struct pl_err *err);
struct pl_principal *pl_principal_ref(struct pl_principal *p);
/* NULL is fine; returns NULL. */
struct pl_principal *pl_principal_unref(struct pl_principal *p);
static inline void pl_principal_unrefp(struct pl_principal **p)
{
    *p = pl_principal_unref(*p);
}

/* True if its token, key or user is still good at `now_us`: asked again and again by what outlasts its request. */
bool pl_principal_stands(const struct pl_principal *p, int64_t now_us);
/* Whether they have the role, or a higher one, over anything. */
bool pl_principal_has(const struct pl_principal *p, enum pl_role role);
/* Whether the two are one user by one token with the same roles. */
bool pl_principal_same(const struct pl_principal *a, const struct pl_principal *b);
/* The highest role that counts for the verb's `over`. `project` and `repo` as it wants them, else NULL. NONE for a worker. */
enum pl_role pl_principal_role(const struct pl_principal *p, enum pl_permission_scope over, const char *project,
                               const char *repo);
/* The one question. `repo`: also a stage, by the repo that it writes. False for a NULL principal but for PL_VERB_OPEN. */
bool pl_principal_may(const struct pl_principal *p, enum pl_verb verb, const char *project, const char *repo);
/* The same as an error: PL_EFORBIDDEN says who, what, where, and which role it takes. */
PL_MUST_CHECK
int pl_principal_check(const struct pl_principal *p, enum pl_verb verb, const char *project, const char *repo,
                       struct pl_err *err);
