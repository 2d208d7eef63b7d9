/* One function per kind of log record, and a table of them. Each gets the record's JSON payload and changes the
 * rows. */
#include "pipelined/db/writer/log_apply.h"

#include "pipelined/text/json_text.h"
#include "storage/dataset/gc/gc.h"
#include "storage/dataset/log/log_record.h"

/* Reads a hash. An absent or malformed hash becomes all zeros. All zeros are stored as NULL, which a NOT NULL
 * column refuses; columns of roots store zeros instead (ROOT). */
static struct pl_hash hash(const json_t *o, const char *key)
{
    struct pl_hash h = {0};
    const char *text = pl_json_str(o, key);

    if (*text && pl_hash_parse(text, &h, NULL) < 0)
        memset(&h, 0, sizeof h);
    return h;
}

/* Binds a root: columns of roots are NOT NULL and store the root of an empty tree as 32 zero bytes. */
#define ROOT(h) (const void *)(h).b, (size_t)PL_HASH_BYTES

static char *dump(const json_t *o, const char *key, const char *otherwise)
{
    const json_t *v = json_object_get(o, key);

    return v ? pl_json_text(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : strdup(otherwise);
}

static int repo_id(struct pl_conn *c, const char *project, const char *name, int64_t *ret, struct pl_err *err)
{
    int r = pl_sql_int(c, err, ret, "SELECT id FROM repo WHERE project = ? AND name = ?", "ss", project, name);

    return r == PL_ENOTFOUND
               ? pl_err_set(err, PL_ELOG, "the log refers to repo %s/%s, which no earlier log record created", project, name)
               : r;
}

static int apply_epoch(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(c, err, "INSERT OR REPLACE INTO meta(key, value) VALUES ('epoch', ?)", "i", pl_json_int(o, "epoch"));
}

static int apply_project(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(c, err, "INSERT INTO project(name, created_us) VALUES (?, ?)", "si", pl_json_str(o, "name"),
                       pl_json_int(o, "at"));
}

static int apply_project_options(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *options = dump(o, "options", "{}");

    (void)seq;
    if (!options)
        return pl_err_nomem(err);
    return pl_sql_exec(c, err, "UPDATE project SET options = ? WHERE name = ?", "ss", options, pl_json_str(o, "name"));
}

static int apply_project_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int r = pl_sql_exec(c, err, "DELETE FROM defaults WHERE scope = 'project/' || ?", "s", pl_json_str(o, "name"));

    (void)seq;
    return r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM project WHERE name = ?", "s", pl_json_str(o, "name"));
}

static int apply_repo(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *options = dump(o, "options", "{}");

    (void)seq;
    if (!options)
        return pl_err_nomem(err);
    return pl_sql_exec(c, err,
                       "INSERT INTO repo(project, name, kind, description, options, created_us) VALUES (?, ?, ?, ?, ?, ?)"
                       " ON CONFLICT(project, name) DO UPDATE SET description = excluded.description, options = excluded.options",
                       "sssssi", pl_json_str(o, "project"), pl_json_str(o, "name"), pl_json_str(o, "kind"),
                       pl_json_str(o, "description"), options, pl_json_int(o, "at"));
}

static int apply_repo_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int64_t id = 0;
    int r = repo_id(c, pl_json_str(o, "project"), pl_json_str(o, "name"), &id, err);

    (void)seq;
    /* clear the branch heads first: they refer to commits of this repo, which are deleted with it */
    r = r < 0 ? r : pl_sql_exec(c, err, "UPDATE branch SET head = NULL WHERE repo = ?", "i", id);
    r = r < 0 ? r
              : pl_sql_exec(c, err, "DELETE FROM checkpoint WHERE project = ? AND stage = ?", "ss", pl_json_str(o, "project"),
                            pl_json_str(o, "name"));
    return r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM repo WHERE id = ?", "i", id);
}

static int apply_branch(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int64_t repo = 0;
    int r = repo_id(c, pl_json_str(o, "project"), pl_json_str(o, "repo"), &repo, err);

    (void)seq;
    return r < 0 ? r
                 : pl_sql_exec(c, err,
                               "INSERT INTO branch(repo, name, head, created_us)"
                               " VALUES (?1, ?2, (SELECT id FROM commit_ WHERE repo = ?1 AND run = ?3), ?4)",
                               "issi", repo, pl_json_str(o, "name"), pl_json_str(o, "head"), pl_json_int(o, "at"));
}

