// What the Go client can do beyond sending and receiving, one thing after the other.
package main

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const orderSchema = `{"type":"record","name":"Order","fields":[{"name":"name","type":"string"}]}`

type order struct {
	Name string `json:"name" avro:"name"`
}

type fixture struct {
	client pulsar.Client
	admin  string
	prefix string
}

func features(client pulsar.Client, admin string, prefix string) []string {
	its := fixture{client, admin, prefix}
	steps := []struct {
		name string
		take func() (any, error)
	}{
		{"negative acknowledgement", its.negative},
		{"dead letter", its.deadLetter},
		{"retry letter", its.retryLetter},
		{"part of a batch", its.partOfBatch},
		{"seek", its.seek},
		{"reader", its.reader},
		{"table view", its.tableView},
		{"growth", its.growth},
		{"pattern", its.pattern},
		{"sticky keys", its.stickyKeys},
		{"chunks", its.chunks},
		{"delay", its.delay},
		{"codecs", its.codecs},
		{"exclusive producer", its.exclusive},
		{"schemas", its.schemas},
		{"unsubscribe", its.unsubscribe},
	}
	var lines []string
	for _, step := range steps {
		seen, err := step.take()
		if err != nil {
			seen = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		lines = append(lines, fmt.Sprintf("%s: %v", step.name, seen))
	}
	return lines
}

func (its fixture) topic(name string) string {
	return its.prefix + "-" + name
}

func (its fixture) producer(topic string) pulsar.Producer {
	return its.producerWith(pulsar.ProducerOptions{Topic: topic})
}

func (its fixture) producerWith(options pulsar.ProducerOptions) pulsar.Producer {
	producer, err := its.client.CreateProducer(options)
	if err != nil {
		panic(err)
	}
	return producer
}

func (its fixture) consumer(topic string, mode pulsar.SubscriptionType) pulsar.Consumer {
	return its.consumerWith(pulsar.ConsumerOptions{Topic: topic, Type: mode})
}

func (its fixture) consumerWith(options pulsar.ConsumerOptions) pulsar.Consumer {
	options.SubscriptionName = "s"
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	consumer, err := its.client.Subscribe(options)
	if err != nil {
		panic(err)
	}
	return consumer
}

func send(producer pulsar.Producer, from int, to int) (pulsar.MessageID, error) {
	var last pulsar.MessageID
	for number := from; number < to; number++ {
		id, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
			Payload: []byte(fmt.Sprint(number)),
		})
		if err != nil {
			return nil, err
		}
		last = id
	}
	return last, nil
}

func next(consumer pulsar.Consumer) (pulsar.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return consumer.Receive(ctx)
}

func values(consumer pulsar.Consumer, count int) ([]string, error) {
	var found []string
	for len(found) < count {
		message, err := next(consumer)
		if err != nil {
			return found, err
		}
		found = append(found, string(message.Payload()))
		if err := consumer.Ack(message); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (its fixture) negative() (any, error) {
	topic := its.topic("negative")
	consumer := its.consumerWith(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond,
	})
	defer consumer.Close()
	if _, err := send(its.producer(topic), 0, 1); err != nil {
		return nil, err
	}
	var found []string
	for len(found) < 3 {
		message, err := next(consumer)
		if err != nil {
			return nil, err
		}
		found = append(found, fmt.Sprintf("%sx%d", message.Payload(), message.RedeliveryCount()))
		consumer.Nack(message)
	}
	return found, nil
}

func (its fixture) deadLetter() (any, error) {
	topic := its.topic("failing")
	letters := its.consumer(its.topic("dead"), pulsar.Exclusive)
	consumer := its.consumerWith(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: its.topic("dead")},
	})
	defer consumer.Close()
	if _, err := send(its.producer(topic), 0, 1); err != nil {
		return nil, err
	}
	for number := 0; number < 2; number++ {
		message, err := next(consumer)
		if err != nil {
			return nil, err
		}
		consumer.Nack(message)
	}
	go func() { _, _ = next(consumer) }() // this client looks for dead letters when it is asked
	return values(letters, 1)
}

func (its fixture) retryLetter() (any, error) {
	topic := its.topic("retried")
	consumer := its.consumerWith(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, RetryEnable: true,
		DLQ: &pulsar.DLQPolicy{
			MaxDeliveries: 3, RetryLetterTopic: its.topic("retries"), DeadLetterTopic: its.topic("given-up"),
		},
	})
	defer consumer.Close()
	if _, err := send(its.producer(topic), 0, 1); err != nil {
		return nil, err
	}
	message, err := next(consumer)
	if err != nil {
		return nil, err
	}
	consumer.ReconsumeLater(message, time.Second)
	again, err := next(consumer)
	if err != nil {
		return nil, err
	}
	return string(again.Payload()) + " " + again.Properties()["RECONSUMETIMES"], nil
}

