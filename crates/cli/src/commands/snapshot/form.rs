//! A result in the form that was asked for.

use serde::Serialize;

use crate::arguments::Form;
use crate::failure::Failure;
use crate::say;

/// Prints `value`, for people as `page` shows it.
pub fn show(form: Form, value: &impl Serialize, page: impl FnOnce() -> String) -> Result<(), Failure> {
    let unwritable = |error: String| Failure::failed(format!("cannot write the result: {error}"));
    let text = match form {
        Form::Table => page(),
        Form::Json => serde_json::to_string_pretty(value).map_err(|e| unwritable(e.to_string()))? + "\n",
        Form::Yaml => serde_saphyr::to_string(value).map_err(|e| unwritable(e.to_string()))?,
    };
    say::print(&text);
    Ok(())
}
