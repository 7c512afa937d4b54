//! Paths followed through hard, soft and external links to the objects that they lead to.
//!
//! The library follows links by itself, but does not say what failed on the way, and after a soft link that leads to an
//! external one it names the object by the path that was asked for, in a file that has no such path.

use std::path::PathBuf;
use std::rc::Rc;

use super::catalog::Catalog;
use super::error::FindError;
use super::place::locate;
use crate::ffi::{Kind, Object, Target};

/// How many soft and external links a path may lead through. The library gives up after 16.
const MOST_LINKS: usize = 32;

/// The longest text that can stand in a record.
const LONGEST_TEXT: usize = 64 << 10;

/// An object, and where it is when all links have been followed.
#[derive(Clone, Debug)]
pub(super) struct Located {
    /// The file that holds it.
    pub file: PathBuf,
    root: Rc<Object>,
    pub object: Rc<Object>,
    /// The names on the way from the file's root to it.
    names: Vec<String>,
    /// Other files that the way led through.
    pub via: Vec<PathBuf>,
}

impl Located {
    /// Makes the root group of an open file.
    pub(super) fn root(file: PathBuf, root: Rc<Object>) -> Self {
        Self { file, object: Rc::clone(&root), root, names: Vec::new(), via: Vec::new() }
    }

    /// Returns the path in the file.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.names.join("/"))
    }

    /// Returns the object's name in the root group, if that is where it is.
    pub(super) fn name_in_root(&self) -> Option<&str> {
        match &self.names[..] {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Opens a member that a hard link leads to.
    pub(super) fn member(&self, name: &str) -> Result<Object, FindError> {
        self.object.open(name).map_err(|flaw| FindError::from_flaw(&self.file, &flaw))
    }

    fn go_to_root(&mut self) {
        self.object = Rc::clone(&self.root);
        self.names.clear();
    }
}

impl Catalog {
    /// Follows a path, from a group on.
    ///
    /// # Errors
    /// It leads nowhere; or something on the way could not be looked at.
    pub(super) fn follow(&mut self, from: &Located, path: &str) -> Result<Located, FindError> {
        let mut at = from.clone();
        let mut ahead = parts(path);
        let mut links = 0_usize;
        if path.starts_with('/') {
            at.go_to_root();
        }
        while let Some(name) = ahead.pop() {
            let no_object = |at: &Located| {
                let names: Vec<&str> =
                    at.names.iter().chain([&name]).chain(ahead.iter().rev()).map(String::as_str).collect();
                FindError::NoObject(at.file.clone(), format!("/{}", names.join("/")))
            };
            if at.object.kind() != Kind::Group {
                return Err(no_object(&at));
            }
            let target = at.object.link(&name).map_err(|flaw| FindError::from_flaw(&at.file, &flaw))?;
            links = links.saturating_add(usize::from(!matches!(target, Some(Target::Hard))));
            if links > MOST_LINKS {
                let why = format!("{path}: more than {MOST_LINKS} links one behind the other, or links in a ring");
                return Err(FindError::Unusable(why));
            }
            match target {
                None | Some(Target::Other) => return Err(no_object(&at)),
                Some(Target::Hard) => {
                    at.object = Rc::new(at.member(&name)?);
                    at.names.push(name);
                }
                Some(Target::Soft(path)) => {
                    if path.starts_with('/') {
                        at.go_to_root();
                    }
                    ahead.extend(parts(&path));
                }
                Some(Target::External(file, path)) => {
                    let file = locate(&at.file, &file)?;
                    let mut via = std::mem::take(&mut at.via);
                    via.push(std::mem::take(&mut at.file));
                    at = Located { via, ..Located::root(file.clone(), self.open(&file)?) };
                    ahead.extend(parts(&path));
                }
            }
        }
        Ok(at)
    }

    /// As [`Catalog::follow`]; `None` where the path leads nowhere.
    ///
    /// # Errors
    /// Something on the way could not be looked at.
    pub(super) fn find(&mut self, from: &Located, path: &str) -> Result<Option<Located>, FindError> {
        match self.follow(from, path) {
            Ok(found) => Ok(Some(found)),
            Err(why) if why.is_absence() => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Reads the first element of a dataset as a text; `None` where there is none.
    ///
    /// # Errors
    /// It could not be read.
    pub(super) fn text(&mut self, from: &Located, path: &str) -> Result<Option<String>, FindError> {
        let text = self.value(from, path, Object::text)?;
        match text.as_ref().map_or(0, String::len) {
            0..=LONGEST_TEXT => Ok(text),
            len => {
                Err(FindError::Unusable(format!("{path}: a text of {len} bytes: expected {LONGEST_TEXT} at the most")))
            }
        }
    }

    /// Reads the first element of a dataset as a number; `None` where there is none.
    ///
    /// # Errors
    /// It could not be read.
    pub(super) fn number(&mut self, from: &Located, path: &str) -> Result<Option<f64>, FindError> {
        self.value(from, path, Object::first_number)
    }

    fn value<T>(
        &mut self,
        from: &Located,
        path: &str,
        read: impl FnOnce(&Object) -> Result<Option<T>, crate::ffi::Flaw>,
    ) -> Result<Option<T>, FindError> {
        let Some(found) = self.find(from, path)?.filter(|found| found.object.kind() == Kind::Dataset) else {
            return Ok(None);
        };
        read(&found.object).map_err(|flaw| match FindError::from_flaw(&found.file, &flaw) {
            FindError::Damaged(file, why) => FindError::Damaged(file, format!("{}: {why}", found.path())),
            other => other,
        })
    }
}

/// The names of a path, the first one last.
fn parts(path: &str) -> Vec<String> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".").rev().map(str::to_owned).collect()
}
