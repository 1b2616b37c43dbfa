-- The texts of cadences and policies. A million schedules have a few hundred of them, so each is here once and
-- the declarations refer to it. Who edits one by hand edits it for all that refer to it, and the checksums of
-- all of them are wrong then.
CREATE TABLE texts (
  number INTEGER PRIMARY KEY,  -- the first 63 bits of the sha256 of the text
  text   TEXT    NOT NULL
) STRICT;

-- As bytes, because the text of a damaged row may be none.
INSERT INTO texts
SELECT text_number(CAST(text AS BLOB)), text
FROM (SELECT cadence AS text FROM declarations UNION SELECT policy FROM declarations);

-- Nothing but people needs them, so somebody may have dropped one.
DROP VIEW IF EXISTS overview;
DROP VIEW IF EXISTS schedules;
DROP VIEW IF EXISTS schedule_runs;

CREATE TABLE shorter (
  number         INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace      TEXT    NOT NULL,
  id             TEXT    NOT NULL,
  task           TEXT    NOT NULL,
  payload        TEXT    NOT NULL,
  -- Under new names: a process of an earlier release that still runs must fail, and not read numbers as texts.
  cadence_number INTEGER NOT NULL,
  policy_number  INTEGER NOT NULL,
  window_start   INTEGER,
  window_end     INTEGER,
  paused         INTEGER NOT NULL,
  checksum       INTEGER NOT NULL,  -- CRC-32 of the declaration, from id to paused, with the texts themselves
  damage         TEXT,              -- why this schedule cannot be read; it is kept and left alone
  UNIQUE (namespace, id)
) STRICT;

INSERT INTO shorter
SELECT
  number, namespace, id, task, payload,
  text_number(CAST(cadence AS BLOB)), text_number(CAST(policy AS BLOB)),
  window_start, window_end, paused, checksum, damage
FROM declarations ORDER BY number;

-- The highest number may have been that of a schedule that is gone, and is not given again.
DELETE FROM sqlite_sequence WHERE name = 'shorter';
INSERT INTO sqlite_sequence SELECT 'shorter', seq FROM sqlite_sequence WHERE name = 'declarations';
DROP TABLE declarations;
-- Otherwise a view that somebody made for themselves, and that finds no declarations now, would be in the way.
PRAGMA legacy_alter_table = ON;
ALTER TABLE shorter RENAME TO declarations;
PRAGMA legacy_alter_table = OFF;

CREATE INDEX declarations_damaged ON declarations (namespace) WHERE damage IS NOT NULL;

CREATE TRIGGER declarations_deleted AFTER DELETE ON declarations BEGIN
  DELETE FROM states WHERE number = old.number;
  DELETE FROM runs WHERE schedule = old.number;
  DELETE FROM notes WHERE number = old.number;
END;

-- For people: each schedule in one line, with times they can read.
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
-- Left, here and below: a schedule whose text is gone is shown without it.
LEFT JOIN texts ON texts.number = cadence_number;

-- For people: the schedules of the service, one line each, with times they can read.
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
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(rest_at, wake_at) / 1000.0, 'unixepoch') AS next_run_at,
  paused,
  policies.text ->> '$.jitter' AS jitter_ms,
  policies.text ->> '$.overlap' AS overlap_policy,
  policies.text ->> '$.catch_up' AS catchup_policy,
  strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at,
  pause_note,
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