static int apply_branch_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int64_t repo = 0;
    int r = repo_id(c, pl_json_str(o, "project"), pl_json_str(o, "repo"), &repo, err);

    (void)seq;
    return r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM branch WHERE repo = ? AND name = ?", "is", repo, pl_json_str(o, "name"));
}

static int move_head(struct pl_conn *c, int64_t repo, const char *branch, const char *run, int64_t at, struct pl_err *err)
{
    return pl_sql_exec(c, err,
                       "INSERT INTO branch(repo, name, head, created_us)"
                       " VALUES (?1, ?2, (SELECT id FROM commit_ WHERE repo = ?1 AND run = ?3), ?4)"
                       " ON CONFLICT(repo, name) DO UPDATE SET head = excluded.head",
                       "issi", repo, branch, run, at);
}

/* Inserts the commit and moves its branch to it. */
static int apply_commit(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *provenance = dump(o, "provenance", "[]");
    struct pl_hash object = hash(o, "object"), root = hash(o, "root"), attributes = hash(o, "attributes");
    struct pl_hash table = hash(o, "table"), owner = hash(o, "owner"), code = hash(o, "code");
    const char *parent = pl_json_str(o, "parent");
    int64_t repo = 0;
    int r;

    if (!provenance)
        return pl_err_nomem(err);
    r = repo_id(c, pl_json_str(o, "project"), pl_json_str(o, "repo"), &repo, err);
    if (r < 0)
        return r;
    r = pl_sql_exec(
        c, err,
        "INSERT INTO commit_(repo, run, branch, parent, object, root, attributes, table_root, owner_root, generation, files,"
        " bytes, message, author, stage, code, provenance, seq, created_us, git)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "issshbhhhiiissshsiis", repo, pl_json_str(o, "run"), pl_json_str(o, "branch"), *parent ? parent : NULL, &object,
        ROOT(root), &attributes, &table, &owner, pl_json_int(o, "generation"), pl_json_int(o, "files"), pl_json_int(o, "bytes"),
        pl_json_str(o, "message"), pl_json_str(o, "author"), pl_json_str(o, "stage"), &code, provenance, (int64_t)seq,
        pl_json_int(o, "at"), pl_json_str(o, "git"));
    return r < 0 ? r : move_head(c, repo, pl_json_str(o, "branch"), pl_json_str(o, "run"), pl_json_int(o, "at"), err);
}

/* Deletes a commit and keeps a note of it in commit_gone. */
static int apply_commit_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int64_t repo = 0;
    int r = repo_id(c, pl_json_str(o, "project"), pl_json_str(o, "repo"), &repo, err);

    (void)seq;
    if (r < 0)
        return r;
    /* branches whose head is this commit fall back to its parent; its child commits get its parent as theirs */
    r = pl_sql_exec(c, err,
                    "UPDATE branch SET head = (SELECT p.id FROM commit_ p, commit_ d WHERE d.repo = ?1 AND d.run = ?2"
                    " AND p.repo = ?1 AND p.run = d.parent) WHERE head = (SELECT id FROM commit_ WHERE repo = ?1 AND run = ?2)",
                    "is", repo, pl_json_str(o, "run"));
    r = r < 0 ? r
              : pl_sql_exec(c, err,
                            "UPDATE commit_ SET parent = (SELECT parent FROM commit_ WHERE repo = ?1 AND run = ?2)"
                            " WHERE repo = ?1 AND parent = ?2",
                            "is", repo, pl_json_str(o, "run"));
    r = r < 0 ? r
              : pl_sql_exec(c, err, "INSERT OR REPLACE INTO commit_gone(repo, run, at_us, why) VALUES (?, ?, ?, ?)", "isis", repo,
                            pl_json_str(o, "run"), pl_json_int(o, "at"), pl_json_str(o, "why"));
    return r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM commit_ WHERE repo = ? AND run = ?", "is", repo, pl_json_str(o, "run"));
}

static int apply_ref(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int64_t repo = 0;
    int r = repo_id(c, pl_json_str(o, "project"), pl_json_str(o, "repo"), &repo, err);

    (void)seq;
    return r < 0 ? r : move_head(c, repo, pl_json_str(o, "branch"), pl_json_str(o, "head"), pl_json_int(o, "at"), err);
}

