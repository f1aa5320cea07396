//! Servers of today, as released, make their own tables, answer, and have their data after they
//! were shut down and started again, and on a copy of it. They listen on their sockets only, and
//! leave nothing behind.
//! One test, since it needs the servers; those that cannot be had are named and left out.
//! `cargo xtask test lab-released` runs it.

use holdfast_server::{Cache, Release, apt};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

fn connect(socket: &std::path::Path) -> Conn {
    let options = OptsBuilder::new().socket(Some(socket.to_string_lossy())).user(Some("root"));
    Conn::new(options.prefer_socket(true)).expect("root signs in without a password")
}

/// What the server says about itself, begins with.
fn version_of(server: Release) -> &'static str {
    match server {
        Release::Mysql55 => "5.5.9",
        Release::Mysql56 => "5.6.14",
        Release::Mysql80 => "8.0.33",
        Release::Mysql97 => "9.7.",
        Release::MariaDb114 => "11.4.5-MariaDB",
        Release::MariaDb118 => "11.8.",
    }
}

fn keeps_its_data(cache: &Cache, server: Release) {
    let mut running = server.server(cache, "test");
    running.make_data().expect("it makes its tables");
    running.restart(&["--innodb-buffer-pool-size=16777216".to_owned()]).expect("it starts");
    let mut conn = connect(&running.socket_path());
    let version: String = conn.query_first("SELECT VERSION()").unwrap().unwrap();
    assert!(version.starts_with(version_of(server)), "{} says {version}", server.name());
    let networking: String = conn.query_first("SELECT @@skip_networking").unwrap().unwrap();
    assert_eq!(networking, "1", "{} listens on its socket only", server.name());
    let temporary: String = conn.query_first("SELECT @@tmpdir").unwrap().unwrap();
    let own = running.socket_path().with_file_name("tmp");
    assert_eq!(
        std::path::Path::new(&temporary),
        own,
        "{}: no other server removes its temporary tables",
        server.name()
    );
    conn.query_drop("CREATE DATABASE d").unwrap();
    conn.query_drop("CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=InnoDB").unwrap();
    conn.query_drop("INSERT INTO d.t VALUES (1), (2)").unwrap();
    drop(conn);
    running.restart(&["--innodb-buffer-pool-size=33554432".to_owned()]).expect("it shuts down and starts again");
    let mut conn = connect(&running.socket_path());
    let (rows, pool): (u64, u64) =
        conn.query_first("SELECT COUNT(*), @@innodb_buffer_pool_size FROM d.t").unwrap().unwrap();
    assert_eq!((rows, pool), (2, 32 << 20), "{}", server.name());
    drop(conn);
    running.shut_down().expect("it shuts down");
    let mut copy = server.server(cache, "copy");
    running.copy_data_to(&copy).expect("its data can be copied");
    copy.restart(&[]).expect("it starts on the copy");
    let rows: u64 = connect(&copy.socket_path()).query_first("SELECT COUNT(*) FROM d.t").unwrap().unwrap();
    assert_eq!(rows, 2, "{}", server.name());
    copy.kill();
    for server in [running, copy] {
        let socket = server.socket_path();
        server.remove().expect("its data can be removed");
        assert!(!socket.parent().unwrap().exists(), "{} is left behind", socket.display());
    }
}

#[test]
#[ignore = "needs servers, which are downloaded"]
fn released_servers_keep_their_data() {
    let cache = Cache::of_the_project();
    apt::fetch(&cache).expect("today's server, whose libraries the others use");
    let mut tested = 0;
    for server in Release::ALL.into_iter().filter(|server| !server.is_historic()) {
        match server.fetch(&cache) {
            Ok(()) => {
                println!("{}", server.name());
                keeps_its_data(&cache, server);
                tested += 1;
            }
            Err(error) => println!("{error:#}"),
        }
    }
    assert!(tested > 0, "no server can be had");
}
