//! Lists: what is asked for in SQL, and who may see it asked of the caller's filter.

use super::tx::read_entry;
use crate::model::key::{AgentId, SessionKey};
use crate::model::session::Entry;
use crate::store::{Archived, Filter, Page, Query};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// A condition with its parameters, put together piece by piece.
#[derive(Default, Clone)]
struct Condition {
    sql: String,
    params: Vec<Value>,
}

impl Condition {
    fn and(&mut self, sql: &str, param: impl Into<Value>) {
        if !self.sql.is_empty() {
            self.sql.push_str(" AND ");
        }
        self.sql.push_str(sql);
        self.params.push(param.into());
    }
}

const ORDER: &str = "ORDER BY updated_at DESC, key";

/// Runs of the index that together hold what is asked for: one for each archived state and kind, so that the first
/// page of any of them is read off an index, however many sessions there are.
fn arms(query: &Query) -> Vec<Condition> {
    let archived: &[i64] = match query.archived {
        Archived::Hide => &[0],
        Archived::Only => &[1],
        Archived::Both => &[0, 1],
    };
    let mut kinds: Vec<_> = query.kinds.iter().map(|kind| kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut arms = Vec::new();
    for archived in archived {
        let mut arm = Condition {
            sql: "listed = 1".into(),
            params: Vec::new(),
        };
        arm.and("archived = ?", *archived);
        if let Some(agent) = &query.agent {
            arm.and("agent = ?", agent.as_str().to_owned());
        }
        if kinds.is_empty() {
            arms.push(arm);
            continue;
        }
        for kind in &kinds {
            let mut arm = arm.clone();
            arm.and("kind = ?", (*kind).to_owned());
            arms.push(arm);
        }
    }
    arms
}

/// What the tally does not know of.
fn narrower(query: &Query) -> Condition {
    let mut rest = Condition::default();
    if let Some(since) = query.active_since {
        rest.and("updated_at >= ?", since);
    }
    if let Some(channel) = &query.channel {
        rest.and("channel = ?", channel.trim().to_lowercase());
    }
    if let Some(label) = &query.label {
        rest.and("label = ?", label.clone());
    }
    if let Some(parent) = &query.spawned_by {
        rest.and("spawned_by = ?", parent.as_str().to_owned());
    }
    let search = query.search.as_deref().map_or("", str::trim);
    if !search.is_empty() {
        rest.and("instr(words, ?) > 0", search.to_lowercase());
    }
    rest
}

/// A page; inside a read transaction, so that entries and total fit together (L-27).
pub fn page(connection: &Connection, query: &Query, filter: Filter<'_>) -> rusqlite::Result<Page> {
    let rest = narrower(query);
    let mut all = Condition::default();
    let mut arms = arms(query);
    for arm in &mut arms {
        if !rest.sql.is_empty() {
            arm.sql = format!("{} AND {}", arm.sql, rest.sql);
            arm.params.extend(rest.params.iter().cloned());
        }
    }
    if filter.is_none() && rest.sql.is_empty() {
        let upto = query
            .limit
            .map_or(-1, |limit| whole(limit.saturating_add(query.offset)));
        union(&mut all, &arms, Some(upto));
        all.sql.push_str(" LIMIT ? OFFSET ?");
        let limit = query.limit.map_or(-1, whole);
        all.params
            .extend([limit.into(), whole(query.offset).into()]);
        let entries = connection
            .prepare_cached(&all.sql)?
            .query_map(params_from_iter(all.params), read_entry)?
            .collect::<Result<_, _>>()?;
        return Ok(Page {
            entries,
            total: tallied(connection, &arms)?,
        });
    }
    // The total takes a walk over everything that matches; what is on no page is read only for a filter.
    union(&mut all, &arms, None);
    let mut page = Page::default();
    let wanted = query.offset
        ..query
            .offset
            .saturating_add(query.limit.unwrap_or(usize::MAX));
    let mut statement = connection.prepare_cached(&all.sql)?;
    let mut rows = statement.query(params_from_iter(all.params))?;
    while let Some(row) = rows.next()? {
        let on_page = wanted.contains(&page.total);
        if filter.is_none() && !on_page {
            page.total += 1;
            continue;
        }
        let entry = read_entry(row)?;
        if filter.is_some_and(|allowed| !allowed(&entry)) {
            continue;
        }
        if on_page {
            page.entries.push(entry);
        }
        page.total += 1;
    }
    Ok(page)
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// All arms in the order of the list, `limit` of each.
fn union(all: &mut Condition, arms: &[Condition], limit: Option<i64>) {
    let columns = "SELECT key, entry, updated_at FROM sessions WHERE";
    if let [only] = arms {
        all.sql = format!("{columns} {} {ORDER}", only.sql);
        all.params.clone_from(&only.params);
        return;
    }
    let parts: Vec<String> = arms
        .iter()
        .map(|arm| match limit {
            Some(limit) => format!(
                "SELECT * FROM ({columns} {} {ORDER} LIMIT {limit})",
                arm.sql
            ),
            None => format!("{columns} {}", arm.sql),
        })
        .collect();
    all.sql = format!("{} {ORDER}", parts.join(" UNION ALL "));
    all.params = arms.iter().flat_map(|arm| arm.params.clone()).collect();
}

/// How many there are, without counting them.
fn tallied(connection: &Connection, arms: &[Condition]) -> rusqlite::Result<usize> {
    let mut total = 0;
    for arm in arms {
        let sql = format!("SELECT coalesce(sum(n), 0) FROM tally WHERE {}", arm.sql);
        total += connection
            .prepare_cached(&sql)?
            .query_row(params_from_iter(&arm.params), |row| row.get::<_, i64>(0))?;
    }
    Ok(usize::try_from(total).unwrap_or(0))
}

/// Agents that have sessions (D-6).
pub fn agents(connection: &Connection) -> rusqlite::Result<Vec<AgentId>> {
    connection
        .prepare_cached("SELECT DISTINCT agent FROM tally WHERE n > 0 ORDER BY agent")?
        .query_map([], |row| Ok(AgentId::mend(row.get_ref(0)?.as_str()?)))?
        .collect()
}

/// One session.
pub fn entry(connection: &Connection, key: &SessionKey) -> rusqlite::Result<Option<Entry>> {
    use rusqlite::OptionalExtension;
    connection
        .prepare_cached("SELECT key, entry FROM sessions WHERE key = ?1")?
        .query_row([key.as_str()], read_entry)
        .optional()
}

/// Sessions with an id, whatever their keys.
pub fn by_session_id(connection: &Connection, id: &str) -> rusqlite::Result<Vec<Entry>> {
    connection
        .prepare_cached("SELECT key, entry FROM sessions WHERE session_id = ?1 ORDER BY key")?
        .query_map([id], read_entry)?
        .collect()
}