static int apply_run(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *stages = dump(o, "stages", "[]");

    if (!stages)
        return pl_err_nomem(err);
    return pl_sql_exec(
        c, err,
        "INSERT INTO run(id, seq, ord, stages, of_run, as_branch, cause, message, state, created_us)"
        " VALUES (?, ?, (SELECT coalesce(max(ord), 0) + 1 FROM run), ?, nullif(?, ''), nullif(?, ''), ?, ?, 'running', ?)",
        "sisssssi", pl_json_str(o, "id"), (int64_t)seq, stages, pl_json_str(o, "of"), pl_json_str(o, "as"),
        pl_json_str(o, "cause"), pl_json_str(o, "message"), pl_json_int(o, "at"));
}

static int apply_run_end(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(c, err, "UPDATE run SET state = ?, reason = ?, finished_us = ? WHERE id = ?", "ssis",
                       pl_json_str(o, "state"), pl_json_str(o, "reason"), pl_json_int(o, "at"), pl_json_str(o, "id"));
}

static int apply_stage(struct pl_conn *c, int64_t pipeline, int64_t position, const json_t *record, const json_t *o,
                       struct pl_err *err)
{
    _cleanup_free_ char *spec = dump(o, "spec", "{}"), *git = dump(o, "git", "{}");
    struct pl_hash code_root = hash(o, "code_root"), identity = hash(o, "code_identity");

    if (!spec || !git)
        return pl_err_nomem(err);
    return pl_sql_exec(
        c, err,
        "INSERT INTO stage(pipeline, version, position, project, name, branch, spec, code_root, code_identity, git, current)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
        "iiissssbbs", pipeline, pl_json_int(record, "version"), position, pl_json_str(record, "project"), pl_json_str(o, "name"),
        pl_json_str(o, "branch"), spec, ROOT(code_root), ROOT(identity), git);
}

/* Inserts a pipeline version with its stages, which become the current ones. */
static int apply_pipeline(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    struct pl_hash user = hash(o, "user_spec"), effective = hash(o, "effective_spec");
    _cleanup_free_ char *origin = dump(o, "origin", "{}");
    const char *source = pl_json_str(json_object_get(o, "origin"), "source");
    const json_t *stage;
    int64_t id = 0;
    size_t i;
    int r = !origin ? pl_err_nomem(err)
                    : pl_sql_exec(c, err,
                                  "INSERT INTO pipeline(project, name, version, created_us, updated_us, source)"
                                  " VALUES (?1, ?2, ?3, ?4, ?4, ?5) ON CONFLICT(project, name) DO UPDATE"
                                  " SET version = excluded.version, updated_us = excluded.updated_us, source = excluded.source",
                                  "ssiis", pl_json_str(o, "project"), pl_json_str(o, "name"), pl_json_int(o, "version"),
                                  pl_json_int(o, "at"), source);

    r = r < 0 ? r
              : pl_sql_int(c, err, &id, "SELECT id FROM pipeline WHERE project = ? AND name = ?", "ss", pl_json_str(o, "project"),
                           pl_json_str(o, "name"));
    r = r < 0 ? r
              : pl_sql_exec(c, err,
                            "UPDATE stage SET current = 0"
                            " WHERE pipeline = ?1 AND version = (SELECT max(version) FROM stage WHERE pipeline = ?1)",
                            "i", id);
    r = r < 0 ? r
              : pl_sql_exec(
                    c, err,
                    "INSERT INTO pipeline_version(pipeline, version, user_spec, effective_spec, filename, seq, run, created_us,"
                    " origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    "iihhsisis", id, pl_json_int(o, "version"), &user, &effective, pl_json_str(o, "filename"), (int64_t)seq,
                    pl_json_str(o, "run"), pl_json_int(o, "at"), origin);
    json_array_foreach(json_object_get(o, "stages"), i, stage)
    {
        if (r < 0)
            return r;
        r = apply_stage(c, id, (int64_t)i, o, stage, err);
    }
    return r;
}

