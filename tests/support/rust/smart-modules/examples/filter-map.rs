use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

/// Halves even numbers, leaves out odd ones, and fails at what is no number.
#[smartmodule(filter_map)]
pub fn filter_map(
    record: &SmartModuleRecord,
) -> Result<Option<(Option<RecordData>, RecordData)>> {
    let number: i64 = std::str::from_utf8(record.value.as_ref())?.parse()?;
    let half = (number % 2 == 0).then(|| (number / 2).to_string());
    Ok(half.map(|text| (record.key.clone(), text.into())))
}
