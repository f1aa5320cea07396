//! The text of the header.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::interface::{Item, Module, Variant, What};

/// Columns of a line.
const COLUMNS: usize = 100;

/// The header of an interface whose crate is documented by `root`.
///
/// # Errors
/// If a type has no like in C.
pub fn header(root: &Module, modules: &[Module]) -> anyhow::Result<String> {
    let mut out = comment(0, &format!("{}\n\nSPDX-License-Identifier: MIT", root.docs));
    out += "\n#ifndef HOLDFAST_H\n#define HOLDFAST_H\n\n";
    out += "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n";
    out += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    for item in modules.iter().flat_map(|module| &module.items) {
        if matches!(item.what, What::Handle) {
            let name = type_name(&item.name);
            out += &format!("\n{}typedef struct {name} {name};\n", comment(0, &item.docs));
        }
    }
    for item in &root.items {
        out += &definition(item)?;
    }
    for module in modules.iter().filter(|module| !module.items.is_empty()) {
        out += &format!("\n\n{}", comment(0, module.docs.split("\n\n").next().unwrap_or_default()));
        for item in &module.items {
            out += &definition(item)?;
        }
    }
    out += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    Ok(out)
}

/// A definition with its comment, behind an empty line. Handles are defined before all.
fn definition(item: &Item) -> anyhow::Result<String> {
    let name = type_name(&item.name);
    let text = match &item.what {
        What::Handle => return Ok(String::new()),
        What::Constant(number) => format!("#define HF_{} {number}\n", item.name),
        What::Enum(variants) => {
            let variant =
                |v: &Variant| format!("{}  {}= {}", comment(2, &v.docs), value_name(&item.name, &v.name), v.number);
            let variants: Vec<_> = variants.iter().map(variant).collect();
            format!("typedef enum {{\n{}\n}} {name};\n", variants.join(",\n"))
        }
        What::Struct(fields) => {
            let mut text = "typedef struct {\n".to_owned();
            for field in fields {
                text += &format!("{}  {};\n", comment(2, &field.docs), declare(&field.ty, &field.name)?);
            }
            format!("{text}}} {name};\n")
        }
        What::Callback(function) => {
            format!("typedef {};\n", declare(&syn::Type::BareFn(function.clone()), &name)?)
        }
        What::Function { parameters, returns } => {
            let parameters = parameters.iter().map(|(name, ty)| declare(ty, name));
            let parameters = parameters.collect::<anyhow::Result<Vec<_>>>()?;
            call(&declare(returns, &item.name)?, &parameters) + ";\n"
        }
    };
    Ok(format!("\n{}{text}", comment(0, &item.docs)))
}

/// A name of type `ty` as C declares it.
fn declare(ty: &syn::Type, name: &str) -> anyhow::Result<String> {
    qualified(ty, name, false)
}

fn qualified(ty: &syn::Type, name: &str, is_const: bool) -> anyhow::Result<String> {
    let word = if is_const { "const " } else { "" };
    match ty {
        syn::Type::Ptr(pointer) => qualified(&pointer.elem, &format!("*{word}{name}"), pointer.const_token.is_some()),
        syn::Type::BareFn(function) => {
            let parameter = |argument: &syn::BareFnArg| {
                let name = argument.name.as_ref().map(|(name, _)| name.to_string()).unwrap_or_default();
                declare(&argument.ty, &name)
            };
            let parameters = function.inputs.iter().map(parameter).collect::<anyhow::Result<Vec<_>>>()?;
            let list = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
            match &function.output {
                syn::ReturnType::Default => Ok(format!("void (*{name})({list})")),
                syn::ReturnType::Type(_, returns) => declare(returns, &format!("(*{name})({list})")),
            }
        }
        syn::Type::Path(path) => {
            let segment = path.path.segments.last().expect("a path has a segment");
            if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
                && segment.ident == "Option"
                && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
            {
                // Null is what is none.
                return qualified(inner, name, is_const);
            }
            Ok(format!("{word}{} {name}", type_name(&segment.ident.to_string())))
        }
        _ => anyhow::bail!("the type of `{name}` has no like in C"),
    }
}