static int apply_pipeline_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    /* keep the checkpoints of a stage that belonged to this pipeline once but belongs to another pipeline now */
    int r = pl_sql_exec(c, err,
                        "DELETE FROM checkpoint WHERE project = ?1 AND stage IN (SELECT s.name FROM stage s JOIN pipeline p"
                        " ON p.id = s.pipeline WHERE p.project = ?1 AND p.name = ?2 AND NOT EXISTS (SELECT 1 FROM stage o"
                        " WHERE o.project = s.project AND o.name = s.name AND o.current = 1 AND o.pipeline <> p.id))",
                        "ss", pl_json_str(o, "project"), pl_json_str(o, "name"));

    (void)seq;
    return r < 0 ? r
                 : pl_sql_exec(c, err, "DELETE FROM pipeline WHERE project = ? AND name = ?", "ss", pl_json_str(o, "project"),
                               pl_json_str(o, "name"));
}

/* Stops a pipeline, or lets it run again. A start takes a row id from table stage: the engine reads its stages again when
 * the newest id changes, before it takes any later run. */
static int apply_pipeline_state(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    const char *stopped = pl_json_str(o, "stopped");
    int r = pl_sql_exec(c, err,
                        "UPDATE pipeline SET stopped = ?1, started_seq = CASE ?1 WHEN '' THEN ?2 ELSE started_seq END"
                        " WHERE project = ?3 AND name = ?4",
                        "siss", stopped, (int64_t)seq, pl_json_str(o, "project"), pl_json_str(o, "name"));

    return r < 0 || *stopped ? r : pl_sql_exec(c, err, "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'stage'", "");
}

static int apply_defaults(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *spec = dump(o, "spec", "{}");

    (void)seq;
    if (!spec)
        return pl_err_nomem(err);
    return pl_sql_exec(c, err, "INSERT OR REPLACE INTO defaults(scope, spec) VALUES (?, ?)", "ss", pl_json_str(o, "scope"), spec);
}

static int apply_source(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *spec = dump(o, "spec", "{}");

    (void)seq;
    if (!spec)
        return pl_err_nomem(err);
    return pl_sql_exec(c, err,
                       "INSERT INTO source(name, project, spec, created_us) VALUES (?, ?, ?, ?)"
                       " ON CONFLICT(name) DO UPDATE SET spec = excluded.spec",
                       "sssi", pl_json_str(o, "name"), pl_json_str(o, "project"), spec, pl_json_int(o, "at"));
}

static int apply_source_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    int r = pl_sql_exec(c, err, "UPDATE pipeline SET source = '' WHERE source = ?", "s", pl_json_str(o, "name"));

    (void)seq;
    return r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM source WHERE name = ?", "s", pl_json_str(o, "name"));
}

static int apply_notify(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *spec = dump(o, "spec", "{}");

    (void)seq;
    if (!spec)
        return pl_err_nomem(err);
    return pl_sql_exec(c, err,
                       "INSERT INTO notify(name, project, spec, created_us) VALUES (?, ?, ?, ?)"
                       " ON CONFLICT(name) DO UPDATE SET spec = excluded.spec",
                       "sssi", pl_json_str(o, "name"), pl_json_str(o, "project"), spec, pl_json_int(o, "at"));
}

static int apply_notify_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(c, err, "DELETE FROM notify WHERE name = ?", "s", pl_json_str(o, "name"));
}

/* Settles the stored results of an ended job. Results of a failed or killed job are kept for later jobs of
 * the stage until no plan uses them (pl_kept_results). Results of a successful job are deleted, since its
 * datum table has them, and so are older kept results of the stage. After a successful rerun on a separate
 * branch, whose datum table is on that branch, the older kept results stay. */
static int settle_results(struct pl_conn *c, int64_t job, const json_t *o, struct pl_err *err)
{
    bool success = pl_streq(pl_json_str(o, "state"), "success");
    int r = success ? pl_sql_exec(c, err, "DELETE FROM result WHERE job = ?", "i", job)
                    : pl_sql_exec(c, err, "UPDATE job SET kept = EXISTS (SELECT 1 FROM result WHERE job = ?1) WHERE id = ?1", "i",
                                  job);
    int64_t last = 0;

    if (r >= 0 && success)
        r = pl_sql_int(c, err, &last,
                       "SELECT CASE WHEN EXISTS (SELECT 1 FROM run WHERE id = ? AND as_branch IS NOT NULL) THEN 0 ELSE ? END",
                       "si", pl_json_str(o, "run"), job);
    if (r < 0 || !success)
        return r;
    r = pl_sql_exec(
        c, err, "DELETE FROM result WHERE job IN (SELECT id FROM job WHERE project = ? AND stage = ? AND kept = 1 AND id <= ?)",
        "ssi", pl_json_str(o, "project"), pl_json_str(o, "stage"), last);
    return r < 0 ? r
                 : pl_sql_exec(c, err, "UPDATE job SET kept = 0 WHERE project = ? AND stage = ? AND kept = 1 AND id <= ?", "ssi",
                               pl_json_str(o, "project"), pl_json_str(o, "stage"), last);
}

