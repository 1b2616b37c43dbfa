-- Instants and durations are milliseconds; instants count from 1970-01-01T00:00:00Z, by the clock of the database.
-- Ids are in the collation "C", which is the order of Python. Numbers are bigint, so that rows are the same as in SQLite.

CREATE TABLE migrations (
  number     int         PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE namespaces (
  namespace     text   COLLATE "C" PRIMARY KEY,
  shards        int    NOT NULL,            -- how many shards it has, fixed when it is created
  version_floor bigint NOT NULL DEFAULT 0,  -- the highest version of a schedule that was removed
  door          text                        -- the part of dutiful that owns the namespace
);

-- Who leads each shard. A session advisory lock gives the right to lead; this row gives the fence that every write of
-- a leader is checked against. A leader locks the row FOR SHARE, which leaves no dead row version behind.
CREATE TABLE shards (
  shard     int    GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace text   COLLATE "C" NOT NULL,
  place     int    NOT NULL,
  epoch     bigint NOT NULL DEFAULT 0,  -- grows with every new leadership
  turn      bigint NOT NULL DEFAULT 0,  -- grows within an epoch when the fate of a statement is unknown
  owner     text,                       -- the last leader, unless it released the shard
  pid       int,                        -- the process of the owner, on its own host
  since     bigint,                     -- when the owner began to lead
  UNIQUE (namespace, place)
) WITH (fillfactor = 10);

-- The processes of a cluster, for people. A process is a member while its session holds the lock of its node.
CREATE TABLE nodes (
  node      int     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace text    COLLATE "C" NOT NULL,
  owner     text    NOT NULL UNIQUE,
  name      text    NOT NULL,
  release   text    NOT NULL,
  pid       int     NOT NULL,
  joined_at bigint  NOT NULL,
  draining  boolean NOT NULL DEFAULT false
);

-- The texts of cadences and policies. A million schedules have a few hundred of them, so each is stored once and
-- declarations refer to it by the first 63 bits of its sha256.
CREATE TABLE texts (
  number bigint PRIMARY KEY,
  text   text   NOT NULL
);

-- The declared part of a schedule. A number is never used again, so a schedule that is removed and declared again
-- is a new one.
CREATE TABLE declarations (
  number         bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace      text     COLLATE "C" NOT NULL,
  id             text     COLLATE "C" NOT NULL,
  task           text     NOT NULL,
  payload        text     NOT NULL,
  cadence_number bigint   NOT NULL,  -- in texts
  policy_number  bigint   NOT NULL,  -- in texts
  window_start   bigint,
  window_end     bigint,
  paused         smallint NOT NULL,
  pause_until    bigint,             -- when a pause ends by itself; NULL: only a user ends it
  checksum       bigint   NOT NULL,  -- CRC-32 of the declaration, from id to pause_until, with the texts themselves
  owner          text     COLLATE "C",  -- the user whom the payload names
  damage         text,               -- why this row cannot be read; the row is kept and the schedule does not run
  UNIQUE (namespace, id)
);

CREATE INDEX declarations_damaged ON declarations (namespace) WHERE damage IS NOT NULL;
CREATE INDEX declarations_paused ON declarations (namespace, id) WHERE paused = 1;

-- The part of a schedule that changes with every run. Half of each page stays free, so that a row that is rewritten
-- stays on its page.
CREATE TABLE states (
  number         bigint  PRIMARY KEY,  -- no foreign key: it would be checked row by row
  shard          int     NOT NULL,
  version        bigint  NOT NULL,
  cursor         bigint  NOT NULL,     -- every tick up to here is decided
  runs_started   bigint  NOT NULL,
  wake_at        bigint,               -- when the engine looks at the schedule again
  idle_wake_at   bigint,               -- becomes wake_at when the only open run ends
  attempted_at   bigint,
  succeeded_at   bigint,
  failed_at      bigint,
  ended_at       bigint,
  skipped_at     bigint,               -- the first tick of the skipped range that may still grow
  skipped_ticks  bigint,
  decided_until  bigint  NOT NULL DEFAULT 0,
  pruned_until   bigint  NOT NULL DEFAULT 0,
  inline_at      bigint,               -- the tick of a run that has no row of its own
  inline_epoch   bigint,
  -- Where to look for the runs that have not ended: an index on the phase of a run would be written at every change.
  open_from      bigint,               -- no open run has an earlier tick
  open_runs      bigint  NOT NULL DEFAULT 0,
  in_flight      bigint  NOT NULL DEFAULT 0,
  blocked        boolean NOT NULL DEFAULT false,  -- a tick waits for a run in flight, or for its capacity group
  skipped_reason text,
  quarantine     text,
  capacity_group text    COLLATE "C",
  -- Whether a person should look at the schedule. A column of its own, because an index over the columns that it is
  -- made from would be written whenever a run ends; this value rarely changes.
  troubled       boolean GENERATED ALWAYS AS (
    quarantine IS NOT NULL OR coalesce(failed_at > coalesce(succeeded_at, 0), false)
    OR coalesce(skipped_ticks >= 3 AND skipped_reason <> 'paused', false)
  ) STORED
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX states_due ON states (shard, wake_at, number);
CREATE INDEX states_troubled ON states (shard) WHERE troubled;
CREATE INDEX states_group ON states (shard, capacity_group) WHERE capacity_group IS NOT NULL;

-- The ledger, in the order of time. No index names a column that changes when a run ends, so that its row is
-- rewritten on its page and no index is touched (a heap-only update).
CREATE TABLE runs (
  schedule       bigint NOT NULL,      -- the number of the declaration
  run_at         bigint NOT NULL,
  fire_at        bigint NOT NULL,
  epoch          bigint NOT NULL,
  started_at     bigint,
  ended_at       bigint,
  run_until      bigint,
  created_at     bigint,
  updated_at     bigint,
  attempt        bigint NOT NULL,
  ticks          bigint NOT NULL,
  task_failures  bigint NOT NULL DEFAULT 0,
  kind           text   COLLATE "C" NOT NULL,
  status         text   NOT NULL,
  phase          text   NOT NULL,
  reason         text,
  run_id         text,
  detail         text,
  backfill       text,                 -- the overlap policy of a past tick that a user asked for
  key            bytea,                -- the sha256 under which executors report
  input          text,                 -- what this run alone is given, as JSON
  -- A column of its own, so that the end of a run that did not fail touches no index.
  failed         boolean GENERATED ALWAYS AS (status = 'FAILED') STORED,
  PRIMARY KEY (run_at, schedule, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX runs_schedule ON runs (schedule, run_at);
CREATE INDEX runs_key ON runs (key) WHERE key IS NOT NULL;
CREATE INDEX runs_failed ON runs (run_at, schedule, kind) WHERE failed;
-- Stretches of skipped ticks, which may have begun long before the time that is asked about.
CREATE INDEX runs_stretches ON runs (run_until) WHERE run_until IS NOT NULL;

-- Facts about a schedule that people want to know and no decision needs.
CREATE TABLE notes (
  number     bigint PRIMARY KEY,
  updated_at bigint NOT NULL,  -- when the schedule was last declared, paused or resumed
  pause_note text,
  paused_at  bigint,           -- when it was paused, and by whom; NULL while it is not paused
  paused_by  text
);

-- The names and values by which schedules are found, such as ('user', 'ada'), in the order of the ids.
CREATE TABLE facets (
  namespace text   COLLATE "C" NOT NULL,
  name      text   COLLATE "C" NOT NULL,
  value     text   COLLATE "C" NOT NULL,
  id        text   COLLATE "C" NOT NULL,
  number    bigint NOT NULL,
  PRIMARY KEY (namespace, name, value, id)
);

CREATE INDEX facets_number ON facets (number);

-- The DAGs of the service, by id and version. All versions of an id have the same owner.
CREATE TABLE workflows (
  namespace   text   COLLATE "C" NOT NULL,
  workflow_id text   COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  owner       text   COLLATE "C" NOT NULL,
  dag         text   NOT NULL,
  updated_at  bigint NOT NULL,
  PRIMARY KEY (namespace, workflow_id, version)
);

-- Runs that were started outside the ledger, by the key of the caller, so that each is started once.
CREATE TABLE starts (
  namespace  text   COLLATE "C" NOT NULL,
  key        text   COLLATE "C" NOT NULL,
  started_at bigint NOT NULL,
  PRIMARY KEY (namespace, key)
);

CREATE INDEX starts_by_age ON starts (namespace, started_at);

-- Deleting a declaration deletes everything about it, also when a person does it by hand.
CREATE FUNCTION forget_schedule() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  DELETE FROM states WHERE number = old.number;
  DELETE FROM runs WHERE schedule = old.number;
  DELETE FROM notes WHERE number = old.number;
  DELETE FROM facets WHERE number = old.number;
  RETURN NULL;
END $$;

CREATE TRIGGER declarations_deleted AFTER DELETE ON declarations FOR EACH ROW EXECUTE FUNCTION forget_schedule();

-- For the views: JSON where a text is JSON, NULL where a person has damaged it.
CREATE FUNCTION json_or_null(text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN $1::jsonb;
EXCEPTION WHEN others THEN
  RETURN NULL;
END $$;

CREATE FUNCTION instant(bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT to_timestamp($1 / 1000.0) $$;

-- For people: each schedule in one line, with readable times. LEFT JOIN, here and below, shows a schedule whose
-- text is missing.
CREATE VIEW overview AS
SELECT
  declarations.namespace, id, task, text AS cadence, paused = 1 AS paused,
  instant(wake_at) AS wakes, instant(cursor) AS decided_until, instant(attempted_at) AS attempted,
  instant(succeeded_at) AS succeeded, instant(failed_at) AS failed,
  coalesce(damage, quarantine) AS problem
FROM declarations
JOIN states ON states.number = declarations.number
LEFT JOIN texts ON texts.number = cadence_number;

-- For people: the schedules of the service, one line each, with readable times.
CREATE VIEW schedules AS
SELECT
  id AS schedule_id,
  json_or_null(payload) ->> 'workflow_id' AS workflow_id,
  json_or_null(payload) ->> 'version' AS version,
  declarations.owner AS user_id,
  json_or_null(cadences.text) ->> 'text' AS cron_expr,
  replace(json_or_null(cadences.text) ->> 'zone', 'zoneinfo:', '') AS timezone,
  instant(window_start) AS start_at,
  instant(window_end) AS end_at,
  instant(coalesce(idle_wake_at, wake_at)) AS next_run_at,
  paused = 1 AS paused,
  json_or_null(policies.text) ->> 'jitter' AS jitter_ms,
  json_or_null(policies.text) ->> 'overlap' AS overlap_policy,
  json_or_null(policies.text) ->> 'catch_up' AS catchup_policy,
  instant(updated_at) AS updated_at,
  pause_note,
  instant(paused_at) AS paused_at,
  paused_by,
  instant(pause_until) AS pause_until,
  json_or_null(payload) -> 'labels' AS labels,
  coalesce(damage, quarantine) AS problem,
  declarations.namespace
FROM declarations
JOIN states ON states.number = declarations.number
LEFT JOIN texts AS cadences ON cadences.number = cadence_number
LEFT JOIN texts AS policies ON policies.number = policy_number
LEFT JOIN notes ON notes.number = declarations.number
WHERE task = 'workflow';

-- For people: the runs of the service, one line each, with readable times.
CREATE VIEW schedule_runs AS
SELECT
  encode(key, 'hex') AS idempotency_key,
  id AS schedule_id,
  instant(run_at) AS run_at,
  status,
  run_id,
  instant(created_at) AS created_at,
  instant(updated_at) AS updated_at,
  instant(fire_at) AS fire_at,
  reason,
  attempt,
  phase,
  CASE WHEN kind = 'manual' THEN 'manual' WHEN backfill IS NULL THEN 'schedule' ELSE 'backfill' END AS trigger,
  instant(run_until) AS run_until,
  ticks,
  detail,
  namespace
FROM runs JOIN declarations ON number = schedule
WHERE task = 'workflow';
