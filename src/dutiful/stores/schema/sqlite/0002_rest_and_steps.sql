-- When to look at a schedule again once its one open run has ended: it becomes wake_at then.
ALTER TABLE states ADD COLUMN rest_at INTEGER;
-- Ticks up to here were decided before the clock was set back; they need no second entry.
ALTER TABLE states ADD COLUMN decided_until INTEGER NOT NULL DEFAULT 0;
-- A run in flight is found by runs_open; only what stays is worth an entry here.
DROP INDEX runs_by_schedule;
CREATE INDEX runs_ended ON runs (schedule, run_at, kind) WHERE phase = 'ended';
