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

INSERT INTO migrations (number, name, checksum) VALUES ('1', '0001_init', '11f1b228431a7e394520e33de71de2b3c9c36c1ec44722a9e2b7043525373c99');
INSERT INTO namespaces (namespace, shards, version_floor, door) VALUES ('default', '1', '0', NULL);
INSERT INTO namespaces (namespace, shards, version_floor, door) VALUES ('inline', '1', '0', NULL);
INSERT INTO namespaces (namespace, shards, version_floor, door) VALUES ('service', '1', '0', NULL);
INSERT INTO shards (shard, namespace, place, epoch, turn, owner) OVERRIDING SYSTEM VALUE VALUES ('1', 'default', '0', '1', '0', NULL);
INSERT INTO shards (shard, namespace, place, epoch, turn, owner) OVERRIDING SYSTEM VALUE VALUES ('2', 'service', '0', '1', '0', NULL);
INSERT INTO shards (shard, namespace, place, epoch, turn, owner) OVERRIDING SYSTEM VALUE VALUES ('3', 'inline', '0', '1', '0', NULL);
SELECT setval(pg_get_serial_sequence('shards', 'shard'), max(shard)) FROM shards;
INSERT INTO texts (number, text) VALUES ('193037269271375675', '{"v":1,"kind":"once","at":1700000040000}');
INSERT INTO texts (number, text) VALUES ('2436003570699434547', '{"v":1,"kind":"cron","text":"* * * * *","dialect":"posix","zone":"UTC","gap":"skip","fold":"both"}');
INSERT INTO texts (number, text) VALUES ('2792154975921083686', '{"v":1,"overlap":"allow","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('3151282038506021353', '{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":{"delay":5000,"limit":2,"backoff":1},"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('4182838529300665068', '{"v":1,"overlap":"allow","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":{"group":"agent","limit":2},"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('4694102313970013462', '{"v":1,"kind":"cron","text":"*/1 * * * *","dialect":"standard","zone":"Europe/Berlin","gap":"skip","fold":"both"}');
INSERT INTO texts (number, text) VALUES ('5264409224774440929', '{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":true,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('5678078731533317459', '{"v":1,"kind":"cron","text":"30 2 * * 1-5","dialect":"standard","zone":"Europe/Berlin","gap":"run_after","fold":"first"}');
INSERT INTO texts (number, text) VALUES ('6148904361652813649', '{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":3600000,"queue_limit":1000,"ledger":false,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('6466813108736152005', '{"v":1,"overlap":"skip","catch_up":"none","grace":60000,"catch_up_cap":100,"jitter":0,"jitter_early":true,"retry":null,"launch_retry":null,"capacity":null,"max_runs":null,"on_orphan":"relaunch","run_timeout":null,"queue_limit":1000,"ledger":false,"retention_age":null,"retention_rows":null,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('807679686962023153', '{"v":1,"kind":"every","period":90000,"anchor":"start"}');
INSERT INTO texts (number, text) VALUES ('8525291059798338327', '{"v":1,"overlap":"queue","catch_up":"spread","grace":1,"catch_up_cap":2,"jitter":3,"jitter_early":false,"retry":{"delay":4,"limit":5,"backoff":6},"launch_retry":{"delay":7,"limit":null,"backoff":8},"capacity":{"group":"agent","limit":7},"max_runs":8,"on_orphan":"give_up","run_timeout":9,"queue_limit":10,"ledger":true,"retention_age":11,"retention_rows":12,"start_within":null,"finish_within":null,"succeed_every":null}');
INSERT INTO texts (number, text) VALUES ('9161279673916447068', '{"v":1,"kind":"on_demand"}');
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('1', 'default', 'busy', 'greet', 'hello busy', '2436003570699434547', '4182838529300665068', NULL, NULL, '0', NULL, '341569620', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('10', 'inline', 'inline', 'greet', 'hello inline', '2436003570699434547', '6466813108736152005', NULL, NULL, '0', NULL, '3196362960', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('2', 'default', 'failing', 'greet', 'hello failing', '2436003570699434547', '3151282038506021353', NULL, NULL, '0', NULL, '559195988', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('3', 'default', 'once', 'greet', 'hello once', '193037269271375675', '6148904361652813649', NULL, NULL, '0', NULL, '46563713', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('4', 'default', 'paused', 'greet', 'hello paused', '2436003570699434547', '5264409224774440929', NULL, NULL, '1', NULL, '899029717', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('5', 'default', 'period', 'greet', 'hello period', '807679686962023153', '5264409224774440929', NULL, NULL, '0', NULL, '658455482', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('6', 'default', 'plain', 'greet', 'hello plain', '2436003570699434547', '5264409224774440929', NULL, NULL, '0', NULL, '234666954', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('7', 'default', 'rich', 'report', '{"to": "é日"}', '5678078731533317459', '8525291059798338327', '1700000040000', '1701000040000', '0', NULL, '1076625076', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('8', 'default', 'asked', 'greet', 'hello asked', '9161279673916447068', '5264409224774440929', NULL, NULL, '0', NULL, '1723121808', NULL, NULL);
INSERT INTO declarations (number, namespace, id, task, payload, cadence_number, policy_number, window_start, window_end, paused, pause_until, checksum, owner, damage) OVERRIDING SYSTEM VALUE VALUES ('9', 'service', 'nightly', 'workflow', '{"workflow_id":"report","version":3,"user_id":"ada","labels":{"team":"é日"}}', '4694102313970013462', '2792154975921083686', NULL, NULL, '1', '1701000040000', '4155934851', 'ada', NULL);
SELECT setval(pg_get_serial_sequence('declarations', 'number'), max(number)) FROM declarations;
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('1', '1', '6', '1700000100000', '2', '1700000220000', NULL, '1700000100000', NULL, NULL, NULL, NULL, NULL, '0', '0', NULL, NULL, '1700000040000', '2', '2', 'true', NULL, NULL, 'agent');
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('10', '3', '2', '1700000040000', '1', '1700000100000', NULL, '1700000040000', NULL, NULL, NULL, NULL, NULL, '0', '0', '1700000040000', '1', NULL, '0', '0', 'false', NULL, NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('2', '1', '7', '1700000160000', '3', '1700000165010', NULL, '1700000160000', NULL, '1700000160010', '1700000160010', NULL, NULL, '0', '0', NULL, NULL, '1700000160000', '1', '0', 'false', NULL, NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('3', '1', '2', '1700000040000', '1', '1700003640000', NULL, '1700000040000', NULL, NULL, NULL, NULL, NULL, '0', '0', '1700000040000', '1', NULL, '0', '0', 'false', NULL, NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('4', '1', '4', '1700000160000', '0', '1700000220000', NULL, NULL, NULL, NULL, NULL, '1700000040000', '3', '0', '0', NULL, NULL, NULL, '0', '0', 'false', 'paused', NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('5', '1', '6', '1700000160000', '2', '1700000250000', NULL, '1700000160000', '1700000160010', NULL, '1700000160010', NULL, NULL, '0', '0', NULL, NULL, NULL, '0', '0', 'false', NULL, NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('6', '1', '7', '1700000160000', '3', '1700000220000', NULL, '1700000160000', '1700000160010', NULL, '1700000160010', NULL, NULL, '0', '0', NULL, NULL, NULL, '0', '0', 'false', NULL, NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('7', '1', '1', '1700000040000', '0', '1700100040000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', NULL, NULL, NULL, '0', '0', 'false', NULL, NULL, 'agent');
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('8', '1', '1', '1699999980000', '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', NULL, NULL, NULL, '0', '0', 'false', NULL, NULL, NULL);
INSERT INTO states (number, shard, version, cursor, runs_started, wake_at, idle_wake_at, attempted_at, succeeded_at, failed_at, ended_at, skipped_at, skipped_ticks, decided_until, pruned_until, inline_at, inline_epoch, open_from, open_runs, in_flight, blocked, skipped_reason, quarantine, capacity_group) VALUES ('9', '2', '9', '1700000340000', '2', '1700000400000', NULL, '1700000340000', NULL, '1700000341000', '1700000341000', NULL, NULL, '0', '0', NULL, NULL, '1700000100000', '1', '1', 'false', NULL, NULL, NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('1', '1700000040000', '1700000040000', '1', '1700000040000', NULL, NULL, '1700000040000', '1700000040010', '1', '1', '0', 'schedule', 'ENQUEUED', 'accepted', NULL, 'job 7', NULL, NULL, E'\\xa73f18eab039b3c1886661b99f610bc9c35fac74bdaff85433bdd1dd727128ab', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('1', '1700000100000', '1700000100000', '1', '1700000100000', NULL, NULL, '1700000100000', '1700000100010', '1', '1', '0', 'schedule', 'ENQUEUED', 'accepted', NULL, 'job 7', NULL, NULL, E'\\x56ad288bc0535660e17914b5ab59ea40e92af22976136cb544635c8e7705e347', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('2', '1700000040000', '1700000045010', '1', '1700000040000', '1700000100000', NULL, '1700000040000', '1700000100000', '1', '1', '1', 'schedule', 'FAILED', 'ended', 'task_failed', NULL, 'exit status 1', NULL, E'\\xeb21e414425cdfcf990d0ffe6ddba7b76a0595c0e3b558c96d80ca63da545d48', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('2', '1700000100000', '1700000105010', '1', '1700000100000', '1700000160000', NULL, '1700000100000', '1700000160000', '1', '1', '1', 'schedule', 'FAILED', 'ended', 'task_failed', NULL, 'exit status 1', NULL, E'\\x1b92da03afd54f583d95312c040740786b1f74edbf9a26c2a3ac143f32126fa8', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('2', '1700000160000', '1700000165010', '1', '1700000160000', '1700000160010', NULL, '1700000160000', '1700000160010', '1', '1', '1', 'schedule', 'ENQUEUED', 'retry', 'task_failed', NULL, 'exit status 1', NULL, E'\\xee13c6e298a5e0de6d0647eff0059aae4e503eef44b00c57d3359127cb68c121', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('4', '1700000040000', '1700000040000', '1', NULL, '1700000160000', '1700000160000', '1700000040000', '1700000160000', '0', '3', '0', 'schedule', 'SKIPPED', 'ended', 'paused', NULL, NULL, NULL, E'\\xc158239acb22708cb3754f151a67922056b91a63617996859ee6313491fec9c1', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('5', '1700000070000', '1700000070000', '1', '1700000100000', '1700000100010', NULL, '1700000100000', '1700000100010', '1', '1', '0', 'schedule', 'SUCCESS', 'ended', NULL, NULL, NULL, NULL, E'\\x0d87a3eb27defb194354f9a1b583e23b75e6635e131f6cb9269979515a5507ec', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('5', '1700000160000', '1700000160000', '1', '1700000160000', '1700000160010', NULL, '1700000160000', '1700000160010', '1', '1', '0', 'schedule', 'SUCCESS', 'ended', NULL, NULL, NULL, NULL, E'\\x88c5fd44bda2b29a07835612dfb4ff1599a582cfd28adea7c8ca730e6280aa67', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('6', '1700000040000', '1700000040000', '1', '1700000040000', '1700000040010', NULL, '1700000040000', '1700000040010', '1', '1', '0', 'schedule', 'SUCCESS', 'ended', NULL, NULL, NULL, NULL, E'\\x52e1a4f82a692e53b4ee37c141e1f5f39b4427c16ecd058934ce165e10dc5f15', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('6', '1700000100000', '1700000100000', '1', '1700000100000', '1700000100010', NULL, '1700000100000', '1700000100010', '1', '1', '0', 'schedule', 'SUCCESS', 'ended', NULL, NULL, NULL, NULL, E'\\xf7f8d13dfc1c00ae032be1b697fea5adbdf3e14e36d02c475ec67d3be3289f68', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('6', '1700000160000', '1700000160000', '1', '1700000160000', '1700000160010', NULL, '1700000160000', '1700000160010', '1', '1', '0', 'schedule', 'SUCCESS', 'ended', NULL, NULL, NULL, NULL, E'\\x5862356778f8ac2b60ecabd16c2ee37464b95e96e768072385975700abc64903', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('9', '1700000100000', '1700000100000', '1', '1700000100000', NULL, NULL, '1700000100000', '1700000100000', '1', '1', '0', 'schedule', 'STARTED', 'accepted', NULL, 'job 9', NULL, NULL, E'\\x1abc2cb82a69e04c2796cc9241fd98182b289d94033208b6e421fbc4ae6d711d', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('9', '1700000160000', '1700000160000', '1', NULL, '1700000340000', NULL, '1700000340000', '1700000340000', '0', '1', '0', 'schedule', 'SKIPPED', 'ended', 'paused', NULL, NULL, NULL, E'\\x01d1b1bbb5f5d89fb9df1c7fcf150fb9f768d4aa74ab1f33899b381162268ea8', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('9', '1700000220000', '1700000340000', '1', '1700000340000', '1700000341000', NULL, '1700000340000', '1700000341000', '1', '1', '1', 'schedule', 'FAILED', 'ended', 'task_failed', NULL, 'exit status 1', 'allow', E'\\xc07e176495434af9f492fc2a8fbf49547cd312e52d73d4adad1003d695ad86f1', NULL);
INSERT INTO runs (schedule, run_at, fire_at, epoch, started_at, ended_at, run_until, created_at, updated_at, attempt, ticks, task_failures, kind, status, phase, reason, run_id, detail, backfill, key, input) VALUES ('9', '1700000280000', '1700000280000', '1', NULL, '1700000340000', '1700000340000', '1700000340000', '1700000340000', '0', '2', '0', 'schedule', 'SKIPPED', 'ended', 'paused', NULL, NULL, NULL, E'\\xa0259f7ce6dbb89c4aa26f9961493ddd882e436e82c169ecab169c95c09047f1', NULL);
INSERT INTO notes (number, updated_at, pause_note, paused_at, paused_by) VALUES ('9', '1700000100000', 'moving house', '1700000100000', 'ada');
INSERT INTO workflows (namespace, workflow_id, version, owner, dag, updated_at) VALUES ('service', 'report', '3', 'ada', E'{"nodes":["\\u00e9\\u65e5"]}', '1700000040000');
