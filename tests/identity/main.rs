//! Which results are whose: no final is shared by two files, none is lost where a tree is moved, and none holds rows of what
//! a file was before.

#![allow(missing_docs, reason = "a test")]

mod raw;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../pipe/site.rs"]
mod site;

mod moves;
mod pairs;
mod recipes;