func (its fixture) partOfBatch() (any, error) {
	topic := its.topic("parts")
	producer := its.producerWith(pulsar.ProducerOptions{
		Topic: topic, BatchingMaxPublishDelay: 500 * time.Millisecond,
	})
	for number := 0; number < 5; number++ {
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{
			Payload: []byte(fmt.Sprint(number)),
		}, nil)
	}
	if err := producer.FlushWithCtx(context.Background()); err != nil {
		return nil, err
	}
	wish := pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, EnableBatchIndexAcknowledgment: true, AckWithResponse: true,
	}
	consumer := its.consumerWith(wish)
	for number := 0; number < 5; number++ {
		message, err := next(consumer)
		if err != nil {
			return nil, err
		}
		if number%2 == 1 {
			if err := consumer.Ack(message); err != nil {
				return nil, err
			}
		}
	}
	consumer.Close()
	again := its.consumerWith(wish)
	defer again.Close()
	return values(again, 3)
}

func (its fixture) seek() (any, error) {
	topic := its.topic("seek")
	producer, consumer := its.producer(topic), its.consumer(topic, pulsar.Exclusive)
	defer consumer.Close()
	if _, err := send(producer, 0, 3); err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Millisecond)
	middle := time.Now()
	time.Sleep(20 * time.Millisecond)
	fourth, err := send(producer, 3, 4)
	if err != nil {
		return nil, err
	}
	if _, err := send(producer, 4, 6); err != nil {
		return nil, err
	}
	found, err := values(consumer, 6)
	if err != nil {
		return nil, err
	}
	found = nil
	for _, move := range []func() error{
		func() error { return consumer.SeekByTime(middle) },
		func() error { return consumer.SeekByTime(time.UnixMilli(0)) },
		func() error { return consumer.Seek(fourth) },
	} {
		if err := move(); err != nil {
			return nil, err
		}
		some, err := values(consumer, 1)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	last, err := consumer.GetLastMessageIDs()
	if err != nil {
		return nil, err
	}
	return append(found, fmt.Sprint(last[0].EntryID())), nil
}

func (its fixture) reader() (any, error) {
	topic := its.topic("reader")
	producer := its.producer(topic)
	second, err := send(producer, 0, 2)
	if err != nil {
		return nil, err
	}
	if _, err := send(producer, 2, 4); err != nil {
		return nil, err
	}
	var found []string
	for _, inclusive := range []bool{false, true} {
		reader, err := its.client.CreateReader(pulsar.ReaderOptions{
			Topic: topic, StartMessageID: second, StartMessageIDInclusive: inclusive,
		})
		if err != nil {
			return nil, err
		}
		for reader.HasNext() {
			message, err := reader.Next(context.Background())
			if err != nil {
				return nil, err
			}
			found = append(found, string(message.Payload()))
		}
		reader.Close()
	}
	return found, nil
}

func (its fixture) tableView() (any, error) {
	topic := its.topic("table")
	producer := its.producer(topic)
	for number := 0; number < 5; number++ {
		if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
			Key: fmt.Sprintf("k%d", number%2), Payload: []byte(fmt.Sprint(number)),
		}); err != nil {
			return nil, err
		}
	}
	table, err := its.client.CreateTableView(pulsar.TableViewOptions{
		Topic: topic, Schema: pulsar.NewStringSchema(nil), SchemaValueType: reflect.TypeOf(new(string)),
	})
	if err != nil {
		return nil, err
	}
	defer table.Close()
	var rows []string
	for key, value := range table.Entries() {
		rows = append(rows, key+"="+*value.(*string))
	}
	sort.Strings(rows)
	return rows, nil
}

func (its fixture) administer(method string, topic string, body string) error {
	url := its.admin + "/admin/v2/persistent/public/default/" + topic + "/partitions"
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return fmt.Errorf("the admin API says %s", answer.Status)
	}
	return nil
}

// growth: a producer and a consumer find partitions that are added while they live.
func (its fixture) growth() (any, error) {
	topic := its.topic("growth")
	if err := its.administer("PUT", topic, "2"); err != nil {
		return nil, err
	}
	consumer := its.consumerWith(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, AutoDiscoveryPeriod: time.Second,
	})
	defer consumer.Close()
	producer := its.producerWith(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true, PartitionsAutoDiscoveryInterval: time.Second,
	})
	if err := its.administer("POST", topic, "4"); err != nil {
		return nil, err
	}
	found := map[int32]bool{}
	for deadline := time.Now().Add(patience); len(found) < 4 && time.Now().Before(deadline); {
		if _, err := send(producer, 0, 1); err != nil {
			return nil, err
		}
		message, err := next(consumer)
		if err != nil {
			return nil, err
		}
		if err := consumer.Ack(message); err != nil {
			return nil, err
		}
		found[message.ID().PartitionIdx()] = true
	}
	return len(found), nil
}

