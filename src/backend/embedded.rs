//! Our engine in this process, as a backend.
