//! Parses the command line, installs what every part needs, dispatches, and ends with the right code.

use crosstalk::cli::{self, Browse, Next};
use crosstalk::error::Exit;
use crosstalk::tui::{self, TuiOptions};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long work that nobody waits for may keep the process.
const LEAVING: Duration = Duration::from_secs(2);
/// Front doors wait more than they work; the engine's own process does with as many.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let parsed = match cli::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(exit) => return code(exit),
    };
    cli::install_log(&parsed);
    log_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            return code(cli::end(Err(cli::Stop::io(format!(
                "cannot start: {error}"
            )))));
        }
    };
    let exit = match runtime.block_on(cli::run(parsed)) {
        Next::End(exit) => exit,
        Next::Browse(browse) => return browser(runtime, *browse),
    };
    runtime.shutdown_timeout(LEAVING);
    code(exit)
}

/// Runs the browser on this thread, which owns the terminal.
fn browser(runtime: Runtime, browse: Browse) -> ExitCode {
    let options = TuiOptions {
        source: browse.source,
        source_id: browse.source_id,
        settings: browse.settings,
        config_dir: browse.config_dir,
        observe: browse.observe,
        ascii: browse.ascii,
        no_color: browse.no_color,
        remarks: browse.remarks,
    };
    let left = runtime.block_on(tui::run(browse.backend, browse.client, options));
    let code = match left {
        Ok(left) => ExitCode::from(left.code()),
        Err(error) => {
            let message = error.to_string();
            code(cli::end(Err(cli::Stop::because(error.exit(), message))))
        }
    };
    // The engine puts its things away in the background, on this runtime.
    if let Some(throw_away) = browse.throw_away {
        throw_away.end();
    }
    runtime.shutdown_timeout(LEAVING);
    code
}

fn code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}

/// A panic is said where it always is, and kept in the log.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // What a panic quotes may come from outside.
        let text = crosstalk::text::clean_str(&panic.to_string());
        tracing::error!("{text}");
        eprintln!("crosstalk: internal error: {text}");
    }));
}
