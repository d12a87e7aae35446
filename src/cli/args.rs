//! The command line as typed. The contract: names are fixed, more may be added.
//!
//! Absent on purpose: a command or a flag that does not work yet.

use crate::model::key::Kind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; the tool answered ok or accepted
  1  the tool answered error; nothing of that name; the child failed; doctor found something
  2  usage, or a configuration that cannot be used
  3  forbidden
  4  the wait ran out: the run goes on
  5  no connection, or a state directory that is not ours or whose owner does not answer
  6  local input or output";

/// A session browser for people who run AI agents. Without a command: the browser.
#[derive(Debug, Parser)]
#[command(name = "crosstalk", version, about, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// State directory of the embedded engine [env: CROSSTALK_STATE_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Configuration file [env: CROSSTALK_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Browse an OpenClaw state directory, read-only
    #[arg(long, global = true, value_name = "DIR")]
    pub openclaw: Option<PathBuf>,
    /// Call as this session: see and do what its tools may
    #[arg(long = "as", global = true, value_name = "KEY")]
    pub caller: Option<String>,
    /// Only look: nothing that changes anything is sent
    #[arg(long, global = true)]
    pub observe: bool,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Draw with ASCII alone
    #[arg(long, global = true)]
    pub ascii: bool,
    /// No colours [env: NO_COLOR]
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Log more (repeat for even more)
    #[arg(short, global = true, action = clap::ArgAction::Count)]
    pub log_level: u8,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The browser with the built-in cast, in a throw-away directory
    Demo,
    /// List sessions
    List(List),
    /// Print a transcript
    History(History),
    /// Send a message and print the reply
    Send(Send),
    /// Start a sub-agent
    Spawn(Spawn),
    /// Who may be spawned
    Agents,
    /// Call one tool: arguments in, result payload out
    Call(ToolCall),
    /// Change settings of a session; an empty value clears
    Patch(Patch),
    /// Stop the run of a session, or a run
    Abort(Abort),
    /// Begin a new transcript in a session; the old one is kept
    Reset(Target),
    /// Hide a session; it is kept
    Archive(Target),
    /// Bring an archived session back
    Restore(Target),
    /// Remove a session; its transcript is kept, renamed
    Delete(Target),
    /// Hand in a message as a channel would
    Incoming(Incoming),
    /// Print live events, one JSON object a line
    Watch(Watch),
    /// A picture of a view (SVG), as the browser would draw it
    Screen(Screen),
    /// Look whether everything is as it should be
    Doctor,
    /// Own a state directory until everything is settled and nobody is attached
    Host(Host),
}

#[derive(Debug, Args)]
pub struct List {
    /// Only these kinds: main, group, cron, hook, node, other
    #[arg(long, value_delimiter = ',', value_parser = kind, value_name = "KINDS")]
    pub kinds: Vec<Kind>,
    /// Only what was active within so many minutes
    #[arg(long, value_name = "N")]
    pub active_minutes: Option<u64>,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// So many messages with each
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub messages: usize,
    /// Only sessions of this agent
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Only what holds this text in its names, key or id
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only archived sessions; `=all` both
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "only"
    )]
    pub archived: Option<ArchivedWhich>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArchivedWhich {
    Only,
    All,
}

#[derive(Debug, Args)]
pub struct History {
    /// Session key or id
    pub key: String,
    /// Only the newest so many messages
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Tool results too
    #[arg(long)]
    pub tools: bool,
    /// Secrets are not masked, envelopes not stripped
    #[arg(long)]
    pub raw: bool,
}

#[derive(Debug, Args)]
pub struct Send {
    /// Session key or id
    pub key: String,
    /// The message; `-` reads standard input
    #[arg(allow_hyphen_values = true)]
    pub message: String,
    /// Seconds to wait for the reply; 0 does not wait
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub timeout: u64,
}

