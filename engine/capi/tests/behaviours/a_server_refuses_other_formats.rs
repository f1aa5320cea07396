//! Format 5 is that of tables with FOREIGN KEYs, 4 that of tables whose rows have several layouts,
//! and 3 was that when each of them was the beginning of the next: it is read. Format 2 came with
//! keys that have all weights of a text. Keys of format 1 would be misread without a word, so a
//! table whose definition says another format is refused: every statement on it gets an error that
//! names the formats and says what to do, the table stays as it is, and can be dropped. Here a
//! definition is changed while the server is down. One that is damaged is refused, too, or read as
//! what it says; the server goes on.
//!
//! It needs the server's packages and a plugin, so `cargo xtask test mariadb` asks for it.

use std::path::Path;
use std::ptr::null_mut;

use crate::common::{ok, open, slice};
use holdfast_capi::*;
use holdfast_server::{Cache, Profile, Server, build_as};

const PORT: u16 = 13359;

/// The format, flags, and the version of the server's definition, which every definition begins
/// with.
const FIXED_BYTES: usize = 18;

/// Changes the definition of each of `tables`.
fn change(data: &Path, tables: &[String], mut by: impl FnMut(usize, &mut Vec<u8>)) {
    let database = open(&data.join("#holdfast").display().to_string(), None);
    let (mut buffer, mut bytes) = (null_mut(), slice(b""));
    ok!(hf_buffer_new(&raw mut buffer));
    for (i, table) in tables.iter().enumerate() {
        ok!(hf_table_definition(database, slice(table.as_bytes()), buffer));
        ok!(hf_buffer_bytes(buffer, &raw mut bytes));
        // SAFETY: valid until the buffer is used again.
        let mut definition = unsafe { std::slice::from_raw_parts(bytes.data, bytes.len) }.to_vec();
        by(i, &mut definition);
        let changed = Definition { table: slice(table.as_bytes()), bytes: slice(&definition) };
        ok!(hf_tables_set_definitions(database, &raw const changed, 1));
    }
    ok!(hf_buffer_free(buffer));
    ok!(hf_close(database));
}

/// Replaces the first byte of the definition of `table`, which is the format; returns the old one.
fn set_format(data: &Path, table: &str, format: u8) -> u8 {
    let mut before = 0;
    change(data, &[table.to_owned()], |_, definition| before = std::mem::replace(&mut definition[0], format));
    before
}

fn refused(server: &Server<'_>, statement: &str) -> String {
    server.query(statement).expect_err(statement).to_string()
}

fn story(server: &Server<'_>) -> anyhow::Result<()> {
    let up = |fresh| server.up(PORT, fresh, &["--skip-networking".to_owned()]);
    up(true)?;
    server.query(
        "CREATE DATABASE s; USE s; CREATE TABLE old (id INT PRIMARY KEY, a VARCHAR(9), KEY (a)) ENGINE=HOLDFAST; \
         INSERT INTO old VALUES (1, 'a'), (2, 'b'); CREATE TABLE mine LIKE old; INSERT INTO mine SELECT * FROM old; \
         CREATE TABLE wide LIKE old; INSERT INTO wide SELECT * FROM old; ALTER TABLE wide ADD b INT DEFAULT 7, ALGORITHM=INSTANT",
    )?;
    server.down()?;
    let ours = set_format(&server.data_dir(), "s/old", 1);

    up(false)?;
    let expected = format!(
        "table s/old is in format 1, and this version of the engine reads formats {ours} to {}: dump it",
        ours + 4
    );
    for statement in ["SELECT * FROM s.old", "INSERT INTO s.old VALUES (3, 'c')", "ALTER TABLE s.old ADD b INT"] {
        let error = refused(server, statement);
        assert!(error.contains(&expected), "{statement}: {error}");
    }
    let checked = server.query("CHECK TABLE s.old")?;
    assert!(checked.contains(&expected), "{checked}");
    assert_eq!(server.query("SELECT COUNT(*) FROM s.mine")?, "2", "the others are not concerned");
    server.down()?;

    assert_eq!(set_format(&server.data_dir(), "s/old", ours), 1, "what was refused changed nothing");
    // As it was before columns could come anywhere and go: one layout of one null byte from bit 0
    // on and two columns; one default, of four bytes.
    change(&server.data_dir(), &["s/wide".to_owned()], |_, definition| {
        assert_eq!(definition[0], ours + 2);
        definition[0] = ours + 1;
        definition.truncate(FIXED_BYTES);
        definition.extend([1, 1, 0, 2, 1, 5, 7, 0, 0, 0]);
    });
    up(false)?;
    assert_eq!(server.query("SELECT a FROM s.old ORDER BY a")?, "a\nb");
    assert_eq!(server.query("SELECT * FROM s.wide ORDER BY id")?, "1\ta\t7\n2\tb\t7");
    server.query(
        "ALTER TABLE s.wide ADD c INT DEFAULT 8 FIRST, DROP a, ALGORITHM=NOCOPY; INSERT INTO s.wide VALUES (9, 3, 9)",
    )?;
    assert_eq!(server.query("SELECT * FROM s.wide ORDER BY id")?, "8\t1\t7\n8\t2\t7\n9\t3\t9");
    server.down()?;

    // A later format; and one that promises what is not there.
    set_format(&server.data_dir(), "s/old", ours + 5);
    set_format(&server.data_dir(), "s/mine", ours + 2);
    up(false)?;
    let error = refused(server, "SELECT * FROM s.old");
    assert!(error.contains(&format!("is in format {}", ours + 5)), "{error}");
    let error = refused(server, "SELECT * FROM s.mine");
    assert!(error.contains("is in format 0"), "{error}");
    server.down()?;
    set_format(&server.data_dir(), "s/mine", ours);
    up(false)?;
    server.query("DROP TABLE s.old; CREATE TABLE s.old LIKE s.mine; INSERT INTO s.old SELECT * FROM s.mine")?;
    assert_eq!(server.query("SELECT COUNT(*) FROM s.old")?, "2", "it can be dropped, and loaded anew");
    server.down()?;
    damage_histories(server, &up)?;
    damage_references(server, &up)
}