// pattern: a consumer of a pattern finds a topic that comes later.
func (its fixture) pattern() (any, error) {
	if _, err := send(its.producer(its.topic("pattern-a")), 0, 1); err != nil {
		return nil, err
	}
	consumer := its.consumerWith(pulsar.ConsumerOptions{
		TopicsPattern:       "persistent://public/default/" + regexp.QuoteMeta(its.topic("pattern")) + "-.*",
		AutoDiscoveryPeriod: time.Second,
	})
	defer consumer.Close()
	first, err := values(consumer, 1)
	if err != nil {
		return nil, err
	}
	if _, err := send(its.producer(its.topic("pattern-b")), 1, 2); err != nil {
		return nil, err
	}
	second, err := values(consumer, 1)
	return append(first, second...), err
}

// stickyKeys: consumers name the hashes that they want; ranges that overlap are refused.
func (its fixture) stickyKeys() (any, error) {
	topic := its.topic("sticky")
	wish := func(ranges ...int) pulsar.ConsumerOptions {
		policy, err := pulsar.NewKeySharedPolicySticky(ranges)
		if err != nil {
			panic(err)
		}
		return pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared, KeySharedPolicy: policy}
	}
	low := its.consumerWith(wish(0, 32767))
	defer low.Close()
	high := its.consumerWith(wish(32768, 65535))
	defer high.Close()
	producer := its.producerWith(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
	for number := 0; number < 20; number++ {
		if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
			Key: fmt.Sprintf("k%d", number), Payload: []byte("v"),
		}); err != nil {
			return nil, err
		}
	}
	counts := map[pulsar.Consumer]int{}
	for counts[low]+counts[high] < 20 {
		for _, consumer := range []pulsar.Consumer{low, high} {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			message, err := consumer.Receive(ctx)
			cancel()
			if err == nil {
				counts[consumer]++
				_ = consumer.Ack(message)
			}
		}
	}
	return []int{counts[low], counts[high]}, nil
}

func (its fixture) chunks() (any, error) {
	topic := its.topic("chunks")
	large := strings.Repeat("0123456789abcdef", 750_000)
	consumer := its.consumer(topic, pulsar.Exclusive)
	defer consumer.Close()
	producer := its.producerWith(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true, EnableChunking: true,
	})
	if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
		Payload: []byte(large),
	}); err != nil {
		return nil, err
	}
	found, err := values(consumer, 1)
	return len(found) == 1 && found[0] == large, err
}

func (its fixture) delay() (any, error) {
	topic := its.topic("delay")
	consumer := its.consumer(topic, pulsar.Shared)
	defer consumer.Close()
	producer := its.producer(topic)
	for _, one := range []*pulsar.ProducerMessage{
		{Payload: []byte("later"), DeliverAfter: 1500 * time.Millisecond},
		{Payload: []byte("now")},
	} {
		if _, err := producer.Send(context.Background(), one); err != nil {
			return nil, err
		}
	}
	return values(consumer, 2)
}

func (its fixture) codecs() (any, error) {
	var found []string
	for codec, name := range []string{"none", "lz4", "zlib", "zstd", "snappy"} {
		topic := its.topic("codec-" + name)
		producer := its.producerWith(pulsar.ProducerOptions{
			Topic: topic, CompressionType: pulsar.CompressionType(codec),
		})
		if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
			Payload: []byte(name),
		}); err != nil {
			return nil, err
		}
		consumer := its.consumer(topic, pulsar.Exclusive)
		some, err := values(consumer, 1)
		consumer.Close()
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

func (its fixture) exclusive() (any, error) {
	topic := its.topic("exclusive")
	holder := its.producerWith(pulsar.ProducerOptions{
		Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive,
	})
	defer holder.Close()
	_, refused := its.client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	return refused != nil, nil
}

func (its fixture) schemas() (any, error) {
	var found []string
	for name, schema := range map[string]pulsar.Schema{
		"avro": pulsar.NewAvroSchema(orderSchema, nil),
		"json": pulsar.NewJSONSchema(orderSchema, nil),
	} {
		topic := its.topic("schema-" + name)
		producer := its.producerWith(pulsar.ProducerOptions{Topic: topic, Schema: schema})
		if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
			Value: &order{Name: name},
		}); err != nil {
			return nil, err
		}
		consumer := its.consumerWith(pulsar.ConsumerOptions{Topic: topic, Schema: schema})
		message, err := next(consumer)
		if err != nil {
			return nil, err
		}
		var read order
		if err := message.GetSchemaValue(&read); err != nil {
			return nil, err
		}
		found = append(found, read.Name)
		consumer.Close()
	}
	sort.Strings(found)
	return found, nil
}

func (its fixture) unsubscribe() (any, error) {
	topic := its.topic("unsubscribe")
	if _, err := send(its.producer(topic), 0, 3); err != nil {
		return nil, err
	}
	consumer := its.consumer(topic, pulsar.Exclusive)
	if _, err := next(consumer); err != nil {
		return nil, err
	}
	second, err := next(consumer)
	if err != nil {
		return nil, err
	}
	if err := consumer.AckCumulative(second); err != nil {
		return nil, err
	}
	if err := consumer.Unsubscribe(); err != nil {
		return nil, err
	}
	again := its.consumer(topic, pulsar.Exclusive)
	defer again.Close()
	return values(again, 3)
}
