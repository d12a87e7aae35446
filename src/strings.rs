//! All words the screen shows, in one place.
