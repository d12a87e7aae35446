//! Messages from channels and the commands in them (AM-13, SP-22 to SP-26, SP-32, LC-10, LC-11).

use super::events::About;
use super::runs::{Accepted, NewRun, check_policy};
use super::{Engine, runs::new_entry};
use crate::model::event::What;
use crate::model::key::SessionKey;
use crate::model::message::{Provenance, ProvenanceKind};
use crate::model::run::{Lane, RunOrigin};
use crate::model::session::SendPolicy;
use serde_json::{Map, Value, json};

/// What became of an incoming message.
#[derive(Debug)]
pub enum Incoming {
    /// A run was accepted.
    Run(Box<Accepted>),
    /// A command was carried out; the answer goes back to the channel.
    Answer(String),
    /// Swallowed: not an owner, or the policy denies it; nothing is said.
    Silence,
}

/// An engine's own command, when it is the whole message.
enum Command {
    Send(Option<SendPolicy>),
    SendUsage,
    Stop,
    Reset,
}

const SEND_USAGE: &str = "usage: /send on | off | inherit";

impl Command {
    fn read(text: &str) -> Option<Self> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        match words
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["/stop"] => Some(Command::Stop),
            ["/new" | "/reset"] => Some(Command::Reset),
            ["/send", word] => Some(match *word {
                "on" | "allow" => Command::Send(Some(SendPolicy::Allow)),
                "off" | "deny" => Command::Send(Some(SendPolicy::Deny)),
                "inherit" | "default" | "reset" => Command::Send(None),
                _ => Command::SendUsage,
            }),
            ["/send"] => Some(Command::SendUsage),
            _ => None,
        }
    }
}

impl Engine {
    /// A message from a channel.
    ///
    /// # Errors
    /// A text that says why it could not be taken.
    pub async fn incoming(
        &self,
        channel: &str,
        from: &str,
        owner: bool,
        key: SessionKey,
        text: &str,
    ) -> Result<Incoming, String> {
        if text.trim().is_empty() {
            return Err("the message is empty".into());
        }
        if let Some(command) = Command::read(text) {
            if !owner {
                return Ok(Incoming::Silence);
            }
            return self.command(&key, command).await.map(Incoming::Answer);
        }
        let channel = channel.trim().to_lowercase();
        let wanted = key.clone();
        let known = self.inner.store.read(move |tx| tx.entry(&wanted)).await;
        if known.map_err(|error| error.to_string())?.is_none() {
            self.may_create(&key).await?;
        }
        let wanted = key.clone();
        let settings = self.settings();
        let now = self.now_ms();
        let (route_channel, route_to) = (channel.clone(), from.trim().to_owned());
        let allowed = self
            .inner
            .store
            .write(move |tx| {
                let known = tx.entry(&wanted)?;
                if check_policy(&settings, &wanted, known.as_ref(), Some(&route_channel)).is_err() {
                    return Ok(None);
                }
                let created = known.is_none();
                let mut entry = known.unwrap_or_else(|| new_entry(&wanted, now));
                entry.last_channel = Some(route_channel.as_str().into());
                entry.last_to = Some(route_to.as_str().into());
                entry.updated_at = entry.updated_at.max(now);
                tx.put_entry(&entry)?;
                Ok(Some(created.then_some(entry)))
            })
            .await
            .map_err(|error| error.to_string())?;
        let Some(created) = allowed else {
            return Ok(Incoming::Silence);
        };
        if let Some(entry) = created {
            let row = Box::new(self.row(&entry));
            self.publish(About::session(&entry.key), What::SessionCreated { row });
        }
        let mut new = NewRun::new(key, RunOrigin::Channel, Lane::Main, text);
        new.provenance = Some(Provenance {
            kind: ProvenanceKind::ExternalUser,
            source_session_key: None,
            source_channel: Some(channel.as_str().into()),
            source_tool: None,
        });
        new.channel = Some(channel);
        self.accept(new)
            .await
            .map(|accepted| Incoming::Run(Box::new(accepted)))
            .map_err(String::from)
    }

    async fn command(&self, key: &SessionKey, command: Command) -> Result<String, String> {
        match command {
            Command::SendUsage => Ok(SEND_USAGE.into()),
            Command::Send(policy) => {
                let value = policy.map_or(Value::Null, |policy| json!(policy.as_str()));
                self.patch(key, Map::from_iter([("sendPolicy".to_owned(), value)]))
                    .await?;
                Ok(match policy {
                    Some(SendPolicy::Allow) => "sending is on for this session".into(),
                    Some(SendPolicy::Deny) => "sending is off for this session".into(),
                    None => "sending follows the configured policy again".into(),
                })
            }
            Command::Stop => {
                let children = self.stop_children(key).await.len();
                let own = self.abort(Some(key), None, false).await?.len();
                let run = if own == 0 {
                    "no run was active"
                } else {
                    "the run was stopped"
                };
                Ok(format!("{run}; {children} sub-agent run(s) stopped"))
            }
            Command::Reset => {
                self.reset(key).await?;
                Ok("a new session has begun".into())
            }
        }
    }
}
