-- Instants and durations are milliseconds; instants count from 1970-01-01T00:00:00Z.

-- Facts about the file (namespace '') and about each namespace in it.
CREATE TABLE meta (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  value     ANY  NOT NULL,
  PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- The texts of cadences and policies. A million schedules have a few hundred of them, so each is stored once and
-- declarations refer to it. An edit by hand changes the text for every declaration that refers to it, and makes
-- the checksum of each of them wrong.
CREATE TABLE texts (
  number INTEGER PRIMARY KEY,  -- the first 63 bits of the sha256 of the text
  text   TEXT    NOT NULL
) STRICT;

-- The declared part of a schedule. A number is never used again, so a schedule that is removed and declared again
-- is a new one.
CREATE TABLE declarations (
  number         INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace      TEXT    NOT NULL,
  id             TEXT    NOT NULL,
  task           TEXT    NOT NULL,
  payload        TEXT    NOT NULL,
  cadence_number INTEGER NOT NULL,  -- in texts
  policy_number  INTEGER NOT NULL,  -- in texts
  window_start   INTEGER,
  window_end     INTEGER,
  paused         INTEGER NOT NULL,
  pause_until    INTEGER,           -- when a pause ends by itself; NULL: only a user ends it
  checksum       INTEGER NOT NULL,  -- CRC-32 of the declaration, from id to pause_until, with the texts themselves
  damage         TEXT,              -- why this row cannot be read; the row is kept and the schedule does not run
  UNIQUE (namespace, id)
) STRICT;

CREATE INDEX declarations_damaged ON declarations (namespace) WHERE damage IS NOT NULL;
CREATE INDEX declarations_paused ON declarations (namespace, id) WHERE paused = 1;

-- The part of a schedule that changes with every run, in a table of its own because small rows are cheap to rewrite.
CREATE TABLE states (
  number         INTEGER PRIMARY KEY,
  namespace      TEXT    NOT NULL,
  cursor         INTEGER NOT NULL,  -- every tick up to here is decided
  runs_started   INTEGER NOT NULL,
  attempted_at   INTEGER,
  succeeded_at   INTEGER,
  failed_at      INTEGER,
  ended_at       INTEGER,
  skipped_at     INTEGER,           -- the first tick of the skipped range that may still grow, its reason and length
  skipped_reason TEXT,
  skipped_ticks  INTEGER,
  quarantine     TEXT,
  decided_until  INTEGER NOT NULL DEFAULT 0,  -- ticks up to here were decided before the clock was set back
  wake_at        INTEGER,           -- when the engine looks at the schedule again
  idle_wake_at   INTEGER,           -- becomes wake_at when the only open run ends
  blocked        INTEGER NOT NULL DEFAULT 0,  -- a tick waits for a run in flight, or for its capacity group
  capacity_group TEXT,
  version        INTEGER NOT NULL,
  pruned_until   INTEGER NOT NULL DEFAULT 0,  -- ticks up to here are decided; their rows may be deleted
  -- A schedule without a ledger nearly always has one run at a time, and its state holds all facts of that run:
  -- the run has a row in `runs` only when there is more to record.
  inline_at      INTEGER,           -- the tick of that run
  inline_epoch   INTEGER            -- the epoch that launched it, at attempted_at
) STRICT;

CREATE INDEX states_due ON states (namespace, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX states_blocked ON states (namespace, capacity_group) WHERE blocked = 1;
-- The schedules that the overview shows first.
CREATE INDEX states_troubled ON states (namespace)
  WHERE quarantine IS NOT NULL OR failed_at > coalesce(succeeded_at, 0)
    OR (skipped_ticks >= 3 AND skipped_reason <> 'paused');

-- The ledger, in the order of time: new rows go to its end, however long the history of each schedule is.
CREATE TABLE runs (
  schedule       INTEGER NOT NULL,  -- the number of the declaration
  run_at         INTEGER NOT NULL,
  kind           TEXT    NOT NULL,
  status         TEXT    NOT NULL,
  phase          TEXT    NOT NULL,
  fire_at        INTEGER NOT NULL,
  reason         TEXT,
  attempt        INTEGER NOT NULL,
  epoch          INTEGER NOT NULL,
  started_at     INTEGER,
  ended_at       INTEGER,
  run_until      INTEGER,
  ticks          INTEGER NOT NULL,
  run_id         TEXT,
  detail         TEXT,
  updated_at     INTEGER,
  task_failures  INTEGER NOT NULL DEFAULT 0,  -- attempts that ended because the task failed
  backfill       TEXT,              -- the overlap policy of a past tick that a user asked for
  key            BLOB,              -- the sha256 under which executors report
  created_at     INTEGER,
  input          TEXT,              -- what this run alone is given, as JSON
  capacity_group TEXT,
  PRIMARY KEY (run_at, schedule, kind)
) STRICT, WITHOUT ROWID;

-- Open runs are found by runs_open, so only ended rows need an entry in runs_ended.
CREATE INDEX runs_ended ON runs (schedule, run_at, kind) WHERE phase = 'ended';
CREATE INDEX runs_open ON runs (schedule) WHERE phase <> 'ended';
CREATE INDEX runs_capacity ON runs (capacity_group)
  WHERE capacity_group IS NOT NULL AND phase IN ('launched', 'accepted');
-- For the newest failures of all schedules.
CREATE INDEX runs_failed ON runs (run_at, schedule, kind) WHERE status = 'FAILED';
-- Stretches of skipped ticks, which may have begun long before the time that is asked about.
CREATE INDEX runs_stretches ON runs (run_until) WHERE run_until IS NOT NULL;
-- Runs of schedules without a ledger have no key, and no entry here.
CREATE INDEX runs_key ON runs (key) WHERE key IS NOT NULL;

-- Facts about a schedule that people want to know and no decision needs.
CREATE TABLE notes (
  number     INTEGER PRIMARY KEY,
  updated_at INTEGER NOT NULL,  -- when the schedule was last declared, paused or resumed
  pause_note TEXT,
  paused_at  INTEGER,           -- when it was paused, and by whom; NULL while it is not paused
  paused_by  TEXT
) STRICT;

-- The names and values by which schedules are found, such as ('user', 'ada'), in the order of the ids: a page of a
-- filtered list is one range of this table.
CREATE TABLE facets (
  namespace TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  value     TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  number    INTEGER NOT NULL,
  PRIMARY KEY (namespace, name, value, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX facets_number ON facets (number);

-- Deleting a declaration deletes everything about it, also when a person does it by hand.
CREATE TRIGGER declarations_deleted AFTER DELETE ON declarations BEGIN
  DELETE FROM states WHERE number = old.number;
  DELETE FROM runs WHERE schedule = old.number;
  DELETE FROM notes WHERE number = old.number;
  DELETE FROM facets WHERE number = old.number;
END;

-- The DAGs of the service, by id and version. All versions of an id have the same owner.
CREATE TABLE workflows (
  namespace   TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  owner       TEXT    NOT NULL,
  dag         TEXT    NOT NULL,
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (namespace, workflow_id, version)
) STRICT, WITHOUT ROWID;

-- Runs that were started outside the ledger, by the key of the caller, so that each is started once.
CREATE TABLE starts (
  namespace  TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX starts_by_age ON starts (namespace, started_at);

-- For people: each schedule in one line, with readable times. LEFT JOIN, here and below, shows a schedule whose
-- text is missing.
CREATE VIEW overview AS
SELECT
  declarations.namespace, id, task, text AS cadence, paused,
  datetime(wake_at / 1000, 'unixepoch') AS wakes,
  datetime(cursor / 1000, 'unixepoch') AS decided_until,
  datetime(attempted_at / 1000, 'unixepoch') AS attempted,
  datetime(succeeded_at / 1000, 'unixepoch') AS succeeded,
  datetime(failed_at / 1000, 'unixepoch') AS failed,
  coalesce(damage, quarantine) AS problem
FROM declarations
JOIN states ON states.number = declarations.number AND states.namespace = declarations.namespace
LEFT JOIN texts ON texts.number = cadence_number;

-- For people: the schedules of the service, one line each, with readable times.
CREATE VIEW schedules AS
SELECT
  id AS schedule_id,
  payload ->> '$.workflow_id' AS workflow_id,
  payload ->> '$.version' AS version,
  payload ->> '$.user_id' AS user_id,
  cadences.text ->> '$.text' AS cron_expr,
  replace(cadences.text ->> '$.zone', 'zoneinfo:', '') AS timezone,
  strftime('%Y-%m-%dT%H:%M:%fZ', window_start / 1000.0, 'unixepoch') AS start_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', window_end / 1000.0, 'unixepoch') AS end_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(idle_wake_at, wake_at) / 1000.0, 'unixepoch') AS next_run_at,
  paused,
  policies.text ->> '$.jitter' AS jitter_ms,
  policies.text ->> '$.overlap' AS overlap_policy,
  policies.text ->> '$.catch_up' AS catchup_policy,
  strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at,
  pause_note,
  strftime('%Y-%m-%dT%H:%M:%fZ', paused_at / 1000.0, 'unixepoch') AS paused_at,
  paused_by,
  strftime('%Y-%m-%dT%H:%M:%fZ', pause_until / 1000.0, 'unixepoch') AS pause_until,
  payload -> '$.labels' AS labels,
  coalesce(damage, quarantine) AS problem,
  declarations.namespace
FROM declarations
JOIN states ON states.number = declarations.number
LEFT JOIN texts AS cadences ON cadences.number = cadence_number
LEFT JOIN texts AS policies ON policies.number = policy_number
LEFT JOIN notes ON notes.number = declarations.number
WHERE task = 'workflow' AND json_valid(payload)
  AND json_valid(coalesce(cadences.text, 'null')) AND json_valid(coalesce(policies.text, 'null'));

-- For people: the runs of the service, one line each, with readable times.
CREATE VIEW schedule_runs AS
SELECT
  lower(hex(key)) AS idempotency_key,
  id AS schedule_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1000.0, 'unixepoch') AS run_at,
  status,
  run_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', fire_at / 1000.0, 'unixepoch') AS fire_at,
  reason,
  attempt,
  phase,
  iif(kind = 'manual', 'manual', iif(backfill IS NULL, 'schedule', 'backfill')) AS "trigger",
  strftime('%Y-%m-%dT%H:%M:%fZ', run_until / 1000.0, 'unixepoch') AS run_until,
  ticks,
  detail,
  namespace
FROM runs JOIN declarations ON number = schedule
WHERE task = 'workflow';
