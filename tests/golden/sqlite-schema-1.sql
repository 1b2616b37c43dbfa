PRAGMA application_id = 1685419113;
BEGIN TRANSACTION;
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
INSERT INTO "declarations" VALUES(1,'default','busy','greet','hello busy',2436003570699434547,4182838529300665068,NULL,NULL,0,NULL,341569620,NULL);
INSERT INTO "declarations" VALUES(2,'default','failing','greet','hello failing',2436003570699434547,3151282038506021353,NULL,NULL,0,NULL,559195988,NULL);
INSERT INTO "declarations" VALUES(3,'default','once','greet','hello once',193037269271375675,6148904361652813649,NULL,NULL,0,NULL,46563713,NULL);
INSERT INTO "declarations" VALUES(4,'default','paused','greet','hello paused',2436003570699434547,5264409224774440929,NULL,NULL,1,NULL,899029717,NULL);
INSERT INTO "declarations" VALUES(5,'default','period','greet','hello period',807679686962023153,5264409224774440929,NULL,NULL,0,NULL,658455482,NULL);
INSERT INTO "declarations" VALUES(6,'default','plain','greet','hello plain',2436003570699434547,5264409224774440929,NULL,NULL,0,NULL,234666954,NULL);
INSERT INTO "declarations" VALUES(7,'default','rich','report','{"to": "é日"}',5678078731533317459,8525291059798338327,1700000040000,1701000040000,0,NULL,1076625076,NULL);
INSERT INTO "declarations" VALUES(8,'default','asked','greet','hello asked',9161279673916447068,5264409224774440929,NULL,NULL,0,NULL,1723121808,NULL);
INSERT INTO "declarations" VALUES(9,'service','nightly','workflow','{"workflow_id":"report","version":3,"user_id":"ada","labels":{"team":"é日"}}',4694102313970013462,2792154975921083686,NULL,NULL,1,1701000040000,4155934851,NULL);
INSERT INTO "declarations" VALUES(10,'inline','inline','greet','hello inline',2436003570699434547,6466813108736152005,NULL,NULL,0,NULL,3196362960,NULL);
CREATE TABLE facets (
  namespace TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  value     TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  number    INTEGER NOT NULL,
  PRIMARY KEY (namespace, name, value, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  value     ANY  NOT NULL,
  PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('','schema 0001','dc46db4a288cca522d2c1e2315d23ef2795b419b0cd3bb2c4f777251f1919732');
INSERT INTO "meta" VALUES('default','clean',1);
INSERT INTO "meta" VALUES('default','epoch',1);
INSERT INTO "meta" VALUES('inline','clean',1);
INSERT INTO "meta" VALUES('inline','epoch',1);
INSERT INTO "meta" VALUES('service','clean',1);
INSERT INTO "meta" VALUES('service','epoch',1);
CREATE TABLE notes (
  number     INTEGER PRIMARY KEY,
  updated_at INTEGER NOT NULL,  -- when the schedule was last declared, paused or resumed
  pause_note TEXT,
  paused_at  INTEGER,           -- when it was paused, and by whom; NULL while it is not paused
  paused_by  TEXT
) STRICT;
INSERT INTO "notes" VALUES(9,1700000100000,'moving house',1700000100000,'ada');
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
INSERT INTO "runs" VALUES(1,1700000040000,'schedule','ENQUEUED','accepted',1700000040000,NULL,1,1,1700000040000,NULL,NULL,1,'job 7',NULL,1700000040010,0,NULL,X'A73F18EAB039B3C1886661B99F610BC9C35FAC74BDAFF85433BDD1DD727128AB',1700000040000,NULL,'agent');
INSERT INTO "runs" VALUES(2,1700000040000,'schedule','FAILED','ended',1700000045010,'task_failed',1,1,1700000040000,1700000100000,NULL,1,NULL,'exit status 1',1700000100000,1,NULL,X'EB21E414425CDFCF990D0FFE6DDBA7B76A0595C0E3B558C96D80CA63DA545D48',1700000040000,NULL,NULL);
INSERT INTO "runs" VALUES(4,1700000040000,'schedule','SKIPPED','ended',1700000040000,'paused',0,1,NULL,1700000160000,1700000160000,3,NULL,NULL,1700000160000,0,NULL,X'C158239ACB22708CB3754F151A67922056B91A63617996859EE6313491FEC9C1',1700000040000,NULL,NULL);
INSERT INTO "runs" VALUES(6,1700000040000,'schedule','SUCCESS','ended',1700000040000,NULL,1,1,1700000040000,1700000040010,NULL,1,NULL,NULL,1700000040010,0,NULL,X'52E1A4F82A692E53B4EE37C141E1F5F39B4427C16ECD058934CE165E10DC5F15',1700000040000,NULL,NULL);
INSERT INTO "runs" VALUES(5,1700000070000,'schedule','SUCCESS','ended',1700000070000,NULL,1,1,1700000100000,1700000100010,NULL,1,NULL,NULL,1700000100010,0,NULL,X'0D87A3EB27DEFB194354F9A1B583E23B75E6635E131F6CB9269979515A5507EC',1700000100000,NULL,NULL);
INSERT INTO "runs" VALUES(1,1700000100000,'schedule','ENQUEUED','accepted',1700000100000,NULL,1,1,1700000100000,NULL,NULL,1,'job 7',NULL,1700000100010,0,NULL,X'56AD288BC0535660E17914B5AB59EA40E92AF22976136CB544635C8E7705E347',1700000100000,NULL,'agent');
INSERT INTO "runs" VALUES(2,1700000100000,'schedule','FAILED','ended',1700000105010,'task_failed',1,1,1700000100000,1700000160000,NULL,1,NULL,'exit status 1',1700000160000,1,NULL,X'1B92DA03AFD54F583D95312C040740786B1F74EDBF9A26C2A3AC143F32126FA8',1700000100000,NULL,NULL);
INSERT INTO "runs" VALUES(6,1700000100000,'schedule','SUCCESS','ended',1700000100000,NULL,1,1,1700000100000,1700000100010,NULL,1,NULL,NULL,1700000100010,0,NULL,X'F7F8D13DFC1C00AE032BE1B697FEA5ADBDF3E14E36D02C475EC67D3BE3289F68',1700000100000,NULL,NULL);
INSERT INTO "runs" VALUES(9,1700000100000,'schedule','STARTED','accepted',1700000100000,NULL,1,1,1700000100000,NULL,NULL,1,'job 9',NULL,1700000100000,0,NULL,X'1ABC2CB82A69E04C2796CC9241FD98182B289D94033208B6E421FBC4AE6D711D',1700000100000,NULL,NULL);
INSERT INTO "runs" VALUES(2,1700000160000,'schedule','ENQUEUED','retry',1700000165010,'task_failed',1,1,1700000160000,1700000160010,NULL,1,NULL,'exit status 1',1700000160010,1,NULL,X'EE13C6E298A5E0DE6D0647EFF0059AAE4E503EEF44B00C57D3359127CB68C121',1700000160000,NULL,NULL);
INSERT INTO "runs" VALUES(5,1700000160000,'schedule','SUCCESS','ended',1700000160000,NULL,1,1,1700000160000,1700000160010,NULL,1,NULL,NULL,1700000160010,0,NULL,X'88C5FD44BDA2B29A07835612DFB4FF1599A582CFD28ADEA7C8CA730E6280AA67',1700000160000,NULL,NULL);
INSERT INTO "runs" VALUES(6,1700000160000,'schedule','SUCCESS','ended',1700000160000,NULL,1,1,1700000160000,1700000160010,NULL,1,NULL,NULL,1700000160010,0,NULL,X'5862356778F8AC2B60ECABD16C2EE37464B95E96E768072385975700ABC64903',1700000160000,NULL,NULL);
INSERT INTO "runs" VALUES(9,1700000160000,'schedule','SKIPPED','ended',1700000160000,'paused',0,1,NULL,1700000340000,NULL,1,NULL,NULL,1700000340000,0,NULL,X'01D1B1BBB5F5D89FB9DF1C7FCF150FB9F768D4AA74AB1F33899B381162268EA8',1700000340000,NULL,NULL);
INSERT INTO "runs" VALUES(9,1700000220000,'schedule','FAILED','ended',1700000340000,'task_failed',1,1,1700000340000,1700000341000,NULL,1,NULL,'exit status 1',1700000341000,1,'allow',X'C07E176495434AF9F492FC2A8FBF49547CD312E52D73D4ADAD1003D695AD86F1',1700000340000,NULL,NULL);
INSERT INTO "runs" VALUES(9,1700000280000,'schedule','SKIPPED','ended',1700000280000,'paused',0,1,NULL,1700000340000,1700000340000,2,NULL,NULL,1700000340000,0,NULL,X'A0259F7CE6DBB89C4AA26F9961493DDD882E436E82C169ECAB169C95C09047F1',1700000340000,NULL,NULL);
CREATE TABLE starts (
  namespace  TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
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
INSERT INTO "states" VALUES(1,'default',1700000100000,2,1700000100000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1700000220000,NULL,1,'agent',6,0,NULL,NULL);
INSERT INTO "states" VALUES(2,'default',1700000160000,3,1700000160000,NULL,1700000160010,1700000160010,NULL,NULL,NULL,NULL,0,1700000165010,NULL,0,NULL,10,0,NULL,NULL);
INSERT INTO "states" VALUES(3,'default',1700000040000,1,1700000040000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1700003640000,NULL,0,NULL,2,0,1700000040000,1);
INSERT INTO "states" VALUES(4,'default',1700000160000,0,NULL,NULL,NULL,NULL,1700000040000,'paused',3,NULL,0,1700000220000,NULL,0,NULL,4,0,NULL,NULL);
INSERT INTO "states" VALUES(5,'default',1700000160000,2,1700000160000,1700000160010,NULL,1700000160010,NULL,NULL,NULL,NULL,0,1700000250000,NULL,0,NULL,6,0,NULL,NULL);
INSERT INTO "states" VALUES(6,'default',1700000160000,3,1700000160000,1700000160010,NULL,1700000160010,NULL,NULL,NULL,NULL,0,1700000220000,NULL,0,NULL,7,0,NULL,NULL);
INSERT INTO "states" VALUES(7,'default',1700000040000,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1700100040000,NULL,0,'agent',1,0,NULL,NULL);
INSERT INTO "states" VALUES(8,'default',1699999980000,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,0,NULL,1,0,NULL,NULL);
INSERT INTO "states" VALUES(9,'service',1700000340000,2,1700000340000,NULL,1700000341000,1700000341000,NULL,NULL,NULL,NULL,0,1700000400000,NULL,0,NULL,9,0,NULL,NULL);
INSERT INTO "states" VALUES(10,'inline',1700000040000,1,1700000040000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1700000100000,NULL,0,NULL,2,0,1700000040000,1);
CREATE TABLE texts (
  number INTEGER PRIMARY KEY,  -- the first 63 bits of the sha256 of the text
  text   TEXT    NOT NULL
) STRICT;
INSERT INTO "texts" VALUES(193037269271375675,'{"v":1,"kind":"once","at":1700000040000}');
INSERT INTO "texts" VALUES(807679686962023153,'{"v":1,"kind":"every","period":90000,"anchor":"start"}');
INSERT INTO "texts" VALUES(2436003570699434547,'{"v":1,"kind":"cron","text":"* * * * *","dialect":"posix","zone":"UTC","gap":"skip","fold":"both"}');
INSERT INTO "texts" VALUES(2792154975921083686,'{"v":1,"overlap":"allow","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(3151282038506021353,'{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":{"delay":5000,"limit":2,"backoff":1},"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(4182838529300665068,'{"v":1,"overlap":"allow","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":{"group":"agent","limit":2},"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(4694102313970013462,'{"v":1,"kind":"cron","text":"*/1 * * * *","dialect":"standard","zone":"Europe/Berlin","gap":"skip","fold":"both"}');
INSERT INTO "texts" VALUES(5264409224774440929,'{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(5678078731533317459,'{"v":1,"kind":"cron","text":"30 2 * * 1-5","dialect":"standard","zone":"Europe/Berlin","gap":"run_after","fold":"first"}');
INSERT INTO "texts" VALUES(6148904361652813649,'{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":false,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(6466813108736152005,'{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":null,"queue_limit":1000,"ledger":false,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(8525291059798338327,'{"v":1,"overlap":"queue","catch_up":"spread","grace":1,"catch_up_cap":2,"jitter":3,"jitter_early":false,"retry":{"delay":4,"limit":5,"backoff":6},"launch_retry":{"delay":7,"limit":null,"backoff":8},"capacity":{"group":"agent","limit":7},"max_runs":8,"on_orphan":"give_up","run_timeout":9,"queue_limit":10,"ledger":true,"retention_age":11,"retention_rows":12,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO "texts" VALUES(9161279673916447068,'{"v":1,"kind":"on_demand"}');
CREATE TABLE workflows (
  namespace   TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  owner       TEXT    NOT NULL,
  dag         TEXT    NOT NULL,
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (namespace, workflow_id, version)
) STRICT, WITHOUT ROWID;
INSERT INTO "workflows" VALUES('service','report',3,'ada','{"nodes":["\u00e9\u65e5"]}',1700000040000);
CREATE INDEX declarations_damaged ON declarations (namespace) WHERE damage IS NOT NULL;
CREATE INDEX declarations_paused ON declarations (namespace, id) WHERE paused = 1;
CREATE INDEX states_due ON states (namespace, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX states_blocked ON states (namespace, capacity_group) WHERE blocked = 1;
CREATE INDEX states_troubled ON states (namespace)
  WHERE quarantine IS NOT NULL OR failed_at > coalesce(succeeded_at, 0)
    OR (skipped_ticks >= 3 AND skipped_reason <> 'paused');
CREATE INDEX runs_ended ON runs (schedule, run_at, kind) WHERE phase = 'ended';
CREATE INDEX runs_open ON runs (schedule) WHERE phase <> 'ended';
CREATE INDEX runs_capacity ON runs (capacity_group)
  WHERE capacity_group IS NOT NULL AND phase IN ('launched', 'accepted');
CREATE INDEX runs_failed ON runs (run_at, schedule, kind) WHERE status = 'FAILED';
CREATE INDEX runs_stretches ON runs (run_until) WHERE run_until IS NOT NULL;
CREATE INDEX runs_key ON runs (key) WHERE key IS NOT NULL;
CREATE INDEX facets_number ON facets (number);
CREATE TRIGGER declarations_deleted AFTER DELETE ON declarations BEGIN
  DELETE FROM states WHERE number = old.number;
  DELETE FROM runs WHERE schedule = old.number;
  DELETE FROM notes WHERE number = old.number;
  DELETE FROM facets WHERE number = old.number;
END;
CREATE INDEX starts_by_age ON starts (namespace, started_at);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('declarations',10);
COMMIT;
