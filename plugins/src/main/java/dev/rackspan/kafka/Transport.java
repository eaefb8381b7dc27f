package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * How many items of each sort go to each kind of member: the most even counts per member, and of those what is worth most.
 *
 * <p>A good start is made by filling, and improved for as long as handing items round between kinds makes it better: that
 * is a cycle of negative cost in a graph of the kinds, where one more node stands for giving one away or taking one more.
 * The price of a member's next item grows with what it has, in steps that outweigh all worth. Without such a cycle there
 * is nothing better (Klein, 1967).
 *
 * <p>The work is bounded: what is not found by then is left as it is, as even as the start was.
 */
final class Transport {
    /** What one item of a sort is worth to a member of a kind; negative where it may not have it. */
    interface Worth {
        int of(int sort, int kind);
    }

    private static final long NEVER = Long.MAX_VALUE / 4;
    private static final int MOST_KINDS = 1_000;
    private static final int MOST_NOTED = 1 << 22;
    private static final long SHARE = 5_040;
    private static final long REGRETS = 1 << 20;
    private static final long MOST_STEPS = 200_000_000;

    private final int[] size;
    private final int[] left;
    private final Worth worth;
    /** What `worth` says, a row for each sort; null where that were too much. */
    private final int[] notes;
    private final int[] load;
    private final Bag[] held;
    private long steps;

    /** Members per kind, items per sort. */
    Transport(int[] size, int[] supply, Worth worth) {
        this.size = size;
        this.left = supply.clone();
        this.worth = worth;
        this.notes = (long) size.length * supply.length <= MOST_NOTED ? noted() : null;
        this.load = new int[size.length];
        this.held = new Bag[size.length];
        Arrays.setAll(held, kind -> new Bag());
    }

    private int[] noted() {
        int[] noted = new int[size.length * left.length];
        for (int sort = 0; sort < left.length; sort++) {
            for (int kind = 0; kind < size.length; kind++) {
                noted[sort * size.length + kind] = worth.of(sort, kind);
            }
        }
        return noted;
    }

    private int worth(int sort, int kind) {
        return notes == null ? worth.of(sort, kind) : notes[sort * size.length + kind];
    }

    int load(int kind) {
        return load[kind];
    }

    /** How many of each sort a kind has. */
    Bag held(int kind) {
        return held[kind];
    }

    /** Give each item to the kind that it is worth most to, as far as kinds of a pool stay even with each other. */
    void fill(int[] pool, int[] poolLoad) {
        int[] members = new int[poolLoad.length];
        for (int kind = 0; kind < size.length; kind++) {
            members[pool[kind]] += size[kind];
        }
        int[] room = new int[size.length];
        for (int kind = 0; kind < size.length; kind++) {
            room[kind] = size[kind] * (poolLoad[pool[kind]] / Math.max(1, members[pool[kind]]));
        }
        // Many are worth as much to several kinds: each of these is asked for a part of them.
        long[] asked = new long[size.length];
        int[][] best = new int[left.length][];
        for (int sort = 0; sort < left.length; sort++) {
            best[sort] = best(sort);
            ask(best[sort], left[sort], asked);
        }
        int[] order = byRegret(best);
        for (int sort : order) {
            ask(best[sort], -left[sort], asked);
            give(sort, room, asked);
        }
        int[] extra = new int[poolLoad.length];
        for (int at = 0; at < extra.length; at++) {
            extra[at] = members[at] == 0 ? 0 : poolLoad[at] % members[at];
        }
        for (int sort : order) {
            giveExtra(sort, room, pool, extra);
        }
        pour();
    }

    /** Give what is left to those who have least. */
    void pour() {
        for (int sort = 0; sort < left.length; sort++) {
            while (left[sort] > 0) {
                int least = -1;
                for (int kind = 0; kind < size.length; kind++) {
                    if (worth(sort, kind) >= 0 && (least < 0 || load[kind] / size[kind] < load[least] / size[least])) {
                        least = kind;
                    }
                }
                take(least, sort, Math.min(left[sort], size[least] - load[least] % size[least]));
            }
        }
    }

