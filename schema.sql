-- The whole metadata schema, version 11. SQLite is the applied image of the log (docs/format.md, "Log object"): tables marked [log] are
-- rebuilt from it exactly; the others are of this machine and this day. Times: microseconds since 1970 UTC. Hashes: 32-byte blobs.
-- Ids of runs and commits: 32 hex digits. AUTOINCREMENT where memory or files are kept by row id: no row gets another's. A later
-- version brings older files to its own (pipelined/db/writer/db_open.c); what is newer is refused.

CREATE TABLE meta (                      -- store_id, epoch, log_seq, log_hash, schema
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE project (                   -- [log]
    name       TEXT PRIMARY KEY,
    created_us INTEGER NOT NULL,
    options    TEXT NOT NULL DEFAULT '{}'   -- {"network": false}: its stages have none
) STRICT, WITHOUT ROWID;

CREATE TABLE repo (                      -- [log]
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    project     TEXT NOT NULL REFERENCES project(name),
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('input', 'output')),
    description TEXT NOT NULL DEFAULT '',
    options     TEXT NOT NULL DEFAULT '{}',
    created_us  INTEGER NOT NULL,
    UNIQUE (project, name)
) STRICT;

CREATE TABLE commit_ (                   -- [log]
    id         INTEGER PRIMARY KEY,
    repo       INTEGER NOT NULL REFERENCES repo(id) ON DELETE CASCADE,
    run        TEXT NOT NULL CHECK (length(run) = 32),
    branch     TEXT NOT NULL,
    parent     TEXT,                     -- commit id in the same repo
    object     BLOB NOT NULL,            -- hash of the commit object
    root       BLOB NOT NULL,
    attributes BLOB,
    table_root BLOB,
    owner_root BLOB,
    generation INTEGER NOT NULL,
    files      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    message    TEXT NOT NULL DEFAULT '',
    author     TEXT NOT NULL DEFAULT '',
    stage      TEXT NOT NULL DEFAULT '',
    code       BLOB,                     -- code identity of the stage that made it
    provenance TEXT NOT NULL DEFAULT '[]',
    state      TEXT NOT NULL DEFAULT 'finished' CHECK (state IN ('open', 'finished')),
    seq        INTEGER NOT NULL,         -- log object that brought it: the order that decides
    created_us INTEGER NOT NULL,
    git        TEXT NOT NULL DEFAULT '', -- of a repo with the option `git`: the git commit, 40 or 64 hex digits
    UNIQUE (run, repo)
) STRICT;
CREATE INDEX commit_by_branch ON commit_(repo, branch, seq);
CREATE INDEX commit_by_parent ON commit_(repo, parent);

