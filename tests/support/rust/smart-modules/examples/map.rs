use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

/// Gives values in capitals, with offset and time in front.
#[smartmodule(map)]
pub fn map(record: &SmartModuleRecord) -> Result<(Option<RecordData>, RecordData)> {
    let text = std::str::from_utf8(record.value.as_ref())?.to_uppercase();
    let made = format!("{} {} {text}", record.offset(), record.timestamp() > 0);
    Ok((record.key.clone(), made.into()))
}
