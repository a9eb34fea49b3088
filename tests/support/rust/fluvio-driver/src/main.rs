//! The Rust crate as a program for the tests: one command, lines of JSON.

use std::io::{BufRead, Read, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use fluvio::consumer::{ConsumerConfigExtBuilder, ConsumerStream, OffsetManagementStrategy};
use fluvio::metadata::topic::{AddPartition, TopicSpec, UpdateTopicAction};
use fluvio::{
    Compression, Fluvio, FluvioAdmin, FluvioClusterConfig, Isolation, Offset, RecordKey,
    SmartModuleContextData, SmartModuleInvocation, SmartModuleInvocationWasm, SmartModuleKind,
    TopicProducerConfigBuilder,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

type Words<'a> = &'a [String];

fn show(line: Value) {
    println!("{line}");
    std::io::stdout().flush().expect("standard output is open");
}

fn config_of(address: &str) -> Result<FluvioClusterConfig> {
    let Ok(files) = std::env::var("TLS_FILES") else {
        return Ok(FluvioClusterConfig::new(address));
    };
    let files: Vec<String> = serde_json::from_str(&files)?;
    let [domain, key, cert, ca_cert] = &files[..] else {
        bail!("TLS_FILES: domain, key, certificate, authority");
    };
    let text = json!({
        "endpoint": address,
        "tls": {
            "tls_policy": "verified",
            "tls_source": "files",
            "certs": {"domain": domain, "key": key, "cert": cert, "ca_cert": ca_cert},
        },
    });
    Ok(serde_json::from_value(text)?)
}

fn codec_of(name: &str) -> Result<Compression> {
    name.to_lowercase().parse().map_err(|problem| anyhow::anyhow!("{name}: {problem}"))
}

/// Write key=value pairs. A pair without `=` has no key.
async fn produce(client: &Fluvio, words: Words<'_>) -> Result<()> {
    let [topic, codec, pairs @ ..] = words else {
        bail!("produce TOPIC CODEC PAIR ...");
    };
    let producer = if codec == "default" {
        client.topic_producer(topic).await?
    } else {
        let config = TopicProducerConfigBuilder::default()
            .compression(codec_of(codec)?)
            .isolation(Isolation::ReadCommitted)
            .build()?;
        client.topic_producer_with_config(topic, config).await?
    };
    let mut outputs = Vec::new();
    for pair in pairs {
        outputs.push(match pair.split_once('=') {
            Some((key, value)) => producer.send(key, value).await?,
            None => producer.send(RecordKey::NULL, pair.as_str()).await?,
        });
    }
    producer.flush().await?;
    for output in outputs {
        show(json!({"offset": output.wait().await?.offset()}));
    }
    Ok(())
}

fn start_of(word: &str) -> Result<Offset> {
    Ok(match word {
        "beginning" => Offset::beginning(),
        "end" => Offset::end(),
        number => Offset::absolute(number.parse()?)?,
    })
}

fn show_record(record: &fluvio::consumer::Record) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    show(json!({
        "offset": record.offset(),
        "partition": record.partition(),
        "key": record.key().map(text),
        "value": text(record.value()),
    }));
}

/// Read so many records of partition 0, through SmartModules if files of them are named.
async fn read(client: &Fluvio, words: Words<'_>) -> Result<()> {
    let [topic, offset, count, modules @ ..] = words else {
        bail!("read TOPIC OFFSET COUNT [WASM[:PARAMETER=VALUE] ...]");
    };
    let mut builder = ConsumerConfigExtBuilder::default();
    builder.topic(topic).partition(0).offset_start(start_of(offset)?);
    builder.isolation(Isolation::ReadCommitted);
    builder.smartmodule(modules.iter().map(|one| module_of(one)).collect::<Result<_>>()?);
    builder.retry_mode(fluvio::consumer::RetryMode::Disabled);
    let mut stream = client.consumer_with_config(builder.build()?).await?;
    for _ in 0..count.parse::<usize>()? {
        match stream.next().await {
            Some(Ok(record)) => show_record(&record),
            Some(Err(code)) => {
                show(json!({"error": format!("{code:?}"), "text": code.to_string()}));
                break;
            }
            None => break,
        }
    }
    Ok(())
}

/// A file with a SmartModule, or the name of one that the cluster keeps.
fn module_of(word: &str) -> Result<SmartModuleInvocation> {
    let (name, parameters) = word.split_once(':').unwrap_or((word, ""));
    let wasm = if name.ends_with(".wasm") {
        let mut packed = Vec::new();
        let file = std::fs::read(name)?;
        flate2::read::GzEncoder::new(&file[..], flate2::Compression::default())
            .read_to_end(&mut packed)?;
        SmartModuleInvocationWasm::AdHoc(packed)
    } else {
        SmartModuleInvocationWasm::Predefined(name.to_owned())
    };
    let mut invocation = SmartModuleInvocation {
        wasm,
        kind: SmartModuleKind::Generic(SmartModuleContextData::None),
        ..Default::default()
    };
    for pair in parameters.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        invocation.params.insert(key.to_owned(), value.to_owned());
    }
    Ok(invocation)
}

