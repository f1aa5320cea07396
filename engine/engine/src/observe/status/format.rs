//! Moments and headings as the monitor writes them.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-21 18:40:00 UTC`.
pub(super) fn utc(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day, counted from 1, of the day `days` after 1970-01-01. Years are counted from
/// March, so that the leap day is the last one; 400 of them have 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // From 0000-03-01.
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153; // From March.
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day_of_month)
}

/// The heading of a section.
pub(super) fn section(out: &mut String, title: &str) -> fmt::Result {
    let rule = "-".repeat(title.len());
    writeln!(out, "{rule}\n{title}\n{rule}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn leap_years_and_ends_of_months() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(951_868_800), "2000-03-01 00:00:00 UTC");
        assert_eq!(at(1_234_567_890), "2009-02-13 23:31:30 UTC");
        assert_eq!(at(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }
}