#[derive(Debug, Args)]
pub struct Spawn {
    /// What the sub-agent is to do; `-` reads standard input
    #[arg(allow_hyphen_values = true)]
    pub task: String,
    /// Agent that does it (default: the caller's own)
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// A name for it
    #[arg(long, value_name = "L")]
    pub label: Option<String>,
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// Thinking level
    #[arg(long, value_name = "T")]
    pub thinking: Option<String>,
    /// Seconds the run may take; 0 is no limit
    #[arg(long, value_name = "S")]
    pub run_timeout: Option<u64>,
    /// Bind it to a thread of its own
    #[arg(long)]
    pub thread: bool,
    #[arg(long)]
    pub mode: Option<Mode>,
    /// What becomes of the session after the report
    #[arg(long)]
    pub cleanup: Option<CleanupWord>,
    #[arg(long)]
    pub sandbox: Option<Sandbox>,
    /// A file for it (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Wait so many seconds for its report
    #[arg(long, value_name = "S")]
    pub wait: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Run,
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CleanupWord {
    Keep,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sandbox {
    Inherit,
    Require,
}

#[derive(Debug, Args)]
pub struct ToolCall {
    /// sessions_list, sessions_history, sessions_send, sessions_spawn or agents_list
    pub tool: String,
    /// Arguments as a JSON object; `-` reads standard input
    #[arg(default_value = "{}", allow_hyphen_values = true)]
    pub arguments: String,
}

#[derive(Debug, Args)]
pub struct Patch {
    /// Session key or id
    pub key: String,
    #[arg(long, value_name = "L")]
    pub label: Option<String>,
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// Thinking level
    #[arg(long, value_name = "T")]
    pub thinking: Option<String>,
    /// Verbose level
    // The name of the flag that counts is taken.
    #[arg(id = "verbose_level", long = "verbose", value_name = "V")]
    pub verbose: Option<String>,
    /// allow, deny or inherit
    #[arg(long, value_name = "P")]
    pub send_policy: Option<String>,
}

#[derive(Debug, Args)]
pub struct Abort {
    /// Session key or id, or a run id
    pub target: String,
    /// Its sub-agents too
    #[arg(long)]
    pub tree: bool,
}

#[derive(Debug, Args)]
pub struct Target {
    /// Session key or id
    pub key: String,
}

#[derive(Debug, Args)]
pub struct Incoming {
    /// Channel it comes from
    #[arg(long, value_name = "C")]
    pub channel: String,
    /// Who sent it
    #[arg(long, value_name = "ID")]
    pub from: String,
    /// The sender is an owner
    #[arg(long)]
    pub owner: bool,
    /// Session key
    pub key: String,
    /// The message; `-` reads standard input
    #[arg(allow_hyphen_values = true)]
    pub text: String,
}

#[derive(Debug, Args)]
pub struct Watch {
    /// Only what concerns this session
    pub key: Option<String>,
    /// Go on behind this event
    #[arg(long, value_name = "CURSOR")]
    pub since: Option<String>,
}

#[derive(Debug, Args)]
pub struct Screen {
    pub view: View,
    /// Of the built-in cast
    #[arg(long)]
    pub demo: bool,
    /// Columns and rows
    #[arg(long, value_name = "WxH", default_value = "120x36", value_parser = size)]
    pub size: (u16, u16),
    /// Seconds the cast has played
    #[arg(long, value_name = "S", default_value_t = 13.0, requires = "demo")]
    pub at: f64,
    /// Where to (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    Browse,
    Spawn,
    Details,
    Help,
}

#[derive(Debug, Args)]
pub struct Host {
    /// With the built-in cast
    #[arg(long, hide = true)]
    pub demo_cast: bool,
}

fn kind(word: &str) -> Result<Kind, String> {
    Kind::parse(word).ok_or_else(|| {
        let words: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("expected one of {}", words.join(", "))
    })
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let read = || {
        let (columns, rows) = text.split_once(['x', 'X'])?;
        let size: (u16, u16) = (columns.parse().ok()?, rows.parse().ok()?);
        ((1..=1000).contains(&size.0) && (1..=1000).contains(&size.1)).then_some(size)
    };
    read().ok_or_else(|| "expected columns x rows, as in 120x36, at most 1000 each".into())
}
