//! Colours by what they mean, read from a theme file.
//!
//! A theme names its colours once (24-bit, and the one of the sixteen that stands for it) and gives every [`Role`] a
//! style; views ask for a role, never for a colour. Without colours (`NO_COLOR`, a dumb terminal) every theme is
//! `mono`, which tells the roles apart by bold, dim, underline and reverse. State is never told by a colour alone: a
//! glyph stands beside it. Absent on purpose: which view uses what.

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How many colours the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorDepth {
    None,
    Ansi16,
    Ansi256,
    True,
}

impl ColorDepth {
    /// What the environment says: `NO_COLOR` (not empty), `TERM`, `COLORTERM`.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let color = variable("COLORTERM").unwrap_or_default();
        if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) || term == "dumb" {
            ColorDepth::None
        } else if matches!(color.as_str(), "truecolor" | "24bit") || term.contains("direct") {
            ColorDepth::True
        } else if term.contains("256") || !color.is_empty() {
            ColorDepth::Ansi256
        } else {
            ColorDepth::Ansi16
        }
    }
}

macro_rules! roles {
    ($($name:ident = $word:literal),* $(,)?) => {
        /// What a piece of the screen means.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Role { $($name),* }

        impl Role {
            /// Every role.
            pub const ALL: &'static [Role] = &[$(Role::$name),*];
            /// The word of the theme file.
            pub const fn word(self) -> &'static str {
                match self { $(Role::$name => $word),* }
            }
        }
    };
}

roles! {
    Text = "text",
    // Secondary words: ages, models, hints.
    Dim = "dim",
    Border = "border",
    // Border, title and cursor of what has the focus.
    Focus = "focus",
    Title = "title",
    Strong = "strong",
    // One accent for everything that goes from agent to agent.
    Peer = "peer",
    Running = "running",
    Ok = "ok",
    Waiting = "waiting",
    Error = "error",
    // A line that is selected in the pane that has the focus, and in one that has not.
    Selected = "selected",
    Marked = "marked",
    Key = "key",
    Badge = "badge",
    Heading = "heading",
    Emphasis = "emphasis",
    Code = "code",
    CodeBar = "code_bar",
    Link = "link",
    Quote = "quote",
    // What was folded or made by the program: tool lines, reasoning.
    Tool = "tool",
    Match = "match",
}

/// The styles of all roles.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    name: String,
    styles: Vec<Style>,
    paper: (u8, u8, u8),
    ink: (u8, u8, u8),
}

/// Why a theme cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ThemeError {
    #[error("there is no theme {0:?}: dusk, dawn, contrast, mono, or a file")]
    Unknown(String),
    #[error("theme {name}: {reason}")]
    Bad { name: String, reason: String },
}