/// A function with its parameters, in lines.
fn call(declared: &str, parameters: &[String]) -> String {
    if parameters.is_empty() {
        return format!("{declared}(void)");
    }
    let mut text = format!("{declared}(");
    let indent = text.len();
    let mut column = indent;
    for (no, parameter) in parameters.iter().enumerate() {
        // With the comma, or the parenthesis and the semicolon.
        let len = parameter.len() + 2;
        if no > 0 && column + 1 + len > COLUMNS {
            text += &format!("\n{}", " ".repeat(indent));
            column = indent;
        } else if no > 0 {
            text += " ";
            column += 1;
        }
        let end = if no + 1 == parameters.len() { ")" } else { "," };
        text += &format!("{parameter}{end}");
        column += len - 1;
    }
    text
}

/// The name of a type in C.
fn type_name(name: &str) -> String {
    match name {
        "u8" | "u16" | "u32" | "u64" => format!("uint{}_t", &name[1..]),
        "usize" => "size_t".into(),
        "bool" => "bool".into(),
        "f64" => "double".into(),
        "c_void" => "void".into(),
        "c_char" => "char".into(),
        _ => format!("hf_{}", snake(name)),
    }
}

/// The name of an enum's variant in C.
fn value_name(of: &str, variant: &str) -> String {
    let prefix = if of == "Code" { String::new() } else { snake(of) + "_" };
    format!("HF_{prefix}{}", snake(variant)).to_uppercase()
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// The documentation as a comment in C, indented.
fn comment(indent: usize, docs: &str) -> String {
    static HEADING: LazyLock<Regex> = LazyLock::new(|| Regex::new("(?m)^# (.*)$").expect("valid"));
    static VALUE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[`(\w+)::(\w+)`\]").expect("valid"));
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[`(\w+)`\]").expect("valid"));
    let docs = HEADING.replace_all(docs, "$1:");
    let docs = VALUE.replace_all(&docs, |name: &Captures<'_>| value_name(&name[1], &name[2]));
    let docs = NAME.replace_all(&docs, |name: &Captures<'_>| match &name[1] {
        function if function.starts_with("hf_") => function.to_owned(),
        name => type_name(name),
    });
    let pad = " ".repeat(indent);
    let lines = fill(&docs, COLUMNS - indent - "/*  */".len());
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines.iter().enumerate().map(|(no, line)| match (no, line.as_str()) {
        (0, line) => format!("{pad}/* {line}"),
        (_, "") => String::new(),
        (_, line) => format!("{pad}   {line}"),
    });
    lines.collect::<Vec<_>>().join("\n") + " */\n"
}

/// Paragraphs and lists in lines of so many columns.
fn fill(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let item = line.starts_with("* ");
        let follows = !item && !line.is_empty() && lines.last().is_some_and(|last| !last.is_empty());
        let indent = match lines.last() {
            Some(last) if follows && (last.starts_with("* ") || last.starts_with("  ")) => "  ",
            _ => "",
        };
        if !follows {
            lines.push(String::new());
        }
        for word in line.split_whitespace() {
            let last = lines.last_mut().expect("a line was pushed");
            let indent = if item { "  " } else { indent };
            if last.is_empty() {
                last.push_str(word);
            } else if last.len() + 1 + word.len() <= columns {
                last.push(' ');
                last.push_str(word);
            } else {
                lines.push(format!("{indent}{word}"));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(ty: &str) -> String {
        declare(&syn::parse_str(ty).unwrap(), "x").unwrap()
    }

    #[test]
    fn types_are_declared_as_c_does() {
        assert_eq!(declared("*const u8"), "const uint8_t *x");
        assert_eq!(declared("*mut *mut Table"), "hf_table **x");
        assert_eq!(declared("*const *mut Alter"), "hf_alter *const *x");
        assert_eq!(declared("Option<extern \"C\" fn(context: *mut c_void) -> bool>"), "bool (*x)(void *context)");
        assert!(declare(&syn::parse_str("(u8, u8)").unwrap(), "x").is_err());
    }

    #[test]
    fn names_are_spelled_as_c_does() {
        assert_eq!(type_name("BackupReport"), "hf_backup_report");
        assert_eq!(value_name("FlushMethod", "ODirect"), "HF_FLUSH_METHOD_O_DIRECT");
        assert_eq!(value_name("Code", "NotFound"), "HF_NOT_FOUND");
    }

    #[test]
    fn a_list_keeps_its_items() {
        assert_eq!(fill("a b\nc\n\n* d e f\n  g\n* h", 7), ["a b c", "", "* d e f", "  g", "* h"]);
    }
}
