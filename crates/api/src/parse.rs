//! Reads a manifest strictly.
//!
//! In: YAML text and where it came from. Out: [`EtcdCluster`], or every field that is unknown or of the wrong
//! type, with its line. Never: an unknown field let through, since a misspelt one would silently do nothing.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fault::{Fault, Invalid, Mismatch};
use crate::layout;
use crate::manifest::{API_VERSION, EtcdCluster, KIND};
use crate::path::{FieldPath, Segment};
use crate::reader;

/// A manifest is a page or two; what is longer is something else.
const MAX_TEXT: usize = 1 << 20;
/// Faults reported at most; the rest are found once these are mended.
const MAX_FAULTS: usize = 32;

/// The fields of the design that a later version will understand.
const LATER: &[&str] = &["repair", "recovery"];

/// Reads the manifest `text`, which came from the file `origin`.
pub fn parse(text: &str, origin: &str) -> Result<EtcdCluster, Invalid> {
    let refused = |faults| Invalid {
        origin: origin.to_owned(),
        faults,
    };
    let value = to_value(text).map_err(|fault| refused(vec![fault]))?;
    let mut faults = kind_faults(&value);
    if faults.is_empty() {
        let read = read(value);
        faults = read.faults;
        faults.extend(read.unknown);
        match read.whole {
            Some(cluster) if faults.is_empty() => return Ok(cluster),
            _ => {}
        }
    }
    for fault in &mut faults {
        fault.line = layout::line_near(text, &fault.path);
    }
    Err(refused(faults))
}

/// The YAML text as plain data; a fault where it is not one well-formed document.
pub(crate) fn to_value(text: &str) -> Result<Value, Fault> {
    let whole = |got: String, expected: &str, fix: &str| Fault {
        path: FieldPath::default(),
        line: None,
        mismatch: Mismatch::Value {
            got,
            expected: expected.to_owned(),
        },
        fix: fix.to_owned(),
    };
    if text.len() > MAX_TEXT {
        return Err(whole(
            format!("{} bytes", text.len()),
            &format!("at most {MAX_TEXT} bytes"),
            "Check that this is the right file.",
        ));
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        let line = error
            .location()
            .and_then(|at| usize::try_from(at.line()).ok())
            .filter(|line| *line > 0);
        let fault = match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key, .. } => whole(
                format!(
                    "the field {} a second time",
                    key.as_deref().unwrap_or("named there")
                ),
                "each field once",
                "Keep one of the two.",
            ),
            serde_saphyr::Error::MultipleDocuments { .. } => whole(
                "a second document".to_owned(),
                "one manifest in the file",
                "Put each manifest in a file of its own.",
            ),
            error => whole(
                format!("text that is not YAML ({error})"),
                "one YAML document",
                "Mend that line; indent with spaces, and put texts that hold ': ' or ' #' in quotes.",
            ),
        };
        Fault { line, ..fault }
    })?;
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Err(whole(
            "an empty file".to_owned(),
            "an EtcdCluster manifest",
            "`quorate up` without -f writes one to start from.",
        )),
        _ => Err(whole(
            describe(&value),
            "an EtcdCluster manifest",
            "Begin with the lines apiVersion, kind, metadata and spec.",
        )),
    }
}

/// A manifest of another kind is not judged field by field: all of them would be wrong.
fn kind_faults(value: &Value) -> Vec<Fault> {
    let check = |field: &str, wanted: &str| {
        let got = match value.get(field) {
            Some(Value::String(text)) if text == wanted => return None,
            Some(other) => describe(other),
            None => "nothing".to_owned(),
        };
        Some(Fault {
            path: FieldPath::of(field),
            line: None,
            mismatch: Mismatch::Value {
                got,
                expected: wanted.to_owned(),
            },
            fix: format!("Write `{field}: {wanted}`; quorate runs clusters from this kind of manifest only."),
        })
    };
    [check("apiVersion", API_VERSION), check("kind", KIND)]
        .into_iter()
        .flatten()
        .collect()
}

/// What can be read of a value.
pub(crate) struct Read<T> {
    /// It, without what cannot be read; `None` if nothing is left that makes sense.
    pub(crate) whole: Option<T>,
    /// The fields that are of the wrong type, or missing where there must be one.
    pub(crate) faults: Vec<Fault>,
    /// The fields that nobody knows.
    pub(crate) unknown: Vec<Fault>,
}

