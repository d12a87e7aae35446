//! Draws the browser: `app` in, cells out.
