//! What an API server would say of an object, for tests: the rules of its definition, evaluated, and the part of its
//! schema that is not a rule: what is required, how long, how large, which words.

use kube::core::cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use super::definitions;

/// A server that knows one kind.
pub(crate) struct ApiServer {
    schema: Value,
    compiled: CompiledSchema,
    validator: Validator,
}

impl ApiServer {
    pub(crate) fn of(kind: &str) -> ApiServer {
        let definition = definitions()
            .into_iter()
            .find(|definition| definition.spec.names.kind == kind)
            .unwrap();
        let schema = definition.spec.versions[0].schema.as_ref().unwrap();
        let schema = serde_json::to_string(schema.open_api_v3_schema.as_ref().unwrap()).unwrap();
        // Here nothing has a type, so that nothing needs to lose it; the evaluator does not know the word.
        let schema: Value = serde_json::from_str(&schema.replace("dyn(", "(")).unwrap();
        ApiServer {
            compiled: compile_schema(&schema),
            validator: Validator::new(),
            schema,
        }
    }

    /// What refuses `object`: a new one, or one that takes the place of `old`.
    pub(crate) fn refuses(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut found = Vec::new();
        walk("", &self.schema, object, &mut found);
        if let Err(errors) = self.validator.validate_compiled(&self.compiled, object, old) {
            found.extend(
                errors
                    .iter()
                    .map(|error| format!("{}: {}", error.field_path, error.message)),
            );
        }
        found
    }
}

fn walk(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    let inside = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    let bound = |word: &str| schema[word].as_f64();
    match value {
        Value::Object(fields) => {
            for required in schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                if !fields.contains_key(required) {
                    found.push(format!("{}: Required value", inside(required)));
                }
            }
            for (key, value) in fields {
                let own = &schema["properties"][key];
                let schema = if own.is_null() {
                    &schema["additionalProperties"]
                } else {
                    own
                };
                walk(&inside(key), schema, value, found);
            }
        }
        Value::Array(elements) => {
            let count = elements.len() as f64;
            if bound("minItems").is_some_and(|least| count < least) {
                found.push(format!("{path}: too few"));
            }
            for element in elements {
                walk(path, &schema["items"], element, found);
            }
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            if let Some(least) = bound("minimum").filter(|least| number < *least) {
                found.push(format!("{path}: below {least}"));
            }
            if let Some(most) = bound("maximum").filter(|most| number > *most) {
                found.push(format!("{path}: above {most}"));
            }
        }
        Value::String(text) => {
            if let Some(most) = bound("maxLength").filter(|most| text.len() as f64 > *most) {
                found.push(format!("{path}: longer than {most}"));
            }
            let words = schema["enum"].as_array();
            if words.is_some_and(|words| !words.contains(value)) {
                found.push(format!("{path}: not one of {}", schema["enum"]));
            }
        }
        _ => {}
    }
}
