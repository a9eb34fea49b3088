use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

/// Adds numbers up.
#[smartmodule(aggregate)]
pub fn aggregate(sum: RecordData, current: &SmartModuleRecord) -> Result<RecordData> {
    let before: i64 = std::str::from_utf8(sum.as_ref())?.parse().unwrap_or(0);
    let number: i64 = std::str::from_utf8(current.value.as_ref())?.parse()?;
    Ok((before + number).to_string().into())
}