/* Inserts or finishes a job, settles its results, and removes its leases. */
static int apply_job(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *inputs = dump(o, "inputs", "[]"), *warnings = dump(o, "warnings", "[]"),
                        *counts = dump(o, "counts", "{}");
    _cleanup_free_ char *ms = dump(o, "ms", "{}"), *bytes = dump(o, "bytes", "{}");
    struct pl_hash code = hash(o, "code");
    int64_t id = 0;
    int r;

    if (!inputs || !warnings || !counts || !ms || !bytes)
        return pl_err_nomem(err);
    r = pl_sql_exec(
        c, err,
        "INSERT INTO job(run, project, stage, version, pipeline, state, reason, base, output, code, inputs, warnings, counts,"
        " ms, bytes, final, seq, created_us, started_us, finished_us)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, nullif(?, 0), ?)"
        " ON CONFLICT(run, project, stage) DO UPDATE SET version = excluded.version, state = excluded.state,"
        " reason = excluded.reason, base = excluded.base, output = excluded.output, code = excluded.code,"
        " inputs = excluded.inputs, warnings = excluded.warnings, counts = excluded.counts, ms = excluded.ms,"
        " bytes = excluded.bytes, final = 1, seq = excluded.seq, created_us = excluded.created_us,"
        " started_us = excluded.started_us, finished_us = excluded.finished_us",
        "sssisssss"
        "hsssssiiii",
        pl_json_str(o, "run"), pl_json_str(o, "project"), pl_json_str(o, "stage"), pl_json_int(o, "version"),
        pl_json_str(o, "pipeline"), pl_json_str(o, "state"), pl_json_str(o, "reason"), pl_json_str(o, "base"),
        pl_json_str(o, "output"), &code, inputs, warnings, counts, ms, bytes, (int64_t)seq, pl_json_int(o, "created"),
        pl_json_int(o, "started"), pl_json_int(o, "finished"));
    if (r < 0)
        return r;
    r = pl_sql_int(c, err, &id, "SELECT id FROM job WHERE run = ? AND project = ? AND stage = ?", "sss", pl_json_str(o, "run"),
                   pl_json_str(o, "project"), pl_json_str(o, "stage"));
    r = r < 0 ? r : settle_results(c, id, o, err);
    r = r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM tried WHERE job = ?", "i", id);
    return r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM lease WHERE job = ?", "i", id);
}

static int apply_pack_state(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    struct pl_hash pack = hash(o, "pack");

    if (pl_streq(pl_json_str(o, "state"), PL_PACK_REVIVED) || pl_streq(pl_json_str(o, "state"), PL_PACK_GONE))
        return pl_sql_exec(c, err, "DELETE FROM pack_state WHERE project = ? AND pack = ?", "sb", pl_json_str(o, "project"),
                           ROOT(pack));
    return pl_sql_exec(c, err, "INSERT OR REPLACE INTO pack_state(project, pack, state, seq, at_us) VALUES (?, ?, ?, ?, ?)",
                       "sbsii", pl_json_str(o, "project"), ROOT(pack), pl_json_str(o, "state"), (int64_t)seq,
                       pl_json_int(o, "at"));
}

static int apply_user(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    _cleanup_free_ char *roles = dump(o, "roles", "[]");

    (void)seq;
    if (!roles)
        return pl_err_nomem(err);
    return pl_sql_exec(
        c, err,
        "INSERT INTO user(name, roles, created_us) VALUES (?, ?, ?) ON CONFLICT(name) DO UPDATE SET roles = excluded.roles",
        "ssi", pl_json_str(o, "name"), roles, pl_json_int(o, "at"));
}

