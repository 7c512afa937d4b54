//! The changes that a filter made to its files, call by call, and the states of the files that a
//! loss of power may leave.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::state::Tree;

/// Identifies a file whose name may change.
type FileId = usize;

/// A change of the file system, or a call that makes changes durable.
#[derive(Clone, Debug)]
pub enum Op {
    /// A name in a directory that was not there.
    Create(PathBuf, FileId),
    MakeDirectory(PathBuf),
    Write(FileId, u64, Vec<u8>),
    Truncate(FileId, u64),
    /// Another name of a file.
    Link(PathBuf, FileId),
    Rename(PathBuf, PathBuf, FileId),
    RenameDirectory(PathBuf, PathBuf),
    Unlink(PathBuf),
    SyncFile(FileId),
    SyncDirectory(PathBuf),
    /// Bytes that went to the standard output: the reader has them.
    Stdout(Vec<u8>),
}

impl Op {
    fn is_sync(&self) -> bool {
        matches!(self, Self::SyncFile(_) | Self::SyncDirectory(_) | Self::Stdout(_))
    }

    fn is_data(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Truncate(..))
    }

    fn describe(&self) -> String {
        match self {
            Self::Write(object, at, bytes) => {
                format!("write of file {object}: {} bytes at {at}", bytes.len())
            }
            Self::Stdout(bytes) => format!("stdout: {} bytes", bytes.len()),
            other => format!("{other:?}"),
        }
    }

    /// Returns whether this change is durable once `sync` has returned.
    fn is_kept_by(&self, sync: &Self) -> bool {
        match (self, sync) {
            (Self::Write(object, ..) | Self::Truncate(object, _), Self::SyncFile(synced)) => {
                object == synced
            }
            (
                Self::Create(path, _)
                | Self::Link(path, _)
                | Self::MakeDirectory(path)
                | Self::Unlink(path),
                Self::SyncDirectory(synced),
            ) => path.parent() == Some(synced),
            (
                Self::Rename(_, to, _) | Self::RenameDirectory(_, to),
                Self::SyncDirectory(synced),
            ) => to.parent() == Some(synced),
            _ => false,
        }
    }
}

/// A run of a filter: the files before it, and its changes in order.
pub struct Trace {
    before: Tree,
    /// The files that were there before, as objects.
    objects: HashMap<PathBuf, FileId>,
    pub ops: Vec<Op>,
}

impl Trace {
    /// Reads what the shim wrote of calls below `state`.
    pub fn parse(bytes: &[u8], state: &Path, before: Tree) -> Self {
        let mut objects: HashMap<PathBuf, FileId> = HashMap::new();
        for name in before.files() {
            objects.insert(name.to_owned(), objects.len());
        }
        let mut parser = Parser {
            state,
            names: objects.clone(),
            count: objects.len(),
            open: HashMap::from([(1, Open::Output)]),
            ops: Vec::new(),
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole line");
            let line = std::str::from_utf8(&rest[..end]).expect("UTF-8");
            rest = &rest[end + 1..];
            let (call, arguments) = line.split_once(' ').expect("a call with arguments");
            let data = if call == "write" {
                arguments.rsplit(' ').next().expect("a length").parse().expect("a number")
            } else {
                0
            };
            parser.take(call, arguments, &rest[..data]);
            rest = &rest[data..];
        }
        Self { before, objects, ops: parser.ops }
    }

    /// The changes before `point` that a loss of power there may undo.
    pub fn pending(&self, point: usize) -> Vec<usize> {
        let is_pending = |index: &usize| {
            let op = &self.ops[*index];
            !op.is_sync() && !self.ops[*index + 1..point].iter().any(|later| op.is_kept_by(later))
        };
        (0..point).filter(is_pending).collect()
    }

    /// The ways in which a loss of power at `point` may leave the changes that are pending: none of
    /// them, all, names without data, data without names, lengths without data, a last write torn,
    /// all but one, one alone, and some by chance.
    pub fn losses(&self, point: usize, mut chance: impl FnMut() -> bool) -> Vec<Loss> {
        let pending = self.pending(point);
        let of_kind = |data: bool| {
            pending.iter().copied().filter(|index| self.ops[*index].is_data() == data).collect()
        };
        let all: BTreeSet<usize> = pending.iter().copied().collect();
        let whole = |kept: BTreeSet<usize>| Loss { point, kept, zeroed: false, torn: None };
        let mut losses = vec![
            whole(BTreeSet::new()),
            whole(all.clone()),
            whole(of_kind(false)),
            whole(of_kind(true)),
        ];
        losses.push(Loss { zeroed: true, ..whole(all.clone()) });
        let last = pending.iter().copied().rfind(|index| matches!(self.ops[*index], Op::Write(..)));
        losses.extend(last.map(|torn| Loss { torn: Some(torn), ..whole(all.clone()) }));
        for index in &pending {
            let mut others = all.clone();
            others.remove(index);
            losses.push(whole(others));
            losses.push(whole(BTreeSet::from([*index])));
        }
        losses
            .extend((0..4).map(|_| whole(pending.iter().copied().filter(|_| chance()).collect())));
        losses
    }

