"""The HTTP side of the service: the JSON API and the pages of the dashboard."""
