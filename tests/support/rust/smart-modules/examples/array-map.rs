use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

/// Gives a record for each word.
#[smartmodule(array_map)]
pub fn array_map(record: &SmartModuleRecord) -> Result<Vec<(Option<RecordData>, RecordData)>> {
    let text = std::str::from_utf8(record.value.as_ref())?;
    Ok(text.split(' ').map(|word| (None, RecordData::from(word))).collect())
}
