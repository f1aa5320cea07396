//! The table of `sideload` on each server: what a dump does to the hot table.

use anyhow::Context;
use holdfast_lab::measure::human;
use serde_json::Value;

use crate::plan::Form;
use crate::results::Measured;
use crate::tables::{list, number, text};

const HEAD: &str = "\
| server | engine | a cold hot table is warm after | reads until then | a warm one: reads beside the dump | OLTP beside the dump, by alone |
|---|---|---:|---:|---:|---:|
";

/// The table, if `sideload` was measured on a server of today.
///
/// # Errors
/// If a result lacks what the table shows.
pub fn table(all: &[Measured]) -> anyhow::Result<Option<String>> {
    if !all.iter().any(|one| one.measurement.form == Form::Server) {
        return Ok(None);
    }
    let (mut targets, mut rows) = (Vec::new(), String::from(HEAD));
    for one in all {
        let Some((target, server)) = one.measurement.sideload_server() else { continue };
        targets.push(format!("`{target}`"));
        rows += &of_server(server, &one.result).with_context(|| server.to_owned())?;
    }
    Ok(Some(format!("`holdfast lab sideload --target SERVER` with {}:\n\n{rows}", targets.join(", "))))
}

/// A row for each engine or setting that was measured on the server.
fn of_server(server: &str, result: &Value) -> anyhow::Result<String> {
    let runs = list(result, "runs")?;
    let mut rows = String::new();
    for cold in runs.iter().filter(|run| run["metrics"]["start"] == "cold") {
        let engine = text(cold, "policy")?;
        let warm = runs.iter().find(|run| run["policy"] == cold["policy"] && run["metrics"]["start"] == "warm");
        let Some(warm) = warm else { continue };
        let to_get_warm = &cold["metrics"]["warm"];
        let seconds = number(to_get_warm, "seconds")?;
        let after =
            if to_get_warm["reached"] == true { format!("{seconds:.1} s") } else { format!("not in {seconds:.0} s") };
        let beside =
            || Some(warm["metrics"]["tps_beside"]["median"].as_f64()? / warm["metrics"]["tps_alone"].as_f64()?);
        rows += &format!(
            "| {server} | {engine} | {after} | {} | {} | {} |\n",
            human(number(to_get_warm, "reads")?),
            warm["metrics"]["hot_pages_read"].as_f64().map_or("-".into(), human),
            beside().map_or("-".into(), |share| format!("{share:.2}")),
        );
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::MEASUREMENTS;
    use serde_json::json;

    fn measured(name: &str) -> Measured {
        let measurement = *MEASUREMENTS.iter().find(|one| one.name == name).unwrap();
        let cold = json!({"start": "cold", "warm": {"reached": false, "seconds": 60.4, "reads": 7270}});
        let warm = json!({"start": "warm", "hot_pages_read": 0, "tps_alone": 200.0, "tps_beside": {"median": 190.0}});
        let runs = [cold, warm].map(|metrics| json!({"policy": "InnoDB", "metrics": metrics}));
        Measured { measurement, result: json!({"runs": runs}), machine: json!({}) }
    }

    #[test]
    fn a_server_has_a_row_for_its_engine() {
        let table = table(&[measured("mysql97"), measured("sideload")]).unwrap().unwrap();
        assert!(table.starts_with("`holdfast lab sideload --target SERVER` with `mysql97`, `mariadb`:\n"), "{table}");
        assert!(table.contains("| MySQL 9.7 | InnoDB | not in 60 s | 7,270 | 0 | 0.95 |\n"), "{table}");
        assert!(table.ends_with("| MariaDB 10.11 | InnoDB | not in 60 s | 7,270 | 0 | 0.95 |\n"), "{table}");
    }

    #[test]
    fn without_a_server_of_today_the_table_stays_as_it_was() {
        assert!(table(&[measured("sideload")]).unwrap().is_none());
    }
}
