//! What `sideload` found on each server: what a dump does to the hot table. The table of the page,
//! and the sentences and the row of the project's README.

use anyhow::Context;
use holdfast_lab::experiments::sideload::WARM;
use holdfast_lab::measure::human;
use holdfast_lab::text::wrapped;
use serde_json::Value;

use crate::plan::Form;
use crate::results::Measured;
use crate::tables::{list, number, text};

const HEAD: &str = "\
| server | engine | a cold hot table is warm after | reads until then | a warm one: reads beside the dump | OLTP beside the dump, by alone | the dump beside OLTP, by alone |
|---|---|---:|---:|---:|---:|---:|
";

/// What the shares of OLTP and dump say together.
const SHARES: &str = "OLTP and dump share a core of the server: where OLTP reaches its rate alone, and the dump little of its \
pace alone, the server let the dump wait.";

/// The first cell of README's row.
pub const WHAT: &str = "OLTP beside a dump, of its rate without one, in MariaDB";

/// An engine, or a setting of it, on a server.
struct Row {
    server: &'static str,
    engine: String,
    /// How long a cold table took to get warm, or did not get warm.
    seconds: f64,
    is_warm: bool,
    /// Reads of the hot table until then.
    reads: f64,
    /// Reads of a warm one beside the dump.
    beside: Option<f64>,
    /// OLTP and dump beside each other, by alone.
    shares: [Option<f64>; 2],
}

/// The rows, if `sideload` was measured on a server of today.
fn rows(all: &[Measured]) -> anyhow::Result<Option<Vec<Row>>> {
    if !all.iter().any(|one| one.measurement.form == Form::Server) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for one in all {
        let Some((_, server)) = one.measurement.sideload_server() else { continue };
        rows.extend(of_server(server, &one.result).with_context(|| server.to_owned())?);
    }
    Ok(Some(rows))
}

/// A row for each engine or setting that was measured on the server.
fn of_server(server: &'static str, result: &Value) -> anyhow::Result<Vec<Row>> {
    let runs = list(result, "runs")?;
    let mut rows = Vec::new();
    for cold in runs.iter().filter(|run| run["metrics"]["start"] == "cold") {
        let warm = runs.iter().find(|run| run["policy"] == cold["policy"] && run["metrics"]["start"] == "warm");
        let Some(Value::Object(warm)) = warm.map(|run| &run["metrics"]) else { continue };
        let to_get_warm = &cold["metrics"]["warm"];
        let figure = |key: &str| warm.get(key).and_then(|value| value["median"].as_f64().or(value.as_f64()));
        let share = |of: &str, to: &str| Some(figure(of)? / figure(to)?);
        rows.push(Row {
            server,
            engine: text(cold, "policy")?.to_owned(),
            seconds: number(to_get_warm, "seconds")?,
            is_warm: to_get_warm["reached"] == true,
            reads: number(to_get_warm, "reads")?,
            beside: figure("hot_pages_read"),
            shares: [share("tps_beside", "tps_alone"), share("dump_s_alone", "dump_s_beside")],
        });
    }
    Ok(rows)
}

fn commands(all: &[Measured]) -> String {
    let targets = all.iter().filter_map(|one| Some(format!("`{}`", one.measurement.sideload_server()?.0)));
    format!("`holdfast lab sideload --target SERVER` with {}", targets.collect::<Vec<_>>().join(", "))
}

/// The table, if `sideload` was measured on a server of today.
///
/// # Errors
/// If a result lacks what the table shows.
pub fn table(all: &[Measured]) -> anyhow::Result<Option<String>> {
    let Some(rows) = rows(all)? else { return Ok(None) };
    let lines: String = rows.iter().map(Row::line).collect();
    let [commands, note] = [commands(all) + ":", format!("{WARM} {SHARES}")].map(|words| wrapped(&words, 0));
    Ok(Some(format!("{commands}\n{HEAD}{lines}\n{note}")))
}

impl Row {
    fn line(&self) -> String {
        let seconds = self.seconds;
        let after = if self.is_warm { format!("{seconds:.1} s") } else { format!("not in {seconds:.0} s") };
        let [oltp, dump] = self.shares.map(|share| share.map_or("-".into(), |share| format!("{share:.2}")));
        let (reads, beside) = (human(self.reads), self.beside.map_or("-".into(), human));
        format!("| {} | {} | {after} | {reads} | {beside} | {oltp} | {dump} |\n", self.server, self.engine)
    }

    fn is_ours(&self) -> bool {
        self.engine == "holdfast"
    }

    /// InnoDB with the delay that is its default.
    fn is_default_innodb(&self) -> bool {
        self.engine.starts_with("InnoDB") && !self.engine.contains("time 0 ms")
    }
}

/// The least and the greatest of `values`.
fn span(values: &[f64], shown: fn(f64) -> String) -> String {
    if values.is_empty() {
        return "-".to_owned();
    }
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(*v), m.max(*v)));
    let [least, most] = [least, most].map(shown);
    if least == most { least } else { format!("{least} to {most}") }
}

fn on_servers(n: usize) -> String {
    if n == 1 { "on 1 server".to_owned() } else { format!("on {n} servers") }
}