CREATE TABLE commit_gone (               -- [log] commits that are no more, for whoever asks for them
    repo  INTEGER NOT NULL REFERENCES repo(id) ON DELETE CASCADE,
    run   TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    why   TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (repo, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE branch (                    -- [log]
    id         INTEGER PRIMARY KEY,
    repo       INTEGER NOT NULL REFERENCES repo(id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    head       INTEGER REFERENCES commit_(id),
    created_us INTEGER NOT NULL,
    UNIQUE (repo, name)
) STRICT;

CREATE TABLE branch_provenance (         -- [log] an output branch and the branches its stage reads
    branch INTEGER NOT NULL REFERENCES branch(id) ON DELETE CASCADE,
    source INTEGER NOT NULL REFERENCES branch(id) ON DELETE CASCADE,
    PRIMARY KEY (branch, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (                       -- [log]
    id          TEXT PRIMARY KEY CHECK (length(id) = 32),
    seq         INTEGER NOT NULL,
    ord         INTEGER NOT NULL UNIQUE,  -- 1, 2, 3 …: the order of runs, as the log has it
    stages      TEXT NOT NULL DEFAULT '[]',   -- [project, stage] to run although no input moved
    of_run      TEXT,                     -- the run whose jobs it does again
    as_branch   TEXT,                     -- its outputs go there, and it has no stages but those listed
    cause       TEXT NOT NULL DEFAULT '' CHECK (cause IN ('', 'push', 'pipeline', 'manual', 'cron', 'delete')),
    message     TEXT NOT NULL DEFAULT '',
    state       TEXT NOT NULL CHECK (state IN ('running', 'success', 'failure', 'killed')),
    reason      TEXT NOT NULL DEFAULT '',
    created_us  INTEGER NOT NULL,
    finished_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX run_open ON run(ord) WHERE state = 'running';
CREATE INDEX run_by_seq ON run(seq, ord);

CREATE TABLE pipeline (                  -- [log]
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    project    TEXT NOT NULL REFERENCES project(name),
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    source     TEXT NOT NULL DEFAULT '', -- the git repository that it follows; '' = it is set by hand
    stopped    TEXT NOT NULL DEFAULT '' CHECK (stopped IN ('', 'hand', 'source')), -- who stopped it; '' = it runs
    started_seq INTEGER NOT NULL DEFAULT 0, -- log object that said last that it runs again; 0 = it was never stopped
    UNIQUE (project, name)
) STRICT;

CREATE TABLE pipeline_version (          -- [log]
    pipeline       INTEGER NOT NULL REFERENCES pipeline(id) ON DELETE CASCADE,
    version        INTEGER NOT NULL,
    user_spec      BLOB NOT NULL,        -- hash of the spec as written
    effective_spec BLOB NOT NULL,        -- hash of the spec with defaults merged
    filename       TEXT NOT NULL DEFAULT '',
    seq            INTEGER NOT NULL,
    run            TEXT NOT NULL DEFAULT '',
    created_us     INTEGER NOT NULL,
    origin         TEXT NOT NULL DEFAULT '{}', -- the git commit that it came from: source, url, branch, commit, path, author, …
    PRIMARY KEY (pipeline, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE stage (                     -- [log] one row a stage version; `current` = of the pipeline's newest version
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline      INTEGER NOT NULL REFERENCES pipeline(id) ON DELETE CASCADE,
    version       INTEGER NOT NULL,
    position      INTEGER NOT NULL,
    project       TEXT NOT NULL,
    name          TEXT NOT NULL,         -- also its output repo
    branch        TEXT NOT NULL DEFAULT 'master',
    spec          TEXT NOT NULL,
    code_root     BLOB,
    code_identity BLOB NOT NULL,
    git           TEXT NOT NULL DEFAULT '{}',
    current       INTEGER NOT NULL CHECK (current IN (0, 1)),
    UNIQUE (pipeline, version, name)
) STRICT;
CREATE UNIQUE INDEX stage_current ON stage(project, name) WHERE current = 1;
CREATE INDEX stage_by_name ON stage(pipeline, name, version);

CREATE TABLE defaults (                  -- [log]
    scope TEXT PRIMARY KEY,              -- 'cluster' or 'project/NAME'
    spec  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE job (                       -- final results [log]; rows of unfinished jobs are of this machine
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run           TEXT NOT NULL,
    project       TEXT NOT NULL,
    stage         TEXT NOT NULL,
    version       INTEGER NOT NULL,
    pipeline      TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('created', 'starting', 'running', 'finishing', 'success', 'failure', 'killed',
                                                 'unrunnable')),
    reason        TEXT NOT NULL DEFAULT '',
    base          TEXT NOT NULL DEFAULT '',   -- output commit whose table was reused
    output        TEXT NOT NULL DEFAULT '',   -- output commit id, '' when none was made
    code          BLOB,
    inputs        TEXT NOT NULL DEFAULT '[]',
    warnings      TEXT NOT NULL DEFAULT '[]',
    counts        TEXT NOT NULL DEFAULT '{}',    -- datums: total, reused, done, failed, attempts
    ms            TEXT NOT NULL DEFAULT '{}',        -- wait, fetch, compute, upload, gpu; rusage sums
    bytes         TEXT NOT NULL DEFAULT '{}',     -- in, out
    live          INTEGER NOT NULL DEFAULT 0,      -- the scheduler's number while it is unfinished
    planned       INTEGER NOT NULL DEFAULT 0 CHECK (planned IN (0, 1)),
    final         INTEGER NOT NULL DEFAULT 0 CHECK (final IN (0, 1)),
    kept          INTEGER NOT NULL DEFAULT 0 CHECK (kept IN (0, 1)), -- it failed or was killed; what it did lies in `result` still
    seq           INTEGER NOT NULL DEFAULT 0,
    created_us    INTEGER NOT NULL,
    started_us    INTEGER,
    finished_us   INTEGER,
    UNIQUE (run, project, stage)
) STRICT;
CREATE INDEX job_by_stage ON job(project, stage, id);
CREATE INDEX job_open ON job(id) WHERE final = 0;
CREATE INDEX job_kept ON job(project, stage, id) WHERE kept = 1;

CREATE TABLE result (                    -- results of unfinished jobs: what a restart need not do again; and of kept ones
    job  INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    id   INTEGER NOT NULL,
    rows BLOB NOT NULL,                  -- JSON [[number of the row, result, datum key]…], zstd
    PRIMARY KEY (job, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (                    -- workers that were started and are not known to be gone
    id          INTEGER PRIMARY KEY,
    stage       INTEGER NOT NULL,        -- stage.id: the version it serves
    incarnation TEXT NOT NULL DEFAULT '', -- '': it never attached
    pod         INTEGER NOT NULL DEFAULT 0, -- 0 a process, 1 a pod without GPUs, 2 with those of its stage
    gpus        TEXT NOT NULL DEFAULT '[]', -- slots of this machine
    host        TEXT NOT NULL DEFAULT '',
    pid         INTEGER NOT NULL DEFAULT 0,
    pid_start   INTEGER NOT NULL DEFAULT 0, -- start time in clock ticks since boot: the same pid of another process is not it
    created_us  INTEGER NOT NULL,
    network_off INTEGER NOT NULL DEFAULT 0 CHECK (network_off IN (0, 1)) -- it was started while its project had the network off
) STRICT;

CREATE TABLE checkpoint (                -- what an attempt that did not succeed left for the next one; not logged
    project TEXT NOT NULL,
    stage   TEXT NOT NULL,
    key     BLOB NOT NULL,               -- datum key
    root    BLOB NOT NULL,               -- of a tree
    at_us   INTEGER NOT NULL,
    PRIMARY KEY (project, stage, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE lease (                     -- tasks that are leased
    task     INTEGER PRIMARY KEY,
    fence    INTEGER NOT NULL,
    job      INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    worker   INTEGER NOT NULL,
    rows     TEXT NOT NULL,     -- [[lo, hi]…] of the job's rows
    failures INTEGER NOT NULL,
    losses   INTEGER NOT NULL,
    seq      INTEGER NOT NULL DEFAULT 0, -- of the log when it was given: what was condemned later waits for its end; moves up (session_tx.h)
    renewed_seq INTEGER NOT NULL DEFAULT 0, -- of the log when that was last said
    leased_us INTEGER NOT NULL DEFAULT 0 -- since when the time of its worker is in no job's totals: moves up with each RESULT of the worker; 0 = not known
) STRICT;
CREATE INDEX lease_by_job ON lease(job);

CREATE TABLE tried (                     -- unfinished jobs: what rows without a result went through; the newest of a row counts
    id       INTEGER PRIMARY KEY,
    job      INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    rows     TEXT NOT NULL,     -- [[lo, hi]…] of the job's rows
    failures INTEGER NOT NULL,
    losses   INTEGER NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('waiting', 'failed', 'recovered')),
    reason   TEXT NOT NULL DEFAULT ''   -- of the first row, when it failed
) STRICT;
CREATE INDEX tried_by_job ON tried(job);

CREATE TABLE attempt (                   -- attempts at datums: of a job the first 1,000 failed, the first 1,000 good and the first 1,000 lost ones
    job         INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    datum       BLOB NOT NULL,           -- datum id
    attempt     INTEGER NOT NULL,
    fence       INTEGER NOT NULL DEFAULT 0, -- of the lease: an attempt that was lost with its worker has the number of the next one
    state       TEXT NOT NULL CHECK (state IN ('success', 'failed', 'lost')),
    exit_code   INTEGER,
    signal      INTEGER,
    oom         INTEGER NOT NULL DEFAULT 0,
    timed_out   INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    tail        TEXT NOT NULL DEFAULT '',
    detail      TEXT NOT NULL DEFAULT '{}',      -- paths, ms, bytes, rusage, gpu, node, worker; of pods pod and image_id
    finished_us INTEGER NOT NULL,
    unnamed     INTEGER,                 -- of pods: the worker, until it is known in which image it runs
    PRIMARY KEY (job, datum, attempt, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_unnamed ON attempt(unnamed) WHERE unnamed IS NOT NULL;

CREATE TABLE job_worker (                -- workers that served a job: of a job the newest 1,000 lost ones and the newest 1,000 others
    id         INTEGER PRIMARY KEY,
    job        INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    worker     INTEGER NOT NULL,
    lost       INTEGER NOT NULL CHECK (lost IN (0, 1)), -- it ended, or was killed, before its work was done
    pod        TEXT NOT NULL DEFAULT '', -- '' = it was a process
    node       TEXT NOT NULL DEFAULT '', -- '' = no node took its pod
    started_us INTEGER NOT NULL,         -- when it began to serve the job
    ended_us   INTEGER NOT NULL,         -- when it ended, or went on to another job
    reason     TEXT NOT NULL DEFAULT '',
    tasks      INTEGER NOT NULL DEFAULT 0,  -- how many tasks of the job it was given
    held       TEXT NOT NULL DEFAULT '[]',  -- leases that were lost with it: [[task, fence, number of datums]…], at most 16
    gpus       INTEGER NOT NULL DEFAULT 0,
    gpu_ms     INTEGER NOT NULL DEFAULT 0   -- GPUs × time on a node, for this job
) STRICT;
CREATE INDEX job_worker_by_job ON job_worker(job, lost, id);

CREATE TABLE open_end (                  -- of the last 1,000 open commits that made no commit: how they ended
    id      INTEGER PRIMARY KEY,
    commit_ TEXT NOT NULL UNIQUE,       -- 32 hex digits
    project TEXT NOT NULL,
    repo    TEXT NOT NULL,
    branch  TEXT NOT NULL,
    change  TEXT NOT NULL CHECK (change IN ('unchanged', 'dropped')),
    head    TEXT NOT NULL,              -- unchanged: the branch's commit, which held all of it; '' = it has none
    reason  TEXT NOT NULL
) STRICT;

CREATE TABLE event (
    id    INTEGER PRIMARY KEY,         -- the newest row is never deleted: no id comes twice
    at_us INTEGER NOT NULL,
    type  TEXT NOT NULL,
    data  TEXT NOT NULL CHECK (length(data) <= 8192)
) STRICT;

CREATE TABLE gpu_span (                  -- what the GPUs did in the last 24 hours; left out of checkpoints
    from_us INTEGER PRIMARY KEY,
    to_us   INTEGER NOT NULL,
    series  TEXT NOT NULL               -- [{node, product, slot, capacity, measured, busy, by}…], in GPU-milliseconds (gpus/gpu_ledger.h)
) STRICT;

CREATE TABLE metric (                    -- lines of metrics.jsonl
    job   INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    id    INTEGER NOT NULL,
    datum BLOB NOT NULL,
    at_us INTEGER NOT NULL,
    data  TEXT NOT NULL CHECK (length(data) <= 1024),
    fence INTEGER,                       -- the lease under which it came, and
    line  INTEGER,                       -- which it is of the datum's: one that comes twice is known by both. NULL: its worker numbers none
    PRIMARY KEY (job, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX metric_line ON metric(job, datum, fence, line) WHERE fence IS NOT NULL;

CREATE TABLE session (                   -- writers and readers of packs
    id          TEXT PRIMARY KEY CHECK (length(id) = 32),
    project     TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('write', 'read')),
    opened_seq  INTEGER NOT NULL,        -- what was condemned later in the log waits for its end; moves up with renewals
    renewed_seq INTEGER NOT NULL DEFAULT 0, -- where the log was at the last renewal: opened_seq of the next one
    lease_us    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pin (                       -- packs that a session was told of, or brought
    session TEXT NOT NULL REFERENCES session(id) ON DELETE CASCADE,
    pack    BLOB NOT NULL,
    PRIMARY KEY (session, pack)
) STRICT, WITHOUT ROWID;

CREATE INDEX pin_by_pack ON pin(pack);

CREATE TABLE pack_state (                -- [log] packs that are not simply live
    project TEXT NOT NULL,
    pack    BLOB NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('condemned', 'doomed')),
    seq     INTEGER NOT NULL,            -- log object that said so
    at_us   INTEGER NOT NULL,
    PRIMARY KEY (project, pack)
) STRICT, WITHOUT ROWID;

CREATE TABLE brought_pack (              -- packs that writers put into the bucket themselves
    project TEXT NOT NULL,
    pack    BLOB NOT NULL,
    session TEXT NOT NULL,
    writer  TEXT NOT NULL,               -- 'ada', 'worker 7 of edges'
    bytes   INTEGER NOT NULL,
    at_us   INTEGER NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('expected', 'unread', 'quarantined')), -- what was read and is good has no row
    why     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (project, pack)
) STRICT, WITHOUT ROWID;

CREATE TABLE log_segment (               -- stage logs: per worker zstd segments in packs
    job         INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,
    id          INTEGER NOT NULL,
    worker      TEXT NOT NULL,
    blob        BLOB,                    -- hash once packed, NULL while in DIR/logs
    file        TEXT NOT NULL DEFAULT '',
    raw_bytes   INTEGER NOT NULL,
    entries     TEXT NOT NULL DEFAULT '[]',     -- what counts its lines (db/stage_log/log_view.h); '[]' = not counted
    created_us  INTEGER NOT NULL,
    PRIMARY KEY (job, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE user (                      -- [log]
    name       TEXT PRIMARY KEY,
    roles      TEXT NOT NULL DEFAULT '[]',   -- [[scope, role]…], scope '' = everything, 'PROJECT', 'PROJECT/REPO'
    created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE token (                     -- [log]
    hash       BLOB PRIMARY KEY,         -- SHA-256 of the token
    user       TEXT NOT NULL REFERENCES user(name) ON DELETE CASCADE,
    name       TEXT NOT NULL DEFAULT '',
    role       TEXT NOT NULL CHECK (role IN ('admin', 'writer', 'reader')), -- it allows no more than that,
    scope      TEXT NOT NULL DEFAULT '',                                    -- there
    expires_us INTEGER NOT NULL DEFAULT 0,   -- 0 = never
    created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX token_by_user ON token(user);

CREATE TABLE s3_key (                    -- [log] that there is such a key; what it takes to sign with it is in s3_secret
    access_key TEXT PRIMARY KEY,
    user       TEXT NOT NULL REFERENCES user(name) ON DELETE CASCADE,
    name       TEXT NOT NULL DEFAULT '',
    role       TEXT NOT NULL CHECK (role IN ('admin', 'writer', 'reader')),
    scope      TEXT NOT NULL DEFAULT '',
    expires_us INTEGER NOT NULL DEFAULT 0,
    created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX s3_key_by_user ON s3_key(user);

CREATE TABLE s3_secret (                 -- never logged, left out of checkpoints: after recover a key is there without its secret
    access_key TEXT PRIMARY KEY REFERENCES s3_key(access_key) ON DELETE CASCADE,
    sealed     BLOB NOT NULL             -- storage/base/seal.h, under DIR/master.key
) STRICT, WITHOUT ROWID;

CREATE TABLE login_session (             -- browsers that a login link let in; left out of checkpoints: a recovery ends them
    id         TEXT PRIMARY KEY,         -- the first 12 digits of `hash`
    hash       BLOB NOT NULL UNIQUE,     -- SHA-256 of the cookie
    token_hash BLOB NOT NULL,            -- SHA-256 of the token that the login link was made with: the session ends with it
    user       TEXT NOT NULL,            -- whose token that is; 'daemon' = the daemon's own
    peer       TEXT NOT NULL,            -- address of the browser
    agent      TEXT NOT NULL,            -- its User-Agent
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX login_session_by_user ON login_session(user, created_us);

CREATE TABLE audit (                     -- who let whom in and took what away; kept a year
    id     INTEGER PRIMARY KEY,
    at_us  INTEGER NOT NULL,
    who    TEXT NOT NULL,                -- user, 'daemon', 'worker 7'; '' = nobody that is known
    token  TEXT NOT NULL DEFAULT '',     -- id of the token
    peer   TEXT NOT NULL DEFAULT '',     -- address
    verb   TEXT NOT NULL,
    target TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE source (                    -- [log] watched git repositories
    name       TEXT PRIMARY KEY,
    project    TEXT NOT NULL REFERENCES project(name),
    spec       TEXT NOT NULL,            -- {git, branch, path, interval, prune, hook_secret, paused}
    created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE source_state (              -- what this machine last saw of a source
    name       TEXT PRIMARY KEY REFERENCES source(name) ON DELETE CASCADE,
    state      TEXT NOT NULL,            -- following, invalid, unreachable
    error      TEXT NOT NULL DEFAULT '',
    seen       TEXT NOT NULL DEFAULT '', -- the commit at the branch's tip
    applied    TEXT NOT NULL DEFAULT '', -- the commit whose specs run
    details    TEXT NOT NULL DEFAULT '{}', -- author, subject and time of `seen`; warnings
    looked_us  INTEGER NOT NULL DEFAULT 0,
    changed_us INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE repo_state (                -- repos with the option `git`: what this machine last saw of the git repository
    repo       INTEGER PRIMARY KEY REFERENCES repo(id) ON DELETE CASCADE,
    state      TEXT NOT NULL,            -- following, invalid, unreachable
    error      TEXT NOT NULL DEFAULT '',
    seen       TEXT NOT NULL DEFAULT '', -- the commit at the branch's tip
    warnings   TEXT NOT NULL DEFAULT '[]', -- about the files of the repo's head
    looked_us  INTEGER NOT NULL DEFAULT 0,
    changed_us INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE notify (                    -- [log] rules that send events of a project to a URL
    name       TEXT PRIMARY KEY,
    project    TEXT NOT NULL REFERENCES project(name) ON DELETE CASCADE,
    spec       TEXT NOT NULL,            -- {on, url, format, secret, repo}
    created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notify_state (              -- how far the deliveries of a rule have come (db/tx/notify_tx.h)
    name       TEXT PRIMARY KEY REFERENCES notify(name) ON DELETE CASCADE,
    cursor     INTEGER NOT NULL,         -- event.id of the last event that is done
    part       TEXT NOT NULL DEFAULT '', -- the event after it is delivered up to this path
    sent       INTEGER NOT NULL DEFAULT 0,
    given_up   INTEGER NOT NULL DEFAULT 0,
    missed     INTEGER NOT NULL DEFAULT 0, -- events given up since the last delivery
    gap        TEXT NOT NULL DEFAULT '',   -- why others may be missing since then
    failures   INTEGER NOT NULL DEFAULT 0, -- failed attempts in a row
    sent_us    INTEGER NOT NULL DEFAULT 0,
    sent_ms    INTEGER NOT NULL DEFAULT 0,
    sent_event TEXT NOT NULL DEFAULT '',
    error_us   INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
