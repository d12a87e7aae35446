//! All words the screen shows, in one place.

/// Words of the drawing.
pub mod ui {
    pub const PROGRAM: &str = "crosstalk";
    pub const DEMO: &str = "demo";
    pub const AS_OPERATOR: &str = "as operator";
    pub const OBSERVING: &str = "observing";
    pub const READ_ONLY: &str = "read-only";
    pub const CONNECTING: &str = "connecting";
    pub const LIVE: &str = "live";
    pub const RECONNECTING: &str = "reconnecting";
    pub const OFFLINE: &str = "offline";

    pub const SESSIONS: &str = "Sessions";
    pub const TRANSCRIPT: &str = "Transcript";
    pub const LOADING_SESSIONS: &str = "reading the sessions";
    pub const NO_SESSIONS: &str = "There are no sessions yet.";
    pub const NO_SESSIONS_HINT: &str = "A message or a spawn makes the first.";
    pub const NOTHING_MATCHES: &str = "No session matches.";
    pub const NOTHING_MATCHES_HINT: &str = "what is hidden, and why";
    pub const SHOW_ALL: &str = "show everything";

    pub const NOTHING_OPEN: &str = "Nothing is open.";
    pub const OPEN_HINT: &str = "Choose a session in the list; it is shown here.";
    pub const LOADING: &str = "reading the transcript";
    pub const ABSENT: &str = "There is no such session.";
    pub const CANNOT_READ: &str = "The transcript cannot be read.";
    pub const NO_MESSAGES: &str = "No messages yet.";
    pub const WRITE_FIRST: &str = "write the first";
    pub const OLDER: &str = "loading older messages";
    pub const FOLLOWING: &str = "following";
    pub const ALL_FOLDED: &str = "Everything in it is folded.";
    pub const WRITING: &str = "writing";
    pub const THINKING_NOW: &str = "thinking";
    pub const STARTING: &str = "starting";

    pub const USER: &str = "user";
    pub const SYSTEM: &str = "system";
    pub const ENGINE: &str = "engine";
    pub const RESULT: &str = "result";
    pub const ANOTHER_SESSION: &str = "another session";
    pub const OK: &str = "ok";
    pub const FAILED: &str = "failed";
    pub const IMAGE: &str = "image";
    pub const NO_TEXT: &str = "(no text)";
    pub const UNKNOWN_BLOCK: &str = "unknown block";
    pub const REASONING: &str = "reasoning";
    pub const WORDS: &str = "words";
    pub const MORE_LINES: &str = "more lines";
    pub const DAMAGED_LINE: &str = "damaged:";
    pub const ABORTED: &str = "aborted";
    pub const STOPPED: &str = "stopped";
    pub const COMPACTION: &str = "compacted";
    pub const BRANCH_SUMMARY: &str = "branch summary";
    pub const MODEL: &str = "model";
    pub const THINKING: &str = "thinking";
    pub const REPLY_SKIP: &str = "ends the exchange";
    pub const ANNOUNCE_SKIP: &str = "announces nothing";
    pub const NO_REPLY: &str = "says nothing";

    pub const SPAWN_TITLE: &str = "Spawn a sub-agent";
    pub const FROM: &str = "From";
    pub const REPORT_TO: &str = "Report to";
    pub const ASKING: &str = "asking what can be chosen";
    pub const SPAWNING: &str = "spawning";
    pub const SECONDS: &str = "s";
    pub const NO_LIMIT: &str = "none";
    pub const REMOVES: &str = " takes it out";
    pub const ADD_FILE: &str = "path of a file to add";
    pub const HELP_TITLE: &str = "Help";
    pub const NO_ITEM: &str = "Nothing matches.";
    pub const NO_KEYS: &str = "There are no keys to show.";
}
