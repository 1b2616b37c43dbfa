"""The real engine on virtual time, over a schedule file."""
