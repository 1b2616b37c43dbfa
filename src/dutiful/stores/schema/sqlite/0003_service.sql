-- The name `schedules` is what people look for; the declarations themselves are written for programs.
ALTER TABLE schedules RENAME TO declarations;
DROP INDEX schedules_damaged;
CREATE INDEX declarations_damaged ON declarations (namespace) WHERE damage IS NOT NULL;

-- What people want to know of a schedule and no decision needs.
CREATE TABLE notes (
  number     INTEGER PRIMARY KEY,
  updated_at INTEGER NOT NULL,  -- when somebody last declared, paused or resumed it
  pause_note TEXT
) STRICT;

DROP TRIGGER schedules_deleted;
CREATE TRIGGER declarations_deleted AFTER DELETE ON declarations BEGIN
  DELETE FROM states WHERE number = old.number;
  DELETE FROM runs WHERE schedule = old.number;
  DELETE FROM notes WHERE number = old.number;
END;

ALTER TABLE runs ADD COLUMN backfill TEXT;       -- somebody asked for this past tick, under this overlap policy
ALTER TABLE runs ADD COLUMN key BLOB;            -- the sha256 by which others speak of a run
ALTER TABLE runs ADD COLUMN created_at INTEGER;
ALTER TABLE runs ADD COLUMN updated_at INTEGER;
-- Runs that leave no ledger have no key, and no entry here.
CREATE INDEX runs_key ON runs (key) WHERE key IS NOT NULL;

-- The DAGs of the service, by id and version.
CREATE TABLE workflows (
  namespace   TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  dag         TEXT    NOT NULL,
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (namespace, workflow_id, version)
) STRICT, WITHOUT ROWID;

-- For people: the schedules of the service, one line each, with times they can read.
CREATE VIEW schedules AS
SELECT
  id AS schedule_id,
  payload ->> '$.workflow_id' AS workflow_id,
  payload ->> '$.version' AS version,
  payload ->> '$.user_id' AS user_id,
  cadence ->> '$.text' AS cron_expr,
  replace(cadence ->> '$.zone', 'zoneinfo:', '') AS timezone,
  strftime('%Y-%m-%dT%H:%M:%fZ', window_start / 1000.0, 'unixepoch') AS start_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', window_end / 1000.0, 'unixepoch') AS end_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(rest_at, wake_at) / 1000.0, 'unixepoch') AS next_run_at,
  paused,
  policy ->> '$.jitter' AS jitter_ms,
  policy ->> '$.overlap' AS overlap_policy,
  policy ->> '$.catch_up' AS catchup_policy,
  strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at,
  pause_note,
  payload -> '$.labels' AS labels,
  coalesce(damage, quarantine) AS problem,
  declarations.namespace
FROM declarations JOIN states USING (number) LEFT JOIN notes USING (number)
WHERE task = 'workflow' AND json_valid(payload) AND json_valid(cadence) AND json_valid(policy);

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
