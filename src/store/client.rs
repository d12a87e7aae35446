//! What a person's screen keeps, by source: drafts, the send ledger, small preferences. A database of its own
//! (`client.db`, 0600), never the engine's. Several processes may have it open (WAL, a busy time-out).

use super::StoreError;
use crate::model::event::SendState;
use crate::text::Untrusted;
use std::path::Path;

/// The client's database.
pub struct ClientStore {}

/// One send of this screen.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    /// The run id, which is the idempotency key.
    pub send_id: String,
    pub target: Untrusted,
    /// `None` is the operator.
    pub requester: Option<Untrusted>,
    pub text: Untrusted,
    pub wait_s: u64,
    pub state: SendState,
    pub reply: Option<Untrusted>,
    pub error: Option<Untrusted>,
    pub sent_at: i64,
    pub changed_at: i64,
}

#[allow(clippy::unused_self, clippy::missing_errors_doc)]
impl ClientStore {
    /// Opens or makes it. Blocks.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let _ = file;
        Ok(Self {})
    }
    /// The draft for a session of a source, if there is one.
    pub fn draft(&self, source: &str, key: &str) -> Result<Option<Untrusted>, StoreError> {
        let _ = (source, key);
        Ok(None)
    }
    /// Keeps a draft; blank text removes it.
    pub fn set_draft(
        &self,
        source: &str,
        key: &str,
        text: &Untrusted,
        at: i64,
    ) -> Result<(), StoreError> {
        let _ = (source, key, text, at);
        Ok(())
    }
    /// All drafts of a source: key and text.
    pub fn drafts(&self, source: &str) -> Result<Vec<(Untrusted, Untrusted)>, StoreError> {
        let _ = source;
        Ok(Vec::new())
    }
    /// Makes or replaces a ledger entry.
    pub fn put_send(&self, source: &str, entry: &LedgerEntry) -> Result<(), StoreError> {
        let _ = (source, entry);
        Ok(())
    }
    /// The newest entries, newest first.
    pub fn sends(&self, source: &str, limit: usize) -> Result<Vec<LedgerEntry>, StoreError> {
        let _ = (source, limit);
        Ok(Vec::new())
    }
    /// A small preference (pane width, tree, sort).
    pub fn preference(&self, name: &str) -> Result<Option<String>, StoreError> {
        let _ = name;
        Ok(None)
    }
    /// Keeps a preference.
    pub fn set_preference(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let _ = (name, value);
        Ok(())
    }
}
