//! HDF5's filters: their names by their numbers in the HDF Group's registry, for records and
//! messages, and the filters that results are written with: [`bitshuffle`] and [`shuffle`].
//!
//! `frames` writes these names into records, and `kernels` undoes some of the filters. Neither
//! knows the other, so the names are in this crate, which knows neither. A name is a fact of the
//! format: it is listed whether or not azpipe can decode the filter.
//!
//! Source: <https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md>

pub mod bitshuffle;
pub mod shuffle;

/// Number and name of each filter, ordered by number. Records have these names, so a name never
/// changes.
const NAMES: [(u32, &str); 25] = [
    (1, "deflate"),
    (2, "shuffle"),
    (3, "fletcher32"),
    (4, "szip"),
    (5, "nbit"),
    (6, "scale-offset"),
    (307, "bzip2"),
    (32000, "lzf"),
    (32001, "blosc"),
    (32002, "mafisc"),
    (32003, "snappy"),
    (32004, "lz4"),
    (32006, "cbf"),
    (32007, "jpeg-xr"),
    (32008, "bitshuffle"),
    (32012, "jpeg-ls"),
    (32013, "zfp"),
    (32014, "fpzip"),
    (32015, "zstd"),
    (32017, "sz"),
    (32018, "fcidecomp"),
    (32019, "jpeg"),
    (32024, "sz3"),
    (32026, "blosc2"),
    (32028, "sperr"),
];

/// Returns the name of the filter with this number, or `None` if the number is not listed here.
///
/// ```
/// assert_eq!(hdf5_filters::filter_name(32015), Some("zstd"));
/// assert_eq!(hdf5_filters::filter_name(777), None);
/// ```
pub const fn filter_name(id: u32) -> Option<&'static str> {
    let mut row = 0;
    while row < NAMES.len() {
        let (number, name) = NAMES[row];
        if number == id {
            return Some(name);
        }
        row += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_has_one_name_and_each_name_one_filter() {
        assert!(NAMES.is_sorted_by(|one, two| one.0 < two.0));
        let mut names = NAMES.map(|(_, name)| name);
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, two| one < two));
        for (id, name) in NAMES {
            assert_eq!(filter_name(id), Some(name));
        }
    }
}
