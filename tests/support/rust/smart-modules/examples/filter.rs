use fluvio_smartmodule::{Result, SmartModuleRecord, smartmodule};

/// Keeps values with an "a".
#[smartmodule(filter)]
pub fn filter(record: &SmartModuleRecord) -> Result<bool> {
    Ok(std::str::from_utf8(record.value.as_ref())?.contains('a'))
}
