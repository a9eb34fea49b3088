package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type securedSarama struct{ given settings }

func (s securedSarama) roundTrip(ctx context.Context, topic string) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(s.bootstrap(), config)
	if err != nil {
		return err
	}
	defer producer.Close()
	sent := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("hello")}
	if _, _, err := producer.SendMessage(sent); err != nil {
		return err
	}
	consumer, err := sarama.NewConsumer(s.bootstrap(), config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer reader.Close()
	select {
	case <-reader.Messages():
		return nil
	case <-ctx.Done():
		return errNothing
	}
}

func (s securedSarama) join(ctx context.Context, group string) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	made, err := sarama.NewConsumerGroup(s.bootstrap(), group, config)
	if err != nil {
		return err
	}
	defer made.Close()
	read := &firstRecord{}
	ctx, read.stop = context.WithCancel(ctx)
	defer read.stop()
	if err := made.Consume(ctx, []string{openTopic}, read); err != nil {
		return err
	}
	if !read.found {
		return errNothing
	}
	return nil
}

func (s securedSarama) stay(_ context.Context, topic string) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(s.bootstrap(), config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return atAPace(func() error {
		sent := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("stay")}
		_, _, err := producer.SendMessage(sent)
		return err
	})
}

// A member that leaves when it has read a record.
type firstRecord struct {
	found bool
	stop  context.CancelFunc
}

func (f *firstRecord) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (f *firstRecord) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (f *firstRecord) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	select {
	case <-claim.Messages():
		f.found = true
		f.stop()
	case <-session.Context().Done():
	}
	return nil
}

// Its question for lists of access does not look at the error; that for quotas does.
func (s securedSarama) acls(context.Context) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdmin(s.bootstrap(), config)
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.DescribeClientQuotas(nil, false)
	return err
}

func (s securedSarama) bootstrap() []string { return []string{s.given["bootstrap.servers"]} }

func (s securedSarama) config() (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_6_0_0 // the first with requests for quotas
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	encryption, err := s.given.encryption()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable = encryption != nil
	config.Net.TLS.Config = encryption
	mechanism := s.given["sasl.mechanism"]
	if mechanism == "" {
		return config, nil
	}
	login := &config.Net.SASL
	login.Enable = true
	login.Mechanism = sarama.SASLMechanism(mechanism)
	login.User, login.Password = s.given["sasl.username"], s.given["sasl.password"]
	login.TokenProvider = givenToken(s.given["token"])
	login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if mechanism == sarama.SASLTypeSCRAMSHA256 {
			return &conversation{hash: sha256.New}
		}
		return &conversation{hash: sha512.New}
	}
	return config, nil
}

type givenToken string

func (t givenToken) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// The client leaves SCRAM to a library.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}
