//! The functions of C++, as far as lengths go: what has a name, a list in parentheses and a body in
//! braces, also in a class.
//!
//! The text is not parsed. Comments, strings and lines of the preprocessor are blanks, and a name
//! of the language, as `if`, begins no function. A lambda is a part of the function that it is in.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Where it begins, with its type or its template.
    pub line: usize,
    pub lines: usize,
    pub parameters: usize,
}

/// The functions of a file, in their order.
pub fn functions(text: &str) -> Vec<Function> {
    let code = code(text);
    code.match_indices('(').filter_map(|(open, _)| function(&code, open)).collect()
}

/// The names of the functions that override those of a class that may be another's.
pub fn overrides(text: &str) -> Vec<String> {
    static DECLARED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(\w+)\([^;{}]*\)\s*(?:const\s*)?override\b").expect("valid"));
    DECLARED.captures_iter(&code(text)).map(|captures| captures[1].to_owned()).collect()
}

/// What is left if comments, strings and lines of the preprocessor are blanks, each byte in its
/// place.
fn code(text: &str) -> String {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| {
        let comments = r"(?s:/\*.*?\*/)|//[^\n]*";
        let strings = r#""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"#;
        Regex::new(&format!(r"{comments}|{strings}|(?m:^[ \t]*#(?:\\\n|[^\n])*)")).expect("valid")
    });
    let blank = |other: &Captures<'_>| -> String {
        other[0].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
    };
    OTHER.replace_all(text, blank).into_owned()
}

/// The function whose list of parameters begins at `open`, if one does.
fn function(code: &str, open: usize) -> Option<Function> {
    let name = name_before(code[..open].trim_end())?;
    let close = matching(code, open)?;
    let body = body_after(code, close + 1)?;
    let end = matching(code, body)?;
    // Behind the last statement, body or `public:`.
    let before = &code.as_bytes()[..open];
    let is_end = |at: usize| match before[at] {
        b';' | b'{' | b'}' => true,
        b':' => before.get(at + 1) != Some(&b':') && (at == 0 || before[at - 1] != b':'),
        _ => false,
    };
    let from = (0..open).rev().find(|at| is_end(*at)).map_or(0, |at| at + 1);
    let begin = from + (code[from..].len() - code[from..].trim_start().len());
    let lines_to = |at: usize| code[..at].matches('\n').count() + 1;
    let (line, last) = (lines_to(begin), lines_to(end));
    Some(Function { name, line, lines: last - line + 1, parameters: count(&code[open + 1..close]) })
}

/// The name that a text ends with, of a function or an operator.
fn name_before(text: &str) -> Option<String> {
    const WORDS: [&str; 10] =
        ["if", "for", "while", "switch", "catch", "return", "sizeof", "constexpr", "alignas", "operator"];
    let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let name = text.rsplit(other).next().filter(|name| !name.is_empty());
    let operator = || {
        let tail = text.get(text.len().saturating_sub("operator []".len())..)?;
        tail.find("operator").map(|at| &tail[at..])
    };
    name.or_else(operator).filter(|name| !WORDS.contains(name)).map(str::to_owned)
}

/// The end of what a parenthesis, bracket or brace begins.
fn matching(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Where the body begins of a function whose list of parameters ends before `at`.
fn body_after(code: &str, at: usize) -> Option<usize> {
    const WORDS: [&str; 6] = ["const", "noexcept", "override", "final", "volatile", "&"];
    let mut rest = code[at..].trim_start();
    while let Some(behind) = WORDS.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = behind.trim_start();
    }
    if rest.starts_with("->") {
        rest = &rest[rest.find(['{', ';'])?..];
    }
    if let Some(mut list) = rest.strip_prefix(':').filter(|list| !list.starts_with(':')) {
        // The members and bases that a constructor begins with, each as `name(value)`.
        loop {
            let open = list.find(['(', '{', ';']).filter(|open| !list[..*open].trim().is_empty())?;
            rest = list[matching(list, open)? + 1..].trim_start();
            match rest.strip_prefix(',') {
                Some(more) => list = more,
                None => break,
            }
        }
    }
    rest.starts_with('{').then(|| code.len() - rest.len())
}

/// The parameters of a list.
fn count(list: &str) -> usize {
    if ["", "void"].contains(&list.trim()) {
        return 0;
    }
    let (mut depth, mut commas) = (0, 0);
    for letter in list.chars() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    commas + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, usize, usize, usize)> {
        functions(text).into_iter().map(|f| (f.name, f.line, f.lines, f.parameters)).collect()
    }

    #[test]
    fn a_function_begins_with_its_type_and_ends_with_its_body() {
        let text = "#define F(x) { }\nint a;\n/* f() { */\nstatic const char *\nf(int x, std::map<int, int> y)\n{\n  if (x)\n  {\n    g(\"{\");\n  }\n}\nint g(void) { return '}'; }\n";
        assert_eq!(of(text), [("f".into(), 4, 8, 2), ("g".into(), 12, 1, 0)]);
    }

    #[test]
    fn a_class_has_functions_and_a_declaration_is_none() {
        let text = "class A\n{\npublic:\n  A(int x, int y) : a(x), b{y} {}\n  int f(int (*g)(int, int)) const override\n  { return [](int a, int b) { return a; }(1, 2); }\n  void g(int a);\n  bool operator()(int a) { return a; }\n};\n";
        let names: Vec<_> = of(text).into_iter().map(|(name, line, _, parameters)| (name, line, parameters)).collect();
        assert_eq!(names, [("A".into(), 4, 2), ("f".into(), 5, 1), ("operator()".into(), 8, 1)]);
    }
}
