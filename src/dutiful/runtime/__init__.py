"""What runs the core: engine, registrar, clock and the interfaces they ask for."""
