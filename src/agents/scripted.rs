//! Deterministic agents: the `directives` script (tests, demos) and the built-in cast.
