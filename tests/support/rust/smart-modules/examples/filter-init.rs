use std::sync::OnceLock;

use fluvio_smartmodule::dataplane::smartmodule::{SmartModuleExtraParams, SmartModuleInitError};
use fluvio_smartmodule::{Result, SmartModuleRecord, eyre, smartmodule};

static WORD: OnceLock<String> = OnceLock::new();

#[smartmodule(init)]
fn init(params: SmartModuleExtraParams) -> Result<()> {
    match params.get("word") {
        Some(word) => WORD.set(word.clone()).map_err(|_| eyre!("it was set before")),
        None => Err(SmartModuleInitError::MissingParam("word".to_string()).into()),
    }
}

/// Keeps values with the word of the parameter.
#[smartmodule(filter)]
pub fn filter(record: &SmartModuleRecord) -> Result<bool> {
    let word = WORD.get().map(String::as_str).unwrap_or_default();
    Ok(std::str::from_utf8(record.value.as_ref())?.contains(word))
}
