//! The report: a [`Document`] as one self-contained HTML page, in light and dark, with inline SVG
//! charts. It loads nothing from elsewhere.
//!
//! It begins with what a reader in a hurry wants: the command, each claim with its answer and
//! number, and the pictures. Everything else is folded.

mod chart;
mod figures;
mod palette;
pub mod picture;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use self::figures::Body;
use crate::claims::{Answer, Verdict};
use crate::document::Document;

const STYLE: &str = include_str!("style.css");
/// The title of what says where figures come from.
const PROVENANCE: &str = "Machine and settings";
const SCRIPT: &str = include_str!("script.js");

/// Answers and pictures; the rest is folded.
fn show(document: &Document) -> Markup {
    let Body { lead, pictures, folded: parts } = figures::body(&document.figures);
    html! {
        (lead)
        @if !document.command.is_empty() { pre class="command" { (document.command) } }
        (verdicts(document))
        (changes(document))
        div style=[command_of_charts(document)] {
            (pictures)
            @for (title, content) in &parts { (folded(title, content)) }
        }
    }
}

/// The style by which each chart names the command that made it, as one that is cut out of the page
/// has to.
fn command_of_charts(document: &Document) -> Option<String> {
    let text = document.command.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\a ");
    (!text.is_empty()).then(|| format!("--command: \"{text}\""))
}

/// A section that a reader unfolds.
fn folded(title: &str, content: &Markup) -> Markup {
    html! { details class="part" { summary { h2 { (title) } } (content) } }
}

/// The report of `document` as HTML.
pub fn page(document: &Document) -> String {
    let header = html! {
        p class="kicker" { "Holdfast lab \u{b7} " (document.experiment) }
        h1 { (document.title) }
        (summary(document))
    };
    frame(&document.title, &header, &html! { (show(document)) (provenance(document)) })
}

/// The report of several experiments as HTML: a summary, the experiments, provenance.
pub fn page_of_all(documents: &[Document]) -> String {
    let title = "All experiments";
    let header = html! { p class="kicker" { "Holdfast lab" } h1 { (title) } };
    let machine = documents.first().map(|d| serde_json::to_value(&d.machine).unwrap_or(Value::Null));
    frame(
        title,
        &header,
        &html! {
            (summary_of_all(documents))
            @for document in documents {
                section id=(document.experiment) class="experiment" {
                    p class="kicker" { (document.experiment) }
                    h1 { (document.title) }
                    (show(document))
                }
            }
            (folded(PROVENANCE, &html! {
                div class="columns" {
                    @if let Some(machine) = machine { (listing("Machine", &machine)) }
                    @for document in documents {
                        (listing(&format!("Settings of {}", document.experiment), &document.settings))
                    }
                }
            }))
        },
    )
}

fn summary_of_all(documents: &[Document]) -> Markup {
    html! {
        section {
            h2 { "Summary" }
            div class="scroll" { table {
                thead { tr { th { "experiment" } th { "" } th class="n" { "claims that hold" } th { "the others" } } }
                tbody { @for d in documents {
                    @let holds = d.with(Answer::Holds).count();
                    tr {
                        td { a href=(format!("#{}", d.experiment)) { (d.experiment) } }
                        td { (d.title) }
                        td class=(if d.verdicts.is_empty() { "n".to_owned() } else { format!("n {}", class(d.answer())) }) {
                            (holds) " of " (d.verdicts.len())
                        }
                        td { @for v in d.verdicts.iter().filter(|v| v.answer != Answer::Holds) {
                            div { (v.answer.name()) ": " (v.claim) ": " (v.measured()) " (" (v.bar) ")" }
                        } }
                    }
                } }
            } }
        }
    }
}

/// What changed since an earlier run.
fn changes(document: &Document) -> Markup {
    html! {
        @if !document.changes.is_empty() {
            section {
                h2 { "Since the baseline" }
                ul { @for line in &document.changes { li { (line) } } }
            }
        }
    }
}

/// A complete page.
fn frame(title: &str, header: &Markup, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Holdfast lab: " (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(palette::rules())) }
            }
            body {
                header { (header) }
                main { (main) }
                div id="tip" {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The CSS class of an answer.
fn class(answer: Answer) -> &'static str {
    match answer {
        Answer::Holds => "good",
        Answer::CannotTell => "unsure",
        Answer::Fails => "bad",
    }
}

fn mark(answer: Answer) -> &'static str {
    match answer {
        Answer::Holds => "\u{2713} holds",
        Answer::CannotTell => "? cannot tell",
        Answer::Fails => "\u{2717} fails",
    }
}

fn summary(document: &Document) -> Markup {
    let all = document.verdicts.len();
    let [holds, unsure] = [Answer::Holds, Answer::CannotTell].map(|answer| document.with(answer).count());
    html! {
        @if all > 0 {
            p class=(format!("result {}", class(document.answer()))) {
                strong { (holds) " of " (all) " claims hold" }
                @if unsure > 0 { "; of " (unsure) " it could not be told here" }
            }
        }
    }
}

fn verdicts(document: &Document) -> Markup {
    if document.verdicts.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Answers" }
            div class="scroll" { table {
                thead { tr { th { "" } th { "claim" } th class="n" { "measured" } th class="n" { "bar" } } }
                tbody {
                    @for v in &document.verdicts { (verdict(v)) }
                }
            } }
        }
    }
}

fn verdict(v: &Verdict) -> Markup {
    html! {
        tr {
            td class=(class(v.answer)) { (mark(v.answer)) }
            td { (v.claim) @if !v.reason.is_empty() { div class="note" { (v.reason) } } }
            td class="n" { (v.measured()) }
            td class="n" { (v.bar) }
        }
    }
}

fn provenance(document: &Document) -> Markup {
    let machine = serde_json::to_value(&document.machine).unwrap_or(Value::Null);
    let content = html! {
        div class="columns" {
            (listing("Machine", &machine))
            (listing("What else it did", &serde_json::to_value(document.conditions).unwrap_or(Value::Null)))
            (listing("Settings", &document.settings))
        }
    };
    folded(PROVENANCE, &content)
}

fn listing(title: &str, fields: &Value) -> Markup {
    let fields = fields.as_object().into_iter().flatten();
    html! {
        div {
            h3 { (title) }
            dl { @for (name, value) in fields {
                dt { (name.replace('_', " ")) }
                dd { (value_text(value)) }
            } }
        }
    }
}

/// A JSON value as text.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), number_text),
        Value::Array(values) => values.iter().map(value_text).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let parts: Vec<String> =
                fields.iter().map(|(k, v)| format!("{} {}", k.replace('_', " "), value_text(v))).collect();
            parts.join(", ")
        }
        other => other.to_string(),
    }
}

fn number_text(v: f64) -> String {
    if v.fract() == 0.0 && v.abs() >= 10_000.0 {
        return crate::measure::human(v);
    }
    let text = format!("{v:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::Machine;

    #[test]
    fn charts_name_the_command_that_made_them() {
        let mut document = Document::new("scan", json!({}), Machine::this(None));
        assert!(!page(&document).contains("--command: "), "it was not made by a command");
        document.command = r#"holdfast lab scan --dir 'a "b\c'"#.to_owned();
        let page = page(&document);
        assert!(page.contains(r#"style="--command: &quot;holdfast lab scan --dir 'a \&quot;b\\c'&quot;""#), "{page}");
        assert!(page.contains("content: var(--command)"));
    }
}