    private static void ask(int[] kinds, int items, long[] asked) {
        for (int kind : kinds) {
            asked[kind] += items * SHARE / kinds.length;
        }
    }

    /** The kinds that a sort is worth most to. */
    private int[] best(int sort) {
        int[] best = new int[size.length];
        int found = 0;
        for (int kind = 0; kind < size.length; kind++) {
            int here = worth(sort, kind);
            int most = found == 0 ? 0 : worth(sort, best[0]);
            if (here > most) {
                found = 0;
            }
            if (here >= most) {
                best[found++] = kind;
            }
        }
        return Arrays.copyOf(best, found);
    }

    private void give(int sort, int[] room, long[] asked) {
        while (left[sort] > 0) {
            int best = -1;
            for (int kind = 0; kind < size.length; kind++) {
                int more = room[kind] == 0 ? -1 : worth(sort, kind) - (best < 0 ? 0 : worth(sort, best));
                if (more > 0 || more == 0 && (best < 0 || free(kind, room, asked) > free(best, room, asked))) {
                    best = kind;
                }
            }
            if (best < 0) {
                return;
            }
            int amount = Math.min(left[sort], room[best]);
            room[best] -= amount;
            take(best, sort, amount);
        }
    }

    private static long free(int kind, int[] room, long[] asked) {
        return room[kind] * SHARE - asked[kind];
    }

    /** One more for some of the members. `room` counts down from 0 to the members of a kind that have one more. */
    private void giveExtra(int sort, int[] room, int[] pool, int[] extra) {
        while (left[sort] > 0) {
            int best = -1;
            for (int kind = 0; kind < size.length; kind++) {
                boolean free = extra[pool[kind]] > 0 && room[kind] <= 0 && -room[kind] < size[kind];
                if (free && worth(sort, kind) > (best < 0 ? -1 : worth(sort, best))) {
                    best = kind;
                }
            }
            if (best < 0) {
                return;
            }
            int amount = Math.min(left[sort], Math.min(extra[pool[best]], size[best] + room[best]));
            room[best] -= amount;
            extra[pool[best]] -= amount;
            take(best, sort, amount);
        }
    }

    private void take(int kind, int sort, int amount) {
        left[sort] -= amount;
        load[kind] += amount;
        held[kind].add(sort, amount);
    }

    /** Sorts by what is lost if they do not go to the one kind that they are worth most to, then the pickiest first. */
    private int[] byRegret(int[][] best) {
        long[] keys = new long[left.length];
        for (int sort = 0; sort < left.length; sort++) {
            long regret = 0;
            if (best[sort].length == 1) {
                int most = worth(sort, best[sort][0]);
                int second = -1;
                for (int kind = 0; kind < size.length; kind++) {
                    second = Math.max(second, kind == best[sort][0] ? -1 : worth(sort, kind));
                }
                regret = most - second;
            }
            keys[sort] = (REGRETS - Math.min(regret, REGRETS)) << 42 | (long) best[sort].length << 24 | sort;
        }
        Arrays.sort(keys);
        return Arrays.stream(keys).mapToInt(key -> (int) (key & (1 << 24) - 1)).toArray();
    }

    /** Hand items round until nothing is gained by it. `most` is the largest worth. */
    void improve(int most) {
        int kinds = size.length;
        if (kinds < 2 || kinds > MOST_KINDS) {
            return;
        }
        long level = (kinds + 2L) * (most + 1L);
        long[][] price = new long[kinds][kinds + 1];
        int[][] passed = new int[kinds][kinds];
        for (int kind = 0; kind < kinds; kind++) {
            offer(kind, level, price[kind], passed[kind]);
        }
        List<int[]> cycles = cycles(price, level);
        while (!cycles.isEmpty() && steps < MOST_STEPS) {
            for (int[] cycle : cycles) {
                handRound(cycle, passed);
                for (int kind : cycle) {
                    if (kind < kinds) {
                        offer(kind, level, price[kind], passed[kind]);
                    }
                }
            }
            cycles = cycles(price, level);
        }
    }

