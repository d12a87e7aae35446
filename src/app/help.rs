//! Footer, help and palette, derived from the table of actions and the key file: one name for one thing.

use super::action::Action;
use super::keymap::{Context, shown};
use super::menu::{Item, Pick};
use super::{App, Focus, Layer};
use crate::text::Clean;

/// Keys and what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub action: Action,
    /// `Ctrl+P`, `gg`, `j`.
    pub keys: Clean,
    pub words: Clean,
}

/// Part of the help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpSection {
    pub title: Clean,
    pub hints: Vec<Hint>,
}

/// What works here, the most useful first; the drawing takes what fits.
pub fn footer(app: &App) -> Vec<Hint> {
    use Action as A;
    let actions: &[Action] = match app.layers.last() {
        Some(Layer::Help { .. } | Layer::Details(_) | Layer::Json(_) | Layer::Hidden(_)) => {
            &[A::Down, A::Up, A::PageDown, A::Last, A::Back]
        }
        Some(Layer::Spawn) => &[
            A::NextField,
            A::PreviousField,
            A::ChooseNext,
            A::EditExternally,
            A::Back,
            A::Submit,
        ],
        Some(Layer::Menu(_) | Layer::Palette(_)) => &[A::Down, A::Up, A::Accept, A::Back],
        Some(Layer::Prompt(_)) => &[A::Accept, A::Back],
        None if app.sessions.filter_input.is_some() => &[A::Down, A::Up, A::Accept, A::Back],
        None => match app.focus {
            Focus::List => &[
                A::Down,
                A::Up,
                A::Read,
                A::Filter,
                A::NextKind,
                A::ActiveMinutes,
                A::Compose,
                A::Spawn,
                A::Palette,
                A::Help,
                A::Quit,
                A::ToolResults,
                A::Details,
                A::Sort,
                A::Hidden,
            ],
            Focus::Transcript => &[
                A::Down,
                A::Up,
                A::Follow,
                A::ToolResults,
                A::Reasoning,
                A::Open,
                A::Wire,
                A::Search,
                A::Compose,
                A::Spawn,
                A::Back,
                A::Palette,
                A::Help,
                A::Quit,
                A::CopyMessage,
                A::Raw,
            ],
            Focus::Compose => &[
                A::Send,
                A::NewLine,
                A::SendMenu,
                A::EditExternally,
                A::Complete,
                A::Back,
                A::Palette,
            ],
        },
    };
    hints(app, app.contexts(), actions)
}

/// How to leave the spawn dialog, either way.
pub fn ways_out(app: &App) -> Vec<Hint> {
    let mut hints = hints(app, app.contexts(), &[Action::Back, Action::Submit]);
    for hint in &mut hints {
        if hint.action == Action::Back {
            hint.words = "cancel".into();
        }
    }
    hints
}

/// Stays in the footer however narrow it is.
pub const fn is_vital(action: Action) -> bool {
    matches!(
        action,
        Action::Help | Action::Quit | Action::Back | Action::Submit
    )
}

fn hints(app: &App, contexts: &[Context], actions: &[Action]) -> Vec<Hint> {
    actions
        .iter()
        .filter(|action| is_possible(app, **action))
        .filter_map(|action| {
            Some(Hint {
                action: *action,
                keys: app.keymap.key_of(contexts, *action)?,
                words: action.words().into(),
            })
        })
        .collect()
}

/// False for what cannot be done here at all: such actions are not offered.
fn is_possible(app: &App, action: Action) -> bool {
    if action.changes() && app.is_read_only() {
        return false;
    }
    action != Action::PlayDemo || app.header.info.as_ref().is_some_and(|info| info.demo)
}

/// Every key, by place; where the person is comes first.
pub fn sections(app: &App) -> Vec<HelpSection> {
    let here = match app.focus {
        Focus::List => Context::List,
        Focus::Transcript => Context::Transcript,
        Focus::Compose => Context::Compose,
    };
    let mut contexts = vec![here];
    contexts.extend(Context::ALL.into_iter().filter(|context| *context != here));
    contexts
        .into_iter()
        // Where nothing can be changed there is no such dialog.
        .filter(|context| *context != Context::Spawn || is_possible(app, Action::Spawn))
        .map(|context| {
            let mut hints: Vec<Hint> = Vec::new();
            for binding in app.keymap.bindings(context) {
                if !is_possible(app, binding.action) {
                    continue;
                }
                let keys = shown(&binding.keys);
                match hints.iter_mut().find(|hint| hint.action == binding.action) {
                    Some(hint) => {
                        hint.keys.push(&Clean::fixed(" "));
                        hint.keys.push(&keys);
                    }
                    None => hints.push(Hint {
                        action: binding.action,
                        keys,
                        words: binding.action.words().into(),
                    }),
                }
            }
            HelpSection {
                title: title(context).into(),
                hints,
            }
        })
        .filter(|section| !section.hints.is_empty())
        .collect()
}

const fn title(context: Context) -> &'static str {
    match context {
        Context::Everywhere => "Everywhere, also in text",
        Context::General => "Everywhere but in text",
        Context::List => "Sessions",
        Context::Transcript => "Transcript",
        Context::Compose => "Compose box",
        Context::Prompt => "Filter, search, rename",
        Context::Spawn => "Spawn dialog",
        Context::Menu => "Menus",
        Context::Pager => "Help, details, JSON",
        Context::Text => "Text",
    }
}

/// Everything that can be done from the pane under the palette, with its keys.
pub(super) fn palette(app: &App) -> Vec<Item> {
    use Action as A;
    let (pane, others): (Context, &[Context]) = match app.focus {
        Focus::List => (Context::List, &[Context::General, Context::Everywhere]),
        Focus::Transcript => (
            Context::Transcript,
            &[Context::General, Context::Everywhere],
        ),
        Focus::Compose => (Context::Compose, &[Context::Everywhere]),
    };
    let contexts: Vec<Context> = std::iter::once(pane)
        .chain(others.iter().copied())
        .collect();
    let wanted: &[Action] = &[
        A::Read,
        A::Compose,
        A::Spawn,
        A::Filter,
        A::NextKind,
        A::ActiveMinutes,
        A::AgentFilter,
        A::ChannelFilter,
        A::LiveOnly,
        A::Archived,
        A::Hidden,
        A::ClearFilters,
        A::Sort,
        A::Tree,
        A::Fold,
        A::Parent,
        A::Details,
        A::Json,
        A::Rename,
        A::Archive,
        A::SendPolicy,
        A::Abort,
        A::AbortTree,
        A::Reset,
        A::Delete,
        A::CopyKey,
        A::Sends,
        A::SendMenu,
        A::EditExternally,
        A::Follow,
        A::ToolResults,
        A::Reasoning,
        A::Raw,
        A::Secrets,
        A::Open,
        A::Wire,
        A::WireBack,
        A::NextInter,
        A::PreviousInter,
        A::Search,
        A::SearchNext,
        A::SearchPrevious,
        A::CopyMessage,
        A::PlayDemo,
        A::Narrower,
        A::Wider,
        A::Redraw,
        A::Suspend,
        A::Help,
        A::Quit,
    ];
    wanted
        .iter()
        .filter(|action| is_possible(app, **action))
        // The box has these to itself.
        .filter(|action| {
            app.focus == Focus::Compose || !matches!(action, A::SendMenu | A::EditExternally)
        })
        .map(|action| {
            let keys = app.keymap.key_of(&contexts, *action).unwrap_or_default();
            Item::new(action.words(), Pick::Do(*action)).detail(keys)
        })
        .collect()
}
