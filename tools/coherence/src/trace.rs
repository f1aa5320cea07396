//! The lines of a trace of memory, as `valgrind --tool=lackey --trace-mem=yes` writes them.
//!
//! ```text
//! I  04001000,3      the instruction at 0x4001000, three bytes
//!  L 1fff000840,8    it loads eight bytes
//!  S 1fff000848,8    it stores them
//!  M 1fff000850,4    it loads and stores
//! ```

/// What one line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The instruction at this address is executed. The accesses that follow are its own.
    Instruction(u64),
    /// It accesses memory.
    Access { address: u64, bytes: u64, writes: bool },
}

/// Reads one line of a trace, without its end. `None` if it is none: a message of the tracer.
#[must_use]
pub fn parse(line: &[u8]) -> Option<Event> {
    let (kind, rest) = line.split_at_checked(3)?;
    let rest = std::str::from_utf8(rest).ok()?;
    let (address, bytes) = rest.split_once(',')?;
    let (address, bytes) = (u64::from_str_radix(address, 16).ok()?, bytes.parse().ok()?);
    match kind {
        b"I  " => Some(Event::Instruction(address)),
        b" L " => Some(Event::Access { address, bytes, writes: false }),
        b" S " | b" M " => Some(Event::Access { address, bytes, writes: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_trace_are_read_and_messages_are_passed_over() {
        assert_eq!(parse(b"I  04001000,3"), Some(Event::Instruction(0x400_1000)));
        assert_eq!(parse(b" L 10,8"), Some(Event::Access { address: 0x10, bytes: 8, writes: false }));
        assert_eq!(parse(b" S 1f,4"), Some(Event::Access { address: 0x1f, bytes: 4, writes: true }));
        assert_eq!(parse(b" M 20,1"), Some(Event::Access { address: 0x20, bytes: 1, writes: true }));
        for message in ["==12== Lackey", "", " L", "I  zz,1", "I  10", " X 10,8"] {
            assert_eq!(parse(message.as_bytes()), None, "{message}");
        }
    }
}
