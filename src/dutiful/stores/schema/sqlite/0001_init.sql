-- Instants and durations are milliseconds; instants count from 1970-01-01T00:00:00Z.

-- Facts about the file (namespace '') and about each namespace in it.
CREATE TABLE meta (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  value     ANY  NOT NULL,
  PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- What was declared. A number is never used again, so a schedule that is declared anew is a new one.
CREATE TABLE schedules (
  number       INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace    TEXT    NOT NULL,
  id           TEXT    NOT NULL,
  task         TEXT    NOT NULL,
  payload      TEXT    NOT NULL,
  cadence      TEXT    NOT NULL,
  policy       TEXT    NOT NULL,
  window_start INTEGER,
  window_end   INTEGER,
  paused       INTEGER NOT NULL,
  checksum     INTEGER NOT NULL,  -- CRC-32 of the declaration, from id to paused
  damage       TEXT,              -- why this row cannot be read; it is kept and left alone
  UNIQUE (namespace, id)
) STRICT;

CREATE INDEX schedules_damaged ON schedules (namespace) WHERE damage IS NOT NULL;

-- What changes with every run: apart from the declarations because small rows are cheap to rewrite.
CREATE TABLE states (
  number         INTEGER PRIMARY KEY,
  namespace      TEXT    NOT NULL,
  cursor         INTEGER NOT NULL,
  runs_started   INTEGER NOT NULL,
  attempted_at   INTEGER,
  succeeded_at   INTEGER,
  failed_at      INTEGER,
  ended_at       INTEGER,
  skipped_at     INTEGER,
  skipped_reason TEXT,
  skipped_ticks  INTEGER,
  quarantine     TEXT,
  wake_at        INTEGER,
  blocked        INTEGER NOT NULL DEFAULT 0,
  capacity_group TEXT,
  version        INTEGER NOT NULL,
  pruned_until   INTEGER NOT NULL DEFAULT 0  -- ticks up to here are decided; their rows may be gone
) STRICT;

CREATE INDEX states_due ON states (namespace, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX states_blocked ON states (namespace, capacity_group) WHERE blocked = 1;

-- The ledger, in the order of time: new rows go to its end, however long the history of each schedule is.
CREATE TABLE runs (
  schedule       INTEGER NOT NULL,
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
  capacity_group TEXT,
  PRIMARY KEY (run_at, schedule, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_schedule ON runs (schedule, run_at, kind);
CREATE INDEX runs_open ON runs (schedule) WHERE phase <> 'ended';
CREATE INDEX runs_capacity ON runs (capacity_group)
  WHERE capacity_group IS NOT NULL AND phase IN ('launched', 'accepted');

-- A schedule goes with everything about it, also when a person deletes it by hand.
CREATE TRIGGER schedules_deleted AFTER DELETE ON schedules BEGIN
  DELETE FROM states WHERE number = old.number;
  DELETE FROM runs WHERE schedule = old.number;
END;

-- For people: each schedule in one line, with times they can read.
CREATE VIEW overview AS
SELECT
  namespace, id, task, cadence, paused,
  datetime(wake_at / 1000, 'unixepoch') AS wakes,
  datetime(cursor / 1000, 'unixepoch') AS decided_until,
  datetime(attempted_at / 1000, 'unixepoch') AS attempted,
  datetime(succeeded_at / 1000, 'unixepoch') AS succeeded,
  datetime(failed_at / 1000, 'unixepoch') AS failed,
  coalesce(damage, quarantine) AS problem
FROM schedules JOIN states USING (number, namespace);