/// Read on until the end of the input, and commit each record.
async fn follow(client: &Fluvio, words: Words<'_>) -> Result<()> {
    let [topic, consumer] = words else {
        bail!("follow TOPIC CONSUMER");
    };
    let mut builder = ConsumerConfigExtBuilder::default();
    builder.topic(topic).offset_start(Offset::beginning());
    if !consumer.is_empty() {
        builder.offset_consumer(consumer.clone());
        builder.offset_strategy(OffsetManagementStrategy::Manual);
    }
    let mut stream = client.consumer_with_config(builder.build()?).await?;
    while let Some(next) = stream.next().await {
        match next {
            Ok(record) => show_record(&record),
            Err(code) => show(json!({"error": code.to_string()})),
        }
        if !consumer.is_empty() {
            stream.offset_commit().await?;
            stream.offset_flush().await?;
        }
    }
    Ok(())
}

/// Write each line of the input, and show the offset that it got.
async fn write_lines(client: &Fluvio, words: Words<'_>) -> Result<()> {
    let [topic] = words else {
        bail!("write-lines TOPIC");
    };
    let config = TopicProducerConfigBuilder::default()
        .isolation(Isolation::ReadCommitted)
        .linger(Duration::ZERO)
        .build()?;
    let producer = client.topic_producer_with_config(topic, config).await?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (key, value) = line.split_once('=').unwrap_or(("", &line));
        let sent = async {
            let output = producer.send(key, value).await?;
            producer.flush().await?;
            Ok::<_, anyhow::Error>(output.wait().await?)
        };
        match sent.await {
            Ok(stored) => show(json!({"line": line, "offset": stored.offset(), "partition": stored.partition_id()})),
            Err(problem) => {
                producer.clear_errors().await;
                show(json!({"line": line, "error": problem.to_string()}));
            }
        }
    }
    Ok(())
}

/// Create a topic, give it more partitions, list it, delete it.
async fn administer(config: &FluvioClusterConfig, words: Words<'_>) -> Result<()> {
    let [topic] = words else {
        bail!("administer TOPIC");
    };
    let admin = FluvioAdmin::connect_with_config(config).await?;
    admin.create(topic.clone(), false, TopicSpec::new_computed(2, 1, None)).await?;
    if let Err(problem) = admin.create(topic.clone(), false, TopicSpec::new_computed(2, 1, None)).await {
        show(json!({"step": "create again", "text": problem.to_string()}));
    }
    let more = UpdateTopicAction::AddPartition(AddPartition { count: 3, ..Default::default() });
    admin.update::<TopicSpec>(topic.clone(), more).await?;
    let listed = admin.list::<TopicSpec, _>(vec![topic.clone()]).await?;
    show(json!({
        "step": "listed",
        "rows": listed.iter().map(|one| json!([one.name, one.spec.partitions()])).collect::<Vec<_>>(),
    }));
    admin.delete::<TopicSpec>(topic.clone()).await?;
    show(json!({"step": "end"}));
    Ok(())
}

async fn run(arguments: &[String]) -> Result<()> {
    let [address, command, words @ ..] = arguments else {
        bail!("ADDRESS COMMAND WORD ...");
    };
    let config = config_of(address)?;
    if command == "administer" {
        return administer(&config, words).await;
    }
    let client = Fluvio::connect_with_config(&config).await?;
    match command.as_str() {
        "produce" => produce(&client, words).await,
        "read" => read(&client, words).await,
        "follow" => follow(&client, words).await,
        "write-lines" => write_lines(&client, words).await,
        other => bail!("{other} is no command"),
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    fluvio_future::task::run_block_on(run(&arguments))
}