static int apply_user_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(c, err, "DELETE FROM user WHERE name = ?", "s", pl_json_str(o, "name"));
}

static int apply_token(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    struct pl_hash h = hash(o, "hash");

    (void)seq;
    return pl_sql_exec(c, err,
                       "INSERT INTO token(hash, user, name, role, scope, expires_us, created_us) VALUES (?, ?, ?, ?, ?, ?, ?)",
                       "hssssii", &h, pl_json_str(o, "user"), pl_json_str(o, "name"), pl_json_str(o, "role"),
                       pl_json_str(o, "scope"), pl_json_int(o, "expires"), pl_json_int(o, "at"));
}

static int apply_token_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    struct pl_hash h = hash(o, "hash");

    (void)seq;
    return pl_sql_exec(c, err, "DELETE FROM token WHERE hash = ?", "h", &h);
}

static int apply_s3_key(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(
        c, err, "INSERT INTO s3_key(access_key, user, name, role, scope, expires_us, created_us) VALUES (?, ?, ?, ?, ?, ?, ?)",
        "sssssii", pl_json_str(o, "access_key"), pl_json_str(o, "user"), pl_json_str(o, "name"), pl_json_str(o, "role"),
        pl_json_str(o, "scope"), pl_json_int(o, "expires"), pl_json_int(o, "at"));
}

static int apply_s3_key_delete(struct pl_conn *c, const json_t *o, uint64_t seq, struct pl_err *err)
{
    (void)seq;
    return pl_sql_exec(c, err, "DELETE FROM s3_key WHERE access_key = ?", "s", pl_json_str(o, "access_key"));
}

int pl_apply_record(struct pl_conn *c, uint16_t kind, const json_t *payload, uint64_t seq, struct pl_err *err)
{
    static int (*const table[])(struct pl_conn *, const json_t *, uint64_t, struct pl_err *) = {
        [PL_RECORD_OPEN_EPOCH] = apply_epoch,
        [PL_RECORD_PROJECT] = apply_project,
        [PL_RECORD_PROJECT_DELETE] = apply_project_delete,
        [PL_RECORD_REPO] = apply_repo,
        [PL_RECORD_REPO_DELETE] = apply_repo_delete,
        [PL_RECORD_BRANCH] = apply_branch,
        [PL_RECORD_BRANCH_DELETE] = apply_branch_delete,
        [PL_RECORD_COMMIT] = apply_commit,
        [PL_RECORD_COMMIT_DELETE] = apply_commit_delete,
        [PL_RECORD_REF] = apply_ref,
        [PL_RECORD_RUN] = apply_run,
        [PL_RECORD_RUN_END] = apply_run_end,
        [PL_RECORD_PIPELINE] = apply_pipeline,
        [PL_RECORD_PIPELINE_DELETE] = apply_pipeline_delete,
        [PL_RECORD_DEFAULTS] = apply_defaults,
        [PL_RECORD_JOB] = apply_job,
        [PL_RECORD_PACK_STATE] = apply_pack_state,
        [PL_RECORD_USER] = apply_user,
        [PL_RECORD_USER_DELETE] = apply_user_delete,
        [PL_RECORD_TOKEN] = apply_token,
        [PL_RECORD_TOKEN_DELETE] = apply_token_delete,
        [PL_RECORD_S3_KEY] = apply_s3_key,
        [PL_RECORD_S3_KEY_DELETE] = apply_s3_key_delete,
        [PL_RECORD_PROJECT_OPTIONS] = apply_project_options,
        [PL_RECORD_SOURCE] = apply_source,
        [PL_RECORD_SOURCE_DELETE] = apply_source_delete,
        [PL_RECORD_PIPELINE_STATE] = apply_pipeline_state,
        [PL_RECORD_NOTIFY] = apply_notify,
        [PL_RECORD_NOTIFY_DELETE] = apply_notify_delete,
    };
    int r;

    if (kind >= PL_ARRAY_SIZE(table) || !table[kind])
        return pl_err_set(err, PL_EFORMAT, "the log has a record of kind %u, which this program cannot apply: use a newer one",
                          kind);
    r = table[kind](c, payload, seq, err);
    return r < 0 ? pl_err_wrap(err, r, "record %s", pl_record_name(kind)) : 0;
}
