//! The picture of `sideload` on each server: how many pages of the hot table are read from the disk
//! in each second beside a dump, when none of them is in memory at its start. Beside it stands when
//! the table was warm.

use maud::{Markup, html};
use serde_json::Value;

use crate::picture::{FASTER, GRID, INK, SLOWER, SOFT, frame};
use crate::plan::Form;
use crate::results::Measured;

const LEFT: f64 = 300.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 66.0;
const ROW: f64 = 46.0;
const HIGH: f64 = 34.0;

/// A server and engine.
struct Row {
    name: String,
    is_ours: bool,
    /// When, in seconds since OLTP began, and pages read per second.
    reads: Vec<(f64, f64)>,
    after: String,
}

/// The picture as the text of an SVG file, if `sideload` was measured on a server of today.
pub fn svg(all: &[Measured]) -> Option<String> {
    if !all.iter().any(|one| one.measurement.form == Form::Server) {
        return None;
    }
    let rows: Vec<Row> = all.iter().flat_map(rows_of).collect();
    let longest = rows.iter().flat_map(|row| &row.reads).map(|(t, _)| *t).fold(1.0, f64::max);
    let bottom = TOP + ROW * rows.len() as f64;
    let body = html! {
        @for second in (0..=longest as u64).step_by(10) { (tick(second as f64, longest, bottom)) }
        @for (n, row) in rows.iter().enumerate() { (draw(row, TOP + ROW * n as f64, longest)) }
    };
    let words = "Reads of the hot table, each row to its own scale; in brackets innodb_old_blocks_time. \
                 Warm: 99 of 100 pages that OLTP asks for are in memory.";
    Some(frame("A dump beside OLTP on a table that is not in memory yet", words, 12, bottom + 34.0, &body))
}

fn rows_of(one: &Measured) -> Vec<Row> {
    let Some((_, server)) = one.measurement.sideload_server() else { return Vec::new() };
    let runs = one.result["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cold = runs.iter().filter(|run| run["metrics"]["start"] == "cold");
    cold.filter_map(|run| row(server, run)).collect()
}

fn row(server: &str, run: &Value) -> Option<Row> {
    let (engine, metrics) = (run["policy"].as_str()?, &run["metrics"]);
    let phases = metrics["phases"].as_array()?;
    let begin = phases.iter().find(|phase| phase["name"] == "cold start beside the dump")?["from"].as_f64()?;
    let end = phases.iter().find(|phase| phase["name"] == "OLTP beside the dump")?["to"].as_f64()?;
    let sample = |sample: &Value| Some((sample["t"].as_f64()?, sample["hot_reads_per_s"].as_f64()?));
    let samples = metrics["samples"].as_array()?.iter().filter_map(sample);
    let reads = samples.filter(|(t, _)| (begin..=end).contains(t)).map(|(t, reads)| (t - begin, reads)).collect();
    let seconds = metrics["warm"]["seconds"].as_f64()?;
    let after = match metrics["warm"]["reached"].as_bool()? {
        true => format!("warm after {seconds:.1} s"),
        false => format!("not warm in {seconds:.0} s"),
    };
    let is_ours = engine.eq_ignore_ascii_case("holdfast");
    let engine = if is_ours { "Holdfast".to_owned() } else { engine.replace("old_blocks_time ", "") };
    Some(Row { name: format!("{server}, {engine}"), is_ours, reads, after })
}

fn draw(row: &Row, y: f64, longest: f64) -> Markup {
    let most = row.reads.iter().map(|(_, reads)| *reads).fold(1.0, f64::max);
    let base = y + HIGH;
    let mut path = format!("M{LEFT} {base}");
    for (t, reads) in &row.reads {
        path += &format!(" L{:.1} {:.1}", x(*t, longest), base - reads / most * HIGH);
    }
    let end = row.reads.last().map_or(LEFT, |(t, _)| x(*t, longest));
    path += &format!(" L{end:.1} {base} Z");
    let colour = if row.is_ours { FASTER } else { SLOWER };
    html! {
        text x=(LEFT - 12.0) y=(base - 15.0) text-anchor="end" fill=(INK) font-weight=[row.is_ours.then_some("bold")] { (row.name) }
        text x=(LEFT - 12.0) y=(base - 1.0) text-anchor="end" fill=(SOFT) font-size="10" { (format!("at most {most:.0}/s")) }
        line x1=(LEFT) x2=(RIGHT) y1=(base) y2=(base) stroke=(GRID) {}
        path d=(path) fill=(colour) fill-opacity="0.75" {}
        text x=(RIGHT + 12.0) y=(base - 8.0) fill=(colour) { (row.after) }
    }
}

fn tick(second: f64, longest: f64, bottom: f64) -> Markup {
    html! {
        line x1=(x(second, longest)) x2=(x(second, longest)) y1=(TOP) y2=(bottom) stroke=(GRID) {}
        text x=(x(second, longest)) y=(bottom + 16.0) text-anchor="middle" fill=(SOFT) { (format!("{second:.0} s")) }
    }
}

fn x(t: f64, longest: f64) -> f64 {
    ((LEFT + t / longest * (RIGHT - LEFT)) * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::MEASUREMENTS;
    use serde_json::json;

    #[test]
    fn a_cold_start_is_a_row_with_its_answer() {
        let measurement = *MEASUREMENTS.iter().find(|one| one.name == "mysql97").unwrap();
        let phase = |name: &str, from: f64, to: f64| json!({"name": name, "from": from, "to": to});
        let sample = |t: f64, reads: f64| json!({"t": t, "hot_reads_per_s": reads});
        let metrics = json!({
            "start": "cold",
            "warm": {"reached": false, "seconds": 60.2},
            "phases": [phase("cold start beside the dump", 2.0, 20.0), phase("OLTP beside the dump", 20.0, 22.0)],
            "samples": [sample(1.0, 99.0), sample(3.0, 10.0), sample(22.0, 5.0), sample(30.0, 77.0)],
        });
        let drawn = |engine: &str| {
            let result = json!({"runs": [{"policy": engine, "metrics": metrics}]});
            svg(&[Measured { measurement, result, machine: json!({}) }]).unwrap()
        };
        assert!(drawn("holdfast").contains("font-weight=\"bold\">MySQL 9.7, Holdfast<"), "{}", drawn("holdfast"));
        let drawn = drawn("InnoDB <x>");
        assert!(!drawn.contains("font-weight=\"bold\">MySQL"), "{drawn}");
        assert!(drawn.contains("MySQL 9.7, InnoDB &lt;x&gt;") && drawn.contains("not warm in 60 s"), "{drawn}");
        // What comes before the cold start, and after the dump, is not drawn.
        assert!(
            drawn.contains(">at most 10/s<")
                && drawn.contains(&format!("M{LEFT} 100 L320.0 66.0 L700.0 83.0 L700.0 100 Z")),
            "{drawn}"
        );
    }
}
