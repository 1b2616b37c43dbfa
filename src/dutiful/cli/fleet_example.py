"""The file of `dutiful fleet init`: a fleet that runs as it is, with a comment at every choice."""

FLEET = """\
# A fleet: agents, and the schedules by which they do jobs.
#
#   dutiful fleet validate      is everything here as it should be?
#   dutiful fleet start         run it; Ctrl-C stops it
#   dutiful fleet status        what runs now? (--watch to keep looking)
#   dutiful fleet schedules     when does what run next, and why does it not run now?
#
# A running fleet reads this file again when it has changed.
version: 1

# How often to check for due schedules.
check_interval: 1s

# Where the fleet keeps what it must remember; from this file's directory.
# state_dir: .dutiful

agents:
  # An agent does one job at a time, unless `instances` says otherwise.
  - name: watcher
    # What all its schedules do: a program with its arguments. No shell reads them, but this program is one.
    # The prompt is on stdin and in $DUTIFUL_PROMPT; the last line that is printed is the summary.
    job:
      type: command
      command: [sh, -c, 'df -P . | tail -n 1']
      timeout: 30s
    schedules:
      # From the end of one run to the beginning of the next; the first comes at once.
      disk:
        type: interval
        interval: 15s
      # The same with a job of its own. `jitter_percent` adds up to so much of the interval.
      load:
        type: interval
        interval: 20s
        jitter_percent: 10
        job: {type: command, command: [sh, -c, 'uptime || echo "no uptime here"']}

  - name: reporter
    instances: {max_concurrent: 2}
    default_prompt: Write the report.
    job:
      type: command
      command: [sh, -c, 'for n in 1 2 3 4 5; do echo "page $n of 5"; sleep 1; done; echo "done: $(cat)"']
    schedules:
      # Cron in the time zone of this machine. Quotes keep YAML away from the stars.
      every-minute:
        type: cron
        expression: "* * * * *"
      weekdays:
        type: cron
        expression: "0 9 * * 1-5"
        prompt: Write what happened since yesterday.
      # Runs only when it is told to: dutiful fleet run reporter/on-demand --prompt "Write about disks."
      on-demand:
        type: webhook

  # Works through the files of a directory. To see it: make the directory `inbox` beside this file, put a text
  # into it, and delete the last line below.
  - name: worker
    work_source: {type: directory, path: inbox}
    job:
      type: command
      command: [sh, -c, 'echo "read $(wc -l) lines"']
    schedules:
      inbox:
        type: interval
        interval: 5s
        enabled: false
"""