/// Each byte of a history is replaced by others, in a table of its own.
fn damage_histories(server: &Server<'_>, up: &impl Fn(bool) -> anyhow::Result<()>) -> anyhow::Result<()> {
    up(false)?;
    let of_one = |table: &str| {
        format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, a VARCHAR(9), b INT NOT NULL, c TEXT) ENGINE=HOLDFAST; INSERT INTO {table} VALUES (1, 'a', 1, 'c'), (2, NULL, 2, NULL); \
             ALTER TABLE {table} DROP a, ADD d INT DEFAULT 5 FIRST, ADD e VARCHAR(9) DEFAULT 'eee' AFTER id, ALGORITHM=INSTANT; INSERT INTO {table} VALUES (5, 3, 'eee', 3, 'c'); \
             ALTER TABLE {table} DROP d, MODIFY c TEXT FIRST, ALGORITHM=INSTANT; "
        )
    };
    server.query(&format!("USE s; {}", of_one("sound")))?;
    let tables = damage_each_byte(server, up, "s/sound", 'd', of_one)?;
    let sound = server.query("SELECT * FROM s.sound ORDER BY id")?;
    let (mut refused, mut same) = (0, 0);
    for table in &tables {
        match server.query(&format!("SELECT * FROM s.{table} ORDER BY id")) {
            Ok(rows) => same += usize::from(rows == sound),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains("is in format 0") || error.contains("bytes that are no row"),
                    "{table}: {error}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > same && same > 0, "{refused} refused, {same} as they were, of {}", tables.len());
    assert_eq!(server.query("SELECT * FROM s.sound ORDER BY id")?, sound);
    server.down()
}

/// The same with references.
fn damage_references(server: &Server<'_>, up: &impl Fn(bool) -> anyhow::Result<()>) -> anyhow::Result<()> {
    up(false)?;
    let of_one = |table: &str| {
        format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, p INT, CONSTRAINT {table} FOREIGN KEY (p) REFERENCES parent (id) ON DELETE SET NULL) \
             ENGINE=HOLDFAST; INSERT INTO {table} VALUES (1, 1), (2, 2); "
        )
    };
    server.query(&format!(
        "USE s; CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=HOLDFAST; INSERT INTO parent VALUES (1), (2), (3); {}",
        of_one("c000")
    ))?;
    let tables = damage_each_byte(server, up, "s/c000", 'c', of_one)?;
    for table in &tables {
        // What the bytes say is done, or refused.
        for statement in [
            format!("SELECT * FROM s.{table}"),
            format!("INSERT INTO s.{table} VALUES (3, 3)"),
            format!("SHOW CREATE TABLE s.{table}"),
            format!("ALTER TABLE s.{table} ADD KEY (p, id)"),
        ] {
            if let Err(error) = server.query(&statement) {
                let error = error.to_string();
                let is_alive = !error.contains("ERROR 2013") && !error.contains("ERROR 2002");
                assert!(is_alive, "{statement}: {error}");
            }
        }
    }
    for table in &tables {
        server.query(&format!("DROP TABLE s.{table}"))?;
    }
    // Not before: a table that may have children that cannot be read is kept.
    server.query("DELETE FROM s.parent WHERE id = 1")?;
    assert_eq!(server.query("SELECT p FROM s.c000 ORDER BY id")?, "NULL\n2", "what is sound follows");
    server.query("DROP TABLE s.c000, s.parent")?;
    server.down()
}

/// Makes a table by `of_one` for each byte of the definition of `sound` and each of a few values,
/// and gives it that value there. The server is down meanwhile, and up again.
fn damage_each_byte(
    server: &Server<'_>,
    up: &impl Fn(bool) -> anyhow::Result<()>,
    sound: &str,
    prefix: char,
    of_one: impl Fn(&str) -> String,
) -> anyhow::Result<Vec<String>> {
    server.down()?;
    let mut length = 0;
    change(&server.data_dir(), &[sound.to_owned()], |_, definition| length = definition.len() - FIXED_BYTES);
    let values = [0, 1, 2, 3, 127, 128, 255];
    let damages: Vec<(usize, u8)> = (0..length).flat_map(|at| values.map(|value| (at, value))).collect();
    up(false)?;
    let tables: Vec<String> = (1..=damages.len()).map(|n| format!("{prefix}{n:03}")).collect();
    for table in &tables {
        server.query(&format!("USE s; {}", of_one(table)))?;
    }
    server.down()?;
    let names: Vec<String> = tables.iter().map(|table| format!("s/{table}")).collect();
    change(&server.data_dir(), &names, |i, definition| definition[FIXED_BYTES + damages[i].0] = damages[i].1);
    up(false)?;
    Ok(tables)
}

#[test]
#[ignore = "needs a server's packages"]
fn a_table_of_another_format_is_refused_and_unharmed() {
    let cache = Cache::of_the_project();
    build_as(&cache, Profile::Dev).unwrap();
    let server = Server::new(&cache, "formats").bound_to_us();
    story(&server).unwrap_or_else(|error| panic!("{error:#}\n{}", server.log_tail()));
    server.remove().unwrap();
}
