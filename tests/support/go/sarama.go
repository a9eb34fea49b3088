package main

import (
	"context"
	"io"
	"log"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

type sar struct{ bootstrap []string }

func newSarama(bootstrap string) client {
	sarama.Logger = log.New(io.Discard, "", 0)
	return sar{[]string{bootstrap}}
}

func (s sar) produce(topic, codec string, idempotent bool, records []record) ([]int64, error) {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = saramaCodecs[codec]
	if idempotent {
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	sent := make([]*sarama.ProducerMessage, len(records))
	for at, r := range records {
		sent[at] = &sarama.ProducerMessage{Topic: topic, Partition: r.partition}
		if r.key != nil {
			sent[at].Key = sarama.ByteEncoder(r.key)
		}
		if r.value != nil {
			sent[at].Value = sarama.ByteEncoder(r.value)
		}
	}
	if err := producer.SendMessages(sent); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for at, m := range sent {
		offsets[at] = m.Offset
	}
	return offsets, nil
}

func (s sar) consume(topic string, partitions []int32, count int) ([]record, error) {
	consumer, err := sarama.NewConsumer(s.bootstrap, nil)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	arrived := make(chan *sarama.ConsumerMessage)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for _, partition := range partitions {
		reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		readers.Add(1)
		go func() {
			defer readers.Done()
			defer reader.Close()
			forward(reader.Messages(), arrived, done)
		}()
	}
	found := gather(arrived, count, answerWithin)
	close(done)
	readers.Wait()
	return found, nil
}

func forward(from <-chan *sarama.ConsumerMessage, to chan<- *sarama.ConsumerMessage, done <-chan struct{}) {
	for {
		select {
		case message, open := <-from:
			if !open {
				return
			}
			select {
			case to <- message:
			case <-done:
				return
			}
		case <-done:
			return
		}
	}
}

func gather(arrived <-chan *sarama.ConsumerMessage, count int, within time.Duration) []record {
	var found []record
	late := time.After(within)
	for len(found) < count {
		select {
		case m := <-arrived:
			found = append(found, record{m.Partition, m.Offset, m.Key, m.Value, m.Timestamp.UnixMilli()})
		case <-late:
			return found
		}
	}
	return found
}

func (s sar) subscribe(group, topic string) (member, error) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	made, err := sarama.NewConsumerGroup(s.bootstrap, group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{made, make(chan *sarama.ConsumerMessage), cancel, make(chan error, 1)}
	go func() {
		for ctx.Err() == nil {
			if err := made.Consume(ctx, []string{topic}, m); err != nil {
				m.ended <- err
				return
			}
		}
		m.ended <- nil
	}()
	return m, nil
}

type saramaMember struct {
	group   sarama.ConsumerGroup
	arrived chan *sarama.ConsumerMessage
	cancel  context.CancelFunc
	ended   chan error
}

func (m *saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case m.arrived <- message:
				session.MarkMessage(message, "")
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *saramaMember) poll() ([]record, error) {
	select {
	case err := <-m.ended:
		m.ended <- err
		return nil, err
	default:
		return gather(m.arrived, 1<<30, pollFor), nil
	}
}

func (m *saramaMember) leave() error {
	m.cancel()
	err := <-m.ended
	if closing := m.group.Close(); err == nil {
		err = closing
	}
	return err
}

func (s sar) create(topic string, partitions int32) error {
	return s.admin(func(admin sarama.ClusterAdmin) error {
		return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
	})
}

func (s sar) delete(topic string) error {
	return s.admin(func(admin sarama.ClusterAdmin) error { return admin.DeleteTopic(topic) })
}

func (s sar) addPartitions(topic string, total int32) error {
	return s.admin(func(admin sarama.ClusterAdmin) error {
		return admin.CreatePartitions(topic, total, nil, false)
	})
}

func (s sar) alter(topic, name, value string) error {
	return s.admin(func(admin sarama.ClusterAdmin) error {
		entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
		wanted := map[string]sarama.IncrementalAlterConfigsEntry{name: entry}
		return admin.IncrementalAlterConfig(sarama.TopicResource, topic, wanted, false)
	})
}

func (s sar) list() (map[string]int, error) {
	found := map[string]int{}
	err := s.admin(func(admin sarama.ClusterAdmin) error {
		topics, err := admin.ListTopics()
		for name, topic := range topics {
			found[name] = int(topic.NumPartitions)
		}
		return err
	})
	return found, err
}

func (s sar) admin(act func(sarama.ClusterAdmin) error) error {
	admin, err := sarama.NewClusterAdmin(s.bootstrap, sarama.NewConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	return act(admin)
}
