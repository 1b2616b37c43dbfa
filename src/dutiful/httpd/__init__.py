"""HTTP that belongs to no door: server, TLS, authentication, limits, strict JSON, audit log."""