const BUILT_IN: [(&str, &str); 4] = [
    ("dusk", include_str!("../../assets/themes/dusk.toml")),
    ("dawn", include_str!("../../assets/themes/dawn.toml")),
    (
        "contrast",
        include_str!("../../assets/themes/contrast.toml"),
    ),
    ("mono", include_str!("../../assets/themes/mono.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Colours of a picture of the screen; a terminal keeps its own.
    paper: String,
    ink: String,
    #[serde(default)]
    colors: BTreeMap<String, (String, String)>,
    styles: BTreeMap<String, Spec>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Spec {
    fg: Option<String>,
    bg: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
    strike: bool,
}

impl Theme {
    /// The names of the built-in themes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A built-in theme by its name, or a theme file by its path.
    ///
    /// # Errors
    /// [`ThemeError`] for an unknown name and for a file that is no theme, with the reason.
    pub fn load(name: &str, depth: ColorDepth) -> Result<Self, ThemeError> {
        let name = if depth == ColorDepth::None {
            "mono"
        } else {
            name
        };
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text, depth);
        }
        if !name.contains(['/', '.']) {
            return Err(ThemeError::Unknown(name.to_owned()));
        }
        let text = std::fs::read_to_string(name).map_err(|error| ThemeError::Bad {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
        Self::parse(name, &text, depth)
    }

    /// The default theme.
    pub fn dusk(depth: ColorDepth) -> Self {
        // A test loads every built-in theme at every depth.
        Self::load("dusk", depth).expect("the built-in theme is well formed")
    }

    /// A theme from the text of its file.
    ///
    /// # Errors
    /// As [`Theme::load`].
    pub fn parse(name: &str, text: &str, depth: ColorDepth) -> Result<Self, ThemeError> {
        let bad = |reason: String| ThemeError::Bad {
            name: name.to_owned(),
            reason,
        };
        let file: File = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        if let Some(word) = file
            .styles
            .keys()
            .find(|word| Role::ALL.iter().all(|role| role.word() != word.as_str()))
        {
            return Err(bad(format!("{word:?} under [styles] means nothing")));
        }
        let color = |word: &Option<String>| -> Result<Option<Color>, ThemeError> {
            let Some(word) = word else { return Ok(None) };
            let (exact, ansi) = file
                .colors
                .get(word)
                .ok_or_else(|| bad(format!("color {word:?} is not under [colors]")))?;
            let (r, g, b) = hex(exact)
                .ok_or_else(|| bad(format!("color {word:?}: {exact:?} is not #rrggbb")))?;
            Ok(match depth {
                ColorDepth::None => None,
                ColorDepth::Ansi16 => Some(
                    ansi.parse()
                        .map_err(|_| bad(format!("color {word:?}: {ansi:?} is no color name")))?,
                ),
                ColorDepth::Ansi256 => Some(Color::Indexed(nearest_256(r, g, b))),
                ColorDepth::True => Some(Color::Rgb(r, g, b)),
            })
        };
        let nothing = Spec::default();
        let mut styles = Vec::with_capacity(Role::ALL.len());
        for role in Role::ALL {
            let spec = file.styles.get(role.word()).unwrap_or(&nothing);
            let modifiers = [
                (spec.bold, Modifier::BOLD),
                (spec.dim, Modifier::DIM),
                (spec.italic, Modifier::ITALIC),
                (spec.underline, Modifier::UNDERLINED),
                (spec.reverse, Modifier::REVERSED),
                (spec.strike, Modifier::CROSSED_OUT),
            ];
            let mut style = Style::new();
            style.fg = color(&spec.fg)?;
            style.bg = color(&spec.bg)?;
            for (on, modifier) in modifiers {
                if on {
                    style = style.add_modifier(modifier);
                }
            }
            styles.push(style);
        }
        let plain = |what: &str, text: &str| {
            hex(text).ok_or_else(|| bad(format!("{what}: {text:?} is not #rrggbb")))
        };
        Ok(Self {
            name: name.to_owned(),
            styles,
            paper: plain("paper", &file.paper)?,
            ink: plain("ink", &file.ink)?,
        })
    }

    /// The name it was loaded by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(role as usize).copied().unwrap_or_default()
    }

    /// Background of a picture.
    pub fn paper(&self) -> (u8, u8, u8) {
        self.paper
    }

    /// Foreground of a picture.
    pub fn ink(&self) -> (u8, u8, u8) {
        self.ink
    }
}

/// `#rrggbb`.
fn hex(text: &str) -> Option<(u8, u8, u8)> {
    let digits = text
        .strip_prefix('#')
        .filter(|d| d.len() == 6 && d.is_ascii())?;
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    Some((byte(0)?, byte(2)?, byte(4)?))
}

/// The six steps of the colour cube.
const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// The colour of the 256 that is nearest: out of the cube, or a grey.
fn nearest_256(r: u8, g: u8, b: u8) -> u8 {
    let step = |v: u8| {
        (0..6u8)
            .min_by_key(|i| STEPS[usize::from(*i)].abs_diff(v))
            .unwrap_or(0)
    };
    let distance = |(x, y, z): (u8, u8, u8)| {
        let d = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        d(x, r) + d(y, g) + d(z, b)
    };
    let (i, j, k) = (step(r), step(g), step(b));
    let cube = (
        STEPS[usize::from(i)],
        STEPS[usize::from(j)],
        STEPS[usize::from(k)],
    );
    let mean = (u32::from(r) + u32::from(g) + u32::from(b)) / 3;
    let grey = u8::try_from((mean.saturating_sub(3) / 10).min(23)).unwrap_or(23);
    let level = 8 + 10 * grey;
    if distance((level, level, level)) < distance(cube) {
        232 + grey
    } else {
        16 + 36 * i + 6 * j + k
    }
}

/// The red, green and blue of a terminal colour, for pictures; `None` for the terminal's own.
pub(super) fn rgb(color: Color) -> Option<(u8, u8, u8)> {
    let index = match color {
        Color::Reset => return None,
        Color::Rgb(r, g, b) => return Some((r, g, b)),
        Color::Indexed(index) => index,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    };
    const SIXTEEN: [(u8, u8, u8); 16] = [
        (0, 0, 0),
        (205, 49, 49),
        (13, 188, 121),
        (229, 229, 16),
        (36, 114, 200),
        (188, 63, 188),
        (17, 168, 205),
        (200, 200, 200),
        (102, 102, 102),
        (241, 76, 76),
        (35, 209, 139),
        (245, 245, 67),
        (59, 142, 234),
        (214, 112, 214),
        (41, 184, 219),
        (255, 255, 255),
    ];
    Some(match index {
        0..=15 => SIXTEEN[usize::from(index)],
        16..=231 => {
            let n = usize::from(index - 16);
            (STEPS[n / 36], STEPS[n / 6 % 6], STEPS[n % 6])
        }
        _ => {
            let level = 8 + 10 * (index - 232);
            (level, level, level)
        }
    })
}
