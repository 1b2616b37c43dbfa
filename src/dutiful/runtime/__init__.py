"""The shell around the core: engine, host, registrar, clock, and the interfaces that they need."""
