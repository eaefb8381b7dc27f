package dev.rackspan.kafka;

import java.util.AbstractSet;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * An unmodifiable set of the partitions of one topic that a member has: a slice of the sorted array of all its
 * partitions.
 *
 * <p>Brokers copy and compare it. Like the sets of Kafka's {@code range}, it needs no hash table.
 */
final class Slice extends AbstractSet<Integer> {
    private final int[] items;
    private final int from;
    private final int to;
    /** The item of partition 0 of the topic. */
    private final int first;

    Slice(int[] items, int from, int to, int first) {
        this.items = items;
        this.from = from;
        this.to = to;
        this.first = first;
    }

    @Override
    public int size() {
        return to - from;
    }

    @Override
    public boolean contains(Object other) {
        return other instanceof Integer number && Arrays.binarySearch(items, from, to, first + number) >= 0;
    }

    @Override
    public Iterator<Integer> iterator() {
        return new Iterator<>() {
            private int at = from;

            @Override
            public boolean hasNext() {
                return at < to;
            }

            @Override
            public Integer next() {
                if (at == to) {
                    throw new NoSuchElementException();
                }
                return items[at++] - first;
            }
        };
    }
}
