//! Draws the browser: `app` in, cells out.

pub mod glyph;
pub mod line;
pub mod markdown;
pub mod pen;
pub mod svg;
pub mod theme;
mod when;
