// Reads Kubernetes objects, one JSON document after the other, and tells of each what kstatus makes of it: the library
// by which kpt, Flux and cli-utils decide whether an object has come to rest.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	objects, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var text json.RawMessage
		if err := objects.Decode(&text); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil { // by which whole numbers stay so
			return err
		}
		result, err := status.Compute(object)
		if err != nil {
			return err
		}
		answer := map[string]string{"status": string(result.Status), "message": result.Message}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}
