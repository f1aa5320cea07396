//! The headers of the server's source, checked against the version of the development package.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::cache::Cache;
use crate::run::check_aside;

/// Extracts the headers, if that was not done before, and checks that all parts are of one version.
pub fn extract(cache: &Cache, version: &str) -> anyhow::Result<()> {
    let upstream = upstream(version);
    let src = cache.path("src");
    if !src.join("done").exists() {
        let tarball = cache.path(format!("deb/mariadb_{upstream}.orig.tar.gz"));
        let wanted = ["include", "sql/*.h", "wsrep-lib/include", "wsrep-lib/wsrep-API", "VERSION"];
        fs::create_dir_all(&src)?;
        let patterns = wanted.iter().map(|w| format!("*/{w}"));
        check_aside(
            Command::new("tar")
                .args(["-xzf"])
                .arg(&tarball)
                .arg("-C")
                .arg(&src)
                .args(["--strip-components=1", "--wildcards", "--no-wildcards-match-slash"])
                .args(patterns),
        )
        .context("the headers could not be extracted from the source")?;
        let gen_dir = src.join("gen");
        fs::create_dir_all(&gen_dir)?;
        fs::copy(src.join("include/probes_mysql_nodtrace.h.in"), gen_dir.join("probes_mysql_nodtrace.h"))?;
        fs::write(src.join("done"), "")?;
    }
    let package = defined_version(&cache.root("usr/include/mariadb/server/mysql_version.h"))?;
    let source = source_version(&src.join("VERSION"))?;
    if package != source || package != upstream {
        bail!(
            "versions differ: package {upstream}, headers of libmariadbd-dev {package}, source {source}; remove {} and \
             build again",
            cache.path("").display()
        );
    }
    Ok(())
}

/// `10.11.18` of `1:10.11.18-0+deb12u1`.
fn upstream(version: &str) -> String {
    let without_epoch = version.split_once(':').map_or(version, |(_, rest)| rest);
    without_epoch.split('-').next().unwrap_or_default().to_string()
}

fn defined_version(header: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(header).with_context(|| format!("{} is missing", header.display()))?;
    let line = text.lines().find_map(|l| l.trim().strip_prefix("#define MYSQL_SERVER_VERSION"));
    let quoted = line.and_then(|l| l.split('"').nth(1)).context("mysql_version.h names no version")?;
    Ok(quoted.split('-').next().unwrap_or_default().to_string())
}

fn source_version(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("{} is missing", file.display()))?;
    let part = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
        line.map(|v| v.trim().to_string()).with_context(|| format!("VERSION has no {name}"))
    };
    let (major, minor) = (part("MYSQL_VERSION_MAJOR")?, part("MYSQL_VERSION_MINOR")?);
    Ok(format!("{major}.{minor}.{}", part("MYSQL_VERSION_PATCH")?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_upstream_version_is_found_in_the_packages() {
        assert_eq!(super::upstream("1:10.11.18-0+deb12u1"), "10.11.18");
        assert_eq!(super::upstream("11.4.2-1"), "11.4.2");
    }
}
