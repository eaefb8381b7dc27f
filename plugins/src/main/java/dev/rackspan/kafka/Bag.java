package dev.rackspan.kafka;

import java.util.Arrays;

/** The number of items per sort of one kind of members, in insertion order. */
final class Bag {
    private static final int GOLDEN = 0x9E3779B9;
    private static final int GONE = -1;

    /** A hash table of indexes in `sorts` plus 1. Its length is a power of two, at least twice the number of sorts. */
    private int[] table = new int[32];
    /** The sorts in insertion order, or `GONE` after their last item was removed. `amounts` has the same indexes. */
    private int[] sorts = new int[table.length / 2];
    private int[] amounts = new int[table.length / 2];
    private int used;

    int amount(int sort) {
        int place = table[slot(sort)];
        return place == 0 ? 0 : amounts[place - 1];
    }

    void add(int sort, int amount) {
        int slot = slot(sort);
        if (table[slot] == 0) {
            if (used == sorts.length) {
                grow();
                slot = slot(sort);
            }
            sorts[used] = sort;
            table[slot] = ++used;
        }
        amounts[table[slot] - 1] += amount;
    }

    void remove(int sort, int amount) {
        int slot = slot(sort);
        int place = table[slot] - 1;
        amounts[place] -= amount;
        if (amounts[place] == 0) {
            sorts[place] = GONE;
            close(slot);
        }
    }

    /** The number of places, including those of removed sorts. */
    int places() {
        return used;
    }

    /** The sort at a place. It is negative if the sort was removed. */
    int sort(int place) {
        return sorts[place];
    }

    private int slot(int sort) {
        int slot = home(sort);
        while (table[slot] != 0 && sorts[table[slot] - 1] != sort) {
            slot = slot + 1 & table.length - 1;
        }
        return slot;
    }

    private int home(int sort) {
        return sort * GOLDEN >>> Integer.numberOfLeadingZeros(table.length - 1);
    }

    /** Removes a slot of the hash table. Moves later slots that linear probing would no longer find. */
    private void close(int slot) {
        int open = slot;
        table[open] = 0;
        for (int next = open + 1 & table.length - 1; table[next] != 0; next = next + 1 & table.length - 1) {
            int home = home(sorts[table[next] - 1]);
            if ((next - home & table.length - 1) >= (next - open & table.length - 1)) {
                table[open] = table[next];
                table[next] = 0;
                open = next;
            }
        }
    }

    private void grow() {
        int left = 0;
        for (int place = 0; place < used; place++) {
            if (sorts[place] != GONE) {
                sorts[left] = sorts[place];
                amounts[left++] = amounts[place];
            }
        }
        Arrays.fill(amounts, left, used, 0);
        used = left;
        if (2 * used > sorts.length) {
            sorts = Arrays.copyOf(sorts, 2 * sorts.length);
            amounts = Arrays.copyOf(amounts, sorts.length);
        }
        table = new int[2 * sorts.length];
        for (int place = 0; place < used; place++) {
            table[slot(sorts[place])] = place + 1;
        }
    }
}
