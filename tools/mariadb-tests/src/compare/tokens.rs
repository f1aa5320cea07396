//! Statements in pieces, so that some can be left out.

/// The words, quoted texts and signs of a statement, each with the space before it.
pub fn tokens(sql: &str) -> Vec<&str> {
    let bytes = sql.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let begin = at;
        while at < bytes.len() && bytes[at] == b' ' {
            at += 1;
        }
        at = match bytes.get(at) {
            None => at,
            Some(b'\'') => end_of_quote(bytes, at),
            Some(byte) if is_word(*byte) => at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count(),
            Some(_) => at + 1,
        };
        tokens.push(&sql[begin..at]);
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'@') || byte >= 0x80
}

fn end_of_quote(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The ranges of tokens that are elements of a list, with the comma that goes with them; long ones
/// first.
pub fn elements(tokens: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut opened = vec![Vec::new()];
    for (at, token) in tokens.iter().enumerate() {
        match token.trim() {
            "(" => opened.push(vec![at]),
            "," => opened.last_mut().into_iter().for_each(|commas| commas.push(at)),
            ")" if opened.len() > 1 => {
                let mut bounds = opened.pop().unwrap_or_default();
                bounds.push(at);
                found.extend(elements_between(&bounds, true));
            }
            _ => {}
        }
    }
    let mut bounds = opened.swap_remove(0);
    bounds.push(tokens.len());
    found.extend(elements_between(&bounds, false));
    found.sort_by_key(|(from, to)| from.wrapping_sub(*to));
    found
}

/// `bounds` are the commas, and what is before and after all.
fn elements_between(bounds: &[usize], begins: bool) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (n, pair) in bounds.windows(2).enumerate() {
        if n == 0 && begins && bounds.len() > 2 {
            found.push((pair[0] + 1, pair[1] + 1));
        } else if n > 0 || !begins {
            found.push((pair[0], pair[1]));
        }
    }
    found
}

/// The statement without the tokens of a range.
pub fn without(tokens: &[&str], (from, to): (usize, usize)) -> String {
    tokens[..from].iter().chain(&tokens[to..]).copied().collect::<String>().trim().to_owned()
}

/// The statement without a column, where it lists columns: in a definition, or in both lists of an
/// INSERT.
pub fn without_column(sql: &str, column: &str) -> String {
    let tokens = tokens(sql);
    let lists = lists(&tokens);
    let Some(first) = lists.first() else { return sql.to_owned() };
    let names = |&(from, _): &(usize, usize)| tokens[from].trim() == column;
    let Some(at) = first.iter().position(names) else { return sql.to_owned() };
    let is_insert = sql.starts_with("INSERT") || sql.starts_with("REPLACE");
    let mut gone = vec![false; tokens.len()];
    for list in lists.iter().filter(|list| list.len() == first.len()).take(if is_insert { usize::MAX } else { 1 }) {
        let (from, to) = list[at];
        let with_comma = if at > 0 { from - 1..to } else { from..(to + 1).min(tokens.len()) };
        gone[with_comma].fill(true);
    }
    tokens.iter().zip(gone).filter(|(_, gone)| !gone).map(|(token, _)| *token).collect()
}

/// The lists in parentheses that are in no other: of each the ranges of its elements.
fn lists(tokens: &[&str]) -> Vec<Vec<(usize, usize)>> {
    let (mut lists, mut depth, mut begin) = (Vec::new(), 0, 0);
    let mut list: Vec<(usize, usize)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.trim() {
            "(" => {
                depth += 1;
                if depth == 1 {
                    begin = at + 1;
                }
            }
            ")" => {
                depth -= 1;
                if depth == 0 && begin < at {
                    list.push((begin, at));
                    lists.push(std::mem::take(&mut list));
                }
            }
            "," if depth == 1 && begin < at => {
                list.push((begin, at));
                begin = at + 1;
            }
            _ => {}
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_the_sum_of_its_tokens() {
        let sql = "INSERT INTO t (a, b) VALUES ('x''y, (', -1), (NULL, x'00')";
        assert_eq!(tokens(sql).concat(), sql);
        assert!(tokens(sql).contains(&"'x''y, ('"));
    }

    #[test]
    fn a_column_goes_from_a_definition_and_from_rows() {
        assert_eq!(
            without_column("INSERT INTO t (a, b, c) VALUES (1, 'x, y', (3)), (4, 5, 6)", "b"),
            "INSERT INTO t (a, c) VALUES (1, (3)), (4, 6)"
        );
        assert_eq!(
            without_column("CREATE TABLE t (a INT, b DECIMAL(3,2), KEY k (b, a))", "a"),
            "CREATE TABLE t ( b DECIMAL(3,2), KEY k (b, a))"
        );
    }

    #[test]
    fn an_element_goes_with_one_comma() {
        let sql = "f (a, b, c)";
        let tokens = tokens(sql);
        let mut without_one: Vec<_> = elements(&tokens).into_iter().map(|range| without(&tokens, range)).collect();
        without_one.sort();
        assert_eq!(without_one, ["f ( b, c)", "f (a, b)", "f (a, c)"]);
    }
}
