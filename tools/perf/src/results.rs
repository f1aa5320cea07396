//! The results: a file for each measurement, with the machine that gave it.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use holdfast_lab::machine::Machine;
use serde_json::{Value, json};

use crate::plan::{MEASUREMENTS, Measurement};

/// A measurement with what its command wrote.
pub struct Measured {
    pub measurement: Measurement,
    pub result: Value,
    /// See [`Machine`].
    pub machine: Value,
}

/// A folder of results.
pub struct Results {
    dir: PathBuf,
}

impl Results {
    /// The folder, which is made if it is not there.
    pub fn new(dir: PathBuf) -> anyhow::Result<Results> {
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        // Commands have folders of their own.
        Ok(Results { dir: dir.canonicalize()? })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    /// Where a command writes its result before it is taken.
    pub fn new_file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.new.json"))
    }

    /// True if there is a result.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Takes what the command wrote to `file`.
    pub fn take(&self, measurement: &Measurement, file: &Path) -> anyhow::Result<()> {
        let text = std::fs::read(file).with_context(|| format!("`{}` wrote no result", measurement.command))?;
        let result: Value = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        let whole = json!({ "machine": Machine::this(None), "result": result });
        std::fs::write(self.file(measurement.name), serde_json::to_string_pretty(&whole)?)?;
        Ok(std::fs::remove_file(file)?)
    }

    /// Writes another file into the folder.
    pub fn keep(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let file = self.dir.join(name);
        std::fs::write(&file, text)?;
        println!("{}", file.display());
        Ok(())
    }

    /// All results.
    ///
    /// # Errors
    /// If they are of different machines, or versions of Holdfast.
    pub fn of_one_machine(&self) -> anyhow::Result<Vec<Measured>> {
        let mut all: Vec<Measured> = Vec::new();
        for measurement in MEASUREMENTS.iter().filter(|one| self.has(one.name)) {
            let file = self.file(measurement.name);
            let whole: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
            let [machine, result] = ["machine", "result"].map(|key| whole[key].clone());
            if let Some(first) = all.first() {
                let differs = ["cpu", "cores", "memory_mib", "kernel", "holdfast"]
                    .into_iter()
                    .find(|key| first.machine[key] != machine[key]);
                ensure!(
                    differs.is_none(),
                    "{} and {} are results of different machines ({}): measure one again",
                    first.measurement.name,
                    measurement.name,
                    differs.unwrap_or_default()
                );
            }
            all.push(Measured { measurement: *measurement, result, machine });
        }
        ensure!(!all.is_empty(), "{} has no results", self.dir.display());
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_two_machines_are_refused() {
        let dir = std::env::temp_dir().join(format!("holdfast-perf-{}", std::process::id()));
        let results = Results::new(dir.clone()).unwrap();
        assert!(results.of_one_machine().is_err());
        let write = |name: &str, cores: u32| {
            std::fs::write(results.file(name), json!({"machine": {"cores": cores}, "result": {}}).to_string()).unwrap();
        };
        write("load", 2);
        write("purge", 2);
        assert_eq!(results.of_one_machine().unwrap().len(), 2);
        write("purge", 4);
        let error = results.of_one_machine().err().unwrap().to_string();
        assert!(error.contains("load and purge") && error.contains("cores"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