    /// The files after a loss.
    pub fn state_after(&self, loss: &Loss) -> Tree {
        let pending: BTreeSet<usize> = self.pending(loss.point).into_iter().collect();
        let mut names: BTreeMap<PathBuf, Option<FileId>> = self
            .before
            .0
            .iter()
            .map(|(name, content)| (name.clone(), content.as_ref().map(|_| self.objects[name])))
            .collect();
        let mut contents: HashMap<FileId, Vec<u8>> = HashMap::new();
        for (name, object) in &self.objects {
            contents.insert(*object, self.before.0[name].clone().expect("a file"));
        }
        for (index, op) in self.ops[..loss.point].iter().enumerate() {
            if pending.contains(&index) && !loss.kept.contains(&index) {
                continue;
            }
            let is_lost_data = loss.zeroed && pending.contains(&index);
            match op {
                Op::Create(path, object) | Op::Link(path, object) => {
                    names.insert(path.clone(), Some(*object));
                }
                Op::MakeDirectory(path) => drop(names.insert(path.clone(), None)),
                Op::Unlink(path) => drop(names.remove(path)),
                Op::Rename(from, to, object) => {
                    names.remove(from);
                    names.insert(to.clone(), Some(*object));
                }
                Op::RenameDirectory(from, to) => {
                    names =
                        names.into_iter().map(|(name, is)| (moved(name, from, to), is)).collect()
                }
                Op::Truncate(object, len) => {
                    contents.entry(*object).or_default().resize(*len as usize, 0)
                }
                Op::Write(object, at, bytes) => {
                    let len = if loss.torn == Some(index) { bytes.len() / 2 } else { bytes.len() };
                    let content = contents.entry(*object).or_default();
                    let at = *at as usize;
                    if content.len() < at + len {
                        content.resize(at + len, 0);
                    }
                    if !is_lost_data {
                        content[at..at + len].copy_from_slice(&bytes[..len]);
                    }
                }
                Op::SyncFile(_) | Op::SyncDirectory(_) | Op::Stdout(_) => (),
            }
        }
        // A name is there if all directories above it are.
        let is_there = |path: &Path| {
            path.ancestors()
                .skip(1)
                .all(|above| above.as_os_str().is_empty() || names.get(above) == Some(&None))
        };
        let there = names.iter().filter(|(name, _)| is_there(name));
        let content = |object: &FileId| contents.get(object).cloned().unwrap_or_default();
        Tree(there.map(|(name, object)| (name.clone(), object.as_ref().map(content))).collect())
    }

    /// The last calls before a loss, each with whether its change was kept.
    pub fn describe(&self, loss: &Loss) -> String {
        let pending: BTreeSet<usize> = self.pending(loss.point).into_iter().collect();
        let lost = pending.iter().filter(|index| !loss.kept.contains(index));
        let lines = lost.map(|index| format!("  lost: {}", self.ops[*index].describe()));
        let last = loss
            .point
            .checked_sub(1)
            .map(|index| format!("  power lost after: {}", self.ops[index].describe()));
        let mut lines: Vec<String> = last.into_iter().chain(lines).take(12).collect();
        lines.extend(loss.zeroed.then(|| "  writes that were not durable are zeros".to_owned()));
        lines.extend(loss.torn.map(|index| format!("  torn: {}", self.ops[index].describe())));
        lines.join("\n")
    }

    /// Returns the bytes that were on the standard output at `point`.
    pub fn stdout_at(&self, point: usize) -> String {
        let written = self.ops[..point]
            .iter()
            .filter_map(|op| if let Op::Stdout(bytes) = op { Some(&bytes[..]) } else { None });
        String::from_utf8(written.collect::<Vec<_>>().concat()).expect("UTF-8")
    }
}

/// A loss of power.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Before which call it comes.
    pub point: usize,
    /// Changes that were not durable and were kept all the same.
    kept: BTreeSet<usize>,
    /// `true` if writes that were not durable left zeros.
    zeroed: bool,
    /// A write of which only the first half was kept.
    torn: Option<usize>,
}

/// A name after a directory was renamed.
fn moved(name: PathBuf, from: &Path, to: &Path) -> PathBuf {
    match name.strip_prefix(from) {
        Ok(below) if below.as_os_str().is_empty() => to.to_owned(),
        Ok(below) => to.join(below),
        Err(_) => name,
    }
}

struct Parser<'a> {
    state: &'a Path,
    names: HashMap<PathBuf, FileId>,
    count: usize,
    /// The open files below the state, by file descriptor.
    open: HashMap<i32, Open>,
    ops: Vec<Op>,
}

#[derive(Clone)]
enum Open {
    File(FileId),
    Directory(PathBuf),
    /// The standard output.
    Output,
    Elsewhere,
}

