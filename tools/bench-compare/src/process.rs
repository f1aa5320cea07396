//! A child process with one engine, which answers lines of JSON with lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The parent's end.
pub struct Process {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Process {
    pub fn start(command: &mut Command) -> anyhow::Result<Process> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().context("the child has a stdin")?;
        let replies = BufReader::new(child.stdout.take().context("the child has a stdout")?);
        Ok(Process { child, requests, replies })
    }

    /// Sends a request and waits for the answer.
    pub fn exchange<Request: Serialize, Reply: DeserializeOwned>(
        &mut self,
        request: &Request,
    ) -> anyhow::Result<Reply> {
        writeln!(self.requests, "{}", serde_json::to_string(request)?).context("the child has ended")?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        serde_json::from_str(&line).context("the child has ended")
    }

    /// Sends `signal`.
    pub fn signal(&self, signal: rustix::process::Signal) -> anyhow::Result<()> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .context("the child has ended")
    }

    /// Waits for the end of the child, which comes with the end of the requests.
    pub fn end(self) {
        let Process { mut child, requests, .. } = self;
        drop(requests);
        let _ = child.wait();
    }
}

/// This program, to be started again. The system would name the loader where that was started with
/// the program as its argument.
pub fn own_program() -> anyhow::Result<std::ffi::OsString> {
    std::env::args_os().next().context("a program has a name")
}

/// The child's end: answers requests until the parent closes the pipe.
pub fn serve<Request: DeserializeOwned, Reply: Serialize>(
    mut answer: impl FnMut(Request) -> Reply,
) -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let reply = answer(serde_json::from_str(&line?)?);
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&reply)?)?;
        out.flush()?;
    }
    Ok(())
}
