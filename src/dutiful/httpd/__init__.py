"""HTTP manners that belong to no door: server, TLS, authentication, limits, strict JSON."""
