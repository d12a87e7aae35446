//! Rust source as far as paths are concerned: comments, texts and test code taken out, words and punctuation left.

/// A word or a piece of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    Word(String),
    /// `::`
    Path,
    Mark(char),
}

/// A path that begins at a known place, whole: `crate::a::b` is `["a", "b"]`. A glob ends in `*`.
pub type Absolute = Vec<String>;

/// The tokens of a source text, without comments, texts, and items under `#[cfg(test)]`.
pub fn tokens(text: &str) -> Vec<Token> {
    without_tests(lex(&text.chars().collect::<Vec<_>>()))
}

fn lex(text: &[char]) -> Vec<Token> {
    let mut out = Vec::new();
    let mut at = 0;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while at < text.len() {
        let rest = &text[at..];
        at += match rest {
            ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
            ['/', '*', ..] => block_comment(rest),
            ['r' | 'b' | 'c', ..] if raw_string(rest).is_some() => raw_string(rest).unwrap_or(1),
            ['b' | 'c', '"', ..] => 1 + string(&rest[1..]),
            ['"', ..] => string(rest),
            ['b', '\'', ..] => 1 + character(&rest[1..]),
            ['\'', ..] => character(rest),
            // A raw word is the word.
            ['r', '#', c, ..] if is_word(*c) => 2,
            [c, ..] if is_word(*c) => {
                let word: String = rest.iter().take_while(|c| is_word(**c)).collect();
                let length = word.chars().count();
                out.push(Token::Word(word));
                length
            }
            [':', ':', ..] => {
                out.push(Token::Path);
                2
            }
            [c, ..] => {
                if !c.is_whitespace() {
                    out.push(Token::Mark(*c));
                }
                1
            }
            [] => 1,
        };
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = rest.iter().take_while(|c| "brc".contains(**c)).count();
    if !rest[..prefix].contains(&'r') || prefix > 2 {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    if rest.get(prefix + hashes) != Some(&'"') {
        return None;
    }
    let end: String = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let end: Vec<char> = end.chars().collect();
    let body = prefix + hashes + 1;
    let length = rest[body..]
        .windows(end.len())
        .position(|part| part == end)?;
    Some(body + length + end.len())
}

/// A character, or the mark of a lifetime.
fn character(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', ..] => {
            let end = rest.iter().skip(3).position(|c| *c == '\'');
            end.map_or(rest.len(), |at| at + 4)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// Leaves out what follows `#[cfg(test)]`: one item, to its `;` or the end of its braces.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let gate: Vec<Token> = lex(&"#[cfg(test)]".chars().collect::<Vec<_>>());
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].starts_with(&gate) {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += gate.len();
        let mut depth = 0usize;
        while at < tokens.len() {
            at += 1;
            match &tokens[at - 1] {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                Token::Mark(';') if depth == 0 => break,
                _ => {}
            }
        }
    }
    out
}

/// Every absolute path of a file that is the module `module` (`[]` is the crate's root).
pub fn paths(tokens: &[Token], module: &[&str]) -> Vec<Absolute> {
    let mut found = Vec::new();
    let mut module: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
    // Depth of braces at which each inline module began.
    let mut inline = Vec::new();
    let mut depth = 0usize;
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            [Token::Word(word), Token::Word(name), Token::Mark('{'), ..] if word == "mod" => {
                module.push(name.clone());
                inline.push(depth);
                depth += 1;
                at += 3;
                continue;
            }
            [Token::Mark('{'), ..] => depth += 1,
            [Token::Mark('}'), ..] => {
                depth = depth.saturating_sub(1);
                if inline.last() == Some(&depth) {
                    inline.pop();
                    module.pop();
                }
            }
            [Token::Word(word), Token::Path, ..]
                if matches!(word.as_str(), "crate" | "self" | "super")
                    && (at == 0 || tokens[at - 1] != Token::Path) =>
            {
                let base = match word.as_str() {
                    "crate" => Vec::new(),
                    "self" => module.clone(),
                    _ => parent(&module),
                };
                at = tree(tokens, at + 2, base, &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn parent(module: &[String]) -> Vec<String> {
    let mut parent = module.to_vec();
    parent.pop();
    parent
}

/// Reads what may stand behind `::`; gives the place behind it.
fn tree(
    tokens: &[Token],
    mut at: usize,
    mut base: Vec<String>,
    found: &mut Vec<Absolute>,
) -> usize {
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) if word == "super" => {
                base.pop();
                at += 1;
            }
            Some(Token::Word(word)) => {
                if word != "self" {
                    base.push(word.clone());
                }
                at += 1;
            }
            Some(Token::Mark('*')) => {
                base.push("*".into());
                found.push(base);
                return at + 1;
            }
            Some(Token::Mark('{')) => {
                at += 1;
                while !matches!(tokens.get(at), Some(Token::Mark('}')) | None) {
                    if tokens.get(at) == Some(&Token::Mark(',')) {
                        at += 1;
                    } else {
                        at = tree(tokens, at, base.clone(), found).max(at + 1);
                        // `as name`
                        while matches!(tokens.get(at), Some(Token::Word(_))) {
                            at += 1;
                        }
                    }
                }
                return at + 1;
            }
            // Generic arguments behind `::` hold paths of their own.
            _ => {
                found.push(base);
                return at;
            }
        }
        if tokens.get(at) == Some(&Token::Path) {
            at += 1;
        } else {
            found.push(base);
            return at;
        }
    }
}
