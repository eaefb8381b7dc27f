// Serves Redis' protocol from memory at an address, for Argo CD's cache. Argo CD's own command line uses miniredis, too.
package main

import (
	"log"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	for range time.Tick(time.Second) {
		server.FastForward(time.Second) // without it nothing expires
	}
}
