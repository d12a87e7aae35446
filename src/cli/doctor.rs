//! `doctor`: looks whether everything is as it should be, and says where things are. Starts nothing.

use super::output::Printer;
use super::place::{Places, variable};
use super::source::{Context, Source};
use super::stop::Stop;
use crate::clean_format;
use crate::config;
use crate::error::Exit;
use crate::host::{self, Purpose};
use crate::store::state::StateStore;
use crate::text::{Clean, Untrusted, clean_str};
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

/// How a finding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Ok,
    /// Worth knowing.
    Note,
    /// Something is wrong.
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    mark: Mark,
    what: &'static str,
    text: Untrusted,
}

/// Looks, and prints what was found.
///
/// # Errors
/// Exit 1 when something is wrong.
pub async fn doctor(context: &Context, printer: &mut Printer) -> Result<(), Stop> {
    let mut findings = Findings(Vec::new());
    findings.note(Mark::Ok, "version", env!("CARGO_PKG_VERSION"));
    match &context.source {
        Source::OpenClaw(dir) => findings.openclaw(context, dir).await,
        Source::State { dir, config, .. } => {
            findings.configuration(config.as_deref());
            findings.state(context, dir).await;
        }
    }
    findings.terminal();
    findings.neighbours(&context.source);
    let bad = findings.0.iter().any(|finding| finding.mark == Mark::Bad);
    if printer.json {
        printer.value(&serde_json::json!({ "ok": !bad, "findings": findings.0 }))?;
    } else {
        for finding in &findings.0 {
            let mark = match finding.mark {
                Mark::Ok => printer.mark("✓", "ok"),
                Mark::Note => printer.mark("·", "--"),
                Mark::Bad => printer.mark("✗", "!!"),
            };
            let what = Clean::fixed(finding.what);
            printer.block(&clean_format!(
                "{:2} {:14} {}",
                mark,
                what,
                finding.text.clean()
            ))?;
        }
    }
    if bad {
        return Err(Stop::With(Exit::ToolError));
    }
    Ok(())
}

struct Findings(Vec<Finding>);

impl Findings {
    fn note(&mut self, mark: Mark, what: &'static str, text: impl Into<Untrusted>) {
        let text = text.into();
        self.0.push(Finding { mark, what, text });
    }

    /// The file that would be used.
    fn configuration(&mut self, named: Option<&Path>) {
        let default = Places::find().ok().map(|places| places.config().to_owned());
        let file = match (named, default) {
            (Some(named), _) => named.to_owned(),
            (None, Some(default)) if default.exists() => default,
            (None, default) => {
                let default = default.map(|path| format!(" ({} is not there)", path.display()));
                let text = format!("none{}", default.unwrap_or_default());
                return self.note(Mark::Ok, "configuration", text);
            }
        };
        match config::load(&file) {
            Ok(settings) => {
                let agents = settings.agents.len();
                let text = format!("{}: {agents} agents", file.display());
                self.note(Mark::Ok, "configuration", text);
                for warning in settings.warnings {
                    self.note(Mark::Note, "configuration", warning);
                }
            }
            Err(error) => self.note(Mark::Bad, "configuration", error.to_string()),
        }
    }

    async fn state(&mut self, context: &Context, dir: &Path) {
        let shown = dir.display();
        if let Some(owner) = host::status(dir).await {
            let record = owner.record.as_ref();
            let pid = record.map_or_else(|| "?".into(), |record| record.pid.to_string());
            let runs_on = match record {
                Some(record) if record.demo => "the built-in cast".into(),
                Some(record) => record.config.as_ref().map_or_else(
                    || "no configuration".into(),
                    |config| config.display().to_string(),
                ),
                None => "something unknown".into(),
            };
            let (mark, answers) = if owner.answers {
                (Mark::Ok, "answers")
            } else {
                (Mark::Bad, "does not answer")
            };
            let text = format!("process {pid}, runs on {runs_on}, {answers}");
            self.note(mark, "owner", text);
            if !owner.answers {
                return self.note(Mark::Note, "state", format!("{shown}: not looked into"));
            }
        } else if std::fs::metadata(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let text = format!("{shown} is not there yet; the first work makes it");
            return self.note(Mark::Ok, "state", text);
        } else if StateStore::exists(dir) {
            self.note(Mark::Ok, "owner", "none: nothing is running");
            let checked = dir.to_owned();
            let check = tokio::task::spawn_blocking(move || StateStore::check(&checked)).await;
            if let Ok(Err(error)) = check {
                return self.note(Mark::Bad, "state", error.to_string());
            }
        }
        self.sessions(context, dir, "state").await;
    }

    async fn openclaw(&mut self, context: &Context, dir: &Path) {
        self.sessions(context, dir, "openclaw").await;
    }

    /// Opens it as `list` would.
    async fn sessions(&mut self, context: &Context, dir: &Path, what: &'static str) {
        let looked = async {
            let backend = context.source.open(Purpose::Read).await?;
            let info = context.info(&backend).await?;
            let rows = super::list::count(context, &backend).await?;
            Ok::<_, Stop>((info, rows))
        };
        match looked.await {
            Ok((info, rows)) => {
                let text = format!(
                    "{}: {} sessions, {} archived, {} runs, {} queued",
                    dir.display(),
                    rows.all,
                    rows.archived,
                    info.running,
                    info.queued
                );
                self.note(Mark::Ok, what, text);
                for warning in info.warnings.into_iter().chain(rows.warnings) {
                    self.note(Mark::Note, what, warning);
                }
            }
            Err(Stop::Because(_, text)) => self.note(Mark::Bad, what, text),
            Err(_) => self.note(Mark::Bad, what, "it cannot be read"),
        }
    }

    fn terminal(&mut self) {
        let term = std::env::var("TERM").unwrap_or_default();
        let colours = if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            "off (NO_COLOR)"
        } else if std::env::var("COLORTERM").is_ok_and(|c| c == "truecolor" || c == "24bit") {
            "24 bit"
        } else {
            "as the terminal says"
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .unwrap_or_default();
        let stdout = std::io::stdout();
        let text = if stdout.is_terminal() {
            let size = rustix::termios::tcgetwinsize(&stdout);
            let size = size.map_or_else(
                |_| "size unknown".into(),
                |size| format!("{}x{}", size.ws_col, size.ws_row),
            );
            format!("{term}, {size}, colours {colours}, locale {locale}")
        } else {
            format!("standard output is none; TERM {term}, colours {colours}, locale {locale}")
        };
        self.note(Mark::Ok, "terminal", text);
        let upper = locale.to_uppercase();
        if !(upper.contains("UTF-8") || upper.contains("UTF8")) {
            let text = "the locale is not UTF-8; --ascii draws without other characters";
            self.note(Mark::Note, "terminal", text);
        }
    }

    /// C-36: only a hint, nothing of it is read.
    fn neighbours(&mut self, source: &Source) {
        if matches!(source, Source::OpenClaw(_)) {
            return;
        }
        let home = variable("HOME").map(|home| home.join(".openclaw"));
        let place: Option<PathBuf> = variable("OPENCLAW_STATE_DIR").or(home);
        if let Some(place) = place.filter(|place| place.is_dir()) {
            let shown = clean_str(&place.display().to_string());
            let text = format!("{shown} is there; browse it with: crosstalk --openclaw {shown}");
            self.note(Mark::Note, "openclaw", text);
        }
    }
}
