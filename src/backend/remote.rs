//! Another process as a backend, over our own methods.
