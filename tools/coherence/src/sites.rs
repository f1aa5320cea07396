//! Addresses of code as places in the source.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use addr2line::Loader;

/// Names the places of one program.
pub struct Sites {
    loader: Loader,
    /// Where the program was mapped.
    mapped: Range<u64>,
    names: HashMap<u64, String>,
}

impl Sites {
    /// Reads the debug information of `program`, which was mapped at `mapped`.
    ///
    /// # Errors
    /// The program cannot be read.
    pub fn of(program: &Path, mapped: Range<u64>) -> anyhow::Result<Sites> {
        let loader = Loader::new(program).map_err(|error| anyhow::anyhow!("{}: {error}", program.display()))?;
        Ok(Sites { loader, mapped, names: HashMap::new() })
    }

    /// The names of the two most frequent of `sites`, the most frequent first.
    ///
    /// # Errors
    /// The debug information is damaged.
    pub fn most_frequent(&mut self, sites: &HashMap<u64, u64>) -> anyhow::Result<Vec<String>> {
        let mut by_name: HashMap<String, u64> = HashMap::new();
        for (&address, &count) in sites {
            *by_name.entry(self.name(address)?).or_default() += count;
        }
        let mut names: Vec<(String, u64)> = by_name.into_iter().collect();
        names.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        Ok(names.into_iter().take(2).map(|(name, _)| name).collect())
    }

    /// The innermost line of code of the engine, `crate/file:line`. What is inlined into it counts
    /// as it.
    fn name(&mut self, address: u64) -> anyhow::Result<String> {
        if let Some(name) = self.names.get(&address) {
            return Ok(name.clone());
        }
        if !self.mapped.contains(&address) {
            return Ok("a library".to_owned());
        }
        let relative = address - self.mapped.start;
        let damaged = |error| anyhow::anyhow!("debug information at {relative:#x}: {error}");
        let mut frames = self.loader.find_frames(relative).map_err(damaged)?;
        let mut name = None;
        while let Some(frame) = frames.next().map_err(|error| damaged(error.into()))? {
            let Some(location) = frame.location else { continue };
            let Some(file) = location.file.and_then(in_engine) else { continue };
            let file = file.replacen("/src", "", 1);
            name = Some(format!("{file}:{}", location.line.unwrap_or(0)));
            break;
        }
        let symbol = || addr2line::demangle_auto(self.loader.find_symbol(relative).unwrap_or("elsewhere").into(), None);
        let name = name.unwrap_or_else(|| symbol().into_owned());
        self.names.insert(address, name.clone());
        Ok(name)
    }
}

/// Where a file of the source is in the folder of the engine's crates; `None` if it is elsewhere.
fn in_engine(file: &str) -> Option<&str> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    Path::new(file).strip_prefix(project.join("engine")).ok()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_engine_are_told_from_others() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let of = |file: &str| project.join(file).to_str().unwrap().to_owned();
        assert_eq!(in_engine(&of("engine/txn/src/row.rs")), Some("txn/src/row.rs"));
        assert_eq!(in_engine(&of("tools/lab/src/text.rs")), None);
        assert_eq!(in_engine("/registry/base64/src/engine/mod.rs"), None);
    }
}
