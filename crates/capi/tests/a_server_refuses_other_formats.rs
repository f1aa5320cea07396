//! Format 3 is that of tables whose rows have several layouts. Format 2 came with keys that have all weights of a text. Keys of format 1 would be misread without a word, so a table whose definition says
//! another format is refused: every statement on it gets an error that names the formats and says what to do, the table stays as it is, and can
//! be dropped. Here a definition is changed while the server is down.
//!
//! It needs the server's packages and a plugin, so `cargo xtask test mariadb` asks for it.

mod common;

use std::path::Path;
use std::ptr::null_mut;

use common::{ok, open, slice};
use holdfast_capi::*;
use holdfast_server::{Cache, Profile, Server, build_as};

const PORT: u16 = 13359;

/// Replaces the first byte of the definition of `table`, which is the format; returns the old one.
fn set_format(data: &Path, table: &str, format: u8) -> u8 {
    let database = open(&data.join("#holdfast").display().to_string(), None);
    let (mut buffer, mut bytes) = (null_mut(), slice(b""));
    ok!(hf_buffer_new(&raw mut buffer));
    ok!(hf_table_definition(database, slice(table.as_bytes()), buffer));
    ok!(hf_buffer_bytes(buffer, &raw mut bytes));
    // SAFETY: valid until the buffer is used again.
    let mut definition = unsafe { std::slice::from_raw_parts(bytes.data, bytes.len) }.to_vec();
    let before = std::mem::replace(&mut definition[0], format);
    ok!(hf_table_set_definition(database, slice(table.as_bytes()), slice(&definition)));
    ok!(hf_buffer_free(buffer));
    ok!(hf_close(database));
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
        "table s/old is in format 1, and this version of the engine reads formats {ours} and {}: dump it",
        ours + 1
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
    assert_eq!(set_format(&server.data_dir(), "s/wide", ours + 1), ours + 1);
    up(false)?;
    assert_eq!(server.query("SELECT a FROM s.old ORDER BY a")?, "a\nb");
    assert_eq!(server.query("SELECT SUM(b) FROM s.wide")?, "14");
    server.down()?;

    // A later format; and one that promises what is not there.
    set_format(&server.data_dir(), "s/old", ours + 2);
    set_format(&server.data_dir(), "s/mine", ours + 1);
    up(false)?;
    let error = refused(server, "SELECT * FROM s.old");
    assert!(error.contains(&format!("is in format {}", ours + 2)), "{error}");
    let error = refused(server, "SELECT * FROM s.mine");
    assert!(error.contains("is in format 0"), "{error}");
    server.down()?;
    set_format(&server.data_dir(), "s/mine", ours);
    up(false)?;
    server.query("DROP TABLE s.old; CREATE TABLE s.old LIKE s.mine; INSERT INTO s.old SELECT * FROM s.mine")?;
    assert_eq!(server.query("SELECT COUNT(*) FROM s.old")?, "2", "it can be dropped, and loaded anew");
    server.down()
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
