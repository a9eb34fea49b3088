package main

// Deeds at a secured broker, one per line: a deed, a topic or group, a file of settings in
// librdkafka's words. Answers "OK", or "ERR" and the client's own error.

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	openTopic     = "secured"
	securedWithin = 20 * time.Second
)

var errNothing = errors.New("nothing to read")

type settings map[string]string

type securedClient interface {
	roundTrip(ctx context.Context, topic string) error
	join(ctx context.Context, group string) error
	stay(ctx context.Context, topic string) error
	acls(ctx context.Context) error
}

func serveSecured(kind string) {
	kinds := map[string]func(settings) securedClient{
		"franz":  func(given settings) securedClient { return securedFranz{given} },
		"sarama": func(given settings) securedClient { return securedSarama{given} },
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		if err := obeySecured(kinds[kind], words[0], words[1], words[2]); err != nil {
			fmt.Printf("ERR %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("OK")
		}
	}
}

func obeySecured(make func(settings) securedClient, deed, name, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	given := settings{}
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), securedWithin)
	defer cancel()
	switch deed {
	case "round-trip":
		return make(given).roundTrip(ctx, name)
	case "join":
		return make(given).join(ctx, name)
	case "stay":
		return make(given).stay(ctx, name)
	case "acls":
		return make(given).acls(ctx)
	}
	return fmt.Errorf("no such deed: %s", deed)
}

// Writes for five seconds, a record at a time.
func atAPace(send func() error) error {
	for number := 0; number < 20; number++ {
		if err := send(); err != nil {
			return err
		}
		time.Sleep(250 * time.Millisecond)
	}
	return nil
}

// The settings of TLS, nil without.
func (s settings) encryption() (*tls.Config, error) {
	if !strings.HasSuffix(s["security.protocol"], "SSL") {
		return nil, nil
	}
	text, err := os.ReadFile(s["ssl.ca.location"])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if key := s["ssl.key.location"]; key != "" {
		pair, err := tls.LoadX509KeyPair(s["ssl.certificate.location"], key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
