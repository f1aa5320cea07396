//! The scripts for sysbench make the tables of the lab's own workloads, run in every mode, and
//! leave the number of rows unchanged. `cargo xtask test lab-server` runs it.

use holdfast_lab::server::address::Address;
use holdfast_lab::server::load::prepare;
use holdfast_lab::server::turns::workload::script;
use holdfast_server::{Cache, Server, apt};
use holdfast_workload::dbstress::{self, Table};
use holdfast_workload::scripts::Script;
use mysql::Conn;
use mysql::prelude::Queryable;

const OBJECTS: u32 = 230;
const PORT: u16 = 13394;

struct Stage<'c> {
    cache: &'c Cache,
    server: Server<'c>,
    conn: Conn,
}

impl Stage<'_> {
    fn prepare(&self, which: Script, asked: &[String]) {
        let path = script(self.cache, which).unwrap();
        prepare(self.cache, &Address::Socket(self.server.socket_path(), None), &path, "s", asked).unwrap();
    }

    /// Runs 150 transactions of a script. Returns its output.
    fn run(&self, which: Script, asked: &[&str]) -> String {
        let mut command = self.server.sysbench_command();
        command.arg(script(self.cache, which).unwrap()).args(["--db-driver=mysql", "--mysql-db=s", "--events=150"]);
        command.args(["--threads=3", "--rand-type=uniform"]).args(asked).arg("run");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{asked:?}: {said}");
        let done = said.lines().find(|l| l.trim_start().starts_with("transactions:")).unwrap_or_default();
        assert_eq!(done.split_whitespace().nth(1), Some("150"), "{asked:?}: {said}");
        said
    }

    fn number(&mut self, sql: &str) -> u64 {
        self.conn.query_first(sql).unwrap().unwrap()
    }

    /// The keys of a table, in the workload's encoding.
    fn keys(&mut self, table: Table) -> Vec<Vec<u8>> {
        let (columns, name) = match table {
            Table::Zone => ("ref, 0", "zone"),
            Table::Section => ("ref, 0", "section"),
            Table::Stat => ("ref, 0", "stat"),
            Table::Object => ("ref, 0", "object"),
            Table::History | Table::HistoryIndex => ("ref_object, horder", "history"),
        };
        let rows: Vec<(String, u32)> = self.conn.query(format!("SELECT {columns} FROM {name} ORDER BY 1, 2")).unwrap();
        let history = table == Table::History;
        let key = |(text, order): (String, u32)| match history {
            true => [text.as_bytes(), &order.to_be_bytes()].concat(),
            false => text.into_bytes(),
        };
        rows.into_iter().map(key).collect()
    }

    fn dbstress(&mut self, engine: &str) {
        let asked = [format!("--objects={OBJECTS}"), format!("--mysql-storage-engine={engine}")];
        self.prepare(Script::DbStress, &asked);
        let options = dbstress::Options::light(OBJECTS, 3, 1);
        for table in [Table::Zone, Table::Section, Table::Stat, Table::Object, Table::History] {
            let mut expected = Vec::new();
            dbstress::generate::<()>(&options, table, 1, |key, _| {
                expected.push(key.to_vec());
                Ok(())
            })
            .unwrap();
            assert_eq!(self.keys(table), expected, "{engine}: {table:?}");
        }
        let stat_follows =
            "SELECT COUNT(*) FROM history WHERE ref_stat = LPAD((ref_object + 10 * horder) % 1000, 3, '0')";
        assert_eq!(self.number(stat_follows), u64::from(OBJECTS) * 20, "{engine}");
        let objects = format!("--objects={OBJECTS}");
        for anti_dead in ["slices", "off", "twice-sessions", "100"] {
            let anti_dead = format!("--anti-dead={anti_dead}");
            for mode in [
                &["--rw-ratio=0"][..],
                &["--delete-inserts=2", "--same-ref=off"],
                &["--skip-trx=on", "--for-update=on"],
            ] {
                self.run(Script::DbStress, &[&[objects.as_str(), &anti_dead], mode].concat());
            }
        }
        let said = self.run(Script::DbStress, &[&objects, "--delete-inserts=1", "--statement-times=on"]);
        for class in ["EVENT", "SEL1", "SEL2", "UPDATE", "DELETE", "INSERT"] {
            assert!(said.contains(&format!("{class} ")), "{engine}: {class} has no times: {said}");
        }
        assert_eq!(self.keys(Table::History).len(), OBJECTS as usize * 20, "{engine}");
        let changed = "SELECT COUNT(*) FROM history WHERE ref_stat <> LPAD((ref_object + 10 * horder) % 1000, 3, '0')";
        assert!(self.number(changed) > 0, "{engine}: the WRITEs wrote");
        assert_eq!(self.number("SELECT COUNT(*) FROM history WHERE LENGTH(note) <> 100"), 0, "{engine}");
    }

    fn dbt2(&mut self, engine: &str) {
        let sizes = ["--warehouses=2", "--items=400", "--customers=60"];
        let asked = sizes.map(str::to_owned).into_iter().chain([format!("--mysql-storage-engine={engine}")]);
        self.prepare(Script::Dbt2, &asked.collect::<Vec<_>>());
        self.dbt2_is_consistent(engine);
        assert_eq!(self.number("SELECT COUNT(*) FROM new_order"), 2 * 10 * 18, "{engine}: 30 % of the orders are new");
        assert_eq!(self.number("SELECT COUNT(*) FROM stock"), 2 * 400, "{engine}");
        assert_eq!(self.number("SELECT COUNT(DISTINCT o_w_id, o_d_id, o_c_id) FROM orders"), 2 * 10 * 60, "{engine}");
        let mut said = String::new();
        for _ in 0..3 {
            said += &self.run(Script::Dbt2, &[&sizes[..], &["--statement-times=on"]].concat());
        }
        for class in ["EVENT", "NEW_ORDER", "PAYMENT"] {
            assert!(said.contains(&format!("{class} ")), "{engine}: {class} has no times: {said}");
        }
        self.dbt2_is_consistent(engine);
        for (what, sql) in [
            ("orders come", "SELECT SUM(d_next_o_id) > 20 * 61 FROM district"),
            ("some are delivered", "SELECT COUNT(*) < 20 * 18 FROM new_order WHERE no_o_id <= 60"),
            ("payments are counted", "SELECT SUM(c_payment_cnt) > 20 * 60 FROM customer"),
        ] {
            assert_eq!(self.number(sql), 1, "{engine}: {what}");
        }
    }

    /// Asserts what holds before and after every transaction, by the specification of the benchmark
    /// that dbt2 follows.
    fn dbt2_is_consistent(&mut self, engine: &str) {
        for (what, sql) in [
            (
                "a warehouse has what its districts have",
                "SELECT COUNT(*) FROM warehouse JOIN (SELECT d_w_id, SUM(d_ytd) AS s FROM district GROUP BY d_w_id) AS d
                 ON d_w_id = w_id WHERE w_ytd <> s",
            ),
            (
                "the newest order is the one before the next",
                "SELECT COUNT(*) FROM district WHERE d_next_o_id - 1 <> (SELECT MAX(o_id) FROM orders
                 WHERE o_w_id = d_w_id AND o_d_id = d_id) OR d_next_o_id - 1 <> (SELECT MAX(no_o_id) FROM new_order
                 WHERE no_w_id = d_w_id AND no_d_id = d_id)",
            ),
            (
                "new orders follow one another",
                "SELECT COUNT(*) FROM (SELECT COUNT(*) AS n, MAX(no_o_id) - MIN(no_o_id) + 1 AS m FROM new_order
                 GROUP BY no_w_id, no_d_id) AS d WHERE n <> m",
            ),
            (
                "an order has its lines",
                "SELECT COUNT(*) FROM (SELECT o_ol_cnt AS n, COUNT(ol_number) AS m FROM orders LEFT JOIN order_line
                 ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY o_w_id, o_d_id, o_id) AS d WHERE n <> m",
            ),
            (
                "an order without a carrier is new",
                "SELECT COUNT(*) FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
                 WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
            ),
            (
                "history has every payment",
                "SELECT ROUND((SELECT SUM(h_amount) FROM history) - (SELECT SUM(w_ytd) - 2 * 300000 FROM warehouse)
                 - 2 * 10 * 60 * 10) <> 0",
            ),
        ] {
            assert_eq!(self.number(sql), 0, "{engine}: {what}");
        }
    }

    fn oltp04(&mut self, engine: &str) {
        let rows = "--table-size=3000";
        self.prepare(Script::Oltp04, &[rows.to_owned(), format!("--mysql-storage-engine={engine}")]);
        for distribution in ["special", "uniform", "pareto"] {
            let distribution = format!("--rand-type={distribution}");
            for mode in [&["--test-mode=complex"][..], &["--read-only=on"], &["--test-mode=simple"]] {
                self.run(Script::Oltp04, &[&[rows, &distribution], mode].concat());
            }
        }
        assert_eq!(self.number("SELECT COUNT(*) FROM sbtest"), 3000, "{engine}: DELETE and INSERT of the same id");
        assert!(
            self.number("SELECT SUM(k) FROM sbtest") > 0 && self.number("SELECT COUNT(DISTINCT c) FROM sbtest") > 1
        );
        for mode in ["select", "update_key", "update_nokey", "insert"] {
            self.run(Script::Oltp04, &[rows, "--test-mode=nontrx", &format!("--nontrx-mode={mode}")]);
        }
        assert_eq!(self.number("SELECT COUNT(*) FROM sbtest"), 3150, "{engine}");
        self.run(Script::Oltp04, &[rows, "--test-mode=nontrx", "--nontrx-mode=delete"]);
        assert!(self.number("SELECT COUNT(*) FROM sbtest") < 3150, "{engine}");
    }
}

#[test]
#[ignore = "fetches MariaDB and starts a server"]
fn every_mode_runs_and_keeps_the_rows() {
    let cache = Cache::of_the_project();
    holdfast_server::build(&cache).unwrap();
    apt::fetch_sysbench(&cache).unwrap();
    let server = Server::new(&cache, "lab/scripts-test").bound_to_us();
    server.up(PORT, true, &["--skip-networking".to_owned()]).unwrap();
    let conn = Conn::new(Address::Socket(server.socket_path(), None).options()).unwrap();
    let mut stage = Stage { cache: &cache, server, conn };
    for engine in ["InnoDB", "HOLDFAST"] {
        stage.conn.query_drop("DROP DATABASE IF EXISTS s").unwrap();
        stage.conn.query_drop("CREATE DATABASE s").unwrap();
        stage.conn.query_drop("USE s").unwrap();
        stage.dbstress(engine);
        stage.oltp04(engine);
        // A table of dbSTRESS has the same name.
        stage.conn.query_drop("DROP TABLE history").unwrap();
        stage.dbt2(engine);
    }
    stage.server.kill().unwrap();
    stage.server.remove().unwrap();
}