/// What the picture shows, in a sentence.
fn sentence(rows: &[Row]) -> Option<String> {
    let seconds = |v: f64| format!("{v:.0}");
    let ours = rows.iter().find(|row| row.is_ours())?;
    let ours = match (ours.is_warm, seconds(ours.seconds)) {
        (true, after) => format!("is warm after {after} s"),
        (false, after) => format!("is not warm in {after} s"),
    };
    let (warm, cold): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|row| row.is_default_innodb()).partition(|row| row.is_warm);
    let all = |rows: &[&Row]| rows.iter().map(|row| row.seconds).collect::<Vec<_>>();
    let mut parts = Vec::new();
    if !warm.is_empty() {
        parts.push(format!("after {} s {}", span(&all(&warm), seconds), on_servers(warm.len())));
    }
    if !cold.is_empty() {
        parts.push(format!("not within {} s {}", span(&all(&cold), seconds), on_servers(cold.len())));
    }
    Some(format!("Holdfast's table {ours}, InnoDB's {}", parts.join(" and ")))
}

/// The picture in README, with what it shows and when a table is warm.
///
/// # Errors
/// If a result lacks what the sentence says.
pub fn picture(all: &[Measured]) -> anyhow::Result<Option<String>> {
    let Some(sentence) = rows(all)?.as_deref().and_then(sentence) else { return Ok(None) };
    let title = "A dump beside OLTP on a table that is not in memory yet";
    let drawn = wrapped(&format!("![{title}: {sentence}](docs/pictures/servers.svg)"), 0);
    Ok(Some(format!("{drawn}\n{}", wrapped(&format!("*{sentence}: {}. {WARM}*", commands(all)), 0))))
}

/// The row of README's table.
///
/// # Errors
/// If a result lacks what the row says.
pub fn readme_row(all: &[Measured]) -> anyhow::Result<Option<String>> {
    let Some(rows) = rows(all)? else { return Ok(None) };
    let shown = |which: fn(&Row) -> bool| {
        let rows: Vec<&Row> = rows.iter().filter(|row| which(row)).collect();
        let of = |n: usize| rows.iter().filter_map(|row| row.shares[n]).collect::<Vec<_>>();
        let [oltp, dump] = [0, 1].map(|n| span(&of(n), |share| format!("{share:.2}")));
        (!rows.is_empty()).then(|| format!("{oltp}, the dump {dump}"))
    };
    let servers = rows.iter().filter(|row| row.is_default_innodb()).count();
    let parts = shown(Row::is_ours).zip(shown(Row::is_default_innodb));
    Ok(parts.map(|(ours, innodb)| {
        let figure = format!("{ours}; InnoDB {innodb}, {}", on_servers(servers));
        format!("| {WHAT} | {figure} | `holdfast lab sideload --target mariadb` |")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::MEASUREMENTS;
    use serde_json::json;

    fn runs(engine: &str, warm: bool, seconds: f64, beside: f64) -> [Value; 2] {
        let cold = json!({"start": "cold", "warm": {"reached": warm, "seconds": seconds, "reads": 7270}});
        let warm = json!({"start": "warm", "hot_pages_read": 0, "tps_alone": 200.0, "tps_beside": {"median": beside},
            "dump_s_alone": 3.0, "dump_s_beside": {"median": 6.0}});
        [cold, warm].map(|metrics| json!({"policy": engine, "metrics": metrics}))
    }

    fn measured(name: &str, runs: &[Value]) -> Measured {
        let measurement = *MEASUREMENTS.iter().find(|one| one.name == name).unwrap();
        Measured { measurement, result: json!({"runs": runs}), machine: json!({}) }
    }

    fn all() -> [Measured; 2] {
        let here = [runs("InnoDB (old_blocks_time 0 ms)", false, 61.0, 20.0), runs("InnoDB (250)", false, 60.4, 90.0)];
        let here = [here.concat(), runs("holdfast", true, 3.5, 180.0).to_vec()].concat();
        [measured("mysql97", &runs("InnoDB (250)", true, 34.2, 212.0)), measured("sideload", &here)]
    }

    /// Without the breaks of lines.
    fn plain(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_server_has_a_row_for_its_engine() {
        let table = table(&all()).unwrap().unwrap();
        assert!(table.starts_with("`holdfast lab sideload --target SERVER` with `mysql97`, `mariadb`:\n"), "{table}");
        assert!(table.contains("| MySQL 9.7 | InnoDB (250) | 34.2 s | 7,270 | 0 | 1.06 | 0.50 |\n"), "{table}");
        assert!(
            table.contains("| MariaDB 10.11 | InnoDB (250) | not in 60 s | 7,270 | 0 | 0.45 | 0.50 |\n"),
            "{table}"
        );
        assert!(plain(&table).contains(WARM), "{table}");
    }

    /// README said that InnoDB has 0.46 to 0.52 of its rate, while one server had 1.06.
    #[test]
    fn readme_says_what_was_measured_on_all_servers() {
        let picture = plain(&picture(&all()).unwrap().unwrap());
        let said =
            "Holdfast's table is warm after 4 s, InnoDB's after 34 s on 1 server and not within 60 s on 1 server";
        assert!(picture.contains(&format!(": {said}](docs/")) && picture.contains(&format!("*{said}: ")), "{picture}");
        let row = readme_row(&all()).unwrap().unwrap();
        assert!(row.contains("| 0.90, the dump 0.50; InnoDB 0.45 to 1.06, the dump 0.50, on 2 servers |"), "{row}");
    }

    #[test]
    fn without_a_server_of_today_the_table_stays_as_it_was() {
        let [_, here] = all();
        let here = [here];
        assert!(table(&here).unwrap().is_none() && readme_row(&here).unwrap().is_none());
    }
}
