//! Parses the command line, installs what every part needs, dispatches, and ends with the right code.

use crosstalk::cli::{self, Next};
use crosstalk::error::Exit;
use std::process::ExitCode;
use std::time::Duration;

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
        Next::Browse(browse) => {
            browse.end();
            Exit::Done
        }
    };
    runtime.shutdown_timeout(LEAVING);
    code(exit)
}

fn code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}

/// A panic is said where it always is, and kept in the log.
fn log_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = crosstalk::text::clean_str(&panic.to_string());
        tracing::error!("{text}");
        before(panic);
    }));
}
