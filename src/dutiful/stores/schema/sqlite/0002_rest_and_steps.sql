-- When to look at a schedule again once its one open run has ended: it becomes wake_at then.
ALTER TABLE states ADD COLUMN rest_at INTEGER;
-- Ticks up to here were decided before the clock was set back; they need no second entry.
ALTER TABLE states ADD COLUMN decided_until INTEGER NOT NULL DEFAULT 0;
