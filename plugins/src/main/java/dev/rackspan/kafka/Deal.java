package dev.rackspan.kafka;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;

/** Assigns partitions to members, after {@link Transport} has decided how many of each sort each kind gets. */
final class Deal {
    private record Assigned(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment {}

    private final Readers readers;
    private final Transport transport;
    /** The new reader of each partition, or -1 if it is not assigned yet. */
    private final int[] reader;
    /** The number of partitions per member: all assigned ones, and those that it keeps. */
    private final int[] count;
    private final int[] kept;
    /** Per kind: the number of partitions of each member, and the number of members that get one more. */
    private final int[] full;
    private final int[] more;
    /** The number of members per kind that have fewer partitions than the equal share. */
    private final int[] below;
    /** The number of partitions per sort that their readers may still keep. */
    private final int[] keeping;

    Deal(Readers readers) {
        this.readers = readers;
        transport = new Transport(readers.kindSize, readers.sortSize, readers::worth);
        transport.fill(readers.subscriptionOfKind, readers.evenLoads());
        transport.improve(readers.mostWorth());
        reader = new int[readers.owner.length];
        Arrays.fill(reader, -1);
        count = new int[readers.members.length];
        full = new int[readers.kindSize.length];
        more = new int[readers.kindSize.length];
        for (int kind = 0; kind < full.length; kind++) {
            full[kind] = transport.load(kind) / readers.kindSize[kind];
            more[kind] = transport.load(kind) % readers.kindSize[kind];
        }
        keeping = new int[readers.sortSize.length];
        for (int sort = 0; sort < keeping.length; sort++) {
            int kind = readers.kindOfSort[sort];
            keeping[sort] = kind < 0 ? 0 : transport.held(kind).amount(sort);
        }
        keep(false);
        keep(true);
        kept = count.clone();
        below = new int[full.length];
        for (int member = 0; member < count.length; member++) {
            int kind = readers.kindOf[member];
            below[kind] += count[member] < full[kind] ? 1 : 0;
        }
        dealRest();
        if (readers.isCut() || transport.isCut()) {
            stayUnlessBetter();
        }
    }

    /** Restores the current assignment if it is complete and the new one has neither more balance nor more locality. */
    private void stayUnlessBetter() {
        int[] had = new int[count.length];
        long nearer = 0;
        for (int item = 0; item < reader.length; item++) {
            int owner = readers.owner[item];
            if (owner < 0) {
                return;
            }
            had[owner]++;
            nearer += readers.steps(item, reader[item]) - readers.steps(item, owner);
        }
        long moreBalanced = 0;
        for (int member = 0; member < had.length; member++) {
            if (had[member] != readers.members[member].hasSize) {
                return;
            }
            moreBalanced += (long) had[member] * had[member] - (long) count[member] * count[member];
        }
        if (moreBalanced < 0 || moreBalanced == 0 && nearer <= 0) {
            System.arraycopy(readers.owner, 0, reader, 0, reader.length);
            System.arraycopy(had, 0, count, 0, had.length);
            System.arraycopy(had, 0, kept, 0, had.length);
        }
    }

    /** Lets members keep their partitions up to the equal share, or, with `oneMore`, one partition more. */
    private void keep(boolean oneMore) {
        for (int item = 0; item < reader.length; item++) {
            int member = readers.owner[item];
            int sort = readers.sortOf[item];
            if (keeping[sort] > 0 && reader[item] < 0) {
                int kind = readers.kindOf[member];
                if (oneMore ? count[member] == full[kind] && more[kind] > 0 : count[member] < full[kind]) {
                    more[kind] -= oneMore ? 1 : 0;
                    keeping[sort]--;
                    reader[item] = member;
                    count[member]++;
                }
            }
        }
    }

    /** Assigns the other partitions in turn, so that each topic is spread over the members of a kind. */
    private void dealRest() {
        int[][] members = membersOfKinds();
        Takers[] takers = new Takers[keeping.length];
        for (int kind = 0; kind < full.length; kind++) {
            Bag held = transport.held(kind);
            for (int place = 0; place < held.places(); place++) {
                int sort = held.sort(place);
                int open = sort < 0 ? 0 : kind == readers.kindOfSort[sort] ? keeping[sort] : held.amount(sort);
                if (open > 0) {
                    takers[sort] = new Takers(kind, open, takers[sort]);
                }
            }
        }
        int[] turn = new int[full.length];
        for (int item = 0; item < reader.length; item++) {
            if (reader[item] < 0) {
                Takers taker = takers[readers.sortOf[item]];
                reader[item] = next(members[taker.kind], taker.kind, turn);
                below[taker.kind] -= ++count[reader[item]] == full[taker.kind] ? 1 : 0;
                if (--taker.open == 0) {
                    takers[readers.sortOf[item]] = taker.others;
                }
            }
        }
    }

    /** A linked list of the kinds that still get partitions of a sort. */
    private static final class Takers {
        private final int kind;
        private int open;
        private final Takers others;

        Takers(int kind, int open, Takers others) {
            this.kind = kind;
            this.open = open;
            this.others = others;
        }
    }

    private int[][] membersOfKinds() {
        int[][] members = new int[full.length][];
        Arrays.setAll(members, kind -> new int[readers.kindSize[kind]]);
        int[] found = new int[full.length];
        for (int member = 0; member < count.length; member++) {
            int kind = readers.kindOf[member];
            members[kind][found[kind]++] = member;
        }
        return members;
    }

    /** Returns the next member below the equal share of its kind, or if there is none, one that may get one more. */
    private int next(int[] members, int kind, int[] turn) {
        int most = below[kind] > 0 ? full[kind] - 1 : full[kind];
        int member;
        do {
            member = members[turn[kind]++ % members.length];
        } while (count[member] > most);
        return member;
    }

    GroupAssignment assignment() {
        int[] topicOf = new int[reader.length];
        for (int topic = 0; topic < readers.topics.length; topic++) {
            Arrays.fill(topicOf, readers.first[topic], readers.first[topic + 1], topic);
        }
        int[][] dealt = dealt();
        Map<String, MemberAssignment> assigned = new HashMap<>(2 * count.length);
        for (int member = 0; member < count.length; member++) {
            Readers.Member one = readers.members[member];
            boolean same = count[member] == kept[member] && kept[member] == one.hasSize;
            assigned.put(one.id, new Assigned(same ? one.has : byTopic(dealt[member], topicOf)));
        }
        return new GroupAssignment(assigned);
    }

    /** Returns the partitions of each member in ascending order. */
    private int[][] dealt() {
        int[][] dealt = new int[count.length][];
        Arrays.setAll(dealt, member -> new int[count[member]]);
        int[] found = new int[count.length];
        for (int item = 0; item < reader.length; item++) {
            dealt[reader[item]][found[reader[item]]++] = item;
        }
        return dealt;
    }

    private Map<Uuid, Set<Integer>> byTopic(int[] items, int[] topicOf) {
        Map<Uuid, Set<Integer>> byTopic = new HashMap<>(2 * Math.min(items.length, readers.topics.length));
        for (int from = 0, to = 0; from < items.length; from = to) {
            int topic = topicOf[items[from]];
            while (to < items.length && topicOf[items[to]] == topic) {
                to++;
            }
            byTopic.put(readers.topics[topic], new Slice(items, from, to, readers.first[topic]));
        }
        return byTopic;
    }
}
