//! Which key does what, as data: `assets/keymap.toml`, changed by the person's own file.
//!
//! Invariant: within a context no key (or beginning of a key sequence) means two things.

use super::action::Action;
use super::key::KeyPress;
use crate::clean_format;
use crate::text::{Clean, Untrusted};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Context {
    Everywhere,
    General,
    List,
    Transcript,
    Compose,
    Prompt,
    Spawn,
    Menu,
    Pager,
    Text,
}

impl Context {
    /// Every context, in the order of the help.
    pub const ALL: [Context; 10] = [
        Context::List,
        Context::Transcript,
        Context::Compose,
        Context::Spawn,
        Context::General,
        Context::Everywhere,
        Context::Menu,
        Context::Pager,
        Context::Prompt,
        Context::Text,
    ];

    /// Name in the key file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Context::Everywhere => "everywhere",
            Context::General => "general",
            Context::List => "list",
            Context::Transcript => "transcript",
            Context::Compose => "compose",
            Context::Prompt => "prompt",
            Context::Spawn => "spawn",
            Context::Menu => "menu",
            Context::Pager => "pager",
            Context::Text => "text",
        }
    }

    /// Characters are typed here, so none of them can be a key.
    const fn has_text(self) -> bool {
        matches!(
            self,
            Context::Everywhere
                | Context::Compose
                | Context::Prompt
                | Context::Spawn
                | Context::Menu
                | Context::Text
        )
    }
}

/// A key sequence and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub keys: Vec<KeyPress>,
    pub action: Action,
}

/// All keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    contexts: BTreeMap<Context, Vec<Binding>>,
    /// What a person should know about their file (keys that terminals cannot send).
    pub warnings: Vec<Clean>,
}

/// A key file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeymapError(pub Clean);

/// What keys so far mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Action(Action),
    /// More keys are needed.
    Prefix,
    Nothing,
}

type File = BTreeMap<Context, BTreeMap<String, Keys>>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Keys {
    One(String),
    Many(Vec<String>),
}

const BUILTIN: &str = include_str!("../../assets/keymap.toml");

impl Keymap {
    /// The keys of the program.
    ///
    /// # Panics
    /// Never: a test reads the built-in file.
    pub fn builtin() -> Self {
        Self::read(None).expect("the built-in key file is checked by a test")
    }

    /// The built-in keys with a person's own file over them.
    ///
    /// # Errors
    /// [`KeymapError`] naming the context, the key and both actions, or what cannot be read.
    pub fn with(own: &str) -> Result<Self, KeymapError> {
        Self::read(Some(own))
    }

    fn read(own: Option<&str>) -> Result<Self, KeymapError> {
        let mut tables: BTreeMap<Context, BTreeMap<Action, Vec<Vec<KeyPress>>>> = BTreeMap::new();
        let mut warnings = Vec::new();
        for text in [Some(BUILTIN), own].into_iter().flatten() {
            let file: File = toml::from_str(text).map_err(|error| {
                KeymapError(Untrusted::new(error.to_string().trim().replace('\n', " ")).clean())
            })?;
            for (context, table) in file {
                for (name, keys) in table {
                    let at = |what: Clean| {
                        KeymapError(clean_format!(
                            "[{}] {}: {}",
                            context.as_str(),
                            Untrusted::new(name.as_str()).clean(),
                            what
                        ))
                    };
                    let action = Action::parse(&name)
                        .ok_or_else(|| at(Clean::fixed("there is no such action")))?;
                    let keys = match keys {
                        Keys::One(one) => vec![one],
                        Keys::Many(many) => many,
                    };
                    let mut sequences = Vec::new();
                    for sequence in keys {
                        let keys = sequence
                            .split_whitespace()
                            .map(KeyPress::parse)
                            .collect::<Result<Vec<_>, _>>()
                            .map_err(at)?;
                        let Some(first) = keys.first() else {
                            return Err(at(Clean::fixed("a key is empty")));
                        };
                        if context.has_text() && first.typed().is_some() {
                            return Err(at(clean_format!(
                                "{} could not be typed any more",
                                first.shown()
                            )));
                        }
                        if own.is_some() && keys.iter().any(|key| is_lost(*key)) {
                            warnings.push(
                                at(clean_format!(
                                    "{} cannot be told apart from another key by many terminals",
                                    shown(&keys)
                                ))
                                .0,
                            );
                        }
                        sequences.push(keys);
                    }
                    tables.entry(context).or_default().insert(action, sequences);
                }
            }
        }
        let mut contexts = BTreeMap::new();
        for (context, table) in tables {
            let mut bindings: Vec<Binding> = Vec::new();
            // In the order of the action table, so that help and footer have an order.
            for action in Action::ALL {
                for keys in table.get(action).into_iter().flatten() {
                    let clash = bindings.iter().find(|other| {
                        other.keys.starts_with(keys) || keys.starts_with(&other.keys)
                    });
                    if let Some(other) = clash {
                        return Err(KeymapError(clean_format!(
                            "[{}] {} is bound twice: {} and {}",
                            context.as_str(),
                            shown(keys),
                            other.action.name(),
                            action.name()
                        )));
                    }
                    bindings.push(Binding {
                        keys: keys.clone(),
                        action: *action,
                    });
                }
            }
            contexts.insert(context, bindings);
        }
        Ok(Self { contexts, warnings })
    }

    /// What `keys`, pressed one after another, mean; the first context that knows them wins.
    pub fn find(&self, contexts: &[Context], keys: &[KeyPress]) -> Found {
        for context in contexts {
            let mut is_prefix = false;
            for binding in self.bindings(*context) {
                if binding.keys == keys {
                    return Found::Action(binding.action);
                }
                is_prefix |= binding.keys.starts_with(keys);
            }
            if is_prefix {
                return Found::Prefix;
            }
        }
        Found::Nothing
    }

    /// Bindings of a context, in the order of the action table.
    pub fn bindings(&self, context: Context) -> &[Binding] {
        self.contexts.get(&context).map_or(&[], Vec::as_slice)
    }

    /// The first key sequence that does this in one of the contexts.
    pub fn key_of(&self, contexts: &[Context], action: Action) -> Option<Clean> {
        contexts
            .iter()
            .flat_map(|context| self.bindings(*context))
            .find(|binding| binding.action == action)
            .map(|binding| shown(&binding.keys))
    }
}

/// A sequence as it is shown: `gg`, `Ctrl+P`.
pub fn shown(keys: &[KeyPress]) -> Clean {
    keys.iter().fold(Clean::empty(), |mut all, key| {
        all.push(&key.shown());
        all
    })
}

fn is_lost(key: KeyPress) -> bool {
    use super::key::Code;
    key.ctrl
        && matches!(key.code, Code::Char(c) if matches!(c, 'i' | 'm' | 'h' | '[') || c.is_ascii_digit())
}
