//! Parses the command line, installs what every part needs, dispatches, and ends with the right code.

use crosstalk::clean_format;
use crosstalk::cli::{self, Browse, Next};
use crosstalk::error::Exit;
use crosstalk::store::client::ClientStore;
use crosstalk::text::clean_str;
use crosstalk::tui::{self, TuiOptions};
use std::process::ExitCode;
use std::sync::Arc;
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
            let code = runtime.block_on(browser(&browse));
            browse.end();
            runtime.shutdown_timeout(LEAVING);
            return ExitCode::from(code);
        }
    };
    runtime.shutdown_timeout(LEAVING);
    code(exit)
}

/// Runs the browser on this thread; gives the code to end with.
async fn browser(browse: &Browse) -> u8 {
    let mut remarks = Vec::new();
    let client = ClientStore::open(&browse.client)
        .map_err(|error| {
            let error = clean_str(&error.to_string());
            remarks.push(clean_format!("nothing is kept: {}", error));
        })
        .ok();
    let options = TuiOptions {
        source: browse.source.clone(),
        source_id: browse.source_id.clone(),
        settings: browse.settings.clone(),
        config_dir: browse.config_dir.clone(),
        observe: browse.observe,
        ascii: browse.ascii,
        no_color: browse.no_color,
        remarks,
    };
    match tui::run(Arc::clone(&browse.backend), client, options).await {
        Ok(left) => left.code(),
        Err(error) => {
            let message = error.to_string();
            cli::end(Err(cli::Stop::Because(error.exit(), message.into()))) as u8
        }
    }
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
