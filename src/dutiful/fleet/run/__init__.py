"""One run of a fleet schedule: prompt, work item, job, outcome."""
