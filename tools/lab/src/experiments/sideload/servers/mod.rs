//! `sideload` on real servers: real sysbench and real mariadb-dump.
//!
//! | module | what |
//! |---|---|
//! | `runs` | the experiment on private servers |
//! | `foreign` | the same on a server that the user names |
//! | `diagnosis` | a sentence on what the server's counters show |

mod diagnosis;
pub(crate) mod foreign;
pub(crate) mod runs;

use anyhow::Result;
use holdfast_server::Release;
use serde_json::{Value, json};

use self::runs::{ContenderOutcome, Options};
use super::figures::{TITLE, figures};
use super::outcome::Outcome;
use super::{Start, WARM, shares};
use crate::claims::Claim;
use crate::document::{Document, merged};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::server::contender::Contender;
use crate::server::options::of_sideload;
use crate::target::described;

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let outcomes = runs::run(options, progress)?;
    let introduction = in_words(options);
    let settings = merged(settings(&introduction, options), of_private_servers(options));
    let document = report("mariadb", &introduction, settings, &outcomes, Vec::new());
    Ok(Document { claims: claims(&outcomes), ..document })
}

/// The claims, on Holdfast. The other engines are only reported.
fn claims(outcomes: &[ContenderOutcome]) -> Vec<Claim> {
    let of = |start| {
        let ours = outcomes.iter().find(|(contender, o)| *contender == Contender::Holdfast && o.start == start);
        shares::claims(&format!("holdfast, {}", Start::name(start)), ours.map(|(_, outcome)| outcome))
    };
    [Start::Warm, Start::Cold].into_iter().flat_map(of).collect()
}

/// Document of the results on `target`, as `--target` names it, with what the counters of the whole
/// server say.
fn report(
    target: &str,
    introduction: &str,
    settings: Value,
    outcomes: &[ContenderOutcome],
    findings: Vec<String>,
) -> Document {
    let machine = Machine::this(Some(&holdfast_server::run::root()));
    let mut document = Document::new(&format!("sideload-{target}"), settings, machine);
    document.title = TITLE.to_owned();
    let mut counted: Vec<&str> = Vec::new();
    let mut words = Vec::new();
    for (contender, of) in outcomes {
        let (how, diagnosis) = (contender.how_it_is_counted(), diagnosis::of(*contender, of));
        if !counted.contains(&how) {
            counted.push(how);
        }
        words.push(format!("{contender}, {}: {diagnosis}", of.start.name()));
        document.runs.push(of.run(target, json!({"diagnosis": diagnosis, "counted": how})));
    }
    words.extend(findings);
    let outcomes: Vec<&Outcome> = outcomes.iter().map(|(_, outcome)| outcome).collect();
    let counted = format!("Reads and MB are the servers' own figures. {}.", counted.join(". "));
    document.with_figures(figures(introduction, words, &outcomes, None, &counted))
}

fn in_words(options: &Options) -> String {
    format!(
        "{} with equal caches, O_DIRECT, a sync at every commit, no binary log, no query cache; real sysbench \
         oltp_read_only with {} thread(s) and real mariadb-dump{}. Tables and pool are {} times smaller than published, and \
         with them InnoDB's old_blocks_time and lru_scan_depth. Disk: {}.",
        servers(&options.contenders),
        options.oltp.threads,
        if options.cores.pins() { ", the server and its clients on cores of their own" } else { "" },
        options.scale.size,
        if let Some(disk) = options.disk() {
            let (seek, rate) = (disk.seek.as_secs_f64() * 1e3, disk.bytes_per_second / 1_000_000);
            format!("modelled, one arm, {seek} ms to seek, {rate} MB/s")
        } else {
            "real".to_owned()
        }
    )
}

/// The names of the servers: MariaDB is that of the distribution.
fn servers(contenders: &[Contender]) -> String {
    let others = contenders.iter().filter_map(|one| one.release()).map(Release::name);
    std::iter::once("MariaDB").chain(others).collect::<Vec<_>>().join(", ")
}

/// The settings that every target has.
fn settings(introduction: &str, options: &Options) -> Value {
    let scale = options.scale;
    json!({
        "scale": introduction,
        "sizes_divided_by": scale.size,
        "hot_rows": scale.hot_rows(),
        "big_rows": scale.big_rows(),
        "pool_bytes": scale.pool_bytes(),
        "oltp_threads": options.oltp.threads,
        "rate_tps": options.oltp.rate,
        "distribution": options.oltp.distribution,
        "turns": options.times.rounds.least,
        "turn_s": options.times.turn.as_secs_f64(),
        "patience_s": options.times.patience.as_secs_f64(),
        "disk": described(options.disk()),
        "pinned": options.cores.pins(),
        "warm": WARM,
        "seed": options.oltp.seed,
    })
}

/// What only servers have that the lab starts: the options of each contender, and a ceiling.
fn of_private_servers(options: &Options) -> Value {
    let scale = options.scale;
    let mut settings = json!({"ceiling_pool_bytes": scale.ceiling_bytes()});
    for contender in &options.contenders {
        let list = of_sideload(*contender, scale.pool_bytes(), scale.size);
        settings[format!("{contender}")] = json!(list.join(" "));
    }
    settings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::sideload::scale::Scale;
    use crate::pin::Cores;
    use crate::server::data::SCHEMA;
    use crate::server::load::Oltp;
    use crate::turns::Rounds;

    /// The document of a user's server, or of an old one, told the options of a private server as
    /// if they were its own, and all of them were one experiment.
    #[test]
    fn only_a_private_server_has_the_options_of_one() {
        let second = Duration::from_secs(1);
        let options = Options {
            scale: Scale::new(16.0, 1.0),
            contenders: vec![Contender::Holdfast],
            oltp: Oltp::read_only(100, SCHEMA, 1, 1),
            times: runs::Times { turn: second, rounds: Rounds::up_to_twice(10), alone: second, patience: second },
            modelled: false,
            cores: Cores::new(false),
        };
        let (every, private) = (settings("", &options), of_private_servers(&options));
        let option = |of: &Value| of.to_string().contains("buffer-pool-size");
        assert!(!option(&every) && option(&private));
        assert!(every["ceiling_pool_bytes"].is_null() && private["ceiling_pool_bytes"].is_u64());
        assert_eq!(report("mysql55", "", every, &[], Vec::new()).experiment, "sideload-mysql55");
    }
}
