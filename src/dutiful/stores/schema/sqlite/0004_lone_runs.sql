-- A schedule without a ledger nearly always has one run at a time, of which its state says all there is to
-- say: it is written here, and has a row in `runs` only when there is more.
ALTER TABLE states ADD COLUMN lone_at INTEGER;     -- the tick of the run
ALTER TABLE states ADD COLUMN lone_epoch INTEGER;  -- under which it was launched, at attempted_at
