//! What the person wants, nameable: the one table that keys, footer, help, palette and key file are derived from.
//!
//! Invariant: what stands here works. Absent on purpose: which key does it ([`super::keymap`]) and how it is done.

use serde::Deserialize;

macro_rules! actions {
    ($($variant:ident $name:literal $words:literal;)*) => {
        /// An action, by its name in the key file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Action { $($variant,)* }

        impl Action {
            /// Every action, in the order of the table.
            pub const ALL: &'static [Action] = &[$(Action::$variant,)*];
            /// Its name in the key file and in the palette.
            pub const fn name(self) -> &'static str {
                match self { $(Action::$variant => $name,)* }
            }
            /// What it does, in one to four words.
            pub const fn words(self) -> &'static str {
                match self { $(Action::$variant => $words,)* }
            }
        }
    };
}

actions! {
    // everywhere, also in text
    Palette "palette" "actions";
    Redraw "redraw" "redraw";
    Suspend "suspend" "suspend";
    Back "back" "back";
    Interrupt "interrupt" "clear, stop waiting, quit";
    // outside text
    NextPane "next_pane" "next pane";
    PreviousPane "previous_pane" "previous pane";
    Help "help" "help";
    Narrower "narrower" "narrower list";
    Wider "wider" "wider list";
    Quit "quit" "quit";
    // moving
    Down "down" "down";
    Up "up" "up";
    HalfPageDown "half_page_down" "half a page down";
    HalfPageUp "half_page_up" "half a page up";
    PageDown "page_down" "page down";
    PageUp "page_up" "page up";
    First "first" "to the start";
    Last "last" "to the end";
    // sessions
    Read "read" "read";
    Parent "parent" "to the parent";
    Fold "fold" "fold or unfold";
    Filter "filter" "filter";
    NextKind "next_kind" "kind";
    ActiveMinutes "active_minutes" "active within";
    AgentFilter "agent_filter" "agent";
    ChannelFilter "channel_filter" "channel";
    LiveOnly "live_only" "live only";
    Archived "archived" "archived too";
    Hidden "hidden" "what is hidden";
    ClearFilters "clear_filters" "show everything";
    Sort "sort" "sort";
    Tree "tree" "tree";
    Compose "compose" "compose";
    Spawn "spawn" "spawn";
    Details "details" "details";
    Json "json" "JSON";
    Rename "rename" "rename";
    Archive "archive" "archive or restore";
    Delete "delete" "delete";
    SendPolicy "send_policy" "send policy";
    Abort "abort" "abort run";
    AbortTree "abort_tree" "abort run and sub-agents";
    Reset "reset" "new transcript";
    CopyKey "copy_key" "copy key";
    Sends "sends" "sends";
    PlayDemo "play_demo" "play the demo again";
    // transcript
    Follow "follow" "follow the end";
    ToolResults "tool_results" "tool results";
    Reasoning "reasoning" "reasoning";
    Raw "raw" "raw text";
    Secrets "secrets" "show secrets";
    Open "open" "open or fold";
    Wire "wire" "follow the wire";
    WireBack "wire_back" "back along the wire";
    NextInter "next_inter_session" "next inter-session message";
    PreviousInter "previous_inter_session" "previous inter-session message";
    Search "search" "search here";
    SearchNext "search_next" "next hit";
    SearchPrevious "search_previous" "previous hit";
    CopyMessage "copy_message" "copy message";
    // compose
    Send "send" "send";
    NewLine "new_line" "new line";
    SendMenu "send_menu" "sender and wait";
    EditExternally "edit_externally" "edit in $EDITOR";
    Complete "complete" "complete";
    // dialogs
    NextField "next_field" "next field";
    PreviousField "previous_field" "previous field";
    ChooseNext "choose_next" "next choice";
    ChoosePrevious "choose_previous" "previous choice";
    Accept "accept" "accept";
    Submit "submit" "spawn";
    // text
    TextLeft "text_left" "left";
    TextRight "text_right" "right";
    TextUp "text_up" "line up";
    TextDown "text_down" "line down";
    WordLeft "word_left" "word left";
    WordRight "word_right" "word right";
    LineStart "line_start" "start of line";
    LineEnd "line_end" "end of line";
    TextStart "text_start" "start of text";
    TextEnd "text_end" "end of text";
    DeleteLeft "delete_left" "delete left";
    DeleteRight "delete_right" "delete right";
    DeleteWord "delete_word" "delete word";
    DeleteWordRight "delete_word_right" "delete next word";
    DeleteToStart "delete_to_start" "delete to start of line";
    DeleteToEnd "delete_to_end" "delete to end of line";
    Undo "undo" "undo";
    Redo "redo" "redo";
}

impl Action {
    /// It changes something, or is of use only on the way to it: not offered, and refused, where nothing can be
    /// changed.
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Action::Compose
                | Action::Spawn
                | Action::Rename
                | Action::Archive
                | Action::Delete
                | Action::SendPolicy
                | Action::Abort
                | Action::AbortTree
                | Action::Reset
                | Action::PlayDemo
                | Action::Send
                | Action::NewLine
                | Action::SendMenu
                | Action::EditExternally
                | Action::Complete
                | Action::Submit
        )
    }

    /// The action of a name.
    pub fn parse(name: &str) -> Option<Action> {
        Action::ALL
            .iter()
            .copied()
            .find(|action| action.name() == name)
    }
}
