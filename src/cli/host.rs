//! `host`: owns a state directory until everything is settled and nobody is attached.

use super::args::Host;
use super::source::{Context, Source};
use super::stop::Stop;
use crate::error::Exit;
use crate::host::{self, Open, Purpose};

/// Hosts.
///
/// # Errors
/// [`Stop`].
pub async fn host(context: &Context, args: Host) -> Result<(), Stop> {
    if context.observe {
        return Err(Stop::because(
            Exit::Forbidden,
            "--observe forbids hosting: queued runs would begin",
        ));
    }
    let Source::State { dir, config, demo } = &context.source else {
        return Err(Stop::usage(
            "host is for a state directory of our own, not for --openclaw",
        ));
    };
    host::run(Open {
        dir: dir.clone(),
        config: config.clone(),
        demo: *demo || args.demo_cast,
        purpose: Purpose::Own,
    })
    .await?;
    Ok(())
}
