//! The driver of the experiments in turns: on the engine in this process, on private servers, and
//! on a server that runs already, as it was released or as its user has set it up.
//!
//! An experiment supplies its sizes, tables, settings, turns and findings ([`InTurns`]).

use anyhow::{Result, bail};
use holdfast_server::Cache;
use holdfast_workload::dbstress;

use crate::args::rig::RigArgs;
use crate::document::Document;
use crate::progress::Progress;
use crate::rig::site::{self, DiskKind, Site};
use crate::rig::tables::{TableSpec, dbstress_tables};
use crate::server::turns::running::{OnServer, There};
use crate::server::turns::side::{Data, Settings, Side};
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::Subject;
use crate::subject::embedded::Embedded;

/// An experiment in turns, by its sizes.
pub(crate) trait InTurns {
    /// What the turns have measured.
    type Measured;

    /// The load, and its tables.
    fn workload(&self) -> Workload;

    /// The settings of what is started for it: of several the first.
    fn settings(&self) -> Settings;

    /// Loads the engine in this process and measures it, with what is beside it.
    fn embedded(&self, plan: &Plan, progress: &mut Progress) -> Result<(Place, Vec<Embedded>, Self::Measured)>;

    /// The engine in this process with its tables.
    fn engine(&self, name: &str, disk: &DiskKind, plan: &Plan, progress: &mut Progress) -> Result<Embedded> {
        let site = Site::load(disk, &tables(self.workload(), plan)?, progress)?;
        let Settings { pool_bytes, log_bytes, .. } = self.settings();
        Embedded::open(name, site, &site::Settings { pool_bytes, log_bytes })
    }

    /// Loads private servers and measures them.
    fn private<'c>(&self, cache: &'c Cache, plan: &'c Plan, progress: &mut Progress) -> Result<On<'c, Self>> {
        let mut sides = turns::sides(cache, plan)?;
        for side in &mut sides {
            side.load(Data::Of(self.workload()), plan.seed, progress)?;
            side.start(&self.settings())?;
        }
        let measured = self.measure(plan, &mut sides, progress)?;
        Ok((sides, measured))
    }

    /// Makes its sizes those of a server that runs already. Returns sentences on that.
    fn fit(&mut self, _: &Plan, _: &There<'_>) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Measures a server that runs already.
    fn there(
        &mut self,
        plan: &Plan,
        there: There<'_>,
        sides: &mut [Side<'_>],
        progress: &mut Progress,
    ) -> Result<Findings> {
        let mut words = self.fit(plan, &there)?;
        progress.step("making the tables");
        let tables = Data::Of(self.workload());
        sides.iter_mut().try_for_each(|side| side.make_tables(tables, plan.seed, progress))?;
        let measured = self.measure(plan, sides, progress)?;
        words.extend(self.words(&measured));
        let findings = self.findings(there.place, measured, sides);
        words.extend(findings.words);
        // There is no other engine beside it.
        Ok(Findings { words, claims: Vec::new(), ..findings })
    }

    /// The turns of loaded subjects.
    fn measure<S: Subject>(&self, plan: &Plan, sides: &mut [S], progress: &mut Progress) -> Result<Self::Measured>;

    /// What they say of a server that runs already, in sentences.
    fn words(&self, _: &Self::Measured) -> Vec<String> {
        Vec::new()
    }

    /// Tables, charts and claims.
    fn findings<S: Subject>(&self, place: Place, measured: Self::Measured, sides: &[S]) -> Findings;
}

/// The tables of a workload in the engine in this process.
pub(crate) fn tables(workload: Workload, plan: &Plan) -> Result<Vec<TableSpec>> {
    let Workload::DbStress { objects } = workload else { bail!("dbt2 runs on servers") };
    Ok(dbstress_tables(dbstress::Options::light(objects, 1, 1), plan.seed))
}

/// Private servers, and what was measured of them.
pub(crate) type On<'c, E> = (Vec<Side<'c>>, <E as InTurns>::Measured);

/// Runs an experiment on the target that the arguments name.
pub(crate) fn run<E: InTurns>(args: &RigArgs, plan: Plan, what: E, progress: &mut Progress) -> Result<Document> {
    args.anywhere((plan, what), embedded, private, progress)
}

fn embedded<E: InTurns>((plan, what): &(Plan, E), progress: &mut Progress) -> Result<Document> {
    let (place, sides, measured) = what.embedded(plan, progress)?;
    Ok(what.findings(place, measured, &sides).report(plan, &sides))
}

fn private<E: InTurns>((plan, what): &(Plan, E), progress: &mut Progress) -> Result<Document> {
    let cache = turns::equip(progress)?;
    let (sides, measured) = what.private(&cache, plan, progress)?;
    Ok(what.findings(Place::private(), measured, &sides).report(plan, &sides))
}

impl<E: InTurns> OnServer for (Plan, E) {
    fn plan(&mut self) -> &mut Plan {
        &mut self.0
    }

    fn settings(&self) -> Settings {
        self.1.settings()
    }

    fn run_there(&mut self, there: There<'_>, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Findings> {
        self.1.there(&self.0, there, sides, progress)
    }
}
