//! The loop between terminal and browser.