impl Parser<'_> {
    /// A path below the state, the state itself as an empty one.
    fn below(&self, path: &str) -> Option<PathBuf> {
        Path::new(path).strip_prefix(self.state).ok().map(Path::to_owned)
    }

    fn take(&mut self, call: &str, arguments: &str, data: &[u8]) {
        let words: Vec<&str> = arguments.split(' ').collect();
        let fd = || words[0].parse::<i32>().expect("a file descriptor");
        match call {
            "open" => {
                let path = arguments.splitn(4, ' ').nth(3).expect("a path");
                let open = self.open_file(path, words[1] == "1", words[2] == "1");
                self.open.insert(fd(), open);
            }
            "close" => drop(self.open.remove(&fd())),
            "dup" => {
                let same = self.open.get(&fd()).cloned();
                let copy = words[1].parse().expect("a file descriptor");
                self.open.insert(copy, same.unwrap_or(Open::Elsewhere));
            }
            "write" => match self.open.get(&fd()) {
                Some(Open::File(object)) => {
                    self.ops.push(Op::Write(
                        *object,
                        words[1].parse().expect("an offset"),
                        data.to_owned(),
                    ));
                }
                Some(Open::Output) => self.ops.push(Op::Stdout(data.to_owned())),
                _ => (),
            },
            "truncate" => {
                if let Some(Open::File(object)) = self.open.get(&fd()) {
                    self.ops.push(Op::Truncate(*object, words[1].parse().expect("a length")));
                }
            }
            "fsync" => match self.open.get(&fd()) {
                Some(Open::File(object)) => self.ops.push(Op::SyncFile(*object)),
                Some(Open::Directory(path)) => self.ops.push(Op::SyncDirectory(path.clone())),
                _ => (),
            },
            "rename" => {
                let (from, to) = arguments.split_once('\t').expect("two paths");
                let Some((from, to)) = self.below(from).zip(self.below(to)) else { return };
                if let Some(object) = self.names.remove(&from) {
                    self.names.insert(to.clone(), object);
                    self.ops.push(Op::Rename(from, to, object));
                } else {
                    self.names = self
                        .names
                        .drain()
                        .map(|(name, object)| (moved(name, &from, &to), object))
                        .collect();
                    self.ops.push(Op::RenameDirectory(from, to));
                }
            }
            "link" => {
                let (from, to) = arguments.split_once('\t').expect("two paths");
                let Some((from, to)) = self.below(from).zip(self.below(to)) else { return };
                let object = self.names[&from];
                self.names.insert(to.clone(), object);
                self.ops.push(Op::Link(to, object));
            }
            "unlink" => {
                if let Some(path) = self.below(arguments) {
                    self.names.remove(&path);
                    self.ops.push(Op::Unlink(path));
                }
            }
            "mkdir" => self.ops.extend(self.below(arguments).map(Op::MakeDirectory)),
            other => panic!("no call is traced as {other}"),
        }
    }

    fn open_file(&mut self, path: &str, is_new: bool, is_cut: bool) -> Open {
        let Some(path) = self.below(path) else { return Open::Elsewhere };
        if is_new {
            let object = self.count;
            self.count += 1;
            self.names.insert(path.clone(), object);
            self.ops.push(Op::Create(path, object));
            return Open::File(object);
        }
        match self.names.get(&path) {
            Some(object) => {
                if is_cut {
                    self.ops.push(Op::Truncate(*object, 0));
                }
                Open::File(*object)
            }
            None => Open::Directory(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(trace: &Trace, point: usize, kept: &[usize]) -> Vec<(String, Option<Vec<u8>>)> {
        let loss = Loss { point, kept: kept.iter().copied().collect(), zeroed: false, torn: None };
        trace
            .state_after(&loss)
            .0
            .into_iter()
            .map(|(name, content)| (name.display().to_string(), content))
            .collect()
    }

    #[test]
    fn only_what_was_synced_is_sure_to_stay() {
        let calls = "open 5 1 0 /s/a.tmp\nwrite 5 0 3\nabcfsync 5\nrename /s/a.tmp\t/s/a\nopen 6 0 0 /s\nfsync 6\nclose 6\n";
        let trace = Trace::parse(calls.as_bytes(), Path::new("/s"), Tree::default());
        assert_eq!(trace.ops.len(), 5, "{:?}", trace.ops);
        assert_eq!(state(&trace, 3, &[]), [], "its name is not synced");
        assert_eq!(state(&trace, 4, &[0]), [("a.tmp".to_owned(), Some(b"abc".to_vec()))]);
        assert_eq!(state(&trace, 2, &[0]), [("a.tmp".to_owned(), Some(Vec::new()))]);
        assert_eq!(state(&trace, 4, &[3]), [("a".to_owned(), Some(b"abc".to_vec()))]);
        assert_eq!(trace.pending(5), [0; 0]);
        assert_eq!(state(&trace, 5, &[]), [("a".to_owned(), Some(b"abc".to_vec()))]);
    }
}
