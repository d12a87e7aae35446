//! Exit codes, in one place (the contract of the command line).

/// What a process ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; `ok` or `accepted`.
    Done = 0,
    /// The tool answered `error`; unknown tool; unknown `--as`; the child failed; `doctor` found something wrong.
    ToolError = 1,
    /// Usage, or a configuration that cannot be used.
    Usage = 2,
    /// The tool answered `forbidden`; `--observe` or a missing scope forbids it.
    Forbidden = 3,
    /// The tool answered `timeout`, or `--wait` ran out: the run goes on.
    Timeout = 4,
    /// No connection, refused credentials, or a state directory that is not ours or whose owner does not answer.
    NoOwner = 5,
    /// Local I/O: disk full, unreadable file, no terminal where one is needed.
    Io = 6,
}
