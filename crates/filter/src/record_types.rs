//! Checks that the input holds records of the type that the filter works on.

use std::collections::BTreeMap;

use records::{Record, format_count};

use crate::Filter;

/// Counts input records by type, for a filter that works on one type and passes the others on.
pub(crate) struct ExpectedRecords {
    kind: &'static str,
    counts: BTreeMap<&'static str, u64>,
    is_checked: bool,
}

impl ExpectedRecords {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, counts: BTreeMap::new(), is_checked: false }
    }

    /// Counts a record at the position `place`, and warns of the first record of each type that
    /// belongs elsewhere in the pipe.
    pub(crate) fn count(&mut self, record: &Record, place: &str, filter: &Filter) {
        let kind = record.kind();
        let count = self.counts.entry(kind).or_insert(0);
        *count += 1;
        if *count == 1
            && kind != self.kind
            && matches!(kind, "scan" | "task" | "result" | "summary")
        {
            let expected = self.describe();
            filter.warn(&format!(
                "{place}: a {kind} record, which is passed on unchanged: expected {expected}"
            ));
        }
    }

    /// Fails if there were records and none was of the expected type. `fail` records of other
    /// filters do not count.
    pub(crate) fn check_any_expected(&mut self, filter: &Filter, input: &str) {
        let others: Vec<String> =
            self.counts.iter().filter(|(kind, _)| **kind != "fail").map(describe).collect();
        if self.is_checked || others.is_empty() || self.counts.contains_key(self.kind) {
            return;
        }
        self.is_checked = true;
        filter.mark_failed();
        let (kind, expected) = (self.kind, self.describe());
        filter.report_error(
            input,
            &format!("no {kind} record, but {}: expected {expected}", others.join(" and ")),
        );
    }

    /// Describes the expected records and the filter that writes them.
    pub(crate) fn describe(&self) -> String {
        let maker = match self.kind {
            "scan" => "scan-find",
            "task" => "plan-split",
            _ => "ai-integrate",
        };
        format!("{} records, as {maker} writes them", self.kind)
    }
}

fn describe((kind, count): (&&'static str, &u64)) -> String {
    match (*kind, *count) {
        ("unknown", count) => format!("{} of unknown type", format_count(count, "record")),
        (kind, count) => format_count(count, &format!("{kind} record")),
    }
}
