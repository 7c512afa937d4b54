//! Frame ranges: their text, and set operations beside those of the standard library's sets.

use super::*;

fn spans(json: &str) -> Spans {
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_wire_form_is_half_open() {
    assert_eq!(spans("[[0,3],[10,15,2]]").iter().collect::<Vec<_>>(), [0, 1, 2, 10, 12, 14]);
    assert_eq!(serde_json::to_string(&Spans::first_n(500)).unwrap(), "[[0,500]]");
    assert!(serde_json::from_str::<Spans>("[[3,1]]").is_err());
    assert!(serde_json::from_str::<Spans>("[[0,9,0]]").is_err());
}

#[test]
fn ranges_that_no_scan_has_are_refused_before_anybody_lists_them() {
    let refuse = |json| serde_json::from_str::<Spans>(json).unwrap_err().to_string();
    assert!(refuse("[[0,1000000000000000000]]").contains("up to 134217728"));
    assert!(refuse("[[0,18446744073709551615,9223372036854775808]]").contains("up to 134217728"));
    let many = format!("[{}]", ["[0,134217728]"; 3].join(","));
    assert!(refuse(&many).contains("402653184 frames"));
    assert!(refuse("[[0,134217727,2]]").contains("with a step that have 67108864 frames"));
    assert_eq!(spans("[[0,33554431,2]]").count(), 1 << 24);
}

#[test]
fn slices_cut_across_spans() {
    assert_eq!(spans("[[0,3],[10,16,2]]").slice(2, 3), spans("[[2,3],[10,13,2]]"));
    assert!(spans("[[0,3]]").slice(3, 5).is_empty());
}

#[test]
fn sets_agree_with_a_plain_set() {
    use std::collections::BTreeSet;
    let cases = [
        "[[0,10]]",
        "[[3,5],[8,20]]",
        "[[0,30,3]]",
        "[[5,6]]",
        "[]",
        "[[12,14],[2,4]]",
        "[[0,2],[2,4],[6,9],[7,12],[40,50]]",
        "[[1,4],[8,9],[11,45]]",
        "[[0,9,2],[1,10,2],[20,20]]",
    ];
    for (a, b) in cases.iter().flat_map(|a| cases.iter().map(move |b| (spans(a), spans(b)))) {
        let (sa, sb): (BTreeSet<u64>, BTreeSet<u64>) = (a.iter().collect(), b.iter().collect());
        assert_eq!(a.difference(&b).iter().collect::<BTreeSet<_>>(), &sa - &sb);
        assert_eq!(a.intersection(&b).iter().collect::<BTreeSet<_>>(), &sa & &sb);
        assert!(a.union(&b).iter().eq((&sa | &sb).iter().copied()));
        assert!(a.to_sorted().iter().eq(sa.iter().copied()));
    }
}

#[test]
fn long_ranges_cost_no_more_than_short_ones() {
    let (all, most) = (Spans::first_n(Spans::MAX_FRAMES), Spans::MAX_FRAMES);
    for _ in 0..1000 {
        assert_eq!(all.difference(&Span::new(5, most).into()), Spans::first_n(5));
        assert_eq!(all.intersection(&Span::new(5, 7).into()), Span::new(5, 7).into());
    }
}

#[test]
fn single_frames_join_into_ranges() {
    assert_eq!([0, 2, 3, 4].into_iter().collect::<Spans>(), spans("[[0,1],[2,5]]"));
    assert_eq!([0, 4, 8].into_iter().collect::<Spans>(), spans("[[0,9,4]]"));
}
