//! The command line: the twin of the screen, and the contract that scripts rely on.
//!
//! One file per command: arguments → requests → output. Text from outside is cleaned on its way out, and
//! [`output`] is the only way out. Absent on purpose: what a request means; and the browser itself, which a person
//! gets from `tui`.

mod agents;
mod args;
pub mod browse;
mod call;
mod control;
mod doctor;
mod history;
mod host;
mod list;
pub mod log;
pub mod output;
mod patch;
mod payload;
mod place;
mod screen;
mod send;
mod source;
mod spawn;
mod stop;
mod watch;

pub use args::Cli;
pub use browse::Browse;
pub use stop::Stop;

use crate::error::Exit;
use crate::protocol::methods::Request;
use crate::text::clean_str;
use args::{Command, Global};
use clap::Parser;
use clap::error::ErrorKind;
use output::{Printer, remark};
use place::Places;
use source::Context;
use std::ffi::OsString;

/// What is left to do after the command line.
pub enum Next {
    /// Nothing: end with this code.
    End(Exit),
    /// Run the browser.
    Browse(Box<Browse>),
}

/// Reads the command line; help and version are printed here.
///
/// # Errors
/// The code to end with.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    Cli::try_parse_from(args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that went away is no failure.
            let _ = error.print();
            Exit::Done
        }
        _ => {
            remark(&clean_str(&one_line(&error)));
            Exit::Usage
        }
    })
}

/// What is wrong, without the usage that is printed around it.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let said: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .collect();
    let said = said.join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    format!("{said} (see crosstalk --help)")
}

/// Sends what is traced to the log file.
pub fn install_log(cli: &Cli) {
    if let Ok(places) = Places::find() {
        log::install(&places.log(), cli.global.log_level);
    }
}

/// Does what was asked for, as far as it is no matter of a screen.
pub async fn run(cli: Cli) -> Next {
    let throw_away = match &cli.command {
        None => Some(false),
        Some(Command::Demo) => Some(true),
        Some(_) => None,
    };
    let done = match (throw_away, cli.command) {
        (Some(throw_away), _) => match browse::prepare(&cli.global, throw_away).await {
            Ok(browse) => return Next::Browse(Box::new(browse)),
            Err(stop) => Err(stop),
        },
        (None, Some(command)) => command_line(&cli.global, command).await,
        (None, None) => Ok(()),
    };
    Next::End(end(done))
}

/// Says why something ended, and gives its code.
pub fn end(done: Result<(), Stop>) -> Exit {
    let Err(stop) = done else { return Exit::Done };
    if let Stop::Because(_, message) = &stop {
        remark(&message.clean());
    }
    stop.exit()
}

async fn command_line(global: &Global, command: Command) -> Result<(), Stop> {
    let context = Context::new(global)?;
    let mut printer = Printer::new(global.json, global.ascii);
    let done = dispatch(&context, &mut printer, command).await;
    // What was printed before the end is not lost with it.
    let flushed = printer.flush();
    done.and(flushed)
}

async fn dispatch(context: &Context, printer: &mut Printer, command: Command) -> Result<(), Stop> {
    let key = |target: args::Target| target.key.into();
    match command {
        Command::Demo => Ok(()),
        Command::List(args) => list::list(context, printer, args).await,
        Command::History(args) => history::history(context, printer, args).await,
        Command::Send(args) => send::send(context, printer, args).await,
        Command::Spawn(args) => spawn::spawn(context, printer, args).await,
        Command::Agents => agents::agents(context, printer).await,
        Command::Call(args) => call::call(context, printer, args).await,
        Command::Patch(args) => patch::patch(context, printer, args).await,
        Command::Abort(args) => control::abort(context, printer, args).await,
        Command::Reset(target) => {
            let request = Request::Reset { key: key(target) };
            control::done(context, printer, "resetting", request).await
        }
        Command::Archive(target) => {
            let request = Request::Archive { key: key(target) };
            control::done(context, printer, "archiving", request).await
        }
        Command::Restore(target) => {
            let request = Request::Restore { key: key(target) };
            control::done(context, printer, "restoring", request).await
        }
        Command::Delete(target) => {
            let request = Request::Delete { key: key(target) };
            control::done(context, printer, "deleting", request).await
        }
        Command::Incoming(args) => control::incoming(context, printer, args).await,
        Command::Watch(args) => watch::watch(context, printer, args).await,
        Command::Screen(args) => screen::screen(context, printer, args).await,
        Command::Doctor => doctor::doctor(context, printer).await,
        Command::Host(args) => host::host(context, args).await,
    }
}