/// Reads `value` as far as it can be read, and notes all fields that cannot.
pub(crate) fn read<T: DeserializeOwned>(mut value: Value) -> Read<T> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut filled: Vec<FieldPath> = Vec::new();
    let mut whole = None;
    let mut unknown = Vec::new();
    // What cannot be read stops the reading: it is noted and taken out, and the rest is read again.
    while faults.len() < MAX_FAULTS {
        let (read, notes) = reader::read::<T>(&value);
        let message = match read {
            Ok(read) => {
                whole = Some(read);
                let reported = notes.unknown.iter().take(MAX_FAULTS);
                unknown = reported.map(unknown_fault).collect();
                break;
            }
            Err(error) => error.to_string(),
        };
        let path = notes.fault;
        let go_on = if let Some(name) = missing_field(&message) {
            let field = path.key(name);
            faults.push(missing_fault(&field));
            // Something is put there, so that the rest can be read: most often it is a text.
            let goes_on = put(&mut value, &field, Value::String(String::new()));
            filled.push(field);
            goes_on
        } else if filled.contains(&path) {
            if at(&value, &path).is_some_and(Value::is_string) {
                put(&mut value, &path, Value::Object(serde_json::Map::new()))
            } else {
                take_out(&mut value, &path.parent())
            }
        } else {
            faults.push(type_fault(&path, at(&value, &path), &message));
            take_out(&mut value, &path)
        };
        if !go_on {
            break;
        }
    }
    Read {
        whole,
        faults,
        unknown,
    }
}

/// The field that is missing, by what the reader says.
fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

fn missing_fault(path: &FieldPath) -> Fault {
    Fault {
        path: path.clone(),
        line: None,
        mismatch: Mismatch::Value {
            got: "nothing".to_owned(),
            expected: "a value".to_owned(),
        },
        fix: "This field cannot be left out.".to_owned(),
    }
}

fn type_fault(path: &FieldPath, got: Option<&Value>, message: &str) -> Fault {
    let wanted = message
        .rsplit_once("expected ")
        .map_or(message, |(_, wanted)| wanted);
    let (expected, fix) = match wanted {
        "i32" | "i64" => (
            "a whole number",
            "Write the number alone, without quotes, unit or fraction.",
        ),
        "a string" if *path == FieldPath::of("spec.version") => (
            "a version of three numbers",
            "Write all three numbers, for example 3.6.1.",
        ),
        "a string" if got.is_some_and(|got| got.is_number() || got.is_boolean()) => {
            ("a text", "Put it in quotes.")
        }
        "a string" => ("a text", "Write one text after the colon."),
        "a boolean" => ("true or false", "Write true or false, without quotes."),
        "a sequence" => ("a list", "Write each element on a line of its own, after `- `."),
        "a map" => (
            "a group of fields",
            "Write its fields on the lines below it, indented.",
        ),
        wanted if wanted.starts_with("struct ") => (
            "a group of fields",
            "Write its fields on the lines below it, indented, or leave it out.",
        ),
        "Quantity" => (
            "a quantity such as 50Mi, 1.5G or 200m",
            "Write one of these forms.",
        ),
        // Kubernetes' own types are named by their names.
        wanted if wanted.starts_with(|first: char| first.is_ascii_uppercase()) => (
            "a group of fields",
            "Write its fields on the lines below it, indented, or leave it out.",
        ),
        wanted => (wanted, "Write one of these forms."),
    };
    Fault {
        path: path.clone(),
        line: None,
        mismatch: Mismatch::Value {
            got: got.map_or_else(|| "nothing".to_owned(), describe),
            expected: expected.to_owned(),
        },
        fix: fix.to_owned(),
    }
}

fn unknown_fault(path: &FieldPath) -> Fault {
    let (parent, name) = match path.segments().split_last() {
        Some((Segment::Key(name), parent)) => (shown(parent), name.as_str()),
        _ => (String::new(), ""),
    };
    let known = known_fields(&parent);
    let fix = if parent == "spec" && LATER.contains(&name) {
        format!("{name} is not supported by this version of quorate; leave it out, or use a newer version.")
    } else if parent.is_empty() && name == "status" {
        "Leave it out: status is written for you to read.".to_owned()
    } else if let Some(near) = known.iter().find(|field| is_near(field, name)) {
        format!("Did you mean {near}?")
    } else if known.is_empty() {
        "Leave it out.".to_owned()
    } else {
        format!("Leave it out; the fields here are {}.", known.join(", "))
    };
    Fault {
        path: path.clone(),
        line: None,
        mismatch: Mismatch::UnknownField,
        fix,
    }
}