    /** What it costs that a kind hands an item to each other kind, and of which sort that is; and to the outside. */
    private void offer(int kind, long level, long[] price, int[] passed) {
        Arrays.fill(price, NEVER);
        price[size.length] = level * (load[kind] / size[kind] + 1);
        Bag bag = held[kind];
        for (int place = 0; place < bag.places(); place++) {
            int sort = bag.sort(place);
            if (sort < 0) {
                continue;
            }
            int here = worth(sort, kind);
            for (int other = 0; other < size.length; other++) {
                int there = worth(sort, other);
                if (there >= 0 && other != kind && here - there < price[other]) {
                    price[other] = here - there;
                    passed[other] = sort;
                }
            }
        }
        steps += (long) size.length * (1 + bag.places());
    }

    /**
     * Cycles of negative cost that have no kind in common: kinds, each handing to the next one.
     *
     * <p>`size.length` is the outside. Bellman and Ford's search, ended by the first round that closes one.
     */
    private List<int[]> cycles(long[][] price, long level) {
        int kinds = size.length;
        long[] distance = new long[kinds + 1];
        int[] before = new int[kinds + 1];
        Arrays.fill(before, -1);
        long[] outside = new long[kinds + 1];
        Arrays.setAll(outside, to -> to == kinds || load[to] == 0 ? NEVER : -level * ((load[to] + size[to] - 1) / size[to]));
        // Nothing is new by way of a kind that has come no nearer since it was last looked at.
        boolean[] nearer = new boolean[kinds + 1];
        Arrays.fill(nearer, true);
        for (boolean shorter = true; shorter;) {
            shorter = false;
            for (int from = 0; from <= kinds; from++) {
                if (!nearer[from]) {
                    continue;
                }
                nearer[from] = false;
                long here = distance[from];
                long[] costs = from == kinds ? outside : price[from];
                for (int to = 0; to <= kinds; to++) {
                    if (costs[to] < NEVER && here + costs[to] < distance[to]) {
                        distance[to] = here + costs[to];
                        before[to] = from;
                        nearer[to] = true;
                        shorter = true;
                    }
                }
            }
            steps += (kinds + 1L) * (kinds + 1L);
            List<int[]> found = closed(before);
            if (!found.isEmpty()) {
                return found;
            }
        }
        return List.of();
    }

    private static List<int[]> closed(int[] before) {
        List<int[]> cycles = new ArrayList<>();
        int[] seen = new int[before.length];
        for (int start = 0; start < before.length; start++) {
            int at = start;
            while (at >= 0 && seen[at] == 0) {
                seen[at] = start + 1;
                at = before[at];
            }
            if (at >= 0 && seen[at] == start + 1) {
                int length = 1;
                for (int node = before[at]; node != at; node = before[node]) {
                    length++;
                }
                int[] cycle = new int[length];
                int node = at;
                do {
                    cycle[--length] = node;
                    node = before[node];
                } while (node != at);
                cycles.add(cycle);
            }
        }
        return cycles;
    }

    private void handRound(int[] cycle, int[][] passed) {
        int outside = size.length;
        int amount = Integer.MAX_VALUE;
        for (int at = 0; at < cycle.length; at++) {
            int from = cycle[at];
            int to = cycle[(at + 1) % cycle.length];
            int most = from == outside
                ? (load[to] - 1) % size[to] + 1
                : to == outside ? size[from] - load[from] % size[from] : held[from].amount(passed[from][to]);
            amount = Math.min(amount, most);
        }
        for (int at = 0; at < cycle.length; at++) {
            int from = cycle[at];
            int to = cycle[(at + 1) % cycle.length];
            if (from == outside) {
                load[to] -= amount;
            } else if (to == outside) {
                load[from] += amount;
            } else {
                held[from].remove(passed[from][to], amount);
                held[to].add(passed[from][to], amount);
            }
        }
    }
}
