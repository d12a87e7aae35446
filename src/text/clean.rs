//! The cleaning itself.

use super::{Clean, Untrusted};

/// Makes text from outside drawable on one line.
pub fn clean(text: &Untrusted) -> Clean {
    clean_str(text.raw())
}

/// As [`clean`], for text that is not wrapped (paths, system errors).
pub fn clean_str(text: &str) -> Clean {
    Clean(
        text.chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect(),
    )
}

/// As [`clean`], keeping line breaks and expanding tabs.
pub fn clean_block(text: &Untrusted) -> Clean {
    Clean(
        text.raw()
            .chars()
            .map(|c| {
                if c.is_control() && c != '\n' {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect(),
    )
}

/// JSON text (already serialised) with every character that is not drawable written as `\uXXXX`.
pub fn escape_json(json: &str) -> Clean {
    clean_block(&Untrusted::new(json))
}
