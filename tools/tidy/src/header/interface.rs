//! What a module of the C interface defines, as its syntax says.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;

/// A module's documentation and definitions, in the order of the source.
pub struct Module {
    pub docs: String,
    pub items: Vec<Item>,
}

/// A definition with its documentation.
pub struct Item {
    pub docs: String,
    pub name: String,
    pub what: What,
}

/// What is defined.
pub enum What {
    /// A number.
    Constant(String),
    /// A struct of which C has only pointers.
    Handle,
    Enum(Vec<Variant>),
    Struct(Vec<Field>),
    /// A name for the type of a function that the caller brings.
    Callback(syn::TypeBareFn),
    Function {
        parameters: Vec<(String, syn::Type)>,
        returns: syn::Type,
    },
}

/// A variant with its number.
pub struct Variant {
    pub docs: String,
    pub name: String,
    pub number: String,
}

/// A field of a struct.
pub struct Field {
    pub docs: String,
    pub name: String,
    pub ty: syn::Type,
}

impl Module {
    /// Reads what is public; tests and code are passed over.
    ///
    /// # Errors
    /// If entry points are not as the macro of that name takes them, or a variant has no number.
    pub fn read(syntax: &syn::File) -> syn::Result<Module> {
        let mut items = Vec::new();
        for item in &syntax.items {
            items.extend(read_item(item)?);
        }
        Ok(Module { docs: docs(&syntax.attrs), items })
    }
}

fn read_item(item: &syn::Item) -> syn::Result<Vec<Item>> {
    let one = |attrs: &[syn::Attribute], name: &syn::Ident, what| {
        Ok(vec![Item { docs: docs(attrs), name: name.to_string(), what }])
    };
    let is_public = |vis: &syn::Visibility| matches!(vis, syn::Visibility::Public(_));
    match item {
        syn::Item::Const(item) if is_public(&item.vis) => {
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) = &*item.expr else {
                return Ok(Vec::new());
            };
            one(&item.attrs, &item.ident, What::Constant(number.to_string()))
        }
        syn::Item::Struct(item) if is_public(&item.vis) && !is_repr_c(&item.attrs) => {
            one(&item.attrs, &item.ident, What::Handle)
        }
        syn::Item::Struct(item) if is_public(&item.vis) => {
            let field = |field: &syn::Field| Field {
                docs: docs(&field.attrs),
                name: field.ident.as_ref().map(ToString::to_string).unwrap_or_default(),
                ty: field.ty.clone(),
            };
            one(&item.attrs, &item.ident, What::Struct(item.fields.iter().map(field).collect()))
        }
        syn::Item::Enum(item) if is_public(&item.vis) => {
            let variants = item.variants.iter().map(read_variant).collect::<syn::Result<_>>()?;
            one(&item.attrs, &item.ident, What::Enum(variants))
        }
        syn::Item::Type(item) if is_public(&item.vis) => match &*item.ty {
            syn::Type::BareFn(function) => one(&item.attrs, &item.ident, What::Callback(function.clone())),
            _ => Ok(Vec::new()),
        },
        syn::Item::Fn(item) if is_public(&item.vis) && item.sig.abi.is_some() => {
            let syn::ReturnType::Type(_, returns) = &item.sig.output else { return Ok(Vec::new()) };
            let parameters = item.sig.inputs.iter().filter_map(|input| match input {
                syn::FnArg::Typed(syn::PatType { pat, ty, .. }) => match &**pat {
                    syn::Pat::Ident(name) => Some((name.ident.to_string(), (**ty).clone())),
                    _ => None,
                },
                syn::FnArg::Receiver(_) => None,
            });
            let what = What::Function { parameters: parameters.collect(), returns: (**returns).clone() };
            one(&item.attrs, &item.sig.ident, what)
        }
        syn::Item::Macro(item) => Ok(read_entry_points(item)?.into_iter().map(EntryPoint::into_item).collect()),
        _ => Ok(Vec::new()),
    }
}

/// The functions of the macro `entry_points`; none if they are not as it takes them.
pub fn entry_points(item: &syn::ItemMacro) -> Vec<EntryPoint> {
    read_entry_points(item).unwrap_or_default()
}

fn read_entry_points(item: &syn::ItemMacro) -> syn::Result<Vec<EntryPoint>> {
    if !item.mac.path.is_ident("entry_points") {
        return Ok(Vec::new());
    }
    Ok(syn::parse2::<EntryPoints>(item.mac.tokens.clone())?.0)
}

fn read_variant(variant: &syn::Variant) -> syn::Result<Variant> {
    match &variant.discriminant {
        Some((_, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }))) => {
            Ok(Variant { docs: docs(&variant.attrs), name: variant.ident.to_string(), number: number.to_string() })
        }
        _ => Err(syn::Error::new_spanned(variant, "a variant without a number")),
    }
}

/// A function of the macro `entry_points`.
pub struct EntryPoint {
    docs: String,
    pub name: syn::Ident,
    pub parameters: Vec<(String, syn::Type)>,
    /// Where its body ends.
    pub end: Span,
}

impl EntryPoint {
    fn into_item(self) -> Item {
        let EntryPoint { docs, name, parameters, .. } = self;
        Item { docs, name: name.to_string(), what: What::Function { parameters, returns: syn::parse_quote!(Code) } }
    }
}

struct EntryPoints(Vec<EntryPoint>);

impl Parse for EntryPoints {
    fn parse(input: ParseStream<'_>) -> syn::Result<EntryPoints> {
        let mut functions = Vec::new();
        while !input.is_empty() {
            let attrs = input.call(syn::Attribute::parse_outer)?;
            input.parse::<syn::Token![fn]>()?;
            let name = input.parse()?;
            let list;
            syn::parenthesized!(list in input);
            let parameters = Punctuated::<Parameter, syn::Token![,]>::parse_terminated(&list)?;
            let parameters = parameters.into_iter().map(|parameter| (parameter.name, parameter.ty)).collect();
            let body;
            let braces = syn::braced!(body in input);
            body.parse::<TokenStream>()?;
            functions.push(EntryPoint { docs: docs(&attrs), name, parameters, end: braces.span.close() });
        }
        Ok(EntryPoints(functions))
    }
}

struct Parameter {
    name: String,
    ty: syn::Type,
}

impl Parse for Parameter {
    fn parse(input: ParseStream<'_>) -> syn::Result<Parameter> {
        let name = input.parse::<syn::Ident>()?.to_string();
        input.parse::<syn::Token![:]>()?;
        Ok(Parameter { name, ty: input.parse()? })
    }
}

fn is_repr_c(attributes: &[syn::Attribute]) -> bool {
    let is_c = |attribute: &syn::Attribute| attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "C");
    attributes.iter().any(|attribute| attribute.path().is_ident("repr") && is_c(attribute))
}

/// The lines of documentation, without the section on safety, which is the same for all.
fn docs(attributes: &[syn::Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let syn::Meta::NameValue(syn::MetaNameValue {
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }),
            ..
        }) = &attribute.meta
        {
            lines.push(line.value().strip_prefix(' ').map_or_else(|| line.value(), str::to_owned));
        }
    }
    let end = lines.iter().position(|line| line == "# Safety").unwrap_or(lines.len());
    lines[..end].join("\n").trim().to_owned()
}
