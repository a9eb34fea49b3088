//! SmartModules for the tests, as Fluvio's documents have them.

#[cfg(feature = "filter")]
mod filter {
    use fluvio_smartmodule::{Result, SmartModuleRecord, smartmodule};

    /// Keeps values with an "a".
    #[smartmodule(filter)]
    pub fn filter(record: &SmartModuleRecord) -> Result<bool> {
        Ok(std::str::from_utf8(record.value.as_ref())?.contains('a'))
    }
}

#[cfg(feature = "filter-init")]
mod filter_init {
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
}

#[cfg(feature = "map")]
mod map {
    use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

    /// Gives values in capitals, with offset and time in front.
    #[smartmodule(map)]
    pub fn map(record: &SmartModuleRecord) -> Result<(Option<RecordData>, RecordData)> {
        let text = std::str::from_utf8(record.value.as_ref())?.to_uppercase();
        let made = format!("{} {} {text}", record.offset(), record.timestamp() > 0);
        Ok((record.key.clone(), made.into()))
    }
}

#[cfg(feature = "filter-map")]
mod filter_map {
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
}

#[cfg(feature = "array-map")]
mod array_map {
    use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

    /// Gives a record for each word.
    #[smartmodule(array_map)]
    pub fn array_map(record: &SmartModuleRecord) -> Result<Vec<(Option<RecordData>, RecordData)>> {
        let text = std::str::from_utf8(record.value.as_ref())?;
        Ok(text.split(' ').map(|word| (None, RecordData::from(word))).collect())
    }
}

#[cfg(feature = "aggregate")]
mod aggregate {
    use fluvio_smartmodule::{RecordData, Result, SmartModuleRecord, smartmodule};

    /// Adds numbers up.
    #[smartmodule(aggregate)]
    pub fn aggregate(sum: RecordData, current: &SmartModuleRecord) -> Result<RecordData> {
        let before: i64 = std::str::from_utf8(sum.as_ref())?.parse().unwrap_or(0);
        let number: i64 = std::str::from_utf8(current.value.as_ref())?.parse()?;
        Ok((before + number).to_string().into())
    }
}
