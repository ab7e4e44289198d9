//! Where in a manifest a field is: `spec.podTemplate.metadata.annotations["prometheus.io/port"]`.

use std::fmt;

/// One step from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Key(String),
    Index(usize),
}

/// A field's place in a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// The field of these plain keys, e.g. `"spec.replicas"`. For keys that hold a dot use [`FieldPath::key`].
    pub fn of(dotted: &str) -> FieldPath {
        FieldPath(
            dotted
                .split('.')
                .filter(|key| !key.is_empty())
                .map(|key| Segment::Key(key.to_owned()))
                .collect(),
        )
    }

    /// The field `key` inside this one.
    pub fn key(&self, key: &str) -> FieldPath {
        self.with(Segment::Key(key.to_owned()))
    }

    /// Element `index` of this list.
    pub fn index(&self, index: usize) -> FieldPath {
        self.with(Segment::Index(index))
    }

    /// What this field is in; the manifest is in itself.
    pub(crate) fn parent(&self) -> FieldPath {
        let inside = self.0.len().saturating_sub(1);
        FieldPath(self.0[..inside].to_vec())
    }

    /// Is this field `other`, or inside it?
    pub(crate) fn is_within(&self, other: &FieldPath) -> bool {
        self.0.starts_with(&other.0)
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn push(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    fn with(&self, segment: Segment) -> FieldPath {
        let mut segments = self.0.clone();
        segments.push(segment);
        FieldPath(segments)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the manifest");
        }
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if key.contains(['.', '/', '[', ' ']) || key.is_empty() => {
                    write!(f, "[{key:?}]")?
                }
                Segment::Key(key) if position == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown() {
        let annotations = FieldPath::of("spec.podTemplate.metadata.annotations");
        assert_eq!(annotations.to_string(), "spec.podTemplate.metadata.annotations");
        assert_eq!(
            annotations.key("prometheus.io/port").to_string(),
            "spec.podTemplate.metadata.annotations[\"prometheus.io/port\"]"
        );
        assert_eq!(FieldPath::of("a").index(2).key("b").to_string(), "a[2].b");
        assert_eq!(FieldPath::default().to_string(), "the manifest");
    }
}