/// The fields inside `parent`, for the advice in a message. A test holds it against the types.
fn known_fields(parent: &str) -> &'static [&'static str] {
    match parent {
        "" => &["apiVersion", "kind", "metadata", "spec"],
        "metadata" => &["name", "namespace", "labels", "annotations"],
        "spec" => &[
            "replicas",
            "version",
            "storage",
            "podTemplate",
            "affinity",
            "tls",
            "auth",
            "options",
            "quota",
            "paused",
            "forceRedeploymentReason",
            "acceptRolledBack",
            "backup",
            "maintenance",
            "host",
        ],
        "spec.storage" => &["volumeClaimTemplate"],
        "spec.storage.volumeClaimTemplate" => &[
            "accessModes",
            "volumeMode",
            "storageClassName",
            "resources",
            "selector",
            "volumeName",
            "volumeAttributesClassName",
            "dataSource",
            "dataSourceRef",
        ],
        "spec.podTemplate" => &[
            "metadata",
            "resources",
            "affinity",
            "tolerations",
            "nodeSelector",
            "topologySpreadConstraints",
            "priorityClassName",
            "securityContext",
            "imagePullSecrets",
        ],
        "spec.podTemplate.metadata" => &["annotations"],
        "spec.podTemplate.resources" => &["requests", "limits", "claims"],
        "spec.storage.volumeClaimTemplate.resources" => &["requests", "limits"],
        "spec.tls" => &["enabled", "client", "peer"],
        "spec.auth" => &["rootSecret", "passwordFile"],
        "spec.tls.client" | "spec.tls.peer" => &["secretName"],
        "spec.maintenance" => &["rollingChanges"],
        "spec.backup" => &["schedule", "destination", "deltas", "retention"],
        "spec.options" => &[
            "heartbeatInterval",
            "electionTimeout",
            "snapshotCount",
            "autoCompactionMode",
            "autoCompactionRetention",
            "maxRequestBytes",
            "maxTxnOps",
            "maxSnapshots",
            "maxWals",
            "logLevel",
            "metrics",
        ],
        "spec.host" => &["clientPort", "peerPort", "unitName", "memoryLimitMB", "cpu"],
        _ => &[],
    }
}

fn shown(segments: &[Segment]) -> String {
    let key = |segment: &Segment| match segment {
        Segment::Key(key) => key.clone(),
        Segment::Index(index) => index.to_string(),
    };
    segments.iter().map(key).collect::<Vec<_>>().join(".")
}

/// The same but for case, or for at most two letters added, lost or changed.
fn is_near(field: &str, name: &str) -> bool {
    let (field, name) = (field.to_lowercase(), name.to_lowercase());
    let (field, name): (Vec<char>, Vec<char>) = (field.chars().collect(), name.chars().collect());
    if name.len() > 64 || field.len().min(name.len()) < 3 {
        return field == name;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in field.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in name.iter().enumerate() {
            let cost = (corner + usize::from(a != b)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = cost;
        }
    }
    row[name.len()] <= 2
}

fn at<'a>(value: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.segments()
        .iter()
        .try_fold(value, |inside, segment| match segment {
            Segment::Key(key) => inside.get(key),
            Segment::Index(index) => inside.get(index),
        })
}

/// Puts `new` into a group of fields.
fn put(value: &mut Value, path: &FieldPath, new: Value) -> bool {
    let Some((Segment::Key(key), parents)) = path.segments().split_last() else {
        return false;
    };
    match inside(value, parents) {
        Some(Value::Object(fields)) => {
            fields.insert(key.clone(), new);
            true
        }
        _ => false,
    }
}

fn inside<'a>(value: &'a mut Value, segments: &[Segment]) -> Option<&'a mut Value> {
    segments.iter().try_fold(value, |inside, segment| match segment {
        Segment::Key(key) => inside.get_mut(key),
        Segment::Index(index) => inside.get_mut(index),
    })
}

fn take_out(value: &mut Value, path: &FieldPath) -> bool {
    let Some((last, parents)) = path.segments().split_last() else {
        return false;
    };
    match (inside(value, parents), last) {
        (Some(Value::Object(fields)), Segment::Key(key)) => fields.remove(key).is_some(),
        (Some(Value::Array(elements)), Segment::Index(index)) if *index < elements.len() => {
            elements.remove(*index);
            true
        }
        _ => false,
    }
}

/// A value in a few words.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() > 60 => {
            format!("the text {:?}…", text.chars().take(60).collect::<String>())
        }
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a group of fields".to_owned(),
    }
}

#[cfg(test)]
mod tests;
