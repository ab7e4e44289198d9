//! The commands and manifests of the operations guide that quorate is to be a drop-in for, as a list of our own, and
//! what was put in place of parts of them.
//!
//! Never: a difference to what was given that is not in the list with its reason.

use serde::Deserialize;
use serde_json::Value;

/// One command or manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub section: String,
    /// What the section takes for granted, in commands of our own.
    #[serde(default)]
    pub presumes: Vec<Presumed>,
    /// The command as given.
    pub command: Option<String>,
    /// The manifest as given, which is a part of one.
    pub manifest: Option<String>,
    /// The file that the manifest is edited into.
    pub into: Option<String>,
    /// The file says so already: the edit changes nothing.
    #[serde(default)]
    pub unchanged: bool,
    /// What differs from what was given.
    #[serde(default)]
    pub substitutions: Vec<Substitution>,
    /// What the command prints; a line `…` stands for any number of others.
    pub prints: Option<String>,
    /// What the guide shows there, where it differs from what is printed here.
    pub shows: Option<String>,
    /// How what is printed differs from what the guide shows, and why.
    #[serde(default)]
    pub differs: Vec<String>,
    /// The manifest as given is no YAML.
    #[serde(default)]
    pub no_yaml: bool,
    /// What holds after it.
    #[serde(default)]
    pub holds: Vec<Check>,
}

/// A command of our own before one of the guide's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presumed {
    pub command: String,
    /// Why it is needed.
    pub reason: String,
}

/// A part that differs from what was given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Substitution {
    /// The part as given.
    pub given: String,
    /// What is there instead.
    pub instead: Option<String>,
    /// The command that prints what is there instead.
    pub instead_output_of: Option<String>,
    pub reason: String,
}

/// A check of our own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The command, which must end well unless it is to be refused.
    pub check: String,
    /// What it prints; a line `…` stands for any number of others.
    pub prints: Option<String>,
    /// It prints nothing at all.
    #[serde(default)]
    pub nothing: bool,
    #[serde(default)]
    pub refused: bool,
}

/// The list in `text`.
pub fn entries(text: &str) -> Vec<Entry> {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("the list cannot be read: {e}"))
}

impl Entry {
    /// What was given, with the substitutions made; each must have something to replace.
    pub fn with_substitutions(&self, given: &str, output_of: impl Fn(&str) -> String) -> String {
        let mut text = given.to_owned();
        for substitution in &self.substitutions {
            assert!(
                text.contains(&substitution.given),
                "{}: {:?} is not in what was given",
                self.section,
                substitution.given
            );
            assert!(!substitution.reason.is_empty(), "{}: a reason", self.section);
            let instead = match (&substitution.instead, &substitution.instead_output_of) {
                (Some(instead), None) => instead.clone(),
                (None, Some(command)) => output_of(command).trim().to_owned(),
                _ => panic!("{}: instead or instead_output_of", self.section),
            };
            text = text.replace(&substitution.given, &instead);
        }
        text
    }
}

pub fn parsed(yaml: &str) -> Result<Value, String> {
    serde_saphyr::from_str(yaml).map_err(|e| e.to_string())
}

/// A part of a manifest edited into the whole: what it does not name stays.
pub fn edited(whole: &Value, part: &Value) -> Value {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            let mut all = whole.clone();
            for (key, value) in part {
                let value = whole
                    .get(key)
                    .map_or(value.clone(), |before| edited(before, value));
                all.insert(key.clone(), value);
            }
            Value::Object(all)
        }
        _ => part.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_edit_keeps_what_it_does_not_name() {
        let whole = json!({"spec": {"replicas": 3, "version": "3.5.35"}, "kind": "EtcdCluster"});
        let part = json!({"spec": {"replicas": 1}});
        let edit = json!({"spec": {"replicas": 1, "version": "3.5.35"}, "kind": "EtcdCluster"});
        assert_eq!(edited(&whole, &part), edit);
    }

    #[test]
    fn the_checked_in_list_can_be_read_and_says_why() {
        let list = entries(include_str!("../../guide/contract.yaml"));
        assert!(list.len() >= 12, "{} entries", list.len());
        for entry in list {
            assert!(
                entry.command.is_none() || entry.manifest.is_none(),
                "{}",
                entry.section
            );
            assert_eq!(
                entry.manifest.is_some(),
                entry.into.is_some(),
                "{}",
                entry.section
            );
            assert_eq!(
                entry.shows.is_some(),
                !entry.differs.is_empty(),
                "{}: what differs, and why",
                entry.section
            );
            for check in entry.holds.iter().filter(|c| c.refused) {
                assert!(check.prints.is_some(), "{}: refused in which words?", check.check);
            }
            let given = entry.command.as_ref().or(entry.manifest.as_ref());
            if let Some(given) = given {
                entry.with_substitutions(given, |_| "something".to_owned());
            }
            assert!(
                entry.presumes.iter().all(|p| !p.reason.is_empty()),
                "{}",
                entry.section
            );
        }
    }
}
