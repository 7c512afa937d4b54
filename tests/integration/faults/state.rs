//! Directory trees as values: kept, compared, put back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All directories (`None`) and files with their bytes, by their path below the tree's top.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Tree(pub BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Tree {
    /// Reads all that lies below `top`; nothing where it is not there.
    pub fn read(top: &Path) -> Self {
        let mut tree = Self::default();
        if top.exists() {
            tree.read_below(top, top);
        }
        tree
    }

    fn read_below(&mut self, top: &Path, directory: &Path) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(top).expect("a path below").to_owned();
            if path.is_dir() {
                self.0.insert(name, None);
                self.read_below(top, &path);
            } else {
                self.0.insert(name, Some(fs::read(&path).expect("a file")));
            }
        }
    }

    /// Makes `top` this tree, whatever was there.
    pub fn write(&self, top: &Path) {
        if top.exists() {
            fs::remove_dir_all(top).expect("a directory that can go");
        }
        fs::create_dir_all(top).expect("a directory");
        for (name, content) in &self.0 {
            let path = top.join(name);
            match content {
                None => fs::create_dir_all(&path).expect("a directory"),
                Some(bytes) => {
                    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
                    fs::write(&path, bytes).expect("a file");
                }
            }
        }
    }

    /// The names of all files.
    pub fn files(&self) -> Vec<&Path> {
        self.0
            .iter()
            .filter(|(_, content)| content.is_some())
            .map(|(name, _)| name.as_path())
            .collect()
    }
}
