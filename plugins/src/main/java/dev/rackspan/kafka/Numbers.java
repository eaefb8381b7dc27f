package dev.rackspan.kafka;

import java.util.Arrays;

/** Numbers keys from 0 in insertion order, and counts how often each key is added. */
final class Numbers {
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    /** A hash table of key numbers plus 1. Its length is a power of two, and at least twice the number of keys. */
    private int[] table = new int[64];
    private long[] keys = new long[table.length / 2];
    private int[] counts = new int[table.length / 2];
    private int used;

    int of(long key) {
        int at = place(key);
        while (table[at] != 0 && keys[table[at] - 1] != key) {
            at = at + 1 & table.length - 1;
        }
        int number = table[at] == 0 ? added(key, at) : table[at] - 1;
        counts[number]++;
        return number;
    }

    int[] counts() {
        return Arrays.copyOf(counts, used);
    }

    long[] keys() {
        return Arrays.copyOf(keys, used);
    }

    private int place(long key) {
        return (int) (key * GOLDEN >>> Long.numberOfLeadingZeros(table.length - 1));
    }

    private int added(long key, int at) {
        keys[used] = key;
        table[at] = ++used;
        if (used == keys.length) {
            keys = Arrays.copyOf(keys, 2 * used);
            counts = Arrays.copyOf(counts, 2 * used);
            table = new int[4 * used];
            for (int number = 0; number < used; number++) {
                int free = place(keys[number]);
                while (table[free] != 0) {
                    free = free + 1 & table.length - 1;
                }
                table[free] = number + 1;
            }
        }
        return used - 1;
    }
}
