"""Cron texts and the instants they mean."""
