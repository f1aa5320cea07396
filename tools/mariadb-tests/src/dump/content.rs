//! What two schemas hold, as text: definitions, checksums, states.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use holdfast_server::Server;

/// By the name of the object: what it is. The engine's name is left out of that.
pub struct Content {
    pub engine: String,
    objects: BTreeMap<String, String>,
}

impl Content {
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Fails where the other has something else.
    pub fn compare(&self, other: &Content) -> anyhow::Result<()> {
        for name in self.objects.keys().chain(other.objects.keys()) {
            match (self.objects.get(name), other.objects.get(name)) {
                (Some(before), Some(now)) if before == now => {}
                (Some(before), Some(now)) => bail!("{name} was\n{before}\nand is\n{now}"),
                (Some(_), None) => bail!("{name} is gone"),
                _ => bail!("{name} was not there"),
            }
        }
        Ok(())
    }
}

/// Reads it from the server.
pub fn content(server: &Server<'_>) -> anyhow::Result<Content> {
    let engine = server.query(
        "SELECT DISTINCT engine FROM information_schema.tables
         WHERE table_schema IN ('library', 'types') AND table_type <> 'VIEW'",
    )?;
    let mut objects = BTreeMap::new();
    for line in server.query(TABLES)?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[kind, name, auto_increment] = fields.as_slice() else { bail!("not a table: {line}") };
        let text = match kind {
            "VIEW" => format!("{}\n{}", server.query(&format!("SHOW CREATE VIEW {name}"))?, rows(server, name)?),
            "SEQUENCE" => server.query(&format!("SHOW CREATE SEQUENCE {name}; SELECT * FROM {name}"))?,
            _ => table(server, name)?,
        };
        let mut text = format!("{text}\nauto_increment {auto_increment}\n");
        if kind == "SYSTEM VERSIONED" {
            text += &rows(server, &format!("{name} FOR SYSTEM_TIME ALL"))?;
        }
        objects.insert(name.to_string(), text.replace(&engine, "$ENGINE"));
    }
    for line in server.query(CODE)?.lines() {
        let (name, text) = line.split_once('\t').context("a routine has a body")?;
        objects.insert(name.to_string(), text.to_string());
    }
    Ok(Content { engine, objects })
}

/// Kind, name, next AUTO_INCREMENT value.
const TABLES: &str = "
    SELECT table_type, CONCAT('`', table_schema, '`.`', REPLACE(table_name, '`', '``'), '`'), COALESCE(auto_increment, '')
    FROM information_schema.tables WHERE table_schema IN ('library', 'types')";

fn table(server: &Server<'_>, name: &str) -> anyhow::Result<String> {
    let definition = server.query(&format!("SHOW CREATE TABLE {name}; CHECK TABLE {name}"))?;
    // The checksum of the server includes generated columns, or whether they are null, but the
    // server does not ask the engine to read them: InnoDB gives different sums for the same rows,
    // depending on what was in memory before. A unique key over whole texts makes such a column,
    // too.
    let sum = if definition.contains(" GENERATED ALWAYS AS ") || definition.contains(" USING HASH") {
        format!("CREATE TEMPORARY TABLE types.copied AS SELECT * FROM {name}; CHECKSUM TABLE types.copied")
    } else {
        format!("CHECKSUM TABLE {name} EXTENDED")
    };
    Ok(format!("{definition}\n{}", server.query(&sum)?))
}

/// Triggers, routines and events.
const CODE: &str = "
    SELECT CONCAT('trigger ', trigger_schema, '.', trigger_name), CONCAT_WS('|', event_object_table, action_timing, event_manipulation, action_order,
                  action_statement, sql_mode, definer)
    FROM information_schema.triggers WHERE trigger_schema IN ('library', 'types');
    SELECT CONCAT('routine ', routine_schema, '.', routine_name), CONCAT_WS('|', routine_type, dtd_identifier, routine_definition, is_deterministic,
                  sql_data_access, sql_mode, definer)
    FROM information_schema.routines WHERE routine_schema IN ('library', 'types');
    SELECT CONCAT('event ', event_schema, '.', event_name), CONCAT_WS('|', event_definition, interval_value, interval_field, starts, status, event_comment)
    FROM information_schema.events WHERE event_schema IN ('library', 'types')";

/// All rows, sorted: a view need not have an order.
fn rows(server: &Server<'_>, from: &str) -> anyhow::Result<String> {
    let text = server.query(&format!("SELECT * FROM {from}"))?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}
